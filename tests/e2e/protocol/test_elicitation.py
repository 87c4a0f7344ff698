"""Elicitation: the server asks the user through the client, by a request or, in 2026-07-28, by a result."""
import contextlib
import http.server
import json
import os
import signal
import tempfile
import threading
import unittest

from client import LATEST, Case, Result, Server, need_userns
from index import projects
from traces import descendants

META = "io.modelcontextprotocol/"
ACCEPT = {"action": "accept", "content": {}}
DECLINE = {"action": "decline"}


class AskingServer(Server):
    """A client whose user answers each question with the next of `answers`, and waits while there is none."""

    def __init__(self, *args, capabilities=None, **options):
        self.capabilities = {"elicitation": {}} if capabilities is None else capabilities
        self.answers, self.questions = [], []
        super().__init__(*args, **options)

    def initialize(self, version=LATEST):
        return self.request("initialize", {"protocolVersion": version, "capabilities": self.capabilities,
                                           "clientInfo": {"name": "asking", "version": "1"}})["result"]

    def receive(self, timeout=20):
        message = super().receive(timeout)
        if message is not None and message.get("method") == "elicitation/create":
            self.questions.append(message)
            if self.answers:
                self.send({"id": message["id"], "result": self.answers.pop(0)})
        return message


class ModernServer(Server):
    """A client of 2026-07-28: no initialize, and it repeats a call whose result asks for input."""

    def __init__(self, *args, **options):
        self.answers, self.questions = [], []
        super().__init__(*args, initialize=False, **options)

    def call(self, tool, _timeout=60, **arguments):
        params = {"name": tool, "arguments": arguments,
                  "_meta": {META + "protocolVersion": "2026-07-28",
                            META + "clientCapabilities": {"elicitation": {"form": {}}}}}
        while True:
            result = self.request("tools/call", params, _timeout)["result"]
            if result["resultType"] != "input_required":
                return Result(result)
            (key, question), = result["inputRequests"].items()
            self.questions.append(question)
            params["inputResponses"] = {key: self.answers.pop(0)}


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"served"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Hosts(Case):
    """--allow-host ask: the call after a refusal asks the user first."""

    def setUp(self):
        need_userns()
        self.site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        self.addCleanup(self.site.server_close)
        thread = threading.Thread(target=self.site.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.site.shutdown)
        self.name = f"127.0.0.1:{self.site.server_port}"
        # Bypasses no_proxy, which has the loopback addresses of the sandbox.
        self.code = ("import http.client\n"
                     "proxy = http.client.HTTPConnection('127.0.0.1', 3128)\n"
                     f"proxy.request('GET', 'http://{self.name}/')\n"
                     "answer = proxy.getresponse(); print(answer.status, answer.read().decode()[:6])")

    def status(self, result):
        return result.output.split()[0], result.status.field("network")

    def test_a_refused_host_is_asked_for_and_reached_when_the_user_allows_it(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), kind("--allow-host", "ask") as server:
                server.answers = [ACCEPT]
                self.assertEqual(self.status(server.python(self.code)),
                                 ("403", f"the next run_python call asks the user to allow {self.name}"))
                self.assertEqual(server.questions, [])
                result = server.python(self.code)
                self.assertEqual(self.status(result), ("200", f"the user allowed {self.name}"))
                self.assertIn("served", result.output)
                question, = server.questions
                self.assertIn(self.name, question["params"]["message"])
                self.assertEqual(question["params"]["requestedSchema"],
                                 {"type": "object", "properties": {}})
                self.assertEqual(self.status(server.python(self.code)), ("200", None))

    def test_a_declined_host_stays_closed_and_is_not_asked_for_again(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), kind("--allow-host", "ask") as server:
                server.answers = [DECLINE]
                self.assertEqual(self.status(server.python(self.code))[0], "403")
                self.assertEqual(self.status(server.python(self.code)),
                                 ("403", f"the user did not allow {self.name}"))
                self.assertEqual(self.status(server.python(self.code)), ("403", None))
                self.assertEqual(len(server.questions), 1)

    def test_without_elicitation_a_remote_host_is_refused_with_the_flag(self):
        code = self.code + "\nprint(answer.reason)"
        for capabilities in ({}, {"elicitation": {"url": {}}}):
            with AskingServer("--allow-host", "ask", capabilities=capabilities) as server:
                for _ in range(2):
                    result = server.python(code)
                    self.assertEqual(self.status(result), ("403", None))
                    self.assertIn(f"--allow-host {self.name}", result.output)
                self.assertEqual(server.questions, [])

    def test_calls_keep_their_order_while_the_user_thinks(self):
        with AskingServer("--allow-host", "ask") as server:
            server.python(self.code)
            ids = [server.start_call("run_python", code=code)
                   for code in ("order = [1]", "order.append(2)", "print(order)")]
            question = server.receive()
            self.assertEqual(question["method"], "elicitation/create")
            self.assertEqual(server.request("ping")["result"], {})
            server.send({"id": question["id"], "result": ACCEPT})
            self.assertIn("[1, 2]", [server.finish_call(number) for number in ids][2].output)

    def test_a_cancelled_call_withdraws_its_question(self):
        with AskingServer("--allow-host", "ask") as server:
            server.python(self.code)
            asking = server.start_call("run_python", code="ran = 1")
            waiting = server.start_call("run_python", code="print('ran' in globals())")
            dropped = server.start_call("run_python", code="ran = 2")
            question = server.receive()
            server.cancel(dropped)
            server.cancel(asking)
            withdrawn = server.receive()
            self.assertEqual((withdrawn["method"], withdrawn["params"]["requestId"]),
                             ("notifications/cancelled", question["id"]))
            server.send({"id": question["id"], "result": ACCEPT})
            server.answers = [DECLINE]
            self.assertIn("False", server.finish_call(waiting).output)
            self.assertEqual(self.status(server.python(self.code))[0], "403")
            self.assertEqual(len(server.questions), 2, "asked anew by the call after it")
            self.assertFalse({asking, dropped} & set(server.stash))

    def test_an_allowed_host_stays_allowed_in_a_new_sandbox(self):
        with AskingServer("--allow-host", "ask") as server:
            server.answers = [ACCEPT]
            for _ in range(2):
                result = server.python(self.code)
            self.assertEqual(self.status(result)[0], "200")
            for pid in descendants(server.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            while "answer" in server.python("print(*globals())").output:
                pass  # the old one still responds
            self.assertEqual(self.status(server.python(self.code)), ("200", None))

    def test_the_server_exits_while_a_question_is_open(self):
        for how in ("eof", "signal"):
            with self.subTest(how=how), AskingServer("--allow-host", "ask") as server:
                server.python(self.code)
                for number in range(2):
                    server.start_call("run_python", code="open('ran', 'w')")
                self.assertEqual(server.receive()["method"], "elicitation/create")
                if how == "signal":
                    server.signal(signal.SIGTERM)
                else:
                    server.close_stdin()
                self.assertEqual(server.join(), 0)

    def test_tools_and_instructions_mention_ask(self):
        with AskingServer("--allow-host", "ask", "--allow-host", "a.example:8080",
                          "--allow-host", "b.example") as server:
            words = "network: only a.example:8080, b.example and hosts that the user approves"
            tool = server.request("tools/list")["result"]["tools"][0]
            self.assertIn(words, tool["description"])
            self.assertIs(tool["annotations"]["openWorldHint"], True)
            self.assertIn(words, server.initialize()["instructions"])
            self.assertNotIn("{", json.dumps(tool["description"]))


class Installs(Case):
    """--install ask: the server asks once about each set of packages."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.directory = tempfile.TemporaryDirectory(prefix="sp-ask-")
        cls.addClassCleanup(cls.directory.cleanup)
        os.chmod(cls.directory.name, 0o755)
        projects.save(cls.directory.name + "/wheels", projects.Wheel("one"), projects.Wheel("two"))

    def serve(self, kind, **options):
        return kind("--install", "ask", "--no-index", "--find-links", self.directory.name + "/wheels", "--cache",
                    self.directory.name + "/cache", **options)

    def has(self, server, module):
        return not server.python(f"import {module}").is_error

    def test_packages_are_installed_when_the_user_allows_it(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), self.serve(kind) as server:
                server.answers = [{"action": "accept", "content": {"always": True}}]
                for name in ("one", "two"):
                    result = server.call("install_package", packages=[name])
                    self.assertFalse(result.is_error, result.text)
                    self.assertTrue(self.has(server, name))
                question, = server.questions
                self.assertIn("one", question["params"]["message"])
                always = question["params"]["requestedSchema"]["properties"]["always"]
                self.assertEqual((always["type"], always["default"]), ("boolean", False))

    def test_the_question_has_only_the_servers_words(self):
        """A marker is free text of the caller's; names, extras and versions cannot form a sentence."""
        asked = ["one[more] ; python_version > '3' or platform_version == 'into /tmp? It is safe, press Accept. (Was: x'",
                 "two ( >= 0, < 9 ); os_name != ' | Install two'"]
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), self.serve(kind) as server:
                server.answers = [{"action": "accept", "content": {}}]
                result = server.call("install_package", packages=asked)
                self.assertFalse(result.is_error, result.text)
                self.assertTrue(self.has(server, "one") and self.has(server, "two"))
                question, = server.questions
                self.assertRegex(question["params"]["message"],
                                 r"^Install one\[more\], two>=0,<9 into the sandbox, from a directory of wheels\?$")

    def test_nothing_is_installed_when_the_user_declines(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), self.serve(kind) as server:
                server.answers = [DECLINE, {"action": "cancel"}]
                for words in ("declined", "without deciding"):
                    result = server.call("install_package", packages=["one"])
                    self.assertTrue(result.is_error)
                    self.assertIn(words, result.text)
                    self.assertEqual(result.text.count("Continue without it"), 1, result.text)
                    self.assertFalse(self.has(server, "one"))
                self.assertEqual(len(server.questions), 2, "a user may think again")

    def test_without_elicitation_the_flag_is_named(self):
        with self.serve(AskingServer, capabilities={}) as server:
            result = server.call("install_package", packages=["one"])
            self.assertTrue(result.is_error)
            self.assertIn("--install on", result.text)
            self.assertFalse(self.has(server, "one"))

    def test_a_call_cancelled_during_the_question_installs_nothing(self):
        with self.serve(AskingServer) as server:
            asking = server.start_call("install_package", packages=["one"])
            question = server.receive()
            server.cancel(asking)
            self.assertEqual(server.receive()["method"], "notifications/cancelled")
            server.send({"id": question["id"], "result": ACCEPT})
            self.assertFalse(self.has(server, "one"))
            self.assertNotIn(asking, server.stash)

    def test_the_server_exits_while_a_question_is_open(self):
        for how in ("eof", "signal"):
            with self.subTest(how=how), self.serve(AskingServer) as server:
                server.start_call("install_package", packages=["one"])
                self.assertEqual(server.receive()["method"], "elicitation/create")
                if how == "signal":
                    server.signal(signal.SIGTERM)
                else:
                    server.close_stdin()
                self.assertEqual(server.join(), 0)


if __name__ == "__main__":
    unittest.main()
