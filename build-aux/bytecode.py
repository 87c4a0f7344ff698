"""Compile one file of guest/ under its path in the sandbox: bytecode.py INPUT OUTPUT DIRECTORY."""
import pathlib
import py_compile
import sys

source, target, directory = sys.argv[1:]
py_compile.compile(source, target, f"{directory}/{pathlib.Path(source).name}", doraise=True, optimize=0,
                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
