"""No fixed time decides the fate of state: a killed process may exit slowly, and init may not be scheduled.

When a process that the test traces dies, init cannot reap it until the test has, ptrace(2): to the server it is a
process that takes as long to exit as the test wants.
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
from container_level import CONTAINER
from traces import descendants, init_of

PTRACE_CONT, PTRACE_SEIZE, WALL = 7, 0x4206, 0x40000000
NOT_YET = "not yet restored (waiting for killed processes to exit or for the state to resume)"
IGNORING = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
AWAITED_S = 3  # a call's time limit also bounds the wait for killed processes
LIBC = ctypes.CDLL(None, use_errno=True)


def outer(server, inner):
    """The host's pid of a process of the sandbox."""
    for pid in [] if CONTAINER else descendants(server.pid):
        if re.search(rf"NSpid:.*\t{inner}\n", pathlib.Path(f"/proc/{pid}/status").read_text()):
            return pid
    return inner


class Held(threading.Thread):
    """Keeps a process of the sandbox unreaped after its death. The thread that traces it must also wait for it."""

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
            # A traced process stops at each signal; this delivers the signal.
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

    def test_a_killed_interpreter_exits_slowly(self):
        held = Held(self.server, self.inner)
        result = self.server.python("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nstate = 'changed'\n"
                                    "while True: time.sleep(1)", timeout_s=1)
        self.assert_kind(result, "timeout")
        self.assertEqual(result.status.state, NOT_YET, result.text)
        self.assert_the_other_lives()
        result = self.server.python("state = 'never'")
        self.assertTrue(result.is_error)
        self.assertIn("The code has not started", result.text)
        self.assert_the_other_lives()
        waiting = self.server.start_call("run_python", code="print(state)")
        held.let_go()
        result = self.server.finish_call(waiting)
        if "not started" in result.text:  # a busy machine
            result = self.server.python("print(state)")
        self.assert_prints(result, "there")
        self.assertIn("restored to the state after <cell 1>", result.text)
        self.assert_the_other_lives()

    def test_an_interpreter_that_exits_is_reaped_late(self):
        held = Held(self.server, self.inner)
        result = self.server.python("state = 'changed'; os._exit(3)", timeout_s=AWAITED_S)
        self.assertEqual(result.status.state, NOT_YET, result.text)
        self.assert_the_other_lives()
        held.let_go()
        self.assert_prints(self.server.python("print(state)"), "there")

    def test_child_processes_exit_slowly(self):
        result = self.server.python("child = os.fork()\nif child == 0: time.sleep(600)\nprint(child)")
        child = int(result.output.split()[-1])
        held = Held(self.server, child)
        result = self.server.python("state = 'changed'; os._exit(3)", timeout_s=AWAITED_S)
        self.assertIn(result.status.state, (NOT_YET, "restored to the state before this call"), result.text)
        self.assert_the_other_lives()
        held.let_go()
        self.assert_prints(self.server.python("print(state)"), "there")
        self.assert_the_other_lives()

    def test_a_session_exits_slowly_on_reset(self):
        held = Held(self.server, self.inner)
        self.assertEqual(self.server.python("os._exit(3)", timeout_s=AWAITED_S).status.state, NOT_YET)
        result = self.server.python("print('state' in globals())", reset=True, timeout_s=AWAITED_S)
        self.assertIn("The code has not started", result.text)
        held.let_go()
        self.assert_prints(self.server.python("print('state' in globals())"), "False")
        self.assert_the_other_lives()

    def test_init_is_not_scheduled(self):
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
        if "not started" in result.text:
            result = self.server.python("print(state)")
        self.assert_prints(result, "there")

    def test_init_gets_more_requests_than_its_queue_holds(self):
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
        self.assertEqual(result.status.state, "restored to the state before this call", result.text)
        self.assert_prints(self.server.python("print(state)"), "there")
        self.assert_the_other_lives()


class Ignored(Case):
    def test_the_parent_ignores_sigchld(self):
        need_userns()
        with Server(wrap=(sys.executable, "-c", IGNORING)) as server:
            self.assert_ok(server.python("state = 'there'"))
            result = server.python("import os; os._exit(3)")
            self.assertEqual(result.status.state, "restored to the state before this call", result.text)
            self.assert_prints(server.python("print(state)"), "there")


if __name__ == "__main__":
    unittest.main()
