"""The C side of an interpreter: buffers of C stdio, and the modules in C that sessions need.

The C half of ctypes alone loads in a fraction of a millisecond; ctypes itself would cost several.
"""
import _posixsubprocess  # noqa: F401, warm for streams.py
import resource  # noqa: F401, warm for session.py


def find_flush():
    """A function that calls fflush(NULL), or None where this Python has no ctypes."""
    try:
        from _ctypes import call_function, dlopen, dlsym

        address = dlsym(dlopen(None, 0), "fflush")
    except (ImportError, OSError):
        return None
    return lambda: call_function(address, (None,))


flush = find_flush()
