"""Run the end-to-end and escape suites on other kinds of host, and compare with what each can promise.

    check.py BINARY [HOST...]           every host that can be had, or those named
    check.py BINARY --short [HOST...]   what doctor says and whether code runs, no suites

What each host printed is kept in hosts/ beside BINARY.

The hosts are virtual machines of hostvm.py, see README.md. What a host cannot do stands in HOSTS beside it; whatever is
neither passed nor there is a failure. A host whose image is not there is skipped by name
(hostvm.py build makes them).
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
SLOW = "10"  # User-Mode Linux, on a processor that others use too
SUITE_S = {"um": 1500, "pc": 2400}  # seconds for one suite
MARK = "== suite:"  # what one prints follows

# What a host has in each grade or no code runs, and what its kernel brings along.
FULL = {"namespaces": "on", "mounts": "on", "privileges": "on", "seccomp": "on"}
GRADES = {
    "full": FULL,
    "full without /proc": {**FULL, "mounts": "degraded"},
    "container": {**FULL, "namespaces": "off", "mounts": "off"},
}
LANDLOCK = {"um": "degraded", "pc": "on"}
KERNEL_GROUP = {"memory": "on", "pids": "on", "cpu": "on"}
WATCHDOG = {"memory": "degraded", "pids": "degraded", "cpu": "degraded"}
GUARDED = {**WATCHDOG, "pids": "on"}  # each new task is counted by the guardian
SUITES = ("e2e/test_limits.py", "e2e/test_checkpoints.py", "e2e/test_hostile.py",
          "e2e/test_run_python.py", "e2e/test_files.py", "e2e/test_trust.py", "escape/test_attacks.py",
          "escape/test_survivors.py")
SHORT = ("e2e/test_limits.py",)
LANGUAGE = ("e2e/test_run_python.py", "e2e/test_files.py", "e2e/test_checkpoints.py")
# What a server is given to do, whatever it runs on; what it bounds; what it holds.
LIFE = ("e2e/test_protocol.py", *LANGUAGE, "e2e/test_files_read.py", "e2e/test_files_hostile.py",
        "e2e/test_states.py", "e2e/test_takeover.py", "e2e/test_interrupts.py", "e2e/test_results.py",
        "e2e/test_results_shown.py", "e2e/test_results_told.py", "e2e/test_resources.py",
        "e2e/test_lifecycle.py", "e2e/test_first_process.py", "e2e/test_hostile.py",
        "e2e/test_install.py", "e2e/test_allow_host.py", "e2e/test_elicitation.py",
        "e2e/test_stateless.py", "e2e/test_cli.py", "compat/test_compat.py")
BOUNDS = ("e2e/test_limits.py", "e2e/test_out_of_memory.py", "e2e/test_floods.py")
HELD = ("escape/test_attacks.py", "escape/test_forged.py", "escape/test_survivors.py",
        "escape/test_packages.py")
WITHOUT_NAMESPACES = ("e2e/test_container.py", "e2e/test_container_limits.py",
                      "escape/test_container_attacks.py", *LIFE, *BOUNDS, *HELD)


@dataclasses.dataclass(frozen=True)
class Host:
    """grade: which one doctor must name; the one without namespaces is asked for, the others are found.
    layers: what doctor must say besides. refused: the words of a refusal, where code must not run.
    differs: case → why it does not pass here, "skip" reasons apart. machine: its name in hostvm.py, if
    that is another; around: what the command is started by there; own_groups: each server gets a
    control group that it may divide (own_group.py)."""

    kernel: str
    layers: dict = dataclasses.field(default_factory=dict)
    refused: tuple = ()
    says: tuple = ()  # words that doctor's memory row must have
    suites: tuple = ()
    differs: dict = dataclasses.field(default_factory=dict)
    machine: str = ""
    around: tuple = ()
    own_groups: bool = False
    grade: str = "full"


OWN_GROUP = "control group, version 2\""  # and no scope
DELEGATED = ("systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--uid=user",
             "-p", "Delegate=yes", "--")
CONTAINER = ("python3", f"{THERE}/tests/hosts/container.py")
OUR_FILTER = (*CONTAINER, "--seccomp", f"{THERE}/packaging/seccomp/sandpiper.json")

# Not judged on an emulated processor, where a bound of the server's own strikes first.
TOO_SLOW = {
    "test_timeout_by_interrupt": "what an interrupt is waited for is shorter than it takes",
    "test_at_the_time_limit": "what an interrupt is waited for is shorter than it takes",
    "test_a_shielded_task_goes_on_with_the_next_await": "what an interrupt is waited for is shorter than it takes",
    "test_a_process_that_stops_itself": "a limit of less than a second passes before the code begins",
    "test_what_the_dead_call_started_is_gone": "what is started needs more than the second that it gets",
    "test_a_writer_cannot_swap_the_file_between_look_and_open": "its reads take longer than the writer's limit",
    "test_more_tasks_than_allowed": "the processes that it starts are not there within its limit",
}

HOSTS = {
    "debian12-user": Host("um", KERNEL_GROUP, says=("a scope of systemd",), suites=SUITES),
    "debian13-user": Host("um", KERNEL_GROUP, says=("a scope of systemd",), suites=SHORT),
    "debian14-user": Host("um", KERNEL_GROUP, says=("a scope of systemd",), suites=SUITES),
    "debian12-login": Host("um", KERNEL_GROUP, says=("a scope of systemd",), suites=SHORT),
    "debian13-login": Host("um", KERNEL_GROUP, says=("a scope of systemd",)),
    "debian12-service": Host("um", KERNEL_GROUP, says=("a scope of systemd",)),
    "debian12-bare": Host("um", KERNEL_GROUP, says=("a scope of systemd",)),
    "debian12-root": Host("um", KERNEL_GROUP, says=("a scope of systemd",),
                          suites=("e2e/test_limits.py", "escape/test_attacks.py")),
    "debian12-v1": Host("um", WATCHDOG, says=("watchdog", "unified_cgroup_hierarchy"),
                        suites=("e2e/test_limits.py", "e2e/test_hostile.py")),
    "delegated-service": Host("um", KERNEL_GROUP, says=(OWN_GROUP,), suites=SHORT,
                              machine="debian12-root", around=DELEGATED, own_groups=True),
    "delegated-shared": Host("um", KERNEL_GROUP, says=("a scope of systemd",),
                             machine="debian12-root", around=DELEGATED),
    "container-writable": Host("um", KERNEL_GROUP, says=(OWN_GROUP,), suites=SHORT,
                               machine="debian12-root", own_groups=True,
                               around=(*CONTAINER, "--writable-cgroup", "--")),
    "container-readonly": Host("um", WATCHDOG, says=("watchdog", "writable-cgroups=true"),
                               suites=SHORT, machine="debian12-root", around=(*CONTAINER, "--")),
    "container-user": Host("um", WATCHDOG, says=("watchdog", "its user may write to"),
                           machine="debian12-root", around=(*CONTAINER, "--user", "user", "--")),
    "debian12-nouserns": Host("um", refused=("user.max_user_namespaces",)),
    "ubuntu2404-user": Host("pc", refused=("AppArmor",)),
    "docker-user": Host("um", refused=("--security-opt seccomp=FILE",)),
    "docker-root": Host("um", refused=("--security-opt seccomp=FILE",)),
    "docker-user-filter": Host("um", WATCHDOG, machine="debian12-root", grade="full without /proc",
                               around=(*OUR_FILTER, "--user", "user", "--"),
                               suites=(*LIFE, *BOUNDS, *HELD)),
    "docker-root-filter": Host("um", WATCHDOG, machine="debian12-root", grade="full without /proc",
                               around=(*OUR_FILTER, "--"), suites=LANGUAGE),
    "docker-user-container": Host("pc", GUARDED, machine="docker-user", grade="container",
                                  suites=WITHOUT_NAMESPACES),
    "docker-root-container": Host("pc", GUARDED, machine="docker-root", grade="container",
                                  suites=WITHOUT_NAMESPACES),
    "debian12-nouserns-container": Host("pc", KERNEL_GROUP, machine="debian12-nouserns", grade="container",
                                        suites=WITHOUT_NAMESPACES),
    "ubuntu2404-container": Host("pc", KERNEL_GROUP, machine="ubuntu2404-user", grade="container",
                                 suites=("e2e/test_container.py", "e2e/test_container_limits.py",
                                         "escape/test_container_attacks.py", *LANGUAGE)),
    "small-container": Host("pc", GUARDED, machine="debian12-root", grade="container",
                            says=("three quarters of the 400 around the server",),
                            around=(*CONTAINER, "--default", "--memory", "400", "--user", "user", "--"),
                            suites=("e2e/test_container_limits.py", "e2e/test_limits.py")),
    "no-landlock-container": Host("um", machine="docker-user", grade="container",
                                  refused=("landlock: not in this kernel",)),
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


def stage(folder, binary):
    """What the virtual machine gets: the program and the tests, where it has no build tree."""
    for room in ("tests", "packaging/seccomp", "docs"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "build").mkdir()
    shutil.copy2(binary, folder / "build" / "sandpiper")


HOSTVM_FAILED = 125


def on_host(name, host, folder, command, timeout_s, log):
    """Whether the host could be had; what it printed is in the file `log` then. A machine that does not
    even start, as an emulated kernel on a busy processor may, gets a second try."""
    if host.own_groups:
        group = f"python3 {THERE}/tests/hosts/own_group.py"
        command = f"{group} --divide && export SANDPIPER_TEST_WRAP='{group}' && {command}"
    if host.grade == "container":
        command = f"export SANDPIPER_ISOLATION=container && {command}"
    for _ in range(2):
        with open(log, "wb") as out:
            done = subprocess.run([sys.executable, HOSTVM, "run", "--host", host.machine or name,
                                   "--kernel", host.kernel, "--no-input", "--memory", "2048",
                                   "--timeout", str(timeout_s),
                                   "--copy", f"{folder}:{THERE}", "--", *host.around,
                                   "sh", "-c", command], stdout=out, stderr=subprocess.STDOUT)
        if done.returncode != HOSTVM_FAILED:
            break
        if re.search(r"no (image|kernel) \S+ here yet", log.read_text(errors="replace")):
            return False
    return True


def look_at_layers(tally, name, host, text):
    start, end = text.find("{"), text.rfind("\n}") + 2
    said = json.loads(text[start:end]) if end > 1 else {"layers": [], "isolation": None}
    rows = {row["layer"]: row for row in said["layers"]}
    tally.check(f"{name}: doctor answers", rows, text[-400:])
    layers = {}
    if not host.refused:
        layers = {**GRADES[host.grade], "landlock": LANDLOCK[host.kernel], **host.layers}
        tally.check(f"{name}: the grade is {host.grade}", said["isolation"] == host.grade, str(said["isolation"]))
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


def look_at_suite(tally, name, host, suite, text):
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
    """One command for all: doctor, a line of code, and each suite between two marks."""
    lines = [f"cd {THERE}", f"export SANDPIPER_TEST_SLOW={SLOW} SANDPIPER={THERE}/build/sandpiper",
             "$SANDPIPER_TEST_WRAP build/sandpiper doctor --json",
             "$SANDPIPER_TEST_WRAP build/sandpiper run -c 'print(\"code \" + \"ran\")'"]
    for suite in host.suites:
        lines += [f"echo; echo '{MARK} {suite}'",
                  f"timeout {SUITE_S[host.kernel]} python3 tests/e2e/tap.py tests/{suite} 2>&1"]
    return "; ".join(lines) + f"; echo; echo '{MARK}'"


def check_host(tally, name, host, folder, log):
    began = time.monotonic()
    timeout_s = 300 + SUITE_S[host.kernel] * len(host.suites)
    if not on_host(name, host, folder, script(host), timeout_s, log):
        tally.skipped.append(f"{name}: its image or kernel is not there: hostvm.py build")
        return
    first, *parts = log.read_text(errors="replace").split(f"\n{MARK}")
    look_at_layers(tally, name, host, first)
    said = {part.split("\n")[0].strip(): part for part in parts}
    for suite in host.suites:
        look_at_suite(tally, name, host, suite, said.get(suite, ""))
    print(f"== {name}: {time.monotonic() - began:.0f} s", flush=True)


def main():
    binary, names = pathlib.Path(sys.argv[1]), [name for name in sys.argv[2:] if name != "--short"]
    hosts = {name: HOSTS[name] for name in names} if names else HOSTS
    if "--short" in sys.argv:
        hosts = {name: dataclasses.replace(host, suites=()) for name, host in hosts.items()}
    tally = Tally()
    logs = binary.parent / "hosts"
    logs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sp-hosts-") as folder:
        stage(pathlib.Path(folder), binary)
        for name, host in hosts.items():
            check_host(tally, name, host, pathlib.Path(folder), logs / f"{name}.log")
    for line in tally.skipped:
        print(f"skipped  {line}")
    for line in tally.failed:
        print(f"failed   {line}".split("\n")[0])
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
