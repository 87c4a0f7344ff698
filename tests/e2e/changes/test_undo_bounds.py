"""What undo of files does at its limits: sizes, files that cannot be read or that grow, the memory, a dead keeper."""
import contextlib
import os
import pathlib
import re
import signal
import time
import unittest

from client import SLOW, Case, Server, give_away, need_userns, once
from projects import tree
from seen import sees_writes
from traces import descendants
from undoing import KILL, MIB, InDirectory, InMemory, WithCow


# Each turn ends with the names as they were.
SIGNALS = """import os, pickle, shutil, signal
came = []
signal.signal(signal.SIGALRM, lambda *_: came.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
while len(came) < 400:
    os.rename('a', 'b'); os.replace('b', 'a'); os.chmod('a', 0o600); os.utime('a'); os.truncate('a', 1)
    os.mkdir('d'); os.symlink('a', 'd/l'); os.link('a', 'd/k'); os.unlink('d/l'); os.remove('d/k'); os.rmdir('d')
signal.setitimer(signal.ITIMER_REAL, 0)
whole = os.unlink in os.supports_dir_fd and pickle.loads(pickle.dumps(os.rename)) is os.rename
os.mkdir('d'); os.mkdir('d/e'); shutil.rmtree('d')
print('came', whole, sorted(os.listdir()))
"""


class Bounds:
    """The cases. A class below chooses the workspace."""

    def test_signals_end_no_call(self):
        with self.server() as server:
            self.assert_ok(server.python(f"open('a', 'w').write('first'); open('s.py', 'w').write({SIGNALS!r})"))
            result = server.python(SIGNALS)
            self.assertEqual(result.output, "came True ['a', 's.py']")
            self.assertEqual(server.python("!python s.py").output, "came True ['a', 's.py']")
            text = server.python("os.rename('none', 'other')").text
            self.assertIn("FileNotFoundError: [Errno 2] No such file or directory: 'none' -> 'other'", text)
            self.assertNotIn("repeats", text)
            self.assertNotIn("in __call__", text)

    def test_what_is_above_the_bound_is_named(self):
        with self.server("--undo-files", "1M") as server:
            self.assert_ok(server.python(f"open('big.bin', 'wb').write(b'1' * {3 * MIB}); open('small', 'w').write('first')"))
            result = server.python("open('big.bin', 'r+b').write(b'2'); open('small', 'w').write('second')")
            self.assertRegex(result.status.line, r"not kept for undo: [^|\]]*big\.bin")
            result = self.undo(server)
            self.assertRegex(result.text, r"(?:cannot revert|not reverted[^:]*): [^|\]]*big\.bin")
            found = self.contents(server)
            self.assertEqual(found["small"], "first")
            self.assertIn("big.bin", found)
            self.assertIsNone(server.python("open('small', 'w').write('x')").status.field("not kept"))

    def test_many_small_files_share_the_bound(self):
        with self.server("--undo-files", "1M") as server:
            self.assert_ok(server.python(f"for i in range(8): open(f'f{{i}}', 'wb').write(b'%d' % i * {MIB // 4})"))
            self.assert_ok(server.python("for i in range(8): open(f'f{i}', 'wb').write(b'x')"))
            result = self.undo(server)
            found = self.look(server)
            self.assertEqual(len(found), 8)
            named = re.search(r"(?:cannot revert|not reverted[^:]*): ([^|\]]*)", result.text)[1].strip().split(", ")
            for name, facts in found.items():
                self.assertEqual(facts[2] == "x", os.fsdecode(name) in named, (name, result.text))

    def test_without_a_bound_of_files_undo_takes_variables_only(self):
        with self.server("--undo-files", "0") as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            self.assert_ok(server.python("x = 2; open('a', 'w').write('second')"))
            result = server.python("print(x)", undo=True)
            self.assertIn("1", result.output.splitlines())
            self.assertEqual(self.contents(server), {"a": "second"})
            self.assertRegex(result.text, "files|cannot revert: a")

    def test_a_file_that_grows_while_it_is_copied(self):
        with self.server() as server:
            result = server.python("import time\nend = time.time() + 600\nwith open('log', 'w') as file:\n    while time.time() < end:\n"
                                   "        file.write('x' * 10000); file.flush(); time.sleep(0.001)\n",
                                   session="worker", wait_s=0, timeout_s=600)
            self.assertIn("running: job", result.text)
            for turn in range(5):
                self.write(server, "x", f"a{turn}")
                began = time.monotonic()
                result = self.undo(server)
                self.assertLess(time.monotonic() - began, 10 * SLOW)
                if f"'a{turn}'" in server.python("import os; print(os.listdir())", session="reader").output:
                    self.assertRegex(result.text, rf"not reverted[^:]*: [^|\]]*\ba{turn}\b")
            server.call("run_python", job=1, stop=True)

    def test_a_file_that_cannot_be_read(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; open('closed', 'w').write('first'); os.chmod('closed', 0)\nos.mkdir('d'); open('d/x', 'w').close(); os.chmod('d', 0)"))
            self.write(server, "x", "a")
            self.undo(server)
            self.assert_ok(server.python("import os; os.chmod('closed', 0o644); os.chmod('d', 0o755)"))
            self.assertEqual(self.contents(server), {"closed": "first", "d/x": ""})

    def test_a_file_in_a_directory_that_the_call_closed(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('d'); open('d/a', 'w').write('first'); open('d/b', 'w').write('first')"))
            self.assert_ok(server.python("import os; open('d/a', 'w').write('second'); open('d/new', 'w').close(); os.chmod('d', 0)"))
            result = self.undo(server)
            found = self.contents(server)
            self.assertEqual(found["d/b"], "first")
            for name, text in {"d/a": "first", "d/new": None}.items():
                if found.get(name) != text:
                    self.assertRegex(result.text, rf"(?:cannot revert|not reverted[^:]*): [^|\]]*\b{name}\b")


class Filling:
    """For workspaces in memory."""

    def test_an_open_file_goes_back_with_the_variables(self):
        with self.server() as server:
            self.assert_ok(server.python("a = open('a', 'a+', buffering=1); a.write('first\\n')\n"
                                         "old = open('b', 'w+'); old.write('b'); import os; os.remove('b'); open('b', 'w').close()"))
            self.write(server, "second", "a")
            self.undo(server)
            result = server.python("a.write('third\\n'); old.seek(0); print(open('a').read(), old.read(), end='')")
            self.assertEqual(result.output, "first\nthird\n b")
            self.assertIn("open files now refer to the restored ones: a", result.text)
            self.assertNotIn("refer", server.python("a.close()").text)

    def test_files_that_fill_the_memory(self):
        for more in ((), ("--undo-files", "1G")):
            with self.subTest(more=more), self.server("--memory", "256M", *more) as server:
                self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
                result = server.python("x = 2; open('a', 'w').write('second')\n"
                                       "for i in range(100): open(f'f{i}', 'wb').write(b'1' * (10 << 20))\n", timeout_s=60, _timeout=90)
                if result.status.state == "kept":
                    self.assert_prints(server.python("print(x)"), "2")
                server.python("import os\nfor name in os.listdir(): os.remove(name)")
                self.assert_alive(server)


class KeeperDies(Case):
    """The process that keeps files is killed from outside: calls go on, and no undo pretends to have put files back."""

    def setUp(self):
        need_userns()

    @staticmethod
    def kill(server):
        end = time.monotonic() + 10 * SLOW
        while time.monotonic() < end:  # after the last one's death another one starts
            for pid in descendants(server.pid):
                with contextlib.suppress(OSError):
                    if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sp-keeper\n":
                        os.kill(pid, signal.SIGKILL)
                        return
        raise AssertionError("no keeper")

    def assert_goes_on(self, server):
        """After the death of a keeper that knew x = 1 and a = first, and a call that wrote second."""
        result = server.python("print(x)", undo=True)
        self.assertIn("1", result.output.splitlines())
        back = server.python("print(open('a').read())", fresh=True).output
        if back != "first":
            self.assertRegex(result.text, r"files are not rolled back|cannot revert: [^|\]]*\ba\b")
        self.assert_ok(server.python("x = 3; open('b', 'w').write('third')"))
        self.assert_ok(server.python("x = 4; open('b', 'w').write('fourth')"))
        self.assert_ok(server.python("", undo=True))
        self.assert_prints(server.python("print(x, open('b').read())"), "3 third")

    def test_at_rest(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            self.kill(server)
            self.assert_ok(server.python("x = 2; open('a', 'w').write('second')"))
            self.assert_goes_on(server)

    def test_during_a_call(self):
        with Server() as server:
            self.assert_ok(server.python("x = 1; open('a', 'w').write('first')"))
            call = server.start_call("run_python", code="import time; x = 2; open('a', 'w').write('second'); time.sleep(1)")
            time.sleep(0.5)
            self.kill(server)
            self.assert_ok(server.finish_call(call))
            self.assert_goes_on(server)

    def test_again_and_again(self):
        with Server() as server:
            for turn in range(6):
                call = server.start_call("run_python", code=f"x = {turn}; open('a', 'w').write('x' * {turn})", **({"undo": True} if turn == 4 else {}))
                time.sleep(turn * 0.002)
                self.kill(server)
                server.finish_call(call)
                server.look()
            self.assert_alive(server)


class NotChecked(InDirectory):
    """Nothing is called unchanged that no scan has seen."""

    def setUp(self):
        super().setUp()
        (self.dir / "f").write_text("a\n")
        give_away(self.dir / "f")

    def check_back(self, code):
        """What the code's programs change goes back to the last byte, however many entries there are."""
        with self.server() as server:
            self.assert_ok(server.python("x = 1", checkpoint="one"))
            before = tree(self.dir)
            self.assert_ok(server.python(code))
            self.assertNotEqual(tree(self.dir), before)
            line = self.undo(server).status.line
            self.assertEqual(tree(self.dir), before, line)
            self.assertNotIn("not ", line)
            self.assert_ok(server.python(code))
            self.assertNotIn("not ", server.python("", restore="one").status.line)
            self.assertEqual(tree(self.dir), before)

    def make_many(self):
        (self.dir / "d").mkdir()
        for i in range(2100):
            (self.dir / "d" / str(i)).touch()
        give_away(self.dir / "d")

    def test_what_programs_change_among_too_many_entries(self):
        self.make_many()
        if sees_writes():
            return self.check_back("!rm d/0; sed -i s/a/b/ f; ln -s f d/link; mkdir d/new; echo x | tee d/new/x")
        with self.server() as server:
            self.assertIn("only files that Python code changes are listed and go back", server.python("x = 1", checkpoint="one").text)
            self.assert_ok(server.python("!rm d/0; sed -i s/a/b/ f"))
            self.assertRegex(self.undo(server).status.line, r"\(undo\), not all files were checked for what programs changed: the workspace has too many")
            self.assert_ok(server.python("!echo c > f\nopen('mine', 'w').close()"))
            self.assertRegex(server.python("", restore="one").status.line, ", files removed: mine, not all files were checked for what programs changed")
            self.assertFalse((self.dir / "mine").exists())

    def test_before_or_after_the_call_there_were_too_many(self):
        if sees_writes():
            return self.check_back("!mkdir d; cd d; seq 2100 | xargs touch; sed -i s/a/b/ ../f")
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assertIn(", workspace files unchanged", self.undo(server).status.line)
            self.assert_ok(server.python("!mkdir d; cd d; seq 2100 | xargs touch; sed -i s/a/b/ ../f"))
            self.assertIn("not all files were checked", self.undo(server).status.line)
        with self.server() as server:
            self.assert_ok(server.python("!rm -r d; sed -i s/b/c/ f"))
            self.assertIn("not all files were checked", self.undo(server).status.line)

    def test_a_crash_among_too_many(self):
        self.make_many()
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            result = server.python("!rm d/0\n" + KILL)
            self.assertIn("files are as the call left them", result.status.line)
            self.assertEqual("reverts them" in result.status.line, sees_writes())

    def test_directories_that_are_never_checked(self):
        (self.dir / "node_modules").mkdir()
        give_away(self.dir / "node_modules")
        if sees_writes():
            return self.check_back("!echo x > node_modules/x; mkdir .git; echo y > .git/index")
        with self.server() as server:
            self.assert_ok(server.python("x = 1"))
            self.assert_ok(server.python("!echo x > node_modules/x"))
            self.assertIn("workspace files unchanged (not checked: .git, node_modules and the like)", self.undo(server).status.line)

    def test_directories_that_cannot_be_read(self):
        with self.server() as server:
            self.assert_ok(server.python("import os; os.mkdir('shut'); os.chmod('shut', 0o300)"))
            self.assert_ok(server.python("!echo x > shut/known"))
            expected = "not reverted[^|]*shut/known" if sees_writes() else "not all files were checked[^|]*unreadable"
            self.assertRegex(self.undo(server).status.line, expected)

    def test_directories_that_lie_too_deep(self):
        with Server() as server:
            self.assert_ok(server.python("import os\nfor _ in range(210): os.mkdir('d'); os.chdir('d')"))
            self.assert_ok(server.python("!echo x > known"))
            line = self.undo(server).status.line
            if not sees_writes():
                self.assertRegex(line, "not all files were checked: [^|]*too deep")
            else:
                self.assertEqual(self.contents(server), {}, line)


@once
class Memory(Filling, Bounds, InMemory):
    pass


class Directory(Bounds, InDirectory):
    pass


class Cow(Filling, Bounds, WithCow):
    pass


if __name__ == "__main__":
    unittest.main()
