"""The zygote: the one process of the guest that the sandbox's init starts. It never runs user code.

Nor does it read what user code can write: its directory is not the workspace, and the server sends it what to preload
only before there is any session. A zygote that replaces a dead one preloads nothing, because modules read settings and
caches below $HOME and $TMPDIR.

It sends `ready` before it loads what each session needs. What few need they load themselves. It passes each `session`
request to a spare: a child of pid 1 that has prepared all that needs no descriptor of the session, and waits. A fork of a
process with many pages takes milliseconds, so the zygote makes the next spare when no request waits. Behind the first
session it makes none: many servers have only that one, and a spare takes megabytes.
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
IDLE_S = 0.02  # a call should have the processor to itself
# The kernel closes a dead session's descriptors that were in flight a moment later, unix(7), and counts them until then; as
# it does processes that end.
PAUSES_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# In this order what each call writes is on fewest pages.
ALWAYS = ("orphan", "descriptors", "session", "opening", "watch")
SELDOM = (
    "display", "trace", "distributions", "hints", "forms", "images", "packages", "spawn",
    "awaiting", "threads", "heal", "program", "notebook", "shell", "locks", "readings",
)
frames = load("frames")
imports = load("imports")
environ = IMPORTED["os"].environ
parent = os.getppid()  # pid 1 of the sandbox
directory = environ.pop("SANDPIPER_DIRECTORY", None)  # of the sessions
try:
    os.set_inheritable(RULESET_FD, False)
    ruleset_fd = RULESET_FD
except OSError:
    ruleset_fd = None


def waits(control):
    """Whether a request came within IDLE_S."""
    control.settimeout(IDLE_S)
    try:
        control.recv(1, _socket.MSG_PEEK)
    except _socket.timeout:
        return False
    except OSError:
        return True
    finally:
        control.settimeout(None)
    return True


def load_first(options):
    global modules
    for name in ALWAYS:
        load(name)
    if "warnings" in IMPORTED:  # by a .pth file: then each session needs it at once, see watch.py
        load("watch")
    load("tags").widen()
    imports.hold()
    map_files()
    if "calls" in options:
        load("tools").install()
    if "keep" in options:
        load("lives")
        load("keep_load")
    if sys.version_info[:2] > imports.NEWEST:
        load_rest()
    imports.shared("_posixsubprocess")  # for each session's streams.wrap_starts
    modules = len(IMPORTED)  # before the first import for the user


def load_rest():
    for name in SELDOM:
        load(name)
    imports.load_held()


def uncount():
    """For what load_first has loaded. It takes some ten milliseconds, so only when no call waits for a session."""
    gc.unfreeze()
    objects = gc.get_objects()
    load("native").uncount(objects + gc.get_referents(*objects))
    gc.freeze()


def preload(names):
    """Returns notes of what could not be imported, for the first result of each session."""
    notes = []
    for name in filter(None, names.split(",")):
        try:
            imports.real_import(name)
        except BaseException as caught:
            what = str(caught)[:200] if isinstance(caught, ImportError) else type(caught).__name__
            notes += ("note", "--preload %s: %s" % (name, what))
    return notes


class Spare:
    """A session that waits for its descriptors at the other end of a socket pair."""

    def __init__(self, control, options, notes, not_its_own=(), warms_up=False):
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
                frames.close(not_its_own)
                load("opening").main(theirs, options, notes, warms_up)
            finally:
                os._exit(frames.EXIT_FAILED)
        theirs.close()
        load("orphan").wait()

    def take(self, fields, fds):
        """False when the spare has died: code of a session may have killed it."""
        parts = ["session"]
        for key, value in fields.items():
            parts += (key, value)
        try:
            for pause in PAUSES_S:
                try:
                    self.socket.sendmsg([frames.pack(parts)], frames.rights(fds))
                    return True
                except OSError as error:
                    if error.errno != ETOOMANYREFS:
                        return False
                time.sleep(pause)
            return False
        finally:
            self.socket.close()


def start_session(control, spare, options, notes, fields, fds):
    if spare is not None and spare.take(fields, fds):
        return
    for pause in PAUSES_S:
        try:
            Spare(control, options, notes, fds).take(fields, fds)
            return
        except OSError:  # no more processes are possible: at last the server gives the session up
            time.sleep(pause)


def reseed():
    """Forks of one zygote must not share numpy's global random state; CPython reseeds its own."""
    numpy_random = IMPORTED.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def main(options):
    control = _socket.socket(fileno=CONTROL_FD)
    os.set_inheritable(CONTROL_FD, False)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    environ.setdefault("MPLBACKEND", "Agg")  # there is no display to draw on
    control.sendall(frames.pack(("ready", "python", "%d.%d.%d" % sys.version_info[:3])))
    load_first(options)
    gc.freeze()  # first, or the next object starts a collection of all that has been loaded
    gc.enable()
    load("native").set_title("sp-zygote")
    load("native").set_dumpable(False)  # no process may open its memory and descriptors in /proc, PR_SET_DUMPABLE
    spare, notes, sessions = None, [], 0
    counted = (3, 12) <= sys.version_info[:2] <= imports.NEWEST  # a newer one may count in another way
    while True:
        if spare is None and sessions != 1 and not waits(control):
            try:
                spare = Spare(control, options, notes, warms_up=sessions > 0)  # often the first one stays alone
            except OSError:
                pass  # no more processes are possible
        verb, fields, fds = frames.receive_frame(control)
        if verb is None:
            os._exit(0)
        if counted and (verb == "preload" or fields.get("early") == b"1"):
            uncount()
            counted = False
        if verb == "preload":
            notes = preload(fields.get("names", b"").decode())
        if verb == "session":
            start_session(control, spare, options, notes, fields, fds)
            spare, sessions = None, sessions + 1
        frames.close(fds)
