"""The last value as JSON."""
import json
import time

from base import GuestCase, each_python
from fake_server import WAIT


class Values(GuestCase):
    def test_values_that_are_json(self):
        for code in ("17", "-3.5e-9", "True", "'tab\\t\"q\" \\\\ é \\x7f \\u2028 \\x00 🐦'", "[]", "{}", "[[], {'': None}]",
                     "{'rows': [1, 2.25, False, None, {'k': ['v']}]}", "2**53 - 1", "1 - 2**53", "[-0.0, 5e-324, 1e300]", "'x' * 65000"):
            reply = self.run_ok(code)
            self.assertEqual(json.loads(reply.json), eval(code), code)
            self.assertNotIn("\n", reply.json)

    def test_values_that_are_not(self):
        self.run_ok("import collections, enum\nclass L(list): pass\nclass D(dict): pass\nclass S(str): pass\nclass I(int): pass\n"
                    "class F(float): pass\nclass E(enum.IntEnum): A = 1\nloop = []; loop.append(loop)\nself = {}; self['me'] = self\nwide = []\n"
                    "for _ in range(50): wide = [wide, wide]\ndeep = 1\nfor _ in range(65): deep = [deep]")
        for code in ("(1, 2)", "{1, 2}", "b'x'", "2**53", "-2**53", "[{'a': 2**53 + 1}]", "10**4000", "float('nan')", "[float('inf')]", "{'a': -float('inf')}",
                     "{1: 2}", "{None: 1}", "L()", "[L()]", "D()", "S('x')", "{S('k'): 1}", "I(3)", "F(2)", "E.A", "1j", "object()", "range(3)",
                     "collections.OrderedDict()", "loop", "self", "wide", "deep", "'x' * 65536", "['é' * 40000]", "[0] * 40000",
                     "dict.fromkeys(map(str, range(20000)))", "'\\ud800'", "{'a\\0': 1}", "[1, (2,)]", "...", "int"):
            self.assertIsNone(self.run_ok(code).json, code)

    def test_only_values_have_json(self):
        for code in ("x = 5", "None", "print(1)", ""):
            self.assertIsNone(self.run_ok(code).json, code)
        self.assertIsNone(self.session.run("5\n1 / 0").json)
        self.assertIsNone(self.run_ok("import sys\nsys.displayhook = lambda value: None\n3").json)

    def test_the_limit_counts_bytes(self):
        self.assertEqual(len(self.run_ok("'x' * 65534").json), 65536)
        self.assertIsNone(self.run_ok("'x' * 65535").json)

    def test_no_code_of_the_users_runs(self):
        self.run_ok("ran = []\nclass Sly(list):\n"
                    + "".join("    def %s(self, *a): ran.append('%s'); return iter(())\n" % (name, name) for name in ("__iter__", "__bool__"))
                    + "    def __len__(self): ran.append('len'); return 1\n    def __repr__(self): return 'sly'\n"
                    "class Key(str):\n    def __eq__(self, other): ran.append('eq'); return True\n    __hash__ = str.__hash__\n"
                    "sly = {Key('k'): 1}")
        for code in ("[Sly([1])]", "{'a': Sly()}", "Sly()", "sly"):
            self.assertIsNone(self.run_ok(code).json, code)
        self.assertEqual(self.value("ran"), "[]")

    def test_bent_modules_change_nothing(self):
        self.run_ok("import json, json.encoder, builtins\njson.dumps = json.JSONEncoder.encode = json.encoder.encode_basestring = None\n"
                    "for name in ('repr', 'len', 'type', 'str'): setattr(builtins, '_' + name, getattr(builtins, name))\n"
                    "builtins.type = builtins.len = builtins.repr = lambda *a: 1 / 0")
        self.assertEqual(json.loads(self.session.run("[1, 'a', {'b': None}]").json), [1, "a", {"b": None}])

    def test_large_values_take_no_time(self):
        self.run_ok("big = list(range(3_000_000))\nwide = []\nfor _ in range(60): wide = [wide, wide, 'x' * 50]")
        started = time.monotonic()
        for code in ("big", "[[big]]", "wide"):
            self.assertIsNone(self.run_ok(code).json, code)
        self.assertLess(time.monotonic() - started, WAIT)


each_python(globals())
