"""The names that ps shows of an idle server: each process is named after its role."""
import collections
import pathlib
import subprocess
import time
import unittest

import container_level
from client import COMMAND, SLOW, Case, Server, need_userns
from traces import descendants

CONTAINER = ("--isolation", "container")
MASK = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec \"$@\""
# As in most containers, no new /proc can be mounted and no control group is writable.
BARE = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && " + MASK, "sh"]

INTERPRETERS = {"sp-keeper": 1, "sp-zygote": 1, "sp-session-defa": 1, "sp-session-othe": 1, "sp-checkpoint": 2, "sp-spare": 1}
# /proc/PID/comm has 15 bytes of the name, the command line all of it.
FULL = {"sandpiper": 1, "sandpiper-clean": 1, "sandpiper-init": 1, **INTERPRETERS}


def names(server):
    """{comm: how many processes of this server have it}"""
    found = collections.Counter()
    for pid in [server.pid, *descendants(server.pid)]:
        try:
            found[pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n")] += 1
        except (FileNotFoundError, ProcessLookupError):  # the process has exited
            pass
    return found


def commands(server):
    """The first words of the command lines of all processes except interpreters and the keeper, a fork of init."""
    lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(server.pid)
             if pathlib.Path(f"/proc/{pid}/comm").read_text() != "sp-keeper\n"]
    return sorted(line.rstrip(b"\0").split(b"\0")[0].decode() for line in lines if b"driver.py" not in line)


def refusal():
    """The reason why the level `container` is unavailable here, or an empty string."""
    done = subprocess.run([*COMMAND, "doctor", *CONTAINER], capture_output=True, text=True)
    return "" if done.returncode < 2 else done.stdout.partition("Tools refuse")[2]


class AtRest(Case):
    def assert_names(self, expected, helpers, *arguments, **options):
        with Server(*arguments, **options) as server:
            server.python("kept = 1")
            server.python("kept = 2", session="other")
            self.await_names(server, expected)
            self.assertEqual(commands(server), helpers)
            lost = server.python("import os; os.kill(os.getpid(), 9)")
            self.assertTrue(lost.is_error)
            result = server.python("print(kept)")
            self.assertEqual(result.output.split("\n")[0], "1", result.text)
            # A checkpoint has become the session; one more is kept for undo.
            self.await_names(server, {**expected, "sp-checkpoint": 3})

    def await_names(self, server, expected):
        deadline = time.monotonic() + 20 * SLOW
        while (found := names(server)) != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(found, expected)

    def need_namespaces(self):
        if container_level.CONTAINER:
            self.skipTest("SANDPIPER_ISOLATION: the level without namespaces is asked for")
        need_userns()

    def test_full(self):
        self.need_namespaces()
        self.assert_names(FULL, ["sandpiper-cleanup", "sandpiper-init"], "--isolation", "full")

    def test_full_with_the_egress_proxy(self):
        self.need_namespaces()
        self.assert_names({**FULL, "sandpiper-proxy": 1}, ["sandpiper-cleanup", "sandpiper-init", "sandpiper-proxy"],
                          "--isolation", "full", "--allow-host", "example.com")

    def test_full_without_proc(self):
        self.need_namespaces()
        if subprocess.run([*BARE, "true"], capture_output=True).returncode:
            self.skipTest("mount: /proc cannot be masked here")
        self.assert_names({**FULL, "sandpiper-monit": 1}, ["sandpiper-cleanup", "sandpiper-init", "sandpiper-monitor"],
                          wrap=BARE)

    def test_container(self):
        if refusal():
            self.skipTest(f"container level: {refusal()}")
        self.assert_names({"sandpiper": 1, "sandpiper-clean": 1, "sandpiper-super": 1, **INTERPRETERS},
                          ["sandpiper-cleanup", "sandpiper-supervisor"], *CONTAINER)


if __name__ == "__main__":
    unittest.main()
