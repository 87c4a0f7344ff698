"""The revision 2026-07-28: each request names its version and is checked alone, beside requests of earlier eras.

helpers/wire.py checks what every result must have (resultType, serverInfo, the fields for caches).
"""
import json
import unittest

from client import LATEST, META, MODERN, STATELESS, Case, Result, Server, need_userns

METHOD_NOT_FOUND, INVALID_PARAMS, UNSUPPORTED_VERSION = -32601, -32602, -32022
ACKNOWLEDGED, PROGRESS = "notifications/subscriptions/acknowledged", "notifications/progress"
SUBSCRIPTION = META + "subscriptionId"
PING = {"jsonrpc": "2.0", "method": "tools/list", "params": {"_meta": STATELESS}}


class Stateless(Case):
    """One server for all cases, which never receives initialize."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server(version=MODERN)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass

    def refused(self, method, meta, **params):
        """The error response to a request with this _meta, which may be None."""
        self.server.send({"id": "r", "method": method,
                          "params": params if meta is None else {**params, "_meta": meta}})
        return self.server.wait("r")

    def test_discover_describes_the_server(self):
        result = self.server.request("server/discover")["result"]
        self.assertEqual(result["supportedVersions"], [MODERN])
        self.assertEqual(result["capabilities"], {"tools": {}})
        self.assertLess(len(result["instructions"]), 2048)
        self.assertGreater(result["ttlMs"], 0)
        self.assertEqual(result["cacheScope"], "public")

    def test_calls_need_no_discover_and_state_is_the_sessions(self):
        self.assert_ok(self.server.python("kept = 1", session="one"))
        self.assert_prints(self.server.python("print(kept)", session="one"), "1")
        self.assertTrue(self.server.python("kept", session="two").is_error)

    def test_each_request_is_checked_alone(self):
        for meta in (None, {}, {META + "clientCapabilities": {}}, {META + "protocolVersion": MODERN},
                     {**STATELESS, META + "protocolVersion": 5}, {**STATELESS, META + "protocolVersion": None},
                     {**STATELESS, META + "clientCapabilities": []}):
            with self.subTest(meta=meta):
                self.assert_error_code(self.refused("tools/list", meta), INVALID_PARAMS)
                self.assertIn("result", self.server.request("tools/list"))

    def test_an_unsupported_version_is_refused_with_the_supported_ones(self):
        for version in ("2030-01-01", LATEST, "", MODERN + "\0"):
            with self.subTest(version=version):
                answer = self.refused("tools/list", {**STATELESS, META + "protocolVersion": version})
                self.assert_error_code(answer, UNSUPPORTED_VERSION)
                self.assertEqual(answer["error"]["data"], {"supported": [MODERN], "requested": version})

    def test_what_a_client_may_leave_out_or_add(self):
        for meta in ({**STATELESS, META + "clientInfo": {"name": "x", "version": "0"}},
                     {**STATELESS, META + "logLevel": "debug", "traceparent": "00-1-2-03"},
                     {**STATELESS, META + "clientCapabilities": {"elicitation": {}, "later": {"x": 1}}}):
            with self.subTest(meta=meta):
                self.assertIn("result", self.refused("tools/list", meta))

    def test_removed_and_undeclared_methods_are_not_found(self):
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
                       "resources/list", "resources/templates/list", "resources/read", "prompts/list",
                       "completion/complete", "tasks/get", "roots/list", "notifications/cancelled"):
            with self.subTest(method=method):
                self.assert_error_code(self.server.request(method), METHOD_NOT_FOUND)

    def test_bad_parameters_are_protocol_errors_and_bad_arguments_results(self):
        for method, params in (("tools/call", {"name": "nope"}), ("tools/call", {}),
                               ("tools/call", {"name": "run_python", "arguments": [1]}),
                               ("tools/list", {"cursor": "bogus"})):
            with self.subTest(method=method, params=params):
                self.assert_error_code(self.server.request(method, params), INVALID_PARAMS)
        self.assert_violation(self.server.call("run_python", code=True), "code")

    def test_the_list_of_tools_never_changes(self):
        before = self.server.request("tools/list")["result"]
        self.server.python("1", session="other")
        self.assertEqual(self.server.request("tools/list")["result"], before)

    def test_a_subscription_is_acknowledged_and_ends_silently(self):
        for request_id in ("s", 0, 2**53 + 1):
            with self.subTest(id=request_id):
                self.server.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, request_id)
                message = self.server.receive()
                self.assertEqual(message["method"], ACKNOWLEDGED)
                self.assertEqual(message["params"], {"notifications": {}, "_meta": {SUBSCRIPTION: request_id}})
                self.server.cancel(request_id)
                self.assertIn("result", self.server.request("tools/list"))
                self.assertNotIn(request_id, self.server.stash)

    def test_progress_increases_and_ends_with_its_call(self):
        for token in (0, "p"):
            with self.subTest(token=token):
                call = self.server.start("tools/call", {
                    "name": "run_python", "_meta": {"progressToken": token}, "arguments": {
                        "code": f"import os, time\nwhile not os.path.exists('go{token}'): print(time.sleep(0.1))"}})
                seen = []
                while "id" not in (message := self.server.receive()) or message["id"] != call:
                    if "id" in message:
                        continue  # the response to the other session
                    self.assertEqual((message["method"], message["params"]["progressToken"]), (PROGRESS, token))
                    seen.append(message["params"]["progress"])
                    if len(seen) == 3:
                        # A write_file would first wait for the call.
                        self.server.start_call("run_python", session="other", code=f"open('go{token}', 'w').close()")
                self.assertEqual(message["id"], call)
                self.assertTrue(seen)
                self.assertEqual(seen, sorted(set(seen)))
                self.assertIn("result", self.server.request("tools/list"))


class Cancelled(Case):
    def test_a_cancelled_call_sends_nothing_more(self):
        with Server(version=MODERN) as server:
            server.python("kept = 1")
            call = server.start("tools/call", {"name": "run_python", "_meta": {"progressToken": 7},
                                               "arguments": {"code": "while True: pass"}})
            while "id" in server.receive():
                pass  # until there is progress: the code runs
            server.cancel(call)
            after = server.start_call("run_python", code="print(kept)")
            self.assertEqual((answer := server.receive())["id"], after)
            self.assert_prints(Result(answer["result"]), "1")


class Eras(Case):
    """Both eras in one process, message by message."""

    def test_both_eras_alternate(self):
        with Server(initialize=False) as server:
            self.assert_error_code(server.request("tools/list"), INVALID_PARAMS)
            self.assertEqual(server.request("server/discover", {"_meta": STATELESS})["result"]["supportedVersions"],
                             [MODERN])
            self.assert_error_code(server.request("tools/list"), INVALID_PARAMS)
            self.assertEqual(server.initialize()["protocolVersion"], LATEST)
            for code in ("kept = 1", "print(kept)"):
                for meta in ({}, {"_meta": STATELESS}):
                    answer = server.request("tools/call", {"name": "run_python", "arguments": {"code": code}, **meta})
                    self.assertEqual("resultType" in answer["result"], bool(meta))
                    self.assert_ok(Result(answer["result"]))
            self.assert_error_code(server.request("server/discover"), METHOD_NOT_FOUND)
            self.assertEqual(server.request("ping")["result"], {})
            self.assert_error_code(server.request("ping", {"_meta": STATELESS}), METHOD_NOT_FOUND)
            one, two = server.request("tools/list"), server.request("tools/list", {"_meta": STATELESS})
            self.assertEqual(one["result"]["tools"], two["result"]["tools"])

    def test_initialize_asks_for_a_version_of_its_own_era(self):
        with Server(initialize=False) as server:
            self.assertEqual(server.initialize(MODERN)["protocolVersion"], LATEST)
            self.assertIn("result", server.request("tools/list"))

    def test_a_batch_of_both(self):
        with Server(version="2025-03-26") as server:
            server.send_line(json.dumps([{**PING, "id": 50}, {"jsonrpc": "2.0", "id": 51, "method": "ping"},
                                         {**PING, "id": 52, "method": "subscriptions/listen"}]))
            answers = {one["id"]: one for one in json.loads(server.lines.get(timeout=60))}
            self.assertEqual(set(answers), {50, 51, 52})
            self.assertIn("resultType", answers[50]["result"])
            self.assertEqual(answers[51]["result"], {})
            self.assertIn("error", answers[52])  # its acknowledgement could not precede it


class End(Case):
    def test_open_subscriptions_are_answered_when_stdin_ends(self):
        with Server(version=MODERN) as server:
            for request_id in ("a", "b"):
                server.start("subscriptions/listen", {"notifications": {}}, request_id)
                self.assertEqual(server.receive()["method"], ACKNOWLEDGED)
            server.close_stdin()
            for request_id in ("a", "b"):
                self.assertEqual(server.wait(request_id)["result"]["_meta"][SUBSCRIPTION], request_id)
            self.assertIsNone(server.receive())


if __name__ == "__main__":
    unittest.main()
