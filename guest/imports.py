"""Where the driver's own imports come from: the standard library, whatever the workspace holds.

Sessions have the workspace first on sys.path, as `python -c` has, and the driver imports late what few
cells need. A file json.py of an earlier session must not run where nobody asked for it, and an honest one
must not break the report of a result.
"""
import os
import sys

SITES = ("site-packages", "dist-packages")
LIBRARY = os.path.dirname(os.__file__) + "/"
NAMED = [os.path.basename(entry) in SITES for entry in sys.path] + [True]
PLACES = [entry for entry in sys.path[: NAMED.index(True)] if os.path.isabs(entry)]  # archive, modules, extensions
NAMES = getattr(sys, "stdlib_module_names", ())  # Python 3.10
frozen, external = sys.modules["_frozen_importlib"], sys.modules["_frozen_importlib_external"]


def is_of_driver(frame):
    """Whether the driver asks for this import: the innermost frame outside of the standard library tells."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(FOLDER + "/"):
            return True
        in_library = file.startswith(LIBRARY) and "-packages/" not in file
        if not in_library and not file.startswith("<frozen "):
            return False
        frame = frame.f_back
    return False


def find(name):
    """The spec of a module of the standard library, or None where another one is meant."""
    for finder in (frozen.BuiltinImporter, frozen.FrozenImporter):
        spec = finder.find_spec(name)
        if spec is not None:
            return spec
    spec = external.PathFinder.find_spec(name, PLACES)
    if spec is None and name in NAMES:
        raise ModuleNotFoundError("No module named %r" % name, name=name)  # a trimmed Python
    return spec
