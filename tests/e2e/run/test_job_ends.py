"""How jobs end: stopped, cancelled, by themselves, by accident, and with the server; and attacks."""
import os
import signal
import time
import unittest

from client import LARGE, SLOW, Server, once
from jobs_client import JOBS, KEPT, LONG, PREPARE, WAIT_S, JobCase
from jobs_stress import run_sequence
from traces import init_of

RESTORED = "restored to the state before this call"


@once
class Stops(JobCase):
    def begun(self, server, code, **arguments):
        job = self.begin(server, "open('begun', 'w').close()\n" + code, **arguments)
        self.wait_for_file(server, "begun")
        return job

    def test_a_cell_that_sleeps(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 1"))
            job = self.begun(server, "x = 2; open('set', 'w').close(); time.sleep(600)")
            self.wait_for_file(server, "set")
            result = self.stop(server, job)
            self.assert_stopped(result, job)
            self.assertEqual(result.status.state, KEPT)
            self.assert_prints(server.python("print(x)"), "2")
            self.assert_prints(server.python("print(x)", undo=True), "1")

    STUBBORN = (
        "import itertools; sum(itertools.chain(map(mark, 'x'), itertools.repeat(0)))",
        "while True:\n    try:\n        mark('x')\n        while True: pass\n    except BaseException: pass",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); mark('x')\nwhile True: pass",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "mark('x'); os.execv('/bin/sleep', ['sleep', '600'])",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "mark('x'); os.kill(os.getpid(), 19)",
    )

    def test_cells_that_do_not_end(self):
        with Server(*JOBS) as server:
            for number, code in enumerate(self.STUBBORN):
                with self.subTest(code):
                    session = f"s{number}"
                    self.assert_ok(server.python("x = 1", session=session))
                    job = self.begin(server, f"def mark(_): open({session!r}, 'w').close(); return 0\nx = 2\n{code}",
                                     session=session)
                    self.wait_for_file(server, session)
                    result = self.stop(server, job)
                    self.assert_stopped(result, job)
                    self.assertEqual(result.status.state, RESTORED, result.text)
                    if "os.execv" not in code and "19)" not in code:  # which the interrupt or init ends
                        self.assertIn("; killed, because the interrupt did not end it", result.status.line)
                    self.assert_prints(server.python("print(x)", session=session), "1")

    def test_a_cell_that_catches_the_interrupt(self):
        """As servers do that end at Ctrl+C."""
        with Server(*JOBS) as server:
            job = self.begun(server, "try: time.sleep(600)\nexcept KeyboardInterrupt: print('saved')")
            result = self.stop(server, job)
            self.assert_prints(result, "saved")
            self.assertRegex(result.status.line, rf"^\[ok .* \| stopped: job {job} after \d+ s; the code caught the interrupt")
            self.assertIn(f"{job} (stopped, ok)", server.call("run_python", job=99).text)

    def test_what_is_stopped_gets_no_name(self):
        """Not even where the code takes the interrupt for its end."""
        for code, how in (("time.sleep(600)", {"stop": True}), ("try: time.sleep(600)\nexcept KeyboardInterrupt: pass", {"stop": True}),
                          ("time.sleep(600)", {"undo": True}), ("time.sleep(600)", {"restore": "kept"}), ("time.sleep(600)", {"reset": True}),
                          ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", {"stop": True})):
            with self.subTest(code, how=how), Server(*JOBS) as server:
                self.assert_ok(server.python("x = 1", checkpoint="kept"))
                job = self.begun(server, "x = 2\n" + code, checkpoint="half")
                if "stop" in how:
                    result = self.stop(server, job)
                else:
                    self.assertFalse(server.python("1", **how).is_error)
                    result = self.poll(server, job)
                self.assertRegex(result.text, r"\[(stopped: job|ok) ")
                self.assertIn('checkpoint: not saved as "half": the job was stopped', result.text)
                self.assertNotIn('"half"', server.python("1", restore="unknown").text)

    def test_its_processes_end_with_it(self):
        """Those of earlier cells do not."""
        with Server(*JOBS) as server:
            self.assert_ok(server.python(PREPARE + "daemon('earlier')"))
            job = self.begun(server, "daemon('own'); time.sleep(600)")
            self.wait_for_file(server, "own.up")
            self.assert_stopped(self.stop(server, job), job)
            self.assert_process_ends(server, "own")
            self.assertTrue(self.is_alive(server, "earlier"))

    def test_processes_end_with_a_cell_that_is_timed_out(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python(PREPARE + "daemon('earlier')"))
            job = self.begun(server, "daemon('own'); time.sleep(600)", timeout_s=3 * SLOW)
            self.assert_kind(self.poll(server, job), "timeout")
            self.assert_process_ends(server, "own")
            self.assertTrue(self.is_alive(server, "earlier"))

    def test_processes_end_with_a_cell_that_is_cancelled(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python(PREPARE + "daemon('earlier')"))
            call = server.start_call("run_python", code=PREPARE + "daemon('own'); time.sleep(600)", wait_s=WAIT_S,
                                     **LONG)
            self.wait_for_file(server, "own.up", fresh=True)
            server.cancel(call)
            self.assert_process_ends(server, "own")
            self.assertTrue(self.is_alive(server, "earlier"))

    def test_an_undo_that_is_a_job_completes_before_the_next(self):
        """Also one that still waits for the state of the call before it to be saved."""
        for turn in range(4):
            with self.subTest(turn=turn), Server(*JOBS, "--memory", "2G") as server:
                for code in ("x = 1; open('a', 'w').write('first')", "y = 2",
                             "big = bytearray(b'x' * (400 << 20)); x = 3; open('a', 'w').write('second')"):
                    self.assert_ok(server.python(code, wait_s=60))
                first = server.start_call("run_python", code="print('never')", undo=True, wait_s=0)
                second = server.start_call("run_python", code="print(x, open('a').read(), 'big' in globals())", undo=True, wait_s=60)
                self.assertIn("running: job 1", server.finish_call(first).text)
                result = server.finish_call(second, 120)
                self.assertIn("1 first False", result.text)
                self.assertIn("after <cell 2>", result.status.state)

    def test_a_job_that_has_ended(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('result')")
            self.assert_prints(self.poll(server, job), "result")
            result = self.stop(server, job)
            self.assertFalse(result.is_error, result.text)
            self.assertIn("result", result.lines)
            self.assertIn("already ended", result.text)
            self.assertEqual(result.status.kind, "ok", result.text)

    def test_a_job_that_is_just_ending(self):
        with Server(*JOBS) as server:
            for i in range(30):
                session = f"s{i % 2}"
                result = server.python(f"import time; time.sleep({i / 3000}); print({i})", wait_s=0, session=session)
                if result.status.line.startswith("[ok "):  # it has ended before its wait of nothing was over
                    continue
                number = self.assert_running(result)
                result = self.stop(server, number)
                self.assertFalse(result.is_error, result.text)
                self.assertRegex(result.text, r"\[(ok |stopped: job)")
                self.assert_prints(server.python(f"print({i})", session=session), f"{i}")

    def test_two_stops_and_polls_get_the_same_result(self):
        with Server(*JOBS) as server:
            job = self.begun(server, "time.sleep(600)")
            calls = [server.start_call("run_python", job=job, wait_s=WAIT_S, **({"stop": True} if i % 2 else {}))
                     for i in range(6)]
            for call in calls:
                self.assert_stopped(server.finish_call(call), job)

    def test_a_stop_that_does_not_wait(self):
        with Server(*JOBS) as server:
            job = self.begun(server, "import itertools; sum(itertools.repeat(0))")
            result = self.stop(server, job, wait_s=0)
            self.assertFalse(result.is_error, result.text)
            self.assert_stopped(self.poll(server, job), job)

    def test_a_cancelled_stop_still_stops(self):
        with Server(*JOBS) as server:
            job = self.begun(server, "time.sleep(600)")
            with server.at_once():
                call = server.start_call("run_python", job=job, stop=True)
                server.cancel(call)
            self.assert_stopped(self.poll(server, job), job)


class Ends(JobCase):
    """A job that dies gives its session the state before it."""

    DEATHS = {
        "segmentation fault": ("import ctypes; ctypes.string_at(0)", r"\[crashed: SIGSEGV"),
        "exit": ("os._exit(3)", r"\[exit code 3"),
        "kill": ("os.kill(os.getpid(), 9)", r"\[crashed: SIGKILL"),
        "out of memory": ("a = []\nwhile True: a.append(bytearray(8 << 20))",
                          r"\[(out of memory|error: MemoryError|crashed: SIGKILL)"),
    }

    def test_deaths(self):
        with Server(*JOBS, "--memory", "256M") as server:
            for name, (code, expected) in self.DEATHS.items():
                with self.subTest(name):
                    self.assert_ok(server.python("x = ['before']", session=name.replace(" ", "")))
                    job = self.begin(server, "x.append('job'); until(NAME)\n".replace("NAME", repr(name)) + code,
                                     session=name.replace(" ", ""))
                    self.open_gate(server, name)
                    result = self.poll(server, job)
                    self.assertTrue(result.is_error, result.text)
                    self.assertRegex(result.status.line, expected)
                    if "MemoryError" not in result.status.line:
                        self.assertEqual(result.status.state, RESTORED)
                        self.assertIn("['before']", server.python("print(x)", session=name.replace(" ", "")).output)

    def test_forks_without_end(self):
        with Server(*JOBS, "--pids", "64") as server:
            self.assert_ok(server.python("x = 'before'"))
            job = self.begin(server, "x = 'job'\ndef bomb():\n    while True:\n        try: os.fork()\n"
                                     "        except OSError: time.sleep(0.01)\nuntil('go')\nbomb()", timeout_s=60)
            self.open_gate(server, "go")
            result = self.stop(server, job)
            self.assertRegex(result.text, r"\[(stopped|timeout|crashed|exit|error)")
            result = server.python("print(x)", wait_s=WAIT_S)
            self.assertIn(result.lines[-2], ("before", "job"), result.text)
            self.assert_ok(server.python("print(1)", fresh=True, wait_s=WAIT_S))


@once
class Cancelled(JobCase):
    def test_the_first_call_takes_its_cell_with_it(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 1"))
            call = server.start_call("run_python", code="open('up', 'w').close()\nimport time; time.sleep(600)",
                                     wait_s=WAIT_S, **LONG)
            self.wait_for_file(server, "up", fresh=True)
            server.cancel(call)
            self.assert_prints(server.python("print(x)", wait_s=WAIT_S), "1")
            self.assertTrue(self.poll(server, 1).is_error)
            self.assertNotIn(call, server.stash)

    def test_a_cancelled_cell_that_takes_long_to_end_is_no_job(self):
        """The wait of its call is over while the cell resists the interrupt, until it is killed a second later."""
        with Server(*JOBS) as server:
            self.assert_ok(server.python("import itertools; x = 1"))
            for number in range(1, 6):
                began = time.monotonic()
                call = server.start_call("run_python", code="x = 2; sum(itertools.repeat(0))", wait_s=1.5, **LONG)
                time.sleep(max(0, began + 1 - time.monotonic()))
                server.cancel(call)
                server.request("ping")
                if call not in server.stash:
                    break
                self.assert_stopped(self.stop(server, number), number)  # the machine was too slow: once more
            result = server.python("print(x)", wait_s=WAIT_S)
            self.assert_prints(result, "1")
            self.assertFalse(result.text.startswith("[job"), result.text)
            self.assertTrue(self.poll(server, number).is_error)

    def test_a_call_in_line_never_runs(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go'); x = []")
            call = server.start_call("run_python", code="x.append(1)", wait_s=WAIT_S)
            server.cancel(call)
            self.open_gate(server, "go")
            self.assert_ok(self.poll(server, job))
            self.assert_prints(server.python("print(x)"), "[]")

    def test_a_cancelled_call_that_cannot_become_a_job(self):
        """The same where it would be interrupted at the end of its wait, because too many jobs run."""
        with Server(*JOBS, "--jobs", "1") as server:
            self.assert_ok(server.python("import itertools; x = 1"))
            job = self.begin(server, "time.sleep(600)", session="other")
            began = time.monotonic()
            call = server.start_call("run_python", code="x = 2; sum(itertools.repeat(0))", wait_s=1.5, **LONG)
            time.sleep(max(0, began + 1 - time.monotonic()))
            server.cancel(call)
            self.assert_prints(server.python("print(x)", wait_s=WAIT_S), "1")
            self.assert_running(self.poll(server, job, wait_s=0), job)

    def test_at_many_moments(self):
        """Whatever a cancelled call did, there is at most one result, and the server goes on."""
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 0"))
            for number in range(12):
                delay_s = (0, 0.0005, 0.002, 0.01)[number % 4]
                call = server.start_call("run_python", code=f"x = {number}; import time; time.sleep(600)",
                                         wait_s=(0, 0.005)[number % 2], **LONG)
                time.sleep(delay_s)
                server.cancel(call)
                server.request("ping")
                listed = server.call("run_python", stop=True, wait_s=WAIT_S)  # the job, where it has become one
                self.assertRegex(listed.text, r"\[stopped: job|No job is running")
                self.assertFalse(server.python("1", wait_s=WAIT_S).is_error)
                server.stash.pop(call, None)


@once
class Files(JobCase):
    """/tmp/output/job-N.txt, which code can get at."""

    FILE = "/tmp/output/job-{}.txt"

    def test_it_grows_while_the_job_runs(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('one', flush=True); until('go'); print('two', flush=True); until('end')")
            self.wait_for_text(server, job, "one\n")
            self.open_gate(server, "go")
            self.wait_for_text(server, job, "one\ntwo\n")
            self.open_gate(server, "end")
            self.assert_prints(self.poll(server, job), "one\ntwo")

    def wait_for_text(self, server, job, text):
        until = time.monotonic() + WAIT_S
        while (result := server.read(server.here(self.FILE).format(job))).text != text:
            self.assertLess(time.monotonic(), until, result.text)

    def test_what_is_planted_there_is_replaced(self):
        """And never followed or waited for."""
        plants = ("os.symlink(os.path.abspath('precious'), name)", "os.link(os.path.abspath('precious'), name)",
                  "os.mkfifo(name)", "os.makedirs(name + '/full')", "open(name, 'w').write('planted')",
                  "os.symlink('/proc/self/mem', name)")
        for number, plant in enumerate(plants, 1):
            with self.subTest(plant), Server(*JOBS) as server:
                self.assertFalse(server.write("precious", "untouched").is_error)
                self.assert_ok(server.python("import os\nos.makedirs(DIR, exist_ok=True); name = DIR + '/job-1.txt'\n"
                                             "try: PLANT\nexcept OSError as error: print(error)"
                                             .replace("DIR", repr(server.here("/tmp/output"))).replace("PLANT", plant)))
                job = self.begin(server, "print('of the job', flush=True); until('go')")
                self.wait_for_output(server, job, "of the job")
                self.open_gate(server, "go")
                self.assert_prints(self.poll(server, job), "")
                self.assert_prints(self.poll(server, job), "of the job")
                self.assertEqual(server.read("precious").text, "untouched")

    def test_a_file_replaced_while_the_job_prints(self):
        with Server(*JOBS) as server:
            self.assertFalse(server.write("precious", "untouched").is_error)
            job = self.begin(server, "n = 0\nwhile not os.path.exists('go'):\n"
                                     "    print('line', n, flush=True); n += 1; time.sleep(0.001)")
            swap = ("import os\nname = DIR + '/job-1.txt'\nfor i in range(200):\n    try: os.unlink(name)\n"
                    "    except OSError: pass\n"
                    "    try: (os.symlink(os.path.abspath('precious'), name) if i % 2 else os.mkfifo(name))\n"
                    "    except OSError: pass").replace("DIR", repr(server.here("/tmp/output")))
            self.assertFalse(server.python(swap, fresh=True, wait_s=WAIT_S).is_error)
            self.open_gate(server, "go")
            result = self.poll(server, job)
            self.assertFalse(result.is_error, result.text)
            self.assertEqual(server.read("precious").text, "untouched")
            self.assert_alive(server)


class TheServerEnds(JobCase):
    """With jobs that resist, and calls that wait for them."""

    RESIST = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"

    def busy(self, server):
        self.begin(server, self.RESIST + "daemon('a'); open('up1', 'w').close(); time.sleep(600)", session="a")
        self.begin(server, self.RESIST + "open('up2', 'w').close()\nwhile True: print('x' * 9999)", session="b")
        self.begin(server, "open('up3', 'w').close(); time.sleep(600)", fresh=True)
        for name in ("up1", "up2", "up3"):
            self.wait_for_file(server, name)
        for _ in range(3):
            server.start_call("run_python", job=1, wait_s=WAIT_S)
            server.start_call("run_python", code="open('never', 'w')", session="a", wait_s=WAIT_S)
        server.start_call("run_python", job=2, stop=True)
        server.request("ping")

    def test_stdin_closed(self):
        with Server(*JOBS) as server:
            self.busy(server)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number), Server(*JOBS, check=False) as server:
                self.busy(server)
                server.signal(number)
                self.assertEqual(server.join(), 0)
                self.assertEqual(server.left(10), [])

    def test_sigkill(self):
        for _ in range(2):
            with Server(*JOBS, check=False) as server:
                self.busy(server)
                server.signal(signal.SIGKILL)
                server.join()
                self.assertEqual(server.left(10), [])

    def test_the_sandbox_dies(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 1"))
            job = self.begin(server, "open('up', 'w').close(); time.sleep(600)")
            self.wait_for_file(server, "up")
            call = server.start_call("run_python", job=job, wait_s=WAIT_S)
            held = server.start_call("run_python", code="print(1)", wait_s=WAIT_S)
            os.kill(init_of(server.pid), signal.SIGKILL)
            self.assertTrue(server.finish_call(call).is_error)
            self.assertIn("1", server.finish_call(held).lines)
            again = self.poll(server, job)
            self.assertTrue(again.is_error, again.text)
            self.assertRegex(again.status.line, "lost")


@once
class Floods(JobCase):
    def test_jobs_that_print_without_end(self):
        """Polls stay small, the server's memory bounded, and the last output is in the results."""
        with Server(*JOBS, "--disk", "64M") as server:
            jobs = [self.begin(server, f"n = 0\nwhile not os.path.exists('go{i}'): print('n', n, 'x' * 9999); n += 1\n"
                                       "print('the end')", session=f"s{i}") for i in range(4)]
            for _ in range(5):
                for job in jobs:
                    result = self.poll(server, job, wait_s=0.05)
                    self.assert_running(result, job)
                    self.assertLess(len(result.text), 100_000)
            self.assert_alive(server)
            for i in range(4):
                self.open_gate(server, f"go{i}", fresh=True)  # the disk may be full by now
            for job in jobs:
                result = self.poll(server, job)
                self.assertLess(len(result.text), 100_000)
                self.assertRegex(result.text, r"the end\n|disk full")

    def test_starts_without_a_wait(self):
        with Server(*JOBS, "--jobs", "3") as server:
            with server.at_once():
                calls = [server.start_call("run_python", code=f"import time; time.sleep(600)", wait_s=0,
                                           session=f"s{i % 7}", **LONG) for i in range(60)]
            results = [server.finish_call(call) for call in calls]
            running = [self.assert_running(result) for result in results if not result.is_error]
            self.assertEqual(sorted(running), [1, 2, 3])
            for number in running:
                self.assert_stopped(self.stop(server, number), number)
            for i in range(7):
                self.assert_prints(server.python(f"print({i})", session=f"s{i}", wait_s=WAIT_S), f"{i}")

    def test_many_polls_of_nothing(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go'); print('end')")
            with server.at_once():
                calls = [server.start_call("run_python", job=job, wait_s=0) for _ in range(200)]
            for call in calls:
                self.assert_running(server.finish_call(call), job)
            self.open_gate(server, "go")
            self.assert_prints(self.poll(server, job), "end")

    def test_a_full_disk(self):
        with Server(*JOBS, "--disk", "32M") as server:
            self.assert_ok(server.python("x = 1"))
            job = self.begin(server, "try:\n    with open('big', 'wb') as file:\n"
                                     "        while True: file.write(bytes(1 << 20))\n"
                                     "except OSError as error: print('errno', error.errno, flush=True)\n"
                                     "for i in range(300): print(i, 'y' * 999, flush=True)\n"
                                     "os.unlink('big'); print('unlinked')")
            result = self.poll(server, job)
            self.assertRegex(result.text, r"unlinked\n|disk full")
            self.assert_ok(server.python("print(x)"))

    def test_sessions_and_results_are_freed(self):
        """A thousand results of jobs do not add up."""
        with Server(*JOBS) as server:
            def rss():
                with open(f"/proc/{server.pid}/statm") as file:
                    return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            number = 0
            for i in range(60):
                result = server.python("print('z' * 60_000); import time; time.sleep(0.02)", wait_s=0)
                number = self.assert_running(result)
                self.assertFalse(self.poll(server, number).is_error)
                before = rss() if i == 20 else None if i < 20 else before
            self.assertLess(rss(), before + (8 << 20) * LARGE)


@once
class Sequences(JobCase):
    def test_random_sequences(self):
        """A few of those of `make stress`."""
        first = int(os.environ.get("SANDPIPER_TEST_SEED", "0"))
        for seed in range(first, first + int(os.environ.get("SANDPIPER_TEST_SEQUENCES", "5"))):
            with self.subTest(seed):
                self.assertIsNone(run_sequence(seed))


if __name__ == "__main__":
    unittest.main()
