"""What code says on its session's control socket about checkpoints concerns its own session only.

The frames are those of docs/GUEST.md. pid 1 keeps one table of processes and one queue for all
sessions: neither may be filled by one of them.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import Case, Server, doctor_says, need_userns  # noqa: E402

WATCHED = 512  # INIT_WATCHED in sandbox/init/init.h

PRELUDE = """
import os, signal, socket, struct, time
control = socket.socket(fileno=os.dup(64))  # CONTROL_FD in guest/session.py

def checkpoint(pid, cell):
    words = [str(word).encode() for word in ('checkpoint', 'pid', os.getpid(), 'checkpoint', pid, 'cell', cell)]
    body = b''.join(struct.pack('<I', len(word)) + word for word in words)
    return struct.pack('<I', len(body)) + body
def sleeper():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
def processes():
    return [int(name) for name in os.listdir('/proc') if name.isdigit()]
"""

# Each call leaves the number of a process that is not there any more.
REAPED = """
for other in processes():
    if other not in (1, 2, os.getpid()):
        try: os.kill(other, signal.SIGKILL)
        except OSError: pass
if pid: os.waitpid(pid, 0)
pid = sleeper()
control.sendall(checkpoint(pid, 10000 + turn % 3))
turn += 1
"""

FLOOD = """
frames = b''.join(checkpoint(2000000 + n, 10000 + n % 14) for n in range(3000))
if os.fork() == 0:
    while True:
        try: control.sendall(frames)
        except BlockingIOError: pass
time.sleep(0.1)
"""


class Forged(Case):
    def setUp(self):
        need_userns()
        self.server = Server("--timeout", "20")
        self.server.must_be_contained()
        self.assert_ok(self.server.python("kept = 1", session="witness"))
        self.assert_ok(self.server.python(PRELUDE))

    def tearDown(self):
        with self.server:
            pass

    def assert_others_live(self):
        self.assert_prints(self.server.python("print(kept)", session="witness"), "1")
        died = self.server.python("import os; os._exit(3)", session="witness")
        self.assertEqual(died.status.state, "restored to before this call", died.text)
        self.assert_prints(self.server.python("print(6 * 7)", fresh=True), "42")

    def test_a_flood_costs_no_other_session_anything(self):
        self.server.write("kept.txt", "here")
        for _ in range(5):
            self.server.python(PRELUDE + FLOOD)
            self.server.python("", reset=True)
        self.assert_others_live()
        self.assertIn("here", self.server.read("kept.txt").text)

    def test_processes_that_are_gone_leave_room(self):
        if doctor_says()["landlock"]["state"] != "on":
            self.skipTest("landlock: without it the attack kills the witness itself")
        self.assert_ok(self.server.python("pid, turn = 0, 0"))
        for _ in range(WATCHED + 20):
            self.assert_ok(self.server.python(REAPED))
        self.assert_others_live()

    def test_processes_of_others_are_neither_offered_to_the_kernel_nor_killed(self):
        code = ("def scores():\n    return {pid: open(f'/proc/{pid}/oom_score_adj').read() for pid in others}\n"
                "others = [2, int(open('/tmp/witness').read())]\nbefore = scores()\n")
        self.assert_ok(self.server.python("import os; open('/tmp/witness', 'w').write(str(os.getpid()))",
                                          session="witness"))
        self.assert_ok(self.server.python(code))
        for number in ("others[0]", "others[1]", "others[0]"):
            self.assert_ok(self.server.python(f"control.sendall(checkpoint({number}, 10000))"))
        self.assert_prints(self.server.python("print(scores() == before)"), "True")
        self.assert_others_live()


if __name__ == "__main__":
    unittest.main()
