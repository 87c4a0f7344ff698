"""The level without namespaces: what runs, what code cannot do, and that no process survives the server.

The sandbox's processes are ordinary ones here, so a test can see and kill each of them.
"""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from client import COMMAND, DENY, Case, Server
from traces import descendants, facts_of, processes

CONTAINER = ("--isolation", "container")
# Starts orphans in process sessions of their own, and returns when they run.
ORPHANS = """
import os, time
reading, writing = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, b"%d\\n" % os.getpid())
            while True: time.sleep(1)
        os._exit(0)
    os.wait()
lines = open(reading)
print("started", *(int(lines.readline()) for _ in range(4)))
"""
FLEEING = """
import os
if os.fork() == 0:
    while True:
        try:
            if os.fork(): os._exit(0)
            os.setsid()
        except OSError:
            pass
print("started")
"""


def refusal():
    """The reason why this level is unavailable here, or None."""
    done = subprocess.run([*COMMAND, "doctor", *CONTAINER], capture_output=True, text=True)
    return None if done.returncode < 2 else done.stdout.partition("Tools refuse")[2]


def named(server, name):
    found = []
    for pid in descendants(server.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n") == name[:15]:
                found.append(pid)
        except OSError:
            pass  # the process has exited
    return found


def wait_for_end(pids, within_s=5):
    """The seconds until all of them have exited, or None."""
    began = time.monotonic()
    while time.monotonic() < began + within_s:
        now = processes()
        if not any(pid in now and now[pid][1:2] == (start,) and now[pid][2] not in "ZX"
                   for pid, start in pids):
            return time.monotonic() - began
        time.sleep(0.002)
    return None


class Container(Case):
    @classmethod
    def setUpClass(cls):
        why = refusal()
        if why is not None:
            raise unittest.SkipTest(f"isolation: level container unavailable here: {why.strip()[:200]}")

    def family(self, server):
        return [(pid, facts[1]) for pid in descendants(server.pid) if (facts := facts_of(pid))]

    def started(self, server):
        """Orphans that code has left, which are children of the supervisor by then."""
        result = server.python(ORPHANS)
        self.assertRegex(result.output, "^started( [0-9]+){4}$")
        server.look()
        table = processes()
        return [(int(pid), table[int(pid)][1]) for pid in result.output.split()[1:]]


class Runs(Container):
    def test_sessions_fresh_runs_and_files_work(self):
        with Server(*CONTAINER) as server:
            self.assert_ok(server.python("x = 41"))
            self.assert_prints(server.python("print(x + 1)"), "42")
            self.assert_ok(server.python("assert 'x' not in globals()", fresh=True))
            self.assertFalse(server.write("notes/a.txt", "text").is_error)
            self.assert_prints(server.python("print(open('notes/a.txt').read())"), "text")
            self.assertIn("text", server.read("notes/a.txt").text)

    def test_a_crash_fails_over_to_the_checkpoint(self):
        with Server(*CONTAINER) as server:
            self.assert_ok(server.python("x = 41"))
            self.assert_kind(server.python("import os; os.kill(os.getpid(), 9)"), "crashed")
            self.assert_prints(server.python("print(x + 1)"), "42")

    def test_processes_of_a_session_end_with_it(self):
        with Server(*CONTAINER) as server:
            started = self.started(server)
            self.assert_kind(server.python("import os; os.kill(os.getpid(), 9)"), "crashed")
            self.assertIsNotNone(wait_for_end(started))
            self.assert_prints(server.python("print(1)"), "1")


class Lacks(Container):
    def test_a_missing_kernel_feature_is_named_and_the_server_stays(self):
        for call, layer in (("memfd_create", "privileges: cannot create the directory"), ("capset", "privileges: "),
                            ("landlock_create_ruleset", "landlock: the kernel has none"),
                            ("landlock_restrict_self", "landlock: cannot enter a Landlock domain")):
            with self.subTest(call), Server(*CONTAINER, wrap=[*DENY, call, "--"]) as server:
                for result in (server.python("print(1)"), server.write("a.txt", "text")):
                    self.assertIn(f"The sandbox is not available: {layer}", result.text)


class Refuses(Container):
    def test_files_of_others_and_proc_are_closed(self):
        with Server(*CONTAINER) as server:
            for path in (f"/proc/{server.pid}/environ", "/proc/self/status", "/etc/shadow", os.path.abspath(__file__)):
                with self.subTest(path=path):
                    self.assertIn("PermissionError", server.python(f"open({path!r})").text)

    def test_signals_to_others(self):
        with Server(*CONTAINER) as server:
            for pid in (server.pid, "os.getppid()"):
                with self.subTest(pid=pid):
                    self.assertIn("PermissionError", server.python(f"import os; os.kill({pid}, 9)").text)


class Ends(Container):
    """In each test code has started processes that try to survive."""

    def test_server_killed(self):
        with Server(*CONTAINER, check=False) as server:
            self.started(server)
            self.assert_prints(server.python(FLEEING), "started")
            family = self.family(server)
            server.process.kill()
            server.process.wait()
            self.assertIsNotNone(wait_for_end(family))
            self.assertEqual(server.left(5), [])

    def test_supervisor_killed(self):
        with Server(*CONTAINER) as server:
            self.started(server)
            family = self.family(server)
            supervisor, = named(server, "sandpiper-supervisor")
            os.kill(supervisor, signal.SIGKILL)
            self.assertIsNotNone(wait_for_end([entry for entry in family if entry[0] not in
                                               named(server, "sandpiper-cleanup")]))
            self.assert_prints(server.python("print(1)"), "1")

    def test_both_killed(self):
        """Sessions die with the supervisor. Processes that their code has started do not: see docs/THREATS.md."""
        with Server(*CONTAINER, check=False) as server:
            self.assert_prints(server.python("print(1)"), "1")
            family = self.family(server)
            supervisor, = named(server, "sandpiper-supervisor")
            os.kill(server.pid, signal.SIGSTOP)
            os.kill(supervisor, signal.SIGKILL)
            os.kill(server.pid, signal.SIGKILL)
            server.process.wait()
            self.assertIsNotNone(wait_for_end(family))
            self.assertEqual(server.left(5), [])


if __name__ == "__main__":
    unittest.main()
