"""What a cell asks the user: grants with `ask`."""
import time
import unittest

from client import Result, Server
from elicitations_case import Elicitations
from later import clock
from tools_case import BEGIN

from test_elicitation import ACCEPT, DECLINE, META, AskingServer, ModernServer


class Grants(Elicitations):
    def test_each_call_is_asked_about_and_shown_as_it_is(self):
        with self.asking() as server:
            server.answers = [ACCEPT, ACCEPT]
            result = self.python(server, "stand.add(by=2), stand.add(by=2, to='x\\u202e|')")
            self.assertIn("Out: ('2', '4')", result.output)
            messages = [question["params"]["message"] for question in server.questions]
            self.assertEqual(messages[0], 'Python code in the sandbox wants to call stand.add with {"by":2}. Allow this call?')
            self.assertIn(r'{"by":2,"to":"x\u202E|"}', messages[1])
            self.assertEqual(server.questions[0]["params"]["requestedSchema"], {"type": "object", "properties": {}})
            self.python(server, "stand.rows(page=1)")  # allowed by trust_hints, without a question
            self.assertEqual((len(messages), self.counter()), (2, 4))

    def test_what_the_user_refuses_does_not_leave_and_uses_up_nothing(self):
        words = {"The user declined.": DECLINE, "The user closed the request": {"action": "cancel"}}
        with self.asking(grants={"add": {"ask": True, "max_calls": 1}}) as server:
            for sentence, answer in words.items():
                server.answers = [answer]
                text = self.python(server, "stand.add()").text
                self.assertIn("PermissionError: not approved: stand.add. " + sentence, text)
                self.assertEqual(self.counter(), 0)
            server.answers = [ACCEPT]
            self.assertIn("Out: '1'", self.python(server, "stand.add()").text)
            self.assertIn("no calls are left", self.python(server, "stand.add()").text)
            self.assertEqual((len(server.questions), self.counter()), (3, 1))

    def test_code_cannot_disguise_a_question_nor_wear_the_user_down(self):
        with self.asking() as server:
            server.answers = [ACCEPT, ACCEPT, ACCEPT] + [DECLINE] * 9
            self.python(server, "stand.add(more='a' + ' ' * 400 + 'z' + ' ' * 8), stand.add(more='\u05d0 \xe9'), stand.add(more='\xe9')")
            shown = [question["params"]["message"] for question in server.questions]
            self.assertIn(r'with {"more":"a\x20{400}z        "}. Allow', shown[0])
            self.assertIn(r'with {"more":"\u05D0 \u00E9"}. Allow', shown[1])
            self.assertIn('with {"more":"\xe9"}. Allow', shown[2])
            code = "for _ in range(5):\n    try: stand.add()\n    except PermissionError as error: print(error)"
            lines = self.python(server, code).output.splitlines()
            self.assertEqual(["declined" in line for line in lines], [True] * 3 + [False] * 2)
            self.assertIn("refused three times in this cell", lines[-1])
            self.assertEqual((len(server.questions), self.counter()), (6, 3))
            self.assertIn("declined", self.python(server, "stand.add()").text)

    def test_after_three_refusals_what_waits_already_is_not_asked_about(self):
        code = """import threading
threads = [threading.Thread(target=stand.add) for _ in range(20)]
numbers = iter(range(20))
threading.excepthook = lambda details: print(next(numbers), details.exc_value)
for thread in threads: thread.start()
for thread in threads: thread.join()"""
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), self.asking(kind=kind) as server:
                server.answers = [DECLINE] * 20
                lines = self.python(server, code).output.splitlines()
                self.assertEqual(["declined" in line for line in sorted(lines)].count(True), 3)
                self.assertEqual(["refused three times" in line for line in lines].count(True), 17)
                self.assertEqual(len(server.questions), 3)

    def test_the_user_is_asked_a_hundred_times_in_a_cell_at_most(self):
        code = """said = []
for _ in range(103):
    try: said.append(stand.add())
    except PermissionError as error: said.append(str(error))
print(said[99:101])"""
        with self.asking() as server:
            server.answers = [ACCEPT] * 200
            said = self.python(server, code).output
            self.assertIn("['100', ", said)
            self.assertIn("the user was asked 100 times in this cell, and is not asked again before the next one.", said)
            self.assertIn("Out: '101'", self.python(server, "stand.add()").output)
            self.assertEqual((len(server.questions), self.counter()), (101, 101))

    def test_the_checks_come_before_the_elicitation(self):
        with self.asking(grants={"add": {"ask": True, "when": {"to": ["a"]}}}) as server:
            self.assertIn("not granted with these arguments", self.python(server, "stand.add(to='b')").text)
            self.assertIn("TypeError", self.python(server, "stand.add(to=1)").text)
            self.assertIn("too long for the user to read", self.python(server, "stand.add(to='a', more='x' * 5000)").text)
            self.assertEqual((server.questions, self.counter()), ([], 0))

    def test_clients_that_cannot_be_asked_in_the_middle_of_a_call(self):
        with self.asking(kind=Server) as server:
            text = self.python(server, "stand.add()").text
            self.assertIn("PermissionError: not approved: stand.add. It needs the user", text)
            self.assertIn("by removing ask from its grant", text)
        self.assertEqual(self.counter(), 0)

    def test_threads_ask_one_after_the_other(self):
        code = """
import threading
said = []
def work():
    try:
        said.append(stand.add())
    except PermissionError:
        said.append("no")
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sorted(said)"""
        with self.asking(grants={"add": {"ask": True, "max_calls": 2}}) as server:
            server.answers = [DECLINE, *[ACCEPT] * 5]
            self.assertIn("Out: ['1', '2', 'no', 'no', 'no', 'no']", self.python(server, code).output)
            self.assertEqual(self.counter(), 2)


class Modern(Elicitations):
    """Clients of 2026-07-28 are asked by a result; the same cell goes on when they make the call again."""

    def start(self, server, code, arguments=None, **more):
        params = {"name": "run_python", "arguments": arguments or {"code": BEGIN + code}, "_meta": {
            META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {"elicitation": {}}}, **more}
        return server.start("tools/call", params)

    def call(self, server, code, arguments=None, **more):
        return server.wait(self.start(server, code, arguments, **more))["result"]

    def given(self, asked, *answers):
        return {"inputResponses": dict(zip(asked["inputRequests"], answers)), "requestState": asked["requestState"]}

    def again(self, server, code, asked, *answers, **more):
        return self.call(server, code, **self.given(asked, *answers), **more)

    def test_the_cell_waits_and_goes_on(self):
        with self.asking(kind=ModernServer) as server:
            server.answers = [ACCEPT, DECLINE, ACCEPT]
            code = """print('once', flush=True)
for by in (2, 3, 4):
    try: stand.add(by=by)
    except PermissionError as error: print(error)
n = globals().get('n', 0) + 1
n"""
            result = self.python(server, code)
            self.assertEqual(result.output.count("once"), 1)
            self.assertIn("The user declined", result.output)
            self.assertIn("Out: 1", result.output)
            shown = [question["params"]["message"] for question in server.questions]
            self.assertEqual([f'{{"by":{by}}}' in text for by, text in zip((2, 3, 4), shown)], [True] * 3)
            self.assertEqual(self.counter(), 6)
            self.assertIn("Out: 1", self.python(server, "n").output)

    def test_one_response_allows_one_call(self):
        with self.asking(kind=ModernServer) as server:
            code = "stand.add(by=1), stand.add(by=100)"
            first = self.call(server, code)
            second = self.again(server, code, first, ACCEPT)
            self.assertEqual((second["resultType"], self.counter()), ("input_required", 1))
            third = self.again(server, code, first, ACCEPT)  # the same response once more
            self.assertEqual((third["resultType"], self.counter()), ("input_required", 1))
            last = self.again(server, code, third, DECLINE)
            self.assertIn("not approved", last["content"][0]["text"])
            self.assertEqual(self.counter(), 1)
            late = self.again(server, code, first, ACCEPT)  # after its end
            self.assertIn("not approved", late["content"][0]["text"])
            self.assertEqual(self.counter(), 1)

    def test_code_is_not_run_again_for_a_cell_that_is_not_known(self):
        with self.asking(kind=ModernServer) as server:
            result = self.call(server, "stand.rows(page=0)", requestState="job-1-0", inputResponses={"tool #1": ACCEPT})
            self.assertIn("not run: the cell that asked", result["content"][0]["text"])
            for state in 1, {}, "\0":
                with self.assertRaises(KeyError):  # an error, and no result
                    self.call(server, "stand.rows(page=0)", requestState=state, inputResponses={"tool #1": ACCEPT})
            self.assertEqual(self.requests("tools/call rows"), 0)

    def test_a_client_that_does_not_come_back_can_stop_the_cell_or_wait_for_it(self):
        with self.asking(kind=ModernServer) as server:
            self.assertEqual(self.call(server, "stand.add()")["resultType"], "input_required")
            asked = self.call(server, "", {"job": 1})
            self.assertEqual(asked["resultType"], "input_required")
            stopped = self.call(server, "", {"job": 1, "stop": True})
            self.assertIn("stopped: job 1", stopped["content"][0]["text"])
            self.assertIn("Out: 1", self.python(server, "1").output)
            self.assertEqual(self.counter(), 0)

    def test_a_response_counts_though_another_call_waits_for_the_job_too(self):
        with self.asking(kind=ModernServer) as server:
            for job, order in (1, 1), (2, -1):
                given = self.given(self.call(server, "stand.add()"), ACCEPT)
                calls = [("stand.add()", None, given), ("", {"job": job}, {})][::order]
                with server.at_once():
                    calls = [self.start(server, code, arguments, **more) for code, arguments, more in calls]
                for call in calls:
                    self.assertIn(f"Out: '{job}'", server.wait(call)["result"].get("content", [{}])[0].get("text", "asked again"))

    def test_without_a_free_job_it_is_refused_with_the_reason(self):
        with self.asking(kind=ModernServer, flags=("--wait", "25", "--jobs", "1")) as server:
            self.call(server, "", {"code": "while True: pass", "session": "other", "wait_s": 0, "timeout_s": 600})
            self.assertIn("(--jobs)", self.call(server, "stand.add()")["content"][0]["text"])
            self.assertEqual(self.counter(), 0)

    def test_a_cell_that_waits_for_the_client_holds_up_no_other(self):
        with self.asking(kind=ModernServer) as server:
            asked = {}
            for by, name in (1, "a"), (10, "b"), (100, "c"):
                asked[name] = self.call(server, "", {"code": BEGIN + f"stand.add(by={by})", "session": name})
                self.assertEqual(asked[name]["resultType"], "input_required")
            swapped = self.call(server, "b", inputResponses=dict.fromkeys(asked["c"]["inputRequests"], ACCEPT),
                                requestState=asked["b"]["requestState"])
            self.assertEqual((swapped["inputRequests"], self.counter()), (asked["b"]["inputRequests"], 0))
            for name, answer, said in ("c", ACCEPT, "Out: '100'"), ("a", DECLINE, "not approved"), ("b", ACCEPT, "Out: '110'"):
                self.assertIn(said, self.again(server, name, asked[name], answer)["content"][0]["text"])
            self.assertEqual(self.counter(), 110)

    def test_the_time_limit_does_not_run(self):
        with self.asking(kind=ModernServer) as server:
            asked = self.call(server, "", {"code": BEGIN + "stand.add()", "timeout_s": 1})
            time.sleep(2)  # as long as a user may think; the limit is one second
            result = self.again(server, "stand.add()", asked, ACCEPT)
            self.assertIn("Out: '1'", result["content"][0]["text"])

    def test_what_the_client_does_not_come_back_for_is_refused_after_ten_minutes(self):
        code = """try: said = stand.add()
except PermissionError as error: said = error
print(said, end='')"""
        with clock() as later, self.asking(kind=ModernServer, options={"env": later.env}) as server:
            asked = self.call(server, "print(stand.add())")
            later.advance(server, 599)
            result = Result(self.again(server, "print(stand.add())", asked, ACCEPT))
            self.assertEqual((result.output, self.counter()), ("1", 1))
            asked = self.call(server, code)
            later.advance(server, 599 + 601)
            result = Result(self.call(server, "", {"job": 2, "wait_s": 60}))
            self.assertEqual(result.output, "not approved: stand.add. The user did not respond.")
            self.assertEqual(result.status.kind, "ok")  # the time limit, 300 s, has not run
            self.again(server, code, asked, ACCEPT)  # too late
            self.assertEqual(self.counter(), 1)

    def test_forms_of_tool_servers(self):
        with self.asking("--era", "legacy", kind=ModernServer) as server:
            server.answers = [{"action": "accept", "content": {"name": "Ada"}}]
            self.assertIn("{'name': 'Ada'}", self.python(server, "stand.asks()").output)


class Tasks(Elicitations):
    """Clients of 2026-07-28 with tasks are asked when they ask for the task, which requires input then."""

    META = {"_meta": {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {
        "elicitation": {}, "extensions": {META + "tasks": {}}}}}

    def call(self, server, code, **more):
        arguments = {"code": BEGIN + code, **({} if "requestState" in more else {"wait_s": 0})}
        return server.request("tools/call", {"name": "run_python", "arguments": arguments, **self.META, **more})["result"]

    def task(self, server, task, method="tasks/get", **more):
        return server.request(method, {"taskId": task["taskId"], **self.META, **more})["result"]

    def until(self, server, task, status):
        for _ in range(600):
            now = self.task(server, task)
            if now["status"] == status:
                return now
            time.sleep(0.05)
        self.fail(now)

    def give(self, server, task, asked, answer):
        self.task(server, task, "tasks/update", inputResponses=dict.fromkeys(asked["inputRequests"], answer))

    def test_a_task_requires_input_and_goes_on(self):
        with self.asking("--era", "legacy", kind=ModernServer, flags=("--wait", "25")) as server:
            task = self.call(server, "try: stand.add()\nexcept PermissionError as error: print(error)\nprint(stand.add(by=5), stand.asks())")
            self.assertEqual((task["resultType"], task["status"]), ("task", "working"))
            for answer, shown in (DECLINE, "with {}."), (ACCEPT, '{"by":5}'), ({"action": "accept", "content": {"name": "Ada"}}, "stand asks: "):
                asked = self.until(server, task, "input_required")
                (key, request), = asked["inputRequests"].items()
                self.assertEqual(request["method"], "elicitation/create")
                self.assertIn(shown, request["params"]["message"])
                self.assertEqual(self.task(server, task)["inputRequests"], asked["inputRequests"])
                self.task(server, task, "tasks/update", inputResponses={"tool #99": ACCEPT})
                self.assertEqual(self.task(server, task)["inputRequests"], asked["inputRequests"])
                self.give(server, task, asked, answer)
            text = self.until(server, task, "completed")["result"]["content"][0]["text"]
            self.assertIn("not approved: stand.add. The user declined.", text)
            self.assertIn("5 {'action': 'accept', 'content': {'name': 'Ada'}}", text)
            self.assertEqual(self.counter(), 5)

    def test_the_time_limit_does_not_run_and_polling_is_no_response(self):
        code = "try: stand.add()\nexcept PermissionError as error: print(error)"
        with clock() as later, self.asking(kind=ModernServer, flags=("--wait", "25"), options={"env": later.env}) as server:
            task = self.call(server, code)
            asked = self.until(server, task, "input_required")
            for seconds in 300, 599:
                later.advance(server, seconds)
                self.assertEqual(self.task(server, task)["inputRequests"], asked["inputRequests"])
            later.advance(server, 601)
            self.assertIn("The user did not respond.", self.until(server, task, "completed")["result"]["content"][0]["text"])
            self.assertEqual(self.counter(), 0)

    def test_a_call_that_is_made_again_becomes_a_task_too(self):
        with self.asking(kind=ModernServer, flags=("--wait", "25")) as server:
            code = BEGIN + "stand.add()\nstand.slow(s=4)\nstand.add()"
            asked = server.request("tools/call", {"name": "run_python", "arguments": {"code": code}, **self.META})["result"]
            self.assertEqual(asked["resultType"], "input_required")
            task = self.call(server, "", requestState=asked["requestState"], inputResponses=dict.fromkeys(asked["inputRequests"], ACCEPT))
            self.assertEqual(task["resultType"], "task")
            self.give(server, task, self.until(server, task, "input_required"), ACCEPT)
            self.assertIn("Out: '2'", self.until(server, task, "completed")["result"]["content"][0]["text"])

    def test_a_wait_for_the_job_is_asked_instead(self):
        with self.asking(kind=ModernServer, flags=("--wait", "25")) as server:
            task = self.call(server, "stand.add()")
            self.until(server, task, "input_required")
            server.answers = [ACCEPT]
            self.assertIn("Out: '1'", server.call("run_python", job=1).text)
            self.assertEqual(self.task(server, task)["status"], "completed")

    def test_a_task_that_requires_input_can_be_cancelled(self):
        with self.asking(kind=ModernServer, flags=("--wait", "25")) as server:
            task = self.call(server, "stand.add()")
            asked = self.until(server, task, "input_required")
            self.task(server, task, "tasks/cancel")
            self.until(server, task, "cancelled")
            self.give(server, task, asked, ACCEPT)
            self.assertEqual(self.counter(), 0)


class Time(Elicitations):
    """The time of the cell and of its call stands still while the user thinks."""

    def test_the_time_limit_does_not_run(self):
        with self.asking() as server:
            call = server.start_call("run_python", code=BEGIN + "stand.add()", timeout_s=1)
            self.wait_for(server)
            time.sleep(2)  # as long as a user may think; the limit is one second
            self.answer(server, 0, ACCEPT)
            self.assertIn("Out: '1'", server.finish_call(call).output)

    def test_it_stands_still_behind_what_another_cell_asks(self):
        with self.asking() as server:
            first = server.start_call("run_python", code=BEGIN + "stand.add()", session="a")
            self.wait_for(server)
            second = server.start_call("run_python", code=BEGIN + "stand.add()", session="b", timeout_s=2)
            time.sleep(4)
            self.answer(server, 0, ACCEPT)
            self.wait_for(server, 2)
            self.answer(server, 1, ACCEPT)
            self.assertIn("Out: '1'", server.finish_call(first).output)
            self.assertIn("Out: '2'", server.finish_call(second).output)

    def test_who_does_not_respond_for_ten_minutes_has_refused(self):
        self.accept_late("stand.add()", "Out: '1'", "not approved: stand.add. The user did not respond")
        self.assertEqual(self.counter(), 1)

    def test_the_call_does_not_become_a_job_meanwhile(self):
        with self.asking(flags=("--wait", "1")) as server:
            self.python(server, "dir(stand)", wait_s=60)  # what starts takes its time on a busy machine
            call = server.start_call("run_python", code=BEGIN + "stand.add()")
            self.wait_for(server)
            time.sleep(2)
            self.answer(server, 0, ACCEPT)
            self.assertIn("Out: '1'", server.finish_call(call).output)

    def test_a_cancelled_call_ends_the_elicitation_and_the_cell(self):
        with self.asking() as server:
            self.python(server, "x = 1")
            call = server.start_call("run_python", code=BEGIN + "x = 2\nstand.add()")
            self.wait_for(server)
            server.send({"method": "notifications/cancelled", "params": {"requestId": call}})
            self.assertIn("Out: 2", server.python("x").output)
            self.assertEqual(self.counter(), 0)

    def job(self, server):
        """A job that asks whenever there is a file `go`, and prints to a file `said`."""
        code = """
import os, time
while True:
    while not os.path.exists("go"): time.sleep(0.01)
    os.remove("go")
    try: said = stand.add()
    except PermissionError as error: said = error
    with open("said.part", "w") as file: print(said, file=file)
    os.rename("said.part", "said")"""
        self.assertIn("running: job 1", self.python(server, code, wait_s=0).text)

    def said(self, server):
        for _ in range(500):
            result = server.read("said")
            if not result.is_error:
                return result.text
        self.fail("nothing was said")

    def test_a_job_asks_through_the_call_that_waits_for_it(self):
        with self.asking(flags=("--wait", "600")) as server:
            self.job(server)
            server.write("go", "")
            self.assertIn("no waiting call of this client can ask", self.said(server))
            waiting = server.start_call("run_python", job=1, wait_s=600)
            server.write("go", "")
            self.wait_for(server)
            self.answer(server, 0, ACCEPT)
            while self.counter() == 0:
                server.read("said")
            server.call("run_python", job=1, stop=True)
            self.assertIn("stopped", server.finish_call(waiting).text)

    def test_a_stopped_job_withdraws_its_elicitation(self):
        with self.asking(flags=("--wait", "600")) as server:
            self.job(server)
            waiting = server.start_call("run_python", job=1, wait_s=600)
            server.write("go", "")
            self.wait_for(server)
            self.assertIn("stopped", server.call("run_python", job=1, stop=True).text)
            self.assertIn("stopped", server.finish_call(waiting).text)
            self.answer(server, 0, ACCEPT)  # too late
            self.assertIn("Out: 1", server.python("1").output)
            self.assertEqual(self.counter(), 0)

    def test_a_cell_that_ends_withdraws_its_elicitation(self):
        code = """
import threading, time
threading.Thread(target=stand.add, daemon=True).start()
while not QUESTION: time.sleep(0.01)"""
        with self.asking() as server:
            self.python(server, "QUESTION = False")
            call = server.start_call("run_python", code=BEGIN + code, timeout_s=60)
            self.wait_for(server)
            server.send({"method": "notifications/cancelled", "params": {"requestId": call}})
            self.assertIn("Out: 1", server.python("1").text)
            self.answer(server, 0, ACCEPT)  # too late
            self.assertIn("Out: 3", server.python("3").output)
            self.assertEqual(self.counter(), 0)


if __name__ == "__main__":
    unittest.main()
