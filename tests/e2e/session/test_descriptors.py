"""Sleeping states hold nothing that the session closes, and have files open at positions of their own.

Each row: the calls, one after the other, and what the last one prints. They are run with three states of undo and some
named ones suspended, with one process and with several, whose copies take longer to make.
"""
import unittest

from client import CONTAINER, Case, Server

DIE = "import os; os.kill(os.getpid(), 9)"
THREADS = "import threading; stop = threading.Event()\n" \
          "for _ in range(3): threading.Thread(target=stop.wait, daemon=True).start()"

CLOSED = {
    "a program waits for the end of its input": (
        "import subprocess as sp; p = sp.Popen(['cat'], stdin=sp.PIPE, stdout=sp.PIPE)", "1", "print(p.communicate(b'hi')[0])",
        "b'hi'"),
    "both ends of a pipe": (
        "import os; r, w = os.pipe()", "os.write(w, b'x')", "os.close(w); print(os.read(r, 9), os.read(r, 9))", "b'x' b''"),
    "a pipe with a name": (
        "import os; os.mkfifo('fifo') if not os.path.exists('fifo') else None; r = os.open('fifo', os.O_RDONLY | os.O_NONBLOCK)\n"
        "w = os.open('fifo', os.O_WRONLY)", "os.set_blocking(r, True)", "os.close(w); print(os.read(r, 9))", "b''"),
    "a connection": (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); d, _ = s.accept()",
        "c.sendall(b'x'); print(d.recv(9))", "c.close(); d.settimeout(5); print(d.recv(9))", "b''"),
    "a pair of sockets": (
        "import socket; a, b = socket.socketpair()", "a.sendall(b'x'); b.recv(9)", "a.close(); b.settimeout(5); print(b.recv(9))",
        "b''"),
    "a port": (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); port = s.getsockname()[1]", "1",
        "s.close(); s = socket.socket(); s.bind(('127.0.0.1', port)); print('bound')", "bound"),
    "an abstract address": (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0sandpiper-test'); s.listen()", "1",
        "s.close(); s = socket.socket(socket.AF_UNIX); s.bind('\\0sandpiper-test'); s.close(); print('bound')", "bound"),
    "datagrams": (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); port = s.getsockname()[1]", "1",
        "s.close(); s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', port)); print('bound')", "bound"),
    "a lock of an open file": (
        "import fcntl; f = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)", "1",
        "f.close(); f = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')", "locked"),
    "a terminal": (
        "import os; m, s = os.openpty()", "1", "os.close(s)\ntry: print(os.read(m, 9))\nexcept OSError as e: print(e.errno)", "5"),
    "a program that was being written": (
        "import os, shutil, subprocess; f = open('prog', 'wb'); f.write(open(shutil.which('true'), 'rb').read()); os.chmod('prog', 0o755)",
        "f.flush()", "f.close(); print(subprocess.run(['./prog']).returncode)", "0"),
}
NOT_IN_CONTAINERS = ("a connection", "a port", "an abstract address", "datagrams", "a terminal")  # refused or absent there
SEEN = "from multiprocessing import Pipe; near, far = Pipe()\n" \
       "import subprocess as sp; p = sp.Popen(['cat'], stdin=sp.PIPE)\n" \
       "import socket; s = socket.create_server(('127.0.0.1', 0)); held = {'c': [socket.create_connection(s.getsockname())]}"


class Closed(Case):
    def play(self, before):
        with Server() as server:
            for call in before:
                self.assert_ok(server.python(call))
            for n in range(8):
                self.assert_ok(server.python(str(n), checkpoint=f"n{n}"))
            for name, (*calls, expected) in CLOSED.items():
                if CONTAINER and name in NOT_IN_CONTAINERS:
                    continue
                with self.subTest(name):
                    self.assert_ok(server.python(calls[0], checkpoint=name.replace(" ", "-")))
                    for call in calls[1:]:
                        result = server.python(call, timeout_s=20)
                    self.assert_prints(result, expected)

    def test_what_the_session_closes_is_closed(self):
        self.play(())

    def test_in_a_process_with_threads(self):
        self.play((THREADS,))

    def test_a_branch_holds_nothing_of_the_session(self):
        with Server("--wait", "20") as server:
            self.assert_ok(server.python("import subprocess as sp, time; p = sp.Popen(['cat'], stdin=sp.PIPE, stdout=sp.PIPE)"))
            branch = server.python("open('go', 'w')\nwhile True: time.sleep(0.01)", branch=True, wait_s=0.5)
            self.assertIn("running", branch.text)
            self.assert_prints(server.python("print(p.communicate(b'hi')[0])", timeout_s=20), "b'hi'")


class Positions(Case):
    READ = "open('big', 'w').write(''.join(f'line {n}\\n' for n in range(60000))); f = open('big'); _ = next(f)"
    MORE = "for _ in range(30000): line = next(f)\nprint(line, end='')"

    def test_undo_reads_on_from_where_the_state_was(self):
        for before in "1", THREADS:
            with self.subTest(before), Server() as server:
                self.assert_ok(server.python(before))
                self.assert_ok(server.python(self.READ))
                self.assert_prints(server.python(self.MORE), "line 30000")
                self.assert_prints(server.python(self.MORE, undo=True), "line 30000")
                self.assert_prints(server.python("print(next(f), end='')", branch=True), "line 30001")
                self.assert_prints(server.python("print(next(f), end='')"), "line 30001")
                server.python("for _ in range(100): next(f)\n" + DIE)
                self.assert_prints(server.python("print(next(f), end='')"), "line 30002")

    def test_how_a_file_was_open(self):
        """Flags, duplicates, what a child inherits, a file without a name, one in memory, and one that is not for reading."""
        with Server() as server:
            self.assert_ok(server.python(
                "import os, tempfile\na = open('log', 'a'); a.write('one\\n'); a.flush(); b = os.dup(a.fileno())\n"
                "t = tempfile.TemporaryFile(); t.write(b'abcdef'); t.seek(2)\n"
                "w = os.open('w', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o200); os.write(w, b'12')\n"
                "m = os.open('log', os.O_RDONLY); os.set_inheritable(m, True); d = os.open('.', os.O_RDONLY)"))
            server.python("a.write('two\\n'); a.flush(); t.seek(5); os.write(w, b'345')\n" + DIE)
            self.assert_prints(server.python(
                "a.write('three\\n'); a.flush(); os.write(b, b'four\\n'); print(open('log').read().split(), t.read(), os.write(w, b'9'))\n"
                "os.chmod('w', 0o600); print(open('w').read(), os.get_inheritable(m), os.get_inheritable(w), len(os.listdir(d)) > 1)"),
                "['one', 'two', 'three', 'four'] b'cdef' 1\n12945 True False True")

    def test_duplicates_share_a_position(self):
        with Server() as server:
            self.assert_ok(server.python("import os; open('r', 'w').write('abcdef'); r = os.open('r', 0); s = os.dup(r); o = os.open('r', 0)"))
            server.python(DIE)
            self.assert_prints(server.python("print(os.read(r, 1), os.read(s, 1), os.read(o, 1))"), "b'a' b'b' b'a'")

    def test_as_many_files_as_can_be_open(self):
        with Server() as server:
            self.assert_ok(server.python(
                "fs = []\ntry:\n    while True: fs.append(open(f'f{len(fs)}', 'w+'))\nexcept OSError: pass\nfor f in fs: f.write('ab'); f.seek(1)"))
            server.python("for f in fs: f.seek(0)\n" + DIE)
            result = server.python("print(len(fs) > 400, set(f.read() for f in fs))")
            self.assert_prints(result, "True {'b'}")
            self.assertNotIn("note", result.status.line)

    def test_many_files(self):
        with Server() as server:
            self.assert_ok(server.python("fs = [open(f'f{n}', 'w+') for n in range(300)]\nfor n, f in enumerate(fs): f.write(str(n)); f.flush()"))
            self.assert_ok(server.python("for f in fs: f.write('x'); f.flush()"))
            self.assert_ok(server.python("for f in fs: f.seek(0)", undo=True))
            self.assert_prints(server.python("print(all(f.read() == str(n) for n, f in enumerate(fs)))"), "True")


class Named(Case):
    def test_variables_whose_connections_are_gone(self):
        with Server() as server:
            self.assert_ok(server.python("import subprocess as sp"))
            self.assert_ok(server.python(SEEN))
            server.python(DIE)
            line = server.python("1").status.line
            self.assertIn("p (subprocess.Popen), s (socket.socket), held (dict): their connections do not come back", line)
            self.assertNotIn("near", line)
            self.assert_prints(server.python("near.send(5); print(far.recv(), p.poll())"), "5 -9")
            self.assert_prints(server.python("print(held['c'][0].recv(5))\ntry: p.stdin.write(b'x'); p.stdin.flush()\n"
                                             "except BrokenPipeError: print('broken')"), "b''\nbroken")
            self.assertNotIn("do not come back", server.python("1").status.line)

    def test_a_pool_that_has_ended_needs_no_connection(self):
        with Server() as server:
            self.assert_ok(server.python("from multiprocessing import Pool\nwith Pool(2) as ended: ended.map(abs, [1])\n"
                                         "closed = Pool(1); closed.map(abs, [1]); closed.close(); closed.join()"))
            self.assert_ok(server.python("x = 1"))
            self.assertNotIn("do not come back", server.python("0", undo=True).status.line)

    def test_names_that_are_no_text(self):
        with Server() as server:
            self.assert_ok(server.python(
                "import socket, subprocess as sp\na, b = socket.socketpair(); p = sp.Popen(['cat'], stdin=b); b.close(); globals()[5] = a\n"
                "odd = type('Odd', (), {'__module__': 7})(); odd.fd = a.fileno()"))
            server.python(DIE)
            self.assertIn("a (socket.socket), odd (Odd): their connections do not come back", server.python("1").status.line)

    def test_nobody_is_named_who_has_only_files(self):
        with Server() as server:
            self.assert_ok(server.python("f = open('f', 'w')"))
            server.python(DIE)
            self.assertNotIn("connections", server.python("f.write('x')").status.line)

    def test_pairs_that_were_made_one_after_the_other(self):
        with Server() as server:
            self.assert_ok(server.python("import socket\nends = [end for _ in range(4) for end in socket.socketpair()]"))
            server.python(DIE)
            self.assert_prints(server.python(
                "for n, end in enumerate(ends): end.send(b'%d' % n)\nprint(b''.join(end.recv(9) for end in ends))"), "b'10325476'")

    def test_a_pair_that_holds_more_than_fits_at_once(self):
        """The state comes back without it."""
        with Server() as server:
            self.assert_ok(server.python(
                "import socket; a, b = socket.socketpair(); a.setblocking(False)\n"
                "try:\n    while True: a.send(b'x' * 100000)\nexcept BlockingIOError: a.setblocking(True)"))
            server.python(DIE)
            result = server.python("print(b.recv(9))", timeout_s=20)
            self.assert_prints(result, "b''")
            self.assertIn("a (socket.socket), b (socket.socket): their connections do not come back", result.status.line)

    def test_two_connections_to_an_own_server_are_no_pair(self):
        with Server() as server:
            self.assert_ok(server.python(
                "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); cs = [socket.socket(socket.AF_UNIX) for _ in 'ab']\n"
                "for c in cs: c.connect('own')\nds = [s.accept()[0] for _ in cs]"))
            server.python(DIE)
            result = server.python("print([c.recv(9) for c in cs])", timeout_s=20)
            self.assert_prints(result, "[b'', b'']")
            self.assertIn("cs (list)", result.status.line)

    def test_an_event_loop_goes_on(self):
        """Its epoll instance and its own pair are renewed in each state, so that nothing of a later call is in them."""
        with Server() as server:
            self.assert_ok(server.python(
                "import asyncio, threading; n = 0\nasync def tick():\n    global n\n    while True: n += 1; await asyncio.sleep(0.005)\n"
                "task = asyncio.ensure_future(tick()); loop = asyncio.get_running_loop(); await asyncio.sleep(0.05)"))
            self.assert_ok(server.python("loop.remove_reader(loop._ssock.fileno())"))
            self.assert_prints(server.python(
                "k = n\nwhile n < k + 3: await asyncio.sleep(0.005)\nthreading.Timer(0.1, loop.call_soon_threadsafe, [print, 'woken']).start()\n"
                "event = asyncio.Event(); threading.Timer(0.2, loop.call_soon_threadsafe, [event.set]).start(); _ = await event.wait()",
                undo=True, timeout_s=20), "woken")


class Numbers(Case):
    def test_any_number_of_open_files(self):
        """The driver's own numbers belong to nobody else: what uses them late finds none of the code's there."""
        with Server() as server:
            for count in range(50, 81):
                self.assert_ok(server.python(f"fs = [open('/dev/zero', 'rb', 0) for _ in range({count})]"))
            self.assert_ok(server.python("x = 1; open('kept', 'w').write('1')"))
            self.assert_prints(server.python(
                "import multiprocessing as mp\ndef f(x): return x + 1\nwith mp.get_context('spawn').Pool(1) as pool: print(pool.map(f, [1]))"),
                "[2]")
            self.assert_ok(server.python("x = 2; open('kept', 'w').write('2')"))
            self.assert_prints(server.python("print(x, open('kept').read(), set(f.read(1) for f in fs))", undo=True), "1 1 {b'\\x00'}")


if __name__ == "__main__":
    unittest.main()
