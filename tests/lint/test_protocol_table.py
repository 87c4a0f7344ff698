"""Checks that the tests in docs/PROTOCOL.md exist."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r"^    def (test_\w+)\(self\)|^static void (\w+)\(void \*\*\)", re.MULTILINE)


class Table(unittest.TestCase):
    def test_every_named_test_exists(self):
        tests = set()
        for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/unit/**/test_*.c")]:
            tests.update(python or c for python, c in DEFINITION.findall(path.read_text()))
        rows = re.findall(r"^\| .* \| (.*) \|$", (ROOT / "docs" / "PROTOCOL.md").read_text(), re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`([^`]*)`", row)}
        paths = {name for name in named if "/" in name}
        self.assertGreater(len(named), 60)
        self.assertEqual(named - paths - tests, set())
        self.assertEqual([path for path in paths if not (ROOT / path).exists()], [])


if __name__ == "__main__":
    unittest.main()
