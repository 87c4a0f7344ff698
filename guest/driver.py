"""The file that init starts. It only reads the others, and runs loader.py.

To compile all of them costs more than to start the first session, so the binary has them as bytecode of the Python that
built it, and an interpreter with the same magic number uses that. All of them are in one file: each is read where it is
needed, and the rest is mapped before any code runs. This file alone is compiled by each interpreter: it is short.
"""
import sys
from _imp import _fix_co_filename as name_file
from marshal import loads

INDEX_BYTES = 4096  # build-aux/bytecode.py


def read(name, offset=0, size=-1):
    with open(DIRECTORY + "/modules." + name, "rb", 0) as file:
        file.seek(offset)
        return file.read(size)


def code_of(name, compile=compile, type=type, tuple=tuple):
    """This may run after code, which may have replaced the builtins."""
    path, part = DIRECTORY + "/" + name + ".py", files[name]
    if not compiled:
        return compile(part, path, "exec", 0, True)
    code = loads(read("bytecode", *part) if type(part) is tuple else part)
    if code.co_filename != path:
        name_file(code, path)
    return code


DIRECTORY = __file__.rpartition("/")[0]
magic, index = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER, read("bytecode", 0, INDEX_BYTES)
compiled = index[: len(magic)] == magic
if compiled:
    files = loads(index[len(magic) :])  # {name: (offset, size), or bytecode}
else:
    from zlib import decompress

    files = loads(decompress(read("source")))
exec(code_of("loader"))
