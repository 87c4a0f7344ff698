"""Figures and pictures: which are returned as images and files, their number and size."""
import base64
import re
import struct
import unittest

from client import size
from libraries import WithLibraries
from pictures import png

LONG_SIDE, REPLY_BYTES = 1568, 900_000


def sides(block):
    data = base64.b64decode(block["data"])
    return struct.unpack(">II", data[16:24]) if data[:4] == b"\x89PNG" else None


class Figures(WithLibraries):
    def setUp(self):
        self.need("matplotlib", "numpy")

    def images(self, result):
        found = [block for block in result.content if block["type"] == "image"]
        self.assertLess(sum(len(str(block)) for block in result.content), REPLY_BYTES)
        for block in found:
            self.assertLessEqual(max(sides(block) or (1,)), LONG_SIDE)
        return found

    def figures(self, result):
        return re.findall(self.server.here(r"\+(/tmp/figures/\S+\.png) "), result.status.field("files") or "")

    def test_open_and_shown_figures_become_images_and_are_closed(self):
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

    def test_an_image_file_comes_back_once_however_soon_the_next_call_is(self):
        """The clock of files ticks every few milliseconds."""
        for turn in range(size(300, 60)):
            self.assertEqual(len(self.images(self.server.python(f"open('made{turn}.png', 'wb').write({png(8, 8)!r})\nNone"))), 1)
            self.assertEqual(self.images(self.server.python("1")), [], turn)

    def test_a_damaged_image_is_named_and_not_sent(self):
        whole = base64.b64encode(png(100, 80, level=0)).decode()
        result = self.server.python(f"import base64\ndata = base64.b64decode('{whole}')\n"
                                    "open('cut.png', 'wb').write(data[:900] + data[1100:])")
        self.assertEqual(self.images(result), [], result.text)
        self.assertIn("cut.png is incomplete or damaged, so it is not shown", result.content[-1]["text"])
        self.assertEqual(len(self.images(self.server.python("open('whole.png', 'wb').write(data)"))), 1)

    def test_a_large_figure_that_is_saved_comes_back_once(self):
        self.need("PIL")
        for number, save in enumerate(("plt.savefig('big.png', dpi=200)", "plt.savefig('./x/../big2.png', dpi=220); plt.show()",
                                       "plt.gcf().savefig('big3.jpg', dpi=240)")):
            with self.subTest(save=save):
                result = self.server.python("import os; os.makedirs('x', exist_ok=True)\nimport matplotlib.pyplot as plt\n"
                                            f"plt.figure(figsize=(12, 9)); plt.plot([{number}, 5]); {save}")
                self.assert_ok(result)
                self.assertEqual(len(self.images(result)), 1, result.text)
                self.assertNotIn("not shown", result.text)

    def test_a_figure_that_is_saved_to_a_file_object_comes_back_once(self):
        for save in ("with open('o.png', 'wb') as f: plt.savefig(f)", "f = open('p.png', 'wb'); plt.savefig(f, format='png'); f.close()",
                     "b = io.BytesIO(); plt.savefig(b); open('q.png', 'wb').write(b.getvalue())"):
            result = self.server.python(f"import io\nimport matplotlib.pyplot as plt\nplt.figure(); plt.plot([1, {len(save)}])\n{save}\nplt.show()")
            self.assertEqual(len(self.images(result)), 1, result.text)
        result = self.server.python("class P:\n    def _repr_png_(self): return b.getvalue()\nb = io.BytesIO()\nplt.figure(); plt.plot([3, 1])\n"
                                    "plt.savefig(b); display(P()); plt.show()")
        self.assertEqual(len(self.images(result)), 1, result.text)

    def test_images_that_found_no_space_are_named(self):
        result = self.server.python("import matplotlib.pyplot as plt\nfor i in range(6): plt.figure(figsize=(2, 1)); plt.plot([i])")
        self.assertEqual(len(self.images(result)), 4)
        paths = self.figures(result)
        self.assertEqual(len(paths), 6)
        self.assertIn(f"2 more images are not shown; read_file shows {paths[4]}, {paths[5]}", result.text)
        for path in paths[4:]:
            self.assertEqual(len(self.images(self.server.read(path))), 1)
        result = self.server.python("data = open(%r, 'rb').read()\nfor n in range(14):\n"
                                    "    with open(f'copy{n:02}.png', 'wb') as f: f.write(data + bytes([n]))" % paths[0])
        self.assertIn("10 more images are not shown; read_file shows copy04.png, copy05.png, copy06.png, copy07.png, copy08.png, "
                      "copy09.png and 4 more", result.text)
        result = self.server.python("for n in range(5):\n    with open(f'again{n}.png', 'wb') as f: f.write(data + bytes([n]))")
        self.assertIn("1 more image is not shown; read_file shows again4.png", result.text)
        result = self.server.python("for i in range(23): plt.figure(figsize=(2, 1)); plt.plot([i])", timeout_s=120, _timeout=120)
        self.assertRegex(result.text, r"16 more images are not shown; read_file shows \S+-5\.png to \S+-20\.png")
        self.assertEqual(len(self.figures(result)), 8)
        self.assertIn(" and 12 more", result.status.line)
        self.assertIn("3 more figures were not drawn: a call draws at most 20", result.text)

    def test_the_server_measures_what_code_claims_to_fit(self):
        self.server.write("long.png", base64.b64encode(png(4000, 9)).decode(), encoding="base64", session="odd")
        self.server.python("import shutil; shutil.copy('long.png', 'first.png')", session="odd")
        result = self.server.python(
            "import sys; frame = sys._getframe()\nwhile 'load' not in frame.f_globals: frame = frame.f_back\n"
            "frame.f_globals['load']('images').LONG_SIDE = 9000; print('bent')\nshutil.copy('long.png', 'second.png')",
            session="odd")
        self.assertIn("bent", result.output)
        self.assertEqual(self.images(result), [], result.text)

    def test_images_of_displayed_objects(self):
        result = self.server.python("import io, matplotlib.pyplot as plt\nf = io.BytesIO(); plt.figure(figsize=(2, 1)); plt.savefig(f); plt.close()\n"
                                    "class P:\n    def _repr_png_(self): return f.getvalue()\ndisplay(P()); P()")
        self.assertEqual(len(self.images(result)), 2, result.text)

    def test_nothing_is_imported_that_the_code_did_not_import(self):
        heavy = "print([m for m in ('matplotlib', 'numpy', 'pandas', 'PIL', 'asyncio') if m in __import__('sys').modules])"
        self.assertEqual(self.out(heavy, session="bare"), "[]")
        self.server.python("class M:\n    def _repr_markdown_(self): return 'm'\nM()", session="bare")
        self.assertEqual(self.out(heavy, session="bare"), "[]")

    needs = ("matplotlib",)

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

    def count(self, code, **arguments):
        result = self.server.python("import matplotlib.pyplot as plt, os, tempfile\n" + code, **arguments)
        self.assert_ok(result)
        return len(self.images(result))

    def test_a_figure_saved_after_show_is_the_one_that_was_shown(self):
        self.assertEqual(self.count("plt.plot([1, 2, 3]); plt.show(); plt.savefig('after.png')"), 1)
        self.assertGreater(int(self.out("print(os.path.getsize('after.png'))")), 8000)
        result = self.server.python("plt.savefig('blank.png')")
        self.assertEqual(len(self.images(result)), 0, result.text)
        self.assertIn("blank.png is blank", result.text)
        self.assertEqual(self.count("plt.plot([1]); plt.show(); plt.bar([1], [2]); plt.savefig('second.png')"), 2)

    def test_a_figure_whose_file_is_gone_is_shown(self):
        save = "plt.savefig(os.path.join(d, 'a.png'))"
        for rest in ("", "; plt.close()", "; os.remove(os.path.join(d, 'a.png'))"):
            with self.subTest(rest=rest):
                self.assertEqual(self.count(f"with tempfile.TemporaryDirectory() as d: plt.plot([1]); {save}{rest}"), 1)

    def test_a_figure_that_was_changed_since_is_shown_again(self):
        begin = "fig, ax = plt.subplots(); ax.plot([1, 2]); "
        for code, number in (("plt.show(); plt.show()", 1), ("plt.show(); ax.plot([3, 1]); plt.show()", 2),
                             ("display(fig); ax.set_title('t')", 2), ("display(fig); display(fig)", 1),
                             ("fig.show(); fig.show(); ax.plot([3, 1]); fig.show()", 2),
                             ("fig.savefig('s.png'); ax.set_title('t'); plt.show()", 2),
                             ("fig.savefig('s.png'); fig.savefig('s.jpg'); plt.show(); plt.savefig('s2.png', dpi=50)", 1),
                             ("plt.close(); ax = plt.figure().add_subplot(projection='3d')\n"
                              "for a in (1, 50): ax.azim = a; plt.savefig(f's{a}.png')", 2)):
            with self.subTest(code=code):
                self.assertEqual(self.count(begin + code), number)
        self.assertEqual(self.count(begin + "plt.show()"), 1)
        self.assertEqual([self.count("plt.show()"), self.count("ax.plot([3, 1]); plt.show()")], [0, 1])

    def test_back_ends_with_windows_are_agg(self):
        for name in ("TkAgg", "qtagg", "GTK3Agg", "GTK4Cairo", "WXAgg", "Qt5Cairo", "macosx", "nbAgg", "module://ipympl.backend_nbagg"):
            ways = ((f"import matplotlib; matplotlib.use({name!r})\n", ""), ("", f"plt.switch_backend({name!r}); "),
                    ("", f"plt.matplotlib.use(backend={name!r}); "),
                    # From 3.9 on matplotlib refuses there a back end that is not installed.
                    ("import contextlib, matplotlib\nwith contextlib.suppress(ValueError): "
                     f"matplotlib.rcParams['backend'] = {name.replace('qtagg', 'Qt5Agg')!r}\n", ""))
            for before, after in ways[:size(4, 4 if name in ("qtagg", "module://ipympl.backend_nbagg") else 1)]:
                with self.subTest(name=name, before=before, after=after):
                    result = self.server.python(f"{before}import matplotlib.pyplot as plt\n{after}plt.plot([1]); plt.show()",
                                                undo=not after)
                    self.assertEqual(len(self.images(result)), 1, result.text)
        self.assertIn("nosuch", self.server.python("plt.switch_backend('nosuch')").text)

    def test_characters_that_the_font_lacks_are_one_note(self):
        for code in ("plt.show()", "plt.savefig('glyphs.png')", "plt.savefig('glyphs.pdf')", "plt.show()"):
            with self.subTest(code=code):
                result = self.server.python("import matplotlib.pyplot as plt\nplt.rcParams['font.family'] = ['No Such Font', 'DejaVu Sans']\n"
                                            f"plt.plot([1]); plt.title('\U00013000\U00013001'); plt.ylabel('\U00013000'); {code}")
                self.assertEqual(result.text.count("has no glyph for"), 1, result.text)
                self.assertRegex(result.text, "(?i)\U00013000\U00013001|13000.*13001")
                self.assertNotIn("images.py", result.text)
                self.assertLessEqual(result.text.count("No Such Font"), 1, result.text)
        result = self.server.python("plt.figure(figsize=(1, 1), tight_layout=True); plt.title('x' * 90); plt.ylabel('y' * 90)")
        self.assertNotIn("images.py", result.text)

    def test_copies_of_a_picture_are_shown_once(self):
        self.assertEqual(self.count("plt.plot([1]); plt.savefig('one.png'); plt.savefig('two.png')"), 1)
        result = self.server.python("import shutil; shutil.copy('one.png', 'three.png'); shutil.copy('one.png', 'four.png')")
        self.assertEqual(len(self.images(result)), 1, result.text)
        for name in ("three.png", "four.png"):
            self.assertIn("+" + name, result.status.field("files"))

    def test_pictures_that_a_viewer_would_show(self):
        self.need("PIL")
        for mode in ("RGB", "CMYK", "F", "LA"):
            result = self.server.python(f"from PIL import Image\nImage.new({mode!r}, (3, 3)).show(title='t')")
            self.assertEqual((len(self.images(result)), result.output), (1, ""), result.text)
            self.assertNotIn("xdg-open", result.text)

    def test_a_figure_of_plotly_is_an_image_or_a_page(self):
        self.need("plotly")
        for code in ("fig.show()", "fig", "import plotly.io; plotly.io.show(fig, renderer='browser')"):
            result = self.server.python(f"import plotly.graph_objects as go\nfig = go.Figure(go.Bar(y=[1, 3]))\n{code}")
            self.assert_ok(result)
            if not self.images(result):
                page = re.search(r"\[html: (\S+); ", result.text)
                self.assertEqual(self.out(f"print('\"type\":\"bar\"' in open({page[1]!r}).read())"), "True")

    def test_a_saved_figure_is_named_once(self):
        result = self.server.python("import matplotlib.pyplot as plt\nplt.plot([1])\n"
                                    "plt.savefig('once.png')\nplt.show()", session="once")
        self.assertRegex(result.status.field("files"), r"^\+once\.png \([\d.]+ kB\)$")


if __name__ == "__main__":
    unittest.main()
