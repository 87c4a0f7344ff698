"""The file that init starts. It only loads the others, and calls zygote.py.

Private modules are never in sys.modules and see a copy of the builtins: code in a session can neither import them nor
break them by deleting `len`. What they import are copies too (imports.py). To compile them costs more than to start the
first session, so the binary has them as bytecode of the Python that built it, and an interpreter with the same magic
number uses that.

Each private module sees SYS, the namespace of the `sys` that code sees, and IMPORTED, the modules that code imports.
What is in them belongs to the code; the `sys` that a private module imports is a copy, for what never changes.
"""
import marshal
import sys

IMPORTED, SYS = sys.modules, sys.__dict__
__builtins__ = dict(IMPORTED["builtins"].__dict__)

DIRECTORY = __file__.rpartition("/")[0]
MAGIC = IMPORTED["_frozen_importlib_external"].MAGIC_NUMBER
PYC_HEAD = 16  # PEP 552
loaded = {}


def code_of(name):
    path = DIRECTORY + "/" + name + ".py"
    try:
        with open(path + "c", "rb", 0) as file:
            data = file.read()
        if data[:4] == MAGIC:
            code = marshal.loads(memoryview(data)[PYC_HEAD:])
            if code.co_filename != path:
                IMPORTED["_imp"]._fix_co_filename(code, path)
            return code
    except OSError:
        pass
    with open(path, "rb", 0) as file:
        return compile(file.read(), path, "exec", 0, True)


def load(name):
    """The private module of this name, made at its first use: before a session runs any code, see zygote.py."""
    module = loaded.get(name)
    if module is None:
        module = type(sys)("sandpiper." + name)
        module.__dict__.update(
            __builtins__=__builtins__, DIRECTORY=DIRECTORY, IMPORTED=IMPORTED, SYS=SYS, load=load)
        exec(code_of(name), module.__dict__)
        loaded[name] = module
    return module


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if sys.path[:1] == [DIRECTORY]:
        del sys.path[0]
    __builtins__["__import__"] = load("imports").own
    load("zygote").main(arguments[0] if arguments else "")
