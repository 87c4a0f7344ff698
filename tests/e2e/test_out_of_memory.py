"""The answer to code that the kernel killed for memory says where it was, and never a place where it was not."""
import re
import time
import unittest

from client import SLOW, Shared

GROW = "while True: kept.append(bytearray(1 << 20))"
MOST = "import time\nkept = bytearray(180 << 20)\nfor i in range(0, len(kept), 4096): kept[i] = 1\ntime.sleep(.3)\n"


class OutOfMemory(Shared):
    args = ("--memory", "256M")

    def place(self, code, **arguments):
        """The number of the line that the answer names, None where it names none."""
        result = self.server.python(code, timeout_s=60, _timeout=120, **arguments)
        self.assert_kind(result, "out of memory")
        self.assertRegex(result.status.state, "^restored")
        found = re.match(r"\[out of memory: used \d+ of 256 MiB \(--memory\)(?: at <cell \d+>:(\d+) \"(.*?)\")? \| ",
                         result.status.line)
        self.assertTrue(found, result.status.line)
        if found[1]:
            self.assertEqual(found[2], code.split("\n")[int(found[1]) - 1].strip())
        return found[1] and int(found[1])

    def assert_place(self, code, line):
        """Fast code may die before anybody has seen it near the limit: then no place is named, but not always."""
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

    def test_the_line_that_goes_beyond_and_not_the_one_that_took_most(self):
        self.assert_place(MOST + "kept = [kept]\n" + GROW, 6)

    def test_each_session_its_own(self):
        call = self.server.start_call("run_python", session="other",
                                      code="import os\nn = 1\nwhile not os.path.exists('end'): pass\nos.remove('end')")
        self.assert_place("kept = []\n\n\n\n" + GROW, 5)
        self.assert_ok(self.server.python("open('end', 'w').close()"))
        self.assert_ok(self.server.finish_call(call))

    def test_code_that_stays_below_the_limit_is_left_alone(self):
        """Also where it has a handler of its own for another signal, and has taken away the one of this."""
        code = ("import signal\nheard = []\nsignal.signal(signal.SIGUSR1, lambda *_: heard.append(1))\n" + MOST +
                "def work(s):\n    end = time.time() + s\n    while time.time() < end: pass\n"
                "x = bytearray(30 << 20)\nwork(.2)\nsignal.signal(62, signal.SIG_DFL)\n"
                "y = bytearray(10 << 20)\nwork(.2)\nprint(heard)\ndel kept, x, y")
        self.assert_prints(self.server.python(code, session="own"), "[]")


if __name__ == "__main__":
    unittest.main()
