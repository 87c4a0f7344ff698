"""Names near to one that does not exist. Never lists the index: that is tens of megabytes."""
import difflib

from distributions import COMMON, DISTRIBUTIONS
from pip._vendor.packaging.utils import canonicalize_name


def by_import(name):
    """The distributions that have the module of this name."""
    return [found for module, found in DISTRIBUTIONS.items()
            if canonicalize_name(module) == canonicalize_name(name) != canonicalize_name(found)]


def near(name, wheels, only_wheels):
    """At most three names: that of the distribution with this import, then those spelled alike. wheels: the names in a
    directory of wheels; only_wheels: no other can be installed."""
    wanted = canonicalize_name(name)
    known = {canonicalize_name(word): word for word in [*DISTRIBUTIONS.values(), *COMMON]}
    known = {**({} if only_wheels else known), **{word: known.get(word, word) for word in wheels}}
    modules = [found for found in by_import(name) if canonicalize_name(found) in known]
    alike = [known[found] for found in difflib.get_close_matches(wanted, known, n=3, cutoff=0.75)]
    found = dict.fromkeys(word for word in modules + alike if canonicalize_name(word) != wanted)
    return list(found)[:3]
