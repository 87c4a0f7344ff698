"""The zygote and the life of sessions: start, preload, marks, descriptors, exit."""
import ctypes
import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import unittest

import fake_server
from base import GuestCase, each_python

DENY = str(pathlib.Path(__file__).resolve().parents[1] / "helpers" / "deny.py")


TIE = """
import os, signal, sys, time
own = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), own)
parent = os.getpid()
reading, writing = os.pipe()
if os.fork() == 0:
    between = os.getpid()
    if os.fork() == 0:
        if sys.argv[2] == "dead":
            while os.getppid() in (parent, between): time.sleep(0.001)
        own["tie"](parent, between)
        os.write(1, b"tied ")
        os.write(writing, b"1")
        if sys.argv[2] == "living": signal.pause()
    os._exit(0)
if sys.argv[2] == "living":
    os.read(reading, 1)
"""


class Tie(unittest.TestCase):
    """At level `container` no pid namespace ends the processes of a sandbox whose supervisor was killed."""

    def play(self, parent):
        """What a process writes that is tied to this parent. Returns when it has ended, which closes the pipe."""
        # The parent adopts what the intermediate process has forked, as the supervisor does.
        adopt = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        native = str(pathlib.Path(__file__).resolve().parents[2] / "guest" / "native.py")
        return subprocess.run([sys.executable, "-c", adopt + TIE, native, parent], stdout=subprocess.PIPE,
                              timeout=60).stdout

    def test_a_process_ends_with_its_parent(self):
        self.assertEqual(self.play("living"), b"tied ")

    def test_a_process_whose_parent_has_exited_before_ends(self):
        self.assertEqual(self.play("dead"), b"")


class Nice(GuestCase):
    """From 3.12 on os.fork counts threads by field 20 of /proc/self/stat, split at spaces; field 19 is the nice value."""

    wrap = ("nice", "-n", "5")

    def test_a_fork_is_not_taken_for_one_of_several_threads(self):
        reply = self.run_ok("import os\nprocess = os.fork()\nif not process: os._exit(0)\nos.waitpid(process, 0)\n"
                            "print(os.getpriority(os.PRIO_PROCESS, 0) >= 5, open('/proc/self/comm').read())")
        self.assertEqual((reply.err, reply.out), ("", "True sp-session-defa\n\n"))


class Zygote(GuestCase):
    preload = "json,no_such_module_here"

    def test_ready_names_the_interpreter(self):
        ready = self.guest.ready
        self.assertEqual(self.value("import sys; '%d.%d.%d' % sys.version_info[:3]"), repr(ready["python"][0]))

    def test_preload(self):
        self.assertEqual(self.value("import sys; 'json' in sys.modules"), "True")

    def test_session_is_marked(self):
        soft, hard = resource.prlimit(self.session.pid, resource.RLIMIT_MSGQUEUE)
        self.assertEqual((soft, hard), (4242, 4242))
        self.assertEqual(os.getsid(self.session.pid), self.session.pid)

    def test_session_is_not_the_zygotes_child(self):
        with open("/proc/%d/stat" % self.session.pid) as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        self.assertNotEqual(parent, self.guest.process.pid)

    def test_only_expected_descriptors(self):
        fds = self.value("import os; sorted(int(f) for f in os.listdir('/proc/self/fd') if int(f) not in (0, 1, 2))")
        numbers = [int(part) for part in fds.strip("[]").split(",")]
        self.assertTrue(all(n >= 64 for n in numbers[1:]), numbers)  # the first belongs to listdir
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

    def test_the_zygote_survives_the_death_of_a_session(self):
        for code in ("import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"):
            session = self.guest.session()
            session.send(code)
            with self.assertRaises((EOFError, ConnectionError)):
                session.receive()
        self.assertEqual(self.guest.session().run("1").value, "1")

    def test_server_sets_the_largest_state_with_a_checkpoint(self):
        for measure_from, most, measured, unprotected in (
                (1, 1, True, "1"), (1, 1 << 30, True, None), (1 << 40, 1 << 40, False, None)):
            session = self.guest.session(measure_from=measure_from, checkpoint_most=most)
            reply = session.run("1")
            self.assertEqual((reply.memory is not None, reply.unprotected), (measured, unprotected), reply)

    def test_a_checkpoint_copies_few_pages_before_it_sleeps(self):
        self.run_ok("x = 1")
        self.run_ok("x = 2")  # behind this result is the report of the first checkpoint
        for _ in range(1000):
            with open("/proc/%d/stat" % self.session.checkpoint) as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            if name == "sp-checkpoint":
                break
            time.sleep(0.01)
        self.assertLess(int(rest.split()[7]), 70)  # minor faults

    def test_handlers_that_raise_hit_cells_only(self):
        self.run_ok("import signal\nhits = 0\ndef handler(*_):\n    global hits\n    hits += 1\n"
                    "    if hits >= 50: signal.setitimer(signal.ITIMER_REAL, 0)\n    raise TimeoutError('tick')\n"
                    "signal.signal(signal.SIGALRM, handler)\nNone")
        replies = [self.session.run("signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\nNone")]
        while int(replies[-1].value or 0) < 50:  # more: a handler interrupts a handler
            replies.append(self.session.run("hits"))
            self.assertLess(len(replies), 1000)
        self.assertEqual([reply for reply in replies if reply.error_type not in (None, "TimeoutError")
                          or "was collected" in str(reply)], [])
        self.assertEqual(self.value("1"), "1")

    def test_a_handler_that_raises_behind_the_cell_ends_no_cell(self):
        """The handler runs as the driver's method begins, which the method itself can not catch."""
        self.assertEqual(self.value(
            "import signal, sys\ndef handler(*_): raise TimeoutError('tick')\nsignal.signal(signal.SIGALRM, handler)\n"
            "frame = sys._getframe()\nwhile 'SESSION' not in frame.f_globals: frame = frame.f_back\n"
            "driver, hits = frame.f_globals['SESSION'], []\n"
            "def hold():\n    hits.append(1)\n    if len(hits) < 3: signal.raise_signal(signal.SIGALRM)\n"
            "    return type(driver).hold_signals(driver)\n"
            "driver.hold_signals = hold\n7"), "7")
        self.assertGreaterEqual(int(self.value("len(hits)")), 3)

    def test_zygote_ignores_interrupts(self):
        os.kill(self.guest.process.pid, signal.SIGINT)
        self.assertEqual(self.guest.session().run("1").value, "1")

    def test_output_of_c_stdio_and_floods(self):
        reply = self.run_ok("import ctypes\nctypes.CDLL(None).printf(b'from c\\n')\nNone")
        self.assertEqual(reply.out, "from c\n")
        self.assertEqual(len(self.run_ok("print('x' * 3_000_000)").out), 3000001)

    def test_stderr_after_stdout_that_came_first(self):
        # One pipe for both shows the order.
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


class Spares(GuestCase):
    """None waits behind the first session, which most servers leave the only one: the second one makes the next."""

    def spares(self):
        """Processes of this guest that are neither the zygote nor a session nor a checkpoint of one."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                here = os.readlink("/proc/%s/cwd" % name) == os.path.realpath(self.guest.directory.name)
                tag = resource.prlimit(int(name), resource.RLIMIT_MSGQUEUE)[0]
            except OSError:
                continue
            if here and tag != 4242 and int(name) != self.guest.process.pid:
                found.append(int(name))
        return found

    def steady_spares(self):
        """The spares once the process that forks them has exited."""
        seen, same, end = [], 0, time.monotonic() + 10
        while (not seen or same < 5) and time.monotonic() < end:
            time.sleep(0.02)
            last, seen = seen, self.spares()
            same = same + 1 if last == seen else 0
        return seen

    def test_a_spare_waits_and_may_be_killed(self):
        self.assertEqual(self.session.run("1").value, "1")
        time.sleep(0.3)  # the zygote makes one after 20 ms without a request
        self.assertEqual(self.spares(), [])
        self.guest.session()
        (spare,) = self.steady_spares()
        self.assertEqual(self.guest.session().pid, spare)
        (spare,) = self.steady_spares()
        os.kill(spare, signal.SIGKILL)
        time.sleep(0.2)
        self.assertEqual(self.guest.session().run("1").value, "1")


@unittest.skipIf(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1, "landlock: this kernel has none")
class Unconfined(GuestCase):
    wrap = (sys.executable, DENY, "landlock_restrict_self", "--")

    @classmethod
    def setUpClass(cls):
        execute = (1).to_bytes(8, sys.byteorder)  # any right
        made = ctypes.CDLL(None).syscall(444, execute, ctypes.c_size_t(len(execute)), 0)
        cls.ruleset_fd = fcntl.fcntl(made, fcntl.F_DUPFD, 10)
        os.close(made)
        cls.addClassCleanup(os.close, cls.ruleset_fd)
        super().setUpClass()

    def test_no_code_runs_without_the_domain_that_the_kernel_offers(self):
        self.assertEqual(self.session.hello["refused"], ["landlock_restrict_self"])
        with self.assertRaises((EOFError, ConnectionError)):
            self.session.run("open('ran', 'w')")
        self.assertEqual(os.listdir(self.guest.directory.name), [".tmp"])


each_python(globals())
