"""Forks a process that is a child not of this one but of its parent: code can neither wait for it nor meet it.

With one thread that is one clone(2) with CLONE_PARENT. The C library's fork would cost an intermediate process and its
atfork handlers; but one thread leaves no lock that another holds, and what Python must reset in the child can wait
until the child is needed. With more threads, or in a Python without ctypes, an intermediate process forks the child and
exits.
"""
import os
import sys
import _signal

CALLS = {"x86_64": (56, 247, 112, 157, 128), "aarch64": (220, 95, 157, 167, 137)}
# Of clone, waitid, setsid, prctl and rt_sigtimedwait.
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, SIGCHLD = 0x8000, 0x200000, 0x1000000, 17
PR_GET_TID_ADDRESS, PR_SET_NAME = 40, 15  # where the C library keeps the id of its main thread, prctl(2)
IGNORE = ("ignore", None, Warning, None, 0)  # a row of warnings.filters
PEEK = os.WEXITED | os.WNOHANG | os.WNOWAIT
WAKE, BRANCH = _signal.SIGUSR2, _signal.SIGUSR1  # what a checkpoint waits for
CDECL, WITH_THE_LOCK = 1, 4  # flags of a ctypes function; the second keeps the interpreter's lock
ONE_THREAD = 3  # links of /proc/self/task: its name, ".", and one thread's ".."


def find_clone():
    """(before, after_in_parent, after_in_child, syscall), then its arguments for clone, for waitid and for what suspends a
    process, and the siginfo_t that this fills in; or None where clone(2) cannot be used directly."""
    try:
        from _ctypes import Array, CFuncPtr, _SimpleCData, byref, dlopen, dlsym

        program = dlopen(None, 0)
        long = type("long", (_SimpleCData,), {"_type_": "l"})
        info = type("info", (Array,), {"_type_": type("int", (_SimpleCData,), {"_type_": "i"}), "_length_": 32})()
        kind = type("function", (CFuncPtr,), {"_flags_": CDECL | WITH_THE_LOCK, "_restype_": long})
        names = ("syscall", "prctl", "PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child")
        syscall, prctl, before, after_in_parent, after_in_child = [kind(dlsym(program, name)) for name in names]
        machine = os.uname().machine
        (number, peek, leave, name, wait), where, zero = map(long, CALLS[machine]), long(0), long(0)
        if prctl(PR_GET_TID_ADDRESS, byref(where), zero, zero, zero) or not where.value:
            return None
    except (ImportError, OSError, KeyError, AttributeError):
        return None
    flags = long(CLONE_PARENT | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD)
    last = (zero, where) if machine == "aarch64" else (where, zero)  # of CONFIG_CLONE_BACKWARDS, clone(2)
    signals = long(1 << WAKE - 1 | 1 << BRANCH - 1)
    return (before, after_in_parent, after_in_child, syscall, (number, flags, zero, zero) + last,
            (peek, zero, zero, zero, long(PEEK), zero), (leave,),
            (name, long(PR_SET_NAME), b"sp-checkpoint"), (wait, byref(signals), info, zero, long(8)), info)


native = find_clone()
ended = []  # pids of intermediate processes
lost_threads = {}  # library, or None for Python → how many threads of it this process lacks, see threads.py
delayed = False  # this process sleeps, and has not reset what Python must reset after a fork
intermediate = 0  # the one that has forked this process; 0: none


def has_one_thread():
    try:
        return os.stat("/proc/self/task").st_nlink == ONE_THREAD
    except OSError:
        return False


def is_left_alone():
    """Whether no thread is left once the native libraries that can have ended theirs."""
    try:
        load("threads").pause()
    except BaseException:  # also of an audit hook of the code's
        pass
    return has_one_thread()


def native_threads():
    try:
        return load("threads").found()
    except BaseException:  # altered by the code
        return {}


def has_children():
    if native is not None:
        return native[3](*native[5]) >= 0  # usually there is none, and an exception writes to several pages
    try:
        os.waitid(os.P_ALL, 0, PEEK)
    except OSError:
        return False
    return True


def fork(sleep=None, arguments=(), suspended=False):
    """Returns the new process's pid, and None in that process once sleep(woken, *arguments) has returned. Call wait() then.

    CPython reseeds `random` in a fork: after a sleep it has its old state. OSError: cannot create a process.
    suspended: the process may leave its group, take the name of a checkpoint and wait for a signal before anything else.
    Then woken is that signal, its code and its sender, else None.
    """
    if native is None or not has_one_thread() and not is_left_alone():
        return fork_twice(sleep, arguments)
    before, after_in_parent, after_in_child, syscall, clone, _, leave, name, wait, info = native
    before()
    pid = syscall(*clone)
    if pid:
        after_in_parent()
        if pid < 0:
            raise OSError("cannot create a process")
        return pid
    woken = None
    if suspended:  # by local names alone: what else it uses it has to copy
        syscall(*leave)
        syscall(*name)
        number = syscall(*wait)
        woken = (number, info[2], info[4]) if number > 0 else None
    global intermediate, delayed
    intermediate = 0
    if sleep is None:
        after_in_child()
        return None
    delayed = True
    sleep(woken, *arguments)
    return resumed()


def resumed():
    global delayed
    delayed = False
    after_in_child = native[2]
    random, seeds = random_state()
    after_in_child()
    restore(random, seeds)
    return None


def fork_suspended():
    """The same from within sleep(), for a process that does not sleep: the caller goes on sleeping."""
    if not delayed:  # it was forked twice
        return fork_twice(lambda woken: None)
    pid = native[3](*native[4])
    if pid < 0:
        raise OSError("cannot create a process")
    return pid or resumed()


def fork_twice(sleep, arguments=()):
    global intermediate
    random, seeds = random_state() if sleep is not None else (None, None)
    try:
        load("heal").before_fork()
    except BaseException:  # as above
        pass
    threads = native_threads() if sleep is not None else {}
    reading, writing = os.pipe()
    try:
        pid = fork_quietly()
        if pid:
            ended.append(pid)
            os.close(writing)
            writing = -1
            pid_bytes = os.read(reading, 4)  # not its exit, which takes long with a large state
            pid = int.from_bytes(pid_bytes, sys.byteorder, signed=True)
            if pid <= 0:  # said, because a child of another thread may hold the pipe open
                raise OSError("cannot create a process")
            return pid
        intermediate = os.getpid()
        try:
            pid = fork_quietly()
        except BaseException:  # also of an audit hook of the code's
            pid = -1
        if pid:
            os.write(writing, pid.to_bytes(4, sys.byteorder, signed=True))
            os._exit(0)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if sleep is not None:
        lost_threads.update(threads)
        sleep(None, *arguments)
    del ended[:]
    restore(random, seeds)
    return None


def fork_quietly():
    """Python and libraries warn of a fork beside threads, which is not the code's."""
    filters = getattr(IMPORTED.get("warnings"), "filters", None)
    if type(filters) is not list:
        return os.fork()
    filters.insert(0, IGNORE)
    try:
        return os.fork()
    finally:
        filters[:] = [each for each in filters if each is not IGNORE]


def wait():
    """Reaps the intermediate processes, so that no code meets them."""
    while ended:
        try:
            os.waitpid(ended.pop(), 0)
        except OSError:
            pass  # the code ignores SIGCHLD


def random_state():
    random = IMPORTED.get("random")
    try:
        return random, random.getstate()
    except BaseException:  # not imported, or replaced by the code
        return None, None


def restore(random, seeds):
    try:
        random.setstate(seeds)
    except BaseException:  # as above
        pass
