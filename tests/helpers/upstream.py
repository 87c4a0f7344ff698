"""A proxy of the user's network, for tests: CONNECT and absolute form, Basic authentication, and every way to misbehave.

    with Upstream(address, hosts={"only.example": (address, 80)}) as upstream:
        upstream.mode = "hang"

It resolves only the names in hosts, or a name that is an address. `seen` has (request line, fields in lower case) of each
request, `opened` counts connections. With an `authority` it reads TLS: it shows certificates that this one has signed.
"""
import base64
import contextlib
import select
import socket
import ssl
import threading

MODES = ("ok", "lf", "interim", "early", "cut", "forbidden", "echo", "redirect", "portal", "announced", "login", "ntlm", "digest", "password", "unauthorized",
         "garbage", "half", "crlf", "http2", "long", "behind", "unfinished", "close", "accepts and closes", "hang")


class Upstream:
    def __init__(self, address, port=0, hosts=None, login=None):
        self.hosts, self.login, self.mode = hosts or {}, login, "ok"
        self.seen, self.opened, self.cut_after, self.authority, self.read = [], 0, 0, None, []
        self.socket = socket.create_server((address, port), backlog=64)
        self.address, self.port = self.socket.getsockname()
        self.ends = []
        threading.Thread(target=self.serve, daemon=True).start()

    def url(self, login=None):
        return f"http://{login + '@' if login else ''}{self.address}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve(self):
        while True:
            try:
                end, _ = self.socket.accept()
            except OSError:
                return
            self.opened += 1
            self.ends.append(end)
            threading.Thread(target=self.answer, args=(end,), daemon=True).start()

    def answer(self, end):
        with contextlib.suppress(OSError), end:
            data = b""
            while b"\r\n\r\n" not in data:
                piece = end.recv(65536)
                if not piece:
                    return
                data += piece
            head, _, rest = data.partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            self.seen.append((line, fields))
            self.reply(end, line, fields, head, rest)

    def reply(self, end, line, fields, head, rest):
        method, target, _ = line.split()
        given = fields.get("proxy-authorization", "")
        wanted = "Basic " + base64.b64encode((self.login or "").encode()).decode()
        mode = "password" if self.mode == "ok" and self.login and given != wanted else self.mode
        body = b"<html>" + head + b"</html>"
        asks = b"407 Needed\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n"
        pad = b"X-Own: " + b"a" * 16384 + b"\r\n"
        plain = {
            "crlf": b"\r\nHTTP/1.1 " + asks, "http2": b"HTTP/2 " + asks, "unfinished": b"HTTP/1.1 " + asks[:-2],
            "long": b"HTTP/1.1 407 Needed\r\n" + pad + asks[12:], "behind": b"HTTP/1.1 100 Continue\r\n" + pad + b"\r\nHTTP/1.1 " + asks,
            "garbage": b"SSH-2.0-OpenSSH_9.2\r\n", "half": b"HTTP/1.1 20", "close": b"",
            "forbidden": b"HTTP/1.1 403 Denied by the policy\r\nX-Own: secret\r\n\r\n" + body,
            "echo": b"HTTP/1.1 403 " + given.encode() + b"\r\n\r\n" + body,
            "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n",
            "portal": b"HTTP/1.0 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html>log in",
            "announced": b"HTTP/1.0 200 OK\r\nContent-Type: TEXT/HTML\r\nContent-Length: 5000\r\n\r\n",
            "login": b"HTTP/1.1 511 Network Authentication Required\r\n\r\n" + body,
            "ntlm": b"HTTP/1.1 407 Needed\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n\r\n" + body,
            "digest": b"HTTP/1.1 407 Needed\r\nProxy-Authenticate: Digest realm=\"x\", nonce=\"y\"\r\n\r\n" + body,
            "password": b"HTTP/1.1 407 Needed\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n" + body,
            "unauthorized": b"HTTP/1.0 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n" + body,
            "accepts and closes": b"HTTP/1.1 200 OK\r\n\r\n",
        }
        if mode == "hang":
            select.select([end], [], [])
            return
        if mode in plain:
            end.sendall(plain[mode])
            return
        host, _, port = (target if method == "CONNECT" else target.split("/")[2]).rpartition(":")
        host, port = (host, int(port)) if host else (target.split("/")[2], 80)
        with socket.create_connection(self.hosts.get(host, (host, port)), 10) as site:
            if method == "CONNECT":
                ok = b"HTTP/1.1 200 Connection established\r\nContent-Length: 5\r\n\r\n"
                ok = {"lf": b"HTTP/1.0 200 OK\n\n", "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + ok}.get(mode, ok)
                end.sendall(ok + (site.recv(65536) if mode == "early" else b""))
                if self.authority:
                    return self.intercept(end, site, host)
            else:
                path = "/" + target.split("/", 3)[3]
                kept = [f"{name}: {value}" for name, value in fields.items() if name != "proxy-authorization"]
                site.sendall("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "", ""]).encode())
            if rest:
                site.sendall(rest)
            self.relay(end, site, self.cut_after if mode == "cut" else None)

    def intercept(self, end, site, host):
        """A TLS connection to each side; the first line of each request is noted in `read`."""
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        with self.authority.context(host).wrap_socket(end, server_side=True) as end, unverified.wrap_socket(site) as site:
            whole = True
            while whole:
                select.select([end, site], [], [])
                whole = self.pass_on(end, site, self.read) and self.pass_on(site, end)

    @staticmethod
    def pass_on(source, sink, read=None):
        """All that is there. False: the source has ended."""
        source.settimeout(0)
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := source.recv(65536):
                if read is not None:
                    read.append(data.partition(b"\r\n")[0].decode("latin-1"))
                sink.settimeout(60)
                sink.sendall(data)
            return False
        return True

    @staticmethod
    def relay(end, site, most):
        passed, open_ends = 0, {end: site, site: end}
        while open_ends:
            for one in select.select(list(open_ends), [], [])[0]:
                data = one.recv(65536)
                if one is site and most is not None and passed + len(data) > most:
                    end.sendall(data[:most - passed])
                    return
                passed += len(data) if one is site else 0
                other = open_ends[one]
                if data:
                    other.sendall(data)
                else:
                    del open_ends[one]
                    with contextlib.suppress(OSError):
                        other.shutdown(socket.SHUT_WR)
