"""Loads the driver's modules, and calls zygote.py. It shares the names of driver.py.

Private modules are never in sys.modules and see a copy of the builtins: code in a session can neither import them nor
break them by deleting `len`. What they import are copies too (imports.py).

Each private module sees SYS, the namespace of the `sys` that code sees, and IMPORTED, the modules that code imports.
What is in them belongs to the code; the `sys` that a private module imports is a copy, for what never changes.
"""
import gc
from _thread import RLock
from posix import register_at_fork

IMPORTED, SYS = sys.modules, sys.__dict__
__builtins__ = dict(IMPORTED["builtins"].__dict__)
loaded = {}
lock = RLock()  # threads of the code may display something at the same time
register_at_fork(after_in_child=lock._at_fork_reinit)


def load(name):
    """The private module of this name, made at its first use: that may be after code has run, see imports.py."""
    module = loaded.get(name)
    if module is None:
        with lock:
            module = loaded.get(name) or make(name)
    return module


def make(name):
    module = type(sys)("sandpiper." + name)
    module.__dict__.update(
        __builtins__=__builtins__, DIRECTORY=DIRECTORY, IMPORTED=IMPORTED, SYS=SYS, load=load, map_files=map_files)
    exec(code_of(name), module.__dict__)
    loaded[name] = module
    files.pop(name, None)
    return module


def map_files():
    """From then on neither a path nor a descriptor matters."""
    if compiled:
        whole = load("native").content(DIRECTORY + "/modules.bytecode")
        files.update((name, whole[offset:][:size]) for name, (offset, size) in list(files.items()))


arguments = sys.argv[1:]
if sys.path[:1] == [DIRECTORY]:
    del sys.path[0]
gc.disable()  # until what sessions need is loaded: it stays
__builtins__["__import__"] = load("imports").own
load("zygote").main(arguments[0] if arguments else "")
