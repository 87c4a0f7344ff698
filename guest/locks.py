"""Locks on files in a state of the session: a fork has none, and what it opens anew has none.

The copy notes what the session holds, and takes it again before it takes a call. Where another has it by then, the next
result says so.

SQLite trusts its locks: while it holds one, it takes what it knows of the database for true. So a connection that held one
is cut off for good if that is not given back, if one of its files is not there any more under its name, or, in a
transaction, has been written since. Its descriptors then hold the place alone, so that all that it tries fails, and memory
that it shares with other processes, which they may cut while it reads, gives way to memory of its own. If it is in a
variable, it is closed.
"""
import os
import stat
from struct import pack, unpack
from time import clock_gettime_ns, sleep

descriptors = load("descriptors")
frames = load("frames")
native = load("native")
KINDS = {b"READ": 0, b"WRITE": 1}  # F_RDLCK, F_WRLCK
FLOCKS = 1, 2  # LOCK_SH, LOCK_EX
GET, SET, FREE, AT_ONCE = 5, 6, 2, 4  # F_GETLK, F_SETLK, F_UNLCK, LOCK_NB
FLOCK = "hh4xqqi4x"  # struct flock
LOCKS_MAX, INFO_MAX = 100, 1 << 13  # of a file: locks, and bytes of the text about them
CLOCK_REALTIME_COARSE, TICK_MS = 5, 20  # the clock that stamps files, and the most that one of its steps takes
HEADER = b"SQLite format 3\0"
TRANSACTIONS = range(1 << 30, (1 << 30) + 512)  # where in a database SQLite locks
SHARED = (1 << 30) + 2  # what a reader locks there, and with a write-ahead log each connection
OPEN = 128  # the byte of a database's shared memory that each connection locks
BESIDE = "-wal", "-shm", "-journal"
READ_WRITE, PRIVATE_FIXED_ANONYMOUS = 3, 0x32  # mmap(2)
held = {}  # descriptor → [(whether by flock(2), kind, first byte, length)]
files = {}  # descriptor → (path, what it was), of the databases with locks
lost = {}  # descriptor → path: another has its lock now
cut = {}  # path of a database → the descriptors of its files
closed = {}  # path of a database as shown → None: connections to it were closed since the session began


def note(fds, maker):
    """By a fork of the process maker. fds: of regular files."""
    for table in held, files, lost, cut:
        table.clear()
    held.update((fd, rows) for fd in fds if (rows := locks_of(fd, maker)))
    databases = {path_of(fd) for fd, rows in held.items() if any(row[2] in TRANSACTIONS for row in rows)}
    if databases:
        files.update((fd, (path, os.fstat(fd))) for fd in fds if database_of(path := path_of(fd)) in databases)
        for _ in range(TICK_MS):  # a later change has another time
            if clock_gettime_ns(CLOCK_REALTIME_COARSE) > max(was.st_ctime_ns for _, was in files.values()):
                break
            sleep(0.001)


def locks_of(fd, pid):
    try:
        info = os.open("/proc/%d/fdinfo/%d" % (pid, fd), os.O_RDONLY)
    except OSError:
        return list(locks_seen(fd, pid))
    try:
        text = os.read(info, INFO_MAX)
    finally:
        os.close(info)
    if b"lock:" not in text:
        return ()
    rows = [line.split() for line in text.splitlines() if line.startswith(b"lock:")]
    return [(row[2] == b"FLOCK", KINDS[row[4]], int(row[7]), 0 if row[8] == b"EOF" else int(row[8]) - int(row[7]) + 1)
            for row in rows if len(row) == 9 and row[2] in (b"FLOCK", b"POSIX") and row[4] in KINDS]


def locks_seen(fd, pid):
    """Those of fcntl(2) alone, where there is no /proc, of the file: this descriptor can take them again if it is open for
    that. A process does not see its own."""
    start, mode = 0, native.flags_of(fd) & os.O_ACCMODE
    for _ in range(LOCKS_MAX):
        found = pack(FLOCK, KINDS[b"WRITE"], os.SEEK_SET, start, 0, 0)  # a new object, which the call may write to
        if native.fcntl(fd, GET, found) != 0:
            return
        kind, _, first, length, owner = unpack(FLOCK, found)
        if kind == FREE:
            return
        if owner == pid and mode != (os.O_RDONLY if kind else os.O_WRONLY):
            yield False, kind, first, length
        start = first + length
        if not length:
            return


def path_of(fd):
    return descriptors.names.get(fd) or descriptors.path_of(fd)


def database_of(path):
    return next((path[:-len(end)] for end in BESIDE if path.endswith(end)), path)


def is_database(path):
    try:
        with open(path, "rb", 0) as file:
            return file.read(len(HEADER)) == HEADER
    except OSError:
        return False


def take(fd, rows):
    """Whether all of them are free."""
    return all((native.flock(fd, FLOCKS[kind] | AT_ONCE) if whole else
                native.fcntl(fd, SET, pack(FLOCK, kind, os.SEEK_SET, first, length, 0))) == 0 for whole, kind, first, length in rows)


def take_again(replaced):
    """After all files are open again: to close any descriptor of one would give up its locks. replaced: databases that an
    undo has put others in the place of."""
    lost.update((fd, path_of(fd)) for fd, rows in held.items() if descriptors.is_open(fd) and not take(fd, rows))
    logged = {database_of(path) for path, _ in files.values() if path.endswith("-shm")}
    busy = {database_of(path) for fd, (path, _) in files.items() for _, kind, first, _ in held.get(fd, ()) if kind or first != (
        OPEN if path.endswith("-shm") else SHARED if path in logged else None)}
    cut_off({database_of(path) for fd, (path, was) in files.items()
             if fd in lost or not is_as_it_was(fd, path, was, database_of(path) in busy)} | replaced)
    files.clear()


def is_as_it_was(fd, path, was, is_busy):
    try:
        now = os.stat(path)
    except OSError:
        return False
    if not os.path.samestat(now, was) or not os.path.samestat(now, os.fstat(fd)):
        return False
    if path.endswith("-shm"):
        return all(now.st_size >= end for _, _, end in mappings_of(now.st_ino))
    return not is_busy or (now.st_size, now.st_ctime_ns) == (was.st_size, was.st_ctime_ns)


def mappings_of(inode):
    """(first address, size, end in the file) of each shared one."""
    try:
        with open("/proc/self/maps", "rb") as file:
            rows = [line.split(None, 5) for line in file]
    except OSError:
        return
    for row in rows:
        if int(row[4]) == inode and row[1].endswith(b"s"):
            first, last = (int(part, 16) for part in row[0].split(b"-"))
            yield first, last - first, int(row[2], 16) + last - first


def cut_off(databases):
    """Those that are open."""
    if not databases:
        return
    cut.update((path, set()) for path in databases)
    for fd in descriptors.all_open():
        if fd in descriptors.OURS or not stat.S_ISREG((what := os.fstat(fd)).st_mode) or database_of(path := path_of(fd)) not in databases:
            continue
        lost.pop(fd, None)
        cut[database_of(path)].add(fd)
        inheritable = os.get_inheritable(fd)
        mappings = list(mappings_of(what.st_ino)) if path.endswith("-shm") else []
        if not mappings:
            descriptors.put(fd, os.O_PATH, inheritable)
            continue
        for address, length, _ in mappings:
            native.mmap(native.pointer(address), native.size(length), READ_WRITE, PRIVATE_FIXED_ANONYMOUS, -1, native.size(0))
        os.dup2(frames.DEAD_FD, fd, inheritable)  # a lock on it succeeds: SQLite waits for no other process


def say(session, result):
    for fd, path in lost.items():
        names = descriptors.names_of(session, {fd})
        result += ("note", "%sanother has the lock on %s now" % (names and names + ": ", short(session, path)))
    for path, fds in cut.items():
        module = IMPORTED.get("sqlite3")
        own = [each for each in descriptors.found(session, module.Connection) if path in databases_of(module, each)] if module else []
        names = descriptors.named(session, lambda value: descriptors.holds(value, fds) or any(value is each for each in own))
        for each in own:
            session.guard([], "a connection", module.Connection.close, each)
        if own:
            closed[short(session, path)] = None
        result += ("note", "%s%s: connections to it from before this call have lost their locks or files and are closed; close any "
                   "that is held elsewhere, then connect again" % (names and names + ": ", short(session, path)))
    lost.clear()
    cut.clear()


def short(session, path):
    return path.removeprefix(session.root + "/")


def databases_of(module, connection):
    try:
        return [row[2] for row in module.Cursor(connection).execute("pragma database_list")]
    except BaseException:  # it is closed, or altered by the code
        return ()
