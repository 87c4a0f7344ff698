"""A package index on loopback: PEP 503 pages, PEP 691 JSON, PEP 658 metadata, over HTTP or TLS.

    with Index(directory) as index:
        pip install --index-url index.url ...
        index.count("/files/")

It serves every wheel and sdist that is in the directory at the time of a request. Tests make it misbehave:
`index.rules` maps a path, or a prefix that ends with "*", to a function that handles the request instead of an honest
response (`status`, `redirect`, `hang`, `cut`, `slow` make such functions); `index.lies` has the files that get a wrong
hash. Without `index.lasting` it does not say that files never change, as many mirrors.
"""
import base64
import functools
import hashlib
import html
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import zipfile

JSON = "application/vnd.pypi.simple.v1+json"
ARCHIVE = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.+\.whl|\.tar\.gz)$")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def status(code, headers=()):
    return lambda request: request.answer(code, b"", dict(headers))


def redirect(target):
    """target: a URL; if it ends with a slash, the requested path is appended."""
    def go(request):
        where = target + request.path.lstrip("/") if target.endswith("/") else target
        request.answer(302, b"", {"Location": where})
    return go


def hang(request):
    """No response until the index is closed."""
    request.index.closing.wait()
    request.close_connection = True


def cut(size):
    """The honest head, and the first `size` bytes of the body."""
    def send(request):
        request.honest(lambda body: request.wfile.write(body[:size]))
        request.close_connection = True
    return send


def slow(pieces, seconds):
    """The honest response in so many pieces with a pause before each."""
    def send(request):
        def trickle(body):
            step = max(1, -(-len(body) // pieces))
            for start in range(0, len(body), step):
                if request.index.closing.wait(seconds):
                    return
                request.wfile.write(body[start:start + step])
                request.wfile.flush()
        request.honest(trickle)
    return send


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def handle_error(self, request, client_address):
        # Some tests have a client that closes the connection or does not trust the certificate.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index = None

    def log_message(self, *words):
        pass

    def answer(self, code, body, headers, send=None):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            (send or self.wfile.write)(body)

    def do_GET(self):
        self.path = urllib.parse.unquote(self.path)
        sent = self.headers.get("Authorization", "")
        with self.index.lock:
            self.index.requests.append((self.command, self.path, sent))
        try:
            if self.index.auth and sent != self.index.expected:
                self.answer(401, b"", {"WWW-Authenticate": 'Basic realm="index"'})
            else:
                self.index.rule(self.path)(self)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_HEAD = do_GET

    def honest(self, send=None):
        found = re.fullmatch(r"/(simple|files)/(?:([^/]+)/?)?", self.path)
        if not found:
            self.answer(404, b"", {})
        elif found[1] == "simple":
            self.page(found[2], send)
        else:
            self.file(found[2] or "", send)

    def page(self, name, send):
        # There is no list of projects: our programs must not request it.
        rows = self.index.rows(name) if name else []
        if not rows:
            return self.answer(404, b"", {})
        if JSON in self.headers.get("Accept", ""):
            body, kind = json.dumps({"meta": {"api-version": "1.0"}, "name": normal(name), "files": rows}), JSON
        else:
            body, kind = f"<!DOCTYPE html><html><body>{''.join(map(anchor, rows))}</body></html>", "text/html"
        tag = '"%s"' % hashlib.sha256(body.encode()).hexdigest()[:16]
        headers = {"Content-Type": kind, "ETag": tag, "Cache-Control": "max-age=0", "Vary": "Accept"}
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, b"", headers)
        return self.answer(200, body.encode(), headers, send)

    def file(self, name, send):
        if name.endswith(".metadata"):
            body = metadata(self.index.directory / name[:-len(".metadata")])
        else:
            path = self.index.directory / name
            body = path.read_bytes() if path.is_file() else None
        if body is None:
            return self.answer(404, b"", {})
        lasting = {"Cache-Control": "max-age=365000000, immutable, public"} if self.index.lasting else {}
        return self.answer(200, body, {"Content-Type": "application/octet-stream", **lasting}, send)


def anchor(row):
    attributes = f'href="{html.escape(row["url"])}#sha256={row["hashes"]["sha256"]}"'
    for key, attribute in (("requires-python", "data-requires-python"), ("yanked", "data-yanked")):
        if row.get(key):
            attributes += f' {attribute}="{html.escape(str(row[key]))}"'
    if row.get("core-metadata"):
        attributes += ' data-core-metadata="true" data-dist-info-metadata="true"'
    return f"<a {attributes}>{html.escape(row['filename'])}</a><br>\n"


@functools.lru_cache(None)
def digest(path, _changed):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def metadata(path):
    if path.suffix != ".whl" or not path.is_file():
        return None
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        return archive.read(names[0]) if len(names) == 1 else None


class Index:
    """Serves `directory` until `close`. Cheap: one thread, and one per connection.

    tls: True, or a context with another certificate. auth: (login, password) that every request needs. metadata: offers PEP 658 files, as the large public index does.
    files_at: base URL of the files, for an index whose files are elsewhere.
    """

    def __init__(self, directory, tls=False, auth=None, metadata=True, files_at=None, port=0, address="127.0.0.1"):
        self.directory, self.auth, self.metadata, self.files_at = pathlib.Path(directory), auth, metadata, files_at
        self.expected = "Basic " + base64.b64encode(":".join(auth or ()).encode()).decode()
        self.rules, self.lies, self.yanked, self.requests, self.lasting = {}, set(), {}, [], True
        self.lock, self.closing = threading.Lock(), threading.Event()
        handler = type("Handler", (Request,), {"index": self})
        self.server = Server((address, port), handler)
        self.port, self.scheme, self.certificate = self.server.server_port, "http", None
        if tls:
            context = tls
            if tls is True:
                self.keys = tempfile.TemporaryDirectory()
                self.certificate = make_certificate(self.keys.name)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate, self.keys.name + "/key.pem")
            # The connection's own thread performs the handshake at its first read.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
            self.scheme = "https"
        self.host = f"{address}:{self.port}"
        self.url = f"{self.scheme}://{self.host}/simple/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def rule(self, path):
        for pattern, act in self.rules.items():
            if path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1])):
                return act
        return Request.honest

    def rows(self, name):
        rows = []
        for path in sorted(self.directory.iterdir()):
            found = ARCHIVE.match(path.name)
            if not found or normal(found["name"]) != normal(name):
                continue
            hashed = "0" * 64 if path.name in self.lies else digest(path, path.stat().st_mtime_ns)
            row = {"filename": path.name, "hashes": {"sha256": hashed},
                   "url": (self.files_at or f"{self.scheme}://{self.host}/files/") + urllib.parse.quote(path.name)}
            text = metadata(path)
            python = text and re.search(rb"^Requires-Python: (.*)$", text, re.M)
            if python:
                row["requires-python"] = python[1].decode()
            if text and self.metadata:
                row["core-metadata"] = True
            if path.name in self.yanked:
                row["yanked"] = self.yanked[path.name]
            rows.append(row)
        return rows

    def count(self, beginning=""):
        """The number of requests for paths with this prefix."""
        with self.lock:
            return sum(path.startswith(beginning) for _, path, _ in self.requests)


def make_certificate(directory):
    """Creates a certificate for the loopback names; returns its path, beside which is key.pem."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "36500", "-subj", "/CN=test index", "-keyout", f"{directory}/key.pem", "-out", f"{directory}/cert.pem",
         "-addext", "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:index.test,DNS:files.test"],
        check=True, capture_output=True)
    return f"{directory}/cert.pem"
