"""The attacks of container.py at the level `container`, and processes that are hard to kill."""
import ctypes
import pathlib
import time
import unittest

from container import CONTAINER
from check import Attacked, add_cases
from world import LIBC

from client import is_denied

# Processes that fork and exit all the time, each in a new process session, and ignore signals: any list of them is
# out of date.
FORKING = """
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
for _ in range(12):
    if os.fork() == 0:
        os.setsid()
        LIBC.prctl(15, b'sp-survivor', 0, 0, 0)
        while True:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
print('begun')
"""
# A process whose first thread has exited while another runs: /proc calls it a zombie.
LEADER = """
import threading
if os.fork() == 0:
    LIBC.prctl(15, b'sp-survivor', 0, 0, 0)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    LIBC.syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
time.sleep(0.2)
print('begun')
"""


def survivors():
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text() == "sp-survivor\n":
                found.append(path.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            pass  # the process has exited
    return found


class Container(Attacked):
    options = ("--isolation=container",)
    written_for_work = False
    ground = "import tempfile; os.chdir(tempfile.mkdtemp(dir='.'))"

    @classmethod
    def need(cls):
        version = -1 if is_denied("landlock_create_ruleset") else LIBC.syscall(444, None, ctypes.c_size_t(0), 1)
        if version < 2:
            raise unittest.SkipTest("landlock: version 2 or newer")

    @classmethod
    def must_hold(cls):
        """Checks first that code cannot read a file that is readable by all: the attacks would harm the machine."""
        held = cls.server.python(f"try: print(open({str(cls.world.file)!r}).read())\n"
                                 "except PermissionError: print('held')")
        if held.output != "held":
            cls.server.destroy()
            raise AssertionError(f"this server does not contain code: {held.text}")

    def none_is_left(self, code):
        result = self.run_inside(code)
        self.assertEqual(result.output, "begun", result.text)
        self.assert_ok(self.server.python("1", reset=True))
        deadline = time.monotonic() + 20
        while survivors() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(survivors(), [])
        self.assert_alive(self.server)

    def test_processes_that_fork_without_pause_are_killed(self):
        self.none_is_left(FORKING)

    def test_a_process_whose_first_thread_has_exited_is_killed(self):
        self.none_is_left(LEADER)


add_cases(Container, CONTAINER)

if __name__ == "__main__":
    unittest.main()
