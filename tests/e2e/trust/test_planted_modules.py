"""Modules that code plants in the workspace: the server's own Python never imports them."""
import base64
import os
import pathlib
import tempfile

from client import Case, Server, give_away, need_userns
from index.projects import false_pillow
from libraries import PYTHON
from pictures import png, size_of

# One for each module of the standard library, and one that replaces Pillow and returns another image.
PLANT = """
import os, sys
here = os.getcwd()
mark = f"open({here + '/ran'!r}, 'a').write(__name__ + ' ')\\n"
names = getattr(sys, 'stdlib_module_names', None) or [name.partition('.')[0] for name in os.listdir(os.path.dirname(os.__file__))]
for name in {*names, 'html', 'importlib', 'linecache', 'subprocess', 'tokenize', '_ctypes'} - {'sys', 'builtins'}:
    with open(name + '.py', 'w') as file:
        file.write(mark + "raise ImportError('planted')\\n")
library = '%s/.local/lib/python%d.%d/site-packages' % (os.environ['HOME'], *sys.version_info[:2])
for place in here, library:
    os.makedirs(place + '/PIL')
    for name, text in PILLOW.items():
        with open(f'{place}/PIL/{name}.py', 'w') as file:
            file.write(mark + text)
for name in 'usercustomize', 'sitecustomize':
    with open(f'{library}/{name}.py', 'w') as file:
        file.write(mark)
with open(library + '/planted.pth', 'w') as file:
    file.write('import os; ' + mark)
"""
RAN = "print(open('ran').read().split() if 'ran' in __import__('os').listdir() else [])"


class Planted(Case):
    def setUp(self):
        need_userns()
        self.server = Server(*(("--python", PYTHON) if os.path.exists(PYTHON) else ()))
        self.addCleanup(self.server.__exit__, None, None, None)
        self.server.must_be_contained()
        # This session ends before the first check, so that its imports do not affect other cells.
        self.assertFalse(self.server.python(PLANT.replace("PILLOW", repr(false_pillow()))).is_error)
        self.server.python("1", reset=True)

    def assert_nothing_ran(self, after):
        self.assertEqual(self.server.python(RAN, fresh=True).output, "[]", after)

    def test_scaling_an_image_imports_no_planted_module(self):
        self.server.write("wide.png", base64.b64encode(png(3000, 500)).decode(), encoding="base64")
        result = self.server.read("wide.png")
        self.assertRegex(result.text, "3000x500.*shown as 1568x261|no Pillow")
        self.assertNotIn((77, 33), [size_of(block) for block in result.content if block["type"] == "image"])
        for name in ("a.pdf", "a.docx", "a.xlsx"):
            self.server.write(name, "no document")
            self.server.read(name)
        self.assert_nothing_ran("read_file")
        # The control: code that imports it gets the module of the workspace.
        self.server.python("import PIL", fresh=True)
        self.assertIn("PIL", self.server.python(RAN, fresh=True).output)

    def test_composing_results_imports_no_planted_module(self):
        for code, seen in {
            "1 / 0": "ZeroDivisionError", "undefined": "NameError", "open('nowhere')": "FileNotFoundError",
            "import json5_nowhere": "ModuleNotFoundError",
            "async def f(): return 41 + 1\nawait f()": "42",
            "class A:\n  def _repr_html_(self): return '<b>bold</b>'\nA()": "bold",
            "class A:\n  def _repr_json_(self): return {'key': 1}\nA()": "'key': 1",
            "open('copy.png', 'wb').write(open('large.png', 'rb').read())": "copy.png",
            "raise SystemExit(3)": "exit code 3",
        }.items():
            with self.subTest(code):
                self.server.write("large.png", base64.b64encode(png(3000, 500)).decode(), encoding="base64")
                self.assertIn(seen, self.server.python(code, fresh=True).text)
                self.assert_nothing_ran(code)
        # The control: code imports from the workspace first, as `python -c` does.
        self.assertIn("planted", self.server.python("import colorsys", fresh=True).text)
        self.assertIn("colorsys", self.server.python(RAN, fresh=True).output)


class Opening(Case):
    def test_a_prestarted_session_imports_no_planted_module(self):
        """The first session gets an interpreter that has not yet loaded the modules that the driver needs."""
        need_userns()
        with tempfile.TemporaryDirectory() as directory:
            for name in ("_ctypes", "traceback", "linecache", "re", "collections", "fcntl", "resource", "stat"):
                pathlib.Path(directory, name + ".py").write_text(f"open({name + '.ran'!r}, 'w')\nraise ImportError('planted')\n")
            os.chmod(directory, 0o777)
            give_away(directory)
            with Server("--workspace", directory) as server:
                self.assert_prints(server.python("import os; print([name for name in os.listdir() if name.endswith('.ran')])"), "[]")
                self.assertIn("planted", server.python("import sys; sys.modules.pop('_ctypes', 0); import _ctypes").text)
