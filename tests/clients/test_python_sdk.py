"""The official Python SDK, by each way to connect: state, images, progress, resources, a question, tasks, cancelled calls."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

from client import SLOW, need_userns  # noqa: E402
from test_libraries import Tapped  # noqa: E402

SDK = "mcp==2.3.0"


def python_with_sdk():
    """An interpreter that has the SDK. Installs it once for a build directory, or skips the test."""
    kept = os.environ.get("SANDPIPER_SDK_DIR") or tempfile.mkdtemp(prefix="sp-sdk-")
    if "SANDPIPER_SDK_DIR" not in os.environ:
        unittest.addModuleCleanup(shutil.rmtree, kept, ignore_errors=True)
    python = pathlib.Path(kept, "python", "bin", "python")
    installed = pathlib.Path(kept, "python", SDK)
    if not installed.exists():
        if sys.version_info < (3, 10):
            raise unittest.SkipTest(f"python: {SDK} needs 3.10")
        for command in ([sys.executable, "-m", "venv", "--clear", python.parents[1]],
                        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", SDK]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()[-1]
                raise unittest.SkipTest(f"pip: {SDK} cannot be installed ({last})")
        installed.touch()
    return python


class PythonSdk(Tapped):
    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.python = python_with_sdk()

    def drive(self, mode, count):
        done = subprocess.run([self.python, "-B", HERE / "python_sdk.py", mode, *self.server, "--resources", "--allow-host", "ask"],
                              capture_output=True, text=True, timeout=120 * SLOW)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one for one in steps if not one["ok"]], [], done.stderr)
        self.assertEqual((len(steps), done.returncode), (count, 0), done.stderr)
        self.assertEqual(sum(one["cancelled"] for one in self.check()), 2)

    def test_with_initialize(self):
        self.drive("legacy", 13)

    def test_as_it_negotiates_by_itself(self):
        self.drive("auto", 14)

    def test_with_a_pinned_version(self):
        self.drive("2026-07-28", 14)


if __name__ == "__main__":
    unittest.main()
