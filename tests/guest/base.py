"""Runs each test class once for every interpreter in SANDPIPER_TEST_PYTHONS."""
import unittest

import fake_server


class GuestCase(unittest.TestCase):
    """One zygote per class, one fresh session per test. `each_python` makes the concrete classes."""

    python = None
    preload = ""
    options = ""
    wrap = ()
    ruleset_fd = None  # of Landlock, which init makes

    @classmethod
    def setUpClass(cls):
        if cls.python is None:
            raise unittest.SkipTest("base class")
        cls.guest = fake_server.Guest(cls.python, cls.preload, cls.options, cls.wrap, cls.ruleset_fd)
        cls.addClassCleanup(cls.guest.close)

    def setUp(self):
        self.session = self.guest.session()

    def run_ok(self, code, **more):
        reply = self.session.run(code, **more)
        self.assertEqual(reply.status, "ok", reply)
        return reply

    def value(self, code, **more):
        return self.run_ok(code, **more).value

    def version(self):
        return tuple(int(part) for part in self.guest.ready["python"][0].split(".")[:2])


def each_python(namespace):
    """Replaces each GuestCase class of a test module with one per interpreter."""
    for name, case in list(namespace.items()):
        if isinstance(case, type) and issubclass(case, GuestCase) and case is not GuestCase:
            del namespace[name]
            for number, python in enumerate(fake_server.PYTHONS):
                made = type("%s_%d" % (name, number), (case,), {"python": python, "__module__": case.__module__})
                namespace[made.__name__] = made
