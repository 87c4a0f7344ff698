"""--workspace: protected names, on which programs outside act, hard-linked files, and the reports about both."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

from client import ROOT, Case, Server, give_away, need_userns, once, run_cli
from container_level import CONTAINER

GIT = ("git", "-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
NEWS = "changed settings"


class Workspace(Case):
    def setUp(self):
        need_userns()
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-protected-"))
        self.temp.chmod(0o755)
        self.work = self.temp / "work"
        self.work.mkdir()
        give_away(self.work)
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)

    def put(self, name, text="as it was\n"):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def server(self, *args):
        return Server("--workspace", str(self.work), *args)

    def git(self, *args):
        done = subprocess.run([*GIT, *args], cwd=self.work, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.temp)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Git(Workspace):
    def setUp(self):
        super().setUp()
        if not shutil.which("git"):
            self.skipTest("git: not installed")

    def test_git_works_inside_and_its_settings_stay(self):
        self.git("init", "-q")
        self.put("a")
        self.git("add", "a")
        self.git("commit", "-qm", "first")
        config = (self.work / ".git/config").read_bytes()
        steps = ("git checkout -qb side", "echo more >> a", "git commit -qam second", "echo x >> a", "git stash -q",
                 "git stash pop -q", "git checkout -q a", "git checkout -q main", "git merge -q side",
                 "git tag v1", "git gc -q", "git log --oneline")
        code = (f"import subprocess\nfor step in {steps!r}:\n"
                f"    done = subprocess.run(step.replace('git', {' '.join(GIT)!r}, 1), shell=True, capture_output=True, text=True)\n"
                "    if done.returncode: print(step, done.stderr)\nprint(done.stdout.count('\\n'))")
        with self.server() as server:
            result = server.python(code)
            self.assert_prints(result, "2")
            self.assertIsNone(result.status.field(NEWS), result.text)
        self.assertEqual((self.work / ".git/config").read_bytes(), config)
        self.assertIn("second", self.git("log", "--oneline"))
        self.assertEqual(self.git("status", "--short"), "")


class Reports(Workspace):
    def test_a_created_protected_name_is_reported_once(self):
        with self.server() as server:
            result = server.python("import os\nos.mkdir('.vscode'); open('.vscode/tasks.json', 'w').close()\n"
                                   "open('.mcp.json', 'w').close(); open('ordinary', 'w').close()")
            self.assertRegex(result.status.field(NEWS), r"^\+\.vscode \+\.mcp\.json \(.*tell the user\)$")
            self.assertIsNone(server.python("open('more', 'w').close()").status.field(NEWS))
            self.assertIn("~.vscode", server.python("open('.vscode/tasks.json', 'w').write('x')").status.field(NEWS))
            self.assertIn("-.mcp.json", server.python("os.unlink('.mcp.json')").status.field(NEWS))

    def test_changes_of_a_failed_call_are_reported_too(self):
        with self.server() as server:
            result = server.python("import os; os.mkdir('.claude'); os._exit(3)")
            self.assertIn("+.claude", result.status.field(NEWS) or "", result.text)
            result = server.python("import os, time; os.mkdir('.cursor'); time.sleep(60)", timeout_s=1)
            self.assertIn("+.cursor", result.status.field(NEWS) or "", result.text)

    def test_names_replaced_outside_are_reported(self):
        self.put(".mcp.json")
        with self.server() as server:
            self.assertIsNone(server.python("1").status.field(NEWS))
            self.put("next").rename(self.work / ".mcp.json")
            self.assertIn("~.mcp.json", server.python("1").status.field(NEWS) or "")

    def test_the_first_result_says_what_is_not_protected(self):
        with self.server() as server:
            report = server.python("1").status.field("workspace") or ""
            self.assertEqual("are writable at this isolation level" in report, CONTAINER, report)
            self.assertIsNone(server.python("1").status.field("workspace"))

    def test_a_workspace_in_memory_has_no_such_names(self):
        with Server() as server:
            result = server.python("import os\nos.mkdir('.vscode'); open('.mcp.json', 'w').close()")
            self.assertNotIn("settings", result.status.line)
            self.assertFalse(server.write(".vscode/tasks.json", "{}").is_error)

    @once
    def test_too_many_entries_are_reported(self):
        (self.work / "many").mkdir()
        for number in range(5100):
            (self.work / "many" / str(number)).touch()
        self.put(".vscode/tasks.json")
        with self.server() as server:
            result = server.python("open('.vscode/tasks.json', 'a')")
            self.assertIn("more than 5000 entries", result.status.field("workspace"))
            self.assertEqual(result.is_error, not CONTAINER)  # names near the top are still protected

    def test_links_and_hidden_directories_are_among_the_files(self):
        self.put("old")
        with self.server() as server:
            server.python("import os")
            said = server.python("os.symlink('/etc', 'away'); os.mkdir('.hidden'); open('.hidden/x', 'w').close()\n"
                                 "os.mkdir('sub'); os.mkdir('sub/.git'); os.link('old', 'new'); open('file', 'w').close()")
            for word in ("+away (symlink)", "+.hidden/ (directory)", "+sub/.git/ (directory)", "+new (10 B, hard link)",
                         "+file (0 B)"):
                self.assertIn(word, said.status.field("files"))
            said = server.python("open('.hidden/y', 'w').close(); os.rmdir('sub/.git')")
            self.assertEqual(said.status.field("files"), "-sub/.git/")

    def test_doctor_counts_them(self):
        self.put(".vscode/tasks.json")
        os.link(self.put("data"), self.temp / "outside")
        done = run_cli("doctor", "--json", "--workspace", str(self.work))
        facts = {row["fact"]: row for row in json.loads(done.stdout)["facts"]}
        self.assertIn("1 settings files and directories", facts["settings"]["text"])
        self.assertIn("1 files or package directories", facts["hard links"]["text"])
        for fact in ("settings", "hard links"):
            self.assertEqual(facts[fact].get("warning", False), CONTAINER, facts[fact])


class Allowed(Workspace):
    WRITES = "for name in ('.vscode/a', '.mcp.json', '.git/hooks/x', '.git/config', 'data'):\n" \
             "    try: open(name, 'a').write('x'); print(name)\n    except OSError: pass"

    def setUp(self):
        super().setUp()
        for name in (".vscode/tasks.json", ".mcp.json", ".git/hooks/pre-commit", ".git/config", "data"):
            self.put(name)
        os.link(self.work / "data", self.temp / "outside")

    def written(self, *args):
        with self.server(*args) as server:
            return server.python(self.WRITES).output.split()

    def test_by_default_none(self):
        self.assertEqual(self.written() == [], not CONTAINER)

    def test_by_name(self):
        want = {".vscode/a", ".git/hooks/x", ".git/config"}
        got = set(self.written("--allow-write", ".vscode,.git"))
        self.assertEqual(got & want, want)
        self.assertEqual(got - want == set(), not CONTAINER)

    def test_hard_links_and_all(self):
        self.assertIn("data", self.written("--allow-write", "hard-links"))
        self.assertEqual(len(self.written("--allow-write", "all")), 5)

    def test_from_the_configuration_file(self):
        config = self.temp / "config"
        config.write_text("allow-write = .vscode\nallow-write = .mcp.json\n")
        config.chmod(0o600)
        self.assertLessEqual({".vscode/a", ".mcp.json"}, set(self.written("--config", str(config))))

    def test_other_words_are_refused(self):
        done = run_cli("run", "--workspace", str(self.work), "--allow-write", ".vscode,nonsense", "-c", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b'--allow-write takes protected names', done.stderr)
        self.assertIn(b'not "nonsense"', done.stderr)

    def test_write_file_is_refused_with_the_flag(self):
        with self.server() as server:
            work = server.here("/work")
            for path, name in ((".vscode/tasks.json", ".vscode"), (".cursor/mcp.json", ".cursor"), ("x/.mcp.json", ".mcp.json"),
                               (f"{work}/.git/hooks/new", ".git/hooks"), ("./y/../.envrc", ".envrc"), (".GIT/config", ".git/config"),
                               (".git/modules/a/config", ".git/config"), (".git", ".git"), (".github/hooks/x.json", ".github/hooks")):
                result = server.write(path, "x")
                self.assertTrue(result.is_error, path)
                self.assertIn(f"The user can allow it with --allow-write {name}.", result.text)
            for path in ("vscode/a", ".github/workflows/ci.yml", ".gitignore", server.here("/tmp/.vscode/a"), ".env", "a.mcp.json"):
                self.assertFalse(server.write(path, "x").is_error, path)
        with self.server("--allow-write", ".cursor,.vscode") as server:
            self.assertFalse(server.write(".cursor/mcp.json", "x").is_error)
            self.assertFalse(server.write(".vscode/tasks.json", "x").is_error)

    def test_write_file_does_not_write_through_hard_links(self):
        with self.server() as server:
            self.assertTrue(server.write("data", "x", mode="append").is_error)
            server.write("data", "x")
        self.assertEqual((self.temp / "outside").read_text(), "as it was\n")

    def test_a_hint_names_the_flag(self):
        with self.server() as server:
            for code in ("open('.vscode/new', 'w')", "import os; os.rename('.mcp.json', 'x')"):
                self.assertIn("the user can allow it with --allow-write", server.python(code).text)


class Documented(unittest.TestCase):
    def test_each_row_is_in_the_manual_and_in_the_list_of_threats(self):
        table = (ROOT / "sandbox/workspace/names.c").read_text().partition("rows[] = {")[2].partition("};")[0]
        rows = set(re.findall(r'^ +"([^"]+)",', table, re.MULTILINE))
        self.assertGreater(len(rows), 20)
        manual = (ROOT / "docs/sandpiper.1.scd").read_text().partition("*--allow-write*")[2].partition("*--mount*  ")[0]
        threats = (ROOT / "docs/WORKSPACE.md").read_text().partition("## Settings")[2].partition("Not listed")[0]
        self.assertEqual(rows - set(re.findall(r"_(\.?[a-z][\w./-]*?)_(?=[\s,;.])", manual)), set())
        self.assertEqual(rows - set(re.findall(r"`([^`]+)`", threats)), set())


class Leads(Workspace):
    """The targets of links and settings, as programs outside follow them."""

    def attack(self, code, *stays, args=()):
        """Runs code and asserts that programs outside find the paths of stays unchanged."""
        with self.server(*args) as server:
            result = server.python("import os\ndef put(path):\n    try:\n        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
                                   "        open(path, 'w').write('evil')\n    except OSError: pass\n"
                                   "def move(a, b):\n    try: os.rename(a, b)\n    except OSError: pass\n" + code)
            self.assert_ok(result)
        for path in stays:
            there = pathlib.Path(path)
            self.assertEqual(there.exists() and "evil" in there.read_text(), False, path)
        return result

    def test_a_directory_of_hooks_below_another(self):
        self.put(".git/config", "[core] hooksPath = \"scripts/git hooks\" # ours\n")
        self.put("scripts/git hooks/pre-commit")
        self.attack("move('scripts', 'old'); put('scripts/git hooks/pre-commit'); put('scripts/free')",
                    self.work / "scripts/git hooks/pre-commit")
        self.assertEqual((self.work / "scripts/free").read_text(), "evil")

    def test_an_absolute_directory_of_hooks(self):
        self.put("tools/x")
        self.put(".git/config", f"[core]\n\thooksPath = {self.work}/tools\n")
        self.attack("put('tools/pre-commit')", self.work / "tools/pre-commit")

    def test_included_settings(self):
        self.put(".git/config", "[include]\n\tpath = ../.gitconfig\n[includeIf \"gitdir:/\"]\n\tpath = ../conf/two\n")
        self.put(".gitconfig", "[include]\n\tpath = three\n")
        self.put("conf/two", "[core]\n\thooksPath = hooks\n")
        self.put("three")
        self.put("hooks/x")
        self.attack("move('conf', 'old')\nfor name in ('.gitconfig', 'conf/two', 'three', 'hooks/pre-commit'): put(name)",
                    *(self.work / name for name in (".gitconfig", "conf/two", "three", "hooks/pre-commit")))

    def test_a_link_to_a_directory_below_another(self):
        self.put("conf/editor/tasks.json")
        (self.work / ".vscode").symlink_to("conf/editor")
        self.attack("move('conf', 'old'); put('conf/editor/tasks.json')", self.work / ".vscode/tasks.json")

    def test_links_to_links(self):
        self.put("b/tasks.json")
        (self.work / "a").symlink_to("b")
        (self.work / ".vscode").symlink_to("a")
        self.attack("try: os.unlink('a')\nexcept OSError: pass\nput('a/tasks.json')", self.work / ".vscode/tasks.json")

    def test_an_absolute_link(self):
        self.put("conf/tasks.json")
        (self.work / ".vscode").symlink_to(self.work / "conf")
        self.attack("put('conf/tasks.json')", self.work / ".vscode/tasks.json")

    def test_a_link_into_a_mount(self):
        other = self.temp / "other"
        other.mkdir()
        (other / "servers.json").write_text("as it was")
        give_away(other)
        (self.work / ".mcp.json").symlink_to("../other/servers.json")
        self.attack("put('/data/other/servers.json'); put('/data/other/free')", self.work / ".mcp.json",
                    args=("--mount", f"{other}:rw"))
        self.assertEqual((other / "free").read_text(), "evil")

    def test_a_git_directory_of_another_name(self):
        self.put(".git", "gitdir: ./.bare\n")
        self.put(".bare/HEAD")
        self.put(".bare/config")
        self.put(".bare/refs/heads/main")
        self.put(".bare/hooks/x")
        self.attack("put('.bare/config'); put('.bare/hooks/pre-commit'); put('.bare/refs/heads/side')",
                    self.work / ".bare/config", self.work / ".bare/hooks/pre-commit")
        self.assertEqual((self.work / ".bare/refs/heads/side").read_text(), "evil")

    def test_a_submodule_called_like_a_part_of_git(self):
        for name in ("info", "hooks", "logs", "refs"):
            self.put(f".git/modules/{name}/HEAD")
            self.put(f".git/modules/{name}/config")
            self.put(f".git/modules/{name}/hooks/x")
        self.attack("for name in ('info', 'hooks', 'logs', 'refs'): put(f'.git/modules/{name}/hooks/post-checkout')",
                    *(self.work / f".git/modules/{name}/hooks/post-checkout" for name in ("info", "hooks", "logs", "refs")))


class Floods(Workspace):
    @once
    def test_many_files_beside_the_names_hide_none(self):
        for name in (".git/config", ".git/hooks/x", ".vscode/tasks.json", ".mcp.json"):
            self.put(name)
        for number in range(6000):
            (self.work / f"{number}.x").touch()
        with self.server() as server:
            result = server.python("for name in ('.git/config', '.git/hooks/new', '.vscode/tasks.json', '.mcp.json'):\n"
                                   "    try: open(name, 'a').write('evil'); print('written')\n    except OSError: print('refused')")
            if CONTAINER:
                self.assertIn("~.vscode", result.status.field(NEWS) or "", result.text)
            else:
                self.assert_prints(result, "refused\nrefused\nrefused\nrefused")


class Shared(Workspace):
    def test_another_sandbox_is_reported(self):
        with self.server() as first:
            self.assertNotIn("another sandbox", first.python("1").text)
            with self.server() as second:
                self.assertIn("another sandbox uses the workspace", second.python("1").status.field("workspace") or "")
        with self.server() as alone:
            self.assertNotIn("another sandbox", alone.python("1").text)

    def test_a_file_that_may_have_moved_is_read_only(self):
        """The walk sees all names, but the file changes during it, so one name may have been seen twice."""
        os.link(self.put("one"), self.work / "two")
        done = threading.Event()

        def change():
            while not done.wait(0.01):
                os.utime(self.work / "one")

        with self.server() as first:
            self.assertNotIn("hard-linked", first.python("1").text)
            changing = threading.Thread(target=change)
            changing.start()
            try:
                with self.server() as second:
                    report = second.python("1").status.field("workspace") or ""
            finally:
                done.set()
                changing.join()
            self.assertIn("hard-linked", report)


class Large(Workspace):
    def server(self, *args):
        done = super().server(*args)
        self.assert_ok(done.python("import os\nos.makedirs('.claude/a/b/c/d')\nfor n in range(300): open(f'.claude/{n}', 'w').close()\n"
                                   "open('.claude/a/b/c/d/deep', 'w').close()"))
        return done

    def test_changes_deep_down_and_behind_many_files_are_reported(self):
        with self.server() as server:
            for name in ("a/b/c/d/deep", *range(0, 300, 20)):
                result = server.python(f"open('.claude/{name}', 'w').write('x')")
                self.assertIn("~.claude", result.status.field(NEWS) or "", name)

    @once
    def test_a_too_large_workspace_is_reported(self):
        with self.server() as server:
            result = server.python("for n in range(2000): open(f'.claude/more-{n}', 'w').close()")
            self.assertIn("not watched completely", result.status.field(NEWS) or "")


class Bare(Workspace):
    def test_a_git_directory_at_the_top_is_reported(self):
        self.put(".git/HEAD")
        with self.server() as server:
            self.assertIsNone(server.python("open('HEAD', 'w').close()").status.field(NEWS))
            result = server.python("import os\nos.unlink('.git/HEAD'); os.mkdir('objects'); os.mkdir('refs')")
            self.assertIn("+HEAD", result.status.field(NEWS) or "", result.text)
            self.assertIsNone(server.python("1").status.field(NEWS))

    def test_protected_names_of_a_bare_repository(self):
        for name in ("HEAD", "objects/x", "refs/x", "config", "hooks/x"):
            self.put(name)
        with self.server() as server:
            result = server.python("for name in ('config', 'hooks/new', 'refs/new'):\n"
                                   "    try: open(name, 'a').write('evil'); print(name)\n    except OSError: pass")
            self.assert_prints(result, "config\nhooks/new\nrefs/new" if CONTAINER else "refs/new")


class HooksPath(Workspace):
    def test_the_directory_of_core_hookspath(self):
        self.put(".git/config", "[core]\n\thooksPath = tools/hooks\n")
        self.put("tools/hooks/pre-commit")
        with self.server() as server:
            self.assert_kind(server.python("open('tools/hooks/pre-commit', 'a')"), "error")
            self.assert_ok(server.python("open('tools/other', 'a')"))


if __name__ == "__main__":
    unittest.main()
