"""The threads, loops, connections and libraries that still work after a failover.

Each row: the code before, the code of the dying call, the code afterwards and its expected output. Rows cover both what
is kept and what is lost, as the documents describe them.
"""
import subprocess
import unittest

from client import CONTAINER, Case, Server, once

PYTHON = "/usr/bin/python3"
SHARED = "which undo and restore do not take back, and which a branch shares"
DIE = "\nimport os; os.kill(os.getpid(), 9)"

KEPT = {
    "asyncio tasks run on with the next await": (
        "import asyncio\nn = [0]\nasync def tick():\n    while True: n[0] += 1; await asyncio.sleep(0.005)\n"
        "task = asyncio.ensure_future(tick())\nawait asyncio.sleep(0.05)",
        "n[0] = 10**6", "k = n[0]\nwhile n[0] < k + 3: await asyncio.sleep(0.005)\nprint(k < 10**6, task.done())",
        "True False"),
    "asyncio queues and threads for it": (
        "import asyncio\nq = asyncio.Queue()\nasync def put(): await q.put(5)\nawait put()",
        "await q.get()", "print(await q.get(), await asyncio.to_thread(abs, -6))", "5 6"),
    "sqlite between transactions": (
        "import sqlite3; db = sqlite3.connect('a.db'); db.execute('create table t(x)'); db.commit()",
        "db.execute('insert into t values(2)')",
        "db.execute('insert into t values(3)'); db.commit()\n"
        "print(sqlite3.connect('a.db').execute('select x from t').fetchall(), "
        "db.execute('pragma integrity_check').fetchall())", "[(3,)] [('ok',)]"),
    "sqlite in a transaction that the call left alone": (
        "import sqlite3; db = sqlite3.connect('b.db'); db.execute('create table t(x)'); "
        "db.execute('insert into t values(2)')", "",
        "db.commit(); print(sqlite3.connect('b.db').execute('select x from t').fetchall())", "[(2,)]"),
    "sqlite with a write-ahead log": (
        "import sqlite3; db = sqlite3.connect('c.db'); db.execute('pragma journal_mode=wal'); "
        "db.execute('create table t(x)'); db.commit()", "db.execute('insert into t values(1)'); db.commit()",
        "db.execute('insert into t values(3)'); db.commit(); "
        "print(sqlite3.connect('c.db').execute('select x from t').fetchall())", "[(1,), (3,)]"),
    "sqlite in memory": (
        "import sqlite3; db = sqlite3.connect(':memory:'); db.execute('create table t(x)'); "
        "db.execute('insert into t values(7)')", "db.execute('delete from t')",
        "print(db.execute('select x from t').fetchall())", "[(7,)]"),
    "pairs of sockets, with what is in them, and pipes": (
        "import os, socket; a, b = socket.socketpair(); a.sendall(b'old'); r, w = os.pipe()", "b.recv(3); os.write(w, b'lost')",
        "os.write(w, b'new'); print(b.recv(3), os.read(r, 9))", "b'old' b'new'"),
    "positions in files": (
        "open('r', 'w').write('abcdef'); f = open('r', 'rb', 0); f.read(1)", "f.read(2)", "print(f.read(1))", "b'b'"),
    "interval timers": (
        "import signal\n_ = signal.signal(signal.SIGALRM, lambda *_: print('alarm')); _ = signal.setitimer(signal.ITIMER_REAL, 900, 5)\n"
        "_ = signal.setitimer(signal.ITIMER_PROF, 700)", "signal.setitimer(signal.ITIMER_REAL, 0); signal.alarm(90)",
        "print([[round(each, -2) for each in signal.getitimer(which)] for which in (0, 1, 2)])\n"
        "_ = signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()", "[[900.0, 0.0], [0.0, 0.0], [700.0, 0.0]]\nalarm"),
    "signals that it blocks and that have come": (
        "import os, signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); os.kill(os.getpid(), signal.SIGTERM)",
        "signal.sigwait([signal.SIGTERM])", "print(signal.sigpending(), int(signal.sigwait([signal.SIGTERM])))",
        "{<Signals.SIGTERM: 15>} 15"),
    "locks of multiprocessing": (
        "import multiprocessing as mp\nl, mine, pool = mp.Lock(), mp.Lock(), mp.Pool(1); mine.acquire(); pool.map(abs, [-1])",
        "p = mp.get_context('fork').Process(target=l.acquire); p.start(); p.join()",
        "print(l.acquire(timeout=20), mine.acquire(timeout=0.01), pool.map(abs, [-1]))", "True False [1]"),
    "a counter between threads": (
        "import ctypes, os; e = ctypes.CDLL(None).eventfd(3, 0)", "os.read(e, 8)", "print(int.from_bytes(os.read(e, 8), 'little'))", "3"),
    "generators and what a file has not written yet": (
        "g = iter(range(9)); next(g); f = open('w.txt', 'w'); f.write('one')", "next(g); f.write('two')",
        "f.close(); print(next(g), open('w.txt').read())", "1 one"),
    "environment, mask, logging": (
        "import logging, os; os.environ['A'] = '1'; os.umask(0o77); logging.basicConfig(filename='l.log', level=20)",
        "os.environ['A'] = '2'; os.umask(0); logging.info('dead')",
        "logging.info('alive'); print(os.environ['A'], oct(os.umask(0o77)), open('l.log').read().split())",
        "1 0o77 ['INFO:root:dead', 'INFO:root:alive']"),
}
LOST = {
    "threads": (
        "import threading; stop = threading.Event(); t = threading.Thread(target=stop.wait); t.start()", "",
        "print(t.is_alive(), threading.active_count()); t.join(1)", "False 1"),
    "a lock that a thread held": (
        "import threading; lock, got, stop = threading.Lock(), threading.Event(), threading.Event()\n"
        "def hold():\n    with lock: got.set(); stop.wait()\n"
        "threading.Thread(target=hold).start(); got.wait()", "", "print(lock.acquire(timeout=0.1))", "False"),
    "the fork server, but not a new one": (
        "import multiprocessing as mp; way = mp.get_context('forkserver')\n"
        "pool = way.Pool(1); pool.map(abs, [-1])", "",
        "new = way.Pool(1); print(new.map(abs, [-3])); new.terminate()", "[3]"),
    "child processes": (
        "import subprocess; p = subprocess.Popen(['sleep', '100'])", "",
        "import os\ntry: os.kill(p.pid, 0); print('lives')\nexcept ProcessLookupError: print('gone')", "gone"),
    "connections": (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
        "d, _ = s.accept()", "c.sendall(b'old'); d.recv(3)", "print(c.recv(3), d.recv(3))", "b'' b''"),
    "a transaction that the dead call ended": (
        "import sqlite3; db = sqlite3.connect('e.db'); db.execute('create table t(x)'); "
        "db.execute('insert into t values(2)')", "db.commit()",
        "try: db.commit()\nexcept sqlite3.ProgrammingError: pass\n"
        "again = sqlite3.connect('e.db')\nprint(again.execute('select x from t').fetchall(), "
        "again.execute('pragma integrity_check').fetchall())", "[(2,)] [('ok',)]"),
}
NAMED = {  # the code before; what its first results name
    "memory that was mapped": (
        "import mmap, os; f = open('shared', 'w+b'); f.truncate(9); held = {'m': [mmap.mmap(f.fileno(), 9)]}; n = memoryview(held['m'][0])\n"
        "read = mmap.mmap(f.fileno(), 9, access=mmap.ACCESS_READ); copied = mmap.mmap(f.fileno(), 9, access=mmap.ACCESS_COPY)\n"
        "private = mmap.mmap(-1, 9, flags=mmap.MAP_PRIVATE); anonymous = mmap.mmap(-1, 9)",
        "held (dict), n (memoryview), anonymous (mmap.mmap): shared memory, " + SHARED),
    "memory of multiprocessing": (
        "import multiprocessing as mp\nfrom multiprocessing.shared_memory import SharedMemory\n"
        "a = mp.Array('i', 3); v = mp.Value('i'); e = mp.Event(); q = mp.Queue(); s = SharedMemory(create=True, size=9)",
        "a (multiprocessing.sharedctypes.SynchronizedArray), v (multiprocessing.sharedctypes.Synchronized), "
        "s (multiprocessing.shared_memory.SharedMemory): shared memory, " + SHARED),
    "a timer of a library": ("import ctypes; t = ctypes.c_void_p(); _ = ctypes.CDLL('librt.so.1').timer_create(0, None, ctypes.byref(t))",
                             "timers of timer_create are gone: create them again"),
    "a timer with a descriptor": (
        "import ctypes\nclass Timer: fd = -1\nt = Timer(); t.fd = ctypes.CDLL(None).timerfd_create(1, 0)", "t (Timer): timerfd, " + SHARED),
}
NUMERIC = {
    "numpy and its threads": (
        "numpy", "import numpy as np; a = np.random.rand(400, 400); b = a @ a", "a @ a; a[:] = 0",
        "print(np.allclose(a @ a, b), np.linalg.svd(a[:50, :50])[1].shape)", "True (50,)"),
    "pandas": (
        "pandas", "import pandas as pd; df = pd.DataFrame({'a': range(4), 'b': list('xyxy')})", "del df['a']",
        "print(df.groupby('b').a.sum().to_dict())", "{'x': 2, 'y': 4}"),
    "matplotlib": (
        "matplotlib", "import matplotlib.pyplot as plt; fig, ax = plt.subplots(); _ = ax.plot([1, 2])", "ax.clear()",
        "_ = ax.plot([3, 4]); fig.savefig('figure.png'); print(len(ax.lines))", "2"),
}


POOLS = {  # the code before; what uses the pool, and prints 2
    "an executor's threads, and what waits for them": (
        "from concurrent.futures import ThreadPoolExecutor as Executor; import threading; e = Executor(1); gate = threading.Event()\n"
        "e.submit(gate.wait); late = e.submit(abs, -2)", "print(late.result(20))"),
    "the threads of an event loop": ("import asyncio; await asyncio.to_thread(abs, -1)", "print(await asyncio.to_thread(abs, -2))"),
    "the thread that waits for a process of asyncio": (
        "import asyncio; pr = await asyncio.create_subprocess_exec('sleep', '600')", "print(2 if await asyncio.wait_for(pr.wait(), 20) == -9 else 0)"),
    "a pool of threads": ("from multiprocessing.pool import ThreadPool; p = ThreadPool(2); p.map(abs, [-1])", "print(p.map(abs, [-2])[0])"),
    "a pool of processes": ("import multiprocessing as mp; p = mp.Pool(2); p.map(abs, [-1])", "print(p.map(abs, [-2])[0])"),
    "processes that a signal ends": (
        "import multiprocessing as mp, os, signal, time; _ = signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); p = mp.Pool(1)",
        "p.map(abs, [-1]); r = p.apply_async(time.sleep, (600,)); time.sleep(0.2); p.terminate(); p.join(); p = mp.Pool(1); print(2)"),
    "an executor's processes": (
        "from concurrent.futures import ProcessPoolExecutor as Executor; held = {'e': Executor(1)}; held['e'].submit(abs, -1).result()",
        "print(held['e'].submit(abs, -2).result(20))"),
    "what waits for a pool's thread": (
        "from multiprocessing.pool import ThreadPool; import threading, time; p = ThreadPool(1); gate = threading.Event()\n"
        "p.apply_async(gate.wait); late = p.apply_async(abs, (-2,)); both = p.map_async(abs, (-1, -2), 1); time.sleep(0.3)",
        "print(late.get(20) if both.get(20) == [1, 2] else both)"),
    "what workers were doing, which fails": (
        "import multiprocessing as mp, multiprocessing.pool, threading, time\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n"
        "p, t, e, f = mp.Pool(1), multiprocessing.pool.ThreadPool(2), ProcessPoolExecutor(1), ThreadPoolExecutor(1)\nwait = threading.Event().wait\n"
        "busy = [p.apply_async(time.sleep, (600,)).get, p.map_async(time.sleep, [600] * 9).get, p.imap(time.sleep, [600] * 9).next, t.apply_async(wait).get,\n"
        "    t.imap_unordered(time.sleep, [600] * 9).next, e.submit(time.sleep, 600).result, f.submit(wait).result]\nt.map_async(wait, [600] * 9); time.sleep(0.3)\n"
        "def gone(get):\n    try: get(20)\n    except RuntimeError as error: return 'is gone' in str(error)",
        "print(2 if all(map(gone, busy)) else [*map(gone, busy)])"),
    "the thread of a queue between processes": (
        "import multiprocessing as mp; q = mp.Queue(); q.put(1); q.get()", "q.put(2); print(q.get(timeout=20))"),
    "gevent's, whose threads are not Python's": (
        "import sys, types; m = sys.modules['gevent'] = types.ModuleType('gevent'); m.made = 0\ndef reinit(): m.made = 2\nm.reinit = reinit",
        "print(m.made); m.made = 0"),
}
THREADED = {  # native threads: the code before; what it prints
    "sklearn.cluster": ("import numpy as np; from sklearn.cluster import KMeans; X = np.random.RandomState(0).rand(3000, 4)\n"
                        "def f(): return KMeans(3, n_init=1, random_state=0).fit(X).cluster_centers_.shape", "(3, 4)"),
    "sklearn.ensemble": ("import numpy as np; from sklearn.ensemble import HistGradientBoostingRegressor as H\n"
                         "X = np.random.RandomState(0).rand(3000, 4)\n"
                         "def f(): return H(max_iter=3).fit(X, X[:, 0]).n_iter_", "3"),
}


class Failover(Case):
    def play(self, server, before, dying, after, expected):
        self.assert_ok(server.python(before, reset=True))
        self.assertEqual(server.python(dying + DIE).status.state, "restored to the state before this call")
        self.assert_prints(server.python(after, timeout_s=20), expected)

    def play_all(self, rows):
        with Server() as server:
            self.assert_ok(server.python("1"))
            for name, row in rows.items():
                with self.subTest(name):
                    self.play(server, *row)

    def test_what_no_state_has_for_itself_is_named(self):
        """Once, by the first call of what has come back and by each branch."""
        with Server() as server:
            for name, (before, expected) in NAMED.items():
                with self.subTest(name):
                    self.assert_ok(server.python(before, reset=True))
                    self.assertIn(f'note: "{expected}"', server.python("1", branch=True).status.line)
                    self.assertNotIn("note", server.python("1").status.line)
                    server.python(DIE)
                    self.assertIn(f'note: "{expected}"', server.python("1").status.line)
                    self.assertNotIn("note", server.python("2").status.line)
                    self.assertIn(f'"{expected}"', server.python("1", undo=True).status.line)

    @once
    def test_a_recursive_lock_of_a_process_that_is_gone(self):
        with Server() as server:
            self.assert_ok(server.python("import multiprocessing as mp; l = mp.RLock()"))
            server.python("p = mp.get_context('fork').Process(target=l.acquire); p.start(); p.join()" + DIE)
            self.assertIn("l (multiprocessing.synchronize.RLock): locked by a process or thread that is gone; make it anew",
                          server.python("1").status.line)

    @unittest.skipIf(CONTAINER, "multiprocessing has no locks there")
    def test_a_manager_is_named_where_it_is_gone(self):
        with Server() as server:
            self.assert_ok(server.python("import multiprocessing as mp; m = mp.Manager(); d = m.dict(a=1)"))
            self.assertNotIn("note", server.python("print(d['a'])", branch=True).status.line)
            server.python(DIE)
            result = server.python("d['a']")
            self.assertIn('note: "m (multiprocessing.managers.SyncManager), d (multiprocessing.managers.DictProxy): the process of the manager is gone',
                          result.status.line)
            self.assertIn("Hint: the process of this manager or listener is gone", result.text)

    def test_kept_after_failover(self):
        self.play_all(KEPT)

    def test_lost_after_failover(self):
        self.play_all(LOST)

    @once
    def test_numeric(self):
        for module, *_ in NUMERIC.values():
            if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode:
                self.skipTest(f"{module}: {PYTHON} has none")
        with Server("--python", PYTHON) as server:
            self.assert_ok(server.python("1"))
            for name, (_, *row) in NUMERIC.items():
                with self.subTest(name):
                    self.play(server, *row)


    def in_each_way(self, server, before, use, expected):
        """Used, and used again in a branch, after an undo and after a crash."""
        self.assert_ok(server.python(before, reset=True, timeout_s=60))
        self.assert_ok(server.python("x = 1"))
        self.assert_prints(server.python(use, timeout_s=60, branch=True), expected)
        self.assert_prints(server.python(use, timeout_s=60, undo=True), expected)
        server.python("x = 2" + DIE)
        self.assert_prints(server.python(use, timeout_s=60), expected)

    def test_pools_have_workers_again(self):
        with Server() as server:
            for name, row in POOLS.items():
                with self.subTest(name):
                    self.in_each_way(server, *row, "2")

    def test_an_interrupt_before_the_code_begins_ends_the_call(self):
        """It meets a pool that comes back. The code must not run after its time, or once nobody waits for it."""
        with Server("--wait", "25") as server:
            self.assert_ok(server.python(
                "from multiprocessing.pool import ThreadPool; import time; slow = False\nclass Slow(ThreadPool):\n"
                "    def __init__(self, *a):\n        if slow: time.sleep(600)\n        super().__init__(*a)\np = Slow(1)"))
            self.assert_ok(server.python("slow = True"))
            server.python("x = 2" + DIE)
            result = server.python("open('ran', 'w').close()", timeout_s=1)
            self.assertEqual(result.status.kind, "timeout", result.text)
            self.assertIn("the code did not begin", result.status.line)
            self.assertNotIn("send timeout_s", result.status.line)
            self.assert_prints(server.python("import os; print(os.path.exists('ran'))"), "False")

    def test_libraries_do_not_warn_of_our_forks(self):
        with Server() as server:
            self.assert_ok(server.python("import os, threading, warnings; stop = threading.Event(); threading.Thread(target=stop.wait).start()"))
            self.assert_ok(server.python("os.register_at_fork(before=lambda: warnings.warn('forked', RuntimeWarning))"))
            self.assertNotIn("forked", server.python("n = len(warnings.filters)").text)
            result = server.python("print(n == len(warnings.filters)); pid = os.fork()\nif not pid: os._exit(0)\n_ = os.waitpid(pid, 0)")
            self.assertIn("forked", result.text)
            self.assertIn("True", result.text)

    @once
    def test_joblibs_tracker_is_started_again(self):
        """It would warn that the process died unexpectedly."""
        if subprocess.run([PYTHON, "-c", "import joblib"], capture_output=True).returncode:
            self.skipTest(f"joblib: {PYTHON} has none")
        use = "print(joblib.Parallel(2)(joblib.delayed(abs)(n) for n in (-4, 9)))"
        with Server("--python", PYTHON) as server:
            self.in_each_way(server, "import joblib; " + use, use, "[4, 9]")
            self.in_each_way(server, "from joblib.externals.loky import get_reusable_executor; e = get_reusable_executor(1); e.submit(abs, 1).result()",
                             "print(e.submit(abs, -2).result(20))", "2")

    @once
    def test_native_threads(self):
        for module in THREADED:
            if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode:
                self.skipTest(f"{module}: {PYTHON} has none")
        with Server("--python", PYTHON) as server:
            for name, (before, expected) in THREADED.items():
                with self.subTest(name):
                    self.in_each_way(server, before + "\nf()", "print(f())", expected)


if __name__ == "__main__":
    unittest.main()
