"""The base of the attack suites. One server runs all attacks of a suite, so it must also survive them. Every attack
must fail; its control must work."""
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import container_outcomes  # noqa: E402
from client import SLOW, Case, Server, need_userns  # noqa: E402
from world import World  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()


class Attacked(Case):
    options = ()
    ground = ""  # code that runs before each attack
    written_for_work = True  # /work and /tmp in the code are the sandbox's own, whatever their paths

    @classmethod
    def setUpClass(cls):
        cls.need()
        cls.world = World()
        env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        cls.server = Server(*cls.options, env={**env, "SP_CANARY": cls.world.secret})
        cls.must_hold()
        cls.facts = repr(cls.world.facts(cls.server.pid))

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
        """Runs each attack in a fresh session, so that none affects the next."""
        result = self.server.python(f"{PRELUDE}\nW = {self.facts}\n{self.ground}", reset=True, timeout_s=20)
        self.assert_ok(result)
        code = self.server.here(code) if self.written_for_work else code
        return self.server.python(code, limit_s + 40, timeout_s=limit_s)

    def skip_unless(self, needs):
        """Skips an attack that this machine cannot prevent."""

    def assert_goes_on(self):
        """The next call works, as soon as the forks before it have been allowed or refused."""
        deadline = time.monotonic() + 60 * SLOW
        result = self.server.python("print(6 * 7)")
        while "is still being saved" in result.text and time.monotonic() < deadline:
            result = self.server.python("print(6 * 7)")
        self.assert_prints(result, "42")

    def check(self, attack):
        self.skip_unless(attack.needs)
        result = self.run_inside(attack.code, attack.limit_s)
        said = result.output if result.status.kind == "ok" else result.status.line
        self.assertTrue(said, "the attack printed nothing: it is broken")
        self.assertNotIn(self.world.secret, result.text)
        self.assertEqual(self.world.unharmed(), [])
        self.assert_goes_on()
        held = attack.held
        if container_outcomes.CONTAINER:
            if attack.name in container_outcomes.OUTSIDE:
                self.skipTest(f"isolation: {container_outcomes.OUTSIDE[attack.name]}")
            held = "|".join((held, container_outcomes.REFUSED, container_outcomes.HELD.get(attack.name, held)))
        for line in said.split("\n"):
            self.assertTrue(re.fullmatch(held, line), f"{attack.name} printed: {line}, among\n{said}")

    def control(self, attack):
        if container_outcomes.CONTAINER and attack.name in container_outcomes.NO_CONTROL:
            self.skipTest("isolation: the control needs what this level lacks")
        result = self.run_inside(attack.control)
        self.assert_ok(result)
        for line in result.output.split("\n"):
            self.assertTrue(re.fullmatch(attack.control_holds, line),
                            f"control of {attack.name} printed: {line}")


def add_cases(case, attacks):
    controls = set()
    for attack in attacks:
        assert not hasattr(case, f"test_{attack.name}"), attack.name
        setattr(case, f"test_{attack.name}", lambda self, a=attack: self.check(a))
        if attack.control not in controls:
            controls.add(attack.control)
            setattr(case, f"test_{attack.name}__control", lambda self, a=attack: self.control(a))
