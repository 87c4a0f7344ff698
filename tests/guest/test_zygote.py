"""The zygote and the life of sessions: start, preload, marks, descriptors, end."""
import ctypes
import fcntl
import os
import pathlib
import resource
import signal
import sys
import time
import unittest

import fake_server
from base import GuestCase, each_python

DENY = str(pathlib.Path(__file__).resolve().parents[1] / "helpers" / "deny.py")


class Zygote(GuestCase):
    preload = "json,no_such_module_here"

    def test_ready_names_the_interpreter(self):
        ready = self.guest.ready
        self.assertEqual(self.value("import sys; '%d.%d.%d' % sys.version_info[:3]"), repr(ready["python"][0]))
        self.assertEqual(self.value("sys.executable"), repr(ready["executable"][0]))

    def test_preload(self):
        self.assertEqual(self.value("import sys; 'json' in sys.modules"), "True")

    def test_session_is_marked(self):
        soft, hard = resource.prlimit(self.session.pid, resource.RLIMIT_MSGQUEUE)
        self.assertEqual((soft, hard), (4242, 4242))
        with open("/proc/%d/oom_score_adj" % self.session.pid) as file:
            self.assertEqual(file.read().strip(), "1000")
        self.assertEqual(os.getsid(self.session.pid), self.session.pid)

    def test_session_is_not_the_zygotes_child(self):
        with open("/proc/%d/stat" % self.session.pid) as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        self.assertNotEqual(parent, self.guest.process.pid)

    def test_only_expected_descriptors(self):
        fds = self.value("import os; sorted(int(f) for f in os.listdir('/proc/self/fd') if int(f) not in (0, 1, 2))")
        numbers = [int(part) for part in fds.strip("[]").split(",")]
        self.assertTrue(all(n >= 64 for n in numbers[1:]), numbers)  # the first is listdir's own
        self.assertEqual(self.run_ok("import subprocess\nsubprocess.run(['ls', '/proc/self/fd'])\nNone").out.split(),
                         ["0", "1", "2", "3"])

    def test_end_of_file_ends_a_session(self):
        pid = self.session.pid
        self.session.sock.close()
        for _ in range(200):
            try:
                with open("/proc/%d/stat" % pid) as file:
                    if " Z " in file.read():
                        return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.01)
        self.fail("the session lives on")

    def test_exit_runs_atexit(self):
        self.run_ok("import atexit; atexit.register(print, 'bye')")
        self.session.sock.sendall(fake_server.pack("exit"))
        self.assertEqual(os.read(self.session.out, 100), b"bye\n")

    def test_death_of_a_session_leaves_the_zygote(self):
        for code in ("import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"):
            session = self.guest.session()
            session.send(code)
            with self.assertRaises((EOFError, ConnectionError)):
                session.receive()
        self.assertEqual(self.guest.session().run("1").value, "1")

    def spares(self):
        """Processes of this guest that are neither the zygote nor a session nor a checkpoint of one."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                here = os.readlink("/proc/%s/cwd" % name) == os.path.realpath(self.guest.folder.name)
                tag = resource.prlimit(int(name), resource.RLIMIT_MSGQUEUE)[0]
            except OSError:
                continue
            if here and tag != 4242 and int(name) != self.guest.process.pid:
                found.append(int(name))
        return found

    def settled_spares(self):
        """The process that forks a spare is there for a moment too."""
        seen, same, end = [], 0, time.monotonic() + 10
        while (not seen or same < 5) and time.monotonic() < end:
            time.sleep(0.02)
            last, seen = seen, self.spares()
            same = same + 1 if last == seen else 0
        return seen

    def test_a_spare_waits_and_may_be_killed(self):
        for turn in range(2):
            (spare,) = self.settled_spares()
            if turn == 0:
                self.assertEqual(self.guest.session().pid, spare)
            else:
                os.kill(spare, signal.SIGKILL)
                time.sleep(0.2)
                session = self.guest.session()
                self.assertEqual(session.run("1").value, "1")

    def test_handlers_that_raise_hit_cells_only(self):
        self.run_ok("import signal\ndef handler(*_): raise TimeoutError('tick')\n"
                    "signal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\nNone")
        replies = [self.session.run("x = %d" % i) for i in range(200)]
        self.assertTrue({reply.error_type for reply in replies} <= {None, "TimeoutError"})
        for _ in range(20):
            if self.session.run("signal.signal(signal.SIGALRM, signal.SIG_IGN)").status == "ok":
                break
        self.assertEqual(self.value("1"), "1")

    def test_zygote_ignores_interrupts(self):
        os.kill(self.guest.process.pid, signal.SIGINT)
        self.assertEqual(self.guest.session().run("1").value, "1")

    def test_output_of_c_stdio_and_floods(self):
        reply = self.run_ok("import ctypes\nctypes.CDLL(None).printf(b'from c\\n')\nNone")
        self.assertEqual(reply.out, "from c\n")
        self.assertEqual(len(self.run_ok("print('x' * 3_000_000)").out), 3000001)

    def test_stderr_after_stdout_that_came_first(self):
        # both on one pipe show the order
        reply = self.run_ok("import os, sys\nos.dup2(1, 2)\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')")
        self.assertEqual(reply.out, "a\nb\nc\n")

    def test_stack_of_a_stuck_session(self):
        fd = os.memfd_create("stack")
        session = self.guest.session(stack_fd=fd)
        session.send("import time\ntime.sleep(1)")
        time.sleep(0.4)
        os.kill(session.pid, signal.SIGUSR1)
        self.assertEqual(session.receive().status, "ok")
        self.assertIn(b'File "<cell 1>", line 2 in <module>', os.pread(fd, 4096, 0))
        os.close(fd)


@unittest.skipIf(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1, "landlock: this kernel has none")
class Unconfined(GuestCase):
    wrap = (sys.executable, DENY, "landlock_restrict_self", "--")

    @classmethod
    def setUpClass(cls):
        execute = (1).to_bytes(8, sys.byteorder)  # any right will do
        made = ctypes.CDLL(None).syscall(444, execute, ctypes.c_size_t(len(execute)), 0)
        cls.ruleset_fd = fcntl.fcntl(made, fcntl.F_DUPFD, 10)
        os.close(made)
        cls.addClassCleanup(os.close, cls.ruleset_fd)
        super().setUpClass()

    def test_no_code_runs_without_the_domain_that_the_kernel_offers(self):
        self.assertEqual(self.session.hello["refused"], ["landlock_restrict_self"])
        with self.assertRaises((EOFError, ConnectionError)):
            self.session.run("open('ran', 'w')")
        self.assertEqual(os.listdir(self.guest.folder.name), [".tmp"])


each_python(globals())
