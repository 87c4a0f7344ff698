"""Tool servers that die, hang or speak nonsense, their files, and that nothing of them is left."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, LARGE, Server
from tools_case import BEGIN, STAND_IN, ToolsCase


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def all_gone(pids, limit_s=10):
    end = time.monotonic() + limit_s
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return [pid for pid in pids if is_alive(pid)]


RAW = """
import os, socket
raw = socket.socket(fileno=os.dup(72))
def pack(*fields):
    body = b"".join(len(f).to_bytes(4, "little") + f for f in fields)
    return len(body).to_bytes(4, "little") + body
def call(id, tool, arguments=b"{}"):
    return pack(b"call", b"id", id, b"server", b"stand", b"tool", tool, b"arguments", arguments)
"""


def memory_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


class Life(ToolsCase):
    def echo(self, server):
        return server.python(BEGIN + "stand.echo(value=1)", timeout_s=60).text

    def test_they_start_when_needed_and_end_with_the_server(self):
        with self.server("--grandchild") as server:
            server.python("1")
            self.assertEqual(self.pids(), [])
            self.assertIn("{'value': 1}", self.echo(server))
            pids = self.pids()
            self.assertEqual(len(pids), 2)
            self.assertTrue(all(map(is_alive, pids)))
        self.assertEqual(all_gone(pids), [])

    def test_sigkill_leaves_none_not_even_a_grandchild_in_a_process_session_of_its_own(self):
        with self.server("--grandchild", options={"check": False}) as server:
            self.echo(server)
            pids = self.pids()
            os.kill(server.pid, signal.SIGKILL)
            self.assertEqual(all_gone(pids), [])
            server.process.wait()

    def test_each_of_them_gets_a_clean_environment(self):
        os.environ["SANDPIPER_TEST_SECRET"] = "x"
        self.addCleanup(os.environ.pop, "SANDPIPER_TEST_SECRET")
        with self.server(env={"TOKEN": "t0ken"}, options={"env": dict(os.environ, SANDPIPER_LOG="error")}) as server:
            self.echo(server)
        seen = json.loads((self.directory / "environment").read_text())
        self.assertEqual((seen["TOKEN"], seen["CWD"]), ("t0ken", os.path.realpath(os.environ["HOME"])))
        self.assertLessEqual(set(seen) - {"LC_CTYPE"}, {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TOKEN", "CWD"})

    def test_their_stderr_goes_to_the_log_escaped_and_without_secrets(self):
        with tempfile.TemporaryFile() as log:
            environment = dict(os.environ, SANDPIPER_LOG="info")
            with self.server(env={"TOKEN": "s3cret"}, options={"env": environment, "stderr": log}) as server:
                self.echo(server)
            log.seek(0)
            text = log.read().decode()
        self.assertIn(r"stand: token is ****** \x1b[31m", text)
        self.assertNotIn("s3cret", text)

    def test_their_stderr_hides_secrets_of_several_lines_and_cut_ones(self):
        secret = "first-line\nsecond-line"
        with tempfile.TemporaryFile() as log:
            environment = dict(os.environ, SANDPIPER_LOG="info")
            with self.server("--stderr", "x" * 4090 + "second-line-and-more", env={"TOKEN": secret},
                             options={"env": environment, "stderr": log}) as server:
                self.echo(server)
            log.seek(0)
            text = log.read().decode()
        self.assertIn("stand: token is **********", text)
        self.assertNotIn("first-line", text)
        self.assertNotIn("line", "".join(line for line in text.splitlines() if "stand: " in line))

    def test_they_inherit_their_three_streams_and_no_other_descriptor(self):
        with self.server() as server:
            self.echo(server)
        self.assertEqual(json.loads((self.directory / "descriptors").read_text()), [0, 1, 2])

    def test_a_file_that_others_can_read_is_reported_in_the_log(self):
        path = self.file({"stand": self.entry()})
        os.chmod(path, 0o644)
        with tempfile.TemporaryFile() as log:
            with Server("--tools", path, stderr=log) as server:
                server.python("1")
            log.seek(0)
            self.assertIn("can be read by other users, and may hold tokens: run chmod go-r", log.read().decode())

    def test_one_that_the_modern_question_ends_is_started_again(self):
        with self.server("--era", "exits") as server:
            self.assertIn("{'value': 1}", self.echo(server))
            self.assertEqual(len(self.pids()), 2)

    def test_one_that_never_responds_is_given_up_with_a_sentence(self):
        words = "ToolError: stand did not respond within 1 s; the next call starts it again, and the user can give it longer (start_s)"
        for era in ("silent", "nonsense"):
            with self.subTest(era=era), self.server("--era", era, start_s=1) as server:
                self.assertIn(words, self.echo(server))
                self.assertEqual(all_gone(self.pids()), [])

    def test_one_whose_home_is_missing_is_reported_with_that_error(self):
        with self.server(options={"env": dict(os.environ, HOME="/nonexistent")}) as server:
            self.assertIn("ToolError: stand cannot be executed: No such file or directory", self.echo(server))

    def test_one_that_exits_at_once_is_not_started_for_ever(self):
        with self.server("--era", "dead", "--stderr", "no module named mcp") as server:
            texts = [self.echo(server) for _ in range(6)]
            self.assertIn('ToolError: stand exited with status 7; its stderr ends with "no module named mcp"', texts[0])
            self.assertIn("was started 5 times within a minute and is not started again yet; last it exited with status 7",
                          texts[-1])
            self.assertEqual(len(self.pids()), 5)

    def test_one_that_closes_its_stdin_or_never_reads_it_is_ended(self):
        for arguments, words in {"close=True": "stand has closed its stdin", "pings=800": "stand does not read its stdin"}.items():
            with self.subTest(arguments), self.server() as server:
                text = server.python(BEGIN + f"stand.deaf({arguments})", timeout_s=60).text
                self.assertIn(f"ToolError: {words}; whether the call was carried out is unknown", text)
                self.assertIn("{'value': 1}", self.echo(server))
                self.assertEqual(len(self.pids()), 2)
            (self.directory / "pids").unlink()

    def test_cancelled_calls_take_no_memory_while_it_does_not_read(self):
        code = """
import threading
dir(stand)
threading.Thread(target=stand.deaf, daemon=True).start()
for i in range(40):
    raw.sendall(call(b"x%d" % i, b"echo", b'{"value": "%s"}' % (b"x" * 4000000)) + pack(b"cancel", b"id", b"x%d" % i))"""
        with self.server(flags=("--memory", "512M")) as server:
            self.echo(server)
            before = memory_of(server.pid)
            self.assertEqual(server.python(BEGIN + RAW + code, timeout_s=60).status.kind, "ok")
            self.assertLess(memory_of(server.pid) - before, (64 << 20) * LARGE)

    def test_arguments_with_a_key_twice_never_arrive(self):
        code = """
raw.sendall(call(b"a", b"echo", b'{"value": 1, "value": 2}') + call(b"b", b"echo", b'{"value": {"x": 1, "x": 1}}'))
data = b""
while data.count(b"invalid") < 2: data += raw.recv(4096)
data.count(b"the arguments of stand.echo: a key occurs twice")"""
        with self.server() as server:
            self.assertIn("Out: 2", server.python(BEGIN + RAW + code).output)
            self.assertEqual(self.requests("tools/call echo"), 0)
            control = "stand.echo(value='\\x00\\x1b\\n\\u2028')['value'] == '\\x00\\x1b\\n\\u2028'"
            self.assertIn("Out: True", server.python(control).output)

    def test_a_call_that_has_waited_is_checked_against_the_tools_of_then(self):
        code = """
add = stand.add
raw.sendall(b"".join(call(b"n%d" % i, b"never") for i in range(15)) + call(b"s", b"shrinks"))
add()"""
        with self.server(grants={"add": {}}) as server:
            text = server.python(BEGIN + RAW + code, timeout_s=60).text
            self.assertIn("AttributeError: stand has no tool add", text)
            self.assertEqual(self.counter(), 0)

    def test_search_names_a_server_that_does_not_start(self):
        servers = {"stand": self.entry(), "missing": {"command": "no-such-program", "tools": {"a": {}}}}
        with Server("--tools", self.file(servers)) as server:
            text = server.python("from sandpiper import tools\ntools.search('row')").output
            self.assertIn("no tool matches\nmissing does not start", server.python("tools.search('no such')").output)
            self.assertIn("\nmissing does not start: cannot find the program no-such-program in PATH", text)
            self.assertIn("tools.stand.rows(page: int)  [not granted]  A page of rows.", text)

    def test_it_runs_from_the_command_line_too(self):
        path = self.file({"stand": self.entry(trust_hints=True)})
        done = subprocess.run([*COMMAND, "run", "--tools", path, "-c", BEGIN + "print(stand.echo(value=1))"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "{'value': 1}\n"), done.stderr)
        done = subprocess.run([*COMMAND, "call", "--tools", path, "run_python", json.dumps({"code": BEGIN + "stand.echo(value=1)"})],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("{'value': 1}", done.stdout)
        self.assertEqual(all_gone(self.pids()), [])


class Files(ToolsCase):
    """What the file of --tools may be."""

    def refused(self, path, *flags):
        with Server("--tools", str(path), *flags) as server:
            return server.python("1").text

    def test_files_that_cannot_be_trusted_are_refused_with_what_to_do(self):
        path = self.file({"stand": self.entry()})
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        inside = pathlib.Path(work.name) / "tools.json"
        inside.write_text(pathlib.Path(path).read_text())
        inside.chmod(0o600)
        self.assertIn("where code can change it: move it", self.refused(inside, "--workspace", work.name))
        self.assertIn("where code can see it: move it", self.refused(inside, "--mount", work.name))
        for mode in (0o620, 0o602):
            os.chmod(path, mode)
            self.assertIn("is writable by others, who could grant tools: run chmod go-w", self.refused(path))
        os.chmod(path, 0o600)
        os.link(path, path + "-too")
        self.assertIn("has a second name (a hard link), which code may see", self.refused(path))
        os.unlink(path + "-too")
        self.assertIn("cannot open", self.refused(path + "x"))
        self.assertIn("tools.json:1: not valid JSON", self.refused(self.file("{")))
        self.assertIn('must have an object "mcpServers", it has "mcpServer"', self.refused(self.file('{"mcpServer": {}}')))
        self.assertNotIn("it has", self.refused(self.file('{"mcpServers": []}')))
        self.assertEqual(self.pids(), [])

    def test_programs_that_code_can_change_are_not_started(self):
        with tempfile.TemporaryDirectory() as work:
            script = pathlib.Path(work) / "server.py"
            script.write_text(STAND_IN.read_text())
            script.chmod(0o755)
            entries = {"argument": {"command": "python3", "args": [str(script), str(self.directory)]},
                       "program": {"command": str(script), "args": [str(self.directory)]},
                       "package": {"command": "python3", "args": ["-B", work, str(self.directory)]},
                       "directory": {"command": "python3", "args": ["server.py", str(self.directory)], "cwd": work}}
            with Server("--workspace", work, "--tools", self.file(
                    {name: {**entry, "trust_hints": True} for name, entry in entries.items()})) as server:
                for name in entries:
                    text = server.python(f"from sandpiper import tools\ntools.{name}.echo(value=1)").text
                    self.assertIn("where code can change it", text)
            self.assertEqual(self.pids(), [])

    def test_doctor_names_commands_and_what_is_off(self):
        path = self.file({"stand": self.entry(tools={"add": {}}), "typo": self.entry(tools={"add": {"max_call": 1}}),
                          "missing": {"command": "no-such-program"}, "web": {"type": "http", "url": "https://a.b"},
                          "odd": {"command": "python3", "type": 1}})
        os.chmod(path, 0o644)
        done = subprocess.run([*COMMAND, "doctor", "--json", "--tools", path], capture_output=True, text=True, timeout=60)
        facts = [(fact["warning"], fact["text"]) for fact in json.loads(done.stdout)["facts"] if fact["fact"] == "tools"]
        self.assertEqual([warning for warning, _ in facts], [True, False, True, True, True, True])
        for words, (_, text) in zip(("can be read by other users", "stand (1 granted): /", 'unknown key "max_call"',
                                     "cannot find the program no-such-program", "it has a url", 'type must be "stdio"'), facts):
            self.assertIn(words, text)
        self.assertEqual(self.pids(), [])


if __name__ == "__main__":
    unittest.main()
