"""Kills of a server that keeps changes, and of its applying process, at any moment; the client that goes away meanwhile.

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
import time
import unittest

from client import SLOW, give_away, once
from projects import Project, Stored, tree
from traces import descendants, is_running

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


class Killed(Stored):
    def fill(self):
        for i in range(FILES):
            self.put(f"d{i % 7}/{i}", f"old {i}\n" * 10)
        for i in range(10):
            self.put(f"gone/deep/{i}")

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

    @once
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

    @once
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

    @once
    def test_after_a_cancelled_call(self):
        with self.server() as server:
            server.cancel(self.begin(server))
            self.apply_all(server)
            self.assertEqual(self.changes(server), {})
        self.assert_whole()
        self.assertEqual(len(os.listdir(self.dir)), 1500)


if __name__ == "__main__":
    unittest.main()
