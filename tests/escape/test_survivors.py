"""Processes that code starts are killed with their session, however they try to survive.

Each way starts one process, which must run before the reset (the control) and not after it. A second session stays
alive: the reset must not affect it, and it must not hide the process.
"""
import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import container_outcomes  # noqa: E402
from client import SLOW, Case, Server, need_userns  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text() + """
import shutil, subprocess, threading

def stay(prepare=None, then=lambda: time.sleep(600)):
    pid = os.fork()
    if pid == 0:
        try:
            if prepare: prepare()
            then()
        finally:
            os._exit(0)
    return pid
"""

# name → Python that stores the process's pid in `pid`
WAYS = {
    "plain": "pid = stay()",
    "session_of_its_own": "pid = stay(os.setsid)",
    "orphan": "r, w = os.pipe()\nif os.fork() == 0:\n    os.write(w, b'%d' % stay(os.setsid)); os._exit(0)\n"
              "os.wait(); pid = int(os.read(r, 20))",
    "ignores_signals": "pid = stay(lambda: [signal.signal(n, signal.SIG_IGN) for n in range(1, 32) "
                       "if n not in (9, 19)])",
    "blocks_signals": "pid = stay(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)))",
    "stopped": "pid = stay(); os.kill(pid, signal.SIGSTOP)",
    "program_that_it_may_not_read": "shutil.copy(shutil.which('sleep'), '/tmp/unread'); "
                                    "os.chmod('/tmp/unread', 0o111)\n"
                                    "pid = subprocess.Popen(['/tmp/unread', '600'], "
                                    "start_new_session=True).pid",
    "program_that_is_deleted": "shutil.copy(shutil.which('sleep'), '/tmp/gone')\n"
                               "pid = subprocess.Popen(['/tmp/gone', '600']).pid; os.unlink('/tmp/gone')",
    "program_from_memory": "fd = os.memfd_create('p', 0); data = open(shutil.which('sleep'), 'rb').read()\n"
                           "os.write(fd, data)\n"
                           "pid = stay(None, lambda: os.execve(fd, ['sleep', '600'], {}))",
    "lower_soft_limits": "pid = stay(lambda: resource.setrlimit(resource.RLIMIT_MSGQUEUE, "
                         "(0, resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1])))",
    "lower_hard_limits": "pid = stay(lambda: [resource.setrlimit(n, (0, 0)) for n in range(16) "
                         "if n not in (0, 2, 3, 9)])",
    "subreaper": "pid = stay(lambda: (check(LIBC.prctl(36, 1, 0, 0, 0)), stay(os.setsid)))",
    "leader_without_threads": "pid = stay(None, lambda: (threading.Thread(target=time.sleep, "
                              "args=(600,)).start(), LIBC.syscall({'x86_64': 60, 'aarch64': 93}"
                              "[platform.machine()], 0)))",
    "threads": "pid = stay(None, lambda: [threading.Thread(target=time.sleep, args=(600,)).start() "
               "for _ in range(20)] and time.sleep(600))",
    "vfork": "pid = stay(None, lambda: os.posix_spawn('/bin/sh', ['sh', '-c', 'exec sleep 600'], {}) "
             "and time.sleep(600))",
    "grandparents_child": "NR = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
                          "pid = LIBC.syscall(NR, 0x8000 | 17, 0, 0, 0, 0)\n"
                          "if pid == 0:\n    LIBC.sleep(600); os._exit(0)",
    "renames_itself": "pid = stay(lambda: check(LIBC.prctl(15, b'sandpiper-init', 0, 0, 0)))",
    # No process waits for these children; SIGCHLD is ignored so that no zombies fill the limit.
    "busy_forks": "import signal\npid = stay(os.setsid, lambda: [signal.signal(17, signal.SIG_IGN)] and [time.sleep(0.001) for _ in iter("
                  "lambda: os.fork() == 0 and os._exit(0) or 1, 0)])",
    "holds_the_output": "pid = stay(None, lambda: [os.write(1, b'x' * 65536) for _ in iter(int, 1)])",
}

# Checkpoints start and exit for some milliseconds after each call, so this waits for a steady count.
SEEN = """
def alive():
    found = []
    for p in os.listdir('/proc'):
        try:
            dead = p.isdigit() and open(f'/proc/{p}/stat').read().rpartition(') ')[2][0] in 'ZX'
            if p.isdigit() and (not dead or len(os.listdir(f'/proc/{p}/task')) > 1):
                found.append(int(p))
        except OSError: pass
    return sorted(found)
seen, same, until = alive(), 0, time.monotonic() + 3
while same < 5 and time.monotonic() < until:
    time.sleep(0.02)
    last, seen = seen, alive()
    same = same + 1 if len(last) == len(seen) else 0
open('/tmp/seen', 'w').write(repr([pid, seen]))
"""


def below(root):
    """The descendants of root as the host sees them, for the level where code has no /proc."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (path / "stat").read_text().rpartition(") ")[2].split()[:2]
            dead = state in "ZX" and len(list((path / "task").iterdir())) < 2
        except OSError:
            continue
        if not dead:
            parents[int(path.name)] = int(parent)
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {root})


def steady(look):
    """The result of look once five in a row have the same length, as checkpoints start and exit."""
    seen, same, until = look(), 0, time.monotonic() + 3
    while same < 5 and time.monotonic() < until:
        time.sleep(0.02)
        last, seen = seen, look()
        same = same + 1 if len(last) == len(seen) else 0
    return seen


class Survivors(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server()
        cls.server.must_be_contained()
        cls.server.python("kept = 1", session="other")

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def look(self, code=""):
        """The sandbox's processes after code, read from a file because the output may be flooded."""
        if container_outcomes.CONTAINER:
            count = self.server.here(f"{code}\nopen('/tmp/seen', 'w').write(repr([pid]))")
            self.assert_ok(self.server.python(count))
            pid = json.loads(self.server.read(self.server.here("/tmp/seen")).text)[0]
            return pid, steady(lambda: below(self.server.pid))
        self.assert_ok(self.server.python(f"{code}\n{SEEN}"))
        return json.loads(self.server.read("/tmp/seen").text)

    def at_rest(self, count=None):
        """The processes when two looks find as many, or as many as count: spares and checkpoints come and go."""
        found, end = self.look("pid = 0")[1], time.monotonic() + 20 * SLOW
        while time.monotonic() < end:
            before, found = found, self.look("pid = 0")[1]
            if len(found) == (count or len(before)):
                break
        return found

    def check(self, way):
        if "memfd_create" in way and self.server.python("import os; os.memfd_create('x')").is_error:
            self.skipTest("cgroup: no memfd where only the watchdog counts memory")
        self.assert_ok(self.server.python(PRELUDE, reset=True))
        before = self.at_rest()
        pid, running = self.look(way + "\ntime.sleep(0.05)")
        self.assertIn(pid, running, "the control: it runs, and can be seen")
        self.assert_ok(self.server.python(PRELUDE, reset=True))
        after = self.at_rest(len(before))
        self.assertNotIn(pid, after)
        self.assertEqual(len(after), len(before), f"{before} became {after}")
        self.assert_prints(self.server.python("print(kept)", session="other"), "1")


for name, code in WAYS.items():
    setattr(Survivors, f"test_{name}", lambda self, code=code: self.check(code))

if __name__ == "__main__":
    unittest.main()
