"""A server for each connection to a socket, as systemd starts it, and the commands that an assistant connects with.

systemd-socket-activate replaces systemd's socket unit here; installed.py tests the unit itself, in a virtual machine.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "clients"))

import packages  # noqa: E402
from client import BINARY, SLOW, Server, need_userns  # noqa: E402

LISTEN = "systemd-socket-activate"


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


class Socket(unittest.TestCase):
    def setUp(self):
        need_userns()
        if not shutil.which(LISTEN):
            raise unittest.SkipTest(f"{LISTEN}: not installed")
        directory = tempfile.TemporaryDirectory(prefix="sp-socket-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "socket")
        self.listener = subprocess.Popen([LISTEN, "--accept", "--inetd", f"--listen={self.path}", BINARY],
                                         stderr=subprocess.DEVNULL)
        self.addCleanup(self.listener.wait)
        self.addCleanup(self.listener.terminate)
        self.until(self.is_listening)

    def until(self, what):
        end = time.monotonic() + 20 * SLOW
        while not what() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(what())

    def is_listening(self):
        """Checks the flag __SO_ACCEPTCON, proc_net(5)."""
        rows = [row.split() for row in pathlib.Path("/proc/net/unix").read_text().splitlines()]
        return any(row[-1] == str(self.path) and int(row[3], 16) & 0x10000 for row in rows[1:])

    def netcat(self):
        return self.command("nc", "-UN", str(self.path))

    def socat(self):
        return self.command("socat", "-", f"UNIX-CONNECT:{self.path}")

    def command(self, *words):
        """A command that docs/DEPLOY.md gives for assistants."""
        if not shutil.which(words[0]):
            raise unittest.SkipTest(f"{words[0]}: not installed")
        return list(words)

    def talk(self, command):
        with Server(command=command) as one, Server(command=command) as other:
            one.python("mine = 1")
            other.python("mine = 2")
            self.assertEqual(one.python("print(mine)").lines[0], "1")
            self.assertEqual(other.python("print(mine)").lines[0], "2")
            self.assertEqual(len(children(self.listener.pid)), 2)
        self.until(lambda: not children(self.listener.pid))

    def test_netcat_has_a_server_for_each_connection_that_exits_with_it(self):
        self.talk(self.netcat())

    def test_socat_has_a_server_for_each_connection_that_exits_with_it(self):
        self.talk(self.socat())

    def test_the_official_client(self):
        node = packages.node()
        place = packages.own(TESTS / "clients", "smoke.mjs", "picture.py", "libraries/sdk_v2.mjs", "libraries/results.mjs")
        done = subprocess.run([node, place / "smoke.mjs", "sdk_v2", "auto", *self.netcat()], capture_output=True,
                              text=True, timeout=120 * SLOW, cwd=packages.directory())
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(steps), 10, done.stderr)
        self.assertEqual([step for step in steps if not step["ok"]], [], done.stderr)
        self.until(lambda: not children(self.listener.pid))
