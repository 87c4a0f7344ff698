"""The files of a release are consistent, inconsistent ones are reported, and the official tool accepts the bundle."""
import gzip
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import packages  # noqa: E402
import release  # noqa: E402
from client import SLOW  # noqa: E402

import registry  # noqa: E402

# The configuration that the official package derives from a bundle's manifest for a client.
CONFIG = """import { getMcpConfigForManifest } from '@anthropic-ai/mcpb';
import { readFileSync } from 'node:fs';
const [directory, settings] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(directory + '/manifest.json'));
console.log(JSON.stringify(await getMcpConfigForManifest({
  manifest, extensionPath: directory, systemDirs: {}, userConfig: JSON.parse(settings), pathSeparator: '/' })));
"""
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


class Made(unittest.TestCase):
    """Cases with one release, in self.made."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-dist-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.made = release.make(cls.directory, "made")

    def only(self, pattern):
        return release.only(self.made, pattern)


class Files(Made):
    def test_the_same_source_gives_the_same_bytes(self):
        again = release.make(self.directory, "again")
        self.assertEqual((again / "SHA256SUMS").read_text(), (self.made / "SHA256SUMS").read_text())
        self.assertEqual(registry.complaints(again), [])

    def test_the_archive_has_the_program_and_the_licence(self):
        with tarfile.open(self.only(f"*-{release.arch()}.tar.gz")) as archive:
            modes = {member.name.split("/", 1)[1]: member.mode for member in archive}
            readme, = [member for member in archive if member.name.endswith("/README.md")]
            text = archive.extractfile(readme).read().decode()
        self.assertNotRegex(text, r"\]\((?!https:)")
        self.assertIn("    sudo install bin/sandpiper /usr/local/bin/\n    sandpiper run -c", text)
        self.assertEqual(modes["bin/sandpiper"], 0o755)
        self.assertLessEqual({"LICENSE", "README.md"}, set(modes))

    def test_no_page_says_that_nothing_is_published(self):
        with tarfile.open(self.only("*.tgz")) as archive:
            pages = {"npm install": archive.extractfile("package/README.md").read().decode()}
        with zipfile.ZipFile(next(self.made.glob("*.whl"))) as wheel:
            pages["pip install"] = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
        for command, text in pages.items():
            start = text[text.index("## Start"):text.index("## What it looks like")]
            self.assertIn(command, start)
            self.assertNotRegex(text, "published yet|git clone|make demo|make check")

    def test_the_entry_lists_every_form(self):
        packages_ = json.loads((self.made / "server.json").read_text())["packages"]
        self.assertEqual([package["registryType"] for package in packages_], ["npm", "pypi", "oci", "mcpb", "mcpb"])

    def test_the_bundle_is_valid_and_what_it_installs_starts(self):
        packages.node()
        unpacked = self.directory / "unpacked"
        self.mcpb("unpack", self.only(f"*-{release.arch()}.mcpb"), unpacked)
        self.mcpb("validate", unpacked / "manifest.json")
        script = packages.directory() / "bundle.mjs"
        script.write_text(CONFIG)
        for settings, flags in (({}, []), ({"memory": "256M", "flags": ["--pids=99", "--cpus=1"]},
                                           ["--pids=99", "--cpus=1"])):
            with self.subTest(settings=settings):
                done = subprocess.run([packages.node(), script, unpacked, json.dumps(settings)],
                                      capture_output=True, text=True, check=True, timeout=60 * SLOW)
                config = json.loads(done.stdout)
                self.assertEqual(config["args"], ["--memory=" + settings.get("memory", "auto"),
                                                  "--timeout=300", *flags])
                server = subprocess.run([config["command"], *config["args"]],
                                        input=json.dumps(HELLO) + "\n", capture_output=True, text=True,
                                        timeout=60 * SLOW)
                self.assertIn('"serverInfo"', server.stdout)
                self.assertNotIn("Invalid configuration", server.stdout)

    def mcpb(self, *args):
        done = subprocess.run([*packages.program("@anthropic-ai/mcpb/dist/cli/cli.js"), *map(str, args)],
                              capture_output=True, text=True, timeout=60 * SLOW)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Broken(Made):
    """Each copy differs from a good release in one thing."""

    def complaints(self, change):
        copy = self.directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.made, copy)
        change(copy)
        return registry.complaints(copy)

    def sum_anew(self, directory):
        """Updates the checksums, so that something else must detect the change."""
        sums = {path.name: registry.sha256(path) for path in directory.iterdir() if path.name != "SHA256SUMS"}
        (directory / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))

    def entry(self, change):
        def changed(directory):
            said = json.loads((directory / "server.json").read_text())
            change(said, {package["registryType"]: package for package in said["packages"]})
            (directory / "server.json").write_text(json.dumps(said))
            self.sum_anew(directory)
        return changed

    def npm(self, change, mode=0o755):
        def changed(directory):
            path, out = release.only(directory, "*.tgz"), io.BytesIO()
            with tarfile.open(path) as old, tarfile.open(fileobj=out, mode="w") as new:
                for member in old:
                    data = old.extractfile(member).read()
                    if member.name == "package/package.json":
                        described = json.loads(data)
                        change(described)
                        data = json.dumps(described).encode()
                        member.size = len(data)
                    if "/bin/" in member.name:
                        member.mode = mode
                    new.addfile(member, io.BytesIO(data))
            path.write_bytes(gzip.compress(out.getvalue(), 1))
            self.sum_anew(directory)
        return changed

    def zipped(self, pattern, name, old, new):
        def changed(directory):
            path, out = release.only(directory, pattern), io.BytesIO()
            with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
                for member in source.infolist():
                    data = source.read(member)
                    if member.filename.endswith(name):
                        self.assertIn(old, data)
                        data = data.replace(old, new)
                    target.writestr(member, data)
            path.write_bytes(out.getvalue())
            self.sum_anew(directory)
        return changed

    def test_a_good_release_is_good(self):
        self.assertEqual(self.complaints(self.sum_anew), [])

    def test_inconsistent_release_files_are_named(self):
        wheel, bundle = f"*{dict(x64='x86_64', arm64='aarch64')[release.arch()]}.whl", f"*{release.arch()}.mcpb"
        cases = {
            "missing or unknown": self.entry(lambda said, kinds: said.update(homepage="https://example.org")),
            "is not the name for": self.entry(lambda said, kinds: said.update(name="io.github.other/sandpiper")),
            "no release's version": self.entry(lambda said, kinds: said.update(version="latest")),
            "characters": self.entry(lambda said, kinds: said.update(description="x" * 101)),
            "another schema": self.entry(lambda said, kinds: said.update({"$schema": "https://example.org"})),
            "its packages are": self.entry(lambda said, kinds: said["packages"].pop(0)),
            "fields of npm": self.entry(lambda said, kinds: kinds["npm"].update(runtimeHints="npx")),
            "fields of mcpb": self.entry(lambda said, kinds: kinds["mcpb"].pop("fileSha256")),
            "transport": self.entry(lambda said, kinds: kinds["pypi"].update(transport={"type": "http"})),
            "npm: sandpiper-mcp 9.9.9": self.entry(lambda said, kinds: kinds["npm"].update(version="9.9.9")),
            "pypi: sandpiper 0": self.entry(lambda said, kinds: kinds["pypi"].update(identifier="sandpiper")),
            "not an image": self.entry(lambda said, kinds: kinds["oci"].update(identifier=release.IMAGE)),
            "is not the file with this sum": self.entry(lambda said, kinds: kinds["mcpb"].update(fileSha256="0" * 64)),
            "no file of this release": self.entry(lambda said, kinds: kinds["mcpb"].update(
                identifier="https://example.org/" + kinds["mcpb"]["identifier"].rpartition("/")[2])),
            "npm: mcpName": self.npm(lambda described: described.update(mcpName="io.github.other/sandpiper")),
            "npm: version": self.npm(lambda described: described.update(version="9.9.9")),
            "something runs": self.npm(lambda described: described.update(scripts={"postinstall": "true"})),
            "are programs": self.npm(lambda described: None, mode=0o644),
            "no line <!-- mcp-name": self.zipped(wheel, "/METADATA", b"mcp-name: ", b"mcp-name: x."),
            "no line Version": self.zipped(wheel, "/METADATA", b"\nVersion: ", b"\nVersion: 9."),
            "RECORD is wrong about": self.zipped(wheel, "/RECORD", b"sha256=", b"sha256=0"),
            "mcpb: version": self.zipped(bundle, "manifest.json", b'"version": "', b'"version": "9.'),
            "SHA256SUMS: server.json": lambda directory: (directory / "server.json").write_text((directory / "server.json").read_text() + " "),
            "missing or too many": lambda directory: (directory / "other.whl.tar.gz").write_bytes(b""),
        }
        for words, change in cases.items():
            with self.subTest(words):
                self.assertIn(words, "\n".join(self.complaints(change)))
