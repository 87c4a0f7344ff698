"""Measure what Sandpiper and its alternatives cost, in one run on this machine:

    bench.py PATH-TO-sandpiper [--python /usr/bin/python3] [--out DIR] [--only NAME,...] [--without NAME,...]
             [--scale 1] [--big]

Writes DIR/bench.json (every sample), DIR/bench.txt (the tables, printed too) and DIR/bench.png. Exits with status 1 if a
row misses its gate (gates.py) or a measure fails. --only takes names of MEASURES. --scale multiplies the number of
samples, of files, of the 200 servers of `density`, which need 5 GB of available memory, and of the 100 of `starts`, which
need half of it; these are left out where there is less; 0 takes the fewest that make each row. --big measures states of 1 and 2 GB too and needs 12 GB. Contestants that
are not installed are left out by name, and so are those of --without.
"""
import argparse
import json
import os
import pathlib
import platform
import sys
import time
import traceback

from contestants import missing
from gates import gates
from measures import Bench
from report import plot, summary, table

MEASURES = ("start", "fresh", "warm", "pages", "processor", "output", "crash", "memory", "packages", "files", "project",
            "undo_files", "apply", "record", "view", "sizes", "overhead", "tools", "density",
            "starts")


def machine_facts(binary, python):
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    return {"when": time.strftime("%Y-%m-%d %H:%M:%S"), "processor": model, "processors": os.cpu_count(),
            "kernel": platform.release(), "python": python, "uid": os.getuid(), "load before": os.getloadavg()[0],
            "binary bytes": os.path.getsize(binary)}


def processor_ticks():
    """(all, idle)"""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def used_by_others():
    """The share of the processors that is in use while this program sleeps."""
    before = processor_ticks()
    time.sleep(0.5)
    total, idle = (now - then for now, then in zip(processor_ticks(), before))
    return 1 - idle / max(1, total)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--without", default="")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--big", action="store_true")
    options = parser.parse_args()
    binary = os.path.abspath(options.binary)
    absent = missing(options.python, binary, [name for name in options.without.split(",") if name])
    measures = options.only.split(",")
    if unknown := set(measures) - set(MEASURES):
        parser.error(f"--only: no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    bench = Bench(binary, options.python, absent, options.scale)
    failed, others, samples = [], {}, []
    facts = {**machine_facts(binary, options.python), "left out": absent, "failed": failed}
    sizes = (1, 10, 50, 200, 1000, 2000) if options.big else (1, 10, 50, 200)
    for name in measures:
        others[name] = used_by_others() if options.scale else 0
        began = time.monotonic()
        try:
            samples.extend(getattr(bench, name)(*([sizes] if name == "sizes" else [])))
        except Exception as error:  # the others are still worth their time
            traceback.print_exc()
            failed.append(f"{name}: {error!r}")
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    facts["load after"] = os.getloadavg()[0]
    facts["used by others"] = ", ".join(f"{name} {share:.0%}" for name, share in others.items())
    found = summary(samples)
    head = "\n".join(f"{key}: {value}" for key, value in facts.items())
    lines, missed = gates(samples, measures, others)
    text = "\n".join([head, "", table(found), "", lines, ""])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps({"facts": facts, "summary": found, "samples": samples}))
    (options.out / "bench.txt").write_text(text)
    print(text)
    try:
        plot(found, options.out / "bench.png")
    except ImportError:
        print("no plot: matplotlib is not installed for the Python that runs this", file=sys.stderr)
    return missed or bool(failed)


if __name__ == "__main__":
    sys.exit(main())
