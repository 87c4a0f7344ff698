"""Directories of --mount: a read-only one stays unchanged, and neither kind gives access to more of the host."""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from attacks import Attack  # noqa: E402
from client import Case, Server, is_denied, need_userns  # noqa: E402
from container_level import CONTAINER  # noqa: E402
from world import World  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()
HELD = r"denied \w+"

ATTACKS = [
    Attack("make_change_and_remove_names",
           "write('/work/own')\n"
           "for mode in ('wb', 'ab', 'r+b'): attempt(write, A, b'x', mode)\n"
           "attempt(write, IN + '/new', b'x', 'xb'); attempt(os.truncate, A, 0); attempt(os.unlink, A)\n"
           "attempt(os.mkdir, IN + '/d'); attempt(os.rmdir, IN + '/deep'); attempt(os.mkfifo, IN + '/f')\n"
           "attempt(os.symlink, 'a', IN + '/s'); attempt(os.link, '/work/own', IN + '/l')\n"
           "attempt(os.rename, A, IN + '/b'); attempt(os.rename, A, '/work/b'); attempt(os.rename, '/work/own', A)",
           HELD, control="write('/work/m'); attempt(os.rename, '/work/m', '/work/n')"),
    Attack("change_what_is_known_of_a_file",
           "attempt(os.chmod, A, 0o777); attempt(os.utime, A); attempt(os.chmod, IN, 0o777)\n"
           "attempt(os.setxattr, A, 'user.x', b'x'); attempt(os.removexattr, A, 'user.x')\n"
           "attempt(os.chown, A, os.getuid(), os.getgid())\n"
           "fd = os.open(A, os.O_RDONLY)\n"
           "attempt(os.fchmod, fd, 0o777); attempt(os.utime, fd); attempt(os.ftruncate, fd, 0)\n"
           "attempt(os.setxattr, fd, 'user.x', b'x')\n"
           "attempt(fcntl.ioctl, fd, 0x40086602, struct.pack('l', 0x10))  # FS_IOC_SETFLAGS",
           HELD, control="write('/work/m'); attempt(os.chmod, '/work/m', 0o700)"),
    Attack("open_again_for_writing",
           "for flags in (os.O_RDONLY, os.O_PATH):\n"
           "    fd = os.open(A, flags)\n"
           "    for again in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC):\n"
           "        attempt(os.open, f'/proc/self/fd/{fd}', again)\n"
           "d = os.open(IN, os.O_PATH)\n"
           "attempt(lambda: os.open('new', os.O_WRONLY | os.O_CREAT, dir_fd=d))\n"
           "attempt(os.open, IN, os.O_WRONLY | os.O_TMPFILE)",
           HELD, control="write('/work/m'); fd = os.open('/work/m', os.O_PATH); "
                         "attempt(os.open, f'/proc/self/fd/{fd}', os.O_WRONLY)"),
    Attack("write_by_memory",
           "import mmap\n"
           "fd = os.open(A, os.O_RDONLY)\n"
           "attempt(mmap.mmap, fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)\n"
           "LIBC.mmap.restype = ctypes.c_void_p\n"
           "at = LIBC.mmap(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))\n"
           "attempt(lambda: check(LIBC.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3)))",
           HELD, control="import mmap; write('/work/m', b'x'); fd = os.open('/work/m', os.O_RDWR); "
                         "attempt(mmap.mmap, fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)"),
    Attack("mount_it_otherwise",
           "for flags in (32 | 4096, 32, 4096 | 16384, 8192):\n"
           "    for path in (b'/data/in', b'/data/out'):\n"
           "        attempt(lambda: check(LIBC.mount(path, path, None, flags, None)))\n"
           "attempt(lambda: check(LIBC.umount2(b'/data/in', 2)))\n"
           "attempt(syscall, 442, -100, b'/data/in', 0, struct.pack('QQQQ', 0, 1, 0, 0), 32)\n"
           "attempt(syscall, 428, -100, b'/data/in', 1)",
           HELD, control="attempt(os.statvfs, '/data/in')"),
    Attack("put_another_in_its_place",
           "for path in ('/data/in', '/data/out', '/data'):\n"
           "    attempt(os.rename, path, '/data/x'); attempt(os.rmdir, path)\n"
           "attempt(os.mkdir, '/data/new'); attempt(os.symlink, '/', '/data/s')",
           HELD, control="attempt(os.listdir, '/data')"),
    Attack("follow_links_out",
           "for name in ('canary', 'planted', 'up/' + os.path.basename(W['directory']) + '/canary.txt', 'proc'):\n"
           "    attempt(read, IN + '/' + name)\n"
           "attempt(os.listdir, '/data/in/..' + W['directory']); attempt(read, '/data/out/../..' + W['file'])",
           HELD, control="attempt(read, IN + '/inner')"),
    Attack("link_out_of_the_writable_one",
           "os.symlink(W['file'], '/data/out/l'); attempt(read, '/data/out/l'); attempt(write, '/data/out/l')\n"
           "attempt(os.link, A, '/data/out/h'); os.unlink('/data/out/l')",
           HELD, control="write('/data/out/m'); os.symlink('m', '/data/out/k'); attempt(read, '/data/out/k'); "
                         "os.unlink('/data/out/k')", needs="writable"),
    Attack("run_programs_in_it",
           "import subprocess\n"
           "for path in (IN + '/suid', IN + '/script'): attempt(subprocess.check_output, [path, '-c', 'print(1)'])\n"
           "attempt(ctypes.CDLL, IN + '/library')",
           HELD, control="import subprocess; attempt(subprocess.check_output, ['/bin/sh', '-c', 'echo'])"),
    Attack("make_programs_with_more_rights",
           "write('/data/out/p'); attempt(os.chmod, '/data/out/p', 0o4755); attempt(os.chmod, '/data/out/p', 0o2755)\n"
           "attempt(os.mknod, '/data/out/n', stat.S_IFCHR | 0o666, os.makedev(1, 1))\n"
           "attempt(os.chown, '/data/out/p', 0, 0)",
           HELD, control="write('/data/out/q'); attempt(os.chmod, '/data/out/q', 0o755)", needs="writable"),
    Attack("open_devices_in_it",
           "attempt(os.open, IN + '/device', os.O_RDONLY); attempt(os.open, IN + '/device', os.O_RDWR)",
           HELD, control="attempt(os.open, '/dev/null', os.O_RDONLY)"),
    Attack("write_into_a_pipe_of_the_host",
           "attempt(os.open, IN + '/fifo', os.O_WRONLY | os.O_NONBLOCK)",
           HELD, control="os.mkfifo('/work/f'); attempt(os.open, '/work/f', os.O_RDONLY | os.O_NONBLOCK)",
           needs="landlock"),
]


def contents(directory):
    """All that code could have changed: types, modes, owners, times and bytes."""
    for path in sorted(directory.rglob("*")):
        at = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        yield path.name, at.st_mode, at.st_uid, at.st_gid, at.st_mtime_ns, at.st_nlink, data


class Directories(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.world = World()
        cls.temp = pathlib.Path(cls.world.directory + "-data")
        cls.shown, out = cls.temp / "in", cls.temp / "out"
        (cls.shown / "deep").mkdir(parents=True)
        out.mkdir()
        for path in (cls.temp, cls.shown, out):
            path.chmod(0o777)
        cls.fill(cls.shown, cls.world)
        # A directory of root's gets another owner only by an id mapping.
        mapped = pathlib.Path("/proc/self/uid_map").read_text().split()[2] != "1"
        cls.writable = not (os.geteuid() == 0 and mapped and CONTAINER)
        more = ["--mount", f"{out}:rw"] if cls.writable else []
        cls.server = Server("--mount", str(cls.shown), *more)
        cls.server.must_be_contained()
        if CONTAINER:  # the guest sees them at their own paths
            cls.server.directories.update({"/data/in": os.path.realpath(cls.shown), "/data/out": os.path.realpath(out)})
        (cls.shown / "planted").symlink_to(cls.world.file)
        cls.before = list(contents(cls.shown))

    @staticmethod
    def fill(shown, world):
        (shown / "a").write_text("as it was")
        (shown / "a").chmod(0o666)
        (shown / "inner").symlink_to("a")
        (shown / "canary").symlink_to(world.file)
        (shown / "up").symlink_to("../..")
        (shown / "proc").symlink_to(f"/proc/{os.getpid()}/root/{world.file}")
        shutil.copy("/bin/sh", shown / "suid")
        (shown / "suid").chmod(0o6755)
        shutil.copy("/bin/sh", shown / "library")
        (shown / "script").write_text("#!/bin/sh\necho ran\n")
        (shown / "script").chmod(0o755)
        os.mkfifo(shown / "fifo", 0o666)
        try:
            os.mknod(shown / "device", 0o20666, os.makedev(1, 5))
        except PermissionError:
            pass  # only root of the host can create one; a missing file is denied as well

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            cls.world.close()
            shutil.rmtree(cls.temp, ignore_errors=True)

    def run_inside(self, code):
        facts = repr(self.world.facts(self.server.pid))
        places = self.server.here("IN, A = '/data/in', '/data/in/a'")
        self.assert_ok(self.server.python(f"{PRELUDE}\nW = {facts}\n{places}\n", reset=True))
        return self.server.python(self.server.here(code))

    def check(self, attack, code, held):
        if attack.needs == "writable" and not self.writable:
            self.skipTest("isolation: nothing of root's is handed over without mapped ids")
        if attack.needs == "landlock" and is_denied("landlock_create_ruleset"):
            self.skipTest("landlock: taken away")
        result = self.run_inside(code)
        self.assert_ok(result)
        for line in result.output.split("\n"):
            self.assertRegex(line, rf"^(?:{held})$")
        self.assertNotIn(self.world.secret, result.text)
        self.assertEqual(self.world.unharmed(), [])
        self.assertEqual(list(contents(self.shown)), self.before)


for each in ATTACKS:
    setattr(Directories, f"test_{each.name}", lambda self, a=each: self.check(a, a.code, a.held))
    setattr(Directories, f"test_{each.name}__control",
            lambda self, a=each: self.check(a, a.control, a.control_holds))

if __name__ == "__main__":
    unittest.main()
