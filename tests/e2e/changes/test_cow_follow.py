"""With --cow, code sees what the user makes of files that it has changed once, and whose change is done with."""
import os
import shutil
import time
import unittest

from projects import Project


class Followed(Project):
    def assert_theirs(self, server, names):
        """Code and read_file have the user's files, and no list has a change that code has not made."""
        for name in names:
            self.assertEqual(self.inside(server, name), self.read(name).rstrip("\n"), name)
        self.assertEqual(self.changes(server), {})
        self.assertEqual(self.pending(server.python("1")), 0)

    def test_applied_files_that_the_user_edits(self):
        for name in ("a", "d/b", "gone", "mode"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("import os; os.remove('gone'); os.chmod('mode', 0o755); os.makedirs('new/deep')\n"
                                         "for name in ('a', 'd/b', 'new/c', 'new/deep/e'): open(name, 'a').write('by code\\n')"))
            self.apply_all(server)
            for name in ("a", "d/b", "gone", "new/c", "new/deep/e", "new/deep/theirs"):
                with (self.dir / name).open("a") as file:
                    file.write("by the user\n")
            (self.dir / "mode").chmod(0o644)
            self.assertEqual(server.read("a").text, self.read("a"))
            self.assert_theirs(server, ("a", "d/b", "gone", "new/c", "new/deep/e", "new/deep/theirs"))
            self.assert_prints(server.python("import os; print(os.stat('mode').st_mode & 0o777 == 0o644)"), "True")
            self.assert_ok(server.python("for name in ('a', 'gone', 'new/c'): open(name, 'a').write('again\\n')"))
            self.apply(server, 3)
        self.assertEqual(self.read("a"), "as it was\nby code\nby the user\nagain\n")
        self.assertEqual(self.read("gone"), "by the user\nagain\n")

    def test_the_list_comes_first(self):
        """No call and no read_file has shown the user's file before."""
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.apply(server, 1)
            self.put("a", "by the user\n")
            self.assertEqual(self.changes(server), {})
            self.put("a", "by the user again\n")
            self.apply(server, 0)
            self.assertFalse(server.call("write_file", path="a", old_text="user", new_text="code").is_error)
            self.apply(server, 1)
        self.assertEqual(self.read("a"), "by the code again\n")

    def test_applied_files_that_the_user_removes_replaces_or_moves(self):
        for name in ("a", "file", "link", "d/b", "d/c", "e/x"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("for name in ('a', 'file', 'link', 'd/b', 'e/x'): open(name, 'a').write('by code\\n')"))
            self.apply(server, 5)
            (self.dir / "a").unlink(), (self.dir / "file").unlink(), (self.dir / "link").unlink()
            self.put("file/inner", "by the user\n")
            (self.dir / "link").symlink_to("file/inner")
            shutil.rmtree(self.dir / "d")
            os.rename(self.dir / "e", self.dir / "moved")
            self.assert_prints(server.python("import os; print(os.path.exists('a'), os.path.exists('d'), os.readlink('link'), os.listdir('file'), "
                                             "os.path.exists('e'))"), "False False file/inner ['inner'] False")
            self.assert_theirs(server, ("link", "moved/x"))
            self.put("d/b", "back\n"), self.put("d/new", "theirs\n"), self.put("a", "back\n")
            self.assert_theirs(server, ("a", "d/b", "d/new"))
            self.assert_ok(server.python("open('d/b', 'a').write('again\\n')"))
            self.apply(server, 1)
        self.assertEqual(self.read("d/b"), "back\nagain\n")

    def test_discarded_changes(self):
        for name in ("a", "gone", "tree/x", "tree/deep/y"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil\nfor name in 'ab': open(name, 'a').write('by code\\n')\nos.remove('gone'); shutil.rmtree('tree')"))
            (self.dir / "a").unlink()
            self.assertFalse(server.call("apply_changes", discard=True).is_error)
            self.put("b", "by the user\n"), self.put("a", "restored\n"), self.put("gone", "by the user\n")
            self.put("tree/new", "theirs\n"), self.put("tree/deep/new/z", "theirs\n")
            self.assert_theirs(server, ("a", "b", "gone", "tree/new", "tree/deep/new/z"))
            self.put("tree/deep/new/later", "theirs\n")
            self.assert_theirs(server, ("tree/deep/new/later",))

    def test_a_directory_that_code_makes_anew(self):
        """It hides the user's, also once both are the same."""
        self.put("d/a"), self.put("d/b")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil; shutil.rmtree('d'); os.mkdir('d'); open('d/a', 'w').write('by code\\n')"))
            self.put("d/theirs", "by the user\n")
            time.sleep(0.05)
            self.assertEqual(self.inside(server, "d/theirs"), "by the user")
            self.assertEqual(self.changes(server), {b"d/a": "~", b"d/b": "-"})
            self.apply(server, 2)
            self.put("d/later", "by the user\n"), self.put("d/deep/er", "by the user\n")
            self.assert_theirs(server, ("d/a", "d/theirs", "d/later", "d/deep/er"))

    def test_what_code_writes_to_a_mapping_is_not_lost(self):
        self.put("a", "x" * 100)
        with self.server() as server:
            self.assert_ok(server.python("import mmap\nfile = open('a', 'r+b'); map = mmap.mmap(file.fileno(), 0); map[0:1] = b'y'"))
            self.apply(server)
            self.put("a", "by the user\n")
            self.assertEqual(self.inside(server, "a")[:2], "yx")
            self.assert_ok(server.python("map[1:2] = b'z'; map.close(); file.close()"))
            self.assertEqual(self.inside(server, "a")[:2], "yz")
            self.assertEqual(self.changes(server).notes, {b"a": "also changed by the user"})

    def test_undo_leaves_what_the_user_has_made_of_it(self):
        self.put("a", "one\n")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('two\\n')"))
            self.apply(server, 1)
            self.put("a", "three\n")
            result = server.python("print(open('a').read())", undo=True)
            self.assertIn("not reverted, also changed by others: a", result.text)
            self.assert_theirs(server, ("a",))
        self.assertEqual(self.read("a"), "three\n")

    def test_a_file_that_the_user_edits_after_an_undo(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.assert_ok(server.python("", undo=True))
            self.put("a", "by the user\n")
            self.assert_theirs(server, ("a",))

    def test_a_directory_that_the_user_replaces(self):
        """A checkout of another branch and back."""
        self.put("d/a"), self.put("d/b")
        with self.server() as server:
            self.assert_ok(server.python("open('d/a', 'a').write('by code\\n')"))
            self.apply(server, 1)
            shutil.copytree(self.dir / "d", self.dir / "other")
            shutil.rmtree(self.dir / "d")
            os.rename(self.dir / "other", self.dir / "d")
            self.assert_theirs(server, ("d/a", "d/b"))
            self.assert_ok(server.python("for name in ('d/a', 'd/b'): open(name, 'a').write('again\\n')"))
            self.apply(server, 2)

    def test_a_directory_that_the_user_takes_away_with_a_change_in_it(self):
        """What is no change goes; what is does not come back in their directory."""
        self.put("d/a"), self.put("d/b")
        with self.server() as server:
            self.assert_ok(server.python("open('d/a', 'a').write('by code\\n')"))
            self.apply(server, 1)
            self.assert_ok(server.python("open('d/new', 'w').write('by code\\n')"))
            shutil.rmtree(self.dir / "d")
            self.assert_prints(server.python("import os; print(os.listdir('d'))"), "['new']")
            self.assertEqual(self.changes(server).notes, {b"d/new": "also changed by the user"})
            self.reason(self.apply(server, 0, 1), "d/new")
            self.discard(server)
            self.assert_prints(server.python("print(os.path.exists('d'))"), "False")


if __name__ == "__main__":
    unittest.main()
