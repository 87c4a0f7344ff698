"""--keep: a session comes back in another server's life, or a sentence says why not; and its file is the old or the new one."""
import contextlib
import fcntl
import os
import pathlib
import random
import re
import signal
import stat
import struct
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, SLOW, Case, Server, give_away, once, run_cli, size, writable_cgroup
from container_level import CONTAINER

HEADER = 16 + 7 * 8 + 72 + 24 + 4096 + 72  # struct keep_header
BACK = r"\[session of \d+ \w+ \d\d:\d\d is back: "
LOCK_WAIT_S = 5


class Keep(Case):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory(prefix="sp-keep-")
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.kept = self.place / "kept"
        self.log = self.place / "log"

    def server(self, *args, **options):
        log = open(self.log, "ab")
        self.addCleanup(log.close)
        return Server("--keep", str(self.kept), *args, stderr=log, **options)

    def life(self, *codes, args=(), **arguments):
        """Runs cells in a server of their own; returns the last result."""
        with self.server(*args) as server:
            for code in codes:
                result = server.python(code, **arguments)
        return result

    def work(self, **modules):
        """A workspace with modules {name: text}, and the flags for it."""
        work = self.place / "work"
        work.mkdir()
        for name, text in modules.items():
            (work / f"{name}.py").write_text(text)
        give_away(work)
        return work, ("--workspace", str(work))

    def files(self, suffix="*"):
        return sorted(self.kept.glob("*." + suffix)) if self.kept.exists() else []

    def until(self, condition, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while not condition():
            self.assertLess(time.monotonic(), end, "it does not happen")
            time.sleep(0.02)

    def says(self, *words):
        """Whether the log has all of these words."""
        text = self.log.read_text()
        return all(word in text for word in words)


class Back(Keep):
    def test_variables_functions_and_imports_are_back_in_the_next_life(self):
        self.life("import math\nx = [1, 2]\ny = x\ndef f(a): return a * 2", "x.append(3)\n_hidden = 1")
        with self.server() as server:
            result = server.python("print(x, y is x, f(3), math.pi)")
            self.assertRegex(result.text, "^" + BACK + r"3 names, 1 import \| the files of the workspace in memory are gone\]\n"
                             r"\[1, 2, 3\] True 6 3\.14")
            self.assertEqual(server.python("1").text.splitlines()[0], "Out: 1")
        self.assertEqual(stat.S_IMODE(self.kept.stat().st_mode), 0o700)
        self.assertEqual([stat.S_IMODE(path.stat().st_mode) for path in self.files()], [0o600])

    def test_cell_numbers_go_on(self):
        self.life("def f(): return 1 / 0", "1")
        self.assertRegex(self.life("f()").text, r'(?s)"<cell 3>", line 1.*"<cell 1>", line 1, in f\n    def f\(\)')

    def test_what_is_not_back_is_named_and_the_earlier_state_stays(self):
        self.life("import sqlite3\ncon = sqlite3.connect(':memory:')\nn = 1")
        before = self.files("keep")[0].read_bytes()
        result = self.life("n += 1")
        self.assertRegex(result.text, BACK + r"1 name, 1 import \| not back: con \(sqlite3\.Connection, [^|]*, from <cell 1>: "
                         r"\"con = sqlite3\.connect\(':memory:'\)\"\)")
        self.assertEqual(self.files("earlier")[0].read_bytes(), before)
        self.assertIn("Out: 2", self.life("n").text)

    def test_words_of_code_are_quoted_and_cut(self):
        self.life("class C:\n    def __reduce__(self): raise ValueError\n"
                  "C.__name__ = C.__qualname__ = 'x] | [ok\\n'\nfor i in range(40): globals()['v%d' % i] = C()")
        with self.server() as server:
            result = server.python("1")
            line = result.text.splitlines()[0]
            self.assertRegex(line, r" and \d+ more in /\S*/back-1\.txt \| |more in .*back")
            self.assertLess(len(line), 1200)
            self.assertNotIn("] | [ok", line)
            path = re.search(r"in (\S*back-\d+\.txt)", line)[1]
            self.assertEqual(len(server.read(path).text.splitlines()), 40)

    def test_undo_ends_at_the_loaded_state_and_a_crash_goes_back_to_it(self):
        self.life("n = 1", "n = 2")
        with self.server() as server:
            result = server.python("", undo=True)
            self.assertRegex(result.text, "Nothing was undone")
            result = server.python("n = 3; import os; os._exit(1)")
            self.assertIn("restored to the state before this call", result.text)
            self.assertIn("Out: 2", server.python("n").text)
            server.python("n = 4")
            server.python("", undo=True)
            self.assertIn("Out: 2", server.python("n").text)
        self.assertIn("Out: 2", self.life("n").text)

    def test_reset_in_the_first_call_declines_and_sets_the_state_aside(self):
        self.life("n = 1")
        with self.server() as server:
            result = server.python("'n' in globals()", reset=True)
            self.assertRegex(result.text, r"^\[the session of .* was not loaded: `reset` declined it\]\nOut: False")
            server.python("m = 2")
        self.assertEqual(len(self.files("earlier")), 1)
        self.assertIn("Out: (2, False)", self.life("m, 'n' in globals()").text)

    def is_reading(self, server):
        """Whether the server has the copy open into which it reads."""
        directory = "/proc/%d/fd" % server.pid
        try:
            names = os.listdir(directory)
        except PermissionError:
            self.skipTest("may not read the server's descriptors")
        for name in names:
            with contextlib.suppress(OSError):
                if "sandpiper-kept" in os.readlink(os.path.join(directory, name)):
                    return True
        return False

    def test_reset_after_a_cancelled_first_call_declines_too(self):
        with self.server() as server:
            server.python("n = 1; data = bytes(100 << 20)")
            self.until(lambda: self.files("keep"))
        with self.server() as server:
            first = server.start_call("run_python", code="n")
            self.until(lambda: self.is_reading(server))
            server.cancel(first)
            result = server.python("'n' in globals()", reset=True)
            self.assertRegex(result.text, r"^\[the session of .* was not loaded: `reset` declined it\]\nOut: False")

    def test_reset_later_removes_the_file(self):
        self.life("n = 1")
        with self.server() as server:
            server.python("n")
            server.python("", reset=True)
        self.assertEqual(self.files(), [])

    def test_sessions_come_back_each_by_its_name_and_fresh_runs_load_nothing(self):
        with self.server() as server:
            for name in "a", "A", "..":
                server.python("n = %r" % name, session=name)
        with self.server() as server:
            self.assertNotIn("is back", server.python("1", fresh=True).text)
            for name in "A", "a", "..":
                result = server.python("n", session=name)
                self.assertRegex(result.text, BACK)
                self.assertIn("Out: %r" % name, result.text)

    def test_branch_as_the_first_call_loads_the_session(self):
        self.life("n = 1")
        with self.server() as server:
            result = server.python("n = n + 1; n", branch=True)
            self.assertRegex(result.text, BACK)
            self.assertIn("Out: 2", result.text)
            self.assertIn("Out: 1", server.python("n").text)

    def test_state_before_a_job_is_kept_and_the_line_names_the_job(self):
        with self.server("--wait", "1") as server:
            server.python("n = 1")
            server.python("n = 2; import time; time.sleep(60)")
        result = self.life("n")
        self.assertIn("| job 1 (<cell 2>) did not end", result.text)
        self.assertIn("Out: 1", result.text)

    def test_named_states_are_gone_and_the_line_says_so(self):
        with self.server() as server:
            server.python("n = 1", checkpoint="one")
        self.assertIn("| 1 named state is gone", self.life("1").text)

    def test_with_a_workspace_and_copy_on_write(self):
        work, flags = self.work()
        self.life("n = 1", args=flags)
        self.assertIn("Out: 1", self.life("n", args=flags).text)
        if not CONTAINER:
            result = self.life("n", args=(*flags, "--cow"))
            self.assertIn("Out: 1", result.text)
            self.assertNotIn("in memory are gone", result.text)

    def test_each_workspace_has_its_own_state_of_a_session(self):
        flags = []
        for name in "one", "two":
            (self.place / name).mkdir()
            give_away(self.place / name)
            flags.append(("--workspace", str(self.place / name)))
        flags.append(())
        for n, args in enumerate(flags):
            self.assertIn("Out: False", self.life("had = 'n' in globals(); n = %d; had" % n, args=args).text)
        for n, args in enumerate(flags):
            self.assertIn("Out: %d" % n, self.life("n", args=args).text)
        self.assertEqual(self.files("earlier"), [])

    def test_structured_results_have_the_line(self):
        self.life("n = 1")
        result = self.life("n", args=("--structured",))
        self.assertRegex(result.raw["structuredContent"]["session_back"], BACK)


class Refused(Keep):
    def test_damaged_or_foreign_files_are_named_and_nothing_is_loaded(self):
        self.life("n = 1")
        path = self.files()[0]
        whole = path.read_bytes()
        cases = {
            "is damaged": whole[:-1],
            "its file is damaged": whole[:-1] + bytes([whole[-1] ^ 1]),
            "it was made by another version of Python": whole.replace(b"3.", b"2.", 1),
            "another version of Sandpiper": whole[:16] + struct.pack("=Q", 99) + whole[24:],
            "it belongs to another workspace": whole[:168] + b"/elsewhere" + whole[178:],
        }
        for why, content in cases.items():
            with self.subTest(why):
                self.assertNotEqual(content, whole)
                path.write_bytes(content)
                result = self.life("print('n' in globals())")
                self.assertRegex(result.text, r"^\[[^\n]*not loaded: [^\n]*%s\]\nFalse" % why)
                self.assertIn(content, [each.read_bytes() for each in self.files()])

    def test_files_that_others_could_have_made_are_refused(self):
        self.life("n = 1")
        path, other = self.files()[0], self.place / "other"
        whole = path.read_bytes()
        other.write_bytes(whole)

        def linked():
            path.symlink_to(other)

        def hard():
            os.link(other, path)

        def fifo():
            os.mkfifo(path, 0o600)

        def writable():
            path.write_bytes(whole)
            path.chmod(0o622)

        for make in linked, hard, fifo, writable:
            with self.subTest(make.__name__):
                path.unlink()
                make()
                self.assertRegex(self.life("'n' in globals()").text, r"^\[[^\n]*not loaded[^\n]*\]\nOut: False")
        path.unlink()
        path.write_bytes(whole)
        path.chmod(0o644)
        self.assertIn("Out: 1", self.life("n").text)
        self.assertTrue(self.says("others could read"))

    def test_state_that_ends_the_interpreter_is_tried_twice_and_stays(self):
        self.life("import os\nclass Bomb:\n    def __reduce__(self): return os._exit, (9,)\nn = 1\nb = Bomb()")
        result = self.life("'b' in globals(), n")
        self.assertIn("Out: (False, 1)", result.text)
        self.assertRegex(result.text, r"not back: b \(")

    def test_state_that_always_ends_the_interpreter_is_given_up_and_stays(self):
        work, flags = self.work(bomb="x = 1\n")
        self.life("import bomb\nn = 1", args=flags)
        before = self.files()[0].read_bytes()
        (work / "bomb.py").write_text("import os\nos._exit(9)\n")
        result = self.life("'n' in globals()", args=flags)
        self.assertRegex(result.text, r"^\[the session of [^|]* was not loaded: loading it ended the interpreter, or took too "
                         r"long, twice\]\nOut: False")
        self.assertEqual(self.files()[0].read_bytes(), before)

    def test_load_that_hangs_ends_in_time_and_the_state_stays(self):
        work, flags = self.work(slow="x = 1\n")
        self.life("import slow\nn = 1", args=flags)
        (work / "slow.py").write_text("import time\ntime.sleep(1000)\n")
        before, began = self.files()[0].read_bytes(), time.monotonic()
        result = self.life("m = 2; m", args=flags)
        self.assertLess(time.monotonic() - began, 20 * SLOW)
        self.assertRegex(result.text, r"not back: slow \(module, time, from <cell 1>")
        self.assertIn("Out: 2", result.text)
        self.assertEqual(self.files("earlier")[0].read_bytes(), before)

    def test_directories_that_code_sees_or_others_own_are_refused(self):
        for mode in 0o755, 0o770:
            self.kept.mkdir(mode=0o700, exist_ok=True)
            self.kept.chmod(mode)
            self.assertIn("name a directory of your own with mode 0700", self.life("1").text)
        work = self.place / "work"
        (work / "in").mkdir(parents=True)
        give_away(work)
        for place in work / "in", self.place:
            with Server("--workspace", str(work), "--keep", str(place)) as server:
                self.assertIn("which code can see, overlap", server.python("1").text)

    @once
    def test_size_above_half_of_the_memory_is_refused(self):
        with Server("--memory", "256M", "--keep", str(self.kept), "--keep-size", "129M") as server:
            self.assertIn("--keep-size is more than half of --memory", server.python("1").text)

    @once
    def test_run_and_call_have_no_use_for_it(self):
        for command in ("run", "-c", "1"), ("call", "run_python", '{"code": "1"}'):
            done = run_cli(command[0], "--keep", str(self.kept), *command[1:])
            self.assertIn(b"is an option of the server", done.stderr)
        self.assertFalse(self.kept.exists())


class Ends(Keep):
    """The server ends while a session is due."""

    def test_end_while_it_is_loaded_takes_a_bounded_time(self):
        work, flags = self.work(slow="x = 1\n")
        self.life("import slow\nn = 1", args=flags)
        (work / "slow.py").write_text("import time\nopen(__file__ + '.begun', 'w').close()\ntime.sleep(1000)\n")
        with self.server(*flags) as server:
            server.start_call("run_python", code="n")
            self.until((work / "slow.py.begun").exists)
            status, seconds = server.end()
            self.assertEqual(status, 0)
            self.assertLess(seconds, 10 * SLOW)
        (work / "slow.py").write_text("x = 1\n")
        self.assertIn("Out: 1", self.life("n", args=flags).text)

    def test_end_right_after_the_first_call(self):
        self.life("n = 1; data = bytes(32 << 20)")
        for _ in range(size(6, 3)):
            with self.server() as server:
                server.start_call("run_python", code="n")
                status, seconds = server.end()
                self.assertEqual(status, 0)
                self.assertLess(seconds, 10 * SLOW)

    def test_end_while_it_waits_for_the_directory(self):
        with self.server() as first:
            first.python("n = 1")
            with self.server() as second:
                second.start_call("run_python", code="n")
                self.assertTrue(second.silent(0.5))
                status, seconds = second.end()
                self.assertEqual(status, 0)
                self.assertLess(seconds, 10 * SLOW)


class TwoServers(Keep):
    def test_second_server_says_so_and_saves_nothing(self):
        with self.server() as first:
            first.python("n = 1")
            with self.server() as second:
                result = second.python("n = 2; print('here')")
                self.assertRegex(result.text, r"^\[sessions of this server are not kept: another server has the directory of "
                                 r"--keep\]\nhere")
        self.assertIn("Out: 1", self.life("n").text)

    def test_first_call_waits_for_a_server_that_ends(self):
        first = self.server()
        with first:
            first.python("n = 1")
            with self.server() as second:
                call = second.start_call("run_python", code="n")
                self.assertTrue(second.silent(0.3))
                first.close_stdin()
                self.assertIn("Out: 1", second.finish_call(call).text)


class Saving(Keep):
    def test_session_is_saved_a_moment_after_a_call_and_survives_a_kill(self):
        with self.server(check=False) as server:
            server.python("n = 1")
            self.assertEqual(self.files(), [])
            self.until(lambda: self.files("keep"))
            server.signal(signal.SIGKILL)
            server.join()
        self.assertIn("Out: 1", self.life("n").text)

    def test_signals_and_idle_exit_save_too(self):
        for number, name in enumerate(("SIGTERM", "SIGINT", "SIGHUP", "idle")):
            with self.subTest(name), self.server(*(("--idle-exit", "1") if name == "idle" else ())) as server:
                server.python("n = %d" % number)
                if name != "idle":
                    server.signal(getattr(signal, name))
                self.assertEqual(server.join(), 0)
            self.assertIn("Out: %d" % number, self.life("n").text)

    def test_calls_that_change_nothing_write_nothing(self):
        self.life("n = 1")
        before = self.files()[0].stat().st_ino
        self.life("n", "n")
        self.assertEqual(self.files()[0].stat().st_ino, before)

    def test_pickling_prints_and_writes_nothing_and_keeps_no_call_waiting(self):
        work, flags = self.work()
        with self.server(*flags) as server:
            server.python("import os, time\nclass Slow:\n    def __reduce__(self):\n        print('printed')\n"
                          "        open('made', 'w').close()\n        return Slow, ()\n"
                          "class Hangs:\n    def __reduce__(self):\n        time.sleep(100)\ns, h, n = Slow(), Hangs(), 1")
            self.until(lambda: any(path.suffix == ".new" for path in self.files()))
            began = time.monotonic()
            self.assertEqual(server.python("n + 1").text.splitlines()[0], "Out: 2")
            self.assertLess(time.monotonic() - began, 0.5 * SLOW)
            self.until(lambda: self.files("keep"))
            self.assertNotIn("printed", server.python("n").text)
        self.assertEqual(list(work.glob("made")), [])
        self.assertIn("Out: 1", self.life("n", args=flags).text)

    @unittest.skipUnless(writable_cgroup("memory"), "no control group counts memory")
    def test_copy_makes_way_for_a_call_that_needs_the_memory(self):
        with self.server("--memory", "256M") as server:
            server.python("import os, time\nclass Slow:\n    def __reduce__(self):\n        keep = bytearray(os.urandom(1)) * (60 << 20)\n"
                          "        time.sleep(0.9)\n        return Slow, ()\nfor i in range(20): globals()['s%d' % i] = Slow()")
            self.until(lambda: self.files("new"))
            time.sleep(0.5)
            result = server.python("data = bytearray(b'x') * (200 << 20); len(data)")
            self.assertIn("Out: 209715200", result.text)
        self.assertTrue(self.says("was not saved", "cancelled"), self.log.read_text())

    def test_end_of_stdin_takes_a_bounded_time(self):
        with self.server() as server:
            server.python("import time\nclass Hangs:\n    def __reduce__(self):\n        time.sleep(100)\n"
                          "for i in range(9): globals()['h%d' % i] = Hangs()")
            status, seconds = server.end()
            self.assertEqual(status, 0)
            self.assertLess(seconds, 2.5 * SLOW)

    def test_largest_names_are_left_out_and_named(self):
        self.life("big, small = bytes(8 << 20), 1", args=("--keep-size", "4M"))
        result = self.life("small")
        self.assertRegex(result.text, r"not back: big \(bytes, too large")
        self.assertIn("Out: 1", result.text)

    def test_kill_while_it_is_saved_leaves_the_old_or_the_new_state(self):
        self.life("n = 0; data = bytes(1 << 20)")
        rng, n = random.Random(7), 0
        for _ in range(size(60, 6)):
            with self.server(check=False) as server:
                result = server.python("n")
                seen = int(re.search(r"Out: (\d+)", result.text)[1])
                self.assertIn(seen, (n, n - 1) if n else (0,))
                n = seen + 1
                server.python("n = %d" % n)
                server.close_stdin()
                time.sleep(rng.uniform(0, 0.25))
                server.signal(signal.SIGKILL)
                server.join()
        self.assertEqual(self.files("new")[1:], [])

    def test_full_disk_keeps_the_old_state_and_is_logged(self):
        if os.geteuid() != 0:
            self.skipTest("mounts a file system")
        small = self.place / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], capture_output=True).returncode:
            self.skipTest("may not mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)])
        self.kept = small / "kept"
        self.life("n = 1")
        self.life("n = 2; big = bytes(range(256)) * (16 << 10)")
        self.assertTrue(self.says("was not saved", "No space left on device"))
        self.assertEqual(len(self.files("new")), 0)
        self.assertIn("Out: 1", self.life("n").text)

    def test_save_that_failed_is_tried_again_at_the_end(self):
        if os.geteuid() != 0:
            self.skipTest("mounts a file system")
        small = self.place / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], capture_output=True).returncode:
            self.skipTest("may not mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)])
        self.kept, filler = small / "kept", small / "filler"
        filler.write_bytes(bytes(1536 << 10))
        with self.server() as server:
            server.python("n = 1; big = bytes(range(256)) * (4 << 10)")
            self.until(lambda: self.says("was not saved", "No space left on device"))
            filler.unlink()
        self.assertIn("Out: 1", self.life("n").text)

    def test_call_that_resets_while_it_is_saved_is_saved_too(self):
        with self.server() as server:
            server.python("import time\nclass Hangs:\n    def __reduce__(self):\n        time.sleep(100)\n"
                          "for i in range(3): globals()['h%d' % i] = Hangs()")
            self.until(lambda: self.files("new"))
            server.python("x = 1", reset=True)
            self.until(lambda: not self.files("new"))
        self.assertIn("Out: (1, False)", self.life("x, 'h0' in globals()").text)

    @once
    def test_file_and_directory_are_synced_with_the_rename_between(self):
        if not any(os.access(os.path.join(path, "strace"), os.X_OK) for path in os.environ["PATH"].split(":")):
            self.skipTest("strace: not installed")
        trace = ("strace", "-ff", "-o", str(self.place / "trace"), "-e", "trace=fsync,rename,renameat,renameat2")
        with self.server(wrap=trace, check=False) as server:
            server.python("n = 1", _timeout=60)
            server.end()
        texts = [path.read_text() for path in self.place.glob("trace.*")]
        text = next(text for text in texts if ".keep" in text)
        self.assertEqual(re.findall(r"^(\w+)\(.*= 0$", text, re.M), ["fsync", "renameat", "fsync"])



class Command(Keep):
    def command(self, *args, status=0, **options):
        done = run_cli("keep", *map(str, args), **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return (done.stdout + done.stderr).decode()

    def test_list_drop_and_restore(self):
        with self.server() as server:
            server.python("n = 1")
            server.python("n = 2", session="other")
        listed = sorted(self.command("list", self.kept).splitlines())
        self.assertRegex(listed[0], r"^default: \d+ \w+ \d\d:\d\d, \d+ kB, Python 3\.\d+, workspace in memory$")
        self.assertRegex(listed[1], "^other: ")
        self.life("m = 1", reset=True)
        self.assertIn("default (earlier): ", self.command("list", self.kept))
        self.command("restore", "default", self.kept)
        self.assertIn("Out: 1", self.life("n").text)
        self.command("drop", "other", self.kept)
        self.assertIn("no session other is kept there", self.command("drop", "other", self.kept, status=1))
        self.assertNotIn("other", self.command("list", self.kept))
        with self.server() as server:
            server.python("n")
            self.assertIn("a server uses the directory", self.command("drop", "--all", self.kept, status=1))
            self.command("drop", "--all", "--force", self.kept)
        self.assertEqual(self.files(), [])

    def test_words_of_a_workspace_are_escaped(self):
        work = self.place / "work\x1b]52;c;x\x07"
        work.mkdir()
        give_away(work)
        self.life("n = 1", args=("--workspace", str(work)))
        self.assertIn("work\\x1b]52;c;x\\x07", self.command("list", self.kept))

    @once
    def test_mistakes_are_said(self):
        self.assertIn("keep needs one of list, drop and restore", self.command(status=2))
        self.assertIn("keep drop needs the name of a session", self.command("drop", status=2))
        for action in "list", "restore":
            self.assertIn("--all is for keep drop", self.command(action, "--all", self.place, status=2))
        self.assertIn("name the directory of --keep", self.command("list", status=2))
        self.assertIn("No such file", self.command("list", self.place / "none", status=1))

    def test_doctor_has_a_row(self):
        self.life("n = 1")
        done = run_cli("doctor", "--keep", str(self.kept))
        said = " ".join(done.stdout.decode().split())  # a long path wraps
        self.assertRegex(said, r" keep %s: 1 session, 1 MiB, newest of \d+ " % re.escape(str(self.kept)))

    @once
    def test_config_makes_one_directory_for_each_client_and_workspace(self):
        state, env = self.place / "state", {**os.environ, "HOME": str(self.place), "XDG_STATE_HOME": str(self.place / "state")}
        found, work = set(), self.place / "work"
        work.mkdir()
        for host, flags in (("cursor", ()), ("cursor", ("--workspace", str(work))), ("zed", ())):
            file = self.place / ("%s%d.json" % (host, len(found)))
            done = run_cli("config", "--install", "--keep", "--in-memory", "--host", host, "--file", str(file), "--", *flags, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            found.add(re.search(r'"--keep",\s+"([^"]+)"', file.read_text())[1])
        self.assertEqual(len(found), 3)
        self.assertEqual({os.path.dirname(path) for path in found}, {str(state / "sandpiper")})
        self.kept = pathlib.Path(sorted(found)[0])
        self.life("n = 1")
        done = run_cli("config", "--uninstall", "--host", "cursor", "--file", str(self.place / "cursor0.json"), env=env)
        self.assertIn("sandpiper keep drop --all %s\n" % self.kept, done.stdout.decode())
        self.assertEqual(len(self.files()), 1)

    @once
    def test_model_reads_how_to_decline(self):
        for flags, is_said in (("--keep", str(self.kept)), True), ((), False):
            with Server(*flags, initialize=False) as server:
                self.assertEqual("`reset` in that call" in server.initialize()["instructions"], is_said)
                tool = server.request("tools/list")["result"]["tools"][0]
                self.assertEqual("earlier server" in tool["inputSchema"]["properties"]["reset"]["description"], is_said)
                self.assertNotIn("{kept}", str(tool))


if __name__ == "__main__":
    unittest.main()
