"""The attacks of container.py, in the container grade, and families that do not want to end."""
import ctypes
import pathlib
import time
import unittest

from container import CONTAINER
from judge import Judge, add_cases
from world import LIBC

from client import is_denied

# Born again all the time, in a session of its own, deaf: whoever was listed is gone, another is there.
FAMILY = """
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_IGN)
for _ in range(12):
    if os.fork() == 0:
        os.setsid()
        LIBC.prctl(15, b'sp-family', 0, 0, 0)
        while True:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
print('begun')
"""
# Its first thread leaves, another stays: /proc calls that process a zombie.
LEADER = """
import threading
if os.fork() == 0:
    LIBC.prctl(15, b'sp-family', 0, 0, 0)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    LIBC.syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)
time.sleep(0.2)
print('begun')
"""


def families():
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text() == "sp-family\n":
                found.append(path.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
    return found


class Container(Judge):
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
        """Before code that would harm the machine runs: it must not read what anybody may."""
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
        while families() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(families(), [])
        self.assert_alive(self.server)

    def test_a_family_that_is_born_again_all_the_time(self):
        self.none_is_left(FAMILY)

    def test_a_leader_that_has_left(self):
        self.none_is_left(LEADER)


add_cases(Container, CONTAINER)

if __name__ == "__main__":
    unittest.main()
