"""A real repository, this one, with --cow: git and a test suite do inside what they do outside."""
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from client import ROOT, SLOW, once
from projects import Project, tree

SUITE = ("test_json", "test_reports", "test_stack")
RUN = """import os, subprocess
env = {{**os.environ, 'PYTHONDONTWRITEBYTECODE': '1', 'SANDPIPER_TEST_SLOW': {slow!r}}}
done = subprocess.run({command!r}, cwd={cwd!r}, env=env, capture_output=True, text=True)
print(done.returncode); print(done.stdout); print(done.stderr)
"""
LONG = {"timeout_s": 900, "_timeout": 920}


class Repository(Project):
    made = None  # the repository of the first case, which those after it copy

    def setUp(self):
        super().setUp()
        if not shutil.which("git"):
            self.skipTest("git: not installed")
        if Repository.made:
            subprocess.run(["cp", "-a", f"{Repository.made}/.", self.dir], check=True)
        else:
            self.fill()
            self.git("init", "-q")
            self.git("add", "-A")
            self.git("commit", "-qm", "first")
            self.git("gc", "-q")
            Repository.made = tempfile.mkdtemp(prefix="sp-cow-")
            unittest.addModuleCleanup(shutil.rmtree, Repository.made)
            subprocess.run(["cp", "-a", f"{self.dir}/.", Repository.made], check=True)
        self.git("status")

    def fill(self):
        """The files of this source tree, as a project that the user of the tests owns."""
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"], capture_output=True)
        names = [name for name in os.fsdecode(listed.stdout).split("\0") if name] or [
            "README.md", *(str(path.relative_to(ROOT)) for top in ("base", "docs", "guest", "rpc", "tests/guest", "tests/e2e", "tests/lint")
            for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts)]
        for name in names:
            if (ROOT / name).is_file():
                (self.dir / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, self.dir / name)
                # As git keeps them: a checkout that was made with umask 002 has other modes.
                (self.dir / name).chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)

    def run_inside(self, server, *command, cwd="/work"):
        """(exit status, what it printed)."""
        result = server.python(RUN.format(command=command, cwd=cwd, slow=str(SLOW)), session="shell", **LONG)
        self.assert_ok(result)
        status, _, printed = result.output.partition("\n")
        return int(status), printed.rstrip("\n")

    def run_outside(self, *command, cwd="."):
        done = subprocess.run(command, cwd=self.dir / cwd, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.temp), "PYTHONDONTWRITEBYTECODE": "1",
                                   "SANDPIPER_TEST_SLOW": str(SLOW)})
        return done.returncode, f"{done.stdout}\n{done.stderr}".rstrip("\n")


class Git(Repository):
    def test_status_and_diff_are_those_of_outside_and_change_nothing(self):
        with open(self.dir / "README.md", "a") as file:
            file.write("changed by the user\n")
        (self.dir / "untracked").write_text("x\n")
        for path in (self.dir / "docs").iterdir():  # git would write new times into its index
            os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))
        before = tree(self.dir, exact=True)
        with self.server() as server:
            inside = {words: self.run_inside(server, "git", *words)
                      for words in (("status", "--short"), ("diff",), ("log", "--oneline"), ("status",))}
            listed = self.changes(server)
            self.assertEqual(listed, {})
            self.assert_tree(tree(self.dir, exact=True), before)
        for words, found in inside.items():
            self.assertEqual(found, self.run_outside("git", *words), words)
        self.assertEqual(inside["status", "--short"], (0, " M README.md\n?? untracked\n"[:-1]))

    def test_what_code_changes_is_in_the_status_inside_only(self):
        with self.server() as server:
            self.assert_ok(server.python("open('README.md', 'a').write('by code\\n'); open('made', 'w').close()"))
            self.assertEqual(self.run_inside(server, "git", "status", "--short"), (0, " M README.md\n?? made"))
            self.assertIn("+by code", self.run_inside(server, "git", "diff")[1])
            self.assertEqual(self.git("status", "--short"), "")
            self.apply(server, 2, paths=["README.md", "made"])  # git diff has written the index
            self.assertEqual(self.git("status", "--short"), " M README.md\n?? made\n")

    def test_the_patch_is_one_that_git_takes(self):
        with self.server() as server:
            self.assert_ok(server.python("""import pathlib, shutil
for path in sorted(pathlib.Path('docs').glob('*.md')): path.write_text(path.read_text().replace('the', 'THE'))
shutil.rmtree('tests/guest'); shutil.move('base', 'bottom')
"""))
            patch = self.patch(server)
            copy = self.copy("patched")
            self.apply(server)
        self.git_apply(patch, copy)
        self.assert_tree(tree(copy), tree(self.dir))

    def test_a_commit_inside_stays_inside(self):
        before = tree(self.dir, exact=True)
        with self.server() as server:
            steps = "\n".join(f"subprocess.run(['git', '-c', 'user.name=t', '-c', 'user.email=t@example.org', *{words!r}], check=True)"
                              for words in (["checkout", "-qb", "side"], ["add", "-A"], ["commit", "-qm", "by code"], ["gc", "-q"],
                                            ["config", "user.name", "code"]))
            self.assert_ok(server.python(f"import subprocess; open('README.md', 'a').write('by code\\n')\n{steps}", **LONG))
            self.assertEqual(self.run_inside(server, "git", "log", "--format=%s")[1].split(), "by code first".split())
            self.assertEqual(self.run_inside(server, "git", "fsck")[0], 0)
            self.assertEqual(self.run_inside(server, "git", "status", "--short"), (0, ""))
            self.assert_tree(tree(self.dir, exact=True), before)
            self.apply(server)
        self.assertEqual(self.git("log", "--format=%s"), "first\n")
        self.assertEqual(self.git("branch", "--format=%(refname:short)"), "main\n")
        self.assertEqual(self.git("status", "--short"), " M README.md\n")


@once
class Suites(Repository):
    def counts(self, found):
        return found[0], re.search(r"Ran (\d+) tests|(\d+) passed", found[1]).group(0)

    def check(self, *command):
        before = tree(self.dir, exact=True)
        # The suite keeps the processes of all its sessions until its end.
        with self.server("--memory", "2G", "--pids", "1024") as server:
            inside = self.run_inside(server, *command, cwd="/work/tests/guest")
            self.assert_tree(tree(self.dir, exact=True), before)
        self.assertEqual(inside[0], 0, inside[1][-3000:])
        self.assertEqual(self.counts(inside), self.counts(self.run_outside(*command, cwd="tests/guest")))

    def test_unittest(self):
        self.check("python3", "-m", "unittest", *SUITE)

    @unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest: not installed")
    def test_pytest(self):
        self.check("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"{name}.py" for name in SUITE))


if __name__ == "__main__":
    unittest.main()
