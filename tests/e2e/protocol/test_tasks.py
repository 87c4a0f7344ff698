"""Tasks: what a client gets that declares io.modelcontextprotocol/tasks, where others get a job and its number.

helpers/wire.py checks the form of every task, and that only requests that declare the extension get one.
"""
import calendar
import re
import time
import unittest

from client import LATEST, META, MODERN, SLOW, STATELESS, Case, Result, Server, need_userns
from pictures import png

METHOD_NOT_FOUND, INVALID_PARAMS, MISSING_CAPABILITY = -32601, -32602, -32021
EXTENSIONS = {"extensions": {META + "tasks": {}}}
DECLARED = {"_meta": {**STATELESS, META + "clientCapabilities": EXTENSIONS}}
VARYING = r"[\d.]+ (us|ms|s)\b|/[\w./-]+/output/\w+-\d+\.txt"
SLEEP = "import time; print('begun', flush=True); time.sleep(600)"


class TaskCase(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()

    def start(self, *args, version=MODERN, **options):
        return Server("--wait", "25", "--timeout", "120", *args, version=version, **options)

    @staticmethod
    def call(server, code=None, **arguments):
        """The raw result of a call that declares tasks."""
        if code is not None:
            arguments["code"] = code
        answer = server.request("tools/call", {"name": "run_python", "arguments": arguments, **DECLARED}, timeout=60)
        return answer["result"]

    def task(self, server, code, **arguments):
        result = self.call(server, code, **{"wait_s": 0, **arguments})
        self.assertEqual((result["resultType"], result["status"]), ("task", "working"), result)
        return result

    @staticmethod
    def get(server, task, method="tasks/get"):
        task_id = task["taskId"] if isinstance(task, dict) else task
        return server.request(method, {"taskId": task_id, **DECLARED})

    def end(self, server, task, status="completed"):
        """The task when it has ended, as clients ask for it."""
        deadline = time.monotonic() + 60 * SLOW
        while (now := self.get(server, task)["result"])["status"] == "working":
            self.assertLess(time.monotonic(), deadline, now)
            self.assertLessEqual(task["lastUpdatedAt"], now["lastUpdatedAt"])
            time.sleep(0.05)
        for key in ("taskId", "createdAt", "ttlMs"):
            self.assertEqual(now[key], task[key])
        self.assertEqual(now["status"], status, now)
        return now

    def result(self, server, task):
        return Result(self.end(server, task)["result"])

    def message(self, server, task, pattern):
        """Waits for a task's status message."""
        deadline = time.monotonic() + 60 * SLOW
        while not re.search(pattern, message := self.get(server, task)["result"]["statusMessage"]):
            self.assertLess(time.monotonic(), deadline, message)
            time.sleep(0.05)
        return message


class Ends(TaskCase):
    def test_a_cell_that_runs_for_two_seconds_becomes_a_task(self):
        with self.start() as server:
            self.call(server, "import time", wait_s=60 * SLOW)  # the start of the session counts for the two seconds
            code = "for i in range(30):\n    print('step', i)\n    time.sleep(0.1)\nx = 5"
            began = time.monotonic()
            task = self.call(server, code)
            self.assertGreater(time.monotonic() - began, 1.9)
            self.assertEqual(task["resultType"], "task")
            self.assertRegex(task["taskId"], r"^job-1-[0-9a-f]{32}$")
            self.assertRegex(task["statusMessage"], r'^job 1, \d+ s: "step \d+"$')
            self.assertRegex(task["createdAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            created = calendar.timegm(time.strptime(task["createdAt"][:19], "%Y-%m-%dT%H:%M:%S"))
            self.assertLess(abs(time.time() - created), 60 * SLOW)
            self.assertEqual(task["ttlMs"], (120 + 3600) * 1000)
            done = self.end(server, task)
            self.assertRegex(done["statusMessage"], r"^job 1 ended after \d+ s: ok$")
            self.assert_prints(Result(done["result"]), "\n".join(f"step {i}" for i in range(30)))
            self.assertEqual(self.get(server, task)["result"]["result"], done["result"])  # as often as one likes
            self.assert_prints(Result(self.call(server, "print(x)")), "5")  # and no line about the job

    def test_a_shorter_cell_gets_its_result_and_wait_s_its_time(self):
        with self.start() as server:
            self.call(server, "pass", wait_s=60 * SLOW)
            self.assert_prints(Result(self.call(server, "print(1)")), "1")
            self.assert_prints(Result(self.call(server, "import time; time.sleep(2.5); print(2)", wait_s=60)), "2")

    def test_the_result_is_that_of_the_call(self):
        codes = ("print('a'); 1 + 1", "print('a'); {}['k']", "raise SystemExit(3)",
                 "import os; os.kill(os.getpid(), 9)", "print('x' * 30000)")
        for flags in ((), ("--structured",)):
            with self.start(*flags) as server, self.start(*flags) as other:
                for code in codes:
                    with self.subTest(code=code, flags=flags):
                        one = self.end(server, self.task(server, code))["result"]
                        two = other.request("tools/call", {"name": "run_python", "arguments": {"code": code}})["result"]
                        self.assertEqual(one.keys(), two.keys())
                        self.assertEqual(one.get("isError"), two.get("isError"))
                        self.assertEqual(one["_meta"], two["_meta"])
                        if not flags:
                            self.assertEqual(*(re.sub(VARYING, "...", Result(raw).text) for raw in (one, two)))
                        else:
                            for key in ("status", "result", "error", "state"):
                                self.assertEqual(one["structuredContent"].get(key),
                                                 two["structuredContent"].get(key))

    def test_images_are_in_the_result(self):
        with self.start() as server:
            task = self.task(server, "import time; time.sleep(0.5)\nclass Picture:\n    def _repr_png_(self):\n"
                                     f"        return {png(8, 8)!r}\nPicture()")
            self.assertEqual([block["type"] for block in self.result(server, task).content], ["text", "image"])

    def test_only_the_last_eight_are_kept(self):
        with self.start() as server:
            tasks = []
            for i in range(9):
                tasks.append(self.task(server, f"print({i})"))
                self.assert_prints(self.result(server, tasks[i]), str(i))
            self.assert_error_code(self.get(server, tasks[0]), INVALID_PARAMS)
            for i, task in enumerate(tasks[1:], 1):
                self.assert_prints(self.result(server, task), str(i))

    def test_no_progress_follows(self):
        with self.start() as server:
            declared = {"_meta": {**DECLARED["_meta"], "progressToken": 7}}
            request = server.start("tools/call", {"name": "run_python", "arguments": {"code": SLEEP}, **declared})
            seen = []
            while "id" not in (message := server.receive()):
                seen.append(message["method"])
            self.assertEqual((message["id"], message["result"]["resultType"]), (request, "task"))
            self.assertTrue(seen)
            self.assertTrue(server.silent(6))


class Stops(TaskCase):
    def test_cancel_stops_the_cell(self):
        with self.start() as server:
            server.python("kept = 1")
            task = self.task(server, SLEEP)
            self.message(server, task, r'^job 1, \d+ s: "begun"$')
            self.assertEqual(self.get(server, task, "tasks/cancel")["result"].keys(), {"resultType", "_meta"})
            done = self.end(server, task, "cancelled")
            self.assertRegex(done["statusMessage"], r"^\[stopped: job 1 after .* \| state: kept \(interrupted\)")
            self.assertEqual(self.get(server, task, "tasks/cancel")["result"]["resultType"], "complete")
            self.assert_prints(Result(self.call(server, "print(kept)")), "1")

    def test_cancelling_the_request_does_not(self):
        with self.start() as server:
            request = server.start("tools/call", {"name": "run_python", "arguments": {
                "code": "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('there')",
                "wait_s": 0}, **DECLARED})
            task = server.wait(request)["result"]
            server.cancel(request)
            self.assertEqual(self.get(server, task)["result"]["status"], "working")
            server.write("go", "")
            self.assert_prints(self.result(server, task), "there")

    def test_a_cancel_after_the_end_changes_nothing(self):
        with self.start() as server:
            task = self.task(server, "print(1)")
            self.end(server, task)
            self.assertEqual(self.get(server, task, "tasks/cancel")["result"]["resultType"], "complete")
            self.assert_prints(self.result(server, task), "1")

    def test_a_running_task_does_not_outlive_the_server(self):
        with self.start() as server:  # which looks for processes that are left
            self.task(server, SLEEP)


class Jobs(TaskCase):
    def test_a_task_is_a_job_with_a_number(self):
        with self.start() as server:
            task = self.call(server, SLEEP)  # which has printed before it is one
            running = Result(self.call(server, job=1, wait_s=0))
            self.assertEqual(running.lines[0], "begun")  # nobody has read it so far
            self.assertTrue(running.lines[1].startswith("[running: job 1, "), running.text)
            self.assertEqual(len(Result(self.call(server, job=1, wait_s=0)).lines), 1)
            stopped = Result(self.call(server, job=1, stop=True))
            self.assertIn("[stopped: job 1 after", stopped.text)
            self.assertEqual(self.end(server, task, "cancelled")["statusMessage"], stopped.lines[-1])

    def test_a_call_that_waits_in_line_begins_after_it(self):
        with self.start() as server:
            task = self.task(server, "import time; time.sleep(1); x = 3")
            self.assert_prints(Result(self.call(server, "print(x)")), "3")
            self.assert_ok(self.result(server, task))

    def test_where_no_job_can_begin_the_call_goes_on_for_its_time(self):
        with self.start("--jobs", "1") as server:
            task = self.task(server, SLEEP)
            self.assert_prints(Result(self.call(server, "import time; time.sleep(3); print(1)", session="b")), "1")
            self.assertIn("[not run: 1 job is running", Result(self.call(server, "print(1)", session="b", wait_s=0)).text)
            self.get(server, task, "tasks/cancel")
            self.end(server, task, "cancelled")

    def test_an_undo_cancels_it(self):
        with self.start() as server:
            server.python("x = 1")
            task = self.task(server, "x = 2\n" + SLEEP)
            self.message(server, task, "begun")
            self.assertEqual(Result(self.call(server, "print(x)", undo=True)).lines[0], "1")
            self.end(server, task, "cancelled")


class Declared(TaskCase):
    def test_the_server_declares_them_where_there_are_jobs(self):
        with self.start() as server:
            self.assertEqual(server.request("server/discover")["result"]["capabilities"], {"tools": {}, **EXTENSIONS})
        with self.start("--wait", "off") as server:
            self.assertEqual(server.request("server/discover")["result"]["capabilities"], {"tools": {}})
            result = self.call(server, "import time; time.sleep(2.5); print(1)", wait_s=0)
            self.assertEqual(result["resultType"], "complete")
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                self.assert_error_code(self.get(server, "x", method), METHOD_NOT_FOUND)

    def test_a_request_that_does_not_declare_them_gets_none(self):
        with self.start("--jobs", "9") as server:
            declared = self.task(server, SLEEP, session="b")
            for capabilities in ({}, {"extensions": {}}, {"extensions": {META + "tasks": True}}, {"tasks": {}},
                                 {META + "tasks": {}}):
                meta = {"_meta": {META + "clientCapabilities": capabilities}}
                with self.subTest(capabilities=capabilities):
                    answer = server.request("tools/call", {
                        "name": "run_python", "arguments": {"code": "1", "wait_s": 0, "fresh": True}, **meta})
                    self.assertEqual(answer["result"]["resultType"], "complete")
                    self.assertIn("[running: job", Result(answer["result"]).text)
                    for method, params in (("tasks/get", {"taskId": declared["taskId"]}),
                                           ("tasks/cancel", {"taskId": declared["taskId"]}),
                                           ("tasks/update", {"taskId": declared["taskId"], "inputResponses": {}}),
                                           ("subscriptions/listen", {"notifications": {"taskIds": []}})):
                        answer = server.request(method, {**params, **meta})
                        self.assert_error_code(answer, MISSING_CAPABILITY)
                        self.assertEqual(answer["error"]["data"], {"requiredCapabilities": EXTENSIONS})
            self.assertEqual(self.get(server, declared)["result"]["status"], "working")

    def test_no_handshake_brings_them(self):
        with self.start(version=LATEST, initialize=False) as server:
            greeting = server.request("initialize", {"protocolVersion": LATEST, "capabilities": EXTENSIONS,
                                                     "clientInfo": {"name": "x", "version": "1"}})["result"]
            self.assertEqual(greeting["capabilities"], {"tools": {}})
            self.assertIn("[running: job 1,", server.python(SLEEP, wait_s=0).text)
            self.assert_error_code(server.request("tasks/get", {"taskId": "x"}), METHOD_NOT_FOUND)
            task = self.task(server, "print(1)", session="b")  # a request of the other era
            self.assert_error_code(server.request("tasks/get", {"taskId": task["taskId"]}), METHOD_NOT_FOUND)
            self.assert_prints(self.result(server, task), "1")
            self.assertEqual(server.call("run_python", job=2).lines[0], "1")

    def test_other_ids_are_unknown(self):
        with self.start() as server, self.start() as other:
            task = self.task(server, SLEEP)
            theirs = self.task(other, SLEEP)
            self.assertNotEqual(task["taskId"], theirs["taskId"])
            server.start_call("run_python", code=SLEEP, wait_s=0, fresh=True)  # a job without a name
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                for task_id in (theirs["taskId"], task["taskId"] + "\0", "job-1-" + "0" * 32, "job-1", "1", "", 1,
                                None):
                    with self.subTest(method=method, id=task_id):
                        self.assert_error_code(self.get(server, task_id, method), INVALID_PARAMS)
                missing = server.request(method, DECLARED)["error"]
                self.assertEqual((missing["code"], missing["message"]), (INVALID_PARAMS, "taskId must name a task"))
            self.assertEqual(self.get(server, task)["result"]["status"], "working")

    def test_an_update_is_acknowledged(self):
        with self.start() as server:
            task = self.task(server, SLEEP)
            answer = server.request("tasks/update", {"taskId": task["taskId"], "inputResponses": {"x": {}}, **DECLARED})
            self.assertEqual(answer["result"].keys(), {"resultType", "_meta"})


if __name__ == "__main__":
    unittest.main()
