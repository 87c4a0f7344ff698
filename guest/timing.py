"""%time and %timeit."""
import gc
import re
from itertools import repeat
from os import times
from time import perf_counter

try:
    from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
except ImportError:  # a trimmed Python
    getrusage = None

language = load("language")
enter = load("session").enter
REPEAT = 7
SHORT_S, LONG_S = 0.2, 4  # of one run of many loops, and of all runs of code that is slow
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
FUNCTION = "def timed(__loops__):\n for __loop__ in __loops__: pass"


def shown(seconds):
    """Three digits, as 1.23 µs."""
    seconds = round(seconds, 12)
    if seconds >= 60:
        return "%d min %d s" % divmod(round(seconds), 60)
    size, unit = next((one for one in UNITS if seconds >= one[0]), UNITS[-1])
    return "%.3g %s" % (seconds / size, unit)


def cpu_times():
    """(user, system) of this process and of the commands that it has waited for."""
    if getrusage is None:
        user, system, more_user, more_system, _ = times()
        return user + more_user, system + more_system
    own, commands = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return own.ru_utime + commands.ru_utime, own.ru_stime + commands.ru_stime


class Timed:
    """Writes how long its body has taken."""

    def __enter__(self):
        self.cpu, self.wall = cpu_times(), perf_counter()

    def __exit__(self, *_):
        wall = perf_counter() - self.wall
        user, system = (max(0, after - before) for before, after in zip(self.cpu, cpu_times()))
        SYS["stdout"].write("CPU times: user %s, sys: %s, total: %s\nWall time: %s\n" % (
            shown(user), shown(system), shown(user + system), shown(wall)))


def function_of(source, line, frame):
    """A function that runs source for each item of its argument. What it assigns is its own, as with IPython."""
    name = frame.f_code.co_filename
    body = language.python_tree("\n" * (line - 1) + source, name, 0).body
    tree = language.tree_of(FUNCTION, name, 0)
    tree.body[0].body[0].body = body or tree.body[0].body[0].body
    load("notebook").hide_columns(tree, (frame.f_lineno,))
    namespace = frame.f_globals
    if frame.f_locals is not namespace:
        namespace = {**namespace, **frame.f_locals}
    found = {}
    exec(compile(tree, name, "exec", 0, True), namespace, found)
    return found["timed"]


def once(function, loops):
    """The time of so many loops, without the collector's."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        started = perf_counter()
        enter(function, repeat(None, loops))
        return perf_counter() - started
    finally:
        if was_on:
            gc.enable()


def timeit(options, source, line, frame):
    chosen = {key: int(value) for key, value in re.findall(r"-([nr])\s*(\d+)", options)}
    function = function_of(source, line, frame)
    loops, count, taken = chosen.get("n", 0), chosen.get("r", 0), 0
    if not loops:
        for loops in (step * 10**power for power in range(10) for step in (1, 2, 5)):
            taken = once(function, loops)
            if taken >= SHORT_S:
                break
    count = count or max(1, int(min(REPEAT, LONG_S / taken if taken else REPEAT)))
    runs = [once(function, loops) / loops for _ in range(count)]
    mean = sum(runs) / len(runs)
    deviation = (sum((run - mean) ** 2 for run in runs) / len(runs)) ** 0.5
    SYS["stdout"].write("%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)\n" % (
        shown(mean), shown(deviation), count, "" if count == 1 else "s", format(loops, ","), "" if loops == 1 else "s"))
