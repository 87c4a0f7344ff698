"""A substitute for the server: starts the driver of this tree and exchanges frames with it."""
import array
import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = tempfile.TemporaryDirectory()  # as init places the driver in a sandbox
DRIVER = pathlib.Path(MADE.name) / "driver.py"
PYTHONS = [p for p in os.environ.get("SANDPIPER_TEST_PYTHONS", sys.executable).split(":") if p]
WAIT = 30 * float(os.environ.get("SANDPIPER_TEST_SLOW", "1"))


def pack(*fields):
    body = b""
    for field in fields:
        field = field if isinstance(field, bytes) else str(field).encode("utf-8", "surrogatepass")
        body += len(field).to_bytes(4, "little") + field
    return len(body).to_bytes(4, "little") + body


def read_exactly(sock, size):
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def read_frame(sock):
    """(verb, {key: [text, ...]})"""
    payload, fields, at = read_exactly(sock, int.from_bytes(read_exactly(sock, 4), "little")), [], 0
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "little")
        fields.append(payload[at + 4 : at + 4 + size].decode())
        at += 4 + size
    found = {}
    for key, value in zip(fields[1::2], fields[2::2]):
        found.setdefault(key, []).append(value)
    return fields[0], found


def be_like_init():
    """Adopts sessions and checkpoints, which are orphans that init would kill in the sandbox, and sets no_new_privs,
    without which an ordinary user cannot create a Landlock domain."""
    import ctypes

    pr_set_child_subreaper, pr_set_no_new_privs = 36, 38
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    ctypes.CDLL(None).prctl(pr_set_no_new_privs, 1, 0, 0, 0)


def end_orphans():
    """Kills the remaining processes of a guest; this process adopts the children of each."""
    while True:
        tasks = pathlib.Path("/proc/self/task").glob("*/children")
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def place_driver():
    shutil.copytree(ROOT / "guest", MADE.name, dirs_exist_ok=True)
    os.chmod(MADE.name, 0o755)
    modules = [path for path in DRIVER.parent.glob("*.py") if path.name not in ("driver.py", "convert.py")]
    subprocess.run([sys.executable, ROOT / "build-aux" / "bytecode.py", DRIVER.parent / "modules.bytecode",
                    DRIVER.parent / "modules.source", DRIVER.parent, *modules], check=True)


be_like_init()
place_driver()


class Reply:
    def __init__(self, fields, out, err):
        self.fields, self.out, self.err = fields, out, err

    def __getattr__(self, key):
        return self.fields.get(key, [None])[0]

    def all(self, key):
        return self.fields.get(key, [])

    def where(self):
        return tuple(self.fields[key][0] for key in ("where_cell", "where_line", "where_source"))

    def variables(self):
        """"+df DataFrame 1000x8" for each changed name."""
        return [" ".join(pair).strip() for pair in zip(self.all("var"), self.all("var_kind"))]

    def files(self):
        """"+a.txt 18000" for each changed file."""
        return [" ".join(pair) for pair in zip(self.all("file"), self.all("file_size"))]

    def __repr__(self):
        return "Reply(%r, out=%r, err=%r)" % (self.fields, self.out, self.err)


class Session:
    def __init__(self, zygote, name="default", stack_fd=None, **limits):
        self.sock, theirs = socket.socketpair()
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        fds = array.array("i", [theirs.fileno(), out, err] + ([] if stack_fd is None else [stack_fd]))
        numbers = {"tag": 4242, "memory": 1 << 30, "processes": 77, **limits}
        zygote.sendmsg([pack("session", "name", name, *(part for pair in numbers.items() for part in pair))],
                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        theirs.close()
        os.close(out)
        os.close(err)
        self.sock.settimeout(WAIT)
        verb, fields = read_frame(self.sock)
        assert verb == "hello", verb
        self.checkpoint, self.ended = 0, set()
        self.pid, self.cell, self.hello = int(fields["pid"][0]), 0, fields

    def send(self, code, **more):
        self.cell += 1
        fields = ["run", "cell", self.cell, "code", code]
        for key, value in more.items():
            fields += [key, value]
        self.sock.sendall(pack(*fields))

    def receive(self):
        out, err, end = b"", b"", time.monotonic() + WAIT
        pipes = [self.out, self.err]
        while True:
            ready = select.select([self.sock] + pipes, [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                raise TimeoutError("no result from the session")
            for fd in set(pipes) & set(ready):
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    pipes.remove(fd)  # the session has exited; its socket reports that too
                out, err = (out + chunk, err) if fd == self.out else (out, err + chunk)
            if self.sock in ready and self.out not in ready and self.err not in ready:
                verb, fields = read_frame(self.sock)
                if verb == "checkpoint":
                    self.keep(int(fields["checkpoint"][0]))
                if verb in ("begun", "checkpoint"):
                    continue
                assert verb in ("result", "needs"), verb
                assert verb == "needs" or fields["cell"] == [str(self.cell)], fields
                for fd in (self.out, self.err):
                    while select.select([fd], [], [], 0)[0]:
                        chunk = os.read(fd, 1 << 16)
                        if not chunk:
                            break
                        out, err = (out + chunk, err) if fd == self.out else (out, err + chunk)
                return Reply(fields, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def keep(self, checkpoint):
        """As the server does: only the newest checkpoint stays."""
        if self.checkpoint > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.checkpoint, signal.SIGKILL)
            self.ended.add(self.checkpoint)
        self.checkpoint = checkpoint
        for pid in list(self.ended):
            # A checkpoint whose first process still runs is adopted later.
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self.ended.discard(pid)

    def run(self, code, **more):
        self.send(code, **more)
        return self.receive()

    def lacks(self, code, **more):
        """The query that the server sends before the code with --auto-install."""
        self.sock.sendall(pack("imports", "cell", self.cell + 1, "code", code, *(part for pair in more.items() for part in pair)))
        reply = self.receive()
        assert (reply.cell, reply.status) == (str(self.cell + 1), None), reply
        return reply.all("name") + reply.all("guess")

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def close(self):
        self.sock.close()
        for fd in (self.out, self.err):
            os.close(fd)


class Guest:
    """One zygote with a scratch workspace."""

    def __init__(self, python=PYTHONS[0], preload="", options="", wrap=(), ruleset_fd=None):
        self.directory = tempfile.TemporaryDirectory()
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(WAIT)

        def place():
            os.dup2(theirs.fileno(), 3)
            if ruleset_fd is not None:
                os.dup2(ruleset_fd, 5)  # RULESET_FD in guest/zygote.py

        env = {"PATH": os.environ["PATH"], "HOME": self.directory.name, "LANG": "C.UTF-8",
               "TMPDIR": self.directory.name + "/.tmp"}
        os.mkdir(env["TMPDIR"])
        self.process = subprocess.Popen(
            [*wrap, python, str(DRIVER), options], cwd=self.directory.name, env=env,
            pass_fds=[3] if ruleset_fd is None else [3, 5],
            preexec_fn=place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("GUEST_DEBUG") else subprocess.DEVNULL,
        )
        theirs.close()
        self.sock.sendall(pack("preload", "names", preload))
        verb, self.ready = read_frame(self.sock)
        assert verb == "ready", verb
        self.sessions = []

    def session(self, name="default", stack_fd=None, **limits):
        self.sessions.append(Session(self.sock, name, stack_fd, **limits))
        return self.sessions[-1]

    def close(self):
        for session in self.sessions:
            session.close()
        self.sock.close()
        self.process.wait(WAIT)
        end_orphans()
        self.directory.cleanup()
