"""What becomes of the processes that a cell starts, and what the results say of them.

Each process holds a lock on a file, which the kernel releases with its last process: so a cell sees, at every isolation
level, whether it is gone.
"""
import re
import unittest

from client import SLOW, Case, Server, once
from container_level import CONTAINER

PREPARE = """
import fcntl, os, signal, subprocess, sys, threading, time
def hold(name):
    file = open(name, 'w')
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
def runs(name):
    with open(name, 'w') as file:
        try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: return True
    return False
def start(name, *command, **options):
    with hold(name) as file:
        return subprocess.Popen(command or ['sleep', '1000'], pass_fds=[file.fileno()], **options)
def daemon(name):
    with hold(name):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pause()
            os._exit(0)
        os.wait()
"""
# How a cell starts the process "it", and how many processes that makes.
STARTS = {
    "a child": ("start('it')", 1),
    "a process session of its own": ("start('it', start_new_session=True)", 1),
    "a double fork": ("daemon('it')", 1),
    "a shell in the background": ("start('it', 'sh', '-c', 'sleep 1000 & sleep 1000 & wait')", 3),
    "a thread's child": ("t = threading.Thread(target=start, args=('it',)); t.start(); t.join()", 1),
    "a fork of the interpreter": ("with hold('it'):\n    if os.fork() == 0: signal.pause()", 1),
    "a child that is stopped": ("p = start('it'); p.send_signal(signal.SIGSTOP)", 1),
    "a child that ignores signals": (
        "start('it', preexec_fn=lambda: [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)])", 1),
    "children of which one has exited": ("start('it'); subprocess.Popen(['true']); time.sleep(0.2)", 1),
}
NATIVE = "import itertools; sum(itertools.repeat(0))"
RESTORED = "restored to the state before this call"
# A function that draws its own conclusions keeps the interrupt from ending the cell.
CAUGHT = "try: time.sleep(60)\nexcept KeyboardInterrupt: late = True"


def killed(count):
    return f"{count} killed"


class Interrupted(Case):
    def test_what_the_cell_started_ends_with_it(self):
        with Server() as server:
            for name, (code, count) in STARTS.items():
                with self.subTest(name):
                    self.assert_ok(server.python(PREPARE, reset=True))
                    result = server.python(code + "\nprint(runs('it'))\ntime.sleep(60)", timeout_s=1)
                    self.assert_kind(result, "timeout")
                    self.assertIn("True\n", result.text)
                    self.assertEqual(result.status.field("processes"), killed(count), result.text)
                    self.assertEqual(result.status.state, "kept (interrupted)")
                    self.assert_prints(server.python("print(runs('it'))"), "False")

    def test_what_earlier_cells_started_goes_on(self):
        beat = "while :; do sleep 0.05; echo >> beat; done"
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            self.assert_ok(server.python("old = start('old'); daemon('far')"))
            self.assert_ok(server.python(f"start('beat.lock', 'sh', '-c', {beat!r})"))
            result = server.python("new = start('new'); time.sleep(60)", timeout_s=1)
            self.assertEqual(result.status.field("processes"), killed(1), result.text)
            self.assert_prints(server.python(
                "size = os.stat('beat').st_size\nwhile os.stat('beat').st_size < size + 3: time.sleep(0.01)\n"
                "print(runs('old'), runs('far'), runs('new'), old.poll(), new.poll())"), "True True False None -9")

    def test_processes_of_other_sessions_go_on(self):
        with Server() as server:
            for session in ("one", "two"):
                self.assert_ok(server.python(PREPARE, session=session))
            # The cells of both sessions have the same number.
            other = server.start_call("run_python", session="two", timeout_s=120, code=(
                "start('two')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint(runs('two'))"))
            result = server.python("start('one'); time.sleep(60)", session="one", timeout_s=1)
            self.assertEqual(result.status.field("processes"), killed(1), result.text)
            self.assert_prints(server.python("print(runs('one'), runs('two')); open('go', 'w').close()", session="one"),
                               "False True")
            self.assert_prints(server.finish_call(other), "True")

    def test_another_session_cannot_forge_its_processes(self):
        """Code may lower the limits by which init knows a session's processes to those of the next session."""
        with Server() as server:
            tag = server.python("import resource; print(resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1])", session="first")
            server.python("import resource, subprocess\ndef forge(tag=%d):\n"
                          "    resource.setrlimit(resource.RLIMIT_MSGQUEUE, (tag, tag))\n"
                          "    resource.setrlimit(10, (2, resource.getrlimit(10)[1]))  # RLIMIT_LOCKS: the cell\n"
                          "started = subprocess.Popen(['sleep', '1000'], preexec_fn=forge)" % (int(tag.output) - 1), session="first")
            own = server.python("import resource; print(resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1])", session="second")
            self.assertEqual(int(own.output), int(tag.output) - 1)
            result = server.python("import time; time.sleep(1000)", session="second", timeout_s=1)
            self.assertTrue(result.is_error)
            self.assertIsNone(result.status.field("processes"), result.text)
            self.assertEqual(server.python("print(started.poll())", session="first").output.strip(), "None")

    def test_a_cell_that_ends_by_itself_leaves_them(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            for number, end in enumerate(("", "1 / 0", "sys.exit(3)")):
                result = server.python(f"start('{number}')\n{end}")
                self.assertIsNone(result.status.field("processes"), result.text)
                self.assert_prints(server.python(f"print(runs('{number}'))"), "True")

    def test_cancelled(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            call = server.start_call("run_python", code="daemon('it'); start('it2'); open('go', 'w'); time.sleep(60)")
            while "go" not in server.read(".").text:
                pass
            server.cancel(call)
            result = server.python("print(runs('it'), runs('it2'))")
            self.assert_prints(result, "False False")
            self.assertEqual(result.status.field("processes"), killed(2), result.text)
            self.assertIsNone(server.python("1").status.field("processes"))

    def test_a_timeout_that_the_code_caught(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            result = server.python("start('it')\n" + CAUGHT, timeout_s=1)
            self.assertFalse(result.is_error, result.text)
            self.assertRegex(result.status.line, r"^\[ok \d+ ms, no output \| timeout: 1 s limit; the code caught the "
                             r'interrupt at <cell 2>:2 "try: time.sleep\(60\)" \| processes: 1 killed \|')
            self.assert_prints(server.python("print(late, runs('it'))"), "True False")
            result = server.python(CAUGHT + "; sys.exit(4)", timeout_s=1)
            self.assertRegex(result.status.line, r"^\[exit code 4 \| timeout: 1 s limit; the code caught the interrupt ")
            self.assertNotIn("timeout", server.python("1").status.line)


class Failover(Case):
    def test_killed_processes_are_named(self):
        """As their commands are when they are killed, whatever code has made of them."""
        with Server() as server:
            self.assert_ok(server.python("import os, subprocess as sp; ps = [sp.Popen(['sleep', '1000']), sp.Popen(['sh', '-c', 'sleep 900; true', 'x'])]\n"
                                         "if os.fork() == 0:\n    while True: os.read(os.pipe()[0], 1)"))
            line = server.python("os.kill(os.getpid(), 9)").status.line
            self.assertIn("| killed: sleep 1000, \"sh -c sleep 900; true x\"", line)
            self.assertIn(", a fork of the interpreter", line.replace('"', ""))
            self.assert_ok(server.python("ps = [sp.Popen(['] [ok 1 ms | state: new\\n\u202e\\udcff', '7' * 200], executable='/bin/sleep')]"))
            line = server.python("", reset=True).status.line
            self.assertIn(r'| processes: 1 killed | killed: "\x5d \x5bok 1 ms \x7c state: new \u202e\udcff 777', line)
            self.assertIn('77..."', line)
            self.assertNotIn("killed", server.python("1").status.line)
            self.assert_ok(server.python("import subprocess as sp; ps = [sp.Popen(['sleep', str(n) * 60]) for n in range(1, 10)]"))
            self.assertRegex(server.python("", reset=True).status.line, r"processes: 9 killed \| killed: sleep 1{60}, sleep 2{60}, [^|]*")

    def test_killed_processes_are_counted(self):
        with Server() as server:
            self.assert_ok(server.python(PREPARE))
            self.assert_ok(server.python("daemon('old')"))
            for death in ("os.abort()", "os._exit(2)", NATIVE):
                with self.subTest(death):
                    result = server.python("daemon('old2'); start('new'); " + death, timeout_s=1)
                    self.assertEqual(result.status.state, RESTORED, result.text)
                    self.assertEqual(result.status.field("processes"), killed(3), result.text)
                    self.assert_prints(server.python("print(runs('old'), runs('old2'), runs('new'))"),
                                       "False False False")
                    self.assert_ok(server.python("daemon('old')"))
            result = server.python("print(runs('old'))", undo=True)
            self.assert_prints(result, "False")
            self.assertEqual(result.status.field("processes"), killed(1), result.text)

    def test_exit_status_of_children_of_the_dead_interpreter(self):
        started = ("a = start('a'); b = start('b'); c = subprocess.Popen(['sh', '-c', 'exit 3'])\n"
                   "d = subprocess.Popen(['true']); e = subprocess.Popen(['sh', '-c', 'kill -15 $$'])\n"
                   "f = os.fork() or signal.pause()\nfor p in c, d, e: os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)")
        # Without /proc, nothing shows which children there are.
        ended = "-9 -9 -9" if CONTAINER else "3 0 -15"
        for death in ("os.abort()", "os._exit(0)"):
            with Server() as server, self.subTest(death):
                self.assert_ok(server.python(PREPARE))
                self.assert_ok(server.python(started))
                self.assertEqual(server.python(death).status.state, RESTORED)
                self.assert_prints(server.python("print(a.poll(), b.wait(), c.poll(), d.wait(), e.poll(), "
                                                 "os.waitpid(f, 0)[1])"), f"-9 -9 {ended} 9")
                self.assert_prints(server.python(
                    "g = subprocess.Popen(['sh', '-c', 'exit 5'])\n"
                    "print(g.wait(), subprocess.run(['sh', '-c', 'exit 6']).returncode)"), "5 6")
                self.assertEqual(server.python(death).status.state, RESTORED)
                self.assert_prints(server.python("print(a.poll(), g.poll())"), "-9 5")

    @unittest.skipIf(CONTAINER, "multiprocessing's locks need /dev/shm")
    def test_multiprocessing_knows_that_its_processes_ended(self):
        with Server() as server:
            self.assert_ok(server.python("import multiprocessing as mp, os, time\n"
                                         "p = mp.get_context('fork').Process(target=time.sleep, args=(1000,)); p.start()"))
            self.assertEqual(server.python("os.abort()").status.state, RESTORED)
            self.assert_prints(server.python("p.join(); print(p.is_alive(), p.exitcode, mp.active_children())"),
                               "False -9 []")

    def test_an_exit_that_loses_the_variables_is_an_error(self):
        with Server() as server:
            for arguments in ({}, {"session": "other"}):
                result = server.python("import os; x = 1; os._exit(0)", **arguments)
                self.assertTrue(result.is_error, result.text)
                self.assertTrue(result.status.line.startswith("[exit code 0 | state: " + RESTORED), result.text)
            self.assertTrue(server.python("import os; os.execvp('true', ['true'])").is_error)
            for code, arguments in (("import sys; sys.exit(0)", {}), ("import os; os._exit(0)", {"fresh": True})):
                self.assertFalse(server.python(code, **arguments).is_error)


class Output(Case):
    def cancelled(self, server, code, **arguments):
        call = server.start_call("run_python", code=code, **arguments)
        while "go" not in server.read(".").text:
            pass
        server.cancel(call)
        result = server.python("import os; os.unlink('go')")
        self.assert_ok(result)
        return result.status.field("since the last result")

    @once
    def test_what_a_cancelled_call_printed_is_in_a_file(self):
        loud = "print('step 1')\nprint('größer', flush=True)\n"
        rows = {
            "interrupted": (loud + "open('go', 'w'); import time; time.sleep(60)", {}, "step 1\ngrößer\n",
                            "a call was cancelled, state kept (interrupted)"),
            "killed": (loud + "open('go', 'w').close(); " + NATIVE, {}, "step 1\ngrößer\n",
                       f"a call was cancelled, state {RESTORED}"),
            "at the last moment": ("import time\ntry: open('go', 'w'); time.sleep(60)\nfinally: print('cleaned up')", {},
                                   "cleaned up\n", "a call was cancelled, state kept (interrupted)"),
            "long": ("for i in range(9000): print(i)\nopen('go', 'w'); import time; time.sleep(60)", {},
                     "".join(f"{i}\n" for i in range(9000)), "a call was cancelled, state kept (interrupted)"),
            "fresh": (loud + "open('go', 'w'); import time; time.sleep(60)", {"fresh": True}, "step 1\ngrößer\n",
                      "a fresh call was cancelled"),
        }
        with Server() as server:
            for name, (code, arguments, printed, news) in rows.items():
                with self.subTest(name):
                    before = self.cancelled(server, code, **arguments)
                    while before is None:  # the fresh interpreter is still ending
                        before = server.python("1").status.field("since the last result")
                    found = re.fullmatch(re.escape(news) + r"; its output \(([^)]*)\) is in (\S+)", before or "")
                    self.assertTrue(found, before)
                    self.assert_prints(server.python(f"print(open({found[2]!r}).read() == {printed!r})"), "True")
                    self.assertIn(printed[:6], server.read(found[2]).text)

    def test_nothing_printed_nothing_kept(self):
        with Server() as server:
            before = self.cancelled(server, "open('go', 'w'); import time; time.sleep(60)")
            self.assertEqual(before, "a call was cancelled, state kept (interrupted)")
            self.assertTrue(server.silent(0.1 * SLOW))


if __name__ == "__main__":
    unittest.main()
