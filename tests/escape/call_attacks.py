"""Attacks by system calls that no code may make, and by their arguments. Data as in attacks.py: checked by effect, each
with a control."""
import platform

from attacks import NOT_AN_OPTION, REFUSED, Attack

SIGSEGV = 11

# name, number on x86_64, number on aarch64, arguments. Numbers, because libc wraps few of these.
SYSCALLS = [
    ("ptrace", 101, 117, (0, 0, 0, 0)), ("process_vm_readv", 310, 270, (1, 0, 0, 0, 0, 0)),
    ("process_vm_writev", 311, 271, (1, 0, 0, 0, 0, 0)), ("kcmp", 312, 272, (1, 1, 0, 0, 0)),
    ("pidfd_getfd", 438, 438, (3, 0, 0)), ("mount", 165, 40, (0, 0, 0, 0, 0)),
    ("umount2", 166, 39, (b"/usr", 2)), ("pivot_root", 155, 41, (b".", b".")),
    ("fsopen", 430, 430, (b"tmpfs", 0)), ("fsmount", 432, 432, (3, 0, 0)),
    ("open_tree", 428, 428, (-100, b"/", 1)), ("move_mount", 429, 429, (3, b"", -100, b"/x", 4)),
    ("mount_setattr", 442, 442, (-100, b"/", 0, b"\0" * 32, 32)),
    ("fspick", 433, 433, (-100, b"/", 0)), ("setns", 308, 268, (3, 0)),
    ("bpf", 321, 280, (0, b"\0" * 64, 64)), ("perf_event_open", 298, 241, (b"\0" * 128, 0, -1, -1, 0)),
    ("keyctl", 250, 219, (0, -3, 1)), ("add_key", 248, 217, (b"user", b"k", b"v", 1, -3)),
    ("request_key", 249, 218, (b"user", b"k", 0, -3)), ("userfaultfd", 323, 282, (1,)),
    ("io_uring_setup", 425, 425, (8, b"\0" * 128)), ("io_uring_enter", 426, 426, (3, 1, 1, 1, 0, 0)),
    ("io_uring_register", 427, 427, (3, 0, 0, 0)), ("kexec_load", 246, 104, (0, 0, 0, 0)),
    ("init_module", 175, 105, (b"", 0, b"")), ("finit_module", 313, 273, (3, b"", 0)),
    ("delete_module", 176, 106, (b"x", 0)), ("reboot", 169, 142, (0xfee1dead, 672274793, 0, 0)),
    ("swapon", 167, 224, (b"/x", 0)), ("swapoff", 168, 225, (b"/x",)),
    ("acct", 163, 89, (b"acct",)), ("quotactl", 179, 60, (0, 0, 0, 0)),
    ("syslog", 103, 116, (3, 0, 0)), ("settimeofday", 164, 170, (b"\0" * 16, 0)),
    ("clock_settime", 227, 112, (0, b"\0" * 16)), ("adjtimex", 159, 171, (b"\1" * 208,)),
    ("sethostname", 170, 161, (b"x", 1)), ("setdomainname", 171, 162, (b"x", 1)),
    ("vhangup", 153, 58, ()), ("chroot", 161, 51, (b".",)), ("fanotify_init", 300, 262, (0, 0)),
    ("memfd_secret", 447, 447, (0,)), ("open_by_handle_at", 304, 265, (3, b"\0" * 64, 0)),
    ("migrate_pages", 256, 238, (0, 0, 0, 0)),
    ("move_pages", 279, 239, (0, 0, 0, 0, 0, 0)), ("process_madvise", 440, 440, (3, 0, 0, 0, 0)),
    ("seccomp_new_listener", 317, 277, (1, 8, b"\0" * 16)),
    ("openat2", 437, 437, (-100, b"/", b"\0" * 24, 24)),
    ("mbind", 237, 235, (0, 0, 0, 0, 0, 0)), ("set_mempolicy", 238, 237, (0, 0, 0)),
    ("set_mempolicy_home_node", 450, 450, (0, 0, 0, 0)), ("fanotify_mark", 301, 263, (3, 1, 0, 3, 0)),
    ("setgroups", 116, 159, (0, 0)),
    ("sched_setattr", 314, 274, (0, b"\x30" + b"\0" * 47, 0)),
    ("ioprio_set", 251, 30, (1, 1, 0)), ("quotactl_fd", 443, 443, (3, 0, 0, 0)),
    ("clock_adjtime", 305, 266, (0, b"\1" * 208)), ("name_to_handle_at", 303, 264, (-100, b".", 0, 0, 0)),
    ("fchmodat2", 452, 452, (-100, b".", 0o755, 0)), ("cachestat", 451, 451, (3, b"\0" * 16, b"\0" * 40, 0)),
    ("syncfs", 306, 267, (1,)), ("io_setup", 206, 0, (1, b"\0" * 8)), ("io_submit", 209, 2, (0, 0, 0)),
    ("lsm_set_self_attr", 460, 460, (100, b"\0" * 32, 32, 0)), ("lsm_list_modules", 461, 461, (0, 0, 0)),
    ("process_mrelease", 448, 448, (3, 0)), ("clone3", 435, 435, (b"\0" * 64, 64)),
    ("remap_file_pages", 216, 234, (0, 0, 0, 0, 0)), ("mount_by_fsconfig", 431, 431, (3, 6, 0, 0, 0)),
    ("sendfile", 40, 71, (1, 0, 0, 1)), ("sync", 162, 81, ()),
    ("msgget", 68, 186, (0, 0o1666)), ("semget", 64, 190, (0, 1, 0o1666)),
    ("mq_open", 240, 180, (b"q", 0o102, 0o666, 0)),
    ("iopl", 172, None, (3,)), ("ioperm", 173, None, (0, 1, 1)), ("uselib", 134, None, (b"x",)),
    ("modify_ldt", 154, None, (0, 0, 0)), ("kexec_file_load", 320, 294, (3, 3, 0, b"", 0)),
    ("lookup_dcookie", 212, 18, (0, b"", 0)), ("nfsservctl", 180, 42, (0, 0, 0)),
    ("statmount", 457, 457, (b"\0" * 24, b"\0" * 64, 64, 0)),
    ("listmount", 458, 458, (b"\0" * 24, b"\0" * 64, 8, 0)),
]
COLUMN = {"x86_64": 1, "aarch64": 2}.get(platform.machine(), 1)
CALLS = [Attack(f"call_{row[0]}", f"attempt(syscall, {row[COLUMN]}, *{row[3]!r})", REFUSED,
                control="attempt(syscall, {'x86_64': 39, 'aarch64': 172}[platform.machine()])")
         for row in SYSCALLS if row[COLUMN] is not None]

OTHER_CALLS = [
    Attack("pages_of_a_file_in_a_pipe",
           "NR = {'x86_64': (275, 276, 278), 'aarch64': (76, 77, 75)}[platform.machine()]\n"
           "write('own', b'x' * 4096); fd = os.open('own', os.O_RDWR); r, w = os.pipe(); r2, w2 = os.pipe()\n"
           "attempt(syscall, NR[0], fd, None, w, None, 4096, 0); sent = os.write(w, b'x')\n"
           "attempt(syscall, NR[1], r, w2, 1, 0)\n"
           "page = ctypes.create_string_buffer(16)\n"
           "attempt(syscall, NR[2], w, struct.pack('QQ', ctypes.addressof(page), 16), 1, 0)", r"denied EINVAL",
           control="r, w = os.pipe(); attempt(os.write, w, b'x')"),
    Attack("capabilities_are_not_taken",
           "NR = {'x86_64': 126, 'aarch64': 91}[platform.machine()]\n"
           "for which in range(3):\n    sets = [0] * 6; sets[which] = sets[which + 3] = 0xffffffff\n"
           "    attempt(syscall, NR, struct.pack('Ii', 0x20080522, 0), struct.pack('6I', *sets))\n"
           "attempt(syscall, NR, struct.pack('Ii', 0x20080522, 1), bytes(24))", r"denied EPERM",
           control="attempt(syscall, {'x86_64': 126, 'aarch64': 91}[platform.machine()], "
                   "struct.pack('Ii', 0x20080522, 0), bytes(24))"),
    Attack("scheduling_policy_above_others",
           "for policy in (1, 2, 6, 0x40000000, 0x40000003):\n"
           "    attempt(os.sched_setscheduler, 0, policy, os.sched_param(0))\n"
           "for policy in (1, 2): attempt(os.sched_setscheduler, 0, policy, os.sched_param(50))\n"
           "attempt(syscall, {'x86_64': 144, 'aarch64': 119}[platform.machine()], 0, 1 << 32 | 2, struct.pack('i', 50))\n"
           "attempt(syscall, {'x86_64': 142, 'aarch64': 118}[platform.machine()], 0, struct.pack('i', 50))",
           r"denied (EPERM|EINVAL)",
           control="attempt(os.sched_setscheduler, 0, os.SCHED_OTHER, os.sched_param(0))\n"
                   "attempt(os.sched_setparam, 0, os.sched_param(0))\n"
                   "import _thread; attempt(os.sched_setscheduler, _thread.get_native_id(), os.SCHED_OTHER, os.sched_param(0))\n"
                   "pid = os.fork()\nif pid == 0: os._exit(os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)) or 7)\n"
                   "attempt(lambda: check(-1 if os.waitpid(pid, 0)[1] != 7 << 8 else 0))"),
    Attack("another_personality", "attempt(lambda: check(LIBC.personality(ctypes.c_ulong(0x0400000))))",
           r"denied (EPERM|EINVAL|ENOSYS)",
           control="attempt(LIBC.personality, ctypes.c_ulong(0xffffffff))"),
    Attack("signals_by_descriptor_owner",
           "r, w = os.pipe()\nfor command, value in ((8, 1), (10, 9), (1024, 0), (1026, 1)):\n"
           "    attempt(fcntl.fcntl, r, command, value)\n"
           "for number in (0x8901, 0x8902, 0x5452):\n"
           "    attempt(fcntl.ioctl, socket.socket(), number, struct.pack('i', 1))", NOT_AN_OPTION,
           control="attempt(fcntl.fcntl, 0, fcntl.F_GETFL)"),
    Attack("open_for_neither_reading_nor_writing", "attempt(os.open, '/dev/null', 3)", REFUSED,
           control="attempt(os.open, '/dev/null', os.O_RDWR)"),
    # ioctl requests that are on no list: file systems, the process's own file, memory, watches on directories.
    Attack("requests_that_nobody_has_checked",
           "write('own'); fd = os.open('own', os.O_RDWR)\n"
           "for number in (0x5460, 0x40086602, 0x401c5820, 0x50009401, 0xc0189436, 0xc020660b):\n"
           "    attempt(fcntl.ioctl, fd, number, bytes(64))\n"
           "attempt(fcntl.fcntl, os.open('.', os.O_RDONLY), 1040, bytes(16))", NOT_AN_OPTION,
           control="write('own'); write('copy'); fd = os.open('own', os.O_RDWR)\n"
                   "attempt(fcntl.ioctl, fd, 0x541B, bytes(4)); attempt(fcntl.lockf, fd, fcntl.LOCK_EX)\n"
                   "import shutil, subprocess; attempt(shutil.copyfile, 'own', 'copy')\n"
                   "attempt(subprocess.check_call, ['cp', '--reflink=auto', 'own', 'copy'])"),
    Attack("memory_by_options_that_nobody_has_checked",
           "import mmap\npage = mmap.mmap(-1, 4096)\nattempt(page.madvise, 12)\n"
           "attempt(lambda: check(LIBC.prctl(78, 1, 16, 0, 0))); attempt(lambda: check(LIBC.prctl(67, 1, 0, 0, 0)))\n"
           "attempt(lambda: check(LIBC.prctl(ctypes.c_ulong(0x10000004e), 1, 16, 0, 0)))", r"denied EINVAL",
           control="import mmap\npage = mmap.mmap(-1, 4096)\nattempt(page.madvise, mmap.MADV_DONTNEED)\n"
                   "attempt(lambda: check(LIBC.prctl(15, b'own', 0, 0, 0)))\n"
                   "attempt(lambda: check(LIBC.prctl(29, 1000, 0, 0, 0)))"),
    Attack("hide_memory_from_the_watchdog", "attempt(lambda: check(LIBC.prctl(4, 0, 0, 0, 0)))",  # PR_SET_DUMPABLE
           r"denied EINVAL", control="attempt(lambda: check(LIBC.prctl(3, 0, 0, 0, 0)))", needs="landlock"),
    Attack("process_controls",
           "for option, value in ((35, 1), (22, 2), (0x59616d61, -1), (33, 0)):\n"
           "    attempt(lambda: check(LIBC.prctl(option, value, 0, 0, 0)))",
           r"denied (EPERM|EINVAL|EFAULT|EACCES|ENOSYS)",
           control="attempt(lambda: check(LIBC.prctl(16, ctypes.create_string_buffer(16))))"),
    Attack("filter_cannot_be_taken_off",
           "attempt(lambda: check(LIBC.prctl(22, 0, 0, 0, 0))); print(status('Seccomp'))",
           r"denied (EPERM|EINVAL|EFAULT|ENOSYS)|2"),
    Attack("thirty_two_bit_calls",
           "import mmap\nif platform.machine() != 'x86_64': print('denied machine')\nelse:\n"
           "    pid = os.fork()\n    if pid == 0:\n"
           "        page = mmap.mmap(-1, 4096, prot=7)\n"
           "        page.write(bytes.fromhex('b814000000cd80c3'))\n"
           "        at = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
           "        value = ctypes.CFUNCTYPE(ctypes.c_int)(at)()\n"
           "        os._exit(0 if value > 0 else 1)\n"
           "    code = os.waitpid(pid, 0)[1]\n"
           "    print('allowed' if code == 0 else 'denied', code & 0x7f or 'exit')",
           rf"denied (machine|exit|{SIGSEGV})"),  # SIGSYS is a record in the audit log; SIGSEGV: no gate
    Attack("x32_calls", "attempt(syscall, 0x40000000 + 39)", r"denied ENOSYS"),
]

CALL_ATTACKS = [*CALLS, *OTHER_CALLS]
