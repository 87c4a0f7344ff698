"""The files and variables that a call created, changed and removed, as its result lists them."""
import unittest

from client import Shared, once
from libraries import WithLibraries


@once
class Changes(WithLibraries):
    def test_files_made_changed_and_removed(self):
        self.server.python("import os; os.makedirs('c'); open('c/old', 'w').write('x'); open('c/gone', 'w').close()")
        result = self.server.python("open('c/new', 'w').write('x' * 1500); open('c/old', 'a').write('y'); os.remove('c/gone')")
        self.assertEqual(result.status.field("files"), "-c/gone +c/new (1.5 kB) ~c/old (2 B)")
        self.assertIsNone(self.server.python("open('c/new').read() and None").status.field("files"))

    def test_variables_made_rebound_and_removed_with_type_and_shape(self):
        self.need("pandas", "numpy")
        field = self.server.python("import numpy as np, pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})\n"
                                   "v = np.zeros((2, 3, 4))\nn = 5\nl = [1, 2, 3]\n_hidden = 1\ndef f(): pass").status.field("vars")
        for part in ("+df DataFrame 2x2", "+v ndarray 2x3x4", "+n int", "+l list 3", "+f function"):
            self.assertIn(part, field)
        self.assertNotIn("hidden", field)
        field = self.server.python("del n\nl = l + [4]").status.field("vars")
        self.assertIn("-n", field)
        self.assertIn("~l list 4", field)

    def test_many_variables_and_many_files_are_counted_not_listed(self):
        result = self.server.python("for i in range(10000): globals()[f'name{i}'] = i", session="names")
        self.assertRegex(result.status.field("vars"), r"\+name0 int .* and \d+ more$")
        self.assertLess(len(result.text), 3000)
        result = self.server.python("import os\nos.makedirs('heap')\nfor i in range(1900): open(f'heap/{i}', 'w').close()", session="heap")
        self.assertEqual(result.status.field("files"), "+heap/ (1900 files, 0 B)")
        result = self.server.python("for i in range(1900, 100000): os.mknod(f'heap/{i}')", session="heap", timeout_s=300, _timeout=300)
        self.assertEqual(result.status.field("files"), "+heap/ (98100 files, 0 B)")
        self.assertLess(len(result.text), 3000)
        self.assert_alive(self.server)


@once
class Shapes(WithLibraries):
    def setUp(self):
        self.need("pandas", "numpy")

    def test_changed_variables_have_type_and_shape(self):
        result = self.server.python("import numpy as np\narray = np.zeros((3, 4))", session="new")
        self.assertIn("+array ndarray 3x4", result.status.field("vars"))
        self.assertEqual(self.server.python("one = np.float64(1)", session="new").status.field("vars"), "+one float64")


class Files(Shared):
    def test_files_of_write_file_are_not_listed_by_the_next_call(self):
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

    def test_a_dead_call_names_what_it_left_in_part(self):
        self.server.python("import os; open('kept.txt', 'w').close()")
        result = self.server.python("with open('part.csv', 'w') as out:\n  for row in range(1, 9000):\n    print(row, file=out)\n"
                                    "    if row == 7000: out.flush(); os.remove('kept.txt'); os.kill(os.getpid(), 9)")
        self.assertIn("restored to the state before this call", result.status.line)
        self.assertEqual(result.status.field("files"), "-kept.txt +part.csv (34 kB)")
        self.assertIsNone(self.server.python("y = 1").status.field("files"))


if __name__ == "__main__":
    unittest.main()
