"""In a container or service with its own memory limit, at which the kernel may kill all of it: the sandbox's limit is
lower, and a result names the enclosing limit when it is reached."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from client import COMMAND, DENY, SLOW, Case, Server, need_userns
from container_level import CONTAINER

MEBIBYTE = 1 << 20
LIMIT_MIB = 400
OWN_MIB = LIMIT_MIB // 4 * 3

CHILDREN = """
import os, time
pids = []
for n in range(8):
    pids.append(os.fork())
    if pids[-1] == 0:
        held = b'x' * (90 << 20)
        time.sleep(60)
        os._exit(0)
gone = os.wait()[0]
for pid in pids:
    if pid != gone:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
"""
HOLD = f"""
import sys, time
open('/proc/self/oom_score_adj', 'w').write('-1000')
held = b'x' * ({OWN_MIB - 50} << 20)
print('held', flush=True)
time.sleep(600)
"""


def remove(directory):
    """Removes the group when its processes have exited."""
    end = time.monotonic() + 20 * SLOW
    while True:
        try:
            return directory.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def group():
    """The command prefix that puts a command into a group with that limit."""
    tops = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup")
    try:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="test-around-", dir=next(filter(os.path.isdir, tops), "/nowhere")))
    except OSError:
        raise unittest.SkipTest("cgroup: no memory group can be made here") from None
    try:
        limit = [directory / name for name in ("memory.max", "memory.limit_in_bytes") if (directory / name).exists()]
        if not limit:
            raise unittest.SkipTest("cgroup: no memory group can be made here")
        limit[0].write_text(str(LIMIT_MIB * MEBIBYTE))
        if (directory / "memory.swap.max").exists():
            (directory / "memory.swap.max").write_text("0")
        yield ("sh", "-c", f"echo $$ >{directory}/cgroup.procs; exec \"$@\"", "sh")
    finally:
        remove(directory)


class Enclosing(Case):
    def setUp(self):
        need_userns()
        self.inside = self.enterContext(group())
        self.wrap = (*self.inside, *DENY, "cgroup", "--")

    def test_own_limit_is_below_the_enclosing_one_and_doctor_reports_it(self):
        done = subprocess.run([*self.wrap, *COMMAND, "doctor"], capture_output=True, text=True, timeout=60 * SLOW)
        said = " ".join(done.stdout.split())
        self.assertIn(f"{OWN_MIB} MiB, three quarters of the server's own limit of {LIMIT_MIB} MiB", said)
        done = subprocess.run([*self.wrap, *COMMAND, "doctor", "--memory", "128M"], capture_output=True, text=True,
                              timeout=60 * SLOW)
        self.assertIn("128 MiB, checked every", " ".join(done.stdout.split()))

    def test_a_memory_bomb_of_many_processes_is_survived(self):
        with Server(wrap=self.wrap) as server:
            server.python("kept = 1")
            for _ in range(3):
                result = server.python(CHILDREN, timeout_s=60)
                self.assertIn(f"{OWN_MIB} MiB (--memory)" if CONTAINER else "memory: limit reached", result.text)
                self.assert_prints(server.python("print(kept)"), "1")

    def test_the_enclosing_limit_is_named_when_it_is_reached(self):
        with Server(wrap=self.wrap) as server, subprocess.Popen(
                [*self.inside, sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as other:
            try:
                server.python("kept = 1")
                self.assertEqual(other.stdout.readline(), "held\n")
                result = server.python("big = bytearray(200 << 20)")
                self.assert_kind(result, "out of memory")
                self.assertIn(f"the server's container or service reached its limit of {LIMIT_MIB} MiB", result.text)
            finally:
                other.kill()
            self.assert_prints(server.python("print(kept)"), "1")


if __name__ == "__main__":
    unittest.main()
