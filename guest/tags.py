"""The numbers by which init knows a session's processes: resource limits, which code can only lower.

See WIRE_TAG_SUM in sandbox/protocol/init_protocol.h.
"""
try:
    from resource import RLIMIT_MSGQUEUE, getrlimit as get_limit, setrlimit as set_limit
except ImportError:  # a trimmed Python
    set_limit = None

RLIMIT_LOCKS = 10  # without effect since Linux 2.4
SUM, BRANCHES, BRANCH_SHIFT = 1 << 40, 64, 16


def mark(tag):
    """Sets the tag of this session."""
    try:
        set_limit(RLIMIT_MSGQUEUE, (tag, tag))
        set_limit(RLIMIT_LOCKS, (0, SUM - tag * BRANCHES))
    except (OSError, TypeError, ValueError):
        pass


def narrow(tag):
    """Sets the tag of a branch of this session."""
    try:
        branch = tag >> BRANCH_SHIFT
        set_limit(RLIMIT_LOCKS, (0, SUM - (tag & (1 << BRANCH_SHIFT) - 1) * BRANCHES - branch))
    except (OSError, TypeError, ValueError):
        pass


def mark_cell(cell):
    """Sets the number by which init knows what a cell has started; 0: between cells. Processes inherit it."""
    try:
        set_limit(RLIMIT_LOCKS, (cell, get_limit(RLIMIT_LOCKS)[1]))
    except (OSError, TypeError, ValueError):
        pass
