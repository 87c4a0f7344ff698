"""--ca-cert: what the user's network signs is trusted inside, by libraries and programs with a list of their own, too."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import egress_world
from authority import Authority, openssl
from client import Case, CONTAINER, Server, need_userns, run_cli
from index import projects
from index.server import Index

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()


class Certificates(Case):
    @classmethod
    def setUpClass(cls):
        if not INSIDE or not shutil.which("openssl"):
            raise unittest.SkipTest("netns, openssl: no network namespace for the test's own servers, or no openssl")
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-ca-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.chmod(cls.directory, 0o755)
        cls.office = Authority(cls.directory, "office")
        cls.ca = cls.office.file
        egress_world.WebServer(egress_world.PUBLIC, 443, cls.office.context("web.example"))
        egress_world.WebServer(egress_world.OTHER, 443, cls.office.context("elsewhere.example"))

    def setUp(self):
        need_userns()

    def serve(self, *flags, stderr=None, **variables):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], **variables}
        return Server("--allow-host", "web.example", "--allow-host", "other.example", *flags, env=env, stderr=stderr)

    def output(self, server, code):
        result = server.python("import subprocess, urllib.request\n" + code)
        return result.output

    def test_libraries_and_programs_trust_it(self):
        with self.serve("--ca-cert", str(self.ca)) as server:
            self.assertIn(egress_world.PUBLIC, self.output(server, "print(urllib.request.urlopen('https://web.example/').read())"))
            for module, code in (("requests", "requests.get('https://web.example/').text"), ("httpx", "httpx.get('https://web.example/').text")):
                with self.subTest(module):
                    if "no such" in self.output(server, f"try:\n    import {module}\nexcept ImportError: print('no such')"):
                        self.skipTest(f"{module}: not installed")
                    self.assertIn(egress_world.PUBLIC, self.output(server, f"import {module}\nprint({code})"))
            for program, words in (("curl", "-sS https://web.example/"), ("wget", "-qO- https://web.example/")):
                with self.subTest(program):
                    if not shutil.which(program):
                        self.skipTest(f"{program}: not installed")
                    if program == "wget" and CONTAINER:
                        self.skipTest("isolation: no file can be mounted over that of the machine")
                    self.assertIn(egress_world.PUBLIC, self.output(
                        server, f"print(subprocess.run('{program} {words}', shell=True, capture_output=True, text=True))"))
            if shutil.which("git"):
                said = self.output(server, "print(subprocess.run(['git', 'ls-remote', 'https://web.example/x'], capture_output=True, text=True).stderr)")
                self.assertNotIn("certificate", said)
            if shutil.which("node"):
                code = "console.log(require('fs').readFileSync(process.env.NODE_EXTRA_CA_CERTS, 'utf8').includes('BEGIN'))"
                self.assertIn("true", self.output(server, f"print(subprocess.run(['node', '-e', {code!r}], capture_output=True, text=True).stdout)"))

    def test_a_variable_of_the_user_counts_as_the_flag(self):
        with self.serve(REQUESTS_CA_BUNDLE=str(self.ca)) as server:
            self.assertIn(egress_world.PUBLIC, self.output(server, "print(urllib.request.urlopen('https://web.example/').read())"))

    def test_only_an_unknown_issuer_has_the_hint(self):
        code = "import urllib.request; urllib.request.urlopen('https://%s/')"
        with self.serve() as server:
            self.assertIn("--ca-cert", server.python(code % "web.example").text)
        with self.serve("--ca-cert", str(self.ca)) as server:
            said = server.python(code % "other.example").text
            self.assertIn("CERTIFICATE_VERIFY_FAILED", said)
            self.assertNotIn("--ca-cert", said)

    def test_an_index_of_the_network_is_trusted(self):
        projects.honest(self.directory / "wheels")
        with Index(self.directory / "wheels", tls=True) as index:
            flags = ["--cache", str(self.directory / "cache"), "--index-url", index.url]
            with Server(*flags) as server:
                said = server.call("install_package", packages=["plain"]).text
                self.assertIn("its issuer is unknown; the user can add that with --ca-cert", said)
            with Server(*flags, "--ca-cert", index.certificate) as server:
                self.assertIn("installed plain 2.0", server.call("install_package", packages=["plain"]).text)

    def test_a_machine_without_a_bundle_trusts_what_is_named(self):
        if any(map(os.path.exists, ("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"))) or \
                not os.path.isdir("/etc/ssl/certs"):
            self.skipTest("certificates: this machine has its bundle elsewhere")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/etc/ssl/certs"], check=True)
        self.addCleanup(subprocess.run, ["umount", "/etc/ssl/certs"])
        own = Authority(self.directory, "own")
        with open(self.directory / "log", "w+") as log:
            with self.serve("--ca-cert", str(self.ca), "--ca-cert", str(own.file), stderr=log) as server:
                self.assertIn(egress_world.PUBLIC, self.output(server, "print(urllib.request.urlopen('https://web.example/').read())"))
                self.assertEqual(self.output(server, "import os; print(open(os.environ['REQUESTS_CA_BUNDLE']).read().count('BEGIN'))"), "2")
            log.seek(0)
            self.assertIn("only those of --ca-cert are trusted; a further --ca-cert can name certifi's cacert.pem", log.read())

    def test_what_is_no_certificate_is_refused(self):
        der, both = self.directory / "ca.der", self.directory / "both.pem"
        openssl("x509", "-in", self.ca, "-outform", "der", "-out", der)
        both.write_text(self.ca.read_text() + self.office.key.read_text())
        work = self.directory / "work"
        work.mkdir()
        shutil.copy(self.ca, work)
        for file, words in ((der, "it is DER"), (both, "private key"), (self.directory, "it is a directory"),
                            (self.directory / "none.pem", "No such file")):
            with self.subTest(words):
                done = run_cli("run", "--ca-cert", str(file), "-c", "1")
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr.decode())
        done = run_cli("run", "--workspace", str(work), "--ca-cert", str(work / "ca.pem"), "-c", "1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("ca.pem", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
