"""How a fork of the zygote becomes a session: all that needs no descriptor is prepared in advance."""
import os
import _signal
import _socket

try:
    import faulthandler
except ImportError:  # a trimmed Python
    faulthandler = None

TRACE_SIGNAL = _signal.SIGURG  # while memory runs out: the code itself may use SIGUSR1
own = load("session")
frames = load("frames")
native = load("native")
streams = load("streams")


def leave_for(directory):
    """Leaves the zygote's own directory, which code cannot write to."""
    try:
        if directory:
            os.chdir(directory)
    except OSError:
        pass  # the workspace is gone


def tie(session):
    if session.tied_to:
        native.tie(session.tied_to, load("orphan").intermediate)


def connect(session, fds):
    """fds: of the socket, stdout, stderr, the trace and maybe the keeper's socket; closes them."""
    os.dup2(fds[0], frames.SESSION_FD, False)
    session.inode = os.fstat(frames.SESSION_FD).st_ino
    streams.connect(fds[1], fds[2])
    if len(fds) > 3 and faulthandler is not None:
        session.trace_fd = os.dup2(fds[3], frames.TRACE_FD, False)
    session.greets = len(fds) > 4 and os.dup2(fds[4], frames.GREETING_FD, False)
    frames.close(fds)


def prepare(options):
    """(the session, the call that has refused it its own domain or None)"""
    load("imports").seal()
    streams.prepare()
    os.setsid()
    native.set_title("sp-spare")
    native.set_dumpable(True)  # init counts the session's memory and descriptors
    leave_for(load("zygote").directory)
    environ = IMPORTED["os"].environ
    environ["PYTHONPATH"] = DIRECTORY + "/children"
    if "install" in options:
        environ["SANDPIPER_INSTALL"] = "1"
    session = own.SESSION = own.Session(options)
    IMPORTED["__main__"] = session.main
    SYS["argv"][:] = [""]
    SYS["path"].insert(0, "")
    own.BUILTINS["display"] = own.display
    load("zygote").reseed()
    load("watch").begin()
    if faulthandler is not None:  # what it writes to comes with the other descriptors
        faulthandler.enable(frames.TRACE_FD, all_threads=False)
        for number in (_signal.SIGUSR1, TRACE_SIGNAL):
            faulthandler.register(number, file=frames.TRACE_FD, all_threads=False)
    refused = native.confine(load("zygote").ruleset_fd)
    if "landlock-optional" in options:
        refused = None
    if "container" in options:
        session.tied_to = load("zygote").parent
        tie(session)
    _signal.signal(_signal.SIGINT, session.on_interrupt)
    return session, refused


def main(spare, options, notes, warms_up):
    """spare: the socket whose frame has the session's descriptors, possibly much later. notes: for the first result."""
    session, refused = prepare(options)
    if warms_up and not refused:
        session.warm_up()
    verb, fields, fds = frames.receive_frame(spare)
    if verb is None:
        os._exit(0)
    spare.close()
    connect(session, fds)
    session.package_notes = notes
    load("changes").connect(session)
    session.memory_limit = int(fields.get("memory", b"0"))
    session.process_limit = int(fields.get("processes", b"0"))
    load("tags").mark(int(fields.get("tag", b"0")), session.process_limit)
    session.measure_from = int(fields.get("measure_from", b"0"))
    session.checkpoint_most = int(fields.get("checkpoint_most", b"0"))
    session.name = fields.get("name", b"").decode("utf-8", "replace")
    native.set_title("sp-session-" + session.name)
    control = _socket.socket(fileno=frames.SESSION_FD)
    control.setblocking(True)
    session.control = control
    hello = ("hello", "pid", str(session.pid))
    session.send(control, hello + ("refused", refused) if refused else hello)
    if refused:
        os._exit(frames.EXIT_FAILED)
    session.serve(control, session.inode)
