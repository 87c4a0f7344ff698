"""What a state has not copied: memory that it shares with all others, and timers, which a fork starts without.

Interval timers go on with what was left when the state was kept. What cannot go on, or back, the first result names.
"""
import os
import _signal
import _socket

try:
    from _ctypes import Array
except ImportError:  # a trimmed Python
    Array = None

descriptors = load("descriptors")
native = load("native")
OURS = _signal.SIGINT, _signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGURG
TIMERS = _signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF
OVERRUN = {"x86_64": 225, "aarch64": 109}.get(os.uname().machine)  # timer_getoverrun(2), which fails where there is no timer
REPLACED = "/.write-"  # what an undo has put another file in the place of has this name at last
SEMAPHORES, WAL_INDEX = "/dev/shm/sem.", "-shm"  # of multiprocessing; of SQLite, see locks.py
WRITTEN, READ, DELETED = (b"rw-s", b"rwxs"), b"r--s", " (deleted)"
NAMELESS = "/dev/zero (deleted)", ""
FILES = 3  # that no variable holds, and that are named
STRIDED = 0x18  # PyBUF_STRIDES
NO_BUFFERS = (int, float, str, bool, bytes, type(None), type, type(os), type(native.flags_of), list, tuple, set, dict)
left = {}  # timer → (seconds until it is due, seconds between)
waiting = []  # signals that it blocks
locked = []  # locks of multiprocessing that nobody can give back
other = [False]  # whether there is one of timer_create(2)


def note(session, mask):
    """By the session, which alone has them. mask: the signals that it blocks. To set one, code imports the one or the other."""
    if session.came_back is not None:
        return  # it has not set those of its state again
    if session.may_handle_signals:
        left.clear()
        left.update((which, found) for which in TIMERS if any(found := _signal.getitimer(which)))
        waiting[:] = _signal.sigpending().intersection(mask).difference(OURS)
    if session.may_handle_signals or "ctypes" in IMPORTED:
        other[0] = OVERRUN is not None and native.library and native.syscall(OVERRUN, 0) >= 0


def begin_call(session, result):
    """In the first call of a state that came back, or of a branch."""
    for which, times in left.items():
        _signal.setitimer(which, *times)
    for number in waiting:
        os.kill(session.pid, number)
    if other[0]:
        result += ("note", "timers of timer_create are gone: create them again")
    left.clear()
    waiting.clear()
    other[0] = False
    say_shared(session, result)
    say_managers(session, result)
    text = descriptors.named(session, lambda value: any(value is each for each in locked)) if locked else ""
    if text:
        result += ("note", text + ": locked by a process or thread that is gone; make it anew")
    locked.clear()


def say_shared(session, result):
    areas, held = shared_areas() if len(IMPORTED) != session.modules else [], set()
    found = [(descriptors.names_of(session, {fd}) or "descriptor %d" % fd, kind) for fd, kind in descriptors.shared.items()]
    if areas != []:
        text = descriptors.named(session, lambda value: lies_in(value, areas, held))
        files = list(dict.fromkeys(area[2] for area in areas or () if area not in held and area[2] not in NAMELESS))
        text = ", ".join(filter(None, (text, *files[:FILES])))
        found[:0] = [(text, "shared memory" if areas else "shared memory, if it is not mapped as private")] if text else ()
    for text, kind in found:
        result += ("note", "%s: %s, which undo and restore do not take back, and which a branch shares" % (text, kind))
    descriptors.shared.clear()


def say_managers(session, result):
    """Those of multiprocessing and what they have given out. In a branch they live."""
    module = IMPORTED.get("multiprocessing.managers")
    text = descriptors.named(session, lambda value: is_cut_off(module, value)) if module else ""
    if text:
        result += ("note", text + ": the process of the manager is gone; make it anew")


def is_cut_off(module, value):
    address = value._address if issubclass(type(value), module.BaseManager) else (
        value._token.address if issubclass(type(value), module.BaseProxy) else None)
    if type(address) is not str:
        return False
    socket = _socket.socket(_socket.AF_UNIX)
    refused = socket.connect_ex(address)
    socket.close()
    return refused != 0


def unlock(session):
    """Locks of multiprocessing are shared memory too, and the processes of what this one replaces are gone. A lock that this
    one holds itself stays."""
    module = IMPORTED.get("multiprocessing.synchronize")
    for each in descriptors.found(session, module.SemLock) if module else ():
        lock = each._semlock
        if lock.maxvalue == 1 and lock._is_zero() and not lock._is_mine():
            try:
                lock.release()
            except AssertionError:  # it is a recursive one
                locked.append(each)


def shared_areas():
    """(first address, last address, path) of what others see when this process writes to it, and of what a file was that
    has been replaced; None: not known."""
    try:
        with open("/proc/self/maps", "rb", 0) as file:
            text = file.readall()
    except OSError:
        return None
    areas = []
    for line in text.splitlines() if b"s " in text else ():  # a process with pandas has a thousand lines
        row = line.split(None, 5)
        path = os.fsdecode(row[5].rstrip()) if len(row) > 5 else ""
        name = path.removesuffix(DELETED)
        if row[1] in WRITTEN and not path.startswith(SEMAPHORES) and not name.endswith(WAL_INDEX) or (
                row[1] == READ and name != path and (REPLACED in name or os.path.exists(name))):
            areas.append((*(int(part, 16) for part in row[0].split(b"-")), path))
    return areas


def lies_in(value, areas, held):
    """Whether the value's memory is in one of them. Where they are not known, whether it can be."""
    if issubclass(type(value), NO_BUFFERS):
        return False
    if areas is None:
        module = IMPORTED.get("mmap")
        return module is not None and issubclass(type(value), module.mmap) and not memoryview(value).readonly
    address = address_of(value)
    found = [area for area in areas if area[0] <= address < area[1]]
    held.update(found)
    return bool(found)


def address_of(value):
    """0: it has no memory that others could see."""
    if Array is None or not native.library:
        return 0
    view = VIEW()
    try:
        take_buffer(OBJECT(value), view, STRIDED)
    except BaseException:  # it has none, or a class of the code's fails
        return 0
    address = view[0]
    give_buffer(view)
    return address


if Array is not None:
    OBJECT, VIEW = native.simple("O"), type("view", (Array,), {"_type_": native.simple("L"), "_length_": 10})  # of Py_buffer
    take_buffer, give_buffer = native.functions("PyObject_GetBuffer", "PyBuffer_Release", _flags_=native.CDECL | native.PYTHON_API)
