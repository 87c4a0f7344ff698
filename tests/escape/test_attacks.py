"""Every attack of attacks.py and shared.py must come to nothing; every control beside it must work.

One server serves them all: surviving the attacks is part of what is tested.
"""
import ctypes
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from attacks import ATTACKS  # noqa: E402
from client import Case, Server, is_denied, need_userns  # noqa: E402
from shared import SHARED  # noqa: E402
from world import LIBC, World  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()


def landlock_version():
    """What this kernel offers the server; -1: nothing. The number is the same on all architectures."""
    if is_denied("landlock_create_ruleset"):
        return -1
    return LIBC.syscall(444, None, ctypes.c_size_t(0), 1)


class Attacks(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.world = World()
        env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        cls.server = Server(env={**env, "SP_BAIT": cls.world.secret})
        cls.server.must_be_contained()
        cls.told = repr(cls.world.told(cls.server.pid))

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.world.close()

    def run_inside(self, code, limit_s=20):
        """Each attack gets a fresh session, so that none prepares the next one's ground."""
        result = self.server.python(f"{PRELUDE}\nW = {self.told}\n", reset=True, timeout_s=20)
        self.assert_ok(result)
        return self.server.python(code, limit_s + 40, timeout_s=limit_s)

    def check(self, attack):
        if attack.needs == "landlock" and landlock_version() < 6:
            self.skipTest("landlock: version 6 or newer")
        result = self.run_inside(attack.code, attack.limit_s)
        said = result.output if result.status.kind == "ok" else result.status.line
        self.assertTrue(said, "the attack said nothing: it is broken")
        for line in said.split("\n"):
            self.assertTrue(re.fullmatch(attack.held, line), f"{attack.name} printed: {line}")
        self.assertNotIn(self.world.secret, result.text)
        self.assertEqual(self.world.unharmed(), [])
        self.assert_alive(self.server)

    def control(self, attack):
        result = self.run_inside(attack.control)
        self.assert_ok(result)
        for line in result.output.split("\n"):
            self.assertTrue(re.fullmatch(attack.control_holds, line),
                            f"control of {attack.name} printed: {line}")


def add_cases():
    controls = set()
    for attack in [*ATTACKS, *SHARED]:
        assert not hasattr(Attacks, f"test_{attack.name}"), attack.name
        setattr(Attacks, f"test_{attack.name}", lambda self, a=attack: self.check(a))
        if attack.control not in controls:
            controls.add(attack.control)
            setattr(Attacks, f"test_{attack.name}__control", lambda self, a=attack: self.control(a))


add_cases()

if __name__ == "__main__":
    unittest.main()
