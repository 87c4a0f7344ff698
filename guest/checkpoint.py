"""Checkpoints: after each result the session forks a copy of itself that sleeps until it is needed.

The copy shares the session's sockets and pipes, so nothing has to be set up when it takes over: init
wakes it with SIGUSR2 once the session and all that it started are gone. It is made by two forks, so
that it is no child that user code could wait for. What a fork does not copy is lost in a take-over:
other threads, and what went through a shared file description (offsets, sockets) since.
"""
import os
import sys
import _signal

WAKE = _signal.SIGUSR2
ALL_SIGNALS = _signal.valid_signals()
SCORE_LIVE, SCORE_ASLEEP = b"1000", b"300"  # oom_score_adj: the live process dies first


def make(session, control, cell):
    """Forks the next checkpoint, in which this returns only when it has taken over.

    Returns the pid of the process in between; session.settle_fork waits for it before the next cell.
    """
    random = sys.modules.get("random")
    seeds = random.getstate() if random is not None else None  # CPython reseeds it in each fork
    while True:
        try:
            between = os.fork()
        except OSError:
            session.send(control, ("checkpoint", "pid", "0", "cell", cell))
            return 0
        if between:
            return between
        if not sleep(session, control, cell):
            os._exit(0)
        if seeds is not None:
            random.setstate(seeds)
        # Awake, and the session now: it needs a checkpoint of its own.


def sleep(session, control, cell):
    """In the process in between: forks the copy, which sleeps. True in the copy, awake."""
    live = session.pid
    mask = _signal.pthread_sigmask(_signal.SIG_SETMASK, ALL_SIGNALS)
    try:
        copy = os.fork()
    except OSError:
        copy = 0
        session.send(control, ("checkpoint", "pid", "0", "cell", cell))
        return False
    if copy:
        session.send(control, ("checkpoint", "pid", str(copy), "cell", cell))
        return False
    try:
        os.setsid()
    except OSError:
        pass
    score(SCORE_ASLEEP)
    while True:
        _signal.sigwait((WAKE,))
        try:
            os.kill(live, 0)
        except OSError:
            break
    session.pid = os.getpid()
    score(SCORE_LIVE)
    drain(control)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    session.send(control, ("resumed", "pid", str(session.pid)))
    return True


def score(text):
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, text)
        os.close(fd)
    except OSError:
        pass


def drain(control):
    """Drops what the server sent to the dead session: it sends anew what is still wanted."""
    control.setblocking(False)
    try:
        while control.recv(1 << 16):
            pass
    except OSError:
        pass
    control.setblocking(True)
