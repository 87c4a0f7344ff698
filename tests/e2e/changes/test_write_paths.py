"""write_file by every spelling of a path and through symlinks: one path for the result, the lists, what is applied and undo; and
files that code itself could not write to.
"""
import base64
import contextlib
import os
import posixpath
import shutil
import subprocess
import unittest

from at_work import WrittenThrough
from client import Case, Server, give_away, need_userns, size
from container_level import CONTAINER
from overlay import need_overlay
from projects import Project, tree

LINKS = {"dirlink": "real", "abslink": "/work/real", "real/sub/up": "..", "deep": "real/sub", "AGENTS.md": "CLAUDE.md",
         "first": "second", "second": "real/in.txt", "dangling": "new/deep.txt", "loop": "loop2", "loop2": "loop", "out": "/tmp",
         "out.txt": "/tmp/out.txt", "missing.txt": "/srv/nothing/here.txt", "to-root": "/proc/1/root"}
# Each is real/in.txt, or what is in its place.
SPELLINGS = ("real/in.txt", "./real/in.txt", "real//in.txt", "real/./in.txt", "/work/./real/in.txt", "../work/real/in.txt", "real/in.txt/",
             "real/sub/../in.txt", "none/../real/in.txt", "dirlink/in.txt", "abslink/in.txt", "real/sub/up/in.txt", "deep/../in.txt",
             "dirlink/../dirlink/in.txt", "deep/up/sub/up/in.txt", "first", "dirlink/../first")
NEW = ("new/deep.txt", "./new/deep.txt", "new//deep.txt", "/work/new/./deep.txt", "none/../new/deep.txt", "dirlink/../new/deep.txt", "dangling")
OUTSIDE = ("out.txt", "out/x.txt", "out/new/x.txt", "missing.txt")


def encoded(text):
    return base64.b64encode(text.encode()).decode()


WRITES = {"overwrite": lambda text: {"content": text}, "append": lambda text: {"content": text, "mode": "append"},
          "edit": lambda text: {"old_text": "as it was", "new_text": text},
          "base64": lambda text: {"content": encoded(text), "encoding": "base64"}}


class Spellings:
    """What is the same in memory, in a directory and with --cow."""

    def at(self, server, path):
        return path.replace("../work", "../" + posixpath.basename(server.here("/work"))) if path[0] == "." else server.here(path)

    def plant(self, server):
        """By code, where the workspace is in memory."""
        links = {name: server.here(target) for name, target in LINKS.items()}
        self.assert_ok(server.python(
            "import os\nos.makedirs('real/sub')\nfor n in ('real/in.txt', 'CLAUDE.md'): open(n, 'w').write('as it was\\n')\n"
            f"for n, t in {links!r}.items(): os.symlink(t, n)"))

    def put_back(self, server):
        self.assert_ok(server.python("import shutil; shutil.rmtree('new', ignore_errors=True)\nopen('real/in.txt', 'w').write('as it was\\n')"))

    def all_spellings(self, server):
        for path in SPELLINGS:
            for way, arguments in WRITES.items():
                with self.subTest(path=path, way=way):
                    result = server.call("write_file", path=self.at(server, path), **arguments("code"))
                    self.assertRegex(result.text, r"^(edited|appended to|overwrote) real/in\.txt \(")
                    self.written(server, "real/in.txt", "~")
                    self.put_back(server)
        for path in NEW:
            for way in ("overwrite", "append", "base64"):
                with self.subTest(path=path, way=way):
                    result = server.call("write_file", path=self.at(server, path), **WRITES[way]("code"))
                    self.assertRegex(result.text, r"^created new/deep\.txt \(")
                    self.written(server, "new/deep.txt", "+")
                    self.put_back(server)

    def what_is_refused(self, server):
        before = self.everything(server)
        for path in OUTSIDE:
            for way, arguments in WRITES.items():
                result = server.call("write_file", path=path, **arguments("code"))
                self.assertTrue(result.is_error, path)
                self.assertRegex(result.text, f"^{path} leads by symlinks to /\\S+, outside of the workspace; to write there, send that path")
        for path, why in (("loop", "too many symbolic links"), ("dirlink", "is a directory"), ("newer/", "as a directory does"), ("first/x", "not a directory"),
                          ("to-root/work/x", "not accessible"), (".", "is a directory"), ("new/..", "is a directory"), ("/", "is a directory")):
            for way in ("overwrite", "append", "base64"):
                result = server.call("write_file", path=path, **WRITES[way]("code"))
                self.assertTrue(result.is_error, (path, way, result.text))
                self.assertIn(why, result.text, (path, way))
        self.assertEqual(self.everything(server), before)
        self.assert_prints(server.python(f"import os; print(os.path.exists({server.here('/tmp/new')!r}))"), "False")

    def everything(self, server):
        return server.python("import os\nprint(sorted((p, n, os.path.islink(os.path.join(p, n))) for p, d, f in os.walk('.') for n in d + f))").output


class InMemory(Spellings, Case):
    def written(self, server, name, mark):
        self.assertIn("code", server.read(name).text)

    def test_every_spelling_is_one_path(self):
        need_userns()
        with Server() as server:
            self.plant(server)
            self.all_spellings(server)
            self.what_is_refused(server)
            self.assertFalse(server.write(server.here("/tmp/out.txt"), "x").is_error)

    def test_symlinks_that_come_and_go_meanwhile_are_not_followed_out(self):
        need_userns()
        with Server() as server:
            self.plant(server)
            outside = server.here("/tmp/outside")
            self.assert_ok(server.python(f"os.mkdir({outside!r}); open({outside + '/a'!r}, 'w').write('as it was')"))
            swapping = server.start_call("run_python", session="swapper", timeout_s=600, code=(
                "import os, shutil\ndef put(target, name):\n"
                "    if os.path.isdir(name) and not os.path.islink(name): shutil.rmtree(name)\n"
                "    try: os.symlink(target, 'next'); os.rename('next', name)\n"
                "    except OSError: os.unlink('next')\n"
                "while not os.path.exists('halt'):\n"
                f"    for target in ('real', {outside!r}, 'none'): put(target, 'way')\n"
                f"    for target in ('real/in.txt', {outside + '/a'!r}, 'none.txt'): put(target, 'name')\n"
                "    open('next', 'w').close(); os.rename('next', 'name')\n"))
            for _ in range(size(200, 60)):
                for way in ("overwrite", "append", "edit"):
                    for path in ("way/a", "name"):
                        server.call("write_file", path=path, **WRITES[way]("code"))
            server.write("halt", "")
            self.assert_ok(server.finish_call(swapping))
            self.assert_prints(server.python(f"print(os.listdir({outside!r}), open({outside + '/a'!r}).read())"), "['a'] as it was")

    def test_undo_goes_by_the_target(self):
        need_userns()
        with Server() as server:
            self.plant(server)
            self.assert_ok(server.python("x = 1"))
            self.assertFalse(server.write("first", "written").is_error)
            result = server.python("open('first', 'w').write('code')")
            self.assert_ok(result)
            line = server.python("", undo=True).status.line
            self.assertIn("files back: real/in.txt", line)
            self.assert_prints(server.python("import os; print(os.readlink('first'), open('first').read())"), "second written")


class Planted(Spellings):
    """By the user."""

    def make_directories(self):
        super().make_directories()
        self.put("CLAUDE.md"), self.put("real/in.txt"), (self.dir / "real/sub").mkdir()
        for path in (self.dir / "CLAUDE.md", self.dir / "real", self.dir / "real/in.txt", self.dir / "real/sub"):
            give_away(path)
        for name, target in LINKS.items():
            (self.dir / name).symlink_to(target.replace("/work", str(self.dir)) if CONTAINER else target)


class InTheDirectory(Planted, WrittenThrough):
    def written(self, server, name, mark):
        self.assertIn("code", self.read(name))
        self.assertEqual([n for n in LINKS if not (self.dir / n).is_symlink()], [])

    def test_every_spelling_is_one_path(self):
        with self.start() as server:
            self.all_spellings(server)
            self.what_is_refused(server)

    def test_undo_takes_back_the_target_and_no_symlink(self):
        with self.start() as server:
            self.assert_ok(server.python("x = 1"))
            self.assertFalse(server.write("AGENTS.md", "written\n").is_error)
            self.assert_ok(server.python("open('AGENTS.md', 'a').write('code')"))
            self.undo(server)
        self.assertEqual(os.readlink(self.dir / "AGENTS.md"), "CLAUDE.md")
        self.assertEqual(self.read("CLAUDE.md"), "written\n")

    def test_settings_behind_a_symlink(self):
        self.put(".vscode/settings.json", "{}"), self.put(".git/HEAD"), self.put(".git/hooks/x")
        for name, target in (("settings", ".vscode/settings.json"), ("editor", ".vscode"), ("git", ".git"), ("hook", ".git/hooks/pre-commit"),
                             ("tasks", ".zed/tasks.json")):
            (self.dir / name).symlink_to(target)
        before = tree(self.dir)
        with self.start() as server:
            for path in ("settings", "editor/settings.json", "editor/new/x.json", "git/hooks/pre-commit", "hook", "tasks"):
                for mode in ("overwrite", "append", "create"):
                    result = server.write(path, "x", mode=mode)
                    self.assertTrue(result.is_error and "--allow-write" in result.text, (path, mode, result.text))
            self.assert_tree(tree(self.dir), before)

    def test_a_file_that_has_a_name_outside_says_so(self):
        self.put("linked.txt", "shared\n")
        os.link(self.dir / "linked.txt", self.outside / "store.txt")
        with self.start() as server:
            for way, arguments in WRITES.items():
                content = {"old_text": "shared", "new_text": "x"} if way == "edit" else arguments("x")
                result = server.call("write_file", path="linked.txt", **content)
                if CONTAINER:
                    continue
                self.assertTrue(result.is_error, way)
                self.assertIn("linked.txt is read-only in the workspace", result.text)
                self.assertIn("hard links", result.text)
        self.assertEqual((self.outside / "store.txt").read_text(), "shared\n")


class Cow(Planted, Project):
    def written(self, server, name, mark):
        before = tree(self.dir)
        listed = self.changes(server)
        self.assertEqual(listed.files(), {name.encode(): mark})
        self.apply(server, 1)
        after = tree(self.dir)
        self.assertEqual({n for n in before.keys() | after.keys() if before.get(n) != after.get(n)} - {b"new"}, {name.encode()})
        self.assertIn("code", self.read(name))

    def put_back(self, server):
        super().put_back(server)
        if self.changes(server):
            self.apply_all(server)

    def test_every_spelling_is_one_path(self):
        with self.server() as server:
            self.all_spellings(server)
            self.what_is_refused(server)
            self.assertEqual(self.changes(server), {})

    def test_what_is_discarded(self):
        before = tree(self.dir)
        with self.server() as server:
            for path in (*SPELLINGS, *NEW):
                self.assertFalse(server.write(self.at(server, path), "code").is_error)
                self.discard(server, 1)
                self.assertEqual(self.changes(server), {}, path)
            self.assertTrue(server.call("apply_changes", paths=["../"], discard=True).is_error)
            self.assert_prints(server.python("import os; print(os.readlink('dirlink'), open('first').read(), end='')"), "real as it was")
        self.assert_tree(tree(self.dir), before)

    def test_the_user_puts_a_symlink_in_the_way(self):
        """Between the write and the apply: what it leads to is not changed."""
        with self.server() as server:
            self.assertFalse(server.write("real/in.txt", "code").is_error)
            os.rename(self.dir / "real", self.dir / "moved")
            (self.dir / "real").symlink_to(self.outside)
            (self.outside / "in.txt").write_text("user")
            self.apply(server)
        self.assertEqual((self.outside / "in.txt").read_text(), "user")
        self.assertTrue((self.dir / "real").is_symlink())


class ReadOnly(WrittenThrough):
    """What code itself can write to is the measure."""

    def attempt(self, server):
        """{path: whether code can open it for writing}"""
        names = sorted(self.names)
        code = f"def can(n):\n    try:\n        open(n, 'r+').close()\n        return True\n    except OSError: return False\nprint([can(n) for n in {names!r}])"
        return dict(zip(names, eval(server.python(code).output)))

    def check(self, *flags):
        self.names = ("free.txt", "locked.txt", "closed/in.txt")
        for name in self.names:
            self.put(name)
        (self.dir / "locked.txt").chmod(0o444)
        for path in (*self.names, "closed"):
            give_away(self.dir / path)
        with self.start(*flags) as server:
            (self.dir / "closed").chmod(0o555)
            self.addCleanup((self.dir / "closed").chmod, 0o755)
            can = self.attempt(server)
            self.assertTrue(can["free.txt"])
            said = set()
            for way, arguments in WRITES.items():
                result = server.call("write_file", path="locked.txt", **arguments("code"))
                self.assertEqual(result.is_error, not can["locked.txt"], (way, result.text))
                said.add(result.text if result.is_error else "")
            self.assertEqual(len(said), 1, said)
            if not can["locked.txt"]:
                self.assertIn("locked.txt is read-only: its permissions or its owner", said.pop())
                self.assertIn("as it was", self.read("locked.txt"))
                self.assert_ok(server.python("import os; os.chmod('locked.txt', 0o644)"))
                self.assertFalse(server.call("write_file", path="locked.txt", content="code").is_error)
            made = not server.python("open('closed/made', 'w').close()").is_error
            for way in ("overwrite", "base64", "edit"):
                result = server.call("write_file", path="closed/in.txt", **WRITES[way]("as it was"))
                if way == "edit":  # nothing to change
                    continue
                self.assertEqual(result.is_error, not made, result.text)
                if not made:
                    self.assertIn("closed/in.txt is in a directory that is read-only by its permissions", result.text)
            for path in ("closed/new.txt", "closed/d/new.txt"):
                result = server.call("write_file", path=path, content="x")
                self.assertEqual(result.is_error, not made, result.text)
                if not made:
                    self.assertIn("read-only by its permissions", result.text)
            self.assertFalse(server.call("write_file", path="closed/in.txt", content="x", mode="append").is_error)

    def test_files_and_directories_without_write_permission(self):
        self.check()

    def test_the_same_with_cow(self):
        need_overlay()
        self.check("--cow")

    def test_a_file_of_another_user(self):
        self.names = ("other.txt",)
        path = self.put("other.txt")
        with Server("--workspace", str(self.dir)) as server:
            with contextlib.suppress(OSError):  # only root can, and where there is another user
                os.chown(path, 23456, 23456)
            can = self.attempt(server)
            for way, arguments in WRITES.items():
                result = server.call("write_file", path="other.txt", **arguments("as it was"))
                self.assertEqual(result.is_error, not can["other.txt"], result.text) if way != "edit" else None

    def test_immutable_and_append_only_files(self):
        """Of the latter the rename tells."""
        for name, flag in (("fixed.txt", "i"), ("log.txt", "a")):
            give_away(self.put(name))
            if not shutil.which("chattr") or subprocess.run(["chattr", "+" + flag, self.dir / name], capture_output=True).returncode:
                self.skipTest("chattr: not possible here")
            self.addCleanup(subprocess.run, ["chattr", "-" + flag, self.dir / name])
        with Server("--workspace", str(self.dir)) as server:
            for name in ("fixed.txt", "log.txt"):
                for way in ("overwrite", "edit", "base64"):
                    result = server.call("write_file", path=name, **WRITES[way]("code"))
                    self.assertIn(f"{name} cannot be changed: it or its directory is immutable or append-only", result.text)
            self.assertTrue(server.call("write_file", path="fixed.txt", **WRITES["append"]("code")).is_error)
            self.assertFalse(server.call("write_file", path="log.txt", **WRITES["append"]("code")).is_error)
        self.assertEqual((self.read("fixed.txt"), self.read("log.txt")), ("as it was\n", "as it was\ncode"))
        self.assertEqual(sorted(os.listdir(self.dir)), ["fixed.txt", "log.txt"])


if __name__ == "__main__":
    unittest.main()
