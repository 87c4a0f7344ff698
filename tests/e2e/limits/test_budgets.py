"""What all sessions share: where one takes too much, that one goes, and no other; with a control group and without."""
import os
import pathlib
import subprocess
import time
import unittest

from client import DENY, SLOW, Case, Server, need_userns, writable_cgroup
from container_level import CONTAINER

NO_GROUP = [*DENY, "cgroup", "--"]
# Then init has no /proc, and a process monitor outside counts.
MASKED = ["unshare", "-Urm", "sh", "-c", 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"', "sh"]
MEMORY_MIB = 256

HOLD = """
import os, time
held = bytearray(os.urandom(1 << 20)) * 90
pid = os.getpid()
"""

# Each has far less than the other session's one process, all together more than the limit leaves.
MANY = """
import os, time
pids = []
for n in range(50):
    pid = os.fork()
    if pid == 0:
        kept = []
        for _ in range(4):
            kept.append(bytearray(b'x' * (2 << 20)))
            time.sleep(0.02)
        time.sleep(600)
        os._exit(0)
    pids.append(pid)
    time.sleep(0.01)
os.waitpid(-1, 0)
for pid in pids:
    try: os.kill(pid, 9); os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError): pass
"""


def variants():
    """(name, options, what is before the command): who counts."""
    if not CONTAINER and writable_cgroup("memory"):
        yield "control group", (), ()
    if not CONTAINER:
        yield "watchdog", (), NO_GROUP
    if not CONTAINER and subprocess.run([*MASKED, "true"], capture_output=True).returncode == 0:
        yield "process monitor", (), [*NO_GROUP, *MASKED]
        yield "process monitor and perhaps a control group", (), MASKED
    yield "container", ("--isolation=container",), NO_GROUP


def has_root_outside(wrap):
    """Whether code has the uid of the machine's root outside: then no other one is available."""
    first = pathlib.Path("/proc/self/uid_map").read_text().split()
    return os.geteuid() == 0 and first[:2] == ["0", "0"] and (MASKED[0] in wrap or first[2] == "1")


class Memory(Case):
    def each(self, check):
        if not CONTAINER:
            need_userns()
        for name, options, wrap in variants():
            with self.subTest(name), Server("--memory", f"{MEMORY_MIB}M", *options, wrap=wrap) as server:
                self.assert_ok(server.python(HOLD, session="other"))
                check(server)

    def grow(self, server):
        """A call of a session that ends, or has lost some of the processes that it started."""
        result = server.python(MANY, session="grows", timeout_s=120, _timeout=200)
        if result.status.kind != "out of memory":
            self.assert_ok(result)

    def test_an_idle_session_keeps_what_it_has(self):
        def check(server):
            for _ in range(3):
                self.grow(server)
            self.assert_prints(server.python("print(len(held) >> 20, os.getpid() == pid)", session="other"), "90 True")

        self.each(check)

    def test_a_session_that_works_with_little_goes_on(self):
        def check(server):
            call = server.start_call("run_python", session="other", timeout_s=600, code="""
mine = 0
while not os.path.exists('end'):
    part = bytearray(b'y' * (1 << 20)); mine += len(part)
    time.sleep(0.01)
os.remove('end')
print(os.getpid() == pid)
""")
            for _ in range(2):
                self.grow(server)
            self.assert_ok(server.python("open('end', 'w').close()", fresh=True))
            self.assert_prints(server.finish_call(call, 120), "True")

        self.each(check)


# Starts processes as long as that is possible, and again whenever one has ended.
FORKS = """
import os, time
full = False
while not os.path.exists('end'):
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except BlockingIOError:
        if not full: open('full', 'w').close()
        full = True
        time.sleep(0.001)
os.remove('end')
"""

# Segments of System V's shared memory stay when nobody has them attached.
SEGMENTS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = (ctypes.c_void_p,)
while True:
    number = libc.shmget(0, 1 << 20, 0o1600)
    if number < 0: raise OSError(ctypes.get_errno(), 'shmget')
    address = libc.shmat(number, None, 0)
    ctypes.memset(address, 1, 1 << 20)
    libc.shmdt(address)
"""


class Segments(Case):
    def test_what_a_killed_process_left_kills_no_later_call(self):
        if CONTAINER or not writable_cgroup("memory"):
            self.skipTest("no writable cgroup: segments are refused")
        with Server("--memory", f"{MEMORY_MIB}M") as server:
            self.assert_ok(server.python("kept = 7", session="other"))
            for _ in range(5):
                self.assert_kind(server.python(SEGMENTS, timeout_s=120, _timeout=200), "out of memory")
                self.assert_prints(server.python("print(kept, len(bytearray(b'x' * (60 << 20))) >> 20)", session="other"), "7 60")


class Processes(Case):
    """Code that uses up all processes keeps nobody else from starting."""

    def test_other_sessions_and_branches_start(self):
        if not CONTAINER:
            need_userns()
        for name, options, wrap in variants():
            if has_root_outside(wrap):
                continue  # the kernel exempts it from RLIMIT_NPROC
            with self.subTest(name), Server("--pids", "40", "--wait", "0.5", "--jobs", "2", *options, wrap=wrap) as server:
                self.assert_ok(server.python("kept = 7"))
                job = server.python(FORKS, wait_s=0, timeout_s=600)
                self.assertTrue(job.status.kind.startswith("running"), job.text)
                end = time.monotonic() + 60 * SLOW
                while server.read("full").is_error:
                    self.assertLess(time.monotonic(), end, "code is not limited")
                for _ in range(10):
                    self.assert_prints(server.python("print(kept)", branch=True, wait_s=50), "7")
                self.assert_prints(server.python("print(6 * 7)", session="new", wait_s=50), "42")
                self.assert_prints(server.python("print(6 * 7)", fresh=True, wait_s=50), "42")
                last = server.python("import os; os.fork()", session="new", wait_s=50)
                self.assertIn("BlockingIOError", last.text)
                self.assertIn("all sessions share", last.text)
                self.assert_prints(server.python("print(6 * 7)", session="new", wait_s=50), "42")
                server.write("end", "")
                server.python("", job=1, wait_s=50)


if __name__ == "__main__":
    unittest.main()
