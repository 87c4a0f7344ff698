"""Who dies when memory runs out: the process that runs the call, again and again, and nobody else.

The named states hold more than the call can take before the limit is met, so a killer that looks at size
alone would choose one of them. Whether a control group counts the memory or the watchdog does not matter.
"""
import unittest

from client import Case, Server, need_userns

TIMES = 20
FILL = "filler = []\nwhile True: filler.append(bytearray(2 << 20))"
LOWEST = "import os; print(min(int(name) for name in os.listdir('/proc') if name.isdigit() and name != '1'))"


class OutOfMemory(Case):
    def test_only_the_call_dies(self):
        need_userns()
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("other = 'kept'", session="other"))
            zygote = server.python(LOWEST, session="other").output
            self.assert_ok(server.python("held = bytearray(b'a' * (60 << 20))", checkpoint="a"))
            self.assert_ok(server.python("more = bytearray(b'b' * (60 << 20))", checkpoint="b"))
            self.assert_ok(server.python("del held, more; small = 1", checkpoint="c"))
            for number in range(TIMES):
                result = server.python("small = 2\n" + FILL, timeout_s=60)
                with self.subTest(number=number, said=result.status.line):
                    self.assert_kind(result, "out of memory")
                    self.assertEqual(result.status.state, "restored to before this call")
                    self.assertIsNone(result.status.field("before"))
            self.assert_prints(server.python("print(small, 'held' in globals())"), "1 False")
            self.assert_prints(server.python("print(held[:2], more[-2:])", restore="b"), "bytearray(b'aa') bytearray(b'bb')")
            self.assert_prints(server.python("print(held[-2:], 'more' in globals())", restore="a"),
                               "bytearray(b'aa') False")
            self.assert_prints(server.python("print(small)", restore="c"), "1")
            self.assert_prints(server.python("print(other)", session="other"), "kept")
            self.assert_prints(server.python(LOWEST, session="other"), zygote)
            self.assert_prints(server.python("print(6 * 7)", fresh=True), "42")


if __name__ == "__main__":
    unittest.main()
