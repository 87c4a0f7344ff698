"""The C side of an interpreter: its stdout is written line by line too, and flushed after each call.

The C half of ctypes alone loads in a fraction of a millisecond; ctypes itself would cost several.
"""
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


flush = find_flush()
