"""doctor, the instructions and refusals report the same protections; the user may accept less.

The tests disable protections by denying system calls (helpers/deny.py) or hiding control groups; the server must refuse
or report each, with a remedy.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from client import BINARY, DENY, SLOW, Case, Server, need_userns
from traces import descendants

# Hides all control groups.
NO_CGROUPS = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]
LIMITS = ("memory", "pids", "cpu")


def without(*calls):
    return [*DENY, *calls, "--"]


def doctor(*args, wrap=()):
    done = subprocess.run([*wrap, BINARY, "doctor", "--json", *args], capture_output=True,
                          timeout=60 * SLOW)
    report = json.loads(done.stdout)
    return done.returncode, report, {layer["protection"]: layer for layer in report["protections"]}


def instructions(server):
    return server.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                         "clientInfo": {"name": "t", "version": "1"}}
                          )["result"]["instructions"]


class Report(Case):
    def setUp(self):
        need_userns()

    def need_hidden_cgroups(self):
        if subprocess.run([*NO_CGROUPS, "true"], capture_output=True).returncode:
            self.skipTest("cgroup: it cannot be hidden here")

    def refused(self, layer, *args, wrap=()):
        """Asserts that tools, instructions and doctor refuse, and name the protection."""
        with Server(*args, wrap=wrap) as server:
            for _ in range(2):
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error, result.text)
                self.assertIn(f"{layer}: ", result.text)
                self.assertNotIn("code ran", result.text)
            self.assertIn(f"refuse to run code here: {layer}: ", instructions(server))
            self.assertTrue(server.write("a.txt", "x").is_error)
        status, report, layers = doctor(*args, wrap=wrap)
        self.assertEqual((status, report["usable"]), (2, False))
        self.assertIn(f"{layer}: ", report["refusal"])
        self.assertEqual([name for name in layers if layers[name]["state"] == "off"][:1],
                         [layer] if layers[layer]["state"] == "off" else [])
        return result.text, layers

    def test_doctor_and_instructions_agree(self):
        status, report, layers = doctor()
        self.assertTrue(report["usable"] and report["proven"])
        weaker = [name for name in layers if layers[name]["state"] != "on"]
        self.assertEqual(status, 1 if weaker else 0)
        for name in ("namespaces", "mounts", "privileges", "seccomp", "python"):
            self.assertEqual((layers[name]["state"], layers[name]["required"]), ("on", True))
        with Server() as server:
            first = server.python("1")
            named = re.findall(r"isolation: degraded \(([a-z, ]+)\), see sandpiper doctor", first.text)
            early = instructions(server)
            self.assertNotIn("tested before any code runs", early)
            self.assertEqual("Isolation: full" in early, not weaker)
            for name in weaker:
                self.assertIn(name + " (", early)
            limits = [name for name in weaker if name in LIMITS]
            self.assertEqual(named, [", ".join(limits)] if limits else [])
            self.assertNotIn("isolation:", server.python("1").text, "said once")

    def test_initialize_does_not_wait_for_a_sandbox(self):
        with Server(initialize=False) as server:
            text = instructions(server)
            self.assertIn("tested before any code runs", text)
            self.assertLess(len(text), 2048)

    def test_a_failed_step_is_reported_as_its_protection(self):
        for calls, layer in ((("pivot_root",), "mounts"), (("capset",), "privileges"),
                             (("sethostname",), "namespaces"), (("seccomp",), "seccomp")):
            with self.subTest(calls=calls):
                self.refused(layer, wrap=without(*calls))

    def test_a_protection_that_fails_the_self_test_stops_all_code(self):
        """The sandbox is built, but the protection fails its self-test."""
        for calls, layer in ((("statfs",), "mounts"), (("capget",), "privileges")):
            with self.subTest(calls=calls):
                self.refused(layer, wrap=without(*calls))

    def test_landlock_without_effect_is_detected(self):
        if doctor()[2]["landlock"]["state"] != "on":
            self.skipTest("landlock: the kernel has none")
        wrap = without("landlock_restrict_self")
        text, layers = self.refused("landlock", wrap=wrap)
        self.assertEqual(layers["landlock"]["state"], "off")
        self.assertIn("--allow-degraded landlock", text)
        with Server("--allow-degraded", "landlock", wrap=wrap) as server:
            self.assert_ok(server.python("1"))
            self.assertIn("landlock (", instructions(server))

    def test_a_missing_landlock_is_named_and_can_be_required(self):
        wrap = without("landlock_create_ruleset")
        with Server(wrap=wrap, initialize=False) as server:
            self.assertIn("landlock (", instructions(server))
            self.assert_ok(server.python("1"))
        text, layers = self.refused("landlock", "--require", "memory,landlock", wrap=wrap)
        self.assertEqual(layers["landlock"]["state"], "degraded")
        self.assertTrue(layers["landlock"]["remedy"])
        self.assertIn("--require", text)

    def test_limits_without_a_control_group(self):
        self.need_hidden_cgroups()
        status, report, layers = doctor(wrap=NO_CGROUPS)
        self.assertEqual((status, report["usable"]), (1, True))
        for name in LIMITS:
            self.assertEqual(layers[name]["state"], "degraded")
            self.assertTrue(layers[name]["consequence"] and layers[name]["remedy"], name)
        self.assertNotIn("5.14", layers["pids"]["consequence"])
        table = subprocess.run([*NO_CGROUPS, BINARY, "doctor"], capture_output=True, text=True).stdout
        self.assertEqual(len(re.findall(r"(?m)^ +do: +the same$", table)), 2, table)
        with Server(wrap=NO_CGROUPS) as server:
            self.assertIn("isolation: degraded (memory, pids, cpu)", server.python("1").text)
        with tempfile.TemporaryDirectory() as work, Server("--workspace", work, wrap=NO_CGROUPS) as server:
            self.assertIn("isolation: degraded (memory, pids, cpu, disk)", server.python("1").text)
            layers = doctor("--workspace", work)[2]
        self.assertIn("nothing on a machine of your own", layers["disk"]["remedy"])
        for name in ("memory", "pids"):
            with self.subTest(required=name):
                self.refused(name, "--require", name, wrap=NO_CGROUPS)

    def test_a_processor_limit_that_cannot_be_kept(self):
        self.need_hidden_cgroups()
        text, layers = self.refused("cpu", "--cpus", "1", wrap=NO_CGROUPS)
        self.assertIn("--allow-degraded cpu", text)
        with Server("--cpus", "1", "--allow-degraded", "cpu", wrap=NO_CGROUPS) as server:
            self.assert_ok(server.python("1"))

    def test_unknown_protections_are_refused_with_the_valid_names(self):
        for args, words in ((("--require", "sandbox"), ('"sandbox"', "landlock, memory, pids")),
                            (("--allow-degraded", "cpu,seccomp"), ("seccomp", "landlock, memory")),
                            (("--require", "cpu", "--allow-degraded", "cpu"), ("cpu", "both"))):
            with self.subTest(args=args), Server(*args) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error)
                for word in words:
                    self.assertIn(word, result.text)

    def test_doctor_reports_facts_beside_the_protections(self):
        facts = {fact["fact"]: fact["text"] for fact in doctor()[1]["facts"]}
        self.assertIn(os.uname().release, facts["kernel"])
        self.assertIn("outside", facts["identity"] + "outside" * ("root" in facts["identity"]))
        for name in ("paths", "workspace", "sessions", "leftovers"):
            self.assertTrue(facts[name], name)

    def test_the_sandbox_has_its_own_keyring(self):
        with Server() as server:
            self.assert_ok(server.python("1"))
            uids = {self.uid(pid) for pid in descendants(server.pid)} - {str(os.getuid())}
            if not uids or not os.path.exists("/proc/key-users"):
                self.skipTest("ids: the sandbox has none of its own outside")
            self.assertEqual(len(uids), 1)
            users = pathlib.Path("/proc/key-users").read_text()
            self.assertRegex(users, rf"(?m)^ *{uids.pop()}: +\d+ [1-9]")

    @staticmethod
    def uid(pid):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("Uid:"):
                return line.split()[1]


if __name__ == "__main__":
    unittest.main()
