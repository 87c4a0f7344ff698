"""A few of the rows of tests/libraries, with what this machine has: outside, inside, and in what came back."""
import os
import sys
import unittest

from client import SLOW, Case, once

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "libraries"))
import run  # noqa: E402
from table import SELECTION  # noqa: E402

PYTHON = "/usr/bin/python3"
LIMIT_S = 60


@once
class RealLibraries(Case):
    """`make check-libraries` uses all."""


def add(name):
    def test(self):
        lines, right, _ = run.check(name, PYTHON, LIMIT_S * SLOW)
        if right is None:
            self.skipTest("\n".join(lines))
        self.assertTrue(right, "\n".join(lines))

    setattr(RealLibraries, "test_" + "".join(letter if letter.isalnum() else "_" for letter in name), test)


for each in SELECTION:
    add(each)

if __name__ == "__main__":
    unittest.main()
