"""The language of cells: values, namespace, await, fences, stdin, spawned processes."""
import os
import textwrap
import time

from base import GuestCase, each_python


class Cells(GuestCase):
    SETUP = ("import collections, csv, datetime, glob, json, logging, os, pathlib, re, time; from pathlib import Path\n"
             "open('f', 'w').write('{\"k\": 1}'); n = [1]; d = {'a': 1, 'n': n}; s = 'text'; p = Path('f'); name = 'f'; x = 'mine'\n"
             "class Own(dict):\n    def get(self, *_): n.append(0)\n    upper = read_text = mean = load = get\nown = Own(); made = [own, iter(n)]\n"
             "def fn(*_): n.append(0)\n")

    def looks(self, code):
        return "looks" in self.session.run(code).fields

    def test_code_that_only_looks(self):
        self.run_ok(self.SETUP)
        for code in ("json.load(open('f'))", "print(json.load(open(name))['k'])", "p.read_text()", "print(Path('f').read_text().split()[0].upper())",
                     "(Path('.') / 'f').exists(), p.resolve().parent.is_dir()", "with open('f') as fh: print(fh.read())",
                     "with open(p) as fh:\n    for line in fh:\n        print(line.strip())", "with open('f') as fh: print(json.load(fh))",
                     "list(csv.reader(open('f')))", "d.get('a')", "d['a'], n.index(1), n.count(1)", "for item in n: print(item)",
                     "for key, value in d.items():\n    if value: print(key)\n    else: continue", "'a'.upper(), s.split(), f'{s}'.strip(), str(1).zfill(3)", "help(len)",
                     "glob.glob('*')", "os.path.join('a', name), os.getenv('HOME')", "time.time()", "collections.Counter(n)", "re.findall('.', s)",
                     "datetime.datetime.now().strftime('%Y')", "assert n", "try:\n    print(n)\nexcept Exception as e: print(e)", "n[9]", "1 +",
                     "!ls", "!cat f | head -3", "!wc -l f", "%pwd", "for line in open('f').readlines(): print(line.rstrip())", "print(vars(own), globals()['n'])",
                     "import json\nfrom pathlib import Path\nprint(json.loads(Path('f').read_text()))", "import os; print(os.sep)"):
            self.assertTrue(self.looks(code), code)

    def test_code_that_may_do_more(self):
        self.run_ok(self.SETUP + "open('mine.py', 'w').write('from json import loads; import json; json.mine = 1')\nloads = json.loads\njson.dumps = fn\ndate = datetime.date\ndate_of = [fn]")
        for code in ("own.get('a')", "made[0].get(1)", "its = [iter(n)]; list(its[0])", "list(made[1])", "for line in made[1]: print(line)", "[line for line in made[1]]", "print(*made[1])", "print(1, **{'file': own})", "for one in made: one.upper()", "[s.upper() for s in made]", "d['n'].append(2)", "n.sort()", "d.update(b=1)", "d.pop('a')", "fn(2)",
                     "json.dumps(n)", "json.loads('{}', object_hook=fn)", "with open('f', 'a') as fh: fh.write('x')", "with open('f') as fh: text = fh.read()",
                     "with open('f') as x: print(x.read())", "for x in n: print(x)", "for d['a'] in n: print(d)", "for _hidden in n: print(n)",
                     "try:\n    1 / 0\nexcept ZeroDivisionError as x: pass", "p.write_text('y')", "p.touch()", "Path('g').write_text('z')", "re.sub('.', fn, s)",
                     "!echo a > f", "!cat f; rm -f g", "!touch h", "!cat {name}", "!echo $(rm -f g)", "!cat f | tee g", "files = !ls", "%time n.append(3)", "%cd .", "own.mean()", "own.read_text()",
                     "for fh in made: fh.load()", "with open('f') as fh: print(fn(fh))", "import random; random.random()", "import string", "import os.path", "from mine import loads", "from string import capwords", "import json as _hidden", "logging.info('x')"):
            self.assertFalse(self.looks(code), code)

    def test_what_such_code_binds_is_nobodys(self):
        self.run_ok("n = [1, 2]; open('f', 'w').close()")
        for code in ("for i in n: print(i)", "for i in [5]: print(i)", "with open('f') as fh: print(fh.read())", "with open('f') as fh: print(fh.name)"):
            self.assertTrue(self.looks(code), code)
        for code, again in (("i = 900", "for i in n: print(i)"), ("fh = [7]", "with open('f') as fh: print(fh.read())"), ("n = []; i = 901", "for i in n: print(i)")):
            self.assertFalse(self.looks(code), code)
            self.assertEqual(self.looks(again), code[0] == "n", again)
        self.assertFalse(self.looks("for i in [5]: print(i)"))  # the loop before has left it

    def test_a_cell_that_imports_nothing_calls_no_c_function_at_its_end(self):
        self.run_ok("import sys; seen = []; sys.addaudithook(lambda event, args: seen.append(event))")
        self.run_ok("x = 1")
        self.assertEqual(self.value("'ctypes.call_function' in seen"), "False")

    def test_last_expression_is_the_value(self):
        self.assertEqual(self.value("1 + 1"), "2")
        self.assertEqual(self.value("a = 3; a * 2"), "6")
        self.assertEqual(self.value("a  # a comment"), "3")
        self.assertIsNone(self.value("None"))
        self.assertIsNone(self.value("b = 1"))
        self.assertEqual(self.value("'x'"), "'x'")
        self.assertEqual(self.value("_"), "'x'")

    def test_a_replaced_display_hook_gets_the_values(self):
        self.run_ok("import sys\nseen = []\nsys.displayhook = lambda value: (seen.append(value), print('shown', value))")
        for code, out in (("6 * 7", "shown 42\n"), ("None", "shown None\n"), ("x = 1", ""), ("pass", "")):
            reply = self.run_ok(code)
            self.assertEqual((reply.value, reply.out), (None, out))
        self.run_ok("sys.displayhook = sys.__displayhook__")
        self.assertEqual(self.value("seen"), "[42, None]")
        self.assertEqual(self.session.run("sys.displayhook = lambda value: value.nothing\n3").error_type, "AttributeError")

    def test_the_last_exception(self):
        self.run_ok("import sys, traceback")
        error = self.session.run("def f(x):\n    return x['key']\nf({})")
        self.assertEqual(self.value("sys.last_type, sys.last_value, sys.last_traceback is sys.last_value.__traceback__"),
                         "(<class 'KeyError'>, KeyError('key'), True)")
        self.assertEqual(self.run_ok("traceback.print_exception(sys.last_type, sys.last_value, sys.last_traceback, file=sys.stdout)").out, error.traceback)
        self.assertEqual(self.value("sys.last_traceback.tb_next.tb_frame.f_locals"), "{'x': {}}")
        self.assertEqual(self.value("getattr(sys, 'last_exc', sys.last_value) is sys.last_value"), "True")
        self.session.run("raise SystemExit(3)")
        self.assertEqual(self.value("sys.last_type"), "<class 'KeyError'>")
        self.session.run("1 +")
        self.assertEqual(self.value("sys.last_type, sys.last_traceback"), "(<class 'SyntaxError'>, None)")
        self.session.run("import asyncio\nasync def g():\n    await asyncio.sleep(0)\n    [][0]\nawait g()")
        self.assertEqual(self.value("sys.last_traceback.tb_frame.f_code.co_filename"), "'<cell 11>'")

    def test_variables_of_a_memory_error_are_freed(self):
        self.run_ok("class Big:\n    def __del__(self): print('freed')\n")
        reply = self.session.run("def f():\n    big = Big()\n    raise MemoryError\nf()")
        self.assertEqual((reply.error_type, reply.out), ("MemoryError", "freed\n"))

    def test_a_byte_order_mark_at_the_start(self):
        self.assertEqual(self.value("\ufeff6 * 7"), "42")
        self.assertEqual(self.value("\ufeff```python\n6 * 7\n```"), "42")
        self.assertEqual(self.session.run("\ufeff1 / 0").error_line, "1")
        self.assertEqual(self.session.run("x = 1\n\ufeffy = 2").error_type, "SyntaxError")

    def test_empty_cells(self):
        for code in ("", "\n\n", "# only a comment", "pass"):
            reply = self.run_ok(code)
            self.assertEqual((reply.value, reply.out, reply.err), (None, "", ""))

    def test_state_lasts(self):
        self.run_ok("import math\ndef area(r): return math.pi * r * r\nr = 2")
        self.assertEqual(self.value("round(area(r), 3)"), "12.566")
        self.assertEqual(self.value("__name__"), "'__main__'")

    def test_two_sessions_share_nothing(self):
        other = self.guest.session("other")
        self.run_ok("secret = 1")
        self.assertEqual(other.run("secret").error_type, "NameError")

    def test_output_in_order(self):
        reply = self.run_ok("import subprocess\nprint('a')\nsubprocess.run(['echo', 'b'])\nprint('c')")
        self.assertEqual(reply.out, "a\nb\nc\n")
        reply = self.run_ok("import os\nprint('a')\n_ = os.system('echo b')\nprint('c')")
        self.assertEqual(reply.out, "a\nb\nc\n")

    def test_lone_surrogates_pass(self):
        self.assertEqual(self.run_ok(r"print('\ud800')").out, "\\ud800\n")
        self.assertEqual(self.value(r"'\ud800'"), r"'\ud800'")
        reply = self.session.run(r"raise ValueError('\ud800')")
        self.assertIn("\\ud800", reply.error_message)

    def test_names_are_normalized(self):
        self.assertEqual(self.value("größe, ﬁn = 3, 4\ngröße + fin"), "7")
        self.assertEqual(self.value("import sys\nsys.modules.pop('unicodedata')\nfin = 0"), None)
        self.assertEqual(self.value("größe"), "3")

    def test_await(self):
        self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0.001, 'done')"), "'done'")
        self.assertEqual(self.value("x = await asyncio.sleep(0.001, 5)\nx"), "5")
        self.assertEqual(self.value("async def f(): return 7\nasyncio.run(f())"), "7")
        self.assertEqual(self.value("await f()"), "7")

    def test_tasks_live_between_cells(self):
        self.run_ok("import asyncio\nq = asyncio.Queue()\nasync def w(): await q.put(await asyncio.sleep(0.01, 1))")
        self.run_ok("t = asyncio.ensure_future(w())\nawait asyncio.sleep(0)")
        self.assertEqual(self.value("await q.get()"), "1")

    def test_tasks_start_without_an_await(self):
        self.run_ok("import asyncio\nhits = []\nasync def w(): hits.append(1)\nt = asyncio.create_task(w())")
        self.assertEqual(self.value("await t\nhits"), "[1]")

    def test_future_flags_are_kept(self):
        self.run_ok("from __future__ import annotations")
        self.assertEqual(self.value("def f(x: Undefined): pass\nf.__annotations__"), "{'x': 'Undefined'}")

    def test_fences_and_tags(self):
        self.assertEqual(self.value("```python\n1 + 2\n```"), "3")
        self.assertEqual(self.value("\n```\n1 + 3\n```\n"), "4")
        self.assertEqual(self.value("<execute_python>\n1 + 4\n</execute_python>"), "5")
        self.assertEqual(self.value("<execute_python>1 + 5</execute_python>"), "6")
        self.assertEqual(self.session.run("```python\nx = 1\n1/0\n```").error_line, "3")

    def test_fences_inside_code_stay(self):
        self.assertEqual(self.value('s = """```python\nx\n```"""\nlen(s)'), "15")

    def test_indented_code(self):
        self.assertEqual(self.value("    x = 1\n    if x:\n        x = 2\n    x"), "2")

    def test_source_of_functions_and_classes(self):
        self.run_ok("def f():\n    return 1\n")
        self.run_ok("class C:\n    x = 1\n    def m(self):\n        return 2\n")
        self.run_ok("import inspect")
        self.assertEqual(self.run_ok("print(inspect.getsource(f))").out, "def f():\n    return 1\n\n")
        self.assertIn("def m(self)", self.run_ok("print(inspect.getsource(C))").out)

    def test_main_module(self):
        self.assertEqual(self.value("import __main__\n__main__.__dict__ is globals()"), "True")
        self.assertEqual(self.value("hasattr(__main__, '__file__')"), "False")
        self.assertEqual(self.value("import sys\n[m for m in sys.modules if 'sandpiper' in m]"), "[]")
        self.run_ok("if __name__ == '__main__':\n    ran = True")
        self.assertEqual(self.value("ran"), "True")

    def test_pickle_and_dataclass(self):
        self.run_ok("import pickle, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int")
        self.assertEqual(self.value("pickle.loads(pickle.dumps(P(3)))"), "P(x=3)")

    def test_multiprocessing(self):
        self.run_ok("import multiprocessing as mp\nN = 10\nprint('once')")
        self.run_ok("def square(x):\n    return x * x + N\nclass Box:\n    pass")
        for method in ("fork", "spawn", "forkserver"):
            code = "with mp.get_context('%s').Pool(2) as p: r = p.map(square, [1, 2])\nr"
            reply = self.run_ok(code % method)
            self.assertEqual((reply.value, reply.out), ("[11, 14]", ""), method)
        left = [name for name in os.listdir(self.guest.directory.name + "/.tmp") if "cells" in name]
        self.assertEqual(left, [])

    def test_definitions_made_after_a_spawn(self):
        self.run_ok("import multiprocessing as mp\ndef f(x): return x + 1")
        self.assertEqual(self.value("c = mp.get_context('spawn')\nwith c.Pool(1) as p: r = p.map(f, [1])\nr"), "[2]")
        self.run_ok("def f(x): return x + 2")
        self.assertEqual(self.value("with c.Pool(1) as p: r = p.map(f, [1])\nr"), "[3]")

    def test_input(self):
        reply = self.session.run("input()")
        self.assertEqual(reply.error_type, "EOFError")
        self.assertIn("`stdin`", reply.error_message)
        self.assertEqual(self.value("input(), input()", stdin="a\nb\n"), "('a', 'b')")
        self.assertEqual(self.value("import sys\nsys.stdin.read()"), "''")
        reply = self.run_ok("import subprocess\nsubprocess.run(['cat'])\nNone", stdin="through")
        self.assertEqual(reply.out, "through")
        self.assertEqual(self.run_ok("subprocess.run(['cat'])\nNone").out, "")

    def test_a_warning_of_the_compiler_before_warnings_is_imported(self):
        for _ in range(2):
            self.run_ok("import sys; sys.modules.pop('warnings', None); a = '\\d'")

    def test_a_warning_is_printed_once_per_cell(self):
        code = "import warnings\nfor i in range(3): warnings.warn('old')"
        self.assertEqual(self.run_ok(code).err.count("UserWarning: old"), 1)
        self.assertEqual(self.run_ok(code).err.count("UserWarning: old"), 1)

    def test_a_repeated_warning_takes_one_short_line(self):
        code = "import warnings\ndef f(x): warnings.warn('gone in 9.0: %s' % x, FutureWarning)\nf('long ' * 40)"
        self.assertIn("def f(x): warnings.warn(", self.run_ok(code).err)
        err = self.run_ok("f('long ' * 40)").err
        self.assertRegex(err, r"^<cell 1>:2: FutureWarning: gone in 9.0: long .{0,80} \.\.\. \[as in <cell 1>\]\n$")
        self.assertIn("gone in 9.0: other\n  def f(x)", self.run_ok("f('other')").err)
        caught = "with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always'); f('long ' * 40)\nstr(w[0].message)"
        self.assertIn("long long", self.value(caught))

    def test_import_of_a_workspace_file(self):
        self.run_ok("open('helper_mod.py', 'w').write('v = 5')")
        self.assertEqual(self.value("import helper_mod; helper_mod.v"), "5")

    def test_the_warm_up_between_cells_leaves_nothing(self):
        self.run_ok("import sys\ncompiled = []\nmodules = set(sys.modules)\n"
                    "sys.addaudithook(lambda event, args: compiled.append(args[1]) if event == 'compile' else None)\n"
                    "names = set()\nnames = set(globals())")
        self.run_ok("7")
        # A warm-up has the file name of the preceding cell. It is left out when the next cell comes at once.
        pause = 0.01
        while self.run_ok("print(max(map(compiled.count, filter(None, compiled))) > 1)").out != "True\n":
            time.sleep(pause)
            pause *= 2
        self.assertEqual(self.value("_, set(globals()) - names, set(sys.modules) - modules"), "(7, set(), set())")
        self.assertEqual(self.run_ok("None").variables(), [])

    def test_long_session_of_text(self):
        big = textwrap.dedent("x%d = %d\n")
        self.run_ok("".join(big % (i, i) for i in range(5000)))
        self.assertEqual(self.value("x4999"), "4999")


each_python(globals())
