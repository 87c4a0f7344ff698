"""At the level `container` a watchdog enforces limits: it kills code beyond a limit, the result names the limit, and
the server continues. Each kind is tested with the server's own uid and with a separate uid, and without control
groups, which most containers lack."""
import os
import re
import subprocess
import unittest

from client import BINARY, DENY, SLOW, Case, Server, once
from traces import descendants

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


# Of each huge page one small page stays. What the kernel keeps of the rest is in no process's figures.
PARTS = """
import ctypes, mmap, os
libc = ctypes.CDLL(None)
enabled = libc.prctl(41, 0, 0, 0, 0)  # PR_SET_THP_DISABLE
area = mmap.mmap(-1, 64 << 20)
area.madvise(14)  # MADV_HUGEPAGE
for at in range(0, 64 << 20, 2 << 20): area[at] = 1
huge = 0
try:
    with open('/proc/self/smaps') as file:
        huge = sum(int(line.split()[1]) for line in file if line.startswith('AnonHugePages'))
except OSError:
    pass  # at level container
print('off:', libc.prctl(42, 0, 0, 0, 0), huge)  # PR_GET_THP_DISABLE
"""


def own_pages_mib(server):
    """What all processes of the server have, each shared page once."""
    found = 0
    for pid in descendants(server.pid):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                found += int(re.search(r"Pss_Anon:\s+(\d+)", file.read())[1])
        except (OSError, TypeError):
            pass
    return found // 1024


@once
class States(Case):
    """Named states of many sessions: the older ones make way, and a result says so."""

    def check(self, *args):
        with Server("--memory", "256M", *args, wrap=NO_GROUP) as server:
            texts, most = [], 0
            for session in "abc":
                for name in "uvwx":
                    result = server.python("import os; a = bytearray(os.urandom(1 << 20) * 70)", session=session, checkpoint=name, _timeout=120)
                    texts.append(result.text)
                    most = max(most, own_pages_mib(server))
            for session in "abc":
                result = server.python("print(len(a))", session=session)
                self.assertIn(f"{70 << 20}\n", result.text)
                texts.append(result.text)
        self.assertLess(most, 3 * 256, "states of all sessions are held")
        self.assertIn("its process has ended, as it does when memory is short", "".join(texts))

    def test_huge_pages_are_off(self):
        for args in ((), ("--isolation=container",)):
            with self.subTest(args=args), Server(*args, wrap=NO_GROUP) as server:
                self.assert_prints(server.python(PARTS), "off: 1 0")
                self.assert_prints(server.python("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', " +
                                                 repr(PARTS) + "], capture_output=True, text=True).stdout, end='')"), "off: 1 0")

    def test_in_namespaces(self):
        self.check()

    def test_at_level_container(self):
        self.check("--isolation=container")


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

    @once
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
