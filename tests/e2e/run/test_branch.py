"""Branches: code in a copy of a session, beside its job or while it is idle; the copy leaves nothing but files."""
import time
import unittest

from client import SLOW, Case, Server

JOB = "import os, time\nkept.append('job')\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\n'done'"
# Ends long after its interpreter: the kernel takes a while to free what a child has written to.
SLOW_TO_END = """import os, time
held = bytearray(400 << 20)
if os.fork() == 0:
    os.setsid()
    held[::4096] = b'x' * len(held[::4096])
    open('up%d', 'w').close()
    time.sleep(1000)
while not os.path.exists('up%d'): time.sleep(0.01)"""
# Takes the descriptors of a branch from the session's socket, and says that the session's process is the branch.
IMPOSTOR = """import array, os, resource, socket, time
own = socket.socket(fileno=os.dup(64))
own.setblocking(True)
open('begun', 'w').close()
ancillary = []
while not ancillary: frame, ancillary, _, _ = own.recvmsg(1 << 16, socket.CMSG_SPACE(16))
branch = socket.socket(fileno=array.array('i', ancillary[0][2])[0])
branch.setblocking(True)
limit = resource.getrlimit(10)[1]
resource.setrlimit(10, (0, limit - 1))
fields = [b'hello', b'pid', b'%d' % os.getpid()]
payload = b''.join(len(field).to_bytes(4, 'little') + field for field in fields)
branch.sendall(len(payload).to_bytes(4, 'little') + payload)
branch.recv(1)
'went on'"""
SLEEPER = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'], start_new_session=True)\nprint(child.pid)"


class Branches(Case):
    def setUp(self):
        self.server = Server("--wait", "60", "--timeout", "60").__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)
        self.assert_ok(self.server.python("import os, time\nkept = ['first']\ntable = {'a': 1}"))

    def branch(self, code, **arguments):
        return self.server.python(code, branch=True, timeout_s=60, _timeout=60 * SLOW, **arguments)

    def start_job(self, code=JOB, **arguments):
        result = self.server.python(code, wait_s=0, timeout_s=600, **arguments)
        self.assertRegex(result.status.line, r"^\[running: job \d")
        while not self.branch("os.path.exists('begun')", **arguments).output.endswith("True"):
            time.sleep(0.02)

    def end_job(self, number=1):
        self.assert_ok(self.server.python("open('go', 'w').close()", fresh=True))
        return self.server.call("run_python", job=number, _timeout=60 * SLOW)

    def test_what_it_changes_is_gone_and_its_files_stay(self):
        result = self.branch("kept.append('branch'); table = None; new = 1\nopen('left.txt', 'w').write('x')\nkept")
        self.assertIn("Out: ['first', 'branch']", result.text)
        self.assertEqual(result.status.state, "not kept (branch)")
        self.assert_prints(self.server.python("print(kept, table, 'new' in globals(), os.path.exists('left.txt'))"),
                           "['first'] {'a': 1} False True")

    def test_beside_a_job_it_sees_the_state_before_it(self):
        self.start_job()
        for turn in range(3):
            self.assertIn("Out: ['first', %d]" % turn, self.branch(f"kept.append({turn}); kept").text)
        self.assertIn("Out: 'done'", self.end_job().text)
        self.assert_prints(self.server.python("print(kept)"), "['first', 'job']")

    def test_several_at_once_beside_a_job(self):
        self.start_job()
        calls = [self.server.start_call("run_python", code=f"kept.append({n})\nopen('b{n}', 'w').close()\n"
                                        "while sum(name[0] == 'b' and name[1:].isdigit() for name in os.listdir('.')) < 4: "
                                        "time.sleep(0.02)\nkept", branch=True, timeout_s=60) for n in range(4)]
        for number, call in enumerate(calls):
            self.assertIn(f"Out: ['first', {number}]", self.server.finish_call(call).text)
        self.end_job()

    def test_a_name_that_only_the_job_has(self):
        job = self.server.python("job_makes = 1; print('there', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)",
                                 wait_s=0, timeout_s=600)
        self.assertIn("[running: job 1, ", job.text)
        hint = "Hint: job 1 still runs: until it ends, no branch has the variables that it makes"
        self.assertIn(hint, self.branch("job_makes").text)
        self.assertNotIn("Hint: job", self.branch("1 / 0").text)
        self.assert_ok(self.branch("open('go', 'w').close()"))
        self.assert_ok(self.server.call("run_python", job=1, wait_s=60))
        self.assertNotIn("Hint: job", self.branch("nobody_makes").text)

    def test_it_counts_for_no_undo_and_keeps_the_numbers_of_cells_apart(self):
        self.assert_ok(self.server.python("kept.append('second')"))
        self.assertIn("<cell 3>", self.branch("1 / 0").text)
        self.assertIn("<cell 4>", self.server.python("kept.append(3); 1 / 0").text)
        self.assert_ok(self.server.python("", undo=True))
        self.assert_ok(self.server.python("", undo=True))
        self.assert_prints(self.server.python("print(kept)"), "['first']")

    def test_it_ends_with_what_it_started_and_leaves_what_the_session_started(self):
        self.assert_ok(self.server.python("def alive(pid):\n  try: return open(f'/proc/{pid}/stat').read().split(') ')[1][0] not in 'ZX'\n"
                                          "  except OSError: return False"))
        session_pid = int(self.server.python(SLEEPER).lines[0])
        if not self.server.python(f"alive({session_pid})").output.endswith("True"):
            self.skipTest("isolation: this level shows no processes in /proc")
        branch_pid = int(self.branch(SLEEPER).lines[0])
        deadline = time.monotonic() + 20 * SLOW
        while self.server.python(f"alive({branch_pid})").output.endswith("True") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assert_prints(self.server.python(f"print(alive({session_pid}), alive({branch_pid}))"), "True False")

    def test_its_death_leaves_the_session_and_its_job(self):
        self.start_job()
        for death in ("os._exit(3)", "os.kill(os.getpid(), 9)", "os.abort()", "x = []\nwhile True: x.append(bytearray(8 << 20))",
                      "os.closerange(0, 1000)"):
            with self.subTest(death=death):
                result = self.branch(death)
                self.assertTrue(result.is_error, result.text)
                self.assertEqual(result.status.state, "not kept (branch)")
        self.assertIn("Out: 'done'", self.end_job().text)
        self.assert_prints(self.server.python("print(kept)"), "['first', 'job']")

    def test_the_death_of_the_session_leaves_the_branch(self):
        self.start_job()
        call = self.server.start_call("run_python", code="open('in', 'w').close()\nwhile not os.path.exists('out'): time.sleep(0.02)\nkept",
                                      branch=True, timeout_s=60)
        while not self.branch("os.path.exists('in')").output.endswith("True"):
            time.sleep(0.02)
        stopped = self.server.call("run_python", job=1, stop=True)
        self.assertRegex(stopped.status.line, "^.stopped: job 1")
        self.assertIn("SIGKILL", self.server.python("os.kill(os.getpid(), 9)").status.line)
        self.assert_ok(self.server.python("open('out', 'w').close()", fresh=True))
        self.assertIn("Out: ['first']", self.server.finish_call(call).text)

    def test_one_that_runs_into_its_limit_is_stopped(self):
        result = self.server.python("while True: pass", branch=True, timeout_s=1)
        self.assertRegex(result.status.line, r"^\[timeout: 1 s limit")
        self.assertEqual(result.status.state, "not kept (branch)")

    def test_a_branch_becomes_a_job_of_its_own(self):
        result = self.branch("while not os.path.exists('go'): time.sleep(0.02)\nkept", wait_s=0)
        self.assertRegex(result.status.line, r"^\[running: job 1")
        self.assertNotIn("other calls of this session wait", result.status.line)
        self.assert_prints(self.server.python("kept.append('mine'); print(kept)"), "['first', 'mine']")
        self.assertIn("Out: ['first']", self.end_job().text)

    def test_of_a_session_that_has_run_nothing(self):
        self.assertIn("Out: False", self.branch("'kept' in globals()", session="new").text)
        self.assertIn("Out: False", self.branch("'kept' in globals()", session="new").text)

    def test_while_the_first_call_of_a_session_runs(self):
        result = self.server.python("import time, os\nx = 1\nwhile not os.path.exists('go'): time.sleep(0.02)", session="new",
                                    wait_s=0, timeout_s=600)
        self.assertRegex(result.status.line, r"^\[running")
        self.assertIn("Out: False", self.branch("'x' in globals()", session="new").text)
        self.end_job()

    def test_a_cancelled_branch_ends_and_the_session_goes_on(self):
        call = self.server.start_call("run_python", code="open('in', 'w').close()\nwhile True: time.sleep(0.02)", branch=True, timeout_s=60)
        while not self.branch("os.path.exists('in')").output.endswith("True"):
            time.sleep(0.02)
        self.server.cancel(call)
        self.assert_prints(self.server.python("print(kept)"), "['first']")

    def test_threads_subprocesses_and_awaits_work_in_it(self):
        self.start_job()
        self.assertIn("Out: [2, 3]", self.branch("from concurrent.futures import ThreadPoolExecutor\n"
                                                 "list(ThreadPoolExecutor(2).map(lambda x: x + 1, (1, 2)))").text)
        self.assertIn("Out: 'out\\n'", self.branch("import subprocess; subprocess.run(['echo', 'out'], capture_output=True, text=True).stdout").text)
        self.assertIn("Out: 5", self.branch("import asyncio\nawait asyncio.sleep(0.01, 5)").text)
        self.end_job()

    def test_the_end_of_one_leaves_those_that_begin_meanwhile(self):
        for turn in range(4):
            self.assertFalse(self.branch(SLOW_TO_END % (turn, turn)).is_error)
            calls = []
            for _ in range(5):
                calls.append(self.server.start_call("run_python", code="time.sleep(0.1); kept", branch=True, timeout_s=60))
                time.sleep(0.01)
            for call in calls:
                self.assertIn("Out: ['first']", self.server.finish_call(call).text)

    def test_those_that_come_at_once_with_a_call_of_the_session(self):
        """Neither takes the other's message, nor waits for it: in whatever order they come."""
        for turn in range(6):
            for order in ("cb", "cbb", "bcb", "bbc"):
                with self.subTest(order=order, turn=turn):
                    name, call, branches = f"{order}{turn}", None, []
                    with self.server.at_once():
                        for kind in order:
                            if kind == "c":
                                call = self.server.start_call(
                                    "run_python", code=f"while not os.path.exists('{name}'): time.sleep(0.01)", timeout_s=600)
                            else:
                                branches.append(self.server.start_call("run_python", code="kept", branch=True, timeout_s=60))
                    for branch in branches:
                        self.assertIn("Out: ['first']", self.server.finish_call(branch, timeout=20 * SLOW).text)
                    self.assert_ok(self.server.python(f"open('{name}', 'w').close()", branch=True))
                    self.assert_ok(self.server.finish_call(call))

    def test_code_that_says_it_is_the_branch_keeps_its_session(self):
        self.start_job_of_impostor()
        # Until it reads the socket, the checkpoint may be first: then the branch is made, as it should be.
        self.assertTrue(any(self.branch("kept").is_error for _ in range(100)))
        self.assertIn("Out: 'went on'", self.server.call("run_python", job=1, _timeout=60 * SLOW).text)
        self.assert_prints(self.server.python("print(kept)"), "['first']")

    def start_job_of_impostor(self):
        self.assertRegex(self.server.python(IMPOSTOR, wait_s=0, timeout_s=600).status.line, r"^\[running: job 1")
        while self.server.read("begun").is_error:
            time.sleep(0.02)

    def test_what_excludes_it_is_said(self):
        for other in ({"undo": True}, {"restore": "x"}, {"reset": True}, {"checkpoint": "x"}, {"fresh": True}, {"drop": "x"}):
            with self.subTest(other=other):
                result = self.branch("open('never', 'w')", **other)
                self.assertTrue(result.is_error)
                self.assertRegex(result.text, "^A branch is a copy that is discarded: .* Nothing was run")
        self.assert_prints(self.server.python("print(os.path.exists('never'))"), "False")


class WithoutCopy(Case):
    def test_a_state_too_large_for_a_checkpoint_is_not_branched_from_beside_a_job(self):
        with Server("--wait", "60", "--timeout", "60", "--memory", "256M") as server:
            self.assert_ok(server.python("import os, time\nkept = bytearray(b'x') * (205 << 20)"))
            result = server.python("open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)", wait_s=0)
            self.assertRegex(result.status.line, r"^\[running")
            while server.read("begun").is_error:
                time.sleep(0.02)
            result = server.python("open('never', 'w')", branch=True)
            if not result.is_error:
                self.skipTest("no control group counts here, or the checkpoint has made no way")
            self.assertIn("no copy of its variables", result.text)
            self.assertTrue(server.read("never").is_error)
            server.write("go", "")


if __name__ == "__main__":
    unittest.main()
