"""The password of a proxy after many sessions: in nothing that code, a model, a client or a later reader sees.

SANDPIPER_TEST_SESSIONS: how many (12), four of each server; SANDPIPER_TEST_SEED chooses what they do.
"""
import base64
import os
import pathlib
import random
import shutil
import tempfile
import unittest

import egress_world
from client import Case, Server, need_userns
from egress_world import RAW
from index import projects
from index.server import Index
from traces import descendants
from upstream import Upstream

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
SESSIONS = int(os.environ.get("SANDPIPER_TEST_SESSIONS", "12"))
SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "1"))
PASSWORD, USER = "Pa%24s word-4711", "CORP\\someone"
TYPED = "CORP%5csomeone:Pa%2524s%20word-4711"
SECRETS = (b"word-4711", b"word%204711", b"Pa%2524s", base64.b64encode(f"{USER}:{PASSWORD}".encode()))
# Without the words themselves, as the record has it. What code can read: of all processes that it sees, its files, the server's files that it is shown.
SEARCH = """
import os, pathlib
def all_of(*places):
    for place in places:
        for path in place if isinstance(place, list) else pathlib.Path(place).rglob('*'):
            try: yield path.read_bytes() if path.is_file() else b''
            except OSError: pass
proc = [path for name in ('cmdline', 'environ', 'comm', 'mountinfo') for path in pathlib.Path('/proc').glob('[0-9]*/' + name)]
found = sum(secret in text for text in all_of(proc, '/run', '/tmp', '/etc', '.') for secret in map(bytes.fromhex, %r))
print('found', found, 'in', len(proc))
"""
DEEDS = (
    "print(tunnel('far.example:80'), get('http://far.example/'))",
    "print(tunnel('other.example:443'))",
    "import os, subprocess; print(dict(os.environ), subprocess.run('env; ps aux; set', shell=True, capture_output=True, text=True).stdout)",
    "urllib.request.urlopen('https://shut.example/')",
    "import os; os.abort()",
    "import subprocess; subprocess.run('curl -sv http://far.example/ https://shut.example/; git ls-remote https://shut.example/x', shell=True)",
    "import pathlib; pathlib.Path('kept').write_text(raw('CONNECT shut.example:80 HTTP/1.1\\r\\nProxy-Authorization: Basic eDp5\\r\\n\\r\\n'))",
    "raise SystemExit(raw('TRACE http://far.example/ HTTP/1.1\\r\\nMax-Forwards: 0\\r\\n\\r\\n'))",
)
MODES = ("ok", "ok", "forbidden", "password", "ntlm", "echo", "garbage", "portal", "half")


class Password(Case):
    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-password-"))
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        self.upstream = Upstream(egress_world.PRIVATE, hosts={"far.example": (egress_world.PUBLIC, 80), "shut.example": (egress_world.PUBLIC, 1)},
                                 login=f"{USER}:{PASSWORD}")
        self.addCleanup(self.upstream.close)
        projects.honest(self.directory / "wheels")
        self.index = Index(self.directory / "wheels", tls=True, address=egress_world.PRIVATE)
        self.addCleanup(self.index.close)
        self.index.files_at = f"https://index.test:{self.index.port}/files/"
        self.upstream.hosts["index.test"] = (egress_world.PRIVATE, self.index.port)

    def flags(self, life):
        """How the user names the proxy: by a flag, in the configuration file, or in the environment."""
        url = self.upstream.url(TYPED)
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "SANDPIPER_LOG": "trace"}
        if life % 3 == 0:
            return ["--proxy", url], env
        if life % 3 == 1:
            return [], {**env, "HTTP_PROXY": url, "HTTPS_PROXY": url}
        place = self.directory / "settings" / "sandpiper"
        place.mkdir(parents=True, exist_ok=True)
        (place / "config").write_text(f"proxy = {url}\n")
        (place / "config").chmod(0o600)
        return [], {**env, "XDG_CONFIG_HOME": str(place.parent)}

    def clean(self, what, data):
        for secret in SECRETS:
            at = data.find(secret)
            self.assertEqual(at, -1, f"{what} has the password (seed {SEED}): {data[max(0, at - 300):at + 60]}")

    def check_processes(self, server):
        """From outside: of all that the server has started, and the command line of itself."""
        seen = 0
        for pid in descendants(server.pid):
            for name in ("cmdline", "environ"):
                try:
                    self.clean(f"{name} of a child", pathlib.Path(f"/proc/{pid}/{name}").read_bytes())
                    seen += 1
                except OSError:
                    pass
        self.assertGreater(seen, 2)
        self.clean("the command line", pathlib.Path(f"/proc/{server.pid}/cmdline").read_bytes())

    def live(self, life, chance, records, log):
        flags, env = self.flags(life)
        flags += ["--allow-host", "far.example", "--allow-host", "shut.example", "--record", str(records), "--cache", str(self.directory / "cache"),
                  "--index-cert", self.index.certificate, "--index-url", f"https://index.test:{self.index.port}/simple/",
                  "--workspace", str(self.directory / "work")]
        with Server(*flags, env=env, stderr=log) as server:
            for session in "abcd":
                for deed in chance.sample(DEEDS, 3):
                    self.upstream.mode = chance.choice(MODES)
                    if self.upstream.mode in ("echo", "forbidden") and "http://" in deed:
                        self.upstream.mode = "ok"  # these quote the request, which in plain http reaches code: THREATS.md
                    self.clean("a result", server.python(RAW + deed, session=session).text.encode())
                self.clean("an installation", server.call("install_package", packages=[chance.choice(["plain", "missing"])]).text.encode())
                said = server.python(SEARCH % ([secret.hex() for secret in SECRETS],), session=session)
                self.assertRegex(said.output, r"^found 0 in [1-9]", said.text)
                self.check_processes(server)

    def test_is_in_nothing_after_many_sessions(self):
        chance = random.Random(SEED)
        records = self.directory / "records"
        records.mkdir(mode=0o700)
        (self.directory / "work").mkdir()
        with open(self.directory / "log", "w+b") as log:
            for life in range(max(1, SESSIONS // 4)):
                self.live(life, chance, records, log)
            log.seek(0)
            self.clean("the log", log.read())
        self.assertTrue(any("Basic" in fields.get("proxy-authorization", "") for _, fields in self.upstream.seen))
        for place in ("records", "cache", "work"):
            for path in (self.directory / place).rglob("*"):
                if path.is_file():
                    self.clean(path, path.read_bytes())


if __name__ == "__main__":
    unittest.main()
