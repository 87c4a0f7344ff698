"""State survives: however the interpreter dies, only the effects of that one call are lost."""
import os
import pathlib
import random
import re
import signal
import tempfile
import time
import unittest

from client import SLOW, Case, Server, doctor_says, once, writable_cgroup

DEATHS = {
    "exit code": "import os; os._exit(3)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "lost descriptors": "import os; os.closerange(0, 1000)",
    "no memory": "filler = []\nwhile True: filler.append(bytearray(8 << 20))",
}
STUCK = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


class Failover(Case):
    def test_each_death_loses_only_its_call(self):
        with Server("--memory", "256M") as server:
            self.assert_ok(server.python("kept = {'rows': [1, 2, 3]}\nimport json"))
            for name, code in DEATHS.items():
                with self.subTest(death=name):
                    result = server.python("kept['rows'].append('lost')\n" + code)
                    self.assertTrue(result.is_error)
                    self.assertIn("state: restored to the state before this call", result.status.line)
                    self.assert_prints(server.python("print(kept, json.dumps(1))"),
                                       "{'rows': [1, 2, 3]} 1")

    def test_twice_in_a_row(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            for _ in range(3):
                self.assertIn("restored to the state before this call",
                              server.python(DEATHS["kill"]).status.line)
            self.assert_prints(server.python("print(kept)"), "5")

    def test_a_session_without_builtins_and_modules_has_a_checkpoint(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5\nimport builtins, os, sys, threading\ndef end(*_): raise SystemExit\n"
                                         "threading.active_count = end\n"
                                         "for name in ('__import__', 'getattr', 'isinstance', 'len', 'open', 'str'):\n"
                                         "    builtins.__dict__[name] = end\nsys.modules.clear()"))
            self.assertIn("restored to the state before this call", server.python("kept = 6\nos._exit(1)").status.line)
            self.assertIn("Out: 5", server.python("kept").text)

    def test_handlers_that_raise_while_the_state_is_saved(self):
        """A thread takes the signals, whatever the main one blocks."""
        with Server() as server:
            self.assert_ok(server.python(
                "import signal, threading, time\ndef fail(*_): 1 / 0\n_ = signal.signal(signal.SIGCHLD, fail)\ndef work():\n    time.sleep(0.1)\n"
                "    while True: signal.pthread_kill(threading.get_ident(), signal.SIGCHLD); time.sleep(0.001)\n"
                "threading.Thread(target=work, daemon=True).start()"))
            for _ in range(20):
                self.assertNotIn("before:", server.python("x = 1").status.line)
            self.assert_prints(server.python("print(signal.getsignal(signal.SIGCHLD) is fail)", undo=True), "True")

    @once
    def test_threads_that_write_while_the_state_is_saved(self):
        code = """
import sys, threading, time
def work():
    while True:
        print("x" * 2000, file=sys.stderr)
        time.sleep(0)
for _ in range(3): threading.Thread(target=work, daemon=True).start()"""
        with Server("--timeout", "5") as server:
            server.python(code)
            for _ in range(30):
                self.assert_ok(server.python("1"))
            self.assertIn("restored to the state before", server.python("import os; os._exit(1)").status.line)
            self.assertIn("alive", server.python("print('alive')").output)

    def test_a_process_that_stops_itself(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assertIn("state: restored to the state before this call",
                          server.python(STUCK, timeout_s=0.3).status.line)
            self.assert_prints(server.python("print(kept)"), "5")

    def test_random_state_and_directory_come_back(self):
        with Server() as server:
            self.assert_ok(server.python("import os, random\nos.mkdir('deep'); os.chdir('deep')\n"
                                         "random.seed(7); random.random()\n"
                                         "copy = random.Random(); copy.setstate(random.getstate())"))
            server.python("random.random(); os.chdir('/'); os._exit(1)")
            self.assert_prints(server.python("print(os.getcwd(), random.random() == copy.random())"),
                               server.here("/work/deep True"))

    def test_open_files_stay_usable(self):
        with Server() as server:
            self.assert_ok(server.python("log = open('log.txt', 'a'); log.write('one\\n'); log.flush()"))
            server.python("import os; os._exit(1)")
            self.assert_ok(server.python("log.write('two\\n'); log.flush()"))
            self.assert_prints(server.python("print(open('log.txt').read().split())"),
                               "['one', 'two']")

    def test_processes_that_the_dead_call_started_are_killed(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            server.python("import subprocess, os\n"
                          "subprocess.Popen(['setsid', 'sh', '-c', 'while :; do echo x >> alive; "
                          "sleep 0.05; done'])\nimport time; time.sleep(0.3)\nos._exit(1)")
            self.assert_prints(server.python("import os, time\na = os.path.getsize('alive')\n"
                                             "time.sleep(0.5); print(os.path.getsize('alive') == a)"),
                               "True")

    def test_waiting_for_children_does_not_find_the_checkpoint(self):
        with Server() as server:
            self.assert_ok(server.python("import os"))
            self.assert_prints(server.python("try: os.wait()\n"
                                             "except ChildProcessError: print('no child')",
                                             timeout_s=3), "no child")

    def test_a_killed_checkpoint_is_reported(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assert_ok(server.python("import os; os.kill(-1, 9)"))  # all processes except itself
            self.assertIn("restored", server.python("os._exit(1)").status.line)
            self.assert_prints(server.python("print(kept)"), "5")
            result = server.python("os.kill(-1, 9); os._exit(1)")
            self.assertIn("state: lost", result.status.line)
            self.assertTrue(server.python("kept").is_error)

    def test_the_death_of_one_session_leaves_the_other(self):
        with Server() as server:
            for name in ("a", "b"):
                self.assert_ok(server.python(f"kept = {name!r}", session=name))
            server.python(DEATHS["kill"], session="a")
            server.python(DEATHS["abort"], session="b")
            for name in ("a", "b"):
                self.assert_prints(server.python("print(kept)", session=name), name)

    def test_random_deaths(self):
        choice = random.Random(20261121)
        names = [name for name in DEATHS if name != "no memory"]
        with Server() as server:
            count = 0
            self.assert_ok(server.python("count = 0"))
            for _ in range(150):
                if choice.random() < 0.5:
                    count += 1
                    self.assert_ok(server.python("count += 1"))
                else:
                    result = server.python("count += 100\n" + DEATHS[choice.choice(names)])
                    self.assertIn("restored to the state before this call", result.status.line)
            self.assert_prints(server.python("print(count)"), str(count))


FILL = "\nfor at in range(0, len(state), 2 << 20): state[at : at + (2 << 20)] = b'y' * (2 << 20); time.sleep(0.01)"


class AboveHalfOfTheLimit(Case):
    """A state and its checkpoint, which do not both fit, also where only init counts."""

    def setUp(self):
        self.server = Server("--memory", "256M", "--timeout", "120").__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.assert_ok(self.server.python("import os, time\nkept = 'yes'"))

    def test_it_survives_an_exhausted_memory(self):
        self.assert_ok(self.server.python("state = bytearray(b'x') * (146 << 20)"))
        for _ in range(2):
            result = self.server.python("kept = 'no'\n" + DEATHS["no memory"])
            self.assertIn("state: restored to the state before this call", result.status.line)
        self.assert_prints(self.server.python("print(len(state) >> 20, kept)"), "146 yes")

    def test_it_is_rewritten_in_place(self):
        self.assert_ok(self.server.python("state = bytearray(b'x') * (146 << 20)"))
        self.assert_ok(self.server.python(FILL + "\nkept = 'new'"))
        self.assertIn("restored to the state before this call", self.server.python(DEATHS["kill"]).status.line)
        self.assert_prints(self.server.python("print(state.count(b'y') >> 20, kept)"), "146 new")


class MakingWay(Case):
    """Where a control group counts memory, states make way for code that runs only if that helps."""

    def setUp(self):
        if not writable_cgroup("memory"):
            self.skipTest("no control group counts")
        self.server = Server("--memory", "256M", "--timeout", "120").__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.assert_ok(self.server.python("import os, time\nkept = 'yes'"))

    def test_a_lost_state_whose_checkpoint_made_way_is_explained(self):
        self.assert_ok(self.server.python("state = bytearray(b'x') * (160 << 20)"))
        result = self.server.python(FILL + "\n" + DEATHS["no memory"])
        self.assertIn("state: lost (a new interpreter starts, files kept, variables lost: kept, state",
                      result.status.line)
        self.assertRegex(result.status.line, r"checkpoint: dropped to free memory: the call rewrote a state of 1[67]\d MiB")
        self.assertIn("--memory 256M, a larger limit keeps one", result.status.line)
        self.assert_ok(self.server.python("small = 1"))
        self.assertNotIn("made way", self.server.python(DEATHS["kill"]).status.line)

    def test_named_states_make_way_oldest_first(self):
        for number in range(4):
            self.assert_ok(self.server.python("state = bytearray(b'x') * (40 << 20)" + FILL,
                                              checkpoint=f"table.{number}"))
        result = self.server.python("more = bytearray()\nfor _ in range(110): more += b'x' * (1 << 20); time.sleep(0.02)")
        self.assert_ok(result)
        self.assertIn('since the last result: memory was short, named states dropped: "table.0", "table.1"', result.status.line)
        self.assertNotIn("table.3", result.status.line)
        self.assert_prints(self.server.python("print(len(state) >> 20, kept)", restore="table.3"), "40 yes")

    def test_steps_of_undo_that_make_way_are_named(self):
        lines = [self.server.python("state = bytearray(b'x') * (70 << 20)" + FILL).status.line for _ in range(4)]
        said = [re.search("undo states dropped: `undo` (?:can take back ([0-9]) call|cannot take back any call)", line) for line in lines]
        self.assertTrue(any(said), lines)
        said = [found for found in said if found]
        self.assertLessEqual(sum(found[1] is None for found in said), 1, lines)  # said when it changes
        steps = 0
        while not self.server.python("", undo=True).is_error:
            steps += 1
        self.assertEqual(steps, int(said[-1][1] or 0), lines)

    def test_states_make_way_however_late_the_server_checks(self):
        if "version 2" not in doctor_says()["memory"]["detail"]:
            self.skipTest("only control groups of version 2 make code wait")
        work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        with Server("--memory", "256M", "--timeout", "120", "--workspace", work) as server:
            for number in range(3):
                self.assert_ok(server.python("state = bytearray(b'x') * (60 << 20)", checkpoint=f"table.{number}"))
            call = server.start_call("run_python", code="import os, time\nopen('begun', 'w').close()\n"
                                     "while not os.path.exists('stopped'): time.sleep(0.01)\n"
                                     "more = bytearray(b'x') * (90 << 20)")
            while not (work / "begun").exists():
                time.sleep(0.01)
            os.kill(server.pid, signal.SIGSTOP)
            (work / "stopped").touch()
            time.sleep(3 * SLOW)  # unslowed code reaches the limit by then
            os.kill(server.pid, signal.SIGCONT)
            result = server.finish_call(call)
            self.assert_ok(result)
            self.assertIn('named states dropped: "table.0"', result.status.line)
            self.assertNotIn("table.2", result.status.line)

    def test_a_large_call_without_older_states_is_not_slowed(self):
        self.assert_ok(self.server.python("more = [bytearray(b'x') * (1 << 20) for _ in range(205)]\n"
                                          "began = time.monotonic()\nmore.append(bytearray(b'x') * (12 << 20))\n"
                                          "assert time.monotonic() - began < 5", timeout_s=60))


class Reset(Case):
    def test_reset_is_not_undone_by_a_checkpoint(self):
        with Server() as server:
            self.assert_ok(server.python("kept = 5"))
            self.assertIn("state: reset",
                          server.python("'kept' in globals()", reset=True).status.line)
            server.python(DEATHS["kill"])
            self.assert_prints(server.python("print('kept' in globals())"), "False")


if __name__ == "__main__":
    unittest.main()
