"""Frames that code sends on its session's control socket affect only its own session and its own call.

docs/GUEST.md describes the frames. pid 1 keeps one table of processes and one queue for all sessions; no session may
fill either. A result may claim anything about its own call, but must not make the response long or slow, or answer
another call.
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import Case, Server, doctor_says, need_userns, writable_cgroup  # noqa: E402

WATCHED = 512  # PROCESSES_WATCHED in sandbox/programs/common/processes.h

PRELUDE = """
import os, signal, socket, struct, time
control = socket.socket(fileno=os.dup(64))  # SESSION_FD in guest/frames.py

def frame(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    body = b''.join(struct.pack('<I', len(word)) + word for word in words)
    return struct.pack('<I', len(body)) + body
def checkpoint(pid, cell):
    return frame('checkpoint', 'pid', os.getpid(), 'checkpoint', pid, 'cell', cell)
def own_cell():
    import sys
    return sys._getframe(1).f_code.co_filename.strip('<cel >')
def result(cell, *words):
    control.sendall(frame('result', 'cell', cell, 'status', 'ok', *words))
def sleeper():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
def processes():
    return [int(name) for name in os.listdir('/proc') if name.isdigit()]
"""

# Each call sends the pid of a process that has been reaped.
REAPED = """
for other in processes():
    if other not in (1, 2, os.getpid()):
        try: os.kill(other, signal.SIGKILL)
        except OSError: pass
if pid: os.waitpid(pid, 0)
pid = sleeper()
control.sendall(frame('result', 'cell', own_cell(), 'status', 'ok') + checkpoint(pid, own_cell()))
"""

FLOOD = """
frames = b''.join(checkpoint(2000000 + n, 10000 + n % 14) for n in range(3000))
if os.fork() == 0:
    while True:
        try: control.sendall(frames)
        except BlockingIOError: pass
time.sleep(0.1)
"""


class Forged(Case):
    def setUp(self):
        need_userns()
        self.server = Server("--timeout", "20")
        self.server.must_be_contained()
        self.assert_ok(self.server.python("kept = 1", session="other"))
        self.assert_ok(self.server.python(PRELUDE))

    def tearDown(self):
        with self.server:
            pass

    def assert_others_live(self):
        self.assert_prints(self.server.python("print(kept)", session="other"), "1")
        died = self.server.python("import os; os._exit(3)", session="other")
        self.assertEqual(died.status.state, "restored to the state before this call", died.text)
        self.assert_prints(self.server.python("print(6 * 7)", fresh=True), "42")

    def test_a_flood_does_not_affect_other_sessions(self):
        self.server.write("kept.txt", "here")
        for _ in range(5):
            self.server.python(PRELUDE + FLOOD)
            self.server.python("", reset=True)
        self.assert_others_live()
        self.assertIn("here", self.server.read("kept.txt").text)

    def test_exited_processes_free_their_slots(self):
        if doctor_says()["landlock"]["state"] != "on":
            self.skipTest("landlock: without it the attack kills the other session")
        self.assert_ok(self.server.python("pid = 0"))
        for _ in range(WATCHED + 20):
            self.assert_ok(self.server.python(REAPED))
        self.assert_others_live()

    def test_processes_of_other_sessions_keep_their_oom_score_and_live(self):
        code = ("def scores():\n    return {pid: open(f'/proc/{pid}/oom_score_adj').read() for pid in others}\n"
                "import os\nzygote = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[1]\n"
                "others = [zygote, int(open('/tmp/other').read())]\nbefore = scores()\n")
        self.assert_ok(self.server.python("import os; open('/tmp/other', 'w').write(str(os.getpid()))",
                                          session="other"))
        self.assert_ok(self.server.python(code))
        for number in ("others[0]", "others[1]", "others[0]"):
            self.assert_ok(self.server.python("control.sendall(frame('result', 'cell', own_cell(), 'status', 'ok') + "
                                              f"checkpoint({number}, own_cell()))"))
        self.assert_prints(self.server.python("print(scores() == before)"), "True")
        self.assert_others_live()

    def test_a_checkpoint_forged_before_the_result_does_not_take_the_place_of_the_real_one(self):
        for number, cell in ((0, "own_cell()"), ("sleeper()", "own_cell()"), (0, 10000)):
            # A state that comes back has none of the descriptors that lead to a socket of its process.
            self.assert_ok(self.server.python(
                f"control = socket.socket(fileno=os.dup(64)); mine = 7; control.sendall(checkpoint({number}, {cell}))"))
            self.assert_prints(self.server.python("print(mine)", timeout_s=10), "7")
            self.assertTrue(self.server.python("import os; os._exit(3)").is_error)
            self.assert_prints(self.server.python("print(mine)"), "7")

    def test_a_checkpoint_dropped_before_its_check_kills_no_other_process(self):
        """The waiting reset kills the session's checkpoints before init has refused to watch them."""
        pids = self.server.python("import os\nprint(os.getpid(), os.getppid())", session="other")
        self.assert_ok(pids)
        other, zygote = map(int, pids.text.split()[:2])
        for number in (other, zygote):
            forged = self.server.start_call(
                "run_python", checkpoint="forged", code=f"{PRELUDE}\ncell = own_cell()\ntime.sleep(1)\n"
                "control.sendall(frame('result', 'cell', cell, 'status', 'ok') + "
                f"checkpoint({number}, cell))\ntime.sleep(1)")
            reset = self.server.start_call("run_python", code="", reset=True)
            self.assert_ok(self.server.finish_call(forged))
            self.assert_ok(self.server.finish_call(reset))
        alive = self.server.python("print(os.getpid(), os.getppid())", session="other")
        self.assert_prints(alive, f"{other} {zygote}")
        self.assertIsNone(alive.status.field("since the last result"), alive.text)
        self.assert_others_live()


class ForgedMemory(Case):
    def test_a_forged_checkpoint_that_code_reaps_does_not_keep_states_of_others_from_making_way(self):
        """The server awaits the exits of killed checkpoints before it looks how much memory the others hold."""
        need_userns()
        if not writable_cgroup("memory"):
            self.skipTest("no control group counts")
        with Server("--memory", "256M", "--timeout", "60") as server:
            server.must_be_contained()
            self.assert_ok(server.python(PRELUDE, session="forger"))
            self.assert_ok(server.python("pid = sleeper()\ncontrol.sendall(frame('result', 'cell', own_cell(), 'status', "
                                         "'ok') + checkpoint(pid, own_cell()))", session="forger"))
            for _ in range(5):  # steps of undo keep it for a while
                self.assert_ok(server.python("1", session="forger"))
            killed = server.python("print(os.waitpid(pid, 0)[1])", session="forger", timeout_s=10)
            self.assert_prints(killed, "9")
            self.assert_ok(server.python("", session="forger", reset=True))
            for number in range(3):
                self.assert_ok(server.python("state = bytearray(b'x') * (60 << 20)", checkpoint=f"table.{number}"))
            result = server.python("import time\nmore = bytearray()\n"
                                   "for _ in range(90): more += b'x' * (1 << 20); time.sleep(0.02)")
            self.assert_ok(result)
            self.assertIn('named states dropped: "table.0"', result.status.line)


# The most that fits into a frame of 8 MiB and 4,096 fields.
LARGE = {
    "a_long_value": "'value', b'x' * 8000000",
    "a_value_of_control_characters": "'value', b'\\x01' * 7000000",
    "a_value_of_quotes_and_separators": "'value', '\"\\\\\\u2028\\x7f\\x9f'.encode() * 800000",
    "a_value_of_broken_characters": "'value', b'\\xff\\xf0\\x9f' * 2500000",
    "a_long_traceback_and_hint": "'traceback', b't' * 3000000, 'hint', b'h' * 3000000, 'error_type', b'e' * 1000000",
    "a_long_place": "'where_cell', '3', 'where_line', '4', 'where_source', b'\\x03' * 7000000",
    "long_notes": "*['note', b'n' * 3800] * 2000",
    "many_files_and_variables": "*['var', b'+v' + b'w' * 1500, 'file', b'+f' + b'g' * 1500, 'file_size', 1] * 600",
    "a_long_name_of_a_file": "'file', b'+' + b'\\x02' * 6000000, 'files_more', b'9' * 1000000",
    "long_numbers": "*sum(([name, b'7' * 800000] for name in ('error_cell', 'error_line', 'vars_more', 'cpu_ms', "
                    "'peak_bytes', 'exit_code', 'memory')), [])",
    "all_parts_at_once": "*sum(([name, b'\\x03' * 500000] for name in ('value', 'traceback', 'hint', 'note', "
                         "'var', 'file', 'image', 'error_type', 'error_message')), [])",
}
CHARACTERS = 24000 + 16000 + 2000  # of the result's parts, the printed output, the server's own text
ESCAPED = 6  # bytes of JSON for a character at most, where text is not escaped twice


class Results(Case):
    """One server for all: each case ends with a result that nothing was forged in."""

    form = ()

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server("--timeout", "20", *cls.form)
        if not cls.form:
            cls.server.must_be_contained()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def setUp(self):
        self.python(PRELUDE, reset=True)

    def python(self, code, **arguments):
        result = self.server.python(code, **arguments)
        self.assertFalse(result.is_error, result.text[:2000])
        return result

    def size(self, result):
        return len(json.dumps(result.raw["content"]))

    def forge(self, words):
        return self.server.python(f"print('o' * 100000)\nresult(own_cell(), {words})\ntime.sleep(0.3)")

    def check(self, words):
        forged = self.forge(words)
        self.assertLess(self.size(forged), CHARACTERS * ESCAPED)
        self.assertLess(len(forged.text), CHARACTERS)
        self.assertFalse(forged.is_error, forged.text[-400:])
        self.assertIn("7 * 6 = 42", self.python("print('7 * 6 =', 7 * 6)").text)

    def test_honest_results_are_not_cut(self):
        """The control: the largest result that the driver sends."""
        name = "n" * 200 + ".txt"
        result = self.server.python(f"for i in range(20): open(str(i) + '{name}', 'w').close()\n"
                                    "class Long(Exception): pass\ndef f(n):\n    g(n)\ndef g(n):\n"
                                    "    if n: h(n)\n    raise Long('m' * 5000)\n"
                                    "def h(n):\n    try: f(n - 1)\n    except Long as e: raise Long('w' * 900) from e\nf(9)")
        self.assertNotIn("bytes cut)", result.text)
        self.assertGreater(len(result.text), 10000)
        self.assertNotIn("bytes cut)", self.python("bytes(100000)").text)
        self.assertNotIn("bytes cut)", self.python("'\\u20ac' * 8000").text)

    def test_the_number_of_images_is_bounded(self):
        picture = ("import base64; open('p.png', 'wb').write(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
                   "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))\nhere = os.path.abspath('p.png')\n")
        self.python(picture)

        def blocks(words):
            result = self.server.python(f"result(own_cell(), {words})\ntime.sleep(0.3)")
            return [block["type"] for block in result.content].count("image")
        self.assertEqual(blocks("*['image', '/none'] * 3, 'image', here"), 1, "the control")
        self.assertEqual(blocks("*['image', '/none'] * 2000, 'image', here"), 0)
        self.assertEqual(blocks("'image', '/none\\n' * 300 + here"), 0)

    def test_the_next_call_gets_its_own_result(self):
        first = self.server.python("result(own_cell(), 'value', 'forged')\ntime.sleep(2)\n'the first'")
        self.assertIn("forged", first.text)
        second = self.python("'the second'")
        self.assertIn("the second", second.text)
        self.assertNotIn("the first", second.text)
        self.assertIn("1 message from the sandbox matched no call and was dropped", second.text)
        self.assertNotIn("matched no call", self.python("3").text)

    def test_results_with_a_wrong_number_complete_no_call(self):
        result = self.server.python("for number in ('', 0, 1, 99999, -1, 'x', 2**32, 2**64, b'7' * 100): result(number, 'value', 'forged')\n"
                                    "control.sendall(frame('result', 'status', 'ok', 'value', 'forged'))\n"
                                    "control.sendall(frame('needs', 'cell', own_cell(), 'name', 'plain'))\n"
                                    "time.sleep(1)\n'the real one'")
        self.assertIn("the real one", result.text)
        self.assertNotIn("forged", result.text)
        self.assertIn("10 messages from the sandbox matched no call", result.text)


class StructuredResults(Results):
    form = ("--structured",)

    def size(self, result):
        """The size with the text, which is the object escaped a second time."""
        return len(json.dumps(result.raw)) // 3

    def check(self, words):
        forged = self.forge(words)
        self.assertLess(self.size(forged), CHARACTERS * ESCAPED)
        self.assertFalse(forged.is_error, forged.text[-400:])
        self.assertEqual(forged.raw["structuredContent"]["status"], "ok")
        self.assertIn("7 * 6 = 42", self.python("print('7 * 6 =', 7 * 6)").text)

    def test_honest_results_are_not_cut(self):
        result = self.server.python("class Long(Exception): pass\nraise Long('m' * 5000)")
        self.assertNotIn("bytes cut)", json.dumps(result.raw["structuredContent"]))
        self.assertNotIn("bytes cut)", json.dumps(self.python("bytes(100000)").raw["structuredContent"]))


for name, words in LARGE.items():
    setattr(Results, f"test_{name}", lambda self, w=words: self.check(w))


if __name__ == "__main__":
    unittest.main()
