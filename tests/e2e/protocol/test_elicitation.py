"""Elicitation: the server asks the user through the client, by a request or, in 2026-07-28, by a result."""
import http.server
import os
import signal
import tempfile
import unittest

from client import LATEST, Case, Result, Server, need_userns
from index import projects

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
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = result["requestState"]


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"served"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


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
