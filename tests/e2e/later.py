"""Servers whose clock a test moves (helpers/later.c)."""
import contextlib
import os
import pathlib
import struct
import tempfile
import unittest

from client import BINARY

LIBRARY = pathlib.Path(BINARY).parent / "tests" / "later.so"


class Clock:
    """Preloaded into the servers that get `env`."""

    def __init__(self, file):
        self.file = file
        self.set(0)
        sanitized = {"ASAN_OPTIONS": os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0"} if "ASAN_OPTIONS" in os.environ else {}
        self.env = {**os.environ, **sanitized, "LD_PRELOAD": str(LIBRARY), "SANDPIPER_TEST_LATER": file.name}

    def set(self, seconds):
        os.pwrite(self.file.fileno(), struct.pack("@l", seconds), 0)

    def advance(self, server, seconds):
        """Until the server has done what was due by then."""
        with open(f"/proc/{server.process.pid}/maps") as maps:
            if LIBRARY.name not in maps.read():
                raise unittest.SkipTest("later: the server loads no library, or a program stands before it")
        self.set(seconds)
        server.request("ping")  # wakes it
        server.request("ping")  # is read after the timers


@contextlib.contextmanager
def clock():
    if not LIBRARY.exists():
        raise unittest.SkipTest(f"later: there is no {LIBRARY}")
    with tempfile.NamedTemporaryFile(prefix="sp-later-") as file:
        yield Clock(file)
