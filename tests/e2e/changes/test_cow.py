"""--workspace DIR --cow: DIR stays as it is until its changes are applied; what is applied, refused, discarded."""
import json
import os
import shutil
import stat
import subprocess
import time
import unittest

from client import Server, need_userns
from container_level import CONTAINER
from projects import MAKE, Project, tree

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


class Chosen(Project):
    def test_times_of_what_is_applied(self):
        """make(1) goes by them. What has the time of the user's file, or one that is to come, gets the present."""
        second = 10**9
        now = time.time_ns()
        for name in ("edited", "same"):
            self.put(name, "user\n")
            os.utime(self.dir / name, ns=(5 * second, 5 * second))
        times = {"new": -3 * second + 7, "edited": 10 * second + 123456789, "same": 5 * second, "later": now + 3600 * second}
        with self.server() as server:
            self.assert_ok(server.python(f"import os\nfor name, ns in {times!r}.items():\n    with open(name, 'w') as file: file.write('code')\n"
                                         "    os.utime(name, ns=(ns, ns))"))
            self.assertFalse(server.call("apply_changes").is_error)
        got = {name: os.stat(self.dir / name).st_mtime_ns for name in times}
        self.assertEqual([got[name] for name in ("new", "edited")], [times["new"], times["edited"]])
        for name in ("same", "later"):
            self.assertTrue(now - second <= got[name] <= time.time_ns(), name)

    def test_a_path_is_that_of_a_name_with_the_same_characters(self):
        self.put("re\u0301sume\u0301/a\u0301.txt", "user\n")
        with self.server() as server:
            self.assert_ok(server.python("open('re\u0301sume\u0301/a\u0301.txt', 'w').write('code\\n')\nopen('re\u0301sume\u0301/b', 'w').write('b')"))
            self.assertIn("[1 change]", server.call("list_changes", paths=["r\xe9sum\xe9/\xe1.txt"]).text)
            self.assertIn("no such file", server.call("list_changes", paths=["r\xe9sum\xe9/\xe0.txt"]).text)
            self.assertIn("applied 1 of 1", server.call("apply_changes", paths=["r\xe9sum\xe9/\xe1.txt"]).text)
        self.assertEqual((self.dir / "re\u0301sume\u0301/a\u0301.txt").read_text(), "code\n")

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
            self.assertTrue(server.call("apply_changes", paths=["nothing"]).is_error)
            result = self.apply(server, 1, paths=["top", "gone"])
            self.assertIn("no changes: gone", result.text)
            self.assertFalse(result.is_error, result.text)
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

    def test_a_directory_on_the_way_gets_the_users_mode(self):
        modes = {"gone": 0o755, "moved": 0o750, "moved/deep": 0o555}
        for take_away in ("shutil.rmtree('gone'); shutil.copytree('moved', 'new'); os.chmod('moved/deep', 0o755); shutil.rmtree('moved')",
                          "shutil.move('gone', 'elsewhere'); shutil.move('moved', 'away')"):
            for name in ("gone/a", "gone/b", "moved/deep/a"):
                self.put(name)
            for name, mode in modes.items():
                (self.dir / name).chmod(mode)
            with self.subTest(code=take_away), self.server() as server:
                self.assert_ok(server.python("import os, shutil; os.chmod('moved/deep', 0o755)\n" + take_away))
                self.discard(server, 1, paths=["gone/a"])
                self.discard(server, 1, paths=["moved/deep/a"])
                self.assertEqual({name: sign for name, sign in self.changes(server).items() if sign != "+"}, {b"gone/b": "-"})
                inside = server.python("import os, json; print(json.dumps({n: os.stat(n).st_mode & 0o777 for n in %r}))" % list(modes))
                self.assertEqual(json.loads(inside.output.splitlines()[-1]), modes)
                self.apply_all(server)
                self.assertEqual({name: (self.dir / name).stat().st_mode & 0o777 for name in modes}, modes)
                (self.dir / "moved/deep").chmod(0o755)

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


    def test_an_undo_without_code_counts_what_it_has_made_pending(self):
        with self.server() as server:
            self.assert_ok(server.python("for n in ('a', 'b', 'c'): open(n, 'w').close()"))
            self.apply(server, 2, paths=["a", "b"])
            result = server.python("", undo=True)
            self.assertEqual(self.pending(result), 2, result.text)
            self.assertIn("(the user keeps what was applied until apply_changes)", result.text)
            self.assertEqual(self.changes(server), {b"a": "-", b"b": "-"})
            self.assertEqual(self.pending(server.python("", restore="before-undo")), 1)
            self.assertEqual(self.pending(server.python("", restore="before-undo")), 2)
            self.assertEqual(sorted(tree(self.dir)), [b"a", b"b"])
            self.apply(server, 2)
        self.assertEqual(tree(self.dir), {})


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
