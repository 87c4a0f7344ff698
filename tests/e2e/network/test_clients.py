"""The programs and libraries that people use, through a proxy of the user's network with a password, to a site whose
certificate an authority of that network has signed; and through one that reads TLS. The interpreter is of a virtual environment,
where pip (and requests in it) has its own list of authorities; SANDPIPER_TEST_CLIENTS names another, with more libraries."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import egress_world
from authority import Authority
from client import Case, CONTAINER, SLOW, Server, need_userns
from index import projects
from index.server import Index
from upstream import Upstream

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
LOGIN, HELLO = "someone:word-4711", "hello from the site"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
NODE = """
const https = require('https'), proxy = new URL(process.env.https_proxy)
require('http').request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: 'index.test:443'}).on('connect',
    (_, socket) => https.get({host: 'index.test', socket, agent: false, path: '/hello'}, reply => reply.pipe(process.stdout))).end()
"""
LIBRARIES = {
    "urllib.request": "print(urllib.request.urlopen('https://index.test/hello').read())",
    "requests": "print(requests.get('https://index.test/hello').text)",
    "pip._vendor.requests": "print(pip._vendor.requests.get('https://index.test/hello').text)",
    "httpx": "print(httpx.get('https://index.test/hello').text)",
    "aiohttp": """
async with aiohttp.ClientSession(trust_env=True) as session:
    async with session.get('https://index.test/hello') as reply:
        print(await reply.text())""",
}
PROGRAMS = {
    "curl": ("curl -sS https://index.test/hello", HELLO),
    "wget": ("wget -qO- https://index.test/hello", HELLO),
    "node": (f"node -e \"{NODE}\"", HELLO),
    "npm": ("npm --globalconfig /dev/null view thing version --registry https://index.test/npm/", "4.5.6"),
    "git": ("git clone -q https://index.test/project.git project && cat project/hello", HELLO),
    "pip": ("python -m pip install -q --index-url https://index.test/simple/ --target pip plain && cat pip/plain.py "
            "pip/plain/*.py", "2.0"),
}


def page(text):
    return lambda request: request.answer(200, text.encode(), {})


def files_of(directory):
    """Serves a repository as a plain web server does."""
    def send(request):
        file = directory / request.path.partition("?")[0].lstrip("/")
        request.answer(200, file.read_bytes(), {}) if file.is_file() else request.answer(404, b"", {})
    return send


class Network(Case):
    reads_tls, machine_knows = False, False

    @classmethod
    def setUpClass(cls):
        need_userns()
        if not INSIDE or not shutil.which("openssl"):
            raise unittest.SkipTest("netns, openssl: no network namespace for the test's own servers, or no openssl")
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-clients-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.chmod(cls.directory, 0o755)
        cls.office, cls.site = Authority(cls.directory, "office"), Authority(cls.directory, "site")
        projects.honest(cls.directory / "wheels")
        cls.index = Index(cls.directory / "wheels", tls=(cls.site if cls.reads_tls else cls.office).context("index.test"),
                          address=egress_world.PRIVATE)
        cls.addClassCleanup(cls.index.close)
        cls.index.files_at = "https://index.test/files/"
        cls.index.rules.update({"/hello": page(HELLO), "/project.git/*": files_of(cls.repository()), "/npm/thing": page(
            json.dumps({"name": "thing", "dist-tags": {"latest": "4.5.6"}, "versions": {"4.5.6": {"name": "thing", "version": "4.5.6"}}}))})
        cls.upstream = Upstream(egress_world.PRIVATE, hosts={"index.test": (egress_world.PRIVATE, cls.index.port)}, login=LOGIN)
        cls.addClassCleanup(cls.upstream.close)
        cls.upstream.authority = cls.office if cls.reads_tls else None
        if cls.machine_knows:
            cls.teach()
        cls.server = cls.serve("--allow-host", "index.test", *([] if cls.machine_knows else ["--ca-cert", str(cls.office.file)]),
                               "--cache", str(cls.directory / "cache"), "--index-url", "https://index.test/simple/")
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    @classmethod
    def teach(cls):
        """The machine trusts the authority, as after update-ca-certificates; in this test's own mount namespace."""
        if not os.path.isfile(BUNDLE):
            raise unittest.SkipTest(f"certificates: this machine has no {BUNDLE}")
        whole = cls.directory / "bundle"
        whole.write_text(pathlib.Path(BUNDLE).read_text() + cls.office.file.read_text())
        subprocess.run(["mount", "--bind", whole, BUNDLE], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", BUNDLE])

    @classmethod
    def repository(cls):
        served, work = cls.directory / "served", cls.directory / "work"
        work.mkdir()
        served.mkdir()
        (work / "hello").write_text(HELLO)
        if shutil.which("git"):
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", work]
            for words in (["init", "-q"], ["add", "hello"], ["commit", "-qm", "one"], ["clone", "-q", "--bare", work, served / "project.git"],
                          ["-C", served / "project.git", "update-server-info"]):
                subprocess.run([*git, *words], check=True, capture_output=True)
        return served

    @classmethod
    def interpreter(cls):
        if os.environ.get("SANDPIPER_TEST_CLIENTS"):
            return os.environ["SANDPIPER_TEST_CLIENTS"]
        made = cls.directory / "venv"
        if subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", made], capture_output=True, timeout=300 * SLOW).returncode:
            raise unittest.SkipTest("venv: this Python has no ensurepip")
        return str(made / "bin" / "python")

    @classmethod
    def serve(cls, *flags):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "HTTPS_PROXY": cls.upstream.url(LOGIN)}
        return Server("--python", cls.interpreter(), *flags, env=env).__enter__()

    def need(self, found, name):
        if "True" not in self.server.python(f"import importlib.util, shutil\nprint(bool({found}({name!r})))").output:
            self.skipTest(f"{name}: not installed")

    def reaches(self, code, words=HELLO):
        self.upstream.seen.clear()
        result = self.server.python(code, _timeout=120)
        self.assertIn(words, result.output, result.text)
        self.assertIn("CONNECT index.test:443 HTTP/1.1", [line for line, _ in self.upstream.seen])

    def test_install_package(self):
        self.assertIn("installed plain 2.0", self.server.call("install_package", packages=["plain"], _timeout=120).text)


def library(name, code):
    def test(self):
        self.need("importlib.util.find_spec", name)
        self.reaches(f"import {name}\n{code}")
    return test


def program(name, line, words):
    def test(self):
        if name == "wget" and CONTAINER:
            self.skipTest("isolation: wget reads the machine's bundle, over which nothing can be mounted")
        self.need("shutil.which", "python" if name == "pip" else name)
        self.reaches(f"import subprocess\ndone = subprocess.run({line!r}, shell=True, capture_output=True, text=True)\n"
                     "print(done.stdout + done.stderr)", words)
    return test


for each, what in LIBRARIES.items():
    setattr(Network, f"test_{each.replace('.', '_')}", library(each, what))
for each, what in PROGRAMS.items():
    setattr(Network, f"test_{each}", program(each, *what))


class EndToEnd(Network):
    pass


class TlsIsRead(Network):
    reads_tls = True


class TlsIsReadAndTheMachineTrustsIt(Network):
    reads_tls = machine_knows = True


del Network

if __name__ == "__main__":
    unittest.main()
