"""What a state of the session keeps of open descriptors, so that what the session closes is closed.

A fork shares each open file description with its session: a checkpoint that merely slept would keep readers of a pipe
waiting, and ports and locks taken, and its positions in files would move on with the session. So before it sleeps it
lets go, and opens anew when it comes back:

- Of a regular file, and of a pipe with both ends in the session, it holds the place alone (O_PATH): no lock, no position,
  no reader and no writer. It knows how and where each was open.
- A pair of sockets with both ends in the session, such as an event loop's own, becomes a new pair with the same in it, a
  counter (eventfd) a new one, and an epoll instance a new one that watches the same.
- Of any other pipe, socket or terminal a dead socket takes the number, which reads as the end of a file: who is at the
  other end belongs to the session, and ends with it. The next result names the variables.

What has no other end (directories, devices) stays shared; where a later call can have changed what it is (counters, timers,
watches), the next result names it.
"""
import os
import stat
import _signal
import _socket
from _io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from select import POLLNVAL, epoll, poll
from struct import pack

frames = load("frames")
native = load("native")
OURS = frozenset((0, 1, 2, *frames.RESERVED))
SAME_DESCRIPTION = 1027  # F_DUPFD_QUERY, since Linux 6.10
NOT_AGAIN = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW | os.O_TMPFILE
TERMINALS = (5, *range(136, 144))  # major numbers of /dev/ptmx and /dev/pts
EPOLL_CTL = {"x86_64": (233, "=IQ"), "aarch64": (21, "@IQ")}  # a struct epoll_event is packed on the first alone
ADD = 1  # EPOLL_CTL_ADD
PEEK = _socket.MSG_PEEK | _socket.MSG_DONTWAIT
IN_PAIR_MAX = 1 << 20  # bytes that are looked for in an end of a pair
POOLS = "multiprocessing.pool.Pool", "multiprocessing.pool.ThreadPool"
SHOWN = 5  # variables whose connections do not come back
VARIABLES, WIDTH, DEPTH = 2000, 100, 3  # of the search for them
NUMBERS = ("fd", "_fd", "_handle", "child_fd", "_inotify_fd")  # attributes that hold a descriptor as a number
HOLDERS = (_socket.socket, FileIO, BufferedReader, BufferedWriter, BufferedRandom, TextIOWrapper)
places = {}  # descriptor → (flags, position or None, whether children inherit it, of which it is a duplicate or None)
pairs = []  # (type, and for each end its descriptors, whether it blocks, and what is in it)
watches = {}  # descriptor of an epoll instance → what it watches, or None if that is not known
counters = {}  # descriptor of an eventfd → (what it counts, flags)
shared = {}  # descriptor of what all states have in common → what it is
later = {}  # of places: regular files, which the first call opens
names = {}  # of regular files among them → the path that it had
gone = {}  # descriptor → whether who reads it takes the end of a file for what it is


def prepare(null):
    """Takes the driver's numbers, before code can get one of them."""
    for fd in frames.RESERVED:
        os.dup2(null, fd, False)
    ours, theirs = _socket.socketpair()
    theirs.close()
    os.dup2(ours.fileno(), frames.DEAD_FD, False)
    ours.close()


def all_open():
    """The descriptors of this process. Where it may not list them, it asks for each number that it can have."""
    try:
        return [fd for fd in map(int, os.listdir("/proc/self/fd")) if is_open(fd)]
    except OSError:
        numbers, most = poll(), os.sysconf("SC_OPEN_MAX")
        for fd in range(most):
            numbers.register(fd, 0)
        return sorted(set(range(most)).difference(fd for fd, event in numbers.poll(0) if event & POLLNVAL))


def is_open(fd):
    try:
        return os.fstat(fd) is not None
    except OSError:
        return False  # the one that has listed them


def are_more():
    """Whether code may have any open."""
    try:
        count = os.stat("/proc/self/fd").st_size  # 0 before Linux 6.2
    except OSError:
        count = 0
    return (count or len(all_open())) != len(OURS)


def with_spare(step, *arguments):
    """Calls step; two descriptors are free for it, however many the code has open."""
    try:
        frames.close(frames.SPARE_FDS)
        step(*arguments)
    finally:
        for fd in frames.SPARE_FDS:
            os.dup2(frames.NULL_FD, fd, False)


def let_go(maker, keep=()):
    """In a fork of the process maker. keep: what the fork needs itself."""
    locks, waiting = load("locks"), dict(later)  # the maker is itself a state that no call has used yet
    kept = {fd: rows for fd, rows in locks.held.items() if fd in waiting}, {fd: row for fd, row in locks.files.items() if fd in waiting}
    for table in places, pairs, watches, counters, shared, later:
        table.clear()
    dead = os.fstat(frames.DEAD_FD)
    found = {fd: os.fstat(fd) for fd in all_open() if fd not in OURS and fd not in keep}
    kinds = {fd: kind_of(fd, what, maker) for fd, what in found.items() if not os.path.samestat(what, dead)}
    find_whole(kinds, found)
    placed = [fd for fd, kind in kinds.items() if kind == "place"]
    note_places(placed, found)
    locks.note([fd for fd in placed if stat.S_ISREG(found[fd].st_mode)], maker)
    for fd, kind in kinds.items():
        inheritable = os.get_inheritable(fd)
        if kind == "place":
            put(fd, os.O_PATH, inheritable)
        elif kind:
            if kind != "whole":
                gone[fd] = is_stream(fd)
            os.dup2(frames.DEAD_FD, fd, inheritable)
    places.update(waiting)
    locks.held.update(kept[0])
    locks.files.update(kept[1])


def kind_of(fd, found, maker):
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return "" if native.flags_of(fd) & os.O_PATH else "place"
    if stat.S_ISFIFO(mode):
        return "pipe" if found.st_dev == os.fstat(frames.OUT_FD).st_dev else "end"  # one with a name
    if stat.S_ISCHR(mode):
        return "end" if os.major(found.st_rdev) in TERMINALS else ""
    if stat.S_ISSOCK(mode):
        return "pair" if is_of_pair(fd, maker) else "end"
    if not stat.S_IFMT(mode):
        kind = os.readlink("/proc/self/fd/%d" % fd).removeprefix("anon_inode:").strip("[]")
        if kind == "eventpoll":
            watches[fd] = watched_by(fd)
        elif kind == "eventfd" and hasattr(os, "eventfd") and (lines := lines_about(fd)):
            values = {words[0]: words[-1] for words in lines}
            counters[fd] = int(values[b"eventfd-count:"], 16), native.flags_of(fd) & os.O_NONBLOCK | int(
                values.get(b"eventfd-semaphore:", b"0"))
        elif kind in ("eventfd", "timerfd", "inotify"):
            shared[fd] = kind
    return ""


def of_socket(fd, what):
    socket = _socket.socket(fileno=os.dup(fd))
    try:
        return what(socket)
    finally:
        socket.close()


def is_of_pair(fd, maker):
    """Whether that process has made it by socketpair(2): then neither end has a name, unix(7)."""
    return of_socket(fd, lambda socket: socket.family == _socket.AF_UNIX and not socket.getsockname() and socket.getsockopt(
        _socket.SOL_SOCKET, _socket.SO_PEERCRED, 4) == pack("=i", maker) and not name_of_peer(socket))


def name_of_peer(socket):
    try:
        return socket.getpeername()
    except OSError:
        return ""  # it is not connected any more


def is_stream(fd):
    return not stat.S_ISSOCK(os.fstat(fd).st_mode) or of_socket(fd, lambda socket: (
        socket.type == _socket.SOCK_STREAM and not socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN)))


def find_whole(kinds, found):
    """Pipes and pairs with both ends in this process."""
    ends = {}
    for fd, kind in kinds.items():
        if kind in ("pipe", "pair"):
            end = native.flags_of(fd) & os.O_ACCMODE if kind == "pipe" else kind
            ends.setdefault((found[fd].st_ino, end), []).append(fd)
    seconds = set()  # of pairs: what comes right after one is the first of another
    for (inode, end), fds in sorted(ends.items(), key=lambda item: item[0][0]):
        # socketpair(2) makes one socket right after the other.
        other = ends.get({os.O_RDONLY: (inode, os.O_WRONLY), "pair": (inode + 1, "pair")}.get(end))
        if not other or (inode, end) in seconds:
            continue
        seconds.add((inode + 1, end))
        if end != "pair":
            kinds.update(dict.fromkeys(fds + other, "place"))
        elif None in watches.values():
            kinds.update(dict.fromkeys(fds + other, ""))  # an epoll instance that cannot be made anew watches this pair
        else:
            kinds.update(dict.fromkeys(fds + other, "whole"))
            pairs.append((of_socket(fds[0], lambda socket: socket.type), snapshot(fds), snapshot(other)))


def snapshot(fds):
    """Of one end of a pair."""
    return [(fd, os.get_inheritable(fd)) for fd in fds], os.get_blocking(fds[0]), of_socket(fds[0], content)


def content(socket):
    try:
        return socket.recv(IN_PAIR_MAX, PEEK)  # of datagrams the first
    except OSError:
        return b""


def note_places(fds, found):
    for at, fd in enumerate(fds):
        others = (other for other in fds[:at] if os.path.samestat(found[other], found[fd]))
        twin = next((other for other in others if native.fcntl(fd, SAME_DESCRIPTION, other) == 1), None)
        position = os.lseek(fd, 0, os.SEEK_CUR) if stat.S_ISREG(found[fd].st_mode) else None
        places[fd] = native.flags_of(fd), position, os.get_inheritable(fd), twin
        if position is not None:
            names[fd] = path_of(fd)


def path_of(fd):
    try:
        return os.readlink("/proc/self/fd/%d" % fd).removesuffix(" (deleted)")
    except OSError:
        return ""  # there is no /proc


def put(fd, flags, inheritable, position=None, path=None):
    """Opens the same file once more, under the same number; or the one that has its name now."""
    new = os.open(path or "/proc/self/fd/%d" % fd, flags)
    if position is not None:
        os.lseek(new, position, os.SEEK_SET)
    replace(new, fd, inheritable)


def replace(new, fd, inheritable):
    try:
        os.dup2(new, fd, inheritable)
    finally:
        os.close(new)


def watched_by(fd):
    """(descriptor, events, data) of each that an epoll instance watches, proc_pid_fdinfo(5); None: not known."""
    if os.uname().machine not in EPOLL_CTL or not native.library:
        return None
    rows, lines = [], lines_about(fd)
    for words in lines or ():
        if words[0] == b"tfd:" and is_open(int(words[1])):
            if os.fstat(int(words[1])).st_ino == int(words[words.index(b"ino:") + 1], 16):
                rows.append((int(words[1]), int(words[3], 16), int(words[5], 16)))
    return None if lines is None else rows


def lines_about(fd):
    """The words of each line; None: there is no /proc."""
    try:
        with open("/proc/self/fdinfo/%d" % fd, "rb", 0) as file:
            return [line.replace(b":", b": ").split() for line in file.readall().splitlines()]
    except OSError:
        return None


def come_back(session):
    """In a state that has become the session, or a branch, before it takes a call."""
    closed = set()
    session.guard([], "descriptors", with_spare, open_all, closed)
    session.came_back = closed
    session.lacks_threads = bool(load("orphan").lost_threads)
    for table in places, pairs, watches, counters:
        table.clear()


def begin_call(session, back):
    """In the first call after that: its result names what did not come back. back: files that an undo has put back."""
    closed, session.came_back = session.came_back, None
    session.guard([], "directories", with_spare, enter_again, session.root)
    session.guard([], "descriptors", with_spare, open_later, session, os.fsdecode(back).split("\0")[:-1] if back else [], closed)
    load("locks").held.clear()
    names.clear()
    begin_anew(session, closed)


def open_later(session, back, closed):
    """Files: an undo of files must not find them open for writing, and has put others in the place of what it brought
    back. As the variables went back, so do files that they have open, with their locks. A connection of SQLite's knows
    better than its files, and is cut off."""
    locks = load("locks")
    other = {fd for fd in later if is_meant(names[fd], session.root, back) and is_other_file(fd, names[fd])}
    databases = {path for fd in other if locks.is_database(path := locks.database_of(names[fd]))}
    for fd, place in later.items():
        if locks.database_of(names[fd]) not in databases and not open_again(fd, *place, names[fd] if fd in other else None):
            closed.add(fd)
    locks.take_again(databases)
    later.clear()
    replaced = list(dict.fromkeys(names[fd].removeprefix(session.root + "/") for fd in other
                                  if locks.database_of(names[fd]) not in databases and fd not in closed))
    if replaced:
        more = " and %d more" % (len(replaced) - SHOWN) if len(replaced) > SHOWN else ""
        session.package_notes += ("note", "open files now refer to the restored ones: %s%s" % (", ".join(replaced[:SHOWN]), more))


def enter_again(root):
    """Directories that were removed, and are there again under their names: the current one, and those that are open."""
    for fd in (-1, *all_open()):
        link = "/proc/self/cwd" if fd < 0 else "/proc/self/fd/%d" % fd
        path = os.readlink(link).removesuffix(" (deleted)") if os.path.isdir(link) else ""
        if path.startswith(root + "/") and os.path.isdir(path) and not os.path.samefile(link, path):
            os.chdir(path) if fd < 0 else put(fd, native.flags_of(fd) & ~NOT_AGAIN, os.get_inheritable(fd), path=path)


def is_meant(path, root, back):
    """back: names in the workspace; "": there are too many to name."""
    name = path.removeprefix(root + "/")
    return name != path and (name in back or "" in back)


def is_other_file(fd, path):
    try:
        there = os.lstat(path)
    except OSError:
        return False  # what is open has no name any more
    return stat.S_ISREG(there.st_mode) and not os.path.samestat(there, os.fstat(fd))


def begin_anew(session, closed):
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, session.held)  # its processes are not to block signals
    try:
        load("heal").begin_anew(session)
    finally:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, session.held)
    say(session, set(filter(is_dead, gone)), "their connections do not come back: make them anew, start servers again")
    say(session, closed, "their files cannot be opened again")
    load("locks").say(session, session.package_notes)
    load("apart").begin_call(session, session.package_notes)
    gone.clear()


def open_all(closed):
    later.update((fd, place) for fd, place in places.items() if place[1] is not None)
    closed.update(fd for fd in places if fd not in later and not open_again(fd, *places[fd]))
    for kind, *ends in pairs:
        new = _socket.socketpair(_socket.AF_UNIX, kind)
        if not all(put_back(other, data) for other, (_, _, data) in zip(reversed(new), ends)):
            gone.update((fd, True) for fds, _, _ in ends for fd, _ in fds)
            continue
        for socket, (fds, blocks, _) in zip(new, ends):
            for fd, inheritable in fds:
                os.dup2(socket.fileno(), fd, inheritable)
            socket.setblocking(blocks)
    for fd, (count, flags) in () if None in watches.values() else counters.items():
        replace(os.eventfd(count, flags), fd, os.get_inheritable(fd))
    for fd, rows in watches.items():
        watch_again(fd, rows or ())


def put_back(socket, data):
    """Whether all of it fits: what was sent in other pieces may be more than one piece can be."""
    try:
        return not data or socket.send(data, _socket.MSG_DONTWAIT) == len(data)
    except OSError:
        return False


def is_dead(fd):
    """Not one that a pool has given up."""
    return is_open(fd) and os.path.samestat(os.fstat(fd), os.fstat(frames.DEAD_FD))


def open_again(fd, flags, position, inheritable, twin, path=None):
    try:
        if twin is None:
            put(fd, flags & ~NOT_AGAIN | (os.O_NOFOLLOW if path else 0), inheritable, position, path)
        else:
            os.dup2(twin, fd, inheritable)
        return True
    except OSError:  # it has another mode or owner now
        return False


def watch_again(fd, rows):
    number, form = EPOLL_CTL[os.uname().machine]
    new = epoll()
    os.dup2(new.fileno(), fd, os.get_inheritable(fd))
    new.close()
    for other, events, data in rows:
        if gone.get(other, True):  # else it would report an end that nobody takes
            native.syscall(number, fd, ADD, other, pack(form, events, data))


def say(session, fds, what):
    """Of what libraries hold without a variable nobody can make use."""
    names = names_of(session, fds) if fds else ""
    if names:
        session.package_notes += ("note", names + ": " + what)


def names_of(session, fds):
    return named(session, lambda part: holds(part, fds))


def named(session, is_meant):
    """The variables of which that holds, or of what is in them."""
    names = ["%s (%s)" % (name[:60], name_of(type(value))) for name, value in list(session.namespace.items())[:VARIABLES]
             if type(name) is str and any([is_meant(part) for part in parts_of(value)])]
    return ", ".join(names[:SHOWN]) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "")


def name_of(kind):
    """Not by its attributes, which a metaclass of the code's may have bent."""
    module, name = (vars(type)[each].__get__(kind) for each in ("__module__", "__qualname__"))
    return (name if type(module) is not str or module in ("builtins", "__main__", "_io") else module + "." + name)[:60]


def found(session, kind):
    """The values of this type in variables, and in what they hold."""
    values = {id(part): part for value in list(session.namespace.values())[:VARIABLES] for part in parts_of(value)
              if issubclass(type(part), kind)}
    return values.values()


def parts_of(value):
    """The value and what it holds, without modules, and without running code of theirs."""
    values = [value]
    for _ in range(DEPTH):
        inner = []
        for value in values:
            if type(value) not in (type, type(os)):
                yield value
                inner += list(inside(value))[:WIDTH]
        values = inner[:WIDTH]
    yield from values


def inside(value):
    if type(value) in (list, tuple, set):
        return value
    own = value if type(value) is dict else attributes_of(value)
    if name_of(type(value)) in POOLS and (own.get("_state") == "TERMINATE" or own.get("_state") == "CLOSE" and not own.get("_cache")):
        return ()  # it has ended, and needs no connection
    return own.values()


def holds(value, fds):
    """Whether the value itself has one of these descriptors."""
    for kind in HOLDERS:
        if issubclass(type(value), kind):
            try:
                return kind.fileno(value) in fds
            except (OSError, ValueError):
                return False  # closed, or detached
    attributes = attributes_of(value)
    return any(type(attributes.get(name)) is int and attributes[name] in fds for name in NUMBERS)


def attributes_of(value):
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return attributes if type(attributes) is dict else {}
