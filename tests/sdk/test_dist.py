"""The files of a release: the official tool takes the bundle, what it installs starts, and two makes are alike."""
import hashlib
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import packages  # noqa: E402
from client import BINARY, SLOW  # noqa: E402

ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
DIST = [sys.executable, "-B", str(HERE.parents[1] / "build-aux" / "dist.py")]
# What a host makes of a bundle's manifest, in the words of the official package.
CONFIG = """import { getMcpConfigForManifest } from '@anthropic-ai/mcpb';
import { readFileSync } from 'node:fs';
const [folder, settings] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(folder + '/manifest.json'));
console.log(JSON.stringify(await getMcpConfigForManifest({
  manifest, extensionPath: folder, systemDirs: {}, userConfig: JSON.parse(settings), pathSeparator: '/' })));
"""
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not ARCH:
            raise unittest.SkipTest(f"release: none for {platform.machine()}")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="sp-dist-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.made = cls.make("made")

    @classmethod
    def make(cls, name):
        out = cls.folder / name
        subprocess.run([*DIST, out, "--binary", f"{ARCH}={BINARY}", "--repository", "someone/sandpiper"],
                       check=True, stdout=subprocess.DEVNULL, timeout=60 * SLOW)
        return out

    def only(self, suffix):
        (path,) = self.made.glob("*" + suffix)
        return path

    def mcpb(self, *args):
        done = subprocess.run([*packages.program("@anthropic-ai/mcpb/dist/cli/cli.js"), *map(str, args)],
                              capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_same_source_gives_the_same_bytes(self):
        again = self.make("again")
        self.assertEqual((again / "SHA256SUMS").read_text(), (self.made / "SHA256SUMS").read_text())
        for line in (again / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split("  ")
            self.assertEqual(hashlib.sha256((self.made / name).read_bytes()).hexdigest(), digest)

    def test_the_bundle_is_valid_and_what_it_installs_starts(self):
        packages.node()
        unpacked = self.folder / "unpacked"
        self.mcpb("unpack", self.only(".mcpb"), unpacked)
        self.mcpb("validate", unpacked / "manifest.json")
        script = packages.folder() / "bundle.mjs"
        script.write_text(CONFIG)
        for settings, flags in (({}, []), ({"memory": "256M", "flags": ["--pids=99", "--cpus=1"]},
                                           ["--pids=99", "--cpus=1"])):
            with self.subTest(settings=settings):
                done = subprocess.run([packages.node(), script, unpacked, json.dumps(settings)],
                                      capture_output=True, text=True, check=True, timeout=60 * SLOW)
                config = json.loads(done.stdout)
                self.assertEqual(config["args"], ["--memory=" + settings.get("memory", "1G"),
                                                  "--timeout=30", *flags])
                server = subprocess.run([config["command"], *config["args"]],
                                        input=json.dumps(HELLO) + "\n", capture_output=True, text=True,
                                        timeout=60 * SLOW)
                self.assertIn('"serverInfo"', server.stdout)
                self.assertNotIn("not configured well", server.stdout)

    def test_the_archive_has_the_program_and_the_licences(self):
        with tarfile.open(self.only(".tar.gz")) as archive:
            modes = {member.name.split("/", 1)[1]: member.mode for member in archive}
        self.assertEqual(modes["bin/sandpiper"], 0o755)
        self.assertLessEqual({"LICENSE", "README.md"}, set(modes))

    def test_the_registry_entry_points_at_the_bundle(self):
        """The rules of the schema that it names."""
        entry = json.loads((self.made / "server.json").read_text())
        self.assertRegex(entry["name"], r"^[a-zA-Z0-9.-]{1,}/[a-zA-Z0-9._-]+$")
        self.assertLessEqual(len(entry["description"]), 100)
        self.assertRegex(entry["version"], r"^\d+\.\d+\.\d+$")
        (package,) = entry["packages"]
        self.assertRegex(package["identifier"], "^https://github.com/someone/sandpiper/releases/download/v"
                         + re.escape(entry["version"]) + "/" + re.escape(self.only(".mcpb").name) + "$")
        self.assertEqual(package["fileSha256"], hashlib.sha256(self.only(".mcpb").read_bytes()).hexdigest())
        self.assertEqual(package["transport"], {"type": "stdio"})
