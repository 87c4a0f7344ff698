"""A user's workspace: code cannot change files that programs outside act on, nor write to the outside through it. At
the level without namespaces nothing can prevent such a change: there each must be reported."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from attacks import Attack  # noqa: E402
from client import Case, Server, give_away, need_userns  # noqa: E402
from container_level import CONTAINER  # noqa: E402

PRELUDE = pathlib.Path(__file__).with_name("prelude.py").read_text()
HELD = r"denied \w+"
FILES = (".git/config .git/hooks/pre-commit .vscode/tasks.json .mcp.json .claude/settings.json .envrc .githooks/x "
         "deep/er/.git/config deep/er/.git/hooks/pre-commit deep/.vscode/tasks.json .git/modules/m/config "
         ".git/modules/m/hooks/x tree/.git").split()

ATTACKS = [
    Attack("write_and_replace_settings",
           f"write('own')\nfor name in {FILES}:\n"
           "    for mode in ('wb', 'ab', 'r+b'): attempt(write, name, b'x', mode)\n"
           "    attempt(os.truncate, name, 0); attempt(os.chmod, name, 0o777)\n"
           "    attempt(os.unlink, name); attempt(os.rename, 'own', name)",
           HELD, control="write('m'); attempt(os.rename, 'm', 'n'); attempt(os.chmod, 'n', 0o700)"),
    Attack("make_more_beside_them",
           "for name in ('.git/hooks', '.vscode', '.claude', '.githooks', '.git/modules/m/hooks', 'deep/.vscode'):\n"
           "    attempt(write, name + '/new'); attempt(os.mkdir, name + '/d'); attempt(os.symlink, 'x', name + '/l')",
           HELD, control="os.mkdir('made'); attempt(write, 'made/new')"),
    Attack("put_others_in_their_place",
           "for name in ('.git', '.git/hooks', '.git/config', '.vscode', '.mcp.json', '.git/modules', '.git/modules/m',\n"
           "             'deep/er/.git', '.claude', '.githooks', '.idea'):\n"
           "    attempt(os.rename, name, 'away'); attempt(os.rename, 'own', name)\n"
           "os.mkdir('d')\nfor name in ('.git', '.vscode', '.claude'): attempt(os.rename, 'd', name)",
           HELD, control="os.mkdir('a'); attempt(os.rename, 'a', 'b')"),
    Attack("reach_them_by_links",
           "os.symlink('.vscode', 's'); attempt(write, 's/new'); attempt(write, 's/tasks.json')\n"
           "attempt(write, 'linked/new'); attempt(os.unlink, '.idea'); attempt(os.rename, 'own', '.idea')\n"
           "attempt(os.link, '.mcp.json', 'h'); attempt(os.link, '.vscode/tasks.json', 'h')\n"
           "attempt(write, 'other-name-of-envrc', b'x', 'ab')",
           HELD, control="os.mkdir('d'); os.symlink('d', 's2'); attempt(write, 's2/new')"),
    Attack("reach_them_by_descriptors",
           "fd = os.open('.mcp.json', os.O_RDONLY); attempt(os.open, f'/proc/self/fd/{fd}', os.O_WRONLY)\n"
           "d = os.open('.vscode', os.O_PATH); attempt(lambda: os.open('new', os.O_WRONLY | os.O_CREAT, dir_fd=d))\n"
           "attempt(os.fchmod, fd, 0o777); attempt(os.utime, fd); attempt(os.setxattr, fd, 'user.x', b'x')",
           HELD, control="write('m'); fd = os.open('m', os.O_RDONLY); attempt(os.open, f'/proc/self/fd/{fd}', os.O_WRONLY)"),
    Attack("write_through_hard_links",
           "for name in ('.venv/lib/a.py', 'node_modules/p/index.js', 'data.csv', '.git/objects/pack/p.pack'):\n"
           "    attempt(write, name, b'x', 'r+b'); attempt(os.chmod, name, 0o777); attempt(os.truncate, name, 0)\n"
           "    attempt(os.utime, name); attempt(os.link, name, 'h')",
           HELD, control="write('one'); os.link('one', 'two'); attempt(write, 'two'); "
                         "attempt(write, 'built/program'); attempt(write, 'node_modules.txt')"),
]


def snapshot(*roots):
    for root in roots:
        for path in sorted(root.rglob("*")):
            at = path.lstat()
            kind = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            yield str(path), at.st_mode, at.st_mtime_ns if path.is_file() else 0, kind


class Workspace(Case):
    def setUp(self):
        need_userns()
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-workspace-"))
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)
        self.work, self.outside = self.temp / "work", self.temp / "outside"
        for directory in (self.work, self.outside):
            directory.mkdir()
        self.temp.chmod(0o755)
        for name in FILES:
            self.put(name)
        (self.work / "linked").mkdir()
        (self.work / ".idea").symlink_to("linked")
        os.link(self.work / ".envrc", self.work / "other-name-of-envrc")
        for name in (".venv/lib/a.py", "node_modules/p/index.js", "data.csv", ".git/objects/pack/p.pack"):
            self.put(name)
            os.link(self.work / name, self.outside / name.replace("/", "-"))
        self.put(".venv/pyvenv.cfg")
        self.put("built/program")  # as cargo hard-links its build results
        os.link(self.work / "built/program", self.work / "program")
        subprocess.run(["chown", "-R", f"{os.geteuid()}:{os.getegid()}", str(self.temp)], check=False)
        give_away(self.work)

    def put(self, name):
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was\n")

    def guarded(self):
        names = [name for name in (".vscode", ".claude", ".githooks", "linked", ".git/hooks", ".git/modules/m/hooks",
                                   "deep/.vscode", ".venv", "node_modules")]
        files = [self.work / name for name in (*FILES, ".idea", "other-name-of-envrc", "data.csv")]
        return [*snapshot(self.outside, *(self.work / name for name in names)),
                *((str(path), path.lstat().st_ino, os.path.islink(path) or path.read_bytes()) for path in files)]

    def run_inside(self, code):
        with Server("--workspace", str(self.work)) as server:
            first = server.python(f"{PRELUDE}\n")
            self.assert_ok(first)
            result = server.python(code)
            self.assert_ok(result)
            self.assert_alive(server)
        return first, result

    def attack(self, attack):
        before = self.guarded()
        first, result = self.run_inside(attack.code)
        if CONTAINER:
            self.assertIn("are writable at this isolation level; changes are reported", first.status.line)
            if attack.name == "write_through_hard_links":
                self.assertRegex(first.status.line, r"\d+ hard-linked files are writable")
            elif "reach_them_by" not in attack.name:
                self.assertRegex(result.status.field("changed settings") or "", r"[-+~]\.vscode|[-+~]\.git")
            return
        for line in result.output.split("\n"):
            self.assertRegex(line, rf"^(?:{attack.held})$")
        self.assertEqual(self.guarded(), before)

    def control(self, attack):
        _, result = self.run_inside(attack.control)
        for line in result.output.split("\n"):
            self.assertRegex(line, rf"^(?:{attack.control_holds})$")
        self.assertNotIn("changed settings", result.status.line)


for each in ATTACKS:
    setattr(Workspace, f"test_{each.name}", lambda self, a=each: self.attack(a))
    setattr(Workspace, f"test_{each.name}__control", lambda self, a=each: self.control(a))

if __name__ == "__main__":
    unittest.main()
