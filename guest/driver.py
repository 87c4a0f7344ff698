"""The file that init starts. It only knows how to load the others, and hands over to zygote.py.

Private modules are never in sys.modules and see a copy of the builtins: code in a session can
neither import them nor break them by deleting `len`. To compile them costs more than to start the
first session, so the binary brings them compiled by the Python that built it, and an interpreter
with the same magic number takes that.
"""
import os
import sys

__builtins__ = dict(sys.modules["builtins"].__dict__)

FOLDER = os.path.dirname(__file__)
MAGIC = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER
PYC_HEAD = 16  # PEP 552
loaded = {}


def code_of(name):
    path = FOLDER + "/" + name + ".py"
    try:
        with open(path + "c", "rb", 0) as file:
            data = file.read()
        if data[:4] == MAGIC:
            import marshal

            code = marshal.loads(memoryview(data)[PYC_HEAD:])
            if code.co_filename != path:
                sys.modules["_imp"]._fix_co_filename(code, path)
            return code
    except OSError:
        pass
    with open(path, "rb", 0) as file:
        return compile(file.read(), path, "exec", 0, True)


def load(name):
    """The private module of this name, made at its first use."""
    module = loaded.get(name)
    if module is None:
        module = type(sys)("sandpiper." + name)
        module.__dict__.update(__builtins__=__builtins__, FOLDER=FOLDER, load=load)
        exec(code_of(name), module.__dict__)
        loaded[name] = module
    return module


if __name__ == "__main__":
    load("zygote").main(sys.argv[1] if len(sys.argv) > 1 else "")
