"""undo of files that have several names: what one undo puts back is no change of somebody else's for the next one."""
import os
import unittest

from client import give_away, once
from undoing import InDirectory, InMemory, WithCow

RELEASES = {"remove": "import os; os.remove('a.txt')",
            "sed": "import subprocess; subprocess.run(['sed', '-i', 's/h/x/', 'a.txt'], check=True)",
            "replace": "import os; open('t', 'w').write('other'); os.replace('t', 'a.txt')"}


class UndoLinks:
    """The cases. A class below chooses the workspace."""

    def make_linked(self, server):
        self.assert_ok(server.python("import os; open('a.txt', 'w').write('original'); os.link('a.txt', 'hl')"))

    def assert_original(self, server, *lines):
        self.assertEqual(self.contents(server), {"a.txt": "original", "hl": "original"}, lines)

    def test_a_name_goes_after_a_write_to_the_other(self):
        for name, code in RELEASES.items():
            with self.subTest(name), self.server() as server:
                self.make_linked(server)
                self.assert_ok(server.python("open('hl', 'w').write('hh')"))
                self.assert_ok(server.python(code))
                lines = [self.undo(server).status.line]
                self.assertEqual(self.contents(server), {"a.txt": "hh", "hl": "hh"}, lines)
                lines.append(self.undo(server).status.line)
                self.assert_original(server, *lines)
                self.assertNotIn("not reverted", lines[1])
                self.assert_ok(server.python("", restore="before-undo"))
                self.assertEqual(self.contents(server), {"a.txt": "hh", "hl": "hh"}, lines)
            self.clear()

    def test_both_at_once(self):
        for name, code in RELEASES.items():
            with self.subTest(name), self.server() as server:
                self.make_linked(server)
                self.assert_ok(server.python("x = 1", checkpoint="c1"))
                self.assert_ok(server.python("open('hl', 'w').write('hh')"))
                self.assert_ok(server.python(code))
                self.assert_original(server, server.python("", restore="c1").status.line)
            self.clear()

    def test_names_that_code_has_made(self):
        with self.server() as server:
            self.assert_ok(server.python("open('n1', 'w').write('original')"))
            for code in ("import os; os.link('n1', 'n2')", "open('n2', 'w').write('hh')", "os.remove('n1')"):
                self.assert_ok(server.python(code))
            lines = []
            for expected in ({"n1": "hh", "n2": "hh"}, {"n1": "original", "n2": "original"}, {"n1": "original"}):
                lines.append(self.undo(server).status.line)
                self.assertEqual(self.contents(server), expected, lines)

    def clear(self):
        """For the next server."""


@once
class Memory(UndoLinks, InMemory):
    pass


class Directory(UndoLinks, InDirectory):
    def make_linked(self, server):
        """The user's own."""
        (self.dir / "a.txt").write_text("original")
        give_away(self.dir / "a.txt")
        os.link(self.dir / "a.txt", self.dir / "hl")
        self.assert_ok(server.python("x = 0"))

    def clear(self):
        for name in os.listdir(self.dir):
            os.remove(self.dir / name)


class Cow(UndoLinks, WithCow):
    pass


if __name__ == "__main__":
    unittest.main()
