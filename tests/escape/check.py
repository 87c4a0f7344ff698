"""What a suite of attacks has in common: one server serves them all, so that surviving them is part of
what is tested. Every attack must come to nothing; every control beside it must work."""
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import grades  # noqa: E402
from client import Case, Server, need_userns  # noqa: E402
from world import World  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()


class Judge(Case):
    options = ()
    ground = ""  # code that runs before each attack
    written_for_work = True  # /work and /tmp in the code are the sandbox's own, however they are called

    @classmethod
    def setUpClass(cls):
        cls.need()
        cls.world = World()
        env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        cls.server = Server(*cls.options, env={**env, "SP_BAIT": cls.world.secret})
        cls.must_hold()
        cls.told = repr(cls.world.told(cls.server.pid))

    @classmethod
    def need(cls):
        need_userns()

    @classmethod
    def must_hold(cls):
        cls.server.must_be_contained()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.world.close()

    def run_inside(self, code, limit_s=20):
        """Each attack gets a fresh session, so that none prepares the next one's ground."""
        result = self.server.python(f"{PRELUDE}\nW = {self.told}\n{self.ground}", reset=True, timeout_s=20)
        self.assert_ok(result)
        code = self.server.here(code) if self.written_for_work else code
        return self.server.python(code, limit_s + 40, timeout_s=limit_s)

    def skip_unless(self, needs):
        """Skips an attack that this machine cannot be asked to hold."""

    def judge(self, attack):
        self.skip_unless(attack.needs)
        result = self.run_inside(attack.code, attack.limit_s)
        said = result.output if result.status.kind == "ok" else result.status.line
        self.assertTrue(said, "the attack said nothing: it is broken")
        self.assertNotIn(self.world.secret, result.text)
        self.assertEqual(self.world.unharmed(), [])
        self.assert_alive(self.server)
        held = attack.held
        if grades.CONTAINER:
            if attack.name in grades.OUTSIDE:
                self.skipTest(f"isolation: {grades.OUTSIDE[attack.name]}")
            held = "|".join((held, grades.REFUSED, grades.HELD.get(attack.name, held)))
        for line in said.split("\n"):
            self.assertTrue(re.fullmatch(held, line), f"{attack.name} printed: {line}, among\n{said}")

    def control(self, attack):
        if grades.CONTAINER and attack.name in grades.NO_CONTROL:
            self.skipTest("isolation: the control needs what this grade has not")
        result = self.run_inside(attack.control)
        self.assert_ok(result)
        for line in result.output.split("\n"):
            self.assertTrue(re.fullmatch(attack.control_holds, line),
                            f"control of {attack.name} printed: {line}")


def add_cases(case, attacks):
    controls = set()
    for attack in attacks:
        assert not hasattr(case, f"test_{attack.name}"), attack.name
        setattr(case, f"test_{attack.name}", lambda self, a=attack: self.judge(a))
        if attack.control not in controls:
            controls.add(attack.control)
            setattr(case, f"test_{attack.name}__control", lambda self, a=attack: self.control(a))
