"""Branches: a copy of a session for one cell, beside the session.

The server sends the branch's descriptors on the session's socket. An idle session forks the branch itself; while a cell
runs, the server wakes the checkpoint of the state before it, which takes the frame in its place and goes on sleeping.
"""
import os
import time
import _signal
import _socket

HEAD = b"\6\0\0\0branch"  # of a frame, behind its size
frames = load("frames")
orphan = load("orphan")


def take(control):
    """(fields, descriptors) of the frame that waits, or None: the session was quicker, and the next may be its own."""
    fds = []
    try:
        if control.recv(len(HEAD) + 4, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)[4:] != HEAD:
            return None
        data, ancillary, _, _ = control.recvmsg(1 << 16, frames.FDS_SPACE, frames.MSG_CMSG_CLOEXEC | _socket.MSG_DONTWAIT)
        fds = frames.descriptors(ancillary)
        verb, fields = frames.unpack(data, 4)
        if verb == "branch" and len(fds) == frames.FDS_MAX - 1:
            return fields, fds
    except (OSError, ValueError, StopIteration):
        pass
    frames.close(fds)
    return None


def fork(session, taken, mask, children, fork_process):
    """Returns in the session or its checkpoint; the branch serves its own socket until it ends.

    mask, children: the signals that the session blocks, and the status of its children.
    """
    fields, fds = taken
    pid = 0
    for pause in load("zygote").PAUSES_S:  # processes of earlier branches may still be ending
        try:
            pid = fork_process()
            break
        except BaseException:  # no more processes: at last the server learns it when the descriptors are closed
            time.sleep(pause)
    if pid is None:
        try:
            serve(session, fields, fds, mask, children)
        finally:
            os._exit(frames.EXIT_FAILED)
    frames.close(fds)


def serve(session, fields, fds, mask, children):
    own, checkpoint, opening = load("session"), load("checkpoint"), load("opening")
    session.pid = os.getpid()
    try:
        os.setsid()
    except OSError:
        pass
    own.tags.narrow(int(fields["tag"]))
    opening.tie(session)
    opening.connect(session, fds)
    session.name = fields.get("name", b"").decode("utf-8", "replace")
    load("native").set_title("sp-session-" + session.name)
    checkpoint.forget_helpers()
    checkpoint.lose(children)
    load("descriptors").come_back(session)
    control = _socket.socket(fileno=frames.SESSION_FD)
    control.setblocking(True)
    session.control = control
    session.send(control, ("hello", "pid", str(session.pid)))
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
    session.serve(control, session.inode)


def fork_apart(session, fds, mask):
    descriptors = load("descriptors")
    load("apart").note(session, mask)
    return orphan.fork(lambda _: session.guard([], "descriptors", descriptors.with_spare, descriptors.let_go, session.pid, fds))


def from_session(session, fields, fds):
    """An idle session was asked for a branch."""
    mask = _signal.pthread_sigmask(_signal.SIG_SETMASK, load("checkpoint").ALL_SIGNALS)
    fork(session, (fields, fds), mask, load("checkpoint").children_status(), lambda: fork_apart(session, fds, mask))
    orphan.wait()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)


def from_checkpoint(session, mask, children):
    """A checkpoint was woken for a branch, or for several: a signal that is pending already is not sent again."""
    taken = take(session.control)
    while taken is not None:
        fork(session, taken, mask, children, orphan.fork_suspended)
        orphan.wait()  # else each branch leaves a dead process until the session ends
        taken = take(session.control)
