"""--cow-store: changes that outlive their server."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, SLOW, Server
from overlay import need_memory
from projects import Stored, tree


class Place(Stored):
    def test_is_no_workspace_and_no_mount_of_another_server(self):
        with self.server() as server:
            self.assert_ok(server.python("open('f', 'w').write('new')"))
        (name,) = os.listdir(self.store)
        for at in (self.store, self.store / name, self.store / name / "layers", self.store / name / "layers/upper"):
            for flags in (["--workspace", str(at)], ["--mount", str(at)], ["--mount", f"{at}:inner:rw"]):
                with self.subTest(flags=flags):
                    done = subprocess.run([*COMMAND, "run", *flags, "-c", "print('code ' + 'ran')"],
                                          capture_output=True, text=True, timeout=60 * SLOW)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn("keeps the changes of another workspace there", done.stderr)


class Later(Stored):
    def test_changes_stay_for_a_later_server(self):
        self.put("edited")
        self.put("deleted")
        self.put("replaced/old")
        self.put("run.sh")
        before = tree(self.dir, exact=True)
        with self.server() as server:
            result = server.python("import os, shutil\nopen('edited', 'a').write('by code\\n'); os.remove('deleted')\n"
                                   "shutil.rmtree('replaced'); os.mkdir('replaced'); open('replaced/new', 'w').write('x')\n"
                                   "os.chmod('run.sh', 0o755); os.symlink('edited', 'symlink')")
            self.assert_ok(result)
            first = self.changes(server)
        self.assert_tree(tree(self.dir, exact=True), before)
        for _ in range(2):
            with self.server() as server:
                self.assertEqual(self.changes(server), first)
                self.assert_prints(server.python("import os; print(sorted(os.listdir()), os.listdir('replaced'), "
                                                 "os.access('run.sh', os.X_OK), open('symlink').read())"),
                                   "['edited', 'replaced', 'run.sh', 'symlink'] ['new'] True as it was\nby code\n")
        with self.server() as server:
            self.apply(server, first.number)
        with self.server() as server:
            self.assertEqual(self.changes(server), {})
        self.assertEqual(set(tree(self.dir)), {b"edited", b"replaced", b"replaced/new", b"run.sh", b"symlink"})
        self.assertEqual(self.read("edited"), "as it was\nby code\n")

    def test_a_conflict_from_between_two_servers(self):
        self.put("a")
        self.put("b")
        with self.server() as server:
            self.assert_ok(server.python("for name in 'abc': open(name, 'w').write('by code')"))
        self.put("a", "by the user")
        self.put("c", "by the user")
        with self.server() as server:
            result = self.apply(server, 1, 3)
            for name in "ac":
                self.reason(result, name)
        self.assertEqual([self.read(name) for name in "abc"], ["by the user", "by code", "by the user"])

    def test_what_the_user_puts_into_a_deleted_directory_between_two_servers(self):
        self.put("d/old")
        with self.server() as server:
            server.python("import shutil; shutil.rmtree('d')")
        self.put("d/new")
        with self.server() as server:
            self.assertIn("also changed by the user", self.changes(server).notes[b"d/new"])
            self.apply(server)
        self.assertEqual([name for name in tree(self.dir) if b"/" in name], [b"d/new"])

    def test_facts_that_a_kill_has_cut_short(self):
        """What each file was at its change is in the store; the next server adds to it."""
        for name in ("a", "b", "c"):
            self.put(name)
        with self.server() as server:
            server.python("open('a', 'w').close()")
        for name in ("b", "c"):
            with next(self.store.glob("*/layers/base")).open("ab") as file:
                file.write(b"cut short")
            with self.server() as server:
                server.python(f"open({name!r}, 'w').close()")
        self.put("a", "by the user")
        self.put("b", "by the user")
        with self.server() as server:
            notes = self.changes(server).notes
            self.assertEqual({name: bool(note) for name, note in notes.items()}, {b"a": True, b"b": True, b"c": False})

    def test_an_applied_file_that_the_user_edits_before_the_next_server(self):
        self.put("a")
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('by code')"))
            self.apply(server, 1)
        self.put("a", "by the user")
        with self.server() as server:
            if self.changes(server):  # the layer still has the old copy
                self.reason(self.apply(server, 0, 1), "a")
            self.assertEqual(self.read("a"), "by the user")

    def test_after_a_kill_at_rest_the_changes_are_there(self):
        self.put("a")
        with self.server(check=False) as server:
            self.assert_ok(server.python("import os; os.remove('a'); open('b', 'w').write('x')"))
            self.assertEqual(self.changes(server), {b"a": "-", b"b": "+"})
            server.signal(signal.SIGKILL)
            server.join()
            self.assertEqual(server.left(10), [])
        with self.server() as server:
            self.assertEqual(self.changes(server), {b"a": "-", b"b": "+"})
            self.discard(server, 2)
        with self.server() as server:
            self.assertEqual(self.changes(server), {})

    def test_a_directory_that_the_user_takes_away_while_no_server_runs(self):
        """The server has ended, or was killed, while code was at it: it does not come back."""
        for end in ("close_stdin", "kill"):
            for act, left in ((lambda: shutil.rmtree(self.dir / "d"), []),
                              (lambda: os.rename(self.dir / "d", self.dir / "theirs"), ["theirs", "theirs/f", "theirs/g"])):
                with self.subTest(end=end, left=left):
                    for name in "d", "theirs":
                        shutil.rmtree(self.dir / name, ignore_errors=True)
                    self.store = pathlib.Path(tempfile.mkdtemp(dir=self.temp))
                    self.put("d/f"), self.put("d/g")
                    with self.server("--wait", "600", check=False) as server:
                        self.assert_ok(server.python("x = 1"))
                        server.python("open('d/f', 'a').write('code'); open('d/new', 'w').write('code'); print('written'); "
                                      "__import__('time').sleep(600)", wait_s=1)
                        server.signal(signal.SIGKILL) if end == "kill" else server.close_stdin()
                        server.join(20)
                    act()
                    with self.server() as server:
                        changes = self.changes(server)
                        self.assertEqual(set(changes.notes.values()) - {""}, {"also changed by the user"}, changes.notes)
                        text = server.call("apply_changes", _timeout=120).text
                        self.assertEqual(sorted(str(path.relative_to(self.dir)) for path in self.dir.rglob("*")), left, text)

    def test_a_second_server_says_so_and_keeps_its_changes_in_memory(self):
        need_memory()
        self.put("a")
        with self.server() as first:
            self.assert_ok(first.python("open('a', 'w').write('first')"))
            with self.server() as second:
                text = second.python("print(open('a').read()); open('a', 'w').write('second'); open('b', 'w').close()").text
                self.assertIn("as it was", text)
                self.assertIn("store", text)
                self.assertEqual(self.changes(second), {b"a": "~", b"b": "+"})
                self.assertEqual(self.changes(first), {b"a": "~"})
        with self.server() as third:
            result = third.python("print(open('a').read())")
            self.assert_prints(result, "first")
            self.assertNotIn("store", result.text)
            self.assertEqual(self.changes(third), {b"a": "~"})

    def test_the_store_of_another_directory(self):
        other = self.temp / "other"
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('x')"))
        other.mkdir()
        with Server("--workspace", str(other), "--cow", "--cow-store", str(self.store)) as server:
            result = server.python("import os; print(os.listdir())")
            self.assertNotIn("'a'", result.text)  # in a place of its own, in memory, or refused
            if not result.is_error:
                self.assertEqual(self.changes(server), {})
        with self.server() as server:
            self.assertEqual(self.changes(server), {b"a": "+"})
        self.assertEqual(tree(other), {})

    def test_code_reaches_neither_the_store_nor_the_lower_layer(self):
        self.put("marker-of-the-layer")
        with self.server() as server:
            self.assert_ok(server.python("open('marker-in-the-store', 'w').write('x')"))
            found = server.python("import os, sys\nfor top, directories, names in os.walk('/'):\n"
                                  "    directories[:] = [d for d in directories if os.path.join(top, d) not in ('/proc', '/usr', sys.base_prefix)]\n"
                                  "    for name in names:\n        if name.startswith('marker-'): print(os.path.join(top, name))",
                                  timeout_s=120, _timeout=130)
            self.assertEqual(set(found.output.split()), {"/work/marker-of-the-layer", "/work/marker-in-the-store"})
            found = server.python("import os\nfor pid in filter(str.isdigit, os.listdir('/proc')):\n"
                                  "    try: fds = os.listdir(f'/proc/{pid}/fd')\n    except OSError: continue\n"
                                  "    for fd in fds:\n"
                                  "        try: there = os.listdir(f'/proc/{pid}/fd/{fd}/')\n        except OSError: continue\n"
                                  "        if any(name.startswith('marker-') for name in there) and "
                                  "os.readlink(f'/proc/{pid}/fd/{fd}') != '/work': print(pid, fd)")
            self.assertEqual(found.output, "")

    def test_a_store_that_something_has_spoilt(self):
        with self.server() as server:
            self.assert_ok(server.python("open('a', 'w').write('x')"))
        for path in self.store.rglob("*"):
            if path.is_file() and path.name != "a":
                path.write_bytes(os.urandom(200))
        with self.server() as server:
            if server.python("1").is_error:  # refused
                return
            server.call("list_changes")
            server.call("apply_changes")
            self.assert_alive(server)


if __name__ == "__main__":
    unittest.main()
