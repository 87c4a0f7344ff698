"""undo, restore and checkpoint take variables and files together: in memory, in a directory, and with --cow."""
import ast
import base64
import contextlib
import os
import pathlib
import re
import shutil
import signal
import stat
import tempfile
import time
import unittest

from client import SLOW, Case, Server, give_away, need_userns, once, size
from overlay import cow_flags, need_overlay
from traces import descendants

KILL = "import os; os.kill(os.getpid(), 9)"
MIB = 1 << 20
# Runs in an interpreter of its own, so that it is no call that undo could take back.
LOOK = """import base64, hashlib, os, stat
def look(top):
    for entry in os.scandir(top):
        at = entry.stat(follow_symlinks=False)
        what = os.readlink(entry.path) if entry.is_symlink() else ''
        if stat.S_ISREG(at.st_mode):
            with open(entry.path, 'rb') as file: data = file.read(); what = data.decode('latin-1') if len(data) < 100 else hashlib.sha256(data).hexdigest()
        found[os.path.relpath(entry.path, b'.')] = stat.S_IFMT(at.st_mode), at.st_mode & 0o7777, what, at.st_mtime_ns
        if entry.is_dir(follow_symlinks=False): look(entry.path)
found = {}; look(b'.'); print(base64.b64encode(repr(found).encode()).decode())
"""
WRITE = "import os\nfor name in {names!r}: open(name, 'w').write({text!r})"


class UndoFiles:
    """The cases. A class below chooses the workspace."""

    def setUp(self):
        need_userns()

    def server(self, *args):
        return Server(*self.workspace, "--wait", f"{25 * SLOW:g}", *args)

    def look(self, server):
        """{name: (type, permissions, content, mtime)} of /work."""
        result = server.python(LOOK, fresh=True)
        self.assert_ok(result)
        return ast.literal_eval(base64.b64decode(result.output).decode())

    def contents(self, server):
        return {os.fsdecode(name): facts[2] for name, facts in self.look(server).items() if stat.S_ISREG(facts[0])}

    def undo(self, server, **arguments):
        result = server.python("", undo=True, **arguments)
        self.assertEqual(result.status.kind, "ok", result.text)
        return result

    def without_times_of_directories(self, found):
        return found

    def start_job(self, server, code, **arguments):
        """Returns when the job has run the code; it then sleeps."""
        result = server.python(f"import time; {code}; print('there', flush=True); time.sleep(600)", wait_s=0, timeout_s=600, **arguments)
        end = time.monotonic() + 20 * SLOW
        while "there" not in result.text and time.monotonic() < end:
            result = server.call("run_python", job=1, wait_s=1)
        self.assertIn("there", result.text)

    def write(self, server, text, *names, **arguments):
        self.assert_ok(server.python(WRITE.format(names=names, text=text), **arguments))

    # --- what comes back ---

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
            self.assertIn("undid <cell 2>, back to the state after <cell 1> (undo), variables back: x, "
                          "files removed: results.csv, written since by write_file and kept: report.md |", line)
            self.assertEqual(server.read("report.md").text, "WRONG")
            self.assert_ok(server.python("x = 3; open('b', 'w').close()"))
            self.assert_ok(server.python("x"))
            line = self.undo(server).status.line
            self.assertIn("undid <cell 3>, ", line)
            self.assertNotIn("write_file", line)

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
                self.assertRegex(result.text, "not reverted, may be yours or a program's: [^|]*fifo")
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

    def test_a_hard_linked_file(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; open('a', 'w').write('first'); os.link('a', 'b')"))
            self.assert_ok(server.python("open('a', 'w').write('second')"))
            self.assert_back_or_named(server, self.undo(server), {"a": "first", "b": "first"}, "b")

    def test_files_of_a_job(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.start_job(server, "open('a', 'w').write('job'); open('made', 'w').close()")
            result = server.python("", undo=True, wait_s=20 * SLOW)
            self.assertEqual(result.status.kind, "ok", result.text)
            self.assertEqual(self.contents(server), {"a": "first"})

    def test_what_a_job_changes_while_another_call_runs(self):
        job = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nopen('a', 'w').write('job'); time.sleep(600)"
        with self.server() as server:
            self.write(server, "first", "a")
            self.assertIn("running: job", server.python(server.here(job), wait_s=0, timeout_s=600).text)
            self.assert_ok(server.python(server.here("import time; open('theirs', 'w').close(); open('/tmp/go', 'w').close(); time.sleep(0.5)"), session="other"))
            self.assertEqual(self.contents(server), {"a": "job", "theirs": ""})
            self.assert_back_or_named(server, self.undo(server, session="other"), {"a": "job"}, "theirs")
            self.assert_back_or_named(server, server.python("", undo=True, wait_s=20 * SLOW), {"a": "first"}, "a")

    def assert_back_or_named(self, server, result, expected, name):
        """Whose change it was, where calls run beside each other, nobody knows: then it stays, and the result names it."""
        found = self.contents(server)
        self.assertEqual({other: text for other, text in found.items() if other != name and other in expected},
                         {other: text for other, text in expected.items() if other != name})
        if found.get(name) != expected.get(name):
            self.assertIn("not reverted", result.text)
            self.assertRegex(result.text, rf"\b{name}\b")

    def test_reset_leaves_files(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.assert_ok(server.python("", reset=True))
            self.assertEqual(self.contents(server), {"a": "first"})

    # --- what something else has changed since ---

    def assert_stays(self, server, change):
        self.write(server, "first", "a", "b")
        self.write(server, "second", "a", "b", "new")
        change()
        result = self.undo(server)
        self.assertEqual(self.contents(server), {"a": "other", "b": "first"})
        self.assertRegex(result.text, r"\ba\b")
        return result

    def test_a_file_that_write_file_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: server.write("a", "other"))

    def test_a_file_that_another_session_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: self.write(server, "other", "a", session="other"))

    def test_a_file_that_a_branch_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: self.write(server, "other", "a", branch=True))

    def test_a_file_that_a_running_job_changed_stays(self):
        def change():
            self.start_job(server, "open('a', 'w').write('other')", session="worker")

        with self.server() as server:
            self.assert_stays(server, change)
            self.assertIn("stopped", server.call("run_python", job=1, stop=True).text)

    def test_the_name_is_one_whole_entry_of_the_result(self):
        with self.server() as server:
            name = "kept by others.txt"
            self.write(server, "first", name)
            self.write(server, "second", name)
            server.write(name, "other")
            self.assertIn(name, self.undo(server).text)

    def test_only_what_the_call_itself_changed_goes_back(self):
        with self.server() as server:
            self.write(server, "first", "mine", "both")
            self.write(server, "other", "theirs", "both", session="other")
            self.write(server, "second", "mine", "both")
            self.write(server, "other again", "theirs", session="other")
            server.write("tool", "x")
            self.undo(server)
            self.assertEqual(self.contents(server), {"mine": "first", "both": "other", "theirs": "other again", "tool": "x"})

    def test_each_session_takes_back_its_own(self):
        with self.server() as server:
            for session in ("one", "two"):
                self.write(server, "first", "of_" + session, session=session)
            for session in ("one", "two"):
                self.write(server, "second", "of_" + session, session=session)
            self.undo(server, session="one")
            self.assertEqual(self.contents(server), {"of_one": "first", "of_two": "second"})
            self.undo(server, session="two")
            self.assertEqual(self.contents(server), {"of_one": "first", "of_two": "first"})

    def test_files_that_another_session_made_right_before_the_call(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"for i in range(40): open(f'f{{i}}', 'wb').write(b'1' * {MIB})", session="other"))
            self.assert_ok(server.python("for i in range(39, -1, -1): open(f'f{i}', 'w').write('x')"))
            self.undo(server)
            self.assert_prints(server.python("import os; print({os.path.getsize(f'f{i}') for i in range(40)})", session="reader"),
                               f"{{{MIB}}}")

    def test_a_new_file_in_a_directory_that_goes(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.makedirs('d'); open('d/a', 'w').close()"))
            self.write(server, "other", "d/b", session="other")
            self.undo(server)
            self.assertEqual(self.contents(server), {"d/b": "other"})

    def test_a_directory_that_a_symlink_has_replaced(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); open('d/a', 'w').write('first'); open('d/b', 'w').write('first')"))
            self.assert_ok(server.python("open('d/a', 'w').write('second'); os.remove('d/b')"))
            self.assert_ok(server.python("import os, tempfile; there = tempfile.mkdtemp(); open(there + '/a', 'w').write('elsewhere')\n"
                                         "os.rename('d', 'aside'); os.symlink(there, 'd')", session="other"))
            self.undo(server)
            self.assert_prints(server.python("print(open(there + '/a').read(), os.listdir(there))", session="other"), "elsewhere ['a']")

    def test_a_directory_that_a_file_tool_made_is_not_the_next_call_s(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            server.write("d/deep/a", "by the tool")
            self.assert_ok(server.python("import os; os.remove('d/deep/a'); open('d/b', 'w').close()"))
            result = self.undo(server)
            self.assertIn("files back: d/deep/a, files removed: d/b |", result.text)
            self.assertEqual(self.contents(server), {"d/deep/a": "by the tool"})

    # --- bounds ---

    def test_what_is_above_the_bound_is_named(self):
        with self.server("--undo-files", "1M") as server:
            self.assert_ok(server.python(f"open('big.bin', 'wb').write(b'1' * {3 * MIB}); open('small', 'w').write('first')"))
            result = server.python("open('big.bin', 'r+b').write(b'2'); open('small', 'w').write('second')")
            self.assertRegex(result.status.line, r"not kept for undo: [^|\]]*big\.bin")
            result = self.undo(server)
            self.assertRegex(result.text, r"(?:cannot revert|not reverted[^:]*): [^|\]]*big\.bin")
            found = self.contents(server)
            self.assertEqual(found["small"], "first")
            self.assertIn("big.bin", found)
            self.assertIsNone(server.python("open('small', 'w').write('x')").status.field("not kept"))

    def test_many_small_files_share_the_bound(self):
        with self.server("--undo-files", "1M") as server:
            self.assert_ok(server.python(f"for i in range(8): open(f'f{{i}}', 'wb').write(b'%d' % i * {MIB // 4})"))
            self.assert_ok(server.python("for i in range(8): open(f'f{i}', 'wb').write(b'x')"))
            result = self.undo(server)
            found = self.look(server)
            self.assertEqual(len(found), 8)
            named = re.search(r"(?:cannot revert|not reverted[^:]*): ([^|\]]*)", result.text)[1].strip().split(", ")
            for name, facts in found.items():
                self.assertEqual(facts[2] == "x", os.fsdecode(name) in named, (name, result.text))

    def test_without_a_bound_of_files_undo_takes_variables_only(self):
        with self.server("--undo-files", "0") as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            self.assert_ok(server.python("x = 2; open('a', 'w').write('second')"))
            result = server.python("print(x)", undo=True)
            self.assertIn("1", result.output.splitlines())
            self.assertEqual(self.contents(server), {"a": "second"})
            self.assertRegex(result.text, "files|cannot revert: a")

    def test_a_file_that_grows_while_it_is_copied(self):
        with self.server() as server:
            result = server.python("import time\nend = time.time() + 600\nwith open('log', 'w') as file:\n    while time.time() < end:\n"
                                   "        file.write('x' * 10000); file.flush(); time.sleep(0.001)\n",
                                   session="worker", wait_s=0, timeout_s=600)
            self.assertIn("running: job", result.text)
            for turn in range(5):
                self.write(server, "x", f"a{turn}")
                began = time.monotonic()
                result = self.undo(server)
                self.assertLess(time.monotonic() - began, 10 * SLOW)
                if f"'a{turn}'" in server.python("import os; print(os.listdir())", session="reader").output:
                    self.assertRegex(result.text, rf"not reverted[^:]*: [^|\]]*\ba{turn}\b")
            server.call("run_python", job=1, stop=True)

    def test_a_file_that_cannot_be_read(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; open('closed', 'w').write('first'); os.chmod('closed', 0)\nos.mkdir('d'); open('d/x', 'w').close(); os.chmod('d', 0)"))
            self.write(server, "x", "a")
            self.undo(server)
            self.assert_ok(server.python("import os; os.chmod('closed', 0o644); os.chmod('d', 0o755)"))
            self.assertEqual(self.contents(server), {"closed": "first", "d/x": ""})


    def test_a_file_in_a_directory_that_the_call_closed(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); open('d/a', 'w').write('first'); open('d/b', 'w').write('first')"))
            self.assert_ok(server.python("import os; open('d/a', 'w').write('second'); open('d/new', 'w').close(); os.chmod('d', 0)"))
            result = self.undo(server)
            found = self.contents(server)
            self.assertEqual(found["d/b"], "first")
            for name, text in {"d/a": "first", "d/new": None}.items():
                if found.get(name) != text:
                    self.assertRegex(result.text, rf"(?:cannot revert|not reverted[^:]*): [^|\]]*\b{name}\b")


class Filling:
    """For workspaces in memory."""

    def test_an_open_file_goes_back_with_the_variables(self):
        with self.server() as server:
            self.assert_ok(server.python("a = open('a', 'a+', buffering=1); a.write('first\\n')\n"
                                         "old = open('b', 'w+'); old.write('b'); import os; os.remove('b'); open('b', 'w').close()"))
            self.write(server, "second", "a")
            self.undo(server)
            result = server.python("a.write('third\\n'); old.seek(0); print(open('a').read(), old.read(), end='')")
            self.assertEqual(result.output, "first\nthird\n b")
            self.assertIn("open files now refer to the restored ones: a", result.text)
            self.assertNotIn("refer", server.python("a.close()").text)

    def test_files_that_fill_the_memory(self):
        for more in ((), ("--undo-files", "1G")):
            with self.subTest(more=more), self.server("--memory", "256M", *more) as server:
                self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
                result = server.python("x = 2; open('a', 'w').write('second')\n"
                                       "for i in range(100): open(f'f{i}', 'wb').write(b'1' * (10 << 20))\n", timeout_s=60, _timeout=90)
                if result.status.state == "kept":
                    self.assert_prints(server.python("print(x)"), "2")
                server.python("import os\nfor name in os.listdir(): os.remove(name)")
                self.assert_alive(server)


class KeeperDies(Case):
    """The process that keeps files is killed from outside: calls go on, and no undo pretends to have put files back."""

    def setUp(self):
        need_userns()

    @staticmethod
    def kill(server):
        end = time.monotonic() + 10 * SLOW
        while time.monotonic() < end:  # after the last one's death another one starts
            for pid in descendants(server.pid):
                with contextlib.suppress(OSError):
                    if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sp-keeper\n":
                        os.kill(pid, signal.SIGKILL)
                        return
        raise AssertionError("no keeper")

    def assert_goes_on(self, server):
        """After the death of a keeper that knew x = 1 and a = first, and a call that wrote second."""
        result = server.python("print(x)", undo=True)
        self.assertIn("1", result.output.splitlines())
        back = server.python("print(open('a').read())", fresh=True).output
        if back != "first":
            self.assertRegex(result.text, r"files are not rolled back|cannot revert: [^|\]]*\ba\b")
        self.assert_ok(server.python("x = 3; open('b', 'w').write('third')"))
        self.assert_ok(server.python("x = 4; open('b', 'w').write('fourth')"))
        self.assert_ok(server.python("", undo=True))
        self.assert_prints(server.python("print(x, open('b').read())"), "3 third")

    def test_at_rest(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            self.kill(server)
            self.assert_ok(server.python("x = 2; open('a', 'w').write('second')"))
            self.assert_goes_on(server)

    def test_during_a_call(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            call = server.start_call("run_python", code="import time; x = 2; open('a', 'w').write('second'); time.sleep(1)")
            time.sleep(0.5)
            self.kill(server)
            self.assert_ok(server.finish_call(call))
            self.assert_goes_on(server)

    def test_again_and_again(self):
        with Server() as server:
            for turn in range(6):
                call = server.start_call("run_python", code=f"x = {turn}; open('a', 'w').write('x' * {turn})", **({"undo": True} if turn == 4 else {}))
                time.sleep(turn * 0.002)
                self.kill(server)
                server.finish_call(call)
                server.look()
            self.assert_alive(server)


@once
class Memory(Filling, UndoFiles, Case):
    workspace = ()


class Present:
    """A directory that has files before the server starts."""

    def setUp(self):
        super().setUp()
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-undo-"))
        self.temp.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)
        self.dir = self.temp / "project"
        self.dir.mkdir()
        give_away(self.dir)
        self.workspace = ("--workspace", str(self.dir))

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


class Directory(Present, UndoFiles, Case):
    def without_times_of_directories(self, found):
        return {name: facts[:3] if stat.S_ISDIR(facts[0]) else facts for name, facts in found.items()}

    def test_files_that_the_user_made_right_before_the_call(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            for i in range(40):
                (self.dir / f"f{i}").write_bytes(b"u" * MIB)
                (self.dir / f"f{i}").chmod(0o666)
                give_away(self.dir / f"f{i}")
            self.assert_ok(server.python("for i in range(39, -1, -1): open(f'f{i}', 'w').write('x')"))
            self.undo(server)
            self.assertEqual([path.name for path in sorted(self.dir.iterdir()) if path.stat().st_size != MIB], [])
            self.assertEqual(len(list(self.dir.iterdir())), 40)

    def test_a_file_that_the_user_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: (self.dir / "a").write_text("other"))

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


class Cow(Filling, Present, UndoFiles, Case):
    def setUp(self):
        need_overlay()
        super().setUp()

    def server(self, *args):
        return super().server(*cow_flags(self, *args))

    def tearDown(self):
        if hasattr(self, "dir") and not self._testMethodName.startswith(("test_files_that_were", "test_after_an_apply", "test_a_tree_that_was")):
            self.assertEqual(os.listdir(self.dir), [])

    def test_undo_does_not_reach_back_over_a_discard(self):
        (self.dir / "a").write_text("as it was")
        give_away(self.dir / "a")
        with self.server() as server:
            self.write(server, "by code", "a", "b")
            self.assertTrue(server.call("apply_changes", discard=True).text.startswith("discarded 2 of 2"))
            self.assertEqual(self.contents(server), {"a": "as it was"})
            server.python("", undo=True)
            self.assertEqual(self.contents(server), {"a": "as it was"})
            self.write(server, "again", "a")
            self.undo(server)
            self.assertEqual(self.contents(server), {"a": "as it was"})
        (self.dir / "a").unlink()

    def test_after_an_apply_the_workspace_goes_back_and_the_directory_stays(self):
        with self.server() as server:
            self.write(server, "first", "a", "b")
            self.write(server, "second", "a")
            self.assertTrue(server.call("apply_changes").text.startswith("applied 2 of 2"))
            result = self.undo(server)
            self.assertEqual(self.contents(server), {"a": "first", "b": "first"})
            self.assertEqual((self.dir / "a").read_text(), "second")
            self.assertRegex(result.text, "appl")
            self.assertIn("~ a", server.call("list_changes").text)
            self.undo(server)
            self.assertEqual(self.contents(server), {})
            self.assertEqual(set(os.listdir(self.dir)), {"a", "b"})

    def test_undo_names_files_and_not_the_directories_that_hold_them(self):
        (self.dir / "d" / "deep").mkdir(parents=True)
        for name in ("d/deep/a", "d/touched"):
            (self.dir / name).write_text("as it was")
        give_away(self.dir)
        with self.server() as server:
            self.assert_ok(server.python("import os\nopen('d/deep/a', 'w').close(); os.utime('d/touched', (1, 1))"))
            self.assertIn("files back: d/deep/a]", self.undo(server).text)
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
