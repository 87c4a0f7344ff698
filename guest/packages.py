"""Packages that install_package has added: layers, which are directories that never change.

With each run the server sends the list of layers, newest first; it sends the list again to a checkpoint of an older
state after a failover. They come after the standard library and before the interpreter's own packages, here and in the
Pythons that code starts (children/sitecustomize.py); `.pth` files in them have no effect.
"""
import _ast
import os
import sys

SITES = load("imports").SITES
environ = load("zygote").environ  # which child processes get
CHILDREN = DIRECTORY + "/children"
INFO = (".dist-info", ".egg-info")
METADATA = (".dist-info", ".data", "__pycache__")
NOTES_MAX = 4
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
MISSING_MAX = 20
RECORD_MAX = 1 << 20


def use(session, text):
    """Makes the layers of text (paths with a colon between them) the ones that imports use."""
    layers = text.split(":") if text else []
    old, session.layers = session.layers, layers
    path = [entry for entry in SYS["path"] if entry not in old]
    at = next((i for i, entry in enumerate(path) if os.path.basename(entry) in SITES), len(path))
    path[at:at] = layers
    SYS["path"][:] = path
    environ["SANDPIPER_PACKAGES"] = ":".join(layers)
    extend("PYTHONPATH", [CHILDREN], [CHILDREN])
    extend("PATH", [layer + "/bin" for layer in old], [layer + "/bin" for layer in layers])
    look_again()
    seen = set()
    for layer in layers:
        if layer not in old:
            report_replaced(session, layer, path[path.index(layer) :], seen)


def look_again():
    """As importlib.invalidate_caches, which is the code's."""
    for finder in SYS["path_importer_cache"].values():
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def extend(name, old, new):
    """Sets PYTHONPATH for child processes, whatever the code has done to the variable."""
    rest = [part for part in environ.get(name, "").split(":") if part and part not in old]
    environ[name] = ":".join(new + rest)


def report_replaced(session, layer, path, seen):
    """Reports modules that were imported from elsewhere before, and of which the layer (path) has another version."""
    names = os.listdir(layer)
    for name in names:
        module = name.partition(".")[0]
        if name.endswith(METADATA) or name == "bin" or module in seen:
            continue
        seen.add(module)
        file = getattr(IMPORTED.get(module), "__file__", None)
        place = file[: file.rfind("/" + module)] if isinstance(file, str) else layer
        if place != layer and place in path and len(seen) <= NOTES_MAX:
            what = version_of(module, names)
            note = "`%s` was imported before%s was installed: run with reset=true to use it" % (module, what)
            session.package_notes += ("note", note)


def version_of(module, names):
    """" numpy 2.0.0" if the module's own distribution is in the layer."""
    for name in names:
        distribution, _, version = name[: -len(".dist-info")].partition("-")
        if name.endswith(".dist-info") and distribution.lower() == module.lower():
            return " %s %s" % (distribution, version)
    return " its present version"


def missing(session, text):
    """Fields for those imports in a cell that would find nothing: `name` of a distribution that is known to have it, or that
    the cell itself names; `guess` of one that may be anybody's."""
    try:
        tree = load("language").parse(text, "<imports>", session.flags)
    except SyntaxError:
        found = load("readings").certain(text, session.flags)
        return missing(session, found[0]) if found else []
    except (ValueError, MemoryError, RecursionError):
        return []
    found = []
    for module in imports_of(tree):
        top = module.partition(".")[0]
        if not is_there(top):
            name = load("hints").distribution_for(module)
            found.append(("name", name) if name else ("guess", top))
    found += [("name", name) for name in getattr(tree, "wanted", ())]
    return [field for field in dict.fromkeys(found) if not is_installed(field[1])][:MISSING_MAX]


def plain(name):
    return name.lower().replace("_", "-").replace(".", "-")


def info_of(name):
    """The directory of what is known of an installed distribution, in any version, or None."""
    for place in SYS["path"]:
        try:
            files = os.listdir(place or ".")
        except OSError:
            continue
        for file in files:
            if file.endswith(INFO) and plain(file.partition("-")[0]) == plain(name):
                return os.path.join(place, file)
    return None


def is_installed(name):
    return info_of(name) is not None


def modules_of(name):
    """The modules of an installed distribution."""
    info = info_of(name)
    try:
        with open(info + "/RECORD", encoding="utf-8") as file:
            paths = [line.partition(",")[0].split("/") for line in file.read(RECORD_MAX).splitlines()]
    except (OSError, TypeError, ValueError):
        return []
    names = [parts[0] if len(parts) > 1 else parts[0].partition(".")[0] for parts in paths
             if len(parts) > 1 or parts[0].endswith((".py", ".so"))]
    return [name for name in dict.fromkeys(names) if name.isidentifier() and name != "__pycache__"]


def is_there(top):
    if top in IMPORTED or top in getattr(sys, "stdlib_module_names", ()):
        return True
    try:
        return any(finder.find_spec(top, None) is not None for finder in SYS["meta_path"])
    except (AttributeError, ImportError, ValueError):
        return True


def imports_of(tree):
    """Absolute imports, without those that the code itself expects to fail."""
    found, nodes = [], [tree]
    while nodes:
        node = nodes.pop(0)
        handlers = getattr(node, "handlers", ())  # of ast.Try and, since Python 3.11, ast.TryStar
        if any(catches_import(handler.type) for handler in handlers):
            nodes += [part for handler in handlers for part in handler.body]
            nodes += node.orelse + node.finalbody
            continue
        if isinstance(node, _ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, _ast.ImportFrom) and node.level == 0 and node.module:
            found += ["%s.%s" % (node.module, alias.name) for alias in node.names]
        nodes += children_of(node)
    return found


def children_of(node):
    for field in node._fields:
        child = getattr(node, field, None)
        for item in child if isinstance(child, list) else (child,):
            if isinstance(item, _ast.AST):
                yield item


def catches_import(kind):
    """Whether an except clause is for a missing module, among others."""
    kinds = getattr(kind, "elts", None) or [kind]
    return any(kind is None or getattr(kind, "id", None) in IMPORT_ERRORS for kind in kinds)
