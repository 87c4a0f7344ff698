"""With --cow: what the user must have seen in a list, or name, before it is applied. Checked by what is in the files."""
import hashlib
import os
import re
import time
import unittest

from at_work import AtWork
from client import SLOW, give_away, once


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
