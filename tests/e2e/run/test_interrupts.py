"""A call that is cancelled or runs out of time, in whatever it is busy with: one answer or none, and the
state that was promised. Where the moment counts, pid 1 of the box is held with SIGSTOP: what the server has
asked of it then stays undone until the test has said all that it wants to say meanwhile.
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
RESTORED = "restored to before this call"
LOOP = "while True: pass"

# name: (code, beginning of the status line, state)
BUSY = {
    "an endless loop": (LOOP, "timeout", KEPT),
    "a sleep": ("import time; time.sleep(60)", "timeout", KEPT),
    "a sleep in C": ("import ctypes; ctypes.CDLL(None).sleep(60)", "timeout", KEPT),
    "a sleep in C with the interpreter's lock": (
        "import ctypes, time\nuntil = time.monotonic() + 60\n"
        "while time.monotonic() < until: ctypes.PyDLL(None).usleep(100000)", "timeout", KEPT),
    "a regular expression without end": ("import re; re.match('(a+)+$', 'a' * 40 + 'b')", "timeout", KEPT),
    "C that looks at no signal": ("import itertools; sum(itertools.repeat(0))",
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
CANCELLED = ("an endless loop", "C that looks at no signal", "an interrupt that is swallowed once",
             "an interrupt that is swallowed always", "an interrupt that becomes another exception",
             "all signals blocked", "a stop of its own")


# Not in the call: an import that is interrupted leaves half a module.
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

    def test_by_the_host(self):
        """The same where the call is cancelled: no answer, and the next one tells."""
        with Server() as server:
            for name in CANCELLED:
                code, _, state = BUSY[name]
                with self.subTest(name):
                    self.assert_ok(server.python(PREPARE, reset=True))
                    call = server.start_call("run_python", code="done.append('begun')\nopen('begun', 'w')\n" + code)
                    while "begun" not in server.read(".").text:
                        pass
                    time.sleep(0.1 * SLOW)  # for what comes behind it
                    server.cancel(call)
                    result = server.python("print(done[:1]); import os; os.unlink('begun')")
                    self.assert_prints(result, "[]" if state == RESTORED else "['begun']")
                    self.assertEqual(result.status.field("before"),
                                     f"a call was cancelled, state {state or 'kept'}", result.text)
                    self.assertNotIn(call, server.stash)

    def test_a_shielded_task_goes_on_with_the_next_await(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            self.assert_kind(server.python(BUSY["a shielded task"][0], timeout_s=0.4), "timeout")
            self.assert_prints(server.python("n = len(ticks)\nwhile len(ticks) < n + 3: await asyncio.sleep(0.01)\n"
                                             "print(task.done())"), "False")

    def test_a_task_that_the_interrupt_meets_goes_on(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            result = server.python("import asyncio, time\nasync def work():\n"
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


# Says in the workspace that the state has been copied.
COPIED = "os.register_at_fork(after_in_parent=lambda: open('copied', 'w').close())"


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
        """All that was sent has been read: requests are read in their order."""
        server.request("ping")

    def wait_for_copy(self, server):
        """A guardian judges births, so that there are none while it is held."""
        until = time.monotonic() + 20 * SLOW
        while "copied" not in server.read(".").text:
            self.assertLess(time.monotonic(), until)

    @staticmethod
    def wait_for_death(server):
        """Until an interpreter has died; pid 1, which is held, leaves it lying."""
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
            self.assertIsNone(result.status.field("before"))
            self.assertNotIn(second, server.stash)

    def test_on_the_way_back(self):
        """The way back is gone to its end; the code is not run, and what waits behind is not touched."""
        for arguments, told in (({"undo": True}, "back to after <cell 1> (undo)"),
                                ({"restore": "one"}, 'back to after <cell 1> (restored "one")')):
            with self.subTest(arguments), Server() as server:
                self.assert_ok(server.python("x = 1", checkpoint="one"))
                self.assert_ok(server.python("x = 2", checkpoint="two"))  # its copy is not waited for
                call = self.cancelled_while_held(server, code="x = 'run'", **arguments)
                result = server.python("print(x)")
                self.assert_prints(result, "1")
                self.assertEqual(result.status.field("before"), f"a call was cancelled, state {told}")
                self.assertNotIn(call, server.stash)

    def test_on_the_way_back_with_another_behind(self):
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
            self.assertIn("back to after <cell 1> (undo)", result.status.line)

    def test_while_the_interpreter_is_made_anew(self):
        for arguments in ({"reset": True}, {"undo": True}):
            with self.subTest(arguments), Server() as server:
                self.assert_ok(server.python("x = 1"))
                call = self.cancelled_while_held(server, code="y = 'run'; import time; time.sleep(60)", **arguments)
                result = server.python("print('x' in globals(), 'y' in globals())")
                # Where the undo still waited for the copy of the call before it, it is not begun.
                begun = "a call was cancelled, state " in (result.status.field("before") or "")
                self.assertTrue(begun or "undo" in arguments, result.text)
                self.assert_prints(result, f"{not begun} False")
                self.assertNotIn(call, server.stash)

    def test_when_the_interpreter_is_dead_and_nobody_knows_yet(self):
        with Server() as server:
            self.assert_ok(server.python("import os; x = 1\n" + COPIED))
            self.wait_for_copy(server)
            call = self.cancelled_while_held(server, dies=True, code="x = 2; os._exit(3)")
            result = server.python("print(x)")
            self.assert_prints(result, "1")
            self.assertEqual(result.status.field("before"), f"a call was cancelled, state {RESTORED}")
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
        """It was not begun when it was cancelled, and the one that takes over does not begin it."""
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

    def test_while_a_large_state_is_copied(self):
        with Server() as server:
            self.assert_ok(server.python("x = 0"))
            for number in range(4):
                self.assert_ok(server.finish_call(server.start_call(
                    "run_python", code=f"big = [bytes(50) for _ in range(300_000)]; x = {number}")))
                call = server.start_call("run_python", code="x = 'run'; import time; time.sleep(60)")
                server.cancel(call)
                self.assertIn(server.python("print(x)").output, (str(number), "run"))
                self.assertNotIn(call, server.stash)

    def test_while_a_name_is_given(self):
        """Wherever the cancel falls: a name that is there is that of the state after the code."""
        with Server() as server:
            self.assert_ok(server.python("import time; big = [bytes(50) for _ in range(300_000)]; x = 0"))
            for number, delay_s in enumerate((0, 0.001, 0.003, 0.01, 0.03, 0.1)):
                name = f"n{number}"
                call = server.start_call("run_python", code=f"x = {name!r}", checkpoint=name)
                time.sleep(delay_s)
                server.cancel(call)
                self.assertFalse(server.python("x").is_error)
                server.stash.pop(call, None)  # it came before the cancel did
                result = server.python("print(x)", restore=name)
                if result.is_error:
                    self.assertIn("no state is named", result.text)
                else:
                    self.assert_prints(result, name)


if __name__ == "__main__":
    unittest.main()
