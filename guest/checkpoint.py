"""Checkpoints: after each result the session forks a copy of itself that sleeps until it is needed.

The copy shares the session's sockets and pipes, so nothing has to be set up when it takes over: init
wakes it with SIGUSR2 once the session and all that it started are gone. Before it says that it is the
session it forks again, so that the state it holds is never without a copy that sleeps. What a fork does
not copy is lost in a take-over: other threads, and what went through a shared file description (offsets,
sockets) since.
"""
import os
import sys
import _signal

try:
    from resource import RUSAGE_SELF, getpagesize, getrusage
except ImportError:  # a trimmed Python
    getrusage = None

WAKE = _signal.SIGUSR2
SI_USER = 0  # sent by kill(2); a process can claim this code only to itself, rt_sigqueueinfo(2)
ALL_SIGNALS = _signal.valid_signals()
orphan = load("orphan")


def affordable(limit, result):
    """Whether the memory suffices for a copy of this state, should the next cell replace all of it.

    What the state takes goes into the result where it matters. The highest mark is had for nothing.
    """
    if not limit or getrusage is None or getrusage(RUSAGE_SELF).ru_maxrss * 1024 < limit // 4:
        return True
    used = resident()
    if used is None:
        return True
    result += ("memory", str(used))
    if used <= limit // 2:
        return True
    result += ("unprotected", "1")
    return False


def resident():
    """How many bytes this process has for itself, or None."""
    try:
        with open("/proc/self/statm", "rb", 0) as file:
            _, all_pages, shared = file.read(100).split()[:3]
        return (int(all_pages) - int(shared)) * getpagesize()
    except OSError:
        pass
    reading, writing = os.pipe()

    def tell():  # the highest mark of a fork begins at what it has, getrusage(2)
        os.write(writing, b"%d" % getrusage(RUSAGE_SELF).ru_maxrss)
        os._exit(0)

    try:
        orphan.fork(tell)
        os.close(writing)
        writing = -1
        return int(os.read(reading, 32) or 0) * 1024 or None
    except OSError:
        return None
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
        orphan.settle()


def make(session, control, cell):
    """Forks the next checkpoint and tells its pid; returns in it as well, once it has taken over."""
    threads = other_threads()
    mask = _signal.pthread_sigmask(_signal.SIG_SETMASK, ALL_SIGNALS)
    copy, verb = fork() if session.protected else 0, "checkpoint"
    while copy is None:
        verb, session.pid = "resumed", os.getpid()
        drain(control)
        forget_helpers()
        copy = fork()
    told = (verb, "pid", str(session.pid), "checkpoint", str(copy), "cell", cell)
    session.send(control, told if verb == "checkpoint" else told + ("threads", str(threads)))
    orphan.settle()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


def forget_helpers():
    """multiprocessing's own processes ended with the session, and it does not expect that.

    It would ask for its fork server for ever, with a ChildProcessError each time, and warn of its tracker.
    """
    for module, name, pid, channel in (("forkserver", "_forkserver", "_forkserver_pid", "_forkserver_alive_fd"),
                                       ("resource_tracker", "_resource_tracker", "_pid", "_fd")):
        try:
            helper = getattr(sys.modules["multiprocessing." + module], name)
            if getattr(helper, pid) is not None:
                os.close(getattr(helper, channel))
                setattr(helper, pid, None)
                setattr(helper, channel, None)
        except Exception:  # not imported, or bent
            pass


def other_threads():
    """How many of the code's threads no copy will have."""
    try:
        return sys.modules["threading"].active_count() - 1
    except Exception:  # not imported, or bent
        return 0


def fork():
    """Returns the copy's pid, 0 where none could be made, and None in a copy that is awake."""
    try:
        return orphan.fork(sleep)
    except OSError:
        return 0


def sleep():
    """Until init says that the session is gone; its other processes may be the session's own code."""
    load("session").tie()
    try:
        os.setsid()
    except OSError:
        pass
    while True:
        sender = _signal.sigwaitinfo((WAKE,))
        if sender.si_code == SI_USER and sender.si_pid == os.getppid():
            return


def drain(control):
    """Drops what the server sent to the dead session: it sends anew what is still wanted."""
    control.setblocking(False)
    try:
        while control.recv(1 << 16):
            pass
    except OSError:
        pass
    control.setblocking(True)
