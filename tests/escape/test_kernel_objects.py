"""Kernel memory that a count of pages misses, where a control group counts memory and where only the watchdog does:
each attack is killed or refused before it holds much more than the limit.

An attack's workers hold their objects and sleep. The attack polls until few enough workers are left or time is up.
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from client import DENY, SLOW, Case, Server, doctor_says, need_userns  # noqa: E402

LIMIT_MIB = 64
MOST_MIB = 3 * LIMIT_MIB  # what a busy machine allocates between two polls comes on top
# Only an attack that nothing kills takes so long: on a busy machine the workers need minutes for what is killed at last.
PATIENCE_S = 200 * SLOW
NO_GROUP = [*DENY, "cgroup", "--"]

# worker() allocates objects and returns; held(n) is how many MiB n workers hold, computed or as they reported.
WORKERS = """
import ctypes, fcntl, mmap, os, select, shutil, socket, struct, sys, time
r, w = os.pipe()
pids = []
noted = os.open('/tmp/noted', os.O_RDWR | os.O_CREAT)  # memory without a name would be somebody's to pay for
os.pwrite(noted, bytes(4096), 0)
def note(n, size): os.pwrite(noted, struct.pack('q', size), n * 8)
def share(n): return n * sum(struct.unpack('512q', os.pread(noted, 4096, 0))) / {workers} / (1 << 20)
for n in range({workers}):
    pid = os.fork()
    if pid == 0:
        kept = None
        try: kept = worker(n)
        except OSError as error: print('worker', n, error, flush=True)
        os.write(w, b'.')
        time.sleep(86400); os._exit(0)
    pids.append(pid)
os.close(w)
def left():
    for pid in list(pids):
        if os.waitpid(pid, os.WNOHANG)[0]: pids.remove(pid)
    return len(pids)
ready = 0
end = time.monotonic() + {patience}
while left() and ready < left() and time.monotonic() < end:
    if select.select([r], [], [], 0.1)[0]: ready += len(os.read(r, 64))
end = time.monotonic() + {patience}  # that says nothing of how long the watchdog takes
while held(left()) >= {most} and time.monotonic() < end: time.sleep(0.1)
with open('/tmp/counted', 'w') as file: file.write(str(int(held(left()))))
os.replace('/tmp/counted', '/tmp/hidden')  # whole, whenever this process is killed
print(left(), 'left')
for pid in pids: os.kill(pid, 9)
for pid in pids: os.waitpid(pid, 0)
"""

# The kernel passes all locks of a file for each new one, and those before it once more: few in each, the last first.
LOCKS = """
def worker(n):
    kept = []
    for f in range({files}):
        fd = os.open(f'/tmp/lock{{n}}-{{f}}', os.O_RDWR | os.O_CREAT); kept.append(fd)
        for at in reversed(range(300)): fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_RDLCK, 0, at * 2, 1, 0))
    return kept
def held(n): return n * {files} * 300 * 192 / (1 << 20)
"""

MAPPINGS = """
def worker(n):
    libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_void_p
    start = libc.mmap(None, ctypes.c_size_t({pairs} * 8192), 1, 0x4022, -1, ctypes.c_long(0))
    for at in range({pairs}): libc.mprotect(ctypes.c_void_p(start + at * 8192), 4096, 0)
def held(n): return n * {pairs} * 2 * 256 / (1 << 20)
"""

EPOLL = """
def worker(n):
    files = [os.eventfd(0) for _ in range(200)]
    queues = [select.epoll() for _ in range({queues})]
    for queue in queues:
        for file in files: queue.register(file, 1)
    return files, queues
def held(n): return n * 200 * {queues} * 192 / (1 << 20)
"""

FIFOS = """
def worker(n):
    kept = []
    size = 0
    for f in range({files}):
        path = f'/tmp/fifo{{n}}-{{f}}'; os.mkfifo(path)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK); os.unlink(path); kept.append(fd)
        try:
            while True: size += os.write(fd, bytes(4096))
        except BlockingIOError: note(n, size)
    return kept
def held(n): return share(n)
"""

# epoll items of files that other workers hold open: any number of them with few descriptors.
ITEMS = """
import os, select
def instance(files, items):
    queue = select.epoll()
    for file in files:
        copies = [os.dup(file) for _ in range(items // len(files))]
        for copy in copies: queue.register(copy, 0)
        for copy in copies: os.close(copy)
    return queue
"""

FDINFO = ITEMS + """
def worker(n):
    files = [os.pipe()[0] for _ in range(40)]
    queue = instance(files, {items})
    kept = [files, queue]
    for f in range({opened}):
        try: kept.append(os.open(f'/proc/self/fdinfo/{{queue.fileno()}}', os.O_RDONLY))
        except OSError: break
        os.read(kept[-1], 1); note(n, (f + 1) * {items} * 70)
    return kept
def held(n): return share(n)
"""

SENT_EPOLL = ITEMS + """
def worker(n):
    files = [os.pipe()[0] for _ in range(40)]
    a, b = socket.socketpair()
    for q in range({queues}):
        queue = instance(files, {items}); socket.send_fds(a, [b'x'], [queue.fileno()]); queue.close()
        note(n, (q + 1) * {items} * 192)
    return a, b
def held(n): return share(n)
"""

SENT_QUEUES = """
def worker(n):
    a, b = socket.socketpair()
    for q in range({queues}):
        full = socket.socketpair()
        full[0].setblocking(False)
        size = full[0].send(bytes(180 << 10))
        socket.send_fds(a, [b'x'], [full[1].fileno()])
        for end in full: end.close()
        note(n, (q + 1) * size)
    return a, b
def held(n): return share(n)
"""

# A process is unreadable in /proc while it runs a program that it may not read.
HIDDEN_SHARED = """
import os, shutil, sys
path = '/tmp/unreadable'
if not os.path.exists(path): shutil.copy(os.path.realpath(sys.executable), path); os.chmod(path, 0o111)
CODE = '''
import mmap, os, sys, time
pid = os.fork()  # a process may always read its own /proc
if pid == 0:
    try: open(f'/proc/{{os.getppid()}}/maps').read(); os._exit(1)
    except OSError: os._exit(0)
hidden = os.waitpid(pid, 0)[1] == 0
pages = mmap.mmap(-1, {size} << 20)
for at in range(0, {size}, 4): pages[at << 20:(at + 4) << 20] = bytes(4 << 20); time.sleep(0.01)
print('hidden' if hidden else 'seen', flush=True)
os.write(int(sys.argv[1]), b'.')
time.sleep(120)
'''
def worker(n):
    os.set_inheritable(w, True)
    os.execve(path, [path, '-c', CODE, str(w)], {{**os.environ, 'PYTHONHOME': sys.base_prefix}})
def held(n): return n * {size}
"""

# In the session itself: sockets that are never accepted belong to no process. They hold at least the data sent.
UNACCEPTED = """
import os, socket
listeners, sent = [], 0
def note():
    with open('/tmp/noted', 'w') as file: file.write(str(sent >> 20))
    os.replace('/tmp/noted', '/tmp/hidden')  # whole, whenever this process is killed
note()
for number in range({listeners}):
    listener = socket.socket({family})
    listener.bind({address}); listener.listen(4096); listeners.append(listener)
    for _ in range({connections}):
        one = socket.socket({family}); one.settimeout(0.2)
        try:
            one.connect(listener.getsockname())
            one.setblocking(False)
            while True: sent += one.send(bytes(32768))
        except BlockingIOError: pass
        except OSError: break
        finally: one.close()
        if sent >= {most} << 20: break
        note()
note()
print('through')
"""
# Answers of the kernel that nobody reads.
NETLINK = """
def worker(n):
    ask = struct.pack('IHHII', 32, 18, 1, 1, 0) + struct.pack('BBHiII', 0, 0, 0, 1, 0, 0)
    kept = [socket.socket(16, 3 | socket.SOCK_NONBLOCK, 0) for _ in range({sockets})]
    for one in kept:
        for _ in range(150): one.send(ask)
    return kept
def held(n): return n * {sockets} // 5
"""
CONNECTIONS = """
def worker(n):
    kept = []
    with socket.create_server(('127.0.0.1', 0)) as listener:
        for pair in range({pairs}):
            ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
            kept.append(ends)
            for end in ends:
                end.setblocking(False)
                try:
                    while True: end.send(bytes(400000))
                except BlockingIOError: pass
    return kept
def held(n): return n * {pairs} * 320 // 1024
"""
MAPPED = """
def worker(n):
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    for _ in range({files}):
        fd = os.open('/tmp/noted', os.O_RDONLY)
        libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        os.close(fd)
def held(n): return n * {files} // 1000
"""
UNIX = {"family": "socket.AF_UNIX", "address": "os.urandom(8).hex()"}
TCP = {"family": "socket.AF_INET", "address": "('127.0.0.1', 0)"}


def workers(code, count, most=MOST_MIB, **sizes):
    return code.format(**sizes) + WORKERS.format(workers=count, most=most, patience=PATIENCE_S)


# name → (attack, control: the small amount that must work, what the control prints, other bounds: the limit, and the most)
# pipe(7) gives the pipes of a user two pages each beyond 64 MiB, so that these attackers hold 280 MiB where no limit is.
HELD = {
    "file_locks": (workers(LOCKS, 8, files=480), workers(LOCKS, 1, files=40), "1 left"),
    "mappings": (workers(MAPPINGS, 14, pairs=32500), workers(MAPPINGS, 1, pairs=1000), "1 left"),
    "event_queues": (workers(EPOLL, 20, queues=290), workers(EPOLL, 1, queues=10), "1 left"),
    "unread_netlink_answers": (workers(NETLINK, 16, sockets=200), workers(NETLINK, 1, sockets=10), "1 left"),
    "named_pipes": (workers(FIFOS, 60, 4 * LIMIT_MIB, files=480), workers(FIFOS, 1, files=20), "1 left", 3 * LIMIT_MIB, 4 * LIMIT_MIB),  # its workers have many pages
    "texts_of_descriptors": (workers(FDINFO, 2, items=12000, opened=180), workers(FDINFO, 1, items=400, opened=8),
                             "1 left"),
    "event_queues_in_messages": (workers(SENT_EPOLL, 6, items=12000, queues=20),
                                 workers(SENT_EPOLL, 1, items=1200, queues=4), "1 left"),
    "queues_in_messages": (workers(SENT_QUEUES, 6, queues=200, most=80), workers(SENT_QUEUES, 1, queues=40), "1 left",
                           LIMIT_MIB, 80),  # in this way code can hold 90 MiB, RLIMIT_NOFILE
    "shared_memory_of_a_hidden_program": (workers(HIDDEN_SHARED, 1, size=400), workers(HIDDEN_SHARED, 1, size=8),
                                          "1 left", 4 * LIMIT_MIB),  # an unreadable process counts as the most that it could hold
    "connections_that_nobody_accepts": (UNACCEPTED.format(listeners=16, connections=300, most=MOST_MIB, **UNIX),
                                        UNACCEPTED.format(listeners=2, connections=10, most=9, **UNIX), "through"),
    "tcp_connections_that_nobody_accepts": (UNACCEPTED.format(listeners=16, connections=300, most=MOST_MIB, **TCP),
                                            UNACCEPTED.format(listeners=2, connections=10, most=9, **TCP), "through"),
}


class Objects(Case):
    wrap = ()

    @classmethod
    def setUpClass(cls):
        need_userns()
        if (doctor_says(*cls.wrap)["memory"]["state"] == "on") == bool(cls.wrap):
            raise unittest.SkipTest("cgroup: memory is counted in one way only here")

    def hidden(self, server):
        return int(server.read(server.here("/tmp/hidden")).text.split("\n")[0].split("\t")[-1].strip())

    def check_held(self, attack, control, prints, limit=LIMIT_MIB, most=MOST_MIB):
        with Server("--memory", f"{limit}M", wrap=self.wrap) as server:
            result = server.python(server.here(control), _timeout=120, timeout_s=int(90 * SLOW))
            self.assert_ok(result)
            self.assertIn(prints, result.text)
            self.assertNotIn("seen\n", result.text)
            result = server.python(server.here(attack), _timeout=500, timeout_s=int(2 * PATIENCE_S + 60 * SLOW))
            self.assertIn(result.status.kind, ("ok", "out of memory"), result.text)
            self.assertLess(self.hidden(server), most, result.text)
            self.assert_alive(server)

    def test_event_queue_items_of_the_user(self):
        """The kernel counts them for all programs of the user, epoll(7): code gets a quarter, whatever memory it has."""
        share = int(pathlib.Path("/proc/sys/fs/epoll/max_user_watches").read_text()) // 4
        items, mib = 200 * 290, share * 192 >> 20
        if share > 2 << 20:
            self.skipTest("memory: the user may have too many here to try it")
        attack = workers(EPOLL, share // items * 8 // 5 + 2, mib * 13 // 10, queues=290)
        self.check_held(attack, workers(EPOLL, 1, queues=10), "1 left", max(4 * mib, LIMIT_MIB), mib * 13 // 10)

    def test_buffers_of_connections_of_the_machine(self):
        """The kernel limits their memory for the whole machine, tcp(7): no code gets half of it, whatever memory it has."""
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 32 >> 20
        if half > 1024:
            self.skipTest("memory: connections may have too much here to try it")
        attack = workers(CONNECTIONS, half * 1024 // (200 * 320) * 3 // 2 + 1, half * 5 // 4, pairs=200)
        self.check_held(attack, workers(CONNECTIONS, 1, pairs=10), "1 left", 6 * half, half * 5 // 4)

    def test_mapped_files_of_the_machine(self):
        """Each mapping keeps a file open. The machine may have fs.file-max of them, proc(5)."""
        half = int(pathlib.Path("/proc/sys/fs/file-max").read_text()) // 2000
        if half > 1500:
            self.skipTest("memory: the machine may have too many files open to try it")
        attack = workers(MAPPED, half * 6 // 5 // 50 + 1, half * 11 // 10, files=50000)
        self.check_held(attack, workers(MAPPED, 1, files=1000), "1 left", 4096, half * 11 // 10)

    def test_sizes_of_socket_buffers(self):
        with Server(wrap=self.wrap) as server:
            result = server.python("import socket\nend = socket.socketpair()[0]\nfor size in socket.SO_SNDBUF, socket.SO_RCVBUF:\n"
                                   "    old = end.getsockopt(1, size)\n"
                                   "    end.setsockopt(1, size, 1 << 17)\n    print(end.getsockopt(1, size) == old)")
            self.assert_prints(result, "True\nTrue")

    def test_workers_that_share_a_table_of_descriptors(self):
        """The owner of a lock cannot be found once the process that took it has exited."""
        with Server(wrap=self.wrap) as server:
            result = server.python("import ctypes, errno, os, platform, signal, threading\n"
                                   "libc = ctypes.CDLL(None, use_errno=True)\n"
                                   "number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
                                   "def clone(flags):\n"
                                   "    pid = libc.syscall(number, flags | signal.SIGCHLD, 0, 0, 0, 0)\n"
                                   "    if pid == 0: os._exit(0)\n"
                                   "    if pid < 0: return errno.errorcode[ctypes.get_errno()]\n"
                                   "    os.waitpid(pid, 0); return 'made'\n"
                                   "print(clone(0x400), clone(0))\n"
                                   "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n")
            self.assert_prints(result, "EPERM made\nthread")

    def test_one_listener_holds_few_connections(self):
        with Server(wrap=self.wrap) as server:
            result = server.python("import socket\ndef count(family, address):\n"
                                   "    listener = socket.socket(family); listener.bind(address); listener.listen(4096)\n"
                                   "    kept = []\n"
                                   "    for n in range(300):\n"
                                   "        one = socket.socket(family); one.settimeout(0.5); kept.append(one)\n"
                                   "        try: one.connect(listener.getsockname())\n"
                                   "        except OSError: return n\n"
                                   "    return n\n"
                                   "n = count(socket.AF_UNIX, 'many'); print('few' if 50 < n < 140 else n)", timeout_s=60)
            self.assert_prints(result, "few")


class ObjectsOfTheWatchdog(Objects):
    wrap = NO_GROUP


for name, codes in HELD.items():
    setattr(Objects, f"test_{name}", lambda self, codes=codes: self.check_held(*codes))

if __name__ == "__main__":
    unittest.main()
