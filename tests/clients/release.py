"""A release of the program under test, as build-aux/dist makes it of the static programs.

To save time it contains a script that executes that program, or with SANDPIPER_TEST_WHOLE the program itself.
"""
import os
import pathlib
import platform
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "e2e"), str(ROOT / "build-aux" / "dist")]

from client import BINARY, SLOW  # noqa: E402

REPOSITORY, IMAGE = "someone/sandpiper", "registry.example/someone/sandpiper"
ARCHES = {"x86_64": "x64", "aarch64": "arm64"}


def arch():
    if platform.machine() not in ARCHES:
        raise unittest.SkipTest(f"release: none for {platform.machine()}")
    return ARCHES[platform.machine()]


def program(directory):
    if os.environ.get("SANDPIPER_TEST_WHOLE"):
        return pathlib.Path(BINARY)
    path = pathlib.Path(directory) / "program"
    path.write_text(f'#!/bin/sh\nexec {BINARY} "$@"\n')
    path.chmod(0o755)
    return path


def make(directory, name):
    """The files of `make dist`, with this program for every processor, in directory/name."""
    arch()
    binaries = [word for one in ARCHES.values() for word in ("--binary", f"{one}={program(directory)}")]
    subprocess.run([sys.executable, "-B", ROOT / "build-aux" / "dist" / "dist.py", directory / name, *binaries,
                    "--repository", REPOSITORY, "--image", IMAGE],
                   check=True, stdout=subprocess.DEVNULL, timeout=120 * SLOW)
    return directory / name


def only(directory, pattern):
    (path,) = directory.glob(pattern)
    return path
