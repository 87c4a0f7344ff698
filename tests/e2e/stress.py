"""Random calls with crashes, or of jobs, in servers side by side, each checked by a model.

    stress.py --jobs 500 [--servers 1] [--seed N]    (sequences of jobs: see jobs_stress.py)
    stress.py [--calls 5000] [--deaths N] [--servers 1] [--busy 0] [--sessions 3] [--seed N] [--minutes M]
                                                     (see crash_stress.py)

--servers run side by side, each with its own seed; --busy adds processes that only compute; --deaths ends the run at so
many deaths.
"""
import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import sys
import time

from client import Server
from crash_stress import KINDS, Mismatch, Stress, explain
from jobs_stress import run_sequence

deaths_of_all = multiprocessing.Value("i", 0)


def stress_one(seed, options):
    """One server. Returns the tally, the deaths, the lost states, and how many results were wrong, at most one."""
    def on_death():
        with deaths_of_all:
            deaths_of_all.value += 1

    wrong = 0
    with Server("--memory", "256M") as server:
        stress = Stress(server, seed, options.sessions, on_death=on_death,
                        on_loss=lambda text: print(f"seed {seed}: {text}", flush=True))
        try:
            stress.run(options.calls, options.minutes and options.minutes * 60,
                       lambda: 0 < (options.deaths or 0) <= deaths_of_all.value)
        except Mismatch as error:
            wrong = 1
            server.check = False
            print(f"seed {seed}: {explain(stress, error)}", flush=True)
    return stress.tally, stress.deaths, len(stress.losses), wrong


def compute(parent):
    while os.getppid() == parent:
        sum(range(1 << 20))


def watch(results, began):
    """Waits for the results. Returns the samples of the load average."""
    loads, last = [], began
    while concurrent.futures.wait(results, timeout=5).not_done:
        loads.append(os.getloadavg()[0])
        if time.monotonic() - last > 60:
            last = time.monotonic()
            print(f"{last - began:7.0f} s, {deaths_of_all.value} deaths, load {loads[-1]:.1f}", flush=True)
    return loads or [os.getloadavg()[0]]


def stress_jobs(options):
    """Returns how many sequences were wrong."""
    wrong, began = 0, time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(options.servers) as pool:
        for text in pool.map(run_sequence, range(options.seed, options.seed + options.jobs)):
            if text:
                wrong += 1
                print(text, flush=True)
    print(f"sequences {options.jobs}, wrong {wrong}, in {time.monotonic() - began:.0f} s")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, help="for each server (5000, without --deaths)")
    parser.add_argument("--deaths", type=int, help="of all servers together, at least")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that only compute")
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--jobs", type=int, help="so many sequences of jobs instead")
    options = parser.parse_args()
    options.calls = options.calls or (10 ** 9 if options.deaths else 5000)
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    if options.jobs:
        return 1 if stress_jobs(options) else 0
    for _ in range(options.busy):
        multiprocessing.Process(target=compute, args=(os.getpid(),), daemon=True).start()
    with concurrent.futures.ProcessPoolExecutor(options.servers) as pool:
        results = [pool.submit(stress_one, options.seed + i, options) for i in range(options.servers)]
        loads = watch(results, began)
    tallies, *sums = zip(*(result.result() for result in results))
    died, lost, wrong = map(sum, sums)
    tally = sum(tallies, collections.Counter())
    ended = sum(tally[kind] for _, kind in KINDS)
    for name, count in sorted(tally.items()):
        print(f"{count:7} {name}")
    print(f"load average {sum(loads) / len(loads):.1f} (from {min(loads):.1f} to {max(loads):.1f})")
    print(f"calls {ended}, deaths {died}, states lost {lost}, wrong answers {wrong}, in {time.monotonic() - began:.0f} s")
    return 1 if lost or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
