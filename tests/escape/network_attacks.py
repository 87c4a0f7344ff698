"""Attacks by sockets and terminals. Data as in attacks.py: checked by effect, each with a control."""
from attacks import Attack

NETWORK = [
    Attack("connect_to_loopback_services",
           "for port in W['ports']: attempt(connect, socket.AF_INET, ('127.0.0.1', port))",
           control="s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
                   "attempt(connect, socket.AF_INET, s.getsockname())"),
    Attack("connect_to_the_internet_and_the_metadata_service",
           "for host in ('1.1.1.1', '8.8.8.8', '169.254.169.254', '10.0.0.1', '192.168.0.1'):\n"
           "    attempt(connect, socket.AF_INET, (host, 80))"),
    Attack("send_datagrams_out",
           "attempt(connect, socket.AF_INET, ('8.8.8.8', 53), socket.SOCK_DGRAM)"),
    Attack("resolve_names", "attempt(socket.getaddrinfo, 'example.com', 80)",
           r"denied .+"),
    Attack("connect_to_an_abstract_socket", "attempt(connect, socket.AF_UNIX, W['abstract'])",
           control="s = socket.socket(socket.AF_UNIX); s.bind('\\0own'); s.listen()\n"
                   "attempt(connect, socket.AF_UNIX, '\\0own')"),
    Attack("connect_to_a_socket_file", "attempt(connect, socket.AF_UNIX, W['socket'])",
           control="s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen()\n"
                   "attempt(connect, socket.AF_UNIX, 'own.sock')"),
    *[Attack(f"socket_of_family_{name}", f"attempt(lambda: socket.socket({family}, {kind}, 0))",
             control="attempt(lambda: socket.socket().close())")
      for name, family, kind in (("packet", 17, 3), ("vsock", 40, 1),
                                 ("alg", 38, 5), ("bluetooth", 31, 3), ("can", 29, 3),
                                 ("kcm", 41, 5), ("xdp", 44, 3), ("tipc", 30, 1), ("key", 15, 3),
                                 ("rds", 21, 5), ("qipcrtr", 42, 2))],
    Attack("netlink_of_other_protocols",
           "for protocol in (*range(1, 23), 31, 255):\n    for kind in (2, 3): attempt(lambda: socket.socket(16, kind, protocol))\n"
           "attempt(lambda: check(LIBC.syscall(41 if platform.machine() == 'x86_64' else 198, 16, 3, ctypes.c_long(1 << 32 | 12))))",
           r"denied (EPROTONOSUPPORT|EAFNOSUPPORT|EPERM)", control="attempt(lambda: socket.socket(16, 3, 0).close())"),
    Attack("settings_of_the_network_by_netlink",
           "def ask(kind, body, flags=0x605):\n    s = socket.socket(16, 3, 0); s.settimeout(5)\n"
           "    s.send(struct.pack('IHHII', 16 + len(body), kind, flags, 1, 0) + body)\n"
           "    found = struct.unpack_from('IHHIIi', s.recv(9999))\n"
           "    if found[1] == 2 and found[5] < 0: raise OSError(-found[5], 'refused')\n    return found\n"
           "for kind in (16, 17, 19, 20, 21, 24, 25, 28, 29, 32, 33, 36, 37, 40, 44, 64 + 2, 68, 72, 84, 88, 92, 100, 104, 108):\n"
           "    attempt(ask, kind if kind != 66 else 67, struct.pack('BBHiII', 0, 0, 1, 1, 0, 0) + bytes(64))\n"
           "s = socket.socket(16, 3, 0); s.bind((0, 0)); t = socket.socket(16, 3, 0)\n"
           "attempt(t.sendto, b'x' * 16, s.getsockname())\n"
           "attempt(t.sendto, struct.pack('IHHII', 32, 16, 1, 1, 0) + bytes(16), (0, 1))\n"
           "attempt(t.setsockopt, 270, 8, 1)", r"denied (EPERM|EOPNOTSUPP|ENOPROTOOPT|EAFNOSUPPORT)",
           control="s = socket.socket(16, 3, 0); s.settimeout(5)\n"
                   "s.send(struct.pack('IHHII', 32, 18, 0x301, 1, 0) + bytes(16))\nattempt(lambda: b'lo\\0' in s.recv(9999))",
           control_holds=r"allowed True"),
    Attack("options_of_sockets_that_hold_memory",
           "s = socket.socket()\n"
           "attempt(s.setsockopt, 6, 14, struct.pack('=HHI120sBBHI80s', 2, 0, 0, b'', 0, 0, 4, 0, b'abcd'))\n"
           "t = socket.socket(2, socket.SOCK_DGRAM)\n"
           "attempt(t.setsockopt, 0, 41, struct.pack('4s4sII4s', b'\\xe0\\0\\0\\x05', b'\\x7f\\0\\0\\x01', 1, 1, b'1234'))",
           r"denied ENOPROTOOPT", control="attempt(socket.socket().setsockopt, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)"),
    Attack("long_access_control_lists",
           "entries = [(1, 7, 2**32 - 1), *[(2, 7, os.getuid())] * 8000, (4, 7, 2**32 - 1), (16, 7, 2**32 - 1), (32, 7, 2**32 - 1)]\n"
           "text = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)\n"
           "os.mkdir('/tmp/listed')\n"
           "for name in ('access', 'default'): attempt(os.setxattr, '/tmp/listed', 'system.posix_acl_' + name, text)",
           r"denied ENOTSUP",
           control="text = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 7, 2**32 - 1) for tag in (1, 4, 32))\n"
                   "os.mkdir('/tmp/short'); attempt(os.setxattr, '/tmp/short', 'system.posix_acl_access', text)"),
    Attack("datagrams_that_wait_in_one_socket",
           "a = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); a.bind('waits'); n = 0\ntry:\n"
           "    for n in range(20):\n"
           "        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as b: b.setblocking(False); b.sendto(b'x', 'waits')\n"
           "except BlockingIOError: pass\nprint('few' if n < 4 else n)", r"few",
           control="a = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); a.bind('received')\n"
                   "b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); attempt(b.sendto, b'x', 'received')"),
    Attack("socket_filters",
           "s = socket.socket()\n"
           "for option in (26, 51): attempt(s.setsockopt, socket.SOL_SOCKET, option, b'\\0' * 16)\n"
           "attempt(s.setsockopt, socket.SOL_SOCKET, 50, struct.pack('i', 3))",
           r"denied ENOPROTOOPT",
           control="attempt(socket.socket().setsockopt, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)"),
    Attack("tables_of_the_network",
           "s = socket.socket()\nfor level in (0, 41): attempt(s.setsockopt, level, 64, b'\\0' * 96)",
           r"denied ENOPROTOOPT"),
    Attack("raw_and_icmp_sockets",
           "attempt(lambda: socket.socket(2, socket.SOCK_RAW, 1)); "
           "attempt(lambda: socket.socket(2, socket.SOCK_DGRAM, 1)); "
           "attempt(lambda: socket.socket(2, socket.SOCK_RAW, 255))"),
    Attack("multipath_and_sctp",
           "attempt(lambda: socket.socket(2, 1, 262)); attempt(lambda: socket.socket(2, 1, 132))"),
    Attack("socket_upper_layer_protocols",
           "s = socket.socket()\nattempt(s.setsockopt, 6, 31, b'espintcp\\0')\n"
           "attempt(s.setsockopt, 6, 31, b'tls\\0')",
           r"denied ENOPROTOOPT"),
    Attack("only_the_loopback_interface_is_there",
           "attempt(lambda: [name for _, name in socket.if_nameindex()])",
           r"allowed \['lo'\]|denied .+"),
    Attack("bring_up_interfaces",
           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
           "attempt(fcntl.ioctl, s, 0x8914, struct.pack('16sh14x', b'lo', 0))", r"denied .+"),
]

TERMINALS = [
    Attack("push_characters_into_a_terminal",
           "for fd in (0, 1, 2):\n    attempt(fcntl.ioctl, fd, 0x5412, b'x')\n"
           "    attempt(fcntl.ioctl, fd, 0x541C, b'\\x03')", r"denied ENOTTY"),
    Attack("high_bits_of_an_ioctl_number",
           "attempt(lambda: check(LIBC.ioctl(0, ctypes.c_ulong(0x100005412), b'x')))",
           r"denied ENOTTY"),
    Attack("requests_to_an_own_terminal_that_reach_further",
           "import pty\ntry: pair = os.openpty()\nexcept OSError: pair = (0, 0)\n"
           "for fd in pair:\n    for number in (0x5412, 0x541C, 0x5423, 0x40045436, 0x5437, 0x541D, 0x4B46, 0x5414 + 0x20):\n"
           "        attempt(fcntl.ioctl, fd, number, bytes(64))", r"denied ENOTTY",
           control="r, w = os.pipe(); attempt(fcntl.ioctl, r, 0x541B, bytes(4))"),
    Attack("terminals_of_the_host",
           "for n in os.listdir('/dev/pts') if os.path.isdir('/dev/pts') else ():\n"
           "    if n != 'ptmx': attempt(os.open, '/dev/pts/' + n, os.O_RDWR)\n"
           "print('leak' if len(os.listdir('/dev/pts')) > 1 else 'denied')", r"denied|denied E.*",
           control="attempt(os.listdir, '/usr/bin')"),
    Attack("terminal_by_its_name",
           "try: pair = os.openpty()\nexcept OSError: pair = None\npath = os.ttyname(pair[1]) if pair else '/dev/pts/0'\n"
           "attempt(os.open, path, os.O_RDWR); attempt(os.chmod, path, 0o666); attempt(os.unlink, path)\n"
           "attempt(os.open, '/dev/pts/x', os.O_CREAT | os.O_WRONLY); attempt(os.chown, '/dev/pts/ptmx', os.getuid(), -1)",
           r"denied E(ACCES|ROFS|PERM|NOENT)"),
    Attack("controlling_terminal", "attempt(os.open, '/dev/tty', os.O_RDWR); "
           "attempt(fcntl.ioctl, 0, 0x540E, 0)", r"denied .+"),
]

NETWORK_ATTACKS = [*NETWORK, *TERMINALS]
