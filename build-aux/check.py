"""Run every suite in every surrounding, add up what happened, and end with one plain line:

    N passed, N failed, N skipped

    check.py                everything (as root: also as an ordinary user)
    check.py quick|asan|lint   one run only
    check.py denied            the end-to-end and escape suites whole, once for each thing taken away
    check.py packaging [TEST...]   what is released, built, installed and started; all of these tests, or some
    check.py aarch64           a cross build, and under an emulator what needs no sandbox

Skips are listed by name and reason. The exit status is 1 when anything failed. Surroundings:

    plain   this build, as whoever calls          user    a copy, built and run by an ordinary user
    userns  that copy under `unshare -Ur`         asan    gcc with address and undefined sanitizers
    clang   a clang build: clang-tidy and the unit tests
"""
import dataclasses
import json
import os
import pathlib
import pwd
import re
import shutil
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


# Words of tests/helpers/deny.py.
DENIALS = {
    "openat2": "openat2",
    "close_range": "close_range:EPERM",
    "clone3": "clone3:EPERM",
    "mounts": "open_tree mount_setattr move_mount",
    "mounts-eperm": "open_tree:EPERM mount_setattr:EPERM",
    "landlock": "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    "cgroup": "cgroup",
    "old-kernel": "openat2 close_range clone3 faccessat2 statx epoll_pwait2 open_tree "
                  "mount_setattr move_mount landlock_create_ruleset",
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
    tests: tuple = ()


@dataclasses.dataclass
class Sum:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    excused: int = 0  # programs that meson calls failed because cmocka skipped in them

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def read_tap(text):
    """(passed, failed names, [(skipped name, reason)]) of TAP text."""
    passed, failed, skipped = 0, [], []
    for line in text.splitlines():
        found = re.match(r"(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(SKIP)\S*\s*(.*))?", line)
        if not found:
            continue
        bad, name, skip, reason = found.groups()
        if skip:
            # cmocka says "not ok 3 # SKIP name"
            skipped.append((name.strip(), reason))
        elif bad:
            failed.append(name.strip())
        else:
            passed += 1
    return passed, failed, skipped


def read_log(path, run_name):
    total = Sum()
    for line in path.read_text().splitlines():
        test = json.loads(line)
        label = f"{run_name}: {test['name'].split(' / ')[-1]}"
        out, result = test.get("stdout", ""), test["result"]
        if re.search(r"^1\.\.\d+", out, re.MULTILINE) or re.search(r"^(not )?ok \d", out, re.M):
            passed, failed, skipped = read_tap(out)
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
    return total


def call(run, command, quiet=True):
    env = {**os.environ, **run.env}
    return subprocess.run([*run.wrap, *map(str, command)], cwd=run.source, env=env,
                          stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None)


def build(run):
    """Configures and compiles; None, or what went wrong."""
    if not (run.build / "build.ninja").exists():
        done = call(run, ["meson", "setup", run.build, *WERROR, *run.setup])
        if done.returncode:
            return done.stdout.decode(errors="replace")
    done = call(run, ["ninja", "-C", run.build])
    return done.stdout.decode(errors="replace") if done.returncode else None


def perform(run):
    began = time.monotonic()
    print(f"== {run.name}: {' '.join(run.suites)}", flush=True)
    trouble = build(run)
    if trouble:
        print(trouble[-8000:])
        return Sum(failed=[f"{run.name}: the build"])
    log = run.build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    suites = [word for suite in run.suites for word in ("--suite", suite)]
    # Most of a test's time is waiting: one more than there are processors.
    width = ("--num-processes", str(len(os.sched_getaffinity(0)) + 1))
    done = call(run, ["meson", "test", "-C", run.build, "--print-errorlogs", *width, *suites, *run.tests],
                quiet=False)
    if not log.exists():
        # No test at all has such a suite: that is a mistake here, not a success.
        return Sum(failed=[f"{run.name}: meson test ended with {done.returncode}"])
    total = read_log(log, run.name)
    if done.returncode not in (0, total.excused) and not total.failed:
        total.failed.append(f"{run.name}: meson test ended with {done.returncode}")
    print(f"== {run.name}: {total.passed} passed, {len(total.failed)} failed, "
          f"{len(total.skipped)} skipped in {time.monotonic() - began:.0f} s", flush=True)
    return total


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
    for path in [stage, *stage.rglob("*")]:
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    stage.chmod(0o755)
    return stage


def user_runs(stage, user):
    source = stage / "src"
    path = ":".join(folder for folder in os.environ["PATH"].split(":")
                    if not folder.startswith("/root"))
    env = {"HOME": str(stage / "home"), "USER": user.pw_name, "LOGNAME": user.pw_name,
           "PATH": path, "TMPDIR": "/tmp"}
    become = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    suites = ("unit", "guest", "fuzz", "golden", "e2e", "escape", "compat", "packages")
    yield Run("user", suites, source / "build", env=env, wrap=become, source=source)
    if subprocess.run([*become, "unshare", "-Ur", "true"], capture_output=True).returncode == 0:
        yield Run("userns", ("e2e", "escape"), source / "build", env=env,
                  wrap=(*become, "unshare", "-Ur"), source=source)


def own_runs(wanted):
    if wanted in ("all", "quick"):
        suites = ["unit", "guest", "fuzz", "golden", "lint", "e2e", "escape", "denied", "compat", "packages", "sdk"]
        # Debian's interpreter first: it has the numeric packages that deps.sh installs.
        yield Run("plain", tuple(suites), ROOT / "build",
                  env={"PATH": "/usr/bin:" + os.environ.get("PATH", "/bin"),
                       "SANDPIPER_TEST_PYTHONS": "/usr/bin/python3"})
    if wanted in ("all", "asan"):
        yield Run("asan", ("unit", "fuzz", "golden", "e2e"), ROOT / "build-asan",
                  setup=("-Db_sanitize=address,undefined", "-Db_lundef=false"),
                  env={**SANITIZERS, "SANDPIPER_TEST_SLOW": "4"})
    if wanted == "denied":
        for name, words in DENIALS.items():
            yield Run("without " + name, ("e2e", "escape"), ROOT / "build",
                      env={"SANDPIPER_TEST_DENY": words})
    if wanted == "aarch64":
        yield Run("aarch64", ("portable",), ROOT / "build-aarch64",
                  setup=("--cross-file", ROOT / "build-aux" / "aarch64-linux-gnu.ini"))
    if wanted == "packaging":
        yield Run("packaging", ("packaging",), ROOT / "build", tests=tuple(sys.argv[2:]))
    if wanted in ("all", "lint"):
        yield Run("clang", ("lint", "unit"), ROOT / "build-clang", env={"CC": "clang"})


def as_user(total):
    user = pwd.getpwnam(os.environ.get("SANDPIPER_CHECK_USER", "nobody"))
    stage = staged_copy(user)
    try:
        for run in user_runs(stage, user):
            total.add(perform(run))
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    total = Sum()
    for run in own_runs(wanted):
        total.add(perform(run))
    if wanted == "all" and os.geteuid() == 0:
        as_user(total)
    elif wanted == "all":
        total.skipped.append(("root", "not called by root: the plain run was the ordinary user's"))
        total.add(perform(Run("userns", ("e2e", "escape"), ROOT / "build",
                              wrap=("unshare", "-Ur"))))
    print()
    for name, reason in total.skipped:
        print(f"skipped  {name}: {reason}")
    for name in total.failed:
        print(f"failed   {name}")
    note = f", {len(total.skipped)} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {len(total.failed)} failed{note}")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
