"""The numbers by which init knows a session's processes: resource limits, which code can only lower.

See WIRE_TAG_SUM in sandbox/protocol/init_protocol.h.
"""
try:
    from resource import RLIMIT_MSGQUEUE, RLIMIT_NOFILE, RLIMIT_NPROC, getrlimit as get_limit, setrlimit as set_limit
except ImportError:  # a trimmed Python
    set_limit = get_limit = None

RLIMIT_LOCKS = 10  # without effect since Linux 2.4
SUM, BRANCHES, BRANCH_SHIFT = 1 << 40, 64, 16
SPARE = 8  # LIMIT_PIDS_SPARE in base/limits.h
hard = None  # the limit that belongs to the tag
files = None  # how many files a session may have open
processes = None  # how many there may be before code can start no more, then before nobody can; None: nothing tells them apart


def widen():
    """For the zygote: code of any sandbox of this user may have as many descriptors in flight as a session may have files
    open, and with that limit it could pass none to a session then, unix(7)."""
    global files
    try:
        files, most = get_limit(RLIMIT_NOFILE)
        set_limit(RLIMIT_NOFILE, (most, most))
    except (OSError, TypeError, ValueError):
        pass


def mark(tag, most):
    """Sets the limits of this session, and its tag. most: processes, of code."""
    global processes
    try:
        last = get_limit(RLIMIT_NPROC)[1]
        processes = (most, last) if most < last <= most + SPARE else None
        set_limit(RLIMIT_NOFILE, (files, files))
        set_limit(RLIMIT_MSGQUEUE, (tag, tag))
    except (OSError, TypeError, ValueError):
        return
    number(SUM - tag * BRANCHES)


def narrow(tag):
    """Sets the tag of a branch of this session."""
    number(SUM - (tag & (1 << BRANCH_SHIFT) - 1) * BRANCHES - (tag >> BRANCH_SHIFT))


def number(limit):
    global hard
    hard = limit
    mark_cell(0)


def mark_cell(cell):
    """Sets the number by which init knows what a cell has started; 0: between cells. Processes inherit it.

    Between cells the driver may fork when code may not: a checkpoint or a branch.
    """
    try:
        set_limit(RLIMIT_LOCKS, (cell, hard))
        if processes:
            now, last = get_limit(RLIMIT_NPROC)
            if last == processes[1] and now in processes:  # else the code has set its own
                set_limit(RLIMIT_NPROC, (processes[0] if cell else last, last))
    except (OSError, TypeError, ValueError):
        pass
