"""Forks a process that is no child of ours but of our parent: code can neither wait for it nor meet it.

With one thread that is one clone(2) with CLONE_PARENT. The C library's fork would cost a process in
between and its atfork handlers; but one thread leaves no lock that another holds, and what Python has to
put in order in the child can wait until the child is needed. With more threads, or in a Python without
ctypes, a process in between forks the child and ends.
"""
import os
import sys

CLONE = {"x86_64": 56, "aarch64": 220}
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, SIGCHLD = 0x8000, 0x200000, 0x1000000, 17
PR_GET_TID_ADDRESS = 40  # where the C library keeps the number of its main thread, prctl(2)
CDECL, WITH_THE_LOCK = 1, 4  # flags of a ctypes function; the second: the interpreter's lock stays ours
ONE_THREAD = 3  # links of /proc/self/task: its name, ".", and one thread's ".."


def find_clone():
    """(before, clone, after_in_parent, after_in_child), or None where the short way is closed."""
    try:
        from _ctypes import CFuncPtr, _SimpleCData, byref, dlopen, dlsym

        program = dlopen(None, 0)
        long = type("long", (_SimpleCData,), {"_type_": "l"})
        kind = type("function", (CFuncPtr,), {"_flags_": CDECL | WITH_THE_LOCK, "_restype_": long})
        names = ("syscall", "prctl", "PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child")
        syscall, prctl, before, after_in_parent, after_in_child = [kind(dlsym(program, name)) for name in names]
        machine = os.uname().machine
        number, where, zero = long(CLONE[machine]), long(0), long(0)
        if prctl(PR_GET_TID_ADDRESS, byref(where), zero, zero, zero) or not where.value:
            return None
    except (ImportError, OSError, KeyError, AttributeError):
        return None
    flags = long(CLONE_PARENT | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD)
    last = (zero, where) if machine == "aarch64" else (where, zero)  # of CONFIG_CLONE_BACKWARDS, clone(2)
    arguments = (number, flags, zero, zero) + last
    return before, lambda: syscall(*arguments), after_in_parent, after_in_child


native = find_clone()
ended = []  # pids of processes in between


def has_one_thread():
    try:
        return os.stat("/proc/self/task").st_nlink == ONE_THREAD
    except OSError:
        return False


def fork(sleep=None):
    """Returns the new process's pid, and in there None, when sleep() has returned. Then settle().

    CPython reseeds `random` in a fork: after a sleep it is as it was. OSError: no process could be made.
    """
    if native is None or not has_one_thread():
        return fork_twice(sleep)
    before, clone, after_in_parent, after_in_child = native
    before()
    pid = clone()
    if pid:
        after_in_parent()
        if pid < 0:
            raise OSError("no process could be made")
        return pid
    if sleep is None:
        after_in_child()
        return None
    sleep()
    random, seeds = random_state()
    after_in_child()
    if random is not None:
        random.setstate(seeds)
    return None


def fork_twice(sleep):
    random, seeds = random_state() if sleep is not None else (None, None)
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid:
            ended.append(pid)
            os.close(writing)
            writing = -1
            told = os.read(reading, 4)  # not its end: to give back a big state takes it long
            if not told:
                raise OSError("no process could be made")
            return int.from_bytes(told, sys.byteorder)
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(writing, pid.to_bytes(4, sys.byteorder))
            os._exit(0)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if sleep is not None:
        sleep()
    del ended[:]
    if random is not None:
        random.setstate(seeds)
    return None


def settle():
    """Waits for the processes in between: no code may meet them."""
    while ended:
        try:
            os.waitpid(ended.pop(), 0)
        except OSError:
            pass  # the code ignores SIGCHLD


def random_state():
    random = sys.modules.get("random")
    try:
        return random, random.getstate()
    except Exception:  # there is none, or the code has put something else in its place
        return None, None
