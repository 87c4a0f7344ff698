"""Put Python modules and what they read into one zip file, which an interpreter runs: python_zip.py ZIP __MAIN__ FILE...

The first file becomes __main__.py. Nothing is compressed: zlib may be missing where it runs. The same input makes the same file.
"""
import pathlib
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for number, path in enumerate(map(pathlib.Path, sys.argv[2:])):
        name = path.name if number else "__main__.py"
        archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())
