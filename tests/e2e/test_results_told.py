"""What an answer tells beside values: tracebacks, hints, timeouts, the language, sessions, progress, and the structured
form."""
import json
import re
import subprocess
import sys
import unittest

from client import Case, Server, Shared, need_userns


class Tracebacks(Shared):
    def assert_as_cpython(self, code):
        """The same text as CPython's own for the same lines in a file of this name."""
        shown = self.server.python(code)
        self.assertTrue(shown.is_error, shown.text)
        cell = re.search(r"<cell \d+>", shown.text)[0]
        version = self.server.python("import sys; print(sys.executable)").output
        python = version if subprocess.run(["test", "-x", version]).returncode == 0 else sys.executable
        program = ("import linecache, sys\ncode = sys.stdin.read()\n"
                   f"linecache.cache[{cell!r}] = (len(code), None, [l + '\\n' for l in code.split('\\n')], {cell!r})\n"
                   f"try: exec(compile(code, {cell!r}, 'exec'), {{'__name__': '__main__'}})\n"
                   "except BaseException as error:\n    import traceback\n"
                   "    if error.__traceback__ is not None: error.__traceback__ = error.__traceback__.tb_next\n"
                   "    traceback.print_exception(type(error), error, error.__traceback__)")
        asked = subprocess.run([python, "-c", program], input=code, capture_output=True, text=True, timeout=60)
        told = "\n".join(line for line in shown.lines[:-1] if not line.startswith("Hint: "))
        if "Did you mean" not in asked.stderr:  # the traceback module of some versions does not know it
            told = re.sub(r"\. Did you mean: '\w+'\?", "", told)
        self.assertEqual(told, asked.stderr.rstrip("\n"))

    def test_names_that_may_be_meant(self):
        if "True" not in self.server.python("import sys; print(sys.version_info >= (3, 10))").output:
            self.skipTest("python: suggestions need 3.10")
        for code, name in (("total = 1\nprint(totla)", "total"), ("import math\nmath.sqroot(2)", "sqrt")):
            self.assertIn(f"Did you mean: '{name}'?", self.server.python(code).text)

    def test_as_cpython_prints_them(self):
        for code in ("def f(x):\n    return x['a']['b'] + 1\nf({'a': {}})",
                     "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('two') from e",
                     "try:\n    int('x')\nexcept ValueError:\n    [][1]",
                     "import json\njson.loads('{')",
                     "total = 1\nprint(totla)",
                     "import math\nmath.sqroot(2)",
                     "class A:\n    def run(self): return (1 +\n            self.missing)\nA().run()",
                     "x = (1,\nprint(2)", "def f(:\n    pass", "if True:\nx = 1", "'abc", "raise SystemError", "assert 1 == 2, 'no'"):
            with self.subTest(code=code):
                self.assert_as_cpython(code)

    @unittest.skipIf(sys.version_info < (3, 11), "python: groups and notes need 3.11")
    def test_groups_and_notes(self):
        for code in ("e = ValueError('v'); e.add_note('a note'); raise e",
                     "raise ExceptionGroup('g', [ValueError('a'), ExceptionGroup('h', [KeyError('b')])])"):
            with self.subTest(code=code):
                self.assert_as_cpython(code)

    def test_deep_ones_are_collapsed_and_show_no_frame_of_ours(self):
        for code in ("def f(n): return f(n + 1)\nf(0)", "def a(n): return b(n)\ndef b(n): return a(n)\na(0)",
                     "class R:\n    def __repr__(self): return repr(self)\nR()",
                     "import functools\n@functools.lru_cache\ndef g(n): return g(n + 1)\ng(0)"):
            result = self.server.python(code)
            self.assertLess(len(result.text), 13_000)
            self.assertIn("RecursionError", result.text)
            self.assertNotRegex(result.text, r"/run/sandpiper|session\.py|driver\.py")


class Hints(Shared):
    def told(self, code, *parts, **arguments):
        result = self.server.python(code, **arguments)
        for part in parts:
            self.assertIn(part, result.text, code)
        return result

    def test_distributions_for_imports(self):
        for name, distribution in (("cv2", "opencv-python"), ("sklearn", "scikit-learn"), ("bs4", "beautifulsoup4"),
                                   ("Crypto", "pycryptodome"), ("serial", "pyserial"), ("fitz", "PyMuPDF")):
            self.told(f"raise ModuleNotFoundError('x', name='{name}')", distribution)

    def test_limits_name_themselves(self):
        self.told("import socket\nsocket.create_connection(('1.1.1.1', 80), 2)", "no network")
        self.told("import urllib.request as u\nu.urlopen('http://example.com')", "no network")
        self.told("raise MemoryError", "limit of 1024 MiB", "--memory")
        for arguments, disk in ((["--disk", "8M"], "the disk of 8 MiB is full; remove files, or the user can raise --disk"),
                                (["--memory", "256M"], "the disk of 192 MiB is full; remove files, or the user can raise --memory")):
            with Server(*arguments) as server:
                self.assertIn(disk, server.python("for n in range(999): open(f'/tmp/{n}', 'wb').write(bytes(10**6))").text)
        self.told("import threading, time\nfor _ in range(2000): threading.Thread(target=time.sleep, args=(.5,), daemon=True).start()",
                  "limit of 256 processes", "--pids")
        self.told("name = input('? ')", "EOFError", "stdin")
        self.told("open('/usr/x', 'w')", "read-only")

    def test_notebook_syntax_says_what_to_use(self):
        self.told("!ls -l", "subprocess")
        self.told("%timeit 1", "plain Python")
        for line in ("!pip install x", "%pip install x", "pip install x"):
            self.told(line, "package")


class Memory(Shared):
    def test_memory_that_is_used_up(self):
        self.assert_ok(self.server.python("kept = 1"))
        result = self.server.python("x = []\nwhile True: x.append(bytearray(10**7))", timeout_s=60, _timeout=120)
        self.assertIn(result.status.kind, ("out of memory", "error"))
        self.assertIn("--memory", result.text)
        self.assertRegex(result.status.state, "^(restored to before this call|kept)")
        self.assertEqual(self.server.python("kept").output, "Out: 1")


class Timeouts(Shared):
    def test_where_it_was_and_what_had_been_printed(self):
        result = self.server.python("print('begun')\nimport time\ndef wait():\n    time.sleep(99)\nwait()", timeout_s=1)
        self.assert_kind(result, "timeout")
        self.assertIn("begun", result.output)
        self.assertRegex(result.status.line, r'^\[timeout: 1 s limit; was at <cell \d+>:4 "time\.sleep\(99\)" \| state: kept \(interrupted\)')

    def test_native_code_is_killed_and_the_place_named(self):
        self.server.python("kept = 41")
        result = self.server.python("print('begun')\nx = 0\ny = sum(range(10**13))", timeout_s=1)
        self.assertIn("begun", result.output)
        self.assertRegex(result.status.line, r'stuck in native code at <cell \d+>:3 "y = sum\(range\(10\*\*13\)\)" \| state: restored')
        self.assert_prints(self.server.python("print(kept)"), "41")

    def test_code_that_ignores_the_interrupt(self):
        result = self.server.python("import time\nwhile True:\n    try:\n        while True: time.sleep(.01)\n    except BaseException: pass", timeout_s=1)
        self.assertIn("ignored the interrupt at <cell", result.status.line)

    def test_threads_and_children_do_not_survive_a_kill(self):
        result = self.server.python("import subprocess, threading, time\nsubprocess.Popen(['sleep', '77'])\n"
                                    "def tick():\n    while True: open('tick', 'w').write(str(time.time())); time.sleep(.01)\n"
                                    "threading.Thread(target=tick, daemon=True).start()\nsum(range(10**13))", timeout_s=1)
        self.assertIn("restored", result.status.line)
        text = self.server.python("import glob, time\na = open('tick').read(); time.sleep(.3)\n"
                                  "print(a == open('tick').read(), sum(b'sleep\\x0077' in open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/cmdline')))")
        self.assert_prints(text, "True 0")


class Language(Shared):
    def prints(self, code, text, **arguments):
        self.assert_prints(self.server.python(code, **arguments), text)

    def test_await_has_one_loop_and_tasks_go_on(self):
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
        self.assertEqual(result.status.state, "reset, then kept")

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

    def test_what_needs_the_source(self):
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

    def test_ends_and_handlers(self):
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


class Sessions(Case):
    def test_parallel_ordered_and_one_workspace(self):
        need_userns()
        with Server() as server:
            code = ("import os, time\nopen({me!r}, 'w').close()\nend = time.time() + 15\n"
                    "while not os.path.exists({other!r}) and time.time() < end: time.sleep(.01)\nprint(os.path.exists({other!r}))")
            calls = [server.start_call("run_python", code=code.format(me=me, other=other), session=me)
                     for me, other in (("a", "b"), ("b", "a"))]
            order = [server.start_call("run_python", code=f"print({n}); got = globals().get('got', []) + [{n}]", session="a")
                     for n in range(5)]
            self.assertEqual([server.finish_call(call).output for call in calls], ["True", "True"])
            self.assertEqual([server.finish_call(call).output for call in order], list("01234"))
            self.assert_prints(server.python("print(got)", session="a"), "[0, 1, 2, 3, 4]")
            self.assertTrue(server.python("got", session="b").is_error)

    def test_too_many_are_refused_in_a_sentence(self):
        need_userns()
        with Server() as server:
            results = [server.python("1", session=f"s{n}") for n in range(18)]
            refused = [result for result in results if result.is_error]
            self.assertTrue(1 <= len(refused) <= 3)
            self.assertIn("no more than 16", refused[0].text)
            self.assert_prints(server.python("print(1)", session="s0"), "1")


class Progress(Case):
    def test_a_heartbeat_with_the_last_line_and_none_after_the_answer(self):
        need_userns()
        with Server() as server:
            server.python("1")
            for token in ("t", None):
                call = server.start("tools/call", {"name": "run_python", "arguments": {
                    "code": "import time\nfor i in range(25): print('step', i); time.sleep(.1)"},
                    **({"_meta": {"progressToken": token}} if token else {})})
                seen = []
                while (message := server.receive()).get("id") != call:
                    seen.append(message)
                self.assertEqual(bool(seen), token is not None)
                self.assertTrue(server.silent(.7))
                values = [m["params"]["progress"] for m in seen]
                self.assertEqual(values, sorted(set(values)))
                for message in seen:
                    self.assertEqual((message["method"], message["params"]["progressToken"]), ("notifications/progress", "t"))
                    self.assertRegex(message["params"]["message"], r"\d.*step \d+")


def violations(schema, value, place=""):
    """The part of JSON Schema that our output schemas use."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    if not isinstance(value, kinds[schema["type"]]) or (schema["type"] == "integer" and isinstance(value, bool)):
        return [f"{place}: {value!r} is no {schema['type']}"]
    found = [f"{place}: {value!r} is not allowed"] if value not in schema.get("enum", [value]) else []
    if schema["type"] == "object":
        found += [f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            if name in schema.get("properties", {}):
                found += violations(schema["properties"][name], part, f"{place}/{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{place}: {name} is unknown")
    if schema["type"] == "array":
        found += [one for i, part in enumerate(value) for one in violations(schema["items"], part, f"{place}/{i}")]
    return found


class Structured(Case):
    CALLS = (
        ("run_python", {"code": "1 + 1"}, {"status": "ok", "result": "2"}),
        ("run_python", {"code": "import sys; print('o'); print('e', file=sys.stderr)"}, {"stdout": "o\n", "stderr": "e\n"}),
        ("run_python", {"code": "open('f.csv', 'w').write('x')\nz = 1"}, {"status": "ok"}),
        ("run_python", {"code": "{}['k']"}, {"status": "error"}), ("run_python", {"code": "x ="}, {"status": "error"}),
        ("run_python", {"code": "import sys; sys.exit(3)"}, {"status": "exit", "exit_code": 3}),
        ("run_python", {"code": "import os; os.abort()"}, {"status": "crashed", "signal": 6}),
        ("run_python", {"code": "while True: pass", "timeout_s": 1}, {"status": "timeout"}),
        ("run_python", {"code": "print('x' * 100 + '\\n', end='') or [print(i) for i in range(9999)][0]"}, {"truncated": True}),
        ("write_file", {"path": "d/a.txt", "content": "text\n"}, {"text": "created d/a.txt (1 line, 5 B)\n"}),
        ("read_file", {"path": "d/a.txt"}, {"text": "text\n"}), ("read_file", {"path": "d"}, {}),
        ("read_file", {"path": "d/a.txt", "encoding": "base64"}, {"text": "dGV4dAo="}),
    )

    def test_complete_in_itself_and_valid(self):
        need_userns()
        with Server("--structured") as server:
            schemas = {tool["name"]: tool["outputSchema"] for tool in server.request("tools/list")["result"]["tools"]}
            for tool, arguments, expected in self.CALLS:
                with self.subTest(arguments=arguments):
                    result = server.call(tool, **arguments)
                    form = result.raw["structuredContent"]
                    self.assertEqual(violations(schemas[tool], form), [])
                    self.assertEqual({name: form.get(name) for name in expected}, expected)
                    json.dumps(form)
            self.assertEqual(violations({"type": "object", "required": ["a"], "properties": {}}, {}), [": a is missing"])

    def test_images_come_with_it(self):
        need_userns()
        with Server("--structured") as server:
            server.python("import struct, zlib\ndef chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n"
                          "open('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 2, 2, 8, 0, 0, 0, 0))"
                          " + chunk(b'IDAT', zlib.compress(b'\\0aa' * 2)) + chunk(b'IEND', b''))")
            result = server.read("p.png")
            self.assertEqual([block["type"] for block in result.content], ["text", "image"])
            self.assertIn("PNG image, 2x2", result.raw["structuredContent"]["text"])

    def test_without_the_flag_there_is_none(self):
        need_userns()
        with Server() as server:
            self.assertFalse(any("outputSchema" in tool for tool in server.request("tools/list")["result"]["tools"]))
            self.assertNotIn("structuredContent", server.python("1").raw)


if __name__ == "__main__":
    unittest.main()
