"""The server ends at any moment, in any way, whatever it is doing: it exits in time, gives each call one response
where the client still reads, leaves nothing behind, and no sanitizer complains."""
import json
import os
import random
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, PASSED_ON, SLOW, need_userns
from index import projects
from traces import Traces

ROUNDS = int(os.environ.get("SANDPIPER_TEST_ENDS", "40"))
SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "1"))
EXIT_S = 10


def call(number, tool, **arguments):
    meta = {"progressToken": number} if number % 2 else {}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": meta}}


# What a client may have going on; number tells the calls apart.
WORK = {
    "quick run": lambda n: call(n, "run_python", code="x = 1"),
    "long run": lambda n: call(n, "run_python", code="import time; time.sleep(60)"),
    "busy run": lambda n: call(n, "run_python", code="while True: pass", session="busy"),
    "printing run": lambda n: call(n, "run_python", code="while True: print('x' * 1000)", session="print"),
    "crash": lambda n: call(n, "run_python", code="import os; os._exit(3)"),
    "stopped child": lambda n: call(n, "run_python", code="import os, time\nif not os.fork(): time.sleep(60)"),
    "fresh run": lambda n: call(n, "run_python", code="1", fresh=True),
    "undo": lambda n: call(n, "run_python", code="x", undo=True),
    "install": lambda n: call(n, "install_package", packages=["plain"]),
    "unknown package": lambda n: call(n, "install_package", packages=["nowhere"]),
    "needs approval": lambda n: call(n, "install_package", packages=["shared"]),
    "write": lambda n: call(n, "write_file", path=f"{n}.txt", content="y" * 3_000_000),
    "read": lambda n: call(n, "read_file", path=f"{n - 1}.txt"),
    "ping": lambda n: {"jsonrpc": "2.0", "id": n, "method": "ping"},
}
# How it ends, and whether the client still reads then.
ENDS = {"stdin ends": True, "SIGTERM": True, "SIGINT": True, "SIGHUP": True, "nobody reads": False}


class Life:
    """One server on a socket pair, as Node.js starts its children."""

    def __init__(self, directory, *flags):
        self.temp = tempfile.mkdtemp(dir=directory)
        self.ours, theirs = socket.socketpair()
        env = {name: os.environ[name] for name in ("HOME", "PATH", "USER", *PASSED_ON) if name in os.environ}
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*COMMAND, *flags], stdin=theirs, stdout=theirs, stderr=self.stderr,
                                        env={**env, "TMPDIR": self.temp}, start_new_session=True)
        theirs.close()
        self.traces = Traces(self.temp)
        self.received = b""

    def send(self, *messages):
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        end = time.monotonic() + EXIT_S * SLOW
        while data and time.monotonic() < end:
            self.read(0)
            try:
                data = data[self.ours.send(data, socket.MSG_DONTWAIT):]
            except BlockingIOError:
                select.select([self.ours], [self.ours], [], 1)
            except (BrokenPipeError, ConnectionResetError):
                return

    def read(self, seconds):
        """Reads what there is within this time. Returns whether there may be more."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            data = self.ours.recv(1 << 20)
        except ConnectionResetError:
            return False
        self.received += data
        return bool(data)

    def initialize(self):
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "ends", "version": "1"}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.read_until(0)

    def read_until(self, number):
        """Reads until the response with this id: the server has read what was sent before."""
        end = time.monotonic() + EXIT_S * SLOW
        while number not in self.ids() and time.monotonic() < end:
            self.read(1)

    def end(self, how):
        self.traces.look(self.process.pid)
        if how == "nobody reads":
            self.ours.shutdown(socket.SHUT_RD)
            time.sleep(0.5)  # the server may write, and notices
            self.ours.shutdown(socket.SHUT_WR)
        elif how == "stdin ends":
            self.ours.shutdown(socket.SHUT_WR)
        else:
            self.process.send_signal(getattr(signal, how))

    def responses(self):
        """id of each response, in order."""
        end = time.monotonic() + EXIT_S * SLOW
        while self.read(0.2) and time.monotonic() < end:
            pass
        return self.ids()

    def ids(self):
        messages = [json.loads(line) for line in self.received.split(b"\n")[:-1]]
        return [message["id"] for message in messages if "method" not in message]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.ours.close()
        self.stderr.close()


class Ends(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.temp = tempfile.TemporaryDirectory(prefix="sp-ends-")
        cls.directory = cls.temp.name
        os.chmod(cls.directory, 0o755)
        cls.wheels = cls.directory + "/wheels"
        projects.honest(cls.wheels)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def one(self, work, pause_s, how, install="ask"):
        life = Life(self.directory, "--cache", self.directory + "/cache", "--no-index", "--find-links", self.wheels,
                    "--install", install)
        try:
            life.initialize()
            life.send(*(WORK[name](number) for number, name in enumerate((*work, "ping"), 1)))
            life.read_until(len(work) + 1)
            end = time.monotonic() + pause_s
            while time.monotonic() < end:
                life.read(max(0, end - time.monotonic()))
            life.end(how)
            ids = life.responses() if ENDS[how] else []
            status = life.process.wait(EXIT_S * SLOW)
            life.stderr.seek(0)
            complaints = [line for line in life.stderr.read().decode(errors="replace").splitlines()
                          if "ERROR: " in line or "runtime error" in line or "unexpected step" in line
                          or line.startswith("    #")]
            self.assertEqual(complaints, [])
            self.assertEqual(status, 0)
            self.assertEqual(len(ids), len(set(ids)), "two responses to one call")
            if how.startswith("SIG"):
                self.assertEqual(set(ids), set(range(len(work) + 2)), "a call without a response")
            self.assertEqual(life.traces.left(EXIT_S * SLOW), [])
        finally:
            life.close()

    def test_queued_runs_get_responses_at_each_signal(self):
        for how in ("SIGTERM", "SIGINT", "SIGHUP"):
            for pause_s in (0, 0.5):
                with self.subTest(how=how, pause_s=pause_s):
                    self.one(["long run"] * 5, pause_s, how)

    def test_calls_get_responses_during_an_install(self):
        for pause_s in (0, 0.1, 0.3, 0.6):
            with self.subTest(pause_s=pause_s):
                self.one(["install", "long run", "unknown package", "write", "read"], pause_s, "SIGTERM", "on")

    def test_progress_that_nobody_reads(self):
        """The heartbeat finds stdout broken while another run waits."""
        self.one(["long run"] * 4, 1.2, "nobody reads")

    def test_open_elicitations_that_nobody_reads(self):
        self.one(["needs approval", "install", "needs approval", "long run"], 0.5, "nobody reads")

    def test_random_ends(self):
        chance = random.Random(SEED)
        for number in range(ROUNDS):
            work = chance.choices(list(WORK), k=chance.randint(1, 9))
            pause_s = chance.choice((0, 0.02, 0.1, 0.3, 1.2)) * chance.random() * 2
            how = chance.choice(list(ENDS))
            install = chance.choice(("ask", "on"))
            with self.subTest(number=number, work=work, pause_s=round(pause_s, 3), how=how, install=install):
                self.one(work, pause_s, how, install)


if __name__ == "__main__":
    unittest.main()
