"""Runs a Python program on a host of its own: own_host.py SCRIPT [ARGUMENT...]

Some tests assert that nothing on the host has changed. Other programs on the machine must not affect them, so the
program gets its own process, IPC, hostname and mount namespaces. There / is a tmpfs on which everything of the machine
is mounted, with an overlay over each directory in WATCHED, whose changes are below SANDPIPER_TEST_CHANGES. Pids start
at a random high number: no process of a sandbox has the same pid, and seldom one of another such host.

A user who cannot write to these directories needs no host of its own: the program runs directly.
"""
import ctypes
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

KERNEL = pathlib.Path("/proc/sys/kernel")
WATCHED = ("etc", "root", "usr")
MS_BIND, MS_REC, MNT_DETACH = 4096, 16384, 2
LIBC = ctypes.CDLL(None, use_errno=True)
UNSHARE = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind=None, flags=0, options=None):
    words = [word and str(word).encode() for word in (source, target, kind)]
    check(LIBC.mount(*words, ctypes.c_ulong(flags), options and options.encode()))


def new_root(base):
    """Builds a directory with everything that / has; returns it with the directory of changes to WATCHED."""
    mount("tmpfs", base, "tmpfs", options="mode=755")
    root, changes, work = base / "root", base / "changes", base / "work"
    for directory in (root, changes, work):
        directory.mkdir()
    mount("tmpfs", root, "tmpfs", options="mode=755")
    for entry in os.scandir("/"):
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry))
            continue
        if not entry.is_dir():
            target.touch()
            mount(entry.path, target, flags=MS_BIND)
            continue
        target.mkdir()
        if entry.name not in WATCHED:
            mount(entry.path, target, flags=MS_BIND | MS_REC)
            continue
        for directory in (changes, work):
            (directory / entry.name).mkdir()
            os.chmod(directory / entry.name, entry.stat().st_mode & 0o7777)
        mount("overlay", target, "overlay",
              options=f"lowerdir={entry.path},upperdir={changes / entry.name},workdir={work / entry.name}")
    return root, changes


def inside(base, *command):
    """Runs as pid 1 of the namespaces: starts the program and reaps orphans."""
    most = int(KERNEL.joinpath("pid_max").read_text())
    KERNEL.joinpath("ns_last_pid").write_text(str(random.randrange(most // 4, most // 2)))
    here = os.getcwd()
    root, changes = new_root(pathlib.Path(base))
    check(LIBC.pivot_root(str(root).encode(), str(root).encode()))
    check(LIBC.umount2(b"/", MNT_DETACH))
    os.chdir(here)
    process = subprocess.Popen([sys.executable, *command], env={**os.environ, "SANDPIPER_TEST_CHANGES": str(changes)})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: process.send_signal(number))
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            return os.waitstatus_to_exitcode(status) & 0xff


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        sys.exit(inside(*sys.argv[2:]))
    # As root of a user namespace one cannot write to them either.
    if os.access("/etc", os.W_OK) and subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0:
        with tempfile.TemporaryDirectory(prefix="sp-host-") as base:
            sys.exit(subprocess.call([*UNSHARE, sys.executable, "-B", __file__, "--inside", base, *sys.argv[1:]]))
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
