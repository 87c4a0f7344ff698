"""The file that init starts. It only loads the others, and calls zygote.py.

Private modules are never in sys.modules and see a copy of the builtins: code in a session can neither import them nor
break them by deleting `len`. What they import are copies too (imports.py). To compile them costs more than to start the
first session, so the binary has them as bytecode of the Python that built it, and an interpreter with the same magic
number uses that. All of them are in one file, which is read once, before any code runs.

Each private module sees SYS, the namespace of the `sys` that code sees, and IMPORTED, the modules that code imports.
What is in them belongs to the code; the `sys` that a private module imports is a copy, for what never changes.
"""
import gc
import sys
from _imp import _fix_co_filename as name_file
from _thread import RLock
from marshal import loads
from posix import register_at_fork

IMPORTED, SYS = sys.modules, sys.__dict__
__builtins__ = dict(IMPORTED["builtins"].__dict__)

DIRECTORY = __file__.rpartition("/")[0]
MAGIC = IMPORTED["_frozen_importlib_external"].MAGIC_NUMBER
loaded = {}
lock = RLock()  # threads of the code may display something at the same time
register_at_fork(after_in_child=lock._at_fork_reinit)


def read():
    """{name: bytecode, or in an interpreter for which there is none, source}; see build-aux/bytecode.py."""
    for name, head in ("bytecode", MAGIC), ("source", b""):
        with open(DIRECTORY + "/modules." + name, "rb", 0) as file:
            data = file.read()
        if data[: len(head)] == head:
            return name == "bytecode", loads(memoryview(data)[len(head) :])


def code_of(name):
    path = DIRECTORY + "/" + name + ".py"
    if not compiled:
        return compile(files[name], path, "exec", 0, True)
    code = loads(files[name])
    if code.co_filename != path:
        name_file(code, path)
    return code


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
        __builtins__=__builtins__, DIRECTORY=DIRECTORY, IMPORTED=IMPORTED, SYS=SYS, load=load)
    exec(code_of(name), module.__dict__)
    loaded[name] = module
    files.pop(name, None)
    return module


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if sys.path[:1] == [DIRECTORY]:
        del sys.path[0]
    gc.disable()  # until what sessions need is loaded: it stays
    compiled, files = read()
    __builtins__["__import__"] = load("imports").own
    load("zygote").main(arguments[0] if arguments else "")
