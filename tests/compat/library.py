"""The standard library's other uses of the kernel. Sent as one cell; each function is one case."""
import ctypes
import ctypes.util
import datetime
import decimal
import fcntl
import getpass
import glob
import http.server
import importlib.metadata
import importlib.util
import json
import locale
import lzma
import mmap
import os
import pathlib
import pickle
import platform
import pwd
import random
import resource
import secrets
import select
import shelve
import shutil
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
import uuid
import zipfile
import zoneinfo


def files_and_directories():
    directory = pathlib.Path("tree/a/b")
    directory.mkdir(parents=True)
    (directory / "ü.txt").write_text("text", encoding="utf-8")
    os.symlink("ü.txt", directory / "link")
    os.link(directory / "ü.txt", directory / "hard")
    (directory / "ü.txt").chmod(0o640)
    os.utime(directory / "hard", (1, 2))
    shutil.copytree("tree", "copy", symlinks=True)
    shutil.move("copy", "moved")
    assert sorted(os.listdir("moved/a/b")) == ["hard", "link", "ü.txt"]
    assert glob.glob("moved/**/*.txt", recursive=True) and os.stat("moved/a/b/hard").st_mtime == 2
    assert shutil.disk_usage("/work").free > 0 and os.access("moved", os.W_OK)
    shutil.rmtree("tree")
    shutil.rmtree("moved")


def file_locks_and_positions():
    with open("locked", "w+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.pwrite(file.fileno(), b"abc", 10)
        os.truncate("locked", 12)
        os.posix_fallocate(file.fileno(), 0, 4096)
        os.fsync(file.fileno())
        assert os.pread(file.fileno(), 2, 10) == b"ab"
        with open("locked2", "wb") as other:
            assert os.copy_file_range(file.fileno(), other.fileno(), 12, 0) == 12


def memory_maps():
    with open("mapped", "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as view:
            view[:5] = b"hello"
            view.flush()
        assert file.read(5) == b"hello"
    with mmap.mmap(-1, 1 << 20) as anonymous:
        anonymous.madvise(mmap.MADV_DONTNEED)
        anonymous[-1] = 1


def temporary_files():
    with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile(dir=directory) as named:
        named.write(b"x")
        assert os.path.dirname(named.name) == directory
    with tempfile.SpooledTemporaryFile(10) as spooled:
        spooled.write(b"x" * 100)
    with tempfile.TemporaryFile() as nameless:
        nameless.write(b"x")


def archives():
    pathlib.Path("in.txt").write_text("content " * 1000)
    with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write("in.txt")
    with zipfile.ZipFile("a.zip") as archive:
        assert archive.testzip() is None and archive.read("in.txt").startswith(b"content")
    for kind in ("gz", "bz2", "xz"):
        with tarfile.open(f"a.tar.{kind}", f"w:{kind}") as archive:
            archive.add("in.txt")
        with tarfile.open(f"a.tar.{kind}") as archive:
            archive.extractall(f"out-{kind}")
        assert os.path.getsize(f"out-{kind}/in.txt") == 8000
    assert lzma.decompress(lzma.compress(b"x")) == b"x"


def sqlite():
    first = sqlite3.connect("base.db", timeout=5)
    assert first.execute("pragma journal_mode=wal").fetchone() == ("wal",)
    first.execute("create table t (n integer primary key, s text)")
    first.executemany("insert into t (s) values (?)", [(str(n),) for n in range(1000)])
    first.commit()
    second = sqlite3.connect("base.db", timeout=5)
    assert second.execute("select count(*) from t").fetchone() == (1000,)
    second.execute("update t set s = 'x' where n = 1")
    second.commit()
    assert first.execute("select s from t where n = 1").fetchone() == ("x",)
    first.execute("pragma wal_checkpoint(truncate)")
    copy = sqlite3.connect(":memory:")
    first.backup(copy)
    copy.create_function("twice", 1, lambda n: 2 * n)
    assert copy.execute("select twice(21)").fetchone() == (42,)


def shelves_and_pickles():
    with shelve.open("shelf") as shelf:
        shelf["a"] = {"when": datetime.date(2020, 1, 2)}
    with shelve.open("shelf") as shelf:
        assert shelf["a"]["when"].year == 2020
    assert pickle.loads(pickle.dumps({"f": decimal.Decimal("1.5")}, 5))["f"] == decimal.Decimal("1.5")


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path}).encode())

    def log_message(self, *_):
        pass


def served(server, scheme, **options):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"{scheme}://localhost:{server.server_port}/x"
    try:
        with urllib.request.urlopen(address, timeout=5, **options) as answer:
            return json.load(answer)
    finally:
        server.shutdown()
        server.server_close()


def http_over_loopback():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    assert served(server, "http") == {"path": "/x"}


def tls_over_loopback():
    if not shutil.which("openssl"):
        return "openssl: the program is not installed"
    subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 "
                   "-subj /CN=localhost -addext subjectAltName=DNS:localhost", shell=True, check=True,
                   capture_output=True)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain("cert.pem", "key.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.socket = theirs.wrap_socket(server.socket, server_side=True)
    ours = ssl.create_default_context(cafile="cert.pem")
    assert served(server, "https", context=ours) == {"path": "/x"}


def waiting():
    reader, writer = os.pipe()
    poll, epoll = select.poll(), select.epoll()
    poll.register(reader, select.POLLIN)
    epoll.register(reader, select.EPOLLIN)
    assert not select.select([reader], [], [], 0)[0] and not poll.poll(0) and not epoll.poll(0)
    os.write(writer, b"x")
    assert select.select([reader], [], [], 5)[0] and poll.poll(5000) and epoll.poll(5)
    for descriptor in (reader, writer):
        os.close(descriptor)
    epoll.close()


def foreign_functions():
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    assert libc.abs(-5) == 5

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    def order(a, b):
        return a[0] - b[0]
    numbers = (ctypes.c_int * 4)(4, 2, 3, 1)
    libc.qsort(numbers, 4, ctypes.sizeof(ctypes.c_int), order)
    assert list(numbers) == [1, 2, 3, 4]


def numbers_and_time():
    decimal.getcontext().prec = 50
    assert str(decimal.Decimal(1) / 7).startswith("0.142857142857")
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    summer = datetime.datetime(2024, 7, 1, 12, tzinfo=berlin)
    assert summer.utcoffset() == datetime.timedelta(hours=2) and time.tzname
    began = time.monotonic()
    time.sleep(0.01)
    assert time.monotonic() - began >= 0.01 and time.process_time() > 0 and time.thread_time() > 0


def identity_and_randomness():
    assert getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name
    assert platform.system() == "Linux" and os.cpu_count() >= 1
    assert pathlib.Path.home().is_dir() and os.path.expanduser("~") == str(pathlib.Path.home())
    assert len(secrets.token_bytes(32)) == 32 and os.urandom(8) != os.urandom(8)
    assert uuid.uuid1() != uuid.uuid4() and random.SystemRandom().random() < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 256
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def locales():
    assert locale.setlocale(locale.LC_ALL, "") and "é".encode() == b"\xc3\xa9"
    assert locale.setlocale(locale.LC_ALL, "C.UTF-8")


def line_editing_without_a_terminal():
    import readline
    import rlcompleter
    readline.parse_and_bind("tab: complete")
    readline.add_history("one")
    readline.write_history_file("/tmp/history")
    assert rlcompleter.Completer({"word": 1}).complete("wor", 0) == "word"


def installed_metadata_and_imports():
    pathlib.Path("written_now.py").write_text("value = 5\n")
    sys.path.insert(0, os.getcwd())
    import written_now
    assert written_now.value == 5 and importlib.util.find_spec("json")
    assert isinstance(list(importlib.metadata.distributions()), list)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "written_now.py"], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "/tmp/venv"], check=True)
    assert subprocess.check_output(["/tmp/venv/bin/python", "-c", "print(1)"]) == b"1\n"
