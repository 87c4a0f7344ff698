"""What all measures use. Each yields (group, contestant, seconds, KiB or a count) and interleaves what it compares: a
sample of each contestant in turn, so that other load on the machine affects all of them."""
import contextlib
import time

from contestants import Sandpiper

PAUSE_S = 0.02  # between calls: time to make the checkpoint


def timed(action, *arguments, **more):
    began = time.perf_counter()
    action(*arguments, **more)
    return time.perf_counter() - began


class Measuring:
    def __init__(self, binary, python, absent, scale):
        self.binary, self.python, self.absent, self.scale = binary, python, absent, scale

    def times(self, count):
        return max(3 if self.scale else 1, int(count * self.scale))

    def rest(self, seconds):
        """Time for what goes on after a result; with --scale 0 no figure counts."""
        time.sleep(seconds if self.scale else 0)

    def sandpiper(self, *flags, **more):
        return contextlib.closing(Sandpiper(self.binary, self.python, *flags, **more))

    def both_ways(self, **actions):
        """Samples of each action in turn; a pause before each."""
        for name, action in actions.items():
            time.sleep(PAUSE_S)
            yield name, timed(action)

    def bursts(self, group, pause_s, turns, calls, actions):
        """Calls of one contestant with a pause before each, then of the next one."""
        for _ in range(self.times(turns)):
            for name, action in actions.items():
                action()
                for _ in range(calls if self.scale else 1):
                    if pause_s:
                        time.sleep(pause_s)
                    yield group, name, timed(action)

    def first_result(self, kind, *arguments):
        began = time.perf_counter()
        with contextlib.closing(kind(*arguments)) as one:
            one.run("pass")
            return time.perf_counter() - began
