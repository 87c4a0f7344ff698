"""Client libraries, each with the whole of run_python: state, an image, an error, a cancelled call. Between client and
server helpers/wire_tap.py checks each line."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import packages  # noqa: E402
from client import BINARY, SLOW, need_userns  # noqa: E402
from traces import is_running  # noqa: E402

CLIENTS = sorted(path.name for path in (HERE / "libraries").iterdir())
TAP = [sys.executable, "-B", str(HERE.parent / "helpers" / "wire_tap.py")]


class Tapped(unittest.TestCase):
    """Runs the server behind the tap in commands that contain self.server."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        packages.node()

    def setUp(self):
        reports = tempfile.TemporaryDirectory(prefix="sp-tap-")
        self.addCleanup(reports.cleanup)
        self.reports = pathlib.Path(reports.name)
        self.server = [*TAP, reports.name, BINARY]

    def run_node(self, *command, **options):
        return subprocess.run(command, capture_output=True, text=True, timeout=120 * SLOW,
                              cwd=packages.directory(), **options)

    def check(self):
        """Checks that the lines were valid and the servers exited normally. Returns the taps' reports.

        Some clients exit before their server has, or kill a server that they started as a probe.
        """
        deadline = time.monotonic() + 20 * SLOW
        while any(is_running(path.stem) for path in self.reports.glob("*.open")):
            self.assertLess(time.monotonic(), deadline, "a server goes on without its client")
            time.sleep(0.05)
        seen = [json.loads(path.read_text()) for path in self.reports.glob("*.json")]
        self.assertTrue(seen)
        for one in seen:
            self.assertEqual(one["complaints"], [])
            self.assertEqual(one["status"], 0, one)
        return seen


class Libraries(Tapped):
    def smoke(self, name, mode, cancels=True):
        place = packages.own(HERE, "smoke.mjs", "picture.py", *(f"libraries/{file}" for file in CLIENTS))
        done = self.run_node(packages.node(), place / "smoke.mjs", name, mode, *self.server)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(steps), 10, done.stderr)
        self.assertEqual([one for one in steps if not one["ok"]], [], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = self.check()
        self.assertGreater(max(one["lines"] for one in seen), 15)
        self.assertEqual(sum(one["cancelled"] for one in seen), int(cancels))

    def test_official_sdk_1(self):
        self.smoke("sdk_v1", "legacy")

    def test_official_client_2_with_initialize(self):
        self.smoke("sdk_v2", "legacy")

    def test_official_client_2_negotiates(self):
        self.smoke("sdk_v2", "auto")

    def test_official_client_2_with_discover(self):
        self.smoke("sdk_v2", "modern")

    def test_ai_sdk_with_initialize(self):
        self.smoke("ai_sdk", "legacy", cancels=False)

    def test_ai_sdk_negotiates(self):
        self.smoke("ai_sdk", "auto", cancels=False)

    def test_openai_agents(self):
        self.smoke("openai_agents", "auto")

    def test_langchain(self):
        self.smoke("langchain", "auto")


class Inspector(Tapped):
    """The official inspector's command line; each call starts a server."""

    ERROR_RESULT = 5  # its exit status for a result with isError

    def inspect(self, *words, status=0):
        cli = packages.program("@modelcontextprotocol/inspector/clients/cli/build/index.js")
        done = self.run_node(*cli, "--format", "json", *words, *self.server)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.check()
        return json.loads(done.stdout)["result"], done.stderr

    def python(self, code, **options):
        result, _ = self.inspect("--method", "tools/call", "--tool-name", "run_python",
                                 "--tool-args-json", json.dumps({"code": code}), **options)
        return result["content"]

    def test_schemas_are_portable_in_its_strict_mode(self):
        for era in ("legacy", "modern"):
            with self.subTest(era=era):
                result, notes = self.inspect("--protocol-era", era, "--method", "tools/list", "--strict")
                self.assertGreaterEqual(len(result["tools"]), 3)
                self.assertEqual(notes, "")

    def test_calls(self):
        self.assertIn("42\n", self.python("print(6 * 7)")[0]["text"])
        self.assertIn("KeyError", self.python("{}[1]", status=self.ERROR_RESULT)[0]["text"])
        shown = self.python((HERE / "picture.py").read_text())
        self.assertIn("image", [block["type"] for block in shown])


if __name__ == "__main__":
    unittest.main()
