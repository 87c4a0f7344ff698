"""Medians with their spread, ratios to a reference, a table and a plot of what was measured."""
import statistics

# What the others in a group are compared with.
REFERENCE = {
    "start": "python3 -c", "warm call, spaced": "exec loop", "warm call, back to back": "exec loop",
    "16 MiB of output": "exec loop", "memory": "exec loop", "start on a project": "straight, 10 files",
    "pages written by a warm call": "exec loop that forks", "1,000 calls of a tool": "plain pipe",
    "1,000 pages of a tool": "plain pipe",
}
# (group, contestant, another one or None, what the first may be at most, an aim beyond that): as a multiple of the other,
# with "+" as how much more it is, else by itself; in the unit of the group. All by p10: other load slows every process
# that takes part.
GATES = (
    ("start", "sandpiper: initialize", None, 5, 2),
    ("start", "sandpiper: first result", "python3 -c", 2.0, 1.5),
    ("start", "sandpiper: first result", "bwrap python3 -c", 1.5, 1.0),
    ("new interpreter, nothing imported", "sandpiper: fresh", "python3 -c", 0.15, 0.1),
    ("warm call, spaced", "sandpiper", "exec loop", 2.5, 2.0),
    ("warm call, back to back", "sandpiper", "+exec loop", 0.6, 0.3),
    ("pages written by a warm call", "sandpiper", None, 150, 100),
    ("16 MiB of output", "sandpiper", "exec loop", 1.5, 0.7),
    ("arrays, 1 MB", "sandpiper: crash to answer", None, 6, 2),
    ("memory", "sandpiper: one session, its checkpoint", None, 14, 9),
    ("--cow: a call", "100,000 files", "10 files", 1.1, 1.02),
    ("files of 1,500: a call", "kept", "none kept", 1.1, 1.02),
    ("1,000 calls of a tool", "one cell", "plain pipe", 1.5, None),
    ("1,000 pages of a tool", "one cell", "plain pipe", 1.5, None),
    ("start, no tool called", "with --tools", "without --tools", 1.2, None),
    ("warm call, no tool called", "with --tools", "without --tools", 1.2, None),
    ("with a record: x = 1", "--record", "without", 1.1, None),
    ("with a record: print('a line of output')", "--record", "without", 1.1, None),
    ("results for people: server alone: x = 1", "--ui on", "+--ui off", 0.04, None),  # 3 % of a call
    ("results for people: server alone: print('a line of output')", "--ui on", "+--ui off", 0.04, None),
    ("results for people: x = 1", "--ui on, the client shows it", "+--ui off", 0.3, None),
    ("results for people: print('a line of output')", "--ui on, the client shows it", "+--ui off", 0.3, None),
)


def reference(group):
    if group.startswith("new interpreter"):
        return "python3 -c"
    if group.startswith("files of"):
        return "none kept"
    if group.endswith("no tool called"):
        return "without --tools"
    if group.startswith("with a record"):
        return "without"
    if group.startswith("results for people"):
        return "--ui off"
    if group.startswith("a record of"):
        return "python: json.loads of each line"
    if group.startswith("--cow"):
        return "10 files"
    if group.endswith("many servers"):
        return "alone: its processes" if is_memory(group) else "alone"
    return REFERENCE.get(group, "exec loop: fork alone" if "MB" in group else "exec loop")


def is_memory(group):
    """Its samples are KiB."""
    return group.startswith("memory")


def unit(group):
    """(factor of the samples, name, decimals)"""
    if is_memory(group):
        return 1 / 1024, "MB", 1
    return (1, "pages", 0) if group.startswith("pages") else (1000, "ms", 3)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(samples):
    """{group: {contestant: {median, p10, p90, n, ratio}}}; ratio: of the medians, to the group's reference."""
    rows = {}
    for group, contestant, value in samples:
        if value is not None:
            rows.setdefault(group, {}).setdefault(contestant, []).append(value)
    found = {}
    for group, contestants in rows.items():
        against = contestants.get(reference(group))
        for name, values in contestants.items():
            middle = statistics.median(values)
            found.setdefault(group, {})[name] = {
                "median": middle, "p10": quantile(values, 0.1), "p90": quantile(values, 0.9),
                "n": len(values), "ratio": middle / statistics.median(against) if against else None}
    return found


def gates(found):
    """(a line for each gate of what was measured, whether one is missed)"""
    lines, missed = [f"{'gates':76} {'now':>12} {'gate':>8} {'stretch':>8}"], False
    for group, name, other, most, aim in GATES:
        rows = found.get(group, {})
        against = rows.get(other and other.removeprefix("+"))
        if name not in rows or other and not against:
            continue
        factor, unit_name, _ = unit(group)
        value = rows[name]["p10"] * factor
        what, shown_unit = f"{group}: {name}", " " + unit_name
        if other and other[0] == "+":
            value, what = value - against["p10"] * factor, f"{what}, above {other[1:]}"
        elif other:
            value, what, shown_unit = rows[name]["p10"] / against["p10"], f"{what} / {other}", ""
        missed = missed or value > most
        lines.append(f"{what:76} {f'{value:.2f}{shown_unit}':>12} {most:>8} {aim or '-':>8}{'  MISSED' if value > most else ''}")
    return lines, missed


def shown(group, value):
    factor, name, decimals = unit(group)
    return f"{value * factor:.{decimals}f} {name}"


def table(found):
    lines = []
    for group, contestants in found.items():
        lines += ["", f"{group}  (ratio to: {reference(group)})",
                  f"  {'':40} {'median':>12} {'p10':>12} {'p90':>12} {'ratio':>8} {'n':>5}"]
        for name, row in contestants.items():
            ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
            lines.append(f"  {name:40} {shown(group, row['median']):>12} {shown(group, row['p10']):>12} "
                         f"{shown(group, row['p90']):>12} {ratio:>8} {row['n']:>5}")
    return "\n".join(lines[1:])


def bars(axes, group, contestants, limit=8):
    names = list(contestants)[:limit][::-1]
    scale, name_of_unit, _ = unit(group)
    values = [contestants[name]["median"] * scale for name in names]
    spread = [[max(0, value - contestants[name]["p10"] * scale) for name, value in zip(names, values)],
              [max(0, contestants[name]["p90"] * scale - value) for name, value in zip(names, values)]]
    colours = ["#1f6f8b" if name.startswith("sandpiper") else "#b0b7bd" for name in names]
    axes.barh(range(len(names)), values, xerr=spread, color=colours, ecolor="#444444", capsize=2)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    if max(values) > 20 * min(values):
        axes.set_xscale("log")
    for at, (value, high) in enumerate(zip(values, spread[1])):
        axes.text((value + high) * 1.04, at, f"{value:.3g}" if value < 1000 else f"{value:,.0f}", va="center", fontsize=7)
    axes.margins(x=0.18)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{group}, {name_of_unit}", fontsize=9, loc="left")


def curve(axes, found, kind):
    names = ("sandpiper: call, spaced", "sandpiper: call, back to back", "sandpiper: crash to answer",
             "exec loop: fork alone", "exec loop: call")
    groups = [group for group in found if group.startswith(kind + ",") and group.endswith(" MB")]
    sizes = [int(group.split()[1]) for group in groups]
    for name in names:
        rows = [found[group].get(name) for group in groups]
        if all(rows):
            axes.plot(sizes, [row["median"] * 1000 for row in rows], marker="o", markersize=3,
                      linestyle="-" if name.startswith("sandpiper") else "--", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"state of {kind}: ms by MB", fontsize=9, loc="left")
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=6, loc="upper left", framealpha=0.5)


def plot(found, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = [group for group in found if not group.startswith(("arrays", "objects", "program"))]
    kinds = [kind for kind in ("arrays", "objects") if any(group.startswith(kind) for group in found)]
    count = len(groups) + len(kinds)
    if count == 0:
        return
    figure, grid = plt.subplots((count + 1) // 2, 2, figsize=(12, 2.6 * ((count + 1) // 2)), squeeze=False)
    places = iter(grid.flat)
    for group in groups:
        bars(next(places), group, found[group])
    for kind in kinds:
        curve(next(places), found, kind)
    for left in places:
        left.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
