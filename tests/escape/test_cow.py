"""A copy-on-write workspace: code reaches neither its layers nor the keeper, and changes nothing of the user's."""
import contextlib
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e/changes"))

from attacks import DENIED, Attack  # noqa: E402
from projects import Project, tree  # noqa: E402
from traces import descendants  # noqa: E402

ALONE = pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1"  # root in a user namespace of one id
PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()
# 1 is init. The keeper is reported from init's other children by a name that it gives itself.
FIND = """
def named(pid):
    try: return open(f'/proc/{pid}/comm').read().strip()
    except OSError: return ''
KEEPERS = [1] + [pid for pid in range(2, 100) if 'keeper' in named(pid)]
assert len(KEEPERS) == 2, KEEPERS
LAYERS = [at for line in open('/proc/self/mountinfo') if ' /work ' in line
          for at in __import__('re').findall('(?:lower|upper|work)dir=([^,]*)', line)]
assert len(LAYERS) == 3, LAYERS
"""
SIGNAL = """
def send(pid, number):
    fd = syscall(434, pid, 0)
    try: return syscall(424, fd, number, None, 0)
    finally: os.close(fd)
"""
ATTACKS = [
    Attack("names_of_the_layers",
           "for at in LAYERS:\n    for top in ('/', '/work/', '/tmp/', '/proc/self/root/'):\n"
           "        attempt(os.listdir, top + at.lstrip('/')); attempt(write, top + at.lstrip('/') + '/planted')",
           DENIED + r"|allowed \[\]",
           control="attempt(os.listdir, '/work'); attempt(write, '/work/own')"),
    Attack("directories_and_descriptors_of_the_keeper",
           "for pid in KEEPERS:\n    for name in ('root', 'cwd', 'fd', 'fdinfo', 'map_files'): attempt(os.listdir, f'/proc/{pid}/{name}')\n"
           "    for fd in range(16): attempt(os.listdir, f'/proc/{pid}/fd/{fd}/'); attempt(os.open, f'/proc/{pid}/fd/{fd}', os.O_PATH)",
           control="for name in ('root', 'cwd', 'fd', 'fdinfo'): attempt(os.listdir, f'/proc/self/{name}')"),
    Attack("memory_of_the_keeper",
           "for pid in KEEPERS:\n    for name in ('mem', 'environ', 'maps', 'auxv'): attempt(read, f'/proc/{pid}/{name}')\n"
           "    attempt(write, f'/proc/{pid}/mem')\n"
           "    for request in (16, 0x4206): attempt(lambda: check(LIBC.ptrace(request, pid, None, None)))\n"
           "    data = ctypes.create_string_buffer(16); iov = struct.pack('QQ', ctypes.addressof(data), 16)\n"
           "    for number in (310, 311): attempt(syscall, number, pid, iov, 1, iov, 1, 0)\n"
           "    attempt(lambda: syscall(438, syscall(434, pid, 0), 4, 0))",
           control="for name in ('environ', 'maps', 'auxv'): attempt(read, '/proc/self/' + name)"),
    Attack("signals_to_the_keeper",
           SIGNAL + "for pid in KEEPERS:\n    for number in (0, signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):\n"
           "        attempt(os.kill, pid, number); attempt(send, pid, number)\n"
           "    attempt(os.setpriority, os.PRIO_PROCESS, pid, 19); attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (0, 0))\n"
           "    attempt(write, f'/proc/{pid}/oom_score_adj', b'1000')",
           control=SIGNAL + "child = os.fork()\nif child == 0: time.sleep(60); os._exit(0)\n"
                   "attempt(os.kill, child, 0); attempt(send, child, signal.SIGKILL); attempt(os.waitpid, child, 0)"),
    Attack("whiteouts_and_devices",
           "for device in (0, os.makedev(1, 3), os.makedev(8, 0)): attempt(os.mknod, 'device', stat.S_IFCHR | 0o666, device)\n"
           "attempt(os.mknod, 'device', stat.S_IFBLK | 0o666, 0)\nwrite('own')\n"
           "attempt(lambda: syscall(316, -100, b'own', -100, b'moved', 4))",
           control="attempt(os.mkfifo, 'fifo'); write('own'); attempt(lambda: syscall(316, -100, b'own', -100, b'moved', 1))"),
    Attack("mounts_over_the_workspace",
           "attempt(lambda: check(LIBC.mount(None, b'/work', None, 32, None)))\n"
           "attempt(lambda: check(LIBC.mount(None, b'/work', None, 32 | 4096, None)))\n"
           "attempt(lambda: check(LIBC.mount(b'/work', b'/tmp', None, 4096, None)))\n"
           "attempt(lambda: check(LIBC.mount(b'overlay', b'/tmp', b'overlay', 0, b'lowerdir=/work')))\n"
           "attempt(lambda: check(LIBC.umount2(b'/work', 2)))\n"
           "attempt(lambda: syscall(428, -100, b'/work', 1)); attempt(lambda: syscall(430, b'overlay', 0))\n"
           "attempt(lambda: syscall(433, -100, b'/work', 0)); attempt(lambda: syscall(272, 0x10020000))",
           control="attempt(os.statvfs, '/work')"),
    Attack("files_by_their_handles",
           "handle = ctypes.create_string_buffer(struct.pack('I', 128), 256)\n"
           "attempt(lambda: syscall(303, -100, b'/work/theirs', handle, ctypes.byref(ctypes.c_int()), 0))\n"
           "for form in (1, 2, 0xf8, 0xfb): attempt(lambda: syscall(304, os.open('/work', os.O_RDONLY), "
           "ctypes.create_string_buffer(struct.pack('II', 8, form) + struct.pack('II', 2, 0)), 0))",
           control="attempt(os.open, '/work/theirs', os.O_RDONLY)"),
    Attack("attributes_of_the_layers",
           "for name in ('trusted.overlay.opaque', 'trusted.overlay.redirect', 'security.capability'):\n"
           "    attempt(os.setxattr, 'theirs', name, b'y'); attempt(os.getxattr, 'theirs', name)",
           DENIED.replace("EOPNOTSUPP", "EOPNOTSUPP|ENODATA"),
           control="write('own'); attempt(os.chmod, 'own', 0o600)"),
]


class CopyOnWrite(Project):
    def setUp(self):
        super().setUp()
        self.put("theirs")
        self.put("deep/theirs")

    def keepers(self, server):
        found = []
        for pid in descendants(server.pid):
            with contextlib.suppress(OSError):  # it may just have exited
                if "keeper" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                    found.append(pid)
        return found

    def carry_out(self, code):
        """The lines that the code prints. The directory stays, the keeper lives, and what it keeps comes back."""
        before = tree(self.dir, exact=True), tree(self.outside, exact=True)
        with self.server() as server:
            self.assert_ok(server.python(PRELUDE + FIND + "write('kept', b'kept')"))
            keepers = self.keepers(server)
            self.assertEqual(len(keepers), 1)
            result = server.python(code + "\nlost = write('kept', b'lost')")
            self.assert_ok(result)
            self.assertEqual(self.keepers(server), keepers)
            self.assert_ok(server.python("", undo=True))
            self.assert_prints(server.python("print(open('kept').read())"), "kept")
            self.assertEqual(list(self.changes(server)), [b"kept"])
            self.assertEqual((tree(self.dir, exact=True), tree(self.outside, exact=True)), before)
        return result.output.split("\n")

    def attack(self, attack):
        for line in self.carry_out(attack.code):
            self.assertRegex(line, rf"^(?:{attack.held})$")

    def control(self, attack):
        for line in self.carry_out(attack.control):
            self.assertRegex(line, rf"^(?:{attack.control_holds})$")

    def test_the_outside_sees_them(self):
        """What the attacks cannot reach is there."""
        if os.geteuid() != 0 or ALONE:
            self.skipTest("root: reads another process's descriptors")
        with self.server() as server:
            self.assert_ok(server.python("write = open('own', 'w').write('marker')"))
            keeper, = self.keepers(server)
            there = {path.resolve() for path in pathlib.Path(f"/proc/{keeper}/fd").iterdir()}
            self.assertTrue(any(re.search("upper$", str(path)) for path in there), there)


for each in ATTACKS:
    setattr(CopyOnWrite, f"test_{each.name}", lambda self, a=each: self.attack(a))
    setattr(CopyOnWrite, f"test_{each.name}__control", lambda self, a=each: self.control(a))

if __name__ == "__main__":
    unittest.main()
