"""Random namespaces for test_keep.py: cells, checks that must give the same in both lives, and what is lost, by name."""
import random

DECORATED = """def {a}_note(fn):
    @functools.wraps(fn)
    def inner(*args):
        inner.calls += 1
        return fn(*args), inner.calls
    inner.calls = 0
    return inner
@{a}_note
def {a}(n): return n + {n}
{a}({n})"""
# Kind of state → (cells, checks, names that are lost): {a} to {c} are names of its own, {o} one of before, {n} a number.
PARTS = {
    "plain": (["{a} = {n}; {b} = 'text {n}' * 3; {c} = [{n}, [None, True, 2.5], {{'k': ({n}, b'x')}}, {{1, 2}}, frozenset('q'), 1j]"],
              ["{a}, {b}, {c}"], ""),
    "shared": (["{a} = [{n}]; {b} = {{'it': {a}, 'more': [{a}, {a}]}}; {c} = ({a}, {n})"],
               ["{a}, {b}, {c}, {a} is {b}['it'] is {b}['more'][0] is {c}[0]", "{a}.append(7), {c}[0]"], ""),
    "with another": (["{a} = {{'other': {o}}}; {b} = [{o}, {a}]"], ["{a}['other'] is {o}, {b}[0] is {o}, {b}[1] is {a}"], ""),
    "cycle": (["{a} = [{n}]; {b} = {{'a': {a}}}; {a}.append({b}); {c} = {a}; {c}.append({c})"],
              ["{a}[0], {a}[1] is {b}, {b}['a'] is {a} is {c} is {a}[2]"], ""),
    "dataclass": (["@dataclasses.dataclass\nclass {a}:\n    n: int\n    rest: list = dataclasses.field(default_factory=list)\n    fixed: int = {n}\n"
                   "    def all(self): return self.n + len(self.rest) + self.fixed", "{b} = {a}(3); {b}.rest.append({o}); {c} = [{b}, {a}(4)]"],
                  ["{b} is {c}[0], {b}.all(), {b}.rest[0] is {o}, {c}[1], {a}(1), {a}(4) == {c}[1], dataclasses.replace({c}[1], n=8)",
                   "[f.name for f in dataclasses.fields({a})], {a}.__module__, {a}.__qualname__"], ""),
    "frozen": (["@dataclasses.dataclass(frozen=True, order=True)\nclass {a}:\n    n: int = {n}", "{b} = {{{a}(1), {a}(2)}}; {c} = {{{a}(): 'v'}}"],
               ["sorted({b}), {a}(2) in {b}, {c}[{a}({n})]"], ""),
    "closure": (["def {c}():\n    n = {n}\n    def inc(by=1):\n        nonlocal n\n        n += by\n        return n\n    return inc, lambda: n\n"
                 "{a}, {b} = {c}()\n{a}()"], ["{a}(), {b}(), {a}(by=4), {b}(), {c}()[0]()"], ""),
    "function": (["{b} = {n}\ndef {a}(x, seen=[], *, key=({n},)):\n    seen.append(x + {b})\n    {a}.calls = getattr({a}, 'calls', 0) + 1\n"
                  "    return list(seen), key, {a}.calls\n{a}(1)\n{a}.note = {o}"], ["{a}(2), {a}.note is {o}", "{a}.__name__, {a}.__code__.co_filename"], ""),
    "decorated": ([DECORATED], ["{a}(1), {a}(2), {a}.__name__, {a}.__wrapped__(5)"], ""),
    "cached": (["@functools.lru_cache(maxsize={n})\ndef {a}(x): return x if x < 2 else {a}(x - 1) + {a}(x - 2)\n{a}(9)"],
               ["{a}(20), {a}.cache_info().maxsize, {a}.__name__"], ""),
    "dispatch": (["@functools.singledispatch\ndef {a}(x): return 'any', {n}", "@{a}.register\ndef _(x: int): return 'int'",
                  "@{a}.register(str)\ndef _(x): return 'str'\n{a}(1)"],
                 ["{a}(1), {a}('x'), {a}([])", "@{a}.register\ndef _(x: list): return 'list'\n{a}([]), {a}(1)"], ""),
    "classes": (["class {a}:\n    made = [{n}]\n    def __init_subclass__(cls, **more): {a}.made.append(cls.__name__)\n    def who(self): return 'a', self.made[0]",
                 "class {b}({a}):\n    def who(self): return 'b', super().who()\n    @property\n    def twice(self): return self.x * 2\n"
                 "    @classmethod\n    def name(cls): return cls.__name__\n    @staticmethod\n    def one(): return 1", "{c} = {b}(); {c}.x = {n}\n{b}.later = {o}"],
                ["{c}.who(), {c}.twice, {c}.name(), {c}.one(), {b}.later is {o}, {a}.made, isinstance({c}, {a})", "{a}().who(), {b}.__mro__"], ""),
    "slots": (["class {a}:\n    __slots__ = ('p', 'q')\n    def __init__(self, p): self.p = p", "{b} = {a}({o}); {c} = {a}({n})"],
              ["{b}.p is {o}, {c}.p, hasattr({c}, 'q'), hasattr({c}, '__dict__')"], ""),
    "abstract": (["class {a}(abc.ABC):\n    @abc.abstractmethod\n    def go(self): ...\n{a}.register(bytes)", "class {b}({a}):\n    def go(self): return {n}",
                  "{c} = {b}()"], ["{c}.go(), isinstance(b'', {a}), isinstance('', {a})", "{a}()"], ""),
    "metaclass": (["class {a}(type):\n    made = []\n    def __new__(meta, name, bases, space):\n        meta.made.append(name)\n"
                   "        return super().__new__(meta, name, bases, dict(space, tag=name.lower()))\nclass {b}(metaclass={a}): pass\n{c} = {b}()"],
                  ["{a}.made, {b}.tag, type({c}).tag, type({b}) is {a}"], ""),
    "redefined": (["class {a}:\n    v = 1\n{b} = [{a}(), {a}()]\ndef {c}(): return {n}", "class {a}:\n    v = 2\ndef {c}(): return -{n}"],
                  ["[x.v for x in {b}], {a}().v, type({b}[0]) is type({b}[1]), isinstance({b}[0], {a}), {c}()"], ""),
    "mutual": (["class {a}: pass\nclass {b}:\n    other = {a}\n{a}.other = {b}\ndef {c}(n): return n == 0 or {c}(n - 1)"],
               ["{a}.other is {b}, {b}.other is {a}, {c}(5)"], ""),
    "tuples": (["{a} = collections.namedtuple('{a}', 'x y', defaults=[{n}])\n{b} = {a}(1)\nclass {c}(typing.NamedTuple):\n    u: int\n    w: str = 'k'\n"
                "    def both(self): return self.u, self.w"], ["{b}, {a}(2), {b}._replace(x=5), {b}.y, {c}(3).both(), {c}(1)._asdict()"], ""),
    "enums": (["class {a}(enum.Enum):\n    RED = {n}\n    BLUE = 'b'\n    ALSO = {n}\n    def low(self): return self.name.lower()\n{b} = enum.Enum('{b}', 'A B')\n"
               "class {a}_of(enum.Enum):\n    X = (1, {n})\n    def __init__(self, p, q): self.p = p\n"
               "class {c}(enum.IntFlag):\n    R = 1\n    W = 2", "{a}_one = {a}.BLUE; {a}_two = {{{a}.RED: {c}.R | {c}.W}}"],
              ["{a}_one is {a}.BLUE, {a}.ALSO is {a}.RED, {a}.RED.low(), {a}('b'), list({a}), {a}_two", "{b}.A, list({b}), {b}(2), {a}_of.X.p, {a}_of((1, {n})), {c}(3) == {a}_two[{a}.RED]"], ""),
    "made": (["{a} = dataclasses.make_dataclass('{a}', [('p', int), ('q', str, 'z')])\n{b} = {a}({n})\n{c} = typing.NewType('{c}', int)"],
             ["{b}, {a}(1, 'y'), {b} == {a}({n}), {c}(4)"], ""),
    "generic": (["{a} = typing.TypeVar('{a}', bound=int)\nclass {b}(typing.Generic[{a}]):\n    def __init__(self, v): self.v = v\n{c} = {b}[int]({n})"],
                ["{c}.v, {b}[int](3).v, {b}.__parameters__[0] is {a}, {a}.__bound__"], ""),
    "lambdas": (["{a} = {{'f': lambda x: x + {n}, 'g': lambda x: x * 2}}; {b} = collections.defaultdict(lambda: [{n}]); {b}['k'].append(1)\n"
                 "{c} = functools.partial(lambda x, y: (x, y), {n})"], ["{a}['f'](1), {a}['g'](4), {b}['k'], {b}['new'], {c}(2)"], ""),
    "hidden": (["def _{a}(x): return x + _{b}\n_{b} = {n}\ndef {a}(x): return _{a}(x)"], ["{a}(1)"], ""),
    "library": (["{a} = [datetime.datetime(2020, 1, {n} % 27 + 1), decimal.Decimal('1.{n}'), re.compile('a+'), collections.Counter('abca'),\n"
                 "      collections.OrderedDict(x=1), collections.deque([1, {n}], 5), range({n}), slice(1, {n})]\n{b} = {{'json': json, 'sep': os.sep}}\n"
                 "{c} = [len, json.dumps, collections.OrderedDict, int.from_bytes]"], ["{a}, {b}['json'] is json", "{c}[1]([1]), [x.__name__ for x in {c}]"], ""),
    "methods": (["class {a}:\n    def __init__(self): self.n = {n}\n    def up(self):\n        self.n += 1\n        return self.n\n{b} = {a}(); {c} = {b}.up\n{c}()"],
                ["{c}(), {b}.n, {c}.__self__ is {b}"], ""),
    "cells": (["class {a}:\n    @functools.cached_property\n    def slow(self): return [{n}]\n    def __getstate__(self): return dict(self.__dict__, came=True)\n"
               "    def __setstate__(self, d): self.__dict__.update(d)\n{b} = {a}(); {b}.slow.append(1)\n"
               "@contextlib.contextmanager\ndef {c}(x):\n    yield x + {n}"], ["{b}.slow, {a}().slow", "with {c}(1) as inside: pass\ninside"], ""),
    "errors": (["class {a}(ValueError):\n    def __init__(self, code): super().__init__(code); self.code = code\n{b} = {a}({n})\n"
                "async def {c}(x): return x"], ["{b}.code, {b}.args, isinstance({b}, ValueError), str({b})", "import asyncio\nasyncio.run({c}(3))"], ""),
    "typing": (["{a} = typing.Optional[int]\nclass {b}(typing.TypedDict):\n    k: int\n@typing.runtime_checkable\nclass {c}(typing.Protocol):\n"
                "    def go(self) -> int: ...\ndef {a}_f(x: {a}, y: '{c}' = None) -> {b}: return {{'k': {n}}}"],
               ["{a}_f(1), {a}_f.__annotations__['x'] == {a}, {b}(k=2), isinstance(3, {c}), {b}.__annotations__"], ""),
    "own scope": (["def {b}():\n    scope = {{'k': [{n}], 'json': json, 'lock': threading.Lock()}}\n"
                   "    exec('def f(x): return f(x - 1) + k[0] if x else json.dumps(k)[:0] + \"\" or 0', scope)\n    return scope['f']\n{a} = {b}()"],
                  ["{a}(3), {b}()(1)"], ""),
    "subclasses": (["class {a}(list):\n    def first(self): return self[0]\nclass {b}:\n    class Inner:\n        v = {n}\n    one = None\n"
                    "    def __new__(cls):\n        if cls.one is None: cls.one = super().__new__(cls)\n        return cls.one\n"
                    "{c} = {a}([{n}, {b}(), {b}.Inner()]); {c}.more = {o}"],
                   ["{c}.first(), {c}[1] is {b}(), type({c}[2]) is {b}.Inner, {c}.more is {o}, type({c}) is {a}"], ""),
    "described": (["class {a}:\n    def __set_name__(self, owner, name): self.name = name; {a}.n = getattr({a}, 'n', 0) + 1\n"
                   "    def __get__(self, it, owner): return self.name\nclass {b}:\n    field = {a}()\n    hooks = []\n    @classmethod\n"
                   "    def hook(cls): return cls.field\n{b}.hooks.append({b}.hook)\n{c} = object()\ndef {a}_f(x={c}): return x is {c}"],
                  ["{b}.field, {a}.n, {b}.hooks[0](), {a}_f()"], ""),
    "registered": (["class {a}:\n    def __init__(self): self.routes = {{}}\n    def route(self, path):\n        def put(f):\n            self.routes[path] = f\n"
                    "            return f\n        return put\n{b} = {a}()", "@{b}.route('/')\ndef _(): return {n}", "@{b}.route('/c')\ndef {c}(): return {o}"],
                   ["{b}.routes['/'](), {b}.routes['/c'] is {c}, {c}() is {o}", "{b}.route('/d')({c}) is {c}, len({b}.routes)"], ""),
    "deep": (["{a} = []\nfor _ in range(50000): {a} = [{a}]\n{b} = [{n}]"], ["{b}"], "a"),
    "generator": (["def {b}(n): yield from range(n)\n{a} = {b}(3)"], ["list({b}(4))"], "a"),
    "file": (["{a} = open('/dev/null'); {b} = {{'log': {a}}}; {c} = [{n}]"], ["{c}"], "ab"),
    "locks": (["{a} = threading.Lock(); {b} = threading.Thread(target=print); {c} = {n}"], ["{c}"], "ab"),
    "cut off": (["{a} = sqlite3.connect(':memory:'); {b} = {{'rows': [{n}], 'con': {a}}}; {c} = {b}['rows']"], ["{c}"], "ab"),
    "exotic": (["{a} = type(os)('{a}'); {b} = memoryview(b'abc'); {c} = iter([{n}, 2])"], ["list({c})"], "ab"),
    "raises": (["class {b}:\n    def __reduce__(self): raise ZeroDivisionError\n{a} = {b}(); {c} = [{n}]"], ["{c}, type({b}())"], "a"),
    "prints": (["class {b}:\n    def __reduce__(self):\n        print('never')\n        os.write(1, b'never')\n        return {b}, ()\n{a} = {b}()\n{c} = [{a}]"],
               ["type({a}) is {b}, {c}[0] is {a}"], ""),
    "lies": (["class {b}:\n    def __reduce__(self): return list, ([1],)\n{a} = {b}(); {c} = {n}"], ["{c}"], "a"),
    "not loaded": (["class {b}:\n    def __setstate__(self, state): raise KeyError(state)\n{a} = {b}(); {a}.x = 1; {c} = [{n}]"], ["{c}"], "a"),
    "exits": (["class {b}:\n    def __reduce__(self): os._exit(0)\n{a} = {b}(); {c} = [{n}]"], ["{c}"], "a"),
}
IMPORTS = ("import abc, collections, contextlib, dataclasses, datetime, decimal, enum, functools, json, os, re\n"
           "import sqlite3, threading, typing")


def namespace(seed):
    """{"cells", "checks": [(kind, code)], "lost": [name]}"""
    chance = random.Random(seed)
    cells, checks, lost, before = [IMPORTS, "base = [0]"], [], [], "base"
    for kind in chance.choices(list(PARTS), k=chance.randint(4, 12)):
        a, b, c = (chance.choice("pqrst") + "%s%d" % (which, len(cells)) for which in "abc")
        names = {"a": a, "b": b, "c": c}
        fill = lambda text: text.format(o=before, n=number, **names)
        number = chance.randint(1, 99)
        own, own_checks, own_lost = PARTS[kind]
        cells += map(fill, own)
        checks += [(kind, fill(check)) for check in own_checks]
        lost += [names[which] for which in own_lost]
        if kind == "shared":
            before = chance.choice((before, a, b))
        if chance.random() < 0.2:
            cells.append("import functools, %s" % chance.choice(("json", "os.path", "xml.dom.minidom")))
    return {"cells": cells, "checks": checks, "lost": sorted(lost)}
