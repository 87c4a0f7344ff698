"""JSON-RPC and the MCP life cycle, as a client at the other end of the pipes sees them."""
import json
import re
import time
import unittest

from client import LATEST, LINE_LIMIT, SLOW, VERSIONS, Case, Result, Server, Shared

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
# Runs until the file exists.
UNTIL_GO = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"


class Lines(Shared):
    """Broken input gets the right error, and the next request works."""

    def error_after(self, line):
        self.server.send_line(line)
        return self.server.receive()

    def still_answers(self):
        self.assertEqual(self.server.request("ping"), {"jsonrpc": "2.0", "id": self.server.last_id,
                                                       "result": {}})

    def test_a_line_that_is_not_json_is_a_parse_error(self):
        for line in ("this is not json", '{"jsonrpc":"2.0","id":5,"method":', "{", '"', "nul", "'",
                     b"\xff\xfe{}"):
            with self.subTest(line=line):
                answer = self.error_after(line)
                self.assert_error_code(answer, PARSE_ERROR)
                self.assertIsNot(answer.get("id", "absent"), None, "no MCP schema allows id null")
        self.still_answers()

    def test_an_invalid_request_gets_an_error_with_its_id(self):
        """Without a response the client would wait until its own time limit."""
        for code in (b'"\xff"', b'"\\ud83"', b'"a\x01b"', b"01"):
            with self.subTest(code=code):
                answer = self.error_after(b'{"jsonrpc":"2.0","id":"lost","method":"tools/call","params":'
                                          b'{"name":"run_python","arguments":{"code":' + code + b"}}}")
                self.assert_error_code(answer, PARSE_ERROR)
                self.assertEqual(answer["id"], "lost")
        self.still_answers()

    def test_half_of_a_surrogate_pair_is_a_replacement_character(self):
        for sent, meant in ((b"\\ud83d", "\ufffd"), (b"\\uDE00.", "\ufffd."), (b"\\ud83d\\ud83d\\ude00", "\ufffd\U0001f600"),
                            (b"\\ud83d\\n\\\\ud83d", "\ufffd\n\\ud83d"), (b"\\ude00\\ud83d", "\ufffd\ufffd")):
            with self.subTest(sent=sent):
                self.server.last_id += 1
                answer = self.error_after(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_file",'
                                          b'"arguments":{"path":"half.txt","content":"%s"}}}' % (self.server.last_id, sent))
                self.assertFalse(answer["result"].get("isError"), answer)
                self.assertRegex(answer["result"]["content"][0]["text"],
                                 "; 2 unpaired surrogates were" if meant.count("\ufffd") == 2 else "; 1 unpaired surrogate was")
                self.assertEqual(self.server.read("half.txt").text, meant)
        self.assertNotIn("surrogate", self.server.write("half.txt", "\ufffd\ufdd0 \U0001f600").text)

    def test_half_of_a_surrogate_pair_is_no_name_and_found_nowhere(self):
        call = self.server.call
        self.server.write("half.txt", "bad \ufffd \ufdd0\n")
        for tool, arguments, pointer in (("write_file", {"path": "a\ud83d", "content": "x"}, "/path"),
                                         ("write_file", {"file_path": "a\ud83d", "content": "x"}, "/path"),
                                         ("write_file", {"path": "half.txt", "old_text": "bad \udc00", "new_text": "x"}, "/old_text"),
                                         ("read_file", {"path": "half.txt\ud83d"}, "/path"),
                                         ("run_python", {"code": "1", "session": "a\ud83d"}, "/session"),
                                         ("install_package", {"packages": ["six", "a\ud83d"]}, "/packages")):
            with self.subTest(tool=tool, arguments=arguments):
                refused = call(tool, **arguments)
                self.assertTrue(refused.is_error, refused.text)
                self.assertIn(f"- {pointer}: has half of a surrogate pair", refused.text)
        self.assertIn("; 1 unpaired surrogate was written as U+FFFD",
                      call("write_file", path="half.txt", old_text="bad \ufffd", new_text="\ud83d").text)
        self.assertEqual(self.server.read("half.txt").text, "\ufffd \ufdd0\n")

    def test_half_of_a_surrogate_pair_in_code_is_noted(self):
        result = self.server.python("print(ascii('\ud83d'), ascii(input()))", stdin="\udc00")
        self.assert_prints(result, "'\\ufffd' '\\ufffd'")
        self.assertIn("2 unpaired surrogates became U+FFFD; for Python's escape send two backslashes", result.text)
        result = self.server.python("print(ascii('\\ud83d'))")
        self.assert_prints(result, "'\\ud83d'")
        self.assertNotIn("surrogate", result.text)
        self.assertEqual(self.server.request("ping\ud83d")["error"]["code"], -32601)

    def test_a_value_that_is_not_a_request_is_invalid(self):
        for line in ("[]", "1", "null", '"ping"', "true", '{"jsonrpc":"2.0"}',
                     '{"jsonrpc":"1.0","id":6,"method":"ping"}', '{"id":7,"method":"ping"}',
                     '{"jsonrpc":"2.0","id":null,"method":"ping"}',
                     '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
                     '{"jsonrpc":"2.0","id":{},"method":"ping"}',
                     '{"jsonrpc":"2.0","id":9,"method":5}',
                     '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
                     '[{"jsonrpc":"2.0","id":10,"method":"ping"}]'):
            with self.subTest(line=line):
                self.assert_error_code(self.error_after(line), INVALID_REQUEST)
        self.still_answers()

    def test_ids_come_back_exactly_as_they_were_sent(self):
        for token in ("0", "-1", "9007199254740993", "9223372036854775807", '"a"', '""', '"1"',
                      '"\\u00e9\\u2028"', '"server-discover-probe-1"'):
            with self.subTest(token=token):
                self.server.send_line(f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}')
                answer = self.server.receive()
                self.assertEqual(answer["id"], json.loads(token))
                self.assertIs(type(answer["id"]), type(json.loads(token)))

    def test_blank_lines_and_carriage_returns_are_tolerated(self):
        self.server.send_line("")
        self.server.send_line("  \t ")
        self.server.send_line('{"jsonrpc":"2.0","id":"cr","method":"ping"}\r')
        self.assertEqual(self.server.receive()["id"], "cr")

    def test_a_byte_order_mark_at_the_beginning_is_tolerated(self):
        with Server(initialize=False) as server:
            server.send_line('\ufeff{"jsonrpc":"2.0","id":"bom","method":"ping"}')
            self.assertEqual(server.receive()["id"], "bom")

    def test_unknown_methods_are_refused_and_unknown_notifications_ignored(self):
        for method in ("no/such", "resources/list", "prompts/list", "", "tools", "Ping"):
            with self.subTest(method=method):
                self.assert_error_code(self.server.request(method), METHOD_NOT_FOUND)
        self.server.notify("notifications/no_such", {"a": 1})
        self.server.notify("tools/call", {"name": 5})
        self.still_answers()

    def test_responses_to_nothing_are_ignored(self):
        self.server.send_line('{"jsonrpc":"2.0","id":99,"result":{}}')
        self.server.send_line('{"jsonrpc":"2.0","id":98,"error":{"code":1,"message":"x"}}')
        self.still_answers()

    def test_nesting_beyond_the_limit_is_refused(self):
        for depth in (300, 3_000, 100_000):
            with self.subTest(depth=depth):
                nested = "[" * depth + "]" * depth
                self.server.send_line('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":'
                                      + nested + "}}")
                self.assertIn(self.server.receive()["error"]["code"],
                              (PARSE_ERROR, INVALID_REQUEST))
        self.still_answers()

    def test_a_line_of_ten_mebibytes_is_served(self):
        result = self.server.python("x = '" + "a" * (10 << 20) + "'\nlen(x)")
        self.assert_ok(result)
        self.assertIn("Out: 10485760", result.text)

    def test_a_line_at_the_limit_is_served_and_one_over_refused(self):
        head, tail = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"', '"}}'
        fill = "a" * ((16 << 20) - len(head) - len(tail))
        self.server.send_line(head + fill + tail)
        self.assertEqual(self.server.receive(60)["result"], {})
        self.server.send_line(head + fill + "a" + tail)
        refused = self.server.receive(60)
        self.assert_error_code(refused, INVALID_REQUEST)
        self.assertIn("longer than 16 MiB", refused["error"]["message"])
        self.assertEqual(refused["id"], 1)
        self.still_answers()

    def test_a_line_that_is_too_long_is_refused_by_its_id_wherever_that_is(self):
        params = b'"params":{"id":"other","a":["' + b"a" * (17 << 20) + b'\\""]}'
        for line in (b'{"id":"\\u0078",%s}', b'{"method":"ping",%s,"id":"x"}'):
            self.server.send_bytes(line % params + b"\n")
            self.assertEqual(self.server.receive(60).get("id"), "x")
        for line in (b'{%s,"id":5,"result":{}}', b'{%s,"method":"ping"}', b'[{%s,"id":5}]'):
            self.server.send_bytes(line % params + b"\n")
            self.assertNotIn("id", self.server.receive(60))
        self.still_answers()

    def test_a_line_beyond_the_limit_is_skipped_to_its_end(self):
        self.server.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"')
        for _ in range(40):
            self.server.send_bytes(b"a" * (1 << 20))
        self.server.send_bytes(b'"}}\n')
        self.assert_error_code(self.server.receive(60), INVALID_REQUEST)
        self.still_answers()

    def test_a_number_beyond_64_bits_concerns_what_needs_an_integer(self):
        """Not the line: the error of an argument names it, and a token is left out."""
        for token in ("9223372036854775808", "1" + "0" * 30, "-" + "1" * 400):
            for where, expected in (('"arguments":{"path":{"a":%s}}', r"\bpath\b"),
                                    ('"arguments":{"path":"none","start_line":%s}', "none not found|start_line"),
                                    ('"arguments":{"path":"none"},"_meta":{"progressToken":%s}', "none not found")):
                with self.subTest(token=token, where=where):
                    self.server.send_bytes(b'{"jsonrpc":"2.0","id":"wide","method":"tools/call","params":{"name":"read_file",%s}}\n'
                                           % (where % token).encode())
                    response = self.server.receive()
                    self.assertEqual(response["id"], "wide")
                    self.assertTrue(response["result"]["isError"])
                    self.assertRegex(response["result"]["content"][0]["text"], expected)

    def test_ids_beyond_64_bits_are_refused(self):
        for token in ("9223372036854775808", "-9223372036854775809", "1" * 400):
            with self.subTest(token=token):
                answer = self.error_after(f'{{"jsonrpc":"2.0","id":{token},"method":"ping"}}')
                self.assert_error_code(answer, INVALID_REQUEST)
                self.assertNotIn("id", answer)
        self.still_answers()

    def test_a_message_may_come_byte_by_byte(self):
        for byte in b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n':
            self.server.send_bytes(bytes([byte]))
        self.assertEqual(self.server.receive()["id"], "slow")

    def test_many_messages_in_one_write_are_answered_in_order(self):
        self.server.send_bytes(b"".join(
            b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(1000, 1500)))
        self.assertEqual([self.server.receive()["id"] for _ in range(500)],
                         list(range(1000, 1500)))
        self.server.last_id = 2000


class Calls(Shared):
    """tools/list and tools/call."""

    def test_the_list_names_the_tools_with_closed_schemas(self):
        tools = self.server.request("tools/list")["result"]["tools"]
        names = [tool["name"] for tool in tools]
        self.assertEqual(names[:3], ["run_python", "write_file", "read_file"])
        for tool in tools:
            with self.subTest(tool=tool["name"]):
                self.assertRegex(tool["name"], r"^[a-z_]{1,64}$")
                self.assertLess(len(tool["description"]), 4096)
                schema = tool["inputSchema"]
                self.assertEqual(schema["type"], "object")
                self.assertIs(schema["additionalProperties"], False)
                self.assertEqual("session" in schema["properties"], tool["name"] == "run_python")
                for name, description in schema["properties"].items():
                    self.assertIsInstance(description["type"], str)
                    self.assertTrue(description["description"], name)
                self.assertNotIn("outputSchema", tool)
        again = self.server.request("tools/list")["result"]["tools"]
        self.assertEqual(again, tools)

    def test_a_bad_cursor_is_refused(self):
        self.assert_error_code(self.server.request("tools/list", {"cursor": "bogus"}),
                               INVALID_PARAMS)

    def test_bad_call_parameters_are_protocol_errors(self):
        for params in ({"name": "nope", "arguments": {}}, {"arguments": {}}, {"name": 5}, {},
                       {"name": "run_python", "arguments": [1]},
                       {"name": "run_python", "arguments": "code"}):
            with self.subTest(params=params):
                self.assert_error_code(self.server.request("tools/call", params), INVALID_PARAMS)
        self.assert_error_code(self.server.request("tools/call"), INVALID_PARAMS)

    def test_every_violation_is_reported_at_once(self):
        result = self.server.call("run_python", code=True, timeout_s="soon", reset="yes", colour=1)
        self.assert_violation(result, "code", "timeout_s", "reset", "colour")

    def test_a_missing_argument_gets_a_sentence(self):
        self.assert_violation(self.server.call("run_python"), "code")
        self.assert_violation(self.server.call("write_file", path="a.txt"), "content")
        self.assert_violation(self.server.call("read_file"), "path")

    def test_null_for_an_optional_argument_means_absent(self):
        result = self.server.python("print(1)", timeout_s=None, stdin=None, session=None)
        self.assert_prints(result, "1")

    def test_responses_stay_one_line_whatever_the_code_prints(self):
        text = "a\u2028b\u2029c\u0085d\x00e\x1bf"
        self.server.send_line(json.dumps({
            "jsonrpc": "2.0", "id": "separators", "method": "tools/call", "params": {
                "name": "run_python", "arguments": {"code": f"print({text!r})"}}}))
        raw = self.server.lines.get(timeout=20 * SLOW)
        for separator in ("\u2028", "\u2029", "\u0085"):
            self.assertNotIn(separator.encode(), raw)
        self.assertIn("b", Result(json.loads(raw)["result"]).text)

    def test_invalid_utf8_becomes_replacement_characters(self):
        result = self.server.python("import os; os.write(1, b'a\\xff\\xed\\xa0\\x80b\\n')")
        self.assertIn("\ufffd", result.text)
        result = self.server.python("print('\\ud800'.encode('utf-8', 'surrogatepass'))")
        self.assert_ok(result)

    def test_output_that_looks_like_a_message_stays_text(self):
        forged = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
        result = self.server.python(f"import os; os.write(1, b'''\\n{forged}\\n''')")
        self.assertIn(forged, result.text)


class Concurrency(Case):
    def test_a_hundred_concurrent_calls_each_get_their_own_answer(self):
        with Server() as server:
            ids = [server.start_call("run_python", code=f"print({number})", session=f"s{number % 4}")
                   if number % 4 == 0 else
                   server.start_call("write_file", path=f"f{number}.txt", content=str(number))
                   if number % 4 == 1 else
                   server.start_call("read_file", path=f"none{number}.txt")
                   if number % 4 == 2 else
                   server.start("ping") for number in range(100)]
            for number, request_id in enumerate(ids):
                answer = server.wait(request_id, 60)
                self.assertIn("result", answer)
                if number % 4 == 0:
                    self.assertEqual(Result(answer["result"]).output, str(number))
                elif number % 4 == 2:
                    self.assertIn(f"none{number}.txt", Result(answer["result"]).text)

    def test_calls_of_one_session_run_in_the_order_sent(self):
        with Server() as server:
            server.python("order = []")
            ids = [server.start_call("run_python", code=f"order.append({n})") for n in range(50)]
            for request_id in ids:
                self.assert_ok(server.finish_call(request_id))
            self.assert_prints(server.python("print(order == list(range(50)))"), "True")

    def test_sessions_run_side_by_side(self):
        with Server() as server:
            slow = server.start_call("run_python", code=UNTIL_GO, session="a")
            self.assert_prints(server.python("open('go', 'w').close(); print(1)", session="b"), "1")
            self.assert_ok(server.finish_call(slow))

    def test_quick_requests_are_answered_while_code_runs(self):
        with Server() as server:
            slow = server.start_call("run_python", code=UNTIL_GO, session="slow")
            server.request("ping")
            server.request("tools/list")
            server.call("write_file", path="meanwhile.txt", content="hello")
            self.assertIn("hello", server.read("meanwhile.txt").text)
            self.assertNotIn(slow, server.stash)
            server.write("go", "")
            self.assert_ok(server.finish_call(slow))

    def test_too_many_calls_are_refused_not_queued_without_end(self):
        with Server() as server:
            ids = [server.start_call("run_python", code="pass") for _ in range(600)]
            answers = [server.wait(request_id, 60) for request_id in ids]
            served = sum("result" in answer and not answer["result"].get("isError")
                         for answer in answers)
            self.assertGreaterEqual(served, 64)
            self.assert_alive(server)

    def test_an_id_in_use_is_refused(self):
        with Server() as server:
            server.python("1")
            server.start("tools/call", {"name": "run_python", "arguments": {
                "code": "import time; time.sleep(1); print('first')"}}, "same")
            server.start("ping", request_id="same")
            answers = [server.receive(), server.receive()]
            self.assert_error_code(answers[0], INVALID_REQUEST)
            self.assertIn("first", Result(answers[1]["result"]).text)


class Cancellation(Case):
    def test_a_cancelled_call_gets_no_answer_and_the_next_one_works(self):
        with Server() as server:
            server.python("kept = 'before'")
            slow = server.start_call("run_python", code="while True: pass")
            time.sleep(0.3)
            server.cancel(slow)
            self.assert_prints(server.python("print(kept)"), "before")
            self.assertNotIn(slow, server.stash)

    def test_a_queued_call_is_cancelled_before_it_runs(self):
        with Server() as server:
            first = server.start_call("run_python", code="import time; time.sleep(1); ran = 0")
            second = server.start_call("run_python", code="ran = 1")
            server.cancel(second)
            self.assert_ok(server.finish_call(first))
            self.assert_prints(server.python("print(ran)"), "0")
            self.assertNotIn(second, server.stash)

    def test_unknown_and_finished_ids_are_ignored(self):
        with Server() as server:
            server.python("1")
            for request_id in (1, 2, 12345, "x", None, {}):
                server.cancel(request_id)
            server.notify("notifications/cancelled")
            server.notify("notifications/cancelled", {"requestId": []})
            self.assert_alive(server)


class Lifecycle(Case):
    def test_every_published_version_is_agreed_to(self):
        for version in VERSIONS:
            with self.subTest(version=version), Server(initialize=False) as server:
                answer = server.initialize(version)
                self.assertEqual(answer["protocolVersion"], version)
                self.assertEqual(answer["serverInfo"]["name"], "sandpiper")
                self.assertIn("tools", answer["capabilities"])
                self.assertLess(len(answer["instructions"]), 2048)

    def test_other_versions_get_the_latest(self):
        for version in ("1999-01-01", "2099-01-01", "", "nonsense", "2024-11-05\0"):
            with self.subTest(version=version), Server(initialize=False) as server:
                self.assertEqual(server.initialize(version)["protocolVersion"], LATEST)

    def test_initialize_without_a_usable_version_gets_the_latest_and_can_be_repeated(self):
        with Server(initialize=False) as server:
            for params in ({}, {"protocolVersion": 5}, {"protocolVersion": None}):
                answer = server.request("initialize", params)
                self.assertEqual(answer["result"]["protocolVersion"], LATEST)
            self.assertEqual(server.initialize("2024-11-05")["protocolVersion"], "2024-11-05")

    def test_ping_works_before_initialize_and_other_requests_do_not(self):
        with Server(initialize=False) as server:
            self.assertEqual(server.request("ping")["result"], {})
            self.assert_error_code(server.request("tools/list"), INVALID_PARAMS)
            server.initialize()
            self.assertIn("result", server.request("tools/list"))

    def test_initialized_need_not_be_sent(self):
        with Server(initialize=False) as server:
            server.request("initialize", {"protocolVersion": LATEST, "capabilities": {},
                                          "clientInfo": {"name": "x", "version": "0"}})
            self.assertIn("result", server.request("tools/list"))

    def test_nothing_is_set_up_before_the_first_message(self):
        """Some clients start servers only to probe them, so the sandbox starts after the first response."""
        with Server(initialize=False) as server:
            server.request("ping")
            server.look()
            self.assertEqual(len(server.traces.seen), 1)

    def test_a_batch_is_answered_in_the_version_that_has_them(self):
        with Server(version="2025-03-26") as server:
            server.send_line('[{"jsonrpc":"2.0","id":10,"method":"ping"},'
                             '{"jsonrpc":"2.0","method":"notifications/x"},'
                             '{"jsonrpc":"2.0","id":11,"method":"no/such"}]')
            line = server.lines.get(timeout=20 * SLOW)
            answers = {answer["id"]: answer for answer in json.loads(line)}
            self.assertEqual(set(answers), {10, 11})
            self.assertEqual(answers[10]["result"], {})
            self.assert_error_code(answers[11], METHOD_NOT_FOUND)
            server.send_line("[]")
            self.assert_error_code(server.receive(), INVALID_REQUEST)

    def test_the_line_of_a_batch_is_limited(self):
        with Server(version="2025-03-26") as server:
            server.python("import os; _ = open('noise', 'wb').write(os.urandom(480000))")
            read = {"name": "read_file", "arguments": {"path": "noise", "encoding": "base64", "length": 480000}}
            server.send_line(json.dumps([{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": read}
                                         for n in range(100, 120)]))
            line = server.lines.get(timeout=60 * SLOW)
            self.assertLessEqual(len(line), LINE_LIMIT)
            results = [answer["result"] for answer in json.loads(line)]
            self.assertEqual(len(results), 20)
            self.assertEqual(sum(len(result["content"][0]["text"]) > 600_000 for result in results), 15)
            self.assertIn("the results of the batch exceed 10 MiB", results[-1]["content"][0]["text"])
            self.assertTrue(results[-1]["isError"])

    def test_lines_of_very_many_values(self):
        with Server() as server:
            server.send_line('{"jsonrpc":"2.0","id":1000,"method":"ping","params":{"a":[' + "{}," * 4_000_000 + "0]}}")
            self.assert_error_code(server.wait(1000, 60), INVALID_REQUEST)
            many = server.call("read_file", path="x", **{f"argument_{n}": n for n in range(200_000)})
            self.assertIn("- and 199984 more\n", many.text)

    def test_half_a_line_at_the_end_does_not_crash(self):
        for tail in (b'{"jsonrpc":"2.0","id":1,"meth', b"\xff", b'{"jsonrpc":"2.0","id":1'):
            with self.subTest(tail=tail), Server() as server:
                server.send_bytes(tail)
                status, _ = server.end()
                self.assertEqual(status, 0)

    def test_a_whole_last_line_without_its_newline_is_answered(self):
        with Server() as server:
            server.send_bytes(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
            server.close_stdin()
            self.assertEqual(server.receive()["id"], "last")
            self.assertEqual(server.join(), 0)

    def test_the_binary_says_its_version_in_initialize(self):
        with Server(initialize=False) as server:
            self.assertRegex(server.initialize()["serverInfo"]["version"],
                             re.compile(r"^\d+\.\d+\.\d+"))


if __name__ == "__main__":
    unittest.main()
