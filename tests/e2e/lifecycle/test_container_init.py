"""The server as pid 1 of a pid namespace, as in a container whose command it is."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from client import BINARY, COMMAND, SLOW, Server, need_userns
from traces import any_left, descendants, is_running

# A new pid namespace with its own /proc. An ordinary user also needs a user namespace.
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--kill-child",
             "--mount-proc", "--"]


class ContainerInit(unittest.TestCase):
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
        """{pid: name} of those that still run."""
        found = {}
        for pid in pids:
            try:
                found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                pass
        return found

    def test_exit_status_is_that_of_the_server(self):
        self.assertEqual(self.status("--version").stdout.split()[0], "sandpiper")
        self.assertEqual(self.status("--version").returncode, 0)
        self.assertEqual(self.status("run", "-c", "import sys; sys.exit(3)").returncode, 3)

    def test_its_name_is_not_the_servers(self):
        with Server(wrap=NAMESPACE) as server:
            server.python("1")
            names = list(self.names(descendants(server.pid)).values())
            self.assertEqual((names.count("container-init"), names.count("sandpiper")), (1, 1), names)

    def test_large_directories_are_removed(self):
        """The container init waits, because its exit would kill the cleanup helper."""
        with tempfile.TemporaryDirectory(prefix="sp-first-") as cache:
            with Server("--cache", f"{cache}/cache", wrap=NAMESPACE, check=False) as server:
                server.python("1")
                store, = pathlib.Path(cache, "cache", "boxes").iterdir()
                pids = {name: pid for pid, name in self.names(descendants(server.pid)).items()}
                helper = pids["sandpiper-clean"]
                os.kill(helper, signal.SIGSTOP)  # as if there were much to remove
                server.close_stdin()
                self.await_true(lambda: not is_running(pids["sandpiper"]), "the server goes on")
                os.kill(helper, signal.SIGCONT)
                self.assertEqual(server.join(20), 0)
                self.assertFalse(store.exists())

    def test_orphans_are_reaped(self):
        """A child that the shell left exits while the server runs."""
        left = ["sh", "-c", 'sleep 0.1 & exec "$@"', "sh"]
        with Server(wrap=[*NAMESPACE, *left]) as server:
            self.assertEqual(server.python("print(1)").output, "1")
            # A zombie would keep its name.
            self.await_true(lambda: "sleep" not in self.names(descendants(server.pid)).values(), "an orphan stays")

    def test_a_signal_stops_the_server_and_leaves_nothing(self):
        with Server(wrap=NAMESPACE, check=False) as server:
            server.python("kept = 1")
            inside = descendants(server.pid)
            os.kill(inside[0], signal.SIGTERM)
            self.assertEqual(server.join(20), 0)
            self.assertFalse(any_left(inside, 20 * SLOW), f"some of {inside} are left")

    def test_container_init_exits_when_the_server_is_killed(self):
        with Server(wrap=NAMESPACE, check=False) as server:
            server.python("kept = 1")
            inside = descendants(server.pid)
            program = [pid for pid in inside[1:] if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(BINARY)]
            os.kill(program[0], signal.SIGKILL)
            self.assertEqual(server.join(20), 128 + signal.SIGKILL)
            self.assertFalse(any_left(inside, 20 * SLOW), f"some of {inside} are left")
