"""The official SDK clients against the binary, their packages pinned by package-lock.json.

The packages are installed once into a folder beside the build (SANDPIPER_SDK_DIR) and kept there.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import BINARY, SLOW, need_userns  # noqa: E402

NEEDS_NODE = {"v1": 18, "v2": 20}


def node_major():
    try:
        out = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=20)
    except OSError:
        return 0
    found = re.match(r"v(\d+)", out.stdout)
    return int(found[1]) if found else 0


def install(folder):
    """Puts the packages into folder, or says why that cannot be done here."""
    lock = (HERE / "package-lock.json").read_bytes()
    done = folder / "installed-lock.json"
    for name in ("package.json", "package-lock.json", "smoke.mjs"):
        shutil.copy(HERE / name, folder / name)
    if done.exists() and done.read_bytes() == lock:
        return None
    try:
        npm = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder,
                             capture_output=True, text=True, timeout=180)
    except OSError:
        return "npm: not installed"
    except subprocess.TimeoutExpired:
        return "npm: the registry did not answer in time"
    if npm.returncode:
        if re.search(r"ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|network|ECONNRESET|E403",
                     npm.stderr):
            return "npm: the registry cannot be reached"
        raise AssertionError(npm.stderr)
    done.write_bytes(lock)
    return None


class Sdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_userns()
        if not node_major():
            raise unittest.SkipTest("node: not installed")
        kept = os.environ.get("SANDPIPER_SDK_DIR")
        cls.folder = pathlib.Path(kept or tempfile.mkdtemp(prefix="sp-sdk-"))
        cls.folder.mkdir(parents=True, exist_ok=True)
        if not kept:
            cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        missing = install(cls.folder)
        if missing:
            raise unittest.SkipTest(missing)

    def smoke(self, generation):
        if node_major() < NEEDS_NODE[generation]:
            self.skipTest(f"node: version {NEEDS_NODE[generation]} or newer is needed")
        done = subprocess.run(["node", "smoke.mjs", generation, BINARY], cwd=self.folder,
                              capture_output=True, text=True, timeout=120 * SLOW)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(steps), 10, done.stderr)
        self.assertEqual([one for one in steps if not one["ok"]], [], done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_sdk_1_as_initialize_era_client(self):
        self.smoke("v1")

    def test_client_2_in_legacy_mode(self):
        self.smoke("v2")


if __name__ == "__main__":
    unittest.main()
