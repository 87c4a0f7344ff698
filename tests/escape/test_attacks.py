"""The attacks of attacks.py and shared.py."""
import ctypes
import unittest

from attacks import ATTACKS
from check import Attacked, add_cases
from shared import SHARED
from world import LIBC

from client import is_denied, once


def landlock_version():
    """The Landlock version that the server can use; -1: none. The call has the same number on all architectures."""
    if is_denied("landlock_create_ruleset"):
        return -1
    return LIBC.syscall(444, None, ctypes.c_size_t(0), 1)


class Attacks(Attacked):
    def skip_unless(self, needs):
        if needs == "landlock" and landlock_version() < 6:
            self.skipTest("landlock: version 6 or newer")


add_cases(Attacks, [*ATTACKS, *SHARED])
once(Attacks.test_a_million_files)

if __name__ == "__main__":
    unittest.main()
