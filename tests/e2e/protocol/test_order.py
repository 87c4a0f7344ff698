"""Calls that are sent at once take effect in the order in which they were sent."""
import pathlib
import tempfile
import time
import unittest

from client import Case, Server, give_away, need_userns

LARGE = 3_000_000  # bytes that take several turns to write


class Order(Case):
    args = ()

    def setUp(self):
        need_userns()
        self.server = Server(*self.args)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)

    def at_once(self, *calls):
        """Results of calls (tool, arguments), all sent in one piece."""
        with self.server.at_once():
            ids = [self.server.start_call(tool, **arguments) for tool, arguments in calls]
        return [self.server.finish_call(number) for number in ids]


def run(code, **arguments):
    return "run_python", {"code": code, **arguments}


def write(path, content, **arguments):
    return "write_file", {"path": path, "content": content, **arguments}


def read(path, **arguments):
    return "read_file", {"path": path, **arguments}


class Cold(Order):
    """The sandbox starts while the calls come in."""

    def test_runs_of_one_session_in_a_new_sandbox(self):
        results = self.at_once(*(run(f"log = [*globals().get('log', []), {n}]; log") for n in range(1, 8)))
        self.assertEqual(results[-1].lines[0], "Out: [1, 2, 3, 4, 5, 6, 7]")

    def test_appends_in_a_new_sandbox(self):
        self.at_once(*(write("log.txt", f"{n} ", mode="append") for n in range(1, 8)))
        self.assertEqual(self.server.read("log.txt").text, "1 2 3 4 5 6 7 ")


class Warm(Order):
    def setUp(self):
        super().setUp()
        self.server.python("1")

    def test_a_run_sees_what_was_written_before_it_and_no_more(self):
        results = self.at_once(write("rate.py", "RATE = 7"), run("import rate; rate.RATE"),
                               write("rate.py", "RATE = 8"), run("open('rate.py').read()"))
        self.assertEqual(results[1].lines[0], "Out: 7")
        self.assertEqual(results[3].lines[0], "Out: 'RATE = 8'")

    def test_a_run_waits_for_a_long_write(self):
        results = self.at_once(write("big.txt", "x" * LARGE), run("import os; os.path.getsize('big.txt')"),
                               run("os.path.getsize('big.txt')", session="other"))
        self.assertEqual(results[1].lines[0], f"Out: {LARGE}")

    def test_a_session_beside_sees_what_was_written_before(self):
        results = self.at_once(write("side.txt", "y" * LARGE), run("len(open('side.txt').read())", session="side"),
                               run("len(open('side.txt').read())", fresh=True))
        self.assertEqual([result.lines[0] for result in results[1:]], [f"Out: {LARGE}"] * 2)

    def test_a_short_append_comes_behind_a_long_one(self):
        self.at_once(write("log.txt", "a" * LARGE, mode="append"), write("log.txt", "end", mode="append"))
        self.assertEqual(self.server.python("t = open('log.txt').read(); t == 'a' * %d + 'end'" % LARGE).lines[0],
                         "Out: True")

    def test_the_last_content_stays(self):
        self.at_once(write("note.txt", "b" * LARGE), write("note.txt", "last"))
        self.assertEqual(self.server.read("note.txt").text, "last")

    def test_a_file_is_created_once(self):
        first, second = self.at_once(write("new.txt", "c" * LARGE, mode="create"), write("new.txt", "d", mode="create"))
        self.assertFalse(first.is_error)
        self.assertIn("already exists", second.text)

    def test_a_read_sees_what_was_sent_before_it_and_no_more(self):
        results = self.at_once(write("seen.txt", "one\n"), read("seen.txt"), write("seen.txt", "two\n"),
                               read("seen.txt"), run("_ = open('seen.txt', 'w').write('three\\n')"), read("seen.txt"))
        self.assertEqual([results[i].text for i in (1, 3, 5)], ["one\n", "two\n", "three\n"])

    def test_a_long_search_ends_before_the_next_write(self):
        lines = "line\n" * 2_000_000
        self.server.write("lines.txt", lines)
        found, _ = self.at_once(read("lines.txt", start_line=-1), run("_ = open('lines.txt', 'a').write('more\\n')"))
        self.assertIn("2000000", found.text)
        self.assertNotIn("more", found.text)

    def test_a_hundred_writes(self):
        results = self.at_once(*(write(f"{n}.txt", str(n)) for n in range(100)))
        self.assertEqual([result.text for result in results if result.is_error], [])

    def test_sessions_run_beside_each_other(self):
        """One waits for the other, in both orders."""
        wait = "import os, time\nwhile not os.path.exists('{0}'): time.sleep(.01)\nopen('{1}', 'w').close()"
        results = self.at_once(run(wait.format("b", "a")), run(wait.format("c", "b"), session="other"),
                               run("open('c', 'w').close()", fresh=True))
        self.assertEqual([result.status.kind for result in results], ["ok"] * 3)


class Waiting(Order):
    """Calls behind a run that ends when the user's directory has a file."""

    def setUp(self):
        workspace = tempfile.TemporaryDirectory()
        self.addCleanup(workspace.cleanup)
        give_away(workspace.name)
        self.directory = pathlib.Path(workspace.name)
        self.args = ("--workspace", workspace.name)
        super().setUp()
        self.server.python("import os, time; n = 1")

    def begin(self):
        call = self.server.start_call(
            "run_python", code="open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(.01)")
        while not (self.directory / "begun").exists():
            time.sleep(0.01)
        return call

    def go_on(self):
        (self.directory / "go").touch()

    def test_a_call_that_waited_says_so(self):
        call = self.begin()
        following = [self.server.start_call("run_python", code="n"),
                     self.server.start_call("write_file", path="x", content="y")]
        time.sleep(1.2)
        self.go_on()
        self.assertNotIn("waited", self.server.finish_call(call).status.line)
        self.assertRegex(self.server.finish_call(following[0]).status.line, r" \| waited \d+ s for <cell 2>")
        self.assertRegex(self.server.finish_call(following[1]).text,
                         r"^created x \(1 line, 1 B\)\n\[waited \d+ s for <cell 3>\]$")

    def test_a_short_wait_is_not_worth_a_word(self):
        for result in self.at_once(run("1"), run("2")):
            self.assertNotIn("waited", result.status.line)

    def test_file_calls_overtake_a_run_that_has_gone_on_for_a_while(self):
        call = self.begin()
        for _ in range(2):
            found = self.server.read("begun")
            self.assertEqual([block["text"] for block in found.content], [
                "[the file is empty]\n", "[read while an earlier run_python call was still running]"])
        self.server.write("go", "")
        self.server.finish_call(call)
        self.assertEqual(len(self.server.read("begun").content), 1)

    def test_no_read_overtakes_a_write(self):
        call = self.begin()
        with self.server.at_once():
            written = self.server.start_call("write_file", path="x", content="y")
            found = self.server.start_call("read_file", path="x")
        time.sleep(2.2)
        self.go_on()
        self.assertRegex(self.server.finish_call(found).text, r"^y\[waited \d+ s for write_file\]$")
        self.server.finish_call(written)
        self.server.finish_call(call)

    def test_a_held_call_is_cancelled(self):
        call = self.begin()
        held = self.server.start_call("write_file", path="never", content="x")
        self.server.notify("notifications/cancelled", {"requestId": held})
        self.go_on()
        self.server.finish_call(call)
        self.assertTrue(self.server.read("never").is_error)
        self.assertNotIn(held, self.server.stash)

    def test_a_cancelled_append_is_whole_or_nothing(self):
        self.server.write("half.txt", "before")
        with self.server.at_once():
            call = self.server.start_call("write_file", path="half.txt", content="x" * 8_000_000, mode="append")
            self.server.notify("notifications/cancelled", {"requestId": call})
        size = int(self.server.python("os.path.getsize('half.txt')").lines[0].removeprefix("Out: "))
        self.assertIn(size, (6, 8_000_006))

    def test_too_many_runs_of_one_session(self):
        call = self.begin()
        calls = [self.server.start_call("run_python", code=f"n += 1 # {i}") for i in range(65)]
        self.assertIn("Busy: 64 calls are waiting in this session", self.server.finish_call(calls[-1]).text)
        self.go_on()
        for number in [call, *calls[:-1]]:
            self.assertEqual(self.server.finish_call(number).status.kind, "ok")
        self.assertEqual(self.server.python("n").lines[0], "Out: 65")

    def test_calls_that_wait_get_progress(self):
        call = self.begin()
        held = self.server.start("tools/call", {"name": "write_file", "arguments": {"path": "p", "content": ""},
                                                "_meta": {"progressToken": 7}})
        note = self.server.receive()
        self.assertEqual(note["params"]["progressToken"], 7)
        self.assertRegex(note["params"]["message"], r"^\d+ s: waiting for an earlier call$")
        self.go_on()
        self.server.finish_call(call)
        self.server.finish_call(held)


if __name__ == "__main__":
    unittest.main()
