"""Put the driver's modules into two files: bytecode.py BYTECODE SOURCE DIRECTORY MODULE...

BYTECODE: this Python's magic number, then the code of modules that lie in DIRECTORY when they run. SOURCE: their text, for
other Pythons. In both, {name: (where it begins, in bytes before the end of the file, size)} comes first, in the format of the
module marshal, which all Pythons read: so each part can be used where the file has been read to.
"""
import importlib.util
import marshal
import pathlib
import sys

bytecode, source, directory, *modules = sys.argv[1:]
texts = {path.stem: path.read_bytes() for path in map(pathlib.Path, modules)}
codes = {name: marshal.dumps(compile(text, f"{directory}/{name}.py", "exec", dont_inherit=True, optimize=0))
         for name, text in texts.items()}


def packed(parts):
    index, before_end = {}, sum(map(len, parts.values()))
    for name, part in parts.items():
        index[name] = before_end, len(part)
        before_end -= len(part)
    return marshal.dumps(index) + b"".join(parts.values())


pathlib.Path(bytecode).write_bytes(importlib.util.MAGIC_NUMBER + packed(codes))
pathlib.Path(source).write_bytes(packed(texts))
