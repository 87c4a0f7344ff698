"""The C side of an interpreter: its stdout is written line by line too, and flushed after each call.

The C half of ctypes alone loads in a fraction of a millisecond; ctypes itself would cost several.
"""
import os
import time

BY_LINES = 1  # _IOLBF


def find_flush():
    """A function that calls fflush(NULL), or None where this Python has no ctypes."""
    try:
        from _ctypes import _SimpleCData, call_function, dlopen, dlsym

        program = dlopen(None, 0)
        fflush, setvbuf, stdout = (dlsym(program, name) for name in ("fflush", "setvbuf", "stdout"))
        pointer = type("pointer", (_SimpleCData,), {"_type_": "P"})
        size = type("size", (_SimpleCData,), {"_type_": "L"})
        file = pointer.from_address(stdout)
    except (ImportError, OSError):
        return None
    call_function(setvbuf, (file, None, BY_LINES, size(0)))
    return lambda: call_function(fflush, (None,))


def find_confine():
    """A function that gives this process a Landlock domain of its own, or None without ctypes.

    From then on its code can neither signal the zygote and other sessions nor open their memory and
    descriptors in /proc (landlock(7): a domain reaches only itself and what is nested in it). Where the
    kernel has no Landlock, nothing changes. The ruleset is init's: code cannot make any. The function returns the
    call that was refused, or None.
    """
    try:
        from _ctypes import call_function, dlopen, dlsym

        syscall = dlsym(dlopen(None, 0), "syscall")
    except (ImportError, OSError):
        return None

    def call(*arguments):
        return call_function(syscall, arguments)

    def confine(ruleset_fd):
        # The flag is refused before version 7, and is the only one.
        restricted = call(RESTRICT_SELF, ruleset_fd, LOG_SAME_EXEC_OFF)
        if restricted < 0:
            restricted = call(RESTRICT_SELF, ruleset_fd, 0)
        os.close(ruleset_fd)
        return "landlock_restrict_self" if restricted < 0 else None

    return confine


def find_prctl():
    """prctl(2), or None without ctypes."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        function = dlsym(dlopen(None, 0), "prctl")
    except (ImportError, OSError):
        return None
    return lambda option, value: call_function(function, (option, value, 0, 0, 0))


def tie(parent):
    """Makes this process end when its parent does, pid 1 of the sandbox.

    With a pid namespace the kernel does that for all. A fork is not tied (prctl(2)): it asks again, once a
    process in between has left it to its new parent.
    """
    for _ in range(TIE_LOOKS):
        if prctl is None:
            return
        if os.getppid() == parent:
            prctl(SET_PDEATHSIG, SIGKILL)
            return
        time.sleep(0.001)


def set_dumpable(dumpable):
    """Whether others of its user may open what /proc shows of this process; forks inherit that, prctl(2)."""
    if prctl is not None:
        prctl(SET_DUMPABLE, int(dumpable))


TIE_LOOKS = 1000
SET_PDEATHSIG, SET_DUMPABLE, SIGKILL = 1, 4, 9
RESTRICT_SELF = 446  # the same on all architectures
LOG_SAME_EXEC_OFF = 1  # a flag
flush = find_flush()
confine = find_confine()
prctl = find_prctl()
