"""One session: a fork of the zygote that runs cells in one namespace and reports what they did.

User code runs beneath `enter`, and nowhere else. An interrupt (SIGINT from init) raises KeyboardInterrupt only when
`enter` is on the stack, so it can never hit the bookkeeping; one that arrives outside is late and is dropped. Whatever
user code does to builtins, to modules or to descriptors 0 to 2, this file uses what was loaded before the first cell.
"""
import os
import sys
import _signal
import _socket
from os import getpid
from sys import getprofile, getrecursionlimit, gettrace, setprofile, setrecursionlimit, settrace
from time import clock_gettime_ns, process_time_ns

try:
    import resource
except ImportError:  # a trimmed Python
    resource = None

ALL_SIGNALS = _signal.valid_signals()
UNWATCHED = frozenset(map(id, (int, float, bool, str, bytes, type(None))))  # types without finalizers
WARM_UP = "<warm_up>"
# Uses no name that the code could have replaced; its value is None. What compiles more writes to more pages of each checkpoint.
WARM_UP_CODE = b"None"
DEPTH = 1000  # the least recursion limit that the driver itself works under
CLOCK_REALTIME_COARSE = 5  # the clock that stamps files; the time module does not name it

BUILTINS = IMPORTED["builtins"].__dict__  # those that code sees
show_plainly = SYS["__displayhook__"]
line_cache = {}  # the driver's linecache has it too, see trace.py
frames = load("frames")
language = load("language")
streams = load("streams")
tags = load("tags")
as_json = load("as_json")
changes = load("changes")
checkpoint = load("checkpoint")
native = load("native")
edited = load("edited")


def enter(function, *args):
    """The entry to user code. Its caller must catch BaseException."""
    return function(*args)


ENTER = enter.__code__
# Modules in C import with the builtins of the innermost Python frame, which may be this one.
enter = type(enter)(ENTER, {"__builtins__": BUILTINS})


def give_back(settings):
    """Sets what the code has set for the whole interpreter; the driver works without it, and with a depth of its own."""
    trace, profile, recursion_limit = settings
    try:
        setrecursionlimit(recursion_limit)
    except RecursionError:
        pass  # the code set it in deeper frames
    settrace(trace)
    setprofile(profile)


def cached_lines(text):
    """As linecache has them: carets are misplaced on a last line without a line end."""
    lines = [line + "\n" for line in language.lines_of(text)]
    return lines if lines[-1] != "\n" else lines[:-1]


class Main(type(sys)):
    """The module of the cells. `__file__` exists only for the modules in spawn.py that need one."""

    @property
    def __file__(self):
        path = self.__dict__.get("__file__") or load("spawn").main_file(sys._getframe(1), SESSION.sources)
        if path is None:
            raise AttributeError("module '__main__' has no attribute '__file__'")
        return path


def display(*objects, raw=False, **_):
    """Show objects in their best form: text where this call stands, images with the result.

    raw: the objects are dictionaries of forms by media type.
    """
    load("display").display(SESSION, objects, raw, enter)


class Session:
    name = "default"
    cell = "0"
    began = False  # whether the cell's code did
    statements = None  # those of the cell, see language.py

    def __init__(self, options):
        self.options = options
        self.modules = load("zygote").modules
        self.tied_to = None  # pid 1, if it is in no pid namespace: then processes of the session end with it
        self.pid = getpid()
        self.main = Main("__main__")
        self.namespace = self.main.__dict__
        self.namespace["__builtins__"] = IMPORTED["builtins"]
        self.flags = 0
        self.sources = {}
        self.line_caches = [line_cache]  # the driver's, and that of the code once it has imported linecache
        self.where = None  # of an interrupt: (cell, line, source) as text, or () if no code of a cell ran
        self.trace_fd = -1
        self.control = None
        self.inode = 0
        self.user_sigint = None
        self.may_handle_signals = False
        self.settings = None  # the code's trace, profile and recursion limit, while the driver works without them
        self.loop = None
        self.awaited = None  # the cell that runs in the loop
        self.root = os.getcwd()
        self.tuned = set()
        self.images = None  # those of this cell
        self.shown = None  # what people see of its values, see forms.py; None: nobody does
        self.saved_images = []
        self.held = {}  # the code's handlers of signals while the driver works, see hold_signals
        self.came = set()  # of these signals, those that other threads have taken
        self.late = self.note_late
        self.error_line = 1
        self.memory_limit = 0  # bytes; 0: not known
        self.process_limit = self.measure_from = self.checkpoint_most = 0  # bytes of the state, see checkpoint.py
        self.protected = True
        self.layers = []  # of installed packages, newest first
        self.package_notes = []
        self.came_back = None  # see descriptors.py: what its first call has to do, if it was a state
        self.lacks_threads = False  # whether it may, see threads.py
        self.greets = False  # whether the keeper has a socket for it, see changes.py
        self.supplies = False  # whether the server installs what a cell lacks
        self.notebook = None  # see shell.py; None: nothing has needed it
        self.traced = []  # variables of this call's trace, see traced.py

    def on_interrupt(self, _, frame):
        inner = frame
        while frame is not None:
            if frame.f_code is ENTER:
                break
            frame = frame.f_back
        else:
            return
        while inner is not None and inner.f_code.co_filename not in self.sources:
            inner = inner.f_back
        self.where = self.place(inner) if inner is not None else ()
        if self.trace_fd >= 0:
            os.write(self.trace_fd, b"interrupted\n")  # if the code goes on, it does not hang
        if self.awaited is not None and self.awaited.takes_interrupt():
            return
        raise KeyboardInterrupt

    def place(self, frame):
        name, line = frame.f_code.co_filename, frame.f_lineno
        lines = language.lines_of(self.sources[name])
        source = lines[line - 1].strip() if line and line <= len(lines) else ""
        return name[len("<cell ") : -1], str(line), source[:200]

    def add_where(self, result):
        if self.where:
            cell, line, source = self.where
            result += ("where_cell", cell, "where_line", line, "where_source", source)

    def remember(self, name, text):
        """Keeps the source for tracebacks, inspect.getsource and spawned processes."""
        self.sources[name] = text
        for cache in self.line_caches:
            cache[name] = (len(text), None, cached_lines(text), name)

    def share_sources(self, module):
        """Gives them to the linecache that the code has imported; it may be a module of the code's own."""
        cache = getattr(module, "cache", None)
        if type(cache) is dict:
            self.line_caches[1:] = [cache]
            for name in self.sources:
                cache[name] = self.line_caches[0][name]

    def note_signals(self):
        self.may_handle_signals = True
        load("repeats").begin(IMPORTED["_signal"], IMPORTED["os"])

    def execute(self, text, name, settings):
        found = None
        try:
            compiled = language.compile_cell(text, name, self.flags)
        except SyntaxError:
            found = not language.parses(text, self.flags) and load("readings").certain(text, self.flags)
            if not found:
                raise
        if found:
            load("shell").notebook(self).notes.append(found[1])
            self.remember(name, found[0])
            compiled = language.compile_cell(found[0], name, self.flags)
        codes, self.flags, self.has_value, self.statements = compiled
        value, self.ran = None, True
        changes.hold(codes, self.namespace)
        if settings:
            give_back(settings)
        for code in codes:
            if code.co_flags & language.COROUTINE or language.wants_loop(code):
                return load("awaiting").run(self, codes)
        for code in codes:
            value = eval(code, self.namespace)
        return value

    def run(self, fields):
        self.cell = fields.get("cell", b"0").decode()
        name = "<cell %s>" % self.cell
        text = language.strip_wrapping(fields.get("code", b"").decode("utf-8", "surrogateescape"))
        warm_up, changes.keeper["state"] = "warm_up" in fields, int(fields.get("files", b"0"))
        program = load("program") if "argv" in fields else None
        if program is not None:
            program.begin(fields)
        self.prepare(WARM_UP if warm_up else name, text, fields.get("stdin"))
        self.shown = load("forms").Shown() if "shown" in fields else None
        started, cpu = clock_gettime_ns(CLOCK_REALTIME_COARSE), process_time_ns()
        result, value, error = ["result", "status", "ok"], None, None
        if not warm_up:
            self.take_packages(fields)
            if "traceparent" in fields or "baggage" in fields or self.traced:
                self.guard(self.package_notes, "the trace context", enter, load("traced").begin, self, fields)
            if self.came_back is not None:
                self.guard(self.package_notes, "what came back", enter, load("descriptors").begin_call, self, fields.get("files_back"))
            result, self.package_notes = result + self.package_notes, []
            begun = ("begun", "cell", self.cell)
            if self.lacks_threads:
                begun += checkpoint.lost_threads(self)
            if self.where is None:
                frames.send(self.control, self.inode, frames.pack(begun))
        if self.held and not warm_up:
            self.release_signals()
        self.has_value, self.began, self.ran = False, True, program is not None
        settings, self.settings = (None, self.settings) if warm_up else (self.settings, None)
        try:
            if self.where is not None and not warm_up:
                raise KeyboardInterrupt  # what prepares the call has caught it
            if program is None:
                value = enter(self.execute, text, name, settings)
            else:
                enter(program.run, self, text, name, fields)
        except BaseException as caught:
            error = caught
        while True:  # in this frame: in one of its own, a trace function of the code's could raise
            try:
                if gettrace() is not None or getprofile() is not None or getrecursionlimit() < DEPTH:
                    self.settings = gettrace(), getprofile(), getrecursionlimit()
                    settrace(None)
                    setprofile(None)
                    setrecursionlimit(max(DEPTH, self.settings[2]))
                break
            except BaseException:
                continue
        if error is None and program is None and not warm_up:
            try:
                if value is not None or SYS.get("displayhook") is not show_plainly:
                    self.show(result, value)
            except BaseException as caught:
                error = caught
            value = None
        while self.may_handle_signals:
            try:
                self.hold_signals()
                break
            except BaseException:  # of a handler of the user's as the call began: the cell has ended
                continue
        if getpid() != self.pid:
            self.end_of_fork(error)
        cpu = process_time_ns() - cpu
        if error is None:
            if self.where:
                self.add_where(result)
        else:
            load("trace").describe(self, result, error, program, fields.get("stdin") is None)
            box, error = self.keep_last(error), None
            self.guard(result, "the exception's variables", enter, load("watch").free, self, box, self.error_line)
        if self.notebook is not None and not warm_up:
            self.guard(result, "exit statuses", enter, self.notebook.report, result)  # code can reach and bend the list
        if "matplotlib.pyplot" in IMPORTED and not warm_up:
            self.guard(result, "the open figures", enter, load("images").take_open, self)
        if self.traced:
            self.guard(result, "the trace context", enter, load("traced").end, self)
        self.clean_up(fields.get("stdin") is not None, streams.flush_both if warm_up else streams.flush)
        if not warm_up:
            self.guard(result, "the streams", enter, streams.report, result, text)
            if self.between:
                result += ("note", "the output begins with what threads of earlier calls wrote before this call")
            if changes.state["looks"]:
                self.guard(result, "servers", load("hints").report_servers, self, result)
        changed = None
        if not warm_up or len(self.namespace) <= changes.LIGHT:
            changed = self.guard(result, "the changes", changes.report, self, result, started)
        if not warm_up:
            self.guard(result, "edited modules", edited.report, self, result)
            self.guard(result, "what the code does", load("looks").report, self, result)
        self.statements = None
        if self.images is not None or self.saved_images or changed:
            self.guard(result, "the images", enter, self.report_images, result, changed or ())
        if self.shown is not None and self.shown.parts:
            result += ("shown", self.shown.data())
        result += ("cell", self.cell, "cpu_ms", str(cpu // 1000000))
        if resource is not None and not warm_up:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            result += ("peak_bytes", str(peak))
            self.protected = checkpoint.affordable(peak, self.measure_from, self.checkpoint_most, result)
        return frames.pack(result)

    def keep_last(self, error):
        """Sets sys.last_value and the like as CPython does; returns what was in them, as the only reference to it."""
        if isinstance(error, SystemExit):
            return [error]
        kept = load("trace").last(error)
        old = [SYS.pop(name, None) for name in kept]
        SYS.update(kept)
        return old

    def guard(self, result, what, function, *args):
        """Calls function. An object that the code has altered may make a report fail, never the result."""
        try:
            return function(*args)
        except BaseException as caught:
            result += ("note", "%s could not be reported: %s" % (what, type(caught).__name__))
            return None

    def shown_images(self):
        if self.images is None:
            self.images = load("images").Images(self)
        return self.images

    def report_images(self, result, changed):
        images = load("images")
        own = [path for path, _ in self.shown_images().written]
        made = [(path, None) for path in changed if images.is_image(path) and path not in own]
        for path, kept in self.saved_images + made:
            self.shown_images().add_file(path, kept)
        for path in self.images.paths:
            result += ("image", os.fsencode(path))
        written = self.images.written
        for path, size in written[: images.LISTED_MAX]:
            result += changes.file_fields("+" + path, size)
        if len(written) > images.LISTED_MAX:
            result += ("files_more", str(len(written) - images.LISTED_MAX))
        for note in self.images.all_notes():
            result += ("note", note)

    def take_packages(self, fields):
        """Takes over the server's current list of packages; the next result has notes about them."""
        layers = fields.get("packages", b"").decode()
        if layers != ":".join(self.layers):
            self.guard(self.package_notes, "installed packages", enter, load("packages").use, self, layers)

    def lacking(self, fields):
        """The distributions that the next code's imports lack."""
        self.take_packages(fields)
        self.supplies = True
        text = language.strip_wrapping(fields.get("code", b"").decode("utf-8", "surrogateescape"))
        return self.guard([], "missing imports", enter, load("packages").missing, self, text) or ()

    def prepare(self, name, text, stdin):
        self.where, self.images, self.began = None, None, False
        self.saved_images = self.saved_images and []
        IMPORTED["__main__"] = self.main
        self.namespace.pop("__warningregistry__", None)  # "once" means once a cell, not once a line number
        self.remember(name, text)
        self.between = streams.renew()
        if stdin is not None:
            streams.give_stdin(stdin)
        if self.user_sigint is not None and name is not WARM_UP:
            _signal.signal(_signal.SIGINT, self.user_sigint)
            self.user_sigint = None
        self.guard([], "the changes", changes.begin, self)

    def show(self, result, value):
        hook = SYS.get("displayhook", show_plainly)
        if hook is not show_plainly and self.has_value and enter(load("display").is_for, self, hook, value):
            enter(hook, value)
            return
        if value is None:
            return
        last = [BUILTINS.get("_")]
        BUILTINS["_"] = value
        if id(type(last[0])) not in UNWATCHED:
            enter(load("watch").free, self, last)
        if type(value) is int and -(10**15) < value < 10**15 or type(value) is bool:
            result += ("value", repr(value), "json", as_json.text_of(value))
            return
        text = load("display").present(self, value, enter)
        if text is None:
            return
        if "\n" in text and type(value) is not str:
            text = "\n" + text  # the columns of a table stay below each other
        result += ("value", text)
        json = as_json.text_of(value)
        if json is not None:
            result += ("json", json)

    def clean_up(self, had_stdin, flush):
        """Before the result is sent: moves all that the cell wrote into the pipes, and resets what it altered."""
        if _signal.getsignal(_signal.SIGINT) != self.on_interrupt:
            self.user_sigint = _signal.getsignal(_signal.SIGINT)
            _signal.signal(_signal.SIGINT, self.on_interrupt)
        try:
            enter(flush)
        except BaseException:
            streams.flush_both()
        if had_stdin:
            streams.clear_stdin()
        streams.restore()
        if len(IMPORTED) != self.modules:
            native.flush()  # only a cell that imported something can need this

    def release_signals(self):
        """Runs handlers of signals that came since the last cell, before this cell: what they raise ends no cell."""
        (held, self.held), (came, self.came) = (self.held, {}), (self.came, set())
        for number, handler in held.items():
            if _signal.getsignal(number) is self.late:
                self.guard([], "signals", _signal.signal, number, handler)
        self.guard([], "signals", enter, _signal.pthread_sigmask, _signal.SIG_UNBLOCK, held)
        for number in came:
            self.guard([], "signals", enter, held[number], number, None)

    def note_late(self, number, frame):
        if getpid() != self.pid:  # a fork by a thread
            return self.held[number](number, frame)
        self.came.add(number)

    def hold_signals(self):
        """Blocks signals: a handler of the user's that raises must do so in a cell, not while this file reports or
        reads. Other threads still take them, and Python runs the handlers in this one: beside threads they wait too."""
        before = None
        while self.may_handle_signals:
            try:
                if before is None:
                    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
                # All of them at once: none can raise during the loop.
                _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
                for number in ALL_SIGNALS.difference((_signal.SIGINT,)):
                    handler = _signal.getsignal(number)
                    if callable(handler) and handler is not self.late:
                        self.held[number] = handler
                        if not checkpoint.orphan.has_one_thread():
                            _signal.signal(number, self.late)
                _signal.pthread_sigmask(_signal.SIG_SETMASK, before.union(self.held))
                break
            except BaseException:
                continue

    def end_of_fork(self, error):
        """Exits from a child that the cell made with os.fork and that reached the end of the cell."""
        code = 0
        try:
            if isinstance(error, SystemExit):
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
            elif error is not None:
                code = 1
                streams.say_error(load("trace").text_of(self, error))
            streams.flush()
        finally:
            os._exit(code & 0xFF)

    def serve(self, control, inode):
        """Handles frames until the other end closes. A late signal handler of the user may still raise in here."""
        data, fds = b"", []  # of the frame "branch"
        while True:
            try:
                size = 4 + int.from_bytes(data[:4], "little")
                if len(data) < size:
                    control.recv(1, _socket.MSG_PEEK)  # the wait; losing this byte to a raise is harmless
                    chunk, ancillary, _, _ = control.recvmsg(1 << 16, frames.FDS_SPACE, frames.MSG_CMSG_CLOEXEC)
                    if not chunk:
                        os._exit(0)
                    if not data:
                        data = chunk  # which usually is one frame, and needs no copy
                    elif type(data) is bytes:
                        data = bytearray(data + chunk)  # grows without being copied: a frame may have 80 MiB
                    else:
                        data += chunk
                    if ancillary:
                        fds = frames.descriptors(ancillary)
                    continue
            except OSError:
                frames.cut_off()
            except BaseException:
                continue
            frame, data = (data, b"") if len(data) == size and type(data) is bytes else (
                bytes(memoryview(data)[:size]), data[size:])
            self.answer(control, inode, frame, fds)

    def send(self, control, fields):
        frames.send(control, self.inode, frames.pack(fields))

    def answer(self, control, inode, frame, fds):
        verb, fields = frames.unpack(frame, 4)
        if verb == "run":
            tags.mark_cell(int(fields.get("files") or fields.get("cell", b"0")))
            try:
                try:
                    reply = self.run(fields)
                except BaseException as caught:
                    reply = self.broken(caught)
            except BaseException as caught:  # of another handler of the user's, before broken() held them
                reply = self.broken(caught)
            tags.mark_cell(0)
            frames.send(control, inode, reply)
            if "once" not in fields:
                checkpoint.make(self, control, fields.get("cell", b"0"))
        elif verb in ("branch", "calls"):
            load(verb).from_session(self, fields, fds)
        elif verb in ("keep", "back"):
            load("lives").answer(self, verb, fields, fds)
        elif verb == "imports":
            reply = ["needs", "cell", fields.get("cell", b"0")]
            try:
                for field in self.lacking(fields):
                    reply += field
            except BaseException:
                pass
            frames.send(control, inode, frames.pack(reply))

    def warm_up(self):
        """Runs a cell that changes nothing, and no code of the user's.

        After a fork the first write to each page copies it; this cell writes to most of the pages that the next one
        will, so that copying does not delay its result.
        """
        try:
            frames.unpack(frames.pack(("run", "cell", self.cell)), 4)
            self.run({"cell": self.cell.encode(), "code": WARM_UP_CODE, "warm_up": b""})
        except BaseException:
            pass

    def broken(self, caught):
        """Makes a result when the bookkeeping itself failed (no memory, no descriptors, a hostile object)."""
        self.hold_signals()
        try:
            streams.flush()
        except BaseException:
            pass
        name = type(caught).__name__
        text = name + (" while the outcome of the cell was collected" if self.began else ": the code did not run")
        if isinstance(caught, OSError):
            text += ", because of %s" % os.strerror(caught.errno or 0)
        return frames.pack(("result", "cell", self.cell, "status", "error", "error_type", name, "error_message", text,
                            "traceback", text + "\n"))
