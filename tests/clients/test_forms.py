"""Each form in which a release is installed: started by the official client, upgraded and removed."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]

import npm_registry  # noqa: E402
import packages  # noqa: E402
import release  # noqa: E402
from client import SLOW, Case, Server, need_userns  # noqa: E402
from traces import Traces  # noqa: E402

import forms  # noqa: E402
import programs  # noqa: E402

CLIENTS = ("results.mjs", "sdk_v1.mjs", "sdk_v2.mjs")
NEXT = "99.0.0"


class Forms(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()
        packages.node()
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-forms-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.made = release.make(cls.directory, "made")
        cls.next = cls.make_next(cls.directory / "next")

    @classmethod
    def make_next(cls, out):
        """The npm package and the wheel of a later version."""
        out.mkdir()
        own = release.arch()
        later = forms.Release(out, NEXT, release.REPOSITORY, 0, {own: programs.Program(release.program(out))})
        forms.npm(later)
        forms.wheel(later, own)
        return out

    def place(self, name):
        path = pathlib.Path(tempfile.mkdtemp(prefix=name + "-", dir=self.directory))
        (path / "tmp").mkdir()
        return path

    def environment(self, place, **more):
        """An environment with an empty home."""
        return {"HOME": str(place), "TMPDIR": str(place / "tmp"), "PATH": os.environ["PATH"],
                "npm_config_update_notifier": "false", "npm_config_audit": "false", "npm_config_fund": "false",
                "XDG_CONFIG_HOME": "/dev/null", **more}

    def run_tool(self, *command, env):
        done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=120 * SLOW)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def host(self, *command, env, client="sdk_v1", mode="legacy"):
        """A client that has called the command's tools and waits, and the processes that the command started."""
        place = packages.own(HERE, "start.mjs", *(f"libraries/{name}" for name in CLIENTS))
        # The client passes on only a few variables, so they are set behind it.
        settings = [f"{name}={value}" for name, value in env.items()]
        host = subprocess.Popen([packages.node(), place / "start.mjs", client, mode, "env", *settings, *map(str, command)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(host.wait)
        self.addCleanup(host.kill)
        self.addCleanup(host.stdout.close)
        said = json.loads(host.stdout.readline() or "{}")
        self.assertEqual(said.get("text", "").split("\n")[0], "42", said)
        self.assertIn("run_python", said["tools"])
        self.assertEqual(said["complaints"], [])
        traces = Traces(env["TMPDIR"])
        traces.look(host.pid)
        self.assertGreater(len(traces.seen), 4)
        self.assertEqual([words for pid, _ in traces.seen if self.is_launcher(words := self.words(pid))], [])
        return host, traces

    @staticmethod
    def words(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:  # the process has exited
            return [""]

    @staticmethod
    def is_launcher(words):
        """A shell that runs a file of ours: it should have executed the program. npm itself keeps a `sh -c` waiting."""
        return words[0].endswith("sh") and len(words) > 1 and words[1].startswith("/")

    def starts(self, *command, **options):
        host, traces = self.host(*command, **options)
        host.communicate("\n", timeout=60 * SLOW)
        self.assertEqual(host.returncode, 0)
        self.assertEqual(traces.left(10 * SLOW), [])


class Unpacked(Forms):
    def test_archive(self):
        place = self.place("archive")
        with tarfile.open(release.only(self.made, f"*-{release.arch()}.tar.gz")) as archive:
            archive.extractall(place)
        program = release.only(place, "*/bin/sandpiper")
        for client, mode in (("sdk_v1", "legacy"), ("sdk_v2", "modern")):
            with self.subTest(client):
                self.starts(program, env=self.environment(place), client=client, mode=mode)

    def test_bundle(self):
        place = self.place("bundle")
        with zipfile.ZipFile(release.only(self.made, f"*-{release.arch()}.mcpb")) as archive:
            for member in archive.infolist():
                pathlib.Path(archive.extract(member, place)).chmod(member.external_attr >> 16)
        server = json.loads((place / "manifest.json").read_text())["server"]
        self.starts(place / server["entry_point"], "--memory=auto", "--timeout=300", env=self.environment(place))


class Npm(Forms):
    def setUp(self):
        if not shutil.which("npx"):
            self.skipTest("npm: not installed")
        self.home = self.place("npm")
        self.package = release.only(self.made, "*.tgz")
        self.env = self.environment(self.home)
        self.npx = ("npx", "--offline", "-y", "--package", str(self.package), "sandpiper-mcp")

    def test_from_the_file_without_network(self):
        self.starts(*self.npx, env=self.env)

    def test_from_a_registry(self):
        with npm_registry.serve(self.package) as address:
            self.starts("npx", "-y", "sandpiper-mcp", env={**self.env, "npm_config_registry": address})

    def test_a_killed_client_leaves_no_process(self):
        host, traces = self.host(*self.npx, env=self.env)
        host.kill()
        self.assertEqual(traces.left(10 * SLOW), [])

    def test_a_signal_to_npx_and_the_end_of_input_leave_no_process(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                server = Server(command=self.npx, env=self.env, check=False)
                with server:
                    self.assert_prints(server.python("print(1)"), "1")
                    server.signal(number)
                    server.join()
                    server.close_stdin()
                    self.assertEqual(server.left(10), [])

    def test_install_upgrade_removal(self):
        """A running program continues while its files are replaced; removal leaves nothing."""
        top = self.home / "prefix"
        with npm_registry.serve(self.package, release.only(self.next, "*.tgz")) as address:
            env = {**self.env, "npm_config_registry": address, "npm_config_prefix": str(top)}
            self.run_tool("npm", "install", "-g", f"sandpiper-mcp@{programs.version()}", env=env)
            self.assertIn(programs.version(), self.run_tool(top / "bin" / "sandpiper", "--version", env=env))
            with Server(command=[top / "bin" / "sandpiper"], cleanup_s=10) as server:
                server.python("kept = 1")
                self.run_tool("npm", "install", "-g", "sandpiper-mcp", env=env)
                self.assert_prints(server.python("print(kept)"), "1")
                self.assert_prints(server.python("print('new')", session="another"), "new")
            found = json.loads((top / "lib/node_modules/sandpiper-mcp/package.json").read_text())
            self.assertEqual(found["version"], NEXT)
            self.run_tool("npm", "uninstall", "-g", "sandpiper-mcp", env=env)
        self.assertEqual([str(path) for path in top.rglob("*") if not path.is_dir()
                          and path.name != ".package-lock.json"], [])

    def test_an_unsupported_processor_is_refused_with_a_message(self):
        with tarfile.open(self.package) as archive:
            archive.extractall(self.home)
        shutil.rmtree(self.home / "package" / "lib" / release.arch())
        done = subprocess.run([self.home / "package" / "bin" / "sandpiper"], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"no program for {release.arch()}", done.stderr)


class Wheel(Forms):
    @staticmethod
    def files(directory):
        return {path for path in directory.rglob("*") if "__pycache__" not in path.parts}

    def test_install_start_upgrade_removal(self):
        place = self.place("wheel")
        env = self.environment(place, PIP_DISABLE_PIP_VERSION_CHECK="1")
        done = subprocess.run(["/usr/bin/python3", "-m", "venv", place / "venv"], capture_output=True, text=True, env=env)
        if done.returncode:
            self.skipTest("venv: " + done.stdout.strip()[:200])
        before = self.files(place / "venv")
        pip = (place / "venv/bin/python", "-m", "pip", "--no-cache-dir")
        offline = ("install", "--no-index", "--find-links")
        self.run_tool(*pip, *offline, self.made, "sandpiper-mcp", env=env)
        for name in ("sandpiper", "sandpiper-mcp"):
            with self.subTest(name):
                self.starts(place / "venv/bin" / name, env=env)
        # A symlink from a directory on the PATH, as uv tool and pipx create it.
        (place / "link").symlink_to(place / "venv/bin/sandpiper-mcp")
        self.assertIn(programs.version(), self.run_tool(place / "link", "--version", env=env))
        self.run_tool(*pip, *offline, self.next, "--upgrade", "sandpiper-mcp", env=env)
        self.assertIn(NEXT, self.run_tool(*pip, "list", env=env))
        self.run_tool(*pip, "uninstall", "-y", "sandpiper-mcp", env=env)
        self.assertEqual(self.files(place / "venv") - before, set())


if __name__ == "__main__":
    unittest.main()
