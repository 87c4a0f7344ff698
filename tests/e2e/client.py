"""A small MCP client for the tests: standard library only, strict about what the server sends.

    with Server("--timeout", "5") as server:
        result = server.python("1 + 1")
        assert result.status.kind == "ok"

Every line on the server's stdout must be valid by the published schema (helpers/wire.py). Leaving the block closes
stdin and asserts exit status 0 and that nothing is left behind. Tests import from here what is in this_run.py, too.
"""
import collections
import contextlib
import functools
import json
import os
import pathlib
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from container_level import CONTAINER, difference, directories, where_it_is
from results import ProtocolError, Result
from this_run import (  # noqa: F401
    BINARY, COMMAND, DENIED, DENY, LARGE, ROOT, SLOW, doctor_says, give_away, is_denied, landlock_version, need_userns, once,
    run_cli, size, writable_cgroup)
from traces import Traces

sys.path.append(str(ROOT / "tests" / "helpers"))

from wire import LATEST, LINE_LIMIT, META, MODERN, VERSIONS, Wire  # noqa: E402, F401

PASSED_ON = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "SANDPIPER_LOG", "SANDPIPER_ISOLATION")

# Tests do not depend on the machine's memory, from which the server computes its default limit.
# On a busy machine a cell that is not meant to be a job must not become one.
DEFAULTS = ("--memory", "1G", "--wait", "off")

# Every request of 2026-07-28 has these in its params._meta.
STATELESS = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}

DURATION = r"\d+(?:\.\d+)? (?:us|ms|s|min)"
# The possible states after an interpreter was killed.
STATES_AFTER_KILL = ("restored to the state before this call",)


class Server:
    def __init__(self, *args, env=None, cwd=None, stderr=subprocess.DEVNULL, initialize=True,
                 version=LATEST, wrap=(), command=COMMAND, check=True, cleanup_s=10.0):
        self.args = args
        self.gathered = None
        self.temp = tempfile.mkdtemp(prefix="sp-test-")
        self.traces = Traces(self.temp)
        self.wire = Wire()
        self.check = check
        self.cleanup_s = cleanup_s
        if env is None:
            env = {name: os.environ[name] for name in ("HOME", "PATH", "USER", *PASSED_ON)
                   if name in os.environ}
            env["TMPDIR"] = self.temp
        elif "SANDPIPER_ISOLATION" in os.environ:
            env = {"SANDPIPER_ISOLATION": os.environ["SANDPIPER_ISOLATION"], **env}
        self.process = subprocess.Popen(
            [*wrap, *command, *(DEFAULTS if command is COMMAND else ()), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            env=env, cwd=cwd, start_new_session=True)
        self.pid = self.process.pid
        self.lines = queue.Queue()
        self.stash = collections.OrderedDict()
        self.last_id = 0
        self.stopped_at = None  # time of the first request to exit, without the time that look() took
        self.hang_up = os.pipe()
        self.reading = threading.Event()
        self.reading.set()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.stateless = version == MODERN
        if initialize and not self.stateless:
            self.initialize(version)

    # --- lines ---

    def _read(self):
        fd, rest = self.process.stdout.fileno(), b""
        while True:
            if self.hang_up[0] in select.select([fd, self.hang_up[0]], [], [])[0]:
                break
            self.reading.wait()
            data = os.read(fd, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.wire.received(line + b"\n")
                self.lines.put(line + b"\n")
        if rest:
            self.lines.put(rest)
        self.lines.put(None)

    def close_stdout(self):
        """Closes stdout together with the thread that reads it, which would otherwise block for ever."""
        os.write(self.hang_up[1], b"x")
        self.reader.join()
        self.process.stdout.close()

    def stop_reading(self):
        """Stops reading, like a client that hangs, so that the pipe fills. One more line may be read."""
        self.reading.clear()

    def go_on_reading(self):
        self.reading.set()

    def send_bytes(self, data):
        if self.gathered is not None:
            self.gathered += data
            return
        self.wire.sent(data)
        self.process.stdin.write(data)
        self.process.stdin.flush()

    @contextlib.contextmanager
    def at_once(self):
        """Collects everything sent in the block and writes it at the end in one piece."""
        gathered = self.gathered = bytearray()
        yield
        self.gathered = None
        self.send_bytes(gathered)

    def send_line(self, line):
        self.send_bytes((line.encode() if isinstance(line, str) else line) + b"\n")

    def send(self, message):
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}))

    def receive(self, timeout=20):
        """The next message; None at the end of the stream."""
        try:
            line = self.lines.get(timeout=timeout * SLOW)
        except queue.Empty:
            raise ProtocolError(f"no message within {timeout * SLOW} s") from None
        if line is None:
            return None
        if not line.endswith(b"\n") or len(line) > LINE_LIMIT:
            raise ProtocolError(f"unterminated or too long line: {line[:200]!r}")
        message = json.loads(line.decode("utf-8"))
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise ProtocolError(f"not a JSON-RPC message: {line[:200]!r}")
        return message

    def silent(self, seconds):
        """True if the server writes nothing for this time."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            return True
        raise ProtocolError(f"unexpected: {line!r}")

    # --- requests ---

    def start(self, method, params=None, request_id=None):
        """Sends a request and returns its id without waiting."""
        if request_id is None:
            self.last_id += 1
            request_id = self.last_id
        message = {"id": request_id, "method": method}
        if self.stateless:
            meta = {**STATELESS, **(params or {}).get("_meta", {})}
            params = {**(params or {}), "_meta": meta}
        if params is not None:
            message["params"] = params
        self.send(message)
        return request_id

    def wait(self, request_id, timeout=20):
        """The response with this id; other responses are kept for their own wait()."""
        end = time.monotonic() + timeout * SLOW
        while request_id not in self.stash:
            message = self.receive(max(0.01, (end - time.monotonic()) / SLOW))
            if message is None:
                raise ProtocolError(f"end of stream before the answer to {request_id!r}")
            if "method" in message:
                continue
            if message.get("id") in self.stash:
                raise ProtocolError(f"two answers to {message['id']!r}")
            self.stash[message.get("id")] = message
        return self.stash.pop(request_id)

    def request(self, method, params=None, timeout=20):
        return self.wait(self.start(method, params), timeout)

    def notify(self, method, params=None):
        self.send({"method": method, **({} if params is None else {"params": params})})

    def initialize(self, version=LATEST):
        answer = self.request("initialize", {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "sandpiper-tests", "version": "1"}})
        self.notify("notifications/initialized")
        return answer["result"]

    def start_call(self, tool, **arguments):
        return self.start("tools/call", {"name": tool, "arguments": arguments})

    def finish_call(self, request_id, timeout=60):
        answer = self.wait(request_id, timeout)
        if "error" in answer:
            raise ProtocolError(f"protocol error instead of a tool result: {answer['error']}")
        return Result(answer["result"])

    def call(self, tool, _timeout=60, **arguments):
        result = self.finish_call(self.start_call(tool, **arguments), _timeout)
        self.look()
        return result

    def python(self, code, _timeout=60, **arguments):
        return self.call("run_python", _timeout, code=code, **arguments)

    def write(self, path, content, **arguments):
        return self.call("write_file", path=path, content=content, **arguments)

    def read(self, path, **arguments):
        return self.call("read_file", path=path, **arguments)

    @functools.cached_property
    def directories(self):
        return directories(self)

    def here(self, text):
        """The text with /work, /tmp and /packages replaced by their paths in this server's sandbox."""
        return where_it_is(text, self.directories)

    def cancel(self, request_id):
        self.notify("notifications/cancelled", {"requestId": request_id, "reason": "test"})

    def must_be_contained(self):
        """Checks before dangerous code runs that it sees another root and no host process or, at the level without
        namespaces, cannot read /proc."""
        if CONTAINER:
            result = self.python("open('/proc/self/status')")
            if "PermissionError" not in result.text:
                self.destroy()
                raise ProtocolError(f"this server does not contain code: {result.text}")
            return
        result = self.python("import os; at = os.stat('/'); print(at.st_dev, at.st_ino, "
                             f"os.path.exists('/proc/{os.getpid()}'), os.getpid() < 1000)")
        here = os.stat("/")
        seen = result.output.split()
        if result.is_error or seen[2:] != ["False", "True"] or \
                seen[:2] == [str(here.st_dev), str(here.st_ino)]:
            self.destroy()
            raise ProtocolError(f"this server does not contain code: {result.text}")

    # --- the end ---

    def look(self):
        self.traces.look(self.pid)

    def signal(self, number):
        self.look()
        self.stopped_at = self.stopped_at or time.monotonic()
        self.process.send_signal(number)

    def close_stdin(self):
        self.look()
        self.stopped_at = self.stopped_at or time.monotonic()
        self.wire.sent(b"\n")  # the end of the stream completes the last line
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def join(self, timeout=5):
        """Exit status (negative: signal), after at most timeout seconds."""
        try:
            return self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise ProtocolError(f"still running after {timeout * SLOW} s") from None

    def left(self, within_s=1.0):
        return self.traces.left(within_s * SLOW)

    def end(self):
        """Closes stdin and returns (exit status, seconds until the exit)."""
        began = time.monotonic()
        self.close_stdin()
        return self.join(), time.monotonic() - began

    def destroy(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.reading.set()
        self.reader.join(2)
        if not self.reader.is_alive():
            for fd in self.hang_up:
                os.close(fd)
            self.hang_up = ()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except (OSError, ValueError):
                pass
        shutil.rmtree(self.temp, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None and os.environ.get("PAUSE"):
            input(f"# failed; server {self.pid} is kept until Enter is pressed ")
        try:
            if kind is None and self.wire.complaints:
                raise ProtocolError("; ".join(self.wire.complaints[:5]))
            if kind is None and self.check:
                status = self.process.poll()
                if status is None:
                    status, _ = self.end()
                    if status != 0:
                        raise ProtocolError(f"exit status {status} after the end of stdin")
                left = self.left(self.cleanup_s)
                if left:
                    raise ProtocolError(f"left behind: {left}")
        finally:
            self.destroy()


class Case(unittest.TestCase):
    """A test case with the assertions that many tests share."""

    maxDiff = None

    def run(self, result=None):
        module = pathlib.Path(sys.modules[type(self).__module__].__file__).stem
        reason = difference(module, f"{type(self).__name__}.{self._testMethodName}")
        if reason is None or result is None:
            return super().run(result)
        result.startTest(self)
        result.addSkip(self, f"isolation: {reason}")
        result.stopTest(self)
        return result

    def assert_ok(self, result):
        self.assertFalse(result.is_error, result.text)
        self.assertEqual(result.status.kind, "ok", result.text)

    def assert_prints(self, result, text):
        self.assert_ok(result)
        self.assertEqual(result.output, text)

    def assert_kind(self, result, kind):
        self.assertTrue(result.is_error, result.text)
        self.assertEqual(result.status.kind, kind, result.text)

    def assert_state_after_kill(self, result):
        state = result.status.state or ""
        self.assertTrue(state.startswith(STATES_AFTER_KILL), result.text)

    def assert_exit_code(self, result, code):
        self.assertRegex(result.status.line, rf"^\[exit code {code} \| state: kept( \| .*)?\]$")
        self.assertEqual(result.is_error, code != 0, result.text)

    def assert_alive(self, server):
        """Asserts that the next call works without delay."""
        self.assert_prints(server.python("print(6 * 7)"), "42")

    def assert_violation(self, result, *words):
        self.assertTrue(result.is_error, result.text)
        for word in words:
            self.assertIn(word, result.text)

    def assert_error_code(self, answer, code):
        self.assertIn("error", answer, answer)
        self.assertEqual(answer["error"]["code"], code, answer)
        self.assertIsInstance(answer["error"]["message"], str)


class Shared(Case):
    """Cases that share one server, started for the first of them."""

    args = ()

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.server = Server(*cls.args)

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass
