"""The server as the first process of a pid namespace, as in a container that it is the command of."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from client import BINARY, COMMAND, SLOW, Server, need_userns
from traces import descendants, processes

# A new one, with a /proc of its own. As an ordinary user it takes a user namespace besides.
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--kill-child",
             "--mount-proc", "--"]


class FirstProcess(unittest.TestCase):
    def setUp(self):
        need_userns()
        if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
            self.skipTest("unshare: no pid namespace with a /proc can be had here")

    def status(self, *arguments):
        return subprocess.run([*NAMESPACE, *COMMAND, *arguments], capture_output=True, text=True, timeout=60 * SLOW)

    def await_true(self, condition, what):
        deadline = time.monotonic() + 20 * SLOW
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def names(self, pids):
        """{pid: name} of those that run."""
        found = {}
        for pid in pids:
            try:
                found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                pass
        return found

    def test_its_exit_status_is_the_servers(self):
        self.assertEqual(self.status("--version").stdout.split()[0], "sandpiper")
        self.assertEqual(self.status("--version").returncode, 0)
        self.assertEqual(self.status("run", "-c", "import sys; sys.exit(3)").returncode, 3)

    def test_orphans_are_reaped(self):
        """A child that the shell leaves behind ends while the server works."""
        left = ["sh", "-c", 'sleep 0.1 & exec "$@"', "sh"]
        with Server(wrap=[*NAMESPACE, *left]) as server:
            self.assertEqual(server.python("print(1)").output, "1")
            # One that nobody reaps keeps its name.
            self.await_true(lambda: "sleep" not in self.names(descendants(server.pid)).values(), "an orphan stays")

    def test_a_signal_ends_it_and_nothing_is_left(self):
        with Server(wrap=NAMESPACE, check=False) as server:
            server.python("kept = 1")
            inside = descendants(server.pid)
            os.kill(inside[0], signal.SIGTERM)
            self.assertEqual(server.join(20), 0)
            self.await_true(lambda: not set(inside) & processes().keys(), f"some of {inside} are left")

    def test_a_server_that_is_killed_ends_it(self):
        with Server(wrap=NAMESPACE, check=False) as server:
            server.python("kept = 1")
            inside = descendants(server.pid)
            program = [pid for pid in inside[1:] if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(BINARY)]
            os.kill(program[0], signal.SIGKILL)
            self.assertEqual(server.join(20), 128 + signal.SIGKILL)
            self.await_true(lambda: not set(inside) & processes().keys(), f"some of {inside} are left")
