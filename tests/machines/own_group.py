"""Starts a program in a control group of its own, as a service with Delegate=yes or a container has one.

    own_group.py --divide                   once: lets the caller's group hand its controllers down
    own_group.py PROGRAM [ARGUMENT...]      becomes the program; the group is removed with it

The caller's group (version 2) must belong to the caller. SANDPIPER_TEST_WRAP starts servers so.
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
    """A group hands controllers down only while no process is in it, so its own go to a leaf."""
    (group / LEAF).mkdir()
    for pid in (group / "cgroup.procs").read_text().split():
        (group / LEAF / "cgroup.procs").write_text(pid)
    for name in ("memory", "pids", "cpu"):
        (group / "cgroup.subtree_control").write_text("+" + name)


def remove_with(pid, group):
    """In a process that is nobody's child: waits for the program, then removes its group."""
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
        for folder in (*group.glob("*/"), group):
            with contextlib.suppress(OSError):
                folder.rmdir()
        time.sleep(0.01)
    os._exit(0)


def main():
    if sys.argv[1] == "--divide":
        divide(own_group())
        return
    group = own_group().parent / f"server-{os.getpid()}"
    group.mkdir()
    remove_with(os.getpid(), group)
    with contextlib.suppress(OSError):  # systemd's mark, which a container needs not
        os.setxattr(group, "user.delegate", b"1")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
