"""Run the end-to-end and escape suites on other kinds of host, and compare with what each can promise.

    check.py BINARY [HOST...]           every host whose image exists, or those named
    check.py BINARY --short [HOST...]   what doctor says and whether code runs, no suites

The output of each host is kept in machines/ beside BINARY.

The hosts are virtual machines of hostvm.py, see README.md. HOSTS lists what each cannot do; a case that neither passes
nor is listed fails. A host without an image is skipped by name (hostvm.py build makes images).
"""
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTVM = pathlib.Path(__file__).with_name("hostvm.py")
THERE = "/srv/sandpiper"  # in the virtual machine
SLOW = "10"  # User-Mode Linux on a shared processor
SUITE_S = {"um": 1500, "pc": 2400}  # seconds for one suite
MARK = "== suite:"  # a suite's output follows

# The protections without which no code runs at each isolation level, and those that depend on the kernel.
FULL = {"namespaces": "on", "mounts": "on", "privileges": "on", "seccomp": "on"}
LEVELS = {
    "full": FULL,
    "full without /proc": {**FULL, "mounts": "degraded"},
    "container": {**FULL, "namespaces": "off", "mounts": "off"},
}
LANDLOCK = {"um": "degraded", "pc": "on"}
KERNEL_GROUP = {"memory": "on", "pids": "on", "cpu": "on"}
WATCHDOG = {"memory": "degraded", "pids": "degraded", "cpu": "degraded"}
GUARDED = {**WATCHDOG, "pids": "on"}  # the supervisor counts each new task
RUN = tuple(f"e2e/run/test_{name}.py" for name in ("changes", "errors", "figures", "language", "output", "state",
                                                   "status_line", "structured", "values"))
SUITES = ("e2e/limits/test_limits.py", "e2e/session/test_checkpoints.py", "e2e/run/test_hostile_code.py",
          *RUN, "e2e/files/test_files.py", "e2e/trust/test_trusted_paths.py", "e2e/trust/test_trusted_programs.py",
          "escape/test_attacks.py", "escape/test_survivors.py")
SHORT = ("e2e/limits/test_limits.py",)
LANGUAGE = (*RUN, "e2e/files/test_files.py", "e2e/session/test_checkpoints.py")
# On the oldest kernel with a store, see e2e/overlay.py.
COW = ("e2e/files/test_cow_mount.py",
       *(f"e2e/changes/test_{name}.py" for name in ("cow", "cow_conflicts", "cow_hostile", "cow_kills", "cow_list",
                                                     "cow_races", "cow_refused", "cow_store", "project", "undo_beside_others",
                                                     "undo_bounds", "undo_files")),
       "escape/test_cow.py")
# Suites of ordinary work, of limits, and of attacks.
LIFE = ("e2e/protocol/test_protocol.py", *LANGUAGE, "e2e/files/test_read_file.py", "e2e/files/test_hostile_files.py",
        "e2e/session/test_undo_and_restore.py", "e2e/session/test_failover.py", "e2e/run/test_interrupts.py",
        "e2e/files/test_resources.py", "e2e/lifecycle/test_lifecycle.py", "e2e/lifecycle/test_container_init.py",
        "e2e/run/test_hostile_code.py", "packages/test_install.py", "e2e/network/test_allow_host.py",
        "e2e/protocol/test_elicitation.py", "e2e/protocol/test_stateless.py", "e2e/cli/test_cli.py",
        "e2e/cli/test_run_command.py", "e2e/cli/test_settings.py", "compat/test_compat.py")
BOUNDS = ("e2e/limits/test_limits.py", "e2e/limits/test_out_of_memory.py", "e2e/protocol/test_floods.py")
HELD = ("escape/test_attacks.py", "escape/test_forged_frames.py", "escape/test_survivors.py",
        "packages/test_hostile_packages.py")
WITHOUT_NAMESPACES = ("e2e/isolation/test_container.py", "e2e/limits/test_watchdog_limits.py",
                      "escape/test_container_attacks.py", "e2e/changes/test_cow.py", *LIFE, *BOUNDS, *HELD)


@dataclasses.dataclass(frozen=True)
class Host:
    """level: the isolation level that doctor must name; `container` is requested, the others are selected. layers:
    states of protections that differ. refused: the words of a refusal, where code must not run. differs: case → why
    it fails here, without skipped cases. machine: its name in hostvm.py if that differs; around: the command that
    starts ours there; own_groups: each server gets a control group that it may divide (own_group.py)."""

    kernel: str
    layers: dict = dataclasses.field(default_factory=dict)
    refused: tuple = ()
    says: tuple = ()  # words that doctor's memory row must contain
    suites: tuple = ()
    differs: dict = dataclasses.field(default_factory=dict)
    machine: str = ""
    around: tuple = ()
    own_groups: bool = False
    level: str = "full"


OWN_GROUP = "control group, version 2\""  # and no scope
DELEGATED = ("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--uid=user",
             "-p", "Delegate=yes", "--")
CONTAINER = ("python3", f"{THERE}/tests/machines/container.py")
OUR_FILTER = (*CONTAINER, "--seccomp", f"{THERE}/packaging/seccomp/sandpiper.json")

# Not checked on an emulated processor, where another of the server's limits is reached first.
TOO_SLOW = {
    "test_timeout_by_interrupt": "an interrupt takes longer than the server waits for it",
    "test_at_the_time_limit": "an interrupt takes longer than the server waits for it",
    "test_a_shielded_task_continues_with_the_next_await": "an interrupt takes longer than the server waits for it",
    "test_a_process_that_stops_itself": "a limit of less than a second passes before the code begins",
    "test_processes_that_the_dead_call_started_are_killed": "its processes need more than a second to start",
    "test_a_writer_cannot_swap_the_file_between_look_and_open": "its reads take longer than the writer's limit",
    "test_more_tasks_than_allowed": "its processes do not start within its limit",
}

HOSTS = {
    "debian12-user": Host("um", KERNEL_GROUP, says=("a systemd scope",), suites=(*SUITES, *COW)),
    "debian13-user": Host("um", KERNEL_GROUP, says=("a systemd scope",), suites=SHORT),
    "debian14-user": Host("um", KERNEL_GROUP, says=("a systemd scope",), suites=(*SUITES, *COW)),
    "debian12-login": Host("um", KERNEL_GROUP, says=("a systemd scope",), suites=SHORT),
    "debian13-login": Host("um", KERNEL_GROUP, says=("a systemd scope",)),
    "debian12-service": Host("um", KERNEL_GROUP, says=("a systemd scope",)),
    "debian12-bare": Host("um", KERNEL_GROUP, says=("a systemd scope",)),
    "debian12-root": Host("um", KERNEL_GROUP, says=("a systemd scope",),
                          suites=("e2e/limits/test_limits.py", "e2e/session/test_checkpoints.py", "escape/test_attacks.py",
                                  *COW)),
    "debian14-root": Host("um", KERNEL_GROUP, says=("a systemd scope",), suites=COW),
    "debian12-v1": Host("um", WATCHDOG, says=("checked every", "unified_cgroup_hierarchy"),
                        suites=("e2e/limits/test_limits.py", "e2e/run/test_hostile_code.py")),
    "delegated-service": Host("um", KERNEL_GROUP, says=(OWN_GROUP,), suites=SHORT,
                              machine="debian12-root", around=DELEGATED, own_groups=True),
    "delegated-shared": Host("um", KERNEL_GROUP, says=("a systemd scope",),
                             machine="debian12-root", around=DELEGATED),
    "container-writable": Host("um", KERNEL_GROUP, says=(OWN_GROUP,), suites=SHORT,
                               machine="debian12-root", own_groups=True,
                               around=(*CONTAINER, "--writable-cgroup", "--")),
    "container-readonly": Host("um", WATCHDOG, says=("checked every", "writable-cgroups=true"),
                               suites=SHORT, machine="debian12-root", around=(*CONTAINER, "--")),
    "container-user": Host("um", WATCHDOG, says=("checked every", "its user can write to"),
                           machine="debian12-root", around=(*CONTAINER, "--user", "user", "--")),
    "debian12-nouserns": Host("um", refused=("user.max_user_namespaces",)),
    "ubuntu2404-user": Host("pc", refused=("AppArmor",)),
    "docker-user": Host("um", refused=("--security-opt seccomp=FILE",)),
    "docker-root": Host("um", refused=("--security-opt seccomp=FILE",)),
    "docker-user-filter": Host("um", WATCHDOG, machine="debian12-root", level="full without /proc",
                               around=(*OUR_FILTER, "--user", "user", "--"),
                               suites=(*LIFE, *BOUNDS, *HELD)),
    "docker-root-filter": Host("um", WATCHDOG, machine="debian12-root", level="full without /proc",
                               around=(*OUR_FILTER, "--"), suites=LANGUAGE),
    "docker-user-container": Host("pc", GUARDED, machine="docker-user", level="container",
                                  suites=WITHOUT_NAMESPACES),
    "docker-root-container": Host("pc", GUARDED, machine="docker-root", level="container",
                                  suites=WITHOUT_NAMESPACES),
    "debian12-nouserns-container": Host("pc", KERNEL_GROUP, machine="debian12-nouserns", level="container",
                                        suites=WITHOUT_NAMESPACES),
    "ubuntu2404-container": Host("pc", KERNEL_GROUP, machine="ubuntu2404-user", level="container",
                                 suites=("e2e/isolation/test_container.py", "e2e/limits/test_watchdog_limits.py",
                                         "escape/test_container_attacks.py", *LANGUAGE)),
    "small-container": Host("pc", GUARDED, machine="debian12-root", level="container",
                            says=("three quarters of the server's own limit of 400 MiB",),
                            around=(*CONTAINER, "--default", "--memory", "400", "--user", "user", "--"),
                            suites=("e2e/limits/test_watchdog_limits.py", "e2e/limits/test_limits.py")),
    "no-landlock-container": Host("um", machine="docker-user", level="container",
                                  refused=("landlock: the kernel has none",)),
}


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def check(self, name, good, why=""):
        if good:
            self.passed += 1
        else:
            self.failed.append(f"{name}: {why}")
            print(f"not ok {name}: {why}", flush=True)


def stage(directory, binary):
    """Copies the program and the tests to a directory for the virtual machine, which has no build tree."""
    for tree in ("tests", "packaging/seccomp", "docs"):
        shutil.copytree(ROOT / tree, directory / tree, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / "build").mkdir()
    shutil.copy2(binary, directory / "build" / "sandpiper")


HOSTVM_FAILED = 125


def on_host(name, host, directory, command, timeout_s, log):
    """Runs the command on a host and writes its output to the file `log`; False if the host has no image. A machine
    that fails to start, as an emulated kernel on a busy processor may, gets a second try."""
    if host.own_groups:
        group = f"python3 {THERE}/tests/machines/own_group.py"
        command = f"{group} --divide && export SANDPIPER_TEST_WRAP='{group}' && {command}"
    if host.level == "container":
        command = f"export SANDPIPER_ISOLATION=container && {command}"
    for _ in range(2):
        with open(log, "wb") as out:
            done = subprocess.run([sys.executable, HOSTVM, "run", "--host", host.machine or name,
                                   "--kernel", host.kernel, "--no-input", "--memory", "2048",
                                   "--timeout", str(timeout_s),
                                   "--copy", f"{directory}:{THERE}", "--", *host.around,
                                   "sh", "-c", command], stdout=out, stderr=subprocess.STDOUT)
        if done.returncode != HOSTVM_FAILED:
            break
        if re.search(r"no (image|kernel) \S+ here yet", log.read_text(errors="replace")):
            return False
    return True


def check_protections(tally, name, host, text):
    start, end = text.find("{"), text.rfind("\n}") + 2
    said = json.loads(text[start:end]) if end > 1 else {"protections": [], "isolation": None}
    rows = {row["protection"]: row for row in said["protections"]}
    tally.check(f"{name}: doctor answers", rows, text[-400:])
    layers = {}
    if not host.refused:
        layers = {**LEVELS[host.level], "landlock": LANDLOCK[host.kernel], **host.layers}
        tally.check(f"{name}: the level is {host.level}", said["isolation"] == host.level, str(said["isolation"]))
    for layer, state in layers.items():
        found = rows.get(layer, {})
        tally.check(f"{name}: {layer} is {state}", found.get("state") == state, str(found))
    memory = json.dumps(rows.get("memory", {}))
    for word in host.says:
        tally.check(f"{name}: memory says {word}", word in memory, memory)
    ran = "code " + "ran" in text[end:]
    if host.refused:
        tally.check(f"{name}: no code runs", not ran, text[end:])
        for word in host.refused:
            tally.check(f"{name}: both name {word}", word in text[start:end] and word in text[end:],
                        text[-800:])
    else:
        tally.check(f"{name}: code runs", ran, text[-800:])


def check_suite(tally, name, host, suite, text):
    cases = 0
    for good, case, skip in re.findall(r"^(ok|not ok) \d+ - (\w+)(?: # SKIP (.*))?$", text, re.M):
        cases += 1
        label = f"{name}: {suite}: {case}"
        if skip:
            tally.skipped.append(f"{label}: {skip}")
        elif host.kernel == "pc" and case in TOO_SLOW:
            tally.skipped.append(f"{label}: {TOO_SLOW[case]}")
        elif case in host.differs:
            tally.check(label, good == "not ok", "passes, and is in the table of differences")
        else:
            tally.check(label, good == "ok", "\n" + text[max(0, text.find(case) - 1500):][:3000])
    tally.check(f"{name}: {suite} ends", re.search(r"^1\.\.\d+$", text, re.M) and cases,
                text[-1500:])


def script(host):
    """One shell command that runs doctor, a line of code, and each suite between two marks."""
    lines = [f"cd {THERE}", f"export SANDPIPER_TEST_SLOW={SLOW} SANDPIPER={THERE}/build/sandpiper",
             "$SANDPIPER_TEST_WRAP build/sandpiper doctor --json",
             "$SANDPIPER_TEST_WRAP build/sandpiper run -c 'print(\"code \" + \"ran\")'"]
    for suite in host.suites:
        lines += [f"echo; echo '{MARK} {suite}'",
                  f"timeout {SUITE_S[host.kernel]} python3 tests/e2e/tap.py tests/{suite} 2>&1"]
    return "; ".join(lines) + f"; echo; echo '{MARK}'"


def check_host(tally, name, host, directory, log):
    began = time.monotonic()
    timeout_s = 300 + SUITE_S[host.kernel] * len(host.suites)
    if not on_host(name, host, directory, script(host), timeout_s, log):
        tally.skipped.append(f"{name}: its image or kernel is not there: hostvm.py build")
        return
    first, *parts = log.read_text(errors="replace").split(f"\n{MARK}")
    check_protections(tally, name, host, first)
    said = {part.split("\n")[0].strip(): part for part in parts}
    for suite in host.suites:
        check_suite(tally, name, host, suite, said.get(suite, ""))
    print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)


def main():
    binary, names = pathlib.Path(sys.argv[1]), [name for name in sys.argv[2:] if name != "--short"]
    hosts = {name: HOSTS[name] for name in names} if names else HOSTS
    if "--short" in sys.argv:
        hosts = {name: dataclasses.replace(host, suites=()) for name, host in hosts.items()}
    tally = Tally()
    logs = binary.parent / "machines"
    logs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sp-hosts-") as directory:
        stage(pathlib.Path(directory), binary)
        for name, host in hosts.items():
            check_host(tally, name, host, pathlib.Path(directory), logs / f"{name}.log")
    for line in tally.skipped:
        print(f"skipped  {line}")
    for line in tally.failed:
        print(f"failed   {line}".split("\n")[0])
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
