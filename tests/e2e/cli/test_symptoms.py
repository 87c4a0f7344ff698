"""docs/TROUBLE.md: each message that it quotes is produced, and has the words of the page."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap
import unittest

from client import COMMAND, ROOT, Case, Server, run_cli
from container_level import CONTAINER

PAGE = (ROOT / "docs" / "TROUBLE.md").read_text()
# Hides the wheels of pip that a virtual environment without pip falls back on.
WITHOUT_WHEELS = ("mount -t tmpfs none /usr/share/python-wheels 2>/dev/null || true; for d in /usr/lib/python3*/ensurepip; do "
                  "test ! -d $d || mount -t tmpfs none $d; done; exec \"$@\"")


def messages():
    """Each indented block, without its indentation."""
    blocks = re.findall(r"(?:^ {4}.*\n)+", PAGE, re.M)
    return [textwrap.dedent(block).strip() for block in blocks]


class Symptoms(Case):
    def setUp(self):
        super().setUp()
        temp = tempfile.TemporaryDirectory(prefix="sp-symptoms-")
        self.addCleanup(temp.cleanup)
        self.place = pathlib.Path(temp.name)
        self.project = self.place / "project"
        self.project.mkdir()

    def assert_quoted(self, begin, said):
        """The page's message that begins so is in said; its `…` stands for anything."""
        message, = [one for one in messages() if begin in one]
        for line in message.splitlines():
            pattern = r"[\s\S]*?".join(map(re.escape, line.split("…")))
            self.assertRegex(said, pattern)

    def run_cli(self, *args, **options):
        done = run_cli(*args, **options)
        return done.stdout.decode() + done.stderr.decode()

    def result(self, code, *flags, **arguments):
        with Server(*flags) as server:
            return server.python(code, **arguments).text

    @unittest.skipIf(CONTAINER, "isolation: the page quotes level full")
    def test_no_sandbox(self):
        self.assert_quoted("The sandbox is not available", self.run_cli(
            "run", "--workspace", str(self.project), "--require", "disk", "-c", "1"))
        self.assert_quoted("python: the interpreter", self.run_cli("run", "--python", "/nonexistent", "-c", "1"))

    def test_degraded(self):
        self.assert_quoted("isolation: degraded", self.run_cli(
            "call", "--workspace", str(self.project), "run_python", '{"code": "1"}'))

    def test_the_assistants_entry(self):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.place)}
        self.assert_quoted("no client was found", self.run_cli("config", "--install", env=env))
        settings = self.place / ".cursor" / "mcp.json"
        settings.parent.mkdir()
        self.run_cli("config", "--install", env=env)
        self.assert_quoted("already has", self.run_cli("config", "--install", env=env))
        settings.write_text("{")
        self.assert_quoted("is unchanged", self.run_cli("config", "--install", env=env))

    def test_missing_modules(self):
        self.assert_quoted("ModuleNotFoundError", self.result("import no_such_module"))
        self.assert_quoted("--preload", self.run_cli("run", "--preload", "no_such_module", "-c", "1"))

    def test_no_pip(self):
        system = "/usr/bin/python3"
        if os.geteuid() or not shutil.which("unshare") or not os.path.exists(system):
            raise unittest.SkipTest("root: needed to mount over the system's wheels of pip")
        environment = self.place / "env"
        subprocess.run([system, "-m", "venv", "--without-pip", environment], check=True, stdout=subprocess.DEVNULL)
        inside = ["unshare", "--mount", "sh", "-c", WITHOUT_WHEELS, "sh", *COMMAND]
        python = ["--python", str(environment / "bin" / "python")]
        call = [*inside, "call", *python, "install_package", '{"packages": ["six"]}']
        done = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assert_quoted("no pip", done.stdout + done.stderr)
        said = subprocess.run([*inside, "doctor", *python], capture_output=True, text=True).stdout
        self.assertRegex(" ".join(said.split()), "packages warning this Python has no pip, .* sudo apt install python3-venv")

    def test_missing_files(self):
        self.assert_quoted("FileNotFoundError", self.result("open('data.csv')"))
        program = self.place / "program.py"
        program.write_text("open('data.csv')")
        self.assert_quoted("only the program's own file", self.run_cli("run", str(program)))

    @unittest.skipIf(CONTAINER, "isolation: the page quotes level full")
    def test_read_only_files(self):
        (self.project / ".git").mkdir()
        (self.project / ".git" / "config").write_text("")
        self.assert_quoted("Read-only", self.result("open('.git/config', 'w')", "--workspace", str(self.project)))

    def test_a_refused_workspace(self):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.project)}
        self.assert_quoted("home directory", self.run_cli("run", "--workspace", str(self.project), "-c", "1", env=env))

    def test_a_workspace_that_is_gone(self):
        gone = str(self.place / "gone")
        self.assert_quoted("Invalid configuration", self.result("1", "--workspace", gone))

    def test_an_index_that_nobody_reaches(self):
        with Server("--index-url", "http://127.0.0.1:9/simple", "--cache", str(self.place / "cache")) as server:
            self.assert_quoted("index unreachable", server.call("install_package", packages=["no-such-package-here"]).text)

    def test_a_proxy_that_is_not_there(self):
        flags = ("--index-url", "http://index.example/simple", "--cache", str(self.place / "cache"), "--proxy", "http://127.0.0.1:9")
        with Server(*flags) as server:
            self.assert_quoted("the upstream proxy", server.call("install_package", packages=["no-such-package-here"]).text)

    def test_a_certificate_of_the_network(self):
        reason = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate"
        code = f"import ssl\nerror = ssl.SSLCertVerificationError(1, {reason!r})\nerror.verify_code = 20\nraise error"
        said = self.result(code)
        self.assert_quoted("unable to get local issuer", said)
        self.assertIn("--ca-cert", said)

    def test_no_network(self):
        self.assert_quoted("no network", self.result("import urllib.request as u; u.urlopen('https://example.org')"))

    def test_time(self):
        self.assert_quoted("[running", self.result("import time; time.sleep(60)", "--wait", "25", wait_s=0))
        self.assert_quoted("[timeout", self.result("while True: pass", timeout_s=0.5))

    @unittest.skipIf(CONTAINER, "isolation: the page quotes level full")
    def test_memory(self):
        self.assert_quoted("[out of memory", self.result("x = bytearray(2 << 30)", "--memory", "256M"))

    @unittest.skipIf(CONTAINER, "isolation: --cow needs namespaces")
    def test_a_store_that_is_in_use(self):
        flags = ("--workspace", str(self.project), "--cow", "--cow-store", str(self.place / "store"))
        with Server(*flags) as first, Server(*flags) as second:
            self.assert_ok(first.python("1"))
            self.assert_quoted("another server", second.python("1").text)

    def test_each_message_has_a_case(self):
        tried = re.findall(r'assert_quoted\("([^"]+)"', pathlib.Path(__file__).read_text())
        self.assertEqual([one for one in messages() if sum(begin in one for begin in tried) != 1], [])


if __name__ == "__main__":
    unittest.main()
