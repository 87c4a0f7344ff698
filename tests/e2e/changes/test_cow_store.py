"""--cow-store: changes that outlive their server, and kills of the server and of the applying process at any moment.

SANDPIPER_TEST_KILLS: the number of kills of each (20); SANDPIPER_TEST_SEED chooses their moments.
"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, SLOW, Server, give_away, once
from overlay import need_memory
from projects import Project, tree
from traces import descendants

KILLS = int(os.environ.get("SANDPIPER_TEST_KILLS", "20"))
SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "1"))
FILES = 120
APPLYING = "sandpiper-apply"
CHANGE = f"""import os, shutil
for i in range({FILES}):
    name = f'd{{i % 7}}/{{i}}'
    if i % 5 == 0: os.remove(name)
    elif i % 5 == 1: os.remove(name); os.mkdir(name); open(name + '/in', 'w').write('new')
    elif i % 5 == 2: os.remove(name); os.symlink('new', name)
    else: open(name, 'w').write(f'new {{i}} ' * (20000 if i % 10 == 3 else 10))
    open(f'd{{i % 7}}/made {{i}}', 'w').write('new')
shutil.rmtree('gone')
"""


def applying(server):
    """The pid of the server's applying process, or None."""
    for pid in descendants(server.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == APPLYING:
                return pid
        except OSError:
            pass
    return None


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Stored(Project):
    def setUp(self):
        super().setUp()
        self.store = self.temp / "store"
        self.store.mkdir()

    def server(self, *args, **options):
        return super().server("--cow-store", str(self.store), *args, **options)

    def fill(self):
        for i in range(FILES):
            self.put(f"d{i % 7}/{i}", f"old {i}\n" * 10)
        for i in range(10):
            self.put(f"gone/deep/{i}")


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
            self.assertIn("also changed by you", self.changes(server).notes[b"d/new"])
            self.assertTrue(self.apply(server).is_error)
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
                        self.assertEqual(set(changes.notes.values()) - {""}, {"also changed by you"}, changes.notes)
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


class Killed(Stored):
    def reset(self, number):
        """A fresh project, as it is before and must be after; the server's first call makes the changes."""
        self.dir = self.temp / f"project{number}"
        self.dir.mkdir()
        self.store = self.temp / f"store{number}"
        self.store.mkdir()
        self.fill()
        self.old = tree(self.dir)
        expected = self.copy(f"expected{number}")
        subprocess.run(["python3", "-c", CHANGE], cwd=expected, check=True)
        self.new = tree(expected)

    def check_between(self, number):
        """Every file is old or new, and at most one name is neither."""
        found = tree(self.dir)
        extra = [name for name in found if name not in self.old and name not in self.new]
        self.assertLessEqual(len(extra), 1, f"kill {number}")
        for name, facts in found.items():
            if name not in extra:
                self.assertIn(facts, (self.old.get(name), self.new.get(name)), f"kill {number}: {name} is neither old nor new")
        for name in self.old.keys() & self.new.keys():
            self.assertTrue(name in found or self.old[name][0] != self.new[name][0], f"kill {number}: {name} is gone")
        return found

    def finish(self, server):
        """Applies the rest, after the server has finished what another one began."""
        for _ in range(100):
            result = server.call("apply_changes", _timeout=120)
            if "try again" not in result.text:
                return result
            time.sleep(0.1)
        raise AssertionError(result.text)

    def wait_for_journal(self, server):
        server.python("1")
        end = time.monotonic() + 60 * SLOW
        while any((self.store / name / "journal").exists() for name in os.listdir(self.store)):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def measure(self):
        """Seconds that the whole call takes."""
        self.reset("measured")
        with self.server() as server:
            self.assert_ok(server.python(CHANGE))
            began = time.monotonic()
            self.apply(server)
            return time.monotonic() - began

    def numbers(self, came):
        """KILLS numbers, and more as long as no kill has come while files were applied."""
        for number in range(5 * KILLS):
            if number < KILLS or not came():
                self.reset(number)
                yield number

    def test_of_the_server(self):
        whole, choice, between = self.measure(), random.Random(SEED), 0
        for number in self.numbers(lambda: between):
            with self.server(check=False) as server:
                self.assert_ok(server.python(CHANGE))
                server.start_call("apply_changes")
                time.sleep(choice.random() * whole * 1.1)
                server.signal(signal.SIGKILL)
                server.join()
                self.assertEqual(server.left(10), [], f"kill {number}")
            is_between = self.check_between(number) not in (self.old, self.new)
            between += is_between
            with self.server() as server:
                if is_between:  # the next server goes on without being asked
                    self.wait_for_journal(server)
                    self.assert_tree(tree(self.dir), self.new)
                self.finish(server)
                self.assertEqual(self.changes(server), {}, f"kill {number}")
            self.assert_tree(tree(self.dir), self.new)
        self.assertGreater(between, 0, "no kill came while files were applied")

    @once
    def test_what_the_next_server_has_applied_can_be_changed_again(self):
        for number in range(3):
            self.reset(number)
            for i in range(300):
                self.put(f"many/{i}")
            again = "import pathlib\nfor at in pathlib.Path('many').iterdir(): at.write_text({!r} * 1000)"
            with self.server(check=False) as server:
                self.assert_ok(server.python(again.format("one")))
                server.start_call("apply_changes")
                while applying(server) is None:
                    pass
                time.sleep(0.05)
                server.signal(signal.SIGKILL)
                server.join()
                self.assertEqual(server.left(10), [], f"kill {number}")
            with self.server() as server:
                self.wait_for_journal(server)
                time.sleep(0.2)
                self.assert_ok(server.python(again.format("two")))
                self.apply_all(server)
            self.assertEqual({path.read_text() for path in (self.dir / "many").iterdir()}, {"two" * 1000})

    def kill_while_it_applies(self, server, wait_s, times):
        """Starts apply_changes; returns how many processes that applied were killed before they ended."""
        call, killed = server.start_call("apply_changes"), 0
        while killed < times and server.lines.empty():
            pid = applying(server)
            if pid is None:
                continue
            time.sleep(wait_s)
            if server.lines.empty() and is_running(pid):
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        server.finish_call(call)
        return killed

    @once
    def test_the_next_server_does_not_apply_what_is_applied_only_if_named(self):
        self.reset("named")
        (self.dir / "hooks").mkdir()
        (self.dir / ".git").mkdir()
        (self.dir / ".git/config").write_text("")
        with self.server(check=False) as server:
            self.assert_ok(server.python(
                CHANGE + "os.mkdir('z'); open('z/.envrc', 'w').write('new')\n"
                "open('hooks/post-commit', 'w').write('new')\n"
                "for i in range(2000): open(f'a{i}', 'w').write('new')"))
            server.start_call("apply_changes", paths=[".", "z/.envrc"])
            while applying(server) is None:
                pass
            pid = applying(server)
            os.kill(pid, signal.SIGSTOP)
            self.assertFalse((self.dir / "hooks/post-commit").exists(), "it was not stopped early enough")
            server.signal(signal.SIGKILL)
            server.join()
            os.kill(pid, signal.SIGKILL)
        (self.dir / ".git/config").write_text("[core]\n\thooksPath = hooks\n")
        with self.server() as server:
            self.finish(server)
            left = {name for name in self.changes(server) if name not in self.old or name in self.new}
            self.assertEqual(left, {b"z/.envrc", b"hooks/post-commit"})  # and what is deleted waits for them
        self.assertFalse((self.dir / "z/.envrc").exists())
        self.assertFalse((self.dir / "hooks/post-commit").exists())
        self.assertEqual(self.read("d1/1/in"), "new")

    def test_of_the_applying_process(self):
        whole, choice, killed = self.measure(), random.Random(SEED), 0
        for number in self.numbers(lambda: killed):
            with self.server() as server:
                self.assert_ok(server.python(CHANGE))
                killed += self.kill_while_it_applies(server, choice.random() * whole * 0.7, 1 + number % 4)
                self.check_between(number)
                server.python("1")
                self.check_between(number)
                self.apply_all(server)
                self.assertEqual(self.changes(server), {}, f"kill {number}")
                self.assert_tree(tree(self.dir), self.new)
        self.assertGreater(killed, 0, "no kill came while files were applied")

    @once
    def test_the_user_edits_between_the_kill_and_the_next_server(self):
        choice, whole = random.Random(SEED + 1), self.measure()
        for number in range(max(KILLS // 2, 3)):
            self.reset(number)
            with self.server(check=False) as server:
                self.assert_ok(server.python(CHANGE))
                server.start_call("apply_changes")
                time.sleep(choice.random() * whole)
                server.signal(signal.SIGKILL)
                server.join()
                self.assertEqual(server.left(10), [], f"kill {number}")
            self.put("d4/4", "by the user")
            os.rename(self.dir / "d5", self.dir / "theirs")
            with self.server() as server:
                self.assertTrue(self.finish(server).is_error or not self.changes(server))
                self.assertEqual(self.read("d4/4"), "by the user", f"kill {number}")
            self.assertFalse((self.dir / "d5").exists(), f"kill {number}: made again")
            found = {name: facts for name, facts in tree(self.dir).items() if not name.startswith(b"theirs")}
            found[b"d4/4"] = self.new[b"d4/4"]
            # What was new there may have held what is deleted, or has become a symlink: some of that is left.
            kept = {name for name in self.old if name not in self.new and name in found} | {
                name for name, facts in self.old.items() if found.get(name) == facts and stat.S_ISLNK(self.new.get(name, (0,))[0])}
            self.assert_tree({name: facts for name, facts in found.items() if name not in kept},
                             {name: facts for name, facts in self.new.items() if not name.startswith(b"d5") and name not in kept})


class WithoutStore(Project):
    """What had to be applied and was not is gone with the server. What was applied is whole, and nothing else is in DIR."""

    def begin(self, server):
        """Returns the call's id when a part of the files is there."""
        self.assert_ok(server.python("for i in range(1500): open(f'f{i}', 'w').write('x' * 10000)"))
        call = server.start_call("apply_changes")
        end = time.monotonic() + 20 * SLOW
        while len(os.listdir(self.dir)) < 200 and time.monotonic() < end:
            time.sleep(0.001)
        return call

    def assert_whole(self):
        found = {path.name: path.stat().st_size for path in self.dir.iterdir()}
        self.assertEqual({name: size for name, size in found.items() if not name.startswith("f") or size != 10000}, {})

    def test_the_client_goes_away_meanwhile(self):
        for end in (lambda server: server.close_stdin(), lambda server: server.signal(signal.SIGTERM)):
            with self.subTest(end=end), self.server(check=False) as server:
                self.begin(server)
                end(server)
                server.join(20)
                self.assertEqual(server.left(10), [])
                self.assert_whole()
            shutil.rmtree(self.dir)
            self.make_empty()

    def make_empty(self):
        self.dir.mkdir()
        self.dir.chmod(0o755)
        give_away(self.dir)

    def test_the_server_is_killed_meanwhile(self):
        with self.server(check=False) as server:
            self.begin(server)
            server.signal(signal.SIGKILL)
            server.join()
            self.assertEqual(server.left(10), [])
        with self.server() as server:
            self.assert_ok(server.python("open('f', 'w').write('x' * 10000)"))
            self.apply_all(server)
        self.assert_whole()

    def test_after_a_cancelled_call(self):
        with self.server() as server:
            server.cancel(self.begin(server))
            self.apply_all(server)
            self.assertEqual(self.changes(server), {})
        self.assert_whole()
        self.assertEqual(len(os.listdir(self.dir)), 1500)


if __name__ == "__main__":
    unittest.main()
