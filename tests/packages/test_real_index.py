"""install_package from the index that this machine's pip uses. What plain pip gets from there is the measure: where it
gets nothing, each case is skipped with its reason."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from client import Case, Server, need_userns

# A wheel for every machine, one with an extension module, one with dependencies.
USES = {"six": "import six; print(six.PY3)", "markupsafe": "import markupsafe; print(markupsafe.escape('<'))",
        "python-dateutil": "import dateutil.parser; print(dateutil.parser.parse('3 May 2020').year)"}


class RealIndex(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-real-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.chmod(cls.directory, 0o755)
        cls.python = cls.directory / "venv/bin/python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", cls.directory / "venv"], check=True)

    def test_packages_are_installed_and_used(self):
        for name, use in USES.items():
            with self.subTest(name):
                done = subprocess.run(
                    [sys.executable, "-m", "pip", "download", "-q", "--retries", "1", "--timeout", "15",
                     "-d", self.directory / name, name], capture_output=True, text=True)
                if done.returncode:
                    self.skipTest(f"index: pip cannot download {name} ({(done.stderr.strip() or 'no reason').splitlines()[-1]})")
                with Server("--cache", str(self.directory / "cache"), "--python", str(self.python)) as server:
                    result = server.call("install_package", 300, packages=[name])
                    self.assertFalse(result.is_error, result.text)
                    files = {path.name.split("-")[1] for path in (self.directory / name).iterdir()}
                    for version in files:
                        self.assertIn(version, result.text)
                    self.assert_ok(server.python(use))


if __name__ == "__main__":
    unittest.main()
