"""What the server has said of one session so far, and what it may say next. See stress.py.

A state is known by the cell that made it, as in tools/history.h; None stands for one that is not known, for
the cells of cancelled calls are never told.
"""
import collections
import re

NAMED = 8
STEPS = 3
EARLIER = re.compile(r"(?:restored to|what came) after <cell (\d+)>")
BACK = re.compile(r'back to (?:after <cell (\d+)>|before the first call) \((?:undo|restored "(.+?)")\)'
                  r"(?:, files are not rolled back)?(?:, then )?")


class Wrong(AssertionError):
    """The model excludes it."""


def expect(true, what):
    if not true:
        raise Wrong(what)


class Session:
    def __init__(self, name):
        self.name = name
        self.sent = collections.deque()  # but fresh runs, which wait for nobody
        self.fresh = 0
        self.trail = collections.deque(maxlen=12)
        self.skipped = False  # a cancelled call lies before the next answer
        self.restart()

    def restart(self):
        """A fresh interpreter: no cell has been answered in it."""
        self.counts = {0: 0}  # cell -> count after it
        self.now, self.cell = 0, 0  # None: not known
        self.armed = 0  # calls that a kill may follow
        self.unseen = False  # there are cells that were not told
        self.names = collections.OrderedDict()  # name -> cell; the oldest first
        self.steps = []  # the cells that undo leads to, the newest last
        self.cut = False  # there may be, or have been, more of them

    def describe(self):
        return (f"{self.name}: now {self.now} after cell {self.cell}, steps {self.steps} cut {self.cut}, "
                f"names {dict(self.names)}, counts {dict(list(self.counts.items())[-8:])} armed {self.armed}")

    # --- what becomes of the state ---

    def push(self):
        self.steps.append(self.cell)
        del self.steps[:-STEPS]

    def made(self, cell, count, restored):
        if not restored:
            self.push()
        self.cell, self.now = cell, count
        self.counts[cell] = count

    def died(self):
        """The call counts, and has changed nothing; a fresh interpreter comes fresh again."""
        if self.cell == 0:
            self.restart()
        elif self.cell is None:
            self.forget_steps()
        else:
            self.push()
        self.armed = 0

    def move(self, cell):
        expect(cell in self.counts or self.unseen, f"back to cell {cell}, which nobody has seen")
        self.cell, self.now = cell, self.counts.get(cell)

    def forget_steps(self):
        self.steps, self.cut = [], True

    def fall_back(self, cell):
        """An older checkpoint took over. What undo leads to from there depends on what was lost."""
        self.armed = 0
        self.move(cell)
        self.forget_steps()

    def unanswered(self):
        """A cancelled call, which changes nothing: what it was and whether it began is not known."""
        self.unseen = True
        self.cell = None
        self.forget_steps()

    def go_back(self, cell, name):
        """By undo (name: None) or restore."""
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

    def refuses(self, text, call):
        """Whether it may say that it cannot go back."""
        if "restore" in call.arguments:
            expect("no state is named" in text and call.arguments["restore"] not in self.names, "the name is there")
        elif "only the fresh interpreter" in text:
            expect(self.names and (self.cut or self.steps[-1:] in ([0], [None])), "undo does not lead there")
        else:
            expect("Nothing was undone" in text and (not self.steps or self.armed), "there is something to undo")
            expect(self.cut or "no call has changed" in text or "no earlier state" in text, "why not?")
