"""A small internet for one test program: addresses that look public, name servers, web servers, and canaries.

enter() re-executes the program in new network and mount namespaces without a connection to the outside; all addresses
are on the loopback interface. The servers are threads of the test's own process.
"""
import contextlib
import fcntl
import http.server
import os
import pathlib
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

PUBLIC = "93.184.215.14"
OTHER = "93.184.215.15"
PRIVATE = "10.0.0.5"
LOOPBACK = "127.0.0.1"
SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8914, 1
MARK = "SANDPIPER_TEST_WORLD"
# In the sandbox: sends raw bytes to the proxy and reads its response.
RAW = """
import os, socket, urllib.request, urllib.error
def raw(data, wait=True):
    with socket.create_connection(('127.0.0.1', 3128), 30) as s:
        s.sendall(data if isinstance(data, bytes) else data.encode())
        got = b''
        try:
            while wait and (piece := s.recv(65536)):
                got += piece
        except ConnectionResetError:
            pass
        return got.decode('latin-1')
def tunnel(target):
    with socket.create_connection(('127.0.0.1', 3128), 30) as s:
        s.sendall(f'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'.encode())
        return s.recv(65536).decode('latin-1').split('\\r\\n')[0]
def get(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as e:
        return f'{e.code} {e.reason}'
    except OSError as e:
        return str(e)
"""


def enter():
    """Re-executes this program in the namespaces. False: they are refused here."""
    if os.environ.get(MARK):
        return os.environ[MARK] == "inside"
    flags = ["-nm"] if os.geteuid() == 0 else ["-Urnm"]
    inside = ["unshare", *flags, "--propagation", "private"]
    files = all(os.path.exists(name) for name in ("/etc/resolv.conf", "/etc/hosts"))
    if not files or not shutil.which("unshare") or \
            subprocess.run([*inside, "true"], capture_output=True).returncode:
        os.environ[MARK] = "outside"
        return False
    os.environ[MARK] = "inside"
    os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def set_address(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if address:
            fcntl.ioctl(sock, SIOCSIFADDR, struct.pack("16sHH4s8x", name, socket.AF_INET, 0,
                                                       socket.inet_aton(address)))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", name, IFF_UP))


class Web(http.server.BaseHTTPRequestHandler):
    """Responds with its own address and the request; records requests."""

    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self):
        path = self.path
        self.server.seen.append((self.command, path, dict(self.headers)))
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", path[len("/to/"):])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = bytes(int(path[len("/bytes/"):])) if path.startswith("/bytes/") else \
            f"{self.server.server_address[0]} {path}\n".encode()
        self.answer(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        self.answer(f"{len(body)} {sum(body)}".encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class WebServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, port, context=None):
        self.seen = []
        super().__init__((address, port), Web)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True,
                                              do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass


def read_name(data, at):
    labels = []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode().lower())
        at += 1 + data[at]
    return ".".join(labels), at + 1


class Names:
    """A name server over UDP and TCP. names: {name: [address] or a function that returns such a list}; other names do
    not exist, and None gets no answer. cut: names whose answers are truncated over UDP."""

    def __init__(self, address):
        self.names, self.cut, self.asked, self.ttl = {}, set(), [], 0
        names = self

        class Datagram(socketserver.BaseRequestHandler):
            def handle(self):
                data, sock = self.request
                for answer in names.answers(data, tcp=False):
                    sock.sendto(answer, self.client_address)

        class Stream(socketserver.StreamRequestHandler):
            def handle(self):
                while size := self.rfile.read(2):
                    data = self.rfile.read(int.from_bytes(size, "big"))
                    for answer in names.answers(data, tcp=True):
                        self.wfile.write(len(answer).to_bytes(2, "big") + answer)

        for kind, handler in ((socketserver.ThreadingUDPServer, Datagram),
                              (socketserver.ThreadingTCPServer, Stream)):
            kind.allow_reuse_address = kind.daemon_threads = True
            server = kind((address, 53), handler)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def answers(self, data, tcp):
        name, end = read_name(data, 12)
        kind = int.from_bytes(data[end:end + 2], "big")
        question = data[12:end + 4]
        self.asked.append((name, kind, tcp))
        found = self.names.get(name, ())
        if found is None:
            return
        found = found() if callable(found) else found
        cut = name in self.cut and not tcp
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        records = [socket.inet_pton(family, one) for one in found
                   if (":" in one) == (kind == 28) and not cut]
        code = 3 if name not in self.names else 0
        yield (data[:2] + struct.pack("!HHHHH", 0x8180 | cut << 9 | code, 1, len(records), 0, 0) +
               question + b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, self.ttl, size) + one
                                   for one in records))


class World:
    """The addresses, the files and the servers. A test program creates it once."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-world-"))
        set_address(b"lo", None)
        for number, address in enumerate((PUBLIC, OTHER, PRIVATE)):
            set_address(b"lo:%d" % number, address)
        self.replace("/etc/resolv.conf", f"nameserver {LOOPBACK}\n")
        self.replace("/etc/hosts", f"{LOOPBACK} localhost\n{PUBLIC} listed.example\n{PRIVATE} inner.example\n")
        self.names = Names(LOOPBACK)
        self.names.names = {"web.example": [PUBLIC], "other.example": [OTHER],
                            "private.example": [PRIVATE], "both.example": [PUBLIC, PRIVATE],
                            "six.example": [PUBLIC, "fd00::1"], "silent.example": None,
                            "metadata.example": ["169.254.169.254"], "big.example": [PUBLIC],
                            "mapped.example": [PUBLIC, "::ffff:127.0.0.1"], "empty.example": []}
        self.names.cut = {"big.example"}
        self.web = WebServer(PUBLIC, 80)
        self.other = WebServer(OTHER, 80)
        self.canary = [WebServer(PRIVATE, 80), WebServer(LOOPBACK, 80), WebServer(PRIVATE, 443)]

    def replace(self, path, text):
        file = self.directory / pathlib.Path(path).name
        file.write_text(text)
        subprocess.run(["mount", "--bind", file, path], check=True)

    def secure(self):
        """A web server with TLS at PUBLIC:443. Returns the certificate's text."""
        pem = self.directory / "web.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "36500",
                        "-subj", "/CN=web.example", "-addext", "subjectAltName=DNS:web.example",
                        "-keyout", pem, "-out", self.directory / "cert.pem"],
                       check=True, capture_output=True)
        certificate = (self.directory / "cert.pem").read_text()
        with pem.open("a") as file:
            file.write(certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.tls = WebServer(PUBLIC, 443, context)
        return certificate

    def canary_taken(self):
        return [seen for server in self.canary for seen in server.seen]

    def forget(self):
        """Before a test: nobody has been asked or reached."""
        for server in (self.web, self.other, *self.canary):
            server.seen.clear()
        self.names.asked.clear()

    def close(self):
        for path in ("/etc/resolv.conf", "/etc/hosts"):
            subprocess.run(["umount", path], capture_output=True)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
