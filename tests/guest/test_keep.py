"""Sessions that come back: what one process saves, another has again, or names. SANDPIPER_TEST_SEED is the first seed of
SANDPIPER_TEST_SEQUENCES random namespaces."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import fake_server
import keep_random
from base import GuestCase, each_python

PROGRAM = str(pathlib.Path(__file__).with_name("keep_process.py"))
SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "1"))
SEQUENCES = int(os.environ.get("SANDPIPER_TEST_SEQUENCES", "200"))
PATIENT = {"name_s": 20.0, "all_s": 200.0}  # on a busy machine
HANGS = {"name_s": 2.0, "all_s": 200.0}
# Of `__reduce__`: what it does → why the name is not kept, or None if it is.
HOSTILE = {
    "raise ValueError": "its pickling raised ValueError",
    "raise SystemExit": "its pickling raised SystemExit",
    "raise KeyboardInterrupt": "its pickling raised KeyboardInterrupt",
    "return 5": "not picklable",
    "os._exit(0)": "its pickling ended the process",
    "os.abort()": "its pickling ended the process",
    "os.closerange(0, 1000)": "its pickling ended the process",
    "time.sleep(1000)": "its pickling takes too long",
    "while True: pass": "its pickling takes too long",
    "os.kill(os.getpid(), 9)": "its pickling raised PermissionError",
    "os.kill(os.getppid(), 9)": "its pickling raised PermissionError",
    "os.fork()": "its pickling raised PermissionError",
    "subprocess.Popen(['sleep', '1000'])": "its pickling raised PermissionError",
    "open('written', 'w')": "its pickling raised PermissionError",
    "socket.socket().connect(('127.0.0.1', 9))": "its pickling raised PermissionError",
    "bytearray(1 << 30)": "its pickling takes too much memory",
    "print('printed'); os.write(1, b'printed'); return Fine, ()": "type changed",
    "return list, ()": "type changed",
}
# Of what is pickled: what loading it does.
LOADING = {
    "return os._exit, (0,)": "loading ended the process",
    "return os.abort, ()": "loading ended the process",
    "return time.sleep, (1000,)": "time",
    "return eval, ('all(x == 0 for x in iter(int, 1))',)": "time",
    "return eval, ('pow(7, 10 ** 9) and 1',)": "time",
    "return eval, ('os.kill(os.getppid(), 9)', {'os': os})": "loading it would start, signal or connect to others",
    "return eval, ('[0] * (1 << 29)',)": "takes too much memory",
    "return int, ('x',)": "loading raised ValueError",
}


class Lives(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.python = fake_server.PYTHONS[0]

    def life(self, what, requests, **more):
        for number, request in enumerate(requests):
            request["body"] = "%s/body%d" % (self.directory.name, number)
        ended = subprocess.run([self.python, "-B", PROGRAM, what], input=json.dumps(requests), stdout=subprocess.PIPE, text=True,
                               timeout=10 * fake_server.WAIT, cwd=self.directory.name, **more)
        answers = json.loads(ended.stdout)
        self.assertEqual([answer["failed"] for answer in answers if "failed" in answer], [])
        return answers

    def both(self, cells, checks=(), save=PATIENT, load=PATIENT, **more):
        """What the second life answers, with the outcomes of the checks in the first one as "before"."""
        (first,) = self.life("save", [{"cells": cells, "checks": checks, "options": save}], **more)
        self.assertEqual([outcome for outcome in first["outcomes"] if outcome and "Error: " in outcome], [])
        (second,) = self.life("load", [{"checks": checks, "options": load}], **more)
        return dict(second, before=first["checks"], forks_before=first["forks"])

    def reasons(self, answer):
        return {row["name"]: row["reason"] for row in answer["report"]["not_back"]}

    def test_each_name_of_random_namespaces_is_equal_or_named(self):
        spaces = [keep_random.namespace(seed) for seed in range(SEED, SEED + SEQUENCES)]
        for self.python in fake_server.PYTHONS:
            firsts = self.life("save", [{"cells": space["cells"], "checks": [code for _, code in space["checks"]], "options": PATIENT}
                                        for space in spaces])
            seconds = self.life("load", [{"checks": [code for _, code in space["checks"]], "options": PATIENT} for space in spaces])
            for seed, space, first, second in zip(range(SEED, SEED + SEQUENCES), spaces, firsts, seconds):
                with self.subTest(seed=seed, python=self.python):
                    self.assertEqual([outcome for outcome in first["outcomes"] if outcome and "Error: " in outcome], [])
                    for (kind, code), before, after in zip(space["checks"], first["checks"], second["checks"]):
                        self.assertEqual(before, after, code)
                        self.assertTrue(kind == "abstract" or "Error: " not in (before or ""), (code, before))
                    self.assertEqual(sorted(self.reasons(second)), space["lost"])
                    self.assertTrue(second["report"]["whole"])
                    self.assertEqual(second["printed"] + first["printed"], "")

    def hostile(self, table, names):
        head = "class %s:\n    def __reduce__(self):\n        import os, socket, subprocess, time\n        %s\n%s = %s()"
        return ["class Fine:\n    def __setstate__(self, state): self.__dict__.update(state)\nfirst = [1]"] + [
            head % (name.title(), what, name, name.title()) for name, what in zip(names, table)] + ["last = Fine(); last.first = first"]

    def test_what_pickling_does_costs_its_name_alone(self):
        names = ["h%d" % number for number in range(len(HOSTILE))]
        for self.python in fake_server.PYTHONS:
            answer = self.both(self.hostile(HOSTILE, names), ["first, last.first is first", "H0, Fine"], save=HANGS)
            self.assertEqual(self.reasons(answer), dict(zip(names, HOSTILE.values())))
            self.assertEqual(answer["checks"][0], "([1], True)")
            self.assertEqual(answer["printed"], "")
            self.assertFalse(os.path.exists(self.directory.name + "/written"))
            self.assertEqual(answer["forks_before"], 6 + 1)  # one for each that ended, and for what is shared

    def test_what_loading_does_costs_its_name_alone(self):
        names = ["h%d" % number for number in range(len(LOADING))]
        for self.python in fake_server.PYTHONS:
            answer = self.both(self.hostile(LOADING, names), ["first, last.first is first"], load=HANGS)
            self.assertEqual(self.reasons(answer), dict(zip(names, LOADING.values())))
            self.assertEqual(answer["checks"][0], "([1], True)")

    def test_output_of_loading_is_output(self):
        answer = self.both(["class A:\n    def __setstate__(self, state): print('loaded'); self.x = 1\na = A(); a.x = 1"], ["a.x"])
        self.assertEqual((answer["printed"], answer["checks"]), ("loaded\n", ["1"]))

    def test_no_fork_is_needed_for_honest_names(self):
        cells = ["class A: pass"] + ["v%d = [%d]; o%d = A()" % (n, n, n) for n in range(300)]
        answer = self.both(cells, ["v7, o299.__class__ is A"])
        self.assertEqual((answer["forks_before"], answer["forks"], answer["report"]["names"]), (1, 0, 601))

    def test_report(self):
        answer = self.both(
            ["import os, sqlite3 as sql\nfrom json import dumps, loads\nfrom cmath import *\nimport xml.dom.minidom",
             "x = 1; con = sql.connect(':memory:')\n_hidden = 2\nfor lock in [__import__('threading').Lock()]:\n    pass",
             "rows = {'con': con, 'a very long name': '" + "x" * 100 + "'}", "def f():\n    return _used, x\n_used = 3"],
            ["dumps(loads('[1]')), sqrt(4), xml.dom.minidom.__name__, f()", "os is sql", "_hidden"])
        report = answer["report"]
        self.assertEqual((report["names"], report["back"], report["imports"], report["cell"], report["settings"]), (2, ["x", "f"], 4, 5, False))
        self.assertEqual(answer["checks"], ["('[1]', (2+0j), 'xml.dom.minidom', (3, 1))", "False", "NameError: name '_hidden' is not defined"])
        self.assertEqual(report["not_back"], [
            {"name": "con", "type": "sqlite3.Connection", "reason": "not picklable", "cell": "2", "line": "con = sql.connect(':memory:')"},
            {"name": "lock", "type": "_thread.lock", "reason": "not picklable", "cell": "2", "line": "for lock in [__import__('threading').Lock()]:"},
            {"name": "rows", "type": "dict", "reason": "holds a sqlite3.Connection, which is not picklable", "cell": "3",
             "line": ("rows = {'con': con, 'a very long name': '" + "x" * 100)[:80]}])
        self.assertEqual(list(report["sources"]), ["<cell %d>" % number for number in range(1, 5)])

    def test_what_is_not_a_name(self):
        made = pathlib.Path(self.directory.name, "sub", "own_module.py")
        made.parent.mkdir()
        made.write_text("class Own:\n    v = 4\n")
        answer = self.both(["import os, random, sys\nos.chdir('sub'); sys.path.append(os.getcwd())\nimport own_module\nown = own_module.Own()",
                            "random.seed(3); random.gauss(0, 1); state = random.getstate()\nos.environ['KEPT'] = 'no'"],
                           ["random.getstate() == state, state[2]", "own.v, sys.path[-1]"])
        self.assertEqual((answer["checks"][0][:5], answer["checks"][1]), ("(True", answer["before"][1]))  # a fork has another state
        self.assertEqual((answer["report"]["cwd"], answer["report"]["cwd_gone"], answer["report"]["settings"]), (str(made.parent), None, True))
        made.unlink()
        made.parent.rmdir()
        (second,) = self.life("load", [{"options": PATIENT}])
        self.assertEqual(self.reasons(second), {"own": "needs the package own_module", "own_module": "needs the package own_module"})
        self.assertEqual((second["report"]["cwd"], second["report"]["cwd_gone"]), (self.directory.name, str(made.parent)))

    def test_largest_names_go_first(self):
        save = dict(PATIENT, max_bytes=400_000)
        answer = self.both(["a = b'a' * 150_000; b = b'b' * 200_000; c = b'c' * 100_000; d = b'd' * 500_000; e = [b'e' * 90_000]; f = [e]",
                            "class Big:\n    table = b't' * 350_000\nbig = Big()"], ["len(a), len(c), f[0] is e"], save=save)
        self.assertEqual(self.reasons(answer), {"b": "too large", "d": "too large", "Big": "too large", "big": "needs Big"})
        self.assertEqual(answer["checks"], ["(150000, 100000, True)"])

    def test_names_that_need_another_and_share(self):
        answer = self.both(["import threading\nclass Base:\n    lock = threading.Lock()\nclass Sub(Base): pass\nsub = Sub(); x = [1]; y = {'x': x, 'l': Base.lock}"],
                           ["x"])
        self.assertEqual(self.reasons(answer), {"Base": "holds a _thread.lock, which is not picklable", "Sub": "needs Base", "sub": "needs Sub",
                                                "y": "holds a _thread.lock, which is not picklable"})
        answer = self.both(["class A:\n    def __setstate__(self, state): raise KeyError\na = A(); a.x = []; b = a.x; c = 3"], ["c"])
        self.assertEqual(self.reasons(answer), {"a": "loading raised KeyError (with b)", "b": "loading raised KeyError (with a)"})

    def test_time_in_all(self):
        slow = "class Slow:\n    def __init__(self): self.x = 1\n    def __%s__(self, *_):\n        import time; time.sleep(0.5)\n%s\n" + "\n".join(
            "s%d = Slow()" % number for number in range(20)) + "\nx = 1"
        answer = self.both(["x = 0", slow % ("getstate", "        return self.__dict__")], ["x"], save={"name_s": 20.0, "all_s": 3.0})
        self.assertEqual(set(self.reasons(answer).values()), {"time", "its pickling takes too long"})
        self.assertEqual(answer["checks"], ["1"])
        answer = self.both([slow % ("setstate", "        self.x = 1")], load={"name_s": 20.0, "all_s": 3.0})
        self.assertEqual(set(self.reasons(answer).values()), {"time"})
        self.assertLessEqual({"Slow", "x"}, set(answer["report"]["back"]))

    def test_damaged_bodies(self):
        cells = ["import json\na = [1]; b = {'a': a}\ndef f(): return a", "class A: pass\nc = A()"]
        self.both(cells)
        whole = pathlib.Path(self.directory.name, "body0").read_bytes()
        places = [*range(0, len(whole), 37), len(whole) - 1]
        bodies = [whole[:at] for at in places] + [whole[:at] + bytes((whole[at] ^ 0x55,)) + whole[at + 1:] for at in places]
        for number, data in enumerate(bodies):
            pathlib.Path(self.directory.name, "body%d" % number).write_bytes(data)
        answers = self.life("load", [{"options": dict(PATIENT, careful=True)} for _ in bodies])
        self.assertEqual([answer["report"]["whole"] for answer in answers[: len(places)]], [False] * len(places))
        self.assertLessEqual({text for answer in answers[: len(places)] for text in answer["report"]["sources"].values()}, set(cells))
        self.assertGreater(max(len(answer["report"]["back"]) for answer in answers[: len(places)]), 2)

    def test_arrays(self):
        if subprocess.run([self.python, "-c", "import numpy, pandas"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("numpy: not there, or no pandas")
        answer = self.both(
            ["import numpy as np, pandas as pd\nnp.random.seed(3); np.random.rand()",
             "a = np.arange(10.); b = a[2:]; c = a[::-1]; d = a.copy(); m = a.reshape(2, 5).T",
             "df = pd.DataFrame({'x': [1, 2, 3], 'y': list('abc')}); cut = df[['x']]; s = df['x']; ts = pd.Timestamp('2020'); g = df.groupby('y')",
             "o = np.array([1, 'a', None, [3]], dtype=object); st = np.zeros(3, dtype=[('p', 'i4')]); sc = np.float64(3); r = np.random.default_rng(5)",
             "class H:\n    def __reduce__(self): raise ValueError\nho = np.array([H()], dtype=object); dh = pd.DataFrame({'z': [H()]})"],
            ["a, b, c, d, m.shape", "a[2] = 99\nb[0], c[7], m[2, 0], d[2]", "df, cut, s, ts, g.sum()", "o, st, sc, r.random()", "np.random.rand()"])
        self.assertEqual(answer["checks"], answer["before"])
        self.assertEqual(sorted(self.reasons(answer)), ["dh", "ho"])


SAVE = """del file, name, builtins
_frame = sys._getframe()
while 'SESSION' not in _frame.f_globals: _frame = _frame.f_back
_session, _load = _frame.f_globals['SESSION'], _frame.f_globals['load']
_pid = os.fork()
if not _pid:
    try: _load('keep').save(_session.namespace, _session.sources, os.open('body', os.O_WRONLY | os.O_CREAT), layers=_session.layers)
    finally: os._exit(0)
os.waitpid(_pid, 0)[1]"""
LOAD = """import os, sys
_frame = sys._getframe()
while 'SESSION' not in _frame.f_globals: _frame = _frame.f_back
_session, _load = _frame.f_globals['SESSION'], _frame.f_globals['load']
report = _load('keep_load').bring_back(os.open('body', os.O_RDONLY), _session.namespace, name_s=20)
sorted(report['back']), [row['name'] for row in report['not_back']]"""


class Sessions(GuestCase):
    options = "keep"

    def test_code_cannot_break_it(self):
        for name in "pickle", "_pickle", "copyreg", "marshal", "select", "keep", "random", "ast", "gc", "_compat_pickle":
            self.run_ok("with open('%s.py', 'w') as file: file.write('raise SystemExit')" % name)
        self.run_ok("import os, sys\nx = [1]; y = {'x': x}\nclass P:\n    def __reduce__(self):\n        print('never'); sys.stdout.flush()\n"
                    "        return P, ()\np = P()\ndef f(n): return n + len(x)\nlog = open('log', 'w')\n"
                    "class Q:\n    def __setstate__(self, state): print('loaded'); os.write(1, b'again')\nq = Q(); q.x = 1")
        self.run_ok("import builtins\nfor name in 'isinstance', 'getattr', 'len', 'map', 'open', 'super', 'zip', '__build_class__':\n"
                    "    setattr(builtins, name, None)")
        reply = self.run_ok(SAVE)
        self.assertEqual((reply.value, reply.out), ("0", ""))
        self.session = self.guest.session()
        reply = self.run_ok(LOAD)
        self.assertEqual((reply.value, reply.out), ("(['P', 'Q', 'f', 'p', 'q', 'x', 'y'], ['log'])", "loaded\nagain"))
        self.assertEqual(self.value("y['x'] is x, f(1), type(p) is P, 'pickle' in sys.modules"), "(True, 2, True, False)")


each_python(globals())
