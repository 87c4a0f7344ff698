"""--workspace DIR --cow against code that wants to reach beyond DIR, or to make a program of the user's run something."""
import contextlib
import ctypes
import itertools
import os
import shutil
import stat
import subprocess
import threading
import time
import unittest

from client import SLOW, once
from projects import GIT, MAKE, Changes, Project, quote, tree

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
            self.assertTrue(result.is_error)
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

    def test_all_dot_files_of_a_home_directory(self):
        env = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        with self.server(env={**env, "HOME": str(self.dir), "TMPDIR": "/tmp"}) as server:
            if "home directory" in server.python("1").text:
                return  # refused as a workspace
            self.assert_ok(server.python(MAKE.format(names=(".bashrc", ".config/autostart/x", "plain", "d/.hidden"))))
            self.assertTrue(self.apply(server).is_error)
            found = tree(self.dir)
            self.assertFalse({b".bashrc", b".config/autostart/x"} & set(found), found.keys())
            self.assertIn(b"plain", found)
            self.apply(server, 1, paths=[".bashrc"])
            self.assertIn(b".bashrc", tree(self.dir))


HOSTILE = (b"line\nbreak", b'"quoted"', b"back\\slash", b"\xff\xfe not utf-8", b"-rf", b"--help", b"n" * 255, b" blank ",
           "gr\u00fcn \u202e".encode(), b"[7 changes]", b"+ fake", b"\x1b[31mred", b"tab\t\x7f", b"applied 1 of 1", b"a: reason",
           b"x (also changed by you)", b"y +1 -2")


class Many(Project):
    """However many names there are, and however long, the server answers others meanwhile."""

    def slowest_ping(self, server, tool, **arguments):
        call, slowest = server.start_call(tool, **arguments), 0.0
        while call not in server.stash:
            began = time.monotonic()
            server.request("ping", timeout=300)
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
        server.finish_call(call)
        return slowest

    @once
    def test_long_names(self):
        with self.server() as server:
            self.assert_ok(server.python("import os\ntop = ('\\u3042' * 84 + '/') * 14\nos.makedirs(top); os.chdir(top)\n"
                                         "for i in range(6000): open(str(i), 'w').close()\nos.chdir('/work')"))
            self.assertLess(self.slowest_ping(server, "list_changes"), 8 * SLOW)

    @once
    def test_names_with_one_hash(self):
        """32,768 names whose hash by FNV-1a has the same low 18 bits: each part has two forms that end in one state."""
        state, parts = 2166136261, []
        for _ in range(15):
            ends = {}
            for form in itertools.product(b"abcdefghijklmnopqrstuvwxyz0123456789", repeat=3):
                end = state
                for byte in form:
                    end = (end ^ byte) * 16777619 & 0x3ffff
                if end in ends:
                    break
                ends[end] = form
            parts.append((bytes(ends[end]).decode(), bytes(form).decode()))
            state = end
        seconds = {}
        with self.server() as server:
            for kind in ("''.join(parts)", "f'{i:045}'"):
                self.assert_ok(server.python(f"import itertools, os\nfor name in os.listdir(): os.unlink(name)\n"
                                             f"for i, parts in enumerate(itertools.product(*{parts!r})): open({kind}, 'w').close()",
                                             timeout_s=120, _timeout=130))
                began = time.monotonic()
                self.assert_ok(server.python("1", _timeout=120))
                seconds[kind] = time.monotonic() - began
        same, other = seconds.values()
        self.assertLess(same, 4 * other + 1)

    @once
    def test_many_refused_names(self):
        with self.server() as server:
            self.assert_ok(server.python("for i in range(30000): open(f'{i}.pth', 'w').close()", timeout_s=120, _timeout=130))
            self.assertLess(self.slowest_ping(server, "apply_changes"), 8 * SLOW)
            self.assertEqual(os.listdir(self.dir), [])


class Hostile(Project):
    def test_names(self):
        with self.server() as server:
            self.assert_ok(server.python(f"import os\nos.mkdir(b'd\\n\\xff')\nfor name in {HOSTILE!r}:\n"
                                         "    for where in (b'', b'd\\n\\xff/'):\n"
                                         "        with open(where + name, 'wb') as file: file.write(b'x\\n')"))
            result = server.call("list_changes")
            self.assertEqual(Changes(result.text).number, 2 * len(HOSTILE), result.text)
            for line in result.lines[:-1]:
                self.assertRegex(line, r"^\+ ")
            self.assertNotIn("\x1b", result.text)
            named = {line[2:].split('" ')[0] for line in result.lines[:-1]}
            self.assertEqual(len(named), 2 * len(HOSTILE))
            copy = self.copy("patched")
            patch = self.patch(server)
            for name in HOSTILE[:8]:
                self.apply(server, 1, paths=[quote(name)])
                self.assertIn(name, tree(self.dir))
            result = self.apply(server)
            self.assertFalse(result.is_error, result.text)
        expected = {name for name in HOSTILE} | {b"d\n\xff/" + name for name in HOSTILE} | {b"d\n\xff"}
        self.assertEqual(set(tree(self.dir)), expected)
        self.git_apply(patch, copy)
        self.assert_tree(tree(copy), tree(self.dir))

    def test_reasons_quote_names(self):
        names = [b"a\nb: applied", b"\xff", b'"x"']
        with self.server() as server:
            self.assert_ok(server.python(f"import os\nfor name in {names!r}: os.mkfifo(name)"))
            result = self.apply(server, 0, 3)
            self.assertEqual(len([line for line in result.lines[1:] if line and line[0] != "["]), 3, result.text)
            self.assertEqual(tree(self.dir), {})

    def test_a_fifo_and_a_socket_are_refused_and_nothing_waits_for_them(self):
        self.put("becomes_fifo")
        with self.server() as server:
            self.assert_ok(server.python("import os, socket\nos.mkfifo('fifo'); os.remove('becomes_fifo'); os.mkfifo('becomes_fifo')\n"
                                         "open('plain', 'w').close()\n"
                                         "try: s = socket.socket(socket.AF_UNIX); s.bind('socket')\nexcept OSError: pass"))
            self.assertFalse(server.call("list_changes", diff=True).is_error)
            number = self.changes(server).number
            result = self.apply(server, 1, number)
            for name in ("fifo", "becomes_fifo"):
                self.reason(result, name)
            self.assertEqual(set(tree(self.dir)), {b"plain", b"becomes_fifo"})
            self.assertTrue((self.dir / "becomes_fifo").is_file())
            self.discard(server, number - 1)
            self.assertEqual(self.inside(server, "becomes_fifo"), "as it was")

    def test_a_fifo_of_the_directory_stays(self):
        os.mkfifo(self.dir / "fifo")
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("import os; os.remove('fifo'); open('fifo', 'w').write('x'); open('a', 'w').close()"))
            self.apply(server, 1, 2)
        self.assertTrue(stat.S_ISFIFO((self.dir / "fifo").lstat().st_mode))

    def test_of_modes_only_the_permissions_are_taken(self):
        self.put("plain").chmod(0o4755)
        self.put("sticky/x")
        code = """import os
def chmod(name, mode):
    try: os.chmod(name, mode)
    except OSError: pass
open('new', 'w').close(); chmod('new', 0o6777)
os.mkdir('d'); chmod('d', 0o3777); open('d/x', 'w').close(); chmod('d/x', 0o4711)
open('plain', 'a').write('x'); chmod('plain', 0o4750); chmod('plain', 0o750)
chmod('sticky', 0o1777)
"""
        with self.server() as server:
            self.assert_ok(server.python(code))
            self.apply_all(server)
        for name in (b"new", b"d", b"d/x", b"plain"):
            self.assertEqual(tree(self.dir)[name][1] & 0o7000, 0, name)
        self.assertEqual(tree(self.dir)[b"plain"][1], 0o750)

    def test_no_attribute_of_the_overlay_is_copied(self):
        self.put("d/old")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil\nshutil.rmtree('d'); os.mkdir('d'); open('d/new', 'w').close()\n"
                                         "open('x', 'w').close()\n"
                                         "for name in ('user.overlay.opaque', 'user.overlay.whiteout', 'user.mine'):\n"
                                         "    try: os.setxattr('x', name, b'y')\n    except OSError: pass"))
            self.apply(server)
        self.assertEqual(set(tree(self.dir)), {b"d", b"d/new", b"x"})
        for name in ("d", "d/new", "x"):
            self.assertEqual([n for n in os.listxattr(self.dir / name) if "overlay" in n], [])

    def test_attributes_that_look_like_those_of_an_overlay_hide_nothing(self):
        self.put("d/old")
        with self.server() as server:
            self.assert_ok(server.python("import os\nos.mkdir('new'); open('new/x', 'w').close()\n"
                                         "for name in ('d', 'new'):\n"
                                         "    for key in ('user.overlay.opaque', 'user.overlay.redirect', 'user.overlay.metacopy'):\n"
                                         "        try: os.setxattr(name, key, b'y')\n        except OSError: pass"))
            self.assert_prints(server.python("print(os.listdir('d'), os.listdir('new'))"), "['old'] ['x']")
            self.assertEqual(self.changes(server).files(), {b"new/x": "+"})
            self.apply(server)
        self.assertEqual(set(tree(self.dir)), {b"d", b"d/old", b"new", b"new/x"})

    def test_hard_links(self):
        self.put("a", "old\n")
        os.link(self.dir / "a", self.dir / "b")
        os.link(self.dir / "a", self.outside / "c")
        with self.server() as server:
            self.assert_ok(server.python("import os\nopen('a', 'a').write('new\\n')\nopen('x', 'w').write('x'); os.link('x', 'y')\n"
                                         "try: os.link('b', 'z')\nexcept OSError: pass"))
            self.apply_all(server)
        self.assertEqual((self.read("a"), self.read("b"), (self.outside / "c").read_text()), ("old\nnew\n", "old\n", "old\n"))
        self.assertEqual((self.read("x"), self.read("y")), ("x", "x"))

    def test_symlinks_are_made_again_and_never_followed(self):
        secret = self.outside / "secret.txt"
        self.put("file")
        self.put("d/x")
        (self.dir / "out").symlink_to(self.outside)
        outside = tree(self.outside, exact=True)
        code = f"""import os, shutil
os.remove('file'); os.symlink({str(secret)!r}, 'file')
shutil.rmtree('d'); os.symlink({str(self.outside)!r}, 'd')
os.remove('out'); os.mkdir('out'); open('out/secret.txt', 'w').write('by code'); open('out/new', 'w').write('by code')
os.symlink('../outside/secret.txt', 'relative'); os.symlink('/proc/self/fd/0', 'proc'); os.symlink('x' * 4000, 'long')
"""
        with self.server() as server:
            self.assert_ok(server.python(code))
            self.assertNotIn("outside\n", server.call("list_changes", diff=True).text.replace("/outside\n", ""))
            self.apply_all(server)
            self.assert_tree(tree(self.outside, exact=True), outside)
            for name, target in (("file", secret), ("d", self.outside), ("relative", "../outside/secret.txt"), ("long", "x" * 4000)):
                self.assertEqual(os.readlink(self.dir / name), str(target))
            self.assertFalse((self.dir / "out").is_symlink())
            self.assertEqual(self.read("out/new"), "by code")
            self.assert_ok(server.python("os.remove('d'); os.mkdir('d'); open('d/secret.txt', 'w').write('by code')"))
            self.apply_all(server)
        self.assert_tree(tree(self.outside, exact=True), outside)
        self.assertEqual(self.read("d/secret.txt"), "by code")

    def test_types_that_change_places(self):
        self.put("file")
        self.put("directory/deep/x")
        self.put("a/b")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil\nos.remove('file'); os.makedirs('file/deep'); open('file/deep/x', 'w').close()\n"
                                         "shutil.rmtree('directory'); open('directory', 'w').write('x')\n"
                                         "os.rename('a/b', 'c'); shutil.rmtree('a'); os.rename('c', 'a')"))
            copy = self.copy("patched")
            patch = self.patch(server)
            self.apply_all(server)
        self.assertEqual(set(tree(self.dir)), {b"file", b"file/deep", b"file/deep/x", b"directory", b"a"})
        self.assertEqual(self.read("a"), "as it was\n")
        self.git_apply(patch, copy)
        self.assert_tree(tree(copy), tree(self.dir))

    def test_a_deep_tree(self):
        with self.server() as server:
            self.assert_ok(server.python("import os\ntop = os.open('.', os.O_RDONLY); at = top\nfor i in range(3000):\n"
                                         "    os.mkdir('d' * 20, dir_fd=at); new = os.open('d' * 20, os.O_RDONLY, dir_fd=at)\n"
                                         "    if at != top: os.close(at)\n    at = new\n"
                                         "os.close(os.open('leaf', os.O_CREAT | os.O_WRONLY, dir_fd=at)); open('plain', 'w').close()",
                                         timeout_s=60, _timeout=90))
            server.call("list_changes", _timeout=120)
            result = server.call("apply_changes", _timeout=120, paths=["plain"])
            self.assertIn(b"plain", os.listdir(os.fsencode(self.dir)), result.text[:500])
            self.assert_alive(server)

    @once
    def test_long_names_in_deep_directories(self):
        """What the keeper does for each path costs the length of the path."""
        with self.server() as server:
            self.assert_ok(server.python("import os\nfor i in range(150):\n    open('f' * 10, 'w').close()\n"
                                         "    os.mkdir('d' * 20); os.chdir('d' * 20)\n"
                                         "for i in range(2000): os.mkdir(f'd{i}'); os.mknod(f'd{i}/f')", timeout_s=600, _timeout=610))
            self.assertEqual(self.changes(server).number, 2150)

    @once
    def test_many_directories_with_a_file_each(self):
        with self.server() as server:
            result = server.python("import os\nfor i in range(10000): os.mkdir(f'd{i}'); open(f'd{i}/f', 'w').close()")
            self.assertIn("and 9980 more", result.status.line)
            self.assertEqual(self.changes(server).number, 10000)

    def test_a_mapping_that_was_used_before(self):
        self.put("data", "x" * 8192)
        with self.server() as server:
            server.python("import mmap\nfile = open('data', 'r+b'); at = mmap.mmap(file.fileno(), 0); at[0:1] = b'y'; at[0:1] = b'x'")
            self.assertEqual(self.changes(server).number, 0)
            server.python("at[0:1] = b'y'")
            self.assertEqual(self.changes(server).files(), {b"data": "~"})
            self.apply(server, 1)
            self.assertEqual(self.read("data"), "y" + "x" * 8191)

    def test_a_directory_without_permissions(self):
        with self.server() as server:
            self.assert_ok(server.python("import os\nos.makedirs('closed/in'); open('closed/in/x', 'w').close()\n"
                                         "open('secret', 'w').write('x'); os.chmod('secret', 0); os.chmod('closed/in', 0)\nopen('plain', 'w').close()"))
            self.assertFalse(server.call("list_changes").is_error)
            server.call("apply_changes")
            self.assertIn(b"plain", tree(self.dir) if os.geteuid() == 0 else map(os.fsencode, os.listdir(self.dir)))
            self.assert_ok(server.python("os.chmod('closed/in', 0o755)"))
        for top, directories, _ in os.walk(self.dir):
            for name in directories:
                os.chmod(os.path.join(top, name), 0o755)

    def test_owner_group_and_acl_of_a_replaced_file_stay(self):
        path = self.put("a", mode=0o666)
        self.give_to_another_user(path)
        if shutil.which("setfacl"):
            subprocess.run(["setfacl", "-m", "u:54321:r", str(path)], check=False)
        before, attributes = path.stat(), {name: os.getxattr(path, name) for name in os.listxattr(path)}
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.apply(server, 1)
        after = path.stat()
        self.assertEqual((after.st_uid, after.st_gid, after.st_mode), (before.st_uid, before.st_gid, before.st_mode))
        self.assertEqual({name: os.getxattr(path, name) for name in os.listxattr(path)}, attributes)
        self.assertEqual(self.read("a"), "as it was\nby code\n")

    def give_to_another_user(self, *paths):
        if os.geteuid() == 0:
            for path in (self.dir, *paths):
                with contextlib.suppress(OSError):  # a user namespace may have no other user
                    os.chown(path, 12345, 23456)

    def test_new_files_belong_to_the_user(self):
        self.give_to_another_user()
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); open('d/a', 'w').close(); os.symlink('a', 'd/b')"))
            self.apply(server)
        owner = os.stat(self.dir)
        for name in ("d", "d/a", "d/b"):
            at = os.lstat(self.dir / name)
            self.assertEqual((at.st_uid, at.st_gid), (owner.st_uid, owner.st_gid), name)

    def test_a_directory_is_moved_with_shutil_and_rename_says_how(self):
        self.put("d/x")
        with self.server() as server:
            result = server.python("import os; os.rename('d', 'e')")
            if result.is_error:  # an overlay refuses it
                self.assertIn("shutil.move", result.text)
            self.assert_ok(server.python("import os, shutil\nif os.path.exists('d'): shutil.move('d', 'e')"))
            self.apply_all(server)
        self.assertEqual(set(tree(self.dir)), {b"e", b"e/x"})

    def test_a_file_that_does_not_fit(self):
        self.put("big", b"x" * (48 << 20))
        with self.server("--disk", "16M") as server:
            result = server.python("open('big', 'a').write('y')")
            self.assertTrue(result.is_error, result.text)
            self.assertRegex(result.text, "--disk|--cow-store")
            self.assertEqual(self.changes(server), {})
            self.assert_alive(server)
        self.assertEqual((self.dir / "big").stat().st_size, 48 << 20)


HOT_BYTES = 300_000
RACE = """import contextlib, os, random, shutil, threading, time
os.makedirs('d', exist_ok=True); open('d/raced.txt', 'w').write('by code')
fd = os.open('hot', os.O_CREAT | os.O_RDWR); os.pwrite(fd, b'0' * {bytes}, 0)
def rewrite(i):
    os.pwrite(fd, b'%d' % (i % 10) * {bytes}, 0); time.sleep(random.random() / 50)
def swap(i):
    os.rename('d', 'kept'); os.symlink({outside!r}, 'd'); time.sleep(random.random() / 300)
    os.remove('d'); os.rename('kept', 'd'); time.sleep(random.random() / 300)
def retype(i):
    for make in (lambda: open('t', 'w').write('x'), lambda: os.mkdir('t'), lambda: os.mkfifo('t'), lambda: os.symlink({outside!r}, 't')):
        make(); time.sleep(random.random() / 500)
        os.rmdir('t') if os.path.isdir('t') and not os.path.islink('t') else os.remove('t')
def repeat(f):
    i = 0
    while not os.path.exists('/tmp/stop'):
        with contextlib.suppress(OSError): f(i)  # what is applied changes the layer below
        i += 1
threads = [threading.Thread(target=repeat, args=(f,)) for f in (rewrite, swap, retype)]
for t in threads: t.start()
for t in threads: t.join()
print('end')
"""


def exchange(one, other):
    """Two names change places at once, renameat2(2)."""
    if ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        raise OSError


class Races(Project):
    def test_code_that_changes_files_while_they_are_applied(self):
        outside = tree(self.outside, exact=True)
        with self.server("--wait", "25") as server:
            result = server.python(RACE.format(bytes=HOT_BYTES, outside=str(self.outside)), session="racer", wait_s=0, timeout_s=300)
            self.assertIn("running: job", result.text)
            for turn in range(40):
                server.call("apply_changes", _timeout=120)
                with contextlib.suppress(FileNotFoundError):
                    hot = (self.dir / "hot").read_bytes()
                    # Empty: as it was before the job's first write.
                    self.assertIn((len(hot), len(set(hot))), ((HOT_BYTES, 1), (0, 0)), f"turn {turn}: applied in part")
                self.assertLessEqual(set(os.listdir(self.dir)), {"hot", "d", "kept", "t"})
                if turn % 8 == 0:
                    server.call("list_changes", _timeout=120, diff=turn % 16 == 0)
            self.assert_ok(server.python("open('/tmp/stop', 'w').close()", session="stopper"))
            self.assert_prints(server.call("run_python", job=1, wait_s=20), "end")
            self.assert_tree(tree(self.outside, exact=True), outside)
            self.apply(server)
            if self.changes(server).number:  # a symlink may have been applied where the directory is
                self.discard(server)
            self.assertEqual(self.changes(server), {})
            self.assert_prints(server.python("import hashlib; print(hashlib.sha256(open('hot', 'rb').read()).hexdigest())"),
                               tree(self.dir)[b"hot"][2])
        self.assert_tree(tree(self.outside, exact=True), outside)

    def test_the_directory_is_replaced_by_a_symlink_while_it_is_applied(self):
        for i in range(100):
            self.put(f"swapped/deep/{i}", "old")
        stopped = threading.Event()

        def swap():
            while not stopped.is_set():
                exchange(self.dir / "swapped", self.dir / "aside")
                time.sleep(0.0005)
                exchange(self.dir / "swapped", self.dir / "aside")
                time.sleep(0.001)

        (self.dir / "aside").symlink_to(self.outside)
        (self.outside / "deep").mkdir()
        (self.outside / "deep/1").write_text("outside")
        outside = tree(self.outside, exact=True)
        with self.server() as server:
            self.assert_ok(server.python("import os\nfor i in range(100): open(f'swapped/deep/{i}', 'w').write('new')\n"
                                         "for i in range(100, 300): open(f'swapped/deep/{i}', 'w').write('new')"))
            thread = threading.Thread(target=swap)
            thread.start()
            try:
                for _ in range(8):
                    server.call("apply_changes", _timeout=120)
            finally:
                stopped.set()
                thread.join()
            self.assert_tree(tree(self.outside, exact=True), outside)
            self.assertEqual(set(os.listdir(self.dir)), {"swapped", "aside"})
            self.apply(server)
        self.assert_tree(tree(self.outside, exact=True), outside)
        for path in (self.dir / "swapped/deep").iterdir():
            self.assertIn(path.read_text(), ("old", "new"), path.name)

    def test_calls_sent_at_once(self):
        with self.server() as server:
            with server.at_once():
                calls = [server.start_call("run_python", code=f"open('f{i}', 'w').write('x')") if i % 2 == 0 else
                         server.start_call("apply_changes") for i in range(20)]
            results = [server.finish_call(call) for call in calls]
            for i, result in enumerate(results):
                self.assertFalse(result.is_error, result.text)
                if i % 2:
                    self.assertTrue(result.text.startswith("applied 1 of 1"), result.text)
        self.assertEqual(len(tree(self.dir)), 10)


if __name__ == "__main__":
    unittest.main()
