"""What undo leaves as it is, or names: what jobs, sessions, file tools, apply_changes and the user do beside the call."""
import os
import unittest

from client import SLOW, give_away, once
from seen import sees_writes
from undoing import MIB, InDirectory, InMemory, WithCow


class Beside:
    """The cases. A class below chooses the workspace."""

    def test_files_of_a_job(self):
        with self.server() as server:
            self.write(server, "first", "a")
            self.start_job(server, "open('a', 'w').write('job'); open('made', 'w').close()")
            result = server.python("", undo=True, wait_s=20 * SLOW)
            self.assertEqual(result.status.kind, "ok", result.text)
            self.assertEqual(self.contents(server), {"a": "first"})

    def test_what_a_job_changes_while_another_call_runs(self):
        job = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nopen('a', 'w').write('job'); time.sleep(600)"
        with self.server() as server:
            self.write(server, "first", "a")
            self.assertIn("running: job", server.python(server.here(job), wait_s=0, timeout_s=600).text)
            self.assert_ok(server.python(server.here("import time; open('theirs', 'w').close(); open('/tmp/go', 'w').close(); time.sleep(0.5)"), session="other"))
            self.assertEqual(self.contents(server), {"a": "job", "theirs": ""})
            self.assert_back_or_named(server, self.undo(server, session="other"), {"a": "job"}, "theirs")
            self.assert_back_or_named(server, server.python("", undo=True, wait_s=20 * SLOW), {"a": "first"}, "a")

    def assert_stays(self, server, change):
        self.write(server, "first", "a", "b")
        self.write(server, "second", "a", "b", "new")
        change()
        result = self.undo(server)
        self.assertEqual(self.contents(server), {"a": "other", "b": "first"})
        self.assertRegex(result.text, r"\ba\b")
        return result

    def test_a_file_that_write_file_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: server.write("a", "other"))

    def test_a_file_that_another_session_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: self.write(server, "other", "a", session="other"))

    def test_a_file_that_a_branch_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: self.write(server, "other", "a", branch=True))

    def test_a_file_that_a_running_job_changed_stays(self):
        def change():
            self.start_job(server, "open('a', 'w').write('other')", session="worker")

        with self.server() as server:
            self.assert_stays(server, change)
            self.assertIn("stopped", server.call("run_python", job=1, stop=True).text)

    def test_the_name_is_one_whole_entry_of_the_result(self):
        with self.server() as server:
            name = "kept by others.txt"
            self.write(server, "first", name)
            self.write(server, "second", name)
            server.write(name, "other")
            self.assertIn(name, self.undo(server).text)

    def test_only_what_the_call_itself_changed_goes_back(self):
        with self.server() as server:
            self.write(server, "first", "mine", "both")
            self.write(server, "other", "theirs", "both", session="other")
            self.write(server, "second", "mine", "both")
            self.write(server, "other again", "theirs", session="other")
            server.write("tool", "x")
            self.undo(server)
            self.assertEqual(self.contents(server), {"mine": "first", "both": "other", "theirs": "other again", "tool": "x"})

    def test_each_session_takes_back_its_own(self):
        with self.server() as server:
            for session in ("one", "two"):
                self.write(server, "first", "of_" + session, session=session)
            for session in ("one", "two"):
                self.write(server, "second", "of_" + session, session=session)
            self.undo(server, session="one")
            self.assertEqual(self.contents(server), {"of_one": "first", "of_two": "second"})
            self.undo(server, session="two")
            self.assertEqual(self.contents(server), {"of_one": "first", "of_two": "first"})

    def test_files_that_another_session_made_right_before_the_call(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python(f"for i in range(40): open(f'f{{i}}', 'wb').write(b'1' * {MIB})", session="other"))
            self.assert_ok(server.python("for i in range(39, -1, -1): open(f'f{i}', 'w').write('x')"))
            self.undo(server)
            self.assert_prints(server.python("import os; print({os.path.getsize(f'f{i}') for i in range(40)})", session="reader"),
                               f"{{{MIB}}}")

    def test_a_new_file_in_a_directory_that_goes(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("import os; os.makedirs('d'); open('d/a', 'w').close()"))
            self.write(server, "other", "d/b", session="other")
            self.undo(server)
            self.assertEqual(self.contents(server), {"d/b": "other"})

    def test_a_directory_that_a_symlink_has_replaced(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); open('d/a', 'w').write('first'); open('d/b', 'w').write('first')"))
            self.assert_ok(server.python("open('d/a', 'w').write('second'); os.remove('d/b')"))
            self.assert_ok(server.python("import os, tempfile; there = tempfile.mkdtemp(); open(there + '/a', 'w').write('elsewhere')\n"
                                         "os.rename('d', 'aside'); os.symlink(there, 'd')", session="other"))
            self.undo(server)
            self.assert_prints(server.python("print(open(there + '/a').read(), os.listdir(there))", session="other"), "elsewhere ['a']")

    def test_a_directory_that_a_file_tool_made_is_not_the_next_call_s(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            server.write("d/deep/a", "by the tool")
            self.assert_ok(server.python("import os; os.remove('d/deep/a'); open('d/b', 'w').close()"))
            result = self.undo(server)
            self.assertIn("files back: d/deep/a, files removed: d/b |", result.text)
            self.assertEqual(self.contents(server), {"d/deep/a": "by the tool"})


@once
class Memory(Beside, InMemory):
    pass


class Directory(Beside, InDirectory):
    def test_a_file_that_two_sessions_have_open_is_listed(self):
        if not sees_writes():
            self.skipTest("kernel: nobody is notified of what programs write here")
        connect, insert = "import sqlite3; c = sqlite3.connect('db'); ", "c.execute('insert into t values(1)'); c.commit()"
        with self.server() as server:
            self.assert_ok(server.python(connect + "c.execute('create table t(a)'); c.commit()"))
            for code, session, listed in ((connect + insert, "two", "~db"), ("c.execute('select * from t').fetchone()", "default", None),
                                          (insert, "default", "~db"), (insert, "two", "~db")):
                with self.subTest(code=code, session=session):
                    status = server.python(code, session=session).status
                    self.assertEqual((status.field("files") or "").partition(" ")[0] or None, listed, status.line)
                    self.assertIsNone(status.field("not kept for undo"), status.line)

    def test_files_that_the_user_made_right_before_the_call(self):
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            for i in range(40):
                (self.dir / f"f{i}").write_bytes(b"u" * MIB)
                (self.dir / f"f{i}").chmod(0o666)
                give_away(self.dir / f"f{i}")
            self.assert_ok(server.python("for i in range(39, -1, -1): open(f'f{i}', 'w').write('x')"))
            self.undo(server)
            self.assertEqual([path.name for path in sorted(self.dir.iterdir()) if path.stat().st_size != MIB], [])
            self.assertEqual(len(list(self.dir.iterdir())), 40)

    def test_a_file_that_the_user_changed_stays(self):
        with self.server() as server:
            self.assert_stays(server, lambda: (self.dir / "a").write_text("other"))


class Cow(Beside, WithCow):
    def test_undo_does_not_reach_back_over_a_discard(self):
        (self.dir / "a").write_text("as it was")
        give_away(self.dir / "a")
        with self.server() as server:
            self.write(server, "by code", "a", "b")
            self.assertTrue(server.call("apply_changes", discard=True).text.startswith("discarded 2 of 2"))
            self.assertEqual(self.contents(server), {"a": "as it was"})
            server.python("", undo=True)
            self.assertEqual(self.contents(server), {"a": "as it was"})
            self.write(server, "again", "a")
            self.undo(server)
            self.assertEqual(self.contents(server), {"a": "as it was"})
        (self.dir / "a").unlink()

    def test_after_an_apply_the_workspace_goes_back_and_the_directory_stays(self):
        with self.server() as server:
            self.write(server, "first", "a", "b")
            self.write(server, "second", "a")
            self.assertTrue(server.call("apply_changes").text.startswith("applied 2 of 2"))
            result = self.undo(server)
            self.assertEqual(self.contents(server), {"a": "first", "b": "first"})
            self.assertEqual((self.dir / "a").read_text(), "second")
            self.assertRegex(result.text, "appl")
            self.assertIn("~ a", server.call("list_changes").text)
            self.undo(server)
            self.assertEqual(self.contents(server), {})
            self.assertEqual(set(os.listdir(self.dir)), {"a", "b"})


if __name__ == "__main__":
    unittest.main()
