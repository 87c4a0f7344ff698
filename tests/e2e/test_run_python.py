"""run_python: what persists, what is captured, and what the answer looks like."""
import re
import time
import unittest

from client import DURATION, SLOW, Case, Server, Shared


class State(Shared):
    def test_variables_functions_classes_and_imports_persist(self):
        self.assert_ok(self.server.python("import math\nx = 5\ndef f(n): return n * x\n"
                                          "class A:\n    def g(self): return 'g'\na = A()"))
        self.assert_prints(self.server.python("print(f(2), a.g(), math.pi > 3, A().g())"),
                           "10 g True g")

    def test_an_exception_keeps_what_was_done_before_it(self):
        result = self.server.python("before = 1\nraise ValueError('no')\nafter = 1")
        self.assert_kind(result, "error")
        self.assertEqual(result.status.state, "kept")
        self.assert_prints(self.server.python("print(before, 'after' in globals())"), "1 False")

    def test_sessions_have_their_own_variables_and_share_the_workspace(self):
        self.server.python("own = 1; open('shared.txt', 'w').write('both')", session="one")
        result = self.server.python("print('own' in globals(), open('shared.txt').read())",
                                    session="two")
        self.assert_prints(result, "False both")

    def test_reset_starts_afresh(self):
        self.server.python("gone = 1", session="r")
        result = self.server.python("print('gone' in globals())", session="r", reset=True)
        self.assert_prints(result, "False")

    def test_classes_of_a_cell_can_be_pickled_and_inspected(self):
        self.server.python("class P:\n    x = 1")
        result = self.server.python("import pickle, inspect\n"
                                    "print(pickle.loads(pickle.dumps(P())).x)\n"
                                    "print(inspect.getsource(P).strip())")
        self.assert_prints(result, "1\nclass P:\n    x = 1")

    def test_await_and_asyncio_run_both_work(self):
        self.assert_prints(self.server.python("import asyncio\nawait asyncio.sleep(0)\nprint(1)"),
                           "1")
        self.assert_prints(self.server.python(
            "async def main(): return 7\nprint(asyncio.run(main()))"), "7")

    def test_main_is_the_module_name_and_the_workspace_the_directory(self):
        self.server.write("module_of_mine.py", "value = 12\n")
        self.assert_prints(self.server.python(
            "import module_of_mine\nprint(__name__, module_of_mine.value)"), "__main__ 12")


class Output(Shared):
    def lines(self, result):
        """Without the marks where the stream changes."""
        return [line for line in result.output.split("\n")
                if line not in ("[stdout]", "[stderr]")]

    def test_every_way_of_writing_is_captured(self):
        result = self.server.python(
            "import sys, subprocess, os\n"
            "print('one')\nprint('two', file=sys.stderr)\n"
            "subprocess.run(['sh', '-c', 'echo three; echo four >&2'])\n"
            "os.write(1, b'five\\n'); os.write(2, b'six\\n')\nprint('seven')\n"
            "sys.stderr.buffer.write(b'eight\\n')\nprint('nine', end='')\n"
            "print('ten', end='', file=sys.stderr)\nprint('eleven')\n")
        self.assert_ok(result)
        self.assertEqual(self.lines(result), "one two three four five six seven eight nine ten "
                                             "eleven".split())
        self.assertIn("one\n[stderr]\ntwo\n[stdout]\nthree\nfour\n", result.output)

    def test_stdout_and_stderr_come_in_the_order_produced(self):
        result = self.server.python("import sys, time\nfor n in range(6):\n"
                                    "    print(n, file=(sys.stdout, sys.stderr)[n % 2])\n"
                                    "    time.sleep(0.05)")
        self.assertEqual(self.lines(result), list("012345"))

    def test_a_child_that_turns_between_its_streams_keeps_its_order(self):
        shell = "for n in 1 2 3 4 5 6; do echo $n; echo -$n >&2; done"
        result = self.server.python(f"import subprocess\n_ = subprocess.run({shell!r}, shell=True)")
        self.assertEqual(self.lines(result), "1 -1 2 -2 3 -3 4 -4 5 -5 6 -6".split())

    def test_subprocesses_and_code_come_in_the_order_produced(self):
        result = self.server.python("import subprocess\nprint('before')\n"
                                    "subprocess.run(['echo', 'from echo'])\nprint('after')")
        self.assert_prints(result, "before\nfrom echo\nafter")

    def test_the_value_of_the_last_expression_is_shown(self):
        result = self.server.python("x = 20\nx * 2 + 2")
        self.assert_ok(result)
        self.assertEqual(result.output, "Out: 42")
        self.assertEqual(self.server.python("'text'").output, "Out: 'text'")

    def test_none_is_not_shown(self):
        self.assertRegex(self.server.python("None").text.strip(),
                         rf"^\[ok {DURATION}, no output\]$")

    def test_output_before_the_value_and_no_newline_at_the_end(self):
        result = self.server.python("print('a', end='')\n3")
        self.assertEqual(result.output, "a\nOut: 3")

    def test_a_megabyte_is_cut_in_the_middle_and_kept_whole_in_a_file(self):
        result = self.server.python("for i in range(100_000): print('line', i)")
        self.assert_ok(result)
        self.assertLess(len(result.text), 20_000)
        self.assertIn("line 0\n", result.text)
        self.assertIn("line 99999", result.text)
        self.assertNotIn("line 50000\n", result.text)

    def whole(self, result):
        """The path that a cut answer names."""
        found = re.search(self.server.here(r"the whole output \([^)]*\) is in (/tmp/output/\S+), read_file"), result.text)
        self.assertTrue(found, result.text[-300:])
        return found[1]

    def test_the_file_of_a_long_output_is_read_in_ranges(self):
        result = self.server.python("for i in range(100_000): print('line', i)")
        part = self.server.read(self.whole(result), start_line=50_001, end_line=50_002).text
        self.assertTrue(part.startswith("line 50000\nline 50001\n"), part)

    def test_a_long_output_is_whole_also_when_the_call_is_killed(self):
        result = self.server.python("import os\nfor i in range(10_000): print('line', i)\n"
                                    "print(end='', flush=True)\nos._exit(1)")
        part = self.server.read(self.whole(result), start_line=10_000).text
        self.assertTrue(part.startswith("line 9999\n"), part[-200:])

    def test_the_files_of_long_outputs_are_bounded_and_the_oldest_go(self):
        with Server("--disk", "8M") as server:
            for n in range(3):
                result = server.python("for i in range(200_000): print(f'{i:015}')")
                self.assertTrue(server.here("the first 2.1 MB of the output are in /tmp/output/output-"
                                            f"{n + 1}.txt") in result.text)
            self.assertEqual(server.python("1 + 1").output, "Out: 2")
            end = time.monotonic() + 10 * SLOW
            while time.monotonic() < end:
                left = server.python(server.here("import os\nprint(*os.listdir('/tmp/output'))")).output
                if left == "output-3.txt":
                    break
            self.assertEqual(left, "output-3.txt")

    def test_one_long_line_is_cut_too(self):
        result = self.server.python("print('x' * 5_000_000)")
        self.assertLess(len(result.text), 20_000)
        result = self.server.python("print('x' * 5000)\nprint('y')")
        self.assertIn("3000 bytes of this line omitted", result.text)
        self.assertEqual(self.server.read(self.whole(result), start_line=2).text[:2], "y\n")

    def test_an_exception_in_repr_is_told(self):
        result = self.server.python("class R:\n    def __repr__(self): 1 / 0\nR()")
        self.assertIn("ZeroDivisionError", result.text)

    def test_input_reads_the_given_text_and_ends_there(self):
        self.assert_prints(self.server.python("print(input() + '!')", stdin="hello\n"), "hello!")
        result = self.server.python("input()")
        self.assert_kind(result, "error")
        self.assertIn("EOFError", result.text)

    def test_fences_and_tags_around_the_code_are_taken_off(self):
        for code in ("```python\nprint(1)\n```", "```\nprint(1)\n```", "```py\nprint(1)```",
                     "<execute_python>print(1)</execute_python>"):
            with self.subTest(code=code):
                self.assert_prints(self.server.python(code), "1")

    def test_unicode_goes_both_ways(self):
        self.assert_prints(self.server.python("print('é 漢字 🐦')"), "é 漢字 🐦")

    def test_a_background_thread_does_not_hold_the_answer(self):
        result = self.server.python("import threading, time\n"
                                    "threading.Thread(target=time.sleep, args=(60,), daemon=True)"
                                    ".start()\nprint('now')")
        self.assert_prints(result, "now")


class Traceback(Shared):
    def test_it_reads_as_cpython_prints_it(self):
        result = self.server.python("def f(d):\n    return d['missing']\n\nf({})\n")
        self.assert_kind(result, "error")
        cell = re.search(r"<cell \d+>", result.text)[0]
        self.assertIn("Traceback (most recent call last):\n", result.text)
        self.assertIn(f'  File "{cell}", line 4, in <module>\n    f({{}})\n', result.text)
        self.assertIn(f'  File "{cell}", line 2, in f\n    return d[\'missing\']\n', result.text)
        self.assertIn("\nKeyError: 'missing'\n", result.text)
        self.assertNotIn("exec(", result.text)

    def test_frames_of_earlier_cells_show_their_own_source(self):
        self.server.python("def thrower():\n    raise RuntimeError('from before')")
        result = self.server.python("thrower()")
        self.assertIn("    raise RuntimeError('from before')\n", result.text)

    def test_a_syntax_error_points_at_its_place(self):
        result = self.server.python("x = (1,\ny = 2\n")
        self.assert_kind(result, "error")
        self.assertIn("SyntaxError", result.text)
        self.assertIn("x = (1,", result.text)

    def test_exceptions_with_a_cause_are_shown_in_full(self):
        result = self.server.python("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
                                    "    raise KeyError('k') from e")
        self.assertIn("ZeroDivisionError", result.text)
        self.assertIn("direct cause", result.text)

    def test_endless_recursion_is_an_ordinary_error(self):
        result = self.server.python("def f(): return f()\nf()")
        self.assert_kind(result, "error")
        self.assertIn("RecursionError", result.text)
        self.assert_alive(self.server)

    def test_an_exception_whose_text_fails_is_still_reported(self):
        result = self.server.python("class E(Exception):\n    def __str__(self): raise KeyError\n"
                                    "raise E")
        self.assert_kind(result, "error")

    def test_a_keyboard_interrupt_of_the_code_is_an_error(self):
        self.assert_kind(self.server.python("raise KeyboardInterrupt"), "error")

    def test_a_base_exception_is_an_error(self):
        self.assert_kind(self.server.python("class B(BaseException): pass\nraise B"), "error")
        self.assert_kind(self.server.python("raise GeneratorExit"), "error")


class StatusLine(Case):
    """Exactly as documented: a model reads these lines."""

    def setUp(self):
        self.server = Server("--memory", "256M")

    def tearDown(self):
        with self.server:
            pass

    def line(self, code, **arguments):
        return self.server.python(code, **arguments).status.line

    def test_ok(self):
        self.assertRegex(self.line("print(1)"), rf"^\[ok {DURATION}( \| .*)?\]$")
        self.assertRegex(self.line("x = 1"), rf"^\[ok {DURATION}, no output( \| .*)?\]$")

    def test_error(self):
        self.server.python("pass")
        self.assertRegex(self.line("a = 1\nb = 2\n{}['k']"),
                         rf"^\[error: KeyError at <cell 2>:3 \| {DURATION} \| state: kept( \| .*)?\]$")

    def test_error_names_the_innermost_frame_of_the_user(self):
        self.server.python("def f():\n    import json\n    json.loads('{')")
        line = self.line("f()")
        self.assertRegex(line, r"^\[error: (json\.decoder\.)?JSONDecodeError at <cell 1>:3 \| ")

    def test_timeout_by_interrupt(self):
        line = self.line("import time\nkept = 1\nwhile True:\n    time.sleep(99)", timeout_s=1)
        self.assertRegex(line, r'^\[timeout: 1 s limit; was at <cell 1>:4 "time\.sleep\(99\)" \| '
                               r"state: kept \(interrupted\)( \| .*)?\]$")
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_timeout_in_native_code(self):
        line = self.line("import itertools\n\n\nsum(itertools.repeat(0))", timeout_s=1)
        self.assertRegex(line, r'^\[timeout: 1 s limit; stuck in native code at <cell 1>:4 "sum\(itertools\.repeat\(0\)\)" \| state: ')

    def test_out_of_memory(self):
        result = self.server.python("blocks = []\nwhile True:\n    blocks.append(bytearray(1 << 24))")
        if result.status.kind == "error":
            self.assertIn("MemoryError", result.text)
            return
        self.assertRegex(result.status.line,
                         r"^\[out of memory: used \d+ of 256 MiB.* \| state: ")
        self.assert_state_after_kill(result)

    def test_crash(self):
        result = self.server.python("import ctypes\nctypes.string_at(0)")
        self.assertRegex(result.status.line, r"^\[crashed: SIGSEGV \| state: ")
        self.assertTrue(result.is_error)
        self.assert_state_after_kill(result)

    def test_exit_codes(self):
        self.assert_exit_code(self.server.python("kept = 1\nraise SystemExit(3)"), 3)
        self.assert_exit_code(self.server.python("import sys\nsys.exit()"), 0)
        result = self.server.python("import sys\nsys.exit('why')")
        self.assert_exit_code(result, 1)
        self.assertIn("why", result.text)
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_a_status_line_printed_by_the_code_is_not_the_last_one(self):
        result = self.server.python("print('[ok 1 ms]')\nraise ValueError")
        self.assert_kind(result, "error")
        self.assertIn("[ok 1 ms]", result.output)


class Arguments(Shared):
    def test_timeouts_that_make_no_sense_are_refused_in_words(self):
        for value in (0, -1):
            self.assert_violation(self.server.python("1", timeout_s=value), "timeout_s")

    def test_empty_code_is_nothing_done(self):
        self.assertRegex(self.server.python("").text, r"^\[ok .*, no output\]\s*$")
        self.assertRegex(self.server.python("# only a comment").text, r"^\[ok .*, no output\]\s*$")

    def test_code_with_a_null_character_is_answered(self):
        self.assertTrue(self.server.python("a = 1\x00").is_error)
        self.assert_alive(self.server)

    def test_a_session_name_is_checked(self):
        result = self.server.python("1", session="x" * 10_000)
        self.assert_violation(result, "session")


class WhatWorks(Shared):
    """Ordinary programs that a too tight sandbox would break."""

    def works(self, code, output, **arguments):
        self.assert_prints(self.server.python(code, **arguments), output)

    def test_threads(self):
        self.works("import threading\nr = []\nts = [threading.Thread(target=r.append, args=(i,)) "
                   "for i in range(20)]\n[t.start() for t in ts]; [t.join() for t in ts]\n"
                   "print(sorted(r) == list(range(20)))", "True")

    def test_multiprocessing_by_fork_and_by_spawn(self):
        for method in ("fork", "spawn"):
            with self.subTest(method=method):
                self.works("import multiprocessing as mp, os\n"
                           f"with mp.get_context({method!r}).Pool(2) as pool:\n"
                           "    print(pool.map(abs, [-1, -2]))", "[1, 2]")

    def test_sqlite_zlib_ssl_and_hashlib(self):
        self.works("import sqlite3, zlib, ssl, hashlib\n"
                   "db = sqlite3.connect('t.db'); db.execute('pragma journal_mode=wal')\n"
                   "db.execute('create table t(x)'); db.execute('insert into t values (1)')\n"
                   "db.commit(); print(db.execute('select * from t').fetchall())", "[(1,)]")

    def test_asyncio_subprocesses_and_loopback_sockets(self):
        self.works("import asyncio\nasync def main():\n"
                   "    async def serve(r, w): w.write(await r.readline()); w.close()\n"
                   "    s = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
                   "    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\n"
                   "    w.write(b'ping\\n'); print(await r.readline())\n"
                   "    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n"
                   "    print((await p.communicate())[0])\nasyncio.run(main())",
                   "b'ping\\n'\nb'hi\\n'")

    def test_temporary_files_and_shared_memory(self):
        self.works("import tempfile\nfrom multiprocessing import shared_memory\n"
                   "with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n"
                   "m = shared_memory.SharedMemory(create=True, size=1 << 20); m.close(); m.unlink()\n"
                   "print('ok')", "ok")

    def test_time_zones_locale_and_user_lookup_do_not_crash(self):
        self.works("import time, locale, getpass, os\ntime.localtime(); locale.getlocale()\n"
                   "print(bool(getpass.getuser()), bool(os.path.expanduser('~')))", "True True")

    def test_numpy_if_the_interpreter_has_it(self):
        if "True" not in self.server.python(
                "import importlib.util as u; print(bool(u.find_spec('numpy')))").output:
            self.skipTest("numpy: not installed for this interpreter")
        self.works("import numpy as np\nprint((np.eye(200) @ np.eye(200)).sum())", "200.0")


if __name__ == "__main__":
    unittest.main()
