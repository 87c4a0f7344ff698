"""What tool servers ask the user in the middle of a call."""
import os
import signal
import unittest

from elicitations_case import Elicitations
from tools_case import BEGIN

from test_elicitation import ACCEPT, DECLINE, AskingServer, ModernServer


class OfAnyServer:
    """Elicitations of tool servers, of either era."""

    def test_forms_are_passed_on_with_the_servers_name(self):
        with self.asking("--era", self.era) as server:
            server.answers = [{"action": "accept", "content": {"name": "Ada"}}, DECLINE]
            accepted = self.python(server, "stand.asks()").output
            self.assertIn("{'action': 'accept', 'content': {'name': 'Ada'}}", accepted)
            self.assertIn("{'action': 'decline'}", self.python(server, "stand.asks()").output)
            question = server.questions[0]["params"]
            self.assertEqual(question["message"], r"stand asks: your \x1b[31mname?")
            self.assertEqual(question["requestedSchema"]["properties"]["name"]["title"], r"Na\x1b[1mme")

    def test_urls_and_whatever_cannot_be_asked_are_declined(self):
        with self.asking("--era", self.era) as server:
            self.assertIn("{'action': 'decline'}", self.python(server, "stand.asks(url=True)").output)
            self.assertEqual(server.questions, [])
        with self.server("--era", self.era) as server:
            self.assertIn("{'action': 'decline'}", self.python(server, "stand.asks()").output)

    def test_a_server_that_is_refused_three_times_asks_no_more_in_that_cell(self):
        with self.asking("--era", self.era) as server:
            server.answers = [DECLINE] * 9
            self.python(server, "for _ in range(5): stand.asks()")
            self.assertEqual(len(server.questions), 3)
            self.python(server, "stand.asks()")
            self.assertEqual(len(server.questions), 4)

    def test_the_time_limit_does_not_run_and_no_response_is_a_refusal(self):
        self.accept_late("stand.asks()", "'action': 'accept'", "'action': 'decline'", "--era", self.era)

    def test_a_call_that_ends_withdraws_its_servers_elicitation(self):
        with self.asking("--era", self.era) as server:
            call = server.start_call("run_python", code=BEGIN + "stand.asks()")
            self.wait_for(server)
            server.send({"method": "notifications/cancelled", "params": {"requestId": call}})
            self.assertIn("Out: 1", server.python("1").output)
            self.answer(server, 0, {"action": "accept", "content": {"name": "late"}})
            self.assertIn("{'value': 3}", self.python(server, "stand.echo(value=3)").output)


class OfOlderServers(OfAnyServer, Elicitations):
    """They ask by a request, which does not say for which call."""
    era = "legacy"

    def test_with_calls_of_two_sessions_at_one_server_nobody_is_asked(self):
        with self.asking("--era", self.era) as server:
            other = server.start_call("run_python", code=BEGIN + "stand.never()", session="other")
            while self.requests("tools/call never") == 0:
                server.read("nothing")
            self.assertIn("{'action': 'decline'}", self.python(server, "stand.asks()").output)
            self.assertEqual(server.questions, [])
            server.send({"method": "notifications/cancelled", "params": {"requestId": other}})
            while self.requests("notifications/cancelled ") == 0:
                server.read("nothing")
            server.answers = [DECLINE]
            self.python(server, "stand.asks()")  # for all that is known it is the cancelled call that asks
            self.assertEqual(server.questions, [])
            self.python(server, "stand.asks()", session="other")
            self.assertEqual(len(server.questions), 1)

    def test_what_they_ask_after_a_cell_is_not_asked_in_the_next_one(self):
        with self.asking("--era", self.era) as server:
            server.answers = [DECLINE] * 9
            self.python(server, "stand.asks_late()")
            self.assertIn("slept", self.python(server, "stand.slow(s=0.5)").output)
            self.assertEqual(server.questions, [])
            self.python(server, "stand.echo(value=1); stand.asks()")
            self.assertEqual((len(server.questions), self.requests("ping ")), (1, 3))

    def test_their_results_have_no_type(self):
        with self.asking("--era", self.era) as server:
            for kind in "input_required", "x":
                code = f"""stand.odd(json='{{"resultType": "{kind}", "requestState": "1", "structuredContent": {{"a": 1}}}}')"""
                self.assertIn("Out: {'a': 1}", self.python(server, code).output)


class OfModernServers(OfAnyServer, Elicitations):
    """Those of 2026-07-28 ask by a result, and the call is sent again."""
    era = "modern"

    def test_the_call_is_sent_again_with_the_responses_and_the_state(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), self.asking(kind=kind, grants={"asks": {"max_calls": 1}}) as server:
                server.answers = [{"action": "accept", "content": {"name": name}} for name in ("a", "b")] + [DECLINE]
                before = self.requests("tools/call asks")
                result = self.python(server, "stand.asks(rounds=3)")
                self.assertIn("{'inputResponses': {'the user': {'action': 'decline'}}, 'requestState': '3'}", result.output)
                self.assertRegex(result.status.field("tools"), "^stand.asks ×1 ")
                self.assertEqual((len(server.questions), self.requests("tools/call asks") - before), (3, 4))
                self.assertIn("no calls are left", self.python(server, "stand.asks()").text)

    def test_all_of_one_result_are_asked_about(self):
        form = {"message": "which?", "requestedSchema": {"type": "object", "properties": {}}}
        requests = {key: {"method": "elicitation/create", "params": form} for key in "abc"}
        with self.asking() as server:
            server.answers = [ACCEPT, DECLINE, ACCEPT]
            result = self.python(server, f"print(stand.asks(result={{'inputRequests': {requests}}}))")
            self.assertEqual(result.output, "{'inputResponses': {'a': {'action': 'accept', 'content': {}}, "
                             "'b': {'action': 'decline'}, 'c': {'action': 'accept', 'content': {}}}}")

    def test_a_state_alone_is_sent_back_at_once(self):
        with self.asking() as server:
            state = "'\\0\\u2028 \\x1b'"
            result = self.python(server, f"stand.asks(result={{'requestState': {state}}}) == {{'requestState': {state}}}")
            self.assertIn("Out: True", result.output)
            self.assertEqual(server.questions, [])

    def test_what_cannot_be_given_is_refused(self):
        form = {"method": "elicitation/create", "params": {"message": "a", "requestedSchema": {"type": "object"}}}
        wrong = {"asks for more than forms, such as sampling or roots": [
                     {"inputRequests": {"a": form, "b": {"method": method}}} for method in
                     ("sampling/createMessage", "roots/list", "x", 1)],
                 "not as the protocol has it": [{}, {"inputRequests": []}, {"requestState": 1}, {"requestState": None}],
                 "in more than 1 MiB": [{"requestState": "x" * (1 << 20)}],
                 "of an unknown type": [{"resultType": "x"}]}
        with self.asking() as server:
            for sentence, results in wrong.items():
                for result in results:
                    text = self.python(server, f"stand.asks(result={result})").text
                    self.assertRegex(text, "ToolError: the tool server.*" + sentence)
            self.assertEqual(server.questions, [])
            self.assertIn("{'value': 3}", self.python(server, "stand.echo(value=3)").output)

    def test_what_is_no_form_is_declined_and_reaches_no_client(self):
        wrong = [{}, [], {"type": "object"}, {"type": "x", "properties": {}}, {"type": "object", "properties": []},
                 {"type": "object", "properties": {"a": 1}}, {"type": "object", "properties": {"a": {"type": "object"}}},
                 {"type": "object", "properties": {"a": {"type": "string", "oneOf": [{"const": "a\x1b", "title": "A"}]}}},
                 {"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [1]}}}}]
        with self.asking() as server:
            for schema in wrong:
                form = {"method": "elicitation/create", "params": {"message": "a", "requestedSchema": schema}}
                said = self.python(server, f"print(stand.asks(result={{'inputRequests': {{'a': {form}}}}}))").output
                self.assertEqual(said, "{'inputResponses': {'a': {'action': 'decline'}}}")
            self.assertEqual(server.questions, [])

    def test_forms_have_what_the_protocol_knows_and_nothing_else(self):
        choices = {"oneOf": [{"const": "a", "title": "A\x1b", "more": 1}]}
        form = {"message": "a", "requestedSchema": {"$schema": "x", "type": "object", "required": ["a", "c"], "properties": {
            "a": {"type": "string", "description": "x" * 5000, "pattern": "x", "default": None, **choices}}}}
        with self.asking() as server:
            server.answers = [DECLINE]
            self.python(server, f"stand.asks(result={{'inputRequests': {{'a': {{'method': 'elicitation/create', 'params': {form}}}}}}})")
            asked = server.questions[0]["params"]["requestedSchema"]
            property = asked["properties"]["a"]
            self.assertLess(len(property.pop("description")), 1010)
            self.assertEqual(asked, {"type": "object", "required": ["a"], "properties": {
                "a": {"type": "string", "oneOf": [{"const": "a", "title": r"A\x1b"}]}}})

    def test_a_request_of_the_servers_which_names_no_call_is_refused(self):
        with self.asking() as server:
            self.assertIn("Method not found", self.python(server, "stand.asks(request=True)").output)
            self.assertEqual(server.questions, [])

    def test_a_server_that_asks_for_ever_is_not_asked_for_ever(self):
        with self.asking() as server:
            self.assertIn("has asked for input 16 times in this call", self.python(server, "stand.asks(rounds=99, url=True)").text)
            self.assertEqual(self.requests("tools/call asks"), 17)

    def test_a_server_that_exits_meanwhile(self):
        with self.asking() as server:
            call = server.start_call("run_python", code=BEGIN + "stand.asks()")
            self.wait_for(server)
            os.kill(self.pids()[-1], signal.SIGKILL)
            self.assertIn("whether the call was carried out is unknown", server.finish_call(call).text)
            self.answer(server, 0, ACCEPT)  # too late
            self.assertIn("{'value': 3}", self.python(server, "stand.echo(value=3)").output)

    def test_each_session_is_asked_for_its_own_call(self):
        with self.asking() as server:
            other = server.start_call("run_python", code=BEGIN + "stand.never()", session="other")
            while self.requests("tools/call never") == 0:
                server.read("nothing")
            server.answers = [ACCEPT]
            self.assertIn("'accept'", self.python(server, "stand.asks()").output)
            server.cancel(other)


if __name__ == "__main__":
    unittest.main()
