"""System calls that an older kernel lacks or a filter refuses: an equally strong fallback, or a refusal by name."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from client import COMMAND, DENY, SLOW, Case, Server, is_denied, need_userns, run_cli

MOUNT_CALLS = ("open_tree", "mount_setattr", "move_mount")
# Path, root in its file system, and options of each mount in the sandbox. Without these calls it has no terminals.
MOUNTS = ("print(*sorted(' '.join([f[4], f[3], f[5]]) for f in map(str.split, "
          "open('/proc/self/mountinfo')) if f[4] != '/dev/pts'), sep='\\n')")
# A host with mounts below /usr: one with a blank in its name and no restrictions, and one below that.
BELOW_USR = ["unshare", "-Urm", "sh", "-ec", """
    mount -t tmpfs -o suid,dev,exec tmpfs /usr/games
    mkdir '/usr/games/with blank'
    mount -t tmpfs -o suid,dev,exec tmpfs '/usr/games/with blank'
    touch '/usr/games/with blank/file'
    exec "$@" """, "sh"]


def without(*calls):
    return [*DENY, *calls, "--"]


class Calls(Case):
    def setUp(self):
        need_userns()

    def test_a_missing_call_with_a_fallback_is_replaced(self):
        for calls in (("clone3", "pidfd_open"), ("landlock_create_ruleset",),
                      ("epoll_pwait2", "statx", "faccessat2"), MOUNT_CALLS):
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
            if call.startswith("landlock") and is_denied("landlock_create_ruleset"):
                continue
            with self.subTest(call=call), Server(wrap=without(call)) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error, result.text)
                self.assertNotIn("code ran", result.text)
                self.assertIn(words, result.text)
                self.assertEqual(server.request("ping")["result"], {})


class Mounts(Case):
    """Bind mounts give the same paths as the mount calls of Linux 5.12."""

    def setUp(self):
        need_userns()

    def mounts(self, *wrap):
        done = subprocess.run([*wrap, *COMMAND, "run", "-c", MOUNTS], capture_output=True, text=True,
                              timeout=60 * SLOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Each server has its own directory of packages.
        lines = re.sub(r"/boxes/\w+", "/boxes/NAME", done.stdout).splitlines()
        self.assertGreater(len(lines), 8, done.stdout)
        return lines

    def test_bind_mounts_give_the_same_paths(self):
        with_calls = self.mounts()
        for calls in ([MOUNT_CALLS[0]], [MOUNT_CALLS[1] + ":EPERM"], [MOUNT_CALLS[2]]):
            with self.subTest(calls=calls):
                self.assertEqual(self.mounts(*without(*calls)), with_calls)

    def test_mounts_below_a_tree_are_restricted_too(self):
        tried = subprocess.run([*BELOW_USR, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("mount: " + tried.stderr.decode(errors="replace").strip())
        with_calls = self.mounts(*BELOW_USR)
        by_binds = self.mounts(*BELOW_USR, *without(*MOUNT_CALLS))
        self.assertEqual(by_binds, with_calls)
        below = [line for line in by_binds if line.startswith("/usr/games")]
        self.assertEqual(len(below), 2, by_binds)
        for line in below:
            self.assertRegex(line, r"^\S+ / ro,nosuid,nodev\b")

    def test_workspace_of_root_is_refused_with_the_remedy(self):
        if os.geteuid() != 0 or pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":
            self.skipTest("root: only the host's root owns a directory that needs mapped ids")
        with tempfile.TemporaryDirectory(prefix="sp-root-") as directory:
            with Server("--workspace", directory, wrap=without("mount_setattr")) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error, result.text)
                self.assertIn("belongs to root", result.text)
                self.assertIn("name a directory that an ordinary user owns", result.text)
                self.assertNotIn("chown", result.text)
            os.chown(directory, 12345, 12345)
            with Server("--workspace", directory, wrap=without("mount_setattr")) as server:
                self.assertFalse(server.write("a.txt", "x").is_error)
            self.assertEqual(os.stat(f"{directory}/a.txt").st_uid, 12345)


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

    def test_plan_without_the_mount_calls(self):
        done = subprocess.run([*without("mount_setattr"), *COMMAND, "doctor", "--plan"],
                              capture_output=True, text=True, timeout=60 * SLOW)
        self.assertRegex(done.stdout, r"(?m)^ *\d+  bind tree /usr at /usr read-only nosuid nodev$")
        self.assertNotIn("mount tree", done.stdout)

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
