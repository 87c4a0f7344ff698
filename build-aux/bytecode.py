"""Put the driver's modules into two files: bytecode.py BYTECODE SOURCE DIRECTORY MODULE...

BYTECODE: this Python's magic number, {name: (offset, size)} in the format of the module marshal, zeros up to INDEX_BYTES,
and the code of the modules, which lie in DIRECTORY when they run. SOURCE: {name: text} in that format, compressed by zlib,
for other Pythons.
"""
import importlib.util
import marshal
import pathlib
import sys
import zlib

INDEX_BYTES = 4096  # guest/driver.py
bytecode, source, directory, *modules = sys.argv[1:]
texts = {path.stem: path.read_bytes() for path in map(pathlib.Path, modules)}
index, data = {}, b""
for name, text in texts.items():
    code = marshal.dumps(compile(text, f"{directory}/{name}.py", "exec", dont_inherit=True, optimize=0))
    index[name] = INDEX_BYTES + len(data), len(code)
    data += code
head = importlib.util.MAGIC_NUMBER + marshal.dumps(index)
assert len(head) <= INDEX_BYTES, "more modules than INDEX_BYTES has names for"
pathlib.Path(bytecode).write_bytes(head.ljust(INDEX_BYTES, b"\0") + data)
pathlib.Path(source).write_bytes(zlib.compress(marshal.dumps(texts), 9))
