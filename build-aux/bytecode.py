"""Compile one file of guest/ as it will lie in the sandbox: bytecode.py INPUT OUTPUT FOLDER."""
import pathlib
import py_compile
import sys

source, target, folder = sys.argv[1:]
py_compile.compile(source, target, f"{folder}/{pathlib.Path(source).name}", doraise=True, optimize=0,
                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
