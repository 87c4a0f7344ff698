"""The notebook of a record: valid, and run by a real Jupyter it prints, returns, raises and draws the same."""
import functools
import json
import os
import subprocess
import unittest

from client import SLOW
from container_level import CONTAINER
from index.wheels import Wheel
from record_case import Record

PYTHON = "/usr/bin/python3"
LIBRARIES = ("nbformat", "nbclient", "ipykernel", "matplotlib", "venv", "ensurepip")
FIND = "import sys, importlib.util as util\nprint(*(name for name in sys.argv[1:] if not util.find_spec(name)))"
RUN = """
import nbclient, nbformat, sys
book = nbformat.read(sys.argv[1], 4)
nbformat.validate(book)
nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": sys.argv[2]}}).execute()
nbformat.write(book, sys.argv[3])
"""
CELLS = (
    ("numbers = [int(n) for n in open('in/data.txt').read().split()]\nprint(len(numbers))", {}),
    ("import sys, wheeled\nprint('err', file=sys.stderr)\nsum(numbers), wheeled.VERSION", {}),
    ("numbers[9]", {}),
    ("numbers.append(3)\nimport time; time.sleep(5)", {"timeout_s": 1}),
    ("import os; os.abort()", {}),
    ("numbers.clear()", {}),
    ("numbers", {"undo": True}),
    ("import matplotlib.pyplot as plt\nplt.plot(numbers)\nplt.show()", {}),
    ("{'a': [1] * 40, 'b': 'x' * 70}", {}),
    ("import urllib.request\ntry: urllib.request.urlopen('http://other.invalid/')\nexcept OSError: print('refused')", {}),
    ("open('in/data.txt').read()", {}),
    ("def f(:", {}),
    ("7", {"fresh": True}),
    ("8", {"branch": True}),
    ("raise SystemExit(0)", {}),
    ("x = await __import__('asyncio').sleep(0, 'awaited')\nx", {}),
    ("!echo shell", {}),
)


@functools.lru_cache(maxsize=None)
def missing_libraries():
    if not os.path.exists(PYTHON):
        return "all of them"
    return subprocess.run([PYTHON, "-c", FIND, *LIBRARIES], capture_output=True, text=True, check=True).stdout.strip()


def outputs(cell):
    """What a cell has shown: streams, its value, an exception, how many figures.

    Without what is IPython's own: how it breaks the lines of a long value, what it calls a cell, that `!` has a terminal,
    and that it warns of SystemExit.
    """
    streams, values, errors, figures = {}, [], [], 0
    for output in cell["outputs"]:
        kind = output["output_type"]
        if kind == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + "".join(output["text"]).replace("\r\n", "\n")
        elif kind == "error":
            errors.append((output["ename"], output["evalue"].partition(" (")[0]))
        elif any(name.startswith("image/") for name in output["data"]):
            figures += 1
        else:
            values.append("".join("".join(output["data"]["text/plain"]).split()))
    if errors and errors[0][0] == "SystemExit":
        streams.pop("stderr", None)
    return streams, values, errors, figures


@unittest.skipIf(missing_libraries(), f"libraries: {PYTHON} lacks {missing_libraries()}")
class Notebook(Record):
    @unittest.skipIf(CONTAINER, "isolation: paths are those of this level")
    def test_jupyter_shows_the_same(self):
        wheels, place = self.place / "wheels", self.place / "run"
        for directory in (wheels, place):
            directory.mkdir()
            directory.chmod(0o755)
        self.place.chmod(0o755)
        Wheel("wheeled", "1.5").save(wheels)
        with self.server("--python", PYTHON, "--no-index", "--find-links", str(wheels), "--cache", str(self.place / "cache"),
                         "--allow-host", "allowed.invalid") as server:
            server.write("in/data.txt", "1 2 4\n")
            server.call("write_file", path="in/data.txt", old_text="4", new_text="3")
            server.call("install_package", packages=["wheeled"])
            for code, arguments in CELLS:
                server.python(code, **arguments)
        book, done = self.place / "book.ipynb", self.place / "done.ipynb"
        self.command("export", self.path(), "--format", "ipynb", "-o", book)
        written = json.loads(book.read_text())
        first = "".join(written["cells"][0]["source"])
        for words in ("allow-host  allowed.invalid", f"find-links  {wheels}"):
            self.assertIn(words, first)
        venv = self.place / "venv"
        subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", venv], check=True, capture_output=True, timeout=300 * SLOW)
        kernel = self.place / "jupyter" / "kernels" / "python3"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps({"language": "python", "display_name": "Python 3", "argv": [
            str(venv / "bin" / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}))
        env = {**os.environ, "JUPYTER_DATA_DIR": str(self.place / "jupyter"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "HOME": str(self.place), "MPLCONFIGDIR": str(self.place), "PYTHONHASHSEED": "0",
               "IPYTHONDIR": str(self.place / "ipython")}
        ran = subprocess.run([venv / "bin" / "python", "-c", RUN, book, place, done], capture_output=True, text=True, env=env,
                             timeout=500 * SLOW)
        self.assertEqual(ran.returncode, 0, ran.stderr[-3000:])
        again = json.loads(done.read_text())
        code = [(one, other) for one, other in zip(written["cells"], again["cells"]) if one["cell_type"] == "code"]
        self.assertEqual(len(code), 3 + 13)
        for one, other in code[3:]:
            with self.subTest(code="".join(one["source"])):
                self.assertEqual(outputs(one), outputs(other))
        self.assertEqual(sum(outputs(one)[3] for one, _ in code), 1)
        text = ["".join(cell["source"]) for cell in written["cells"] if cell["cell_type"] == "markdown"]
        self.assertEqual(len(text), 1 + 5, text)
        self.assertEqual(sum("an alarm interrupts it" in one for one in text), 1)


if __name__ == "__main__":
    unittest.main()
