"""The driver's own copies of the standard library.

Code may replace whatever it can reach: functions of a module, the module in sys.modules, builtins, the finders of
imports; and a workspace may have a file token.py or json.py. So the driver imports nothing that code can reach. `own` is
its `__import__`: it takes modules from the standard library alone, runs them with the driver's builtins and keeps them
in a dictionary of its own, which is also what these copies see as sys.modules. A module in C is copied, so that it has
the functions of before, but its types are those that code sees.

All of it is read before any code of a session runs; what few sessions need is run at its first use. From the beginning
of a session on `own` only looks up: no name, no path and no descriptor of the session matters.
"""
import sys
from _thread import get_ident
from marshal import loads
from posix import stat

SITES = ("site-packages", "dist-packages")
NAMED = [entry.rpartition("/")[2] in SITES for entry in sys.path] + [True]
PLACES = [entry for entry in sys.path[: NAMED.index(True)] if entry[:1] == "/"]  # archive, modules, extensions
frozen, external = IMPORTED["_frozen_importlib"], IMPORTED["_frozen_importlib_external"]
module_type, function_type = type(sys), type(lambda: None)
LIBRARY = IMPORTED["os"].__file__.rpartition("/")[0] + "/"
CACHED = "__pycache__/%s." + sys.implementation.cache_tag + ".pyc"
PYC_HEAD = 16  # bytes before the code, PEP 552
NEWEST = (3, 13)  # Python whose library HELD was compared with; a newer one has all of it loaded at the start
# What modules that the driver seldom loads import, and what these import in turn.
HELD_IN_C = (
    "_abc", "_operator", "itertools", "_weakref", "_collections", "_functools", "_codecs", "_io", "_locale", "_sre", "_tokenize",
    "_warnings", "_suggestions", "unicodedata", "_ast", "_heapq", "binascii", "select", "atexit", "errno", "resource",
)
HELD = (
    "abc", "_collections_abc", "keyword", "operator", "reprlib", "collections/__init__", "collections/abc", "types", "functools",
    "codecs", "io", "enum", "copyreg", "token", "tokenize", "linecache", "textwrap", "contextlib", "ast", "traceback", "heapq",
    "difflib", *(("warnings", "__future__", "_colorize") if sys.version_info >= (3, 13) else ()),
    *(("re/__init__", "re/_constants", "re/_parser", "re/_casefix", "re/_compiler") if sys.version_info >= (3, 11) else
      ("re", "sre_constants", "sre_parse", "sre_compile")),
)
held = {}  # name → (path, paths of a package's modules, its bytecode or code object) of a module that is not loaded yet
copies = {}
state = {"sealed": False, "shared": None}


def copy_of(module, **more):
    copy = module_type(module.__name__)
    copy.__dict__.update(module.__dict__, **more)
    return copy


def remake(name):
    """Copies a module that Python has loaded for itself: that costs less than to run its code once more. Its functions see
    the copies; its classes are those that code sees."""
    original, module = IMPORTED[name], module_type(name)
    copies[name] = module
    module.__builtins__ = __builtins__
    for key, value in original.__dict__.items():
        if type(value) is function_type and value.__globals__ is original.__dict__:
            function = function_type(value.__code__, module.__dict__, value.__name__, value.__defaults__, value.__closure__)
            function.__kwdefaults__ = value.__kwdefaults__
            value = function
        elif type(value) is module_type:
            value = copies.get(value.__name__, value)
        module.__dict__.setdefault(key, value)


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
    if name in held:
        run_copy(name, parent, *held[name])
        del held[name]
    else:
        spec = found(name, places)
        code = spec.loader.get_code(name)
        if code is None:
            copies[name] = copy_of(IMPORTED.get(name) or made(spec))
        else:
            run_copy(name, parent, spec.origin, spec.submodule_search_locations, code)
    if parent:
        setattr(copies[parent], last, copies[name])
    return copies[name]


def found(name, places):
    spec = find(name, places) if not state["sealed"] else None
    if spec is None:
        raise ModuleNotFoundError("No module named %r" % name, name=name)  # perhaps a trimmed Python
    return spec


def hold():
    """Reads modules for a use when the session has begun. One in C is copied at once, before code can alter it."""
    for name in HELD_IN_C:
        try:
            own(name)
        except ImportError:
            pass  # of another version
    for file in HELD:
        name = file.replace("/__init__", "").replace("/", ".")
        if name in copies:
            continue
        path, code = LIBRARY + file + ".py", bytecode(file)
        places = [path.rpartition("/")[0]] if file.endswith("/__init__") else None
        try:
            if code is None:
                held_parent = held.get(name.rpartition(".")[0])
                spec = found(name, held_parent[1] if held_parent else PLACES)
                path, places, code = spec.origin, spec.submodule_search_locations, spec.loader.get_code(name)
            held[name] = path, places, code
        except ImportError:
            pass  # of another version


def bytecode(file):
    """The content of its bytecode file if that belongs to this interpreter and to the source as it is, else None."""
    directory, _, name = (LIBRARY + file).rpartition("/")
    try:
        source = stat(LIBRARY + file + ".py")
        head = external.MAGIC_NUMBER + bytes(4)  # which says that it was made for a source of this time and size
        for number in int(source.st_mtime), source.st_size:
            head += (number & 0xFFFFFFFF).to_bytes(4, "little")
        data = load("native").content(directory + "/" + CACHED % name, head)
    except OSError:
        return None
    return data and data[PYC_HEAD:]


def load_held():
    for name in list(held):
        own(name)


def made(spec):
    """A module in C. One that a file of the workspace can replace does not stay in sys.modules."""
    if spec.loader is frozen.BuiltinImporter:
        return real_import(spec.name)
    module = frozen.module_from_spec(spec)
    spec.loader.exec_module(module)
    IMPORTED.pop(spec.name, None)
    return module


def run_copy(name, parent, path, places, code):
    """places: of a package's modules, else None. code: maybe bytecode."""
    module = copies[name] = module_type(name)
    module.__dict__.update(__builtins__=__builtins__, __file__=path, __package__=parent)
    if places is not None:
        module.__package__, module.__path__ = name, places
    try:
        exec(loads(code) if type(code) is memoryview else code, module.__dict__)
    except BaseException:
        del copies[name]
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
for loaded in "stat", "genericpath", "posixpath", "os":
    remake(loaded)
copies["os.path"] = copies["posixpath"]
