"""Without a sandbox these work: the protocol, files that need none, and a refusal that gives the reason.

An emulator of user programs is such a place (SANDPIPER_TEST_WRAP): it has no namespaces and no system call filters.
"""
import json
import os
import unittest

from client import ROOT, Case, Server, run_cli

PATIENT_S = 20  # emulated processes exit late


@unittest.skipUnless(os.environ.get("SANDPIPER_TEST_WRAP"), "emulator: SANDPIPER_TEST_WRAP names none")
class Emulated(Case):
    def test_tools_list_is_the_same_as_everywhere(self):
        with Server("--wait", "25", cleanup_s=PATIENT_S) as server:
            tools = server.request("tools/list")["result"]["tools"]
        for tool in tools:
            schema = json.loads((ROOT / "schema" / f"{tool['name']}.input.json").read_text())
            self.assertEqual(tool["inputSchema"]["properties"].keys(), schema["inputSchema"]["properties"].keys())
        self.assertEqual({tool["name"] for tool in tools},
                         {"run_python", "write_file", "read_file", "install_package"})

    def test_no_code_runs_and_each_call_says_why(self):
        with Server(cleanup_s=PATIENT_S) as server:
            for call in (lambda: server.python("print(1)"), lambda: server.python("print(2)"),
                         lambda: server.write("a.txt", "x")):
                result = call()
                self.assertTrue(result.is_error, result.text)
                self.assertRegex(result.text, r"^The sandbox is not available: \w+: .*(\. Fix|refused): ")
            self.assertEqual(server.request("ping")["result"], {})

    def test_the_command_says_the_same(self):
        done = run_cli("run", "-c", "print('code ' + 'ran')")
        self.assertEqual((done.returncode, done.stdout), (125, b""))
        self.assertIn(b"The sandbox is not available: ", done.stderr)
        rows = json.loads(run_cli("doctor", "--json").stdout)["protections"]
        # An emulator has no filters; an older one no openat2(2), and in some roots not even namespaces, which come first.
        self.assertTrue({row["protection"] for row in rows if row["required"] and row["state"] == "off"}
                        & {"seccomp", "mounts", "namespaces"}, rows)


if __name__ == "__main__":
    unittest.main()
