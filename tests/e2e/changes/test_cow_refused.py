"""Names on which programs of the user's act: changes of them are applied only if they are named."""
import os
import shutil
import subprocess
import unittest

from projects import GIT, MAKE, Project, tree

REFUSED = (".git/hooks/post-checkout", ".gitmodules", ".gitattributes", ".envrc", ".vscode/tasks.json", ".idea/x.xml", ".zed/x",
           ".claude/settings.json", ".cursor/x", ".codex/x", ".gemini/x", ".opencode/x", ".mcp.json", ".devcontainer/x",
           ".husky/x", ".pre-commit-config.yaml", ".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml",
           ".npmrc", ".tool-versions", "mise.toml", ".dir-locals.el", ".exrc", ".nvim.lua", "sitecustomize.py",
           "usercustomize.py", "hook.pth", "deep/er/.envrc", "deep/.vscode/x.json", ".ENVRC", "deep/.GitHub/Workflows/x.yml",
           "SiteCustomize.PY", "deep/X.PTH", "sub/.git")
HARMLESS = (".github/CODEOWNERS", ".gitignore", "envrc", "git/hooks/x", "my.vscode", "workflows/ci.yml", ".env", "site.py",
            "pth", "gitmodules", ".editorconfig")


class Refused(Project):
    def test_names_on_which_programs_act(self):
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=REFUSED + HARMLESS)))
            self.assertEqual(len(self.changes(server).files()), len(REFUSED + HARMLESS))
            result = server.call("apply_changes")
            self.assertFalse(result.is_error, result.text)  # what nobody has named is no failure
            found = tree(self.dir)
            for name in REFUSED:
                with self.subTest(name=name):
                    self.assertNotIn(name.encode(), found)
            for name in HARMLESS:
                with self.subTest(name=name):
                    self.assertIn(name.encode(), found)
            self.assertEqual(set(self.changes(server).files()), {name.encode() for name in REFUSED})

    def test_the_list_marks_them(self):
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=("a", "deep/.envrc", ".vscode/x"))))
            notes = self.changes(server).notes
            self.assertEqual(notes[b"a"], "")
            self.assertTrue(notes[b"deep/.envrc"] and notes[b".vscode/x"], notes)

    def test_they_are_applied_if_named(self):
        names = ("a/.envrc", "b/.vscode/x", "b/.vscode/y", "c/.vscode/x", "c/.vscode/y", ".github/workflows/ci.yml", "plain")
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=names)))
            self.assertTrue(self.apply(server, paths=["a"]).is_error)
            self.assertNotIn(b"a/.envrc", tree(self.dir))
            self.assertTrue(self.apply(server, paths=[".github"]).is_error)
            self.assertNotIn(b".github/workflows/ci.yml", tree(self.dir))
            self.apply(server, 1, paths=["a/.envrc"])
            self.apply(server, 2, paths=["b/.vscode"])
            self.apply(server, 1, paths=["c/.vscode/x"])
            self.apply(server, 1, paths=[".github/workflows"])
            found = tree(self.dir)
            for name in names:
                self.assertEqual(name.encode() in found, name not in ("c/.vscode/y", "plain"), name)

    def test_a_change_and_a_deletion_of_one_is_refused(self):
        self.put(".envrc")
        self.put(".vscode/settings.json")
        before = tree(self.dir, exact=True)
        with self.server() as server:
            self.assert_ok(server.python("import shutil; open('.envrc', 'w').write('rm'); shutil.rmtree('.vscode')"))
            self.assertTrue(self.apply(server).is_error)
            self.assert_tree(tree(self.dir, exact=True), before)

    def test_one_that_a_symlink_replaces(self):
        self.put(".vscode/settings.json")
        self.put("d/settings.json")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil; shutil.rmtree('.vscode'); os.symlink('d', '.vscode')\n"
                                         "os.symlink('d', '.claude')"))
            self.assertTrue(self.apply(server).is_error)
        self.assertFalse((self.dir / ".vscode").is_symlink())
        self.assertFalse((self.dir / ".claude").is_symlink())

    def test_a_bare_repository(self):
        names = ("repo.git/HEAD", "repo.git/objects/x", "repo.git/refs/x", "repo.git/hooks/update", "repo.git/config")
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=names)))
            self.assertTrue(self.apply(server).is_error)
            found = tree(self.dir)
            self.assertFalse({b"repo.git/hooks/update", b"repo.git/config"} & set(found), found.keys())
            self.apply(server, 1, paths=["repo.git/hooks"])
            self.assertIn(b"repo.git/hooks/update", tree(self.dir))

    def test_a_bare_repository_in_parts(self):
        """Each part alone is harmless; the last one makes programs of the user's run the others."""
        parts = ("HEAD", "hooks/update", "config"), ("objects/x", "refs/x")
        for last, first in (parts, parts[::-1]):
            with self.subTest(last=last), self.server() as server:
                top = f"{len(first)}.git"
                self.assert_ok(server.python(MAKE.format(names=[f"{top}/{name}" for name in first])))
                self.apply_all(server)
                self.assert_ok(server.python(MAKE.format(names=[f"{top}/{name}" for name in last])))
                self.assertTrue(self.apply(server).is_error)
                found = {os.fsdecode(name) for name in tree(self.dir)}
                self.assertFalse({f"{top}/{name}" for name in last} & found, found)

    def test_a_bare_repository_without_a_part_that_comes_back(self):
        """A deletion that is not carried out leaves the part, and the rest is then a git directory's."""
        for name in ("HEAD", "objects/x", "refs/x", "config"):
            self.put(f"repo.git/{name}")
        for part in ("HEAD", "refs"):
            with self.subTest(part=part), self.server() as server:
                self.assert_ok(server.python(MAKE.format(names=["repo.git/hooks/update", "repo.git/config"])
                                             + f"import shutil\nif {part == 'HEAD'}: os.unlink('repo.git/HEAD')\n"
                                               "else: shutil.rmtree('repo.git/refs')"))
                notes = self.changes(server).notes
                for name in (b"repo.git/config", b"repo.git/hooks/update"):
                    self.assertIn("only if named", notes[name])
                self.assertTrue(self.apply(server).is_error)
                self.assertEqual(self.read("repo.git/config"), "as it was\n")
                self.assertFalse((self.dir / "repo.git/hooks").exists())
                self.apply(server, paths=["repo.git/HEAD", "repo.git/refs"])
                self.assertFalse((self.dir / "repo.git" / part).exists())
                self.put("repo.git/HEAD")
                self.put("repo.git/refs/x")

    def test_a_git_directory_is_applied_whole_or_not_at_all(self):
        if not shutil.which("git"):
            self.skipTest("git: not installed")
        self.put("a")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            self.git(*words)
        before = tree(self.dir / ".git", exact=True)
        commit = ("import subprocess; open('a', 'a').write('x\\n')\n"
                  f"subprocess.run({list(GIT)!r} + ['commit', '-qam', 'second'], check=True)")
        with self.server() as server:
            self.assert_ok(server.python(commit))
            self.apply(server, 1, paths=["a"])
            self.assertTrue(self.apply(server).is_error)
            self.assert_tree(tree(self.dir / ".git", exact=True), before)
            self.git("commit", "-qm", "of the user", "--allow-empty")
            before = tree(self.dir / ".git", exact=True)
            self.assertTrue(self.apply(server, paths=[".git"]).is_error)
            self.assert_tree(tree(self.dir / ".git", exact=True), before)
        with self.server() as server:
            self.assert_ok(server.python(commit))
            self.apply_all(server, paths=[".git"])
        self.assertEqual(self.git("log", "--format=%s").split("\n")[:3], ["second", "of the user", "first"])
        self.git("fsck", "--strict")

    def repository(self):
        if not shutil.which("git"):
            self.skipTest("git: not installed")
        for name in ("a", "old/b", "old/c"):
            self.put(name, name + "\n")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            self.git(*words)

    def test_a_status_of_the_users_is_no_conflict_of_the_index(self):
        """It writes what it has seen of the files to the index. What they have added to it is a conflict."""
        self.repository()
        commit = ("import subprocess; open('a', 'a').write('x\\n')\n"
                  f"subprocess.run({list(GIT)!r} + ['commit', '-qam', 'second'], check=True)")
        for version in ("2", "4"):
            self.git("update-index", "--index-version", version)
            with self.subTest(version=version), self.server() as server:
                self.assert_ok(server.python(commit))
                before = (self.dir / ".git/index").read_bytes()
                os.utime(self.dir / "old/b", (1, int(version)))
                self.git("update-index", "--refresh")  # as `git status` does where it can
                self.assertNotEqual((self.dir / ".git/index").read_bytes(), before)
                self.assertNotIn("also changed by the user", " ".join(self.changes(server).notes.values()))
                self.apply(server, 1, paths=["a"])
                self.git("status")
                self.apply_all(server, paths=[".git"])
                self.assertEqual(self.git("status", "--porcelain"), "")
                self.assert_ok(server.python(commit))
                self.put("theirs")
                self.git("add", "theirs")
                self.assertIn("conflict in this git directory", self.apply(server, paths=[".git"]).text)
                self.discard(server)
                self.git("commit", "-qm", "theirs")
                (self.dir / "theirs").unlink()
                self.git("commit", "-qam", "gone")
        self.git("fsck", "--strict")

    def test_a_committed_deletion_waits_for_no_git_directory(self):
        """An object has the content, but a deletion is no move into one."""
        self.repository()
        with self.server() as server:
            self.assert_ok(server.python("import subprocess, shutil, os; shutil.rmtree('old'); open('new', 'w').write('x')\n"
                                         "shutil.copytree('.git', 'copy'); shutil.rmtree('copy')\n"
                                         f"for words in (['add', '-A'], ['commit', '-qm', 'second']): subprocess.run({list(GIT)!r} + words, check=True)"))
            text = server.call("apply_changes").text
            self.assertNotIn("kept:", text)
            self.assertEqual(sorted(name for name in tree(self.dir) if not name.startswith(b".git")), [b"a", b"new"])

    def test_what_git_does_not_track_stays_until_its_objects_come(self):
        """After a stash of all, the sandbox's git directory alone has the user's file."""
        self.repository()
        self.put("sub/mine", "the user's\n")
        with self.server() as server:
            self.assert_ok(server.python(f"import subprocess; subprocess.run({list(GIT)!r} + ['stash', '-qu'], check=True)"))
            self.assertIn("sub/mine: kept: ", server.call("apply_changes").text)
            self.assertEqual(self.read("sub/mine"), "the user's\n")

    def test_what_is_moved_into_a_git_directory_as_it_is_stays(self):
        self.repository()
        with self.server() as server:
            self.assert_ok(server.python("import shutil; shutil.move('old/b', '.git/b')"))
            self.assertIn("old/b: kept: ", server.call("apply_changes").text)
            self.assertEqual(self.read("old/b"), "old/b\n")

    def test_all_dot_files_of_a_home_directory(self):
        env = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        with self.server(env={**env, "HOME": str(self.dir), "TMPDIR": "/tmp"}) as server:
            if "home directory" in server.python("1").text:
                return  # refused as a workspace
            self.assert_ok(server.python(MAKE.format(names=(".bashrc", ".config/autostart/x", "plain", "d/.hidden"))))
            self.apply(server)
            found = tree(self.dir)
            self.assertFalse({b".bashrc", b".config/autostart/x"} & set(found), found.keys())
            self.assertIn(b"plain", found)
            self.apply(server, 1, paths=[".bashrc"])
            self.assertIn(b".bashrc", tree(self.dir))


if __name__ == "__main__":
    unittest.main()
