"""Without a sandbox no code runs: the tools give the reason, and the server keeps running."""
import os
import signal
import subprocess
import unittest

from client import COMMAND, DENY, SLOW, Case, Server, need_userns

# A user namespace that allows no further one, as on machines where they are disabled.
NO_NAMESPACES = ["unshare", "-Ur", "sh", "-c",
                 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh"]
NO_MOUNTS = ["unshare", "-Ur", "sh", "-c",
             'echo 0 >/proc/sys/user/max_mnt_namespaces && exec "$@"', "sh"]


class Refusals(Case):
    def setUp(self):
        need_userns()
        tried = subprocess.run([*NO_NAMESPACES, "true"], capture_output=True)
        if tried.returncode:
            self.skipTest("userns: its limits cannot be set here")

    def refused(self, wrap, *words):
        marker = f"/tmp/sp-ran-{os.getpid()}"
        with Server(wrap=wrap) as server:
            result = server.python(f"open({marker!r}, 'w')\nprint('code ' + 'ran')")
            self.assertTrue(result.is_error)
            self.assertNotIn("code ran", result.text)
            self.assertFalse(os.path.exists(marker))
            for word in words:
                self.assertIn(word, result.text)
            self.assertGreater(len(result.text), 40, "a sentence with cause and remedy")
            self.assertTrue(server.write("a.txt", "x").is_error)
            self.assertTrue(server.read("a.txt").is_error)
            self.assertEqual(server.request("ping")["result"], {})
            self.assertTrue(server.python("1").is_error)

    def test_without_user_namespaces(self):
        self.refused(NO_NAMESPACES, "namespace")

    def test_without_mount_namespaces(self):
        self.refused(NO_MOUNTS)

    def test_a_process_that_dies_while_the_sandbox_is_built_is_not_the_interpreter(self):
        with Server(wrap=[*DENY, "capset:KILL", "--"]) as server:
            text = server.python("1").text
        self.assertIn(f"init was killed by signal {signal.SIGSYS:d}", text)
        self.assertNotIn("--python", text)

    def test_doctor_says_so(self):
        done = subprocess.run([*NO_NAMESPACES, *COMMAND, "doctor"], capture_output=True,
                              timeout=60 * SLOW)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"namespace", done.stdout.lower())

    def test_run_is_refused_too(self):
        done = subprocess.run([*NO_NAMESPACES, *COMMAND, "run", "-c", "print('code ' + 'ran')"],
                              capture_output=True, timeout=60 * SLOW)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn(b"code ran", done.stdout)
        self.assertIn(b"namespace", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
