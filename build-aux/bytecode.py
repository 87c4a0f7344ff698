"""Put the driver's modules into two files: bytecode.py BYTECODE SOURCE DIRECTORY MODULE...

BYTECODE: this Python's magic number, then {name: code} of modules that lie in DIRECTORY when they run. SOURCE: {name:
text}, for other Pythons. Both are in the format of the module marshal, which all Pythons read, and each code is bytes in it.
"""
import importlib.util
import marshal
import pathlib
import sys

bytecode, source, directory, *modules = sys.argv[1:]
texts = {path.stem: path.read_bytes() for path in map(pathlib.Path, modules)}
codes = {name: marshal.dumps(compile(text, f"{directory}/{name}.py", "exec", dont_inherit=True, optimize=0))
         for name, text in texts.items()}
pathlib.Path(bytecode).write_bytes(importlib.util.MAGIC_NUMBER + marshal.dumps(codes))
pathlib.Path(source).write_bytes(marshal.dumps(texts))
