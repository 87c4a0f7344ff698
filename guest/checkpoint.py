"""Checkpoints: after each result the session forks a copy of itself that sleeps until it is needed.

The copy shares the session's sockets and pipes, so a failover sets up nothing: init wakes the copy with SIGUSR2 once
the session and all that it started are gone. Before the copy reports that it is the session it forks again, so that its
state is never without a suspended copy. A failover loses what a fork does not copy: other threads, child processes,
and what went through a shared file description (offsets, sockets) since.
"""
import os
import _signal
from os import listdir, waitid
from time import sleep as sleep_s

try:
    from resource import RUSAGE_SELF, getpagesize, getrusage
except ImportError:  # a trimmed Python
    getrusage = None

SI_USER = 0  # sent by kill(2); a process can claim this code only to itself, rt_sigqueueinfo(2)
ALL_SIGNALS = _signal.valid_signals()
SIGKILL = 9
P_PID = os.P_PID
theirs = IMPORTED["os"]  # the os that code sees
lost = {}  # the wait status of children of processes that this one has replaced; None: of any of them
orphan = load("orphan")
descriptors = load("descriptors")
apart = load("apart")
branch = load("branch")


def affordable(peak, measure_from, most, result):
    """Whether this state gets a checkpoint: not above `most` bytes, see tools/session/history.h.

    Measures a state when the process's peak reaches measure_from, and adds the size to the result. most: 0 if the limit
    is not known.
    """
    if not most or peak < measure_from:
        return True
    used = resident()
    if used is None:
        return True
    result += ("memory", str(used))
    if used <= most:
        return True
    result += ("unprotected", "1")
    return False


def resident():
    """How many bytes belong to this process alone, or None."""
    try:
        with open("/proc/self/statm", "rb", 0) as file:
            _, all_pages, shared = file.read(100).split()[:3]
        return (int(all_pages) - int(shared)) * getpagesize()
    except OSError:
        pass
    try:
        reading, writing = os.pipe()
    except OSError:
        return None

    def tell(_):  # a fork's peak starts at its current size, getrusage(2)
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
        orphan.wait()


def make(session, control, cell):
    """Forks the next checkpoint and reports its pid; returns in it as well, after a failover.

    Whatever the code has altered, the session goes on: without a checkpoint, if there is no other way.
    """
    threads, children = other_threads(), children_status()
    mask = _signal.pthread_sigmask(_signal.SIG_SETMASK, ALL_SIGNALS)
    copy, verb = fork(session, mask, children) if session.protected else 0, "checkpoint"
    while copy is None:
        verb, session.pid = "resumed", os.getpid()
        drain(control)
        forget_helpers()
        lose(children)
        descriptors.come_back(session)
        session.guard([], "locks", apart.unlock, session)
        copy = fork(session, mask, children)
    if copy:
        session.warm_up()  # meanwhile the copy starts
    copy = copy if is_apart(session, copy) else 0
    report = [verb, "pid", str(session.pid), "checkpoint", str(copy), "cell", cell]
    if verb == "resumed":
        report += ("threads", str(threads), *lost_threads(session))
    session.send(control, report)
    orphan.wait()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


def is_apart(session, copy):
    """Waits until the copy has left the session's process group: code may kill that group. False: the copy has ended."""
    looks = 0
    try:
        while copy and os.getpgid(copy) == session.pid:
            looks += 1
            if looks < 10:
                os.sched_yield()  # the timer of a sleep takes longer than the copy on a processor of its own
            else:
                sleep_s(0.0002)
    except OSError:
        return False
    return True


def forget_helpers():
    """Resets multiprocessing, and what joblib has of it, whose own processes ended with the session: it does not expect that.

    It would ask for its fork server for ever, with a ChildProcessError each time, and warn of its tracker.
    """
    for module, name, pid, channel in (
            ("multiprocessing.forkserver", "_forkserver", "_forkserver_pid", "_forkserver_alive_fd"),
            ("multiprocessing.resource_tracker", "_resource_tracker", "_pid", "_fd"),
            ("joblib.externals.loky.backend.resource_tracker", "_resource_tracker", "_pid", "_fd")):
        try:
            helper = getattr(IMPORTED[module], name)
            if getattr(helper, channel) is not None:
                os.close(getattr(helper, channel))
                setattr(helper, pid, None)
                setattr(helper, channel, None)
        except BaseException:  # not imported, or altered by the code
            pass


def children_status():
    """The wait status of each child process: of one that runs, the status that it will have after a failover."""
    if not orphan.has_children():
        return {}
    pids = []
    try:
        for task in listdir("/proc/self/task"):
            with open("/proc/self/task/%s/children" % task, "rb") as file:
                pids += map(int, file.read().split())
    except BaseException:  # no /proc, or an audit hook of the code's
        return {None: SIGKILL}
    return {pid: status_of(pid) for pid in pids}


def status_of(pid):
    try:
        ended = waitid(P_PID, pid, orphan.PEEK)
    except OSError:
        return SIGKILL
    if ended is None:
        return SIGKILL
    return ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status


def lose(children):
    """Lets this process wait for what were children of the dead one.

    The kernel has no status for it; subprocess takes that for exit status 0, and multiprocessing for a process that
    runs for ever.
    """
    waited = getattr(theirs, "waitpid", None)
    lost.update(children)
    try:
        for process in list(IMPORTED["multiprocessing.process"]._children):
            process._parent_pid = os.getpid()
    except BaseException:  # not imported, or altered by the code
        pass
    if not lost or getattr(waited, "__module__", None) == __name__:
        return

    def waitpid(pid, options):
        try:
            return waited(pid, options)
        except ChildProcessError:
            if pid > 0 and (pid in lost or None in lost):
                return pid, lost.pop(pid, SIGKILL)
            raise

    theirs.waitpid = waitpid
    try:
        subprocess = IMPORTED["subprocess"]
        if hasattr(subprocess, "_del_safe"):  # since Python 3.12
            subprocess._del_safe.waitpid = waitpid
        else:
            poll = subprocess.Popen._internal_poll
            poll.__defaults__ = tuple(waitpid if value is waited else value for value in poll.__defaults__)
    except BaseException:  # not imported, or altered by the code
        pass


def lost_threads(session):
    """For the first result, and for one of a call that waits for them."""
    if not orphan.lost_threads:
        return ()
    return ("native", session.guard([], "threads", load("threads").named, session) or "",
            "python", str(orphan.lost_threads.get(None, 0)))


def other_threads():
    """How many of the code's threads no copy will have."""
    if "threading" not in IMPORTED:
        return 0
    try:
        return IMPORTED["threading"].active_count() - 1
    except BaseException:  # altered by the code
        return 0


def fork(session, mask, children):
    """Returns the copy's pid, 0 if there is none, and None in a copy that has woken."""
    try:
        apart.note(session, mask)
        more = descriptors.are_more()
        if more:
            load("locks")  # once, and not in each copy
        return orphan.fork(sleep, (session, mask, children, more), not session.tied_to and not more)
    except BaseException:
        return 0


def sleep(woken, session, mask, children, more):
    """Sleeps until init signals that the session is gone; code of the session could send that signal too.

    woken: the first signal, if orphan.fork has waited for it.
    """
    if more:
        session.guard([], "descriptors", descriptors.with_spare, descriptors.let_go, session.pid)
    if woken is None:
        try:
            os.setsid()
        except OSError:
            pass
        load("opening").tie(session)
        load("native").set_title("sp-checkpoint")
    while True:
        if woken is None:
            sender = _signal.sigwaitinfo((orphan.WAKE, orphan.BRANCH))
            woken = sender.si_signo, sender.si_code, sender.si_pid
        (number, code, pid), woken = woken, None
        if code != SI_USER or pid != os.getppid():
            continue
        if number == orphan.BRANCH:
            branch.from_checkpoint(session, mask, children)
        else:
            load("native").set_title("sp-session-" + session.name)
            return


def drain(control):
    """Drops what the server sent to the dead session: it sends again what is still needed."""
    control.setblocking(False)
    try:
        while control.recv(1 << 16):
            pass
    except OSError:
        pass
    control.setblocking(True)
