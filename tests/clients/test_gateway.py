"""An HTTP gateway from npm in front of the server: one sandbox per session, and none left after a session."""
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import packages  # noqa: E402
from client import BINARY, SLOW, need_userns  # noqa: E402
from traces import any_left, descendants  # noqa: E402

SESSIONS = 20
STARTS = 5  # another program may take the port that was free a moment ago
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"}}}


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Gateway(unittest.TestCase):
    def setUp(self):
        need_userns()
        self.node = packages.node()

    def start(self, idle_ms):
        """(the gateway, its URL). The gateway closes a session after idle_ms without a request."""
        for _ in range(STARTS):
            port = free_port()
            gateway = subprocess.Popen(
                [*packages.program("supergateway/dist/index.js"), "--stdio", shlex.quote(BINARY),
                 "--outputTransport", "streamableHttp", "--stateful", "--sessionTimeout",
                 str(idle_ms), "--port", str(port), "--logLevel", "none"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self.addCleanup(gateway.wait)
            self.addCleanup(gateway.kill)
            while gateway.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        return gateway, f"http://127.0.0.1:{port}/mcp"
                time.sleep(0.05)
        raise AssertionError("the gateway does not start")

    def servers(self, gateway):
        """The pids of the servers, without the processes in their sandboxes."""
        found = []
        for pid in descendants(gateway.pid):
            try:
                if os.path.samefile(f"/proc/{pid}/exe", BINARY):
                    found.append(pid)
            except OSError:  # the process has exited
                pass
        return found

    def await_true(self, condition, what):
        deadline = time.monotonic() + 30 * SLOW
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def await_servers(self, gateway, wanted):
        self.await_true(lambda: len(self.servers(gateway)) == wanted, f"not {wanted} servers")

    def test_a_sandbox_for_each_session_and_none_left_behind(self):
        gateway, url = self.start(idle_ms=600_000)
        script = packages.own(HERE, "gateway.mjs") / "gateway.mjs"
        with subprocess.Popen([self.node, script, url, str(SESSIONS)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as client:
            try:
                self.assertEqual(json.loads(client.stdout.readline()),
                                 [f"{number} ['file-{number}']" for number in range(SESSIONS)])
                self.assertEqual(len(self.servers(gateway)), SESSIONS)
                inside = descendants(gateway.pid)
                client.stdin.write("\n")
                client.stdin.flush()
                self.assertEqual(json.loads(client.stdout.readline()),
                                 [f"still {number}" for number in range(SESSIONS // 2, SESSIONS)])
                self.await_servers(gateway, SESSIONS - SESSIONS // 2)
                client.stdin.write("\n")
                client.stdin.flush()
                self.assertEqual(client.wait(20 * SLOW), 0)
            finally:
                client.kill()
        gateway.terminate()
        gateway.wait(20 * SLOW)
        self.assertFalse(any_left(inside, 30 * SLOW), f"some of {inside} are left")

    def test_an_idle_session_is_closed(self):
        gateway, url = self.start(idle_ms=500)
        request = urllib.request.Request(url, json.dumps(HELLO).encode(), {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=60 * SLOW) as response:
            self.assertTrue(response.headers["Mcp-Session-Id"])
            self.assertIn(b'"serverInfo"', response.read())
        self.await_servers(gateway, 0)
