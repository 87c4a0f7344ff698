"""Keeps a session for the next life of the server (--keep). keep_load.py brings it back. Only code in the sandbox reads or writes this.

The zygote loads both when its options name `keep`: what they import must be there before code runs.

    load("keep").save(namespace, cells, out_fd, *, layers=(), root="", name_s=1.0, all_s=30.0, max_bytes=256 << 20) -> None
        In a fork of a checkpoint, which ends afterwards by os._exit. namespace: of the session. cells: session.sources,
        {"<cell N>": text}. layers: session.layers. root: of the session, which may have another name in the next life: not
        kept as the current directory. Writes the body to out_fd; one that does not end in the record `end` is not whole.
        OSError: out_fd takes no more. What pickles are children of this process, each in a process group of its own, with no
        descriptor but a pipe and /dev/null. An audit hook keeps them from starting processes, signals, writing files and
        connecting (code in C could): then it is this process that may end early.
    load("keep_load").bring_back(in_fd, namespace, *, name_s=1.0, all_s=10.0, careful=False) -> report
        In the new session, before its first cell. Reads in_fd to its end, and fills namespace. What loading prints goes where
        output goes: to the first result. Call it outside of `enter`, so that no interrupt raises in it. careful: reads all in a
        fork first, for a file at which a session has ended before; else only names whose loading runs code of the user's.
    report: {"names": how many came back without those of imports, "imports": how many statements of imports did,
        "back": [name], "not_back": [{"name", "type", "reason", "cell", "line"}] (also what the save left out),
        "sources": {"<cell N>": text}, for session.remember, "cell": number of the next cell, "cwd": the current directory,
        "cwd_gone": the one that was, if there is none, or None, "settings": whether cells had changed settings of modules, which are as new,
        "whole": whether the body had its end}

The body: records, each a frame (frames.py), and after `unit` the pickle, whose size is its first field. All of it is written
by code: its names, types and lines are hostile text.
"""
import gc
import os
import sys
import _signal
from select import POLLIN, poll
from time import monotonic as now_s

try:
    from resource import RLIMIT_AS, RLIMIT_CORE, getpagesize, setrlimit
except ImportError:  # a trimmed Python
    setrlimit = None

frames = load("frames")
pickles = load("keep_pickle")
make = load("keep_make")
finding = load("keep_names")
descriptors = load("descriptors")
native = load("native")
VERSION = "1"
CHUNK = 1 << 16
SIGKILL = 9
ENDED_MAX = 100  # names at which the process that pickles ends: then the others are left out too
SPARE_BYTES = 128 << 20  # of memory that it may take beside what it has and what it writes
STATE_OF_RANDOM, STATE_OF_NUMPY = ".random", ".numpy.random"  # instead of a name
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
REFUSED = frozenset(
    "os.fork os.forkpty os.kill os.killpg os.exec os.posix_spawn os.system signal.pthread_kill subprocess.Popen socket.connect socket.bind "
    "socket.sendto socket.sendmsg".split())
# An import may try these too, and goes on without.
REFUSED_FILES = frozenset("os.remove os.rename os.rmdir os.mkdir os.symlink os.link os.truncate os.chmod os.chown os.utime".split())
SETS = ("needs", "files", "used", "modules")  # of a pickler
PATH = set(SYS["path"])  # without what code has added
refused = []  # what code in this process was kept from


def refuse(event, args):
    if event in REFUSED:
        refused.append(event)
    elif event not in REFUSED_FILES and not (event == "open" and type(args[2]) is int and args[2] & WRITES):
        return
    raise PermissionError("%s: not while a session is kept or comes back" % event)


def silence():
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2, frames.OUT_FD, frames.ERR_FD):
        os.dup2(null, number)
    os.close(null)


def confine(fd, most):
    """Takes from this process, a fork, what code in it could do to others. Only fd stays open."""
    os.setpgid(0, 0)
    native.prctl(native.SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    silence()
    for number in descriptors.all_open():
        if number not in (0, 1, 2, fd, frames.OUT_FD, frames.ERR_FD):
            os.close(number)
    if setrlimit is not None:
        setrlimit(RLIMIT_CORE, (0, 0))
        try:
            with open("/proc/self/statm", "rb", 0) as file:
                most += int(file.read(100).split()[0]) * getpagesize() + SPARE_BYTES
            setrlimit(RLIMIT_AS, (most, most))
        except (OSError, ValueError):
            pass  # no /proc
    sys.addaudithook(refuse)


def write_all(fd, data):
    data = memoryview(data).cast("B")
    while data:
        data = data[os.write(fd, data) :]


class Writer:
    """The file that a pickler writes to: b"d", u32 size and bytes for each part."""

    def __init__(self, fd, most):
        self.fd, self.left = fd, most

    def write(self, data):
        size = memoryview(data).nbytes
        self.left -= size
        if self.left < 0:
            raise pickles.NotKept("too large")
        try:
            write_all(self.fd, b"d" + size.to_bytes(4, "little"))
            write_all(self.fd, data)
        except OSError:
            os._exit(1)  # the code has closed it
        return size


class Fork:
    """A fork that works through units one after the other and says how it gets on. Its parent reads that with a deadline."""

    def __init__(self, work, units, most):
        self.fd, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self.fd)
                confine(writing, most)
                for unit in units:
                    work(writing, unit)
            finally:
                os._exit(0)
        os.close(writing)
        self.poll = poll()
        self.poll.register(self.fd, POLLIN)

    def read(self, size, quiet_s, end):
        """size bytes. EOFError: it has ended; TimeoutError: nothing came for quiet_s, or end is over."""
        data = bytearray()
        while len(data) < size:
            wait = min(quiet_s, end - now_s())
            if wait <= 0 or not self.poll.poll(wait * 1000):
                raise TimeoutError
            part = os.read(self.fd, min(size - len(data), CHUNK))
            if not part:
                raise EOFError
            data += part
        return data

    def close(self):
        os.close(self.fd)
        for step, *args in (os.killpg, self.pid, SIGKILL), (os.kill, self.pid, SIGKILL), (os.waitpid, self.pid, 0):
            try:
                step(*args)
            except OSError:
                pass  # the code ignores SIGCHLD


def reason_of(error, kind):
    """Why a value of this kind is not pickled, in words."""
    if type(error) is pickles.NotKept:
        return str(error)
    if type(error) in (MemoryError, RecursionError):
        return "its pickling takes too much memory" if type(error) is MemoryError else "nested too deeply"
    if type(error) in (TypeError, AttributeError) or type(error).__name__ == "PicklingError":
        _, found, what = str(error).partition("cannot pickle '")
        what = what.partition("'")[0]
        return "holds a %s, which is not picklable" % what[:60] if found and what != kind else "not picklable"
    return "its pickling raised %s" % type(error).__name__[:60]


class Unit:
    """Names that are in one pickle, or the reason why they are not."""

    def __init__(self, names, reason=None):
        self.names, self.reason, self.parts, self.size, self.shared, self.active = names, reason, [], 0, (), False
        self.needs = self.files = self.used = self.modules = frozenset()


class Save:
    def __init__(self, namespace, cells, limits):
        self.namespace, self.cells = namespace, cells
        self.name_s, self.end, self.most = limits
        self.world = pickles.World(namespace)
        self.makers, self.dotted = finding.made_names(namespace, cells)
        self.random, self.kept, self.lost, self.size, self.ended = state_of_random(), {}, {}, 0, 0  # name → its unit; name → reason

    def pickle(self, fd, names):
        """In the fork."""
        pickler = pickles.Pickler(Writer(fd, self.most), self.world, names)
        fields = ["kept"]
        try:
            make.call(pickler.dump, tuple(map(self.value, names)))
            write_all(fd, b"p" + bytes(4))
            shared = pickler.shared()
            fields += ("active", "1") if pickler.active else ()
            for key in SETS:
                fields += [part for value in getattr(pickler, key) for part in (key, value)]
            fields += ("shared", b"".join(each.to_bytes(8, "little") for each in shared))
        except BaseException as error:
            fields = ["lost", "reason", reason_of(error, pickles.type_name(type(self.value(names[0]))))]
        data = frames.join(fields)
        write_all(fd, b"e" + len(data).to_bytes(4, "little") + data)

    def value(self, name):
        if name == STATE_OF_NUMPY:
            return IMPORTED["numpy.random"].get_state()
        return self.random if name == STATE_OF_RANDOM else self.namespace[name]

    def receive(self, fork, names):
        """The next unit as the fork has pickled it. ValueError: its code has written into the pipe."""
        unit, end, quiet_s = Unit(names), min(self.end, now_s() + 5 * self.name_s), self.name_s
        while True:
            head = fork.read(5, quiet_s, end)
            size = int.from_bytes(head[1:], "little")
            if head[:1] == b"d" and unit.size + size <= self.most:
                unit.parts.append(fork.read(size, self.name_s, end))
                unit.size += size
            elif head[:1] == b"p":  # the rest is no code of the user's
                quiet_s = 5 * self.name_s
            elif head[:1] == b"e":
                break
            else:
                raise ValueError
        parts = frames.split(bytes(fork.read(size, self.name_s, end)))
        pairs = [(key.decode(), value) for key, value in zip(parts[1::2], parts[2::2])]
        for kind in SETS:
            setattr(unit, kind, {value.decode() for key, value in pairs if key == kind})
        found = dict(pairs)
        unit.reason = None if parts[0] == b"kept" else found["reason"].decode()
        unit.active, shared = "active" in found, found.get("shared", b"")
        unit.shared = [shared[at : at + 8] for at in range(0, len(shared), 8)]
        return unit

    def work(self, units):
        """Yields each unit, pickled or with the reason why it is not."""
        at = 0
        while at < len(units):
            if self.ended >= ENDED_MAX or now_s() >= self.end:
                yield from (Unit(names, "time") for names in units[at:])
                return
            fork = Fork(self.pickle, units[at:], 2 * self.most)
            reason = None
            try:
                while at < len(units):
                    yield self.receive(fork, units[at])
                    at += 1
            except EOFError:
                reason = "its pickling ended the process"
            except TimeoutError:
                reason = "its pickling takes too long"
            except (ValueError, LookupError):
                reason = "not picklable"
            finally:
                fork.close()
            if reason is not None:
                self.ended += 1
                yield Unit(units[at], reason)
                at += 1

    def pickle_all(self):
        units = [(name,) for name in self.namespace if finding.is_shown(name)]
        units += [(STATE_OF_NUMPY,)] if "numpy.random" in IMPORTED else []
        units += [(STATE_OF_RANDOM,)] if self.random is not None else []
        while units:
            for unit in self.work(units):
                self.take(unit, False)
            known = set().union(*(unit.used | unit.needs for unit in self.kept.values()))
            units = [(name,) for name in self.namespace if type(name) is str and name in known and name[:2] != "__"
                     and name not in self.kept and name not in self.lost]
        again = [names for names in self.groups() if len(names) > 1 or self.kept[names[0]].parts is None]
        for name in [name for names in again for name in names]:
            self.size -= self.kept.pop(name).size
        for unit in self.work(again):
            self.take(unit, True)

    def take(self, unit, is_last):
        if unit.reason:
            self.lose(unit, unit.reason)
            return
        self.kept.update((name, unit) for name in unit.names)
        self.size += unit.size
        while self.size > self.most:
            largest = max(self.kept.values(), key=lambda each: each.size)
            if is_last:
                self.lose(largest, "too large")
            else:  # what makes it large may be another's too: it is pickled once more, with that
                self.size -= largest.size
                largest.size, largest.parts = 0, None

    def lose(self, unit, reason):
        self.size -= unit.size if self.kept.get(unit.names[0]) is unit else 0
        for name in unit.names:
            self.kept.pop(name, None)
            self.lost[name] = reason + beside(name, unit.names)

    def groups(self):
        """Names that reach a common object, so that they are pickled together."""
        owner, group = {}, {name: [name] for name in self.kept}
        for name, unit in self.kept.items():
            for each in unit.shared:
                first = group[owner.setdefault(each, name)]
                if first is not group[name]:
                    first += group[name]
                    group.update((other, first) for other in group[name])
        return [tuple(names) for names in {id(names): names for names in group.values()}.values()]

    def write(self, fd, path, root):
        def record(fields, *data):
            write_all(fd, frames.pack(fields))
            for part in data:
                write_all(fd, part)

        number = 1 + max((int(file[len("<cell ") : -1]) for file in self.cells if file[len("<cell ") : -1].isdigit()), default=0)
        cwd = directory()
        settings = any(finding.SETTINGS.search(text) for text in self.cells.values())
        record(("keep", "version", VERSION, "cell", str(number), "settings", str(int(settings)), "cwd", os.fsencode("" if cwd == root else cwd)))
        added = [(str(at), os.fsencode(entry)) for at, entry in enumerate(SYS["path"]) if type(entry) is str and entry not in path]
        record(["path", *(part for pair in added for part in pair)])
        units = list(dict.fromkeys(self.kept.values()))
        files = set().union(*(unit.files for unit in units), ("<cell %s>" % self.place(name)[0] for name in (*self.kept, *self.lost)))
        for file, text in self.cells.items():
            if file in files:
                record(("cell", file, text.encode("utf-8", "surrogatepass")))
        modules = set().union(*(unit.modules for unit in units), self.dotted)
        record(("modules", *(name for name in IMPORTED if name in modules)))
        for name, reason in self.lost.items():
            if name[:1] != ".":
                record(("lost", name, self.kind(name), *self.place(name), reason))
        for unit in units:
            fields = ["unit", str(unit.size), str(int(unit.active))]
            for name in unit.names:
                fields += (name, self.kind(name), *self.place(name))
            record(fields, *unit.parts)
        record(("end",))

    def place(self, name):
        """The cell and the line that made it, and whether that is an import."""
        cell, line, imports = self.makers.get(name, ("", "", False))
        return cell, line, str(int(imports or type(self.namespace.get(name)) is type(sys)))

    def kind(self, name):
        return pickles.type_name(type(self.namespace.get(name)))


def beside(name, names):
    others = [other for other in names if other != name]
    return " (with %s)" % ", ".join(others[:5]) if others else ""


def directory():
    try:
        return os.getcwd()
    except OSError:
        return ""


def state_of_random():
    """Taken before the forks, which get a seed of their own."""
    try:
        inst = vars(IMPORTED["random"])["_inst"]
        own = next(each for each in type(inst).__mro__ if each.__module__ == "_random")
        return IMPORTED["random"].Random.VERSION, own.getstate(inst), inst.gauss_next
    except BaseException:  # not imported, or altered by the code
        return None


def save(namespace, cells, out_fd, *, layers=(), root="", name_s=1.0, all_s=30.0, max_bytes=256 << 20):
    """See above."""
    gc.disable()
    silence()
    make.offer()
    saving = Save(namespace, cells, (name_s, now_s() + all_s, max_bytes))
    saving.pickle_all()
    saving.write(out_fd, PATH.union(layers, ("",)), root)
