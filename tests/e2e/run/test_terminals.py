"""Pseudo-terminals: programs that need a terminal get one of their own."""
import unittest

from client import Shared
from container_level import CONTAINER


class Terminals(Shared):
    def setUp(self):
        if "True" not in self.server.python("import os; print(os.path.exists('/dev/ptmx'))").output or CONTAINER:
            self.skipTest("terminals: this level or kernel has none for the sandbox")

    def out(self, code):
        result = self.server.python(code)
        self.assert_ok(result)
        return result.output

    def test_a_child_sees_a_terminal(self):
        code = ("import pty, sys\nparts = []\n"
                "def read(fd):\n    data = os.read(fd, 999); parts.append(data); return b''\n"
                "import os\nprint(os.waitstatus_to_exitcode(pty.spawn([sys.executable, '-c', 'import os; print(os.isatty(0), os.ctermid())'], read)) "
                "if sys.version_info >= (3, 9) else 0)\nprint(b''.join(parts))")
        self.assertIn("True /dev/tty", self.out(code))

    def test_modes_and_sizes(self):
        code = ("import fcntl, os, struct, termios, tty\nmaster, slave = os.openpty()\n"
                "fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('4H', 31, 97, 0, 0))\n"
                "print(os.get_terminal_size(master))\ntty.setraw(slave)\nos.write(master, b'a\\r')\nprint(os.read(slave, 9))\n"
                "print(termios.tcgetattr(slave)[3] & termios.ECHO)\nos.close(master); os.close(slave)")
        self.assertEqual(self.out(code).splitlines(), ["os.terminal_size(columns=97, lines=31)", "b'a\\r'", "0"])

    def test_an_interrupt_key_reaches_the_child_only(self):
        code = ("import os, pty, signal, sys\npid, fd = pty.fork()\n"
                "if pid == 0: os.execv(sys.executable, [sys.executable, '-c', 'import signal, time; signal.signal(2, signal.SIG_DFL); '\n"
                "                                             'print(1, flush=True); time.sleep(600)'])\n"
                "os.read(fd, 9); os.write(fd, b'\\x03')\nwhile True:\n    try:\n        if not os.read(fd, 999): break\n"
                "    except OSError: break\nprint(os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGINT)")
        self.assertTrue(self.out(code).endswith("True"))

    def test_programs_for_terminals(self):
        code = "import shutil, subprocess\nprint(subprocess.check_output(['script', '-qec', 'tty && stty size', '/dev/null'], text=True) if shutil.which('script') else 'none')"
        self.assertRegex(self.out(code), r"^(none|/dev/pts/\d+\s+0 0)")

    def test_the_last_one_is_named(self):
        result = self.server.python("import os\nmany = []\nwhile True: many += os.openpty()")
        self.assertIn("all 32 pseudo-terminals are in use", result.text)
        self.out("for fd in many: os.close(fd)")
        for _ in range(6):  # checkpoints of earlier calls hold them too
            self.server.python("x = 1")
        self.assertLess(int(self.out("print(len(os.listdir('/dev/pts')))")), 8)


@unittest.skipUnless(CONTAINER, "isolation: only at level container")
class WithoutTerminals(Shared):
    def test_the_level_is_named(self):
        self.assertIn("pseudo-terminals are unavailable at this isolation level",
                      self.server.python("import pty\npty.fork()").text)


if __name__ == "__main__":
    unittest.main()
