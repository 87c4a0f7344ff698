"""--workspace DIR --cow against code that wants to reach beyond DIR, and against names and modes that are hard to apply."""
import contextlib
import itertools
import os
import shutil
import stat
import struct
import time
import unittest

from client import SLOW, once, size
from projects import Changes, Project, quote, tree

HOSTILE = (b"line\nbreak", b'"quoted"', b"back\\slash", b"\xff\xfe not utf-8", b"-rf", b"--help", b"n" * 255, b" blank ",
           "gr\u00fcn \u202e".encode(), b"[7 changes]", b"+ fake", b"\x1b[31mred", b"tab\t\x7f", b"applied 1 of 1", b"a: reason",
           b"x (also changed by the user)", b"y +1 -2")


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
                                         f"for i in range({size(6000, 2000)}): open(str(i), 'w').close()\nos.chdir('/work')"))
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
            self.assert_ok(server.python(f"for i in range({size(30000, 8000)}): open(f'{{i}}.pth', 'w').close()", timeout_s=120, _timeout=130))
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

    @once
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
        many = size(2000, 500)
        with self.server() as server:
            self.assert_ok(server.python("import os\nfor i in range(150):\n    open('f' * 10, 'w').close()\n"
                                         "    os.mkdir('d' * 20); os.chdir('d' * 20)\n"
                                         f"for i in range({many}): os.mkdir(f'd{{i}}'); os.mknod(f'd{{i}}/f')", timeout_s=600, _timeout=610))
            self.assertEqual(self.changes(server).number, 150 + many)

    @once
    def test_many_directories_with_a_file_each(self):
        with self.server() as server:
            many = size(10000, 3000)
            result = server.python(f"import os\nfor i in range({many}): os.mkdir(f'd{{i}}'); open(f'd{{i}}/f', 'w').close()")
            self.assertIn(f"and {many - 20} more", result.status.line)
            self.assertEqual(self.changes(server).number, many)

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
        self.give_list(path, path.stat().st_uid)
        with contextlib.suppress(OSError):  # not every file system has them
            os.setxattr(path, "user.note", b"of the user")
        before, attributes = path.stat(), {name: os.getxattr(path, name) for name in os.listxattr(path)}
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.apply(server, 1)
        after = path.stat()
        self.assertEqual((after.st_uid, after.st_gid, after.st_mode), (before.st_uid, before.st_gid, before.st_mode))
        self.assertEqual({name: os.getxattr(path, name) for name in os.listxattr(path)}, attributes)
        self.assertEqual(self.read("a"), "as it was\nby code\n")

    def give_list(self, path, uid, kind="access"):
        """acl(5) in the kernel's form, version 2: what user uid may do besides owner, group, mask and others."""
        entries = ((1, 6, -1), (2, 6, uid), (4, 4, -1), (16, 6, -1), (32, 4, -1))
        value = b"\2\0\0\0" + b"".join(struct.pack("<HHi", *entry) for entry in entries)
        try:
            os.setxattr(path, "system.posix_acl_" + kind, value)
        except OSError as error:
            self.skipTest(f"acl: {error}")

    def test_an_access_list_with_others_is_named(self):
        """The kernel copies no access list with a user that the sandbox does not know."""
        path, sub = self.put("a", mode=0o666), self.dir / "sub"
        sub.mkdir()
        self.give_list(path, 54321)
        self.give_list(sub, 54321, "default")
        self.give_to_another_user(path, sub)
        with self.server() as server:
            appended = server.write("a", "by code\n", mode="append")
            if appended.is_error:
                self.assertRegex(appended.text, "^a has an access control list .*overwrite")
            for code in "open('a', 'a')", "open('sub/a', 'w')":
                result = server.python(code)
                if result.is_error:
                    self.assertIn("an access control list of this or of its directory names a user or group", result.text)
            self.assert_ok(server.python("text = open('a').read()\nimport os\nos.unlink('a')\nopen('a', 'w').write(text + 'by code\\n')"))
            self.apply(server, 1)
        self.assertEqual(self.read("a"), "as it was\nby code\n")
        self.assertIn("system.posix_acl_access", os.listxattr(path))

    def test_renamed_with_an_acl(self):
        """The new name has none: then its mode gives others nothing, whose bits for the group were those that the mask had."""
        path = self.put("a", mode=0o640)
        self.give_list(path, path.stat().st_uid)
        with self.server() as server:
            self.assert_ok(server.python("import os; os.rename('a', 'b')"))
            self.apply(server, 2)
        self.assertNotIn("system.posix_acl_access", os.listxattr(self.dir / "b"))
        self.assertEqual((self.read("b"), (self.dir / "b").stat().st_mode & 0o077), ("as it was\n", 0))

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

    def test_git_mv_is_explained_where_it_is_a_directory(self):
        if not shutil.which("git"):
            self.skipTest("git: not installed")
        self.put("d/x"), self.put("f")
        self.git("init", "-q"), self.git("add", ".")
        with self.server() as server:
            for words, hinted in (("git mv d e", True), ("git mv nope e", False), ("git mv f nope/deep/g", False)):
                with self.subTest(words=words):
                    result = server.python("!" + words)
                    if "fatal" in result.text:  # newer overlays rename a directory
                        self.assertEqual("where git says cross-device link" in result.text, hinted, result.text)

    def test_a_file_that_does_not_fit(self):
        self.put("big", b"x" * (48 << 20))
        with self.server("--disk", "16M") as server:
            result = server.python("open('big', 'a').write('y')")
            self.assertTrue(result.is_error, result.text)
            self.assertRegex(result.text, "--disk|--cow-store")
            self.assertEqual(self.changes(server), {})
            self.assert_alive(server)
        self.assertEqual((self.dir / "big").stat().st_size, 48 << 20)


if __name__ == "__main__":
    unittest.main()
