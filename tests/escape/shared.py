"""Attacks on what no namespace separates, on the sockets and descriptors that a session inherits, and on files that
sandbox and host share. Data as in attacks.py: checked by effect, each with a control."""
from attacks import NOT_AN_OPTION, REFUSED, Attack

OTHERS = "[int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]"
SOCKETS = """
def sockets():  # without those whose other end the session has given away itself
    for fd in os.listdir('/proc/self/fd'):
        path = '/proc/self/fd/' + fd
        if os.path.lexists(path) and os.readlink(path).startswith('socket:'):
            s = socket.socket(fileno=os.dup(int(fd)))
            if struct.unpack('3i', s.getsockopt(1, 17, 12))[0] != os.getpid(): yield s
"""

# The other end of the session's control socket is the server: it must reveal nothing of the server's namespaces.
CONTROL_SOCKET = [
    Attack("interfaces_of_the_host",
           SOCKETS + "for s in [*sockets(), socket.socket()]:\n    buf = ctypes.create_string_buffer(4096)\n"
           "    attempt(lambda: (fcntl.ioctl(s, 0x8912, struct.pack('iP', 4096, ctypes.addressof(buf))), "
           "buf.raw.strip(b'\\0')))\n"
           "    for index in range(1, 9):\n"
           "        attempt(fcntl.ioctl, s, 0x8910, struct.pack('16si20x', b'', index))\n"
           "    for number in (0x8915, 0x8927, 0x891b): attempt(fcntl.ioctl, s, number, "
           "struct.pack('16s24x', b'eth0'))", r"denied ENOTTY",
           control=SOCKETS + "attempt(lambda: [s.getsockopt(1, 3) for s in sockets()])"),
    Attack("network_namespace_of_the_host_by_a_socket",
           SOCKETS + "for s in sockets(): attempt(fcntl.ioctl, s, 0x894C)", r"denied ENOTTY",
           control=SOCKETS + "attempt(lambda: [s.getsockname() for s in sockets()])"),
    Attack("names_of_the_hosts_interfaces",
           SOCKETS + "for s in sockets():\n    for index in range(1, 9):\n"
           "        attempt(lambda: (s.setsockopt(1, 62, index), s.getsockopt(1, 25, 16)))\n"
           "    attempt(s.setsockopt, 1, 25, b'lo\\0')", r"denied ENOPROTOOPT",
           control="attempt(socket.socket().setsockopt, 1, socket.SO_REUSEADDR, 1)"),
    Attack("abstract_names_of_the_host_are_taken",
           SOCKETS + "for s in sockets():\n    try: s.bind(W['squatted'])\n    except OSError: pass\n    attempt(s.listen)\n"
           "    attempt(s.connect, W['abstract'])\n"
           "    attempt(socket.socket(socket.AF_UNIX).bind, W['squatted'])  # its names are our own",
           r"denied (EINVAL|ECONNREFUSED|EADDRINUSE)",
           control="attempt(socket.socket(socket.AF_UNIX).bind, W['squatted'])"),
    Attack("datagrams_to_abstract_sockets_of_the_host",
           "for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n"
           "    attempt(connect, socket.AF_UNIX, W['abstract'], kind)",
           control="s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('\\0own')\n"
                   "attempt(connect, socket.AF_UNIX, '\\0own', socket.SOCK_DGRAM)"),
    Attack("the_server_behind_the_socket",
           SOCKETS + "for s in sockets(): print(struct.unpack('3i', s.getsockopt(1, 17, 12))[0])", r"1",
           control="a, b = socket.socketpair()\n"
                   "attempt(lambda: struct.unpack('3i', a.getsockopt(1, 17, 12))[0] == os.getpid())",
           control_holds="allowed True"),
    # Without Landlock the call that signals pid 1 succeeds, and the kernel drops the signal, pid_namespaces(7).
    Attack("pidfd_of_the_server",
           SOCKETS + "for s in sockets():\n    try: fd = s.getsockopt(1, 77)\n"
           "    except OSError as e: print('denied', errno.errorcode[e.errno]); continue\n"
           "    try: signal.pidfd_send_signal(fd, 9)\n    except OSError: pass\n"
           "    print('denied: it lives'); attempt(lambda: check(LIBC.setns(fd, 0x40000000)))\n"
           "    for number in range(1, 12): attempt(fcntl.ioctl, fd, 0xff00 + number)\n"
           "    print('denied' if 'Pid:\\t1\\n' in read(f'/proc/self/fdinfo/{fd}').decode() else 'leak')",
           r"denied.*", control="fd = os.pidfd_open(os.getpid()); attempt(signal.pidfd_send_signal, fd, 0)"),
    Attack("frames_of_our_own_making",
           SOCKETS + "for s in sockets():\n    for data in (b'\\xff' * 64, struct.pack('<II', 12, 8) + "
           "b'resulted', struct.pack('<I', 0) * 500, os.urandom(3000)):\n        s.send(data)\nprint('sent')",
           r"sent|\[crashed.*", control="a, b = socket.socketpair(); attempt(a.send, b'x')"),
    Attack("descriptors_for_the_server",
           SOCKETS + "import array\nfor s in sockets():\n    for _ in range(20):\n"
           "        s.sendmsg([b'\\0'], [(1, 1, array.array('i', [0] * 200))])\nprint('sent')",
           r"sent|\[crashed.*|denied .*",
           control="import array\na, b = socket.socketpair()\n"
                   "attempt(a.sendmsg, [b'x'], [(1, 1, array.array('i', [0]))])"),
]

PROCESSES = [
    Attack("niceness_of_others",
           "def levels(): return {p: read(f'/proc/{p}/stat').rsplit(b') ')[-1].split()[16] "
           f"for p in (1, 2, 3) if os.path.exists(f'/proc/{{p}}/stat')}}\nbefore = levels()\n"
           f"for p in {OTHERS}:\n    for which in (0, 1, 2):\n"
           "        try: os.setpriority(which, p, 19)\n        except OSError: pass\n"
           "for which in (1, 2):\n    try: os.setpriority(which, 0, 19)\n    except OSError: pass\n"
           "print(levels() == before and len(before) > 0)", r"True",
           control="attempt(os.nice, 1)"),
    Attack("input_and_output_priority_of_others",
           "SET, GET = {'x86_64': (251, 252), 'aarch64': (30, 31)}[platform.machine()]\n"
           f"for p in {OTHERS}: attempt(syscall, SET, 1, p, 3 << 13)", REFUSED,
           control="attempt(os.getpriority, 0, 0)"),
    Attack("scheduling_policy_of_others",
           f"for p in {OTHERS}:\n    attempt(os.sched_setscheduler, p, os.SCHED_IDLE, os.sched_param(0))\n"
           "    attempt(os.sched_setparam, p, os.sched_param(0))", REFUSED,
           control="attempt(os.sched_getscheduler, 0)"),
    Attack("signals_to_the_zygote",
           f"zygote = min(p for p in {OTHERS} if p > 1)\n"
           "for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):\n"
           "    attempt(os.kill, zygote, number)\n"
           "    attempt(signal.pidfd_send_signal, os.pidfd_open(zygote), number)",
           r"denied (EPERM|ESRCH|EINVAL)", needs="landlock",
           control="pid = os.fork()\nif pid == 0: time.sleep(60)\n"
                   "attempt(signal.pidfd_send_signal, os.pidfd_open(pid), 9); ended = os.waitpid(pid, 0)"),
    Attack("trace_every_process",
           f"for p in {OTHERS}:\n    for request in (16, 0x4206):\n"
           "        attempt(lambda: check(LIBC.ptrace(request, p, None, None)))\n"
           "    attempt(lambda: check(LIBC.process_vm_readv(p, b'\\0' * 16, 1, b'\\0' * 16, 1, 0)))",
           REFUSED, control="attempt(os.getpgid, 0)"),
    Attack("signal_on_input_for_others",
           "r, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | 0x2000)\n"
           f"for p in {OTHERS}: attempt(fcntl.fcntl, r, 8, p); "
           "attempt(fcntl.fcntl, r, 15, struct.pack('ii', 1, p))\nsent = os.write(w, b'x')", NOT_AN_OPTION,
           control="r, w = os.pipe(); attempt(os.write, w, b'x')"),
    Attack("program_from_memory_gains_nothing",
           "import shutil\nimage = read(shutil.which('cat'), 1 << 22)\n"
           "try:\n    fd = os.memfd_create('p', 0); n = os.write(fd, image)\nexcept OSError:\n"
           "    made = os.open('/tmp', os.O_TMPFILE | os.O_RDWR, 0o755); n = os.write(made, image)\n"
           "    fd = os.open(f'/proc/self/fd/{made}', os.O_RDONLY); os.close(made)\n"
           "out = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)\n"
           "pid = os.fork()\nif pid == 0:\n    os.dup2(out, 1)\n"
           "    os.execve(fd, ['cat', '/proc/self/status'], {})\nos.waitpid(pid, 0)\n"
           "found = dict(l.split(':\\t', 1) for l in os.pread(out, 9999, 0).decode().splitlines() if ':\\t' in l)\n"
           "print(found['NoNewPrivs'], found['Seccomp'], int(found['CapEff'], 16), int(found['CapBnd'], 16))",
           r"1 2 0 0", control="attempt(os.open, '/tmp', os.O_TMPFILE | os.O_RDWR, 0o755)"),
    Attack("another_filters_leniency",
           "import subprocess\nprint(subprocess.run([sys.executable, '-c', 'import ctypes; "
           "print(ctypes.CDLL(None).unshare(0x10000000))'], capture_output=True, text=True).stdout.strip())",
           r"-1", control="import subprocess\nattempt(subprocess.check_output, ['echo', 'x'])"),
]

KERNEL_FILES = [
    Attack("maps_clocks_and_counters_of_namespaces",
           "for name in ('timens_offsets', 'loginuid', 'projid_map', 'uid_map', 'oom_adj', 'sched', "
           "'clear_refs', 'make-it-fail'):\n    attempt(write, '/proc/self/' + name, b'0 0 1')\n"
           "for name in ('kernel/ns_last_pid', 'kernel/pid_max', 'user/max_user_namespaces', "
           "'fs/inotify/max_user_watches', 'net/core/somaxconn', 'kernel/shmmax'):\n"
           "    attempt(write, '/proc/sys/' + name, b'1')", needs="landlock",
           control="attempt(read, '/proc/self/limits')"),
    Attack("physical_addresses",
           "buf = ctypes.create_string_buffer(4096)\nbuf[0] = 1\n"
           "try:\n    fd = os.open('/proc/self/pagemap', os.O_RDONLY)\n"
           "    entry = struct.unpack('Q', os.pread(fd, 8, ctypes.addressof(buf) // 4096 * 8))[0]\n"
           "    print(entry & ((1 << 55) - 1))\nexcept OSError: print(0)", r"0",
           control="attempt(read, '/proc/self/maps')"),
    Attack("addresses_of_the_kernel",
           "for name in ('stack', 'wchan', 'syscall'):\n    try: text = read('/proc/self/' + name).decode()\n"
           "    except OSError: text = ''\n    print('ffffffff' in text, 'do_' in text)", r"False False",
           control="attempt(read, '/proc/self/stat')"),
    Attack("namespaces_above_ours",
           "for name in ('user', 'pid'):\n    fd = os.open('/proc/self/ns/' + name, os.O_RDONLY)\n"
           "    for number in (0xb701, 0xb702, 0xb703): attempt(fcntl.ioctl, fd, number)\n"
           "    attempt(lambda: check(LIBC.setns(fd, 0)))",
           control="attempt(os.readlink, '/proc/self/ns/user')"),
]

SHARED_FILES = [
    # A watch on a shared directory would report every program that the host starts from there.
    Attack("what_the_host_does_with_shared_files",
           "import subprocess\nfd = LIBC.inotify_init1(0o4000)\n"
           "if fd >= 0:\n    LIBC.inotify_add_watch(fd, os.path.dirname(os.__file__).encode(), 0xfff)\n"
           "    subprocess.run([sys.executable, '-c', 'import this'], capture_output=True)\n"
           "attempt(os.read, fd, 4096)\nattempt(lambda: check(LIBC.inotify_init()))\n"
           "attempt(lambda: check(LIBC.fanotify_init(0, 0)))", r"denied (ENOSYS|EPERM|EBADF)",
           control="attempt(os.listdir, os.path.dirname(os.__file__))"),
    Attack("file_opened_again_for_writing",
           "for path in ('/usr/bin/env', os.__file__, '/run/sandpiper/driver.py'):\n"
           "    fd = os.open(path, os.O_RDONLY)\n    attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR)\n"
           "    attempt(os.ftruncate, fd, 0); attempt(os.fchmod, fd, 0o777); attempt(os.write, fd, b'x')",
           control="write('own'); fd = os.open('own', os.O_RDONLY)\n"
                   "attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR)"),
    Attack("private_mapping_written_through_own_memory",
           "import mmap\npath = os.__file__\nbefore = read(path)\nfd = os.open(path, os.O_RDONLY)\n"
           "PTR = ctypes.c_void_p\nLIBC.mmap.restype = PTR\n"
           "at = LIBC.mmap(PTR(0), ctypes.c_size_t(4096), 1, 2, fd, ctypes.c_long(0))\n"
           "end = time.monotonic() + 0.3\n"
           "while time.monotonic() < end:\n    try:\n        mem = os.open('/proc/self/mem', os.O_RDWR)\n"
           "        os.pwrite(mem, b'HARM', at); os.close(mem)\n    except OSError: pass\n"
           "    LIBC.madvise(PTR(at), ctypes.c_size_t(4096), 4)\n"
           "print(read(path) == before)", r"True",
           control="attempt(os.open, '/proc/self/mem', os.O_RDONLY)"),
    Attack("leases_and_write_locks_on_shared_files",
           "fd = os.open('/usr/bin/env', os.O_RDONLY)\nfor value in (0, 1): attempt(fcntl.fcntl, fd, 1024, value)\n"
           "attempt(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)",
           control="f = open('own', 'w'); attempt(fcntl.lockf, f, fcntl.LOCK_EX | fcntl.LOCK_NB)"),
    Attack("file_without_a_name_gets_one_elsewhere",
           "fd = os.open('/work', os.O_TMPFILE | os.O_RDWR, 0o755)\n"
           "for path in (b'/usr/bin/taken', b'/etc/taken', b'/run/sandpiper/taken', b'/dev/taken'):\n"
           "    attempt(lambda: check(LIBC.linkat(-100, b'/proc/self/fd/%d' % fd, -100, path, 0x400)))",
           r"denied (EXDEV|EROFS|EACCES|EPERM|ENOENT)",
           control="fd = os.open('/work', os.O_TMPFILE | os.O_RDWR, 0o755)\nattempt(lambda: check(LIBC.linkat("
                   "-100, b'/proc/self/fd/%d' % fd, -100, b'/work/named', 0x400)))"),
    Attack("names_exchanged_with_system_files",
           "write('mine')\nNR = {'x86_64': 316, 'aarch64': 276}[platform.machine()]\n"
           "for path in (b'/usr/bin/env', b'/etc/passwd'): attempt(syscall, NR, -100, b'mine', -100, path, 2)",
           r"denied (EXDEV|EROFS|EACCES|EPERM)",
           control="write('m1'); write('m2')\nNR = {'x86_64': 316, 'aarch64': 276}[platform.machine()]\n"
                   "attempt(syscall, NR, -100, b'm1', -100, b'm2', 2)"),
    Attack("device_made_by_a_rename",
           "write('w1')\nNR = {'x86_64': 316, 'aarch64': 276}[platform.machine()]\n"
           "attempt(syscall, NR, -100, b'w1', -100, b'w2', 4)\n"
           "print('denied' if not any(stat.S_ISCHR(os.lstat(n).st_mode) for n in os.listdir('.')) else 'made')",
           r"denied.*", control="write('w1'); attempt(os.rename, 'w1', 'w3')"),
    Attack("file_system_commands",
           "for path in ('/usr', '/work', '/tmp', '/dev/shm'):\n    fd = os.open(path, os.O_RDONLY)\n"
           "    for number in (0xC0045877, 0xC0045878, 0xC0185879, 0x40086602, 0x6611):\n"
           "        attempt(fcntl.ioctl, fd, number, struct.pack('QQQ', 0x10, 0x10, 0))",
           r"denied (ENOTTY|EACCES)", control="attempt(os.statvfs, '/usr')"),
    Attack("extents_shared_with_system_files",
           "src = os.open('/usr/bin/env', os.O_RDONLY)\ndst = os.open('clone', os.O_CREAT | os.O_RDWR)\n"
           "attempt(fcntl.ioctl, dst, 0x40049409, src)\n"
           "attempt(fcntl.ioctl, src, 0x40049409, dst)",
           r"denied (EXDEV|EOPNOTSUPP|EBADF|EPERM|EINVAL|EROFS)",
           control="attempt(os.open, 'clone', os.O_CREAT | os.O_RDWR)"),
    Attack("page_cache_by_pipes",
           "r, w = os.pipe()\nfd = os.open('/usr/bin/env', os.O_RDONLY)\nbefore = read('/usr/bin/env')\n"
           "attempt(lambda: check(LIBC.splice(fd, None, w, None, 1, 0)))\n"
           "attempt(lambda: check(LIBC.sendfile(w, fd, None, 1)))\nos.write(w, b'x')\n"
           "print('denied' if read('/usr/bin/env') == before else 'changed')", r"denied.*",
           control="r, w = os.pipe(); attempt(os.write, w, b'x')"),
]

BUDGETS = [
    Attack("deleted_files_count_as_disk",
           "held = []\ntry:\n    for i in range(64):\n        held.append(os.open(f'/tmp/d{i}', os.O_CREAT | os.O_RDWR))\n"
           "        os.unlink(f'/tmp/d{i}'); os.posix_fallocate(held[-1], 0, 64 << 20)\n"
           "except OSError as e: print('denied', errno.errorcode[e.errno])\n"
           "print('denied' if 0 < len(held) < 20 else len(held))\nfor fd in held: os.close(fd)\n"
           "held.clear()", r"denied.*",
           control="fd = os.open('/tmp/d', os.O_CREAT | os.O_RDWR)\n"
                   "attempt(os.posix_fallocate, fd, 0, 1 << 20)"),
    Attack("a_million_files",
           "import shutil\nos.mkdir('many'); made = 0\ntry:\n    for made in range(1_000_000):\n"
           "        os.mknod(f'many/{made}', 0o100600)\n"
           "except OSError as e: print('denied', errno.errorcode[e.errno])\n"
           "print('denied' if made <= 200_000 else made)\nshutil.rmtree('many')", r"denied( ENOSPC)?", limit_s=600,
           control="attempt(os.mknod, 'one', 0o100600)"),
    Attack("pending_signals_and_timers_of_the_user",
           "made = 0\nevent = struct.pack('Qii48x', 0, 34, 0)\ntimer = ctypes.c_void_p()\ntry:\n"
           "    while made < 100_000: check(LIBC.timer_create(1, event, ctypes.byref(timer))); made += 1\n"
           "except OSError as e: print('denied', errno.errorcode[e.errno])\n"
           "print('denied' if made <= 4096 else made)", r"denied.*",
           control="attempt(signal.setitimer, 0, 0)"),
    Attack("nesting_of_event_queues",
           "import select\nheld = [select.epoll()]\ntry:\n    for _ in range(50):\n"
           "        held.append(select.epoll()); held[-1].register(held[-2].fileno())\n"
           "except OSError as e: print('denied', errno.errorcode[e.errno])\nprint('denied' if len(held) < 50 else 'deep')",
           r"denied.*", control="import select\nattempt(select.epoll)"),
]

# Memory that not every control group counts.
UNCOUNTED = [
    Attack("landlock_rules",
           "attempt(syscall, 444, struct.pack('QQQ', 1 << 13, 0, 0), 8, 0)\n"
           "attempt(syscall, 445, -1, 1, struct.pack('=Qi', 1 << 13, -1), 0)", r"denied ENOSYS",
           control="attempt(syscall, 446, -1, 0)", control_holds=r"denied (EBADF|ENOSYS|EOPNOTSUPP)"),
    Attack("locks_of_open_file_descriptions",
           "fd = os.open('o', os.O_RDWR | os.O_CREAT)\n"
           "for command in (37, 38): attempt(fcntl.fcntl, fd, command, struct.pack('hhqqi', 0, 0, 0, 1, 0))", r"denied EINVAL",
           control="fd = os.open('o', os.O_RDWR | os.O_CREAT)\n"
                   "attempt(fcntl.fcntl, fd, fcntl.F_SETLK, struct.pack('hhqqi', 0, 0, 0, 1, 0)); attempt(fcntl.flock, fd, 6)"),
]

SHARED = [*CONTROL_SOCKET, *PROCESSES, *KERNEL_FILES, *SHARED_FILES, *BUDGETS, *UNCOUNTED]
