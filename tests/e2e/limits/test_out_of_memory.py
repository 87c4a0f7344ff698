"""When memory runs out: which process dies, and which line of code the result names."""
import re
import time
import unittest

from client import SLOW, Case, Server, Shared, need_userns, size, writable_cgroup
from container_level import CONTAINER
from traces import oldest_of

GROW = "while True: kept.append(bytearray(1 << 20))"
MOST = "import time\nkept = bytearray(180 << 20)\nfor i in range(0, len(kept), 4096): kept[i] = 1\ntime.sleep(.3)\n"
TIMES = size(20, 8)
FILL = "filler = []\nwhile True: filler.append(bytearray(2 << 20))"


class OutOfMemory(Shared):
    args = ("--memory", "256M")

    def place(self, code, **arguments):
        """The number of the line that the result names, or None."""
        result = self.server.python(code, timeout_s=60, _timeout=120, **arguments)
        self.assert_kind(result, "out of memory")
        self.assertRegex(result.status.state, "^restored")
        found = re.match(r"\[out of memory: used \d+ of 256 MiB \(--memory\)(?:, which all sessions share: it is not known [a-z ]+)?(?: at <cell \d+>:(\d+) \"(.*?)\")? \| ",
                         result.status.line)
        self.assertTrue(found, result.status.line)
        if found[1]:
            self.assertEqual(found[2], code.split("\n")[int(found[1]) - 1].strip())
        return found[1] and int(found[1])

    def assert_place(self, code, line):
        """Fast code may die before it is seen near the limit; then no line is named, but not in every attempt."""
        end = time.monotonic() + 30 * SLOW
        places = {self.place(code)}
        while places == {None} and time.monotonic() < end:
            places.add(self.place(code))
        self.assertEqual(places - {None}, {line})

    def test_python(self):
        self.assert_place("n = 1\nkept = []\n" + GROW, 3)

    def test_one_big_value(self):
        self.assert_place("kept = 1\nx = bytearray(1500 << 20)\nprint(len(x))", 2)

    def test_native_code(self):
        if self.server.python("import numpy").is_error:
            self.skipTest("numpy: not there")
        self.assert_place("import numpy\nn = 200_000_000\nx = numpy.ones(n)", 3)

    def test_a_thread(self):
        code = ("import threading, time\nkept = []\ndef grow():\n  while True:\n    kept.append(bytearray(1 << 22))\n"
                "t = threading.Thread(target=grow)\nt.start()\nt.join()")
        self.assert_place(code, 5)

    def test_the_line_that_exceeds_the_limit_is_named(self):
        self.assert_place(MOST + "kept = [kept]\n" + GROW, 6)

    def test_files_in_memory_are_named(self):
        if CONTAINER or not writable_cgroup("memory"):
            self.skipTest("no writable cgroup: nothing counts files")
        self.assert_ok(self.server.python("with open('big', 'wb') as f:\n  for i in range(90): f.write(bytes(1 << 20))"))
        try:
            result = self.server.python("kept = []\n" + GROW, timeout_s=60, _timeout=120)
            found = re.match(r"\[out of memory: used \d+ of 256 MiB \(--memory\), (\d+) MiB of it in files", result.status.line)
            self.assertTrue(found and 90 <= int(found[1]) < 120, result.status.line)
        finally:
            self.server.python("import os; os.remove('big')")

    def test_each_session_has_its_own_place(self):
        call = self.server.start_call("run_python", session="other",
                                      code="import os\nn = 1\nwhile not os.path.exists('end'): pass\nos.remove('end')")
        self.assert_place("kept = []\n\n\n\n" + GROW, 5)
        self.assert_ok(self.server.python("open('end', 'w').close()"))
        self.assert_ok(self.server.finish_call(call))

    def test_code_that_stays_below_the_limit_is_not_interrupted(self):
        """Holds too if the code handles another signal and has removed the handler of this one."""
        code = ("import signal\nreceived = []\nsignal.signal(signal.SIGUSR1, lambda *_: received.append(1))\n" + MOST +
                "def work(s):\n    end = time.time() + s\n    while time.time() < end: pass\n"
                "x = bytearray(30 << 20)\nwork(.2)\nsignal.signal(62, signal.SIG_DFL)\n"
                "y = bytearray(10 << 20)\nwork(.2)\nprint(received)\ndel kept, x, y")
        self.assert_prints(self.server.python(code, session="own"), "[]")


class Victim(Case):
    """In each of many attempts only the process that runs the call dies.

    The named states have more memory than the call can allocate before the limit, so a choice by size alone would kill
    one of them; but it is the session's too, so none of them makes way. It does not matter whether a control group or the watchdog counts the memory.
    """

    def test_only_the_call_dies(self):
        need_userns()
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("other = 'kept'", session="other"))
            zygote = oldest_of(server)
            self.assert_ok(server.python("held = bytearray(b'a' * (60 << 20))", checkpoint="a"))
            self.assert_ok(server.python("more = bytearray(b'b' * (60 << 20))", checkpoint="b"))
            self.assert_ok(server.python("small = 1", checkpoint="c"))
            for number in range(TIMES):
                result = server.python("small = 2\n" + FILL, timeout_s=60)
                with self.subTest(number=number, said=result.status.line):
                    self.assert_kind(result, "out of memory")
                    self.assertEqual(result.status.state, "restored to the state before this call")
                    self.assertIsNone(result.status.field("since the last result"))
            self.assert_prints(server.python("print(small, 'held' in globals())"), "1 True")
            self.assert_prints(server.python("print(held[:2], more[-2:])", restore="b"), "bytearray(b'aa') bytearray(b'bb')")
            self.assert_prints(server.python("print(held[-2:], 'more' in globals())", restore="a"),
                               "bytearray(b'aa') False")
            self.assert_prints(server.python("print(small)", restore="c"), "1")
            self.assert_prints(server.python("print(other)", session="other"), "kept")
            self.assertEqual(oldest_of(server), zygote)
            self.assert_prints(server.python("print(6 * 7)", fresh=True), "42")

    def test_files_that_fill_the_memory(self):
        """The state survives, and `undo` takes the files back, also after another call that had no memory left. Where no
        control group counts files as memory, the disk is full before."""
        if CONTAINER or not writable_cgroup("memory"):
            self.skipTest("no control group counts")
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("kept = 42; held = bytearray(b'a') * (140 << 20)"))
            result = server.python("while True: open('filler', 'ab').write(bytes(1 << 20))", timeout_s=60)
            self.assert_kind(result, "out of memory")
            self.assertEqual(result.status.state, "restored to the state before this call")
            self.assertIn("+filler", result.status.line)
            self.assertIn("`undo` reverts them", result.status.line)
            self.assert_kind(server.python(FILL, timeout_s=60), "out of memory")
            for _ in range(2):
                self.assert_ok(server.python("", undo=True))
            self.assert_prints(server.python("import os; print(kept, len(held) >> 20, os.listdir())"), "42 140 []")


if __name__ == "__main__":
    unittest.main()
