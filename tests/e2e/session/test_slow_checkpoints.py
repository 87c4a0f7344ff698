"""A checkpoint that takes long: calls wait for it or say that it is not there yet, and no state is lost for it."""
import time
import unittest

from client import Case, Server

# The interpreter is copied while the gate is open, or x is 1.
GATE = """\
import os, time
def wait():
    while x > 1 and open('gate').read() == 'shut': time.sleep(0.02)
os.register_at_fork(before=wait)
x = 1"""


class SlowCheckpoint(Case):
    def setUp(self):
        self.server = Server().__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.server.write("gate", "open")
        self.assert_ok(self.slow(GATE, checkpoint="one"))

    def slow(self, code, **arguments):
        return self.server.python(code, session="slow", **arguments)

    def gate(self, state):
        self.server.write("gate", state, mode="overwrite")

    def shut_after_next_call(self):
        self.gate("shut")
        self.assert_ok(self.slow("x = 2"))

    def test_the_next_call_waits_beyond_its_limit(self):
        self.shut_after_next_call()
        call = self.server.start_call("run_python", code="x += 1; print(x)", session="slow", timeout_s=0.3)
        time.sleep(2.5)  # an interrupt would kill the interpreter by now
        self.gate("open")
        result = self.server.finish_call(call)
        self.assert_prints(result, "3")
        self.assertRegex(result.status.line, r"waited \d+ s for the state after <cell 2> to be saved")
        self.assertEqual(self.slow("x").text.split("\n")[0], "Out: 3")

    def test_calls_are_refused_and_work_later(self):
        self.shut_after_next_call()
        for more in ({"code": "x = 5"}, {"code": "", "restore": "one"}, {"code": "", "checkpoint": "two"}):
            with self.subTest(**more):
                result = self.slow(timeout_s=0.3, **more)
                self.assertTrue(result.is_error)
                self.assertIn("Nothing was run: the state after <cell 2> is still being saved. Try again", result.text)
        self.gate("open")
        result = self.slow("print(x)", checkpoint="two")
        self.assert_prints(result, "2")
        self.assertIn('checkpoint: saved as "two"', result.status.line)
        self.assert_prints(self.slow("print(x)", restore="one"), "1")
        self.assert_prints(self.slow("print(x)", restore="two"), "2")

    def test_a_cancelled_call_kills_nothing(self):
        self.shut_after_next_call()
        call = self.server.start_call("run_python", code="x = 5", session="slow")
        time.sleep(0.3)
        self.server.cancel(call)
        time.sleep(2.5)
        self.gate("open")
        self.assert_prints(self.slow("print(x)"), "2")

    def test_a_named_state_is_there_later(self):
        self.gate("shut")
        result = self.slow("x = 2", checkpoint="two")
        self.assert_ok(result)
        self.assertIn('checkpoint: not yet saved as "two": still being saved', result.status.line)
        self.gate("open")
        self.assert_ok(self.slow("x = 3"))
        self.assert_prints(self.slow("print(x)", restore="two"), "2")
        self.assert_prints(self.slow("print(x)", undo=True), "3")

    def test_a_named_state_that_never_comes_is_reported(self):
        self.gate("shut")
        self.assertIn("not yet saved", self.slow("x = 2", checkpoint="two").status.line)
        result = self.slow("print(x)", undo=True)
        self.assert_prints(result, "1")
        self.assertIn('the state "two" is lost', self.slow("print(x)").status.line + result.status.line)
        self.assertIn('no state is named "two"', self.slow("1", restore="two").text)

    def test_undo_waits_for_nothing(self):
        self.shut_after_next_call()
        self.assert_prints(self.slow("print(x)", undo=True), "1")


if __name__ == "__main__":
    unittest.main()
