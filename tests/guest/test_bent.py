"""Whatever code replaces or uses up: its result is right, or says what failed, and the next cell works."""
import builtins
import os
import pathlib
import re
import sys

import fake_server
from base import GuestCase, each_python

GUEST = fake_server.DRIVER.parent
KEEP = "keep = 41"
HONEST = "class Token: pass\n"  # what a file of the workspace may well have


class Bent(GuestCase):
    def check(self, *bends):
        """Each bend is a cell; after each, cells that need most of the driver."""
        for bend in bends:
            with self.subTest(bend):
                session = self.session = self.guest.session()
                session.run(KEEP)
                first = session.run(bend)
                self.assertNotIn("outcome of the cell", first.error_message or "", first)
                if "trace" in bend:
                    session.run("0")  # as in CPython, what it raises ends the code that is traced
                self.works(session)

    def works(self, session):
        self.assertEqual(session.run("keep + 1").value, "42")
        error = session.run("def f():\n    return keep / 0\nf()")
        self.assertEqual(error.error_type, "ZeroDivisionError", error)
        self.assertIn('line 2, in f\n    return keep / 0\n', error.traceback)
        self.assertEqual(session.run("[f'{x}' * 60 for x in (1, 2)]").value, "\n['%s',\n '%s']" % ("1" * 60, "2" * 60))
        self.assertEqual(session.run("keep = keep").status, "ok")

    def test_builtins_that_raise(self):
        names = sorted(name for name in dir(builtins) if name[0] != "_" and callable(getattr(builtins, name)))
        for raised in ("SystemExit", "KeyError"):
            session = self.guest.session()
            session.run(KEEP + "\nimport builtins\ndef boom(*a, **k): raise %s\nreal = dict(vars(builtins))" % raised)
            for name in names + ["__build_class__", "__import__"]:
                with self.subTest(name, raised=raised):
                    session.run("builtins.%s = boom" % name)
                    self.works(session)
                    session.run("builtins.__dict__[%r] = real[%r]" % (name, name))

    def test_modules_of_the_library(self):
        self.check(
            "import sys\nsys.modules.clear()",
            "import sys\nsys.modules = {}",
            "import sys\ndel sys.modules",
            "import sys\nfor name in list(sys.modules): sys.modules[name] = None",
            "import sys\nsys.path = None",
            "import sys\nsys.path[:] = []\nsys.meta_path[:] = []\nsys.path_hooks[:] = []",
            "import sys\nsys.meta_path = None",
            "import sys\nsys.__class__ = type('S', (type(sys),), {'__setattr__': lambda *a: 1 / 0})",
            "import builtins, sys\ndef boom(*a, **k): raise SystemExit\nbuiltins.__import__ = boom\nsys.modules.clear()",
            "import os, sys\nfor name in dir(os):\n    if name[:1] != '_': setattr(os, name, None)",
            "import traceback, linecache, re, io, enum, tokenize, collections, functools, contextlib, types, sys\n"
            "for module in (traceback, linecache, re, io, enum, tokenize, collections, functools, contextlib, types):\n"
            "    for name in dir(module):\n        if name[:2] != '__': setattr(module, name, None)",
            "import _thread, _io, posix, time, _signal\n"
            "for module in (_thread, posix, time, _signal):\n"
            "    for name in dir(module):\n        if name[:2] != '__': setattr(module, name, None)",
            "import linecache\nlinecache.cache = None",
            "import linecache\nlinecache.cache.clear()",
            "import signal\nsignal.signal = signal.getsignal = signal.pthread_sigmask = None",
        )

    def test_streams(self):
        self.check(
            "import sys\nsys.stdout = sys.stderr = sys.stdin = None",
            "import sys\nclass S:\n    def write(self, text): raise SystemExit\n    flush = write\nsys.stdout = sys.stderr = S()",
            "import sys\ndel sys.stdout, sys.stderr, sys.stdin",
            "import sys\nsys.stdout.close()\nsys.stderr.close()",
            "import os\nos.close(0)\nos.close(1)\nos.close(2)",
        )

    def test_what_is_set_for_the_whole_interpreter(self):
        self.check(
            "import sys\nsys.setrecursionlimit(50)",
            "import sys\ndef trace(*a): raise SystemExit\nsys.settrace(trace)",
            "import sys\ndef trace(*a): raise SystemExit\nsys.setprofile(trace)",
            "import sys\ndef trace(*a):\n    sys.settrace(trace)\n    raise KeyError\nsys.settrace(trace)",
            "import sys\ndef trace(*a):\n    sys.setprofile(trace)\n    raise KeyError\nsys.setprofile(trace)",
            "import gc\ndef boom(*a): raise SystemExit\ngc.callbacks.append(boom)",
            "import gc\ngc.set_threshold(1)",
            "import sys\nsys.excepthook = sys.unraisablehook = None",
            "import os\nos.register_at_fork(before=lambda: 1 / 0, after_in_parent=lambda: 1 / 0)",
            "import warnings\nwarnings.simplefilter('error')\nwarnings.warn = None",
            "import sys\nsys.dont_write_bytecode = sys.flags = sys.version_info = None",
            "import threading, random\nthreading.active_count = random.getstate = random.setstate = lambda *a: exit()",
            "globals().clear()\nkeep = 41\n__name__ = 7",
        )

    def test_audit_hooks(self):
        session = self.guest.session()
        session.run("import sys\nseen = []\ndef hook(event, args):\n    if event == seen: raise SystemExit\nsys.addaudithook(hook)\n"
                    + KEEP)
        for event in ("os.scandir", "open", "import", "code.__new__", "sys.settrace", "sys.setprofile", "sys._getframe"):
            with self.subTest(event):
                session.run("seen = %r" % event)
                self.works(session)

    def test_what_a_module_in_c_imports_is_the_codes(self):
        self.run_ok("import ctypes, sys\nload = ctypes.pythonapi.PyImport_Import\nload.argtypes = [ctypes.py_object]\n"
                    "load.restype = ctypes.py_object\nsys.displayhook = load")
        self.run_ok("'colorsys'")
        self.run_ok("sys.displayhook = sys.__displayhook__")
        self.assertEqual(self.value("'colorsys' in sys.modules"), "True")

    def test_settings_of_the_code_come_back(self):
        self.run_ok("import sys\nsys.setrecursionlimit(70)\ncalls = []\n"
                    "def trace(frame, event, arg):\n    calls.append(frame.f_code.co_name)\nsys.settrace(trace)")
        self.assertEqual(self.value("def f(): pass\nf()\n(sys.getrecursionlimit(), sys.gettrace() is trace)"), "(70, True)")
        self.assertIn("f", self.value("calls"))
        reply = self.session.run("def g(n): g(n + 1)\ng(0)")
        self.assertEqual(reply.error_type, "RecursionError")
        self.assertIn("= 70", reply.hint)

    def test_no_descriptor_is_left(self):
        self.run_ok("import os, resource\nlimits = resource.getrlimit(resource.RLIMIT_NOFILE)\n" + KEEP + "\nfds = []")
        self.session.run("while True: fds.append(os.open('/dev/null', 0))")
        self.works(self.session)
        self.session.run("resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))")
        self.works(self.session)

    def test_no_descriptor_is_left_and_the_state_is_large(self):
        session = self.session = self.guest.session(measure_from=1, checkpoint_most=1 << 40)
        session.run("import os, resource\n" + KEEP)
        session.run("resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))")
        self.works(session)

    def test_input_without_a_descriptor(self):
        self.run_ok("import resource\nlimits = resource.getrlimit(resource.RLIMIT_NOFILE)\n" + KEEP
                    + "\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))")
        reply = self.session.run("keep = input()", stdin="42")
        self.assertEqual(reply.error_message, "OSError: the code did not run, because of Too many open files")
        self.works(self.session)

    def test_a_very_deep_directory(self):
        self.run_ok("import os\n" + KEEP + "\ntop = os.getcwd()\nfor _ in range(3000):\n    os.mkdir('d' * 30)\n    os.chdir('d' * 30)")
        try:
            self.works(self.session)
        finally:
            self.run_ok("os.chdir(top)\nos.system('rm -rf ' + 'd' * 30)")

    def test_honest_files_with_names_of_the_library(self):
        names = self.write_honest_files()
        self.addCleanup(self.run_ok, "import os\nfor name in names: os.remove(name + '.py')")
        session = self.guest.session()
        session.run(KEEP)
        for name in names:
            with self.subTest(name):
                session.run("import %s" % name)
                self.works(session)
        for name in set(names) - set(self.started_with()) - {"_io"}:
            with self.subTest(name):
                self.assertEqual(self.guest.session().run("import %s\n%s.Token.__name__" % (name, name)).value, "'Token'")

    def test_all_that_is_loaded_late_can_be(self):
        self.run_ok("import sys\nframe = sys._getframe()\nwhile 'IMPORTED' not in frame.f_globals: frame = frame.f_back\n"
                    "load = frame.f_globals['load']\ndel frame")
        self.assertNotIn("traceback", self.run_ok("print(*load('imports').copies)").out.split())
        self.run_ok(KEEP + "\nload('zygote').load_rest()")
        self.works(self.session)

    def write_honest_files(self):
        names = [name for name in sorted(self.modules_of_the_driver()) if "." not in name]
        self.assertGreater(len(names), 30)
        self.run_ok("names = %r\nfor name in names:\n    with open(name + '.py', 'w') as file: file.write(%r)" % (names, HONEST))
        return names

    def modules_of_the_driver(self):
        """The names of its copies: an own frame leads to them."""
        return self.run_ok(
            "import sys\nframe = sys._getframe()\nwhile 'IMPORTED' not in frame.f_globals: frame = frame.f_back\n"
            "print(*frame.f_globals['load']('imports').copies, *frame.f_globals['load']('imports').held)").out.split()

    def started_with(self):
        return self.guest.session().run("import sys\nprint(*sys.modules)").out.split()

    def test_the_code_sees_none_of_the_drivers_modules(self):
        self.assertEqual(set(self.started_with()) & {"traceback", "linecache", "tokenize", "difflib", "imports", "session"}, set())


class Sources(GuestCase):
    def test_driver_names_what_belongs_to_the_code(self):
        """`sys` and `os` are copies in the driver: what code sees is in SYS and IMPORTED."""
        for path in sorted(GUEST.glob("*.py")):
            if path.name in ("driver.py", "loader.py", "imports.py", "convert.py"):
                continue
            code = re.sub(r'(?s)""".*?"""|#.*|"[^"\n]*"', "", path.read_text())
            self.assertEqual(re.findall(r"sys\.(?:modules|path|meta_path|argv|std\w+|displayhook)\b", code), [], path.name)
            self.assertEqual(re.findall(r"\n {4,}(?:import|from) [^\n]*", re.sub(r"\ntry:\n.*?\nexcept", "", code, flags=re.S)),
                             [], path.name)


each_python(globals())
