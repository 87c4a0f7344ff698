"""`from sandpiper import tools`: tools of other servers as functions.

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
from keyword import iskeyword
from select import POLLIN, poll

CALLS_FD = 72  # after the numbers of changes.py
CHUNK = 1 << 16
AT_ONCE = 16  # threads for calls that are awaited
SUMMARY_MAX, SIGNATURE_MAX = 100, 400
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


ERRORS = {"tool": ToolError, "denied": PermissionError, "unknown": AttributeError, "invalid": TypeError}
for public in ToolError, Blob:
    public.__module__ = "sandpiper"


def from_session(session, _, fds):
    """The server has sent a new socket, for this process alone."""
    os.dup2(fds.pop(), CALLS_FD, False)
    for fd in fds:
        os.close(fd)
    old, socket = channel["socket"], _socket.socket(fileno=CALLS_FD)
    if old is not None:
        old.detach()
    channel.update(pid=session.pid, inode=os.fstat(CALLS_FD).st_ino, socket=socket, connection=Connection(socket))


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
            if os.fstat(CALLS_FD).st_ino == channel["inode"]:
                self.socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass

    def send(self, frame):
        """An interrupt in the middle leaves half a frame, after which nothing else can be sent."""
        view = memoryview(frame)
        try:
            if os.fstat(CALLS_FD).st_ino != channel["inode"]:
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


def call(target, arguments):
    """target: the names of server and tool, as fields."""
    result = ask("call", target + frames.join(("arguments", json()[0](arguments))))
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


# --- names, signatures and documentation ---

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None}


def identifier(name):
    """The name as an attribute: some servers have tools like get-sum."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def type_name(schema):
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    names = ["None" if k == "null" else TYPES[k].__name__ for k in kinds if isinstance(k, str) and k in TYPES]
    return " | ".join(names)


def parameters_of(schema):
    """[(name, its schema, whether it is required)], those that are required first."""
    properties, required = schema.get("properties"), schema.get("required")
    required = required if isinstance(required, list) else ()
    found = [(name, own if isinstance(own, dict) else {}, name in required)
             for name, own in (properties if isinstance(properties, dict) else {}).items()]
    return sorted(found, key=lambda one: not one[2])


def signature_text(info):
    parts = []
    for name, schema, required in parameters_of(info["schema"]):
        kind = type_name(schema)
        parts.append(name + (": " + kind if kind else "") + ("" if required else " = " + repr(schema.get("default"))))
    return "(" + ", ".join(parts) + ")"


def signature_of(info):
    inspect = imports.shared("inspect")
    parameters = []
    for name, schema, required in parameters_of(info["schema"]):
        if name.isidentifier() and not iskeyword(name):
            kind = schema.get("type")
            parameters.append(inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if required else schema.get("default"),
                annotation=TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty))
    return inspect.Signature(parameters)


def summary_of(info):
    lines = (info.get("description") or info.get("title") or "").strip().splitlines()
    return cut(lines[0], SUMMARY_MAX) if lines else ""


def cut(text, most):
    """On one line: whoever writes a tool's name could have it end the line and go on as another tool."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= most else text[:most - 3] + "..."


def documentation_of(info):
    lines = [info.get("description") or info.get("title") or "", ""]
    for name, schema, required in parameters_of(info["schema"]):
        words = [type_name(schema), "" if required else "optional"]
        if isinstance(schema.get("enum"), list):
            words.append("one of " + ", ".join(map(repr, schema["enum"])))
        about = schema.get("description")
        lines.append("%s (%s)%s" % (name, ", ".join(filter(None, words)) or "any value",
                                    ": " + about if isinstance(about, str) else ""))
    if not info["granted"]:
        lines += ["", "Not granted: a call raises PermissionError."]
    return "\n".join(lines).strip()


def function_of(server, name, info, error=None):
    """The tool as a function. error: of its server, which does not start; then info is None."""
    target = frames.join(("server", server, "tool", name))

    def tool(**arguments):
        if error is not None:
            raise error
        return call(target, arguments)

    async def aio(**arguments):
        if error is not None:
            raise error
        return await call_awaited(target, arguments)

    for function, title in (tool, identifier(name)), (aio, "aio"):
        function.__name__, function.__module__ = title, "sandpiper"
        function.__qualname__ = "tools.%s.%s" % (server, title if function is tool else identifier(name) + ".aio")
        if info is not None:
            function.__doc__, function.__signature__ = documentation_of(info), signature_of(info)
    tool.aio = aio
    return tool


class Server:
    """The tools of one server. Starts it when it is first needed."""

    def __init__(self, name):
        self.__name__ = name
        self._cell, self._infos, self._functions = None, {}, {}

    def _list(self):
        """Asks once in a cell: the list may change."""
        cell = load("session").SESSION.cell
        if self._cell != cell:
            infos = {info["name"]: info for info in ask("list", frames.join(("server", self.__name__)))}
            if infos != self._infos:
                self._infos, self._functions = infos, {}
            self._cell = cell
        return self._infos

    def _known(self):
        """(its tools, None), or (None, why it does not start)."""
        try:
            return self._list(), None
        except ToolError as error:
            return None, error

    def _tool(self, name, infos, error):
        if infos is None:
            return function_of(self.__name__, name, None, error)
        if name not in infos:
            alike = [other for other in infos if other[:3] == name[:3] or name in other or other in name]
            raise AttributeError("%s has no tool %r%s" % (
                self.__name__, name, "; similar: " + ", ".join(alike[:3]) if alike else ""))
        if name not in self._functions:
            self._functions[name] = function_of(self.__name__, name, infos[name])
        return self._functions[name]

    def __getitem__(self, name):
        return self._tool(name, *self._known())

    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(name)
        infos, error = self._known()
        if name not in (infos or ()):
            same = [other for other in infos or () if identifier(other) == name]
            name = same[0] if len(same) == 1 else name
        return self._tool(name, infos, error)

    def __dir__(self):
        try:
            return sorted(map(identifier, self._list()))
        except ToolError:
            return []

    def __repr__(self):
        return "<tools of %s>" % self.__name__


class Tools:
    """Tools of other servers.

    tools.search("word") lists those that match, with signatures; "" lists all.
    tools.SERVER.TOOL(name=value) calls one, and `await tools.SERVER.TOOL.aio(name=value)` does so in asyncio.
    Names that are no identifiers: tools["odd-server"]["odd-name"](**{"from": 1}).
    Errors: ToolError, and PermissionError where the user has not granted a call.
    """

    ToolError = ToolError

    def __init__(self):
        self._servers = {}

    def _all(self):
        if not self._servers:
            self._servers = {name: Server(name) for name in ask("servers")}
        return self._servers

    def __getitem__(self, name):
        servers = self._all()
        if name not in servers:
            same = [other for other in servers if identifier(other) == name]
            if len(same) != 1:
                raise AttributeError("there is no tool server %r; there are: %s" % (name, ", ".join(servers) or "none"))
            name = same[0]
        return servers[name]

    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(name)
        return self[name]

    def __dir__(self):
        return sorted({*map(identifier, self._all()), "search", "ToolError"})

    def __repr__(self):
        return "<tools of %s>" % (", ".join(self._all()) or "no server")

    def search(self, word=""):
        """The tools whose name or description has the word, one a line: name, signature and summary."""
        lines, wanted = Lines(), word.lower()
        for name, (infos, why) in listed(self._all()).items():
            if why is not None:
                lines.append("%s: %s" % (cut(name, SIGNATURE_MAX), why))
            for info in infos:
                path = "%s.%s" % (name, info["name"])
                if wanted in path.lower() or wanted in (info.get("description") or "").lower():
                    lines.append(cut(path + signature_text(info), SIGNATURE_MAX) + ("" if info["granted"] else "  [not granted]")
                                 + ("  " + summary_of(info)).rstrip())
        return lines


class Lines(list):
    """A list of lines that is shown as such."""

    def __repr__(self):
        return "\n".join(self) or "no tool matches"


def listed(servers, limit_s=10):
    """{name: (tools, None) or ((), why there are none)}, of all servers at the same time."""
    found, lock = {}, _thread.allocate_lock()
    lock.acquire()

    def look(name, server):
        try:
            found[name] = list(server._list().values()), None
        except Exception as error:
            found[name] = (), str(error)
        if len(found) == len(servers):
            try:
                lock.release()
            except RuntimeError:
                pass

    for name, server in servers.items():
        _thread.start_new_thread(look, (name, server))
    if servers:
        lock.acquire(True, limit_s)
    return {name: found.get(name, ((), "did not start within %d s" % limit_s)) for name in servers}


def install():
    """Makes the module that code imports."""
    module = type(os)("sandpiper", Tools.__doc__)
    module.tools, module.ToolError, module.Blob = Tools(), ToolError, Blob
    module.__all__ = ["tools", "ToolError", "Blob"]
    for public in Tools, Server, Lines:
        public.__module__ = "sandpiper"
    IMPORTED["sandpiper"] = module
