"""Packages that install_package has added: layers, folders that are never changed once they are there.

The server says with each run which there are, newest first; a copy of an older state that takes over is told
again. They stand behind the standard library and before the interpreter's own packages, here and in the
Pythons that code starts (children/sitecustomize.py); what `.pth` files in them ask for is not done.
"""
import os
import sys

SITES = load("imports").SITES
CHILDREN = FOLDER + "/children"
METADATA = (".dist-info", ".data", "__pycache__")
NOTES_MAX = 4
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
MISSING_MAX = 20


def use(session, text):
    """Makes the layers of text (paths, a colon between them) the ones that imports find."""
    layers = text.split(":") if text else []
    old, session.layers = session.layers, layers
    path = [entry for entry in sys.path if entry not in old]
    at = next((i for i, entry in enumerate(path) if os.path.basename(entry) in SITES), len(path))
    path[at:at] = layers
    sys.path[:] = path
    os.environ["SANDPIPER_PACKAGES"] = ":".join(layers)
    extend("PYTHONPATH", [CHILDREN], [CHILDREN] if layers else [])
    extend("PATH", [layer + "/bin" for layer in old], [layer + "/bin" for layer in layers])
    import importlib

    importlib.invalidate_caches()
    seen = set()
    for layer in layers:
        if layer not in old:
            tell_replaced(session, layer, path[path.index(layer) :], seen)


def extend(name, old, new):
    """For child processes, whatever the code has made of the variable."""
    rest = [part for part in os.environ.get(name, "").split(":") if part and part not in old]
    os.environ[name] = ":".join(new + rest)


def tell_replaced(session, layer, path, seen):
    """Modules that were imported before from behind the layer (path), which has another version of them."""
    names = os.listdir(layer)
    for name in names:
        module = name.partition(".")[0]
        if name.endswith(METADATA) or name == "bin" or module in seen:
            continue
        seen.add(module)
        file = getattr(sys.modules.get(module), "__file__", None)
        place = file[: file.rfind("/" + module)] if isinstance(file, str) else layer
        if place != layer and place in path and len(seen) <= NOTES_MAX:
            what = version_of(module, names)
            note = "`%s` was imported before%s was installed: run with reset=true to use it" % (module, what)
            session.package_notes += ("note", note)


def version_of(module, names):
    """" numpy 2.0.0" where the module's own distribution is in the layer."""
    for name in names:
        distribution, _, version = name[: -len(".dist-info")].partition("-")
        if name.endswith(".dist-info") and distribution.lower() == module.lower():
            return " %s %s" % (distribution, version)
    return " its present version"


def missing(session, text):
    """Distributions for the imports in a cell that would find nothing."""
    try:
        tree = load("language").parse(text, "<imports>", session.flags)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    found = []
    for module in imports_of(tree):
        top = module.partition(".")[0]
        if not is_there(top):
            name = load("hints").distribution_for(module)
            if name not in found:
                found.append(name)
    return found[:MISSING_MAX]


def is_there(top):
    from importlib.util import find_spec

    if top in sys.modules or top in getattr(sys, "stdlib_module_names", ()):
        return True
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        return True


def imports_of(tree):
    """Absolute imports, without those that the code itself expects to fail."""
    import ast

    found, nodes = [], [tree]
    while nodes:
        node = nodes.pop(0)
        handlers = getattr(node, "handlers", ())  # of ast.Try and, since Python 3.11, ast.TryStar
        if any(catches_import(handler.type) for handler in handlers):
            nodes += [part for handler in handlers for part in handler.body]
            nodes += node.orelse + node.finalbody
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append(node.module)
        nodes += ast.iter_child_nodes(node)
    return found


def catches_import(kind):
    """Of an except clause: whether it is for a missing module, among others."""
    kinds = getattr(kind, "elts", None) or [kind]
    return any(kind is None or getattr(kind, "id", None) in IMPORT_ERRORS for kind in kinds)
