"""tinyproxy and squid, with and without a password, as proxies of the user's network; and the programs that go through them."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import egress_world
from client import Case, SLOW, Server, need_userns

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
PORT, USER, PASSWORD = 3129, "someone", "word4711"
URL = f"http://{egress_world.PRIVATE}:{PORT}"
WITH_LOGIN = f"http://{USER}:{PASSWORD}@{egress_world.PRIVATE}:{PORT}"
HELPER = "/usr/lib/squid/basic_ncsa_auth"


class RealProxies(Case):
    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        if os.geteuid() != 0:
            self.skipTest("root: the proxies change their user")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-proxy-"))
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        WORLD.web.seen.clear()

    @contextlib.contextmanager
    def running(self, *command):
        if not shutil.which(command[0], path="/usr/bin:/usr/sbin"):
            self.skipTest(f"{command[0]}: not installed")
        with open(self.directory / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        try:
            end = time.monotonic() + 20 * SLOW
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection((egress_world.PRIVATE, PORT), 1).close()
                    break
                self.assertLess(time.monotonic(), end, (self.directory / "log").read_text())
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(20)

    def tinyproxy(self, login=False):
        file = self.directory / "tinyproxy.conf"
        file.write_text(f"Port {PORT}\nListen {egress_world.PRIVATE}\nTimeout 60\nMaxClients 50\nLogFile \"{self.directory}/tiny\"\n"
                        + (f"BasicAuth {USER} {PASSWORD}\n" if login else ""))
        return self.running("tinyproxy", "-d", "-c", str(file))

    def squid(self, login=False):
        with open("/proc/self/uid_map", encoding="ascii") as maps:
            if os.geteuid() == 0 and int(maps.read().split()[2]) == 1:
                self.skipTest("root: squid changes its user, and this user namespace has no other")
        file, users = self.directory / "squid.conf", self.directory / "users"
        made = subprocess.run(["openssl", "passwd", "-apr1", PASSWORD], capture_output=True, text=True).stdout.strip()
        users.write_text(f"{USER}:{made}\n")
        rules = f"auth_param basic program {HELPER} {users}\nacl known proxy_auth REQUIRED\nhttp_access allow known\n" if login else \
            "acl safe port 443 80\nhttp_access deny !safe\nhttp_access allow all\n"
        file.write_text(f"http_port {egress_world.PRIVATE}:{PORT}\n{rules}http_access deny all\npid_filename none\naccess_log none\n"
                        f"cache_log /dev/null\ncache deny all\ndns_nameservers {egress_world.LOOPBACK}\nvisible_hostname office\n"
                        "shutdown_lifetime 0 seconds\n")
        return self.running("squid", "-n", f"sp{os.getpid()}x{login:d}", "-N", "-f", str(file))

    def said(self, proxy, code, *hosts):
        hosts = hosts or ("web.example",)
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}
        with Server(*[word for host in hosts for word in ("--allow-host", host)], env=env) as server:
            result = server.python(code)
            self.assert_ok(result)
            return result.output + "\n" + result.status.line

    PROGRAMS = """
import subprocess, urllib.request, urllib.error
def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()
def get(url):
    try:
        return urllib.request.urlopen(url).read().decode().strip()
    except OSError as error:
        return str(error)
def tunnel(target, more=''):
    import http.client
    host, port = target.split(':')
    connection = http.client.HTTPConnection('127.0.0.1', 3128)
    connection.set_tunnel(host, int(port))
    try:
        connection.request('GET', '/tunnel')
        return connection.getresponse().read().decode().strip()
    except OSError as error:
        return str(error)
"""

    def reached(self, proxy):
        said = self.said(proxy, self.PROGRAMS + "print(get('http://web.example/plain'), tunnel('web.example:80'))")
        self.assertIn(f"{egress_world.PUBLIC} /plain {egress_world.PUBLIC} /tunnel", said)

    def refused(self, proxy, words, target="web.example:80"):
        said = self.said(proxy, self.PROGRAMS + f"print(tunnel('{target}'))", target)
        self.assertIn(words, said)
        self.assertNotIn("wrong-word", said)
        return said

    def test_tinyproxy(self):
        with self.tinyproxy():
            self.reached(URL)

    def test_tinyproxy_with_a_password(self):
        with self.tinyproxy(login=True):
            self.reached(WITH_LOGIN)
            self.refused(URL, "asks for a password")
            self.refused(WITH_LOGIN.replace(PASSWORD, "wrong-word"), "refused the user name or the password")

    def test_squid(self):
        with self.squid():
            self.reached(URL)
            self.refused(URL, "refuses it (403); proxies often permit only port 443", "web.example:8443")

    def test_squid_with_a_password(self):
        with self.squid(login=True):
            self.reached(WITH_LOGIN)
            self.refused(URL, "asks for a password")
            said = self.refused(WITH_LOGIN.replace(PASSWORD, "wrong-word"), "refused the user name or the password")
            self.assertIn("Tunnel connection failed: 502 Bad Gateway", said)

    def test_programs_that_hide_the_reason(self):
        if not shutil.which("curl") or not shutil.which("git"):
            self.skipTest("curl, git: not installed")
        for command in ("run('curl', '-sS', 'https://web.example/')", "run('git', 'ls-remote', 'https://web.example/a.git')"):
            with self.subTest(command), self.tinyproxy(login=True):
                said = self.said(URL, self.PROGRAMS + f"print({command})")
                self.assertIn("502", said)
                self.assertIn("network: the sandbox's proxy answered, not the site: \"web.example:443 cannot be reached: the upstream proxy", said)
                self.assertIn("asks for a password", said)


if __name__ == "__main__":
    unittest.main()
