"""The file that init starts. It only reads the others, and runs loader.py.

To compile all of them costs more than to start the first session, so the binary has them as bytecode of the Python that
built it, and an interpreter with the same magic number uses that. All of them are in one file, which is read once, before
any code runs. This file alone is compiled by each interpreter: it is short.
"""
import sys
from _imp import _fix_co_filename as name_file
from marshal import loads


def read(name, head=b""):
    """{name: bytecode or source}, or None where the file is for another Python; see build-aux/bytecode.py."""
    with open(DIRECTORY + "/modules." + name, "rb", 0) as file:
        data = memoryview(file.read())
    if data[: len(head)] == head:
        return {name: data[-before_end:][:size] for name, (before_end, size) in loads(data[len(head) :]).items()}


def code_of(name):
    path = DIRECTORY + "/" + name + ".py"
    if not compiled:
        return compile(files[name], path, "exec", 0, True)
    code = loads(files[name])
    if code.co_filename != path:
        name_file(code, path)
    return code


DIRECTORY = __file__.rpartition("/")[0]
files = read("bytecode", sys.modules["_frozen_importlib_external"].MAGIC_NUMBER)
compiled = files is not None
files = files or read("source")
exec(code_of("loader"))
