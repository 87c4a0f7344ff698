"""The zygote: the one process of the guest that the sandbox's init starts.

It says `ready` before it has done anything else, then loads the other files of this folder into
private modules while no request waits, and forks one session for each `session` request. It never
runs user code. What is loaded here before a fork costs the sessions nothing.

Private modules are never in sys.modules and see a copy of the builtins: code in a session can
neither import them nor break them by deleting `len`.
"""
import os
import sys
import _signal
import _socket

__builtins__ = dict(sys.modules["builtins"].__dict__)

FOLDER = os.path.dirname(__file__)
CONTROL_FD = 3
FDS_MAX = 4
WARM = ("checkpoint", "changes", "native", "trace", "display", "outcome", "hints", "spawn")  # in the order of likely need
loaded = {}
warm = list(WARM)


def load(name):
    """The private module of this name, compiled at its first use."""
    module = loaded.get(name)
    if module is None:
        path = FOLDER + "/" + name + ".py"
        with open(path, "rb") as file:
            source = file.read()
        module = type(sys)("sandpiper." + name)
        module.__dict__.update(
            __builtins__=__builtins__, __file__=path, load=load, FOLDER=FOLDER, pack=pack, unpack=unpack,
            warm_up=warm_up,
        )
        exec(compile(source, path, "exec", 0, True), module.__dict__)
        loaded[name] = module
    return module


def pack(fields):
    """One frame: u32 payload size, then each field as u32 size and bytes. Lone surrogates are escaped."""
    parts = []
    for field in fields:
        if type(field) is not bytes:
            field = field.encode("utf-8", "backslashreplace")
        parts.append(len(field).to_bytes(4, "little"))
        parts.append(field)
    payload = b"".join(parts)
    return len(payload).to_bytes(4, "little") + payload


def unpack(payload):
    """(verb, {key: bytes}) of a payload; of a repeated key the last value counts."""
    fields, at, end = [], 0, len(payload)
    while at < end:
        size = int.from_bytes(payload[at : at + 4], "little")
        fields.append(payload[at + 4 : at + 4 + size])
        at += 4 + size
    keys = [key.decode("utf-8", "replace") for key in fields[1::2]]
    return fields[0].decode("utf-8", "replace"), dict(zip(keys, fields[2::2]))


def receive(control, size, fds):
    """Exactly size bytes, or b"" at end of file; descriptors that come along are appended to fds."""
    data = b""
    while len(data) < size:
        chunk, ancillary, _, _ = control.recvmsg(
            size - len(data), _socket.CMSG_SPACE(FDS_MAX * 4), _socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, body in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                fds += [int.from_bytes(body[i : i + 4], sys.byteorder) for i in range(0, len(body), 4)]
        if not chunk:
            return b""
        data += chunk
    return data


def waiting(control):
    """Whether a read would return at once."""
    try:
        control.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def warm_up(control):
    """Load what will be needed, as long as no request waits. A fork inherits what is left to load."""
    while warm and not waiting(control):
        load(warm.pop(0))


def preload(control, names):
    for name in names.split(","):
        if not name:
            continue
        try:
            __import__(name)
        except BaseException as error:
            text = "--preload %s: %s: %s" % (name, type(error).__name__, error)
            control.sendall(pack(("warning", "text", text)))


def start_session(control, fields, fds):
    """Fork twice: the session becomes a child of pid 1, which reaps it and knows it by its tag."""
    try:
        child = os.fork()
    except OSError as error:
        control.sendall(pack(("failed", "name", fields.get("name", b""), "text", "fork: %s" % error)))
        return
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            text = "the second fork of a session did not succeed"
            control.sendall(pack(("failed", "name", fields.get("name", b""), "text", text)))
        return
    status = 96
    try:
        if os.fork():
            status = 0
        else:
            control.close()
            load("session").main(fields, fds, OPTIONS)
    finally:
        os._exit(status)


def main():
    control = _socket.socket(fileno=CONTROL_FD)
    os.set_inheritable(CONTROL_FD, False)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    os.environ.setdefault("MPLBACKEND", "Agg")  # there is no display to draw on
    version = "%d.%d.%d" % sys.version_info[:3]
    control.sendall(
        pack(("ready", "python", version, "executable", sys.executable or "", "prefix", sys.prefix))
    )
    load("session")
    preload(control, sys.argv[1] if len(sys.argv) > 1 else "")
    import gc

    while True:
        warm_up(control)
        gc.freeze()  # keeps the collector of a session from touching, and so copying, our pages
        fds = []
        header = receive(control, 4, fds)
        if not header:
            os._exit(0)
        verb, fields = unpack(receive(control, int.from_bytes(header, "little"), fds))
        if verb == "session":
            start_session(control, fields, fds)
        for fd in fds:
            os.close(fd)


OPTIONS = sys.argv[2] if len(sys.argv) > 2 else ""
if __name__ == "__main__":
    main()
