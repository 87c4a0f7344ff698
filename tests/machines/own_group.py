"""Starts a program in a control group of its own, as a service with Delegate=yes or a container has one.

    own_group.py --divide                   once: lets the caller's group delegate its controllers
    own_group.py PROGRAM [ARGUMENT...]      executes the program; removes the group when it has exited

The caller's group (version 2) must belong to the caller. SANDPIPER_TEST_WRAP makes the tests start servers this way.
"""
import contextlib
import os
import pathlib
import select
import sys
import time

LEAF = "callers"


def own_group():
    path = pathlib.Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    return pathlib.Path("/sys/fs/cgroup", path.lstrip("/"))


def divide(group):
    """Moves the group's processes to a leaf, because only a group without processes can delegate controllers."""
    (group / LEAF).mkdir()
    for pid in (group / "cgroup.procs").read_text().split():
        (group / LEAF / "cgroup.procs").write_text(pid)
    for name in ("memory", "pids", "cpu"):
        (group / "cgroup.subtree_control").write_text("+" + name)


def remove_with(pid, group):
    """Waits for the program in a daemon process, then removes its group."""
    if os.fork():
        os.wait()
        return
    if os.fork():
        os._exit(0)
    os.setsid()
    os.closerange(0, 3)
    program = os.pidfd_open(pid)
    select.select([program], [], [])
    while group.is_dir():
        for directory in (*group.glob("*/"), group):
            with contextlib.suppress(OSError):
                directory.rmdir()
        time.sleep(0.01)
    os._exit(0)


def main():
    if sys.argv[1] == "--divide":
        divide(own_group())
        return
    group = own_group().parent / f"server-{os.getpid()}"
    group.mkdir()
    remove_with(os.getpid(), group)
    with contextlib.suppress(OSError):  # systemd's mark, which a container may lack
        os.setxattr(group, "user.delegate", b"1")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
