"""The AppArmor profile for containers: parsed here, and used in a virtual machine of Debian 13 (tests/machines)."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "machines")]

import images  # noqa: E402
from client import BINARY  # noqa: E402

PROFILE = ROOT / "packaging" / "apparmor.d" / "sandpiper-container"
SECCOMP = ROOT / "packaging" / "seccomp" / "sandpiper.json"
KERNEL = "pc:trixie"


class Profile(unittest.TestCase):
    def test_the_parser_accepts_it(self):
        """A parser before AppArmor 4 accepts the variant that the profile's header describes."""
        if not shutil.which("apparmor_parser"):
            self.skipTest("apparmor: not installed")
        said = subprocess.run(["apparmor_parser", "--version"], capture_output=True, text=True).stdout
        text = PROFILE.read_text()
        if int(re.search(r"version (\d+)", said)[1]) < 4:
            command = re.search(r"sed -E '([^']+)'", text)[1]
            text = subprocess.run(["sed", "-E", command], input=text, capture_output=True, text=True, check=True).stdout
        done = subprocess.run(["apparmor_parser", "-Q", "-K"], input=text, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_confined_container_has_full_isolation_and_root_cannot_write_kernel_settings(self):
        if not (pathlib.Path(images.CACHE) / "images" / "trixie.ext4").exists():
            self.skipTest("machine: tests/machines/hostvm.py build trixie was not called")
        directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-confined-"))
        self.addCleanup(shutil.rmtree, directory)
        for path in (HERE / "confined.py", PROFILE, SECCOMP):
            shutil.copy(path, directory)
        shutil.copy(BINARY, directory / "sandpiper")
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "machines" / "hostvm.py", "run", "--host", "debian13-root",
             "--kernel", KERNEL, "--copy", f"{directory}:/opt/confined", "--cwd", "/opt/confined", "--no-input", "--timeout", "600", "--",
             "python3", "confined.py", "sandpiper", SECCOMP.name, PROFILE.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout.splitlines()[-1])
        doctor = json.loads(said["doctor"])
        self.assertEqual((doctor["usable"], doctor["isolation"]), (True, "full"), doctor)
        self.assertEqual(said["root with the profile"].split(), [PROFILE.name, "(enforce)"])
        self.assertEqual(said["root without"].split()[-1], "written")
