"""The driver's own copies of the standard library.

Code may replace whatever it can reach: functions of a module, the module in sys.modules, builtins, the finders of
imports; and a workspace may have a file token.py or json.py. So the driver imports nothing that code can reach. `own` is
its `__import__`: it takes modules from the standard library alone, runs them with the driver's builtins and keeps them
in a dictionary of its own, which is also what these copies see as sys.modules. A module in C is copied, so that it has
the functions of before, but its types are those that code sees.

All of it is loaded before any code of a session runs. From then on `own` only looks up: no name, no path and no
descriptor of the session matters.
"""
import sys
from _thread import get_ident

SITES = ("site-packages", "dist-packages")
NAMED = [entry.rpartition("/")[2] in SITES for entry in sys.path] + [True]
PLACES = [entry for entry in sys.path[: NAMED.index(True)] if entry[:1] == "/"]  # archive, modules, extensions
frozen, external = IMPORTED["_frozen_importlib"], IMPORTED["_frozen_importlib_external"]
module_type = type(sys)
copies = {}
state = {"sealed": False, "shared": None}


def copy_of(module, **more):
    copy = module_type(module.__name__)
    copy.__dict__.update(module.__dict__, **more)
    return copy


def find(name, places=PLACES):
    """The spec of a module of the standard library, or None for any other."""
    for finder in (frozen.BuiltinImporter, frozen.FrozenImporter):
        spec = finder.find_spec(name)
        if spec is not None:
            return spec
    return external.PathFinder.find_spec(name, places)


def own(name, globals=None, locals=None, fromlist=(), level=0):
    """The `__import__` of the driver and of its copies."""
    if level:
        package = globals["__package__"].rsplit(".", level - 1)[0]
        name = package + "." + name if name else package
    module = copies.get(name) or load_copy(name)
    if not fromlist:
        return copies[name.partition(".")[0]]
    if "__path__" in module.__dict__:
        for attribute in fromlist:
            if attribute != "*" and attribute not in module.__dict__:
                own(name + "." + attribute, fromlist=("*",))
    return module


def load_copy(name):
    parent, _, last = name.rpartition(".")
    places = PLACES
    if parent:
        places = getattr(own(parent, fromlist=("*",)), "__path__", ())
        if name in copies:
            return copies[name]
    spec = find(name, places) if not state["sealed"] else None
    if spec is None:
        raise ModuleNotFoundError("No module named %r" % name, name=name)  # perhaps a trimmed Python
    code = spec.loader.get_code(name)
    if code is None:
        copies[name] = copy_of(IMPORTED.get(name) or made(spec))
    else:
        run_copy(spec, code, parent)
    if parent:
        setattr(copies[parent], last, copies[name])
    return copies[name]


def made(spec):
    """A module in C. One that a file of the workspace can replace does not stay in sys.modules."""
    if spec.loader is frozen.BuiltinImporter:
        return real_import(spec.name)
    module = frozen.module_from_spec(spec)
    spec.loader.exec_module(module)
    IMPORTED.pop(spec.name, None)
    return module


def run_copy(spec, code, parent):
    module = copies[spec.name] = module_type(spec.name)
    module.__dict__.update(__builtins__=__builtins__, __file__=spec.origin, __spec__=spec, __package__=parent)
    if spec.submodule_search_locations is not None:
        module.__package__, module.__path__ = spec.name, spec.submodule_search_locations
    try:
        exec(code, module.__dict__)
    except BaseException:
        del copies[spec.name]
        raise


def seal():
    """From here on there are only the copies that exist."""
    state["sealed"] = True


def shared(name):
    """Imports a module of the standard library for the code to see, as asyncio for a cell with an await."""
    state["shared"] = get_ident()
    try:
        real_import(name)
    finally:
        state["shared"] = None
    return IMPORTED[name]


def find_shared(name):
    """The spec of a module that `shared` imports. None if this is an import of the code's."""
    if state["shared"] != get_ident():
        return None
    spec = find(name)
    if spec is None:
        raise ModuleNotFoundError("No module named %r" % name, name=name)  # of another system, or a trimmed Python
    return spec


real_import = __builtins__["__import__"]
copies["sys"] = copy_of(sys, modules=copies)
copies["builtins"] = copy_of(IMPORTED["builtins"], __import__=own)
