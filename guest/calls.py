"""Calls of tools of other servers; tools.py has the functions that code sees.

The server starts them, checks each call against the user's grants and sends back the result (docs/GUEST.md has the
frames); nothing in here decides what may be called. The socket is the interpreter's own: a fork has none.

Any thread may call. One of those that wait reads the socket, for all of them. An interrupt may raise between any two
steps of the main thread, so what has been read is kept and taken apart in steps that can be repeated.
"""
import os
import _socket
import _thread
from binascii import a2b_base64
from _collections import deque
from select import POLLIN, poll

CHUNK = 1 << 16
AT_ONCE = 16  # threads for calls that are awaited
frames = load("frames")
imports = load("imports")
channel = {"pid": 0, "inode": 0, "socket": None}


class ToolError(Exception):
    """A tool has reported an error, or its server does not run. The message is the tool's own."""


class Blob(bytes):
    """An image, a sound or a file that a tool has returned; `type` is its media type."""

    type = ""

    def __repr__(self):
        return "<%s, %d bytes>" % (self.type or "bytes", len(self))

    def _repr_mimebundle_(self, **_):
        """So that an image is shown where it is the value of a cell."""
        return {self.type: self}


ERRORS = {"tool": ToolError, "denied": PermissionError, "unknown": AttributeError, "invalid": TypeError}
for public in ToolError, Blob:
    public.__module__ = "sandpiper"


def from_session(session, _, fds):
    """The server has sent a new socket, for this process alone."""
    os.dup2(fds.pop(), frames.CALLS_FD, False)
    frames.close(fds)
    old, socket = channel["socket"], _socket.socket(fileno=frames.CALLS_FD)
    if old is not None:
        old.detach()
    channel.update(pid=session.pid, inode=os.fstat(frames.CALLS_FD).st_ino, socket=socket, connection=Connection(socket))


class Waiting:
    """A call without a response yet."""

    def __init__(self):
        self.pieces = {}  # position in the stream → data
        self.said = None  # the last reply's verb
        self.whole = False
        self.lock = _thread.allocate_lock()
        self.lock.acquire()

    def wake(self):
        try:
            self.lock.release()
        except RuntimeError:
            pass  # nobody waits for it


class Connection:
    def __init__(self, socket):
        self.socket = socket
        self.arrival = poll()  # recv(2) itself would also be woken each time that the server has read what is sent
        self.arrival.register(socket, POLLIN)
        self.sending, self.reading = _thread.allocate_lock(), _thread.allocate_lock()
        self.stream = 0, deque()  # the position of the first byte in the stream, and what has been read from there on
        self.waiting = {}
        self.number = 0
        self.closed = False

    def request(self, verb, fields):
        """(said, data) of the server's reply. fields: joined."""
        with self.sending:
            self.number += 1
            number = b"%d" % self.number
            waiting = self.waiting[number] = Waiting()
            self.send(frames.sized(frames.join((verb, "id", number)) + fields))
        try:
            self.wait(waiting)
        except BaseException:
            with self.sending:
                self.send(frames.pack(("cancel", "id", number)))
            raise
        finally:
            del self.waiting[number]
        if not waiting.whole:
            raise RuntimeError("tools cannot be called any more in this cell: the connection was closed; reset opens another")
        return waiting.said, b"".join([waiting.pieces[at] for at in sorted(waiting.pieces)])

    def close(self):
        """The server sees the end, and sends a new socket with the next cell."""
        self.closed = True
        try:
            if os.fstat(frames.CALLS_FD).st_ino == channel["inode"]:
                self.socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, frame):
        """An interrupt in the middle leaves half a frame, after which nothing else can be sent."""
        view = memoryview(frame)
        try:
            if os.fstat(frames.CALLS_FD).st_ino != channel["inode"]:
                raise OSError
            while view:
                view = view[self.socket.send(view):]
        except OSError:
            self.close()
        finally:
            if len(view) not in (0, len(frame)):
                self.close()

    def wait(self, waiting):
        while not waiting.whole and not self.closed:
            if not self.reading.acquire(False):
                waiting.lock.acquire()  # until the reader has the response, or leaves its place
                continue
            try:
                while not waiting.whole and not self.closed:
                    self.read()
            finally:
                self.reading.release()
                for other in list(self.waiting.values()):
                    other.wake()

    def read(self):
        position, chunks = self.stream
        try:
            self.arrival.poll()
            chunks.extend(map(self.socket.recv, (CHUNK,)))  # without a step of the interpreter's: loses nothing
        except OSError:
            pass
        if not chunks or not chunks[-1]:
            self.close()
        data, at = b"".join(chunks), 0
        while len(data) - at >= 4 and len(data) - at - 4 >= int.from_bytes(data[at:at + 4], "little"):
            size = int.from_bytes(data[at:at + 4], "little")
            said, _, number, _, piece = frames.split(data[at + 4:at + 4 + size])
            waiting = self.waiting.get(number)
            if waiting is not None:
                waiting.pieces[position + at] = piece
                if said != b"more":
                    waiting.said, waiting.whole = said.decode(), True
                    waiting.wake()
            at += 4 + size
        self.stream = position + at, deque([data[at:]] if at < len(data) else ())


def json():
    """Its encoder and decoder, and not its functions: dumps() makes an encoder for each call."""
    if not codec:
        module = imports.shared("json")
        codec.extend((module.JSONEncoder(allow_nan=False).encode, module.JSONDecoder().decode))
    return codec


codec = []


def ask(verb, fields=b""):
    """The value of the server's reply. fields: joined."""
    if channel["pid"] != os.getpid():
        raise RuntimeError("tools can be called only in the session's own process, not in a child")
    said, data = channel["connection"].request(verb, fields)
    if said == "ok":
        return json()[1](data.decode("utf-8", "replace"))
    raise ERRORS.get(said, RuntimeError)(data.decode("utf-8", "replace"))


def value_of(result):
    """What a call returns: structured content, or its blocks, or the only one of them."""
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    values = [value_of_block(block) for block in blocks_of(result)]
    return values[0] if len(values) == 1 else values if values else None


def blocks_of(result):
    content = result.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def value_of_block(block):
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return value_of_text(block["text"])
    if kind in ("image", "audio"):
        return blob(block.get("data"), block.get("mimeType"))
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, dict):
        return resource["text"] if "text" in resource else blob(resource.get("blob"), resource.get("mimeType"))
    return block


def value_of_text(text):
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json()[1](text)
        except (ValueError, RecursionError):
            pass
    return text


def blob(data, kind):
    value = Blob(a2b_base64(data) if isinstance(data, str) else b"")
    value.type = kind if isinstance(kind, str) else ""
    return value


def text_of(result):
    """The message of a result that is an error."""
    texts = [block.get("text") for block in blocks_of(result)]
    return "\n".join(text for text in texts if isinstance(text, str)) or "the tool has failed without a message"


def written(arguments):
    """Their JSON, or an exception that names the one which has none."""
    encode = json()[0]
    try:
        return encode(arguments)
    except (TypeError, ValueError):
        for name, value in arguments.items():
            try:
                encode(value)
            except (TypeError, ValueError) as why:
                kind = type(value)
                plain = next((method for method in ("isoformat", "tolist", "to_dict") if hasattr(kind, method)), None)
                raise (TypeError if isinstance(why, TypeError) else ValueError)("argument `%s` (%s): %s%s" % (
                    name, kind.__name__, why, "; send %s.%s()" % (name, plain) if plain else "")) from None
        raise


def call(target, arguments):
    """target: the names of server and tool, as fields."""
    result = ask("call", target + frames.join(("arguments", written(arguments))))
    if result.get("isError"):
        raise ToolError(text_of(result))
    return value_of(result)


class Awaited:
    """Calls that are awaited: a few threads make them, and end with the last one."""

    def __init__(self):
        self.jobs, self.threads, self.lock = deque(), 0, _thread.allocate_lock()

    def start(self, job):
        self.jobs.append(job)
        with self.lock:
            if self.threads < AT_ONCE:
                _thread.start_new_thread(self.work, ())
                self.threads += 1

    def work(self):
        while True:
            with self.lock:
                if not self.jobs:
                    self.threads -= 1
                    return
                loop, future, arguments = self.jobs.popleft()
            try:
                outcome, value = "set_result", call(*arguments)
            except Exception as error:
                outcome, value = "set_exception", error
            try:
                loop.call_soon_threadsafe(finish_future, future, outcome, value)
            except RuntimeError:
                pass  # the loop is closed


def finish_future(future, outcome, value):
    if not future.done():
        getattr(future, outcome)(value)


awaited = Awaited()


async def call_awaited(target, arguments):
    loop = imports.shared("asyncio").get_running_loop()
    future = loop.create_future()
    awaited.start((loop, future, (target, arguments)))
    return await future
