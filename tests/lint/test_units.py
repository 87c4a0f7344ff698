"""Checks that systemd accepts the units and each of their settings."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "systemd"
BUILT = pathlib.Path(os.environ["SANDPIPER_UNITS"])


def verify(directory, *units):
    """systemd's complaints about units of a directory."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], cwd=directory, capture_output=True, text=True,
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{directory}:"})
    if done.returncode and done.stderr.startswith("Failed to "):
        raise unittest.SkipTest(f"systemd-analyze: {done.stderr.splitlines()[0]}")
    # The program is not installed where the tests run.
    return [line for line in done.stderr.splitlines() if "sandpiper" in line and "is not executable" not in line]


class Units(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            raise unittest.SkipTest("systemd-analyze: not installed")
        directory = tempfile.TemporaryDirectory(prefix="sp-units-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        for name in ("sandpiper.slice", "sandpiper.socket"):
            shutil.copy(SOURCE / name, self.directory)
        shutil.copy(BUILT / "sandpiper@.service", self.directory)
        # A session's and a slice's settings are drop-ins of units that systemd creates for a connection.
        session = (SOURCE / "session.conf").read_text()
        (self.directory / "sandpiper-session-1.service").write_text(session + "ExecStart=/bin/true\n")
        shutil.copy(SOURCE / "user.conf", self.directory / "sandpiper-1000.slice")

    def test_systemd_accepts_them(self):
        units = sorted(path.name.replace("@.", "@1-2-1000.") for path in self.directory.iterdir())
        self.assertEqual(len(units), 5)
        self.assertEqual(verify(self.directory, *units), [])

    def test_a_misspelt_setting_is_reported(self):
        unit = self.directory / "sandpiper-session-1.service"
        unit.write_text(unit.read_text().replace("DynamicUser=", "DynamicUsr="))
        self.assertIn("DynamicUsr", "".join(verify(self.directory, unit.name)))
