"""Hardening must not break users: what they do with Python and the programs beside it works inside.

Each module here is sent as one cell, as a user would paste it; each of its functions without parameters
is one case, called in that session. A function fails by an exception, and skips by returning why.
"""
import ast
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import Case, Server, need_userns  # noqa: E402
from isolation import folders, where_it_is  # noqa: E402

MODULES = ("concurrency", "library", "packages")


def cases(source):
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.args.args and not node.args.vararg:
            yield node.name


class Compat(Case):
    """Of one module: one server, one folder a case."""

    source = ""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server()
        cls.folders = folders(cls.server)
        defined = cls.server.python(where_it_is(cls.source, cls.folders))
        if defined.is_error:
            raise AssertionError(defined.text)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def check(self, name):
        folder = f"{self.folders.get('/work', '/work')}/{name}"
        result = self.server.python(
            f"import os\nos.makedirs('{folder}')\nos.chdir('{folder}')\nprint({name}())", timeout_s=60)
        self.assert_ok(result)
        said = result.output.split("\n")[-1]
        if said != "None":
            self.skipTest(said)


def add_module(module):
    source = (HERE / f"{module}.py").read_text()
    methods = {f"test_{name}": lambda self, name=name: self.check(name) for name in cases(source)}
    globals()[module.title()] = type(module.title(), (Compat,), {"source": source, **methods})


for module in MODULES:
    add_module(module)

if __name__ == "__main__":
    unittest.main()
