"""What all sessions share: where one takes too much, that one goes, and no other; with a control group and without."""
import unittest

from client import DENY, Case, Server, need_userns, writable_cgroup
from container_level import CONTAINER

NO_GROUP = [*DENY, "cgroup", "--"]
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
    yield "container", ("--isolation=container",), NO_GROUP


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


if __name__ == "__main__":
    unittest.main()
