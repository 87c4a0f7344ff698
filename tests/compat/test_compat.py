"""Hardening must not break ordinary work: common uses of Python and other programs work in the sandbox.

Each module here is sent as one cell, as a user would paste it; each of its functions without parameters is one case,
called in that session. A function fails with an exception, and skips by returning the reason.
"""
import ast
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import Case, Server, need_userns  # noqa: E402
from container_level import CONTAINER, directories, where_it_is  # noqa: E402

MODULES = ("concurrency", "library", "packages", "programs")


def cases(source):
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and not node.args.args and not node.args.vararg:
            yield node.name


class Compat(Case):
    """The cases of one module: one server, one directory per case."""

    source = ""
    args = ()

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server(*cls.args)
        cls.directories = directories(cls.server)
        defined = cls.server.python(where_it_is(cls.source, cls.directories))
        if defined.is_error:
            raise AssertionError(defined.text)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def check(self, name):
        # At the level container a signal can end a shell's fork(2) with EINTR (docs/THREATS.md, residual risks).
        for attempt in range(5 if CONTAINER else 1):
            directory = f"{self.directories.get('/work', '/work')}/{name}_{attempt}"
            result = self.server.python(
                f"import os\nos.makedirs('{directory}')\nos.chdir('{directory}')\nprint({name}())", timeout_s=60)
            if "sh: 0: Cannot fork" not in result.text:
                break
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
if pathlib.Path("/usr/bin/python3").exists():  # with the packages that Debian has
    Programs.args = ("--python", "/usr/bin/python3")  # noqa: F821

if __name__ == "__main__":
    unittest.main()
