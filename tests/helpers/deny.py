"""deny.py SYSCALL... -- COMMAND ARG...: run a command on a kernel that seems to lack those calls.

They return ENOSYS, there and in all that the command starts. A fallback that never ran is a bug.
"""
import ctypes
import errno
import os
import sys

SCMP_ACT_ALLOW = 0x7FFF0000
SCMP_ACT_ERRNO = 0x00050000


def deny(names):
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(SCMP_ACT_ALLOW)))
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            sys.exit(f"deny.py: no system call {name}")
        action = ctypes.c_uint32(SCMP_ACT_ERRNO | errno.ENOSYS)
        if library.seccomp_rule_add(context, action, number, ctypes.c_uint(0)) != 0:
            sys.exit(f"deny.py: no rule for {name}")
    if library.seccomp_load(context) != 0:
        sys.exit("deny.py: the filter cannot be loaded")


if __name__ == "__main__":
    at = sys.argv.index("--")
    deny(sys.argv[1:at])
    os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
