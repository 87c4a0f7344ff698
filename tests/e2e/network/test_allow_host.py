"""--allow-host: code reaches the named hosts and no others, even with hostile code and hostile DNS."""
import os
import pathlib
import shutil
import signal
import time
import unittest

import egress_world
from client import SLOW, Case, Server, need_userns
from egress_world import RAW
from traces import any_left

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()


def proxy_of(server):
    """The pid of its egress proxy."""
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (directory / "status").read_text()
            command = (directory / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\nPPid:\t{server.pid}\n" in status and command.startswith(b"sandpiper-proxy\0"):
            return int(directory.name)
    return None


def wait_for_proxy(server, other_than=None):
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end:
        pid = proxy_of(server)
        if pid not in (None, other_than):
            return pid
        time.sleep(0.01)
    raise AssertionError("no proxy")


class AllowHost(Case):
    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        WORLD.forget()

    def tearDown(self):
        if INSIDE:
            self.assertEqual(WORLD.canary_taken(), [])

    def serve(self, *hosts, **more):
        server = Server(*[word for host in hosts for word in ("--allow-host", host)], **more)
        return server

    def evaluate(self, server, code):
        result = server.python(RAW + code)
        self.assert_ok(result)
        return result.output

    def test_a_named_host_is_reached(self):
        with self.serve("web.example", "listed.example") as server:
            for name in ("web.example", "WEB.example.", "listed.example"):
                with self.subTest(name):
                    self.assertEqual(self.evaluate(server, f"print(get('http://{name}/a?b'))"),
                                     rf"b'{egress_world.PUBLIC} /a?b\n'")
            self.assertEqual(self.evaluate(
                server, "print(urllib.request.urlopen('http://web.example/', bytes(range(256)) * 8192).read())"),
                f"b'{8192 * 256} {8192 * 255 * 128}'")
            self.assertEqual(self.evaluate(server, "print(len(get('http://web.example/bytes/50000000')))"),
                             "50000000")
            self.assertIn("subprocess 93.184.215.14", self.evaluate(
                server, "import subprocess, sys; print('subprocess', subprocess.run([sys.executable, '-c', "
                "'import urllib.request as u; print(u.urlopen(\"http://web.example/\").read().decode())'],"
                "capture_output=True, text=True).stdout)"))
            names = {name for name, _, _ in WORLD.names.asked}
            self.assertEqual(names, {"web.example"})  # the other host is in /etc/hosts

    def test_tls_is_end_to_end(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl: not installed")
        certificate = WORLD.secure()
        with self.serve("web.example:443") as server:
            self.assertEqual(self.evaluate(server, f"""
import ssl
trusting = ssl.create_default_context(cadata={certificate!r})
print(urllib.request.urlopen('https://web.example/x', context=trusting).read())
try:
    urllib.request.urlopen('https://web.example/x')
except OSError as e:
    print('CERTIFICATE_VERIFY_FAILED' in str(e))
print(get('http://web.example/')[:29])"""),
                rf"b'{egress_world.PUBLIC} /x\n'" + "\nTrue\n403 Forbidden: web.example:80")

    def test_unnamed_hosts_are_refused(self):
        sentence = ("other.example:443 is not an allowed host (web.example); "
                    "the user can allow it: --allow-host other.example:443")
        with self.serve("web.example") as server:
            self.assertIn(f"Tunnel connection failed: 403 Forbidden: {sentence}",
                          self.evaluate(server, "print(get('https://other.example/'))"))
            plain = sentence.replace(":443", ":80")
            self.assertIn(f"403 Forbidden: {plain}",
                          self.evaluate(server, "print(get('http://other.example/'))"))
            answer = self.evaluate(server, "print(raw('GET http://other.example/ HTTP/1.1\\r\\n\\r\\n'))")
            self.assertIn("Proxy-Status: sandpiper; error=http_request_denied", answer)
            self.assertTrue(answer.rstrip().endswith(plain), answer)
            self.assertIn("unreachable", self.evaluate(server, f"""
try:
    socket.create_connection(('{egress_world.PUBLIC}', 80), 5)
except OSError as e:
    print(e)"""))
            self.assertIn("403", self.evaluate(server, "print(get('http://web.example:8080/'))"))
        self.assertEqual(WORLD.other.seen, [])
        self.assertEqual(WORLD.names.asked, [])  # no name server receives the name either

    def test_a_refusal_says_that_the_user_decides(self):
        with self.serve("web.example") as server:
            for code, hint in (("urllib.request.urlopen('https://other.example/')", "the user's policy, not an error"),
                               ("urllib.request.urlopen('http://other.example/')", "the user's policy, not an error"),
                               ("socket.create_connection(('web.example', 80))", "use a library that uses this proxy"),
                               (f"socket.create_connection(('{egress_world.PUBLIC}', 80))", "except the HTTP proxy")):
                with self.subTest(code):
                    self.assertIn(hint, server.python(RAW + code).text)

    def test_names_with_private_addresses_are_refused(self):
        hosts = ("private.example", "both.example", "six.example", "metadata.example", "mapped.example",
                 "inner.example")
        with self.serve(*hosts) as server:
            for host in hosts:
                with self.subTest(host):
                    for say in (f"print(tunnel('{host}:80'))", f"print(get('http://{host}/'))"):
                        self.assertRegex(self.evaluate(server, say),
                                         rf"403 Forbidden: {host}:80 resolves to \S+, .* address")
        self.assertEqual(WORLD.web.seen, [])

    def test_an_address_is_reached_when_it_is_named(self):
        with self.serve("private.example", f"{egress_world.PRIVATE}:80") as server:
            for host in ("private.example", egress_world.PRIVATE):
                self.assertEqual(self.evaluate(server, f"print(get('http://{host}/'))"),
                                 rf"b'{egress_world.PRIVATE} /\n'")
            self.assertIn("403", self.evaluate(server, f"print(tunnel('{egress_world.PRIVATE}:443'))"))
        for server in WORLD.canary:
            server.seen.clear()

    def test_a_name_that_changes_its_address_is_refused(self):
        """DNS rebinding: each look-up is checked, and the connection goes to the checked address."""
        turns = iter([[egress_world.PUBLIC]] * 2)
        WORLD.names.names["turns.example"] = lambda: next(turns, [egress_world.PRIVATE])
        with self.serve("turns.example") as server:
            said = self.evaluate(server, """
import time
said = set()
while len(said) < 2:
    said.add(str(get('http://turns.example/'))[:22])
    time.sleep(0.05)
print(sorted(said))""")
        self.assertEqual(said, "[\"403 Forbidden: turns.e\", \"b'93.184.215.14 /\\\\n'\"]".replace('"403', "'403").replace('turns.e"', "turns.e'"))

    def test_a_redirect_is_checked_like_any_request(self):
        with self.serve("web.example") as server:
            for to in (f"http://{egress_world.PRIVATE}/", "http://other.example/", "http://web.example:8080/"):
                with self.subTest(to):
                    self.assertIn("403 Forbidden", self.evaluate(server, f"print(get('http://web.example/to/{to}'))"))
            self.assertIn("b'", self.evaluate(server, "print(get('http://web.example/to/http://web.example/'))"))

    def test_other_spellings_of_an_address_are_refused(self):
        spellings = ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "0177.0.0.1", "[::1]",
                     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "localhost.", "0", "0.0.0.0",
                     "127.0.0.1.", "web.example@127.0.0.1", "127.0.0.1#web.example", "127.0.0.1%00.web.example",
                     "10.0.0.5", "[fd00::1%25lo]", "web.example\\t", "web.example..")
        with self.serve("web.example", egress_world.PUBLIC) as server:
            said = self.evaluate(server, f"""
for spelling in {spellings!r}:
    for port in (80, 443):
        print(tunnel(f'{{spelling}}:{{port}}')[9:12], raw(f'GET http://{{spelling}}:{{port}}/ HTTP/1.1\\r\\n\\r\\n')[9:12])""")
            self.assertEqual(set(said.split()) - {"400", "403"}, set(), said)

    def test_a_second_request_in_one_message_is_refused(self):
        first = "GET http://web.example/first HTTP/1.1\\r\\nHost: other.example\\r\\n"
        second = "GET http://web.example/second HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n"
        with self.serve("web.example") as server:
            self.evaluate(server, f"""
raw('{first}\\r\\n{second}')
raw('{first}Content-Length: 0\\r\\n\\r\\n{second}')
raw('{first}Connection: Content-Length\\r\\nContent-Length: 3\\r\\n\\r\\nabc{second}')
for bad in ('Content-Length: 3\\r\\nContent-Length: 80\\r\\n', 'Transfer-Encoding: chunked\\r\\n',
            'X: y\\nHost: evil\\r\\n', 'Content-Length : 3\\r\\n', ' folded: x\\r\\n'):
    print(raw('{first}' + bad + '\\r\\n0\\r\\n\\r\\n{second}')[9:12])
with socket.create_connection(('127.0.0.1', 3128), 30) as s:
    s.sendall(b'{first}\\r\\n')
    got = s.recv(65536)
    try:
        s.sendall(b'{second}')
        while got and s.recv(65536): pass
    except (BrokenPipeError, ConnectionResetError):
        pass  # closed with the second request unread
""")
        self.assertNotIn("/second", {path for _, path, _ in WORLD.web.seen})
        self.assertIn("/first", {path for _, path, _ in WORLD.web.seen})
        self.assertEqual({fields["Host"] for _, _, fields in WORLD.web.seen}, {"web.example"})
        self.assertEqual({fields.get("Connection") for _, _, fields in WORLD.web.seen}, {"close"})

    def test_dns_retries_over_tcp_and_caches_answers(self):
        with self.serve("big.example", "missing.example", "empty.example") as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(get('http://big.example/'))"))
            self.assertIn(("big.example", 1, True), WORLD.names.asked)  # over TCP
            self.assertIn("502", self.evaluate(server, "print(tunnel('missing.example:80'))"))
            self.assertIn("the user's name server knows no such name", self.evaluate(server, "print(tunnel('empty.example:80'))"))
            before = len(WORLD.names.asked)
            WORLD.names.ttl = 300
            self.evaluate(server, "print({tunnel('big.example:80')[9:12] for _ in range(100)})")
            self.assertLess(len(WORLD.names.asked) - before, 60)
            WORLD.names.ttl = 0

    def test_a_closed_port_is_an_error(self):
        with self.serve("web.example:81", "silent.example") as server:
            self.assertIn("502 Bad Gateway: web.example:81 cannot be reached: the connection was refused",
                          self.evaluate(server, "print(tunnel('web.example:81'))"))
            self.assertIn("504 Gateway Timeout: silent.example:80 cannot be reached: no name server responds",
                          self.evaluate(server, "print(tunnel('silent.example:80'))"))

    def test_a_flood_of_connections_blocks_no_other(self):
        """Connections that send nothing, close at once, or close in the middle of a request; then an honest one."""
        with self.serve("web.example") as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, """
idle = [socket.create_connection(('127.0.0.1', 3128), 30) for _ in range(150)]
for s in idle[:50]:
    s.sendall(b'CONNECT web.exam')
for s in idle[50:100]:
    s.sendall(b'CONNECT web.example:80 HTTP/1.1\\r\\n\\r\\n')
for _ in range(2000):
    socket.create_connection(('127.0.0.1', 3128), 30).close()
for _ in range(50):
    raw('GET http://web.example/bytes/100000 HTTP/1.1\\r\\n\\r\\n', wait=False)
    tunnel('other.example:1')
print(get('http://web.example/'))"""))
            status = pathlib.Path(f"/proc/{proxy_of(server)}/status").read_text()
            resident = int(status.split("VmRSS:")[1].split()[0])
            self.assertLess(resident, 40 << 10)  # kB: its tables have fixed sizes

    def test_waiting_connections_get_their_turn(self):
        """More than the proxy accepts at one time; the deadline closes the first ones."""
        with self.serve("web.example") as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, """
idle = [socket.create_connection(('127.0.0.1', 3128), 60) for _ in range(300)]
print(get('http://web.example/'))"""))

    def test_a_killed_proxy_is_replaced(self):
        with self.serve("web.example") as server:
            self.evaluate(server, "print(get('http://web.example/'))")
            first = wait_for_proxy(server)
            os.kill(first, signal.SIGKILL)
            wait_for_proxy(server, other_than=first)
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(get('http://web.example/'))"))

    def test_the_proxy_exits_with_the_server(self):
        with self.serve("web.example", check=False) as server:
            self.evaluate(server, "print(get('http://web.example/'))")
            proxy = wait_for_proxy(server)
            server.signal(signal.SIGKILL)
            server.join()
            self.assertFalse(any_left([proxy], 10 * SLOW))
            self.assertEqual(server.left(), [])

    def test_the_proxy_is_confined(self):
        with self.serve("web.example") as server:
            self.evaluate(server, "print(get('http://web.example/'))")
            directory = pathlib.Path(f"/proc/{wait_for_proxy(server)}")
            status = dict(line.split(":\t", 1) for line in (directory / "status").read_text().splitlines()
                          if ":\t" in line)
            self.assertEqual({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
                             {"0" * 16})
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
            self.assertEqual(status["NSpid"].split()[-1], "1")
            for name in ("user", "mnt", "pid", "ipc", "uts"):
                with self.subTest(name):
                    self.assertNotEqual(os.readlink(directory / "ns" / name), os.readlink(f"/proc/self/ns/{name}"))
            self.assertEqual(os.readlink(directory / "ns" / "net"), os.readlink("/proc/self/ns/net"))
            root = directory / "root"
            self.assertEqual(sorted(os.listdir(root)), ["dev", "work"])
            self.assertEqual((os.listdir(root / "dev"), os.listdir(root / "work")), (["null"], []))
            self.assertTrue(os.statvfs(root).f_flag & os.ST_RDONLY)
            try:
                held = [os.readlink(directory / "fd" / fd) for fd in os.listdir(directory / "fd")]
            except PermissionError:  # it is not dumpable: only root may read this
                held = []
            self.assertEqual({link for link in held if not link.startswith("socket:")}, {"/dev/null"} if held else set())
            self.assertLess(len(held), 8)

    def test_a_wrong_flag_is_refused(self):
        with Server("--allow-host", "https://web.example/") as server:
            result = server.python("1")
            self.assertTrue(result.is_error)
            self.assertIn("--allow-host takes NAME", result.text)

    def test_without_the_flag_there_is_no_proxy(self):
        with Server() as server:
            self.assert_prints(server.python("import os; print([n for n in os.environ if 'proxy' in n.lower()])"),
                               "[]")
            self.assertIsNone(proxy_of(server))
            self.assertIn("refused", self.evaluate(server, """
try: socket.create_connection(('127.0.0.1', 3128), 5)
except OSError as e: print(e)"""))


if __name__ == "__main__":
    unittest.main()
