"""Runs inside the sandbox before every attack: the functions that the attacks use."""
import ctypes, errno, fcntl, glob, os, platform, resource, signal, socket, stat, struct, sys, time

LIBC = ctypes.CDLL(None, use_errno=True)


def attempt(action, *args):
    """Prints the outcome of one attempt: "denied EPERM" or "allowed <value>"."""
    try:
        value = action(*args)
    except OSError as error:
        print("denied", errno.errorcode.get(error.errno, error.errno))
    except (ValueError, AttributeError) as error:
        print("denied", type(error).__name__)
    else:
        print("allowed", str(value)[:300])


def syscall(number, *args):
    ctypes.set_errno(0)
    value = LIBC.syscall(ctypes.c_long(number), *[
        arg if isinstance(arg, (bytes, ctypes.Array)) or arg is None or hasattr(arg, "_obj")
        else ctypes.c_long(arg) for arg in args])
    if value == -1:
        raise OSError(ctypes.get_errno(), "system call")
    return value


def read(path, size=65536):
    with open(path, "rb", buffering=0) as file:
        return file.read(size)


def write(path, data=b"x", mode="wb"):
    with open(path, mode, buffering=0) as file:
        return file.write(data)


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.settimeout(2)
        sock.connect(address)
        sock.send(b"x")
        return "connected"


def status(name):
    """A field of this process's /proc/self/status; where /proc is missing, the same fact from a system call."""
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split(":")[1].strip()


def check(value):
    """The value of a libc call, or the error that it set."""
    if value == -1 or value == 0xffffffffffffffff:
        raise OSError(ctypes.get_errno(), "libc call")
    return value
