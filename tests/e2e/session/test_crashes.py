"""However and whenever an interpreter dies, the state is what the result says.

test_checkpoints.py has the simple cases; this file has all ways to die (deaths.py), the moments at which a death can
happen, and a short form of the stress test (crash_stress.py).
"""
import os
import random
import subprocess
import time
import unittest

import deaths
from client import SLOW, Case, Server
from crash_stress import ENDS, Call, Mismatch, Stress, explain

STATE = """
import collections, json, os, random, threading
os.makedirs('deep', exist_ok=True); os.chdir('deep')
rows = {'a': [1, 2, 3], 'b': collections.deque('xy')}
class Point:
    def __init__(self, x): self.x = x
    def twice(self): return self.x * 2
point, double = Point(4), lambda x: point.twice() + x
def count():
    n = 0
    while True: n += 1; yield n
counter = count(); next(counter)
random.seed(5); random.random()
expected = random.Random(5); expected.random()
log = open('log.txt', 'w'); log.write('one\\n'); log.flush()
lock = threading.Lock()
"""
CHECK = """
print(os.getcwd(), rows, double(1), next(counter), json.dumps(rows['a']),
      random.random() == expected.random(), lock.acquire(False), lock.release())
log.write('two\\n'); log.flush(); print(open('log.txt').read().split())
"""
CHANGE = """
rows['a'].append('lost'); del rows['b']; point.x = 0; next(counter); random.random(); lock.acquire()
os.chdir('/'); json.dumps = None; del Point
"""
WHOLE = ("/work/deep {'a': [1, 2, 3], 'b': deque(['x', 'y'])} 9 2 [1, 2, 3] True True None\n"
         "['one', 'two']")


class EveryWay(Case):
    def dies_and_comes_back(self, server, code, expected, times=1):
        self.assert_ok(server.python(STATE, reset=True))
        for _ in range(times):
            result = server.python(CHANGE + code, timeout_s=0.5 if expected.startswith("timeout") else 60)
            self.assertRegex(result.status.line, rf"^\[(?:{expected})")
            self.assertEqual(result.status.state, "restored to the state before this call", result.text)
        self.assert_prints(server.python(CHECK), server.here(WHOLE))

    def test_sudden(self):
        with Server() as server:
            for name, (code, expected) in deaths.SUDDEN.items():
                with self.subTest(death=name):
                    self.dies_and_comes_back(server, code, expected, times=2)

    def test_without_a_checkpoint(self):
        """Nothing but the interpreter holds the control socket."""
        with Server() as server:
            for name in (*deaths.SUDDEN, "becomes a program that stays"):
                code, expected = deaths.ALL[name]
                with self.subTest(death=name):
                    result = server.python(code, fresh=True, timeout_s=2 if expected == "timeout" else 60)
                    self.assertRegex(result.status.line, rf"^\[(?:{expected})")

    def test_slow(self):
        with Server("--memory", "256M") as server:
            for name, (code, expected) in deaths.SLOW.items():
                if name != "swallows every interrupt":
                    with self.subTest(death=name):
                        self.dies_and_comes_back(server, code, expected)

    def test_cancelled_and_killed(self):
        stuck, _ = deaths.SLOW["stuck in native code"]
        with Server() as server:
            self.assert_ok(server.python(STATE))
            call = server.start_call("run_python", code=CHANGE + "print('go', flush=True)\n" + stuck)
            self.assertTrue(server.silent(0.3 * SLOW))
            server.cancel(call)
            result = server.python(CHECK)
            self.assertRegex(result.status.field("since the last result"),
                             r"^a call was cancelled, state restored to the state before this call; its output \(3 B\) ")
            self.assert_prints(result, server.here(WHOLE))

    def test_a_death_before_a_cancelled_call_is_reported(self):
        with Server() as server:
            later_us = int(200000 * SLOW)  # after the fork of the checkpoint
            self.assert_ok(server.python(deaths.KILLED_LATER.format(us=later_us)))
            self.assertTrue(server.silent(0.5 * SLOW))
            call = server.start_call("run_python", code="import time; time.sleep(60)")
            self.assertTrue(server.silent(0.3 * SLOW))
            server.cancel(call)
            self.assertEqual(server.python("1").status.field("since the last result"),
                             "the interpreter exited between calls (SIGKILL), restored to the state after "
                             "<cell 1>; a call was cancelled, state kept (interrupted)")

    def test_an_exit_between_calls_is_reported_with_its_status(self):
        with Server() as server:
            pause_s = 0.2 * SLOW
            self.assert_ok(server.python(f"import os, threading\nthreading.Timer({pause_s}, os._exit, [7]).start()"))
            time.sleep(3 * pause_s)
            self.assertIn("the interpreter exited between calls (exit status 7)", server.python("1").status.line)

    def test_numpy_random_state(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode:
            self.skipTest("numpy: /usr/bin/python3 has none")
        with Server("--python", "/usr/bin/python3") as server:
            self.assert_ok(server.python("import numpy as np\nnp.random.seed(3); np.random.rand()\n"
                                         "twin = np.random.RandomState(3); twin.rand()\n"
                                         "own = np.random.default_rng(4); other = np.random.default_rng(4)"))
            server.python("np.random.rand(); own.random(); import os; os.abort()")
            self.assert_prints(server.python("print(np.random.rand() == twin.rand(), own.random() == other.random())"),
                               "True True")


class EveryMoment(Case):
    """The kill comes from a thread that the dying call leaves, so it happens after the result.

    The model of crash_stress.py checks each result; these tests choose the calls and whether they wait for each other.
    """

    def killed_after(self, code, within_us, times, pipelined):
        choice = random.Random(within_us)
        with Server() as server:
            stress = Stress(server, seed=0, sessions=1)
            try:
                for _ in range(times):
                    self.kill_once(stress, code, choice.randrange(within_us), pipelined)
            except Mismatch as error:
                self.fail(explain(stress, error))
        self.assertEqual(stress.losses, [])
        deaths_reported = [name for name in stress.tally
                       if name == "taken back" or name.startswith(("restored", "lost"))]
        self.assertTrue(deaths_reported, "no kill was met")

    @staticmethod
    def kill_once(stress, code, delay_us, pipelined):
        session, = stress.sessions
        dying = Call("later", code + "\n" + deaths.KILLED_LATER.format(us=delay_us), "ok|crashed: SIGKILL")
        for call in (dying, Call("ok", *ENDS["ok"])):
            stress.send(session, call)
            if not pipelined:
                stress.receive()
        while stress.in_flight:
            stress.receive()

    def test_killed_after_a_small_result(self):
        self.killed_after("", 4000, times=60, pipelined=False)

    def test_killed_after_a_small_result_with_a_queued_call(self):
        self.killed_after("", 4000, times=60, pipelined=True)

    def test_killed_after_a_result_larger_than_the_socket(self):
        self.killed_after("print('x' * 6_000_000); 'y' * 2_000_000", 30000, times=12, pipelined=True)

    def test_while_a_large_state_is_forked(self):
        self.killed_after("big = bytearray(b'x') * (100 << 20)", 30000, times=8, pipelined=False)


class Neighbours(Case):
    def test_two_sessions_in_every_way(self):
        with Server() as server:
            for name in "ab":
                self.assert_ok(server.python(server.here(f"import os; kept = {name!r}; os.chdir('/tmp')"), session=name))
            choice = random.Random(4)
            ways = [way for way in sorted(deaths.SUDDEN)]
            for _ in range(25):
                calls = [(name, way, server.start_call("run_python", code=deaths.SUDDEN[way][0], session=name))
                         for name, way in zip("abab", choice.choices(ways, k=4))]
                for name, way, call in calls:
                    result = server.finish_call(call)
                    self.assertRegex(result.status.line, rf"^\[(?:{deaths.SUDDEN[way][1]})", way)
                    self.assertEqual(result.status.state, "restored to the state before this call", result.text)
            for name in "ab":
                self.assert_prints(server.python("print(kept, os.getcwd())", session=name), server.here(f"{name} /tmp"))

    def test_sessions_open_while_another_is_cleaned_up(self):
        """The cleanup after a dead call kills processes by their tag, and spares an interpreter opened meanwhile."""
        with Server() as server:
            self.assert_ok(server.python("import os"))
            for _ in range(15):
                dying = server.start_call("run_python", code="os.fork(); os._exit(1)")
                fresh = [server.start_call("run_python", code="print(6 * 7)", fresh=True) for _ in range(6)]
                self.assertIn("restored", server.finish_call(dying).status.line)
                for call in fresh:
                    self.assert_prints(server.finish_call(call), "42")

    def test_stress(self):
        with Server("--memory", "256M") as server:
            stress = Stress(server, seed=int(os.environ.get("SANDPIPER_TEST_SEED", "20261121")), sessions=3)
            try:
                tally = stress.run(300)
            except Mismatch as error:
                self.fail(explain(stress, error))
            self.assertEqual(stress.losses, [])
            for what, least in (("restored to the state before this call", 30), ("then restored to that state", 5), ("went back", 30),
                                ("named", 5)):
                self.assertGreater(tally[what], least, what)


class BetweenCalls(Case):
    """An interpreter that dies between two calls, or whose copy has hardly begun, costs neither of them."""

    def test_a_call_that_was_not_begun_is_sent_again(self):
        pause_s = 0.2 * SLOW  # for the result; on a busy machine its checkpoint may come too late, which takes its names
        dies = ("import ctypes, os, signal, threading, time\nlocked = ctypes.PyDLL(None).usleep\ndef end():\n"
                f"    time.sleep({pause_s})\n    signal.setitimer(signal.ITIMER_REAL, {5 * pause_s})\n"
                "    locked(60000000)  # with the interpreter's lock\n")
        for fresh in (False, True):
            with self.subTest(first_call=fresh), Server() as server:
                if not fresh:
                    self.assert_ok(server.python("value = [41]"))
                self.assert_ok(server.python(dies + "threading.Thread(target=end).start()"))
                time.sleep(3 * pause_s)
                result = server.python("import threading; value = 1 + value[0] if 'value' in globals() else 42; print(value)")
                self.assert_prints(result, "42")
                self.assertIn("exited between calls", result.status.line)
                self.assert_prints(server.python("print(value, threading.active_count())"), "42 1")

    def test_a_call_that_ends_each_interpreter_is_sent_twice(self):
        with Server() as server:
            self.assert_ok(server.python("import ctypes, os, threading, time; value = 1"))
            for _ in range(2):
                result = server.python("value = 2; os._exit(9)")
                self.assertTrue(result.is_error)
                self.assertRegex(result.status.line, r"^\[exit code 9 \| state: restored to the state before this call")
            self.assert_prints(server.python("print(value)"), "1")

    def test_a_signal_to_the_group_spares_the_new_copy(self):
        with Server() as server:
            self.assert_ok(server.python("import os, signal; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); n = 0"))
            for count in range(1, 31):
                call = server.start_call("run_python", code="n += 1")
                dying = server.start_call("run_python", code="os.kill(0, signal.SIGKILL)")
                self.assert_ok(server.finish_call(call))
                result = server.finish_call(dying)
                self.assertEqual(result.status.state, "restored to the state before this call", result.text)
                self.assert_prints(server.python("print(n)"), str(count))


if __name__ == "__main__":
    unittest.main()
