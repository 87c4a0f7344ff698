"""A model of one session: the server's results so far, and its possible next ones. See crash_stress.py.

A state is identified by the cell that made it, as in tools/session/history.h; None is an unknown one, because the cells
of cancelled calls are never reported. Cancelled calls change nothing, so the count after their cells is known.
"""
import collections
import re

NAMED = 8
STEPS = 3
EARLIER = re.compile(r"(?:restored to the state|changes) after <cell (\d+)>")
BACK = re.compile(r'(?:undid <cell \d+>|undo|restored "(?P<name>.+?)"): back to the state (?:after <cell (?P<cell>\d+)>|before the first call)'
                  r"(?:, (?!then )[^|\];]*?)?(?:; |, then |(?= \||\]|$))")

NOT_STARTED = "The code has not started: killed processes of an earlier call"


class Wrong(AssertionError):
    """A result that the model excludes."""


def expect(true, what):
    if not true:
        raise Wrong(what)


class Session:
    def __init__(self, name):
        self.name = name
        self.sent = collections.deque()  # without fresh runs, which do not queue
        self.fresh = 0
        self.trail = collections.deque(maxlen=12)
        self.recent = []  # calls of all sessions that have a result, those since this one's last and some before
        self.skipped = False  # a cancelled call precedes the next result
        self.pending = False  # a result said that the state is not restored yet
        self.high = 0  # the highest cell that was reported
        self.unseen = []  # of cancelled calls: (self.high, count)
        self.restart()

    def restart(self):
        """A fresh interpreter, in which no cell has completed."""
        self.counts = {0: 0}  # cell -> count after it
        self.now, self.cell = 0, 0  # None: unknown
        self.known = 0  # the last cell that was known
        self.before = {0}  # the cells that may have made the state before the last call
        self.armed = 0  # calls of this interpreter that a kill may follow
        self.names = collections.OrderedDict()  # name -> cell; the oldest first
        self.missing = set()  # names that the server does not know; the next status must say why
        self.steps = []  # the cells that undo leads to, the newest last
        self.cut = False  # there may be, or may have been, more steps

    def describe(self):
        return (f"{self.name}: now {self.now} after cell {self.cell}, steps {self.steps} cut {self.cut}, "
                f"names {dict(self.names)}, counts {dict(list(self.counts.items())[-8:])} armed {self.armed}")

    # --- the fate of the state ---

    def push(self):
        self.steps.append(self.cell)
        del self.steps[:-STEPS]

    def made(self, cell, count, restored):
        if not restored:
            self.push()
        self.before = {self.known, self.cell}
        self.cell, self.now, self.known, self.high = cell, count, cell, cell
        self.counts[cell] = count

    def died(self):
        """The call has a cell but changed nothing; a fresh interpreter is replaced by a fresh one."""
        if self.cell == 0:
            self.restart()
        elif self.cell is None:
            self.forget_steps()
        else:
            self.push()
        self.armed = 0

    def takes(self, cell, by_thread):
        """What is gone of the calls that had a result, now that the session has the state after this cell.

        by_thread: the death came between the calls. Then a kill that earlier code of this interpreter has armed may
        have come before the fork of the last call's checkpoint, and takes that call. Nothing takes more: the state
        before has a checkpoint, which runs no thread, and which no kill of the process group reaches. A call that has
        begun finds the checkpoint of the call before it, so a death during a call takes nothing.
        """
        if cell == self.cell or self.cell is None and cell >= self.known and self.count_of(cell) == self.now:
            return "nothing"
        was_before = cell in self.before or None in self.before and cell not in self.counts
        return "the last call" if by_thread and self.armed and was_before else "more"

    def count_of(self, cell):
        if cell in self.counts:
            return self.counts[cell]
        nearest = max((high for high, _ in self.unseen if high < cell), default=None)
        counts = {count for high, count in self.unseen if high == nearest}
        return counts.pop() if len(counts) == 1 else None

    def move(self, cell):
        expect(cell in self.counts or self.unseen, f"back to cell {cell}, which nobody has seen")
        self.cell, self.now, self.known = cell, self.count_of(cell), cell

    def made_way(self, names):
        """Memory was short: named states were dropped, after the steps of undo."""
        for name in names:
            self.names.pop(name, None)
            self.missing.discard(name)
        self.forget_steps()

    def forget_steps(self):
        self.steps, self.cut = [], True

    def fall_back(self, cell):
        """An older checkpoint took over. The states that undo can reach from there depend on the lost cells."""
        self.armed, self.pending = 0, False
        self.move(cell)
        self.forget_steps()

    def unanswered(self):
        """A cancelled call, which changes nothing; its kind, and whether it began, are unknown."""
        self.unseen.append((self.high, self.now))
        self.lose_track()

    def lose_track(self):
        """A cancelled call may have made a state."""
        self.before |= {self.known, None}
        self.cell = None
        self.forget_steps()

    def go_back(self, cell, name):
        """Goes back by undo (name: None) or restore."""
        self.armed = 0
        if name is not None:
            expect(name in self.names, f"{name} is no name")
            expect(self.names[name] == cell, f"{name} is the state after cell {self.names[name]}")
            self.push()
        else:
            expect(self.steps or self.cut, "more undone than there was")
            step = self.steps.pop() if self.steps else None
            expect(step in (None, cell), f"undo leads to cell {step}")
            if cell == 0:
                expect(not self.names, "named states are dropped by undo")
                self.counts = {0: 0}
        self.move(cell)

    def save(self, name, dropped):
        self.names.pop(name, None)
        oldest = next(iter(self.names)) if len(self.names) == NAMED else None
        expect(dropped == oldest, f"dropped was {dropped}, the oldest is {oldest}")
        self.names.pop(dropped, None)
        self.names[name] = self.cell

    def drop(self, said, saved=None):
        """saved: a name that the same call has given since."""
        dropped, *left = [name for name in re.findall('"(.+?)"', said) if name != "before-undo"]
        expect(dropped in self.names, f"{dropped} is no name")
        del self.names[dropped]
        expect([name for name in left if name != saved] == [name for name in self.names if name != saved],
               f"left are {list(self.names)}")

    def refuses(self, text, call):
        """Whether the server may report that it cannot go back."""
        name = call.arguments.get("restore", call.arguments.get("drop"))
        if text.startswith(NOT_STARTED):
            self.pending = True  # also of a restore, which goes on
            self.forget_steps()
        elif "is still being saved" in text:
            pass
        elif name is not None:
            expect("no state is named" in text, "why not?")
            if name in self.names and self.cell is not None:  # a cancelled call may drop it
                self.missing.add(name)
        elif "only a fresh interpreter" in text:
            expect(self.names and (self.cut or self.steps[-1:] in ([0], [None])), "undo does not lead there")
        else:
            expect("Nothing was undone" in text and (not self.steps or self.armed), "there is something to undo")
            expect(self.cut or "no call has changed" in text or "no earlier state" in text, "why not?")
