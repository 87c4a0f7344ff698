"""The zygote: the one process of the guest that the sandbox's init starts. It never runs user code.

Nor does it read what user code can write: its directory is not the workspace, and the server tells it what
to preload only before there is any session. Another that takes its place preloads nothing, because modules
read settings and caches below $HOME and $TMPDIR.

It says `ready` before it has done anything else and hands each `session` request to a spare: a child
of pid 1 that has prepared all that needs no descriptor of the session, and waits. A fork of a
process with many pages costs milliseconds, so the next spare is made when no request waits, after
the modules that sessions may need are loaded: what is loaded before a fork costs the sessions nothing.
"""
import gc
import os
import sys
import time
import _signal
import _socket
from errno import ETOOMANYREFS

CONTROL_FD = 3
RULESET_FD = 5  # of the Landlock domain that each session makes for itself; absent where there is no Landlock
IDLE_S = 0.02  # the first call of the first session should not have to share the processor with us
AT_ONCE_S = 1e-6
# A dead session's descriptors that were on their way count on for a moment, unix(7): the kernel ends
# them behind its back.
FLIGHT_PAUSES_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
WARM = (  # in the order of likely need
    "changes", "checkpoint", "native", "display", "outcome", "trace", "hints", "forms", "images", "figures", "spawn",
)
frames = load("frames")


class Idle:
    """What is left to do while nobody waits; a fork inherits the rest of it."""

    warm = list(WARM)
    modules = 0  # how many the interpreter had before anything of the user's was imported

    def wait(self, control, seconds):
        """True when a request came within that time."""
        control.settimeout(seconds)
        try:
            control.recv(1, _socket.MSG_PEEK)
        except _socket.timeout:
            return False
        except OSError:
            return True
        finally:
            control.settimeout(None)
        return True

    def warm_up(self, control):
        """Load what will be needed, as long as no request waits. True when all of it is there."""
        if self.wait(control, IDLE_S):
            return False
        while self.warm:
            load(self.warm.pop(0))
            if self.wait(control, AT_ONCE_S):
                return False
        return True


idle = Idle()
parent = os.getppid()  # pid 1 of the sandbox
directory = os.environ.pop("SANDPIPER_DIRECTORY", None)  # of the sessions
try:
    os.set_inheritable(RULESET_FD, False)
    ruleset_fd = RULESET_FD
except OSError:
    ruleset_fd = None


def preload(control, names):
    for name in names.split(","):
        if not name:
            continue
        try:
            __import__(name)
        except BaseException as error:
            text = "--preload %s: %s: %s" % (name, type(error).__name__, error)
            control.sendall(frames.pack(("warning", "text", text)))


class Spare:
    """A session that waits for its descriptors at the other end of a socket pair."""

    def __init__(self, control, options, not_its_own=()):
        """The session becomes a child of pid 1, which reaps it and knows it by its tag."""
        self.socket, theirs = _socket.socketpair()
        gc.freeze()  # keeps the collector of a session from touching, and so copying, our pages
        try:
            pid = load("orphan").fork()
        except OSError:
            self.socket.close()
            theirs.close()
            raise
        if pid is None:
            try:
                control.close()
                self.socket.close()
                for fd in not_its_own:
                    os.close(fd)
                load("session").main(theirs, options)
            finally:
                os._exit(frames.FAILED)
        theirs.close()
        load("orphan").settle()

    def take(self, fields, fds):
        """False when the spare has died: code of a session may have killed it."""
        parts = ["session"]
        for key, value in fields.items():
            parts += (key, value)
        rights = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
        ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)]
        try:
            for pause in FLIGHT_PAUSES_S:
                try:
                    self.socket.sendmsg([frames.pack(parts)], ancillary)
                    return True
                except OSError as error:
                    if error.errno != ETOOMANYREFS:
                        return False
                time.sleep(pause)
            return False
        finally:
            self.socket.close()


def start_session(control, spare, options, fields, fds):
    if spare is not None and spare.take(fields, fds):
        return
    try:
        if not Spare(control, options, fds).take(fields, fds):
            raise OSError("the new session died")
    except OSError as error:
        text = "fork: %s" % error
        control.sendall(frames.pack(("failed", "name", fields.get("name", b""), "text", text)))


def main(options):
    control = _socket.socket(fileno=CONTROL_FD)
    os.set_inheritable(CONTROL_FD, False)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    os.environ.setdefault("MPLBACKEND", "Agg")  # there is no display to draw on
    if sys.path[:1] == [FOLDER]:
        del sys.path[0]
    version = "%d.%d.%d" % sys.version_info[:3]
    ready = ("ready", "python", version, "executable", sys.executable or "", "prefix", sys.prefix)
    control.sendall(frames.pack(ready))
    load("session")
    idle.modules = len(sys.modules)
    load("native").set_dumpable(False)  # nobody opens its memory and descriptors in /proc, PR_SET_DUMPABLE
    spare = None
    while True:
        if spare is None and idle.warm_up(control):
            try:
                spare = Spare(control, options)
            except OSError:
                pass  # no more processes may be made; the request that needs one will say so
        verb, fields, fds = frames.receive_frame(control)
        if verb is None:
            os._exit(0)
        if verb == "preload":
            preload(control, fields.get("names", b"").decode())
        if verb == "session":
            start_session(control, spare, options, fields, fds)
            spare = None
        for fd in fds:
            os.close(fd)
