"""Outcomes of cells: errors, exits, interrupts, and hostile code that must not crash the driver."""
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

    def test_frames_of_libraries_are_counted_and_all_of_the_users_shown(self):
        text = self.traceback("import ast\nclass V(ast.NodeVisitor):\n    def visit_Name(self, node): 1 / 0\n"
                              "V().visit(ast.parse('f(g(h(a)))'))")
        self.assertRegex(text, r"\n  \[\d+ frames in ast\]\n  File \"<cell \d+>\", line 3, in visit_Name\n")
        self.assertEqual(text.count("  File "), 2)
        text = self.traceback("import configparser\nconfigparser.ConfigParser().read_string('x')")
        self.assertRegex(text, r"\n  \[\d frames in configparser\]\n  File .*configparser.py.*\n")
        self.run_ok("import sys\nsys.path.insert(0, '/tmp/x/site-packages')\n"
                    "inner = compile('def a(f): b(f)\\ndef b(f): c(f)\\ndef c(f): f()', '/x/site-packages/pak/m.py', 'exec')\n"
                    "exec(inner)")
        text = self.traceback("def back(): 1 / 0\na(lambda: a(back))")
        self.assertEqual(text.count("  [3 frames in pak]\n"), 2)
        self.assertEqual(text.count('  File "<cell '), 3)

    def test_a_single_frame_of_a_library_is_shown(self):
        self.assertIn("subprocess.py", self.traceback("import subprocess\nsubprocess.run(['false'], check=True)"))

    def test_what_a_failed_process_wrote_is_shown(self):
        run = "import subprocess\nsubprocess.run(%r, shell=True, check=True, capture_output=True%s)"
        text = self.traceback(run % ("echo seen; echo reason >&2; exit 9", ""))
        self.assertTrue(text.endswith("returned non-zero exit status 9.\nstderr of the process:\nreason\n"), text)
        text = self.traceback(run % ("echo only; exit 9", ", text=True"))
        self.assertTrue(text.endswith("stdout of the process:\nonly\n"), text)
        text = self.traceback(run % ("seq 9999; seq 9999 >&2; sleep 60", ", timeout=.5"))
        self.assertTrue(text.endswith("\n9998\n9999\n"), text[-300:])
        self.assertLess(len(text), 3000)
        text = self.traceback(run % ("exit 9 #" + "z" * 5000, ""))
        self.assertLess(len(text), 1500)
        self.assertTrue(text.endswith("returned non-zero exit status 9.\n"), text[-300:])

    def test_huge_messages_are_bounded(self):
        reply = self.session.run("raise ValueError('x' * 10**7)")
        self.assertLess(len(reply.traceback) + len(reply.error_message), 5000)
        self.assertEqual(reply.status, "error")

    def test_unprintable_exceptions(self):
        code = "class E(BaseException):\n    def __str__(self): raise SystemExit\nraise E"
        self.assertEqual(self.session.run(code).status, "error")
        self.assertEqual(self.session.run("1").value, "1")

    def test_odd_code(self):
        for code in ("x = '\0'", "(" * 3000, "x = 1\n  y = 2", "\ud800"):
            self.assertEqual(self.session.run(code).status, "error")

    def test_lines_end_where_pythons_do(self):
        self.run_ok("import inspect, re, time, warnings")
        for mark in (*"\f\v\x1c\x1d\x1e\x85\u2028\u2029", "\n", "\r\n", "\r"):
            end = mark if mark in ("\n", "\r\n", "\r") else "\n"
            head, at = 's = """%s"""' % mark + end, 3 if end == mark else 2
            reply = self.session.run(head + "1 / 0" + end)
            self.assertIn("line %d, in <module>\n    1 / 0\n" % at, reply.traceback, repr(mark))
            reply = self.run_ok(head + "warnings.warn(%a)" % mark + end + "None")
            self.assertIn(":%d: UserWarning: " % at, reply.err, repr(mark))
            self.assertIn("\n  warnings.warn(%a)\n" % mark, reply.err, repr(mark))
            self.run_ok(head + "def f():" + end + "    return 42" + end)
            self.assertEqual(self.run_ok("print(inspect.getsource(f))").out, "def f():\n    return 42\n\n", repr(mark))
            reply = self.session.run("  x = '%s'\n  re.compile('(')" % (mark if end != mark else ""))  # moved to the left
            self.assertIn("\n    re.compile('(')\n", reply.traceback or "", repr(mark))
            self.assertIn("\n    return 5\n", self.session.run(head + "return 5").traceback, repr(mark))
            reply = self.session.run(head + "!true" + end + "1 / 0")
            self.assertIn("line %d, in <module>\n    1 / 0\n" % (at + 1), reply.traceback, repr(mark))
            self.session.send(head + "print(1, flush=True)" + end + "time.sleep(60)")
            os.read(self.session.out, 1)
            time.sleep(0.1)
            self.session.interrupt()
            self.assertEqual(self.session.receive().where()[1:], (str(at + 1), "time.sleep(60)"), repr(mark))

    def test_what_memory_errors_are_of(self):
        self.run_ok("import ast\ndeep = '-' * 50000 + '1'\nopen('deep_module.py', 'w').write('x = ' + deep)")
        for code in ("-" * 20000 + "1", "eval(deep)", "exec(deep)", "ast.literal_eval(deep)", "compile(deep, 'f', 'exec')", "ast.parse(deep)", "import deep_module"):
            reply = self.session.run(code)
            self.assertEqual((reply.error_type, reply.hint), ("MemoryError", "nested too deeply for Python's parser"), code[:40])
        for code in ("bytearray(10**15)", "'a' * 10**18", "(_ for _ in ()).throw(MemoryError('Unable to allocate 7.28 TiB for an array'))"):
            self.assertEqual(self.session.run(code).hint, "one value exceeds the memory limit of 1024 MiB; work in pieces, or the user can raise --memory", code)
        for code in ("raise MemoryError('no more slots')", "raise MemoryError"):
            self.assertIsNone(self.session.run(code).hint, code)
        self.session = self.guest.session(memory=64 << 20)
        self.assertEqual(self.session.run("x = bytearray(48 << 20); bytearray(10**15)").hint,
                         "the memory limit of 64 MiB is reached; work in pieces, delete unused variables, or the user can raise --memory")

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
        self.assertEqual((reply.status, reply.where()), ("interrupted", ("1", "3", "time.sleep(60)")))
        self.assertEqual(self.session.run("done").value, "1")

    def test_interrupt_of_await(self):
        self.session.run("import asyncio")  # slow on a busy machine
        self.session.send("import asyncio\nasync def slow():\n    await asyncio.sleep(60)\nawait slow()")
        time.sleep(0.6)
        self.session.interrupt()
        reply = self.session.receive()
        self.assertEqual(reply.status, "interrupted", reply)
        self.assertEqual(reply.where(), ("2", "3", "await asyncio.sleep(60)"))
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
            ("bytearray(10**15)", " the memory limit of 1024 MiB; "),
            ("bytearray(10**15)", "--memory"),
            ("import errno, os; os.fork; raise BlockingIOError(errno.EAGAIN, 'x')", " of 77 processes and threads, which all sessions share, is reached; "),
            ("import errno; raise OSError(errno.ENOSPC, 'x')", " is full; "),
            ("import socket; raise socket.gaierror(-2, 'x')", "network"),
        ):
            self.assertIn(part, self.session.run(code).hint or "", code)
        self.assertIsNone(self.session.run("import os; r, w = os.pipe(); os.set_blocking(r, False); os.read(r, 1)").hint)

    def assert_hint(self, code, *parts):
        hint = self.session.run(code).hint or ""
        for part in parts:
            self.assertIn(part, hint, code)

    def test_notebook_lines_say_what_to_write(self):
        for code, part in (
            ("%prun f()", "cProfile.run"), ("x = 1\n%writefile a.py", "the tool write_file"), ("%%html\n<b>", "%%html is not available"),
            ("%reset -f", "reset=true"), ("!cd ..", "%cd .."), ("%timeit -o f()", "it takes -n, -r"),
            ("str.join?", "help(str.join)"), ("!echo a\nstr.join?", "help(str.join)"), ("!brew install x", "no system packages"),
            ("!echo a\n!sudo apt update", "no system packages"), ("x = 1\n%%bash\nls", "belongs in the first line"),
            ("x = 1\n%%timeit\nx", "belongs in the first line"), ("%%bash -x\nls", "from the next line on"),
        ):
            reply = self.session.run(code)
            self.assertEqual((reply.error_type, reply.out), ("SyntaxError", ""), code)
            self.assertIn(part, reply.hint or "", code)
        for code in ("x = 5 !", "a % % b", "x = = 1", "if a != :"):
            self.assertIsNone(self.session.run(code).hint, code)

    def test_files_that_are_elsewhere(self):
        self.run_ok("import os\nos.makedirs('deep/er')\nfor n in ('sales.tsv', 'deep/er/inner_mod.py', 'deep/rows.db'): open(n, 'w').close()\n"
                    "root = os.getcwd()")
        for code, part in (
            ("open('/content/sales.tsv')", "/sales.tsv'"), ("open('/content/my/other.tsv')", "files are in the working directory, /"),
            ("open('salse.tsv')", "did you mean 'sales.tsv'?"), ("open('deep/row.db')", "did you mean 'deep/rows.db'?"),
            ("open('results/a/b', 'w')", "there is no directory 'results/a'"), ("open('~/sales.tsv')", "does not expand"),
            ("open('/proc/meminfo2')", "show the sandbox only"), ("open('/proc/4000000/comm')", "no process of the sandbox has"),
            ("os.listdir('/sys/nothing')", "show the sandbox only"),
            ("os.chdir('deep'); open('sales.tsv')", "/sales.tsv'? os.chdir has changed the current directory to"),
            ("os.chdir(root + '/deep'); import inner_mod_x", ""), ("os.chdir(root); open('nothing alike')", ""),
            ("open('deep/er/script', 'w').write('#!/not/there\\n'); os.chmod('deep/er/script', 0o755)\n"
             "import subprocess; subprocess.run('deep/er/script')", "first line of"),
        ):
            self.assert_hint(code, part)
        self.assertIsNone(self.session.run("open('nothing alike')").hint)
        self.run_ok("open('deep/sibling_mod.py', 'w').close()")
        self.assert_hint("import sibling_mod", "`sibling_mod` is in ", "/deep: sys.path.insert(0, '")

    def test_windows_and_browsers(self):
        for code in ("raise FileNotFoundError(2, 'none', 'xdg-open')", "raise ModuleNotFoundError('x', name='tkinter')",
                     "raise ImportError(\"Cannot load backend 'QtAgg' which requires the 'qt' interactive framework\")",
                     "class TclError(Exception): pass\nraise TclError('no display name and no $DISPLAY environment variable')",
                     "import os\nos.environ['DISPLAY']"):
            self.assert_hint(code, "there is no display")

    def test_nothing_listens_on_localhost(self):
        for code in ("import socket\nwith socket.socket() as s: s.bind(('127.0.0.1', 0)); free = s.getsockname()\nsocket.create_connection(free)",
                     "import urllib.request as u\nu.urlopen('http://127.0.0.1:%d' % free[1])",
                     "class NewConnectionError(Exception): pass\nraise NewConnectionError('x: [Errno 111] Connection refused')"):
            self.assert_hint(code, "nothing listens on that port")
        self.assert_hint("raise NewConnectionError('x: [Errno 101] Network is unreachable')", "no network access")

    def test_commands_that_need_a_network(self):
        for line in ("curl -sS http://example.invalid || exit 6", "cd . && git clone https://example.invalid/a.git; exit 128", "X=1 timeout 9 /usr/bin/wget x.invalid; exit 4",
                     "pip download x; exit 1", "python3 -m pip wheel x; exit 1"):
            self.assertIn("exited with status", self.session.run("!" + line).note)
            self.assertIn("no network access", self.session.run("!" + line).note)
            self.assertIn("no network access", self.session.run("%%bash\ntrue\n" + line).note)
            self.assert_hint("import subprocess as s\ns.run(%r, shell=True, check=True, capture_output=True)" % line, "no network access")
        self.assert_hint("import subprocess as s\ns.run('curl() { sleep 9; }; curl x.invalid', shell=True, timeout=.2)", "no network access")
        self.assertIn("nothing listens", self.session.run("!curl http://localhost:9; exit 7").note)
        self.assertIn("nothing listens", self.session.run("!true; curl -s http://localhost:9").note)
        self.assertNotIn("listens", self.session.run("!curl -s http://localhost:9; false").note)
        self.assertEqual("`node() { false; }; node a.js` exited with status 1", self.session.run("!node() { false; }; node a.js").note)
        for line in ("strace -f true; exit 1", "X=1 /usr/bin/gdb -batch -ex run true; exit 1"):
            self.assertIn("the sandbox refuses ptrace", self.session.run("!" + line).note)
            self.assert_hint("import subprocess as s\ns.run(%r, shell=True, check=True, capture_output=True)" % line, "refuses ptrace")
        self.assertIn("--no-build-isolation", self.session.run("!pip install -e . || exit 3").note)
        for line in ("git status --curl; exit 1", "echo curl; exit 1", "npm test; exit 1"):
            self.assertNotIn("network", self.session.run("!" + line).note)

    def test_files_that_are_not_utf8(self):
        self.run_ok("import gzip\nopen('l', 'wb').write(b'caf\\xe9'); open('w', 'w', encoding='utf-16').write('wide'); gzip.open('z', 'w').write(b'x')")
        for name, hint in (("l", "encoding=\"cp1252\""), ("w", "encoding=\"utf-16\""), ("z", "gzip.open(path, \"rt\")")):
            self.assert_hint("open(%r).read()" % name, hint)
        self.assertIsNone(self.session.run("b'\\xe9'.decode('ascii')").hint)

    def test_names_that_differ_in_capitals(self):
        self.run_ok("import os\nopen('README.md', 'w').close()\nos.mkdir('Src')\nopen('Src/Main.py', 'w').close()")
        for path in "readme.md", "ReadMe.MD", "Src/main.py":
            self.assert_hint("open(%r)" % path, "did you mean '%s'" % {"Src/main.py": "Src/Main.py"}.get(path, "README.md"))

    def test_children_that_ended_and_fill_the_limit(self):
        start = "import os, time\nfor _ in range(%d): os.posix_spawn('/bin/true', ['true'], {})\ntime.sleep(.5)\n"
        fail = "def fork(): raise BlockingIOError(11, 'x')\nfork()"
        self.assert_hint(start % 3 + fail, "stop some")
        self.assert_hint(start % 20 + fail, "wait for the 23 children that have ended (os.waitpid")
        self.assert_hint("while True:\n    try: os.wait()\n    except ChildProcessError: break\n" + fail, "stop some")

    def test_passwords_are_read_as_other_input(self):
        reply = self.session.run("import getpass\ngetpass.getpass('Key: ')")
        self.assertEqual((reply.out, reply.err), ("Key: ", ""))
        self.assertIn("argument `stdin`", reply.error_message)
        self.assertEqual(reply.traceback.count("  File "), 1)
        self.assertEqual(self.value("getpass.getpass()", stdin="secret\n"), "'secret'")

    def test_a_message_stands_once_in_a_chain(self):
        said = "a long sentence about a host that cannot be reached, with its name and port"
        chain = "try:\n    try: raise OSError(%r)\n    except OSError as e: raise ValueError('around: ' + str(e))\nexcept ValueError as e: raise KeyError(e)"
        text = self.session.run(chain % said).traceback
        self.assertEqual(text.count(said), 2 if "raise OSError" in text else 1, text)
        self.assertIn("OSError: [its message is in the next one's]\n", text)
        self.assertEqual(self.session.run(chain % "short").traceback.count(": short\n"), 2)
        self.assertNotIn("next one's", self.session.run("try: raise OSError(%r)\nexcept OSError: raise ValueError('other')" % said).traceback)

    def test_habits_of_programs_and_chats(self):
        for code, part in (
            ("print(__file__)", "a cell is no file: os.getcwd()"),
            ("raise ImportError('IProgress not found. Please update jupyter')", "from tqdm.auto import tqdm"),
            ("raise ImportError(\"Using a URI string requires 'sqlalchemy' version '2' or newer.\")", "sqlite3.connect(path)"),
            ("import asyncio\nasync def f(): pass\nawait f()\nasyncio.run(f())", "`await main()`"), ("breakpoint()", "`stdin`"),
            ("await f()\nasyncio.new_event_loop().run_until_complete(f())", "`await main()`"), ("import pdb; pdb.set_trace()", "`stdin`"),
            ("raise OSError(\"Cannot save file into a non-existent directory: '/mnt/data'\")", "/mnt/data does not exist here; files are in"),
            ("raise OSError(\"Cannot save file into a non-existent directory: 'out'\")", "there is no directory 'out'; os.makedirs makes it"),
            ("open('a/b', 'w')", "there is no directory 'a'; os.makedirs makes it"),
        ):
            self.assert_hint(code, part)
        for code in ("open('a/b')", "with open('a/b', 'rb') as f: pass", "import pathlib; pathlib.Path('a/b').read_text()", "import os; os.listdir('a/b')"):
            self.assertEqual(self.session.run(code).hint, "there is no directory 'a'", code)
        self.assertIn("only with `await`", self.session.run("f()").note)
        self.assertIsNone(self.session.run("raise OSError(\"it's odd, isn't it\")").hint)

    def test_a_current_directory_that_is_gone(self):
        self.run_ok("import os\nroot = os.getcwd()\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')")
        for code in ("open('a.csv')", "os.getcwd()", "import subprocess as s\ns.run('exit 1', shell=True, check=True)"):
            self.assert_hint(code, "the current directory was removed: os.chdir('/")
        self.assertIn("was removed", self.session.run("!exit 1").note)
        self.assertEqual(self.run_ok("%cd {root}\nos.getcwd() == root").value, "True")

    def test_optional_dependencies_without_an_installer(self):
        self.assert_hint("raise ImportError(\"Missing optional dependency 'odfpy'.\")", "odfpy is not installed")

    def test_without_an_installer_none_is_named(self):
        self.assertNotIn("install_package", self.session.run("raise ModuleNotFoundError('x', name='cv2')").hint)


class WithInstaller(GuestCase):
    options = "install"

    def test_the_installer_is_named(self):
        hint = self.session.run("raise ModuleNotFoundError('x', name='ruamel.yaml')").hint
        self.assertIn('install_package with packages=["ruamel.yaml"]', hint)

    def test_unknown_packages_are_not_promised(self):
        hint = self.session.run("import not_there").hint
        self.assertIn("only if you know that package", hint)
        self.assertNotIn("makes", hint)
        self.assertNotIn("packages=", hint)
        for code in ("from sandpiper import tools", "import google.colab", "from google.colab import drive", "import azure.quantum",
                     "from sphinxcontrib import x", "import utils"):
            self.assertNotIn("packages=", self.session.run(code).hint, code)
        self.assertIn("--tools", self.session.run("from sandpiper import tools").hint)
        for code, name in (("from google.cloud import storage", "google-cloud-storage"), ("import google.protobuf", "protobuf"),
                           ("def f():\n    from azure.identity import X\nf()", "azure-identity"), ("import smart_open", "smart-open")):
            self.assertIn('packages=["%s"] makes' % name, self.session.run(code).hint, code)
        for code, name in (("from smart_open import apply", "smart_open"), ("from google.cloud.storage import Client", "google.cloud.storage"),
                           ("import tensorflow.keras.layers as l", "tensorflow")):
            self.assertIn("makes `import %s` work" % name, self.session.run(code).hint, code)
        self.assertIn("makes `import networkx.algorithms` work",
                      self.session.run("raise ModuleNotFoundError('x', name='networkx.algorithms')").hint)

    def test_what_other_texts_name_is_installed_with_the_tool(self):
        for code, names in (
            ("pip3 install attrs", '["attrs"]'), ("pip install -U 'seaborn>=0.13' tqdm", '["seaborn>=0.13", "tqdm"]'),
            ("raise ImportError(\"Missing optional dependency 'odfpy'.  Use pip or conda to install odfpy.\")", '["odfpy"]'),
            ("raise ValueError('needs: `pip install -U spacy[cuda12x]`')", '["spacy[cuda12x]"]'),
        ):
            hint = self.session.run(code).hint or ""
            self.assertIn("install_package", hint, code)
            self.assertIn("packages=" + names, hint, code)

    def test_lines_of_other_installers_name_the_tool(self):
        # Names that no machine has installed: of another there is nothing to do.
        for code, names in (
            ("!uv pip install nowhere", '["nowhere"]'), ("%conda install -c conda-forge nowhere", '["nowhere"]'),
            ("!pip install -U 'nowhere>=0.13' elsewhere", '["nowhere>=0.13", "elsewhere"]'),
            ("import sys\n!{sys.executable} -m pip install --index-url https://x.test/simple nowhere", '["nowhere"]'),
        ):
            reply = self.run_ok(code + "\nprint('and on')")
            self.assertIn("install_package", reply.err, code)
            self.assertIn("packages=" + names, reply.err, code)
            self.assertIn("and on", reply.out)
            self.assertIn("exited with status 1", reply.note)


class InContainer(GuestCase):
    options = "container"

    def test_hints_name_what_is_missing(self):
        for code, part in (
            ("raise OSError(97, 'x')", "socket.socketpair()"),
            ("raise OSError(38, 'x')", "instead of memfd_create"),
            ("raise PermissionError(13, 'x', '/tmp/a')", "tempfile uses"),
            ("raise PermissionError(13, 'x', '/proc/self/status')", "/proc is unavailable"),
            ("raise PermissionError(13, 'x', '/etc/shadow')", "code can write only below"),
        ):
            self.assertIn(part, self.session.run(code).hint or "", code)
        self.assertFalse(self.session.run("raise PermissionError(13, 'x', 'name')").hint)


each_python(globals())
