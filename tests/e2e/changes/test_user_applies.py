"""The user writes to a file at the very moment at which an application is at it. Checked by what is in the files."""
import contextlib
import os
import shutil
import subprocess
import unittest

from at_work import AtWork
from client import SLOW, once

LARGE = 40_000_000


class Apply(AtWork):
    """With --cow."""

    def apply(self, server, **arguments):
        return server.call("apply_changes", _timeout=180 * SLOW, **arguments).text

    @once
    def test_saved_before_the_end(self):
        """The file that was just applied is written to in place before the others are: that is a change of the user's."""
        for _ in range(3):
            self.put("a", b"u" * 3 * LARGE)
            with self.start() as server:
                self.assert_ok(server.python(f"open('a', 'w').write('x' * {LARGE}); open('b', 'w').write('code')"))
                path = str(self.dir / "a")
                with self.at(lambda: os.stat(path).st_size == LARGE, lambda: self.write_in_place(path)):
                    self.apply(server)
                self.assertTrue(self.acted)
                self.assertIn("[no changes]", server.call("list_changes").text)
                self.assert_prints(server.python("print(open('a').read(4))"), "user")
                self.apply(server)
            with open(self.dir / "a") as file:
                self.assertEqual(file.read(4), "user")

    def write_in_place(self, path):
        fd = os.open(path, os.O_RDWR)
        os.write(fd, b"user")
        os.close(fd)

    def test_a_log_that_the_user_writes(self):
        self.put("log", "line 1\n")
        with self.start() as server:
            for code in ("open('log', 'a').write('code\\n')", "__import__('os').remove('log')"):
                with open(self.dir / "log", "a", buffering=1) as log:
                    self.assert_ok(server.python(code))
                    text = self.apply(server)
                    self.assertIn("log: another process has it open for writing", text)
                    log.write("line 2\n")
                    self.assertIn("1 change not applied", self.apply(server))
                self.assertIn("line 2", self.read("log"))
                self.assertIn("discarded 1 of 1", self.apply(server, discard=True))
            self.assert_ok(server.python("open('log', 'a').write('code\\n')"))
            self.assertIn("applied 1 of 1", self.apply(server))
        self.assertEqual(self.read("log").split("\n"), ["line 1", "line 2", "line 2", "code", ""])

    def test_a_mode_is_applied_in_place(self):
        self.put("a"), self.put("d/b")
        before = os.stat(self.dir / "a")
        with self.start() as server, open(self.dir / "a", "a", buffering=1) as held:
            self.assert_ok(server.python("import os; os.chmod('a', 0o755)"))
            self.assertIn("applied 1 of 1", self.apply(server))
            self.assertIn("no changes", server.call("list_changes").text)
            held.write("user")
        now = os.stat(self.dir / "a")
        self.assertEqual((now.st_ino, now.st_mode & 0o777, self.read("a")), (before.st_ino, 0o755, "as it was\nuser"))

    @once
    def test_a_directory_that_the_user_takes_away_meanwhile(self):
        """It is not made again, whether the user had it or the application has just made it."""
        for name in ("old", "new"):
            with self.subTest(name=name), self.start() as server:
                if name == "old":
                    self.put("old/there")
                self.assert_ok(server.python(f"import os; os.makedirs({name!r}, exist_ok=True)\n"
                                             f"for i in range(3000): open(f'{name}/{{i}}', 'w').write('code' * 1000)"))
                with self.at(lambda: (self.dir / name / "200").exists(), lambda: os.rename(self.dir / name, self.dir / f"{name}.theirs")):
                    text = self.apply(server)
                self.assertTrue(self.acted)
                self.assertFalse((self.dir / name).exists(), text[:2000])

    def test_siblings_of_a_move_that_is_applied_by_half(self):
        for code, name in (("os.rename('d/precious', 'zz'); os.rmdir('d'); open('d', 'w').close()", "d/precious"),
                           ("os.rename('precious', 'zz'); open('precious', 'w').write('code')", "precious")):
            with self.subTest(code=code), self.start() as server:
                for path in self.dir.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.put(name, "user")
                self.assert_ok(server.python("import os\n" + code))
                self.put("zz", "theirs")
                text = self.apply(server)
                self.assertEqual((self.read(name), self.read("zz")), ("user", "theirs"), text)

    def test_files_that_change_places(self):
        """What one of them held is in the directory at the end, also where a program of the user's holds one of them."""
        swap = "os.rename('a', 't'); os.rename('b', 'a'); os.rename('t', 'b')"
        for code, held in ((swap, "a"), (swap, "b"), (swap, None),
                           ("os.rename('a', 'a.bak'); os.rename('b', 'a')", "a"),
                           ("os.rename('a', 'd'); os.rename('b', 'a')", "a"),
                           ("os.rename('b', 'b.1'); os.rename('a', 'b'); os.rename('c', 'a')", "b"),
                           ("os.rename('a', 't'); os.mkdir('a'); os.rename('t', 'a/a')", None)):
            with self.subTest(code=code, held=held), self.start() as server:
                for path in self.dir.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                theirs = {name: f"{name} of the user" for name in "abc"}
                for name, text in theirs.items():
                    self.put(name, text)
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os\n" + code))
                with open(self.dir / held, "r+") if held else contextlib.nullcontext():
                    text = self.apply(server)
                found = [path.read_text() for path in self.dir.rglob("*") if path.is_file()]
                self.assertEqual(set(found), set(theirs.values()), text)
                self.assertIn("another process has it open" if held else "applied 2 of 2", text)
                if held:
                    self.assertIn("no changes left", self.apply(server))
                self.assertIn("no changes", server.call("list_changes").text)

    def test_nothing_is_deleted_before_all_else_is_there(self):
        """Content may be in what is new, in any form. As git has packed it, too."""
        pack = "import tarfile\nwith tarfile.open('d.tgz', 'w:gz') as tar: tar.add('d')\nshutil.rmtree('d')"
        git = "import subprocess; subprocess.run('git -c safe.directory=* gc -q', shell=True, check=True)"
        for code, held, arguments in ((pack, "d.tgz", {}), ("open('d.tgz', 'a').write(open('d/x').read() + 'code'); shutil.rmtree('d')", "d.tgz", {}),
                                      ("os.rename('a', 'a.bak'); os.rename('d/x', 'a'); os.rmdir('d'); open('d', 'w').close()", "a", {}),
                                      ("open('d.tgz', 'a').write(open('d/x').read() + 'code'); open('d/x', 'w').close()", "d.tgz", {}),
                                      (git, ".git/packed-refs", {"paths": [".git"]})):
            with self.subTest(code=code), self.start() as server:
                for path in self.dir.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                for name in ("d/x", "a", "d.tgz"):
                    self.put(name, f"{name} of the user")
                if code == git:
                    self.git("init", "-q"), self.git("add", "."), self.git("commit", "-qm", "one"), self.git("pack-refs", "--all")
                    self.put("a", "again"), self.git("commit", "-qam", "two")
                self.assert_ok(server.python("import os, shutil"))
                self.assert_ok(server.python(code))
                with open(self.dir / held, "r+"):
                    text = self.apply(server, **arguments)
                self.assertIn("another process has it open", text)
                if code == git:
                    self.assertEqual(len(self.git("log", "--oneline").splitlines()), 2, text)
                    self.git("fsck")
                else:
                    self.assertEqual(self.read("d/x"), "d/x of the user", text)
                self.assertRegex(self.apply(server, **arguments), r"applied (\d+) of \1\n")

    def test_a_directory_that_becomes_a_file_and_has_something_of_the_user(self):
        self.put("d/x", "x of the user")
        with self.start() as server:
            self.assert_ok(server.python("import os\ntext = open('d/x').read(); os.remove('d/x'); os.rmdir('d'); open('d', 'w').write(text + 'code')"))
            self.put("d/mine", "theirs")
            text = self.apply(server)
        self.assertEqual((self.read("d/x"), self.read("d/mine")), ("x of the user", "theirs"), text)

    def test_a_new_file_whose_directory_is_gone_keeps_what_is_deleted(self):
        self.put("out/there"), self.put("a", "a of the user")
        with self.start() as server:
            self.assert_ok(server.python("import os; open('out/new', 'w').write(open('a').read() + 'code'); os.remove('a')"))
            os.rename(self.dir / "out", self.dir / "theirs")
            text = self.apply(server)
        self.assertEqual(self.read("a"), "a of the user", text)

    def test_what_holds_no_content_keeps_nothing(self):
        self.put("a")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.mkfifo('pipe'); os.mkdir('__pycache__'); open('__pycache__/x.pyc', 'w').write('code'); os.remove('a')"))
            text = self.apply(server)
        self.assertFalse((self.dir / "a").exists(), text)

    def test_what_is_moved_where_nobody_looks_keeps_its_name(self):
        """Into a directory that cannot be read, below too many others, into a cache: the change is not counted as applied either."""
        deep = "/".join(["n"] * 220)
        for where, code in (("unreadable", "os.mkdir('q'); os.rename('d/x', 'q/x'); os.chmod('q', 0)"),
                            ("deep", f"os.makedirs('{deep}'); os.rename('d/x', '{deep}/x')"),
                            ("cache", "os.mkdir('node_modules'); os.rename('d/x', 'node_modules/x')")):
            with self.subTest(where=where), self.start() as server:
                self.put("d/x", "as it was")
                self.assert_ok(server.python("import os; " + code))
                text = self.apply(server)
                self.assertEqual((self.read("d/x"), "no changes left" in text), ("as it was", False), text)

    def test_a_fifo_of_the_user_at_a_new_name(self):
        self.put("a", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("import os; open('new', 'w').write(open('a').read() + 'code'); os.remove('a')"))
            os.mkfifo(self.dir / "new")
            text = self.apply(server)
        self.assertEqual(self.read("a"), "as it was", text)

    def test_a_file_that_became_a_symlink_to_its_new_place(self):
        self.put("a", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("import os; open('b', 'w').write('code ' + open('a').read()); os.remove('a'); os.symlink('b', 'a')"))
            self.put("b", "user")
            text = self.apply(server)
        self.assertEqual((self.read("a"), self.read("b")), ("as it was", "user"), text)

    def git(self, *arguments):
        done = subprocess.run(["git", "-c", "user.name=user", "-c", "user.email=user@localhost", "-c", "safe.directory=*",
                               "-C", str(self.dir), *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_symlink_whose_new_name_is_refused(self):
        with self.start() as server:
            os.symlink("where/the/user/wants", self.dir / "link")
            self.assert_ok(server.python("import os; os.makedirs('.github/workflows'); os.rename('link', '.github/workflows/link')"))
            text = self.apply(server)
            self.assertEqual(os.readlink(self.dir / "link"), "where/the/user/wants", text)

    def test_a_directory_that_the_user_makes_private(self):
        self.put("d/x")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('d/x', 'a').write('code')", lambda: (self.dir / "d").chmod(0o700))
            listed = server.call("list_changes").text
            text = self.apply(server)
        self.assertEqual(os.stat(self.dir / "d").st_mode & 0o777, 0o700, f"{listed}\n{text}")
        self.assertIn("code", self.read("d/x"))


if __name__ == "__main__":
    unittest.main()
