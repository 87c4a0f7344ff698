"""Use real libraries and programs outside of the sandbox, inside, and in states that came back.

    run.py [--python PYTHON] [--jobs N] [--limit SECONDS] [ROW...]

Each row of table.py runs with the same interpreter in five ways: as an ordinary process on this machine, in a session,
after an undo, after a crash, and in a branch. All have to print what the first prints, unless the row says how a way
differs, and why; and what hangs has to say which threads it lacks. A row whose difference is gone fails as well, so
that the table stays true. What this interpreter or machine does not have is skipped by name; nothing is installed and
no network is used.

SANDPIPER names the binary.
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from client import SLOW, Server  # noqa: E402
from table import HANGS, ROWS  # noqa: E402

WAYS = ("inside", "branch", "undo", "crash")
DIE = "import os; os.kill(os.getpid(), 9)"
LONGEST_S = 600  # as long as a call may take
PATIENCE = 8  # times as long as the first use may take each other one: the machine may have become busy
MARK = "-- used --"
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"
FIND = "import importlib.util as u, sys; sys.exit(0 if all(map(u.find_spec, sys.argv[1:])) else 1)"


def missing(row, python):
    """What the row needs and this machine does not have, or None."""
    for program in row.programs:
        if not shutil.which(program, path=PATH):
            return program
    return next((module for module in row.modules if run_outside(python, FIND, module)[0]), None)


def run_outside(python, code, *arguments):
    """(status, stdout, stderr) in a directory of its own, like a session. What it leaves running ends with it."""
    directory = tempfile.mkdtemp(prefix="sp-libraries-")
    os.chmod(directory, 0o755)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [python, "-c", code, *arguments], cwd=directory, env={**os.environ, "PATH": PATH, "TMPDIR": directory},
            stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True)
        try:
            status = process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            status = HANGS
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)
        return status, *(file.seek(0) or file.read() for file in (out, errors))


def outside(row, python):
    """(what the use of the library prints, why the row cannot be compared). It is used twice, as in a session."""
    show = f"\nprint({MARK!r}, flush=True)\n"
    status, out, errors = run_outside(python, show.join((row.set_up, row.use, row.use, "import os; os._exit(0)")))
    parts = [part.strip() for part in out.split(MARK)]
    if status or len(parts) != 4:
        return None, f"outside it ends with {status}: {errors.strip()[-300:]}"
    if parts[1] != parts[2]:
        return None, f"outside it prints two things: {parts[1][:100]!r} and {parts[2][:100]!r}"
    return parts[1], None


def what_came(result):
    """Of a result: what was printed, without warnings, or how it failed. What hangs for lost threads has to name them."""
    kind = result.status.kind
    if kind == "ok":
        return result.output.rpartition("[stdout]\n")[2].strip()
    if kind != "timeout":
        return f"{kind}: {result.text.strip()[-500:]}"
    return HANGS if "threads lost: " in result.status.line or result.status.field("threads") else "nothing says why it hangs"


def inside(row, python, limit_s):
    """{way: what came}, less the ways that need one that failed."""
    with Server("--python", python, "--memory", "3G", "--pids", "512", check=False) as server:
        def play(code, most_s=LONGEST_S, **arguments):
            return what_came(server.python(code, most_s + 120 * SLOW, timeout_s=most_s, **arguments))

        prepared = server.python(row.set_up, LONGEST_S + 120 * SLOW, timeout_s=LONGEST_S)
        if prepared.status.kind != "ok":
            return dict.fromkeys(WAYS, what_came(prepared))
        began = time.monotonic()
        came = {"inside": play(row.use)}
        limit_s = min(LONGEST_S, max(limit_s, PATIENCE * (time.monotonic() - began)))
        server.python("later = 1")
        came["branch"] = play(row.use, limit_s, branch=True)
        came["undo"] = play(row.use, limit_s, undo=True)
        server.python(DIE)
        came["crash"] = play(row.use, limit_s)
        return came


def explain(row, way, came):
    """The row's reason why this way gives something else."""
    for ways, outcome, reason in row.differs:
        if way in ways.split() and came.startswith(outcome):
            return reason
    return None


def check(name, python, limit_s):
    """(lines to print, whether the row is as it should be, the ways' outcomes)."""
    row = ROWS[name]
    absent = missing(row, python)
    if absent:
        return [f"skipped  {name}: there is no {absent}"], None, {}
    expected, problem = outside(row, python)
    if problem:
        return [f"skipped  {name}: {problem}"], None, {}
    lines, right, outcomes = [], True, {}
    for way, came in inside(row, python, limit_s).items():
        differs = came != expected
        known = next((reason for ways, _, reason in row.differs if way in ways.split()), None)
        reason = explain(row, way, came) if differs else None
        outcomes[way] = "same" if not differs else HANGS if came == HANGS else "differs"
        if differs and reason is None:
            lines.append(f"differs  {name}, {way}:\n    {came[-300:]}\n  outside:\n    {expected[-300:]}")
            right = False
        elif not differs and known:
            lines.append(f"the same {name}, {way}: it is listed as different: {known}")
            right = False
    return lines, right, outcomes


def table_of(outcomes):
    """Markdown, for documents and reports."""
    width = max(map(len, outcomes), default=0)
    yield f"{'':{width}}  " + "  ".join(f"{way:7}" for way in WAYS)
    for name, row in outcomes.items():
        yield f"{name:{width}}  " + "  ".join(f"{row.get(way, '-'):7}" for way in WAYS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=40,
                        help="seconds after which a use after an undo, a crash or in a branch hangs, if the first one was quick")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="how names of rows begin")
    options = parser.parse_args()
    names = [name for name in ROWS if not options.rows or name.startswith(tuple(options.rows))]
    if not names:
        parser.error(f"table.py has no row that begins with {' or '.join(options.rows)}")
    began, outcomes, failed, skipped, known = time.monotonic(), {}, [], [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(check, name, options.python, options.limit * SLOW): name for name in names}
        for run in concurrent.futures.as_completed(runs):
            name = runs[run]
            lines, right, outcome = run.result()
            if outcome:
                outcomes[name] = outcome
            (failed if right is False else skipped if right is None else []).append(name)
            print(f"{time.monotonic() - began:6.0f} s  {name}: {' '.join(f'{way} {what},' for way, what in outcome.items()).rstrip(',')}")
            print("\n".join(lines) if lines else "", end="\n" if lines else "", flush=True)
    ordered = {name: outcomes[name] for name in ROWS if name in outcomes}
    print("\n".join(table_of(ordered)))
    print(f"{len(ordered) - len(failed)} as they should be, {len(failed)} not, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
