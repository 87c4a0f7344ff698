"""Every part of a session comes back as docs/STATE.md says: each row of its table has a row here.

A row: the code before, what a later call does to it, the code afterwards, what that prints, and what the result names.
Rows are tried after a crash, after an undo and in a branch. What the table calls "named" has a name, and nothing else.
"""
import re
import unittest

from client import CONTAINER, ROOT, Case, Server

TABLE = re.search(r"\n\| part \|.*\n\| ---.*\n((?:\|.*\n)+)", (ROOT / "docs" / "STATE.md").read_text())[1]
DOCUMENTED = {cells[1].strip().replace("`", ""): cells[2].strip() for cells in (row.split("|") for row in TABLE.splitlines())}
DIE = "\nimport os; os.kill(os.getpid(), 9)"
SHARED = "which undo and restore do not take back, and which a branch shares"
MAPPED = "m (mmap.mmap): shared memory, " + ("if it is not mapped as private, " if CONTAINER else "") + SHARED
WAYS = "crash", "undo", "branch"
# What a branch prints and names where that is not the same: it runs beside its session, which goes on.
IN_BRANCHES = {
    "threads": ("False 1", None), "executors and pools": ("2", None), "shared memory": ("1", MAPPED),
    "child processes": ("lives", None), "exit statuses of child processes": ("-9 3", None),
    "locks on files": ("1", "f (TextIOWrapper): another has the lock on l now"),
}
PARTS = {
    "variables, functions, imports": (
        "import json\nx = [1]\ndef f(): return x", "x.append(2); f = json = None", "print(f(), json.dumps(x))", "[1] [1]", None),
    "generators, context variables": (
        "import contextvars; g = iter(range(9)); c = contextvars.ContextVar('c'); _ = next(g), c.set(5)", "next(g); c.set(6)",
        "print(next(g), c.get())", "1 5", None),
    "random, numpy's random state": (
        "import random; random.seed(5); s = random.Random(5).random()", "random.random()", "print(random.random() == s)", "True", None),
    "current directory": ("import os; os.makedirs('d', exist_ok=True); os.chdir('d')", "os.chdir('..')", "print(os.path.basename(os.getcwd()))", "d", None),
    "environment variables": ("import os; os.environ['A'] = '1'", "os.environ['A'] = '2'", "print(os.environ['A'], os.popen('echo $A').read())", "1 1\n", None),
    "umask": ("import os; _ = os.umask(0o27)", "os.umask(0)", "print(oct(os.umask(0o27)))", "0o27", None),
    "resource limits": (
        "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); r.setrlimit(r.RLIMIT_STACK, (1 << 20, r.getrlimit(r.RLIMIT_STACK)[1]))",
        "r.setrlimit(r.RLIMIT_STACK, (1 << 19, r.getrlimit(r.RLIMIT_STACK)[1]))", "print(r.getrlimit(r.RLIMIT_STACK)[0])", "1048576", None),
    "niceness, processors": (
        "import os; n = os.nice(3); one = {min(os.sched_getaffinity(0))}; os.sched_setaffinity(0, one)", "os.nice(2)",
        "print(os.nice(0) == n, os.sched_getaffinity(0) == one)", "True True", None),
    "locale, time zone": (
        "import locale, os, time; _ = locale.setlocale(locale.LC_ALL, 'C.UTF-8'); os.environ['TZ'] = 'XYZ-3'; time.tzset()",
        "locale.setlocale(locale.LC_ALL, 'C'); os.environ['TZ'] = 'ABC'; time.tzset()", "print(locale.setlocale(locale.LC_ALL), time.tzname[0])",
        "C.UTF-8 XYZ", None),
    "warning filters, logging": (
        "import logging, warnings; warnings.simplefilter('ignore'); logging.basicConfig(filename='log', level=20, force=True)",
        "warnings.simplefilter('error'); logging.disable()", "warnings.warn('x'); logging.info('y'); print(open('log').read())", "INFO:root:y\n", None),
    "garbage collector": (
        "import gc; gc.set_threshold(9, 8, 7); gc.callbacks.append(lambda *_: None)", "gc.set_threshold(1, 1, 1); gc.callbacks.clear()",
        "print(gc.get_threshold(), len(gc.callbacks)); gc.callbacks.clear()", "(9, 8, 7) 1", None),
    "tracing, profiling, recursion limit": (
        "import sys\ndef t(*_): return None\nsys.setprofile(t); sys.setrecursionlimit(1234)", "sys.setprofile(None); sys.setrecursionlimit(2000)",
        "p = sys.getprofile(); sys.setprofile(None); print(p is t, sys.getrecursionlimit())", "True 1234", None),
    "functions of atexit": (
        "import atexit; _ = atexit.register(print, 'end'); n = atexit._ncallbacks()", "atexit.unregister(print)", "print(atexit._ncallbacks() == n)", "True", None),
    "signal handlers, blocked signals": (
        "import signal; _ = signal.signal(signal.SIGTERM, print), signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])",
        "signal.signal(signal.SIGTERM, signal.SIG_DFL); signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])",
        "print(signal.getsignal(signal.SIGTERM) is print, signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, []))", "True True", None),
    "signals that wait": (
        "import os, signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); os.kill(os.getpid(), signal.SIGTERM)",
        "signal.sigwait([signal.SIGTERM])", "print(int(signal.sigwait([signal.SIGTERM])))", "15", None),
    "interval timers": (
        "import signal; _ = signal.setitimer(signal.ITIMER_REAL, 900, 5)", "signal.alarm(0)",
        "print([round(each, -2) for each in signal.getitimer(0)])", "[900.0, 0.0]", None),
    "timers of timer_create": (
        "import ctypes; c = ctypes.CDLL('librt.so.1'); t = ctypes.c_void_p(); _ = c.timer_create(0, None, ctypes.byref(t))", "x = 1",
        "print(c.timer_getoverrun(t))", "-1", "timers of timer_create are gone: create them again"),
    "time used": (
        "import time\nwhile time.process_time() < 1: pass", "x = 1", "print(time.process_time() < 0.9)", "True", None),
    "process number": ("import os; me = os.getpid()", "x = 1", "print(me == os.getpid(), os.getsid(0) == os.getpgrp() == os.getpid())", "False True", None),
    "threads": (
        "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start()", "x = 1",
        "print(t.is_alive(), threading.active_count())", "False 1", "threads: 1 lost"),
    "locks between threads": (
        "import threading; free, held = threading.Lock(), threading.Lock(); _ = held.acquire()", "free.acquire(); held.release()",
        "print(free.locked(), held.locked())", "False True", None),
    "executors and pools": (
        "from concurrent.futures import ThreadPoolExecutor\nimport threading; e = ThreadPoolExecutor(1); e.submit(abs, 1).result()", "x = 1",
        "print(e.submit(abs, -2).result(20))", "2", "threads: 1 lost"),
    "event loops, tasks of asyncio": (
        "import asyncio; n = 0\nasync def tick():\n    global n\n    while True: n += 1; await asyncio.sleep(0.001)\n"
        "t = asyncio.ensure_future(tick()); await asyncio.sleep(0.05)", "t.cancel(); await asyncio.sleep(0)",
        "k = n\nwhile n < k + 3: await asyncio.sleep(0.001)\nprint(t.done())", "False", None),
    "open files": (
        "import os; open('r', 'w').write('abcdef'); f = open('r', 'rb', 0); d = os.dup(f.fileno()); _ = f.read(1)", "f.read(2)",
        "print(f.read(1), os.read(d, 1))", "b'b' b'c'", None),
    "descriptors of directories and devices": (
        "import os; d = os.open('.', os.O_RDONLY); z = open('/dev/zero', 'rb', 0)", "os.close(d); z.close()",
        "print(type(os.listdir(d)), z.read(1))", "<class 'list'> b'\\x00'", None),
    "locks on files": (
        "import fcntl; f = open('l', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)", "fcntl.lockf(f, fcntl.LOCK_UN)",
        "import os, subprocess as sp, sys; print(sp.run([sys.executable, '-c', 'import fcntl; fcntl.lockf(open(\"l\", \"a\"), 6)'], stderr=-3).returncode)",
        "1", None),
    "sqlite in memory": (
        "import sqlite3; m = sqlite3.connect(':memory:'); _ = m.execute('create table t(x)'); _ = m.execute('insert into t values(7)')",
        "_ = m.execute('delete from t')", "print(m.execute('select x from t').fetchall())", "[(7,)]", None),
    "sqlite on a file": (
        "import sqlite3; db = sqlite3.connect('a.db'); _ = db.execute('pragma journal_mode=wal'); _ = db.execute('create table if not exists t(x)')\n"
        "_ = db.execute('insert into t values(7)'); db.commit()", "_ = db.execute('select x from t').fetchone()", "print(db.execute('select x from t').fetchall())", "[(7,)]", None),
    "pipes and pairs of sockets with both ends in the session": (
        "import os, socket; r, w = os.pipe(); a, b = socket.socketpair(); a.sendall(b'old')", "b.recv(3); os.close(w)",
        "os.write(w, b'new'); print(os.read(r, 9), b.recv(9))", "b'new' b'old'", None),
    "other pipes, sockets, terminals": (
        "import os; fifo = 'f%d' % os.getpid(); os.mkfifo(fifo); r = open(fifo, 'rb', 0, opener=lambda n, f: os.open(n, f | os.O_NONBLOCK))",
        "r.close()", "print(r.read(9))", "b''", "r (FileIO): their connections do not come back"),
    "epoll and eventfd": (
        "import ctypes, os, select; e = ctypes.CDLL(None).eventfd(3, 0); p = select.epoll(); p.register(e, select.EPOLLIN)",
        "os.read(e, 8); p.unregister(e)", "print(p.poll(20) == [(e, 1)], int.from_bytes(os.read(e, 8), 'little'), p.poll(0))", "True 3 []", None),
    "timerfd and inotify": (
        "import ctypes\nclass Timer: pass\nt = Timer(); t.fd = ctypes.CDLL(None).timerfd_create(1, 0)", "x = 1", "print(t.fd > 2)", "True", "t (Timer): timerfd, " + SHARED),
    "shared memory": ("import mmap; m = mmap.mmap(-1, 1); m[0] = 1", "m[0] = 2", "print(m[0])", "2", MAPPED),
    "locks of multiprocessing": (
        "import multiprocessing as mp; l = mp.Lock()", "p = mp.get_context('fork').Process(target=l.acquire); p.start(); p.join()",
        "print(l.acquire(timeout=20)); l.release()", "True", None),
    "child processes": (
        "import subprocess as sp; p = sp.Popen(['sleep', '1000'])", "x = 1",
        "import os\ntry: os.kill(p.pid, 0); print('lives')\nexcept ProcessLookupError: print('gone')", "gone", "killed: sleep 1000"),
    "exit statuses of child processes": (
        "import os, subprocess as sp; p = sp.Popen(['sleep', '1000']); q = sp.Popen(['sh', '-c', 'exit 3']); _ = os.waitid(os.P_PID, q.pid, os.WEXITED | os.WNOWAIT)",
        "x = 1", "print(p.wait(20), q.wait(20))", "-9 3", "killed: sleep 1000"),
    "memory with MADV_WIPEONFORK": (
        "import mmap; m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(18); m[0] = 1", "x = 1", "print(m[0])", "0", None),
}
NOT_IN_CONTAINERS = ("locks of multiprocessing", "exit statuses of child processes", "timerfd and inotify", "epoll and eventfd", "memory with MADV_WIPEONFORK")


class Parts(Case):
    def test_each_part_is_documented_and_tried(self):
        self.assertEqual(sorted(DOCUMENTED), sorted(PARTS))
        for part, how in DOCUMENTED.items():
            with self.subTest(part):
                self.assertIn(how, ("copied", "made anew", "named"))
                if how == "named":
                    self.assertIsNotNone(PARTS[part][-1])

    def play(self, server, way, before, dying, after):
        """The last result, and what the calls that took the state back have said."""
        self.assert_ok(server.python(before))
        if way == "crash":
            line = server.python(dying + DIE).status.line
            result = server.python(after, timeout_s=60)
            return result, line + result.status.line
        if way == "undo":
            self.assertFalse(server.python(dying).is_error)
        result = server.python(after, timeout_s=60, **{way: True})
        return result, result.status.line

    def test_parts(self):
        for way in WAYS:
            for part, (*calls, output, names) in PARTS.items():
                if CONTAINER and part in NOT_IN_CONTAINERS:
                    continue
                with self.subTest(part, way=way), Server() as server:
                    result, line = self.play(server, way, *calls)
                    output, names = IN_BRANCHES.get(part, (output, names)) if way == "branch" else (output, names)
                    self.assert_prints(result, output)
                    self.assertIn(names or "", line)
                    if names is None:
                        self.assertNotRegex(line, r"\| (note|threads|processes|killed):")


if __name__ == "__main__":
    unittest.main()
