"""Run CPython's own tests inside the sandbox and outside of it, and explain every difference.

    run.py [--python PYTHON] [--jobs N] [--keep DIRECTORY] [MODULE...]

Each module of modules.txt runs twice with the same interpreter: as a program that code in the sandbox starts, under the
default limits, and as an ordinary user's process on this machine. differences.txt explains cases with different
outcomes. A case that it does not explain runs once more on both sides, because some tests are flaky; if it differs
again, the run fails.

Needs an interpreter with its test suite (Debian: libpython3-testsuite). SANDPIPER names the binary.
"""
import argparse
import base64
import concurrent.futures
import fnmatch
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import Server  # noqa: E402

LIMIT_S = 590  # a call may take 600
WORST = ("ok", "skip", "fail")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
               "PYTHONDONTWRITEBYTECODE": "1"}

START = f"""
import os, subprocess, sys
os.makedirs('/tmp/run', exist_ok=True)
try:
    subprocess.run([sys.executable, '/work/one.py', *{{what!r}}], cwd='/tmp/run', stdin=subprocess.DEVNULL,
                   stdout=open('/work/log', 'wb'), stderr=subprocess.STDOUT, timeout={LIMIT_S - 10})
except subprocess.TimeoutExpired:
    print('timeout')
"""
SEND = """
import base64, zlib
data = zlib.compress(open('/work/{name}', 'rb').read()[-4_000_000:], 9)[{at}:{at} + PIECE]
print(base64.encodebytes(data).decode())
""".replace("PIECE", "9_000")


def fetch(server, name):
    """Reads a file of the workspace in parts that fit into a result of 16,000 characters."""
    data, piece = b"", b"?"
    while piece:
        result = server.python(SEND.format(name=name, at=len(data)))
        if result.is_error:
            return b""
        piece = base64.b64decode(result.output)
        data += piece
    return zlib.decompress(data)


def inside(module, cases, python):
    with Server("--python", python, check=False) as server:
        server.must_be_contained()
        server.write("one.py", (HERE / "one.py").read_text())
        server.python(START.format(what=[module, "/work/lines", *cases]), LIMIT_S + 60, timeout_s=LIMIT_S + 5)
        server.python("pass", reset=True)  # kills the processes that the tests left
        return fetch(server, "lines"), fetch(server, "log")


def outside(module, cases, python, directory):
    home = directory / module
    home.mkdir()
    shutil.copy(HERE / "one.py", home / "one.py")
    become = ()
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(home, user.pw_uid, user.pw_gid)
        become = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    environment = {**ENVIRONMENT, "HOME": str(home), "TMPDIR": str(home), "USER": "nobody",
                   "LOGNAME": "nobody"}
    with open(home / "log", "wb") as log:
        process = subprocess.Popen([*become, python, home / "one.py", module, home / "lines",
                                    *cases], cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(LIMIT_S - 10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
    lines = home / "lines"
    return lines.read_bytes() if lines.exists() else b"", (home / "log").read_bytes()


def read_cases(data):
    """{case: (status, reason)}; an incomplete run counts as a failed case."""
    cases, done = {}, False
    for line in data.decode(errors="replace").splitlines():
        status, _, rest = line.partition("\t")
        name, _, reason = rest.partition("\t")
        if status == "done":
            done = True
        elif status in WORST and WORST.index(status) >= WORST.index(cases.get(name, ("ok",))[0]):
            cases[name] = (status, reason)
    cases["the whole module"] = ("ok", "") if done else ("fail", "ended on the way")
    return cases


def compare(module, cases, python, directory, keep=None):
    """({case: (inside, outside)} of those that differ, number of equal cases). No cases: all."""
    shutil.rmtree(directory / module, ignore_errors=True)
    sides = inside(module, cases, python), outside(module, cases, python, directory)
    if keep:
        for side, (lines, log) in zip(("inside", "outside"), sides):
            pathlib.Path(keep, f"{module}.{side}.lines").write_bytes(lines)
            pathlib.Path(keep, f"{module}.{side}.log").write_bytes(log[-200_000:])
    ours, theirs = (read_cases(lines) for lines, _ in sides)
    absent = ("absent", "")
    differ = {}
    for name in ours.keys() | theirs.keys():
        pair = ours.get(name, absent), theirs.get(name, absent)
        if pair[0][0] != pair[1][0]:
            differ[f"{module}: {name}"] = pair
    return differ, len(ours.keys() | theirs.keys()) - len(differ)


def read_table():
    """[(pattern, reason)]: in the file a reason precedes the patterns that it explains."""
    rows, reason = [], ""
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line.startswith("## "):
            reason = line[3:]
        elif line and not line.startswith("#"):
            rows.append((line, reason))
    return rows


def explain(name, rows):
    return next(((pattern, reason) for pattern, reason in rows if fnmatch.fnmatchcase(name, pattern)),
                None)


def case_id(name):
    """The name that one.py gives to a case, or to a class or module whose fixture failed."""
    name = name.split(": ", 1)[1]
    return name.split("(")[1].rstrip(")") if name.startswith("setUp") else name


def check(module, options, directory, rows):
    """(number equal, {case: row}, {case: pair}): the unexplained cases differed twice."""
    differ, alike = compare(module, [], options.python, directory, options.keep)
    open_cases = {name for name in differ if not explain(name, rows)}
    if open_cases:
        again, _ = compare(module, [case_id(name) for name in open_cases], options.python, directory)
        open_cases &= again.keys()
    explained = {name: explain(name, rows) for name in differ if explain(name, rows)}
    return alike, explained, {name: differ[name] for name in open_cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", help="directory for what both sides wrote")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import test.test_json"], capture_output=True).returncode:
        print(f"skipped: {options.python} comes without its test suite")
        return 77
    # A shell's background job and its children ignore SIGINT, which tests of signals do not expect.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    modules = options.modules or [
        line for line in (HERE / "modules.txt").read_text().split("\n") if line and line[0] != "#"]
    rows, used, alike, unexplained, explained = read_table(), set(), 0, {}, 0
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-cpython-"))
    directory.chmod(0o755)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            began = time.monotonic()
            runs = {pool.submit(check, module, options, directory, rows): module for module in modules}
            for run in concurrent.futures.as_completed(runs):
                same, known, unknown = run.result()
                alike, explained = alike + same, explained + len(known)
                used |= {row[0] for row in known.values()}
                unexplained |= unknown
                print(f"{time.monotonic() - began:6.0f} s  {runs[run]}: {same} alike, "
                      f"{len(known)} explained, {len(unknown)} unexplained", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for name, (ours, theirs) in sorted(unexplained.items()):
        print(f"differs  {name}\n         inside: {' '.join(ours)}\n         outside: {' '.join(theirs)}")
    if not options.modules:
        for pattern in sorted({row[0] for row in rows} - used):
            print(f"unused   {pattern}")
    print(f"{alike} cases alike, {explained} differ as explained, {len(unexplained)} differ without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
