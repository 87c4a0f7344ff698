"""What is left of the user's files on the disk they lie on: their attributes, also many and long ones."""
import os
import tempfile
import unittest
import unittest.mock

from at_work import AtWork, WrittenThrough
from this_run import DENY

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


del AtWork, WrittenThrough
