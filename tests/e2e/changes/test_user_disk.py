"""What is left of the user's files on the disk they lie on: their attributes, also many and long ones; the old or the new
content, whole, after a power cut; and what a disk refuses late."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from at_work import AtWork, WrittenThrough
from this_run import DENY, once

MANY = {f"user.{i:02}{'n' * 238}": b"of the user" for i in range(20)}
LONG = {"user.long": b"v" * 12_000}


class Attributes:
    """20 with names of 245 bytes, and one with a value of 12 kB."""

    def make_directories(self):
        """Where the file system of /tmp holds fewer, as ext4 does, in memory."""
        for directory in (tempfile.gettempdir(), "/dev/shm"):
            with tempfile.NamedTemporaryFile(dir=directory) as file:
                try:
                    for name, value in {**MANY, **LONG}.items():
                        os.setxattr(file.name, name, value)
                except OSError as error:
                    why = f"{directory}: {error}"
                    continue
            with unittest.mock.patch("tempfile.tempdir", directory):
                super().make_directories()
            return
        raise unittest.SkipTest(why)

    def of_the_user(self):
        for name, attributes in (("many", MANY), ("long", LONG)):
            path = self.put(name, "as it was\n")
            for attribute, value in attributes.items():
                os.setxattr(path, attribute, value)

    def assert_kept(self, text, said=""):
        for name, attributes in (("many", MANY), ("long", LONG)):
            path = self.dir / name
            self.assertEqual(self.read(name), text, said)
            self.assertEqual({attribute: os.getxattr(path, attribute) for attribute in os.listxattr(path)
                              if attribute.startswith("user.")}, attributes, said)


class InDirectory(Attributes, WrittenThrough):
    """The workspace is written through."""

    def test_undo(self):
        self.of_the_user()
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.remove('many'); os.remove('long')"))
            said = self.undo(server)
        self.assert_kept("as it was\n", said)

    def test_write_file(self):
        self.of_the_user()
        with self.start() as server:
            for name in "many", "long":
                self.assertFalse(server.call("write_file", path=name, content="whole\n").is_error)
            self.assert_kept("whole\n")
            for name in "many", "long":
                self.assertFalse(server.call("write_file", path=name, old_text="whole", new_text="edited").is_error)
        self.assert_kept("edited\n")


    def test_what_cannot_be_copied(self):
        """Is named, and the user's file stays."""
        self.of_the_user()
        before = os.stat(self.dir / "many").st_ino
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.remove('long')"))
        with self.start(wrap=(*DENY, "fsetxattr:ENOSPC", "--")) as server:
            self.assertIn("extended attributes", server.call("write_file", path="many", content="code").text)
        self.assertEqual((self.read("many"), os.stat(self.dir / "many").st_ino), ("as it was\n", before))

    def test_undo_without_them(self):
        self.of_the_user()
        with self.start(wrap=(*DENY, "fsetxattr:ENOSPC", "--")) as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.remove('many'); open('many', 'w').write('code')"))
            self.assertRegex(self.undo(server), r"cannot revert: many\b")
        self.assertEqual(self.read("many"), "code")


class CopyOnWrite(Attributes, AtWork):
    """With --cow."""

    def test_apply(self):
        self.of_the_user()
        with self.start() as server:
            self.assert_ok(server.python("for name in 'many', 'long': open(name, 'w').write('by code\\n')"))
            said = server.call("apply_changes").text
        self.assertIn("applied 2 of 2", said)
        self.assert_kept("by code\n", said)

    def test_what_cannot_be_copied(self):
        self.of_the_user()
        with self.start(wrap=(*DENY, "flistxattr:EIO", "--")) as server:
            self.assert_ok(server.python("for name in 'many', 'long': open(name, 'w').write('by code\\n')"))
            said = server.call("apply_changes").text
        self.assertIn("applied 0 of 2", said)
        for name in "many", "long":
            self.assertRegex(said, rf"\b{name}: not applied: .*extended attributes")
        self.assert_kept("as it was\n", said)


class LateErrors:
    """A disk or a network file system that refuses what was written only when it has to keep it."""
    REFUSING = (*DENY, "fsync:EIO", "syncfs:EIO", "--")


class LateErrorsInDirectory(LateErrors, WrittenThrough):
    def test_write_file(self):
        self.put("a"), self.put("b")
        with self.start(wrap=self.REFUSING) as server:
            for arguments in ({"path": "a", "content": "code"}, {"path": "a", "old_text": "was", "new_text": "code"},
                              {"path": "new", "content": "code"}, {"path": "b", "content": "code", "mode": "append"},
                              {"path": "begun", "content": "code", "mode": "append"}):
                result = server.call("write_file", **arguments)
                self.assertIn("Input/output error", result.text)
                self.assertTrue(result.is_error)
        self.assertEqual((self.read("a"), self.read("b"), sorted(os.listdir(self.dir))), ("as it was\n", "as it was\n", ["a", "b"]))

    def test_undo(self):
        self.put("a")
        with self.start(wrap=self.REFUSING) as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("open('a', 'w').write('by code')"))
            self.assertIn("cannot revert: a", self.undo(server))
        self.assertEqual((self.read("a"), os.listdir(self.dir)), ("by code", ["a"]))


class LateErrorsApply(LateErrors, AtWork):
    def test_apply(self):
        names = [f"old-{i}" for i in range(20)]
        for name in names:
            self.put(name)
        with self.start(wrap=self.REFUSING) as server:
            self.assert_ok(server.python(f"for name in {[*names, 'new']}: open(name, 'w').write('by code')"))
            for some in ["new"], [*names[:3]], []:
                result = server.call("apply_changes", **({"paths": some} if some else {}))
                self.assertIn(f"applied 0 of {len(some) or 21}", result.text)
                self.assertIn(f"{(some or names)[0]}: Input/output error", result.text)
        self.assertEqual({self.read(name) for name in names}, {"as it was\n"})
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(names))


OLD, NEW = "as it was\n" * 500, "by code\n" * 700


class PowerCut:
    """A disk of their own, of which another one gets what it has received so far: what a power cut would leave."""
    make, size, mount_options = (), 0, ""

    def make_directories(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("a loop device needs root")
        if not shutil.which(self.make[0]):
            raise unittest.SkipTest(f"{self.make[0]} is not installed")
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="sp-disk-"))
        self.addCleanup(shutil.rmtree, self.base)
        self.image = self.base / "disk"
        with open(self.image, "wb") as file:
            file.truncate(self.size << 20)
        subprocess.run([*self.make, self.image], check=True, capture_output=True)
        top = self.mount(self.image, self.base / "top")
        self.addCleanup(subprocess.run, ["umount", top], check=True)
        with unittest.mock.patch("tempfile.tempdir", str(top)):
            super().make_directories()

    def mount(self, image, top):
        top.mkdir()
        top.chmod(0o755)
        self.base.chmod(0o755)
        done = subprocess.run(["mount", "-o", f"loop{self.mount_options}", image, top], capture_output=True, text=True)
        if done.returncode:
            raise unittest.SkipTest(f"mount: {done.stderr.strip()}")
        return top

    def after_power_cut(self):
        """{name: text} of the directory. Another program has made the file system write its journal meanwhile."""
        with open(self.base / "top" / "other", "w") as other:
            os.fsync(other.fileno())
        self.wait_for_journal()
        copy = self.base / f"copy-{time.monotonic_ns()}"
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        top = self.mount(copy, copy.with_suffix(".top"))
        try:
            return {path.name: path.read_bytes().decode(errors="replace")
                    for path in (top / self.dir.relative_to(self.base / "top")).rglob("*") if path.is_file()}
        finally:
            subprocess.run(["umount", top], check=True)

    def wait_for_journal(self):
        pass

    def old(self, *names):
        for name in names:
            self.put(name, OLD)
        os.sync()

    def assert_whole(self, expected, said=""):
        """{name: what it may be}; None: it may be missing."""
        found = self.after_power_cut()
        for name, texts in expected.items():
            text = found.get(name)
            self.assertIn(text and (text[:20], len(text)), [each and (each[:20], len(each)) for each in texts], f"{name} {said}")
            self.assertIn(text, texts, f"{name} {said}")
        self.assertEqual(set(found) - set(expected), set(), said)


class PowerCutApply(PowerCut):
    def applied(self, code, *old):
        self.old(*old)
        with self.start() as server:
            self.assert_ok(server.python(code))
            text = server.call("apply_changes").text
            return text, {**dict.fromkeys(old, [OLD, NEW])}

    def test_one(self):
        text, expected = self.applied(f"open('a', 'w').write({NEW!r})", "a")
        self.assertIn("applied 1 of 1", text)
        self.assert_whole(expected)

    def test_many(self):
        """Changed ones, and new ones in new directories."""
        names = [f"old-{i}" for i in range(40)]
        text, expected = self.applied(
            f"import os\nfor name in {names}: open(name, 'w').write({NEW!r})\n"
            f"for i in range(40): os.makedirs(f'd/{{i % 3}}', exist_ok=True); open(f'd/{{i % 3}}/new-{{i}}', 'w').write({NEW!r})", *names)
        self.assertIn("applied 84 of 84" if "84" in text else "applied 8", text)
        self.assert_whole({**expected, **{f"new-{i}": [None, NEW] for i in range(40)}})

    def test_moved(self):
        """A file that goes has its new name by then."""
        self.old("a")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.rename('a', 'b')"))
            self.assertIn("applied 2 of 2", server.call("apply_changes").text)
        found = self.after_power_cut()
        self.assertIn(OLD, found.values())
        self.assertEqual(set(found.values()), {OLD})


class PowerCutInDirectory(PowerCut):
    def test_undo(self):
        self.old("a", "b", "c")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"import os; os.remove('a'); open('b', 'w').write({NEW!r}); os.remove('c'); open('c', 'w').write({NEW!r})"))
            os.sync()
            said = self.undo(server)
            self.assertEqual((self.read("a"), self.read("b"), self.read("c")), (OLD, OLD, OLD), said)
            self.assert_whole({"a": [None, OLD], "b": [OLD, NEW], "c": [OLD, NEW]}, said)

    def test_undo_of_many(self):
        names = [f"old-{i}" for i in range(40)]
        self.old(*names)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"import os\nfor name in {names}: os.remove(name); open(name, 'w').write({NEW!r})"))
            os.sync()
            said = self.undo(server)
            self.assertEqual([self.read(name) for name in names], [OLD] * 40, said)
            self.assert_whole({name: [OLD, NEW] for name in names}, said)

    def test_restore(self):
        self.old("a")
        with self.start() as server:
            self.assert_ok(server.python("x = 1", checkpoint="named"))
            self.assert_ok(server.python(f"open('a', 'w').write({NEW!r})"))
            self.assert_ok(server.python(f"open('b', 'w').write({NEW!r})"))
            os.sync()
            self.assert_ok(server.python("", restore="named"))
            self.assertEqual(self.read("a"), OLD)
            self.assert_whole({"a": [OLD, NEW], "b": [None, NEW]})

    def test_write_file(self):
        self.old("whole", "edited", "appended")
        with self.start() as server:
            for arguments in ({"path": "whole", "content": NEW}, {"path": "new", "content": NEW},
                              {"path": "edited", "old_text": OLD, "new_text": NEW},
                              {"path": "appended", "content": NEW, "mode": "append"},
                              {"path": "begun", "content": NEW, "mode": "append"},
                              {"path": "created", "content": NEW, "mode": "create"}):
                result = server.call("write_file", **arguments)
                self.assertFalse(result.is_error, result.text)
            self.assert_whole({"whole": [OLD, NEW], "new": [None, NEW], "edited": [OLD, NEW], "created": [None, NEW],
                               "appended": [OLD, OLD + NEW], "begun": [None, NEW]})


class Ext4:
    make, size = ("mkfs.ext4", "-q"), 64


class Xfs:
    make, size, mount_options = ("mkfs.xfs", "-q"), 320, ",nouuid"


class Btrfs:
    make, size, mount_options = ("mkfs.btrfs", "-q"), 160, ",commit=1"

    def wait_for_journal(self):
        """It has none for all files, and writes all names each second."""
        time.sleep(3)


class Ext4Apply(Ext4, PowerCutApply, AtWork):
    pass


class Ext4InDirectory(Ext4, PowerCutInDirectory, WrittenThrough):
    pass


@once
class XfsApply(Xfs, PowerCutApply, AtWork):
    pass


@once
class XfsInDirectory(Xfs, PowerCutInDirectory, WrittenThrough):
    pass


@once
class BtrfsApply(Btrfs, PowerCutApply, AtWork):
    pass


@once
class BtrfsInDirectory(Btrfs, PowerCutInDirectory, WrittenThrough):
    pass


del AtWork, WrittenThrough
