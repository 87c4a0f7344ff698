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
RECORD_MAX = 64 << 20
TIME, CHANGED = "time", "type changed"


class Late(BaseException):
    pass


class NotBack(Exception):
    """Its text is the reason."""


class Unit:
    def __init__(self, active, rows, data):
        self.active, self.rows, self.data, self.reason, self.busy = active, rows, data, None, False
        self.done = False
        self.names = [row[0] for row in rows]


def text(field):
    return field.decode("utf-8", "replace")


def read_all(fd):
    parts = []
    while True:
        part = os.read(fd, 1 << 20)
        if not part:
            return memoryview(b"".join(parts))
        parts.append(part)


class Body:
    """The records of a body, as far as it goes."""

    def __init__(self, data):
        self.units, self.modules, self.lost, self.sources, self.path, self.whole = [], [], [], {}, [], False
        self.cell, self.cwd, self.settings = 1, "", False
        at = 0
        try:
            while not self.whole:
                size = int.from_bytes(data[at : at + 4], "little")
                if at + 4 + size > len(data) or size > RECORD_MAX:
                    return
                fields = frames.split(bytes(data[at + 4 : at + 4 + size]))
                at += 4 + size
                if text(fields[0]) == "unit":
                    end = at + int(fields[1])
                    if end > len(data):
                        return
                    self.unit(fields, data[at:end])
                    at = end
                else:
                    getattr(self, "of_" + text(fields[0]))(*fields[1:])
        except (IndexError, ValueError, AttributeError, TypeError):
            return  # damaged, or of a future version

    def unit(self, fields, data):
        rest = list(map(text, fields[3:]))
        self.units.append(Unit(fields[2] == b"1", [rest[at : at + 5] for at in range(0, len(rest), 5)], data))

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
        self.body, self.namespace, self.made, self.fd = body, namespace, {}, -1
        self.name_s, self.end = limits
        self.unit_of = {name: unit for unit in body.units for name in unit.names}
        self.extra = {}

    def value_of(self, key):
        if key in self.made:
            return self.made[key]
        unit = self.unit_of.get(key)
        if unit is not None and not unit.done:
            self.bring(unit)
        if key not in self.namespace:
            raise NotBack("needs %s" % key)
        return self.namespace[key]

    def say(self, what, unit):
        if self.fd >= 0:
            keep.write_all(self.fd, what + self.body.units.index(unit).to_bytes(4, "little"))

    def bring(self, unit):
        """Fills the names of one unit. NotBack: why not, which the unit has noted."""
        if unit.busy:
            raise NotBack("needs itself")
        if unit.reason:
            raise NotBack("needs %s" % unit.names[0])
        unit.busy = True
        self.say(b"b", unit)
        try:
            values = make.call(make.Unpickler(_io.BytesIO(unit.data)).load)
            for row, value in zip(unit.rows, values):
                name, kind = row[:2]
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
        self.say(b"e", unit)

    def limit(self, unit):
        return max(0.0, min(self.end - now_s(), self.name_s * (1 + len(unit.data) / FOR_EACH)))

    def try_in_forks(self, units):
        """Finds those at which a process ends or hangs."""
        while units and now_s() < self.end:
            fork, stack = keep.Fork(self.try_one, units, sum(len(unit.data) for unit in units)), []
            reason = "loading ended the process"
            try:
                while units:
                    head = fork.read(5, self.limit(stack[-1] if stack else units[0]), self.end)
                    unit = self.body.units[int.from_bytes(head[1:], "little")]
                    if head[:1] == b"b":
                        stack.append(unit)
                    elif head[:1] == b"t":
                        units.remove(unit)
                        stack = []
                    elif head[:1] == b"m":
                        unit.reason = "takes too much memory"
                    elif head[:1] == b"r":
                        unit.reason = "loading it would start, signal or connect to others"
            except TimeoutError:
                reason = TIME
            except (EOFError, IndexError, ValueError):
                pass
            finally:
                fork.close()
            if units:
                culprit = stack[-1] if stack else units[0]
                culprit.reason = culprit.reason or reason
                units = [unit for unit in units if unit is not culprit]

    def try_one(self, fd, unit):
        self.fd = fd
        if not unit.done and not unit.reason:
            try:
                self.bring(unit)
            except MemoryError:
                self.say(b"m", unit)
            except BaseException:
                pass
        if keep.refused:
            self.say(b"r", unit)
            keep.refused.clear()
        self.say(b"t", unit)

    def bring_all(self):
        units = [unit for unit in self.body.units if not unit.reason]
        for again in True, False:  # what fails is tried once more after all others
            for unit in units:
                if not unit.done and not unit.reason:
                    self.in_time(unit, self.limit(unit), self.bring, unit)
            units = [unit for unit in units if again and unit.reason not in (None, TIME, CHANGED)]
            for unit in units:
                unit.reason = None

    def in_time(self, unit, seconds, function, *args):
        """Calls it with an alarm; a unit that is late has that as its reason."""
        if seconds <= 0:
            unit.reason = TIME
            return
        _signal.signal(_signal.SIGALRM, self.ring)
        _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.1)
        try:
            try:
                function(*args)
            finally:
                _signal.setitimer(_signal.ITIMER_REAL, 0)
        except BaseException as error:
            unit.reason = unit.reason or reason_of(error)
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)

    def ring(self, *_):
        raise Late

    def import_all(self):
        """First, so that no value is late because of them. One that fails does so once more with the values that need it."""
        for name in self.body.modules:
            self.in_time(Unit(False, [], b""), self.end - now_s(), make.import_module, name)


def bring_back(in_fd, namespace, *, name_s=1.0, all_s=10.0, careful=False):
    """See keep.py."""
    body, limits = Body(read_all(in_fd)), (name_s, now_s() + all_s)
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
    loading.import_all()
    active = [unit for unit in body.units if careful or unit.active]
    if active:
        loading.try_in_forks(active)
    loading.bring_all()
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
                others = [other for other in unit.names if other != name]
                failed.append(not_back(name, kind, (unit.reason or TIME) + (" (with %s)" % ", ".join(others[:5]) if others else ""), cell, line))
    return {"names": len(back), "imports": len(statements), "back": back, "not_back": body.lost + failed, "sources": body.sources,
            "cell": body.cell, "cwd": cwd, "cwd_gone": gone, "settings": body.settings, "whole": body.whole}
