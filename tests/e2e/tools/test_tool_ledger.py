"""What undo, restore, reset and crashes say of the calls that they cannot take back, against a model of the states."""
import os
import random
import re
import unittest

from tools_case import ToolsCase

STEPS = ["run"] * 6 + ["undo"] * 3 + ["restore", "checkpoint", "crash"] * 2 + ["reset", "branch", "fresh", "read"]
ADD = "add = __import__('sandpiper').tools.stand.add\nfor _ in range(%d): add()\n"


class Model:
    def __init__(self, server):
        self.server, self.cell, self.state = server, 0, 0
        self.calls = {0: []}  # state, by the number of its cell → the (cell, count) that led to it
        self.all, self.names = [], {}

    def run(self, count, **more):
        """A cell that is kept; expects that nothing is said."""
        self.cell += 1
        self.all += [(self.cell, count)] if count else []
        self.calls[self.cell] = self.calls[self.state] + [(self.cell, count)]
        self.state = self.cell
        return self.server.python(ADD % count, **more), 0

    def checkpoint(self, count, name):
        self.names[name] = self.cell + 1
        return self.run(count, checkpoint=name)

    def crash(self, count):
        self.cell += 1
        self.all.append((self.cell, count))
        if self.state == 0:  # the state before the first call is a fresh interpreter
            self.all, self.names = [], {}
        return self.server.python(ADD % count + "import os; os._exit(1)"), count

    def aside(self, count, how):
        self.cell += how == "branch"  # a fresh run has cells of its own
        return self.server.python(ADD % count, **{how: True}), count

    def reset(self):
        result = self.server.python("", reset=True)
        said = sum(count for _, count in {*self.all, *self.calls[self.state]})
        self.cell += 1
        self.calls[self.cell], self.state, self.all, self.names = [], self.cell, [], {}
        return result, said

    def back(self, **how):
        result = self.server.python("", **how)
        if "Nothing was" in result.text:
            return None, 0
        target = int(re.search(r"back to the state (?:after <cell (\d+)>|before)", result.status.line)[1] or 0)
        gone = {call for call in self.calls[self.state] if call not in self.calls[target]}
        if "restore" in how:
            gone |= {call for call in self.all if call[0] > target}
        self.state = target
        if target == 0:  # a fresh interpreter, whose calls have all been named
            self.all = []
        return result, sum(count for _, count in gone)


class Ledger(ToolsCase):
    def test_random_walks_name_the_calls_that_stay(self):
        seed = int(os.environ.get("SANDPIPER_TEST_SEED", random.randrange(10 ** 8)))
        dice = random.Random(seed)
        with self.server(grants={"add": {}}, flags=("--timeout", "60")) as server:
            model = Model(server)
            for number in range(80):
                step, count, name = dice.choice(STEPS), dice.randint(1, 3), "n%d" % dice.randint(0, 2)
                if step == "restore" and name not in model.names:
                    continue
                result, expected = {"run": lambda: model.run(count), "read": lambda: model.run(0), "reset": model.reset,
                                    "checkpoint": lambda: model.checkpoint(count, name), "crash": lambda: model.crash(count),
                                    "undo": lambda: model.back(undo=True), "restore": lambda: model.back(restore=name),
                                    }.get(step, lambda: model.aside(count, step))()
                said = re.search(r"not undone: stand\.add ×(\d+)", result.status.line) if result else None
                self.assertEqual(int(said[1]) if said else 0, expected,
                                 f"step {number}, {step}: {result and result.status.line}; SANDPIPER_TEST_SEED={seed}")


if __name__ == "__main__":
    unittest.main()
