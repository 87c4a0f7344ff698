"""Clients that write or read in unusual ways: everything at once, a byte at a time, nothing for a while."""
import json
import threading
import unittest

from client import LARGE, STATELESS, Case, Result, Server

MANY = 10_000
BOUND_KB = 32 << 10  # the most that a flood may add to the server's memory


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def request(number):
    """One of several requests in both eras, so that responses differ."""
    method = ("ping", "no/such", "tools/call")[number % 3]
    params = {"name": "no_such_tool"} if method == "tools/call" else {}
    if number % 2:
        params["_meta"] = STATELESS
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def right_answer(number):
    """The expected error code, or None for a result: 2026-07-28 has no ping."""
    return (None if number % 2 == 0 else -32601, -32601, -32602)[number % 3]


class Floods(Case):
    def assert_answered_in_order(self, server, numbers):
        for number in numbers:
            answer = server.receive(60)
            self.assertEqual((answer["id"], answer.get("error", {}).get("code")), (number, right_answer(number)))

    def test_ten_thousand_requests_in_one_piece(self):
        with Server() as server:
            before = resident_kb(server.pid)
            flood = "".join(json.dumps(request(number)) + "\n" for number in range(MANY, 2 * MANY)).encode()
            writer = threading.Thread(target=server.send_bytes, args=(flood,))
            writer.start()
            self.assert_answered_in_order(server, range(MANY, 2 * MANY))
            writer.join()
            self.assertLess(resident_kb(server.pid) - before, BOUND_KB * LARGE)
            self.assert_alive(server)

    def test_a_client_that_writes_everything_before_reading(self):
        with Server() as server:
            before = resident_kb(server.pid)
            server.stop_reading()
            server.send_bytes("".join(json.dumps(request(number)) + "\n"
                                      for number in range(MANY, 2 * MANY)).encode())
            self.assertLess(resident_kb(server.pid) - before, BOUND_KB * LARGE)
            server.go_on_reading()
            self.assert_answered_in_order(server, range(MANY, 2 * MANY))
            self.assert_alive(server)

    def test_a_hundred_calls_of_both_eras_at_once(self):
        with Server() as server:
            with server.at_once():
                for number in range(100):
                    params = {"name": "run_python", "arguments": {"code": f"print({number})",
                                                                  "session": f"s{number % 3}"}}
                    server.start("tools/call", {**params, **({"_meta": STATELESS} if number % 2 else {})},
                                 f"call {number}")
            for number in range(100):
                answer = server.wait(f"call {number}", 60)
                self.assertEqual(Result(answer["result"]).output, str(number))
                self.assertEqual("resultType" in answer["result"], number % 2 == 1)

    def test_a_slow_request_delays_no_response(self):
        slow = json.dumps({"jsonrpc": "2.0", "id": "slow", "method": "ping"}).encode() + b"\n"
        with Server() as server:
            server.python("import time")
            running = server.start_call("run_python", code="time.sleep(0.5); print('done')")
            server.send_bytes(slow[:20])
            self.assertEqual(server.finish_call(running).output, "done")
            server.send_bytes(slow[20:])
            self.assertEqual(server.wait("slow")["result"], {})


if __name__ == "__main__":
    unittest.main()
