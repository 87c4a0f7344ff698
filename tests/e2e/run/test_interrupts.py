"""A call that is cancelled or times out at any moment has exactly one response or none, and the promised state. To
choose the moment, tests stop the sandbox's init with SIGSTOP: the server's requests to it then wait until the test
continues it.
"""
import contextlib
import os
import signal
import subprocess
import time
import unittest

from client import SLOW, Case, Server
from traces import init_of, processes

KEPT = "kept (interrupted)"
RESTORED = "restored to the state before this call"
LOOP = "while True: time.sleep(0.01)"

# name: (code, beginning of the status line, state)
BUSY = {
    "an endless loop": ("while True: pass", "timeout", KEPT),
    "a sleep": ("import time; time.sleep(60)", "timeout", KEPT),
    "a sleep in C": ("import ctypes; ctypes.CDLL(None).sleep(60)", "timeout", KEPT),
    "a sleep in C with the interpreter's lock": (
        "import ctypes, time\nuntil = time.monotonic() + 60\n"
        "while time.monotonic() < until: ctypes.PyDLL(None).usleep(100000)", "timeout", KEPT),
    "a regular expression without end": ("import re; re.match('(a+)+$', 'a' * 40 + 'b')", "timeout", KEPT),
    "C that checks for no signal": ("import itertools; sum(itertools.repeat(0))",
                                  "timeout", RESTORED),
    "a child process": ("import subprocess; subprocess.run(['sleep', '60'])", "timeout", KEPT),
    "a lock": ("import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()", "timeout", KEPT),
    "an interrupt that is swallowed once": (
        "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: done.append('clean')", "ok", None),
    "an interrupt that is swallowed always": (
        "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass",
        "timeout", RESTORED),
    "an interrupt that becomes another exception": (
        "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: raise ValueError('x') from None",
        "timeout", KEPT),
    "a handler that returns": (
        "import signal; signal.signal(signal.SIGINT, lambda *_: None)\n" + LOOP, "timeout", RESTORED),
    "a handler that raises": (
        "import signal\ndef stop(*_): raise RuntimeError('mine')\n"
        "signal.signal(signal.SIGINT, stop)\n" + LOOP, "timeout", KEPT),
    "a signal that is ignored": (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + LOOP, "timeout", RESTORED),
    "the system's own way": (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + LOOP, "timeout", RESTORED),
    "all signals blocked": (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n" + LOOP,
        "timeout", RESTORED),
    "a stop of its own": ("import os; os.kill(os.getpid(), 19)", "timeout", RESTORED),
    "await": ("import asyncio; await asyncio.sleep(60)", "timeout", KEPT),
    "a shielded task": (
        "import asyncio\nasync def tick():\n    while True: ticks.append(1); await asyncio.sleep(0.01)\n"
        "task = asyncio.ensure_future(tick()); await asyncio.shield(task)", "timeout", KEPT),
    "a task that is not to be cancelled": (
        "import asyncio\nasync def stay():\n    while True:\n        try: await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError: pass\nawait stay()", "timeout", RESTORED),
}
CANCELLED = ("an endless loop", "C that checks for no signal", "an interrupt that is swallowed once",
             "an interrupt that is swallowed always", "an interrupt that becomes another exception",
             "all signals blocked", "a stop of its own")


# Imported before the call, because an interrupted import leaves a partial module.
PREPARE = "import asyncio, ctypes, itertools, os, re, signal, subprocess, threading, time\ndone, ticks = [], []"


class Busy(Case):
    def test_at_the_time_limit(self):
        with Server() as server:
            for name, (code, line, state) in BUSY.items():
                with self.subTest(name):
                    self.assert_ok(server.python(PREPARE, reset=True))
                    result = server.python("done.append('begun')\n" + code, timeout_s=0.4)
                    self.assertTrue(result.status.line.startswith("[" + line), result.text)
                    self.assertEqual(result.status.state, state, result.text)
                    self.assert_prints(server.python("print(done[:1])"), "[]" if state == RESTORED else "['begun']")

    def test_what_waits_for_a_program_in_c_is_kept(self):
        """os.system() ignores the interrupt, as in a terminal, until its program ends; other calls' programs go on."""
        with Server() as server:
            self.assert_ok(server.python("import os, subprocess; other = subprocess.Popen(['sleep', '600'])"))
            result = server.python("before = 2; os.system('sleep 600')", timeout_s=0.5)
            self.assertIn("the processes that the code waited for were ended", result.status.line)
            self.assert_prints(server.python("print(before, other.poll())"), "2 None")

    def test_cancelled_by_the_client(self):
        """The same for a cancelled call: no response, and the next result reports it."""
        with Server() as server:
            for name in CANCELLED:
                code, _, state = BUSY[name]
                with self.subTest(name):
                    self.assert_ok(server.python(PREPARE, reset=True))
                    call = server.start_call("run_python", code="done.append('begun')\nopen('begun', 'w')\n" + code)
                    while "begun" not in server.read(".").text:
                        pass
                    time.sleep(0.1 * SLOW)  # for the call after it
                    server.cancel(call)
                    result = server.python("print(done[:1]); import os; os.unlink('begun')")
                    self.assert_prints(result, "[]" if state == RESTORED else "['begun']")
                    self.assertEqual(result.status.field("since the last result"),
                                     f"a call was cancelled, state {state or 'kept'}", result.text)
                    self.assertNotIn(call, server.stash)

    def test_a_shielded_task_continues_with_the_next_await(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            self.assert_kind(server.python(BUSY["a shielded task"][0], timeout_s=0.4), "timeout")
            self.assert_prints(server.python("n = len(ticks)\nwhile len(ticks) < n + 3: await asyncio.sleep(0.01)\n"
                                             "print(task.done())"), "False")

    def test_a_task_that_the_interrupt_hits_continues(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            self.assert_ok(server.python("import asyncio, time"))  # which takes longer than the limit on a busy machine
            result = server.python("async def work():\n"
                                   "    while True: ticks.append(1); time.sleep(0.02); await asyncio.sleep(0)\n"
                                   "task = asyncio.ensure_future(work())\nawait asyncio.sleep(60)", timeout_s=0.4)
            self.assert_kind(result, "timeout")
            self.assertIn("await asyncio.sleep(60)", result.status.line)
            self.assert_prints(server.python("n = len(ticks)\nwhile len(ticks) < n + 3: await asyncio.sleep(0.01)\n"
                                             "print(task.done())"), "False")

    def test_a_task_that_never_yields_is_interrupted(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            result = server.python("import asyncio\nasync def work():\n    while True: pass\n"
                                   "task = asyncio.ensure_future(work())\nawait asyncio.sleep(60)", timeout_s=0.4)
            self.assert_kind(result, "timeout")
            self.assertEqual(result.status.state, KEPT, result.text)
            self.assert_prints(server.python("print(task.done())"), "True")

    def test_in_numpy(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode:
            self.skipTest("numpy: /usr/bin/python3 has none")
        with Server("--python", "/usr/bin/python3") as server:
            self.assert_ok(server.python("import numpy as np; a = np.ones(10**6); done = 0"))
            result = server.python("done = 1; np.convolve(a, a)", timeout_s=0.4)
            self.assert_kind(result, "timeout")
            self.assertEqual(result.status.state, RESTORED)
            self.assert_prints(server.python("print(done, a.sum())"), "0 1000000.0")


# Creates a file in the workspace when the state has been forked.
COPIED = "os.register_at_fork(after_in_parent=lambda: open('copied', 'w').close())"


class Printing(Case):
    def test_no_line_is_doubled(self):
        with Server() as server:
            for _ in range(20):
                result = server.python("i = 0\nwhile True: print('line', i); i += 1", timeout_s=0.1)
                lines = [line for line in result.lines if line.startswith("line ")]
                self.assertEqual(len(lines), len(set(lines)), lines[-3:])


class Moments(Case):
    @staticmethod
    @contextlib.contextmanager
    def held(server):
        init = init_of(server.pid)
        os.kill(init, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(init, signal.SIGCONT)

    @staticmethod
    def taken(server):
        """Waits until the server has read all requests, which it reads in order."""
        server.request("ping")

    def wait_for_copy(self, server):
        """Waits for a fork of the state; a supervisor checks forks, so none happens while it is stopped."""
        until = time.monotonic() + 20 * SLOW
        while "copied" not in server.read(".").text:
            self.assertLess(time.monotonic(), until)

    @staticmethod
    def wait_for_death(server):
        """Waits until an interpreter has died; init, which is stopped, does not reap it."""
        init, until = init_of(server.pid), time.monotonic() + 20 * SLOW
        while time.monotonic() < until:
            if any((parent, state) == (init, "Z") for parent, _, state in processes().values()):
                return
            time.sleep(0.01)
        raise AssertionError("no interpreter died")

    def cancelled_while_held(self, server, dies=False, **arguments):
        with self.held(server):
            call = server.start_call("run_python", **arguments)
            self.taken(server)
            if dies:
                self.wait_for_death(server)
            server.cancel(call)
            self.taken(server)
        return call

    def test_a_queued_call_leaves_no_trace(self):
        with Server() as server:
            self.assert_ok(server.python("x = 0"))
            first = server.start_call("run_python", code="import time; time.sleep(0.3 + 0 * x)")
            second = server.start_call("run_python", code="x = 1", undo=True)
            third = server.start_call("run_python", code="print(x)")
            server.cancel(second)
            self.assert_ok(server.finish_call(first))
            result = server.finish_call(third)
            self.assert_prints(result, "0")
            self.assertIsNone(result.status.field("since the last result"))
            self.assertNotIn(second, server.stash)

    def test_a_late_interrupt_spares_the_next_call(self):
        """The first call ends by itself while its interrupt still waits for init."""
        with Server() as server:
            self.assert_ok(server.python("import os, time; x = 0"))
            with self.held(server):
                ends = server.start_call("run_python", code="x += 1; time.sleep(1)", timeout_s=0.3)
                following = server.start_call("run_python", code="time.sleep(0.5); x += 1; print(x)")
                server.finish_call(ends)
                time.sleep(0.2)  # in which the second call could begin
            self.assert_prints(server.finish_call(following), "2")

    def test_cancelled_during_restore(self):
        """The restore completes; the code does not run, and queued calls are not affected."""
        for arguments, outcome in (({"undo": True}, "undid <cell 2>: back to the state after <cell 1>"),
                                ({"restore": "one"}, 'restored "one": back to the state after <cell 1>')):
            with self.subTest(arguments), Server() as server:
                self.assert_ok(server.python("x = 1", checkpoint="one"))
                self.assert_ok(server.python("x = 2", checkpoint="two"))  # does not wait for its checkpoint
                call = self.cancelled_while_held(server, code="x = 'run'", **arguments)
                result = server.python("print(x)")
                self.assert_prints(result, "1")
                self.assertEqual(result.status.field("since the last result"), f"a call was cancelled, state {outcome}, variables back: x")
                self.assertNotIn(call, server.stash)

    def test_cancelled_during_restore_with_a_queued_call(self):
        with Server() as server:
            for number in (1, 2, 3):
                self.assert_ok(server.python(f"x = {number}", checkpoint=f"n{number}"))
            with self.held(server):
                first = server.start_call("run_python", code="x = 'run'", undo=True)
                second = server.start_call("run_python", code="print(x)", undo=True)
                self.taken(server)
                server.cancel(first)
                self.taken(server)
            result = server.finish_call(second)
            self.assert_prints(result, "1")
            self.assertIn("undid <cell 2>: back to the state after <cell 1>", result.status.line)

    def test_cancelled_while_a_new_interpreter_starts(self):
        for arguments in ({"reset": True}, {"undo": True}):
            with self.subTest(arguments), Server() as server:
                self.assert_ok(server.python("x = 1"))
                call = self.cancelled_while_held(server, code="y = 'run'; import time; time.sleep(60)", **arguments)
                result = server.python("print('x' in globals(), 'y' in globals())")
                # The undo has not begun if it still waited for the checkpoint of the preceding call.
                begun = "a call was cancelled, state " in (result.status.field("since the last result") or "")
                self.assertTrue(begun or "undo" in arguments, result.text)
                self.assert_prints(result, f"{not begun} False")
                self.assertNotIn(call, server.stash)

    def test_cancelled_before_the_interpreters_death_is_known(self):
        with Server() as server:
            self.assert_ok(server.python("import os; x = 1\n" + COPIED))
            self.wait_for_copy(server)
            call = self.cancelled_while_held(server, dies=True, code="x = 2; os._exit(3)")
            result = server.python("print(x)")
            self.assert_prints(result, "1")
            self.assertEqual(result.status.field("since the last result"), f"a call was cancelled, state {RESTORED}")
            self.assertNotIn(call, server.stash)

    def test_the_time_limit_passes_over_a_dead_interpreter(self):
        with Server() as server:
            self.assert_ok(server.python("import os; x = 1\n" + COPIED))
            self.wait_for_copy(server)
            with self.held(server):
                call = server.start_call("run_python", code="x = 2; os._exit(3)", timeout_s=2)
                self.wait_for_death(server)
                self.assertTrue(server.silent(2.2))
            result = server.finish_call(call)
            self.assertEqual(result.status.state, RESTORED, result.text)
            self.assert_prints(server.python("print(x)"), "1")

    def test_a_call_for_an_interpreter_that_has_just_died(self):
        """The call had not begun when it was cancelled, and the interpreter that takes over does not begin it."""
        with Server() as server:
            self.assert_ok(server.python("import os, threading; x = 1"))
            with self.held(server):
                self.assert_ok(server.finish_call(server.start_call(
                    "run_python", code="threading.Timer(0.05, os._exit, (3,)).start()")))
                self.wait_for_death(server)
                call = server.start_call("run_python", code="x = 2; import time; time.sleep(60)")
                self.taken(server)
                server.cancel(call)
                self.taken(server)
            self.assert_prints(server.python("print(x)"), "1")
            self.assertNotIn(call, server.stash)

    def test_cancelled_while_a_large_state_is_copied(self):
        with Server() as server:
            self.assert_ok(server.python("x = 0"))
            for number in range(4):
                self.assert_ok(server.finish_call(server.start_call(
                    "run_python", code=f"big = [bytes(50) for _ in range(300_000)]; x = {number}")))
                call = server.start_call("run_python", code="x = 'run'; import time; time.sleep(60)")
                server.cancel(call)
                self.assertIn(server.python("print(x)").output, (str(number), "run"))
                self.assertNotIn(call, server.stash)

    def test_cancelled_while_a_state_is_named(self):
        """Whenever the cancellation arrives, a name that exists is that of the state after the code."""
        with Server() as server:
            self.assert_ok(server.python("import time; big = [bytes(50) for _ in range(300_000)]; x = 0"))
            for number, delay_s in enumerate((0, 0.001, 0.003, 0.01, 0.03, 0.1)):
                name = f"n{number}"
                call = server.start_call("run_python", code=f"x = {name!r}", checkpoint=name)
                time.sleep(delay_s)
                server.cancel(call)
                self.assertFalse(server.python("x").is_error)
                server.stash.pop(call, None)  # the result may precede the cancellation
                result = server.python("print(x)", restore=name)
                if result.is_error:
                    self.assertIn("no state is named", result.text)
                else:
                    self.assert_prints(result, name)


if __name__ == "__main__":
    unittest.main()
