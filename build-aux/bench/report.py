"""Medians with their spread, ratios to a reference, a table and a plot of what was measured."""
import statistics

from units import is_memory, shown, unit

# What the others in a group are compared with.
REFERENCE = {
    "start": "python3 -c", "start on a project": "straight, 10 files", "pages written by a warm call": "exec loop that forks",
    "servers at once": "started", "start to first result, 100 starts": "one after the other", "packages: a wheel and its dependency": "pip install --target",
}


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
    if group.startswith("apply "):
        return "without a flush"
    if group.startswith("1,000 "):
        return "plain pipe"
    if group.startswith("--workspace"):
        return "no files"
    if group.startswith("--cow"):
        return "10 files"
    if group.endswith("many servers"):
        return "alone: its processes" if is_memory(group) else "alone"
    return REFERENCE.get(group, "exec loop: fork alone" if "MB" in group else "exec loop")


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(samples):
    """{group: {contestant: {median, p10, p90, p99, n, ratio}}}; ratio: of the medians, to the group's reference."""
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
                "median": middle, "p10": quantile(values, 0.1), "p90": quantile(values, 0.9), "p99": quantile(values, 0.99),
                "n": len(values), "ratio": middle / statistics.median(against) if against else None}
    return found


def table(found):
    lines = []
    for group, contestants in found.items():
        lines += ["", f"{group}  (ratio to: {reference(group)})",
                  f"  {'':40} {'median':>12} {'p10':>12} {'p90':>12} {'p99':>12} {'ratio':>8} {'n':>5}"]
        for name, row in contestants.items():
            ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
            p99 = shown(group, row["p99"]) if row["n"] >= 100 else "-"
            lines.append(f"  {name:40} {shown(group, row['median']):>12} {shown(group, row['p10']):>12} "
                         f"{shown(group, row['p90']):>12} {p99:>12} {ratio:>8} {row['n']:>5}")
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
