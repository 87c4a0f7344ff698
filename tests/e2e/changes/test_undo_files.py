"""undo, restore and checkpoint take variables and files together: in memory, in a directory, and with --cow."""
import os
import shutil
import stat
import time
import unittest

from client import SLOW, give_away, once, size
from undoing import KILL, InDirectory, InMemory, WithCow


class UndoFiles:
    """The cases. A class below chooses the workspace."""

    def test_variables_and_files_of_one_cell(self):
        with self.server() as server:
            self.assert_ok(server.python("df = [1, 2, 3]\nfor name in ('a', 'b', 'c'): open(name, 'w').write('first')"))
            before = self.look(server)
            self.assert_ok(server.python("import os\ndf.append('wrong')\nopen('a', 'a').write(' more'); open('b', 'w').close()\n"
                                         "os.remove('c')"))
            self.assertNotEqual(self.look(server), before)
            result = server.python("print(df)", undo=True)
            self.assertIn("[1, 2, 3]", result.output)
            self.assertNotIn("files are not rolled back", result.text)
            self.assertEqual(self.look(server), before)

    def test_the_result_names_the_cell_and_what_write_file_wrote_since(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            server.write("before", "stays")
            self.assert_ok(server.python("x = 2; open('results.csv', 'w').close()"))
            for text in ("draft", "WRONG"):
                server.write("report.md", text)
            line = self.undo(server).status.line
            self.assertIn("undid <cell 2>: back to the state after <cell 1>, variables back: x, "
                          "files removed: results.csv, written since by write_file and kept: report.md |", line)
            self.assertEqual(server.read("report.md").text, "WRONG")
            self.assert_ok(server.python("x = 3; open('b', 'w').close()"))
            self.assert_ok(server.python("x"))
            line = self.undo(server).status.line
            self.assertIn("undid <cell 3>: ", line)
            self.assertNotIn("write_file", line)

    def test_what_write_file_wrote_over_a_file_of_the_cell_is_named_once(self):
        with self.server() as server:
            self.assert_ok(server.python("open('n', 'w').write('by code'); open('m', 'w').write('by code')"))
            server.write("n", "by write_file")
            line = self.undo(server).status.line
            self.assertIn("files removed: m, written since by write_file and kept: n |", line)
            self.assertNotIn("not reverted", line)

    def test_what_is_written_to_files_that_stay_open(self):
        write = "f.write('{}'); f.flush()"
        for calls, undoes in ((("f = open('a', 'w+')", write, "v = 2", write), 3),  # one that does nothing in between
                              (("f = open('a', 'w+')", "branch", write, write), 2),
                              (("open('a', 'w').close(); f = open('a', 'r+'); g = open('a')",
                                "with open('a', 'r+') as h: h.write('h')", write), 2),
                              (("f = open('a', 'w+')", "other", write, write), 2)):
            with self.subTest(calls=calls), self.server() as server:
                self.assert_ok(server.python("x = 1"))
                states = []
                for number, code in enumerate(calls):
                    if code in ("branch", "other"):
                        self.assert_ok(server.python("print(1)", **({"branch": True} if code == "branch" else {"session": "two"})))
                        continue
                    result = server.python(code.format(number))
                    self.assert_ok(result)
                    self.assertEqual("files:" in result.status.line, code != "v = 2", result.text)
                    self.assertNotIn("not kept", result.text)
                    states.append(self.contents(server))
                for turn in range(undoes):
                    line = self.undo(server).status.line
                    self.assertEqual(self.contents(server), states[-2 - turn], line)
                self.assertNotIn("changed by others", line)

    def test_open_files_of_a_state_that_is_older_than_an_undo(self):
        for back in ({"restore": "old"}, {"branch": True}, None):
            with self.subTest(back=back), self.server() as server:
                self.assert_ok(server.python("f = open('a', 'w+'); f.write('0'); f.flush(); import sqlite3, os; con = sqlite3.connect('b')\n"
                                             "con.execute('create table if not exists t(x)'); con.commit(); v = 1", checkpoint="old"))
                self.assert_ok(server.python("f.write('1'); f.flush(); con.execute('insert into t values(1)'); con.commit()"))
                self.undo(server)
                if back is None:
                    self.assertEqual(server.python("os.abort()").status.kind, "crashed")
                result = server.python("f.write('2'); f.flush(); print(open('a').read())", **(back or {}))
                self.assert_prints(result, "02")
                self.assertIn("con (sqlite3.Connection): b: connections to it from before", result.text)

    def test_three_cells_one_after_the_other(self):
        with self.server() as server:
            states = []
            for turn in range(4):
                self.assert_ok(server.python(f"turn = {turn}\nopen('same', 'w').write('{turn}' * {turn + 1}); open('f{turn}', 'w').write('x')"))
                states.append(self.look(server))
            for turn in (2, 1, 0):
                self.undo(server)
                self.assertEqual(self.look(server), states[turn])

    def test_undo_with_corrected_code(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.assert_ok(server.python("open('a', 'w').write('wrong'); open('wrong', 'w').close()"))
            for text in ("better", "best"):
                self.assert_ok(server.python(f"open('a', 'a').write({text!r})", undo=True))
                self.assertEqual(self.contents(server), {"a": "first" + text})

    def test_after_an_exception_and_a_timeout(self):
        with self.server() as server:
            self.write(server, "first", "a")
            for code, more in (("open('a', 'w').write('x'); open('b', 'w').close(); 1/0", {}),
                               ("open('a', 'w').write('x'); open('b', 'w').close()\nimport time; time.sleep(600)", {"timeout_s": 0.5 * SLOW})):
                self.assertTrue(server.python(code, **more).is_error)
                self.assertEqual(set(self.contents(server)), {"a", "b"})
                self.undo(server)
                self.assertEqual(self.contents(server), {"a": "first"})

    def test_a_crash_in_the_middle_of_a_cell(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first'); open('b', 'w').write('first')"))
            before = self.look(server)
            result = server.python("import os\nx = 2; open('a', 'w').write('second'); os.remove('b'); open('c', 'w').close()\n" + KILL)
            self.assertIn("restored to the state before this call", result.status.line)
            self.assertRegex(result.text, r"files?\b[^|\]]*(?:undo|stay|kept|not)")
            self.assertEqual(self.contents(server), {"a": "second", "c": ""})
            self.assert_prints(server.python("print(x)", session="default", branch=True), "1")
            result = server.python("print(x)", undo=True)
            self.assertIn("1", result.output.splitlines())
            self.assertEqual(self.look(server), before)

    def test_out_of_memory_promises_no_undo_that_is_gone(self):
        with self.server("--memory", "256M") as server:
            self.write(server, "first", "a")
            result = server.python("open('a', 'w').write('second'); x = bytearray(10 ** 9)")
            if result.status.kind != "out of memory":  # a MemoryError at level container
                return
            promised = "reverts them" in result.text
            undone = server.python("", undo=True)
            self.assertEqual(promised, not undone.is_error, result.text + undone.text)
            self.assertEqual(self.contents(server), {"a": "first" if promised else "second"})

    def test_a_crash_and_then_another_call(self):
        with self.server() as server:
            self.write(server, "first", "a")
            server.python("open('a', 'w').write('crashed')\n" + KILL)
            self.write(server, "after", "b")
            self.undo(server)
            self.assertEqual(self.contents(server), {"a": "crashed"})
            self.undo(server)
            self.assertEqual(self.contents(server), {"a": "first"})

    def test_named_states_there_and_back(self):
        with self.server() as server:
            states = {}
            for turn, name in enumerate(("one", "two", "three", "four")):
                self.assert_ok(server.python(f"import os\nx = {turn}\nopen('same', 'w').write('{name}'); open('in_{name}', 'w').write('x')\n"
                                             f"if {turn} == 2: os.remove('in_one')\n", checkpoint=name))
                states[name] = self.look(server)
            for name in ("one", "four", "two", "three", "one"):
                result = server.python("print(x)", restore=name)
                self.assert_ok(result)
                self.assertEqual(result.output.splitlines()[-1], str(("one", "two", "three", "four").index(name)))
                self.assertEqual(self.look(server), states[name], name)

    def test_undo_of_a_restore_brings_files_forward(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')", checkpoint="base"))
            self.assert_ok(server.python("x = 2; open('a', 'w').write('second'); open('b', 'w').write('b')"))
            self.assert_ok(server.python("import os; x = 3; os.remove('a'); open('c', 'w').write('c')"))
            later = self.look(server)
            self.assert_ok(server.python("", restore="base"))
            self.assertEqual(self.contents(server), {"a": "first"})
            self.assertIn("3", server.python("print(x)", undo=True).output)
            self.assertEqual(self.look(server), later)

    def test_a_named_state_is_restored_twice(self):
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('base')", checkpoint="base"))
            for text in ("left", "right"):
                self.assert_ok(server.python(f"open('a', 'a').write({text!r}); open({text!r}, 'w').close()", restore="base"))
                self.assertEqual(self.contents(server), {"a": "base" + text, text: ""})

    def test_a_named_state_beside_what_was_undone(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.write(server, "named", "a", "b", checkpoint="aside")
            self.undo(server)
            for turn in range(5):  # more than undo can take back: nothing but the name leads to the call before it
                self.write(server, f"turn {turn}", "a", "c")
            self.assertIn("files back", server.python("", restore="aside").text)
            self.assertEqual(self.contents(server), {"a": "named", "b": "named"})
            self.undo(server)
            self.assertEqual(self.contents(server), {"a": "turn 4", "c": "turn 4"})

    def test_undo_of_the_first_call(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.makedirs('d/deep'); open('d/deep/a', 'w').write('x')"))
            self.undo(server)
            self.assertEqual(self.look(server), {})

    def test_deleted_directories_come_back_whole(self):
        with self.server() as server:
            self.assert_ok(server.python("""import os
os.makedirs('d/deep/empty'); os.chmod('d/deep', 0o750)
for i, name in enumerate(('d/a', 'd/deep/b', 'd/deep/run.sh')):
    open(name, 'w').write(name); os.utime(name, ns=(1_000_000_000 + i, 2_000_000_000_123 + i))
os.chmod('d/deep/run.sh', 0o755); os.chmod('d/a', 0o600)
os.symlink('deep/b', 'd/symlink'); os.symlink('/nowhere', 'd/deep/dangling')
for name in ('d/deep/empty', 'd/deep', 'd'): os.utime(name, ns=(10**9, 10**9))
"""))
            before = self.look(server)
            symlinks = {name for name, facts in before.items() if stat.S_ISLNK(facts[0])}
            self.assert_ok(server.python("import shutil; shutil.rmtree('d')"))
            self.assertEqual(self.look(server), {})
            self.undo(server)
            after = self.look(server)
            for name in symlinks:  # their times do not matter
                before[name], after[name] = before[name][:3], after[name][:3]
            self.assertEqual(*map(self.without_times_of_directories, (after, before)))

    def test_types_and_modes_that_a_cell_changed(self):
        with self.server() as server:
            self.assert_ok(server.python("""import os
os.makedirs('directory/in'); open('directory/in/x', 'w').write('x')
for name in ('file', 'mode', 'moved', 'becomes_symlink'): open(name, 'w').write(name)
os.symlink('file', 'symlink')
"""))
            before = self.look(server)
            self.assert_ok(server.python("""import os, shutil
shutil.rmtree('directory'); open('directory', 'w').write('x')
os.remove('file'); os.makedirs('file/in'); open('file/in/y', 'w').close()
os.chmod('mode', 0o700); os.rename('moved', 'elsewhere')
os.remove('symlink'); os.symlink('mode', 'symlink'); os.remove('becomes_symlink'); os.symlink('mode', 'becomes_symlink')
os.mkfifo('fifo')
"""))
            result = self.undo(server)
            after = self.look(server)
            if b"fifo" in after:  # Python reports no FIFOs: in a directory of the user's it stays
                self.assertRegex(result.text, "not reverted, [^:]*: [^|]*fifo")
                del after[b"fifo"]
            self.assertEqual({name: facts[:3] for name, facts in after.items()}, {name: facts[:3] for name, facts in before.items()})

    def test_a_directory_that_was_renamed(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.makedirs('d/deep'); open('d/a', 'w').write('a'); open('d/deep/b', 'w').write('b')"))
            time.sleep(0.1)
            self.assert_ok(server.python("import shutil; shutil.move('d', 'e')"))
            self.assertEqual(self.contents(server), {"e/a": "a", "e/deep/b": "b"})
            self.undo(server)
            self.assertEqual(set(map(os.fsdecode, self.look(server))), {"d", "d/a", "d/deep", "d/deep/b"})
            self.assertEqual(self.contents(server), {"d/a": "a", "d/deep/b": "b"})

    def test_hostile_names(self):
        names = (b"line\nbreak", b'"q"', b"\xff", b"-rf", b"n" * 255, b" ", "\u202e\u00fc".encode())
        with self.server() as server:
            self.assert_ok(server.python(f"for name in {names!r}: open(name, 'w').write('first')"))
            before = self.look(server)
            self.assert_ok(server.python(f"import os\nfor name in {names!r}[:3]: os.remove(name)\nfor name in {names!r}[3:]: open(name, 'w').close()\n"
                                         "open(b'new\\n\\xfe', 'w').close()"))
            self.undo(server)
            self.assertEqual(self.look(server), before)

    def test_many_files(self):
        many = size(1500, 400)
        with self.server() as server:
            self.assert_ok(server.python(f"import os\nfor i in range({many}):\n    os.makedirs(f'd{{i % 30}}', exist_ok=True); open(f'd{{i % 30}}/{{i}}', 'w').write(f'{{i}}' * 50)"))
            code = ("import hashlib\ntotal = hashlib.sha256()\nfor top, ds, fs in os.walk('.'):\n    ds.sort()\n"
                    "    for f in sorted(fs): total.update(os.path.join(top, f).encode() + open(os.path.join(top, f), 'rb').read())\nprint(total.hexdigest())")
            before = server.python("import os\n" + code, session="reader").output
            self.assert_ok(server.python(f"import shutil\nfor i in range(0, {many}, 2): open(f'd{{i % 30}}/{{i}}', 'w').write('changed')\n"
                                         f"shutil.rmtree('d7'); shutil.rmtree('d8')\nfor i in range({many} // 5): open(f'new{{i}}', 'w').close()"))
            self.undo(server)
            self.assertEqual(server.python(code, session="reader").output, before)

    def test_holes_stay_holes_and_take_no_space(self):
        """Six files of 48 MiB, of which --undo-files could keep one."""
        with self.server() as server:
            self.assert_ok(server.python(
                "import os\ndef facts():\n    return [(os.stat(f).st_size, os.stat(f).st_blocks < 2000, zlib.crc32(open(f, 'rb').read())) for f in files]\n"
                "import zlib\nfiles = [f'sparse{i}' for i in range(6)]\nfor f in files:\n    with open(f, 'wb') as file:\n"
                "        file.write(b'begin'); file.seek(48 << 20); file.write(b'end')\nbefore = facts()"))
            self.assert_ok(server.python("for f in files[:5]:\n    with open(f, 'r+b') as file: file.seek(20 << 20); _ = file.write(b'x' * 9999)"))
            self.assert_ok(server.python("os.remove(files[5]); os.truncate(files[4], 1)"))
            for _ in range(2):
                result = self.undo(server)
                self.assertNotIn("cannot revert", result.text)
                self.assertNotIn("no copy", result.text)
            self.assert_prints(server.python("print(facts() == before, before[0][1])"), "True True")

    def test_a_hard_linked_file(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; open('a', 'w').write('first'); os.link('a', 'b')"))
            self.assert_ok(server.python("open('a', 'w').write('second')"))
            result = self.undo(server)
            if self.contents(server)["a"] == "second":  # both or none, where the other names are not looked for
                self.assertEqual(self.contents(server)["b"], "second")
                self.assertRegex(result.text, r"cannot revert: a\b")
            else:
                self.assert_back_or_named(server, result, {"a": "first", "b": "first"}, "b")

    def test_reset_leaves_files(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.assert_ok(server.python("", reset=True))
            self.assertEqual(self.contents(server), {"a": "first"})


@once
class Memory(UndoFiles, InMemory):
    pass


class Present:
    """A directory that has files before the server starts."""

    def test_files_that_were_there_before_the_server(self):
        for name in "abc":
            (self.dir / name).write_text("as it was")
            give_away(self.dir / name)
        with self.server() as server:
            before = self.look(server)
            self.assert_ok(server.python("import os; open('a', 'a').write('x'); open('b', 'w').close(); os.remove('c')"))
            self.undo(server)
            self.assertEqual(self.look(server), before)

    def test_a_tree_that_was_there_before_the_server(self):
        self.make_tree()
        with self.server() as server:
            before = self.look(server)
            self.assert_ok(server.python("import os, shutil; shutil.rmtree('d'); open('d', 'w').close(); os.remove('symlink')\n"
                                         "os.mkdir('symlink'); open('symlink/x', 'w').close(); os.chmod('mode', 0o700)"))
            self.undo(server)
            after = self.look(server)
            for name, facts in before.items():
                self.assertEqual(after.pop(name)[:3], facts[:3], name)
            self.assertEqual(after, {})
            self.assert_ok(server.python("import os, shutil; os.rename('mode', 'renamed'); shutil.move('d/deep', 'deeper'); open('d/a', 'a').write('x')"))
            self.undo(server)
            self.assertEqual({name: facts[:3] for name, facts in self.look(server).items()},
                             {name: facts[:3] for name, facts in before.items()})

    def make_tree(self):
        (self.dir / "d/deep/empty").mkdir(parents=True)
        for name, mode in (("d/a", 0o644), ("d/deep/b", 0o600), ("d/deep/run.sh", 0o755), ("mode", 0o644)):
            (self.dir / name).write_text(name)
            (self.dir / name).chmod(mode)
        (self.dir / "symlink").symlink_to("d/a")
        (self.dir / "d/deep/dangling").symlink_to("/nowhere")
        for path in (self.dir, *self.dir.rglob("*")):
            if not path.is_symlink():
                give_away(path)


class Directory(Present, UndoFiles, InDirectory):
    def without_times_of_directories(self, found):
        return {name: facts[:3] if stat.S_ISDIR(facts[0]) else facts for name, facts in found.items()}

    def test_directories_that_begin_with_a_dot(self):
        names = (".github/ci.yml", ".config/x", "d/.hidden/y", "node_modules/m/z")
        for name in names:
            (self.dir / name).parent.mkdir(parents=True)
            (self.dir / name).write_text("as it was")
        for path in (self.dir, *self.dir.rglob("*")):
            give_away(path)
        with self.server() as server:
            self.write(server, "by code", *names)
            result = self.undo(server)
            for name in names:
                if (self.dir / name).read_text() != "as it was":
                    self.assertIn(name.rpartition("/")[0].rpartition("/")[2], result.text)


    def test_what_the_system_refuses_is_no_change(self):
        """Of a file whose owner the sandbox does not know."""
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        for name, owner in (("theirs", 65534), ("mine", None)):
            (self.dir / name).write_text(name)
            give_away(self.dir / name)
            try:
                os.chown(self.dir / name, owner or -1, owner or -1)
            except OSError as error:
                self.skipTest(f"root: there is no other owner here: {error.strerror}")
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            for code in ("os.remove('theirs')", "os.rename('theirs', 'other')", "os.replace('mine', 'theirs')"):
                result = server.python("import os; " + code)
                if not result.is_error:
                    self.skipTest("the system refuses nothing")
                self.assertNotIn("files:", result.status.line)
            self.assertEqual(self.contents(server), {"theirs": "theirs", "mine": "mine"})


class Cow(Present, UndoFiles, WithCow):
    def test_undo_names_files_and_not_the_directories_that_hold_them(self):
        (self.dir / "d" / "deep").mkdir(parents=True)
        for name in ("d/deep/a", "d/touched"):
            (self.dir / name).write_text("as it was")
        give_away(self.dir)
        with self.server() as server:
            self.assert_ok(server.python("import os\nopen('d/deep/a', 'w').close(); os.utime('d/touched', (1, 1))"))
            self.assertIn("files back: d/deep/a |", self.undo(server).text)
        shutil.rmtree(self.dir / "d")

    def test_undo_takes_changes_off_the_list(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            result = server.python("open('a', 'w').close()")
            self.assertEqual(result.status.parts[-1], "1 change not applied")
            result = self.undo(server)
            self.assertNotIn("not applied", result.status.line)
            self.assertIn("[no changes]", server.call("list_changes").text)


if __name__ == "__main__":
    unittest.main()
