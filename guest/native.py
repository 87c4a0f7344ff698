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
        refer = REFER.to_bytes(8, sys.byteorder)
        scopes = (3).to_bytes(8, sys.byteorder)  # abstract sockets and signals, from version 6
        fd = call_function(syscall, (CREATE_RULESET, refer + bytes(8) + scopes, 24, 0))
        if fd < 0:
            fd = call_function(syscall, (CREATE_RULESET, refer, 8, 0))
        if fd < 0:  # version 1: a right that is refused anyway makes a domain all the same
            fd = call_function(syscall, (CREATE_RULESET, MAKE_CHAR.to_bytes(8, sys.byteorder), 8, 0))
        else:
            root = os.open("/", os.O_PATH)
            rule = refer + root.to_bytes(4, sys.byteorder)
            call_function(syscall, (ADD_RULE, fd, PATH_BENEATH, rule, 0))
            os.close(root)
        if fd >= 0:
            call_function(syscall, (RESTRICT_SELF, fd, 0))
            os.close(fd)

    return confine


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
PATH_BENEATH, MAKE_CHAR, REFER = 1, 1 << 6, 1 << 13  # every domain refuses REFER that does not allow it
flush = find_flush()
confine = find_confine()
