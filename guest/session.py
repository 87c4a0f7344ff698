"""One session: a fork of the zygote that runs cells in one namespace and reports what they did.

User code runs beneath `enter`, and nowhere else. An interrupt (SIGINT from init) raises
KeyboardInterrupt only when `enter` is on the stack, so it can never hit the bookkeeping; one that
arrives outside is late and is dropped. Whatever user code does to builtins, to modules or to
descriptors 0 to 2, this file uses what it bound before the first cell.
"""
import builtins
import os
import sys
import _signal
import _socket
from os import getpid
from time import clock_gettime_ns, process_time_ns

try:
    import faulthandler
    import resource
except ImportError:  # parts that a trimmed Python may lack
    faulthandler = resource = None

CONTROL_FD = 64
TRACE_FD = 69  # behind the numbers of streams.py
TRACE_SIGNAL = 62  # while memory runs out: SIGUSR1 may by then be the code's own
ALL_SIGNALS = _signal.valid_signals()
UNWATCHED = (int, float, bool, str, bytes, type(None))  # types without finalizers
REHEARSAL = "<rehearsal>"
# Compiles what cells are made of and names nothing that the code could have replaced; its value is None.
REHEARSED = b"""\
if 0:
    for a in b.c(0, d=[a, {0: "1"}]): e, f = -a + 0, b[a]
(lambda: [a * a for a in (1, 2)])() and None
"""
RLIMIT_LOCKS, TAG_SUM = 10, 65536  # a limit without effect since Linux 2.4: it carries the tag's counterpart
CLOCK_REALTIME_COARSE = 5  # the clock that stamps files; the time module does not name it

frames = load("frames")
idle = load("zygote").idle
imports = load("imports")
language = load("language")
streams = load("streams")


def enter(function, *args):
    """The door to user code. Its caller must catch BaseException."""
    return function(*args)


ENTER = enter.__code__


def lines_of(text):
    """As linecache holds them: carets are misplaced on a last line without its end."""
    lines = text.splitlines(True)
    if lines and lines[-1][-1:] != "\n":
        lines[-1] += "\n"
    return lines


class Main(type(sys)):
    """The module of the cells. `__file__` exists only for the modules in spawn.py that need one."""

    @property
    def __file__(self):
        path = load("spawn").main_file(sys._getframe(1), SESSION.sources)
        if path is None:
            raise AttributeError("module '__main__' has no attribute '__file__'")
        return path


def adopt_pyplot():
    load("figures").adopt(SESSION, sys.modules["matplotlib.pyplot"])


def tune():
    load("display").tune_libraries(sys.modules, SESSION.tuned)


def adopt_traceback():
    load("stack").adopt_traceback(sys.modules["traceback"])


def adopt_inspect():
    load("stack").adopt_inspect(sys.modules["inspect"])


def adopt_ipython():
    """IPython's display without IPython's shell would only print."""
    sys.modules["IPython.core.display_functions"].display = display


class Watch:
    """In sys.meta_path: what some libraries need, as soon as the code has imported them and not sooner.

    The driver's own imports pass by the workspace here.
    """

    names = {
        "matplotlib.pyplot": adopt_pyplot, "numpy": tune, "pandas": tune, "traceback": adopt_traceback,
        "inspect": adopt_inspect, "IPython.core.display_functions": adopt_ipython,
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        own = imports.find(name) if path is None and imports.is_of_driver(sys._getframe(1)) else None
        then = cls.names.get(name)
        if then is None:
            return own
        for finder in sys.meta_path:
            spec = own or (finder.find_spec(name, path, target) if finder is not cls else None)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    then()

                spec.loader.exec_module = exec_module
                return spec
        return None


def display(*objects, raw=False, **_):
    """Show objects in their best form: text where this call stands, images with the result.

    raw: the objects are dictionaries of forms by media type.
    """
    load("display").display(SESSION, objects, raw, enter)


class Session:
    name = "default"
    cell = "0"

    def __init__(self, options):
        self.options = options
        self.tied_to = None  # pid 1, where it is in no pid namespace: then our processes end with it
        self.pid = getpid()
        self.main = Main("__main__")
        self.namespace = self.main.__dict__
        self.namespace["__builtins__"] = builtins
        self.flags = 0
        self.sources = {}
        self.line_cache = None
        self.where = None
        self.trace_fd = -1
        self.inode = 0
        self.user_sigint = None
        self.loop = None
        self.awaited = None  # the cell that runs in the loop
        self.root = os.getcwd()
        self.tuned = set()
        self.images = None  # those of this cell
        self.saved_images = []
        self.held = ()
        self.error_line = 1
        self.memory_limit = 0  # bytes; 0: not known
        self.process_limit = 0
        self.protected = True
        self.layers = []  # of installed packages, newest first
        self.package_notes = []

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
        self.where = self.place(inner) if inner is not None else ""
        if self.trace_fd >= 0:
            os.write(self.trace_fd, b"interrupted\n")  # code that goes on all the same is not stuck
        if self.awaited is not None and self.awaited.takes_interrupt():
            return
        raise KeyboardInterrupt

    def place(self, frame):
        name, line = frame.f_code.co_filename, frame.f_lineno
        lines = self.sources[name].splitlines()
        source = lines[line - 1].strip() if line and line <= len(lines) else ""
        return "%s:%s %s" % (name, line, source[:200])

    def remember(self, name, text):
        """Keep the source for tracebacks, inspect.getsource and spawned processes."""
        self.sources[name] = text
        if self.line_cache is None:
            if "linecache" not in sys.modules and "import" not in text:
                return
            import linecache

            self.line_cache = linecache.cache
            for old, source in self.sources.items():
                self.line_cache[old] = (len(source), None, lines_of(source), old)
        self.line_cache[name] = (len(text), None, lines_of(text), name)

    def execute(self, text, name):
        codes, self.flags = language.compile_cell(text, name, self.flags)
        value = None
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
        rehearsal = "rehearsal" in fields
        self.prepare(REHEARSAL if rehearsal else name, text, fields.get("stdin"))
        started, cpu = clock_gettime_ns(CLOCK_REALTIME_COARSE), process_time_ns()
        result, error = ["result", "status", "ok"], None
        if not rehearsal:
            self.take_packages(fields)
            result += self.package_notes
            self.package_notes = []
        if self.held and not rehearsal:
            self.release_signals()
        try:
            self.show(result, enter(self.execute, text, name))
        except BaseException as caught:
            error = caught
        self.hold_signals()
        if getpid() != self.pid:
            self.end_of_fork(error)
        cpu = process_time_ns() - cpu
        if error is not None:
            load("outcome").describe(self, result, error, fields.get("stdin") is None)
        elif self.where is not None:
            result += ("where", self.where)
        if error is not None:
            box, error = [error], None
            self.guard(result, "what the exception held", enter, load("stack").free, self, box, self.error_line)
        if "matplotlib.pyplot" in sys.modules:
            self.guard(result, "the open figures", enter, load("figures").take_open, self)
        self.settle(fields.get("stdin") is not None)
        changed = None
        if not rehearsal or load("changes").is_light(self):
            changed = self.guard(result, "what changed", load("changes").report, self, result, started)
        if self.images is not None or self.saved_images or changed:
            self.guard(result, "the images", enter, self.report_images, result, changed or ())
        result += ("cell", self.cell, "cpu_ms", str(cpu // 1000000))
        if resource is not None:
            result += ("peak_bytes", str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
        if not rehearsal:
            self.protected = load("checkpoint").affordable(self.memory_limit, result)
        return frames.pack(result)

    def guard(self, result, what, function, *args):
        """An object that the code has bent may make a report fail, never the result."""
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
        for path in self.saved_images + [path for path in changed if images.is_image(path)]:
            self.shown_images().add_file(path)
        if self.images is not None:
            for path in self.images.paths:
                result += ("image", os.fsencode(path))
            for path, size in self.images.written:
                result += load("changes").file_fields("+" + path, size)
            for note in self.images.notes:
                result += ("note", note)

    def take_packages(self, fields):
        """The packages that are there by now; what is to be told of them goes with the next result."""
        layers = fields.get("packages", b"").decode()
        if layers != ":".join(self.layers):
            self.guard(self.package_notes, "installed packages", enter, load("packages").use, self, layers)

    def lacking(self, fields):
        """The distributions for imports of the code that comes next, of those that are not there."""
        self.take_packages(fields)
        text = language.strip_wrapping(fields.get("code", b"").decode("utf-8", "surrogateescape"))
        return self.guard([], "missing imports", enter, load("packages").missing, self, text) or ()

    def prepare(self, name, text, stdin):
        self.where = self.images = None
        if self.saved_images:
            self.saved_images = []
        sys.modules["__main__"] = self.main
        self.namespace.pop("__warningregistry__", None)  # "once" means once a cell, not once a line number
        self.remember(name, text)
        streams.renew()
        if stdin is not None:
            streams.give_stdin(stdin)
        if self.user_sigint is not None and name is not REHEARSAL:
            _signal.signal(_signal.SIGINT, self.user_sigint)
            self.user_sigint = None
        load("changes").begin(self)

    def show(self, result, value):
        if value is None:
            return
        last = [builtins.__dict__.get("_")]
        builtins.__dict__["_"] = value
        if type(last[0]) not in UNWATCHED:
            enter(load("stack").free, self, last)
        if type(value) is int and -(10**18) < value < 10**18 or type(value) is bool:
            result += ("value", repr(value))
            return
        text = load("display").present(self, value, enter)
        if text is None:
            return
        if "\n" in text and type(value) is not str:
            text = "\n" + text  # the columns of a table stay below each other
        result += ("value", text)

    def settle(self, had_stdin):
        """All that the cell wrote is in the pipes, and what it bent is straight, before the result leaves."""
        if _signal.getsignal(_signal.SIGINT) != self.on_interrupt:
            self.user_sigint = _signal.getsignal(_signal.SIGINT)
            _signal.signal(_signal.SIGINT, self.on_interrupt)
        try:
            enter(streams.flush)
        except BaseException:
            pass
        if had_stdin:
            streams.clear_stdin()
        streams.restore()
        modules = sys.modules
        if type(modules) is dict and len(modules) != idle.modules:
            self.settle_libraries(modules)

    def settle_libraries(self, modules):
        """What only a cell that imported something can have made necessary."""
        flush = load("native").flush
        if flush is not None:
            flush()

    def release_signals(self):
        """Handlers of signals that came since the last cell run now; what they raise has no cell to end."""
        held, self.held = self.held, ()
        try:
            enter(_signal.pthread_sigmask, _signal.SIG_UNBLOCK, held)
        except BaseException:
            pass

    def hold_signals(self):
        """A handler of the user's that raises must do so in a cell, not while we report, read or send."""
        before = None
        while "signal" in sys.modules:
            try:
                if before is None:
                    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
                # All of them at once: while we look, none can raise again.
                _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
                self.held = [
                    number for number in range(1, _signal.NSIG)
                    if number != _signal.SIGINT and callable(_signal.getsignal(number))
                ]
                _signal.pthread_sigmask(_signal.SIG_SETMASK, before.union(self.held))
                break
            except BaseException:
                continue

    def end_of_fork(self, error):
        """A child that the cell made with os.fork ran off the end of the cell: it ends here."""
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
        """Answer frames until the other end closes. A late signal handler of the user may still raise in here."""
        data = bytearray()  # which grows without being copied: a frame may have 80 MiB
        while True:
            try:
                if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
                    if idle.warm:
                        idle.warm_up(control)
                    control.recv(1, _socket.MSG_PEEK)  # the wait; losing this byte to a raise is harmless
                    chunk = control.recv(1 << 16)
                    if not chunk:
                        os._exit(0)
                    data += chunk
                    continue
            except OSError:
                cut_off()
            except BaseException:
                continue
            size = 4 + int.from_bytes(data[:4], "little")
            frame = bytes(memoryview(data)[4:size])
            del data[:size]
            self.answer(control, inode, frame)

    def send(self, control, fields):
        send(control, self.inode, frames.pack(fields))

    def answer(self, control, inode, frame):
        verb, fields = frames.unpack(frame)
        if verb == "run":
            try:
                try:
                    reply = self.run(fields)
                except BaseException as caught:
                    reply = self.broken(caught)
            except BaseException as caught:  # another handler of the user's, before broken() held them
                reply = self.broken(caught)
            send(control, inode, reply)
            if "once" not in fields:
                load("checkpoint").make(self, control, fields.get("cell", b"0"))
            self.rehearse(control)
        elif verb == "imports":
            reply = ["needs", "cell", fields.get("cell", b"0")]
            try:
                for name in self.lacking(fields):
                    reply += ("name", name)
            except BaseException:
                pass
            send(control, inode, frames.pack(reply))
        elif verb == "exit":
            self.leave()

    def rehearse(self, control):
        """Runs a cell that changes nothing while nobody waits.

        After a fork the first write to each page copies it; this cell writes to most of those that the next
        one will, so that the copying does not delay its answer.
        """
        try:
            if control.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT):
                return
        except OSError:
            pass
        try:
            frames.unpack(frames.pack(("run", "cell", self.cell, "code", "")))
            self.run({"cell": self.cell.encode(), "code": REHEARSED, "rehearsal": b""})
        except BaseException:
            pass

    def broken(self, caught):
        """The bookkeeping itself failed (no memory, no descriptors, a hostile object): still one answer."""
        self.hold_signals()
        try:
            streams.flush()
        except BaseException:
            pass
        name = type(caught).__name__
        text = "%s while the outcome of the cell was collected" % name
        return frames.pack(("result", "cell", self.cell, "status", "error", "error_type", name, "error_message", text,
                            "traceback", text + "\n"))

    def leave(self):
        import atexit

        try:
            enter(atexit._run_exitfuncs)
        except BaseException:
            pass
        try:
            streams.flush()
        finally:
            os._exit(0)


def send(control, inode, reply):
    view, at = memoryview(reply), 0
    try:
        if os.fstat(CONTROL_FD).st_ino != inode:
            cut_off()
        while at < len(view):
            at += control.send(view[at:])
    except OSError:
        cut_off()


def cut_off():
    """Code has closed our socket: the server learns only that the session ended, and with which status."""
    try:
        os.write(2, b"The interpreter cannot answer any more: the code has closed descriptor %d.\n" % CONTROL_FD)
    finally:
        os._exit(frames.CUT_OFF)


def be_first_victim():
    """Of the kernel, when memory runs out: the zygote and init must live on."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"1000")
        os.close(fd)
    except OSError:
        pass


def leave_for(directory):
    """The zygote's own directory is one that code cannot write to."""
    try:
        if directory:
            os.chdir(directory)
    except OSError:
        pass  # the workspace is gone


def mark(tag):
    """The name by which init knows the processes of this session."""
    try:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (tag, tag))
        resource.setrlimit(RLIMIT_LOCKS, (TAG_SUM - tag, TAG_SUM - tag))
    except (AttributeError, OSError, ValueError):
        pass


def reseed():
    """Forks of one zygote must not share numpy's global random state; CPython reseeds its own."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def tie():
    if SESSION.tied_to:
        load("native").tie(SESSION.tied_to)


def prepare(options):
    global SESSION
    streams.prepare()
    os.setsid()
    load("native").set_dumpable(True)  # init counts what a session holds
    be_first_victim()
    leave_for(load("zygote").directory)
    SESSION = Session(options)
    SESSION.driver_module = sys.modules["__main__"]
    sys.modules["__main__"] = SESSION.main
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    builtins.display = display
    sys.meta_path.insert(0, Watch)
    for name, then in Watch.names.items():
        if name in sys.modules:  # by --preload
            then()
    reseed()
    confine = load("native").confine
    ruleset_fd = load("zygote").ruleset_fd
    refused = confine(ruleset_fd) if confine is not None and ruleset_fd is not None else None
    if "landlock-optional" in options:
        refused = None
    if "container" in options:
        SESSION.tied_to = load("zygote").parent
        tie()
    _signal.signal(_signal.SIGINT, SESSION.on_interrupt)
    return refused


def main(spare, options):
    """spare: where the frame with our descriptors comes from, possibly much later."""
    refused = prepare(options)
    verb, fields, fds = frames.receive_frame(spare)
    if verb is None:
        os._exit(0)
    spare.close()
    os.dup2(fds[0], CONTROL_FD, False)
    streams.connect(fds[1], fds[2])
    if len(fds) > 3 and faulthandler is not None:
        os.dup2(fds[3], TRACE_FD, False)
        for number in (_signal.SIGUSR1, TRACE_SIGNAL):
            faulthandler.register(number, file=TRACE_FD, all_threads=False)
        SESSION.trace_fd = TRACE_FD
    for fd in fds:
        os.close(fd)
    mark(int(fields.get("tag", b"0")))
    SESSION.memory_limit = int(fields.get("memory", b"0"))
    SESSION.process_limit = int(fields.get("processes", b"0"))
    SESSION.name = fields.get("name", b"").decode("utf-8", "replace")
    control = _socket.socket(fileno=CONTROL_FD)
    control.setblocking(True)
    inode = SESSION.inode = os.fstat(CONTROL_FD).st_ino
    hello = ("hello", "pid", str(SESSION.pid))
    send(control, inode, frames.pack(hello + ("refused", refused) if refused else hello))
    if refused:
        os._exit(frames.FAILED)
    SESSION.serve(control, inode)
