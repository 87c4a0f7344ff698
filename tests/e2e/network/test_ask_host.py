"""--allow-host ask: the user is asked about hosts that code was refused, and never about what is not public."""
import contextlib
import http.server
import json
import os
import signal
import sys
import threading
import unittest

import egress_world
from client import Case, ROOT, Server, need_userns
from traces import descendants

sys.path.append(str(ROOT / "tests" / "e2e" / "protocol"))

from test_elicitation import ACCEPT, DECLINE, AskingServer, ModernServer, Quiet  # noqa: E402

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()  # its addresses look public


class Hosts(Case):
    """--allow-host ask: the call after a refusal asks the user first."""

    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("namespaces: a network of the test's own is refused here")
        self.site = http.server.ThreadingHTTPServer((egress_world.PUBLIC, 0), Quiet)
        self.addCleanup(self.site.server_close)
        thread = threading.Thread(target=self.site.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.site.shutdown)
        self.name = f"{egress_world.PUBLIC}:{self.site.server_port}"
        # Bypasses no_proxy, which has the loopback addresses of the sandbox.
        self.code = ("import http.client\n"
                     "proxy = http.client.HTTPConnection('127.0.0.1', 3128)\n"
                     f"proxy.request('GET', 'http://{self.name}/')\n"
                     "answer = proxy.getresponse(); print(answer.status, answer.read().decode()[:6])")

    def status(self, result):
        network = result.status.field("network") or ""
        return result.output.split()[0], "refused" if network.startswith("the sandbox's proxy answered") else network or None

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

    def test_what_a_refusal_says_agrees_with_the_question(self):
        refusal = "raise OSError('x is not an allowed host (none); the user can allow it when asked, or at the start: --allow-host x')"
        with AskingServer("--allow-host", "ask") as server:
            result = server.python(self.code + "\nprint(answer.reason)\n!git clone https://other.example/a; exit 128")
            self.assertIn("the user can allow it when asked, or at the start: --allow-host " + self.name, result.output)
            self.assertIn("the next run_python call asks the user to allow " + self.name, result.status.line)
            server.answers = [DECLINE]
            for said in result.status.line, server.python(refusal).text:
                self.assertIn("send the code again if the last line of the result says that the user is asked", said)
                self.assertNotIn("ask the user to allow", said)
        with Server("--allow-host", "one.example") as server:
            self.assertIn("or ask the user to allow it", server.python(refusal).text)

    def test_a_declined_host_stays_closed_and_is_not_asked_for_again(self):
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), kind("--allow-host", "ask") as server:
                server.answers = [DECLINE]
                self.assertEqual(self.status(server.python(self.code))[0], "403")
                self.assertEqual(self.status(server.python(self.code)),
                                 ("403", f"the user did not allow {self.name}"))
                self.assertEqual(self.status(server.python(self.code)), ("403", "refused"))
                self.assertEqual(len(server.questions), 1)

    def test_without_elicitation_a_remote_host_is_refused_with_the_flag(self):
        code = self.code + "\nprint(answer.reason)"
        for capabilities in ({}, {"elicitation": {"url": {}}}):
            with AskingServer("--allow-host", "ask", capabilities=capabilities) as server:
                for _ in range(2):
                    result = server.python(code)
                    self.assertEqual(self.status(result), ("403", "refused"))
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

    def test_nobody_is_asked_for_what_is_not_public(self):
        code = ("import http.client\nfor name in ('127.0.0.1:8000', 'localhost:8000', '[::1]:80', '169.254.169.254:80', '10.0.0.1:80',\n"
                "             '192.168.1.1:80', '[fe80::1]:80', '[::ffff:127.0.0.1]:80', '0.0.0.0:80'):\n"
                "    proxy = http.client.HTTPConnection('127.0.0.1', 3128)\n    proxy.request('GET', f'http://{name}/')\n"
                "    answer = proxy.getresponse(); print(answer.status, answer.reason)")
        with AskingServer("--allow-host", "ask") as server:
            result = server.python(code)
            self.assertEqual([line[:3] for line in result.output.splitlines()], ["403"] * 9, result.output)
            self.assertIn("only the user can allow it, at the server's start: --allow-host", result.output)
            self.assertNotIn("asks the user", result.status.line)
            server.python("x = 1")
            self.assertEqual(server.questions, [])

    def test_few_hosts_are_asked_for_at_once(self):
        code = ("import http.client\nfor i in range(5):\n    proxy = http.client.HTTPConnection('127.0.0.1', 3128)\n"
                f"    proxy.request('GET', 'http://host%d.example:80/' % i)\n    proxy.getresponse()")
        with AskingServer("--allow-host", "ask") as server:
            server.answers = [DECLINE, DECLINE]
            server.python(code)
            server.python("x = 1")
            server.python("x = 2")
            self.assertEqual([question["params"]["message"].count(".example") for question in server.questions], [3, 2])

    def test_tools_and_instructions_mention_ask(self):
        with AskingServer("--allow-host", "ask", "--allow-host", "a.example:8080",
                          "--allow-host", "b.example") as server:
            words = "network: only a.example:8080, b.example and hosts that the user approves"
            tool = server.request("tools/list")["result"]["tools"][0]
            self.assertIn(words, tool["description"])
            self.assertIs(tool["annotations"]["openWorldHint"], True)
            self.assertIn(words, server.initialize()["instructions"])
            self.assertNotIn("{", json.dumps(tool["description"]))


if __name__ == "__main__":
    unittest.main()
