"""At the level `container` a watchdog enforces limits: it kills code beyond a limit, the result names the limit, and
the server continues. Each kind is tested with the server's own uid and with a separate uid, and without control
groups, which most containers lack."""
import os
import subprocess
import unittest

from client import BINARY, DENY, SLOW, Case, Server

NO_GROUP = [*DENY, "cgroup", "--"]

CHILDREN = """
import os, time
for n in range(30):
    if os.fork() == 0:
        held = b'x' * (24 << 20)
        time.sleep(60)
        os._exit(0)
    time.sleep(0.005)
time.sleep(60)
"""

# Socket pairs that are never read, in many processes: no process's memory figures include the queued data.
QUEUES = """
import os, socket, time
def fill():
    held = []
    for _ in range(200):
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
            try:
                while True: end.send(bytes(32768))
            except BlockingIOError: pass
        held.append(pair)
    time.sleep(60)
for n in range(10):
    if os.fork() == 0:
        fill()
    time.sleep(0.01)
time.sleep(20)
"""

# Tests write less than five quarters of the limit, beyond which the watchdog ends the whole sandbox.
WRITE = """
import os, time
def write(name, mebibytes, pause=0.01):
    with open(name, 'wb', buffering=0) as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20)); time.sleep(pause)
"""

# Deleted files, which are freed only when the last descriptor is closed.
NAMELESS = WRITE + """
held = []
for n in range(6):
    held.append(open('x%d' % n, 'wb', buffering=0))
    os.unlink('x%d' % n)
    for _ in range(12):
        held[-1].write(bytes(1 << 20)); time.sleep(0.01)
time.sleep(20)
"""

# Exiting processes lose their memory first, and then their descriptors.
EXITS = """
import os, resource, signal
held = bytearray(120 << 20)
last = os.dup2(1, min(900, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1))
for _ in range(8):
    forked = []
    for _ in range(24):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        forked.append(pid)
    for pid in forked: os.kill(pid, signal.SIGKILL)
    for pid in forked: os.waitpid(pid, 0)
"""

FORKS = """
import os, time
for n in range(4):
    if os.fork() == 0:
        while True:
            try: os.fork()
            except OSError: time.sleep(0.001)
time.sleep(1)
os._exit(1)
"""


def variants():
    """Arguments of the two variants: with an interpreter that only its owner can reach, code keeps the server's uid."""
    yield "the server's uid", ()
    system = "/usr/bin/python3"
    if os.geteuid() == 0 and os.access(system, os.X_OK):
        yield "a uid of its own", ("--python", system)


class ContainerLimits(Case):
    @classmethod
    def setUpClass(cls):
        found = subprocess.run([*NO_GROUP, BINARY, "doctor", "--isolation=container"], capture_output=True)
        if found.returncode not in (0, 1):
            raise unittest.SkipTest("isolation: " + found.stderr.decode(errors="replace").strip()[:200])

    def each(self, check, *args, most=1):
        for name, more in list(variants())[:most]:
            with self.subTest(name), Server("--isolation=container", *args, *more, wrap=NO_GROUP) as server:
                self.assert_ok(server.python("kept = 7"))
                check(server)

    def assert_state_is_back(self, server):
        self.assert_prints(server.python("print(kept)"), "7")

    def test_memory(self):
        def check(server):
            result = server.python("import time\nheld = []\n"
                                   "for _ in range(75): held.append(b'x' * (4 << 20))\ntime.sleep(20)")
            self.assert_kind(result, "out of memory")
            self.assertIn("--memory", result.status.line)
            self.assert_state_is_back(server)

        self.each(check, "--memory", "192M", most=2)

    def test_memory_of_many_processes(self):
        def check(server):
            self.assert_kind(server.python(CHILDREN), "out of memory")
            self.assert_state_is_back(server)

        self.each(check, "--memory", "192M")

    def test_memory_in_queues_of_sockets(self):
        def check(server):
            self.assert_kind(server.python(QUEUES), "out of memory")
            self.assert_state_is_back(server)

        self.each(check, "--memory", "192M")

    def test_exiting_processes_count_for_nothing(self):
        self.each(lambda server: self.assert_ok(server.python(EXITS, timeout_s=int(60 * SLOW))),
                  "--memory", "512M", "--timeout", "600", most=2)

    def test_disk(self):
        def check(server):
            result = server.python(WRITE + "write('a', 40); write('b', 32)\ntime.sleep(20)")
            self.assert_kind(result, "disk full")
            self.assertIn("--disk", result.status.line)
            self.assert_state_is_back(server)
            # The files remain, and code can remove some to free space.
            self.assert_ok(server.python("import os\nos.unlink('a')\nos.unlink('b')"))
            self.assert_ok(server.python(WRITE + "write('c', 40)\ntime.sleep(0.6)"))

        self.each(check, "--disk", "64M", most=2)

    def test_disk_without_names(self):
        def check(server):
            self.assert_kind(server.python(NAMELESS), "disk full")
            self.assert_state_is_back(server)
            self.assert_ok(server.python(WRITE + "write('c', 40)\ntime.sleep(0.6)"))

        self.each(check, "--disk", "64M")

    def test_far_beyond_the_disk_limit_scratch_is_emptied(self):
        """Code that only adds files exceeds the limit by no more than that."""
        def check(server):
            for _ in range(20):
                result = server.python(WRITE + "for n in range(40): write('f%.9f' % time.time(), 60, 0)\ntime.sleep(20)")
                self.assert_kind(result, "disk full")
                if result.status.state.startswith("lost"):
                    break
            self.assert_prints(server.python("import os; print(os.listdir('.'))"), "[]")

        self.each(check, "--disk", "64M")

    def test_processes(self):
        def check(server):
            server.python(FORKS, timeout_s=10)
            self.assert_state_is_back(server)

        self.each(check, "--pids", "40", most=2)


if __name__ == "__main__":
    unittest.main()
