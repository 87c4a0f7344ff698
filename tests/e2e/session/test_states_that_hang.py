"""States that do not resume, because their code hangs: an older one replaces them, then a new interpreter, and no call waits for ever."""
import unittest

from client import Case, Server

# In a process that is not the one that has set it, spin uses the processor for ever, and nap sleeps.
IN_COPY = """\
import gc, os, random, signal, sys, time
me = os.getpid()
def spin(*_, **__):
    while os.getpid() != me: pass
def nap(*_):
    while os.getpid() != me: time.sleep(0.05)
"""
HANGING = {
    "handler": "os.register_at_fork(after_in_child=spin)",
    "sleeping": "os.register_at_fork(after_in_child=nap)",
    "before": "os.register_at_fork(before=spin)",
    "parent": "os.register_at_fork(after_in_parent=spin)",
    "random": "random.setstate = spin",
    "audit": "sys.addaudithook(spin)",
    "collector": "gc.callbacks.append(spin); gc.set_threshold(1)",
}
RESUMING = {
    "profile": "sys.setprofile(spin)",
    "trace": "sys.settrace(spin)",
    "signals": "[signal.signal(n, spin) for n in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD, signal.SIGALRM)]",
}
DIE = "os.kill(os.getpid(), 9)"
NOT_YET = "not yet restored"


class Hangs(Case):
    def setUp(self):
        self.server = Server("--pids", "400").__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)

    def until_it_runs(self, code, session):
        """The first result of a call that ran: refused ones say how to go on."""
        while True:
            result = self.server.python(code, session=session)
            if result.text.rstrip().endswith("]"):
                return result
            self.assertIn("the state before it has not resumed", result.text)
            self.assertIn("`reset`", result.text)

    def test_an_older_state_replaces_it(self):
        calls = {}
        for name, hook in HANGING.items():
            self.assert_ok(self.server.python("a = 1", session=name))
            self.assert_ok(self.server.python(IN_COPY + hook, session=name))
        for name in HANGING:
            calls[name] = self.server.start_call("run_python", code=DIE, session=name)
        for name, call in calls.items():
            with self.subTest(name):
                crashed = self.server.finish_call(call)
                self.assertEqual(crashed.status.kind, "crashed", crashed.text)
                result = self.until_it_runs("print('a' in globals(), 'me' in globals())", name)
                self.assert_prints(result, "True False")
                self.assertIn("the state after <cell 2> did not resume and is lost: code of it hangs",
                              crashed.status.line + result.status.line)
                self.assertIn("restored to the state after <cell 1>", crashed.status.line + result.status.line)
                self.assert_prints(self.server.python("print(a)", session=name, undo=True), "1")

    def test_without_an_older_one_a_new_interpreter_starts(self):
        self.assert_ok(self.server.python(IN_COPY + "os.register_at_fork(after_in_child=spin)", session="all"))
        self.assert_ok(self.server.python("b = 1", session="all"))
        crashed = self.server.python(DIE, session="all")
        self.assertEqual(crashed.status.kind, "crashed", crashed.text)
        result = self.until_it_runs("print('b' in globals(), 'me' in globals())", "all")
        self.assert_prints(result, "False False")
        self.assertIn("2 states, first the one after <cell 2>, did not resume", crashed.status.line + result.status.line)

    def test_reset_waits_for_none(self):
        self.assert_ok(self.server.python(IN_COPY + "os.register_at_fork(after_in_child=nap)"))
        result = self.server.python(DIE)
        self.assertIn(NOT_YET, result.status.line)
        self.assert_ok(self.server.python("1", reset=True))

    def test_undo_and_restore_to_a_state_that_hangs(self):
        self.assert_ok(self.server.python("a = 1"))
        self.assert_ok(self.server.python(IN_COPY + "os.register_at_fork(after_in_child=spin)", checkpoint="it"))
        self.server.python("1", restore="it")
        self.assert_prints(self.until_it_runs("print('me' in globals())", "default"), "False")

    def test_what_keeps_no_state_from_resuming(self):
        for name, hook in RESUMING.items():
            with self.subTest(name):
                self.assert_ok(self.server.python("a = 1", session=name))
                self.assert_ok(self.server.python(IN_COPY + hook, session=name))
                crashed = self.server.python("sys.settrace(None); sys.setprofile(None); " + DIE, session=name)
                self.assertEqual(crashed.status.state, "restored to the state before this call", crashed.text)
                self.server.python("sys.setprofile(None); sys.settrace(None)", session=name, timeout_s=1)
                self.assert_prints(self.server.python("print(a)", session=name, timeout_s=5), "1")

    def test_a_branch_that_hangs_is_given_up(self):
        self.assert_ok(self.server.python(IN_COPY + "os.register_at_fork(after_in_child=nap)"))
        result = self.server.python("1", 150, branch=True)
        self.assertTrue(result.is_error)
        self.assertIn("Nothing was run: the branch's copy of the session did not start", result.text)
        self.assert_prints(self.server.python("print(me == os.getpid())"), "True")


if __name__ == "__main__":
    unittest.main()
