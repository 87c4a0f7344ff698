"""Finds what a server may leave on the machine: processes, cgroups and files.

(pid, start time) identifies a process, so a reused pid is no false alarm. The sandbox's processes are found as
descendants of the running server; after its death they belong to the machine's init, and only the pid namespace and the
cgroups in which they were seen still identify them.
"""
import contextlib
import os
import pathlib
import re
import time

TEMP_DIRS = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def facts_of(pid):
    """(parent, start time, state) of a process, or None once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return int(fields[1]), int(fields[19]), fields[0]


def is_running(pid):
    """False also for a zombie: who reaps it, and when, is up to the machine's init, which in a container may never do it."""
    facts = facts_of(pid)
    return facts is not None and facts[2] not in "ZX"


def any_left(pids, within_s):
    """Whether one of these processes is still running after so many seconds."""
    end = time.monotonic() + within_s
    while any(map(is_running, pids)):
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def processes():
    """{pid: (parent, start time, state)} of every process that /proc shows."""
    found = {int(entry): facts_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    return {pid: facts for pid, facts in found.items() if facts}


def children(pid):
    """The pids of the children of its threads; at a call's end this costs less than reading all of /proc."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(root):
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # CONFIG_PROC_CHILDREN
        return descendants_by_parent(root)
    found, queue = [], [root]
    while queue:
        with contextlib.suppress(OSError):
            more = children(queue.pop())
            found += more
            queue += more
    return found


def descendants_by_parent(root):
    children = {}
    for pid, (parent, _, _) in processes().items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def init_of(server):
    """The process that starts and kills all others of this server's sandbox: its init, or its supervisor."""
    for pid in descendants(server):
        if (facts_of(pid) or (0,))[0] == server and command_of(pid).split(b"\0")[0] in (b"sandpiper-init", b"sandpiper-supervisor"):
            return pid
    raise AssertionError("no sandbox")


def oldest_of(server):
    """The start time and pid of init's oldest child, the zygote."""
    table, init = processes(), init_of(server.pid)
    return min((start, pid) for pid, (parent, start, _) in table.items() if parent == init)


def pid_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def cgroup_dirs(pid):
    """Directories of this process's own groups whose names show that a server created them."""
    found = set()
    try:
        lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "sandpiper" not in path:
            continue
        names = [controllers.replace("name=", "")] if controllers else ["", "unified"]
        found |= {pathlib.Path("/sys/fs/cgroup", name, path.lstrip("/")) for name in names}
    return {path for path in found if path.is_dir()}


def package_directories(pid):
    """The directories below .../boxes that this process holds open."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            path = pathlib.Path(os.readlink(f"/proc/{pid}/fd/{fd}"))
            if path.parent.name == "boxes":
                found.add(path)
    except OSError:
        pass
    return found


def mounts():
    with open("/proc/self/mountinfo") as file:
        return {line.split(" ", 3)[3] for line in file}


class Traces:
    """Watches one server. Call look() while it runs and left() after its exit."""

    def __init__(self, temp_dir):
        self.temp_dir = pathlib.Path(temp_dir)
        self.mounts_before = mounts()
        self.seen, self.namespaces, self.cgroups, self.directories = set(), set(), set(), set()
        self.pid = None

    def look(self, pid):
        self.pid = pid
        own = pid_namespace("self")
        self.directories |= package_directories(pid)
        for child in [pid, *descendants(pid)]:
            facts = facts_of(child)
            if facts:
                self.seen.add((child, facts[1]))
                self.cgroups |= cgroup_dirs(child)
                self.namespaces |= {pid_namespace(child)} - {own, None}

    def processes_left(self):
        known = {pid: facts_of(pid) for pid, _ in self.seen}
        if not any(facts and (pid, facts[1]) in self.seen and facts[2] not in "ZX" for pid, facts in known.items()):
            return []  # so that none of their namespaces lives, and /proc need not be read
        alive = {(pid, start) for pid, (_, start, state) in processes().items() if state not in "ZX"}
        # The kernel reuses the number of a dead namespace: a process that was not seen before counts only beside one
        # that was.
        namespaces = {pid_namespace(pid) for pid, _ in self.seen & alive} & self.namespaces
        return [f"process {pid}" for pid, start in sorted(alive)
                if (pid, start) in self.seen or (namespaces and pid_namespace(pid) in namespaces)]

    def left_now(self):
        left = self.processes_left()
        left += [f"cgroup {path}" for path in self.cgroups if path.exists()]
        left += [f"directory {path}" for path in self.directories if path.exists()]
        left += [f"mount {line}" for line in mounts() - self.mounts_before]
        if self.temp_dir.is_dir():
            left += [f"file {path}" for path in self.temp_dir.iterdir()]
        own = re.compile(rf"sandpiper.*(?<![0-9a-z]){self.pid}(?![0-9a-z])")  # not a part of a random name
        for directory in TEMP_DIRS:
            names = os.listdir(directory) if os.access(directory, os.R_OK) else []
            left += [f"file {directory}/{name}" for name in names if own.search(name)]
        return left

    def left(self, within_s=1.0):
        """What is left after at most within_s; the list must be empty."""
        end = time.monotonic() + within_s
        while True:
            left = self.left_now()
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.02)
