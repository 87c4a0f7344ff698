"""Parts of a result besides the output: values, changed variables, changed files."""
import os
import socket
import time

from base import GuestCase, each_python


class Reports(GuestCase):
    def test_variables(self):
        reply = self.run_ok("import os\nx = 1\n_hidden = 2\nl = [1, 2]\ndef f(): pass")
        self.assertEqual(reply.variables(), ["+x int", "+l list 2", "+f function"])
        reply = self.run_ok("x = 2\ndel l")
        self.assertEqual(reply.variables(), ["~x int", "-l"])
        self.assertEqual(self.run_ok("x").variables(), [])

    def test_variables_however_they_are_bound(self):
        self.run_ok("a, b, c = [], [], []")
        for code, expected in (
            ("globals()['d'] = []", ["+d list 0"]),
            ("def _bind():\n    global a\n    a = ()\n_bind()", ["~a tuple 0"]),
            ("import sys; setattr(sys.modules['__main__'], 'e', 'x')", ["+e str 1"]),
            ("exec('b = {}')", ["~b dict 0"]),
            ("f = e; del e", ["+f str 1", "-e"]),
            ("del a; a = b; g = 1", ["~a dict 0", "+g int"]),
            ("f, g = g, f", ["~f int", "~g str 1"]),
            ("a[1] = 2", []),
            ("b = b", []),
            ("del b, c; c = b = 5", ["~c int", "~b int"]),
            ("globals().clear()\nh = 1", ["+h int", "-d", "-f", "-a", "-g", "-c", "-b", "-sys"]),
        ):
            self.assertEqual(sorted(self.run_ok(code).variables()), sorted(expected), code)

    def test_variables_that_are_bound_to_a_new_object_in_the_old_ones_place(self):
        self.run_ok("class A: pass\nn, t, a = 1000, 'text', A()")
        self.assertEqual(self.run_ok("for i in range(4):\n    n = n + 1000; t = t + 'x'; a = None; a = A()").variables(),
                         ["~n int", "~t str 8", "~a A", "+i int"])
        self.assertEqual(self.run_ok("n, t, a, i; a.x = 1").variables(), [])
        self.assertEqual(self.run_ok("import sys; sys.getrefcount(a)").value, "2", "nothing else holds it")

    def test_variables_whose_types_say_what_no_type_should(self):
        for bend in ("@property\n    def __name__(cls): raise ValueError", "@property\n    def __name__(cls): return 5", "@property\n    def __module__(cls): exit()",
                     "__hash__ = type.__hash__\n    def __eq__(cls, other): raise ValueError", "def __hash__(cls): raise ValueError",
                     "def __getattr__(cls, name): raise ValueError", "def __getattribute__(cls, name): exit()", "shape = property(lambda cls: 1 / 0)"):
            self.session = self.guest.session()
            self.run_ok("class M(type):\n    %s" % bend)
            for code, variables in (("class Q(metaclass=M):\n    pass\nq = Q()", ["+Q M", "+q Q"]), ("a = q is Q", ["+a bool"]), ("b = 2; r = q", ["+b int", "+r Q"]),
                                    ("print(q is r)", []), ("del q, Q, r, M", ["-M", "-Q", "-q", "-r"])):
                reply = self.run_ok(code)
                self.assertEqual((reply.variables(), reply.all("note")), (variables, []), (bend, code))

    def test_many_variables_are_counted(self):
        reply = self.run_ok("for i in range(500): globals()['n%d' % i] = i")
        self.assertEqual((len(reply.variables()), reply.vars_more), (20, "481"))

    def test_dropped_values_are_freed_at_once(self):
        self.run_ok("import weakref\nclass A: pass\na = A()\nr = weakref.ref(a)")
        self.assertEqual(self.value("a = None\nr() is None"), "True")

    def test_what_python_code_touches(self):
        self.run_ok("import os")
        for code, touched in {
            "open('a.txt', 'w').write('x')": "a.txt", "os.makedirs('d/e')": "d d/e", "os.rename('a.txt', 'd/b')": "a.txt d/b",
            "os.symlink('d', 's'); open('s/c', 'a').close()": "d/c s", "fd = os.open('d', 0); os.unlink('c', dir_fd=fd); os.close(fd)": "d/c",
            "open('d/b').read()": "", "open('/dev/null', 'w').close()": "", "os.chdir('d/e'); open('../b', 'r+').close(); os.chdir('../..')": "d/b",
        }.items():
            self.assertEqual(sorted("".join(self.run_ok(code).all("claims")).split()), touched.split(), code)

    def test_modules_that_were_changed_after_their_import_are_named(self):
        write = "open('%s.py', 'w').write('def f():\\n    return %s\\n')"
        self.assertEqual(self.run_ok(write % ("edited_a", "1") + "\nimport edited_a").all("note"), [])
        again = "import os, shutil\nshutil.copy2('edited_a.py', 'copy'); os.remove('edited_a.py'); os.rename('copy', 'edited_a.py')"
        self.assertEqual(self.run_ok(again).all("note"), [], "as an undo brings it back")
        self.run_ok("os.utime('edited_a.py', (1, 1))")
        self.assertEqual(self.session.run("1 / 0").all("note"), [], "the same content at another time")
        notes = self.run_ok(write % ("edited_a", "22") + "\nedited_a.f()").all("note")
        self.assertEqual(len(notes), 1)
        self.assertIn("`edited_a.py` was changed after its import", notes[0])
        self.assertIn("importlib.reload(edited_a)", notes[0])
        self.assertEqual(self.run_ok("1").all("note"), [])
        self.assertEqual(len(self.session.run("1 / 0").all("note")), 1)
        self.assertEqual(self.run_ok("import importlib; importlib.reload(edited_a).f()").all("note"), [])
        self.assertEqual(self.session.run("1 / 0").all("note"), [])
        self.assertEqual(len(self.run_ok(write % ("edited_a", "333")).all("note")), 1)
        self.run_ok("import sys\ndel sys.modules['edited_a']")
        self.assertEqual(self.session.run("1 / 0").all("note"), [])

    def test_changed_modules_of_a_package_of_the_workspace(self):
        self.run_ok("import os\nos.mkdir('pack_b')\nfor n in ('__init__', 'x', 'y'): open('pack_b/%s.py' % n, 'w').close()\n"
                    "import pack_b.x, pack_b.y")
        notes = self.run_ok("for n in 'xy': open('pack_b/%s.py' % n, 'w').write('v = 1')").all("note")
        self.assertEqual([note.partition("`")[2].partition("`")[0] for note in notes], ["pack_b/x.py", "pack_b/y.py"])

    def test_bytes_and_processes_are_bounded_as_text_is(self):
        self.assertLess(len(self.value("bytes(300_000)")), 4300)
        self.assertLess(len(self.value("[bytes(300_000)]")), 700)
        self.assertLess(len(self.value("'\\0' * 300_000")), 4300)
        self.assertEqual(self.value("bytes(5)"), repr(bytes(5)))
        run = "import subprocess\nsubprocess.run(%s, shell=True, capture_output=True, text=True)"
        self.assertEqual(self.value(run % "'echo a'"),
                         "CompletedProcess(args='echo a', returncode=0, stdout='a\\n', stderr='')")
        self.assertLess(len(self.value(run % "'true ' + 'x' * 3000")), 400)
        self.assertLess(len(self.value("subprocess.run(['true', 'y' * 9000, 'z'])")), 400)
        self.assertIn("'z'", self.value("subprocess.run(['true', 'y' * 9000, 'z'])"))

    def test_what_is_left_in_place_of_the_streams(self):
        left, still = "sys.stdout is left replaced (%s): results show only what that passes on; sys.stdout = sys.__stdout__ ends it", "sys.stdout is still replaced (%s)"
        self.run_ok("import contextlib, io, os, sys\nclass Tee:\n    def write(self, text): return sys.__stdout__.write(text)\n    def flush(self): pass")
        for code, shown, out in (
            ("contextlib.redirect_stdout(io.StringIO()).__enter__()", "StringIO", ""), ("sys.stdout = open('log.txt', 'w')", "TextIOWrapper of log.txt", ""),
            ("sys.stdout = None", "None", ""), ("sys.stdout = type('Nothing', (), {'write': len, 'flush': id})()", "Nothing", None), ("sys.stdout = Tee()", "Tee", "x\n"),
        ):
            self.assertEqual(self.run_ok(code + "\nNone").all("note"), [left % shown], code)
            if out is not None:
                reply = self.run_ok("print('x')")
                self.assertEqual((reply.out, reply.all("note")), (out, [] if out else [still % shown]), code)
                self.assertEqual(self.run_ok("y = 1").all("note"), [] if out else [still % shown], code)
            self.assertEqual(self.run_ok("sys.stdout = sys.__stdout__\nprint('back')").out, "back\n")
        for code in ("sys.stdout = io.TextIOWrapper(os.fdopen(1, 'wb', closefd=False))", "%%capture\nprint(1)", "with contextlib.redirect_stdout(None): print(1)"):
            self.assertEqual(self.run_ok(code).all("note"), [], code)
        self.assertIn("sys.stderr is left replaced", self.run_ok("sys.stderr = io.StringIO()").note)

    def test_descriptors_that_lead_elsewhere(self):
        reply = self.run_ok("import os\nfd = os.open('/dev/null', os.O_WRONLY)\nos.dup2(fd, 1)\nprint('lost')")
        self.assertIn("descriptor 1 was closed or redirected", reply.note)
        self.assertEqual((reply.out, self.run_ok("print('back')").out), ("", "back\n"))
        self.assertIn("descriptor 2 was closed", self.run_ok("os.close(2)").note)
        self.assertEqual(self.run_ok("1").all("note"), [])

    def test_a_child_that_leaves_the_pipes_non_blocking(self):
        self.run_ok("import os, subprocess, sys\nmark = 'import os; os.set_blocking(1, False); os.set_blocking(2, False)'")
        for spoil in ("subprocess.run([sys.executable, '-c', mark])", "!{sys.executable} -c '{mark}'", "os.set_blocking(1, False); os.set_blocking(2, False)"):
            for between in (False, True):
                for fill, size in (("print('z' * 3_000_000)", 3_000_001), ("for _ in range(30): print('z' * 99_999)", 3_000_000),
                                   ("done = os.system('head -c 3000000 /dev/zero')", 3_000_000), ("sys.stdout.buffer.write(b'z' * 3_000_000); None", 3_000_000)):
                    fill += "\nprint('e' * 1_000_000, file=sys.stderr)"
                    if between:
                        self.run_ok(spoil + ("\nNone" if "run" in spoil else ""))
                    reply = self.session.run(fill if between else spoil + "\n" + fill)
                    self.assertEqual((reply.status, len(reply.out), len(reply.err)), ("ok", size, 1_000_001), (spoil, between, fill))

    def test_the_pipes_have_no_other_descriptors(self):
        self.run_ok("import os, subprocess\nos.closerange(66, 68); print(1)")
        self.assertEqual(self.run_ok("print(2)\ncode = subprocess.call('echo 3', shell=True)").out, "2\n3\n")

    def test_what_threads_write_between_cells(self):
        self.run_ok("import threading\ngo, done = threading.Event(), threading.Event()\n"
                    "def late():\n    go.wait()\n    print('late')\n    done.set()\nthreading.Thread(target=late, daemon=True).start()\n"
                    "timer = threading.Timer(.3, go.set)\ntimer.start()")
        time.sleep(1)
        reply = self.run_ok("print('now')")
        self.assertEqual((reply.out, reply.note), ("late\nnow\n", "the output begins with what threads of earlier calls wrote before this call"))
        self.assertEqual(self.run_ok("print('now')").all("note"), [])

    def test_what_a_thread_dies_of_is_one_write(self):
        self.run_ok("import sys, threading\nclass Count:\n    texts = []\n    write = texts.append\n    def flush(self): pass\nsys.stderr = Count()\n"
                    "def f(): 1 / 0\nt = threading.Thread(target=f, name='mine')\nt.start(); t.join()\nsys.stderr = sys.__stderr__")
        self.assertEqual(self.value("len(Count.texts)"), "1")
        text = self.run_ok("print(Count.texts[0])").out
        self.assertTrue(text.startswith("Exception in thread mine:\nTraceback (most recent call last):\n"), text)
        self.assertIn(", in f\n    def f(): 1 / 0\n", text)
        self.assertEqual(self.run_ok("t = threading.Thread(target=sys.exit)\nt.start(); t.join()").err, "")

    def test_a_name_with_backslashes(self):
        self.assertIn("is the name of one file", self.run_ok("open('C:\\\\Users\\\\a.txt', 'w').close()").note)
        self.assertIn("is the name of one file", self.run_ok("open(r'sub\\b.txt', 'w').close()").note)
        self.assertEqual(self.run_ok("import os\nos.remove(r'sub\\b.txt')\nopen('c.txt', 'w').close()").all("note"), [])

    def test_servers_are_named_once(self):
        listen = "import socket\ns = socket.socket(); s.bind(('127.0.0.1', %s)); s.listen()\nport = s.getsockname()[1]"
        port = next(port for port in range(20011, 20999) if self.is_free(port))
        self.assertEqual(self.run_ok(listen % 0).all("note"), [])
        self.assertIn("a program listens on port %d: only code here" % port, self.run_ok(listen % port).note or "")
        self.assertEqual(self.run_ok("s.close()").all("note"), [])
        self.session, port = self.guest.session(), port + 2
        serve = "import subprocess, sys\nserver = subprocess.Popen([sys.executable, '-m', 'http.server', '%d'])" % port
        notes = self.run_ok(serve).all("note")
        time.sleep(2)
        self.assertIn("listens on port %d" % port, str(notes + self.run_ok("1").all("note")))
        self.run_ok("server.kill(); server.wait()")

    @staticmethod
    def is_free(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    def test_files_of_other_sessions_are_not_listed(self):
        self.run_ok("1")
        path = os.path.join(self.guest.directory.name, "theirs.txt")
        with open(path, "w") as file:
            file.write("x")
        self.assertEqual(self.run_ok("2").files(), [])
        os.remove(path)
        self.assertEqual(self.run_ok("3").files(), [])

    def test_a_big_value_leaves_space_for_its_siblings(self):
        value = self.value("{'a': [[list(range(50))] * 50] * 50, 'd': 1, 'e': [2, 3]}")
        self.assertTrue(value.endswith(" more],\n 'd': 1,\n 'e': [2, 3]}"), value[-200:])

    def test_big_values_are_bounded(self):
        for code in (
            "'x' * 10**7", "list(range(10**6))", "{i: str(i) for i in range(10**5)}", "[[['y' * 1000] * 100] * 100]",
            "x = []\nfor i in range(5000): x = [x]\nx", "set(range(10**5))", "b'z' * 10**6",
            "class R:\n    def __repr__(self): return 'r' * 10**6\nR()", "[R()] * 50",
        ):
            value = self.value(code)
            self.assertLess(len(value), 12000, code)
        self.assertIn("999940 more", self.value("list(range(10**6))"))

    def test_small_values_are_plain(self):
        for text in ("[1, 'a', None]", "(1,)", "{'a': {'b': [1.5]}}", "{1, 2}", "[]", "set()", "frozenset({1})",
                     "deque([1, 2])", "[[...]]"):
            code = "from collections import deque\n" + text
            self.assertEqual(self.value(code).replace("Ellipsis", "..."), text)
        self.assertEqual(self.value("l = []\nl.append(l)\nl"), "[[...]]")

    def test_a_repr_that_raises(self):
        reply = self.session.run("class B:\n    def __repr__(self): raise KeyError('no')\nB()")
        self.assertEqual((reply.status, reply.error_type, reply.error_line), ("error", "KeyError", "2"))
        self.assertIn("its repr raised", self.value("[B()]"))
        if self.version() >= (3, 11):
            self.assertEqual(self.session.run("10**5000").error_type, "ValueError")

    def test_an_endless_repr_is_interrupted(self):
        import time

        self.run_ok("import time\nclass S:\n    def __repr__(self):\n        time.sleep(60)")
        self.session.send("S()")
        time.sleep(0.3)
        self.session.interrupt()
        reply = self.session.receive()
        self.assertEqual((reply.status, reply.where()), ("interrupted", ("1", "4", "time.sleep(60)")))

    def test_tables(self):
        if self.session.run("import pandas").status == "error":
            self.skipTest("pandas is not there")
        text = self.value("pandas.DataFrame({'column_%d' % i: [i * 1000] * 3 for i in range(15)})")
        self.assertEqual(len(text.splitlines()), 5)
        self.assertTrue(text.startswith("\n   column_0"), text)
        reply = self.run_ok("df = pandas.DataFrame({'a': range(1000), 'b': 1})\ndf")
        self.assertEqual(reply.variables(), ["+df DataFrame 1000x2"])


each_python(globals())
