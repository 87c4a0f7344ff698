"""Python as cells: source text, stdin, await, processes, arguments of the call, and ordinary programs."""
import unittest

from client import Shared


class Source(Shared):
    def test_input_reads_the_given_text_and_ends_there(self):
        self.assert_prints(self.server.python("print(input() + '!')", stdin="hello\n"), "hello!")
        result = self.server.python("input()")
        self.assert_kind(result, "error")
        self.assertIn("EOFError", result.text)

    def test_fences_and_tags_are_removed_from_the_code(self):
        for code in ("```python\nprint(1)\n```", "```\nprint(1)\n```", "```py\nprint(1)```",
                     "<execute_python>print(1)</execute_python>"):
            with self.subTest(code=code):
                self.assert_prints(self.server.python(code), "1")


class Arguments(Shared):
    def test_invalid_timeouts_are_refused_with_a_message(self):
        for value in (0.05, -1):
            self.assert_violation(self.server.python("1", timeout_s=value), "timeout_s")

    def test_empty_code_does_nothing(self):
        self.assertRegex(self.server.python("").text, r"^\[ok .*, no output\]\s*$")
        self.assertRegex(self.server.python("# only a comment").text, r"^\[ok .*, no output\]\s*$")

    def test_code_with_a_null_character_is_answered(self):
        self.assertTrue(self.server.python("a = 1\x00").is_error)
        self.assert_alive(self.server)

    def test_a_session_name_is_checked(self):
        result = self.server.python("1", session="x" * 10_000)
        self.assert_violation(result, "session")


class Language(Shared):
    def prints(self, code, text, **arguments):
        self.assert_prints(self.server.python(code, **arguments), text)

    def test_await_has_one_loop_and_tasks_continue(self):
        self.prints("import asyncio\nloop = asyncio.get_running_loop() if False else None\n"
                    "async def count():\n    global n\n    n = 0\n    while n < 3: await asyncio.sleep(.01); n += 1\n"
                    "first = await asyncio.sleep(0, 'one')\ntask = asyncio.create_task(count())\nprint(first)", "one")
        self.prints("await task\nprint(n, task.done())", "3 True")
        self.prints("l1 = asyncio.get_running_loop(); await asyncio.sleep(0)\nprint(l1 is not None)", "True")
        self.prints("l2 = asyncio.get_running_loop(); await asyncio.sleep(0)\nprint(l1 is l2)", "True")
        self.prints("async def main(): return 5\nprint(asyncio.run(main()))", "5")

    def test_stdin_and_reset(self):
        self.prints("print(input(), [line.strip() for line in __import__('sys').stdin])", "a ['b', 'c']", stdin="a\nb\nc\n")
        self.server.python("gone = 1")
        result = self.server.python("print('gone' in globals())", reset=True)
        self.assertEqual(result.output, "False")
        self.assertEqual(result.status.state, "reset before the code")

    def test_wrappings_are_stripped_and_code_is_not(self):
        for code in ("```python\nprint('in')\n```", "```\nprint('in')\n```", "<execute_python>\nprint('in')\n</execute_python>",
                     "\n\n```py\nprint('in')\n```\n"):
            with self.subTest(code=code):
                self.prints(code, "in")
        self.prints("text = '''\n```python\nx\n```\n'''\nprint(text.count('`'))", "6")
        self.prints("print('<execute_python>')", "<execute_python>")

    def test_future_imports_last_as_in_a_repl(self):
        self.prints("from __future__ import annotations", "", session="future")
        self.prints("def f(x: undefined): pass\nprint(f.__annotations__)", "{'x': 'undefined'}", session="future")

    def test_pickle_inspect_and_doctest_find_the_source(self):
        self.prints("import dataclasses, inspect, pickle, doctest\n@dataclasses.dataclass\nclass P:\n    x: int\n    def twice(self):\n"
                    "        return self.x * 2\nprint(pickle.loads(pickle.dumps(P(4))).twice())\nprint(inspect.getsource(P.twice).strip())",
                    "8\ndef twice(self):\n        return self.x * 2")
        self.prints("def inc(n):\n    '''\n    >>> inc(1)\n    2\n    '''\n    return n + 1\nprint(doctest.testmod())",
                    "TestResults(failed=0, attempted=1)")

    def test_multiprocessing_of_what_a_cell_defined(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method=method):
                self.prints(f"import multiprocessing as mp\ndef square(n): return n * n\n"
                            f"with mp.get_context({method!r}).Pool(2) as pool: print(pool.map(square, [1, 2, 3]))", "[1, 4, 9]",
                            session="mp", timeout_s=60)

    def test_exits_signal_handlers_and_warnings(self):
        self.assert_exit_code(self.server.python("import sys; sys.exit(3)"), 3)
        self.assert_exit_code(self.server.python("import sys; sys.exit()"), 0)
        result = self.server.python("before = 1")
        result = self.server.python("import os; os._exit(4)")
        self.assertRegex(result.status.line, r"^\[exit code 4 \| state: restored")
        self.prints("if __name__ == '__main__': print('main', before)", "main 1")
        self.prints("import signal\nsignal.signal(signal.SIGALRM, lambda *a: print('alarm'))\nsignal.setitimer(signal.ITIMER_REAL, .05)\n"
                    "__import__('time').sleep(.3)", "alarm")
        warned = self.server.python("import warnings\nfor _ in range(3): warnings.warn('only once')").output
        self.assertEqual(warned.count("UserWarning: only once"), 1, warned)


class WhatWorks(Shared):
    """Ordinary programs that a too strict sandbox would break."""

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
