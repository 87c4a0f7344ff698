"""Results that a model can act on: display, figures, order, hints, what changed. Uses what the
interpreter has of numpy, pandas and matplotlib."""
import os
import re
import unittest

from client import Shared

PYTHON = "/usr/bin/python3"  # where Debian puts its numpy, pandas and matplotlib


class WithLibraries(Shared):
    args = ("--python", PYTHON) if os.path.exists(PYTHON) else ()
    needs = ()

    def setUp(self):
        for name in self.needs:
            if "True" not in self.server.python(
                    f"import importlib.util as u; print(bool(u.find_spec({name!r})))").output:
                self.skipTest(f"{name}: not installed for this interpreter")


class Tables(WithLibraries):
    needs = ("pandas", "numpy")

    def test_a_wide_table_is_one_block_also_in_the_cell_that_imports(self):
        code = ("import pandas as pd\n"
                "df = pd.DataFrame({f'column_{i}': [i * 1000] * 3 for i in range(20)})\n")
        for name, last in (("one", "df"), ("two", "print(df)")):
            lines = self.server.python(code + last, session=name).output.split("\n")
            table = [line for line in lines if line != "Out: "]
            self.assertEqual(len(table), 4, table)
            self.assertEqual(len({len(line) for line in table}), 1)

    def test_large_values_are_bounded_and_useful(self):
        for code in ("import pandas as pd; pd.Series(range(10**6))",
                     "import numpy as np; np.zeros((1000, 1000))",
                     "{i: list(range(1000)) for i in range(1000)}", "'x' * 10**6"):
            with self.subTest(code=code):
                result = self.server.python(code)
                self.assert_ok(result)
                self.assertLess(len(result.text), 12000)

    def test_changed_names_have_type_and_shape(self):
        result = self.server.python("import numpy as np\narray = np.zeros((3, 4))", session="new")
        self.assertIn("+array ndarray 3x4", result.status.field("vars"))


class Pictures(WithLibraries):
    needs = ("matplotlib",)

    def figures(self, result):
        return re.findall(self.server.here(r"\+(/tmp/figures/\S+\.png) "), result.status.field("files") or "")

    def test_open_figures_are_files_whose_path_is_named(self):
        result = self.server.python("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nNone")
        self.assert_ok(result)
        paths = self.figures(result)
        self.assertEqual(len(paths), 1, result.text)
        data = self.server.read(paths[0], encoding="base64")
        self.assertFalse(data.is_error, data.text[:200])
        self.assertEqual(self.server.python("print(plt.get_fignums())").output, "[]")

    def test_show_neither_blocks_nor_warns(self):
        result = self.server.python("import matplotlib.pyplot as plt\nfor i in range(2):\n"
                                    "    plt.plot([i, 1])\n    plt.show()", session="show")
        self.assertEqual((result.output, len(self.figures(result))), ("", 2), result.text)

    def test_sessions_do_not_overwrite_each_others_figures(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1])\nNone"
        paths = [self.figures(self.server.python(code, session=name)) for name in ("a", "b")]
        self.assertNotEqual(paths[0], paths[1])

    def test_a_saved_figure_is_named_once(self):
        result = self.server.python("import matplotlib.pyplot as plt\nplt.plot([1])\n"
                                    "plt.savefig('saved.png')\nplt.show()", session="saved")
        self.assertRegex(result.status.field("files"), r"^\+saved\.png \([\d.]+ kB\)$")


class Reports(Shared):
    def test_files_of_write_file_are_not_the_next_calls(self):
        for turn in range(10):
            self.server.write("given.txt", "x" * turn)
            self.server.write(f"given{turn}.txt", "x")
            self.assertIsNone(self.server.python("y = 1").status.field("files"))

    def test_files_of_the_call_are_named_with_their_size(self):
        result = self.server.python("open('a.csv', 'w').write('x' * 1500)")
        self.assertEqual(result.status.field("files"), "+a.csv (1.5 kB)")
        result = self.server.python("import os; open('a.csv', 'a').write('x'); open('b', 'w').close()")
        self.assertEqual(result.status.field("files"), "~a.csv (1.5 kB) +b (0 B)")
        self.assertEqual(self.server.python("os.remove('b')").status.field("files"), "-b")

    def test_streams_keep_their_order_without_a_pause(self):
        result = self.server.python("import sys\nfor i in range(8): print(i, file=(sys.stdout, sys.stderr)[i % 2])")
        self.assertEqual(re.findall(r"\d", result.output), list("01234567"))

    def test_c_code_and_python_keep_their_order(self):
        self.server.python("import ctypes; c = ctypes.CDLL(None)")
        result = self.server.python("print('a'); c.puts(b'b'); print('c'); c.puts(b'd')\nNone")
        self.assert_prints(result, "a\nb\nc\nd")

    def test_what_was_printed_before_a_kill_is_there(self):
        result = self.server.python("print('seen')\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        self.assertIn("seen\n", result.text)

    def test_display_and_markdown(self):
        result = self.server.python("class M:\n    def _repr_markdown_(self): return '**b**'\n"
                                    "display(M(), [1, 2])\nprint('end')")
        self.assert_prints(result, "**b**\n[1, 2]\nend")

    def test_hints(self):
        for code, part in (("import cv2", "opencv-python"), ("!ls", "subprocess"),
                           ("import socket; socket.create_connection(('192.0.2.1', 80))", "the sandbox has no network"),
                           ("open('/usr/x', 'w')", "working directory"),
                           ("def f(): f()\nf()", "getrecursionlimit"), ("input()", "stdin")):
            with self.subTest(code=code):
                self.assertIn(part, self.server.python(code).text)

    def test_a_new_session_of_a_warm_server_is_quick(self):
        self.server.python("1")
        for name in ("q1", "q2", "q3"):
            self.assert_ok(self.server.python("1", session=name))


if __name__ == "__main__":
    unittest.main()
