"""install_package, --preinstall and `run` through a proxy of the user's network: what works, and why it does not."""
import os
import pathlib
import shutil
import tempfile
import time
import unittest

import egress_world
from client import Case, SLOW, Server, need_userns, run_cli
from index import projects
from index.server import Index, cut
from upstream import Upstream

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
LOGIN = "someone:word-4711"


class PackagesThroughAProxy(Case):
    """The index's name is known to the proxy only."""

    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-upstream-"))
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        projects.honest(self.directory / "wheels")
        self.index = Index(self.directory / "wheels", tls=True, address=egress_world.PRIVATE)
        self.index.__enter__()
        self.addCleanup(self.index.__exit__, None, None, None)
        self.index.files_at = f"https://index.test:{self.index.port}/files/"
        self.upstream = Upstream(egress_world.PRIVATE, hosts={"index.test": (egress_world.PRIVATE, self.index.port)})
        self.addCleanup(self.upstream.close)
        self.flags = ["--cache", str(self.directory / "cache"), "--index-cert", self.index.certificate,
                      "--index-url", f"https://index.test:{self.index.port}/simple/"]

    def serve(self, *flags, **variables):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], **variables}
        return Server(*self.flags, *flags, env=env)

    def test_packages_come_through_it(self):
        for flags, variables in ((("--proxy", self.upstream.url()), {}), ((), {"HTTPS_PROXY": self.upstream.url()}),
                                 ((), {"all_proxy": self.upstream.url().removeprefix("http://")})):
            with self.subTest(flags=flags, **variables), self.serve(*flags, **variables) as server:
                self.upstream.seen.clear()
                self.assertIn("installed plain 2.0", server.call("install_package", packages=["plain"]).text)
                self.assertEqual({line for line, _ in self.upstream.seen}, {f"CONNECT index.test:{self.index.port} HTTP/1.1"})
                shutil.rmtree(self.directory / "cache" / "download", ignore_errors=True)

    def test_a_password_is_sent_and_not_shown(self):
        self.upstream.login = LOGIN
        with self.serve("--proxy", self.upstream.url(LOGIN), "--preinstall", "plain") as server:
            self.assert_prints(server.python("import plain; print(plain.VERSION)"), "2.0")
            said = server.call("install_package", packages=["no-such-thing"]).text
            self.assertIn("not found", said)
            self.assertNotIn("word-4711", said)

    def test_a_refused_password_is_sent_once(self):
        """By all installations and by code together."""
        self.upstream.login = LOGIN
        with self.serve("--proxy", self.upstream.url("someone:wrong"), "--allow-host", f"index.test:{self.index.port}") as server:
            said = [server.call("install_package", packages=[name]).text for name in ("plain", "plain", "other")]
            self.assertIn("refused the user name or the password; the user can correct them (--proxy) and restart Sandpiper", said[0])
            self.assertIn("is not sent again until Sandpiper is restarted", said[1])
            self.assertIn("is not sent again", said[2])
            said = server.python(f"import urllib.request\nurllib.request.urlopen('https://index.test:{self.index.port}/')").text
            self.assertIn("is not sent again", said)
        self.assertEqual(len(self.upstream.seen), 1)

    def test_the_command_line_goes_through_it_too(self):
        done = run_cli("run", *self.flags, "--proxy", self.upstream.url(), "--preinstall", "plain", "-c",
                       "import plain; print(plain.VERSION)")
        self.assertEqual((done.stdout, done.returncode), (b"2.0\n", 0), done.stderr)

    def test_each_failure_names_the_proxy_and_no_index(self):
        for mode, words in (("password", "asks for a password"), ("ntlm", "accepts only Negotiate, NTLM"),
                            ("forbidden", "refuses it (403)"), ("portal", "replied with a page (200)"), ("garbage", "sent what is no HTTP"),
                            ("half", "closed the connection without a reply")):
            with self.subTest(mode), self.serve("--proxy", self.upstream.url()) as server:
                self.upstream.mode, before = mode, self.upstream.opened
                said = server.call("install_package", packages=["plain"])
                self.assertTrue(said.is_error)
                self.assertIn("not installed, no way through the user's proxy: ", said.text)
                self.assertIn(words, said.text)
                self.assertEqual(self.upstream.opened - before, 1, "it was asked again")

    def test_a_proxy_that_hangs_ends_the_call(self):
        with self.serve("--proxy", self.upstream.url()) as server:
            self.upstream.mode, begun = "hang", time.monotonic()
            said = server.call("install_package", packages=["plain"], _timeout=90 * SLOW).text
            self.assertIn("no way through the user's proxy: ", said)
            self.assertIn("sent no reply within 20 s", said)
            self.assertLess(time.monotonic() - begun, 60 * SLOW)

    def test_a_proxy_that_accepts_and_closes_is_no_wrong_certificate(self):
        with self.serve("--proxy", self.upstream.url()) as server:
            self.upstream.mode = "accepts and closes"
            said = server.call("install_package", packages=["plain"]).text
            self.assertIn("the TLS connection to index.test failed", said)

    def test_a_download_that_is_cut_off_accuses_no_hash(self):
        self.index.rules["/files/plain*"] = cut(700)
        with self.serve("--proxy", self.upstream.url()) as server:
            said = server.call("install_package", packages=["plain"]).text
            self.assertIn("index unreachable: ", said)
            self.assertIn("cut off", said)
        self.index.rules.clear()
        self.upstream.cut_after, self.upstream.mode = 20000, "cut"
        projects.save(self.directory / "wheels", projects.Wheel("large", files={"large/data": os.urandom(200000).hex()}))
        with self.serve("--proxy", self.upstream.url()) as server:
            said = server.call("install_package", packages=["large"]).text
            self.assertRegex(said, "index unreachable: .*(cut off|TLS connection|could not be reached)")

    def test_without_an_index_a_broken_proxy_costs_nothing(self):
        self.upstream.mode = "hang"
        flags = ["--no-index", "--find-links", str(self.directory / "wheels"), "--proxy", self.upstream.url()]
        with Server("--cache", str(self.directory / "cache"), *flags) as server:
            self.assertIn("installed plain 2.0", server.call("install_package", packages=["plain"]).text)
        self.assertEqual(self.upstream.opened, 0)


if __name__ == "__main__":
    unittest.main()
