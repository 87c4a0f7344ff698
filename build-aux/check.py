"""Run the tests as several identities and builds, add up the results, and end with one plain line:

    N passed, N failed

    check.py [RUN [TEST...]]   all tests of these runs, or some

    check.py check          every promise once, and again what depends on the identity, level or compiler
    check.py quick          this build only, as the caller: neither packages nor denied calls
    check.py all            every suite in every run below
    check.py asan|lint      one of these runs
    check.py denied         the end-to-end and escape suites whole, once for each thing taken away
    check.py packaging      what is released, built, installed and started
    check.py aarch64        a cross build, and under an emulator what needs no sandbox

Skips are listed by name and reason. The exit status is 1 when anything failed or has not run in time.
CHECK_MINUTES=N: what has not run by then is left out, and named as skipped. CHECK_REPEAT=1: programs that failed run once more, alone; what passes
then counts as passed and is listed as flaky with its first error, for somebody to find the cause. The runs:

    plain      this build, as the caller      user       a copy, built and run by an ordinary user
    container  this build at that isolation level        userns     the copy under `unshare -Ur`
    asan       gcc with address and undefined sanitizers
    clang      clang-tidy, with clang's warnings; its longest paths (lint, all); a build and the unit tests (all)

The random tests get few rounds in `check` and a new seed, which is printed; SANDPIPER_TEST_SEED=N repeats one. A run
has 1,024 descriptors where a desktop's programs have them: as the ordinary user, and the unit tests with sanitizers.

Tests mostly wait, so several times as many run as there are processors, with generous time limits. Meanwhile a
second thread builds what the next runs need and runs clang-tidy, with low priority.
"""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WERROR = ["--werror"] if os.environ.get("CI") == "true" else []
SANITIZERS = {
    "ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1:quarantine_size_mb=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}
# Compiles in half the time and runs as fast; a report needs lines and no variables. With less known about values,
# gcc sees truncations where none are.
LITTLE_OPTIMISED = ("-Doptimization=1", "-Dc_args=-Wno-format-truncation -g1")
# Debian's interpreter first: it has the numeric packages that deps.sh installs.
PLAIN = {"PATH": "/usr/bin:" + os.environ.get("PATH", "/bin"), "SANDPIPER_TEST_PYTHONS": "/usr/bin/python3"}
# Everything that needs no installed package and nothing taken away.
QUICK = ("unit", "guest", "fuzz", "golden", "lint", "e2e", "ends", "escape", "compat")
PROCESSORS = len(os.sched_getaffinity(0))
MINUTES = float(os.environ.get("CHECK_MINUTES", "inf"))
REPEAT = os.environ.get("CHECK_REPEAT") == "1"
BEGAN = time.monotonic()
SLOWEST = 20
SKIPPED = "# skipped: "
TOO_LATE = f"not run: the check had taken CHECK_MINUTES={MINUTES:g}"
INTERRUPTED = "not run: the check was interrupted"
running, signals = set(), 0  # programs that an interrupt ends, and how many of these came
# No test may fail because the processors are busy. With sanitizers everything takes longer.
SLOW = {"SANDPIPER_TEST_SLOW": "4"}
SLOWER = {"SANDPIPER_TEST_SLOW": "8"}

# The random tests: few rounds, and the smaller of two sizes, but all of them in `all`. What the caller's environment says goes before.
RANDOM = {"SANDPIPER_TEST_SEED": str(time.time_ns() // 10**6 % 10**8)}
FEW = {"SANDPIPER_TEST_SIZES": "small", "SANDPIPER_TEST_KILLS": "4", "SANDPIPER_TEST_ENDS": "15", "SANDPIPER_TEST_SEQUENCES": "2", "SANDPIPER_TEST_SESSIONS": "15"}
DESKTOP = ("prlimit", "--nofile=1024:")  # the soft limit

# Words of tests/helpers/deny.py.
DENIALS = {
    "clone3": "clone3:EPERM",
    "landlock": "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    "cgroup": "cgroup",
    "more": "clone3 faccessat2 statx epoll_pwait2 landlock_create_ruleset",
}


@dataclasses.dataclass
class Run:
    name: str
    suites: tuple
    build: pathlib.Path
    setup: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    wrap: tuple = ()
    source: pathlib.Path = ROOT
    behind: bool = False  # only computes: runs behind the others
    beside: bool = False  # one program, which leaves a processor free: runs beside the last of the others
    compiled: bool = True  # clang-tidy compiles by itself
    like: pathlib.Path = None  # a build directory that has the same objects


@dataclasses.dataclass
class Sum:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    flaky: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    programs: list = dataclasses.field(default_factory=list)  # in which something failed
    times: list = dataclasses.field(default_factory=list)  # (seconds, program)
    excused: int = 0  # programs that meson calls failed because cmocka skipped in them

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.flaky += other.flaky
        self.skipped += other.skipped
        self.times += other.times


def read_tap(text):
    """(passed, failed names with their errors, [(skipped name, reason)]) of TAP text."""
    passed, failed, skipped, error, why = 0, [], [], "", "no reason given"
    for line in text.splitlines():
        if re.match(r"# [\w.]*(Error|Exception)\b", line):
            error = error or f": {line[2:300]}"
        if line.startswith(SKIPPED):
            why = line.removeprefix(SKIPPED)
        found = re.match(r"(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(SKIP)\S*\s*(.*))?", line)
        if not found:
            continue
        bad, name, skip, reason = found.groups()
        if skip:
            # cmocka says "not ok 3 # SKIP name", and unit_skip says why before it
            skipped.append((name.strip(), reason) if name.strip() else (reason, why))
        elif bad:
            failed.append(name.strip() + error)
        else:
            passed += 1
        error, why = "", "no reason given"
    return passed, failed, skipped


def read_log(path, run_name):
    total = Sum()
    for line in path.read_text().splitlines():
        test = json.loads(line)
        program = test["name"].split(" / ")[-1]
        label = f"{run_name}: {program}"
        before = len(total.failed)
        total.times.append((test.get("duration") or 0, label))
        out, result = test.get("stdout", ""), test["result"]
        if result == "INTERRUPT" and not seconds_left():
            total.skipped.append((label, why_not()))
        elif re.search(r"^1\.\.\d+", out, re.MULTILINE) or re.search(r"^(not )?ok \d", out, re.M):
            passed, failed, skipped = read_tap(out)
            for why in re.findall(r"(?:^#.*\n)+^not ok.*", out, re.M):
                print(f"{label}:\n{why}", flush=True)  # which --print-errorlogs leaves out
            total.passed += passed
            total.failed += [f"{label}: {name}" for name in failed]
            total.skipped += [(f"{label}: {name}", reason) for name, reason in skipped]
            only_skips = bool(skipped) and not failed and test.get("returncode") == 0
            total.excused += only_skips and result not in ("OK", "SKIP", "EXPECTEDFAIL")
            if result not in ("OK", "SKIP", "EXPECTEDFAIL") and not failed and not only_skips:
                total.failed.append(f"{label}: {result.lower()}")
        elif result == "SKIP":
            total.skipped.append((label, (out.strip().splitlines() or ["no reason given"])[-1]))
        elif result in ("OK", "EXPECTEDFAIL"):
            total.passed += 1
        else:
            total.failed.append(f"{label}: {result.lower()}")
        if len(total.failed) > before:
            total.programs.append(program)
    return total


def why_not():
    return TOO_LATE if signals == 0 else INTERRUPTED


def interrupt(*_):
    """What runs ends, nothing else begins, and main() removes what the check has made."""
    global signals
    signals += 1
    for process in list(running):
        process.terminate() if signals == 1 else process.kill()


def seconds_left():
    return 0 if signals else max(MINUTES * 60 - (time.monotonic() - BEGAN), 0)


def call(run, command, behind=False, shown=False):
    """Runs to the end, or until CHECK_MINUTES are over; what it printed is in stdout, unless it is shown."""
    if signals:
        return subprocess.CompletedProcess(command, -signal.SIGTERM, "")
    nice = ("nice",) if behind else ()
    env = {**SLOW, **RANDOM, **os.environ, **run.env}
    with subprocess.Popen([*nice, *run.wrap, *map(str, command)], cwd=run.source, env=env,
                          stdout=None if shown else subprocess.PIPE,
                          stderr=None if shown else subprocess.STDOUT, text=True, errors="replace") as process:
        running.add(process)
        if signals:
            process.terminate()
        try:
            out, _ = process.communicate(timeout=seconds_left() if MINUTES < float("inf") else None)
        except subprocess.TimeoutExpired:
            process.terminate()  # meson ends its tests and writes its log
            out, _ = process.communicate()
        running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out)


def lacks_unit_tests(directory):
    """Whether it was configured, as by `make`, before the packages of the check were there."""
    found = directory / "meson-info" / "intro-dependencies.json"
    return found.exists() and all(each["name"] != "cmocka" for each in json.loads(found.read_text()))


def own(top, uid, gid):
    for path in [top, *top.rglob("*")]:
        os.chown(path, uid, gid, follow_symlinks=False)


def copy_objects(run):
    """Ninja makes only what was made by another command or from other files."""
    shutil.copytree(run.like, run.build, symlinks=True, ignore=shutil.ignore_patterns("meson-*", "build.ninja", "sdk"))
    own(run.build, run.source.stat().st_uid, run.source.stat().st_gid)


def build(run, behind):
    """Configures and compiles; None, or what went wrong."""
    again = ["--reconfigure"] if lacks_unit_tests(run.build) else []
    if again or not (run.build / "build.ninja").exists():
        if run.like:
            copy_objects(run)
        done = call(run, ["meson", "setup", *again, run.build, *WERROR, *run.setup], behind)
        if done.returncode:
            return done.stdout
    if not run.compiled:
        return None
    done = call(run, ["ninja", "-C", run.build], behind)
    return done.stdout if done.returncode else None


def run_tests(run, names, width):
    """Those of the run's suites, or the named ones among them."""
    log = run.build / "meson-logs" / f"{run.name}.json"
    log.unlink(missing_ok=True)
    suites = [word for suite in run.suites for word in ("--suite", suite)]
    as_is = () if run.compiled else ("--no-rebuild",)
    done = call(run, ["meson", "test", "-C", run.build, *as_is, "--print-errorlogs", "--timeout-multiplier", 10,
                      "--logbase", run.name, "--num-processes", width, *suites, *names],
                run.behind, shown=not run.behind and not run.beside)
    if done.stdout:
        print(done.stdout, end="")
    if not log.exists():
        if names and not done.returncode:
            return Sum()  # none of the named tests belongs to this run
        # No test at all has such a suite: that is a mistake here, not a success.
        return Sum(failed=[f"{run.name}: meson test ended with {done.returncode}"])
    total = read_log(log, run.name)
    if not seconds_left():
        total.skipped.append((f"{run.name}: what comes after these", why_not()))
    elif done.returncode not in (0, total.excused) and not total.failed:
        total.failed.append(f"{run.name}: meson test ended with {done.returncode}")
    listed = call(run, ["meson", "test", "-C", run.build, "--no-rebuild", "--list", *suites, *names]).stdout.count(" / ")
    if seconds_left() and listed != len(total.times):
        total.failed.append(f"{run.name}: {len(total.times)} of {listed} programs have run: see its log")
    return total


def perform(run, building):
    error = building.result()
    if not seconds_left():
        return Sum(skipped=[(run.name, why_not())])
    began = time.monotonic()
    if not run.behind:
        print(f"== {run.name}: {' '.join(run.suites)}", flush=True)
    if error:
        print(error[-8000:])
        return Sum(failed=[f"{run.name}: the build"])
    total = run_tests(run, sys.argv[2:], PROCESSORS if run.behind else 3 * PROCESSORS)
    if total.programs and REPEAT:
        again = run_tests(run, total.programs, 1)
        total.passed += max(len(total.failed) - len(again.failed), 0)
        total.flaky, total.failed = total.failed, again.failed
    print(f"== {run.name}: {total.passed} passed, {len(total.failed)} failed, "
          f"{len(total.skipped)} skipped in {time.monotonic() - began:.0f} s", flush=True)
    return total


def perform_all(runs):
    """One run after the other; behind them the builds in the same order, and then what only computes."""
    total, builds = Sum(), {}
    alone = [run for run in runs if not run.behind and not run.beside]
    stages = [*([run] for run in alone[:-1]), [*alone[-1:], *(run for run in runs if run.beside)]]
    with concurrent.futures.ThreadPoolExecutor(1) as behind, concurrent.futures.ThreadPoolExecutor() as beside:
        for run in runs:
            # Nothing else can go on during the first.
            builds.setdefault(run.build, behind.submit(build, run, behind=bool(builds)))
        computed = [behind.submit(perform, run, builds[run.build]) for run in runs if run.behind]
        for stage in stages:
            for one in beside.map(lambda run: perform(run, builds[run.build]), stage):
                total.add(one)
        for one in computed:
            total.add(one.result())
    return total


def own_temporary(stack):
    """TMPDIR of all programs. ext4 without a journal tries, for each new file, all that were deleted in the last minutes in
    the same part of the disk, which can take longer than the tests; below chattr's T each directory has a part of its own."""
    directory = tempfile.mkdtemp(prefix="sp-check-")
    stack.callback(remove, directory)
    os.chmod(directory, 0o1777)
    if shutil.which("chattr"):
        subprocess.run(["chattr", "+T", directory], capture_output=True)  # fails on most other file systems
    os.environ["TMPDIR"] = tempfile.tempdir = directory


def remove(directory):
    """Removes it with what tests have left there, except mounts, which may be the user's files."""
    with open("/proc/self/mountinfo") as mounts:
        if any(f" {directory}/" in line for line in mounts):
            print(f"{directory} stays: something is mounted there")
            return
    # Of any depth, and with any modes.
    subprocess.run(["chmod", "-R", "u+rwx", directory], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", "--one-file-system", directory])


def staged_copy(user):
    """A copy of the tree that the ordinary user owns: ours may lie where he cannot read."""
    stage = pathlib.Path(tempfile.mkdtemp(prefix="sp-check-"))
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    if listed.returncode or not names:
        shutil.copytree(ROOT, stage / "src", symlinks=True,
                        ignore=shutil.ignore_patterns("build", "build-asan", "build-clang", ".git", "node_modules"))
    for name in names:
        target = stage / "src" / name
        if (ROOT / name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    (stage / "home").mkdir()
    own(stage, user.pw_uid, user.pw_gid)
    stage.chmod(0o755)
    return stage


def user_runs(stage, user, suites, userns_suites, beside, again):
    source = stage / "src"
    path = ":".join(directory for directory in os.environ["PATH"].split(":")
                    if not directory.startswith("/root"))
    env = {"HOME": str(stage / "home"), "USER": user.pw_name, "LOGNAME": user.pw_name,
           "PATH": path, **again}
    become = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    yield Run("user", suites, source / "build", env=env, wrap=(*DESKTOP, *become), source=source, like=ROOT / "build")
    if subprocess.run([*become, "unshare", "-Ur", "true"], capture_output=True).returncode == 0:
        yield Run("userns", userns_suites, source / "build", env=env,
                  wrap=(*become, "unshare", "-Ur"), source=source, beside=beside)


def identity_runs(everything, stack):
    """The suites whose result depends on who runs them and at which level."""
    container = ("e2e", "escape", "compat") if everything else ("selection",)
    userns = ("e2e", "escape") if everything else ("selection",)
    if os.geteuid() == 0:
        user = pwd.getpwnam(os.environ.get("SANDPIPER_CHECK_USER", "nobody"))
        stage = staged_copy(user)
        stack.callback(remove, stage)
        more = ("e2e", "escape", "unit", "guest", "fuzz", "compat", "packages") if everything else ("identity",)
        again = {} if everything else {"SANDPIPER_TEST_AGAIN": "1"}
        yield from user_runs(stage, user, ("golden", *more), userns, beside=not everything, again=again)
    else:
        yield Run("userns", userns, ROOT / "build", wrap=("unshare", "-Ur"), beside=not everything)
    yield Run("container", container, ROOT / "build", env={**PLAIN, "SANDPIPER_ISOLATION": "container"},
              beside=not everything)


def planned(wanted, stack):
    everything = wanted == "all"
    whole = wanted in ("check", "all")
    if whole or wanted == "quick":
        more = () if wanted == "quick" else ("packages", "denied", "view")
        yield Run("plain", (*QUICK, *more, *(("clients",) if everything else ())), ROOT / "build", env=PLAIN)
    if whole:
        yield from identity_runs(everything, stack)
    if whole or wanted == "asan":
        suites = ("selection",) if wanted == "check" else ("e2e",)
        yield Run("asan", ("unit", "fuzz", "golden", "ends", *suites), ROOT / "build-asan",
                  setup=("-Db_sanitize=address,undefined", "-Db_lundef=false", *LITTLE_OPTIMISED), env={**PLAIN, **SANITIZERS, **SLOWER}, wrap=DESKTOP)
    if whole or wanted == "lint":
        suites = {"check": ("tidy",), "all": ("tidy", "unit"), "lint": ("lint", "tidy")}[wanted]
        nodes = {"SANDPIPER_TEST_NODES": "10000"} if wanted == "check" else {}
        yield Run("clang", suites, ROOT / "build-clang", env={"CC": "clang", **nodes}, behind=whole, compiled=wanted != "check")
    if wanted == "denied":
        for name, words in DENIALS.items():
            yield Run("without " + name, ("e2e", "escape"), ROOT / "build",
                      env={"SANDPIPER_TEST_DENY": words})
    if wanted == "aarch64":
        yield Run("aarch64", ("portable",), ROOT / "build-aarch64",
                  setup=("--cross-file", ROOT / "build-aux" / "aarch64-linux-gnu.ini"))
    if wanted == "packaging":
        yield Run("packaging", ("packaging",), ROOT / "build")


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else "check"
    if wanted != "all":
        RANDOM.update(FEW)
    print("SANDPIPER_TEST_SEED=" + {**RANDOM, **os.environ}["SANDPIPER_TEST_SEED"], flush=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    with contextlib.ExitStack() as stack:
        if wanted != "packaging":
            own_temporary(stack)
        # When the time is too short, what repeats most of another run is left out.
        total = perform_all(sorted(planned(wanted, stack), key=lambda run: run.name == "userns"))
    if wanted in ("check", "all") and os.geteuid():
        total.skipped.append(("root", "not called by root: the plain run was the ordinary user's"))
    print("\nslowest  " + ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(total.times, reverse=True)[:SLOWEST]))
    for name, reason in total.skipped:
        print(f"skipped  {name}: {reason}")
    for name in total.flaky:
        print(f"flaky    {name}")
    for name in total.failed:
        print(f"failed   {name}")
    print(f"{total.passed} passed, {len(total.failed)} failed")
    late = any(reason in (TOO_LATE, INTERRUPTED) for _, reason in total.skipped)  # what did not run is not passed
    return 1 if total.failed or late or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
