"""Attacks on what only the level `container` exposes: without namespaces the guest sees foreign files and processes,
and the supervisor checks its system calls. Data as in attacks.py: checked by effect, each with a control."""
from attacks import NOT_AN_OPTION, REFUSED, Attack

EXCHANGE = "NR = {'x86_64': 316, 'aarch64': 276}[platform.machine()]\n"
# Repeats an action in a separate process, in parallel to the caller, until end() kills it.
MEANWHILE = """
def meanwhile(action):
    pid = os.fork()
    while pid == 0: action()
    return pid

def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""
# Repeats an action for one second.
REPEATEDLY = """
def repeatedly(action):
    until = time.monotonic() + 1
    while time.monotonic() < until: action()
"""
FOREIGN = "(W['file'], W['directory'], os.__file__, os.path.realpath(sys.executable), '/tmp', '/dev/null', '/')"
OTHERS = "(W['victim'], W['server'], W['tester'], 1)"

ATTRIBUTES = [
    Attack("modes_of_foreign_files",
           f"for path in {FOREIGN}:\n    attempt(os.chmod, path, 0o777)\n"
           "    for up in ('../' * 30,): attempt(os.chmod, up + path.lstrip('/'), 0o777)", r"denied EPERM",
           control="write('m'); attempt(os.chmod, 'm', 0o640)\nassert os.stat('m').st_mode & 0o777 == 0o640"),
    Attack("times_of_foreign_files",
           f"for path in {FOREIGN}:\n    attempt(os.utime, path); attempt(os.utime, path, (1, 1))\n"
           "    attempt(lambda: os.utime(path, (1, 1), follow_symlinks=False))",
           r"denied EPERM",
           control="write('t'); attempt(os.utime, 't', (7, 8))\nassert os.stat('t').st_mtime == 8"),
    Attack("attributes_through_links",
           "os.symlink(W['file'], 'l'); os.symlink(W['directory'], 'f')\n"
           "for path in ('l', 'f', 'f/canary.txt', 'f/../' + os.path.basename(W['directory'])):\n"
           "    attempt(os.chmod, path, 0o777); attempt(os.utime, path)", r"denied EPERM",
           control="write('own'); os.symlink('own', 'l2'); attempt(os.chmod, 'l2', 0o600)"),
    Attack("attributes_by_descriptor",
           f"for path in {FOREIGN}:\n    fd = os.open(path, os.O_PATH)\n    attempt(os.fchmod, fd, 0o777)\n"
           "    attempt(os.utime, fd, (1, 1)); attempt(os.chmod, f'/proc/self/fd/{fd}', 0o777)\n"
           "    attempt(os.utime, f'/proc/self/fd/{fd}', (1, 1))\n"
           "directory = os.open(W['directory'], os.O_PATH)\n"
           "attempt(lambda: os.chmod('canary.txt', 0o777, dir_fd=directory))\n"
           "attempt(lambda: os.utime('canary.txt', (1, 1), dir_fd=directory))", r"denied EPERM",
           control="write('d'); fd = os.open('d', os.O_RDONLY); attempt(os.fchmod, fd, 0o640)"),
    Attack("files_of_the_asked_process",
           "for path in ('/proc/self/exe', '/proc/self/cwd', '/proc/self/root/etc', '/proc/thread-self/exe', "
           "f'/proc/{os.getppid()}/exe', f\"/proc/{W['server']}/cwd\", '/proc/self/mem'):\n"
           "    attempt(os.chmod, path, 0o777); attempt(os.utime, path)",
           r"denied (EPERM|ELOOP|EACCES|ENOENT)", control="write('c'); attempt(os.chmod, 'c', 0o600)"),
    Attack("extended_attributes_of_foreign_files",
           f"for path in {FOREIGN}:\n    attempt(os.listxattr, path); attempt(os.getxattr, path, 'user.canary')\n"
           "    attempt(os.setxattr, path, 'user.taken', b'1'); attempt(os.removexattr, path, 'user.canary')\n"
           "fd = os.open(os.__file__, os.O_RDONLY)\nattempt(os.setxattr, fd, 'user.taken', b'1')",
           r"denied ENOTSUP", control="write('x'); attempt(os.listxattr, os.open('x', os.O_RDONLY))"),
    Attack("owners_of_files",
           f"for path in {FOREIGN}: attempt(os.chown, path, os.getuid(), os.getgid()); attempt(os.lchown, path, -1, -1)",
           REFUSED, control="attempt(os.stat, '.')"),
    Attack("flags_of_files_that_can_be_read",
           "fd = os.open(os.__file__, os.O_RDONLY)\n"
           "for number in (0x40086602, 0x401c5820, 0x40806685, 0x40087602, 0x6609, 0x80087601, 0xc0045878):\n"
           "    attempt(fcntl.ioctl, fd, number, struct.pack('Q', 0x10) * 8)", r"denied ENOTTY",
           control="r, w = os.pipe(); attempt(fcntl.ioctl, r, 0x541B, struct.pack('i', 0))"),
    Attack("emptying_foreign_files",
           "for path in (W['file'], os.__file__):\n    attempt(os.truncate, path, 0)\n"
           "    for flags in (os.O_TRUNC, os.O_WRONLY | os.O_TRUNC, 3 | os.O_TRUNC, os.O_RDWR | os.O_TRUNC):\n"
           "        attempt(os.open, path, flags)", r"denied (EPERM|EACCES)",
           control="write('e', b'xx'); attempt(os.truncate, 'e', 1)"),
    Attack("the_drivers_files",
           "scratch = os.path.dirname(os.environ['TMPDIR'])\n"
           "for directory in (scratch, scratch + '/run'):\n"
           "    attempt(write, directory + '/x'); attempt(os.chmod, directory, 0o777); attempt(os.utime, directory)\n"
           "    attempt(os.mkdir, directory + '/d'); attempt(os.rename, '.', directory + '/moved')",
           r"denied (EPERM|EACCES|ENOENT|EXDEV|EBUSY|EINVAL)", control="attempt(os.mkdir, 'd')"),
]

RACES = [
    Attack("path_swapped_while_it_is_checked",
           MEANWHILE + REPEATEDLY + EXCHANGE + "os.mkdir('s'); write('s/canary.txt'); os.symlink(W['directory'], 'l')\n"
           "swapping = meanwhile(lambda: LIBC.syscall(NR, -100, b's', -100, b'l', 2))\ndone = []\n"
           "repeatedly(lambda: done.append(LIBC.chmod(b's/canary.txt', 0o777)))\n"
           "end(swapping); print('denied' if 0 in done else 'no race')", r"denied",
           control="os.mkdir('s'); write('s/f'); attempt(os.chmod, 's/f', 0o777)"),
    Attack("memory_rewritten_while_it_is_read",
           MEANWHILE + REPEATEDLY + "import mmap\nmine = os.fsencode(os.getcwd()) + b'/mine\\0'; other = os.fsencode(W['file']) + b'\\0'\n"
           "write('mine'); memory = mmap.mmap(-1, 4096); memory[:len(mine)] = mine\n"
           "address = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
           "def flip():\n    memory[:len(other)] = other; memory[:len(mine)] = mine\n"
           "writing = meanwhile(flip); done = []\n"
           "repeatedly(lambda: done.append(LIBC.chmod(ctypes.c_void_p(address), 0o777)))\n"
           "end(writing); print('denied' if 0 in done else 'no race')", r"denied",
           control="write('mine'); attempt(os.chmod, os.path.abspath('mine'), 0o600)"),
    Attack("descriptor_swapped_while_it_is_checked",
           REPEATEDLY + "import threading\nwrite('mine'); stop = []\nmine = os.open('mine', os.O_RDONLY)\n"
           "other = os.open(W['directory'], os.O_PATH); os.dup2(mine, 60)\n"
           "def swap():\n    while not stop: os.dup2(other, 60); os.dup2(mine, 60)\n"
           "thread = threading.Thread(target=swap); thread.start()\nrepeatedly(lambda: LIBC.fchmod(60, 0o700))\n"
           "stop.append(1); thread.join(); print('denied')", r"denied",
           control="write('mine'); attempt(os.fchmod, os.open('mine', os.O_RDONLY), 0o600)"),
    Attack("socket_swapped_while_it_is_checked",
           MEANWHILE + REPEATEDLY + EXCHANGE + "own = socket.socket(socket.AF_UNIX); own.bind('s'); own.listen(64)\n"
           "os.symlink(W['socket'], 'l')\n"
           "swapping = meanwhile(lambda: LIBC.syscall(NR, -100, b's', -100, b'l', 2))\nown.setblocking(False)\n"
           "def knock():\n    with socket.socket(socket.AF_UNIX) as s:\n        s.setblocking(False)\n"
           "        try: s.connect('s')\n        except OSError: pass\n    try: own.accept()\n    except OSError: pass\n"
           "repeatedly(knock); end(swapping); print('denied')", r"denied",
           control="own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen()\n"
                   "attempt(connect, socket.AF_UNIX, 'own')"),
    Attack("killed_while_he_asks",
           MEANWHILE + REPEATEDLY + "write('a'); i = 0\ndef ask():\n    global i\n    i += 1\n"
           "    asking = meanwhile(lambda: LIBC.chmod(b'a', 0o600)); time.sleep(i % 10 / 10000); end(asking)\nrepeatedly(ask)\n"
           "attempt(os.chmod, 'a', 0o640)", r"allowed None", control="write('a'); attempt(os.chmod, 'a', 0o640)"),
    Attack("forty_who_ask_without_pause",
           MEANWHILE + "write('a'); asking = []\ntry:\n"
           "    for _ in range(40): asking.append(meanwhile(lambda: LIBC.chmod(b'a', 0o600)))\n"
           "except OSError: pass\ntime.sleep(1)\nfor pid in asking: end(pid)\nprint(len(asking) == 40)", r"True",
           limit_s=60, control="write('a'); attempt(os.chmod, 'a', 0o640)"),
    Attack("asking_and_not_waiting",
           REPEATEDLY + "write('a')\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.setitimer(0, 0.0002, 0.0002)\n"
           "repeatedly(lambda: LIBC.chmod(b'a', 0o600))\nsignal.setitimer(0, 0)\nattempt(os.chmod, 'a', 0o600)",
           r"allowed None", control="write('a'); attempt(os.chmod, 'a', 0o600)"),
]

PROCESSES = [
    Attack("signals_to_others",
           "NR = {'x86_64': (200, 234, 129, 297), 'aarch64': (130, 131, 138, 240)}[platform.machine()]\n"
           "info = struct.pack('iii', 10, 0, -1) + b'\\0' * 116\n"
           f"for pid in (*{OTHERS}, os.getppid()):\n    for number in (0, 10, 15, 9, 19):\n"
           "        attempt(os.kill, pid, number); attempt(syscall, NR[0], pid, number)\n"
           "        attempt(syscall, NR[1], pid, pid, number)\n"
           "    attempt(syscall, NR[2], pid, 10, info); attempt(syscall, NR[3], pid, pid, 10, info)\n"
           "    if os.getpgid(pid) > 1: attempt(os.kill, -os.getpgid(pid), 15)  # of group 1 that asks for all\n"
           "    attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 10))", r"denied (EPERM|ESRCH|EINVAL|EACCES)",
           control="pid = os.fork()\nif pid == 0: time.sleep(60)\nattempt(os.kill, pid, 9); ended = os.waitpid(pid, 0)"),
    Attack("signals_by_descriptors",
           "a, b = socket.socketpair(); r, w = os.pipe()\n"
           f"for pid in {OTHERS}:\n    for fd in (a.fileno(), r):\n"
           "        attempt(fcntl.fcntl, fd, 8, pid); attempt(fcntl.fcntl, fd, 15, struct.pack('ii', 1, pid))\n"
           "        attempt(fcntl.ioctl, fd, 0x8901, struct.pack('i', pid)); attempt(fcntl.ioctl, fd, 0x8902, "
           "struct.pack('i', pid))\n    attempt(fcntl.fcntl, r, 10, 9)", NOT_AN_OPTION,
           control="r, w = os.pipe(); attempt(os.write, w, b'x')"),
    Attack("scheduling_of_others",
           f"for pid in {OTHERS}:\n    attempt(os.sched_setaffinity, pid, {{0}})\n"
           "    attempt(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))\n"
           "    attempt(os.setpriority, 0, pid, 19); attempt(os.setpriority, 1, os.getpgid(pid), 19)\n"
           "    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (8, 8))\n"
           "    attempt(syscall, {'x86_64': 251, 'aarch64': 30}[platform.machine()], 1, pid, 3 << 13)\n"
           "attempt(os.setpriority, 2, os.getuid(), 19)", REFUSED, control="attempt(os.nice, 1)"),
    Attack("memory_and_environment_of_others",
           f"for pid in (*{OTHERS}, os.getppid()):\n"
           "    for name in ('environ', 'mem', 'maps', 'cmdline', 'fd', 'status', 'root', 'cwd', 'auxv'):\n"
           "        attempt(os.open, f'/proc/{pid}/{name}', os.O_RDONLY)\n"
           "    for request in (16, 0x4206): attempt(lambda: check(LIBC.ptrace(request, pid, None, None)))\n"
           "    attempt(lambda: check(LIBC.process_vm_readv(pid, b'\\0' * 16, 1, b'\\0' * 16, 1, 0)))\n"
           "    attempt(syscall, 438, os.pidfd_open(pid), 0, 0)", control="attempt(os.getpid)"),
    Attack("unreadable_by_its_observers",
           "attempt(lambda: check(LIBC.prctl(4, 0, 0, 0, 0))); attempt(lambda: check(LIBC.prctl(36, 1, 0, 0, 0)))\n"
           "for number in (0, 10, 15): attempt(lambda: check(LIBC.prctl(1, number, 0, 0, 0)))", r"denied (EPERM|EINVAL)",
           control="attempt(lambda: check(LIBC.prctl(3, 0, 0, 0, 0)))"),
    Attack("threads_with_descriptors_of_their_own",
           "NR = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
           "attempt(syscall, NR, 0x10900, 0, 0, 0, 0); attempt(syscall, 436, 3, 3, 2)",
           r"denied (EPERM|EINVAL)", control="attempt(os.closerange, 70, 80)"),
    Attack("more_tasks_than_allowed",
           "forked = []\ntry:\n    while len(forked) < 600:\n        pid = os.fork()\n        if pid == 0: time.sleep(60); os._exit(0)\n"
           "        forked.append(pid)\nexcept OSError as e: print('denied', errno.errorcode[e.errno])\n"
           "print('denied' if 0 < len(forked) < 256 else len(forked))\nfor pid in forked: os.kill(pid, 9)\n"
           "for pid in forked: os.waitpid(pid, 0)", r"denied.*", limit_s=60,
           control="pid = os.fork()\nif pid == 0: os._exit(0)\nattempt(os.waitpid, pid, 0)"),
    Attack("tasks_that_all_breed_at_once",
           "r, w = os.pipe(); first = os.getpid()\nfor _ in range(10):\n    try: os.fork()\n    except OSError: pass\n"
           "    os.write(w, b'.')\nif os.getpid() != first: time.sleep(60); os._exit(0)\n"
           "time.sleep(2); total = len(os.read(r, 65536)); print('denied' if total < 256 * 11 else total)",
           r"denied", limit_s=60, control="attempt(os.getpid)"),
]

SOCKETS = [
    Attack("sockets_of_others",
           "os.symlink(W['socket'], 'l'); os.symlink(W['directory'], 'f')\n"
           "for path in (W['socket'], 'l', 'f/socket', '../' * 12 + W['socket'].lstrip('/'), W['abstract']):\n"
           "    attempt(connect, socket.AF_UNIX, path)\n"
           "fd = os.open(W['socket'], os.O_PATH); attempt(connect, socket.AF_UNIX, f'/proc/self/fd/{fd}')",
           r"denied (EPERM|EACCES|ELOOP)",
           control="s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen()\n"
                   "attempt(connect, socket.AF_UNIX, 'own.sock')"),
    Attack("names_of_the_network_namespace",
           "held = [socket.socket(socket.AF_UNIX) for _ in range(3)]\nattempt(held[0].bind, W['squatted'])\n"
           "attempt(lambda: check(LIBC.bind(held[1].fileno(), struct.pack('H', 1), 2)))\n"
           "attempt(lambda: held[2].bind('\\0' + 'x' * 100))", r"denied EPERM",
           control="s = socket.socket(socket.AF_UNIX); attempt(s.bind, 'named'); attempt(s.getsockname)"),
    Attack("sockets_made_outside",
           "os.symlink(W['directory'], 'f')\nfor path in (W['directory'] + '/taken', 'f/taken', '/tmp/sp-taken', '/dev/shm/sp-taken/x'):\n"
           "    attempt(socket.socket(socket.AF_UNIX).bind, path)", r"denied (EPERM|EACCES|ENOENT)",
           control="attempt(socket.socket(socket.AF_UNIX).bind, os.path.abspath('inside'))"),
    Attack("datagrams_to_any_name",
           "attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM); "
           "attempt(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM)\n"
           "a, b = socket.socketpair()\nattempt(a.sendto, b'x', W['socket']); attempt(a.sendto, b'x', W['abstract'])\n"
           "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
           "attempt(a.sendto, b'x', W['socket']); attempt(a.connect, W['socket'])",
           r"denied (EPERM|EISCONN)", control="a, b = socket.socketpair(); attempt(a.send, b'x')"),
    Attack("the_containers_network",
           "for family in (socket.AF_INET, socket.AF_INET6):\n    for kind in (1, 2, 3): attempt(socket.socket, family, kind)\n"
           "for port in W['ports']: attempt(connect, socket.AF_INET, ('127.0.0.1', port))\n"
           "a, b = socket.socketpair()\n"
           "address = struct.pack('!HH4s8x', 0, W['ports'][0], bytes([127, 0, 0, 1])).replace(b'\\0\\0', b'\\2\\0', 1)\n"
           "attempt(lambda: check(LIBC.connect(a.fileno(), address, 16)))\n"
           "attempt(lambda: check(LIBC.sendto(a.fileno(), b'x', 1, 0x20000000, address, 16)))",
           r"denied (EAFNOSUPPORT|EPERM|ENETUNREACH|EISCONN|EPROTONOSUPPORT)",
           control="a, b = socket.socketpair(); attempt(a.send, b'x')"),
    Attack("any_descriptor_as_a_socket",
           "write('plain'); fd = os.open('plain', os.O_RDWR)\nown = socket.socket(socket.AF_UNIX); own.bind('s'); own.listen()\n"
           "address = struct.pack('H', 1) + b's\\0'\n"
           "for number in (fd, 500, -1, 1 << 30): attempt(lambda: check(LIBC.connect(number, address, 4)))\n"
           "for size in (0, 1, 2, 4096, -1): attempt(lambda: check(LIBC.connect(own.fileno(), address, size)))\n"
           "attempt(lambda: check(LIBC.connect(own.fileno(), ctypes.c_void_p(8), 16)))",
           r"denied (ENOTSOCK|EBADF|EINVAL|EPERM|EFAULT)",
           control="own = socket.socket(socket.AF_UNIX); own.bind('o'); own.listen()\nattempt(connect, socket.AF_UNIX, 'o')"),
]

MEMORY = [
    Attack("memory_without_a_name",
           "attempt(os.memfd_create, 'm'); attempt(os.memfd_create, 'h', 4)\n"
           "attempt(syscall, 447, 0)", REFUSED, control="import mmap; attempt(lambda: len(mmap.mmap(-1, 4096)))"),
    Attack("larger_pipes",
           "r, w = os.pipe()\nfor size in (1 << 17, 1 << 20, 1 << 30): attempt(fcntl.fcntl, w, 1031, size)",
           REFUSED, control="r, w = os.pipe(); attempt(fcntl.fcntl, w, 1032)"),
    Attack("larger_queues_of_sockets",
           "a, b = socket.socketpair()\nfor option in (32, 33): attempt(a.setsockopt, 1, option, 1 << 24)",
           r"denied (EPERM|ENOPROTOOPT)", control="a, b = socket.socketpair(); attempt(a.getsockopt, 1, 7)"),
    Attack("shared_memory_of_others",
           "attempt(read, W['shm']); attempt(write, W['shm']); attempt(os.listdir, '/dev/shm')\n"
           "attempt(os.unlink, W['shm']) if os.stat('/dev/shm').st_uid == os.getuid() else print('denied')",
           r"denied.*", control="attempt(os.getpid)"),
]

CONTAINER = [*ATTRIBUTES, *RACES, *PROCESSES, *SOCKETS, *MEMORY]
