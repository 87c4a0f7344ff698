"""Start servers and end them, gently or not, at random moments; nothing may be left behind.

    soak.py [--lives 1000] [--jobs 3] [--seed N] [--only NUMBER]

Each life is a separate process that plays the client: it starts one server, brings it into one phase, waits for a
moment and ends it in one way. The seed and the life's number determine everything except scheduling, so a failure can
be repeated. This program is the subreaper of its orphans, so that it sees every process of a dead server. SANDPIPER
names the binary.
"""
import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import random
import select
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import Server, need_userns  # noqa: E402
from traces import Traces, descendants, processes  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
LEFT_WITHIN_S = 5
STALE_S = 10.5  # the age at which a server removes groups and directories of dead ones, sandbox/programs/cleanup/main.c

SPIN = "\nimport os, time\nwhile True: "
# name → (arguments of the server, [code to run to its end], code that runs when it dies, longest wait in s)
PHASES = {
    "before initialize": ([], [], None, 0.02),
    "box being built": ([], [], None, 0.08),
    "first call": ([], [], "pass", 0.08),
    "checkpoint being made": ([], ["data = bytearray(30_000_000)"], None, 0.02),
    "at rest": ([], ["x = 1"], None, 0.2),
    "code sleeps": ([], ["x = 1"], "import time; time.sleep(60)", 0.1),
    "code writes files": ([], [], "n = 0" + SPIN + "n += 1; open(f'/{[\"work\", \"tmp\", \"dev/shm\"]"
                          "[n % 3]}/{n % 500}', 'wb').write(b'x' * 4096)", 0.2),
    "programs run": ([], [], "import subprocess\nkept = [subprocess.Popen(['sleep', '99'], "
                     "start_new_session=True) for _ in range(20)]" + SPIN + "time.sleep(1)", 0.3),
    "forks without end": (["--pids", "60"], [], SPIN + "\n    try: os.fork()\n"
                          "    except OSError: time.sleep(.001)", 0.3),
    "output without end": ([], [], SPIN + "print('x' * 5000)", 0.2),
    "out of memory": (["--memory", "128M"], [], "kept = []" + SPIN + "kept.append(bytearray(1 << 20))",
                      0.4),
    "crash and restore": ([], ["x = 1"], "import os; os.kill(os.getpid(), 11)", 0.1),
    "reset": ([], ["x = 1"], "RESET", 0.1),
    "three sessions": ([], ["x = 1"], "SESSIONS", 0.2),
    "write_file": ([], ["x = 1"], "WRITE", 0.05),
    "host directory": (["--workspace", "DIRECTORY"], ["open('here', 'w').write('x')"],
                    "import time; time.sleep(60)", 0.1),
    "shared memory": ([], [], "from multiprocessing import shared_memory, Pool\n"
                      "kept = shared_memory.SharedMemory(create=True, size=1 << 20)\n"
                      "import time; time.sleep(60)", 0.2),
}
DEATHS = ("SIGKILL", "SIGKILL", "SIGKILL with the helper", "SIGKILL of the group", "SIGKILL with pid 1",
          "SIGTERM", "end of stdin", "SIGKILL of the client", "SIGSTOP, then SIGKILL")


class Life:
    def __init__(self, seed, number):
        dice = random.Random(f"{seed}:{number}")
        self.number = number
        self.phase = list(PHASES)[number % len(PHASES)]
        self.death = dice.choice(DEATHS)
        self.wait_s = dice.uniform(0, PHASES[self.phase][3])

    def __str__(self):
        return f"life {self.number} ({self.phase}, {self.death} after {self.wait_s * 1000:.1f} ms)"


def named(pid, name):
    """The descendants of pid whose first argument is this name."""
    found = []
    for child in descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == name.encode():
            found.append(child)
    return found


def kill(*pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def begin(server, code):
    if code == "RESET":
        server.start_call("run_python", code="x = 2", reset=True)
    elif code == "SESSIONS":
        for name in "abc":
            server.start_call("run_python", code="import time; time.sleep(60)", session=name)
    elif code == "WRITE":
        for number in range(20):
            server.start_call("write_file", path=f"d/{number}", content="x" * 200_000)
    elif code:
        server.start_call("run_python", code=code, timeout_s=60)


def die(server, death):
    """Ends the server; returns the expected exit statuses."""
    server.look()
    if death == "SIGTERM":
        server.signal(signal.SIGTERM)
        return (0, -signal.SIGTERM)  # killed by the signal, before the program caught it
    if death == "end of stdin":
        server.close_stdin()
        return (0,)
    if death == "SIGKILL of the group":
        os.killpg(server.pid, signal.SIGKILL)
    elif death == "SIGKILL with the helper":
        kill(server.pid, *named(server.pid, "sandpiper-cleanup"))
    elif death == "SIGKILL with pid 1":
        kill(*named(server.pid, "sandpiper-init"), server.pid)
    else:
        if death.startswith("SIGSTOP"):
            server.process.send_signal(signal.SIGSTOP)
        kill(server.pid)
    return (-signal.SIGKILL,)


def live(life, report):
    """Plays the client. Calls report with the server's pid, then with what it left."""
    arguments, before, code, _ = PHASES[life.phase]
    directory = tempfile.mkdtemp(prefix="sp-soak-")
    server = Server(*[directory if word == "DIRECTORY" else word for word in arguments], check=False,
                    initialize=life.phase != "before initialize")
    report({"pid": server.pid, "remove": [server.temp, directory]})
    for line in before:
        server.python(line)
    begin(server, code)
    time.sleep(life.wait_s)
    if life.death == "SIGKILL of the client":
        report({"ready": True})
        time.sleep(600)
    right = die(server, life.death)
    status = server.join(10)
    left = server.left(LEFT_WITHIN_S)
    if life.death == "SIGKILL with the helper":
        left, later = [], left  # the next server removes groups and directories
        left += [what for what in later if not what.startswith(("cgroup ", "directory "))]
        report({"later": [what.removeprefix("directory ") for what in later if what.startswith("directory ")]})
    if status not in right:
        left.append(f"exit status {status}")
    report({"left": left})


def host(life, pipe):
    def report(message):
        os.write(pipe, json.dumps(message).encode() + b"\n")
    try:
        live(life, report)
    except BaseException as error:
        report({"left": [f"{type(error).__name__}: {error}"]})
    os._exit(0)


class Running:
    """A life in progress, seen from outside."""

    def __init__(self, life):
        self.life, self.pid, self.remove, self.left, self.traces = life, None, [], None, None
        self.later = []
        self.pipe, theirs = os.pipe()
        self.host = os.fork()
        if self.host == 0:
            os.close(self.pipe)
            host(life, theirs)
        os.close(theirs)
        self.rest = b""

    def kill_host(self):
        self.traces.look(self.pid)
        kill(self.host)
        self.left = self.traces.left(LEFT_WITHIN_S)

    def read(self):
        """True at the end of this life."""
        data = os.read(self.pipe, 65536)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pid" in message:
                self.pid, self.remove = message["pid"], message["remove"]
                self.traces = Traces("/nonexistent")  # the client's own directory survives a killed client
            self.left = message.get("left", self.left)
            self.later = message.get("later", self.later)
            if "ready" in message:
                self.kill_host()
        if data:
            return False
        os.close(self.pipe)
        if self.left is None:
            self.left = ["the client exited without a report"]
        for directory in self.remove:
            os.system(f"rm -rf '{directory}'")
        return True


def groups(pids):
    """Control groups with the pid of one of our servers in their name."""
    found = glob.glob("/sys/fs/cgroup/**/sandpiper-*", recursive=True)
    return [path for path in found if any(path.rpartition("/")[2].startswith(f"sandpiper-{pid}-")
                                          for pid in pids)]


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def live_all(numbers, seed, jobs, report):
    """Runs all lives, some at a time. Returns (failures, pids of the servers, directories for the next server)."""
    waiting = collections.deque(numbers)
    running, failures, pids, later = {}, [], set(), []
    while waiting or running:
        while waiting and len(running) < jobs:
            one = Running(Life(seed, waiting.popleft()))
            running[one.pipe] = one
        for pipe in select.select(list(running), [], [], 60)[0]:
            one = running[pipe]
            if not one.read():
                continue
            del running[pipe]
            pids.add(one.pid)
            later += one.later
            if one.left:
                failures.append(f"{one.life}: {', '.join(one.left)}")
                print("failed ", failures[-1], flush=True)
            report(one.life)
        reap()
    return failures, pids, later


def last_look(pids, later):
    """What is left when all are dead, the last groups are old, and one more server has run."""
    time.sleep(STALE_S)
    with Server() as server:
        server.python("pass")
    reap()
    table = processes()
    left = [f"process {pid}: {pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()[:80]}"
            for pid in descendants(os.getpid()) if table.get(pid, (0, 0, "X"))[2] not in "ZX"]
    return left + [f"cgroup {path}" for path in groups(pids)] + [f"directory {path}" for path in later
                                                                 if os.path.exists(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10 ** 6)))
    parser.add_argument("--only", type=int, help="this life alone")
    options = parser.parse_args()
    need_userns()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    numbers = range(options.lives) if options.only is None else [options.only]
    began, deaths = time.monotonic(), collections.Counter()

    def report(life):
        deaths[life.death] += 1
        if deaths.total() % 100 == 0:
            print(f"{time.monotonic() - began:6.0f} s  {deaths.total()} lives", flush=True)
    failures, pids, later = live_all(numbers, options.seed, options.jobs, report)
    failures += last_look(pids, later)
    for death, count in sorted(deaths.items()):
        print(f"{count:6}  {death}")
    for failure in failures:
        print("failed ", failure)
    print(f"{deaths.total()} lives, seed {options.seed}, in {time.monotonic() - began:.0f} s: "
          f"{len(failures)} left something behind")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
