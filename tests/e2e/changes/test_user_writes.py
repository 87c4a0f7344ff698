"""The user writes to a file at the very moment at which code or an undo is at it. What they wrote is where they wrote it.
Checked by what is in the files.
"""
import contextlib
import glob
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from at_work import WrittenThrough
from client import SLOW, give_away, once
from projects import GIT
from seen import sees_writes
from traces import descendants

LARGE = 40_000_000


def seal(stack, directory):
    """Whether nobody, also not root, can change the directory until the stack is closed: chattr(1)."""
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", directory], capture_output=True).returncode:
        return False
    stack.callback(subprocess.run, ["chattr", "-i", directory])
    return True


class Undo(WrittenThrough):
    """The workspace is written through."""

    def own(self, name, text):
        give_away(self.put(name, text))

    def git(self, *words):
        done = subprocess.run([*GIT, "-c", "safe.directory=*", "-C", self.dir, *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, (words, done.stderr))
        return done.stdout

    def saved_while_written(self, name, code):
        """The user saves while an undo writes the file that is to take the name: a moment that a busy machine may miss."""
        was = self.read(name)
        for _ in range(10):
            with self.start() as server:
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python(code))
                with self.at(lambda: glob.glob(f"{self.dir}/.write-*"), lambda: self.save(name, "user")):
                    line = self.undo(server)
                self.assertEqual(self.read(name), "user" if self.acted else was, line)
                self.assertEqual(glob.glob(f"{self.dir}/.write-*"), [])
            if self.acted:
                return
        self.fail("no turn saved while the undo wrote")

    def test_saved_while_an_undo_writes(self):
        self.own("a", b"u" * LARGE)
        self.saved_while_written("a", "open('a', 'w').write('code')")

    def test_made_while_an_undo_writes(self):
        self.own("a", b"u" * LARGE)
        self.saved_while_written("a", "import os; os.remove('a')")

    @once
    def test_saved_while_an_edit_is_written(self):
        text = "first\n" + "line\n" * 80_000

        def is_written():
            with contextlib.suppress(FileNotFoundError):
                return any(os.path.getsize(path) == len(text) for path in glob.glob(f"{self.dir}/.write-*"))

        with self.start() as server:
            for turn in range(60):
                self.own("a", text)
                with self.at(is_written, lambda: self.save("a", "user")):
                    result = server.call("write_file", path="a", old_text="first", new_text="other")
                self.assertEqual(self.read("a"), "user" if self.acted else text.replace("first", "other"), f"{turn}: {result.text}")
            self.assert_ok(server.python("1"))
            self.assertEqual(os.listdir(self.dir), ["a"])

    @once
    def test_saved_between_two_steps_of_an_undo(self):
        for turn in range(5):
            self.own("a", "as it was")
            with self.start() as server:
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os\nopen('a', 'w').write('first')\nos.chmod('a', 0o600)\n"
                                             f"open('a', 'w').write('x' * {LARGE})"))
                with self.at(lambda: os.path.getsize(self.dir / "a") == 5, lambda: self.save("a", "user")):
                    line = self.undo(server)
            self.assertEqual(self.read("a"), "user" if self.acted else "as it was", f"{turn}: {line}")

    def test_openings_that_do_not_happen(self):
        """They do not count for one of the user's."""
        for code in ("import sys; sys.audit('open', 'a', 'w', 1)",
                     "import os\ntry: os.open('a', os.O_WRONLY | os.O_DIRECTORY)\nexcept OSError: pass",
                     "import os\nopen('a', 'a', opener=lambda path, flags: os.open(path, flags)).close()"):
            with self.subTest(code=code):
                self.own("a", "as it was")
                with self.start() as server:
                    self.assert_ok(server.python("x = 1"))
                    self.meanwhile(server, code, lambda: (self.dir / "a").write_text("user"))
                    line = self.undo(server)
                self.assertEqual(self.read("a"), "user", line)

    def test_an_opener_goes_back(self):
        self.own("a", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os\nopen('a', 'w', opener=lambda path, flags: os.open(path, flags)).write('code')"))
            self.undo(server)
        self.assertEqual(self.read("a"), "as it was")

    @once
    def test_a_log_that_the_user_writes(self):
        """A process of theirs has the file open all the time: each line is in the file at the end."""
        for code in ("os.chmod('log', 0o600)", "os.utime('log', (1, 1))", "open('log', 'a').write('code\\n')", "pass"):
            for during in (False, True):
                with self.subTest(code=code, during=during):
                    self.own("log", "line 1\n")
                    with self.start() as server, open(self.dir / "log", "a", buffering=1) as log:
                        self.assert_ok(server.python("x = 1"))
                        self.meanwhile(server, f"import os; {code}", lambda: during and log.write("line 2\n"), after=code)
                        line = self.undo(server)
                        log.write("line 3\n")
                    lines = [one for one in self.read("log").splitlines() if one != "code"]
                    self.assertEqual(lines, ["line 1", *(["line 2"] if during else []), "line 3"], line)

    def test_a_log_that_both_have_open_from_one_call_to_the_next(self):
        """Nobody knows who has written what: it stays, and is named, also where the call has only written to what an earlier one
        has opened.
        """
        self.own("log", b"user ")
        with open(self.dir / "log", "a") as log, self.start() as server:
            self.assert_ok(server.python("log = open('log', 'a'); log.write('code '); log.flush()"))
            log.write("more ")
            log.flush()
            self.assert_ok(server.python("log.write('again '); log.flush()"))
            self.assertRegex(self.undo(server), r"not reverted[^|]*log")
        self.assertEqual((self.dir / "log").read_text(), "user code more again ")

    def test_a_call_beside_an_open_file_has_changed_nothing(self):
        with self.start() as server:
            self.assert_ok(server.python("made = open('made', 'w'); made.write('code'); made.flush()"))
            self.assert_ok(server.python("x = 1"))
            self.assertIn("workspace files unchanged", self.undo(server))

    def test_what_goes_through_links_of_proc_is_not_called_unchanged(self):
        self.own("a", b"user")
        with self.start() as server:
            self.assert_ok(server.python("import os"))
            for code in ("open('/proc/self/cwd/a', 'w').write('code')", "open(f'/proc/{os.getpid()}/root{os.path.abspath(\"a\")}', 'w').write('more')",
                         "os.symlink('/proc/self/fd/99', 'link'); os.dup2(os.open('a', 0), 99); open('link', 'w').write('again')"):
                with self.subTest(code):
                    self.assert_ok(server.python(code))
                    self.assertRegex(self.undo(server), r"not known: what was changed by|(files back|not reverted)[^|]* a\b")

    def test_attributes_of_what_is_named_by_no_name(self):
        if not sees_writes():
            self.skipTest("kernel: nobody is notified of what programs change here")
        (self.dir / "d").mkdir(0o755)
        self.own("a", b"user")
        was = (self.dir / "a").stat().st_mtime_ns
        with self.start() as server:
            self.assert_ok(server.python("import ctypes, os, subprocess"))
            self.assert_ok(server.python("subprocess.run('cd d && chmod 700 .', shell=True, check=True)"))
            self.assertRegex(self.undo(server), "files back: d")
            self.assert_ok(server.python("assert ctypes.CDLL(None).utimensat(os.open('a', os.O_PATH), b'', None, 0x1000) == 0"))
            self.assertRegex(self.undo(server), "files back: a")
        self.assertEqual(((self.dir / "d").stat().st_mode & 0o777, (self.dir / "a").stat().st_mtime_ns), (0o755, was))

    def test_attributes_go_back_in_place(self):
        """Who has the file open keeps it; also of files that are too large to copy."""
        self.own("a", "as it was"), self.own("large", b"u" * 2_000_000)
        before = {name: os.stat(self.dir / name) for name in ("a", "large")}
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os\nos.chmod('a', 0o777); os.utime('a', (1, 1)); os.chmod('large', 0)"))
            line = self.undo(server)
        for name, was in before.items():
            now = os.stat(self.dir / name)
            self.assertEqual((now.st_ino, now.st_mode, now.st_mtime_ns), (was.st_ino, was.st_mode, was.st_mtime_ns), f"{name}: {line}")

    def test_what_undo_will_not_bring_back_is_named_at_once(self):
        self.own("a", "user"), self.own("b", "user")
        deep = "/".join(["d" * 200] * 19)
        (self.dir / deep).mkdir(parents=True)
        with self.start() as server:
            result = server.python("f = open('a', 'w'); f.write('code'); open('b', 'w').close()")
            self.assertEqual("not kept for undo: a |" in result.status.line, not sees_writes())
            self.assertNotIn("too many", result.status.line)
            fill = f"import os\nos.chdir({deep!r}); open('x', 'w').close()\nfor i in range(9500): os.utime('x', (i, i))"
            self.assert_ok(server.python(fill, timeout_s=60 * SLOW))
            result = server.python("os.utime('x', (1, 1))")
            self.assertIn("too many files were changed: undo cannot revert them all", result.status.line)
            self.assertIn("cannot revert more: too many files were changed", self.undo(server))

    def test_all_or_nothing_of_a_path(self):
        """Where one step at a path is unsure, the others there stay too, and those of what it was moved to."""
        for code in ("import os; os.rename('a', 'a.bak'); f = open('a', 'w'); f.write('code'); f.flush(); os.remove('a.bak')",
                     "open('a', 'w').write('first'); f = open('a', 'w'); f.write('second'); f.flush()\n"
                     "import os; os.rename('a', 'b'); os.rename('b', 'a')"):
            with self.subTest(code=code), self.start() as server:
                self.own("a", "as it was")
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python(code))
                before = {path.name: path.read_text() for path in self.dir.iterdir()}
                line = self.undo(server)
                if sees_writes():  # that nobody else can write to what is still open
                    before = {"a": "as it was"}
                self.assertEqual({path.name: path.read_text() for path in self.dir.iterdir()}, before, line)

    def test_what_code_does_with_an_open_file_goes_back(self):
        for code in ("with open('a', 'w') as f: f.write('code'); os.chmod('a', 0o755)",
                     "with open('a', 'w') as f: f.write('code'); os.fchmod(f.fileno(), 0o755)",
                     "import pathlib; pathlib.Path('p/q/r').mkdir(parents=True)"):
            with self.subTest(code=code), self.start() as server:
                self.own("a", "as it was")
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os\n" + code))
                line = self.undo(server)
                self.assertEqual([path.name for path in self.dir.iterdir()], ["a"], line)
                self.assertEqual((self.read("a"), os.stat(self.dir / "a").st_mode & 0o777), ("as it was", 0o644), line)
                self.assertNotIn("not reverted", line)

    def test_modes_of_what_code_has_open_go_back(self):
        for code in ("os.chmod('d', 0o700); os.chmod('d/x', 0o600)", "subprocess.run(['chmod', '-R', 'go-w', 'd'])"):
            with self.subTest(code=code), self.start() as server:
                self.own("d/x", "as it was")
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os, subprocess; k = open('d/x', 'a'); k.write('code'); k.flush(); " + code))
                line = self.undo(server)
                self.assertEqual(self.read("d/x"), "as it was", line)

    def test_programs_that_append_to_one_file(self):
        """One has just been allowed to open it while another, which had it before, goes on to something else."""
        code = "for i in range(8): subprocess.Popen(['sh', '-c', 'for i in 1 2 3 4 5 6 7 8; do echo line >> log; sleep 0.005; done'])"
        for turn in range(3):
            with self.subTest(turn=turn), self.start() as server:
                self.own("log", "as it was\n")
                self.assert_ok(server.python("import subprocess, time"))
                self.assert_ok(server.python(code + "\ntime.sleep(0.02 * %d)" % turn))
                line = self.undo(server)
                self.assertEqual(self.read("log"), "as it was\n", line)

    def test_a_move_that_the_system_refuses(self):
        """What happens to its source afterwards has nothing to do with its target."""
        for move in ("os.rename('d/e', 'b')", "os.rename('b', 'd/e')", "os.rename('d', 'd/e/f')", "os.rename('d/e', 'full')"):
            with self.subTest(move=move), self.start() as server:
                for name in ("d/e/x", "b", "full/x"):
                    self.own(name, "as it was")
                self.assert_ok(server.python("import contextlib, os, subprocess"))
                self.assert_ok(server.python(f"with contextlib.suppress(OSError): {move}\nsubprocess.run(['rm', '-r', 'd', 'b'])"))
                line = self.undo(server)
                self.assertEqual([self.read(name) for name in ("d/e/x", "b", "full/x")], ["as it was"] * 3, line)
                self.assertNotIn("not reverted", line)

    def test_a_restore_that_cannot_repeat_a_move(self):
        """Code saves by renaming, an undo takes that back, the user edits the new file: the old one stays."""
        for act in (lambda: (self.dir / "new").write_text("user"), lambda: (self.dir / "new").unlink()):
            self.own("a", "as it was"), self.own("new", "fresh")
            with self.start() as server:
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os; os.replace('new', 'a')"))
                self.undo(server)
                act()
                line = server.python("", restore="before-undo").text
                self.assertEqual(self.read("a"), "as it was", line)

    def test_one_of_several_files_that_were_saved(self):
        """What the user changes stays alone: the others of a call that replaced them by rename go back."""
        replace = "import os\nfor n in 'abc': open('t' + n, 'w').write(n + ' of code'); os.replace('t' + n, n)"
        one_name = "import os\nfor n in 'abc': open('t', 'w').write(n + ' of code'); os.rename('t', 'u'); os.replace('u', n)"
        for code in (replace, *((one_name, replace + "\n" + one_name) if sees_writes() else ()), *(("!sed -i s/user/code/ a b c",) if sees_writes() else ())):
            for last in "abc":
                with self.subTest(code=code, last=last), self.start() as server:
                    for name in "abc":
                        self.own(name, f"{name} of user")
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python(code))
                    (self.dir / last).write_text("later")
                    line = self.undo(server)
                    self.assertEqual({path.name: path.read_text() for path in self.dir.iterdir()},
                                     {name: "later" if name == last else f"{name} of user" for name in "abc"}, line)

    @unittest.skipUnless(shutil.which("git"), "git: not installed")
    def test_a_repository_in_which_the_user_was_since(self):
        """It goes back as a whole or stays as a whole, so that it is sound; files beside it go back by themselves."""
        if not sees_writes():
            self.skipTest("kernel: nobody is notified of what programs write here")
        commit = f"import subprocess\nfor words in (['add', '-A'], ['commit', '-qm', 'code']): subprocess.run([*{GIT!r}, *words], check=True)"
        for user in ((), ("status",), ("tag", "mine"), ("commit", "-q", "--amend", "-m", "user")):
            with self.subTest(user=user):
                shutil.rmtree(self.dir / ".git", ignore_errors=True)
                self.own("a", "first")
                self.git("init", "-q"), self.git("add", "-A"), self.git("commit", "-qm", "one")
                first = self.git("rev-parse", "HEAD")
                with self.start() as server:
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python("open('a', 'w').write('second')\n" + commit))
                    if user:
                        os.utime(self.dir / "b") if (self.dir / "b").exists() else self.own("b", "user")
                        os.utime(self.dir / ".git/index", (1, 1))  # so that git brings it up to date
                        self.git(*user)
                    head = self.git("rev-parse", "HEAD")
                    line = self.undo(server)
                self.git("fsck", "--strict"), self.git("status"), self.git("log")
                self.assertEqual(self.git("rev-parse", "HEAD"), head if user else first, line)
                self.assertEqual("not reverted" in line, bool(user), line)
                self.assertEqual(self.read("a"), "first", line)

    def test_a_name_that_code_could_not_open(self):
        """It had no descriptor left, which no name tells: what the user makes there meanwhile is theirs."""
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "import contextlib, os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 512))\n"
                                   "with contextlib.suppress(OSError): os.open('report', os.O_CREAT | os.O_WRONLY)\n"
                                   "resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))", lambda: self.own("report", "user"))
            line = self.undo(server)
            if sees_writes():
                self.assertEqual(self.read("report"), "user", line)

    def test_files_of_several_names(self):
        cases = ("open('a', 'w').close(); os.link('a', 'b')", "open('a', 'w').close(); os.link('a', 'b'); os.unlink('b')",
                 "os.link('u', 'h'); open('h', 'w').write('code')", "os.link('u', 'h'); open('h', 'w').write('code'); os.unlink('u'); os.unlink('h')")
        for code in cases if sees_writes() else ():
            with self.subTest(code=code), self.start() as server:
                self.own("u", "user")
                self.assert_ok(server.python("import os"))
                self.assert_ok(server.python(code))
                line = self.undo(server)
                self.assertEqual({path.name: path.read_text() for path in self.dir.iterdir()}, {"u": "user"}, line)
        with self.start() as server:
            self.assert_ok(server.python("import os"))
            self.assert_ok(server.python("open('a', 'w').close()\nfor n in range(8000): os.link('a', f'l{n}')"))
            line = self.undo(server)
            self.assertEqual([path.name for path in self.dir.iterdir()] if sees_writes() else ["u"], ["u"], line)

    def test_directories_that_could_not_be_removed(self):
        for remove in ("os.unlink('d/e')", "os.rmdir('d')", "!rmdir d"):
            with self.subTest(remove=remove), self.start() as server:
                self.assert_ok(server.python("import contextlib, os"))
                self.assert_ok(server.python("os.makedirs('d/e')\n" + (remove if remove[0] == "!" else
                                             f"with contextlib.suppress(OSError): {remove}")))
                line = self.undo(server)
                self.assertFalse((self.dir / "d").exists(), line)

    def test_long_names_leave_space_for_what_stays(self):
        names = [f"{number}{'n' * 240}" for number in range(9)]
        for name in names:
            self.own(name, "user")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"for name in {names!r}: open(name, 'w').write('code')"))
            (self.dir / names[3]).write_text("later")
            self.assertRegex(self.undo(server), rf"files back: \dn+ and 7 more, not reverted, also changed by others: {names[3]} ")

    def test_a_mapping_that_stays(self):
        """What goes through it leaves no time; while anything has it mapped, no other file can take its place."""
        with self.start() as server:
            self.assert_ok(server.python("import mmap\nwith open('m', 'w+b') as f: f.write(b'1' * 9); f.flush(); m = mmap.mmap(f.fileno(), 0)"))
            for content in ("222", "333"):
                self.assertEqual("files: ~m (9 B)" in server.python(f"m[:3] = b'{content}'").status.line, sees_writes())
            for _ in range(2):
                line = self.undo(server)
                self.assertEqual(self.read("m"), "333111111")
                self.assertIn("cannot revert: m |" if sees_writes() else "m |", line)

    def test_a_time_that_code_has_set_back(self):
        """Content goes back although size and time are what they were."""
        self.own("a", "as it was")
        code = "import os; at = os.stat('a')\nwith open('a', 'r+') as f: f.write('code code')\nos.utime('a', ns=(at.st_atime_ns, at.st_mtime_ns))"
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(code))
            line = self.undo(server)
        self.assertEqual(self.read("a"), "as it was", line)

    def test_modes_of_directories(self):
        """What the user makes private stays so; a mode that code changes twice comes back to the first."""
        for code, mode, act in (("os.chmod('d', 0o750)", 0o700, lambda: (self.dir / "d").chmod(0o700)),
                                ("os.chmod('d', 0o500); os.chmod('d', 0o700)", 0o755, lambda: None)):
            with self.subTest(code=code), self.start() as server:
                self.own("d/x", "as it was")
                (self.dir / "d").chmod(0o755)
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os; " + code))
                act()
                line = self.undo(server)
                self.assertEqual(os.stat(self.dir / "d").st_mode & 0o777, mode, line)
                (self.dir / "d").chmod(0o755)

    def test_what_is_in_a_directory_that_code_closed(self):
        """It comes back with the directory's mode; what the user has written there since stays."""
        for act, text in ((lambda: None, "as it was"), (lambda: self.put("d/e/x", "user"), "user")):
            with self.subTest(text=text), self.start() as server:
                self.own("d/e/x", "as it was")
                self.assert_ok(server.python("x = 1"))
                self.assert_ok(server.python("import os; open('d/e/x', 'w').write('code'); os.chmod('d', 0)"))
                (self.dir / "d").chmod(0o755) if text == "user" else None
                act()
                (self.dir / "d").chmod(0) if text == "user" else None
                line = self.undo(server)
                (self.dir / "d").chmod(0o755)
                self.assertEqual(self.read("d/e/x"), text, line)
                self.assertEqual("d/e/x" in line.partition("not reverted")[2], text == "user", line)

    def test_an_acl_that_the_sandbox_does_not_know(self):
        """The content comes back, and nobody can read it who could not before."""
        self.own("a", "as it was")
        entries = ((1, 6, 0xffffffff), (2, 4, 33), (4, 0, 0xffffffff), (0x10, 4, 0xffffffff), (0x20, 0, 0xffffffff))
        try:
            os.setxattr(self.dir / "a", "system.posix_acl_access",
                        struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
        except OSError as error:
            self.skipTest(f"ACL: {error}")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.remove('a')"))
            self.undo(server)
            self.assert_ok(server.python("import os; os.chmod('a', 0o777)"))
            line = self.undo(server)
        self.assertEqual(self.read("a"), "as it was", line)
        try:
            os.getxattr(self.dir / "a", "system.posix_acl_access")
        except OSError:
            self.assertEqual(os.stat(self.dir / "a").st_mode & 0o077, 0, line)

    def test_an_undo_tells_what_became_of_an_acl(self):
        """A file that is still there keeps it, and one that is gone comes back for its owner alone."""
        entries = ((1, 6, 0xffffffff), (2, 6, 33), (4, 4, 0xffffffff), (0x10, 6, 0xffffffff), (0x20, 0, 0xffffffff))
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        for code in ("open('a', 'w').write('code, and more than there was')", "open('a', 'a').write('code')",
                     "os.chmod('a', 0o600); open('a', 'w').write('code')", "os.remove('a')",
                     "open('b', 'w').write('code'); os.replace('b', 'a')"):
            with self.subTest(code=code):
                self.put("a", "as it was")
                os.chmod(self.dir / "a", 0o640)
                self.own("a", "as it was")
                try:
                    os.setxattr(self.dir / "a", "system.posix_acl_access", acl)
                except OSError as error:
                    self.skipTest(f"ACL: {error}")
                with self.start() as server:
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python("import os; " + code))
                    for _ in range(2):
                        line = self.undo(server)
                        self.assertEqual(self.read("a"), "as it was", line)
                        self.assertNotIn("not reverted", line)
                        if "system.posix_acl_access" in os.listxattr(self.dir / "a"):
                            self.assertEqual(os.getxattr(self.dir / "a", "system.posix_acl_access"), acl)
                            self.assertIn("files back: a", line)
                        else:
                            self.assertTrue("remove" in code or "replace" in code, line)
                            self.assertEqual(os.stat(self.dir / "a").st_mode & 0o777, 0o600, line)
                            self.assertIn("back, but only for their owner, without an access control list", line)
                        self.assert_ok(server.python("x", restore="before-undo"))
                (self.dir / "a").unlink(missing_ok=True)

    def test_write_file_keeps_an_acl(self):
        """Or refuses: without it, the mode's bits for the group would be those that the mask had."""
        self.own("a", "as it was")
        os.chmod(self.dir / "a", 0o640)
        entries = ((1, 6, 0xffffffff), (2, 6, 33), (4, 4, 0xffffffff), (0x10, 6, 0xffffffff), (0x20, 0, 0xffffffff))
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        try:
            os.setxattr(self.dir / "a", "user.note", b"of the user")
            os.setxattr(self.dir / "a", "system.posix_acl_access", acl)
        except OSError as error:
            self.skipTest(f"ACL: {error}")
        self.own("b", "as it was")
        os.setxattr(self.dir / "b", "user.note", b"of the user")
        with self.start() as server:
            self.assert_ok(server.python("1"))
            server.call("write_file", path="b", old_text="it was", new_text="code")
            self.assertEqual((self.read("b"), os.getxattr(self.dir / "b", "user.note")), ("as code", b"of the user"))
            result = server.call("write_file", path="a", old_text="it was", new_text="code")
        self.assertEqual(os.getxattr(self.dir / "a", "system.posix_acl_access"), acl)
        if result.is_error:
            self.assertIn("access control list", result.text)
            self.assertEqual(self.read("a"), "as it was")

    def test_an_archive_that_is_the_last_copy(self):
        """Of files above --undo-files no copy was kept: what code has packed them into stays, in whichever order it did so."""
        pack = "import os, tarfile\nwith tarfile.open('all.tar.gz', 'w:gz') as tar: tar.add('data')\n"
        keep = "import io, tarfile\nb = io.BytesIO()\nwith tarfile.open(fileobj=b, mode='w') as tar: tar.add('data')\n"
        remove = "import shutil; shutil.rmtree('data')\n"
        for code in (pack + remove, keep + remove + "open('all.tar', 'wb').write(b.getvalue())\n"):
            with self.subTest(code=code):
                for i in range(2):
                    self.own(f"data/{i}", random.Random(i).randbytes(1_500_000))
                with self.start("--undo-files", "1M") as server:
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python(code + "open('small', 'w').write('code')"))
                    line = self.undo(server)
                self.assertRegex(line, r"cannot revert[^|]*all\.tar")
                (self.dir / "small").unlink()
                with self.subTest(code="two undos"), self.start("--undo-files", "1M") as server:
                    for i in range(2):
                        self.own(f"data/{i}", random.Random(i).randbytes(1_500_000))
                    self.assert_ok(server.python("import os, tarfile\nwith tarfile.open('all2.tar', 'w') as tar: tar.add('data')"))
                    self.assert_ok(server.python(remove))
                    self.undo(server), self.undo(server)
                    self.assertTrue((self.dir / "all2.tar").exists())
                for left in self.dir.glob("all*"):
                    self.assertGreater(left.stat().st_size, 2_900_000)
                    left.unlink()

    def by_programs(self, undo):
        """What a program has removed comes back, or the copy that code has made stays."""
        back = sees_writes()
        return (("shutil.copy('a', 'a.bak'); os.system('rm a')", (undo,), {"a" if back else "a.bak": "a of the user"}),
                ("tarfile = __import__('tarfile'); tar = tarfile.open('d.tar', 'w'); tar.add('d'); tar.close(); os.system('rm -r d')",
                 (undo,), {"d/x": "x of the user"} if back else {"d.tar": None}),
                ("os.system('mv a a.bak'); open('a', 'w').write('code')", (undo,), {"a" if back else "a.bak": "a of the user"}))

    @once
    def test_what_the_user_does_before_the_next_undo(self):
        """Of a path, and of paths that moves connect, all steps are taken back, or repeated, or none; checked first."""
        undo, again = {"undo": True}, {"restore": "before-undo"}
        backup = "os.rename('a', 'a.bak'); open('a', 'w').write('code')"
        three = "os.rename('a', 't'); os.rename('b', 'a'); os.remove('t')"
        rebuild = "os.rename('d', 't'); os.mkdir('d'); os.rename('t/x', 'd/x'); os.rename('t', 'a.bak')"
        clean = "shutil.rmtree('d')"
        pack = "import tarfile\nwith tarfile.open('d.tgz', 'w:gz') as tar: tar.add('d')\n" + clean
        copied = "open('a', 'w').write('code'); shutil.copy('a', 'b2')"
        here = self.dir
        for code, steps, expected in (
                (backup, ((here / "a.bak").unlink, undo), {"a": "code"}),
                (backup, (lambda: os.rename(here / "a.bak", here / "theirs"), undo), {"a": "code", "theirs": "a of the user"}),
                (three, (undo, lambda: self.put("b", "theirs"), again), {"a": "a of the user", "b": "theirs"}),
                (three, (undo, lambda: self.put("b", "theirs"), again, undo), {"a": "a of the user", "b": "theirs"}),
                (rebuild, (undo, (here / "t").mkdir, again, undo), {"d/x": "x of the user"}),
                (clean, (undo, lambda: (here / "d").chmod(0o700), again, undo), {"d/x": "x of the user", "d": 0o700}),
                (clean + "; os.mkdir('d')", (lambda: (here / "d").chmod(0o700), undo), {"d/x": "x of the user", "d": 0o700}),
                (pack, (lambda: self.put("d", "theirs"), undo), {"d": "theirs", "d.tgz": None}),
                (copied, (lambda: self.put("b2", "theirs"), undo), {"a": "a of the user", "b2": "theirs"}),
                ("os.rename('d/x', 'd/x.bak'); open('d/x', 'w').write('code'); os.rename('d', 'e')", ((here / "e/x.bak").unlink, undo), {"d/x": "code"}),
                ("os.rename('d', 'd.old'); os.mkdir('d'); open('d/x', 'w').write('code')", (lambda: self.put("d/mine", "theirs"), undo),
                 {"d/x": "code", "d.old/x": "x of the user"}),
                *self.by_programs(undo),
                ("f = open('a', 'w'); os.chmod('a', 0o755); f.write('code')|f.close()",
                 (lambda: (here / "a").chmod(0o600), undo), {"a": 0o600})):
            with self.subTest(code=code, steps=steps), self.start() as server:
                for path in here.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                for name in ("a", "b", "d/x"):
                    self.own(name, f"{name[-1]} of the user")
                (here / "d").chmod(0o755)
                self.assert_ok(server.python("import os, shutil"))
                before, meanwhile, after = code.partition("|")
                if meanwhile:
                    self.meanwhile(server, before, steps[0], after)
                    steps = steps[1:]
                else:
                    self.assert_ok(server.python(code))
                lines = [server.python("", **step).text if isinstance(step, dict) else step() for step in steps]
                for name, held in expected.items():
                    found = os.stat(here / name).st_mode & 0o777 if isinstance(held, int) else self.read(name) if held else None
                    self.assertTrue((here / name).exists(), lines)
                    self.assertEqual(found, held, f"{name}: {lines}")

    def test_a_directory_that_moved_there_and_back(self):
        """What somebody else has put into it stays at its name, and no step of the way is left."""
        there_and_back = "import os\nos.rename('d', 'aside'); open('d', 'w').write('a file'); os.remove('d'); os.rename('aside', 'd')\n"
        with self.start() as server:
            self.assert_ok(server.python("import os; os.makedirs('d/e')\n" + there_and_back, session="one"))
            self.assert_ok(server.python("open('d/x', 'w').write('other')", session="two"))
            line = server.python("", undo=True, session="one").text
            self.assertEqual(os.listdir(self.dir), ["d"], line)
            self.assertEqual(self.read("d/x"), "other", line)
            self.assertRegex(line, r"not reverted[^:]*: (?:.*\W)?d\b")

    def test_a_directory_that_is_built_beside_the_old_one(self):
        self.own("c/x", "as it was"), self.own("c/y", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os, shutil\nos.mkdir('d'); open('d/x', 'w').write('code')\n"
                                         "shutil.rmtree('c'); os.rename('d', 'c')"))
            line = self.undo(server)
            self.assertNotIn("not reverted", line)
            self.assertEqual([self.read("c/x"), self.read("c/y"), os.listdir(self.dir)], ["as it was"] * 2 + [["c"]], line)
            self.assert_ok(server.python("", restore="before-undo"))
        self.assertEqual([self.read("c/x"), os.listdir(self.dir / "c"), os.listdir(self.dir)], ["code", ["x"], ["c"]])

    def test_a_directory_that_replaces_an_empty_one(self):
        for code in ("os.mkdir('z'); os.rename('c', 'z')", "os.rename('c', 'q'); os.mkdir('c'); os.rename('q', 'c')"):
            with self.subTest(code=code), self.start() as server:
                self.own("c/x", "as it was")
                self.assert_ok(server.python("import os"))
                self.assert_ok(server.python(code))
                line = self.undo(server)
                self.assertNotIn("not reverted", line)
                self.assertEqual([self.read("c/x"), os.listdir(self.dir)], ["as it was", ["c"]], line)

    def test_a_moved_directory_in_which_an_undo_has_written(self):
        for code in ("open('z/x', 'w').write('code')", "import shutil; shutil.rmtree('z')"):
            with self.subTest(code=code), self.start() as server:
                self.own("c/x", "as it was"), self.own("c/y", "as it was")
                self.assert_ok(server.python("import os"))
                self.assert_ok(server.python("os.rename('c', 'z')"))
                self.assert_ok(server.python(code))
                self.undo(server)
                line = self.undo(server)
                self.assertNotRegex(line, "not reverted|cannot revert")
                self.assertEqual([self.read("c/x"), self.read("c/y"), os.listdir(self.dir)], ["as it was"] * 2 + [["c"]], line)

    def test_a_directory_that_is_emptied_and_filled_again(self):
        def found():
            return {str(path.relative_to(self.dir)): path.read_text() for path in self.dir.rglob("*") if path.is_file()}

        self.own("c/x", "as it was"), self.own("c/y", "as it was")
        before = found()
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("open('made', 'w').close()"))
            self.assert_ok(server.python("import os, shutil\nshutil.rmtree('c'); os.mkdir('c')\n"
                                         "for n in 'x', 'z': open('c/' + n, 'w').write('code')"))
            after = found()
            line = self.undo(server)
            self.assertNotRegex(line, "not reverted|cannot revert")
            self.assertEqual(found(), before | {"made": ""}, line)
            line = server.python("", restore="before-undo").status.line
            self.assertNotRegex(line, "not reverted|cannot revert")
            self.assertEqual(found(), after, line)
            self.own("c/user", "user")
            self.undo(server)
            line = self.undo(server)
        self.assertEqual(found(), before | {"c/user": "user"}, line)

    def test_a_file_in_a_directory_that_moved_there_and_back(self):
        """The user has put another one in its place: it is named."""
        (self.dir / "d").mkdir()
        self.own("d/x", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.rename('d', 'aside'); os.rename('aside', 'd'); os.rename('d/x', 'f')"))
            self.own("d/x", "user")
            line = self.undo(server)
            self.assertEqual((self.read("d/x"), self.read("f")), ("user", "as it was"), line)
            self.assertRegex(line, r"not reverted[^:]*: (?:.*\W)?d/x\b")

    def test_a_symlink_that_somebody_else_has_made_since(self):
        os.symlink("old", self.dir / "link")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.rename('link', 'aside')"))
            os.symlink("other", self.dir / "link")
            line = self.undo(server)
            self.assertEqual(os.readlink(self.dir / "link"), "other", line)
            self.assertRegex(line, r"not reverted[^:]*: (?:.*\W)?link\b")

    def test_two_names_of_a_file(self):
        """Nobody knows what each has held: both stay as the call has left them, and are named."""
        self.own("a", "as it was")
        os.link(self.dir / "a", self.dir / "b")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("open('b', 'w').write('first '); open('a', 'a').write('second')"))
            line = self.undo(server)
            self.assertEqual((self.read("a"), self.read("b")), ("first second",) * 2, line)
            for name in ("a", "b"):
                self.assertRegex(line, rf"not reverted[^:]*: (?:.*\W)?{name}\b")

    def undone_with_two_names(self, code):
        """The undo's line, and what is under both names: the call wrote to the file by one of them, and then did that."""
        self.own("a", "as it was")
        os.link(self.dir / "a", self.dir / "b")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"import os; open('b', 'w').write('second'); {code}"))
            line = self.undo(server)
        found = self.read("a"), self.read("b")
        os.remove(self.dir / "b")
        return line, found

    def test_a_file_of_two_names_and_its_time_or_mode(self):
        for code in ("os.utime('b', (1, 1))", "os.chmod('b', 0o600)", "os.rename('b', 'c')"):
            with self.subTest(code=code):
                line, found = self.undone_with_two_names(code)
                self.assertEqual(found, ("as it was",) * 2, line)
                self.assertNotIn("not reverted", line)

    def test_a_name_of_two_that_code_has_taken_since(self):
        for code in ("os.remove('b')", "open('c', 'w').write('third'); os.replace('c', 'b')"):
            with self.subTest(code=code):
                line, found = self.undone_with_two_names(code)
                self.assertEqual(found, ("second", "as it was"), line)
                self.assertIn("files back: b, not reverted under other names (hard links) of: b |", line)

    def test_a_name_of_two_that_somebody_else_has_taken_since(self):
        """What the call wrote is then where nobody looks for it: under the file's other name."""
        self.own("a", "as it was")
        os.link(self.dir / "a", self.dir / "b")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("open('b', 'w').write('second')"))
            self.own("fresh", "user")
            os.rename(self.dir / "fresh", self.dir / "b")
            line = self.undo(server)
            self.assertEqual((self.read("a"), self.read("b")), ("second", "user"), line)
            self.assertIn("not reverted, also changed by others: b, not reverted under other names (hard links) of: b |", line)

    MERGE = "with open('d/x') as f: text = f.read()\nimport os; os.remove('d/x'); open('merged', 'w').write('all: ' + text)"

    def test_what_cannot_come_keeps_what_came_of_it(self):
        """The user has put something else where the directory was, or nobody may change it."""
        for block in ("symlink", "file", "attribute"):
            with self.subTest(block=block), contextlib.ExitStack() as stack:
                shutil.rmtree(self.dir / "d", ignore_errors=True)
                (self.dir / "d").mkdir(exist_ok=True)
                self.own("d/x", "as it was")
                with self.start() as server:
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python(self.MERGE))
                    if block == "attribute":
                        if not seal(stack, self.dir / "d"):
                            self.skipTest("chattr: not installed, or it needs root or another file system")
                    else:
                        os.rmdir(self.dir / "d")
                        os.symlink("/tmp", self.dir / "d") if block == "symlink" else (self.dir / "d").write_text("user")
                        stack.callback(os.remove, self.dir / "d")
                    line = self.undo(server)
                self.assertEqual(self.read("merged"), "all: as it was", line)
                self.assertRegex(line, r"(?:not reverted[^:]*|cannot revert): [^|\]]*d/x\b")
                os.remove(self.dir / "merged")

    def test_a_file_that_became_a_directory_with_something_of_the_user(self):
        self.own("a", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("with open('a') as f: text = f.read()\n"
                                         "import os; os.remove('a'); os.mkdir('a'); open('a/init', 'w').write(text)"))
            (self.dir / "a/mine").write_text("user")
            line = self.undo(server)
            self.assertEqual((self.read("a/init"), self.read("a/mine")), ("as it was", "user"), line)

    def test_a_large_file_that_another_session_empties(self):
        (self.dir / "large").write_bytes(b"u" * 3_000_000)
        give_away(self.dir / "large")
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1", session="one"))
            self.assert_ok(server.python("import shutil; shutil.copy('large', 'copy')", session="one"))
            self.assert_ok(server.python("open('large', 'w').write('small')", session="two"))
            line = server.python("", undo=True, session="one").text
            self.assertEqual(os.path.getsize(self.dir / "copy"), 3_000_000, line)

    def test_a_rotated_log_of_which_no_copy_fits(self):
        """The program that writes the log has begun a new one: what was rotated stays."""
        self.own("log", "as it was\n" * 60_000)
        with self.start("--undo-files", "1M") as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("with open('log') as f: text = f.read()\n"
                                         "open('log.1', 'w').write('rotated\\n' + text); import os; os.remove('log')"))
            self.own("log", "new")
            line = self.undo(server)
            self.assertIn("as it was", self.read("log.1"), line)

    @once
    def test_an_undo_that_is_killed_has_removed_nothing(self):
        """What came of a file stays until the file is back."""
        count = 600
        for made in ("m{i}", "a{i}/x"):  # beside it, or in a directory of its name
            with self.subTest(made=made):
                shutil.rmtree(self.dir)
                self.dir.mkdir()
                for number in range(count):
                    self.own(f"a{number}", f"content {number}")
                with self.start() as server:
                    self.assert_ok(server.python("x = 1"))
                    self.assert_ok(server.python(
                        f"import os\nfor i in range({count}):\n with open(f'a{{i}}') as f: t = f.read()\n os.remove(f'a{{i}}')\n"
                        f" if os.path.dirname(f'{made}'): os.mkdir(f'a{{i}}')\n open(f'{made}', 'w').write(t)"))
                    with self.at(lambda: not all(os.path.exists(self.dir / f"a{number}" / "x") for number in range(count - 30, count))
                                 if "x" in made
                                 else any(name[0] == "a" for name in os.listdir(self.dir)),
                                 lambda: os.kill(server.pid, signal.SIGKILL)):
                        with contextlib.suppress(Exception):
                            self.undo(server)
                    self.assertTrue(self.acted)
                    self.assertEqual(server.join(), -signal.SIGKILL)  # also when the undo had ended before
                texts = {path.read_text() for path in self.dir.rglob("*") if path.is_file()}
                self.assertLessEqual({f"content {number}" for number in range(count)}, texts)

    def test_a_move_that_fails_keeps_what_came_of_the_content(self):
        """The user may have taken the right to move from their directory: chmod(1), or chattr(1) where root undoes."""
        self.own("d/x", "as it was"), self.own("old/y", "user")
        with contextlib.ExitStack() as stack, self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os\nos.rename('d', 'old/d')\nwith open('old/d/x') as f: text = f.read()\n"
                                         "os.remove('old/d/x'); open('merged', 'w').write('all: ' + text)"))
            (self.dir / "old").chmod(0o555)
            stack.callback((self.dir / "old").chmod, 0o755)
            if os.getuid() == 0:
                seal(stack, self.dir / "old")
            line = self.undo(server)
            self.assertIn("as it was", "".join(path.read_text() for path in self.dir.rglob("*") if path.is_file()), line)

    @contextlib.contextmanager
    def no_space(self, server):
        """In here the keeper writes no file that has more than 1,000 bytes."""
        keepers = [pid for pid in descendants(server.pid) if "keep" in pathlib.Path(f"/proc/{pid}/comm").read_text()]
        self.assertTrue(keepers)
        for limit in (1000, resource.RLIM_INFINITY):
            for pid in keepers:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            if limit == 1000:
                yield

    def test_no_space_for_what_a_move_has_replaced(self):
        self.own("a", "user " * 5000), self.own("b", "other")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.replace('b', 'a')"))
            with self.no_space(server):
                line = self.undo(server)
                self.assertEqual(self.read("a"), "other", line)
            server.python("", restore="before-undo")
            line = self.undo(server)
            self.assertEqual((self.read("a"), self.read("b")), ("user " * 5000, "other"), line)

    def test_no_space_in_the_middle_of_a_restore(self):
        """What came before goes where it was, also a file that holds something."""
        self.own("a", "as it was")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os\nopen('b', 'w').write('code'); os.rename('b', 'c')\n"
                                         "open('c', 'w').write('code ' * 5000); os.rename('c', 'a')"))
            self.undo(server)
            with self.no_space(server):
                line = server.python("", restore="before-undo").text
            self.assertEqual((os.listdir(self.dir), self.read("a")), (["a"], "as it was"), line)


if __name__ == "__main__":
    unittest.main()
