"""Code that hides memory where only the watchdog counts it: each attack is killed or refused before it has hidden much
more than the limit, and the result names the limit.

The attack writes how many mebibytes it has hidden to a file, which the server reads afterwards.
"""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import DENY, SLOW, Case, Server, doctor_says, need_userns  # noqa: E402

LIMIT_MIB = 256
MOST_MIB = 3 * LIMIT_MIB  # what a busy machine allocates between two polls comes on top
NO_GROUP = [*DENY, "cgroup", "--"]

PRELUDE = """
import ctypes, mmap, os, socket, time
MIB = 1 << 20
def note(mebibytes):
    with open('/tmp/noted', 'w') as file: file.write(str(mebibytes))
    os.replace('/tmp/noted', '/tmp/hidden')  # whole, whenever this process is killed
"""

UNMAPPED = """
pages = mmap.mmap({fd}, {size} * MIB, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
for at in range(0, {size}, 8):
    pages[at * MIB:(at + 8) * MIB] = bytes(8 * MIB)
    pages.madvise(mmap.MADV_DONTNEED)
    note(at + 8)
    time.sleep(0.02)
"""

QUEUES = """
held = []
def fill():
    for _ in range({pairs}):
        a, b = socket.socketpair()
        for end in (a, b):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * MIB)
            end.setblocking(False)
            try:
                while True: end.send(bytes(32768))
            except BlockingIOError: pass
        held.append((a, b))
        time.sleep(0.001)
workers = []
for n in range({workers}):
    pid = os.fork()
    if pid == 0:
        fill(); time.sleep(60); os._exit(0)
    workers.append(pid)
    time.sleep(0.05)
def alive():
    for pid in list(workers):
        if os.waitpid(pid, os.WNOHANG)[0]: workers.remove(pid)
    return len(workers)
def hidden(): return alive() * {pairs} * 2 * 208 // 1024
time.sleep(2)
end = time.monotonic() + {patience}
while hidden() >= {most} and time.monotonic() < end: time.sleep(0.1)
note(hidden())
print(alive(), 'of', {workers}, 'alive')
"""

TABLES = """
size = 4 << 40  # 0x4000: MAP_NORESERVE
pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | 0x4000, mmap.PROT_READ)
pages.madvise(mmap.MADV_NOHUGEPAGE)
for n in range({tables}):
    pages[n << 21]
    if n % 4096 == 0:
        note(n * 4096 // MIB); time.sleep(0.02)
"""

# /proc/PID/status begins with the name that the process has given itself.
NAMED = """
ctypes.CDLL(None).prctl(15, b'RssAnon: 0', 0, 0, 0)  # PR_SET_NAME
held = []
for n in range({blocks}):
    held.append(b'x' * (32 * MIB))
    note((n + 1) * 32)
    time.sleep(0.06)
"""

# A child that claims to be its session's checkpoint: checkpoints are suspended, and count as the session's memory.
CHECKPOINT = """
import struct
words = [b'checkpoint', b'pid', b'1', b'checkpoint', b'', b'cell', b'10000']
pid = os.fork()
if pid == 0:
    time.sleep(0.2)
    held = []
    for n in range({blocks}):
        held.append(b'x' * (32 * MIB))
        note((n + 1) * 32)
        time.sleep(0.06)
    os._exit(0)
words[4] = b'%d' % pid
body = b''.join(struct.pack('<I', len(word)) + word for word in words)
os.write(64, struct.pack('<I', len(body)) + body)  # SESSION_FD in guest/frames.py
print(os.waitpid(pid, 0)[1])
"""

# name → (attack, control: the small amount that must work)
ENDED = {
    "shared_memory_that_nobody_maps": (UNMAPPED.format(fd=-1, size=1024),
                                       UNMAPPED.format(fd=-1, size=16)),
    "shared_memory_of_dev_zero": ("fd = os.open('/dev/zero', os.O_RDWR)\n"
                                  + UNMAPPED.format(fd="fd", size=1024),
                                  "fd = os.open('/dev/zero', os.O_RDWR)\n"
                                  + UNMAPPED.format(fd="fd", size=16)),
    "name_like_a_row_of_status": (NAMED.format(blocks=40), NAMED.format(blocks=3)),
    "page_tables": (TABLES.format(tables=262144), TABLES.format(tables=4096)),
}


class Uncounted(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        if doctor_says(*NO_GROUP)["memory"]["state"] == "on":
            raise unittest.SkipTest("watchdog: memory is counted by a group here, whatever we deny")

    def server(self, wrap=()):
        return Server("--memory", f"{LIMIT_MIB}M", wrap=[*wrap, *NO_GROUP])

    def run_noted(self, server, code):
        result = server.python(server.here(PRELUDE + code), _timeout=120, timeout_s=int(60 * SLOW))
        self.assertNotEqual(result.status.kind, "error", result.text)
        hidden = server.read(server.here("/tmp/hidden")).text.split("\n")[0]
        return result, int(hidden.split("\t")[-1].strip())

    def check_ended(self, attack, control):
        with self.server() as server:
            result, _ = self.run_noted(server, control)
            self.assert_ok(result)
            result, hidden = self.run_noted(server, attack)
            self.assertEqual(result.status.kind, "out of memory", result.text)
            self.assertIn("--memory", result.status.line)
            self.assertLess(hidden, MOST_MIB)
            self.assert_alive(server)

    @staticmethod
    def queues(workers, pairs):
        return QUEUES.format(workers=workers, pairs=pairs, most=MOST_MIB, patience=30 * SLOW)

    def test_queues_of_many_processes(self):
        with self.server() as server:
            result, hidden = self.run_noted(server, self.queues(2, 20))
            self.assertIn("2 of 2 alive", result.text)
            result, hidden = self.run_noted(server, self.queues(12, 240))
            self.assertLess(hidden, MOST_MIB, result.text)
            self.assert_alive(server)

    def test_processes_that_claim_to_be_a_checkpoint(self):
        with self.server() as server:
            result, _ = self.run_noted(server, CHECKPOINT.format(blocks=3))
            self.assert_prints(result, "0")
            result, hidden = self.run_noted(server, CHECKPOINT.format(blocks=40))
            self.assert_prints(result, "9")
            self.assertLess(hidden, MOST_MIB)
            self.assert_alive(server)

    def test_user_of_many_groups(self):
        """/proc/PID/status lists the groups before the fields that the watchdog reads."""
        join = [sys.executable, "-c", "import os, sys; os.setgroups(range(10 ** 9, 10 ** 9 + 2000)); "
                "os.execvp(sys.argv[1], sys.argv[1:])"]
        if subprocess.run([*join, "true"], capture_output=True).returncode:
            self.skipTest("root: groups cannot be set")
        with self.server(join) as server:
            self.assert_ok(server.python("import time"))
            result = server.python("held = []\nfor _ in range(64):\n"
                                   "    held.append(b'x' * (16 << 20)); time.sleep(0.03)")
            self.assertEqual(result.status.kind, "out of memory", result.text)

    def test_refused_ways_to_hide_memory(self):
        with self.server() as server:
            result = server.python(
                "import errno, fcntl, os, socket\n"
                "try: os.memfd_create('x')\nexcept OSError as e: print(errno.errorcode[e.errno])\n"
                "r, w = os.pipe()\n"
                "try: fcntl.fcntl(w, 1031, 1 << 20)\n"
                "except OSError as e: print(errno.errorcode[e.errno])\n"
                "s = socket.socket()\nold = s.getsockopt(1, socket.SO_SNDBUF)\n"
                "s.setsockopt(1, socket.SO_SNDBUF, 1 << 17)\n"
                "print(s.getsockopt(1, socket.SO_SNDBUF) == old)")
            self.assert_prints(result, "ENOSYS\nEPERM\nTrue")


for name, codes in ENDED.items():
    setattr(Uncounted, f"test_{name}", lambda self, codes=codes: self.check_ended(*codes))

if __name__ == "__main__":
    unittest.main()
