"""The user changes files outside that code has changed in a copy-on-write workspace."""
import os
import shutil
import time
import unittest

from client import DENY
from projects import Project, tree


class Conflicts(Project):
    def test_one_file_was_changed_outside(self):
        for name in ("a", "b", "c"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("for name in 'abc': open(name, 'a').write('by code\\n')"))
            (self.dir / "a").write_text("by the user\n")
            self.assertEqual(self.changes(server), {b"a": "~", b"b": "~", b"c": "~"})
            result = self.apply(server, 2, 3)
            self.reason(result, "a")
            self.assertEqual((self.read("a"), self.read("b")), ("by the user\n", "as it was\nby code\n"))
            self.assertEqual(self.changes(server), {b"a": "~"})
            self.assertEqual(self.inside(server, "a"), "as it was\nby code")
            self.discard(server, 1, paths=["a"])
            self.assertEqual(self.inside(server, "a"), "by the user")
            self.assertEqual(self.changes(server), {})

    def replace(self, name, text):
        """As an editor saves: the name gets another file."""
        self.put("editor", text)
        os.rename(self.dir / "editor", self.dir / name)

    def test_a_file_that_was_replaced_by_renaming(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.replace("a", "as it was\nby the user\n")
            self.reason(self.apply(server, 0, 1), "a")
        self.assertEqual(self.read("a"), "as it was\nby the user\n")

    def test_a_file_of_the_same_name_was_made_outside(self):
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('by code'); open('b', 'w').write('by code')"))
            self.put("a", "by the user")
            self.reason(self.apply(server, 1, 2), "a")
        self.assertEqual((self.read("a"), self.read("b")), ("by the user", "by code"))

    def test_a_file_was_deleted_outside(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'a').write('by code')"))
            (self.dir / "a").unlink()
            self.reason(self.apply(server, 0, 1), "a")
            self.assertEqual(tree(self.dir), {})

    def test_a_file_to_be_deleted_was_changed_outside(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("import os; os.remove('a')"))
            self.put("a", "by the user")
            self.reason(self.apply(server, 0, 1), "a")
        self.assertEqual(self.read("a"), "by the user")

    def test_another_type_is_in_its_place(self):
        for name in ("becomes_directory", "becomes_symlink"):
            self.put(name)
        self.put("becomes_file/inner")
        with self.server() as server:
            self.assert_ok(server.python("for name in ('becomes_directory', 'becomes_symlink', 'becomes_file/inner'):\n"
                                         "    open(name, 'a').write('by code')"))
            (self.dir / "becomes_directory").unlink()
            self.put("becomes_directory/by_user")
            (self.dir / "becomes_symlink").unlink()
            (self.dir / "becomes_symlink").symlink_to(self.outside / "secret.txt")
            shutil.rmtree(self.dir / "becomes_file")
            (self.dir / "becomes_file").symlink_to(self.outside)
            outside, before = tree(self.outside, exact=True), tree(self.dir)
            self.assertTrue(self.apply(server).text.startswith("applied 0 of "))
            self.assert_tree(tree(self.dir), before)
            self.assert_tree(tree(self.outside, exact=True), outside)

    def test_a_new_file_in_a_directory_to_be_deleted(self):
        self.put("d/a")
        self.put("d/deep/b")
        self.put("other")
        with self.server() as server:
            self.assert_ok(server.python("import os, shutil; shutil.rmtree('d'); os.remove('other')"))
            self.put("d/deep/new", "by the user")
            result = self.apply(server)
            self.assertIn("d/deep: directory kept: it contains other files of the user's", result.text)
            self.assertEqual(self.read("d/deep/new"), "by the user")
            self.assertFalse((self.dir / "other").exists())

    def test_the_same_content_on_both_sides_is_no_change(self):
        for name in ("edited", "deleted"):
            self.put(name)
        with self.server() as server:
            self.assert_ok(server.python("import os; open('edited', 'w').write('same'); open('new', 'w').write('same')\n"
                                         "os.remove('deleted')"))
            self.assertEqual(self.changes(server).number, 3)
            self.put("edited", "same")
            self.put("new", "same")
            (self.dir / "deleted").unlink()
            self.assertEqual(self.changes(server), {})
            self.apply(server, 0)

    def test_a_change_outside_before_the_first_change_here_is_no_conflict(self):
        self.put("a", "first\n")
        with self.server() as server:
            self.assert_ok(server.python("1"))
            self.put("a", "second\n")
            time.sleep(0.05)  # longer than a tick of the clock of file times
            self.assert_ok(server.python("open('a', 'a').write('by code\\n')"))
            self.apply(server, 1)
        self.assertEqual(self.read("a"), "second\nby code\n")

    def test_what_code_has_looked_up_before_it_was_replaced(self):
        for name in ("a", "gone", "sub/x"):
            self.put(name, "first\n")
        with self.server() as server:
            for session in ("one", "other"):
                self.assert_ok(server.python("import os; [os.path.exists(name) for name in ('a', 'gone', 'sub/x', 'new')]",
                                             session=session))
            self.assertTrue(server.read("new").is_error)
            self.replace("a", "by the user\n")
            (self.dir / "gone").unlink()
            self.put("new", "by the user\n")
            os.rename(self.dir / "sub", self.dir / "moved")
            self.put("sub/x", "second\n")
            time.sleep(0.05)  # longer than a tick of the clock of file times
            self.assertEqual((server.read("a").text, server.read("new").text), ("by the user\n", "by the user\n"))
            self.assert_prints(server.python("print(os.path.exists('gone'), open('sub/x').read(), open('moved/x').read())", session="one"),
                               "False second\n first\n")
            self.assert_ok(server.python("for name in ('a', 'new', 'sub/x'): open(name, 'a').write('by code\\n')", session="other"))
            self.apply(server, 3)
        self.assertEqual((self.read("a"), self.read("new"), self.read("sub/x")),
                         ("by the user\nby code\n", "by the user\nby code\n", "second\nby code\n"))

    def test_a_conflict_says_how_to_go_on(self):
        self.put("a", "".join(f"line {n}\n" for n in range(30)))
        with self.server() as server:
            server.python("text = open('a').read(); open('a', 'w').write(text.replace('line 25', 'by code'))")
            self.put("a", self.read("a").replace("line 3\n", "by the user\n"))
            patch = server.call("list_changes", diff=True).text
            self.assertIn("\n-by the user\n+line 3\n", patch)
            self.assertIn("[1 change; 1 also changed by the user, which the patch would take back: a]", patch)
            self.assertIn("a: conflict: the user has changed this file too; the diff of list_changes is against theirs, and would take that back; "
                          "discard this path to have the user's in the workspace, and make the change again there\n", server.call("apply_changes").text)
            self.discard(server, 1)
            self.assertFalse(server.call("write_file", path="a", old_text="line 25\n", new_text="by code\n").is_error)
            self.apply(server, 1)
        self.assertIn("by the user\n", self.read("a"))
        self.assertIn("by code\n", self.read("a"))

    def test_what_was_replaced_and_cannot_be_looked_up_anew(self):
        """Where the kernel refuses it, what code may not have seen is a conflict."""
        self.put("a", "first\n")
        with self.server(wrap=(*DENY, "fsconfig:EPERM", "--")) as server:
            self.assert_ok(server.python("print(open('a').read())"))
            self.replace("a", "by the user\n")
            time.sleep(0.05)
            self.assert_ok(server.python("open('a', 'a').write('by code\\n'); open('b', 'w').close()"))
            self.reason(self.apply(server, 1, 2), "a")
        self.assertEqual(self.read("a"), "by the user\n")

    def test_a_file_that_is_replaced_while_a_call_runs(self):
        """Another call's begin shows it to the code that runs. Nobody knows then which one that code has changed, unless the
        keeper has seen the user's before it did: what the user wrote is there in either case."""
        self.put("a", "first\n")
        with self.server() as server:
            call = server.start_call("run_python", code="import os, time\nopen('begun', 'w').close(); open('a').read()\n"
                                     "while not os.path.exists('go'): time.sleep(0.02)\nopen('a', 'a').write('by code\\n')", session="slow")
            while "True" not in server.python("import os; print(os.path.exists('begun'))").text:
                time.sleep(0.02)
            self.replace("a", "by the user\n")
            self.assert_ok(server.python("open('go', 'w').close()"))
            self.assert_ok(server.finish_call(call))
            self.assertEqual(self.inside(server, "a"), "by the user\nby code")
            result = self.apply(server)
            if "conflict" in result.text:
                self.reason(result, "a")
        self.assertEqual(self.read("a"), "by the user\n" if "conflict" in result.text else "by the user\nby code\n", result.text)

    def test_an_applied_file_is_changed_again(self):
        self.put("a")
        with self.server() as server:
            for text in ("one", "two", "three"):
                self.assert_ok(server.python(f"open('a', 'w').write({text!r}); open('new', 'w').write({text!r})"))
                self.assertEqual(self.changes(server).number, 2)
                self.apply(server, 2)
                self.assertEqual((self.read("a"), self.read("new")), (text, text))
            self.assert_ok(server.python("import os; os.remove('new')"))
            self.assertEqual(self.changes(server), {b"new": "-"})
            self.apply(server, 1)
            self.assertEqual(tree(self.dir).keys(), {b"a"})


if __name__ == "__main__":
    unittest.main()
