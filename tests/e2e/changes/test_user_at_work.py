"""The user works in the directory of the workspace at the same moment as code: nothing of theirs is lost, and what is not
known is a conflict. Checked by what is in the files.
"""
import hashlib
import os
import re
import shutil
import time
import unittest

from at_work import AtWork, WrittenThrough
from client import SLOW, give_away, once


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
            self.undo(server)
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
            self.assertRegex(result.status.line, r"notes\.txt \([^)]*may be yours\)")
            self.assertRegex(result.status.line, r"\+new\.txt \([^)]*may be yours\)")
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
                self.assertIn("may be yours", result.text)
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
        self.assertIn("may be yours", line)

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
        for code in ("os.rename('/tmp/n', 'a')", "os.rename('/tmp/n', 'new')", "os.link('/tmp/n', 'new')", "os.mkdir('no/a')"):
            with self.subTest(code=code), self.start() as server:
                give_away(self.put("a"))
                (self.dir / "new").unlink(missing_ok=True)
                self.assert_ok(server.python("x = 1"))
                self.meanwhile(server, f"import os; open('/tmp/n', 'w').close()\ntry: {code}\nexcept OSError: pass\nelse: 1 / 0",
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
            self.assertIn("more than 2000", server.python("x = 1; open('first', 'w').close()").status.line)
            result = server.python("import os; open('many/1', 'w').write('code'); os.remove('many/2'); open('new', 'w').close()")
            self.assertEqual(sorted(result.status.field("files").replace(" (0 B)", "").replace(" (4 B)", "").split()),
                             ["+new", "-many/2", "~many/1"])
            self.undo(server)
            self.assertEqual((self.read("many/1"), self.read("many/2"), (self.dir / "new").exists()), ("as it was\n",) * 2 + (False,))

    def test_what_forged_reports_can_do(self):
        """Code that speaks to the keeper itself spoils its own undo, and no more."""
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


class Conflicts(AtWork):
    """With --cow: a change is applied only where it is known what the user's file was when code began it."""

    def apply(self, server, **arguments):
        return server.call("apply_changes", _timeout=120, **arguments)

    def assert_kept(self, server, files):
        result = self.apply(server)
        for name, text in files.items():
            self.assertEqual((self.dir / name).read_text() if (self.dir / name).exists() else None, text, result.text)
        return result

    def test_a_process_that_was_left_behind(self):
        self.put("f.txt"), self.put("g.txt")
        late = ("import subprocess\nsubprocess.Popen(['sh', '-c', 'until [ -e /data/signals/late ]; do sleep 0.01; done; "
                "echo code >f.txt; rm g.txt; touch /data/signals/done'], start_new_session=True)")
        with self.start() as server:
            self.assert_ok(server.python(late))
            self.save("f.txt", "user"), self.save("g.txt", "user")
            (self.signals / "late").touch()
            end = time.monotonic() + 60 * SLOW
            while not (self.signals / "done").exists() and time.monotonic() < end:
                time.sleep(0.01)
            self.assert_ok(server.python("x = 1"))
            self.assert_kept(server, {"f.txt": "user", "g.txt": "user"})

    def test_what_still_runs_is_said(self):
        with self.start() as server:
            self.assert_ok(server.python("open('f', 'w').close()"))
            self.assertNotIn("of code still run", server.call("list_changes").text)
            self.assert_ok(server.python("import subprocess; p = [subprocess.Popen(['sleep', '600']) for _ in range(2)]; x = 1"))
            words = "; 2 processes of code still run, and may change more]"
            self.assertIn(words, server.call("list_changes").text)
            self.assertIn(words, server.call("list_changes", diff=True).text)
            job = server.python("import time; time.sleep(600)", session="other", wait_s=0)
            self.assertIn("job", job.text)
            while "; 3 processes" not in server.call("list_changes").text:  # a checkpoint counts until init watches it
                pass
            self.assertIn("; 3 processes", server.call("apply_changes").text)
            server.call("run_python", stop=True, wait_s=600)
            self.assert_ok(server.python("for one in p: one.kill(); one.wait()"))
            self.assertNotIn("of code still run", server.call("list_changes").text)

    @once
    def test_more_changes_than_can_be_listed(self):
        self.put("f.txt"), self.put("g.txt")
        name = "'/'.join(['d' * 250] * 14)"
        with self.start("--disk", "2G", "--memory", "2G") as server:
            result = server.python(f"import os\ntop = {name}\nos.makedirs(top)\nos.chdir(top)\n"
                                   "for i in range(11000): open('x' * 200 + str(i), 'w').close()\nos.chdir('/work')",
                                   timeout_s=300, _timeout=400)
            self.assert_ok(result)
            self.assertIn("changes: too many to count", result.status.line)
            result = server.python("import os; open('f.txt', 'w').write('code'); os.remove('g.txt')")
            self.assertIn("too many to count", result.status.line)
            self.save("f.txt", "user"), self.save("g.txt", "user")
            self.assert_ok(server.python("import shutil; shutil.rmtree('d' * 250)", timeout_s=300, _timeout=400))
            for _ in range(40):  # scans are left out for a while
                self.assert_ok(server.python("x = 1"))
            self.assert_kept(server, {"f.txt": "user", "g.txt": "user"})

    def test_a_directory_in_another_s_place(self):
        self.put("src/f.txt", "old"), self.put("src.new/f.txt", "user")
        time.sleep(0.05)

        def swap():
            os.rename(self.dir / "src", self.dir / "src.old")
            os.rename(self.dir / "src.new", self.dir / "src")

        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('src/f.txt', 'w').write('code')", swap)
            self.assert_kept(server, {"src/f.txt": "user", "src.old/f.txt": "old"})

    def test_a_file_that_the_user_removes(self):
        self.put("d/f.txt", "old"), self.put("d/keep")
        time.sleep(0.05)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('d/f.txt', 'w').write('code')", lambda: (self.dir / "d/f.txt").unlink())
            self.assert_kept(server, {"d/f.txt": None})

    def test_a_directory_that_the_user_takes_away(self):
        """It does not come back, whatever code changes or makes in it."""
        write = "open('d/f.txt', 'w').write('code'); open('d/e/g.txt', 'w').write('code'); open('d/new', 'w').write('code')"
        for at, (act, left) in enumerate((
                (lambda: shutil.rmtree(self.dir / "d"), []),
                (lambda: os.rename(self.dir / "d", self.dir / "moved"), ["moved", "moved/e", "moved/e/g.txt", "moved/f.txt"]))):
            for before, after in ((write, ""), ("x = 1", write), (write, None)):
                with self.subTest(at=at, after=after):
                    for name in ("d", "moved"):
                        shutil.rmtree(self.dir / name, ignore_errors=True)
                    self.put("d/f.txt", "old"), self.put("d/e/g.txt", "old")
                    time.sleep(0.05)
                    with self.start() as server:
                        self.assert_ok(server.python("x = 1"))
                        if after is None:
                            self.assert_ok(server.python(before))
                            act()
                        else:
                            self.meanwhile(server, before, act, f"try: {after or 'pass'}\nexcept OSError: pass")
                        self.assert_ok(server.python("try: open('d/later', 'w').write('code')\nexcept OSError: pass"))
                        listed = server.call("list_changes").text
                        text = self.apply(server).text
                        found = sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*"))
                        self.assertEqual(found, left, f"{listed}\n{text}")
                        self.assertNotIn("[no changes left]", text)
                        for line in listed.splitlines()[:-1]:
                            self.assertIn("also changed by you", line)
                        if not after:
                            self.assertIn("discarded", server.call("apply_changes", discard=True).text)
                        self.assertIn("no changes", server.call("list_changes").text)

    def test_a_directory_that_code_removes_and_the_user_uses(self):
        self.put("d/a"), self.put("d/b")
        with self.start() as server:
            self.assert_ok(server.python("import shutil; shutil.rmtree('d')"))
            (self.dir / "d/theirs").write_text("user")
            text = self.apply(server).text
            self.assertIn("applied 2 of 2", text)
            self.assertIn("d: directory kept: it contains other files of yours", text)
            self.assertIn("[1 change not applied]", text)
        self.assertEqual(sorted(os.listdir(self.dir / "d")), ["theirs"])

    def test_a_directory_in_which_the_user_works_too(self):
        """What they add beside the code's file is no conflict, in directories that code has known or not."""
        self.put("d/e/f.txt", "old"), self.put("d/e/g.txt", "old")
        time.sleep(0.05)
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.meanwhile(server, "open('d/e/f.txt', 'w').write('code')", lambda: (self.dir / "d/e/theirs").write_text("user"),
                           "open('d/e/g.txt', 'w').write('code')")
            self.assertIn("applied 2 of 2", self.apply(server).text)
        self.assertEqual([self.read(f"d/e/{name}") for name in ("f.txt", "g.txt", "theirs")], ["code", "code", "user"])

    def test_what_code_changes_after_the_user(self):
        """The ordinary way: the user saves, the next call changes the file, and it is applied."""
        self.put("d/f.txt", "old")
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            for turn in range(3):
                self.save("d/f.txt", f"user {turn}")
                time.sleep(0.05)
                self.assert_ok(server.python(f"open('d/f.txt', 'a').write(' code {turn}')" if turn == 0 else "x = 2"))
            self.assertIn("applied", self.apply(server).text)


    @once
    def test_another_directory_while_it_is_applied(self):
        self.put("d/x"), self.put("d.new/theirs", "user")
        with self.start() as server:
            self.assert_ok(server.python("for i in range(3000): open(f'd/{i}', 'w').write('code')", timeout_s=100))

            def swap():
                os.rename(self.dir / "d", self.dir / "d.theirs")
                os.rename(self.dir / "d.new", self.dir / "d")

            with self.at((self.dir / "d/200").exists, swap):
                text = self.apply(server).text
            self.assertTrue(self.acted)
        self.assertEqual(os.listdir(self.dir / "d"), ["theirs"], text[:500])

    def test_a_move_that_is_applied_by_half(self):
        """Where the new name is not applied, the old one stays: no other has its content in DIR."""
        self.put("precious.yml", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.makedirs('.github/workflows'); os.rename('precious.yml', '.github/workflows/ci.yml')"))
            text = self.apply(server).text
            self.assertEqual(sorted(os.listdir(self.dir)), ["precious.yml"], text)
            self.assertIn("precious.yml: kept: the changes that are not applied may have its content", text)
            self.assertIn("applied 2 of 2", self.apply(server, paths=[".github/workflows/ci.yml", "precious.yml"]).text)
        self.assertEqual([path.name for path in self.dir.rglob("*") if path.is_file()], ["ci.yml"])

    def test_a_move_is_applied_whole_beside_what_must_be_named(self):
        self.put("LICENSE", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.rename('LICENSE', 'LICENSE.txt'); open('.envrc', 'w').write('code')"))
            self.assertIn("applied 2 of 3", self.apply(server).text)
        self.assertEqual(os.listdir(self.dir), ["LICENSE.txt"])

    def test_a_move_whose_new_name_is_edited_while_it_is_applied(self):
        self.put("LICENSE", "user")
        with self.start() as server:
            self.assert_ok(server.python("import os; os.rename('LICENSE', '0'); open('.envrc', 'w').write('code'); os.mkdir('d')\n"
                                         "for i in range(3000): open(f'd/{i}', 'w').write('code')", timeout_s=100))
            with self.at((self.dir / "d/200").exists, lambda: self.put("0", "edit")):
                text = self.apply(server).text
            self.assertTrue(self.acted)
        self.assertEqual(((self.dir / "0").read_text(), (self.dir / "LICENSE").read_text()), ("edit", "user"), text[:500])


class Executed(AtWork):
    """What other programs execute because of the user's settings is applied only if it is named."""

    def apply_all(self, names, **arguments):
        with self.start() as server:
            self.assert_ok(server.python(f"import os\nfor n in {names!r}:\n    if os.path.dirname(n): os.makedirs(os.path.dirname(n), exist_ok=True)\n"
                                         "    open(n, 'w').write('code')\nopen('plain', 'w').write('code')"))
            listed = self.changes(server)
            result = server.call("apply_changes", **arguments)
        return listed, result, {n for n in names if (self.dir / n).exists() and (self.dir / n).read_bytes() == b"code"}

    def configure(self):
        self.git("init", "-q")
        self.git("config", "core.hooksPath", "scripts/hooks")
        self.git("config", "include.path", "../tools/gitconfig")
        self.put("tools/gitconfig", "[user]\n\tname = x\n")
        self.put("tools/vscode/tasks.json", "{}")
        (self.dir / ".vscode").symlink_to("tools/vscode")
        self.put("env/dot", "x")
        (self.dir / ".envrc").symlink_to("env/dot")
        for path in (self.dir, *self.dir.rglob("*")):
            if not path.is_symlink():
                give_away(path)

    def test_targets_of_settings_and_symlinks(self):
        self.configure()
        names = ["scripts/hooks/pre-commit", "tools/gitconfig", "tools/vscode/tasks.json", "env/dot"]
        listed, result, applied = self.apply_all(names)
        self.assertEqual(applied, set(), result.text)
        self.assertEqual(self.read("plain"), "code")
        for name in names:
            self.assertIn("only if named", listed.notes[name.encode()])

    def test_targets_that_are_named(self):
        self.configure()
        names = ["scripts/hooks/pre-commit", "tools/gitconfig"]
        _, result, applied = self.apply_all(names, paths=names)
        self.assertEqual(applied, set(names), result.text)

    def test_hooks_in_the_top_directory(self):
        self.git("init", "-q")
        self.git("config", "core.hooksPath", "scripts/..")
        self.put("scripts/x")
        _, result, applied = self.apply_all(["pre-commit", "commit-msg", "pre-commits"])
        self.assertEqual(applied, {"pre-commits"}, result.text)

    def test_other_shapes_and_siblings(self):
        names = ["lib/sitecustomize/__init__.py", "usercustomize.cpython-311-x86_64-linux-gnu.so", "lefthook.json", "mise.ci.toml", ".vimrc",
                 "x.code-workspace", ".yarnrc.yml", ".cargo/config.toml", "Jenkinsfile", ".venv/bin/python", "pyvenv.cfg", ".qwen/settings.json"]
        _, result, applied = self.apply_all(names)
        self.assertEqual(applied, set(), result.text)


class Shown(AtWork):
    """What is applied is what was listed, and the list shows all that apply will do."""

    def test_what_was_not_listed_is_named(self):
        self.put("a"), self.put("gone")
        with self.start() as server:
            self.assert_ok(server.python("import os; open('a', 'w').write('code'); os.remove('gone'); open('new', 'w').close()"))
            result = server.call("apply_changes")
            self.assertEqual(result.text.splitlines()[:4], ["applied 3 of 3", "~ a", "- gone", "+ new"])

    @once
    def test_what_a_cut_list_has_not_shown(self):
        """It is named when it is applied, in a file where the result has no space either."""
        for many, diff in ((1200, False), (1500, True), (3000, False)):
            with self.subTest(many=many, diff=diff), self.start() as server:
                for path in self.dir.iterdir():
                    path.unlink()
                self.assert_ok(server.python(f"for i in range({many}): open('n' * 60 + str(i), 'w').write('code')", timeout_s=100))
                listed = server.call("list_changes", diff=diff).text
                names = {"n" * 60 + str(i) for i in range(many)}
                shown = {name for name in names if f"+ {name} " in listed or f"b/{name}\n" in listed or f" {name}," in listed or f" {name} and " in listed}
                self.assertLess(len(shown), many)
                text = server.call("apply_changes", _timeout=120).text
                found = re.search(r"and \d+ more lines; all are in (/tmp/output/applied-\d+\.txt)", text)
                missing = sorted(names - shown)
                if found:
                    sums = server.python(f"import hashlib\nlines = open({found[1]!r}).read().split('\\n')[:-1]\n"
                                         "print(len(lines), hashlib.sha256('\\n'.join(sorted(lines)).encode()).hexdigest())").output
                    self.assertEqual(sums.split(), [str(len(missing)), hashlib.sha256("\n".join("+ " + name for name in missing).encode()).hexdigest()])
                else:
                    self.assertEqual(sorted(line[2:] for line in text.split("\n") if line.startswith("+ ")), missing)

    def test_lists_that_nobody_has_seen(self):
        """An application counts what is left, which shows nothing."""
        self.put("b")
        for hide in (lambda server: server.call("apply_changes", paths=["a"]),
                     lambda server: server.call("apply_changes", paths=["a"], discard=True)):
            with self.start() as server:
                self.assert_ok(server.python("open('a', 'w').write('code'); open('b', 'a').write('code')"))
                hide(server)
                self.assertIn("~ b\n", server.call("apply_changes").text)

    def test_two_patches_at_once(self):
        with self.start() as server:
            for turn in range(5):
                self.assert_ok(server.python(f"for n in 'ab': open(n * 3, 'w').write(n * 50 + '{turn}\\n')"))
                calls = [(name, server.start_call("list_changes", diff=True, paths=[name * 3])) for name in "ab"]
                for name, call in calls:
                    self.assertIn(f"+{name * 50}{turn}\n", server.finish_call(call).text)

    def test_what_has_changed_since_the_list(self):
        self.put("a"), self.put("b"), self.put("c")
        with self.start() as server:
            self.assert_ok(server.python("for n in 'abc': open(n, 'w').write('listed')"))
            self.changes(server)
            self.assert_ok(server.python("open('a', 'w').write('other'); f = open('b', 'w'); f.write('listed'); f.close()"))
            result = server.call("apply_changes")
            self.assertIn("~ a (not as it was listed: changed since)", result.text)
            self.assertNotIn("~ b", result.text)
            self.assertNotIn("~ c", result.text)

    def test_writes_through_a_mapping_after_the_list(self):
        self.put("a", "x" * 5000)
        late = ("import mmap, os, time\nf = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:8] = b'reviewed'; m.flush()\n"
                "if os.fork() == 0:\n    os.setsid()\n    while not os.path.exists('/data/signals/late'): time.sleep(0.01)\n"
                "    m[:8] = b'EVIL-EVI'; open('/data/signals/done', 'w').close(); time.sleep(600)")
        with self.start() as server:
            self.assert_ok(server.python(late))
            self.changes(server)
            (self.signals / "late").touch()
            end = time.monotonic() + 60 * SLOW
            while not (self.signals / "done").exists() and time.monotonic() < end:
                time.sleep(0.01)
            result = server.call("apply_changes")
            text = (self.dir / "a").read_text()[:8]
            self.assertTrue(text != "EVIL-EVI" or "not as it was listed" in result.text, result.text)

    def test_a_mapping_that_writes_all_the_time(self):
        """Two halves that code always writes together are never applied apart."""
        size = 1 << 20
        self.put("a", b"0" * size)
        late = (f"import mmap, os\nf = open('a', 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
                f"if os.fork() == 0:\n    os.setsid(); n = 0\n    while True:\n        n += 1; b = b'%08d' % n\n        m[:8] = b; m[{size - 8}:] = b")
        with self.start() as server:
            self.assert_ok(server.python(late))
            for _ in range(5):
                self.changes(server)
                server.call("apply_changes")
                found = (self.dir / "a").read_bytes()
                first, last = int(found[:8]), int(found[-8:])
                self.assertTrue(first == 0 or 0 <= first - last <= 1, (first, last))

    def test_modes_and_targets_in_the_list(self):
        self.put(".config-x", mode=0o600), self.put("d/x")
        with self.start() as server:
            self.assert_ok(server.python("import os\nopen('.config-x', 'a').write('more\\n'); os.chmod('.config-x', 0o666); os.chmod('d', 0o777)\n"
                                         "os.mkdir('open', 0o777); os.chmod('open', 0o777); open('open.txt', 'w').close(); os.chmod('open.txt', 0o666)\n"
                                         "os.symlink('/etc/passwd', 'away')\nopen('plain.txt', 'w').close()"))
            lines = server.call("list_changes").text.splitlines()
            for line in ("~ .config-x +1 -0 mode 666", "~ d/ mode 777", "+ open/ mode 777", "+ open.txt 0 B mode 666", "+ away symlink to /etc/passwd",
                         "+ plain.txt 0 B"):
                self.assertIn(line, lines)

    def test_modes_of_directories_that_hold_something(self):
        with self.start() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); os.mkdir('e')\nfor n in 'd/f', 'e/f': open(n, 'w').write('x\\n')\n"
                                         "os.chmod('d', 0o777)"))
            self.assertIn("+ d/ mode 777\n+ d/f 2 B\n+ e/f 2 B\n[3 changes]", server.call("list_changes").text)
            self.assertIn("# d: mode 777\n", server.call("list_changes", diff=True).text)
            self.assertIn("applied 3 of 3", server.call("apply_changes").text)
        self.assertEqual([os.stat(self.dir / name).st_mode & 0o777 for name in "de"], [0o777, 0o755])

    def test_invisible_characters_are_named(self):
        for name in ("esc", "cr", "bidi", "zero", "crlf"):
            self.put(name)
        with self.start() as server:
            self.assert_ok(server.python("for n, t in {'esc': '\\x1b[2Kx', 'cr': 'evil\\rgood', 'bidi': '\\u202ex', 'zero': 'a\\u200bb', 'crlf': 'a\\r\\nb'}.items():\n"
                                         "    open(n, 'a', newline='', encoding='utf-8').write(t + '\\n')"))
            listed = self.changes(server)
            self.assertEqual({name.decode() for name, note in listed.notes.items() if "invisible" in note}, {"esc", "cr", "bidi", "zero"})
            patch = self.patch(server).decode()
        for name in ("esc", "cr", "bidi", "zero"):
            self.assertIn(f"# {name}: adds invisible characters\n", patch)
        self.assertNotIn("# crlf", patch)

    def test_invisible_characters_that_change_places(self):
        """A file has as many as before: those of added lines count."""
        self.put("f", "a\u202eb\nc\nd\n"), self.put("words", "a\u00a0b \u3000 \u2764\ufe0f\n")
        with self.start() as server:
            self.assert_ok(server.python("open('f', 'w').write('ab\\nc\\u202e\\nd\\n'); open('nul', 'w').write('x' * 9000 + '\\0\\n')\n"
                                         "open('tags', 'w').write('a\\U000e0041\\n'); open('words', 'a').write('a\\u00a0b \\u3000 \\u2764\\ufe0f!\\n')"))
            listed = self.changes(server)
            self.assertEqual({name.decode() for name, note in listed.notes.items() if "invisible" in note}, {"f", "nul", "tags"})

    def test_modes_in_the_patch(self):
        self.put(".env", "a\n", 0o600)
        with self.start() as server:
            self.assert_ok(server.python("import os; os.umask(0); open('.env', 'a').write('b\\n'); os.chmod('.env', 0o666)\n"
                                         "os.mkdir('d', 0o777); os.chmod('d', 0o777); open('new', 'w').close(); os.chmod('new', 0o666)"))
            patch = self.patch(server).decode()
        for line in ("# .env: mode 666\n", "# d: mode 777\n", "# new: mode 666\n"):
            self.assertIn(line, patch)

    def test_a_file_that_cannot_be_read(self):
        """Nobody can have seen what is in it."""
        with self.start() as server:
            self.assert_ok(server.python("import os; open('f', 'w').write('secret'); os.chmod('f', 0); open('g', 'w').write('x')"))
            self.assertIn("(not readable)", server.call("list_changes").text)
            result = server.call("apply_changes")
        self.assertIn("applied 1 of 2", result.text)
        self.assertIn("f: the user may not read or write it", result.text)
        self.assertFalse((self.dir / "f").exists())


if __name__ == "__main__":
    unittest.main()
