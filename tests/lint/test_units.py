"""systemd reads the units, and knows each of their settings."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "systemd"
BUILT = pathlib.Path(os.environ["SANDPIPER_UNITS"])


def verify(folder, *units):
    """What systemd has to say against units of a folder."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"})
    if done.returncode and done.stderr.startswith("Failed to "):
        raise unittest.SkipTest(f"systemd-analyze: {done.stderr.splitlines()[0]}")
    # The program is not installed where the tests run.
    return [line for line in done.stderr.splitlines() if "sandpiper" in line and "is not executable" not in line]


class Units(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            raise unittest.SkipTest("systemd-analyze: not installed")
        folder = tempfile.TemporaryDirectory(prefix="sp-units-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("sandpiper.slice", "sandpiper.socket"):
            shutil.copy(SOURCE / name, self.folder)
        shutil.copy(BUILT / "sandpiper@.service", self.folder)
        # A session's and a slice's settings are drop-ins of units that are made when somebody connects.
        session = (SOURCE / "session.conf").read_text()
        (self.folder / "sandpiper-session-1.service").write_text(session + "ExecStart=/bin/true\n")
        shutil.copy(SOURCE / "user.conf", self.folder / "sandpiper-1000.slice")

    def test_systemd_takes_them(self):
        units = sorted(path.name.replace("@.", "@1-2-1000.") for path in self.folder.iterdir())
        self.assertEqual(len(units), 5)
        self.assertEqual(verify(self.folder, *units), [])

    def test_a_misspelt_setting_is_seen(self):
        unit = self.folder / "sandpiper-session-1.service"
        unit.write_text(unit.read_text().replace("DynamicUser=", "DynamicUsr="))
        self.assertIn("DynamicUsr", "".join(verify(self.folder, unit.name)))
