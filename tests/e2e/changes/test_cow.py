"""--workspace DIR --cow: DIR stays as it is until its changes are applied; what is listed, applied, refused, discarded."""
import os
import random
import shutil
import stat
import subprocess
import time
import unittest

from client import DENY, SLOW, Server, need_userns, once
from container_level import CONTAINER
from projects import GIT, MAKE, Changes, Project, tree

# Runs in the project's directory, in the sandbox and beside it.
EDITS = """
import os, shutil
with open('pkg00/mod_00.py', 'a') as file: file.write('added = 1\\n')
text = open('pkg01/mod_01.py').read()
with open('pkg01/mod_01.py', 'w') as file: file.write(text.replace('line 3', 'line three'))
with open('pkg02/mod_02.py', 'w') as file: file.write('no newline at the end')
os.remove('pkg03/mod_03.py'); os.remove('pkg03/mod_04.py')
with open('pkg04/made.py', 'w') as file: file.write('made = True\\n')
shutil.move('pkg05/moved', 'elsewhere')
"""
EDITED = {b"pkg00/mod_00.py": "~", b"pkg01/mod_01.py": "~", b"pkg02/mod_02.py": "~", b"pkg03/mod_03.py": "-",
          b"pkg03/mod_04.py": "-", b"pkg04/made.py": "+", **{b"pkg05/moved/%d.py" % i: "-" for i in range(5)},
          **{b"elsewhere/%d.py" % i: "+" for i in range(5)}}
PLANTED = """
for name in ('planted', 'planted_directory/secret.txt', 'planted_directory/new.txt', 'upwards', 'planted_directory/../x'):
    try:
        with open(name, 'a') as file: file.write('through')
        print(name)
    except OSError: pass
"""


class Acceptance(Project):
    def make_project(self):
        for package in range(40):
            for i in range(50 if package != 5 else 45):
                self.put(f"pkg{package:02}/mod_{i:02}.py", "".join(f"line {n} of {package} {i}\n" for n in range(8)))
        for i in range(5):
            self.put(f"pkg05/moved/{i}.py", f"moved = {i}\n", 0o755 if i == 3 else 0o644)
        (self.dir / "planted").symlink_to(self.outside / "secret.txt")
        (self.dir / "planted_directory").symlink_to(self.outside)
        (self.dir / "upwards").symlink_to("../outside/secret.txt")

    def test_a_project_of_2000_files(self):
        self.make_project()
        before, outside = tree(self.dir, exact=True), tree(self.outside, exact=True)
        copies = {name: self.copy(name) for name in ("patched", "expected")}
        with self.server() as server:
            result = server.python(EDITS)
            self.assert_ok(result)
            planted = server.python(PLANTED)
            self.assert_prints(planted, "")
            self.assert_tree(tree(self.dir, exact=True), before)
            listed = self.changes(server)
            self.assertEqual(listed.files(), EDITED)
            self.assertEqual((listed.counts[b"pkg00/mod_00.py"], listed.counts[b"pkg01/mod_01.py"],
                              listed.counts[b"pkg02/mod_02.py"]), ((1, 0), (1, 1), (1, 8)))
            self.assertEqual(listed.number, len(listed))
            self.assertEqual(self.pending(result), listed.number, result.status.line)
            patch = self.patch(server)
            self.assert_tree(tree(self.dir, exact=True), before)
            self.assert_tree(tree(self.outside, exact=True), outside)
            self.apply(server, listed.number)
            self.assertEqual(self.changes(server).number, 0)
            self.assertEqual(self.pending(server.python("1")), 0)
        self.assert_tree(tree(self.outside, exact=True), outside)
        subprocess.run(["python3", "-c", EDITS], cwd=copies["expected"], check=True)
        self.assert_tree(tree(self.dir), tree(copies["expected"]))
        self.git_apply(patch, copies["patched"])
        self.assert_tree(tree(self.dir), tree(copies["patched"]))
        untouched = {name: facts for name, facts in tree(self.dir, exact=True).items()
                     if stat.S_ISREG(facts[0]) and name not in EDITED}
        self.assertEqual(untouched, {name: before[name] for name in untouched})

    def test_without_apply_nothing_stays(self):
        self.put("a")
        before = tree(self.temp, exact=True)
        with self.server() as server:
            self.assert_ok(server.python("import os; open('a', 'w').close(); open('b', 'w').close()"))
        self.assert_tree(tree(self.temp, exact=True), before)
        with self.server() as server:
            self.assertEqual(self.changes(server).number, 0)
            self.assertEqual(self.inside(server, "a"), "as it was")

    def test_the_tools_and_their_hints(self):
        with self.server() as server:
            tools = {tool["name"]: tool for tool in server.request("tools/list")["result"]["tools"]}
        self.assertTrue(tools["list_changes"]["annotations"]["readOnlyHint"])
        self.assertTrue(tools["apply_changes"]["annotations"]["destructiveHint"])
        self.assertFalse(tools["apply_changes"]["annotations"].get("readOnlyHint", False))
        with Server("--workspace", str(self.dir)) as server:
            names = {tool["name"] for tool in server.request("tools/list")["result"]["tools"]}
        self.assertFalse({"list_changes", "apply_changes"} & names)

    def test_all_sessions_and_the_file_tools_share_the_changes(self):
        self.put("a", "old\n")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('from one')", session="one"))
            self.assert_prints(server.python("print(open('a').read())", session="two"), "from one")
            self.assertIn("from one", server.read("a").text)
            self.assertFalse(server.write("b", "from the tool\n").is_error)
            self.assert_prints(server.python("print(open('b').read(), end='')", session="two"), "from the tool")
            self.assertEqual(self.changes(server), {b"a": "~", b"b": "+"})
            self.assertEqual(sorted(tree(self.dir)), [b"a"])
            self.apply(server, 2)
        self.assertEqual((self.read("a"), self.read("b")), ("from one", "from the tool\n"))

    def test_a_writable_mount_still_writes_through(self):
        with self.server("--mount", f"{self.outside}:rw") as server:
            self.assert_ok(server.python("open('/data/outside/new', 'w').write('x'); open('new', 'w').write('x')"))
            self.assertEqual(self.changes(server), {b"new": "+"})
        self.assertEqual((self.outside / "new").read_text(), "x")
        self.assertEqual(tree(self.dir), {})


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
            for name in ("nothing", "src/*", "src/b/more"):
                self.assertIn(name, server.call("list_changes", paths=[name, "d"]).text)
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


class Conflicts(Project):
    def test_one_file_was_changed_outside(self):
        for name in ("a", "b", "c"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("for name in 'abc': open(name, 'a').write('by code\\n')"))
            (self.dir / "a").write_text("by the user\n")
            self.assertEqual(self.changes(server), {b"a": "~", b"b": "~", b"c": "~"})
            result = self.apply(server, 2, 3)
            self.reason(result, "a")
            self.assertEqual((self.read("a"), self.read("b")), ("by the user\n", "as it was\nby code\n"))
            self.assertEqual(self.changes(server), {b"a": "~"})
            self.assertEqual(self.inside(server, "a"), "as it was\nby code")
            self.discard(server, 1, paths=["a"])
            self.assertEqual(self.inside(server, "a"), "by the user")
            self.assertEqual(self.changes(server), {})

    def replace(self, name, text):
        """As an editor saves: the name gets another file."""
        self.put("editor", text)
        os.rename(self.dir / "editor", self.dir / name)

    def test_a_file_that_was_replaced_by_renaming(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.replace("a", "as it was\nby the user\n")
            self.reason(self.apply(server, 0, 1), "a")
        self.assertEqual(self.read("a"), "as it was\nby the user\n")

    def test_a_file_of_the_same_name_was_made_outside(self):
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('by code'); open('b', 'w').write('by code')"))
            self.put("a", "by the user")
            self.reason(self.apply(server, 1, 2), "a")
        self.assertEqual((self.read("a"), self.read("b")), ("by the user", "by code"))

    def test_a_file_was_deleted_outside(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code')"))
            (self.dir / "a").unlink()
            self.reason(self.apply(server, 0, 1), "a")
            self.assertEqual(tree(self.dir), {})

    def test_a_file_to_be_deleted_was_changed_outside(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("import os; os.remove('a')"))
            self.put("a", "by the user")
            self.reason(self.apply(server, 0, 1), "a")
        self.assertEqual(self.read("a"), "by the user")

    def test_another_type_is_in_its_place(self):
        for name in ("becomes_directory", "becomes_symlink"):
            self.put(name)
        self.put("becomes_file/inner")
        with self.server() as server:
            self.assert_ok(server.python("for name in ('becomes_directory', 'becomes_symlink', 'becomes_file/inner'):\n"
                                         "    open(name, 'a').write('by code')"))
            (self.dir / "becomes_directory").unlink()
            self.put("becomes_directory/by_user")
            (self.dir / "becomes_symlink").unlink()
            (self.dir / "becomes_symlink").symlink_to(self.outside / "secret.txt")
            shutil.rmtree(self.dir / "becomes_file")
            (self.dir / "becomes_file").symlink_to(self.outside)
            outside, before = tree(self.outside, exact=True), tree(self.dir)
            self.assertTrue(self.apply(server).text.startswith("applied 0 of "))
            self.assert_tree(tree(self.dir), before)
            self.assert_tree(tree(self.outside, exact=True), outside)

    def test_a_new_file_in_a_directory_to_be_deleted(self):
        self.put("d/a")
        self.put("d/deep/b")
        self.put("other")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil; shutil.rmtree('d'); os.remove('other')"))
            self.put("d/deep/new", "by the user")
            result = self.apply(server)
            self.assertIn("d/deep: directory kept: it contains other files of yours", result.text)
            self.assertEqual(self.read("d/deep/new"), "by the user")
            self.assertFalse((self.dir / "other").exists())

    def test_the_same_content_on_both_sides_is_no_change(self):
        for name in ("edited", "deleted"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("import os; open('edited', 'w').write('same'); open('new', 'w').write('same')\n"
                                         "os.remove('deleted')"))
            self.assertEqual(self.changes(server).number, 3)
            self.put("edited", "same")
            self.put("new", "same")
            (self.dir / "deleted").unlink()
            self.assertEqual(self.changes(server), {})
            self.apply(server, 0)

    def test_a_change_outside_before_the_first_change_here_is_no_conflict(self):
        self.put("a", "first\n")
        with self.server() as server:
            self.assert_ok(server.python("1"))
            self.put("a", "second\n")
            time.sleep(0.05)  # longer than a tick of the clock of file times
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.apply(server, 1)
        self.assertEqual(self.read("a"), "second\nby code\n")

    def test_what_code_has_looked_up_before_it_was_replaced(self):
        for name in ("a", "gone", "sub/x"):
            self.put(name, "first\n")
        with self.server() as server:
            for session in ("one", "other"):
                self.assert_ok(server.python("import os; [os.path.exists(name) for name in ('a', 'gone', 'sub/x', 'new')]",
                                             session=session))
            self.assertTrue(server.read("new").is_error)
            self.replace("a", "by the user\n")
            (self.dir / "gone").unlink()
            self.put("new", "by the user\n")
            os.rename(self.dir / "sub", self.dir / "moved")
            self.put("sub/x", "second\n")
            time.sleep(0.05)  # longer than a tick of the clock of file times
            self.assertEqual((server.read("a").text, server.read("new").text), ("by the user\n", "by the user\n"))
            self.assert_prints(server.python("print(os.path.exists('gone'), open('sub/x').read(), open('moved/x').read())", session="one"),
                               "False second\n first\n")
            self.assert_ok(server.python("for name in ('a', 'new', 'sub/x'): open(name, 'a').write('by code\\n')", session="other"))
            self.apply(server, 3)
        self.assertEqual((self.read("a"), self.read("new"), self.read("sub/x")),
                         ("by the user\nby code\n", "by the user\nby code\n", "second\nby code\n"))

    def test_a_conflict_says_how_to_go_on(self):
        self.put("a", "".join(f"line {n}\n" for n in range(30)))
        with self.server() as server:
            server.python("text = open('a').read(); open('a', 'w').write(text.replace('line 25', 'by code'))")
            self.put("a", self.read("a").replace("line 3\n", "by the user\n"))
            patch = server.call("list_changes", diff=True).text
            self.assertIn("\n-by the user\n+line 3\n", patch)
            self.assertIn("[1 change; 1 also changed by you, which the patch would take back: a]", patch)
            self.assertIn("a: conflict: you changed this file after the sandbox did; list_changes with diff shows both versions; "
                          "discard this path to have yours in the workspace, and make the change again there\n", server.call("apply_changes").text)
            self.discard(server, 1)
            self.assertFalse(server.call("write_file", path="a", old_text="line 25\n", new_text="by code\n").is_error)
            self.apply(server, 1)
        self.assertIn("by the user\n", self.read("a"))
        self.assertIn("by code\n", self.read("a"))

    def test_what_was_replaced_and_cannot_be_looked_up_anew(self):
        """Where the kernel refuses it, what code may not have seen is a conflict."""
        self.put("a", "first\n")
        with self.server(wrap=(*DENY, "fsconfig:EPERM", "--")) as server:
            self.assert_ok(server.python("print(open('a').read())"))
            self.replace("a", "by the user\n")
            time.sleep(0.05)
            self.assert_ok(server.python("open('a', 'a').write('by code\\n'); open('b', 'w').close()"))
            self.reason(self.apply(server, 1, 2), "a")
        self.assertEqual(self.read("a"), "by the user\n")

    def test_a_file_that_is_replaced_while_a_call_runs(self):
        self.put("a", "first\n")
        with self.server() as server:
            call = server.start_call("run_python", code="import os, time\nopen('begun', 'w').close(); open('a').read()\n"
                                     "while not os.path.exists('go'): time.sleep(0.02)\nopen('a', 'a').write('by code\\n')", session="slow")
            while "True" not in server.python("import os; print(os.path.exists('begun'))").text:
                time.sleep(0.02)
            self.replace("a", "by the user\n")
            self.assert_ok(server.python("open('go', 'w').close()"))
            self.assert_ok(server.finish_call(call))
            self.reason(self.apply(server, 2, 3), "a")
        self.assertEqual(self.read("a"), "by the user\n")

    def test_an_applied_file_that_the_user_edits_later(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('by code\\n')"))
            self.apply(server, 1)
            self.put("a", "by the user\n")
            self.assertEqual(self.inside(server, "a"), "by code")
            listed = self.changes(server)
            self.assertEqual(listed, {b"a": "~"})
            self.assertIn("also changed by you", listed.notes[b"a"])
            self.assert_ok(server.python("open('a', 'a').write('again\\n')"))
            self.reason(self.apply(server, 0, 1), "a")
            self.assertEqual(self.read("a"), "by the user\n")
            self.discard(server, 1)
            self.assertEqual(self.inside(server, "a"), "by the user")

    def test_an_applied_file_is_changed_again(self):
        self.put("a")
        with self.server() as server:
            for text in ("one", "two", "three"):
                self.assert_ok(server.python(f"open('a', 'w').write({text!r}); open('new', 'w').write({text!r})"))
                self.assertEqual(self.changes(server).number, 2)
                self.apply(server, 2)
                self.assertEqual((self.read("a"), self.read("new")), (text, text))
            self.assert_ok(server.python("import os; os.remove('new')"))
            self.assertEqual(self.changes(server), {b"new": "-"})
            self.apply(server, 1)
            self.assertEqual(tree(self.dir).keys(), {b"a"})


class Chosen(Project):
    def test_paths_choose_what_is_applied(self):
        self.put("src/old")
        self.put("gone/a/b")
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=("src/old", "src/deep/er/new", "srcs/x", "top")) +
                                         "import shutil; shutil.rmtree('gone')"))
            self.apply(server, 1, paths=["src/deep/er/new"])
            self.assertEqual(self.read("src/deep/er/new"), "by code\n")
            self.assertEqual(self.read("src/old"), "as it was\n")
            self.assertFalse((self.dir / "srcs").exists())
            self.apply(server, 1, paths=["/work/src/"])
            self.assertEqual(self.read("src/old"), "by code\n")
            self.apply(server, paths=["gone"])
            self.assertFalse((self.dir / "gone").exists())
            self.assertEqual(set(self.changes(server).files()), {b"srcs/x", b"top"})
            result = server.call("apply_changes", paths=["top", "nothing"])
            self.assertIn("nothing", result.text)
            self.assertEqual(self.read("top"), "by code\n")

    def test_wrong_paths_apply_nothing(self):
        with self.server() as server:
            self.assert_ok(server.python(MAKE.format(names=("a", "d/b"))))
            for name in ("..", "d/../a", "../project/a", "/etc", "/work/../work/a"):
                with self.subTest(name=name):
                    self.assertTrue(server.call("apply_changes", paths=[name]).is_error)
            self.assertEqual(tree(self.dir), {})
            self.apply(server, 2, paths=["/work"])

    def test_discard(self):
        for name in ("edited", "deleted", "d/x", "becomes_directory", "mode"):
            self.put(name)
        (self.dir / "symlink").symlink_to("edited")
        before = tree(self.dir, exact=True)
        with self.server() as server:
            self.assert_ok(server.python(
                "import os, shutil\nfor n in ('edited', 'new', 'also'): open(n, 'w').write('by code')\n"
                "os.remove('deleted'); shutil.rmtree('d'); os.remove('symlink'); os.mkdir('symlink'); open('symlink/x', 'w').close()\n"
                "os.remove('becomes_directory'); os.makedirs('becomes_directory/deep'); os.chmod('mode', 0o755)"))
            number = self.changes(server).number
            self.discard(server, 1, paths=["also"])
            self.assertNotIn(b"also", self.changes(server))
            self.discard(server, number - 1)
            self.assertEqual(self.changes(server), {})
            self.assert_tree(tree(self.dir, exact=True), before)
            listed = server.python("import subprocess\n"
                                   "print(subprocess.run('find . -printf \"%P %y %m %l\\n\" | sort', shell=True, "
                                   "capture_output=True, text=True).stdout, end='')").output
            outside = subprocess.run("find . -printf '%P %y %m %l\n' | sort", shell=True, cwd=self.dir,
                                     capture_output=True, text=True).stdout
            self.assertEqual(listed.split("\n")[1:], outside.rstrip("\n").split("\n")[1:])
            self.assertEqual(self.inside(server, "edited"), "as it was")
            self.assertEqual(self.pending(server.python("1")), 0)
            self.assert_ok(server.python("open('edited', 'a').write('again\\n')"))
            self.assertEqual(self.changes(server), {b"edited": "~"})
            self.apply(server, 1)
        self.assertEqual(self.read("edited"), "as it was\nagain\n")

    def test_undo_of_an_apply_leaves_the_directory(self):
        self.put("a", "one\n")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('two\\n')"))
            self.apply(server, 1)
            result = server.python("print(open('a').read(), end='')", undo=True)
            self.assertEqual(result.output.splitlines()[-1], "one")
            self.assertEqual(self.read("a"), "two\n")
            self.assertEqual(self.changes(server), {b"a": "~"})
            self.apply(server, 1)
        self.assertEqual(self.read("a"), "one\n")


class Starts(Project):
    def setUp(self):
        need_userns()
        self.make_directories()

    def assert_refused(self, *args, word):
        """No tool does anything, each says why in one sentence, and nothing is written through."""
        before = tree(self.temp, exact=True)
        with Server(*args) as server:
            for result in (server.python("open('through', 'w').close()"), server.write("through", "x")):
                self.assertTrue(result.is_error, result.text)
                self.assertRegex(result.text, word)
                self.assertNotIn("unknown option", result.text)
                self.assertNotIn("\n", result.text.strip())
        self.assert_tree(tree(self.temp, exact=True), before)

    def test_without_a_workspace(self):
        self.assert_refused("--cow", word="--workspace")

    def test_a_store_without_cow(self):
        self.assert_refused("--workspace", str(self.dir), "--cow-store", str(self.temp / "store"), word="--cow")

    def test_a_store_in_the_directory(self):
        word = "--cow needs" if CONTAINER else "--cow-store"
        for path in ("store", "deep/store"):
            self.assert_refused("--workspace", str(self.dir), "--cow", "--cow-store", str(self.dir / path), word=word)
        (self.dir / "store").mkdir()
        (self.temp / "by_symlink").symlink_to(self.dir / "store")
        for path in (self.dir / "store", self.temp / "by_symlink", self.dir):
            self.assert_refused("--workspace", str(self.dir), "--cow", "--cow-store", str(path), word=word)

    def test_at_the_level_without_mounts(self):
        self.assert_refused("--workspace", str(self.dir), "--cow", "--isolation", "container", word="--cow|overlay")


if __name__ == "__main__":
    unittest.main()
