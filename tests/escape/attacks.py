"""The attacks, as data. Each is Python that runs in the sandbox and must fail.

Each line of an attack's output must match `held`; the canary in world.py must be unharmed and its secret must not
appear. `control` is code close to the attack that must work: its output matches `control_holds`, so that no test
passes because the attack itself is broken.
"""
import dataclasses

DENIED = r"denied (EPERM|EACCES|ENOSYS|ENOENT|ESRCH|EROFS|ENOTDIR|EINVAL|EAFNOSUPPORT|ENODEV|ENXIO|" \
         r"EPROTONOSUPPORT|ECONNREFUSED|ENETUNREACH|ENOTTY|EBADF|ENOTSUP|EOPNOTSUPP|ESOCKTNOSUPPORT)"
REFUSED = r"denied (EPERM|ENOSYS)"
NOT_AN_OPTION = r"denied (EINVAL|ENOTTY)"  # the error of a kernel that does not know the option


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    code: str
    held: str = DENIED
    control: str = "attempt(os.getpid)"
    control_holds: str = r"allowed .+"
    limit_s: int = 20
    needs: str = ""  # "landlock": without it the other protections do not prevent the attack


FILES = [
    Attack("read_a_world_readable_file", "attempt(read, W['file'])",
           control="write('own', b'x'); attempt(read, 'own')"),
    Attack("write_a_world_writable_file", "attempt(write, W['file'])",
           control="attempt(write, 'own')"),
    Attack("list_the_directory_of_a_host_file", "attempt(os.listdir, W['directory'])",
           control="attempt(os.listdir, '.')"),
    Attack("read_shared_memory_of_the_host", "attempt(read, W['shm'])",
           control="write('/dev/shm/own'); attempt(read, '/dev/shm/own')"),
    Attack("read_secrets_of_the_machine",
           "for path in ('/etc/shadow', '/etc/sudoers', '/etc/ssh/ssh_host_ed25519_key', "
           "'/root/.bashrc', '/var/lib/dpkg/status', '/boot/config', '/run/utmp'): "
           "attempt(read, path)", control="attempt(read, '/etc/passwd')"),
    Attack("parts_of_etc_that_may_hold_secrets",
           "for path in ('maven/settings.xml', 'chromium.d/apikeys', 'R/Renviron.site', 'R/Rprofile.site', 'profile', "
           "'bash.bashrc', 'environment', 'xdg/pip/pip.conf', 'pip.conf', 'npmrc', 'perl/CPAN/Config.pm', 'machine-id', "
           "'openmpi/openmpi-default-hostfile', 'ssl/private', 'ssh/sshd_config', 'odbc.ini', 'postgresql', 'apt/auth.conf', "
           "'networks', 'fstab', 'hostname'): attempt(os.open, '/etc/' + path, os.O_RDONLY)",
           control="attempt(read, '/etc/os-release')"),
    Attack("passwd_names_nobody_of_the_host",
           "print('clean' if len(read('/etc/passwd').splitlines()) < 6 else 'leak')", r"clean",
           control="import pwd; attempt(pwd.getpwuid, os.getuid())"),
    Attack("walk_up_from_the_workspace", "attempt(read, '../' * 40 + W['file'].lstrip('/'))",
           control="write('/tmp/up'); attempt(read, '../' * 40 + 'tmp/up')"),
    Attack("link_out_of_the_workspace",
           "os.symlink(W['file'], 'l'); attempt(read, 'l'); attempt(write, 'l')",
           control="write('own'); os.symlink('own', 'l2'); attempt(read, 'l2')"),
    Attack("root_of_other_processes",
           "for p in ['1', 'self', 'thread-self', str(os.getppid()), str(W['server']), "
           "str(W['victim'])]: attempt(read, f'/proc/{p}/root' + W['file'])",
           control="attempt(os.listdir, '/proc/self')"),
    Attack("working_directory_of_the_server",
           "for p in (1, os.getppid(), W['server']): attempt(os.listdir, f'/proc/{p}/cwd/../..')",
           control="attempt(os.readlink, '/proc/self/cwd')",
           held=r"denied .*|allowed \[[^\]]*'work'[^\]]*\].*"),
    Attack("write_to_system_directories",
           "for p in ('/usr/bin/x', '/etc/x', '/lib/x', '/x', '/proc/x', '/usr/lib/x', '/bin/x', "
           "sys.prefix + '/x', os.__file__): attempt(write, p, b'x', 'ab')",
           control="attempt(write, '/tmp/x')"),
    Attack("change_modes_and_times_of_system_files",
           "attempt(os.chmod, '/usr/bin/env', 0o777); attempt(os.utime, '/usr/bin/env'); "
           "attempt(os.unlink, '/usr/bin/env'); attempt(os.rename, '/usr', '/usr2')",
           control="write('m'); attempt(os.chmod, 'm', 0o700)"),
    Attack("change_modes_of_the_machines_devices",
           "for name in ('null', 'zero', 'full', 'random', 'urandom'):\n"
           "    p = '/dev/' + name; fd = os.open(p, os.O_RDONLY); mode = os.stat(p).st_mode & 0o7777\n"
           "    attempt(os.chmod, p, mode); attempt(os.fchmod, fd, mode); attempt(os.utime, p)\n"
           "attempt(os.fchmod, 0, 0o666)",
           control="write('m'); fd = os.open('m', os.O_RDWR); attempt(os.fchmod, fd, 0o700)"),
    Attack("remount_system_directories_writable",
           "MS_REMOUNT, MS_BIND = 32, 4096\n"
           "for p in (b'/', b'/usr', b'/lib', b'/etc'):\n"
           "    attempt(lambda: check(LIBC.mount(None, p, None, MS_REMOUNT | MS_BIND, None)))",
           control="attempt(os.statvfs, '/usr')"),
    Attack("make_device_nodes",
           "attempt(os.mknod, 'd', stat.S_IFBLK | 0o666, os.makedev(8, 0)); "
           "attempt(os.mknod, '/tmp/d', stat.S_IFCHR | 0o666, os.makedev(1, 1))",
           control="attempt(os.mkfifo, 'f')"),
    Attack("devices_of_the_host",
           "for p in ('/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/kvm', '/dev/fuse', "
           "'/dev/net/tun', '/dev/tty', '/dev/console', '/dev/ttyS0', '/dev/loop0', '/dev/userfaultfd',"
           " '/dev/vsock', '/dev/port'): attempt(os.open, p, os.O_RDWR)",
           control="attempt(os.open, '/dev/null', os.O_RDWR)"),
    Attack("kernel_files_in_proc",
           "for p in ('/proc/kcore', '/proc/kallsyms', '/proc/sysrq-trigger', '/proc/keys', "
           "'/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/timer_list', "
           "'/proc/1/mem', '/proc/sys/vm/drop_caches', '/proc/kmsg', '/proc/config.gz'): "
           "attempt(os.open, p, os.O_RDWR)",
           control="attempt(read, '/proc/self/stat')"),
    Attack("control_groups",
           "for p in ('/sys/kernel', '/sys/kernel/debug', '/sys/fs/cgroup/memory', '/sys/block', '/sys/class/dmi', "
           "'/sys/devices/virtual', '/sys/devices/system/cpu/cpu0/cpuidle', '/sys/devices/system/cpu/cpu0/cpufreq'): "
           "attempt(os.listdir, p)\n"
           "for p in ('fs/cgroup/cpu.max', 'devices/system/cpu/online', 'devices/system/cpu/cpu0/cache/uevent'): "
           "attempt(os.open, '/sys/' + p, os.O_WRONLY)", control="attempt(os.listdir, '/usr')"),
    # Whatever names a kernel has: what tells of the host is empty.
    Attack("names_in_proc_tell_nothing_of_the_host",
           "own = {'filesystems', 'loadavg', 'uptime', 'version', 'cpuinfo', 'meminfo', 'stat', 'vmstat', 'sys'}\n"
           "paths = [f'/proc/{name}' for name in os.listdir('/proc') if not name.isdigit() and name not in own]\n"
           "print([p for p in paths if not os.path.islink(p) and (os.listdir(p) if os.path.isdir(p) else read(p))])", r"\[\]",
           control="print(sum(bool(read('/proc/' + name)) for name in ('cpuinfo', 'meminfo', 'stat', 'version')))",
           control_holds="4"),
    Attack("interrupts_of_the_host_are_in_no_figure",
           "print([line for line in read('/proc/stat').split(b'\\n') if line.startswith((b'intr', b'ctxt', b'proc', b'soft'))])",
           r"\[b'intr 0', b'ctxt 0', b'processes 0', b'procs_running 1', b'procs_blocked 0', b'softirq 0'\]",
           control="print(read('/proc/stat').startswith(b'cpu'))", control_holds="True"),
    Attack("other_ways_to_what_is_covered_in_proc",
           "fd = os.open('/proc', os.O_RDONLY)\n"
           "for name in ('kallsyms', 'kcore', 'interrupts', 'cmdline', 'timer_list', 'keys', 'locks', 'sys/kernel/random/boot_id'):\n"
           "    for way in ('/proc/self/root/proc/', '/proc/1/root/proc/', '/proc/self/cwd/../proc/', '/proc/self/task/../../', "
           "f'/proc/self/fd/{fd}/', '/proc/self/../', '/proc//./'): attempt(read, way + name)\n"
           "    attempt(lambda: os.read(os.open(name, os.O_RDONLY, dir_fd=fd), 9))", r"allowed b''|denied .+",
           control="attempt(read, '/proc/self/root/proc/version')"),
    Attack("uncover_parts_of_proc",
           "for name in ('kcore', 'sys', 'meminfo', 'interrupts'):\n"
           "    path = f'/proc/{name}'.encode()\n"
           "    for flags in (0, 1, 2, 8, 10): attempt(lambda: check(LIBC.umount2(path, flags)))\n"
           "    attempt(lambda: check(LIBC.mount(path, b'/tmp/there', None, 8192, None)))\n"
           "    attempt(lambda: check(LIBC.mount(b'proc', b'/tmp', b'proc', 0, None)))\n"
           "    for call in (428, 429, 430, 433, 442): attempt(syscall, call, -100, path, 0, 0, 0)\n"
           "    attempt(os.rename, path, '/tmp/there'); attempt(os.unlink, path)\n"
           "attempt(syscall, 272 if platform.machine() == 'x86_64' else 97, 0x10020000)", DENIED[:-1] + "|EBUSY|EISDIR|EXDEV)",
           control="write('/tmp/here'); attempt(os.rename, '/tmp/here', '/tmp/there')"),
    Attack("write_to_the_figures_of_the_machine",
           "for p in ('cpuinfo', 'meminfo', 'stat', 'vmstat', 'interrupts', 'loadavg', 'sys/kernel/hostname', 'sys/vm/overcommit_memory'):\n"
           "    p = '/proc/' + p; fd = os.open(p, os.O_RDONLY)\n"
           "    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC): attempt(os.open, p, flags)\n"
           "    attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR); attempt(os.truncate, p, 0); attempt(os.ftruncate, fd, 0)\n"
           "    attempt(os.chmod, p, 0o777); attempt(os.fchmod, fd, 0o777); attempt(os.setxattr, p, 'user.a', b'1')\n"
           "attempt(os.open, '/proc/sys/new', os.O_CREAT | os.O_WRONLY)", control="attempt(read, '/proc/meminfo')"),
    Attack("hard_link_of_a_system_file", "attempt(os.link, '/usr/bin/env', 'hard')",
           control="write('h1'); attempt(os.link, 'h1', 'h2')",
           held=r"denied (EXDEV|EPERM|EACCES|EROFS)"),
    Attack("open_by_handle", "buf = ctypes.create_string_buffer(136)\n"
           "buf[0] = 128\nmount = ctypes.c_int()\n"
           "attempt(lambda: check(LIBC.name_to_handle_at(-100, b'.', buf, ctypes.byref(mount), 0)))\n"
           "attempt(lambda: check(LIBC.open_by_handle_at(3, buf, 0)))", REFUSED),
    Attack("set_user_id_bit",
           "write('suid'); attempt(os.chmod, 'suid', 0o4755); attempt(os.chmod, 'suid', 0o2755)\n"
           "attempt(os.open, 's2', os.O_CREAT | os.O_WRONLY, 0o4755)",
           control="write('plain'); attempt(os.chmod, 'plain', 0o755)",
           held=r"denied (EPERM|EACCES)"),
    Attack("the_view_holds_no_home_and_no_server",
           "mounted = [line.split()[4] for line in open('/proc/self/mountinfo')]\n"
           "seen = {f'{p}/{n}' for p in ('/home', '/root', '/var', '/run', '/srv', '/mnt', '/boot', "
           "'/sys', '/opt', '/media') if os.path.isdir(p) for n in os.listdir(p)}\n"
           "seen -= {'/var/tmp', '/run/sandpiper', '/sys/class', '/sys/fs'}\n"
           "print([p for p in seen if not any((m + '/').startswith(p + '/') for m in mounted)])",
           r"\[\]",
           control="attempt(os.listdir, '/usr')"),
    # ctypes loads libffi, which since 3.4 keeps its own file open to map trampolines from it.
    Attack("open_descriptors_are_few",
           "names = [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') "
           "if os.path.lexists(f'/proc/self/fd/{fd}')]\n"
           "print([n for n in names if not n.startswith(('pipe:', 'socket:', '/dev/null', "
           "'/proc/', 'anon_inode:', '/memfd:')) and '/libffi.so.' not in n])", r"\[\]",
           control="attempt(os.listdir, '/proc/self/fd')"),
]

OTHERS = "[int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]"

SECOND_LOCK = [
    Attack("write_into_the_memory_of_others",
           f"for pid in {OTHERS}: attempt(os.open, f'/proc/{{pid}}/mem', os.O_RDWR)",
           control="attempt(os.open, '/proc/self/mem', os.O_RDONLY)", needs="landlock"),
    Attack("write_to_files_of_proc",
           f"for pid in {OTHERS} + ['self']:\n"
           "    for name in ('comm', 'oom_score_adj', 'timerslack_ns', 'coredump_filter', 'attr/exec'):\n"
           "        attempt(os.open, f'/proc/{pid}/{name}', os.O_WRONLY)",
           control="attempt(read, '/proc/self/comm')", needs="landlock"),
    Attack("signal_pid_1_in_every_way",
           "NR = {'x86_64': (62, 234, 129, 424), 'aarch64': (129, 131, 138, 424)}[platform.machine()]\n"
           "info = b'\\0' * 8 + b'\\xff' * 8 + b'\\0' * 112\n"
           "attempt(syscall, NR[0], 1, 10); attempt(syscall, NR[1], 1, 1, 10)\n"
           "attempt(syscall, NR[2], 1, 10, info)\n"
           "fd = os.pidfd_open(1); attempt(syscall, NR[3], fd, 10, None, 0)",
           r"denied (EPERM|EINVAL|ESRCH)", control="attempt(os.kill, os.getpid(), 0)",
           needs="landlock"),
    Attack("change_the_scheduling_of_the_zygote",
           f"for pid in {OTHERS}: attempt(os.sched_setaffinity, pid, {{0}})", r"denied EPERM",
           control="attempt(os.sched_setaffinity, 0, os.sched_getaffinity(0))"),
    Attack("device_nodes_in_every_writable_directory",
           "for directory in ('/work', '/tmp', '/dev/shm'):\n"
           "    attempt(os.mknod, directory + '/n', stat.S_IFCHR | 0o600, os.makedev(1, 3))",
           control="attempt(os.mknod, '/dev/shm/n', stat.S_IFREG | 0o600)"),
    Attack("write_to_the_drivers_files",
           "for top, directories, files in os.walk('/run/sandpiper'):\n"
           "    for name in files:\n"
           "        attempt(write, os.path.join(top, name)); attempt(os.unlink, os.path.join(top, name))\n"
           "    attempt(write, os.path.join(top, 'new.py'))\n"
           "attempt(write, '/run/sandpiper/new.py')",
           control="attempt(os.listdir, '/run/sandpiper')"),
    Attack("rename_and_link_between_directories",
           "write('one'); attempt(os.rename, 'one', '/usr/one'); attempt(os.link, 'one', '/dev/one')",
           r"denied (EXDEV|EROFS|EACCES|EPERM)",
           control="os.makedirs('a/b', exist_ok=True); write('one')\n"
                   "attempt(os.rename, 'one', 'a/b/one')"),
]

SET_ID = [
    Attack("set_id_file_without_a_name",
           "for mode in (0o4755, 0o2755, 0o6777):\n"
           "    attempt(os.open, '/work', os.O_TMPFILE | os.O_RDWR, mode)", r"denied EPERM",
           control="attempt(os.open, '/work', os.O_TMPFILE | os.O_RDWR, 0o755)"),
    Attack("set_id_directories_and_pipes",
           "attempt(os.mkdir, 'd1', 0o4755); attempt(os.mkdir, 'd2', 0o2755)\n"
           "attempt(os.mkfifo, 'p1', 0o4644); attempt(os.mknod, 'p2', stat.S_IFREG | 0o2644)",
           r"denied EPERM", control="attempt(os.mkdir, 'd3', 0o755)"),
    Attack("set_id_by_descriptor",
           "fd = os.open('s', os.O_CREAT | os.O_WRONLY, 0o700)\n"
           "attempt(os.fchmod, fd, 0o4755); attempt(os.fchmod, fd, 0o2755)\n"
           "attempt(syscall, 452, -100, b's', 0o4755, 0)", REFUSED,
           control="fd = os.open('s', os.O_CREAT | os.O_WRONLY, 0o700)\n"
                   "attempt(os.fchmod, fd, 0o755)"),
    Attack("capabilities_of_a_file",
           "write('c')\nattempt(os.setxattr, 'c', 'security.capability', "
           "bytes.fromhex('0100000200200000000000000000000000000000'))\n"
           "attempt(os.setxattr, 'c', 'trusted.x', b'1')",
           r"denied (EPERM|ENOTSUP|EOPNOTSUPP|EINVAL)",
           control="write('c'); attempt(os.stat, 'c')"),
]

BUDGETS = [
    Attack("huge_pages_of_the_host",
           "import mmap\nattempt(lambda: mmap.mmap(-1, 2 << 20, flags=0x40022))\n"
           "attempt(os.memfd_create, 'huge', 4)", r"denied EPERM",
           control="import mmap\nattempt(lambda: mmap.mmap(-1, 2 << 20, flags=0x22))"),
    Attack("descriptors_in_flight_of_the_user",
           "import array\nsent, pairs = 0, []\ntry:\n    while sent < 4000:\n"
           "        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))\n"
           "        pairs[-1][0].sendmsg([b'x'], [(1, 1, array.array('i', [0] * 250))]); sent += 250\n"
           "except OSError: pass\nprint(0 < sent < 1000)", r"True",
           control="import array\na, b = socket.socketpair()\n"
                   "attempt(a.sendmsg, [b'x'], [(1, 1, array.array('i', [0]))])"),
    Attack("locked_memory",
           "buf = ctypes.create_string_buffer(1 << 20)\n"
           "attempt(lambda: check(LIBC.mlock(buf, 1 << 20))); attempt(lambda: check(LIBC.mlockall(3)))",
           r"denied (ENOMEM|EPERM|EAGAIN)",
           control="attempt(lambda: check(LIBC.mlock(ctypes.create_string_buffer(64), 64)))"),
    Attack("a_crash_leaves_no_core",
           "pid = os.fork()\nif pid == 0: os.abort()\nos.waitpid(pid, 0)\n"
           "print([n for f in ('/work', '/tmp') for n in os.listdir(f) if n.startswith('core')])",
           r"\[\]"),
    Attack("more_files_than_the_disk_takes",
           "try:\n    for i in range(2000):\n        os.truncate(os.open(f'/tmp/t{i}', 66), 1 << 40)\n"
           "except OSError as e: print('denied', errno.errorcode[e.errno])", r"denied (EFBIG|EMFILE)",
           control="write('/tmp/t'); attempt(os.truncate, '/tmp/t', 1 << 20)"),
]

INHERITED = [
    Attack("descriptors_of_a_program",
           "import subprocess\nattempt(subprocess.check_output, ['ls', '/proc/self/fd'])",
           r"allowed b'0\\n1\\n2\\n3\\n'", control="attempt(os.listdir, '/proc/self/fd')"),
    Attack("environment_of_a_program",
           "import subprocess\nnames = {l.split('=')[0] for l in "
           "subprocess.check_output(['env'], text=True).splitlines()}\n"
           "print(sorted(n for n in names if not n.startswith(('PYTHON', 'OMP', 'OPENBLAS', 'MKL', "
           "'NUMEXPR', 'VECLIB')) and n not in {'PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', "
           "'TMPDIR', 'TERM', 'MPLBACKEND', 'VIRTUAL_ENV', 'LC_CTYPE', '_', 'PWD', 'SHLVL', "
           "'PIP_NO_INDEX', 'npm_config_fetch_retries', 'SANDPIPER_PYTHON', 'SANDPIPER_INSTALL', 'CHOKIDAR_USEPOLLING', 'WATCHPACK_POLLING', "
           "'WATCHFILES_FORCE_POLLING', 'GRPC_ENABLE_FORK_SUPPORT', 'ASAN_OPTIONS'}))",
           r"\[\]"),
    # Without Landlock code can find the pipes of a session that is being opened.
    Attack("sockets_of_the_zygote",
           f"for pid in {OTHERS}:\n    for fd in range(3, 8):\n"
           "        attempt(os.open, f'/proc/{pid}/fd/{fd}', os.O_RDWR)",
           control="fd = os.open('/dev/null', 2); attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR)",
           needs="landlock"),
    Attack("the_zygotes_number_is_not_ours",
           "print(3 in [int(f) for f in os.listdir('/proc/self/fd') if 'socket' in "
           "(os.readlink('/proc/self/fd/' + f) if os.path.lexists('/proc/self/fd/' + f) else '')])",
           r"False"),
    Attack("settings_of_pid_1",
           "for name in ('3', '4', '5'):\n    attempt(read, '/proc/1/fd/' + name)\n"
           "attempt(os.listdir, '/proc/1/map_files'); attempt(read, '/proc/1/auxv')",
           control="attempt(read, '/proc/self/auxv')"),
]

PROCESSES = [
    Attack("signal_host_processes",
           "for p in (W['victim'], W['server'], W['tester']): attempt(os.kill, p, signal.SIGKILL)",
           control="pid = os.fork()\nif pid == 0: time.sleep(60)\n"
                   "attempt(os.kill, pid, 9); ended = os.waitpid(pid, 0)"),
    Attack("kill_pid_1_of_the_sandbox",
           "attempt(os.kill, 1, signal.SIGKILL); attempt(os.kill, 1, signal.SIGSTOP)\n"
           "print('still', os.path.isdir('/proc/self'))", r"denied EPERM|allowed None|still True"),
    Attack("read_memory_and_environment_of_pid_1",
           "for name in ('mem', 'environ', 'maps', 'cmdline', 'fd', 'exe', 'root', 'cwd'):\n"
           "    path = f'/proc/1/{name}'\n"
           "    attempt(os.listdir if name == 'fd' else os.readlink if name in "
           "('exe', 'root', 'cwd') else read, path)",
           control="attempt(read, '/proc/self/environ')",
           held=r"denied (EACCES|EPERM|ENOENT|ESRCH)|allowed b'[\w/. -]*(\\x00)?[\w/. \\-]*'"),
    Attack("environment_of_the_server_is_nowhere",
           "found = []\nfor path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n"
           "    try: found.append(b'SP_CANARY' in read(path))\n    except OSError: pass\n"
           "print(any(found) or 'SP_CANARY' in os.environ)", r"False"),
    Attack("other_processes_are_invisible",
           "pids = [int(p) for p in os.listdir('/proc') if p.isdigit()]\n"
           "print(len(pids) < 30, W['victim'] in pids, W['tester'] in pids)", r"True False False"),
    Attack("ptrace_pid_1_and_parent",
           "PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206\nfor request in (PTRACE_ATTACH, PTRACE_SEIZE):\n"
           "    for pid in (1, os.getppid()):\n"
           "        attempt(lambda: check(LIBC.ptrace(request, pid, None, None)))", REFUSED),
    Attack("limits_of_pid_1_and_host",
           "for pid in (1, W['victim'], W['server']):\n"
           "    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (0, 0))",
           control="attempt(resource.prlimit, 0, resource.RLIMIT_NOFILE)",
           held=r"denied (EPERM|ESRCH|ENOSYS)"),
    Attack("raise_own_limits",
           "for name in ('CORE', 'NOFILE', 'NPROC', 'MEMLOCK', 'RTPRIO', 'NICE', 'MSGQUEUE', "
           "'SIGPENDING'):\n"
           "    which = getattr(resource, 'RLIMIT_' + name, None)\n"
           "    if which is not None:\n        hard = resource.getrlimit(which)[1]\n"
           "        if hard == -1: print('denied unlimited'); continue\n"
           "        attempt(resource.setrlimit, which, (hard + 1, hard + 1))",
           held=r"denied (EPERM|EINVAL|ValueError|unlimited)",
           control="attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (64, "
                   "resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"),
    Attack("real_time_priority",
           "attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50)); "
           "attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)", r"denied (EPERM|EACCES|EINVAL)",
           control="attempt(os.nice, 1)"),
    Attack("priority_and_scheduling_of_others",
           "attempt(os.setpriority, os.PRIO_PROCESS, 1, 19); "
           "attempt(os.setpriority, os.PRIO_USER, 0, 19); attempt(os.sched_setaffinity, 1, {0})",
           r"denied (EPERM|ESRCH|EACCES)", control="attempt(os.sched_getaffinity, 0)"),
    Attack("capabilities_are_empty",
           "print({name: status(name) for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', "
           "'CapAmb')})", r"\{('Cap\w+': '0+'(, )?){5}\}"),
    Attack("no_new_privileges_and_filter_are_set",
           "print(status('NoNewPrivs'), status('Seccomp'))", r"1 2"),
    Attack("become_root_by_call",
           "attempt(os.setuid, 0); attempt(os.setgid, 0); attempt(os.setgroups, [0]); "
           "attempt(os.setresuid, 0, 0, 0)", control="attempt(os.setuid, os.getuid())"),
    Attack("become_root_by_program",
           "import subprocess\nfor name in ('su', 'sudo', 'mount', 'ping', 'newgrp', 'passwd'):\n"
           "    path = '/usr/bin/' + name\n"
           "    if os.path.exists(path):\n"
           "        out = subprocess.run([path, '-c', 'id'], capture_output=True, timeout=5, "
           "stdin=subprocess.DEVNULL).stdout\n        print('root' if b'uid=0' in out else 'no')\n"
           "print('no')", r"no", control="import subprocess\n"
           "attempt(subprocess.check_output, ['id', '-u'])"),
    Attack("uid_map_names_no_root_and_one_user",
           "print(len(open('/proc/self/uid_map').readlines()), os.getuid() != 0, "
           "open('/proc/self/setgroups').read().strip())", r"1 True deny"),
    Attack("write_the_uid_map_again",
           "for name in ('uid_map', 'gid_map', 'setgroups'):\n"
           "    attempt(write, '/proc/self/' + name, b'0 0 1')",
           control="attempt(read, '/proc/self/uid_map')"),
    Attack("shield_from_the_memory_killer",
           "attempt(write, '/proc/self/oom_score_adj', b'-1000'); "
           "attempt(write, '/proc/1/oom_score_adj', b'1000')",
           control="attempt(lambda: int(read('/proc/self/oom_score_adj')) >= 900)",
           control_holds=r"allowed True"),
    Attack("shared_memory_segment_of_the_host",
           "attempt(lambda: check(LIBC.shmat(W['shm_id'], None, 0) or 0))\n"
           "for size, flags in ((1 << 20 | 1, 0), (1 << 40, 0), (4096, 0o4000)):\n"
           "    attempt(lambda: check(LIBC.shmget(0, ctypes.c_size_t(size), 0o1666 | flags)))\n"
           "attempt(lambda: check(LIBC.shmctl(LIBC.shmget(0, 4096, 0o1666), 11, None)))\n"
           "attempt(lambda: check(LIBC.shmctl(W['shm_id'], 0, None)))",
           r"denied (ENOSYS|EINVAL|EPERM|EIDRM)"),
    Attack("segments_that_outlive_their_processes",
           "kept = []\nfor _ in range(200):\n"
           "    kept.append(LIBC.shmget(0, 1 << 20, 0o1000))\n"
           "end = time.monotonic() + 60\ninfo = (ctypes.c_long * 16)()\n"
           "def used(): LIBC.shmctl(0, 14, info); return info[0] & 0xffffffff\n"
           "while used() > 16 and time.monotonic() < end: time.sleep(0.1)\n"
           "print('few' if used() <= 16 else used())", r"few", limit_s=70),
    Attack("forge_the_servers_pidfd", "attempt(os.pidfd_open, W['server'])\n"
           "attempt(os.pidfd_open, W['victim'])", control="attempt(os.pidfd_open, os.getpid())"),
]

NAMESPACES = [
    *[Attack(f"own_{name}_namespace",
             f"print(os.readlink('/proc/self/ns/{name}') != W['namespaces']['{name}'])", r"True")
      for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")],
    *[Attack(f"unshare_{name}", f"attempt(lambda: check(LIBC.unshare({flag:#x})))",
             r"denied (EPERM|ENOSYS|ENOSPC)")
      for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000),
                         ("net", 0x40000000), ("ipc", 0x8000000), ("uts", 0x4000000),
                         ("cgroup", 0x2000000), ("time", 0x80))],
    Attack("clone_into_a_new_user_namespace",
           "NR = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
           "attempt(syscall, NR, 0x10000000 | 17, 0, 0, 0, 0)", r"denied (EPERM|ENOSYS|ENOSPC)",
           control="pid = os.fork()\nif pid == 0: os._exit(0)\nattempt(os.waitpid, pid, 0)"),
    Attack("clone3_into_a_new_user_namespace",
           "attempt(syscall, 435, struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)",
           REFUSED),
    Attack("enter_namespaces_of_pid_1",
           "for name in ('mnt', 'net', 'user', 'pid'):\n    try: fd = os.open(f'/proc/1/ns/{name}', 0)\n"
           "    except OSError as e: print('denied', errno.errorcode[e.errno]); continue\n"
           "    attempt(lambda: check(LIBC.setns(fd, 0)))"),
    Attack("set_the_host_name", "attempt(socket.sethostname, 'taken')", REFUSED,
           control="attempt(socket.gethostname)"),
    Attack("host_name_is_not_the_hosts", "print(socket.gethostname() == W['hostname'] "
           "and W['hostname'] != 'sandpiper')", r"False"),
    Attack("leave_the_root_by_chroot", "attempt(os.chroot, '.')", REFUSED),
    Attack("old_root_is_gone", "fd = os.open('/', os.O_RDONLY)\nos.chdir('/')\n"
           "for _ in range(40): os.chdir('..')\n"
           "print(os.stat('.').st_ino == os.fstat(fd).st_ino, os.getcwd())", r"True /"),
    Attack("mount_points_name_no_host_path",
           "text = open('/proc/self/mountinfo').read() if os.path.exists('/proc/self/mountinfo') "
           "else ''\nprint(W['directory'] in text)", r"False"),
]

ATTACKS = [*FILES, *SECOND_LOCK, *SET_ID, *BUDGETS, *INHERITED, *PROCESSES, *NAMESPACES]
