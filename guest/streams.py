"""Descriptors 0, 1 and 2 of a session and the sys.std* objects on them.

stdout is line-buffered, as on a terminal, so that its order with the output of C code and children is right and a call
that is killed has shown all it printed. A flood of lines is written in blocks. stdout is also flushed before each write
to stderr and before a child process starts.

Descriptors 1 and 2 usually lead to one pipe, which has the output of Python, C code and children in the order in which
they wrote. Output through sys.stderr is framed, so that the server can tell it from the rest; a frame is one atomic
write. A server that needs separate streams passes two pipes, which have no common order: when Python code changes from
one to the other, it waits until the server has read the first, but no more in a call in which the server once was not
quick enough.
"""
import os
import sys
from _io import BufferedReader, BufferedWriter, FileIO, StringIO, TextIOWrapper
from time import monotonic, sleep

try:
    from fcntl import ioctl
except ImportError:  # a trimmed Python
    ioctl = None

frames = load("frames")
SPARES = {1: frames.OUT_FD, 2: frames.ERR_FD}  # duplicates of the pipes, from which a closed 1 or 2 is restored
TMP = os.environ.get("TMPDIR", "/tmp")  # before code can change it
LINES_MAX = 1000  # of one call that are written one by one
BLOCK_S = 0.02  # then: the longest that a line waits for the next one
SWITCH_S = 0.005  # the longest that a change of stream waits for the server
FIONREAD, NOTHING = 0x541B, bytes(4)
ERROR_HEAD = b"\0\x1berr\0"  # followed by u16, the size of the rest
ERROR_MAX = 4096 - len(ERROR_HEAD) - 2  # PIPE_BUF, pipe(7): a write that is not longer is never torn
inodes = {}
SINKS = StringIO, TextIOWrapper, type(None)  # which show nothing; others may pass on what they get
left = {}  # descriptors that restore() has brought back, and which objects are named in place of sys.stdout and sys.stderr
stdin_stale = False
order = {"last": 0, "wait": True, "one_pipe": False}


def turn_to(target):
    """Called before a write to 1 or 2, when the other was written last, or no cell has begun since the last one's end."""
    other, order["last"] = order["last"], target
    if not other:
        return
    if target == 1:
        flush_quietly(err)  # the beginning of a line
    if order["one_pipe"] or not order["wait"] or ioctl is None:
        return
    try:
        end = monotonic() + SWITCH_S
        while ioctl(other, FIONREAD, NOTHING) != NOTHING:
            sleep(0.00001)
            if monotonic() > end:
                order["wait"] = False
                break
    except OSError:
        order["wait"] = False


def unblock():
    """A child that made its stdout or stderr non-blocking has made ours so: they are one open file (fcntl(2), F_SETFL), and
    what the pipe has no space for would be lost."""
    for fd in SPARES.values():
        try:
            os.set_blocking(fd, True)
        except OSError:
            pass  # the code has closed it


class Lines(BufferedWriter):
    """TextIOWrapper flushes its buffer after each line; an explicit flush calls Out.flush.

    What is below is in C: an interrupt between a write to the descriptor and the return to the buffer would make the
    buffer write the same again.
    """

    left = LINES_MAX
    flushed = 0.0

    def write(self, data):
        if order["last"] != 1:
            turn_to(1)
        try:
            return BufferedWriter.write(self, data)
        except BlockingIOError as error:
            unblock()
            return error.characters_written + BufferedWriter.write(self, memoryview(data).cast("B")[error.characters_written :])

    def flush(self):
        if order["last"] == 2:
            turn_to(1)
        if self.left > 0:
            self.left -= 1
            self.move()
        elif monotonic() - self.flushed > BLOCK_S:
            self.move()
            self.flushed = monotonic()

    def move(self):
        try:
            BufferedWriter.flush(self)
        except BlockingIOError:
            unblock()
            BufferedWriter.flush(self)

    def close(self):
        if not self.closed:
            self.move()
        BufferedWriter.close(self)


class Out(TextIOWrapper):
    def flush(self):
        lines = self.buffer
        left, lines.left = lines.left, 1
        try:
            TextIOWrapper.flush(self)
        finally:
            lines.left = left


class Framed(FileIO):
    """Descriptor 2 if it leads to the pipe of descriptor 1; a file that code put there gets bare bytes."""

    def write(self, data):
        if not order["one_pipe"] or os.fstat(2).st_ino != inodes[2]:
            return self.move(data)
        view = memoryview(data)
        for at in range(0, len(view), ERROR_MAX):
            part = view[at : at + ERROR_MAX]
            self.move(b"".join((ERROR_HEAD, len(part).to_bytes(2, "little"), part)))
        return len(view)

    def move(self, data):
        written = FileIO.write(self, data)
        if written is None:  # it would block
            unblock()
            written = FileIO.write(self, data)
        return written


class Errors(BufferedWriter):
    """Flushes stdout before each write; a text stream with write_through calls this each time."""

    def write(self, data):
        flush_quietly(out)
        if order["last"] != 2:
            turn_to(2)
        return BufferedWriter.write(self, data)


def make_writer(text, buffer, name):
    buffer.raw.name = name
    return text(
        buffer, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=text is TextIOWrapper,
        line_buffering=True,
    )


def make_out():
    global out
    out = SYS["stdout"] = SYS["__stdout__"] = make_writer(Out, Lines(FileIO(1, "w", closefd=False)), "<stdout>")


def make_err():
    global err
    err = make_writer(TextIOWrapper, Errors(Framed(2, "w", closefd=False)), "<stderr>")
    SYS["stderr"] = SYS["__stderr__"] = err


def make_stdin():
    global stdin
    raw = FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    stdin = SYS["stdin"] = SYS["__stdin__"] = TextIOWrapper(
        BufferedReader(raw), encoding="utf-8", errors="surrogateescape"
    )


def prepare():
    """Makes all that needs no real pipes; one pipe stands in for them, as objects remember its kind."""
    null = os.open("/dev/null", os.O_RDWR)
    load("descriptors").prepare(null)
    os.dup2(null, 0)
    os.close(null)
    pipe = os.pipe()
    os.dup2(pipe[1], 1)
    os.dup2(pipe[1], 2)
    os.close(pipe[0])
    os.close(pipe[1])
    make_out()
    make_err()
    make_stdin()
    wrap_starts()


def connect(stdout_fd, stderr_fd):
    for target, fd in ((1, stdout_fd), (2, stderr_fd)):
        os.dup2(fd, target)
        os.dup2(fd, SPARES[target], False)
        inodes[target] = os.fstat(fd).st_ino
    order["one_pipe"] = inodes[1] == inodes[2]


def wrap_starts():
    """A child's output must come after what was printed before it started."""
    os.register_at_fork(before=flush_both, after_in_child=unlock)
    _posixsubprocess, shown_os = load("imports").shared("_posixsubprocess"), IMPORTED["os"]
    fork_exec, system, spawn = _posixsubprocess.fork_exec, shown_os.system, shown_os.posix_spawn

    def flushing(function):
        def spawn(*args, **kwargs):
            flush_both()
            unblock()
            return function(*args, **kwargs)

        spawn.__name__, spawn.__doc__ = function.__name__, function.__doc__
        return spawn

    _posixsubprocess.fork_exec = flushing(fork_exec)
    shown_os.system, shown_os.posix_spawn = flushing(system), flushing(spawn)
    held = IMPORTED.get("subprocess")
    if hasattr(held, "_fork_exec"):  # a preloaded subprocess bound the function before us
        held._fork_exec = _posixsubprocess.fork_exec


def flush_quietly(stream):
    try:
        stream.flush()
    except (OSError, ValueError, RuntimeError):
        pass


def flush_both():
    flush_quietly(out)
    flush_quietly(err)


def unlock():
    """Another thread may have been writing when this process was forked: it is not here to release its lock, and what it
    wrote is not this process's to write."""
    for stream in (out, err):
        try:
            BufferedWriter.__init__(stream.buffer, stream.buffer.raw)
        except ValueError:
            pass  # closed


def flush():
    """Moves everything written so far into the pipes, also through objects that the user put in place."""
    flush_both()
    for stream, own in ((SYS.get("stdout"), out), (SYS.get("stderr"), err)):
        if stream is not own and stream is not None:
            try:
                stream.flush()
            except Exception:
                pass
            flush_both()


def renew():
    """Restores streams that an earlier cell closed or deleted; keeps those that it replaced. Returns whether threads have
    written since the last cell."""
    between, order["last"] = order["last"] != 0, 1
    unblock()
    if out.closed or "stdout" not in SYS:
        make_out()
    elif out.buffer.left != LINES_MAX:
        out.buffer.left = LINES_MAX
        order["wait"] = True
    if err.closed or "stderr" not in SYS:
        make_err()
    if stdin_stale or stdin.closed or "stdin" not in SYS:
        clear_stdin()
    return between


def restore():
    """Points descriptors 1 and 2 to the pipes again if the cell closed or redirected them for good."""
    for target, inode in inodes.items():
        try:
            if os.fstat(target).st_ino == inode:
                continue
        except OSError:
            pass
        os.dup2(SPARES[target], target)
        flush_both()
        left[target] = True
    order["last"] = 0


def leads_here(stream):
    try:
        return os.fstat(stream.fileno()).st_ino in inodes.values()
    except Exception:
        return False


def report(result, text):
    """Notes of streams that the cell leaves so that no result shows what is written to them. text: the cell's."""
    for target, name, own in (1, "stdout", out), (2, "stderr", err):
        if left.pop(target, False):
            result += ("note", "descriptor %d was closed or redirected: what was written to it then may be missing here; it is back now" % target)
        stream = SYS.get(name, own)
        if stream is own or leads_here(stream):
            left.pop(name, None)
            continue
        kind, path = type(stream), getattr(stream, "name", None)
        shown = "%s%s" % (stream and kind.__name__, " of %s" % path[:80] if type(path) is str else "")
        if left.get(name) != id(stream):
            result += ("note", "sys.%s is left replaced (%s): results show only what that passes on; sys.%s = sys.__%s__ ends it" % (
                name, shown, name, name))
        elif name == "stdout" and own.buffer.left == LINES_MAX and "value" not in result and (kind in SINKS or "print" in text):
            result += ("note", "sys.stdout is still replaced (%s)" % shown)
        left[name] = id(stream)


def nameless_file():
    """A descriptor for a file without a name. Memory files are refused where no cgroup counts them."""
    try:
        return os.memfd_create("sandpiper")
    except OSError:
        return os.open(TMP, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


def give_stdin(data):
    global stdin_stale
    fd = nameless_file()
    view, at = memoryview(data), 0
    while at < len(view):
        at += os.write(fd, view[at:])
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)
    make_stdin()
    stdin_stale = True


def clear_stdin():
    global stdin_stale
    os.dup2(frames.NULL_FD, 0)
    make_stdin()
    stdin_stale = False


def say_error(text):
    """Writes to descriptor 2, whatever the code has done to sys.stderr."""
    flush_both()
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[err.buffer.raw.write(data) :]
