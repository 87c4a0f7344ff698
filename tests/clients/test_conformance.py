"""The official conformance suite, in both eras, without its fixture tools. conformance.mjs connects it to the server.
"""
import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import packages  # noqa: E402
from test_libraries import Tapped  # noqa: E402

LEGACY, MODERN = "2025-11-25", "2026-07-28"
# The list omits scenarios about HTTP itself, which would check the bridge (sessions, streams, headers, rebinding),
# about features that we do not offer (prompts, completions, logging, extensions), and those of the fixture tools.
SCENARIOS = {
    "2025-06-18": ("server-initialize", "ping", "tools-list"),
    LEGACY: ("server-initialize", "ping", "tools-list"),
    MODERN: ("server-stateless", "tools-list", "caching", "sep-2164-resource-not-found",
             "input-required-result-unsupported-methods"),
}
TASKS = ("tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
         "tasks-dispatch-and-envelope", "tasks-required-task-error")
# Checks that cannot pass, each with its reason. If one passes, that is an error.
NO_FIXTURE = "needs a tool of the suite's own"
NOT_OFFERED = "about a capability that is not declared"
IMPOSSIBLE = {
    "sep-2575-http-server-header-mismatch-400": "HTTP: the bridge reads no such header",
    "sep-2575-server-rejects-undeclared-capability": NO_FIXTURE,
    "sep-2575-missing-capability-http-400": NO_FIXTURE,
    "sep-2575-http-server-no-independent-requests-on-stream": NO_FIXTURE,
    "sep-2575-server-no-log-without-loglevel": NO_FIXTURE,
    "sep-2549-prompts-list-caching-hints": NOT_OFFERED,
    "sep-2549-resources-list-caching-hints": NOT_OFFERED,
    "sep-2549-resources-templates-list-caching-hints": NOT_OFFERED,
    "sep-2164-error-code": NOT_OFFERED,
    "sep-2164-data-uri": NOT_OFFERED,
}
IMPOSSIBLE_TASKS = {
    "sep-2663-tasks-get-status-failed": "run_python's results are never errors of the protocol",
    "tasks-result-type-complete-on-non-task-responses": NO_FIXTURE,
    "sep-2663-server-returns-missing-capability-when-required": "no call requires tasks",
}


class Suite(Tapped):
    impossible = IMPOSSIBLE

    def setUp(self):
        super().setUp()
        bridge = packages.own(HERE, "conformance.mjs") / "conformance.mjs"
        self.bridge = subprocess.Popen([packages.node(), bridge, *self.command()], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.bridge.kill)
        self.url = self.bridge.stdout.readline().strip()

    def command(self):
        return self.server

    def checks(self, scenario, version):
        suite = packages.program("@modelcontextprotocol/conformance/dist/index.js")
        done = self.run_node(*suite, "server", "--url", self.url, "--scenario", scenario, "--spec-version",
                             version, "--verbose", "--force")
        start = done.stdout.find("[")
        self.assertGreaterEqual(start, 0, done.stdout + done.stderr)
        return json.JSONDecoder().raw_decode(done.stdout[start:])[0]

    def failures(self, scenario, version):
        """{id: why} of each failed check. The suite waits less than a second for some responses, and a busy machine
        may need longer, so a check has three attempts."""
        for _ in range(3):
            checks = self.checks(scenario, version)
            self.assertIn("SUCCESS", [check["status"] for check in checks])
            failed = {check["id"]: check.get("errorMessage") for check in checks
                      if check["status"] not in ("SUCCESS", "SKIPPED", "INFO")}
            if not failed.keys() - self.impossible.keys():
                break
        return failed

    def run_version(self, version, scenarios):
        failed = {}
        for scenario in scenarios:
            failed.update(self.failures(scenario, version))
        self.bridge.stdin.close()
        self.assertEqual(self.bridge.wait(20), 0)
        self.bridge.stdout.close()
        self.check()
        self.assertEqual({check: failed[check] for check in failed.keys() - self.impossible.keys()}, {})
        return failed


class Conformance(Suite):
    def test_2025_06_18(self):
        self.assertEqual(self.run_version("2025-06-18", SCENARIOS["2025-06-18"]), {})

    def test_2025_11_25(self):
        self.assertEqual(self.run_version(LEGACY, SCENARIOS[LEGACY]), {})

    def test_2026_07_28(self):
        failed = self.run_version(MODERN, SCENARIOS[MODERN])
        self.assertEqual(failed.keys(), IMPOSSIBLE.keys())


class Tasks(Suite):
    impossible = IMPOSSIBLE_TASKS

    def command(self):
        # The suite's calls last a second, and each is to become a task.
        return ["--one", sys.executable, "-B", str(HERE / "task_tools.py"), *self.server, "--wait", "0.3"]

    def test_tasks(self):
        self.assertEqual(self.run_version(MODERN, TASKS).keys(), IMPOSSIBLE_TASKS.keys())


if __name__ == "__main__":
    unittest.main()
