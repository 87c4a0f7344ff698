"""The user works in the directory of the workspace at the same moment as code that writes through: nothing of theirs is
lost by an undo. Checked by what is in the files.
"""
import os
import shutil
import time
import unittest

from at_work import WrittenThrough
from client import give_away, once
from container_level import CONTAINER
from seen import sees_writes


class Plain(WrittenThrough):
    """Undo where the workspace is written through."""

    def test_a_renamed_file_above_the_bound(self):
        self.put("data/big.bin", b"user" * 600_000)
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.rename('data/big.bin', 'data/renamed.bin')"))
            self.undo(server)
        self.assertEqual(os.listdir(self.dir / "data"), ["big.bin"])
        self.assertEqual(self.read("data/big.bin"), "user" * 600_000)

    def test_moved_directories(self):
        for i in range(30):
            self.put(f"data/{i}", f"{i}" * 100_000)
        for name in (".venv/lib/x", "node_modules/m/z", ".svn/entries"):
            self.put(name)
        before = {path.relative_to(self.dir): path.read_bytes() for path in self.dir.rglob("*") if path.is_file()}
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os, shutil; os.mkdir('archive'); shutil.move('data', 'archive/data')\n"
                                         "for n in ('.venv', 'node_modules', '.svn'): os.rename(n, n + '.old')"))
            self.assertNotIn("not reverted", self.undo(server))
        self.assertEqual({path.relative_to(self.dir): path.read_bytes() for path in self.dir.rglob("*") if path.is_file()}, before)

    def test_what_the_user_does_meanwhile(self):
        for name in ("notes.txt", "deleted.txt", "both.txt", "replaced.txt"):
            self.put(name)

        def work():
            self.save("notes.txt", "user")
            (self.dir / "new.txt").write_text("user")
            (self.dir / "deleted.txt").unlink()
            (self.dir / "both.txt").write_text("user after code")
            self.save("replaced.txt", "user after code")

        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            result = self.meanwhile(server, "for n in ('both.txt', 'replaced.txt', 'made.txt'): open(n, 'w').write('code')", work)
            for name in ("notes", "new"):
                if sees_writes():
                    self.assertNotIn(name, result.status.field("files"))
                else:
                    self.assertRegex(result.status.line, rf"{name}\.txt \([^)]*may be the user's\)")
            line = self.undo(server)
        self.assertEqual({path.name: path.read_text() for path in self.dir.iterdir()},
                         {"notes.txt": "user", "new.txt": "user", "both.txt": "user after code", "replaced.txt": "user after code"})
        for name in ("both.txt", "replaced.txt"):
            self.assertRegex(line, rf"not reverted[^|]*{name}")

    def test_a_copy_that_is_the_last(self):
        """Code moves a file by copying and removing it, the user puts another one in its place: the copy stays where code has
        made it, and where it has replaced another file, that one comes back.
        """
        for name, before in (("new", None), ("there", "as it was")):
            with self.subTest(name=name), self.start() as server:
                self.put("a.txt", "user")
                self.put(name, before or "")
                if not before:
                    (self.dir / name).unlink()
                self.assert_ok(server.python("x = 1"))
                self.meanwhile(server, f"import os, shutil; shutil.copyfile('a.txt', {name!r}); os.remove('a.txt')",
                               lambda: self.save("a.txt", "other"))
                result = server.python("", undo=True)
                self.assertEqual((self.read("a.txt"), self.read(name)), ("other", before or "user"), result.text)
                self.assertIn("not reverted, ", result.text)
                server.python("", restore="before-undo")
                self.assertEqual((self.read("a.txt"), self.read(name)), ("other", "user"))

    def test_the_user_works_in_a_moved_directory(self):
        self.put("d/old.txt")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "os = __import__('os'); os.rename('d', 'e')", lambda: (self.dir / "e/new.txt").write_text("user"))
            self.undo(server)
            self.assertEqual(self.read("e/new.txt"), "user")
            self.assertEqual(self.read("e/old.txt"), "as it was\n")

    def test_what_the_user_moves_into_a_moved_directory(self):
        self.put("d/sub/old.txt"), self.put("theirs/x", "user")
        time.sleep(0.05)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.rename('d', 'e'); open('e/sub/new.txt', 'w').write('code')"))
            self.assert_ok(server.python("open('e/sub/more.txt', 'w').write('code')"))
            self.undo(server)
            self.undo(server)
            self.assertEqual(os.listdir(self.dir / "d/sub"), ["old.txt"])  # what code has done is no obstacle
            self.assert_ok(server.python("import os; os.rename('d', 'e')"))
            os.rename(self.dir / "theirs", self.dir / "e/sub/theirs")
            line = self.undo(server)
        self.assertEqual(self.read("e/sub/theirs/x"), "user", line)
        self.assertIn("not reverted, ", line)

    def test_another_workspace_at_its_path(self):
        replaced, aside = "moved, removed or replaced", self.dir.with_name("aside")
        with self.start() as server:
            self.assertNotIn(replaced, server.python("x = 1").status.line)
            self.dir.rename(aside)
            self.dir.mkdir()
            self.assertIn(replaced, server.python("open('a', 'w').close()").status.line)
            self.dir.rmdir()
            self.assertIn(replaced, server.python("1").status.line)
            aside.rename(self.dir)
            self.assertNotIn(replaced, server.python("1").status.line)
        self.assertEqual(os.listdir(self.dir), ["a"])

    def test_a_directory_that_the_user_replaces_meanwhile(self):
        """What stands at the path afterwards is theirs, whatever code had begun there."""
        def swap():
            os.rename(self.dir / "d", self.dir / "d.old")
            os.rename(self.dir / "d.new", self.dir / "d")

        for before, after in (("import os; os.chmod('d/x', 0o600)", ""), ("import os; os.utime('d/x')", ""),
                              ("f = open('d/x', 'w'); f.write('code'); f.flush()", "f.close()"),
                              ("f = open('d/new', 'w'); f.write('code'); f.flush()", "f.close()")):
            with self.subTest(before=before), self.start() as server:
                for name in ("d", "d.old", "d.new"):
                    shutil.rmtree(self.dir / name, ignore_errors=True)
                self.put("d/x"), self.put("d.new/x", "user"), self.put("d.new/new", "user")
                for path in self.dir.rglob("*"):
                    give_away(path)
                self.assert_ok(server.python("x = 1"))
                self.meanwhile(server, before, swap, after)
                line = self.undo(server)
                self.assertEqual((self.read("d/x"), self.read("d/new")), ("user", "user"), line)

    def test_steps_that_fail(self):
        """What the user does later at that name is not the code's."""
        elsewhere = ("os.rename('/tmp/n', 'a')", "os.rename('/tmp/n', 'new')", "os.link('/tmp/n', 'new')")  # is another file system
        for code in ("os.mkdir('no/a')", *(() if CONTAINER else [f"open('/tmp/n', 'w').close(); {code}" for code in elsewhere])):
            with self.subTest(code=code), self.start() as server:
                give_away(self.put("a"))
                (self.dir / "new").unlink(missing_ok=True)
                self.assert_ok(server.python("x = 1"))
                self.meanwhile(server, f"import os\ntry: {code}\nexcept OSError: pass\nelse: 1 / 0",
                               lambda: (self.save("a", "user"), self.save("new", "user")))
                line = self.undo(server)
                self.assertEqual((self.read("a"), self.read("new")), ("user", "user"), line)

    def test_the_user_changes_attributes_meanwhile(self):
        give_away(self.put("a"))
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "f = open('a', 'w'); f.write('code'); f.flush()", lambda: (self.dir / "a").chmod(0o600), "f.close()")
            line = self.undo(server)
        self.assertEqual(os.stat(self.dir / "a").st_mode & 0o777, 0o600, line)

    def test_what_is_in_a_file_beside_its_content(self):
        path = self.put("a")
        give_away(path)
        os.setxattr(path, "user.note", b"theirs")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            for code in ("open('a', 'w').write('code')", "import os; os.remove('a')"):
                self.assert_ok(server.python(code))
                line = self.undo(server)
                self.assertEqual((self.read("a"), os.getxattr(path, "user.note")), ("as it was\n", b"theirs"), line)

    def test_what_comes_back_for_no_restore(self):
        """An undo says of which file no copy was kept."""
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("open('large', 'w').write('x' * 2_000_000); open('small', 'w').write('x')"))
            self.assertRegex(self.undo(server), r'no copy kept for "before-undo": large\b[^,]')

    def test_what_the_user_does_after_the_call(self):
        self.put("a"), self.put("b"), self.put("c")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; open('a', 'w').write('code'); os.remove('b'); os.rename('c', 'd')"))
            (self.dir / "a").write_text("user")
            (self.dir / "b").write_text("user")
            (self.dir / "c").write_text("user")
            line = self.undo(server)
        self.assertEqual({path.name: path.read_text() for path in self.dir.iterdir()},
                         {"a": "user", "b": "user", "c": "user", "d": "as it was\n"})
        for name in "abd":
            self.assertRegex(line, rf"not reverted[^|\]]*\b{name}\b")

    @once
    def test_more_files_than_are_checked(self):
        for i in range(2100):
            self.put(f"many/{i}")
        with self.start() as server:
            line = server.python("x = 1; open('first', 'w').close()").status.line
            self.assertEqual("more than 2000" in line, not sees_writes(), line)
            result = server.python("import os; open('many/1', 'w').write('code'); os.remove('many/2'); open('new', 'w').close()")
            self.assertEqual(sorted(result.status.field("files").replace(" (0 B)", "").replace(" (4 B)", "").split()),
                             ["+new", "-many/2", "~many/1"])
            self.undo(server)
            self.assertEqual((self.read("many/1"), self.read("many/2"), (self.dir / "new").exists()), ("as it was\n",) * 2 + (False,))

    def test_what_forged_reports_can_do(self):
        """Code that speaks to the keeper itself spoils its own undo, and no more."""
        if sees_writes():
            self.skipTest("kernel: where init tells the keeper, sessions have no connection to it")
        self.put("a", "user")
        forge = ("import os, socket\ns = socket.socket(fileno=os.dup(71))\n"
                 "for m in (b'', b'x', b'\\0' * 11, b'\\1\\0\\0\\0' * 3, b'\\xff' * 40, b'\\5\\0\\0\\0\\1\\0\\0\\0w\\0\\0\\0../../etc/x\\0\\0',\n"
                 "          b'\\5\\0\\0\\0\\1\\0\\0\\0r\\0\\0\\0a\\0' + b'n' * 8000 + b'\\0'):\n"
                 "    try: s.send(m)\n    except OSError: pass")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(forge))
            self.assert_ok(server.python("open('a', 'w').write('code')"))
            self.undo(server)
            self.assert_ok(server.python("open('b', 'w').write('code')", session="other"))
            result = server.python("", undo=True, session="other")
            self.assert_ok(result)
            self.assertFalse((self.dir / "b").exists(), result.text)
        self.assertIn(self.read("a"), ("user", "code"))


if __name__ == "__main__":
    unittest.main()
