"""Undo and named states: the resulting state, the cost, and the message if a state is unavailable."""
import shutil
import tempfile
import unittest

from client import CONTAINER, Case, Server, give_away, once, writable_cgroup

KILL = "import os; os.kill(os.getpid(), 9)"


class Back(Case):
    """What an undo or a restore has left is kept, variables and files."""
    flags = ()

    def look(self, server, **arguments):
        result = server.python("print(x, open('f').read())", **arguments)
        self.assertFalse(result.is_error, result.text)
        return result.output.strip(), result.status.line

    def test_an_undo_is_taken_back(self):
        with Server(*self.flags) as server:
            for n in (1, 2):
                self.assert_ok(server.python(f"x = {n}; open('f', 'w').write('text {n}')"))
            output, line = self.look(server, undo=True)
            self.assertEqual(output, "1 text 1")
            self.assertIn('to take this back: restore "before-undo"', line)
            for expected in ("2 text 2", "1 text 1", "2 text 2"):
                self.assertEqual(self.look(server, restore="before-undo")[0], expected)

    def test_after_other_work(self):
        with Server(*self.flags) as server:
            for n in (1, 2):
                self.assert_ok(server.python(f"x = {n}; open('f', 'w').write('text {n}')"))
            self.assert_ok(server.python("", undo=True))
            for n in range(3, 12):
                self.assert_ok(server.python(f"x = {n}; open('f', 'w').write('text {n}')", checkpoint=f"n{n}"))
            self.assertEqual(self.look(server, restore="before-undo")[0], "2 text 2")
            self.assertEqual(self.look(server, restore="n5")[0], "5 text 5")
            self.assertEqual(self.look(server, restore="before-undo")[0], "2 text 2")

    def test_after_a_crash(self):
        with Server(*self.flags) as server:
            self.assert_ok(server.python("x = 1; open('f', 'w').write('text 1')"))
            self.assertTrue(server.python("open('f', 'w').write('text 2')\n" + KILL).is_error)
            self.assertEqual(self.look(server, undo=True)[0], "1 text 1")
            self.assertEqual(self.look(server, restore="before-undo")[0], "1 text 2")

    def test_of_the_first_call_nothing_is_kept(self):
        with Server(*self.flags) as server:
            self.assert_ok(server.python("x = 1"))
            self.assertNotIn("before-undo", server.python("", undo=True).text)
            self.assertIn("No state has a name.", server.python("", restore="before-undo").text)

    def test_of_the_first_call_the_files_are_kept(self):
        with Server(*self.flags) as server:
            self.assert_ok(server.python("x = 1; open('f', 'w').write('first')"))
            line = server.python("", undo=True).status.line
            self.assertIn('variables removed: x, files removed: f | to have its files back: restore "before-undo"', line)
            for turn in range(2):  # there and back
                line = server.python("", restore="before-undo").status.line
                self.assertRegex(line, 'restored "before-undo": the files are those before the undo, variables stay as they are, files back: f')
                self.assert_prints(server.python("print(open('f').read(), 'x' in globals())", fresh=True), "first False")
                self.assertIn("files removed: f", server.python("", restore="before-undo").status.line)
            self.assertFalse(server.python("y = 2; open('g', 'w').close()").is_error)
            self.assert_prints(server.python("print(open('f').read(), y)", restore="before-undo"), "first 2")
            self.assertIn("files removed: f", server.python("", undo=True).status.line)
            self.assert_prints(server.python("print(y)"), "2")

    def test_of_the_first_call_after_a_failover_and_a_reset(self):
        with Server(*self.flags) as server:
            self.assert_ok(server.python("x = 1; open('f', 'w').write('first')", session="other"))
            self.assert_ok(server.python("x = 1; open('g', 'w').write('first')"))
            self.assert_ok(server.python("", undo=True))
            self.assertTrue(server.python("open('h', 'w').close()\n" + KILL).is_error)
            self.assertIn("files back: g", server.python("", restore="before-undo").text)
            self.assert_prints(server.python("import os; print(sorted(os.listdir()))", fresh=True), "['f', 'g']")
            self.assert_ok(server.python("", undo=True, session="other"))
            self.assertTrue(server.python("1", undo=True, session="other").is_error)
            self.assertIn("files back: f", server.python("", restore="before-undo", session="other").text)
            self.assert_ok(server.python("z = 1"))
            self.assert_ok(server.python("", reset=True))
            self.assertIn("No state has a name.", server.python("", restore="before-undo").text)

    def test_the_name_is_the_server_s(self):
        with Server(*self.flags) as server:
            result = server.python("x = 1", checkpoint="before-undo")
            self.assertTrue(result.is_error)
            self.assertIn("choose another one", result.text)


class BackInADirectory(Back):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        give_away(self.dir)
        self.flags = ("--workspace", self.dir)


@once
class Undo(Case):
    def test_undo_goes_back_call_by_call(self):
        with Server() as server:
            for number in range(1, 5):
                self.assert_ok(server.python(f"x = {number}"))
            for number in (3, 2):
                result = server.python("", undo=True)
                self.assert_ok(result)
                self.assertIn(f"state: undid <cell {number + 1}>: back to the state after <cell {number}>, "
                              "variables back: x, workspace files unchanged",
                              result.status.line)
                self.assertTrue(result.text.startswith("[ok"), result.text)
            self.assert_prints(server.python("print(x)", undo=True), "1")
            self.assert_prints(server.python("print(x * 10)"), "10")

    def test_the_variables_that_went_are_named(self):
        with Server() as server:
            self.assert_ok(server.python("n = [1]; a = 1; old = 0"))
            self.assert_ok(server.python("n.append(2); a = 2; b = {}; del old"))
            line = server.python("", undo=True).status.line
            self.assertIn("after <cell 1>, variables removed: b, variables back: a, old, workspace files unchanged", line)
            line = server.python("", restore="before-undo").status.line
            self.assertIn("variables removed: old, variables back: a, b, workspace files unchanged", line)
            self.assert_ok(server.python("", undo=True))
            line = server.python("", undo=True).status.line
            self.assertIn("before the first call, variables removed: n, a, old, workspace files unchanged", line)

    def test_the_modules_that_went_are_named(self):
        with Server() as server:
            self.assert_ok(server.python("a = 1", checkpoint="loaded"))
            self.assertNotIn("js", server.python("import json as js; b = 2").status.line)
            line = server.python("", restore="loaded").status.line
            self.assertIn("variables removed: b, js,", line)
            self.assertIn("variables back: b, js,", server.python("", restore="before-undo").status.line)

    def test_a_name_of_another_session_is_found(self):
        with Server() as server:
            self.assert_ok(server.python("a = 1", checkpoint="two"))
            text = server.python("", restore="two", session="reader").text
            self.assertIn('no state is named "two". No state has a name. Session "default" has one of this name.', text)
            self.assertNotIn("has one of", server.python("", restore="three", session="reader").text)

    def test_code_that_only_looks_is_no_step(self):
        with Server() as server:
            self.assert_ok(server.python("n = [1]; from collections import defaultdict; d = defaultdict(list); open('f', 'w').close(); name = 'f'"))
            for number in (2, 3, 4):
                self.assert_ok(server.python(f"n.append({number})"))
            for code in ("n", "print(n, len(n), f'{n[0]:>3}', sep=';')", "", "# nothing", "n + n[:1]", "(", "absent", "n[9]",
                         "%%nonsense", "[i for i in n if i]", "open('f').readline()", "open('f', 'rb').read()[:9]",
                         "open('f', encoding='ascii').readlines()", "len(open(name).read())", "open(name, 'rb').read()[:9]", "import os; os.listdir()[:1], os.path.exists('f')", "{}.items()"):
                server.python(code)
            for left in ([1, 2, 3], [1, 2], [1]):
                self.assertIn(f"Out: {left}\n", server.python("n", undo=True).text)
            self.assertIn("Nothing was undone", server.python("n", undo=True).text)
            self.assertIn("Out: [1, 2]\n", server.python("n", restore="before-undo").text)

    def test_code_that_may_do_more_is_a_step(self):
        with Server() as server:
            self.assert_ok(server.python(
                "n = [1]; from collections import defaultdict; d = defaultdict(list); g = (n.append(i) for i in range(9))\n"
                "def len(_): n.append(0)\nopen('f', 'w').close()\n"
                "class Own:\n    def info(self): n.append(0)\n    def __fspath__(self): n.append(0); return 'f'\nown = Own(); mode = 'w'\n"
                "import logging; log = logging.getLogger(); log.addHandler(logging.FileHandler('f')); log.setLevel(10)"))
            for code in ("n.pop()", "d['new']", "list(g)", "len(n)", "sorted([1], key=n.append)", "print(2, file=open('f', 'w'))",
                         "[n.append(i) for i in n[:1]]", "(n := 5)", "n[0] = 2", "n[7] = n.append(4)", "del n", "import json",
                         "open('f', 'w').read()", "open('f', mode='a')", "open('f', opener=lambda *_: n.append(0)).read()", "[i for i in g]",
                         "!rm f", "print(n, await d)",
                         "own.info()", "open(own).read()", "len(open('f', mode).name)", "log.info('x')", "logging.info('x')"):
                with self.subTest(code):
                    server.python(code)
                    self.assertIn("Out: ([1], {}, '')\n", server.python("n, dict(d), open('f').read()", undo=True).text)

    def test_undo_with_code_that_only_looks_is_no_step(self):
        """The code of an undo, as of other calls: what the next one takes back is the last call that may have changed something."""
        read = "import json\nfrom pathlib import Path\n"
        with Server() as server:
            self.assert_ok(server.python(read + "Path('f').write_text('1'); n = [1]"))
            for number in (2, 3):
                self.assert_ok(server.python(f"Path('f').write_text('{number}'); n.append({number})"))
            for code in ("print(Path('f').read_text())", "with open('f') as f: print(f.read())", "!cat f", "for one in n: print(one)"):
                self.assert_ok(server.python(code))
            self.assert_prints(server.python("print(json.load(open('f')))", undo=True), "2")
            self.assert_prints(server.python("with open('f') as f: print(f.read())", undo=True), "1")
            self.assertIn("Out: [1]\n", server.python("n").text)

    def test_queries_and_what_failed_before_it_changed_anything_are_no_step(self):
        with Server() as server:
            self.assert_ok(server.python(
                "import sqlite3; d = sqlite3.connect('d'); d.executescript('create table t(a); insert into t values (1), (2)')\n"
                "own = sqlite3.connect('d'); n = []; own.create_function('f', 0, lambda: n.append(1)); c = sqlite3.connect('d'); c.close()"))
            self.assert_ok(server.python("d.execute('delete from t where a = 1'); d.commit(); n.append(0)"))
            for code in ("d.execute('select count(*) from t').fetchall()", "print(d.execute('SELECT a FROM t WHERE a IN (?)', (2,)).fetchone())",
                         "[row for row in d.execute('select * from t')]", "d.execute('explain select 1').fetchall()",
                         "d.execute('pragma table_info(t)').fetchall()", "c.execute('delete from t')", "rows = c.execute('select 1').fetchall()",
                         "c.commit()", "input('?')", "name = input()", "x = missing\nn.append(1)"):
                server.python(code)
            self.assertIn("Out: [1, 2]\n", server.python("[row[0] for row in sqlite3.connect('d').execute('select a from t')]", undo=True).text)

    def test_queries_that_may_do_more_are_steps(self):
        with Server() as server:
            self.assert_ok(server.python(
                "import sqlite3; d = sqlite3.connect('d'); n = []; d.create_function('f', 0, lambda: n.append(1)); d.execute('create table t(a)')\n"
                "r = sqlite3.connect('d'); r.row_factory = lambda *_: n.append(1)\n"
                "class Own:\n    def __setitem__(self, key, value): n.append(1); 1 / 0\nown = Own()"))
            for code in ("d.execute('select f()').fetchall()", "d.execute('select f ()').fetchall()", "d.execute('select \"f\"()').fetchall()",
                         "r.execute('select 1').fetchall()", "d.execute('pragma user_version = 2')", "d.execute('pragma user_version(2)')",
                         "d.execute('insert into t values (1)'); d.commit()", "own[0] = 1", "x = n.append(1) or missing", "y = 1; x = missing"):
                with self.subTest(code):
                    server.python(code)
                    self.assertIn("Out: ([], False)\n", server.python("n, 'y' in vars()", undo=True).text)

    def test_a_bad_call_is_tried_again(self):
        with Server() as server:
            self.assert_ok(server.python("rows = [1]"))
            self.assert_ok(server.python("rows.append('wrong')"))
            for value in ("better", "best"):
                self.assert_prints(server.python(f"rows.append({value!r}); print(rows)", undo=True),
                                   f"[1, '{value}']")

    def test_undo_of_an_undo_goes_further_back(self):
        with Server() as server:
            for code in ("x = 1", "x = 2", "x = 3"):
                self.assert_ok(server.python(code))
            self.assert_ok(server.python("", undo=True))
            self.assert_prints(server.python("print(x)", undo=True), "1")

    def test_after_an_error_a_timeout_and_a_crash(self):
        with Server() as server:
            self.assert_ok(server.python("x = []"))
            for code, more in (("x.append(1); 1/0", {}),
                               ("x.append(2)\nwhile True: pass", {"timeout_s": 0.3}),
                               ("x.append(3)\n" + KILL, {})):
                with self.subTest(code=code):
                    self.assertTrue(server.python(code, **more).is_error)
                    self.assert_prints(server.python("print(x)", undo=True), "[]")

    def test_undo_of_the_first_call_gives_a_fresh_interpreter(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1"))
            result = server.python("print('x' in globals())", undo=True)
            self.assert_prints(result, "False")
            self.assertIn("back to the state before the first call", result.status.line)

    def test_undo_without_a_previous_call_is_an_error(self):
        with Server() as server:
            result = server.python("print('not run')", undo=True)
            self.assertTrue(result.is_error)
            self.assertIn("Nothing was undone: no call has changed this session", result.text)
            for number in range(6):
                self.assert_ok(server.python(f"x = {number}"))
            for _ in range(3):
                self.assert_ok(server.python("", undo=True))
            result = server.python("", undo=True)
            self.assertTrue(result.is_error)
            self.assertIn("goes back up to 3 calls", result.text)
            self.assert_prints(server.python("print(x)"), "2")

    def test_undo_takes_back_directories_and_processes(self):
        with Server() as server:
            self.assert_ok(server.python("import os, subprocess\nos.mkdir('deep')"))
            self.assert_ok(server.python("os.chdir('deep'); open('new', 'w').close()\n"
                                         "child = subprocess.Popen(['sleep', '1000'])\n"
                                         "child_pid = child.pid"))
            pid = server.python("print(child_pid)").output
            self.assert_prints(server.python(f"print(os.getcwd(), os.listdir('deep'), "
                                             f"os.path.exists('/proc/{pid}'))", undo=True),
                               server.here("/work [] False"))

    @unittest.skipIf(CONTAINER, "without /proc the names of removed directories are not known")
    def test_undo_enters_a_directory_again_that_was_removed(self):
        use = "print(os.listdir(), os.listdir(d), os.getcwd())"
        with Server() as server:
            self.assert_ok(server.python("import os, shutil; os.makedirs('a/b/c'); os.chdir('a/b'); d = os.open('.', os.O_RDONLY)"))
            for dying in "", KILL:
                server.python("shutil.rmtree(os.path.dirname(os.getcwd()))\n" + dying)
                self.assert_prints(server.python(use, undo=True), "['c'] ['c'] /work/a/b")

    @unittest.skipIf(CONTAINER, "without /proc it is named in any case, or not at all")
    def test_a_read_only_mapping_of_a_file_that_was_replaced_is_named(self):
        with Server() as server:
            self.assert_ok(server.python("import mmap; _ = [open(name, 'w').write('old') for name in 'ab']\n"
                                         "m, n = (mmap.mmap(file.fileno(), 3, access=mmap.ACCESS_READ) for file in map(open, 'ab'))"))
            self.assert_ok(server.python("_ = open('a', 'w').write('new')"))
            self.assertIn('"m (mmap.mmap): shared memory, which undo', server.python("m[:]", undo=True).status.line)

    def test_random_state_goes_back(self):
        with Server() as server:
            self.assert_ok(server.python("import random\nrandom.seed(7)"))
            first = server.python("print(random.random())").output
            for _ in range(2):
                self.assert_prints(server.python("print(random.random())", undo=True), first)

    def test_a_low_process_limit_allows_no_undo(self):
        with Server("--pids", "12") as server:
            self.assert_ok(server.python("x = 1"))
            self.assertIn("no earlier state is kept", server.python("", undo=True).text)
            self.assertIn("restored", server.python(KILL).status.line)

    def test_sessions_apart(self):
        with Server() as server:
            for value in (1, 2):
                for name in ("a", "b"):
                    self.assert_ok(server.python(f"x = '{name}{value}'", session=name))
            self.assert_ok(server.python("", session="a", undo=True))
            for name, value in (("a", 1), ("b", 2)):
                self.assert_prints(server.python("print(x)", session=name), f"{name}{value}")


@once
class Named(Case):
    def test_several_variants_from_one_state(self):
        with Server() as server:
            result = server.python("data = [1, 2, 3]", checkpoint="loaded")
            self.assert_ok(result)
            self.assertIn('checkpoint: saved as "loaded"', result.status.line)
            for name, code in (("a", "data.append(sum(data))"), ("b", "data.clear()")):
                self.assert_ok(server.python(code, restore="loaded", checkpoint=name))
            for name, text in (("a", "[1, 2, 3, 6]"), ("b", "[]"), ("loaded", "[1, 2, 3]"), ("a", "[1, 2, 3, 6]")):
                result = server.python("print(data)", restore=name)
                self.assert_prints(result, text)
                self.assertRegex(result.status.line, f'restored "{name}": back to the state [^,]*, workspace files unchanged')

    def test_survives_crashes_and_being_restored(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            for number in range(4):
                self.assert_ok(server.python(f"x += 10; y = {number}", restore="base"))
                self.assertIn("restored", server.python("x = 5\n" + KILL).status.line)
                result = server.python("x = 6\n" + KILL, restore="base")
                self.assertIn("then restored to that state", result.status.line)
                self.assert_prints(server.python("print(x)"), "1")

    def test_restore_can_be_undone(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            self.assert_ok(server.python("x = 2"))
            self.assert_ok(server.python("x += 10", restore="base"))
            self.assert_prints(server.python("print(x)", undo=True), "2")

    def test_restore_without_code(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assertIn('saved as "one"', server.python("", checkpoint="one").status.line)
            self.assert_ok(server.python("x = 2"))
            self.assertIn("back to the state after <cell 1>", server.python("", restore="one").status.line)
            self.assert_prints(server.python("print(x)"), "1")

    def test_a_failed_call_is_not_saved(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            result = server.python("x = 2; 1/0", checkpoint="base")
            self.assertIn('checkpoint: not saved as "base": the call failed', result.status.line)
            self.assert_prints(server.python("print(x)", restore="base"), "1")

    def test_an_unknown_name_lists_the_known_ones(self):
        with Server() as server:
            self.assertIn("No state has a name.", server.python("1", restore="bass").text)
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            result = server.python("print('not run')", restore="bass")
            self.assertTrue(result.is_error)
            self.assertEqual(result.text.strip(),
                             'Nothing was run: no state is named "bass". Named states: "base"')

    def test_the_oldest_named_state_is_dropped_and_reported(self):
        with Server() as server:
            for number in range(8):
                self.assert_ok(server.python(f"x = {number}", checkpoint=f"n{number}"))
            self.assertIn('saved as "n8"; the oldest, "n0", was dropped',
                          server.python("x = 8", checkpoint="n8").status.line)
            for number in (1, 8, 5):
                self.assert_prints(server.python("print(x)", restore=f"n{number}"), str(number))
            self.assertTrue(server.python("", restore="n0").is_error)

    def test_reset_drops_named_states_and_reports_it(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            line = server.python("1", reset=True).status.line
            self.assertIn("| note: reset has dropped the named states too", line)
            self.assertNotIn("since the last result", line)
            self.assertTrue(server.python("1", restore="base").is_error)

    def test_one_named_state_is_dropped(self):
        with Server() as server:
            self.assert_ok(server.python("rows = 3", checkpoint="raw"))
            self.assert_ok(server.python("rows = 2", checkpoint="clean"))
            self.assert_ok(server.python("rows = 1", checkpoint="-tiny"))
            result = server.python("rows += 10; rows", drop="clean")
            self.assertIn("Out: 11\n", result.text)
            self.assertIn('| named states: "clean" dropped, left: "raw", "-tiny"', result.status.line)
            self.assertEqual(server.python("1", drop="clean").text.strip(),
                             'Nothing was run: no state is named "clean". Named states: "raw", "-tiny"')
            self.assertIn('"raw" dropped, left: "-tiny"', server.call("run_python", drop="raw").status.line)
            self.assert_prints(server.python("print(rows)"), "11")
            self.assertIn('"-tiny" dropped, left: "last" | checkpoint: saved as "last"',
                          server.python("", drop="-tiny", checkpoint="last").status.line)
            self.assert_prints(server.python("print(rows)", restore="last"), "11")
            self.assertFalse(server.python("", drop="last").is_error)
            self.assertIn('Named states: "before-undo"', server.python("1", drop="last").text)
            self.assertIn('"before-undo" dropped, none left', server.python("", drop="before-undo").text)
            self.assertIn("No state has a name.", server.python("1", drop="last").text)

    def test_a_dropped_state_frees_its_memory(self):
        if not writable_cgroup("memory"):
            self.skipTest("no control group counts")
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("state = bytearray(b'x') * (100 << 20)", checkpoint="table"))
            self.assert_ok(server.python("del state"))
            self.assert_ok(server.python("", drop="table"))
            for number in range(3):  # undo no longer leads there
                self.assert_ok(server.python(f"number = {number}"))
            result = server.python("state = bytearray(b'y') * (180 << 20)")
            self.assert_ok(result)
            self.assertNotIn("in use", result.status.line)

    def test_a_cancelled_call_reports_the_name_that_it_dropped(self):
        with Server() as server:
            self.assert_ok(server.python("import time", checkpoint="old"))
            number = server.start_call("run_python", code="open('begun', 'w'); time.sleep(60)", drop="old")
            while "begun" not in server.python("import os; print(os.listdir())", session="other").output:
                pass
            server.cancel(number)
            self.assertIn('since the last result: named states: "old" dropped, none left', server.python("1").status.line)

    def test_undo_of_the_first_call_keeps_named_states(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="base"))
            self.assertIn("Nothing was undone", server.python("", undo=True).text)
            self.assert_prints(server.python("print(x)"), "1")

    def test_a_named_state_killed_by_the_code_is_reported(self):
        with Server() as server:
            self.assert_ok(server.python("import os", checkpoint="base"))
            self.assert_ok(server.python("x = 2"))
            # init reports its death, the session sends the result: neither waits for the other.
            lines = server.python("os.kill(-1, 9)").status.line
            calls = 0
            while 'the state "base" is lost' not in lines and calls < 50:
                lines = server.python("import time; time.sleep(.05)").status.line
                calls += 1
            self.assertIn('the state "base" is lost', lines)
            self.assertTrue(server.python("", restore="base").is_error)
            self.assert_prints(server.python("print(x)"), "2")

    def test_contradicting_state_arguments_are_refused(self):
        with Server() as server:
            for arguments in ({"undo": True, "restore": "a"}, {"undo": True, "reset": True},
                              {"restore": "a", "reset": True}, {"fresh": True, "undo": True},
                              {"fresh": True, "checkpoint": "a"}, {"fresh": True, "drop": "a"},
                              {"undo": True, "drop": "a"}, {"restore": "a", "drop": "a"}, {"reset": True, "drop": "a"}):
                self.assertTrue(server.python("print('not run')", **arguments).is_error)

    def test_queued_calls_keep_their_order(self):
        with Server() as server:
            self.assert_ok(server.python("x = 0", checkpoint="base"))
            ids = [server.start_call("run_python", code=code, **more) for code, more in (
                ("x += 1", {}), ("x += 10; x", {"restore": "base"}), ("", {"undo": True}), ("x", {}))]
            self.assertIn("Out: 1\n", [server.finish_call(number) for number in ids][-1].text)


KILL_NEWEST_COPY = """
import os
def is_copy(pid):
    try: return "sp-checkpoint" in open(f"/proc/{pid}/comm").read()
    except OSError: return False
copies = []
while len(copies) < 2:  # that of the last call takes its name when it runs
    copies = sorted(filter(is_copy, map(int, filter(str.isdigit, os.listdir("/proc")))))
newest = copies[-1]
os.kill(newest, 9)
while is_copy(newest): pass
"""


@once
class Lost(Case):
    def test_lost_threads_are_reported(self):
        with Server() as server:
            self.assert_ok(server.python("import threading, time\nfor _ in range(2): threading.Thread("
                                         "target=time.sleep, args=(1000,), daemon=True).start()"))
            result = server.python(KILL)
            self.assertIn("restored to the state before this call", result.status.line)
            self.assertIn("threads: 2 lost", result.status.line)
            self.assert_prints(server.python("print(threading.active_count())"), "1")
            self.assertNotIn("threads", server.python(KILL).status.line)

    def test_lost_variables_are_named(self):
        with Server() as server:
            self.assert_ok(server.python("import os\ndf, model = [1], 2\ncfg = 3\ndel cfg"))
            result = server.python("os.kill(-1, 9); os._exit(1)")
            self.assertIn("state: lost (a new interpreter starts, files kept, variables lost: df, model, os)",
                          result.status.line)

    def test_variables_that_went_back_to_older_values_are_named(self):
        with Server() as server:
            self.assert_ok(server.python("total, rate, unit = 10, 0.5, 'kg'"))
            self.assert_ok(server.python("total = 20\nrate = 0.7\nextra = 1"))
            result = server.python(KILL_NEWEST_COPY + "unit = 'g'\n" + KILL)
            self.assertIn("restored to the state after <cell 1>; later changes lost (variables lost: extra); "
                          "back to older values: total, rate (objects changed in place are not listed)",
                          result.status.line)
            self.assertNotIn("unit", result.status.line)
            self.assert_prints(server.python("print(total, rate, unit)"), "10 0.5 kg")
            self.assertNotIn("older", server.python(KILL).status.line)

    def test_lost_variables_of_later_calls_are_named(self):
        with Server() as server:
            self.assert_ok(server.python("small = 1"))
            self.assert_ok(server.python("big = [2]"))
            result = server.python(KILL_NEWEST_COPY + KILL)
            self.assertIn("restored to the state after <cell 1>; later changes lost (variables lost: big)",
                          result.status.line)
            self.assert_prints(server.python("print(small, 'big' in globals())"), "1 False")


@once
class Structured(Case):
    def test_the_states_have_their_own_fields(self):
        calls = (
            ({"code": "x = 1", "checkpoint": "one"}, {"checkpoint": {"name": "one", "saved": True}}),
            ({"code": "x = 2; 1/0", "checkpoint": "two"},
             {"checkpoint": {"name": "two", "saved": False, "reason": "the call failed"}}),
            ({"code": "", "undo": True}, {"went_back": {"by": "undo", "cell": 1, "left": "before-undo", "files": "workspace files unchanged"}}),
            ({"code": KILL, "restore": "one"}, {"state": "restored to the state before this call",
                                                "went_back": {"by": "restore", "cell": 1, "name": "one", "left": "before-undo",
                                                              "files": "workspace files unchanged"}}),
            ({"code": "import os; os.kill(-1, 9); os._exit(1)"}, {"gone": "x"}),
        )
        with Server("--structured") as server:
            for arguments, expected in calls:
                with self.subTest(arguments):
                    form = server.call("run_python", **arguments).raw["structuredContent"]
                    said = {name: form.get(name) for name in ("went_back", "checkpoint", "restored_cell", "gone")}
                    self.assertEqual({name: form[name] for name in expected}, expected)
                    self.assertEqual({name for name, value in said.items() if value is not None},
                                     set(expected) - {"state"})


class Memory(Case):
    def test_the_call_dies_and_the_named_state_stays(self):
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("data = bytearray(40 << 20)", checkpoint="base"))
            for _ in range(2):
                result = server.python("filler = []\nwhile True: filler.append(bytearray(8 << 20))",
                                       timeout_s=60)
                self.assert_kind(result, "out of memory")
                self.assertIn("restored to the state before this call", result.status.line)
            self.assert_prints(server.python("print(len(data))", restore="base"), str(40 << 20))

    def test_undo_states_are_dropped_when_memory_is_short(self):
        with Server("--memory", "256M") as server:
            for number in range(8):  # each replaces the data of the one before
                self.assert_ok(server.python(f"data = bytearray(b'{number}') * (60 << 20)"))
            self.assert_prints(server.python("print(data[0] - 48)"), "7")


if __name__ == "__main__":
    unittest.main()
