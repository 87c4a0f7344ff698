"""How cells end: errors, exits, interrupts, and hostile code that must not take the driver along."""
import os
import time

from base import GuestCase, each_python


class Outcomes(GuestCase):
    def traceback(self, code):
        reply = self.session.run(code)
        self.assertEqual(reply.status, "error", reply)
        self.assertNotIn("guest/", reply.traceback)
        return reply.traceback

    def test_error_with_place(self):
        reply = self.session.run("x = 1\nd = {}\nd['k']")
        self.assertEqual((reply.error_type, reply.error_message), ("KeyError", "'k'"))
        self.assertEqual((reply.error_cell, reply.error_line), ("1", "3"))
        self.assertIn('  File "<cell 1>", line 3, in <module>\n    d[\'k\']\n', reply.traceback)
        self.assertTrue(reply.traceback.startswith("Traceback (most recent call last):\n"))

    def test_functions_of_earlier_cells(self):
        self.session.run("def f():\n    return 1 / 0")
        text = self.traceback("f()")
        self.assertIn('File "<cell 2>", line 1, in <module>\n    f()', text)
        self.assertIn('File "<cell 1>", line 2, in f\n    return 1 / 0', text)

    def test_carets(self):
        if self.version() < (3, 11):
            self.skipTest("carets came with 3.11")
        self.assertIn("    1/0\n    ~^~\n", self.traceback("x = 0\n1/0"))

    def test_chained_and_noted(self):
        text = self.traceback("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e")
        self.assertIn("direct cause of the following exception", text)
        if self.version() >= (3, 11):
            text = self.traceback("e = ValueError('a')\ne.add_note('look here')\nraise e")
            self.assertIn("ValueError: a\nlook here\n", text)
            text = self.traceback("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])")
            self.assertIn("Exception Group Traceback", text)

    def test_did_you_mean(self):
        if self.version() < (3, 10):
            self.skipTest("suggestions came with 3.10")
        self.assertIn("Did you mean: 'value'?", self.traceback("value = 1\nvalu"))
        self.assertIn("Did you mean: 'append'?", self.traceback("[].apend"))

    def test_syntax_error(self):
        text = self.traceback("x = = 1")
        self.assertTrue(text.startswith('  File "<cell 1>", line 1\n    x = = 1\n'), text)
        self.assertEqual(self.session.run("y = = 1").error_line, "1")

    def test_await_errors_show_the_cell_only(self):
        text = self.traceback("import asyncio\nawait asyncio.sleep(0)\n1/0")
        self.assertEqual(text.count("  File "), 1, text)

    def test_recursion_is_collapsed(self):
        text = self.traceback("def f(): return f()\nf()")
        self.assertIn("Previous line repeated", text)
        self.assertLess(len(text), 2000)

    def test_recursion_through_several_functions_is_collapsed(self):
        text = self.traceback("def a(): b()\ndef b(): c()\ndef c(): a()\ndef d(): a()\nd()")
        self.assertRegex(text, r"\n  \[Previous 3 frames repeated \d{3} more times\]\n")
        self.assertLess(len(text), 2000)
        self.assertEqual(text.count(", in d\n"), 1)
        rounds = "def a(n):\n    if n: b(n)\n    1 / 0\ndef b(n): a(n - 1)\na(%d)"
        self.assertNotIn("repeated", self.traceback(rounds % 3))
        self.assertIn("Previous 2 frames repeated 7 more times", self.traceback(rounds % 10))

    def test_huge_messages_are_bounded(self):
        reply = self.session.run("raise ValueError('x' * 10**7)")
        self.assertLess(len(reply.traceback) + len(reply.error_message), 20000)
        self.assertEqual(reply.status, "error")

    def test_unprintable_exceptions(self):
        code = "class E(BaseException):\n    def __str__(self): raise SystemExit\nraise E"
        self.assertEqual(self.session.run(code).status, "error")
        self.assertEqual(self.session.run("1").value, "1")

    def test_odd_code(self):
        for code in ("x = '\0'", "(" * 3000, "x = 1\n  y = 2", "\ud800"):
            self.assertEqual(self.session.run(code).status, "error")

    def test_exit(self):
        for code, expected in (("exit(3)", "3"), ("import sys; sys.exit()", "0"), ("raise SystemExit(True)", "1")):
            reply = self.session.run(code)
            self.assertEqual((reply.status, reply.exit_code), ("exit", expected))
        reply = self.session.run("import sys; sys.exit('why')")
        self.assertEqual((reply.exit_code, reply.err), ("1", "why\n"))

    def test_interrupt(self):
        self.session.send("import time\ndone = 1\ntime.sleep(60)")
        time.sleep(0.4)
        self.session.interrupt()
        reply = self.session.receive()
        self.assertEqual((reply.status, reply.where), ("interrupted", "<cell 1>:3 time.sleep(60)"))
        self.assertEqual(self.session.run("done").value, "1")

    def test_interrupt_of_await(self):
        self.session.send("import asyncio\nasync def slow():\n    await asyncio.sleep(60)\nawait slow()")
        time.sleep(0.6)
        self.session.interrupt()
        reply = self.session.receive()
        self.assertEqual(reply.status, "interrupted", reply)
        self.assertEqual(reply.where, "<cell 1>:3 await asyncio.sleep(60)")
        self.assertEqual(self.session.run("await asyncio.sleep(0, 4)").value, "4")

    def test_late_interrupts_are_dropped(self):
        for i in range(300):
            self.session.send("x = 1")
            self.session.interrupt()
            self.assertIn(self.session.receive().status, ("ok", "interrupted"))
            self.session.interrupt()
        self.assertEqual(self.session.run("5").value, "5")

    def test_user_handler_of_sigint(self):
        self.session.run("import signal\nhits = []\nsignal.signal(signal.SIGINT, lambda *a: hits.append(1))")
        self.session.interrupt()
        self.assertEqual(self.session.run("import os; os.kill(os.getpid(), 2); len(hits)").value, "1")

    def test_broken_builtins(self):
        for code in (
            "import builtins\nfor n in list(vars(builtins)):\n    if n not in ('__import__',): delattr(builtins, n)",
            "import sys\nsys.stdout = None\nsys.stderr = 5\nsys.stdin = 1",
            "import sys\ndel sys.stdout, sys.stderr, sys.displayhook",
            "import sys\nsys.modules.clear()",
            "import time, os\ntime.time = time.process_time_ns = os.write = os.getpid = None",
            "globals().clear()",
        ):
            session = self.guest.session()
            session.run(code)
            self.assertEqual(session.run("1 + 1").value, "2", code)
            self.assertEqual(session.run("1/0").status, "error", code)

    def test_closed_descriptors(self):
        self.session.run("import os, sys\nos.close(1); os.close(2)")
        self.assertEqual(self.session.run("print('back')").out, "back\n")
        self.session.run("sys.stdout.close()")
        self.assertEqual(self.session.run("print('again')").out, "again\n")

    def test_closing_the_control_socket_ends_the_session(self):
        self.session.send("import os\nos.closerange(3, 1000)")
        # Before receive(), which would take it.
        self.assertIn("the code has closed descriptor 64", os.read(self.session.err, 1000).decode())
        with self.assertRaises(EOFError):
            self.session.receive()

    def test_fork_off_the_end(self):
        reply = self.session.run("import os\np = os.fork()\nif p: os.waitpid(p, 0)\nprint('here')")
        self.assertEqual(sorted(reply.out.split()), ["here", "here"])
        self.assertEqual(self.session.run("3").value, "3")

    def test_threads(self):
        code = "import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start(); t.join()\n1"
        self.assertEqual(self.session.run(code).value, "1")

    def test_hints(self):
        for code, part in (
            # Raised, not imported: the interpreter may have the module.
            ("raise ModuleNotFoundError('x', name='cv2')", "opencv-python"),
            ("raise ModuleNotFoundError('x', name='sklearn.cluster')", "scikit-learn"),
            ("raise MemoryError", " of 1024 MiB is reached, "),
            ("raise MemoryError", "--memory"),
            ("import errno; raise BlockingIOError(errno.EAGAIN, 'x')", " of 77 processes and threads is reached; "),
            ("import errno; raise OSError(errno.ENOSPC, 'x')", " is full; "),
            ("import socket; raise socket.gaierror(-2, 'x')", "network"),
        ):
            self.assertIn(part, self.session.run(code).hint or "", code)

    def test_the_installer_is_named_only_where_there_is_one(self):
        self.assertNotIn("install_package", self.session.run("raise ModuleNotFoundError('x', name='cv2')").hint)


class WithInstaller(GuestCase):
    options = "install"

    def test_the_installer_is_named(self):
        hint = self.session.run("raise ModuleNotFoundError('x', name='ruamel.yaml')").hint
        self.assertIn('install_package with packages=["ruamel.yaml"]', hint)
        self.assertIn("install_package", self.session.run("import not_there").hint)


class InContainer(GuestCase):
    options = "container"

    def test_what_is_missing_there_is_named(self):
        for code, part in (
            ("raise OSError(97, 'x')", "socket.socketpair()"),
            ("raise OSError(38, 'x')", "in place of memfd_create"),
            ("raise PermissionError(13, 'x', '/tmp/a')", "tempfile uses"),
            ("raise PermissionError(13, 'x', '/proc/self/status')", "no /proc"),
            ("raise PermissionError(13, 'x', '/etc/shadow')", "code can write below"),
        ):
            self.assertIn(part, self.session.run(code).hint or "", code)
        self.assertFalse(self.session.run("raise PermissionError(13, 'x', 'name')").hint)


each_python(globals())
