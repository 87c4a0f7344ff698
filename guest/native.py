"""The C side of an interpreter: makes its stdout line-buffered too, and flushes it after each call.

The C half of ctypes alone loads in a fraction of a millisecond; ctypes itself would take several.
"""
import os
from os import _exit, getppid
from time import sleep

try:
    from _ctypes import CFuncPtr, _SimpleCData, dlopen, dlsym

    library = dlopen(None, 0)
except (ImportError, OSError):
    library = None  # a trimmed Python

CDECL, PYTHON_API = 1, 4  # flags of a ctypes function
BY_LINES = 1  # _IOLBF
PROT_READ, MAP_PRIVATE, MAP_FAILED = 1, 2, 2 ** (8 * tuple.__itemsize__) - 1
MEMORY_READ = 0x100  # PyBUF_READ
GET_FLAGS = 3  # F_GETFL
COUNTS_MAX = 1 << 31  # above are the counts of what is never freed
SET_PDEATHSIG, SET_DUMPABLE, SIGKILL, SET_NAME = 1, 4, 9, 15
RESTRICT_SELF = 446  # the same on all architectures
LOG_SAME_EXEC_OFF = 1  # a flag


def functions(*names, **more):
    """Those of the C library, found once: a search reads pages that a fork has not; they do nothing in a Python without
    ctypes."""
    if not library:
        return [lambda *arguments: None] * len(names)
    kind = type("function", (CFuncPtr,), {"_flags_": CDECL, **more})
    return [kind(dlsym(library, name)) for name in names]


def simple(kind):
    """A type of ctypes by its letter in the module struct; an object: O."""
    return type("simple", (_SimpleCData,), {"_type_": kind})


def write_by_lines():
    if library:
        setvbuf(pointer.from_address(dlsym(library, "stdout")), None, BY_LINES, size(0))


def content(path, head=b""):
    """What a file that begins with head holds, for good; None if it begins otherwise. It is mapped where this process cannot
    write it: then it takes no memory until it is used, and all processes share its pages."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        length = os.fstat(fd).st_size
        if os.pread(fd, len(head), 0) != head:
            return None
        if library and length and not os.access(path, os.W_OK):
            address = mmap(None, size(length), PROT_READ, MAP_PRIVATE, fd, size(0))
            if address != MAP_FAILED:
                return memory(pointer(address), size(length), MEMORY_READ)
        return memoryview(os.read(fd, length))
    finally:
        os.close(fd)


def uncount(objects):
    """Gives objects the count of references that None has. Where Python counts none of None (PEP 683, since 3.12), it counts
    none of them either: to use one in a session no longer writes to a page, which would be a copy for each checkpoint. They
    must be meant to exist for good. Where the first four bytes of an object are not its count, this does nothing."""
    if not library:
        return
    count = simple("I").from_address
    probe, mark = [], count(id(None)).value
    before, more = count(id(probe)).value, [probe] * 5
    if count(id(probe)).value - before == len(more) and mark > COUNTS_MAX:
        for address in set(map(id, objects)):
            count(address).value = mark


def flush():
    fflush(None)


def confine(ruleset_fd):
    """Gives this process a Landlock domain of its own.

    From then on its code can neither signal the zygote and other sessions nor open their memory and descriptors in
    /proc (landlock(7): a domain reaches only itself and what is nested in it). The ruleset is init's: code cannot make
    any, and there is none where the kernel has no Landlock. Returns the call that failed, or None.
    """
    if ruleset_fd is None or not library:
        return None
    # Kernels before version 7 refuse the flag, and it is the only one.
    restricted = syscall(RESTRICT_SELF, ruleset_fd, LOG_SAME_EXEC_OFF)
    if restricted < 0:
        restricted = syscall(RESTRICT_SELF, ruleset_fd, 0)
    os.close(ruleset_fd)
    return "landlock_restrict_self" if restricted < 0 else None


def tie(parent, intermediate):
    """Makes this process end when its parent, pid 1 of the sandbox, does.

    With a pid namespace the kernel does that for all. The setting does not pass to a fork (prctl(2)): a fork calls this
    again. intermediate: the process that has forked this one and exits, or 0. The parent may have exited before the
    setting: then this process has another one, and ends by itself.
    """
    while getppid() == intermediate:
        sleep(0.001)
    prctl(SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if getppid() != parent:
        _exit(0)


def set_dumpable(dumpable):
    """Whether other processes of its user may open its files in /proc; forks inherit that, prctl(2)."""
    prctl(SET_DUMPABLE, int(dumpable), 0, 0, 0)


def set_title(title):
    """The name in ps, which the kernel truncates to 15 bytes; forks inherit it, prctl(2).

    Without a space: from 3.12 on os.fork counts threads by field 20 of /proc/self/stat, split at spaces.
    """
    prctl(SET_NAME, title.encode(), 0, 0, 0)


def flags_of(fd):
    """The access mode and the flags of an open file, as open(2) takes them. OSError: they are not known."""
    flags = fcntl(fd, GET_FLAGS, 0)
    if flags is None or flags < 0:
        raise OSError("unknown flags")
    return flags


setvbuf, fflush, syscall, prctl, fcntl, flock = functions("setvbuf", "fflush", "syscall", "prctl", "fcntl", "flock")
if library:
    pointer, size = simple("P"), simple("L")
    (mmap,) = functions("mmap", _restype_=pointer)
    (memory,) = functions("PyMemoryView_FromMemory", _flags_=CDECL | PYTHON_API, _restype_=simple("O"))
write_by_lines()
