"""What an answer shows, with Debian's numpy, pandas and matplotlib: order, large output, values, figures, changes."""
import base64
import os
import re
import struct
import unittest

from client import Server, Shared

PYTHON = "/usr/bin/python3"  # where Debian puts its numpy, pandas and matplotlib
ARGS = ("--python", PYTHON) if os.path.exists(PYTHON) else ()
LONG_SIDE, REPLY_BYTES = 1568, 900_000


class Shown(Shared):
    args = ARGS

    def need(self, *names):
        for name in names:
            if "True" not in self.server.python(
                    f"import importlib.util as u; print(bool(u.find_spec({name!r})))").output:
                self.skipTest(f"{name}: not installed for this interpreter")

    def out(self, code, **arguments):
        result = self.server.python(code, **arguments)
        self.assert_ok(result)
        return result.output

    def value(self, code, **arguments):
        text = self.out(code, **arguments)
        self.assertIn("Out: ", text)
        return text.partition("Out: ")[2].strip("\n")


class Order(Shown):
    def test_children_c_code_and_python_in_the_order_of_the_clock(self):
        text = self.out("import ctypes, os, subprocess, sys\nlibc = ctypes.CDLL(None)\n"
                        "for i in range(0, 40, 5):\n"
                        "    print(i)\n    subprocess.run(['echo', str(i + 1)])\n    libc.puts(b'%d' % (i + 2))\n"
                        "    os.write(1, b'%d\\n' % (i + 3))\n    subprocess.run(f'echo {i + 4} >&2', shell=True)")
        self.assertEqual([int(n) for n in re.findall(r"^\d+$", text, re.M)], list(range(40)))

    def test_many_turns_between_the_streams(self):
        text = self.out("import sys\nfor i in range(400): print(i, file=(sys.stdout, sys.stderr)[i // 2 % 2])")
        self.assertEqual([int(n) for n in re.findall(r"^\d+$", text, re.M)], list(range(400)))
        self.assertEqual(text.count("[stderr]"), 100)

    def test_one_stream_alone_is_not_marked(self):
        self.assertEqual(self.out("print('a'); print('b')"), "a\nb")

    def test_threads_do_not_tear_lines(self):
        text = self.out("import threading\ndef say(c):\n    for _ in range(200): print(c * 40)\n"
                        "t = [threading.Thread(target=say, args=(c,)) for c in 'xyz']\n"
                        "[a.start() for a in t]; [a.join() for a in t]\nNone")
        seen = [line for line in text.split("\n") if line and "omitted" not in line]
        self.assertLessEqual(sum(len(set(line)) > 1 for line in seen), 1, seen[:3])  # the cut may tear one


class LargeOutput(Shown):
    def test_head_and_tail_are_kept_and_the_rest_is_in_a_file(self):
        text = self.out("for i in range(100000): print('line', i)")
        self.assertLess(len(text), 17_000)
        self.assertTrue(text.startswith("line 0\nline 1\n"))
        self.assertTrue(text.endswith("line 99998\nline 99999"), text[-200:])
        cut = next(line for line in text.split("\n") if "omitted" in line)
        path = re.search(r"/\S+\.txt", cut)[0]
        part = self.server.read(path, start_line=50001, end_line=50002)
        self.assertTrue(part.text.startswith("line 50000\nline 50001\n"), part.text)
        self.assertIn("of 100000", part.text)

    def test_a_flood_grows_nothing(self):
        def resident():
            with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
                return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
        self.out("1")
        before = resident()
        result = self.server.python("import os\nb = b'0123456789abcde\\n' * 4096\nfor _ in range(3000): os.write(1, b)",
                                    timeout_s=120, _timeout=120)
        self.assert_ok(result)
        self.assertLess(len(result.text), 17_000)
        self.assertLess(resident() - before, 8000)
        self.assert_alive(self.server)

    def test_what_a_terminal_would_not_show_is_not_shown(self):
        text = self.out(r"""
import os, sys
print('\x1b[31mred\x1b[0m \x1b]0;title\x07plain')
for i in range(100): print(f'\r{i}%', end='')
print('\rdone')
os.write(1, b'bad \xff\xfe bytes\n')
print('lone \ud800 half'.encode('utf-8', 'surrogatepass').decode('utf-8', 'replace'))
sys.stdout.write('nul \0 byte\n')
print('x' * 10000)
""")
        lines = text.split("\n")
        self.assertEqual(lines[:2], ["red plain", "done"])
        self.assertIn("bad \ufffd", lines[2])
        self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f]")
        self.assertLess(max(map(len, lines)), 2100)
        self.assertRegex(text, r"\nx{900,1000} … (\d+ bytes of this line omitted … )?x{900,1000}\n")

    def test_a_lone_surrogate_in_what_is_printed_is_no_error(self):
        self.assertIn("half", self.out("print('lone \\ud800 half')"))


class Values(Shown):
    def test_the_last_expression_wherever_it_stands(self):
        for code in ("x = 5; x + 1", "6  # a comment", "6;6", "import asyncio\nawait asyncio.sleep(0, 6)",
                     "if True: pass\n6", "6\n\n# the end\n", "(2 *\n 3)"):
            with self.subTest(code=code):
                self.assertEqual(self.value(code), "6")
        for code in ("x = 6", "None", "for i in range(3): i", "def f(): return 6"):
            with self.subTest(code=code):
                self.assertNotIn("Out:", self.out(code))

    def test_arrays_and_tables(self):
        self.need("numpy", "pandas")
        self.assertEqual(self.value("import numpy as np, pandas as pd\nnp.arange(6).reshape(2, 3)"),
                         "array([[0, 1, 2],\n       [3, 4, 5]])")
        wide = self.value("pd.DataFrame({f'c{i}': range(1000) for i in range(30)})")
        self.assertIn("1000 rows", wide)
        self.assertNotIn("\\\n", wide)
        self.assertLess(len(wide), 12_000)
        series = self.value("pd.Series(range(100000), name='n')")
        self.assertIn("Length: 100000", series)
        self.assertLess(len(self.value("np.random.rand(1000, 1000)")), 12_000)

    def test_structures_are_laid_out_and_bounded(self):
        nested = self.value("{'a': {'b': [{'c': list(range(5000))}] * 50}, 'd': 'y' * 100000}")
        self.assertLess(len(nested), 12_000)
        self.assertIn("more", nested)
        self.assertEqual(self.value("{'a': [1, 2], 'b': (3,)}"), "{'a': [1, 2], 'b': (3,)}")
        self.assertIn("...", self.value("x = []; x.append(x); x"))

    def test_a_hostile_repr_harms_nobody(self):
        for body, part in (("raise ValueError('no')", "ValueError"), ("return 5", "TypeError"), ("return 'z' * 10**8", "zzz"),
                           ("return '\\ud800'", "")):
            with self.subTest(body=body):
                result = self.server.python(f"class R:\n    def __repr__(self): {body}\nR()")
                self.assertLess(len(result.text), 20_000)
                self.assertIn(part, result.text)
        self.assert_alive(self.server)

    def test_forms_of_the_notebook_world(self):
        self.server.python("def shows(**forms):\n    class Shows: pass\n"
                           "    for name, data in forms.items(): setattr(Shows, name, lambda self, d=data: d)\n    return Shows()")
        self.assertEqual(self.value("shows(_repr_markdown_='# title')"), "# title")
        self.assertIn("cell one\tcell two", self.value(
            "shows(_repr_html_='<table><tr><td>cell one</td><td>cell two</td></tr></table>')"))
        self.assertEqual(self.value("shows(_repr_mimebundle_=None, _repr_markdown_='*m*')"), "*m*")
        self.assertIn("plain form", self.value("""
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'plain form'}
Bundle()"""))
        self.assertIn(".svg", self.value("shows(_repr_svg_='<svg></svg>')"))
        self.assertEqual(self.out("display('one', {'two': 2}); print('three')"), "one\n{'two': 2}\nthree")


def sides(block):
    data = base64.b64decode(block["data"])
    return struct.unpack(">II", data[16:24]) if data[:4] == b"\x89PNG" else None


class Figures(Shown):
    def images(self, result):
        found = [block for block in result.content if block["type"] == "image"]
        self.assertLess(sum(len(str(block)) for block in result.content), REPLY_BYTES)
        for block in found:
            self.assertLessEqual(max(sides(block) or (1,)), LONG_SIDE)
        return found

    def setUp(self):
        self.need("matplotlib", "numpy")

    def test_open_and_shown_figures_come_as_images_and_are_closed(self):
        result = self.server.python("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n"
                                    "fig, ax = plt.subplots(); ax.bar([1], [2])\nprint(plt.get_backend().lower())")
        self.assert_ok(result)
        self.assertEqual(len(self.images(result)), 2, result.text)
        paths = re.findall(r"\+(\S+\.png)", result.status.field("files"))
        self.assertEqual(len(paths), 2)
        shown = [block["data"] for block in self.images(result)]
        read = [self.images(self.server.read(path))[0]["data"] for path in paths]
        self.assertEqual(sorted(read), sorted(shown))
        self.assertEqual(self.out("print(plt.get_fignums())"), "[]")

    def test_images_are_bounded_in_number_and_size(self):
        result = self.server.python("import matplotlib.pyplot as plt, numpy as np\nfor i in range(7):\n"
                                    "    plt.figure(figsize=(40, 30), dpi=100); plt.imshow(np.random.rand(800, 800, 3))", timeout_s=120,
                                    _timeout=120)
        self.assert_ok(result)
        self.assertTrue(1 <= len(self.images(result)) <= 4, result.text)
        self.assertEqual(len(re.findall(r"figure\S*\.png", result.status.field("files"))), 7, result.text)

    def test_image_files_that_the_call_saved_come_back(self):
        result = self.server.python("import matplotlib.pyplot as plt\nplt.plot([3, 1]); plt.savefig('saved.png'); plt.close('all')")
        self.assertEqual(len(self.images(result)), 1, result.text)
        self.assertIn("+saved.png", result.status.field("files"))
        self.need("PIL")
        result = self.server.python("from PIL import Image\nImage.new('RGB', (3000, 2000), 'teal').save('large.png')")
        self.assertEqual([max(sides(block)) for block in self.images(result)], [LONG_SIDE], result.text)

    def test_images_of_displayed_objects(self):
        result = self.server.python("import io, matplotlib.pyplot as plt\nf = io.BytesIO(); plt.figure(figsize=(2, 1)); plt.savefig(f); plt.close()\n"
                                    "class P:\n    def _repr_png_(self): return f.getvalue()\ndisplay(P()); P()")
        self.assertEqual(len(self.images(result)), 2, result.text)

    def test_nothing_is_imported_that_the_code_did_not_import(self):
        heavy = "print([m for m in ('matplotlib', 'numpy', 'pandas', 'PIL', 'asyncio') if m in __import__('sys').modules])"
        self.assertEqual(self.out(heavy, session="bare"), "[]")
        self.server.python("class M:\n    def _repr_markdown_(self): return 'm'\nM()", session="bare")
        self.assertEqual(self.out(heavy, session="bare"), "[]")


class Changes(Shown):
    def test_files_made_changed_and_removed(self):
        self.server.python("import os; os.makedirs('c'); open('c/old', 'w').write('x'); open('c/gone', 'w').close()")
        result = self.server.python("open('c/new', 'w').write('x' * 1500); open('c/old', 'a').write('y'); os.remove('c/gone')")
        self.assertEqual(result.status.field("files"), "-c/gone +c/new (1.5 kB) ~c/old (2 B)")
        self.assertIsNone(self.server.python("open('c/new').read() and None").status.field("files"))

    def test_names_made_rebound_and_removed_with_type_and_shape(self):
        self.need("pandas", "numpy")
        field = self.server.python("import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})\n"
                                   "v = np.zeros((2, 3, 4))\nn = 5\nl = [1, 2, 3]\n_hidden = 1\ndef f(): pass").status.field("vars")
        for part in ("+df DataFrame 2x2", "+v ndarray 2x3x4", "+n int", "+l list 3", "+f function"):
            self.assertIn(part, field)
        self.assertNotIn("hidden", field)
        field = self.server.python("del n\nl = l + [4]").status.field("vars")
        self.assertIn("-n", field)
        self.assertIn("~l list 4", field)

    def test_many_names_and_many_files_are_counted_not_listed(self):
        result = self.server.python("for i in range(10000): globals()[f'name{i}'] = i", session="names")
        self.assertRegex(result.status.field("vars"), r"\+name0 int .* and \d+ more$")
        self.assertLess(len(result.text), 3000)
        result = self.server.python("import os\nos.makedirs('heap')\nfor i in range(1900): open(f'heap/{i}', 'w').close()", session="heap")
        self.assertRegex(result.status.field("files"), r"and 1\d\d\d more$")
        result = self.server.python("for i in range(1900, 100000): os.mknod(f'heap/{i}')", session="heap", timeout_s=300, _timeout=300)
        self.assertIn("more than 2000", result.status.line)
        self.assertLess(len(result.text), 3000)
        self.assert_alive(self.server)


if __name__ == "__main__":
    unittest.main()
