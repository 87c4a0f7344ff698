"""Finds out why the resolver found nothing, from the files that the index offers for each name."""
import difflib
import sys

from distributions import COMMON, DISTRIBUTIONS
from failures import Failure
from pip._vendor.packaging.utils import canonicalize_name

SHOWN = 8
WHEELS_SHOWN = 20


# Never lists the index for names near to one that does not exist: that is tens of megabytes.
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


class File:
    """One file of a project: its version, and what prevents its use here."""

    def __init__(self, link, version, wheel):
        from pip._vendor.packaging import specifiers, tags

        self.link, self.version, self.wheel = link, version, wheel
        self.source = wheel is None
        self.platform_fits = self.source or wheel.supported(list(tags.sys_tags()))
        try:
            python = specifiers.SpecifierSet(link.requires_python or "")
            self.python_fits = python.contains("%d.%d.%d" % sys.version_info[:3], prereleases=True)
        except specifiers.InvalidSpecifier:
            self.python_fits = True

    @property
    def installable(self):
        return self.platform_fits and self.python_fits and not self.source


def files(name, links):
    """The files of the index that are wheels or source archives of the project, newest first."""
    from pip._internal.exceptions import InvalidWheelFilename
    from pip._internal.models.wheel import Wheel
    from pip._vendor.packaging import version

    found = {}
    for link in links:
        try:
            if link.filename.endswith(".whl"):
                wheel = Wheel(link.filename)
                if canonicalize_name(wheel.name) == canonicalize_name(name):
                    found[link.filename] = File(link, version.parse(str(wheel.version)), wheel)
            elif source_version(link.filename, name):
                found[link.filename] = File(link, version.parse(source_version(link.filename, name)), None)
        except (InvalidWheelFilename, version.InvalidVersion):
            continue
    return sorted(found.values(), key=lambda file: file.version, reverse=True)


def source_version(filename, name):
    """The version in a source archive's name, None when it is no archive of this project."""
    for ending in (".tar.gz", ".zip"):
        if filename.endswith(ending):
            stem = filename[:-len(ending)]
            for at, letter in enumerate(stem):
                if letter == "-" and canonicalize_name(stem[:at]) == canonicalize_name(name):
                    return stem[at + 1:]
    return None


class Unresolved(Exception):
    """A failure, and the source archive that would fix it, if there is one."""

    def __init__(self, failure, source=None):
        super().__init__(failure.message)
        self.failure, self.source = failure, source


def check(error, offered, session, constrained):
    """The Unresolved for an exception of the resolver; None when the exception is not about candidates.

    offered: canonical name -> links. session: what happened to its requests. constrained: there is a constraint file.
    """
    from pip._internal.exceptions import DistributionNotFound
    from pip._vendor.resolvelib.resolvers import ResolutionImpossible

    cause = error.__cause__
    if not isinstance(error, DistributionNotFound) and not isinstance(cause, ResolutionImpossible):
        return None
    causes = getattr(cause, "causes", ())
    for need, parent in causes:
        ireq = need.get_candidate_lookup()[1]
        if ireq is None:
            if parent is not None and need.name == "<Python from Requires-Python>":
                return Unresolved(Failure("no_wheel", "%s %s does not run on this Python %d.%d" % (
                    parent.name, parent.version, *sys.version_info[:2])))
            continue
        name = canonicalize_name(ireq.name)
        there = files(name, offered.get(name, ()))
        if not any(file.installable and fits(file, ireq.specifier) for file in there):
            return missing(name, ireq.specifier, there, parent, session)
    return Unresolved(conflict(causes, constrained))


def fits(file, specifier):
    """Pre-releases count: pip decides whether to take one, and reports that in its own sentence."""
    return specifier.contains(file.version, prereleases=True)


def missing(name, specifier, there, parent, session):
    """The Unresolved for a name of which the index has nothing that can be installed."""
    wanted = "%s%s" % (name, specifier)
    needed = ", which %s %s needs" % (parent.name, parent.version) if parent is not None else ""
    by = needed and needed + ","
    if not there:
        failure = session.page_failure(name)
        if failure is not None:
            return Unresolved(failure)
        return Unresolved(Failure("not_found", "%s %s%s%s" % (
            session.sources, name, needed, shown(session.wheels)), near=near(name, session.wheels, session.no_index)))
    here = list(dict.fromkeys(str(file.version) for file in there if file.installable))[:SHOWN]
    matching = [file for file in there if fits(file, specifier)]
    if not matching:
        others = list(dict.fromkeys(str(file.version) for file in there))[:SHOWN]
        return Unresolved(Failure("not_found", "no version of %s%s matches %s%s" % (
            name, by, specifier, "" if here else "; the index has only source archives or other files of " + ", ".join(others)),
            available=here))
    best, only = matching[0], "%s%s has no wheel" % (wanted, by)
    if not any(file.python_fits for file in matching):
        return Unresolved(Failure("no_wheel", "%s %s needs Python %s, but this is %d.%d" % (
            name, best.version, best.link.requires_python, *sys.version_info[:2]), available=here))
    source = next((file for file in matching if file.source and file.python_fits), None)
    if source is not None:
        return Unresolved(Failure("no_wheel", only + " for this platform, only a source archive; the user can allow "
                                  "builds with --allow-sdist", available=here, near=by_import(name)), (name, source))
    platforms = sorted({str(tag) for file in matching if file.wheel for tag in file.wheel.file_tags})[:SHOWN]
    return Unresolved(Failure("no_wheel", "%s for this platform and Python %d.%d; available: %s" % (
        only, *sys.version_info[:2], ", ".join(platforms)), available=here))


def shown(names):
    """What a directory of wheels has, as the end of a sentence."""
    more = " and %d more" % (len(names) - WHEELS_SHOWN) if len(names) > WHEELS_SHOWN else ""
    return "; the directory has %s%s" % (", ".join(names[:WHEELS_SHOWN]), more) if names else ""


def conflict(causes, constrained):
    """The Failure for requirements that can each be met, but not together."""
    wanted = {}  # by whom: what
    for need, parent in causes:
        who = "%s %s needs" % (parent.name, parent.version) if parent is not None else "you request"
        wanted.setdefault(who, {})[need.format_for_error()] = None
    needs = ["%s %s" % (who, " and ".join(list(of)[:SHOWN])) for who, of in wanted.items()][:SHOWN]
    text = "incompatible requirements: %s" % "; ".join(needs) if needs else "the packages have incompatible requirements"
    if sum(map(len, wanted.values())) < 2 and constrained:
        text = "%s, which the user's constraint file excludes" % (needs or ["this"])[0]
    return Failure("conflict", text)
