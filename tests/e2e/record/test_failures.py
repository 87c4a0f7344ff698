"""Records that cannot be written, servers that are killed, several at once, and values that must not be in any record.

SANDPIPER_TEST_KILLS: a fifteenth of the number of kills (20); SANDPIPER_TEST_SESSIONS: of the sessions with canaries (60).
SANDPIPER_TEST_SEED chooses their moments and calls.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from client import COMMAND, DEFAULTS, SLOW, Server, once, run_cli
from container_level import CONTAINER
from record_case import Record

KILLS = 15 * int(os.environ.get("SANDPIPER_TEST_KILLS", "20"))
SESSIONS = int(os.environ.get("SANDPIPER_TEST_SESSIONS", "60"))  # as many as fit
SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "1"))
CALL = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "run_python", "arguments": {}, "_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}


def request(number, tool, **arguments):
    return json.dumps({**CALL, "id": number, "params": {**CALL["params"], "name": tool, "arguments": arguments}}).encode() + b"\n"


class Failures(Record):
    def mount(self, size):
        """A file system of this size as the directory of records."""
        self.records.mkdir(mode=0o700)
        if os.geteuid() != 0 or subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", self.records], capture_output=True).returncode:
            self.skipTest("mount: not permitted")
        self.addCleanup(subprocess.run, ["umount", "-l", self.records])

    def test_session_survives_a_full_disk(self):
        self.mount("64k")
        with self.server() as server:
            texts = [server.python(f"x = {number}; print('y' * 5000)").text for number in range(20)]
            self.assert_prints(server.python("print(x)"), "19")
        self.assertEqual(sum("the record has ended: cannot write to it: No space left on device" in text for text in texts), 1)
        self.assertTrue(self.events("result"))
        self.assertTrue(self.path().read_bytes().endswith(b"}\n"))
        self.assertIn("without \"end\"", self.command("check", self.path()))

    def test_no_code_runs_whose_cell_cannot_be_written(self):
        self.mount("64k")
        work = self.place / "work"
        work.mkdir()
        with self.server("--record-required", "--workspace", work) as server:
            self.assert_ok(server.python("open('first', 'w').close()"))
            result = server.python("open('second', 'w').close()\n#" + "x" * 100000)
            self.assertIn("No code runs without a record (--record-required)", result.text)
        self.assertEqual(os.listdir(work), ["first"])

    def test_disk_that_is_full_before_the_first_call(self):
        self.mount("4k")
        (self.records / "filler").write_bytes(b"x" * 4096)
        with self.server() as server:
            self.assertIn("the record has ended", server.python("print(5)").text)
            self.assert_prints(server.python("print(6)"), "6")
        with self.server("--record-required") as server:
            texts = [server.python("print(7)").text for _ in range(2)]
        self.assertIn("--record-required", texts[1])

    def killed(self, number):
        """Kills a server at a random moment of its life. Returns its record, or None."""
        chance = random.Random(SEED + number)
        place = self.place / str(number)
        process = subprocess.Popen([*COMMAND, *DEFAULTS, "--record", str(place)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        for n in range(6):
            process.stdin.write(request(n, "run_python", code="print('z' * %d)" % (10 ** (n % 6))))
        process.stdin.flush()
        for _ in range(chance.randrange(6)):
            process.stdout.readline()
        time.sleep(chance.random() * 0.03)  # a moment, not a wait for anything
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return next(iter(place.iterdir()), None) if place.exists() else None

    @once
    def test_every_record_of_a_killed_server_is_whole(self):
        random_ends = set()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for path in pool.map(self.killed, range(KILLS)):
                if path is None:
                    continue
                data, prev = path.read_bytes(), "0" * 64
                lines = data.split(b"\n")
                torn = lines.pop()
                for number, line in enumerate(lines):
                    event = json.loads(line)
                    self.assertEqual((event["seq"], event["prev"]), (number, prev))
                    prev = hashlib.sha256(line).hexdigest()
                random_ends.add(len(lines))
                if data:
                    said = self.command("check", path)
                    self.assertIn("is torn" if torn else "ends without", said)
        self.assertGreater(len(random_ends), 4, "the moments are not random")

    def test_altered_removed_and_moved_lines_are_found_wherever_they_are(self):
        with self.server() as server:
            for number in range(4):
                server.python(f"print({number})")
        lines = self.path().read_bytes().splitlines(keepends=True)
        for at in range(len(lines) - 1):
            flipped = bytearray(lines[at])
            flipped[-4] ^= 1
            for changed in ([*lines[:at], bytes(flipped), *lines[at + 1:]], lines[:at] + lines[at + 1:],
                            [*lines[:at], lines[at + 1], lines[at], *lines[at + 2:]], [*lines[:at + 1], lines[at], *lines[at + 1:]]):
                self.path().write_bytes(b"".join(changed))
                done = run_cli("record", "check", str(self.path()))
                self.assertEqual(done.returncode, 1, (at, done.stdout))
                self.assertRegex(done.stdout.decode(), r"line \d+ was altered, missing or moved")

    def test_joined_records_are_found(self):
        for kind, members in (("start", {"host": "h"}), ("end", {"why": "x"})):
            path = self.forge((kind, members), ("warning", {"message": "later"}))
            self.assertIn("was altered, missing or moved", self.command("check", path, status=1))

    def test_last_hash_is_printed_at_the_end_also_by_a_signal(self):
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=signal_number):
                log = self.place / "log"
                with log.open("wb") as stderr, self.server(stderr=stderr, check=False) as server:
                    server.python("1")
                    if signal_number:
                        server.process.send_signal(signal_number)
                    else:
                        server.process.stdin.close()
                    server.process.wait()
                last = hashlib.sha256(self.path().read_bytes().splitlines()[-1]).hexdigest()
                self.assertEqual(f"last hash {last}" in log.read_text(), signal_number != signal.SIGKILL)
                self.assertIn(last, self.command("check", self.path()))
                self.path().unlink()

    @once
    def test_old_records_make_place_and_nothing_else_does(self):
        self.records.mkdir(mode=0o700)
        foreign = self.records / "2020-01-01T00-00-00Z-1.jsonl"
        foreign.write_text("not a record\n" * 10000)
        link = self.records / "2020-01-01T00-00-01Z-1.jsonl"
        outside = self.place / "outside"
        outside.write_text('{"v":1,"seq":0,"time":"' + "x" * 500000)
        link.symlink_to(outside)
        (self.records / "notes.txt").write_text("n")
        with self.server("--record-size", "1M") as living:
            living.python("1")
            kept = self.path()
            for _ in range(8):
                with self.server("--record-size", "1M") as server:
                    for _ in range(3):
                        server.python("print('q' * 60000)")
            self.assertTrue(kept.exists(), "a record of a living server was removed")
            living.python("2")
        self.assertEqual((foreign.exists(), link.is_symlink(), outside.exists()), (True, True, True))
        self.assertTrue((self.records / "notes.txt").exists())
        size = sum(path.stat().st_size for path in self.records.glob("20[2-9][1-9]*"))
        self.assertLess(size, 1 << 20)
        self.assertLess(len(list(self.records.iterdir())), 11)
        self.assertRegex(run_cli("doctor", "--record", str(self.records)).stdout.decode(), r"record *.*sessions, [01] of 256 MiB")

    @once
    def test_bounds_are_said_once_and_the_session_goes_on(self):
        with self.server("--record-size", "1M") as server:
            texts = [server.python(f"print('y' * 50000); x = {number}").text for number in range(12)]
            self.assert_prints(server.python("print(x)"), "11")
        self.assertEqual(sum("without outputs and figures" in text for text in texts), 1)
        self.assertEqual(sum("note" in event for event in self.events()), 1)
        self.assertIn("output_sha256", self.events("result")[-2])
        self.assertNotIn("output", self.events("result")[-2])
        with self.server("--record-size", "1M") as server:
            texts = [server.python(f"x = {'7' * 100000!r}").text for _ in range(8)]
        self.assertEqual(sum("the record has ended: it has all of --record-size" in text for text in texts), 1)

    @once
    def test_calls_that_no_reader_would_take_leave_the_rest_readable(self):
        deep, code = json.loads("[" * 70 + "]" * 70), b"#" + b"\x7f" * (12 << 20)
        with self.server() as server:
            server.python("print('before')")
            for nonsense in (deep, [0] * 499988, "x" * (2 << 20)):
                server.call("run_python", code="1", nonsense=nonsense)
            server.python("print('after')")
        self.assertIn("whole", self.command("check", self.path()))
        self.assertIn("print('after')", self.command("show", self.path()))
        self.assertEqual(["arguments_sha256" in event for event in self.events("tool")], [True] * 3)
        with subprocess.Popen([*COMMAND, *DEFAULTS, "--memory", "2G", "--record", self.records], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            process.stdin.write(request(1, "run_python", code="CODE").replace(b"CODE", code))
            process.stdin.flush()
            process.stdout.readline()
            process.stdin.close()
        cell = self.events("cell")[0]
        self.assertEqual((cell.get("code_bytes"), cell.get("code_sha256")), (len(code), hashlib.sha256(code).hexdigest()))
        self.assertIn("whole", self.command("check", self.path()))

    def test_line_that_is_unreadable_is_passed(self):
        deep = json.loads("[" * 70 + "]" * 70)
        path = self.forge(("cell", {"call": 1, "cell": 1, "session": "default", "code": "1", "arguments": {"x": deep}}),
                          ("cell", {"call": 2, "cell": 2, "session": "default", "code": "print('after')", "arguments": {}}))
        self.assertRegex(self.command("check", path, status=1), r"4 lines(.|\n)*line 2: .*nests too deep\n$")
        self.assertIn("print('after')", self.command("show", path, status=1))

    def test_directory_that_is_a_symlink_or_another_users(self):
        real = self.place / "real"
        real.mkdir(mode=0o700)
        self.records.symlink_to(real)
        with self.server() as server:
            self.assert_ok(server.python("1"))
        self.assertEqual(len(list(real.iterdir())), 1)
        if os.geteuid() == 0:
            os.chown(real, 12345, 12345)
            with self.server() as server:
                self.assertIn("owner", server.python("1").text)

    def test_directory_that_is_replaced_while_the_server_runs(self):
        with self.server() as server:
            server.python("1")
            moved = self.records.rename(self.place / "moved")
            self.records.symlink_to("/tmp")
            server.python("2")
        self.records = moved
        self.assertEqual([event["code"] for event in self.events("cell")], ["1", "2"])

    def session(self, number):
        """A random session of a server that has canaries in its environment, credentials and tools."""
        chance = random.Random(SEED + number)
        place = self.place / f"s{number}"
        env = dict(os.environ, SECRET_CANARY="canary-env", AWS_SECRET_ACCESS_KEY="canary-aws", HTTPS_PROXY="http://u:canary-proxy@p.invalid:1",
                   PIP_INDEX_URL="https://u:canary-pip@i.invalid/simple")
        flags = [["--index-url", "https://user:canary-index@index.invalid/simple"],
                 ["--extra-index-url", "https://canary-extra@more.invalid/simple"],
                 ["--allow-host", "allowed.invalid"], ["--tools", str(self.tools)], ["--workspace", str(self.work), "--cow"]]
        calls = [("run_python", {"code": "import os; print(sorted(os.environ.items()))"}),
                 ("run_python", {"code": "print(open('/proc/self/environ').read(), open('/proc/1/cmdline').read())"}),
                 ("run_python", {"code": "import urllib.request as u\ntry: u.urlopen('http://other.invalid/?q')\nexcept OSError as e: print(e)"}),
                 ("run_python", {"code": "from sandpiper import tools; tools.search()"}),
                 ("run_python", {"code": "%pip install nothing-4711"}), ("run_python", {"code": "!env"}),
                 ("install_package", {"packages": ["nothing-4711"]}), ("read_file", {"path": "/proc/self/environ"}),
                 ("read_file", {"path": "."}), ("write_file", {"path": "a", "content": "b"}), ("run_python", {"code": "1/0"}),
                 ("run_python", {"code": "", "undo": True}), ("list_changes", {}), ("run_python", {"nonsense": 1})]
        chosen = [chance.choice(calls) for _ in range(3)]
        process = subprocess.Popen([*COMMAND, *DEFAULTS, "--record", str(place), "--cache", str(self.place / "cache"),
                                    *(word for flag in flags if chance.random() < 0.5 for word in flag)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
        process.stdin.write(b"".join(request(n, tool, **arguments) for n, (tool, arguments) in enumerate(chosen)))
        process.stdin.flush()
        for _ in chosen:
            process.stdout.readline()
        process.communicate(timeout=100 * SLOW)
        return [path.read_bytes() for path in place.iterdir()] if place.exists() else []

    @once
    def test_no_canary_is_in_any_record(self):
        programs = pathlib.Path(self.place / "programs")
        programs.mkdir()
        self.work = self.place / "work"
        self.work.mkdir()
        self.place.chmod(0o755)
        (programs / "token").write_text("canary-token")
        self.tools = programs / "tools.json"
        self.tools.write_text(json.dumps({"mcpServers": {"one": {"command": "/bin/false", "args": ["--token", "canary-argument"],
                                                                 "env": {"TOKEN": "canary-toolenv"}}}}))
        self.tools.chmod(0o600)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            records = [data for found in pool.map(self.session, range(SESSIONS)) for data in found]
        self.assertGreater(len(records), SESSIONS // 3 if CONTAINER else SESSIONS // 2)  # --cow is refused there
        for data in records:
            self.assertNotIn(b"canary-", data, data[max(0, data.find(b"canary-") - 300):][:600])


if __name__ == "__main__":
    unittest.main()
