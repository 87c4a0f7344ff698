"""Brings back what keep.py has kept, see there."""
import os
import sys
import _io
import _signal
from time import monotonic as now_s

keep = load("keep")
frames = load("frames")
make = load("keep_make")
pickles = load("keep_pickle")
FOR_EACH = 16 << 20  # bytes of a pickle for which a name gets its time once more
TIME, CHANGED, ENDED = "time", "type changed", "loading ended the process"
BEGUN, DONE, TRIED, LARGE, REFUSED = b"b", b"d", b"t", b"m", b"r"  # what a fork says of a unit
DECISIVE = {LARGE: "takes too much memory", REFUSED: "loading it would start, signal or connect to others"}
FINAL = (TIME, CHANGED, ENDED, *DECISIVE.values())


class Late(BaseException):
    pass


class NotBack(Exception):
    """Its text is the reason."""


class Unit:
    def __init__(self, active=False, rows=(), at=0, size=0):
        self.active, self.rows, self.at, self.size, self.reason, self.busy, self.done = active, rows, at, size, None, False, False
        self.names = [row[0] for row in rows]


def text(field):
    return field.decode("utf-8", "replace")


class Body:
    """The records of a body, as far as it goes."""

    def __init__(self, fd):
        with open(fd, "rb", 0, closefd=False) as file:
            self.data = file.read()
        self.units, self.modules, self.lost, self.sources, self.path, self.whole = [], [], [], {}, [], False
        self.cell, self.cwd, self.settings, self.at = 1, "", False, 0
        try:
            while not self.whole:
                fields = frames.split(self.take(int.from_bytes(self.take(4), "little")))
                getattr(self, "of_" + text(fields[0]))(*fields[1:])
        except (LookupError, ValueError, AttributeError, TypeError):
            pass  # damaged, or of a future version

    def take(self, size):
        self.at += size
        if self.at > len(self.data):
            raise ValueError
        return self.data[self.at - size : self.at]

    def of_unit(self, size, active, *rest):
        rest, at, self.at = list(map(text, rest)), self.at, self.at + int(size)
        if not at <= self.at <= len(self.data) or len(rest) % 5:
            raise ValueError
        self.units.append(Unit(active == b"1", [rest[at : at + 5] for at in range(0, len(rest), 5)], at, int(size)))

    def of_keep(self, *pairs):
        values = dict(zip(pairs[::2], pairs[1::2]))
        if values[b"version"] != keep.VERSION.encode():
            raise ValueError
        self.cell, self.settings, self.cwd = int(values[b"cell"]), values[b"settings"] == b"1", os.fsdecode(values[b"cwd"])

    def of_path(self, *pairs):
        self.path = [(int(at), os.fsdecode(entry)) for at, entry in zip(pairs[::2], pairs[1::2])]

    def of_cell(self, name, source):
        self.sources[text(name)] = source.decode("utf-8", "surrogatepass")

    def of_modules(self, *names):
        self.modules = list(map(text, names))

    def of_lost(self, *fields):
        name, kind, cell, line, _, reason = map(text, fields)
        self.lost.append(not_back(name, kind, reason, cell, line))

    def of_end(self):
        self.whole = True


def not_back(name, kind, reason, cell, line):
    return {"name": name, "type": kind, "reason": reason, "cell": cell, "line": line}


def reason_of(error):
    if isinstance(error, NotBack):
        return str(error)
    if isinstance(error, Late):
        return TIME
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        return "needs the package %s" % (load("hints").distribution_for(error.name) or error.name.partition(".")[0])[:60]
    return "loading raised %s" % type(error).__name__[:60]


class Load:
    def __init__(self, body, namespace, limits):
        self.body, self.namespace, self.made, self.extra, self.fd, self.rings = body, namespace, {}, {}, -1, False
        self.name_s, self.end = limits
        self.unit_of = {name: unit for unit in body.units for name in unit.names}

    def value_of(self, key):
        if key in self.made:
            return self.made[key]
        unit = self.unit_of.get(key)
        try:
            if unit is not None and not unit.done:
                self.bring(unit)
            return self.namespace[key]
        except Exception:
            raise NotBack("needs %s" % key) from None

    def say(self, what, unit):
        if self.fd >= 0:
            keep.write_all(self.fd, what + self.body.units.index(unit).to_bytes(4, "little"))

    def bring(self, unit):
        """Fills the names of one unit. NotBack: why not, which the unit has noted."""
        if unit.busy or unit.reason:
            raise NotBack("needs itself")
        unit.busy = True
        self.say(BEGUN, unit)
        try:
            file = _io.BytesIO(self.body.data)
            file.seek(unit.at)
            for (name, kind, *_), value in zip(unit.rows, make.call(make.Unpickler(file).load)):
                if name[:1] == ".":
                    self.extra[name] = value
                elif pickles.type_name(type(value)) != kind:
                    raise NotBack(CHANGED)
                else:
                    self.namespace[name] = value
            unit.done = True
        except BaseException as error:
            unit.reason = reason_of(error)
            for name in unit.names:
                self.made.pop(name, None)
                self.namespace.pop(name, None)
            raise
        finally:
            unit.busy = False
            self.say(DONE, unit)

    def limit(self, unit):
        return max(0.0, min(self.end - now_s(), self.name_s * (1 + unit.size / FOR_EACH)))

    def try_in_forks(self, units, end):
        """Finds those at which a process ends or hangs; the others have no reason any more."""
        while units and now_s() < end:
            stack, reason = [], ENDED
            try:
                fork = keep.Fork(self.try_one, units, sum(unit.size for unit in units))
            except OSError:  # no more processes are possible
                break
            try:
                while units:
                    head = bytes(fork.read(5, self.limit(stack[-1] if stack else units[0]), end))
                    kind, unit = head[:1], self.body.units[int.from_bytes(head[1:], "little")]
                    if kind == BEGUN:
                        stack.append(unit)
                    elif kind == DONE:
                        stack.pop()
                    elif kind in DECISIVE:
                        reason = DECISIVE[kind]
                        break
                    elif kind == TRIED:
                        units.remove(unit)
                        unit.reason, stack = None, []
            except TimeoutError:
                reason = TIME
            except (EOFError, LookupError, ValueError):
                pass
            finally:
                fork.close()
            if units:
                culprit = stack[-1] if stack else units[0]
                culprit.reason = reason
                units = [unit for unit in units if unit is not culprit]
        for unit in units:
            unit.reason = TIME if now_s() >= end else None

    def try_one(self, fd, unit):
        """In the fork. An exception is not decisive: it may be due to what the fork lacks."""
        self.fd = fd
        self.forget()
        try:
            self.bring(unit)
        except MemoryError:
            self.say(LARGE, unit)
        except BaseException:
            pass
        self.say(REFUSED if keep.refused else TRIED, unit)

    def forget(self):
        for unit in self.body.units:
            unit.reason = unit.reason if unit.reason in FINAL else None

    def bring_all(self, careful):
        """Those first that run no code of the user's. What fails is tried once more after all others."""
        active = [unit for unit in self.body.units if careful or unit.active]
        if active:
            self.try_in_forks(list(active), now_s() + (self.end - now_s()) / 2)
        for _ in range(2):
            self.forget()
            for unit in sorted(self.body.units, key=lambda each: each.active):
                if not unit.done and not unit.reason:
                    self.in_time(unit, self.limit(unit), self.bring, unit)

    def in_time(self, unit, seconds, function, *args):
        """Calls it with an alarm; a unit that is late has that as its reason."""
        if seconds <= 0:
            unit.reason = TIME
            return
        try:
            self.rings = True
            _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.1)
            function(*args)
        except BaseException as error:
            unit.reason = unit.reason or reason_of(error)
        while self.rings:
            try:
                _signal.setitimer(_signal.ITIMER_REAL, 0)
                self.rings = False
            except Late:
                pass

    def ring(self, *_):
        if self.rings:
            raise Late

    def import_all(self):
        """First, so that no value is late because of them. One that fails does so once more with the values that need it."""
        for name in self.body.modules:
            self.in_time(Unit(), self.end - now_s(), make.import_module, name)


def bring_back(in_fd, namespace, *, name_s=1.0, all_s=10.0, careful=False):
    """See keep.py."""
    body, limits = Body(in_fd), (name_s, now_s() + all_s)
    cwd, gone = keep.directory(), None
    try:
        os.chdir(body.cwd)
        cwd = body.cwd
    except (OSError, ValueError):
        gone = body.cwd or None
    for at, entry in body.path:
        if entry not in SYS["path"]:
            SYS["path"].insert(at, entry)
    loading = make.now["loading"] = Load(body, namespace, limits)
    before = _signal.signal(_signal.SIGALRM, loading.ring)
    loading.import_all()
    loading.bring_all(careful)
    _signal.signal(_signal.SIGALRM, before)
    make.now["loading"] = None
    for name, module, function in (keep.STATE_OF_RANDOM, "random", "setstate"), (keep.STATE_OF_NUMPY, "numpy.random", "set_state"):
        if name in loading.extra:
            try:
                make.attribute(module, function)(loading.extra[name])
            except BaseException:
                pass  # of another version
    back, failed, statements = [], [], set()
    for unit in body.units:
        for name, kind, cell, line, imported in unit.rows:
            if name[:1] == ".":
                continue
            if unit.done and imported == "1":
                statements.add((cell, line))
            elif unit.done and name[:1] != "_":
                back.append(name)
            elif not unit.done:
                failed.append(not_back(name, kind, (unit.reason or TIME) + keep.beside(name, unit.names), cell, line))
    return {"names": len(back), "imports": len(statements), "back": back, "not_back": body.lost + failed, "sources": body.sources,
            "cell": body.cell, "cwd": cwd, "cwd_gone": gone, "settings": body.settings, "whole": body.whole}
