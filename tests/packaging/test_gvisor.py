"""What the server says below gVisor (runsc, as Debian 12 has it): that kernel lacks a call without which no code runs."""
import json
import shutil
import subprocess
import unittest

from client import BINARY


class Gvisor(unittest.TestCase):
    def setUp(self):
        if not shutil.which("runsc"):
            self.skipTest("runsc: not installed")
        self.run_in = ["runsc", "--rootless", "--network=none", "--ignore-cgroups", "do"]
        done = subprocess.run([*self.run_in, "true"], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"runsc: starts nothing here: {done.stderr.strip()[-200:]}")

    def test_code_is_refused_at_each_level_and_the_call_named(self):
        for level in ("auto", "best", "container"):
            with self.subTest(level):
                done = subprocess.run([*self.run_in, BINARY, "doctor", "--json", "--isolation", level], capture_output=True,
                                      text=True, timeout=120)
                said = json.loads(done.stdout)
                self.assertFalse(said["usable"])
                self.assertIn("openat2", done.stdout)
                done = subprocess.run([*self.run_in, BINARY, "run", "--isolation", level, "-c", "print(6 * 7)"],
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
