"""The attacks of attacks.py, network_attacks.py, call_attacks.py and shared.py."""
import unittest

from attacks import ATTACKS
from call_attacks import CALL_ATTACKS
from check import Attacked, add_cases
from network_attacks import NETWORK_ATTACKS
from shared import SHARED

from client import landlock_version, once


class Attacks(Attacked):
    def skip_unless(self, needs):
        if needs == "landlock" and landlock_version() < 6:
            self.skipTest("landlock: version 6 or newer")


add_cases(Attacks, [*ATTACKS, *NETWORK_ATTACKS, *CALL_ATTACKS, *SHARED])
once(Attacks.test_a_million_files)

if __name__ == "__main__":
    unittest.main()
