"""The check of the server's lines detects each kind of error."""
import json
import unittest

from wire import META, MODERN, NO_SCHEMAS, SENT_LIMIT, Wire


def line(message):
    return json.dumps({"jsonrpc": "2.0", **message} if isinstance(message, dict) else message).encode() + b"\n"


def request(method, request_id=1, modern=False, **params):
    if modern:
        params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    return line({"id": request_id, "method": method, "params": params})


CALLED = {"content": [{"type": "text", "text": "42"}]}
COMPLETE = {"resultType": "complete", "_meta": {META + "serverInfo": {"name": "s", "version": "1"}}}


class Case(unittest.TestCase):
    def check(self, answer, *requests, version="2025-11-25"):
        wire = Wire()
        wire.legacy = version
        for one in requests:
            wire.sent(one)
        wire.received(answer if isinstance(answer, bytes) else line(answer))
        return wire.complaints

    def assert_good(self, *args, **options):
        self.assertEqual(self.check(*args, **options), [])

    def assert_bad(self, words, *args, **options):
        self.assertIn(words, "; ".join(self.check(*args, **options)))


class Form(Case):
    def test_lines(self):
        self.assert_bad("no end of line", b"{}")
        self.assert_bad("too long", b" " * (11 << 20) + b"\n")
        self.assert_bad("separator", '{"a":"\u2028"}\n'.encode())
        self.assert_bad("not a JSON-RPC message", b"{}\n")
        self.assert_bad("Expecting value", b"hello\n")
        self.assert_bad("codec can't decode", b'"\xff"\n')

    def test_each_answer_has_one_request(self):
        self.assert_good({"id": 1, "result": {}}, request("ping"))
        self.assert_bad("answers no request", {"id": 2, "result": {}}, request("ping"))
        self.assert_bad("answers no request", {"id": "1", "result": {}}, request("ping"))
        wire = Wire()
        wire.sent(request("ping"))
        for _ in range(2):
            wire.received(line({"id": 1, "result": {}}))
        self.assertEqual(len(wire.complaints), 1)

    def test_a_request_may_come_in_pieces_and_in_a_batch(self):
        batch = line([json.loads(request("ping", number)) for number in (1, 2)])
        self.assert_good(line([{"jsonrpc": "2.0", "id": 2, "result": {}}]), batch[:9], batch[9:],
                         version="2025-03-26")
        self.assert_bad("a batch", line([{"jsonrpc": "2.0", "id": 2, "result": {}}]), batch)

    def test_a_request_too_long_to_check_may_be_answered(self):
        self.assert_good({"id": 1, "result": {}}, b" " * SENT_LIMIT + request("ping"))

    def test_errors_without_a_request_are_about_the_line(self):
        self.assert_good({"error": {"code": -32700, "message": "x"}})
        self.assert_good({"error": {"code": -32700, "message": "x"}}, version="2024-11-05")
        self.assert_bad("answers no request", {"error": {"code": -32601, "message": "x"}})


@unittest.skipIf(NO_SCHEMAS, NO_SCHEMAS)
class Schemas(Case):
    def test_the_result_of_the_method_and_version(self):
        call = request("tools/call", name="run_python")
        self.assert_good({"id": 1, "result": CALLED}, call)
        self.assert_bad("'content' is a required property", {"id": 1, "result": {}}, call)
        self.assert_bad("CallToolResult", {"id": 1, "result": {"content": [{"type": "smell"}]}}, call)
        self.assert_good({"id": 1, "result": {}}, request("ping"))

    def test_a_content_type_that_an_old_version_lacks(self):
        link = {"content": [{"type": "resource_link", "name": "a", "uri": "a:b"}]}
        call = request("tools/call", name="run_python")
        self.assert_good({"id": 1, "result": link}, call)
        self.assert_bad("2024-11-05 CallToolResult", {"id": 1, "result": link}, call, version="2024-11-05")

    def test_each_request_of_2026_is_checked_alone(self):
        call = request("tools/call", modern=True, name="run_python")
        self.assert_good({"id": 1, "result": {**CALLED, **COMPLETE}}, call)
        self.assert_bad("'resultType' is a required property", {"id": 1, "result": CALLED}, call)
        self.assert_bad("without the server's name",
                        {"id": 1, "result": {**CALLED, "resultType": "complete"}}, call)
        listing = request("tools/list", modern=True)
        self.assert_bad("is a required property", {"id": 1, "result": {"tools": [], **COMPLETE}}, listing)

    def test_errors(self):
        self.assert_good({"id": 1, "error": {"code": -32601, "message": "x"}}, request("x"))
        self.assert_bad("is not of type 'integer'", {"id": 1, "error": {"code": "no", "message": "x"}},
                        request("x"))
        self.assert_bad("JSONRPCMessage", {"id": None, "error": {"code": -32700, "message": "x"}})
        self.assert_bad("UnsupportedProtocolVersionError",
                        {"id": 1, "error": {"code": -32022, "message": "x"}}, request("x", modern=True))

    def test_notifications_of_the_server_are_checked(self):
        progress = {"method": "notifications/progress", "params": {"progressToken": 0, "progress": 1.5}}
        self.assert_good(progress)
        self.assert_bad("ServerNotification", {"method": "notifications/progress", "params": {}})
        self.assert_good({"id": 1, "method": "roots/list"})
        self.assert_bad("2026-07-28 forbids", {"id": 1, "method": "roots/list"}, version=None)

    def test_shapes_that_differ_in_a_key_or_a_type_are_distinguished(self):
        call = request("tools/call", name="run_python")
        wire = Wire()
        for result, complaints in ((CALLED, 0), ({"content": [{"type": "next", "text": "42"}]}, 1),
                                   ({"content": [{"type": "text", "text": 42}]}, 2), (CALLED, 2)):
            wire.sent(call)
            wire.received(line({"id": 1, "result": result}))
            self.assertEqual(len(wire.complaints), complaints, wire.complaints)


if __name__ == "__main__":
    unittest.main()
