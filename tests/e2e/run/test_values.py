"""The display of the last expression's value and of displayed objects."""
import unittest

from client import DURATION, Shared
from libraries import WithLibraries


class LastExpression(Shared):
    def test_the_value_of_the_last_expression_is_shown(self):
        result = self.server.python("x = 20\nx * 2 + 2")
        self.assert_ok(result)
        self.assertEqual(result.output, "Out: 42")
        self.assertEqual(self.server.python("'text'").output, "Out: 'text'")

    def test_none_is_not_shown(self):
        self.assertRegex(self.server.python("None").text.strip(),
                         rf"^\[ok {DURATION}, no output\]$")

    def test_output_before_the_value_and_no_newline_at_the_end(self):
        result = self.server.python("print('a', end='')\n3")
        self.assertEqual(result.output, "a\nOut: 3")

    def test_an_exception_in_repr_is_reported(self):
        result = self.server.python("class R:\n    def __repr__(self): 1 / 0\nR()")
        self.assertIn("ZeroDivisionError", result.text)


class Values(WithLibraries):
    def test_the_last_expression_in_any_form(self):
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

    def test_a_hostile_repr_does_no_harm(self):
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
        rows = "''.join('<tr><td id=%s_%d>%d</td></tr>' % ('r' * 300, i, i) for i in range(900))"
        text = self.value(f"shows(_repr_html_='<table>' + {rows} + '</table>')")
        self.assertRegex(text, r"\n(\d+)\n\[\.\.\. the rest of the HTML is not shown \.\.\.\]\Z")
        self.assertEqual(text.splitlines()[-2], str(len(text.splitlines()) - 2))
        self.assertEqual(self.value("shows(_repr_mimebundle_=None, _repr_markdown_='*m*')"), "*m*")
        self.assertIn("plain form", self.value("""
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'plain form'}
Bundle()"""))
        self.assertIn(".svg", self.value("shows(_repr_svg_='<svg></svg>')"))
        self.assertEqual(self.out("display('one', {'two': 2}); print('three')"), "one\n{'two': 2}\nthree")

    def test_a_library_s_display_hook_takes_only_what_is_its_own(self):
        self.need("sympy", "PIL")
        self.server.python("import sympy; sympy.init_printing(use_unicode=True); from PIL import Image", session="hook")
        self.assertEqual(self.value("['1', 1]", session="hook"), "['1', 1]")
        self.assertEqual(self.value("class M:\n    def _repr_markdown_(self): return '*m*'\nM()", session="hook"), "*m*")
        result = self.server.python("Image.new('RGB', (3, 3))", session="hook")
        self.assertEqual([block["type"] for block in result.content].count("image"), 1, result.text)
        self.assertIn("√2", self.out("sympy.sqrt(2)", session="hook"))


class Display(Shared):
    def test_display_and_markdown(self):
        result = self.server.python("class M:\n    def _repr_markdown_(self): return '**b**'\n"
                                    "display(M(), [1, 2])\nprint('end')")
        self.assert_prints(result, "**b**\n[1, 2]\nend")


class Tables(WithLibraries):
    def setUp(self):
        self.need("pandas", "numpy")

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


if __name__ == "__main__":
    unittest.main()
