"""The C side of an interpreter: its stdout is written line by line too, and flushed after each call.

The C half of ctypes alone loads in a fraction of a millisecond; ctypes itself would cost several.
"""
import os
import sys

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
    kernel has no Landlock, nothing changes.
    """
    try:
        from _ctypes import call_function, dlopen, dlsym

        syscall = dlsym(dlopen(None, 0), "syscall")
    except (ImportError, OSError):
        return None

    def confine():
        none, scopes = bytes(8), (3).to_bytes(8, sys.byteorder)  # abstract sockets and signals
        fd = call_function(syscall, (CREATE_RULESET, none + none + scopes, 24, 0))
        if fd < 0:  # before version 6; a right that is refused anyway makes a domain all the same
            fd = call_function(syscall, (CREATE_RULESET, (64).to_bytes(8, sys.byteorder), 8, 0))
        if fd >= 0:
            call_function(syscall, (RESTRICT_SELF, fd, 0))
            os.close(fd)

    return confine


CREATE_RULESET, RESTRICT_SELF = 444, 446  # the same on all architectures
flush = find_flush()
confine = find_confine()
