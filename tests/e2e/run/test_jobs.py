"""A cell that outlasts its call goes on as a job, which later calls wait for or stop."""
import json
import time
import unittest

from client import SLOW, Server
from jobs_client import JOBS, KEPT, LONG, PREPARE, WAIT_S, JobCase
from later import clock
from pictures import png

COUNT = "n = 0\nwhile not os.path.exists('enough'):\n    print('line', n, flush=True); n += 1; time.sleep(0.05)\n"


def numbered(text):
    return [int(line.split()[1]) for line in text.split("\n") if line.startswith("line ")]


class Waits(JobCase):
    """When a call gets its result, and what the cell does then."""

    def test_a_cell_that_outlasts_its_call_goes_on(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("before = 1"))
            began = time.monotonic()
            first = server.python(PREPARE + COUNT + "x = n; open('chart.png', 'wb').write(PNG); x".replace(
                "PNG", repr(png(2, 2))), timeout_s=120, wait_s=2)
            self.assertGreaterEqual(time.monotonic() - began, 1.99)
            self.assert_running(first, 1)
            self.assertIn("of at most 120 s", first.status.line)
            todo, holds = '| wait: {"job": 1} | stop: {"job": 1, "stop": true}', "until it ends, other calls of this session wait"
            self.assertIn(f"{todo} |", first.status.line)
            self.assertIn(holds, first.status.line)
            lines = numbered(first.output)
            for _ in range(2):
                result = self.poll(server, 1, wait_s=0.5)
                self.assert_running(result, 1)
                self.assertIn(todo, result.status.line)
                self.assertNotIn(holds, result.status.line)  # said once
                lines += numbered(result.output)
            self.assertEqual(lines, list(range(len(lines))))
            self.open_gate(server, "enough")
            for again in range(3):  # what is new, then the whole result, again and again
                result = self.poll(server, 1)
                self.assert_ok(result)
                whole = numbered(result.output) if again else lines + numbered(result.output)
                self.assertEqual(whole, list(range(len(whole))))
                self.assertGreaterEqual(len(whole), len(lines))
                self.assertIn(f"Out: {len(whole)}", result.output)
                self.assertEqual([block["mimeType"] for block in result.content if block["type"] == "image"],
                                 ["image/png"])
            self.assert_prints(server.python("print(x == n, before)"), "True 1")
            self.assert_prints(server.python("print('x' in globals(), before)", undo=True), "False 1")

    def test_undo_takes_back_the_whole_cell_and_nothing_else(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = ['before']"))
            job = self.begin(server, "x.append('during'); until('go'); x.append('after')")
            self.poll(server, job, wait_s=0)
            self.assert_not_run(server.python("x.append('never')", wait_s=0.1), job)
            self.open_gate(server, "go")
            self.assert_ok(self.poll(server, job))
            self.assert_ok(self.poll(server, job))
            self.assert_prints(server.python("print(x)", undo=True), "['before']")

    def test_wait_0_starts_a_job_at_once(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go'); y = 3; print('done')")
            self.open_gate(server, "go")
            self.assert_prints(self.poll(server, job), "done")
            self.assert_prints(server.python("print(y)"), "3")

    def test_the_flag_sets_the_default(self):
        with Server("--wait", "0.5") as server:
            self.assert_running(server.python(PREPARE + "until('go')", **LONG), 1)
            began = time.monotonic()
            self.assert_running(server.call("run_python", job=1), 1)
            self.assertGreaterEqual(time.monotonic() - began, 0.49)
            self.open_gate(server, "go")

    def test_a_short_cell_is_no_job(self):
        with Server(*JOBS) as server:
            self.assert_prints(server.python("print(1)", wait_s=WAIT_S), "1")
            result = server.call("run_python", job=1)
            self.assertTrue(result.is_error, result.text)

    def test_waiting_in_line_counts(self):
        with Server(*JOBS) as server:
            first = server.start_call("run_python", code=PREPARE + "until('go'); ran = []", wait_s=WAIT_S, **LONG)
            result = server.python("ran.append('second')", wait_s=0.3)
            self.assert_not_run(result)
            self.open_gate(server, "go", fresh=True)  # write_file would wait for the first call
            self.assert_ok(server.finish_call(first))
            self.assert_prints(server.python("print(ran)"), "[]")

    def test_the_time_limit_bounds_a_job(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 'kept'"))
            job = self.begin(server, "print('begun', flush=True); time.sleep(600)", timeout_s=1)
            result = self.poll(server, job)
            self.assert_kind(result, "timeout")
            self.assertEqual(result.status.state, KEPT)
            self.assertIn("| the code only waited: it used the processor for 0", result.status.line)
            self.assertNotIn("for longer work", result.status.line)
            self.assertEqual(result.lines[0], "begun")
            self.assert_prints(server.python("print(x)"), "kept")

    def test_a_longer_limit_for_one_that_runs(self):
        with clock() as later, Server(*JOBS, env=later.env) as server:
            self.assert_ok(server.python(PREPARE))
            job = self.begin(server, "open('up', 'w').close(); until('go'); x = 'whole'; x", timeout_s=60)
            self.wait_for_file(server, "up", fresh=True)
            result = server.call("run_python", job=job, timeout_s=10, wait_s=0)  # to wait is not to interrupt
            self.assertIn(" s of at most 60 s", result.status.line)
            result = server.call("run_python", job=job, timeout_s=600, wait_s=0)
            self.assertIn(" s of at most 600 s", result.status.line)
            later.advance(server, 300)
            self.assert_running(server.call("run_python", job=job, wait_s=0), job)
            self.open_gate(server, "go")
            self.assertIn("Out: 'whole'", self.poll(server, job).text)

    def test_slow_code_is_a_job_by_default(self):
        """The default time limit is longer than the wait."""
        with clock() as later, Server(*JOBS, env=later.env) as server:
            self.assert_ok(server.python(PREPARE))
            call = server.start_call("run_python", code="open('up', 'w').close(); until('go'); x = 'whole'; x")
            self.wait_for_file(server, "up", fresh=True)
            later.advance(server, 26)
            result = server.finish_call(call)
            self.assert_running(result, 1)
            self.assertIn(" s of at most 300 s", result.status.line)
            self.open_gate(server, "go")
            self.assertIn("Out: 'whole'", self.poll(server, 1).text)

    def test_an_endless_loop_ends_without_another_call(self):
        """With a limit that is as long as the wait."""
        with Server("--wait", "1.5", "--timeout", "1.5") as server:
            self.assert_ok(server.python("pass", wait_s=WAIT_S))  # its start counts for the wait
            result = server.python("while True: pass")
            self.assert_kind(result, "timeout")
            self.assertIn("for longer work send timeout_s (at most 3600)", result.status.line)
            self.assert_prints(server.python("print(1)"), "1")

    def test_without_jobs(self):
        with Server("--wait", "off") as server:
            result = server.python("import time; time.sleep(0.5); print('whole')", wait_s=0.1)
            self.assert_prints(result, "whole")
            self.assertIn("wait_s is ignored", result.status.line)
            tool = next(tool for tool in server.request("tools/list")["result"]["tools"]
                        if tool["name"] == "run_python")
            self.assertFalse({"wait_s", "job", "stop"} & set(tool["inputSchema"]["properties"]))

    def test_what_the_schema_says(self):
        with Server(*JOBS) as server:
            tool = next(tool for tool in server.request("tools/list")["result"]["tools"]
                        if tool["name"] == "run_python")
            schema = tool["inputSchema"]
            self.assertNotIn("code", schema.get("required", []))
            self.assertLessEqual({"wait_s", "job", "stop"}, set(schema["properties"]))
            self.assertIn("Default 25", schema["properties"]["wait_s"]["description"])
            self.assertIn("Default 300, at most 3600", schema["properties"]["timeout_s"]["description"])

    def test_a_background_process_of_a_job_lives_on(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "daemon('mine')")
            self.assert_ok(self.poll(server, job))
            self.assertTrue(self.is_alive(server, "mine"))


class Arguments(JobCase):
    def test_a_call_needs_something_to_do(self):
        with Server(*JOBS) as server:
            for arguments in ({}, {"timeout_s": 5}, {"wait_s": 1}, {"session": "other"}, {"stop": False}):
                result = server.call("run_python", **arguments)
                self.assertTrue(result.is_error, result.text)
                self.assertIn("code", result.text)
                self.assertNotIn("\n", result.text)

    def test_undo_restore_and_reset_need_no_code(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 1", checkpoint="one"))
            self.assert_ok(server.python("x = 2"))
            for arguments in ({"undo": True}, {"restore": "one"}, {"checkpoint": "two"}, {"reset": True}):
                result = server.call("run_python", **arguments)
                self.assertFalse(result.is_error, f"{arguments}: {result.text}")

    def test_arguments_that_exclude_each_other(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 1", checkpoint="one"))
            job = self.begin(server, "until('go'); x = 2", session="other")
            for others in ({"code": "x = 3"}, {"undo": True}, {"fresh": True}, {"reset": True}, {"restore": "one"}):
                for own in ({"job": job}, {"stop": True}, {"job": job, "stop": True}):
                    result = server.call("run_python", **own, **others)
                    self.assertTrue(result.is_error, result.text)
                    self.assertNotIn("\n", result.text)
            self.assert_prints(server.python("print(x)"), "1")
            self.assert_running(self.poll(server, job, wait_s=0), job)
            self.open_gate(server, "go")
            self.assert_ok(self.poll(server, job))

    def test_wrong_values(self):
        with Server(*JOBS) as server:
            for arguments in ({"job": 0}, {"job": -1}, {"job": 1.5}, {"job": "1"}, {"job": True},
                              {"code": "1", "wait_s": -1},
                              {"code": "1", "wait_s": "soon"}, {"job": 1, "stop": "maybe"}):
                result = server.call("run_python", **arguments)
                self.assertTrue(result.is_error, f"{arguments}: {result.text}")
            for arguments in ({"wait_s": 1e300}, {"wait_s": 3601}, {"wait_s": 1e18}):
                self.assert_prints(server.python("print(1)", **arguments), "1")

    def test_numbers_that_are_no_jobs(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go')", session="slow")
            for number in (2, 99, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 62):
                result = server.call("run_python", job=number)
                self.assertTrue(result.is_error, result.text)
                self.assertIn(f"no job {number}", result.text)
                self.assertRegex(result.text, rf"Jobs: {job} \(running for \d+ s\)")
            self.open_gate(server, "go")

    def test_stop_without_a_number(self):
        with Server(*JOBS) as server:
            result = server.call("run_python", stop=True)
            self.assertTrue(result.is_error, result.text)
            one = self.begin(server, "time.sleep(600)", session="a")
            two = self.begin(server, "time.sleep(600)", session="b")
            result = server.call("run_python", stop=True)
            self.assertTrue(result.is_error, result.text)
            self.assertRegex(result.text, rf"{one} \(running for \d+ s\), {two} \(running for \d+ s\)")
            self.assert_stopped(self.stop(server, one), one)
            self.assert_stopped(server.call("run_python", stop=True, wait_s=WAIT_S), two)


class Polls(JobCase):
    def test_a_cancelled_poll_consumes_nothing(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('one', flush=True); open('printed', 'w').close(); until('go')")
            self.wait_for_file(server, "printed")
            for _ in range(5):
                call = server.start_call("run_python", job=job, wait_s=WAIT_S)
                server.cancel(call)
            server.request("ping")
            self.assertEqual(self.wait_for_output(server, job, "one"), "one\n")
            self.open_gate(server, "go")
            self.assert_prints(self.poll(server, job), "")
            self.assert_prints(self.poll(server, job), "one")

    def test_a_poll_ends_at_the_end_of_a_line(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('whole\\nha', end='', flush=True); open('1', 'w').close(); until('go')\n"
                                     "print('lf', flush=True); open('2', 'w').close(); until('stop')")
            self.wait_for_file(server, "1")
            self.assertEqual(self.wait_for_output(server, job, "whole"), "whole\n")
            self.open_gate(server, "go")
            self.wait_for_file(server, "2")
            seen = self.wait_for_output(server, job, "lf")
            self.assertEqual(seen.replace("\n", ""), "half")
            self.open_gate(server, "stop")
            self.assert_prints(self.poll(server, job), "")
            self.assert_prints(self.poll(server, job), "whole\nhalf")

    def test_the_end_returns_a_line_that_has_not_ended(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('one', flush=True); until('go'); print('half', end='', flush=True)")
            self.wait_for_output(server, job, "one")
            self.open_gate(server, "go")
            self.assert_prints(self.poll(server, job), "half")
            self.assert_prints(self.poll(server, job), "one\nhalf")

    def test_the_end_names_the_file_with_all_output(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "print('one', flush=True); until('go'); print('x\\n' * 20000)")
            self.wait_for_output(server, job, "one")
            self.open_gate(server, "go")
            result = self.poll(server, job)
            self.assertRegex(result.output, r"the whole output \(40 kB\) is in \S*/output/job-1\.txt")
            self.assertNotIn("one", result.output)

    def test_polls_side_by_side(self):
        """Each line goes to one of them; the result, with the lines since, to all that wait."""
        with Server(*JOBS) as server:
            first = server.python(PREPARE + COUNT, wait_s=0, **LONG)
            job = self.assert_running(first)
            calls = [server.start_call("run_python", job=job, wait_s=0.05 * i) for i in range(40)]
            results = [server.finish_call(call) for call in calls]
            for result in results:
                self.assert_running(result, job)
            lines = sorted(number for result in (first, *results) for number in numbered(result.output))
            self.assertEqual(lines, list(range(len(lines))))
            calls = [server.start_call("run_python", job=job, wait_s=WAIT_S) for _ in range(40)]
            self.open_gate(server, "enough")
            texts = {server.finish_call(call).text for call in calls}
            self.assertEqual(len(texts), 1)
            lines += numbered(texts.pop())
            self.assertEqual(lines, list(range(len(lines))))

    def test_the_last_eight_results_are_kept(self):
        with Server(*JOBS) as server:
            for number in range(1, 11):
                self.assertEqual(self.begin(server, f"print('job', {number})", session=f"s{number % 3}"), number)
                self.assert_prints(self.poll(server, number), f"job {number}")
            for number in (1, 2):
                result = self.poll(server, number)
                self.assertTrue(result.is_error, result.text)
                self.assertIn("3 (ok), 4 (ok)", result.text)
                self.assertIn("10 (ok)", result.text)
            for number in range(3, 11):
                self.assert_prints(self.poll(server, number), f"job {number}")

    def test_the_first_result_after_its_end_announces_it(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("1"))
            job = self.begin(server, "until('go'); print(1 // 0)", session="slow")
            self.assertFalse(server.python("1").text.startswith("[job"))
            self.open_gate(server, "go")
            self.assert_announced_once(server, job, "error: ZeroDivisionError")
            result = self.poll(server, job)
            self.assert_kind(result, "error")
            self.assertFalse(result.text.startswith("[job"), result.text)

    def assert_announced_once(self, server, job, outcome):
        said, until = [], time.monotonic() + WAIT_S
        while not said:
            self.assertLess(time.monotonic(), until)
            text = server.python("print('x')").text
            said = [line for line in text.split("\n") if line.startswith(f"[job {job} ended ")]
            self.assertTrue(not said or text.startswith(said[0]), text)
        self.assertRegex(said[0], rf'^\[job {job} ended after \d+ s: {outcome}; fetch it with {{"job": {job}}}\]$')
        self.assertNotIn("ended after", server.python("print('x')").text)

    def test_a_fetched_result_is_not_announced(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "pass")
            self.assert_ok(self.poll(server, job))
            self.assertNotIn("ended after", server.python("print('x')").text)

    def test_a_cancelled_call_does_not_take_the_announcement(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go'); open('gone', 'w').close()", session="slow")
            call = server.start_call("run_python", code=PREPARE + "open('up', 'w').close(); time.sleep(600)",
                                     wait_s=WAIT_S, session="other", **LONG)
            self.wait_for_file(server, "up", fresh=True)
            self.open_gate(server, "go")
            self.wait_for_file(server, "gone")
            until = time.monotonic() + WAIT_S  # an error does not announce; its list says when the job has ended
            while f"{job} (ok)" not in server.call("run_python", job=99).text:
                self.assertLess(time.monotonic(), until)
            server.cancel(call)
            # The cancelled call ends before the next one of its session begins.
            first = server.python("print('x')", session="other", wait_s=WAIT_S)
            self.assertTrue(first.text.startswith(f"[job {job} ended after "), first.text)

    def test_structured(self):
        with Server(*JOBS, "--structured") as server:
            result = server.python(PREPARE + "print('one', flush=True); open('p', 'w').close(); until('go'); 5",
                                   wait_s=0, session="slow", **LONG)
            running = result.raw["structuredContent"]
            self.assertEqual((running["status"], running["job"], running["state"]), ("running", 1, "running"))
            self.assertEqual(json.loads(result.content[0]["text"]), running)
            self.wait_for_file(server, "p")
            self.assertIn("one", running["stdout"] + self.poll(server, 1, wait_s=0).raw["structuredContent"]["stdout"])
            self.open_gate(server, "go")
            ended = self.poll(server, 1).raw["structuredContent"]
            self.assertEqual((ended["status"], ended["job"], ended["result"], ended["stdout"]), ("ok", 1, "5", ""))
            self.assertEqual(self.poll(server, 1).raw["structuredContent"]["stdout"], "one\n")
            server.python("import time; time.sleep(600)", wait_s=0, session="slow", **LONG)
            stopped = self.stop(server, 2).raw
            self.assertEqual(stopped["structuredContent"]["status"], "stopped")
            self.assertFalse(stopped.get("isError", False))
            server.python("1 / 0", wait_s=0, session="slow", **LONG)
            until = time.monotonic() + WAIT_S
            while "ended_jobs" not in (other := server.python("1").raw["structuredContent"]):
                self.assertLess(time.monotonic(), until)
            self.assertRegex(other["ended_jobs"], r"^\[job 3 ended after \d+ s: error: ZeroDivisionError")


class TheSession(JobCase):
    """What belongs to a job, and what does not."""

    def test_a_call_to_its_session_does_not_run(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = []"))
            job = self.begin(server, "until('go')")
            for wait_s in (0, 0.3):
                result = server.python("x.append(1); open('ran', 'w').close()", wait_s=wait_s)
                self.assert_not_run(result, job)
                self.assertIn(f'{{"job": {job}}}', result.status.line)
            self.open_gate(server, "go")
            self.assert_ok(self.poll(server, job))
            self.assert_prints(server.python("print(x)"), "[]")
            self.assertTrue(server.read("ran").is_error)

    def test_a_call_in_line_runs_after_it(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "until('go'); x = 1")
            calls = [server.start_call("run_python", code="x += 1; print(x)", wait_s=WAIT_S) for _ in range(3)]
            self.open_gate(server, "go", fresh=True)  # write_file would wait for the calls in line
            for number, call in enumerate(calls):
                self.assertIn(f"{number + 2}", server.finish_call(call).output)
            self.assert_ok(self.poll(server, job))

    def test_undo_restore_and_reset_stop_it(self):
        for arguments, x in (({"undo": True}, "1"), ({"restore": "one"}, "0"), ({"reset": True}, "None")):
            with self.subTest(arguments), Server(*JOBS) as server:
                self.assert_ok(server.python("x = 0", checkpoint="one"))
                self.assert_ok(server.python("x = 1"))
                job = self.begin(server, "x = 2; open('up', 'w').close(); time.sleep(600)")
                self.wait_for_file(server, "up")
                result = server.python("print(globals().get('x'))", wait_s=WAIT_S, **arguments)
                self.assertFalse(result.is_error, result.text)
                self.assertIn(x, result.lines)
                self.assertIn(f"| this call stopped job {job}", result.status.line)
                ended = self.poll(server, job)
                self.assert_stopped(ended, job)
                self.assertEqual(ended.status.state,
                                 f"{KEPT} until the call with {next(iter(arguments))} that stopped this job")
                self.assertNotIn("this call stopped", server.python("1").text)

    def test_a_refused_restore_says_that_it_stopped_it(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "time.sleep(600)")
            result = server.python("1", restore="unknown", wait_s=WAIT_S)
            self.assertTrue(result.is_error, result.text)
            self.assertIn(f" This call stopped job {job}.", result.text)

    def test_undo_right_behind_it(self):
        """Also where the cell has not begun, because the state before it is still being copied."""
        with Server(*JOBS) as server:
            first = server.start_call("run_python", code="x = [0]; big = [bytes(50) for _ in range(300_000)]")
            self.assert_ok(server.finish_call(first))
            for number in range(1, 6):
                with server.at_once():
                    first = server.start_call("run_python", code="x.append(1); import time; time.sleep(600)",
                                              wait_s=0, **LONG)
                    second = server.start_call("run_python", code="print(x)", undo=True, wait_s=WAIT_S)
                self.assert_running(server.finish_call(first), number)
                result = server.finish_call(second)
                self.assertFalse(result.is_error, result.text)
                self.assertIn("[0]", result.lines)
                self.assert_stopped(self.poll(server, number), number)

    def test_undo_of_one_whose_code_has_not_begun(self):
        long_to_compile = "x.append(1)\n" + "pass\n" * 300_000
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = [0]"))
            job = self.begin(server, long_to_compile)
            result = server.python("print(x)", undo=True, wait_s=WAIT_S)
            self.assertIn("[0]", result.lines, result.text)
            self.assert_stopped(self.poll(server, job), job)

    def test_undo_of_one_that_ignores_interrupts(self):
        deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx.append(1)\n" \
               "open('up', 'w').close()\nwhile True: time.sleep(1)"
        with Server(*JOBS) as server:
            self.assert_ok(server.python("import time; x = [0]"))
            job = self.begin(server, deaf)
            self.wait_for_file(server, "up")
            result = server.python("print(x)", undo=True, wait_s=WAIT_S)
            self.assertIn("[0]", result.lines, result.text)
            self.assertRegex(self.poll(server, job).text, "stopped|killed")

    def test_a_named_state_is_saved_at_its_end(self):
        with Server(*JOBS) as server:
            job = self.begin(server, "x = 'job'; until('go')", checkpoint="done")
            self.open_gate(server, "go")
            self.assertEqual(self.poll(server, job).status.field("checkpoint"), 'saved as "done"')
            self.assert_ok(server.python("x = 'other'"))
            self.assert_prints(server.python("print(x)", restore="done"), "job")

    def test_others_respond_while_it_runs(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 'default'"))
            self.assert_ok(server.python("x = 'other'", session="other"))
            job = self.begin(server, "until('go')")
            self.assert_prints(server.python("print(x)", session="other"), "other")
            self.assert_prints(server.python("print('x' in globals())", fresh=True), "False")
            self.assertFalse(server.write("a.txt", "text\n").is_error)
            result = server.read("a.txt")
            self.assertFalse(result.is_error)
            self.assertEqual(result.text, "text\n")  # without a note on an earlier call
            self.assert_running(self.poll(server, job, wait_s=0), job)
            self.open_gate(server, "go")
            self.assert_ok(self.poll(server, job))

    def test_a_fresh_cell_can_be_a_job(self):
        with Server(*JOBS) as server:
            self.assert_ok(server.python("x = 'session'"))
            job = self.begin(server, "x = 'fresh'; until('go'); print(x)", fresh=True)
            self.assert_prints(server.python("print(x)"), "session")
            self.open_gate(server, "go")
            result = self.poll(server, job)
            self.assertEqual((result.is_error, result.lines[0]), (False, "fresh"), result.text)
            self.assert_prints(server.python("print(x)"), "session")
            job = self.begin(server, "time.sleep(600)", fresh=True)
            self.assert_stopped(self.stop(server, job), job)

    def test_at_most_so_many_run_at_once(self):
        with Server(*JOBS, "--jobs", "2") as server:
            one = self.begin(server, "until('go')", session="a")
            two = self.begin(server, "until('go')", session="b")
            result = server.python("open('ran', 'w').close()", wait_s=0, session="c", **LONG)
            self.assert_not_run(result)
            full = f"2 jobs are running, which is the limit (--jobs): wait for or stop one of the jobs {one}, {two}"
            self.assertIn(full, result.status.line)
            self.assert_ok(server.python("import time", session="c", wait_s=WAIT_S))
            result = server.python("time.sleep(2); print('whole')", wait_s=0.5, session="c", **LONG)
            self.assert_prints(result, "whole")  # its own limit bounds it, not wait_s
            self.assertIn(f"| note: the call took longer than wait_s: {full}]", result.status.line)
            result = server.python("time.sleep(600)", wait_s=0.5, timeout_s=2, session="c")
            self.assertRegex(result.status.line, r"^\[timeout: 2 s limit; .*the call took longer than wait_s: ")
            self.assert_prints(server.python("print(1)", session="c"), "1")
            self.assertTrue(server.read("ran").is_error)
            late = server.start_call("run_python", code=PREPARE + "open('up', 'w').close(); until('later')", wait_s=0.5,
                                     session="c", **LONG)
            self.wait_for_file(server, "up")
            self.open_gate(server, "go", fresh=True)
            self.assert_ok(self.poll(server, one))
            self.assert_ok(self.poll(server, two))
            self.assert_running(server.finish_call(late), 3)  # as soon as there may be one more
            self.open_gate(server, "later")
            self.assert_ok(self.poll(server, 3))
            three = self.begin(server, "pass", session="c")
            self.assert_ok(self.poll(server, three))

    def test_the_limit_holds_for_calls_sent_together(self):
        with Server(*JOBS, "--jobs", "2") as server:
            with server.at_once():
                calls = [server.start_call("run_python", code="import time; time.sleep(600)", wait_s=0,
                                           session=f"s{i}", **LONG) for i in range(5)]
            results = [server.finish_call(call) for call in calls]
            for result, number in zip(results, (1, 2)):
                self.assert_running(result, number)
            for result in results[2:]:
                self.assert_not_run(result)

    def test_a_job_is_use(self):
        with Server(*JOBS, "--idle-exit", "1") as server:
            job = self.begin(server, f"time.sleep({3 * SLOW}); print('slept')", timeout_s=600)
            time.sleep(2 * SLOW)  # the server must be there, however long this takes within the job
            self.assert_running(self.poll(server, job, wait_s=0), job)
            self.assert_prints(self.poll(server, job), "slept")
            self.assertEqual(server.join(timeout=20), 0)


if __name__ == "__main__":
    unittest.main()
