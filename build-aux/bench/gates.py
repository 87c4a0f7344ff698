"""The rows of the gates: what may be published, and the aim beyond it."""
import math
import statistics
import typing

from units import shown, unit

RATIO, MORE, ALONE = "of the pairs' ratios", "of the pairs' differences", "of the samples"


class Row(typing.NamedTuple):
    measure: str  # of bench.py's --only
    group: str
    ours: str  # a contestant of the group
    other: str  # what it is compared with; only shown where the gate is for the samples
    of: str  # what the median is taken of
    gate: float  # in the unit of the group, or as a multiple
    stretch: float = None
    least: bool = False  # the gate is the least that it may be, not the most


ROWS = (
    Row("start", "start", "sandpiper: initialize", None, ALONE, 5, 2),
    Row("start", "start", "sandpiper: first result", "python3 -c", RATIO, 2.0, 1.5),
    Row("start", "start", "sandpiper: first result", "bwrap python3 -c", RATIO, 1.5, 1.0),
    Row("fresh", "new interpreter, nothing imported", "sandpiper: fresh", "python3 -c", RATIO, 0.15, 0.1),
    Row("warm", "warm call, 3 ms between", "sandpiper", "exec loop", RATIO, 2.5, 2.0),
    Row("warm", "warm call, 100 ms between", "sandpiper", "exec loop", RATIO, 2.5, 2.0),
    Row("warm", "warm call, back to back", "sandpiper", "exec loop", MORE, 0.6, 0.3),
    Row("pages", "pages written by a warm call", "sandpiper", "exec loop that forks", ALONE, 150, 100),
    Row("processor", "processor time of a warm call", "all processes", "exec loop", ALONE, 0.8, 0.5),
    Row("output", "16 MiB of output", "sandpiper", "exec loop", RATIO, 1.5, 0.7),
    Row("crash", "crash", "sandpiper: crash to response", None, ALONE, 6, 2),
    Row("memory", "memory", "sandpiper: one session, its checkpoint", "exec loop", ALONE, 14, 9),
    Row("density", "servers for each GiB", "by PSS", "by the machine's free memory", ALONE, 100, 150, least=True),
    Row("density", "servers at once", "respond", "started", RATIO, 1, least=True),
    *(Row("starts", "servers that failed to start, of 100", name, None, ALONE, 0)
      for name in ("one after the other", "one every 100 ms", "all at once")),
    Row("packages", "packages: a wheel and its dependency", "install_package", "pip install --target", RATIO, 0.6, 0.4),
    *(Row("files", f"{kind}: a call", name, "no files", RATIO, 1.1, 1.02)
      for kind in ("--workspace", "--workspace --cow") for name in ("1,900 files", "many files")),
    Row("project", "--cow: a call", "many files", "10 files", RATIO, 1.1, 1.02),
    Row("undo_files", "files of 1,500: a call", "kept", "none kept", RATIO, 1.1, 1.02),
    Row("apply", "apply 1,000 files", "on the disk", "without a flush", RATIO, 2.0, 1.5),
    Row("tools", "1,000 calls of a tool", "one cell", "plain pipe", RATIO, 1.5),
    Row("tools", "1,000 pages of a tool", "one cell", "plain pipe", RATIO, 1.5),
    Row("tools", "start, no tool called", "with --tools", "without --tools", RATIO, 1.2),
    Row("tools", "warm call, no tool called", "with --tools", "without --tools", RATIO, 1.2),
    *(Row("record", f"with a record: {code}", "--record", "without", RATIO, 1.1)
      for code in ("x = 1", "print('a line of output')")),
    *(Row("view", f"results for people: {code}", ours, "--ui off", MORE, most)
      for ours, kind, most in (("--ui on", "server alone: ", 0.04), ("--ui on, the client shows it", "", 0.3))  # 0.04: 3 % of a call
      for code in (kind + "x = 1", kind + "print('a line of output')")),
)
NOTE = """Each row compares medians. What is compared is sampled in turns, and a ratio or a difference is taken of each pair
of neighbours before the median: load that comes and goes strikes both of a pair, and one of the two tails decides
nothing. "close": the gate lies within the 95 % interval of that median, so chance decides; repeat with --scale 4.
"busy": other programs used a tenth of the processors or more when the measure began. Each of our processes then waits for
a processor at each step of a call, which no comparison takes out; pages, memory and processor time still hold."""
COUNTS = ("pages", "processor", "memory", "density", "starts")  # these measure no time that passes


def interval(values):
    """The order statistics between which the median lies with 95 %; of few samples, all."""
    ordered, count = sorted(values), len(values)
    low = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))
    return ordered[low], ordered[count - 1 - low]


def compared(row, ours, other):
    """The samples, ratios or differences whose median the gate is for, in the unit of the gate."""
    factor = unit(row.group)[0]
    if row.of == RATIO:
        return [one / against for one, against in zip(ours, other)]
    if row.of == MORE:
        return [(one - against) * factor for one, against in zip(ours, other)]
    return [one * factor for one in ours]


def line(row, samples):
    """(the row as text, whether its gate is missed)"""
    ours, other = samples.get(row.ours), samples.get(row.other)
    title = f"{row.group}: {row.ours}" + (f" / {row.other}" if row.other else "")
    least = "at least " if row.least else ""
    measure = "x" if row.of == RATIO else " " + unit(row.group)[1]
    limits = f"{least}{row.gate:g}{measure:9} {f'{row.stretch:g}' if row.stretch else '-':>7}"
    if not ours or row.of != ALONE and not other:
        return f"{title:88} {'':35} {limits:>27}  not measured, see \"left out\"", False
    values = compared(row, ours, other)
    now, (low, high) = statistics.median(values), interval(values)
    keeps = lambda limit: now >= limit if row.least else now <= limit
    result = "MISSED" if not keeps(row.gate) else "met, stretch too" if row.stretch and keeps(row.stretch) else "met"
    if low <= row.gate <= high and low < high:
        result += ", close"
    both = [shown(row.group, statistics.median(side)) if side else "-" for side in (ours, other)]
    decimals = 3 if abs(now) < 0.1 else 2
    return (f"{title:88} {both[0]:>13} {both[1]:>13} {now:>8.{decimals}f} {limits:>27}  {result}", not keeps(row.gate))


def gates(samples, measures, others):
    """(the table of the rows of these measures, whether one of them misses its gate). others: {measure: the share of the
    processors that other programs used}"""
    found = {}
    for group, contestant, value in samples:
        if value is not None:
            found.setdefault(group, {}).setdefault(contestant, []).append(value)
    head = f"{'gates':88} {'ours':>13} {'the other':>13} {'now':>8} {'gate':>17} {'stretch':>9}"
    lines = [(*line(row, found.get(row.group, {})), row.measure not in COUNTS and others.get(row.measure, 0) >= 0.1)
             for row in ROWS if row.measure in measures]
    return "\n".join([head, *(text + (", busy" if busy else "") for text, _, busy in lines), "", NOTE]), any(
        missed for _, missed, _ in lines)
