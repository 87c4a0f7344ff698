"""undo on a disk that is full: what it could not put back comes once there is space."""
import contextlib
import os
import pathlib
import subprocess
import unittest

from client import Server, once
from overlay import cow_flags
from undoing import InDirectory, InMemory, WithCow

MIB = 1 << 20
WHY = r"files not reverted, no space on the disk for: {}; when there is: restore \"before-undo\", and repeat this"


def fill(directory):
    with contextlib.suppress(OSError), open(directory / "of_the_user", "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with contextlib.suppress(OSError), open(directory / "of_the_user", "ab", buffering=0) as file:
        while file.write(b"x"):
            pass


class FullDisk(InDirectory):
    """The directory is a disk of 4 MiB."""

    def server(self, *args):
        wrap = ["unshare", "-Urm", "sh", "-ec", f'mount -t tmpfs -o size=4m,mode=755 tmpfs {self.dir}; exec "$@"', "sh"]
        tried = subprocess.run([*wrap, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
        server = Server(*self.workspace, *args, wrap=wrap)
        self.disk = pathlib.Path(f"/proc/{server.pid}/root{self.dir}")
        return server

    def refused(self, result, name):
        self.assertRegex(result.status.line, WHY.format(name))
        self.assertNotIn("cannot revert", result.status.line)


class Directory(FullDisk):
    def remove_and_fill(self, server):
        self.assert_ok(server.python("x = 1; open('k2.txt', 'w').write('of the user, 20 byte'); open('other', 'w').write('first')"))
        self.assert_ok(server.python("import os; x = 2; os.remove('k2.txt'); open('new', 'w').write('new'); os.remove('other')"))
        fill(self.disk)
        self.refused(self.undo(server), "k2.txt")
        self.assertEqual(sorted(os.listdir(self.disk)), ["new", "of_the_user"])
        os.remove(self.disk / "of_the_user")

    def assert_back(self):
        self.assertEqual({path.name: path.read_text() for path in self.disk.iterdir()}, {"k2.txt": "of the user, 20 byte", "other": "first"})

    def test_by_the_named_way(self):
        with self.server() as server:
            self.remove_and_fill(server)
            self.assert_ok(server.python("", restore="before-undo"))
            self.assert_prints(server.python("print(x)", undo=True), "1")
            self.assert_back()

    def test_by_the_next_undo(self):
        with self.server() as server:
            self.assert_ok(server.python("y = 1"))
            self.remove_and_fill(server)
            self.undo(server)
            self.assertEqual(list(self.disk.iterdir()), [])
            self.assert_ok(server.python("", restore="before-undo"))
            self.assert_ok(server.python("z = 1"))

    def test_after_other_calls(self):
        with self.server() as server:
            self.remove_and_fill(server)
            self.assert_ok(server.python("open('later', 'w').write('later')"))
            self.undo(server)
            self.assert_back()

    def test_of_the_user_with_nothing_before(self):
        with self.server() as server:
            (self.disk / "k2.txt").write_text("of the user, 20 byte")
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.remove('k2.txt')"))
            fill(self.disk)
            self.refused(self.undo(server), "k2.txt")
            os.remove(self.disk / "of_the_user")
            self.assertIn("files back: k2.txt", self.undo(server).status.line)
            self.assertEqual((self.disk / "k2.txt").read_text(), "of the user, 20 byte")

    def test_what_goes_makes_space(self):
        with self.server() as server:
            self.assert_ok(server.python(f"open('keep.txt', 'w').write('k' * {MIB})"))
            self.assert_ok(server.python("file = open('fill', 'wb', buffering=0); open('keep.txt', 'w').write('short')\n"
                                         "try:\n    while file.write(bytes(4096)): pass\nexcept OSError: file.close()"))
            self.assertIn("files back: keep.txt, files removed: fill", self.undo(server).status.line)
            self.assertEqual([(path.name, path.stat().st_size) for path in self.disk.iterdir()], [("keep.txt", MIB)])

    def test_what_goes_by_the_next_undo_makes_space(self):
        with self.server() as server:
            self.assert_ok(server.python("open('keep.txt', 'w').write('as it was')"))
            self.assert_ok(server.python("x = 2\ntry:\n    with open('fill', 'wb', buffering=0) as file:\n        while file.write(bytes(4096)): pass\n"
                                         "except OSError: pass"))
            self.assert_ok(server.python("with open('keep.txt', 'r+') as file: file.write('short')"))
            self.refused(self.undo(server), "keep.txt")
            self.assertIn("files back: keep.txt, files removed: fill", self.undo(server).status.line)
            self.assertEqual({path.name: path.read_text() for path in self.disk.iterdir()}, {"keep.txt": "as it was"})


@once
class Memory(InMemory):
    def test_a_job_fills_it(self):
        with self.server("--disk", "16M") as server:
            self.assert_ok(server.python(f"x = 1; open('keep', 'wb').write(b'k' * {4 * MIB})"))
            self.assert_ok(server.python("import os; x = 2; os.remove('keep'); open('new', 'w').write('new')"))
            self.assert_ok(server.python("try:\n    with open('fill', 'wb', buffering=0) as file:\n        while file.write(bytes(4096)): pass\n"
                                         "except OSError: pass", session="two"))
            self.assertRegex(self.undo(server).status.line, WHY.format("keep"))
            self.assertEqual(set(self.contents(server)), {"new", "fill"})
            self.assert_ok(server.python("import os; os.remove('fill')", session="two"))
            self.assert_ok(server.python("", restore="before-undo"))
            self.assertIn("files back: keep, files removed: new", self.undo(server).status.line)
            self.assertEqual(set(self.contents(server)), {"keep"})


if __name__ == "__main__":
    unittest.main()
