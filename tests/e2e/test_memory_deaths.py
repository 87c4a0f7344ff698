"""Who dies when memory runs out: the process that runs the call, again and again, and nobody else.

The named states hold more than the call can take before the limit is met, so a killer that looks at size
alone would choose one of them. Whether a control group counts the memory or the watchdog does not matter.
"""
import unittest

from client import Case, Server, need_userns
from traces import init_of, processes

TIMES = 20
FILL = "filler = []\nwhile True: filler.append(bytearray(2 << 20))"


def oldest_of(server):
    """The first process that pid 1's program has started, which is the zygote, and when."""
    table, init = processes(), init_of(server.pid)
    return min((start, pid) for pid, (parent, start, _) in table.items() if parent == init)


class OutOfMemory(Case):
    def test_only_the_call_dies(self):
        need_userns()
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("other = 'kept'", session="other"))
            zygote = oldest_of(server)
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
            self.assertEqual(oldest_of(server), zygote)
            self.assert_prints(server.python("print(6 * 7)", fresh=True), "42")


if __name__ == "__main__":
    unittest.main()
