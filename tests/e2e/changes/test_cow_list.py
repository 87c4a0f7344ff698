"""What list_changes shows of a copy-on-write workspace: names, modes, patches, what is ignored, long lists."""
import os
import random
import shutil
import stat
import subprocess
import time
import unittest

from client import SLOW, once
from projects import GIT, MAKE, Changes, Project, tree


class Listed(Project):
    def test_what_returns_to_what_it_was_is_no_change(self):
        self.put("a", "old\n")
        self.put("d/b", "old\n")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil\nopen('a', 'w').write('new')\nopen('made', 'w').close()\n"
                                         "shutil.rmtree('d')"))
            self.assertEqual(self.changes(server).files(), {b"a": "~", b"made": "+", b"d/b": "-"})
            result = server.python("open('a', 'w').write('old\\n'); os.remove('made'); os.mkdir('d')\n"
                                   "open('d/b', 'w').write('old\\n')")
            self.assert_ok(result)
            self.assertEqual(self.changes(server), {})
            self.assertEqual(self.pending(server.python("1")), 0)
            self.apply(server, 0)

    def test_paths_choose_what_is_listed(self):
        with self.server() as server:
            self.assert_ok(server.python("import os\nfor d in ('src/deep', 'srcs'): os.makedirs(d)\n"
                                         "for f in ('src/deep/a', 'src/b', 'srcs/c', 'd'): open(f, 'w').write(f)"))
            for paths, names in ((["src"], {b"src/deep/a", b"src/b"}), (["/work/src/deep/"], {b"src/deep/a"}),
                                 (["srcs/c", "d"], {b"srcs/c", b"d"}), (["src/b", "src"], {b"src/deep/a", b"src/b"})):
                with self.subTest(paths=paths):
                    self.assertEqual(set(self.changes(server, paths=paths).files()), names)
            self.assertEqual(len(self.changes(server).files()), 4)
            for name, why in (("nothing", ""), ("src/*", ": globs are not expanded"), ("srcs/c/more", "")):
                for tool, more in (("list_changes", {}), ("apply_changes", {}), ("apply_changes", {"discard": True})):
                    self.assertIn(f"no changes: {name} (there is no such file{why})\n", server.call(tool, paths=[name], **more).text)
            self.assertTrue(server.call("list_changes", paths=["nothing"]).text.endswith("\n[no changes in these paths]\n"))
            self.put("same", "")
            self.assertIn("no changes: same\n", server.call("list_changes", paths=["same"]).text)
            for name in ("../outside", "src/../d", "/etc/passwd", "/workshop", ""):
                with self.subTest(name=name):
                    self.assertTrue(server.call("list_changes", paths=[name]).is_error)

    def test_modes_symlinks_empty_files_and_last_lines_are_in_the_patch(self):
        self.put("run.sh", "echo\n")
        self.put("plain", "one\ntwo")
        self.put("target", "x\n")
        self.put("becomes_symlink", "x\n")
        self.put("emptied", "x\n")
        (self.dir / "old_symlink").symlink_to("target")
        (self.dir / "gone_symlink").symlink_to("nowhere")
        copy = self.copy("patched")
        code = """import os
os.chmod('run.sh', 0o755)
open('plain', 'w').write('one\\ntwo\\nthree'); open('empty', 'w').close(); open('emptied', 'w').close()
os.remove('becomes_symlink'); os.symlink('target', 'becomes_symlink')
os.remove('old_symlink'); os.symlink('plain', 'old_symlink'); os.remove('gone_symlink')
os.makedirs('deep/er'); os.symlink('../../target', 'deep/er/new_symlink')
open('with space', 'w').write('x\\n'); open('deep/tab\\there', 'w').write('x\\n'); open('deep/gr\\u00fcn', 'w').write('x\\n')
open('tool', 'w').write('#!/bin/sh\\n'); os.chmod('tool', 0o755)
"""
        with self.server() as server:
            self.assert_ok(server.python(code))
            patch = self.patch(server)
            number = self.changes(server).number
            self.apply(server, number)
        self.git_apply(patch, copy)
        self.assert_tree(tree(copy), tree(self.dir))
        self.assertEqual(os.readlink(self.dir / "deep/er/new_symlink"), "../../target")

    def test_caches_are_one_line_and_applied_only_if_named(self):
        with self.server() as server:
            server.python("import os\nfor top in ('src/__pycache__', '.pytest_cache/v', 'venv/lib', 'web/node_modules/m'):\n    os.makedirs(top)\n"
                          "    for n in range(400): open(f'{top}/{n}', 'w').close()\nopen('src/main.py', 'w').close()")
            for diff in (False, True):
                listed = server.call("list_changes", diff=diff).text
                self.assertIn("src/main.py", listed)
                self.assertRegex(listed, r"\[1\d\d\d changes; 1\d\d\d in caches, applied only if named: "
                                         r"\.pytest_cache, src/__pycache__, venv, web/node_modules[];]")
                self.assertLess(len(listed), 600)
            self.assertIn("+ .pytest_cache/v/7 0 B\n", server.call("list_changes", paths=[".pytest_cache"]).text)
            done = server.call("apply_changes")
            self.assertFalse(done.is_error, done.text)
            self.assertRegex(done.text, r"^applied (\d) of \1\n\[(1\d\d\d) changes not applied, \2 of them in caches, which are")
            self.assertTrue((self.dir / "src/main.py").exists() and not (self.dir / "src/__pycache__").exists())
            server.call("apply_changes", paths=["src/__pycache__"])
            self.assertTrue((self.dir / "src/__pycache__/7").exists() and not (self.dir / ".pytest_cache").exists())

    def test_caches_alone_are_nothing_to_apply(self):
        with self.server() as server:
            result = server.python("import os\nos.makedirs('.pytest_cache/v'); open('.pytest_cache/v/x', 'w').close()\n"
                                   "os.makedirs('src/__pycache__'); open('src/__pycache__/m.pyc', 'w').close()")
            self.assertNotIn("not applied", result.status.line)
            self.assertEqual(self.pending(server.python("open('src/m.py', 'w').close()")), 1)

    def test_a_directory_that_was_moved_is_one_line(self):
        for number in range(31):
            self.put(f"docs/part {number % 3}/{number}.md", f"page {number}\n")
        self.put("docs/empty", "")
        self.put("other/docs/1.md", "page 1\n")
        copy = self.copy("patched")
        with self.server() as server:
            self.assert_ok(server.python("import shutil\nshutil.move('docs', 'doc umentation')\nopen('new', 'w').close()"))
            listed = server.call("list_changes").text
            self.assertEqual(listed, 'docs/ -> "doc umentation"/ (32 files moved)\n+ new 0 B\n[65 changes]\n')
            self.assertIn('- "docs/part 1/1.md"\n', server.call("list_changes", paths=["docs"]).text)
            self.git_apply(self.patch(server), copy)
            # What came out another one, and what is there besides.
            self.assert_ok(server.python("open('doc umentation/part 1/1.md', 'w').write('page 2\\n')\nopen('doc umentation/more', 'w').close()"))
            listed = server.call("list_changes").text
            self.assertNotIn("docs/ -> ", listed)
            self.assertIn('"docs/part 0"/ -> "doc umentation/part 0"/ (11 files moved)\n', listed)
            self.assertIn('+ "doc umentation/more" 0 B\n', listed)
            self.assertIn('- "docs/part 1/1.md"\n', listed)
            self.assertEqual(len(self.changes(server).files()), 66)
            self.assert_ok(server.python("open('doc umentation/part 1/1.md', 'w').write('page 1\\n')"))
            self.changes(server)
            self.assertEqual(server.call("apply_changes").text, "applied 66 of 66\n[no changes left]\n")
        self.assertFalse((self.dir / "docs").exists())
        (self.dir / "doc umentation/more").unlink()
        self.assert_tree(tree(copy), tree(self.dir))

    def test_text_that_is_not_utf8_is_whole_in_the_file_of_the_patch(self):
        self.put("latin.txt", "gr\u00fcn\nrot\n".encode("latin-1"))
        self.put("plain.txt", "1\n")
        copy = self.copy("patched")
        with self.server() as server:
            self.assert_ok(server.python("open('latin.txt', 'a', encoding='latin-1').write('bl\u00e4ulich\\n')\nopen('plain.txt', 'a').write('2\\n')"))
            shown = server.call("list_changes", diff=True).text
            self.assertNotIn("\ufffd", shown)
            self.assertIn("+2\n", shown)
            self.assertIn("; 1 not shown, as it is not UTF-8: latin.txt; the whole patch: /tmp/output/changes.diff]", shown)
            self.git_apply(self.patch(server), copy)
            self.apply_all(server)
        self.assert_tree(tree(copy), tree(self.dir))

    def test_an_object_of_git_is_no_text(self):
        self.git("init", "-q", ".")
        with self.server() as server:
            self.assert_ok(server.python("import os\nos.makedirs('.git/objects/24')\nopen('.git/objects/24/' + 'a' * 38, 'wb').write(b'x\\x9c\\x01\\x1b\\x05')\n"
                                         "open('objects', 'w').write('a\u202eb')"))
            listed = server.call("list_changes").text
            self.assertEqual([line for line in listed.splitlines() if "invisible" in line], ["+ objects 5 B (adds invisible characters)"])

    def test_what_gitignore_ignores_is_one_line_and_applied_only_if_named(self):
        """As the user's files have it, not as code writes them."""
        self.put(".gitignore", "*.log\n/out/\n")
        self.put("src/.gitignore", "!keep.log\n")
        self.put("old.txt", "1\n")
        self.put("moved.txt", "the only copy\n")
        self.put("was.log", "1\n")
        with self.server() as server:
            server.python("import os\nos.mkdir('out'); os.mkdir('__pycache__')\nopen('.gitignore', 'a').write('*.py\\n')\n"
                          "for name in ('a.log', 'out/x', 'src/b.log', 'src/keep.log', 'm.py', '__pycache__/m.pyc', 'was.log'):\n"
                          "    open(name, 'w').write('by code')\nos.remove('old.txt')\nos.rename('moved.txt', 'out/moved')\nos.mkdir('lib'); open('lib/.gitignore', 'w').write('*')")
            for diff in (False, True):
                listed = server.call("list_changes", diff=diff).text
                self.assertIn("; 6 in caches or ignored by .gitignore, applied only if named: __pycache__, a.log, out, src/b.log, was.log",
                              listed)
                self.assertIn("m.py", listed)
            done = server.call("apply_changes")
            self.assertIn("moved.txt: kept: the changes that are not applied may have its content; apply them first, or name it", done.text)
            self.assertIn("[7 changes not applied, 6 of them in caches or ignored by .gitignore, which are applied only if named]", done.text)
            self.assertEqual(sorted(os.listdir(self.dir)), [".gitignore", "lib", "m.py", "moved.txt", "src", "was.log"])
            self.assertEqual((self.dir / "was.log").read_text(), "1\n")
            self.assertTrue((self.dir / "src/keep.log").exists() and not (self.dir / "src/b.log").exists())
            self.assertIn("+ out/x 7 B\n", server.call("list_changes", paths=["out"]).text)
            done = server.call("apply_changes", paths=["out", "was.log", "moved.txt"])
            self.assertFalse(done.is_error, done.text)
            self.assertEqual((self.dir / "was.log").read_text(), "by code")
            self.assertTrue((self.dir / "out/moved").exists() and not (self.dir / "moved.txt").exists())
            self.assertIn("[3 changes; 3 in caches or ignored", server.call("list_changes").text)

    @once
    def test_what_is_ignored_is_what_git_ignores(self):
        dice = random.Random(7)
        parts = ("a", "b", "ab", "a.b", "*", "?", "a*", "*b", "**", "[ab]", "[!a]", "[^b]", "[a-b]*", "\\a", "a\\*", "[[:alpha:]]", "*.*")

        def rules():
            return "".join(dice.choice(("", "", "", "!")) + dice.choice(("", "", "/")) +
                           "/".join(dice.choice(parts) for _ in range(dice.choice((1, 1, 1, 2, 2, 3)))) + dice.choice(("", "", "/")) + "\n"
                           for _ in range(dice.randint(1, 4)))

        files = set()
        for number in range(150):
            self.put(f"p{number}/.gitignore", rules())
            if dice.random() < 0.3:
                self.put(f"p{number}/{dice.choice('ab')}/.gitignore", rules())
            made = set()
            for _ in range(12):
                path = "/".join(dice.choice(("a", "b", "ab", "a.b", "c", "ba")) for _ in range(dice.randint(1, 4)))
                if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in made):
                    made.add(path)
            files |= {f"p{number}/{path}" for path in made if not (self.dir / f"p{number}/{path}").is_dir()}
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=sorted(files))))
            server.call("apply_changes")
        applied = {path for path in files if (self.dir / path).exists()}
        subprocess.run([*GIT, "init", "-q"], cwd=self.dir, check=True)
        git = subprocess.run([*GIT, "check-ignore", "--no-index", "--stdin"], cwd=self.dir, input="\n".join(sorted(files)),
                             capture_output=True, text=True)
        ignored = set(git.stdout.split("\n")) & files
        self.assertGreater(len(ignored), 100)
        self.assertGreater(len(applied), 100)
        wrong = sorted(applied & ignored | files - applied - ignored)
        self.assertEqual([(path, (self.dir / path.split("/")[0] / ".gitignore").read_text()) for path in wrong], [])

    def test_names_of_other_languages_are_readable(self):
        with self.server() as server:
            server.write("\u65e5\u672c\u8a9e.txt", "a\n")
            self.assertIn("+ \u65e5\u672c\u8a9e.txt 2 B\n", server.call("list_changes").text)
            self.assertIn("+++ b/\u65e5\u672c\u8a9e.txt\n", server.call("list_changes", diff=True).text)
            server.call("apply_changes", paths=["\u65e5\u672c\u8a9e.txt"])
            self.assertIn("\u65e5\u672c\u8a9e.txt".encode(), tree(self.dir))

    def test_a_binary_file_is_a_comment_of_the_patch(self):
        self.put("old.bin", b"\0\1\2" * 100)
        copy = self.copy("patched")
        with self.server() as server:
            self.assert_ok(server.python("open('old.bin', 'ab').write(b'\\0' * 5); open('new.bin', 'wb').write(bytes(range(256)))\n"
                                         "open('text', 'w').write('x\\n')"))
            patch = self.patch(server)
            self.assertNotIn(b"\0", patch)
            for name in (b"old.bin", b"new.bin"):
                self.assertIn(name, patch)
            self.git_apply(patch, copy)
            self.assertEqual((copy / "text").read_text(), "x\n")
            self.assertFalse((copy / "new.bin").exists())
            self.apply(server, 3)
        self.assertEqual((self.dir / "new.bin").read_bytes(), bytes(range(256)))

    def test_a_long_patch_leaves_out_whole_files(self):
        copy = self.copy("patched")
        with self.server() as server:
            self.assert_ok(server.python("for i in range(60): open(f'f{i:02}', 'w').write(f'line of {i}\\n' * 200)"))
            result = server.call("list_changes", diff=True)
            self.assertLess(len(result.text), 60000)
            self.assertIn("/tmp/output/changes.diff", result.text)
            for i in range(60):
                whole = result.text.count(f"+line of {i}\n")
                self.assertIn(whole, (0, 200), f"f{i:02} is there in part")
            patch = self.patch(server)
            self.apply(server, 60)
        self.git_apply(patch, copy)
        self.assert_tree(tree(copy), tree(self.dir))

    @once
    def test_10000_changes(self):
        with self.server() as server:
            result = server.python("import os\nfor i in range(10000):\n    if i % 100 == 0: os.mkdir(f'd{i}')\n"
                                   "    with open(f'd{i - i % 100}/{i}', 'w') as file: file.write(f'{i}\\n')",
                                   timeout_s=120, _timeout=130)
            self.assert_ok(result)
            self.assertEqual(self.pending(result), 10000, result.status.line)
            listed = server.call("list_changes", _timeout=120)
            self.assertLess(len(listed.text), 60000)
            self.assertEqual(Changes(listed.text).number, 10000)
            self.assertLess(len(server.call("list_changes", _timeout=120, diff=True).text), 60000)
            result = self.apply(server, 10000)
            self.assertLess(len(result.text), 60000)
            self.assertEqual(self.changes(server).number, 0)
        found = tree(self.dir)
        self.assertEqual(len(found), 10100)
        self.assertEqual((self.dir / "d9900/9999").read_text(), "9999\n")

    def test_a_diff_of_a_file_of_1_gib(self):
        self.put("lower", "x\n")
        with self.server() as server:
            self.assert_ok(server.python("import os\nopen('big', 'w').close(); os.truncate('big', 1 << 30)\n"
                                         "os.truncate('lower', 1 << 30)\nopen('small', 'w').write('x\\n')"))
            began = time.monotonic()
            result = server.call("list_changes", _timeout=120, diff=True)
            self.assertLess(time.monotonic() - began, 20 * SLOW)
            self.assertFalse(result.is_error, result.text[:1000])
            self.assertLess(len(result.text), 60000)
            self.assertIn("big", result.text)
            self.assertIn("+x\n", result.text)
            self.assertEqual(self.changes(server), {b"big": "+", b"lower": "~", b"small": "+"})
            self.assert_alive(server)
            self.discard(server, 2, paths=["big", "lower"])
            self.apply(server, 1)
        self.assertEqual(tree(self.dir).keys(), {b"lower", b"small"})

    def test_a_file_that_is_one_line_of_many_megabytes(self):
        with self.server() as server:
            self.assert_ok(server.python("open('line', 'w').write('x' * (32 << 20)); open('lines', 'w').write('\\n' * (8 << 20))"))
            result = server.call("list_changes", _timeout=120, diff=True)
            self.assertLess(len(result.text), 60000)
            self.apply(server, 2)
        self.assertEqual(((self.dir / "line").stat().st_size, (self.dir / "lines").stat().st_size), (32 << 20, 8 << 20))


if __name__ == "__main__":
    unittest.main()
