"""--proxy and its variables: what code reaches through a proxy of the user's network, and a sentence for all that goes wrong."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import sys
import tempfile
import threading
import unittest

import egress_world
from client import Case, ROOT, Server, need_userns, run_cli
from egress_world import RAW
from upstream import Upstream

sys.path.append(str(ROOT / "tests" / "e2e" / "protocol"))

from test_elicitation import ACCEPT, AskingServer  # noqa: E402

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
SECRET = "Pa%24s word-4711"
LOGIN, TYPED = f"CORP\\someone:{SECRET}", "CORP%5csomeone:Pa%2524s%20word-4711"
PROXIED = """
def opened(target):
    s = socket.create_connection(('127.0.0.1', 3128), 60)
    s.sendall(f'CONNECT {target} HTTP/1.1\\r\\nProxy-Authorization: Basic b3du\\r\\n\\r\\n'.encode())
    got = b''
    while b'\\r\\n\\r\\n' not in got and (piece := s.recv(65536)):
        got += piece
    return s, got
def through(target, host='far.example'):
    s, got = opened(target)
    with s:
        s.sendall(f'GET /in HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
        got = got.partition(b'\\r\\n\\r\\n')[2]
        while piece := s.recv(65536):
            got += piece
        return got.rpartition(b'\\r\\n')[2].decode().strip()
def said(target):
    s, got = opened(target)
    with s:
        while piece := s.recv(65536):
            got += piece
    return got.decode('latin-1')
"""


class ThroughAProxy(Case):
    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        WORLD.forget()
        WORLD.names.names["proxy.office.example"] = [egress_world.PRIVATE]
        self.upstream = Upstream(egress_world.PRIVATE, hosts={"far.example": (egress_world.PUBLIC, 80)})
        self.addCleanup(self.upstream.close)

    def serve(self, *hosts, proxy=None, flags=(), **variables):
        words = [word for host in hosts for word in ("--allow-host", host)]
        words += ["--proxy", proxy] if proxy else []
        return Server(*words, *flags, env={"HOME": "/nonexistent", "PATH": os.environ["PATH"], **variables})

    def evaluate(self, server, code):
        result = server.python(RAW + PROXIED + code)
        self.assert_ok(result)
        return result.output

    def lines(self):
        return [line for line, _ in self.upstream.seen]

    def test_an_allowed_host_is_reached_through_it_and_no_other(self):
        self.upstream.login = LOGIN
        with self.serve("far.example", proxy=self.upstream.url(TYPED)) as server:
            self.assertEqual(self.evaluate(server, "print(through('far.example:80'))"), f"{egress_world.PUBLIC} /in")
            self.assertEqual(self.evaluate(server, "print(get('http://far.example/out?q'))"),
                             rf"b'{egress_world.PUBLIC} /out?q\n'")
            self.assertEqual(self.lines(), ["CONNECT far.example:80 HTTP/1.1", "GET http://far.example/out?q HTTP/1.1"])
            self.assertIn("403", self.evaluate(server, "print(said('other.example:443'), get('http://other.example/'))"))
            self.assertEqual(len(self.lines()), 2)
            self.assertNotIn("far.example", {name for name, *_ in WORLD.names.asked})
            self.assertIn("unreachable", self.evaluate(server, f"""
try: socket.create_connection(('{egress_world.PRIVATE}', {self.upstream.port}), 5)
except OSError as e: print(e)"""))
            self.assertIn("403 Forbidden", self.evaluate(server, f"print(said('{self.upstream.address}:{self.upstream.port}'))"))

    def test_fields_for_a_proxy_are_not_those_of_the_code(self):
        with self.serve("far.example", proxy=self.upstream.url()) as server:
            self.evaluate(server, """
through('far.example:80')
raw('GET http://far.example/ HTTP/1.1\\r\\nProxy-Authorization: Basic b3du\\r\\nMax-Forwards: 0\\r\\nConnection: X-Y\\r\\nX-Y: 1\\r\\n\\r\\n')""")
            for _, fields in self.upstream.seen:
                self.assertEqual(set(fields) & {"proxy-authorization", "max-forwards", "x-y"}, set())
            self.assertIn("403", self.evaluate(server, "print(raw('TRACE http://far.example/ HTTP/1.1\\r\\n\\r\\n'))"))
            self.assertEqual(len(self.lines()), 2)

    def test_each_variable_is_for_its_kind(self):
        url = self.upstream.url()
        for variables, through, plain in (
            ({"HTTPS_PROXY": url}, True, False), ({"http_proxy": url}, False, True), ({"ALL_PROXY": url}, True, True),
            ({"ALL_PROXY": url, "https_proxy": ""}, False, True), ({"HTTPS_PROXY": url, "NO_PROXY": ".web.example"}, False, False),
            ({"HTTPS_PROXY": url, "NO_PROXY": "web.example:443"}, True, False),
        ):
            with self.subTest(variables), self.serve("web.example", **variables) as server:
                self.upstream.hosts["web.example"] = (egress_world.PUBLIC, 80)
                self.upstream.seen.clear()
                self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(through('web.example:80'))"))
                self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(get('http://web.example/'))"))
                self.assertEqual([line.split()[0] for line in self.lines()], ["CONNECT"] * through + ["GET"] * plain)

    def test_the_flag_wins_and_off_is_none(self):
        broken = {"HTTPS_PROXY": "http://10.0.0.5:1", "ALL_PROXY": "socks5h://10.0.0.5:1"}
        with self.serve("far.example", proxy=self.upstream.url(), **broken) as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(through('far.example:80'))"))
        with self.serve("web.example", proxy="off", **broken) as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(through('web.example:80'))"))
        with self.serve("web.example", proxy=self.upstream.url(), flags=("--no-proxy", "web.example")) as server:
            self.assertIn(egress_world.PUBLIC, self.evaluate(server, "print(through('web.example:80'))"))
        self.assertEqual(len(self.lines()), 1)

    def test_loopback_is_never_the_proxys(self):
        site = http.server.HTTPServer((egress_world.LOOPBACK, 0), egress_world.Web)
        site.seen = []
        threading.Thread(target=site.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(site.shutdown)
        names = [f"{name}:{site.server_port}" for name in ("localhost", "127.0.0.1")]
        with self.serve(*names, proxy=self.upstream.url()) as server:
            for name in names:
                self.assertIn(egress_world.LOOPBACK, self.evaluate(server, f"print(through('{name}'))"))
        self.assertEqual(self.lines(), [])

    def test_a_literal_address_needs_its_own_flag(self):
        with self.serve("far.example", proxy=self.upstream.url()) as server:
            for target in ("10.0.0.9:443", "169.254.169.254:80", "[fd00::1]:443"):
                self.assertIn("403 Forbidden", self.evaluate(server, f"print(said('{target}'))"))
        self.assertEqual(self.lines(), [])

    def test_what_it_sends_early_or_oddly_is_not_lost(self):
        banner = socket.create_server((egress_world.PUBLIC, 0))
        self.addCleanup(banner.close)

        def greet():
            with contextlib.suppress(OSError):
                while True:
                    with banner.accept()[0] as end:
                        end.sendall(b"220 hello\r\n")
                        end.recv(10)
        threading.Thread(target=greet, daemon=True).start()
        self.upstream.hosts["mail.example"] = banner.getsockname()
        with self.serve("far.example", "mail.example:25", proxy=self.upstream.url()) as server:
            self.upstream.mode = "early"
            self.assertIn("220 hello", self.evaluate(server, """
s, got = opened('mail.example:25')
while b'hello' not in got and (piece := s.recv(100)): got += piece
s.close()
print(got.decode())"""))
            for mode in ("lf", "interim"):
                with self.subTest(mode):
                    self.upstream.mode = mode
                    self.assertEqual(self.evaluate(server, "print(through('far.example:80'))"), f"{egress_world.PUBLIC} /in")
            self.upstream.mode = "ok"
            self.assertEqual(self.evaluate(server, "print(len(get('http://far.example/bytes/5000000')))"), "5000000")
            self.assertEqual(self.evaluate(
                server, "print(urllib.request.urlopen('http://far.example/', bytes(range(256)) * 2048).read())"),
                f"b'{2048 * 256} {2048 * 255 * 128}'")

    SENTENCES = {
        "password": ("502", "asks for a password; the user can name it"),
        "unauthorized": ("502", "asks for a password"),
        "ntlm": ("502", "accepts only Negotiate, NTLM, which is not supported; a local helper such as px or cntlm"),
        "digest": ("502", "accepts only Digest"),
        "forbidden": ("502", "refuses it (403); the user can ask the network's administrators"),
        "redirect": ("502", "replied with a page (302), such as for a login to the network; the user can open a site in a browser"),
        "portal": ("502", "replied with a page (200)"),
        "announced": ("502", "replied with a page (200)"),
        "login": ("502", "replied with a page (511)"),
        "garbage": ("502", "sent what is no HTTP"),
        "half": ("502", "closed the connection without a reply"),
        "close": ("502", "closed the connection without a reply"),
        "hang": ("504", "sent no reply within 20 s"),
    }

    def test_each_failure_has_its_sentence(self):
        with self.serve("far.example", proxy=self.upstream.url()) as server:
            for mode, (status, words) in self.SENTENCES.items():
                with self.subTest(mode):
                    self.upstream.mode = mode
                    answer = self.evaluate(server, "print(said('far.example:80'))")
                    self.assertRegex(answer, rf"^HTTP/1.1 {status} [A-Z][a-z]+ [A-Z][a-z]+: far.example:80 cannot be reached: "
                                             rf"the upstream proxy {re.escape(self.upstream.url()[7:])} ")
                    self.assertIn(words, answer)
                    self.assertIn("Proxy-Status: sandpiper; error=destination_unavailable", answer)
                    for theirs in ("X-Own", "html", "login.example", "Denied", "Found"):
                        self.assertNotIn(theirs, answer)
            self.upstream.mode = "accepts and closes"
            self.assertEqual(self.evaluate(server, "print(repr(through('far.example:80')))"), "''")

    def test_a_refused_password_is_sent_once(self):
        """Whatever code does: at once from many threads, again, in plain http, after a reset."""
        self.upstream.login = LOGIN
        wrong = self.upstream.url("someone:wrong")
        many = """
import concurrent.futures
print(set(concurrent.futures.ThreadPoolExecutor(8).map(lambda _: said('far.example:80').rpartition(' proxy ')[2], range(8))))"""
        with self.serve("far.example", proxy=wrong) as server:
            output = self.evaluate(server, many)
            self.assertIn("refused the user name or the password; the user can correct them (--proxy) and restart Sandpiper", output)
            self.assertIn("refused the password, which is not sent again until Sandpiper is restarted", output)
            self.assertIn("is not sent again", self.evaluate(server, "print(said('far.example:80'))"))
            again = server.python(RAW + PROXIED + "print(said('far.example:80'), get('http://far.example/'))", reset=True).output
            self.assertEqual(again.count("is not sent again"), 3, again)
        self.assertEqual(len(self.lines()), 1)
        self.upstream.seen.clear()
        rows, _ = self.doctor(*[word for port in range(440, 447) for word in ("--allow-host", f"far.example:{port}")], HTTPS_PROXY=wrong,
                              HTTP_PROXY=wrong)
        self.assertIn("refused the user name or the password", " ".join(rows))
        self.assertEqual(len(self.lines()), 1)

    def test_code_that_waits_for_a_100_gets_one(self):
        with self.serve("far.example", "web.example", proxy=self.upstream.url(), flags=("--no-proxy", "web.example")) as server:
            for name in ("far.example", "web.example"):
                answer = self.evaluate(server, f"""
s = socket.create_connection(('127.0.0.1', 3128), 60)
s.sendall(b'POST http://{name}/ HTTP/1.1\\r\\nContent-Length: 4\\r\\nExpect: 100-continue\\r\\n\\r\\n')
got = s.recv(1000)
s.sendall(b'body')
while piece := s.recv(1000): got += piece
print(got.decode())""")
                self.assertTrue(answer.startswith("HTTP/1.1 100 Continue"), answer)
                self.assertIn("4 430", answer)

    def test_a_site_that_refuses_the_password_stops_no_tunnel(self):
        """In plain http, where the proxy passes a site's own 407 on."""
        self.upstream.login = LOGIN
        with self.serve("far.example", proxy=self.upstream.url(TYPED)) as server:
            self.upstream.mode = "password"
            self.assertIn("refused the user name or the password", self.evaluate(server, "print(get('http://far.example/'))"))
            self.upstream.mode = "ok"
            self.assertIn("is not sent again", self.evaluate(server, "print(get('http://far.example/'))"))
            self.assertEqual(self.evaluate(server, "print(through('far.example:80'))"), f"{egress_world.PUBLIC} /in")
            self.assertIn("/out", self.evaluate(server, "print(get('http://far.example/out'))"))

    def test_of_plain_http_only_a_407_is_the_proxys(self):
        with self.serve("far.example", proxy=self.upstream.url()) as server:
            for mode, status, words in (("password", 502, "asks for a password"), ("ntlm", 502, "Negotiate, NTLM"),
                                        ("close", 502, "closed the connection without a reply"),
                                        ("half", 502, "closed the connection without a reply"),
                                        ("unfinished", 502, "closed the connection without a reply"),
                                        *((mode, 502, "sent what is no HTTP") for mode in ("garbage", "crlf", "http2", "long", "behind")),
                                        ("forbidden", 403, "Denied by the policy"), ("redirect", 302, "login.example")):
                with self.subTest(mode):
                    self.upstream.mode = mode
                    answer = self.evaluate(server, "print(raw('GET http://far.example/ HTTP/1.1\\r\\n\\r\\n'))")
                    self.assertTrue(answer.startswith(f"HTTP/1.1 {status} "), answer)
                    self.assertIn(words, answer)
                    self.assertNotIn("Proxy-Authenticate", answer)

    def test_a_proxy_that_is_not_there_has_a_sentence(self):
        self.upstream.close()
        for proxy, words in ((self.upstream.url(), "refused the connection"), ("http://203.0.113.7:1", "no route to it"),
                             ("http://missing.example:1", "has a name that does not exist")):
            with self.subTest(proxy), self.serve("far.example", proxy=proxy) as server:
                for how in ("said('far.example:80')", "get('http://far.example/')"):
                    answer = self.evaluate(server, f"print({how})")
                    self.assertIn(words, answer)
                    self.assertIn("502 Bad Gateway", answer)

    def test_its_name_is_searched_for_in_the_domains_of_the_network(self):
        resolver = WORLD.directory / "resolv.conf"
        before = resolver.read_text()
        self.addCleanup(resolver.write_text, before)
        resolver.write_text(before + "search nowhere.example office.example\n")
        for host in ("proxy", "proxy.office.example", "PROXY"):
            with self.subTest(host), self.serve("far.example", proxy=f"http://{host}:{self.upstream.port}") as server:
                self.assertEqual(self.evaluate(server, "print(through('far.example:80'))"), f"{egress_world.PUBLIC} /in")

    def test_an_unsupported_proxy_of_the_environment_stops_only_what_leaves(self):
        with self.serve("web.example", ALL_PROXY="socks5h://10.0.0.5:1080") as server:
            self.assertEqual(self.evaluate(server, "print(1 + 1)"), "2")
            for how in ("said('web.example:80')", "get('http://web.example/')"):
                self.assertIn("the upstream proxy of ALL_PROXY cannot be used: socks5h:// is not supported",
                              self.evaluate(server, f"print({how})"))
        self.assertEqual(WORLD.web.seen, [])
        with self.serve("web.example", proxy="socks5://10.0.0.5:1080") as server:
            result = server.python("1")
            self.assertTrue(result.is_error)
            self.assertIn("--proxy: socks5:// is not supported", result.text)

    def test_of_an_approved_host_private_addresses_are_refused_if_they_are_known_here(self):
        WORLD.names.names["inside.example"] = [egress_world.PRIVATE]
        self.upstream.hosts["inside.example"] = (egress_world.PRIVATE, 80)
        for name, words in (("inside.example", "resolves to 10.0.0.5, a private address"), ("far.example", "/in")):
            with self.subTest(name), AskingServer("--allow-host", "ask", "--proxy", self.upstream.url()) as server:
                server.answers = [ACCEPT]
                code = RAW + PROXIED + f"print(said('{name}:80') if '{name}' == 'inside.example' else through('{name}:80'))"
                server.python(code if name == "inside.example" else RAW + PROXIED + f"print(said('{name}:80'))")
                self.assertIn(words, server.python(code).output)
                question, = server.questions
                self.assertIn("proxy decides where", question["params"]["message"])

    def test_nobody_learns_the_password(self):
        """Not code, no result, no log, no record, no other process."""
        self.upstream.login = LOGIN
        given = self.upstream.url(TYPED)
        with tempfile.TemporaryDirectory() as directory, open(directory + "/log", "w+") as log:
            env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "SANDPIPER_LOG": "trace", "HTTP_PROXY": given}
            with Server("--allow-host", "far.example", "--proxy", given, "--record", directory, env=env, stderr=log) as server:
                texts = []
                for mode in ("ok", "echo", "forbidden", "password", "ntlm"):
                    self.upstream.mode = mode
                    texts.append(server.python(RAW + PROXIED + "print(said('far.example:80') if %r else 1)" % (mode != "ok")).text)
                texts.append(server.python("""
import os, pathlib
found = [repr(dict(os.environ))]
for path in [*pathlib.Path('/proc').glob('[0-9]*/cmdline'), *pathlib.Path('/proc').glob('[0-9]*/environ'),
             *pathlib.Path('/run/sandpiper').rglob('*'), *pathlib.Path('/tmp').rglob('*')]:
    try: found.append(path.read_bytes().decode('latin-1'))
    except OSError: pass
print(found)""").text)
                for word in self.secrets():
                    for process in pathlib.Path("/proc").glob("[0-9]*"):
                        with contextlib.suppress(OSError):
                            line = (process / "cmdline").read_text("latin-1")
                            self.assertFalse(word in line and "sandpiper" in line, line)
                self.assertIn("someone:***", pathlib.Path(f"/proc/{server.pid}/cmdline").read_text("latin-1").replace("\0", " ")
                              .replace("*" * 20, "***"))
            texts += [path.read_text("latin-1") for path in pathlib.Path(directory).iterdir()]
            for text in texts:
                for word in self.secrets():
                    self.assertNotIn(word, text)
        self.assertIn("Proxy-Authorization".lower(), self.upstream.seen[0][1])

    def secrets(self):
        return (SECRET, "Pa%2524s%20word-4711", base64.b64encode(LOGIN.encode()).decode())

    def doctor(self, *flags, **variables):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], **variables}
        done = run_cli("doctor", "--json", "--install", "off", *flags, env=env)
        rows = [row for row in json.loads(done.stdout)["facts"] if row["fact"] == "proxy"]
        return [row["text"] for row in rows], done

    def test_doctor_says_which_host_it_leads_to(self):
        hosts = ("--allow-host", "far.example:80", "--allow-host", "far.example:443", "--allow-host", "direct.example")
        self.upstream.login = LOGIN
        given = self.upstream.url(TYPED)
        rows, done = self.doctor(*hosts, HTTP_PROXY=given, HTTPS_PROXY=given, NO_PROXY="direct.example,192.168.*")
        shown = f"http://CORP\\someone:***@{given.rpartition('@')[2]}"
        self.assertEqual(rows, [f"https: {shown} (HTTPS_PROXY)", f"http: {shown} (HTTP_PROXY)", "far.example:80 is reached",
                                "far.example:443 is reached"])
        self.assertIn(b"192.168.* matches nothing", done.stderr)
        for word in self.secrets():
            self.assertNotIn(word.encode(), done.stdout + done.stderr)
        for mode, words in (("hang", "no answer within 5 s"), ("ntlm", "accepts only Negotiate, NTLM"), ("forbidden", "refuses it (403)")):
            with self.subTest(mode):
                self.upstream.mode = mode
                rows, _ = self.doctor("--allow-host", "far.example", HTTPS_PROXY=given)
                self.assertEqual(rows[1], "http: directly")
                self.assertIn(words, rows[2])
        self.assertEqual(self.doctor("--allow-host", "far.example")[0], [])
        _, done = self.doctor(HTTPS_PROXY=given, NO_PROXY="a," * 4096 + "http://u:word-4711@x")
        self.assertIn(b"NO_PROXY has more than 8191 bytes", done.stderr)
        _, done = self.doctor(HTTPS_PROXY=given, NO_PROXY="http://u:word-4711@x")
        self.assertIn(b"an entry with a login matches nothing", done.stderr)
        self.assertNotIn(b"4711", done.stdout + done.stderr)

    def test_config_notes_the_proxy_of_the_shell(self):
        given = self.upstream.url(TYPED)
        with tempfile.TemporaryDirectory() as directory:
            env = {"HOME": directory, "XDG_CONFIG_HOME": directory + "/settings", "PATH": os.environ["PATH"], "HTTPS_PROXY": given,
                   "NO_PROXY": ".intranet.example"}
            install = ("config", "--install", "--in-memory", "--host", "cursor")
            done = run_cli(*install, env=env)
            file = pathlib.Path(directory, "settings", "sandpiper", "config")
            self.assertIn(f"the proxy of this shell is noted in {file}", done.stdout.decode())
            self.assertEqual((file.read_text(), file.stat().st_mode & 0o777),
                             (f"proxy = {given}\nno-proxy = .intranet.example\n", 0o600))
            self.assertNotIn("4711", done.stdout.decode() + pathlib.Path(directory, ".cursor", "mcp.json").read_text())
            before = file.read_text()
            run_cli(*install, env={**env, "HTTPS_PROXY": "http://other.example"})
            self.assertEqual(file.read_text(), before, "the user's line stays")
            file.chmod(0o644)
            done = run_cli("doctor", "--install", "off", env={**env, "HTTPS_PROXY": ""})
            self.assertIn(b"has a password, and others may read it", done.stderr)

    def test_config_makes_the_file_private_before_it_has_a_password(self):
        given = self.upstream.url(TYPED)
        with tempfile.TemporaryDirectory() as directory:
            real, place = pathlib.Path(directory, "dotfiles"), pathlib.Path(directory, "settings", "sandpiper")
            place.mkdir(parents=True)
            real.write_text("no-proxy = .mine.example")
            real.chmod(0o644)
            (place / "config").symlink_to(real)
            env = {"HOME": directory, "XDG_CONFIG_HOME": directory + "/settings", "PATH": os.environ["PATH"], "HTTPS_PROXY": given,
                   "HTTP_PROXY": given, "NO_PROXY": ".intranet.example"}
            done = run_cli("config", "--install", "--in-memory", "--host", "cursor", env=env)
            self.assertEqual(real.read_text(), f"no-proxy = .mine.example\nproxy = {given}\n", done.stderr)
            self.assertTrue((place / "config").is_symlink())
            self.assertEqual({file.stat().st_mode & 0o777 for file in pathlib.Path(directory).glob("dotfiles*")}, {0o600})
            self.assertNotIn(b"noted, and", done.stderr)

    def test_config_says_what_its_one_line_holds_for(self):
        given = self.upstream.url()
        for more, words in (({"HTTPS_PROXY": given}, "HTTPS_PROXY is noted, and holds for plain http too"),
                            ({"HTTPS_PROXY": given, "HTTP_PROXY": "http://other.example"}, "HTTPS_PROXY is noted, and holds"),
                            ({"HTTP_PROXY": given}, "not noted: HTTP_PROXY is for plain http only")):
            with self.subTest(more), tempfile.TemporaryDirectory() as directory:
                env = {"HOME": directory, "XDG_CONFIG_HOME": directory + "/settings", "PATH": os.environ["PATH"], **more}
                done = run_cli("config", "--install", "--in-memory", "--host", "cursor", env=env)
                self.assertIn(words, done.stderr.decode())
                self.assertEqual(pathlib.Path(directory, "settings", "sandpiper", "config").exists(), "HTTPS_PROXY" in more)

    def test_config_says_that_it_notes_none(self):
        given = self.upstream.url(TYPED)
        for more in ({"NO_PROXY": "a\nallow-host = b"}, {"HTTPS_PROXY": given + "/\nallow-host = b"}, {"HTTPS_PROXY": "socks5://h"}):
            with self.subTest(more), tempfile.TemporaryDirectory() as directory:
                env = {"HOME": directory, "XDG_CONFIG_HOME": directory + "/settings", "PATH": os.environ["PATH"], "HTTPS_PROXY": given, **more}
                done = run_cli("config", "--install", "--in-memory", "--host", "cursor", env=env)
                self.assertIn(b"the proxy of this shell is not noted", done.stderr)
                self.assertNotIn(b"4711", done.stdout + done.stderr)
                self.assertFalse(pathlib.Path(directory, "settings", "sandpiper", "config").exists())

    def test_a_command_line_shows_no_password(self):
        for words in (("--proxy", "http://u:pa/word-4711@h:1"), ("--proxy", "http://u:pa#word-4711@h:1"),
                      ("--no-proxy", "http://u:word-4711@x")):
            with self.subTest(words), self.serve("far.example", flags=words, HTTPS_PROXY=self.upstream.url()) as server:
                server.python("1")
                self.assertNotIn("4711", pathlib.Path(f"/proc/{server.pid}/cmdline").read_text("latin-1"))

    def test_settings_show_no_password_of_a_list(self):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "HTTPS_PROXY": self.upstream.url(), "NO_PROXY": "a.b, http://u:word-4711@x"}
        for words in ((), ("--no-proxy", "a.b, http://u:word-4711@x")):
            done = run_cli("doctor", "--effective", *words, env=env)
            self.assertIn(b"a.b, http://", done.stdout)
            self.assertNotIn(b"4711", done.stdout + done.stderr)

    def test_an_entry_of_a_client_never_has_the_password(self):
        done = run_cli("config", "--host", "cursor", "--", "--proxy", self.upstream.url(TYPED))
        self.assertEqual(done.returncode, 2)
        self.assertIn("proxy = URL", done.stderr.decode())
        self.assertNotIn(b"word-4711", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
