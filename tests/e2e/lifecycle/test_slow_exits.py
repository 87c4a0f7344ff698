"""No constant of time decides over state: what is killed may end slowly, and init may have no processor.

A process that the test traces is a zombie which init cannot reap until the test has, ptrace(2): to the server it
is one that the kernel takes its time to end, for as long as the test wants.
"""
import ctypes
import os
import pathlib
import re
import signal
import sys
import threading
import time
import unittest

from client import SLOW, Case, Server, need_userns
from isolation import CONTAINER
from traces import descendants, init_of

PTRACE_CONT, PTRACE_SEIZE, WALL = 7, 0x4206, 0x40000000
NOT_YET = "not yet restored (its processes are killed and have not ended yet)"
IGNORING = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
LIBC = ctypes.CDLL(None, use_errno=True)


def outer(server, inner):
    """The number that the host gives to a process of the sandbox."""
    for pid in [] if CONTAINER else descendants(server.pid):
        if re.search(rf"NSpid:.*\t{inner}\n", pathlib.Path(f"/proc/{pid}/status").read_text()):
            return pid
    return inner


class Held(threading.Thread):
    """A process of the sandbox that does not go away, however it ends. Who traces must be the one that waits."""

    def __init__(self, server, inner):
        super().__init__(daemon=True)
        self.pid, self.error = outer(server, inner), 0
        self.ready, self.release = threading.Event(), threading.Event()
        self.start()
        self.ready.wait()
        if self.error:
            raise unittest.SkipTest("ptrace: " + os.strerror(self.error))

    def run(self):
        if LIBC.ptrace(PTRACE_SEIZE, self.pid, None, None) != 0:
            self.error = ctypes.get_errno()
        self.ready.set()
        while not self.error:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT | WALL)
            ended = found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
            if ended and not self.release.is_set() or found is None:
                time.sleep(0.01)
                continue
            _, status = os.waitpid(self.pid, WALL)
            if ended:
                return
            # A traced process stops at each signal, which is to take its effect.
            LIBC.ptrace(PTRACE_CONT, self.pid, None, os.WSTOPSIG(status) if status >> 16 == 0 else 0)

    def let_go(self):
        self.release.set()
        self.join(60 * SLOW)


class SlowEnds(Case):
    def setUp(self):
        need_userns()
        self.server = Server("--timeout", "30")
        self.addCleanup(self.server.__exit__, None, None, None)
        self.assert_ok(self.server.python("kept = 'kept'", session="other"))
        result = self.server.python("state = 'there'; import os, time; print(os.getpid())")
        self.inner = int(result.output.split()[-1])

    def assert_the_other_lives(self):
        self.assert_prints(self.server.python("print(kept)", session="other"), "kept")

    def test_an_interpreter_that_is_killed_and_does_not_go(self):
        held = Held(self.server, self.inner)
        result = self.server.python("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nstate = 'changed'\n"
                                    "while True: time.sleep(1)", timeout_s=1)
        self.assert_kind(result, "timeout")
        self.assertEqual(result.status.state, NOT_YET, result.text)
        self.assert_the_other_lives()
        result = self.server.python("state = 'never'")
        self.assertTrue(result.is_error)
        self.assertIn("The code has not begun", result.text)
        self.assert_the_other_lives()
        waiting = self.server.start_call("run_python", code="print(state)")
        held.let_go()
        result = self.server.finish_call(waiting)
        if "not begun" in result.text:  # a busy machine
            result = self.server.python("print(state)")
        self.assert_prints(result, "there")
        self.assertIn("state restored to after <cell 1>", result.text)
        self.assert_the_other_lives()

    def test_an_interpreter_that_ends_by_itself_and_does_not_go(self):
        held = Held(self.server, self.inner)
        result = self.server.python("state = 'changed'; os._exit(3)")
        self.assertEqual(result.status.state, NOT_YET, result.text)
        self.assert_the_other_lives()
        held.let_go()
        self.assert_prints(self.server.python("print(state)"), "there")

    def test_what_the_interpreter_started_does_not_go(self):
        result = self.server.python("child = os.fork()\nif child == 0: time.sleep(600)\nprint(child)")
        child = int(result.output.split()[-1])
        held = Held(self.server, child)
        result = self.server.python("state = 'changed'; os._exit(3)")
        self.assertIn(result.status.state, (NOT_YET, "restored to before this call"), result.text)
        self.assert_the_other_lives()
        held.let_go()
        self.assert_prints(self.server.python("print(state)"), "there")
        self.assert_the_other_lives()

    def test_a_reset_of_a_session_that_does_not_go(self):
        held = Held(self.server, self.inner)
        self.assertEqual(self.server.python("os._exit(3)").status.state, NOT_YET)
        result = self.server.python("print('state' in globals())", reset=True)
        self.assertIn("The code has not begun", result.text)
        held.let_go()
        self.assert_prints(self.server.python("print('state' in globals())"), "False")
        self.assert_the_other_lives()

    def test_init_without_a_processor(self):
        init = init_of(self.server.pid)
        call = self.server.start_call("run_python", code="print('begun', flush=True)\nwhile True:\n"
                                      "    try: time.sleep(600)\n    except KeyboardInterrupt: pass", timeout_s=1)
        os.kill(init, signal.SIGSTOP)
        try:
            result = self.server.finish_call(call, timeout=120 * SLOW)
        finally:
            os.kill(init, signal.SIGCONT)
        self.assertEqual(result.status.state, NOT_YET, result.text)
        self.assert_the_other_lives()
        result = self.server.python("print(state)")
        if "not begun" in result.text:
            result = self.server.python("print(state)")
        self.assert_prints(result, "there")

    def test_init_with_more_requests_than_its_queue_takes(self):
        init = init_of(self.server.pid)
        self.assertFalse(self.server.write("a.txt", "content").is_error)
        os.kill(init, signal.SIGSTOP)
        try:
            calls = [self.server.start_call("read_file", path="a.txt") for _ in range(240)]
            time.sleep(0.5)
        finally:
            os.kill(init, signal.SIGCONT)
        for call in calls:
            self.assertIn("content", self.server.finish_call(call).text)

    def test_many_stopped_processes_with_memory(self):
        result = self.server.python("import signal\nchildren = []\nfor _ in range(24):\n    pid = os.fork()\n    if pid == 0:\n"
                                    "        filler = bytearray(b'x' * (8 << 20)); os.kill(os.getpid(), signal.SIGSTOP)\n"
                                    "        os._exit(0)\n    children.append(pid)\n"
                                    "for pid in children: os.waitpid(pid, os.WUNTRACED)\nos._exit(3)", timeout_s=60)
        self.assertEqual(result.status.state, "restored to before this call", result.text)
        self.assert_prints(self.server.python("print(state)"), "there")
        self.assert_the_other_lives()


class Ignored(Case):
    def test_whoever_starts_the_server_may_ignore_the_ends_of_children(self):
        need_userns()
        with Server(wrap=(sys.executable, "-c", IGNORING)) as server:
            self.assert_ok(server.python("state = 'there'"))
            result = server.python("import os; os._exit(3)")
            self.assertEqual(result.status.state, "restored to before this call", result.text)
            self.assert_prints(server.python("print(state)"), "there")


if __name__ == "__main__":
    unittest.main()
