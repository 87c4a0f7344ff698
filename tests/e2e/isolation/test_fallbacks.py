"""System calls that an older kernel lacks or a filter refuses: an equally strong fallback, or a refusal by name."""
import os
import subprocess
import tempfile
import unittest

from client import COMMAND, DENY, SLOW, Case, Server, landlock_version, need_userns

MOUNT_CALLS = ("open_tree", "mount_setattr", "move_mount")
def without(*calls):
    return [*DENY, *calls, "--"]


class Calls(Case):
    def setUp(self):
        need_userns()

    def test_a_missing_call_with_a_fallback_is_replaced(self):
        for calls in (("clone3", "pidfd_open"), ("landlock_create_ruleset",),
                      ("epoll_pwait2", "statx", "faccessat2")):
            with self.subTest(calls=calls), Server(wrap=without(*calls)) as server:
                self.assert_alive(server)
                self.assertFalse(server.write("a.txt", "x").is_error)
                self.assertIn("x", server.read("a.txt").text)

    def test_a_filter_of_old_container_engines_is_refused_with_the_remedy(self):
        for call in ("openat2", "close_range"):
            for level in ((), ("--isolation=container",)):
                with self.subTest(call=call, level=level), Server(*level, wrap=without(call + ":EPERM")) as server:
                    result = server.python("print('code ' + 'ran')")
                    self.assertTrue(result.is_error, result.text)
                    self.assertIn(f"{call}(2) is missing or refused: use Linux 5.12 or newer; inside a container, "
                                  "allow openat2 and close_range in its seccomp profile", result.text)

    def test_a_missing_call_without_fallback_stops_all_code(self):
        for call, words in (("seccomp", "seccomp"), ("pivot_root", "pivot"), ("mount", "mount"),
                            ("capset", "capabilities"), ("memfd_create", "memfd"),
                            ("execveat", "execute"), ("landlock_restrict_self", "Landlock")):
            if call.startswith("landlock") and landlock_version() < 0:
                continue
            with self.subTest(call=call), Server(wrap=without(call)) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error, result.text)
                self.assertNotIn("code ran", result.text)
                self.assertIn(words, result.text)
                self.assertEqual(server.request("ping")["result"], {})


class Mounts(Case):
    def setUp(self):
        need_userns()

    def test_missing_mount_calls_are_named_with_the_remedy(self):
        with tempfile.TemporaryDirectory(prefix="sp-mounts-") as directory:
            if os.geteuid() == 0:  # a directory of root's would be refused first: its ids cannot be mapped
                os.chown(directory, 12345, 12345)
            for calls in ([call] for call in MOUNT_CALLS):
                with self.subTest(calls=calls), Server("--workspace", directory, wrap=without(*calls)) as server:
                    result = server.python("print('code ' + 'ran')")
                    self.assertTrue(result.is_error, result.text)
                    self.assertNotIn("code ran", result.text)
                    self.assertIn("use Linux 5.12 or newer; inside a container, allow", result.text)
                    for call in MOUNT_CALLS:
                        self.assertIn(call, result.text)


class Report(Case):
    """doctor reports degraded protections."""

    def setUp(self):
        need_userns()

    def doctor(self, *denied):
        done = subprocess.run([*without(*denied), *COMMAND, "doctor"], capture_output=True, text=True,
                              timeout=60 * SLOW)
        self.assertIn("Tools run code in the sandbox.", done.stdout, done.stderr)
        return done.stdout

    def test_landlock(self):
        for error in ("ENOSYS", "EPERM", "EOPNOTSUPP"):
            with self.subTest(error=error):
                self.assertRegex(self.doctor("landlock_create_ruleset:" + error),
                                 r"(?mi)^landlock +degraded")

    def test_control_groups(self):
        if os.geteuid() != 0:
            self.skipTest("root: only root can take control groups away")
        report = self.doctor("cgroup")
        for layer in ("memory", "pids"):
            self.assertRegex(report, rf"(?m)^{layer} +degraded")
        with Server("--memory", "256M", wrap=without("cgroup")) as server:
            self.assert_kind(server.python("x = bytearray(1 << 30)"), "out of memory")


if __name__ == "__main__":
    unittest.main()
