"""deny.py WHAT... -- COMMAND ARG...: run a command as on a host that lacks a feature.

WHAT is a system call, which then fails with ENOSYS as on an older kernel, or CALL:EPERM as under a filter, or does
nothing and succeeds: CALL:NOTHING, or kills its process: CALL:KILL; `cgroup`:
control groups cannot be written; or `listener`: a container engine uses seccomp_unotify(2), and the kernel allows no
second listener. All processes that the command starts are affected. A fallback that never ran is a bug.
"""
import ctypes
import errno
import os
import sys

SCMP_ACT_ALLOW = 0x7FFF0000
SCMP_ACT_ERRNO = 0x00050000
SCMP_ACT_KILL_PROCESS = 0x80000000
SCMP_ACT_NOTIFY = 0x7FC00000
CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_KEPT = {"nosuid": 2, "nodev": 4, "noexec": 8}  # a user namespace must not remove these


def deny_listener():
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(SCMP_ACT_ALLOW)))
    number = library.seccomp_syscall_resolve_name(b"lookup_dcookie")  # an unused call
    library.seccomp_rule_add(context, ctypes.c_uint32(SCMP_ACT_NOTIFY), number, ctypes.c_uint(0))
    if library.seccomp_load(context) != 0:
        sys.exit("deny.py: the filter cannot be loaded")
    os.set_inheritable(library.seccomp_notify_fd(context), True)  # the kernel counts a listener only while it is open


def deny_calls(words):
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(SCMP_ACT_ALLOW)))
    for word in words:
        name, _, error = word.partition(":")
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            sys.exit(f"deny.py: no system call {name}")
        action = ctypes.c_uint32(SCMP_ACT_KILL_PROCESS if error == "KILL" else
                                 SCMP_ACT_ERRNO | (error != "NOTHING" and getattr(errno, error or "ENOSYS")))
        if library.seccomp_rule_add(context, action, number, ctypes.c_uint(0)) != 0:
            sys.exit(f"deny.py: no rule for {name}")
    if library.seccomp_load(context) != 0:
        sys.exit("deny.py: the filter cannot be loaded")


def deny_cgroups():
    """Makes every cgroup mount read-only in a new mount namespace."""
    mounts = [line.split() for line in open("/proc/self/mounts")]
    places = {mount[1]: sum(MS_KEPT.get(option, 0) for option in mount[3].split(","))
              for mount in mounts if mount[2] in ("cgroup", "cgroup2")}
    if not any(os.access(place, os.W_OK) for place in places):
        return
    if os.geteuid() != 0:
        sys.exit("deny.py: only root can make control groups read-only")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
        sys.exit("deny.py: no mount namespace: " + os.strerror(ctypes.get_errno()))
    for place, kept in places.items():
        if libc.mount(None, place.encode(), None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept, None):
            sys.exit(f"deny.py: {place}: " + os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    at = sys.argv.index("--")
    denied = sys.argv[1:at]
    if "cgroup" in denied:
        deny_cgroups()
    if "listener" in denied:
        deny_listener()
    deny_calls([word for word in denied if word not in ("cgroup", "listener")])
    os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
