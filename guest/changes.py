"""What a cell changed: names of its namespace, and the files that Python code itself touches. Bounded.

Compares names by id with those at the end of the last cell: holds no reference to what may be large, so the memory of a
value that the cell drops is free at once. Of the names in the cell's code, weak references tell of a value that is gone,
and whose place another one has by then; lists and dicts have none.

Audit events report each opening for writing, removal, renaming and so on before it happens. Where the workspace is a
directory of the user's that is written through, the sandbox's keeper (sandbox/programs/keeper/edits.h) learns of each
one then and keeps what was there: the event waits for it. Nothing else tells the code's work from what the user does
there at the same moment. The keeper finds by itself which files a call has changed.
"""
import os
import stat
import sys
import _io
import _socket
import _thread
from itertools import compress
from _operator import ne
from _weakref import ref

try:
    from _ctypes import _SimpleCData
except ImportError:  # a trimmed Python
    _SimpleCData = None

NAMES_MAX = 20000
REPORTED_MAX = 20
LIGHT = 500  # names: a report is so cheap that a warm-up can afford one
# What a type says of itself, whatever a metaclass of the code's says; types are compared by id, as it may have == and hash() too.
WEAK_AT, NAME_OF, MODULE_OF = (vars(type)[name].__get__ for name in ("__weakrefoffset__", "__name__", "__module__"))  # 0: has none
FILES = frozenset(map(id, (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)))
PLAIN, PLAIN_MOST = frozenset(map(id, (int, float, complex, str, bytes))), 1000
SIZED = frozenset(map(id, (list, dict, set, tuple, frozenset, str, bytes, bytearray)))
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
TOUCHED_MAX = 1000
LISTENS = b"0A"  # TCP_LISTEN
LOOKS = 3
IMAGES_MAX = 2000  # entries of the current directory that are checked for images
WORD = 8  # bytes of a pointer, on the supported machines
COUNTER_AT = 3 * WORD  # in a dict: after the head of the object and the number of items
NO_DIRECTORY = -1  # the descriptor that marks a relative path as such
frames = load("frames")
state = {"names": [], "ids": [], "held": {}, "version": None, "counter": None, "touched": {}, "stamps": {}, "root": "", "ports": None, "looks": 0}
awaited = {}  # thread → [the place that it has touched last]: with its next event, that is over
keeper = {"state": 0, "pid": 0, "socket": None, "inode": 0, "lock": None, "sent": 0, "known": 0, "directory": ""}


def begin(session):
    state["root"] = session.root
    if state["touched"]:
        state["touched"] = {}
    if keeper["pid"] != session.pid:
        connect(session)


def flush(namespace):
    """What code has written into a file that it left open is there for others, and at the end of the server. Calls no
    code of the user's, and waits for no reader."""
    for file in list(namespace.values()):
        if id(type(file)) not in FILES:
            continue
        try:
            buffer = file.buffer if type(file) is _io.TextIOWrapper else file
            if type(buffer) in (_io.BufferedWriter, _io.BufferedRandom) and type(buffer.raw) is _io.FileIO \
                    and stat.S_ISREG(os.fstat(buffer.raw.fileno()).st_mode):
                file.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, detached, or the disk is full


def report(session, result, started):
    """Adds to the result; returns the paths of files that are new or changed and may be images."""
    if len(session.namespace) <= LIGHT:
        session.guard(result, "open files", flush, session.namespace)
    report_names(session.namespace, result)
    session.guard(result, "the current directory", report_directory, session.root, result)
    if state["touched"]:
        result += ("claims", b"\n".join(os.fsencode(path) for path in state["touched"]))
    odd = next((path for path in state["touched"] if "\\" in path and all(part[:1].isalnum() for part in path.split("\\"))
                and stamp_of(session.root + "/" + path, started)), None)
    if odd:
        result += ("note", "`%s` is the name of one file: `\\` separates no directories here" % odd)
    return changed_files(session.root, started)


def changed_files(root, started):
    """The touched files; and those of the current directory where something has come to it: other languages' libraries
    write images too. started: by the clock that stamps files."""
    paths = [root + "/" + path for path in state["touched"]] if state["touched"] else []
    try:
        if os.stat(".").st_mtime_ns >= started:
            with os.scandir(here()) as entries:
                paths += [entry.path for entry, _ in zip(entries, range(IMAGES_MAX)) if not entry.is_symlink()]
    except OSError:
        pass
    if not paths:
        return paths
    # The clock ticks every few milliseconds: the cell before may have begun and written in the same tick.
    before, state["stamps"] = state["stamps"], {path: stamp for path in paths if (stamp := stamp_of(path, started))}
    return [path for path, stamp in state["stamps"].items() if before.get(path) != stamp]


def stamp_of(path, started):
    """What tells two contents of a file apart; None: it has not changed since, or is no file."""
    try:
        s = os.lstat(path)
    except OSError:
        return None
    return (s.st_ctime_ns, s.st_ino, s.st_size) if stat.S_ISREG(s.st_mode) and s.st_ctime_ns >= started else None


def version_field():
    """The type that reads the counter of changes in a dict (PEP 509), or None where Python has none.

    It is a private field of CPython, gone in 3.13; so it is used only where it behaves as it should.
    """
    try:
        if sys.implementation.name != "cpython" or sys.version_info >= (3, 13) or dict.__basicsize__ != 6 * WORD:
            return None
        field, probe = type("field", (_SimpleCData,), {"_type_": "Q"}), {"a": 1}
        counter = field.from_address(id(probe) + COUNTER_AT)
        seen = [counter.value, counter.value]
        for change in (lambda: probe.update(a=2), lambda: probe.update(b=3), lambda: probe.pop("a")):
            change()
            seen.append(counter.value)
        return field if seen[0] == seen[1] and len(set(seen)) == 4 else None
    except (TypeError, AttributeError):
        return None


def hold(codes, namespace):
    """Before a cell: what its code may bind anew."""
    held = state["held"]
    for name in (name for code in codes for name in code.co_names if name in namespace):
        value = namespace[name]
        kind = type(value)
        if id(kind) in PLAIN and sys.getsizeof(value) < PLAIN_MOST:
            held[name] = value
        elif WEAK_AT(kind):
            held[name] = ref(value)


def report_names(namespace, result):
    held, state["held"] = state["held"], {}
    if VERSION_FIELD is not None and state["counter"] is None:
        state["counter"] = VERSION_FIELD.from_address(id(namespace) + COUNTER_AT)
    version = state["counter"].value if VERSION_FIELD is not None else None
    if version is not None and version == state["version"]:
        return  # ten thousand names take milliseconds: each is a page written to, after a fork
    state["version"] = version
    if len(namespace) > NAMES_MAX:
        state["names"], state["ids"] = [], []
        return
    names, ids = list(namespace), list(map(id, namespace.values()))
    count = modules = 0
    gone = {name for name, value in held.items() if type(value) is ref and value() is None}
    for sign, name in names_changed(names, ids, gone):
        if type(name) is not str or name[:1] == "_":
            continue
        kind = kind_of(namespace.get(name)) if sign != "-" else ""
        if kind == "module":
            modules += 1
            result += ("module", sign + "%" + name[:100]) if modules <= REPORTED_MAX else ()
            continue
        count += 1
        if count <= REPORTED_MAX:
            result += ("var", sign + name[:100], "var_kind", kind)
    state["names"], state["ids"] = names, ids
    if count > REPORTED_MAX:
        result += ("vars_more", str(count - REPORTED_MAX))


def names_changed(names, ids, gone):
    """(sign, name) of each name that is new, bound to another value, or gone."""
    known = len(state["names"])
    if names[:known] == state["names"]:  # names keep their places until one is removed
        rebound = compress(names, map(ne, ids, [0 if name in gone else one for name, one in zip(names, state["ids"])]
                                      if gone else state["ids"]))
        return [("~", name) for name in rebound] + [("+", name) for name in names[known:]]
    before, after = dict(zip(state["names"], state["ids"])), dict(zip(names, ids))
    before.update((name, 0) for name in gone if name in before)
    there = [("~" if name in before else "+", name) for name in names if before.get(name) != after[name]]
    return there + [("-", name) for name in before if name not in after]


VERSION_FIELD = version_field()


def kind_of(value):
    kind = type(value)
    name, module = NAME_OF(kind), MODULE_OF(kind)
    if id(kind) in SIZED:
        return "%s %d" % (name, len(value))
    if type(module) is str and module == "builtins":
        return name
    try:
        shape = value.shape if hasattr(kind, "shape") else ()
        if isinstance(shape, tuple) and shape:
            return "%s %s" % (name, "x".join(map(str, shape[:6])))
    except BaseException:
        pass
    return name[:60]


def connect(session):
    """A connection of this process's own: what comes back is only for it. Without one, no file of its goes back."""
    keeper.update(pid=session.pid, socket=None, lock=_thread.RLock(), sent=0, known=0)
    if not session.greets:
        return
    try:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        greeting = _socket.socket(fileno=os.dup(frames.GREETING_FD))
        greeting.sendmsg([bytes(4)], frames.rights([theirs.fileno()]))
        os.dup2(ours.fileno(), frames.KEEPER_FD, False)
        keeper.update(socket=_socket.socket(fileno=frames.KEEPER_FD), inode=os.fstat(frames.KEEPER_FD).st_ino)
        for end in ours, theirs, greeting:
            end.close()
    except OSError as error:
        session.package_notes += ("note", "undo will not bring back files: connecting to what keeps them failed (%s)"
                                  % error.strerror)


def tell(kind, path, target=""):
    """Waits until the keeper knows what is at path. Only the session's first process is listened to."""
    over, = awaited.pop(_thread.get_ident(), [""])
    if not keeper["state"] or keeper["pid"] != os.getpid() or keeper["socket"] is None:
        return
    try:
        with keeper["lock"]:
            if os.fstat(frames.KEEPER_FD).st_ino != keeper["inode"]:
                raise OSError  # the code has closed it
            keeper["sent"] += 1
            number = keeper["sent"]
            head = b"".join(part.to_bytes(4, sys.byteorder) for part in (keeper["state"], number, 0, ord(kind)))
            keeper["socket"].send(head + b"".join(os.fsencode(one) + b"\0" for one in (path, target, over)))
            while keeper["known"] < number:  # a signal handler may have received it
                known = keeper["socket"].recv(4)
                if not known:
                    raise OSError
                keeper["known"] = max(keeper["known"], int.from_bytes(known, sys.byteorder))
        if path:
            awaited[_thread.get_ident()] = [target or path]
    except OSError:
        keeper["socket"] = None


def here(what="cwd"):
    """The path of a directory. Fails where getcwd(3) would take a time that grows with the depth."""
    try:
        return os.readlink("/proc/self/" + what)
    except FileNotFoundError:  # there is no /proc
        if what == "cwd":
            return os.getcwd()
        raise


def report_directory(root, result):
    """The tools for files know nothing of os.chdir: once, a result says so."""
    before, keeper["directory"] = keeper["directory"] or root, here()
    if keeper["directory"] not in (before, root) and os.path.isdir(keeper["directory"]):
        result += ("note", "the current directory is %s; relative paths of write_file and read_file begin in %s"
                   % (keeper["directory"], root))


def place_of(path, directory=NO_DIRECTORY, follow=False):
    """Relative to the workspace; None: it is not there."""
    path = os.fsdecode(path)
    if path[:1] != "/":
        path = here("cwd" if directory == NO_DIRECTORY else "fd/%d" % directory) + "/" + path
    if follow:
        path = os.path.realpath(path)
    else:
        head, name = os.path.split(path.rstrip("/"))
        if name in ("", ".", ".."):
            return None
        path = os.path.realpath(head) + "/" + name
    root = state["root"] + "/"
    return path[len(root):] if path.startswith(root) else None


def touch(kind, path, directory=NO_DIRECTORY, follow=False):
    place = place_of(path, directory, follow)
    if place is not None:
        touched(place)
        tell(kind, place)


def touched(place):
    if len(state["touched"]) < TOUCHED_MAX:
        state["touched"][place] = None


def opens(path, flags):
    """Whether the system will open it: an opening that fails would count for one of the user's."""
    if not os.path.exists(path):
        return flags & os.O_CREAT and os.access(os.path.dirname(path) or ".", os.W_OK)
    return not (flags & os.O_CREAT and flags & os.O_EXCL) and os.access(path, os.W_OK)


def on_open(path, mode, flags):
    if type(path) is not int and type(flags) is int and flags & WRITES:
        if opens(path, flags):
            touch("w", path, follow=not flags & os.O_NOFOLLOW)


def on_rename(source, target, source_directory, target_directory):
    old, new = place_of(source, source_directory), place_of(target, target_directory)
    if old is not None and new is not None:
        touched(old)
        touched(new)
        tell("r", old, new)
    elif old is not None:
        touched(old)
        tell("d", old)
    elif new is not None:
        touched(new)
        tell("b", new)


def on_change(path, *args):
    if type(path) is int:
        touch("a", here("fd/%d" % path))
    else:
        touch("a", path, args[-1] if len(args) > 1 else NO_DIRECTORY, follow=True)


def listening():
    """The TCP ports of the sandbox on which something listens; none where there is no /proc. It takes milliseconds."""
    ports = set()
    for name in "tcp", "tcp6":
        try:
            with open("/proc/self/net/" + name, "rb", 0) as file:
                rows = [row.split() for row in file.readall().splitlines()[1:]]
        except OSError:
            continue
        ports.update(int(row[1].rpartition(b":")[2], 16) for row in rows if row[3] == LISTENS)
    return ports


def on_start(*_):
    """Before what may begin to listen: a few calls look whether it does, see hints.py."""
    if state["ports"] is None:
        state["ports"] = listening()  # as that of the proxy
    state["looks"] = LOOKS


EVENTS = {
    **dict.fromkeys(("socket.bind", "subprocess.Popen", "os.posix_spawn", "os.system"), on_start),
    "open": on_open,
    "os.rename": on_rename,
    "os.remove": lambda path, directory: touch("d", path, directory),
    "os.rmdir": lambda path, directory: touch("d", path, directory),
    "os.mkdir": lambda path, mode, directory: touch("c", path, directory),
    "os.symlink": lambda source, target, directory: touch("c", target, directory),
    "os.link": lambda source, target, _, directory: touch("l", target, directory),
    "os.truncate": on_change,
    "os.chmod": on_change,
    "os.chown": on_change,
    "os.utime": lambda path, times, ns, directory: on_change(path, directory, directory),
}


def on_audit(event, args):
    note = EVENTS.get(event)
    if note is None and not awaited:
        return
    last = awaited.get(_thread.get_ident())
    if note is not None and state["root"]:
        try:
            note(*args)
        except Exception:
            pass
    if last is not None and awaited.get(_thread.get_ident()) is last:
        tell("o", "")


def file_fields(change, size, kind=""):
    """The fields of a result for one file; kind: a word that the status line says of it."""
    return "file", os.fsencode(change), "file_size", str(size), "file_kind", kind


sys.addaudithook(on_audit)  # for good: it cannot be removed
