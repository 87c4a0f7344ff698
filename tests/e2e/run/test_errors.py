"""Tracebacks as CPython prints them, and the hints that follow them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from client import Server, Shared
from container_level import CONTAINER


class Tracebacks(Shared):
    def assert_as_cpython(self, code):
        """Asserts that the text is CPython's own for the same lines in a file of this name."""
        shown = self.server.python(code)
        self.assertTrue(shown.is_error, shown.text)
        cell = re.search(r"<cell \d+>", shown.text)[0]
        version = self.server.python("import sys; print(sys.executable)").output
        python = version if subprocess.run(["test", "-x", version]).returncode == 0 else sys.executable
        program = ("import linecache, sys\ncode = sys.stdin.read()\n"
                   f"linecache.cache[{cell!r}] = (len(code), None, [l + '\\n' for l in code.split('\\n')], {cell!r})\n"
                   f"try: exec(compile(code, {cell!r}, 'exec'), {{'__name__': '__main__'}})\n"
                   "except BaseException as error:\n    import traceback\n"
                   "    if error.__traceback__ is not None: error.__traceback__ = error.__traceback__.tb_next\n"
                   "    traceback.print_exception(type(error), error, error.__traceback__)")
        asked = subprocess.run([python, "-c", program], input=code, capture_output=True, text=True, timeout=60)
        traceback = "\n".join(line for line in shown.lines[:-1] if not line.startswith("Hint: "))
        if "Did you mean" not in asked.stderr:  # the traceback module of some versions lacks it
            traceback = re.sub(r"\. Did you mean: '\w+'\?", "", traceback)
        self.assertEqual(traceback, asked.stderr.rstrip("\n"))

    def test_it_reads_as_cpython_prints_it(self):
        result = self.server.python("def f(d):\n    return d['missing']\n\nf({})\n")
        self.assert_kind(result, "error")
        cell = re.search(r"<cell \d+>", result.text)[0]
        self.assertIn("Traceback (most recent call last):\n", result.text)
        self.assertIn(f'  File "{cell}", line 4, in <module>\n    f({{}})\n', result.text)
        self.assertIn(f'  File "{cell}", line 2, in f\n    return d[\'missing\']\n', result.text)
        self.assertIn("\nKeyError: 'missing'\n", result.text)
        self.assertNotIn("exec(", result.text)

    def test_frames_of_earlier_cells_show_their_own_source(self):
        self.server.python("def thrower():\n    raise RuntimeError('from before')")
        result = self.server.python("thrower()")
        self.assertIn("    raise RuntimeError('from before')\n", result.text)

    def test_a_syntax_error_points_at_its_place(self):
        result = self.server.python("x = (1,\ny = 2\n")
        self.assert_kind(result, "error")
        self.assertIn("SyntaxError", result.text)
        self.assertIn("x = (1,", result.text)

    def test_exceptions_with_a_cause_are_shown_in_full(self):
        result = self.server.python("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
                                    "    raise KeyError('k') from e")
        self.assertIn("ZeroDivisionError", result.text)
        self.assertIn("direct cause", result.text)

    def test_endless_recursion_is_an_ordinary_error(self):
        result = self.server.python("def f(): return f()\nf()")
        self.assert_kind(result, "error")
        self.assertIn("RecursionError", result.text)
        self.assert_alive(self.server)

    def test_a_traceback_of_very_many_frames_loses_its_middle(self):
        if "True" not in self.server.python("import sys; print(sys.version_info >= (3, 11))").output:
            self.skipTest("each frame takes space of the C stack")
        for code in ("f(0)", "try: f(0)\nexcept OSError as e: raise KeyError('after') from e"):
            result = self.server.python("sys.setrecursionlimit(200_000)\n"
                                        f"def f(n): return f(n + 1) if n < 100_000 else open('no such')\n{code}")
            self.assert_kind(result, "error")
            self.assertRegex(result.text, r"\[9\d{4} frames in the middle are left out\]\nTraceback")
            self.assertIn("in f\n", result.text)
        self.assertEqual(self.server.python("sys.setrecursionlimit(1000); 1 + 1").output, "Out: 2")

    def test_an_exception_whose_text_fails_is_still_reported(self):
        result = self.server.python("class E(Exception):\n    def __str__(self): raise KeyError\n"
                                    "raise E")
        self.assert_kind(result, "error")

    def test_a_keyboard_interrupt_of_the_code_is_an_error(self):
        self.assert_kind(self.server.python("raise KeyboardInterrupt"), "error")

    def test_a_base_exception_is_an_error(self):
        self.assert_kind(self.server.python("class B(BaseException): pass\nraise B"), "error")
        self.assert_kind(self.server.python("raise GeneratorExit"), "error")

    def test_misspelt_names_get_a_suggestion(self):
        if "True" not in self.server.python("import sys; print(sys.version_info >= (3, 10))").output:
            self.skipTest("python: suggestions need 3.10")
        for code, name in (("total = 1\nprint(totla)", "total"), ("import math\nmath.sqroot(2)", "sqrt")):
            self.assertIn(f"Did you mean: '{name}'?", self.server.python(code).text)

    def test_as_cpython_prints_them(self):
        for code in ("def f(x):\n    return x['a']['b'] + 1\nf({'a': {}})",
                     "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('two') from e",
                     "try:\n    int('x')\nexcept ValueError:\n    [][1]",
                     "import statistics\nstatistics.mean([])",
                     "total = 1\nprint(totla)",
                     "import math\nmath.sqroot(2)",
                     "class A:\n    def run(self): return (1 +\n            self.missing)\nA().run()",
                     "x = (1,\nprint(2)", "def f(:\n    pass", "if True:\nx = 1", "'abc", "raise SystemError", "assert 1 == 2, 'no'"):
            with self.subTest(code=code):
                self.assert_as_cpython(code)

    def test_frames_of_libraries_are_counted(self):
        result = self.server.python("import json\njson.loads('{')")
        self.assertRegex(result.text, r"    json\.loads\('{'\)\n(?:    ~+\^+\n)?  \[2 frames in json\]\n  File ")

    def test_a_changed_module_is_named(self):
        self.server.write("shape.py", "def area(r):\n    return r / 0\n")
        self.assertNotIn("note: ", self.server.python("import shape\nshape.area(2)").text)
        self.server.write("shape.py", "def area(r):\n    return r * r\n")
        result = self.server.python("shape.area(2)")
        self.assert_kind(result, "error")
        self.assertIn("`shape.py` was changed after its import", result.status.line)
        result = self.server.python("import importlib\nimportlib.reload(shape).area(2)")
        self.assertEqual(result.output, "Out: 4")
        self.assertNotIn("note: ", result.text)

    @unittest.skipIf(sys.version_info < (3, 11), "python: groups and notes need 3.11")
    def test_groups_and_notes(self):
        for code in ("e = ValueError('v'); e.add_note('a note'); raise e",
                     "raise ExceptionGroup('g', [ValueError('a'), ExceptionGroup('h', [KeyError('b')])])"):
            with self.subTest(code=code):
                self.assert_as_cpython(code)

    def test_deep_tracebacks_are_collapsed_without_our_frames(self):
        for code in ("def f(n): return f(n + 1)\nf(0)", "def a(n): return b(n)\ndef b(n): return a(n)\na(0)",
                     "class R:\n    def __repr__(self): return repr(self)\nR()",
                     "import functools\n@functools.lru_cache\ndef g(n): return g(n + 1)\ng(0)"):
            result = self.server.python(code)
            self.assertLess(len(result.text), 13_000)
            self.assertIn("RecursionError", result.text)
            self.assertNotRegex(result.text, r"/run/sandpiper|session\.py|driver\.py")


class Hints(Shared):
    def hinted(self, code, *parts, **arguments):
        result = self.server.python(code, **arguments)
        for part in parts:
            self.assertIn(part, result.text, code)
        return result

    def test_distributions_for_imports(self):
        for name, distribution in (("cv2", "opencv-python"), ("sklearn", "scikit-learn"), ("bs4", "beautifulsoup4"),
                                   ("Crypto", "pycryptodome"), ("serial", "pyserial"), ("fitz", "PyMuPDF")):
            self.hinted(f"raise ModuleNotFoundError('x', name='{name}')", distribution)

    def test_limits_name_themselves(self):
        self.hinted("import socket\nsocket.create_connection(('1.1.1.1', 80), 2)", "no network")
        self.hinted("import urllib.request as u\nu.urlopen('http://example.com')", "no network")
        self.hinted("bytearray(10**15)", "limit of 1024 MiB", "--memory")
        for arguments, disk in ((["--disk", "8M"], "the disk of 8 MiB, which all sessions share, is full; remove files, or the user can raise --disk"),
                                (["--memory", "256M"], "the disk of 192 MiB, which all sessions share, is full; remove files, or the user can raise --memory")):
            with Server(*arguments) as server:
                self.assertIn(disk, server.python("for n in range(999): open(f'/tmp/{n}', 'wb').write(bytes(10**6))").text)
        self.hinted("import threading, time\nfor _ in range(2000): threading.Thread(target=time.sleep, args=(.5,), daemon=True).start()",
                  "limit of 256 processes", "--pids")
        self.hinted("name = input('? ')", "EOFError", "stdin")
        self.hinted("open('/usr/x', 'w')", "read-only")

    @unittest.skipIf(CONTAINER, "isolation: no proxy")
    def test_what_the_proxy_refuses(self):
        ask = ("import http.client, os\nc = http.client.HTTPConnection(os.environ['http_proxy'].split('//')[1].strip('/'))\n"
               "c.request('GET', 'http://other.example/')\nprint(c.getresponse().status)")
        with Server("--allow-host", "one.example") as server:
            for _ in range(2):
                result = server.python(ask)
                self.assertEqual(result.output, "403")
                self.assertIn("network: the sandbox's proxy answered, not the site: \"other.example:80 is not an allowed host", result.status.line)
            for line in ("curl -sS https://other.example/", "wget -q -t 1 https://other.example/", "git clone https://other.example/a",
                         "pip download --retries 0 six", "npm install --fetch-retries 0 left-pad"):
                result = server.python(f"x = 1\n!{line}\nx = 2\nprint('after')", timeout_s=60)
                self.assertTrue(result.output.endswith("after"), result.text)
                self.assertIn(f"`{line}` exited with status", result.status.line)
                self.assertIn("continue without this host, or ask the user to allow it", result.status.line)
            for line, part in (("git clone https://other.example/a; exit 128", "reaches only the hosts"), ("ssh other.example; exit 255", "has no network except")):
                self.assertIn(part, server.python("!" + line).status.line)
            self.assertIn("trust_env=True", server.python("exec('class ClientConnectorError(OSError): pass\\nraise ClientConnectorError', "
                                                          "{'__name__': 'aiohttp.client'})").text)

    @unittest.skipIf(CONTAINER or not shutil.which("curl"), "curl: not installed, or isolation: no proxy")
    def test_a_refusal_that_a_program_hides_or_shows_as_the_sites(self):
        note = "network: the sandbox's proxy answered, not the site: \"other.example:%d is not an allowed host (one.example); "
        with Server("--allow-host", "one.example") as server:
            for code, port in (("!curl -sS http://other.example/", 80), ("!curl -s https://other.example/; echo rc $?", 443),
                               ("!curl -sS https://other.example/ | cat", 443),
                               ("import subprocess\nsubprocess.run(['curl', '-s', 'https://other.example/'])", 443)):
                self.assertEqual(server.python(code).status.line.count(note % port), 1, code)
                self.assertNotIn("network: ", server.python("1").status.line)
            self.assertIn("\", and more", server.python("!curl -s https://other.example/; curl -s https://third.example/").status.line)
            shown = server.python("import urllib.request\nurllib.request.urlopen('http://other.example/')")
            self.assertIn("HTTP Error 403: Forbidden: other.example:80 is not an allowed host", shown.text)
            self.assertNotIn("network: ", shown.status.line)

    def test_what_node_says_of_names_and_of_others(self):
        for arguments, part in (((), "network: the sandbox has none, so node finds no name"),
                                (("--allow-host", "one.example"), "let it run curl (child_process), or fetch with Python"))[:1 if CONTAINER else 2]:
            with Server(*arguments) as server:
                for code in ("!echo ' [cause]: Error: getaddrinfo ENOTFOUND one.example'", "!echo 'Error: getaddrinfo EAI_AGAIN one.example' >&2; exit 1",
                             "import subprocess\nsubprocess.run('echo getaddrinfo ENOTFOUND one.example; exit 1', shell=True, check=True, capture_output=True)"):
                    self.assertIn(part, server.python(code).status.line)
                line = server.python("!node -e 'throw 1'; echo listen EADDRINUSE; exit 1").status.line
                self.assertIn("exited with status 1", line)
                for wrong in ("ENOTFOUND", "network", "proxy"):
                    self.assertNotIn(wrong, line)

    def test_files_in_a_mount(self):
        with tempfile.TemporaryDirectory() as directory, Server("--mount", directory) as server:
            os.chmod(directory, 0o755)
            os.mkdir(directory + "/sub")
            for name in "sales.csv", "sub/deep.csv":
                open(directory + "/" + name, "w").close()
            place = "/data/" + os.path.basename(directory)
            for path, meant in (("sales.csv", "/sales.csv"), ("/srv/them" + place[5:] + "/sub/deep.csv", "/sub/deep.csv"),
                                ("sub/deep.csv", "/sub/deep.csv"), ("/srv/them/sales.csv", "/sales.csv")):
                self.assertIn("did you mean '%s%s'" % (place, meant), server.python("open(%r)" % path).text)
            self.assertIn("did you mean '%s'" % place, server.python("raise OSError(\"Cannot save file into a non-existent directory: '%s'\")" % directory).text)
            self.assertNotIn("did you mean '/data", server.python("open('none.csv')").text)

    @unittest.skipIf(CONTAINER or not shutil.which("git"), "git: not installed, or isolation: mounts are elsewhere")
    def test_git_away_from_its_repository(self):
        with tempfile.TemporaryDirectory() as directory:
            def git(*words):
                subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", directory + "/main", *words], check=True, capture_output=True)

            os.makedirs(directory + "/main/sub")
            open(directory + "/main/sub/a.txt", "w").close()
            for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one"), ("worktree", "add", "-q", "../tree")):
                git(*words)
            subprocess.run(["chmod", "-R", "a+rX", directory], check=True)
            with Server("--workspace", directory + "/main/sub") as server:
                self.assertIn("if it belongs to a repository that begins above it", server.python("!git status").text)
                self.assertIn("if it belongs to a repository", server.python("import subprocess\nsubprocess.run(['git', 'log'], check=True)").text)
                self.assertNotIn("repository that begins", server.python("!git init -q . && git status && git nonsense").text)
            with Server("--workspace", directory + "/tree", "--mount", directory + "/main") as server:
                note = server.python("!git status").text
                self.assertIn("this is a linked worktree, and its repository, '%s/main', is not" % os.path.realpath(directory), note)
                self.assertEqual(server.python("!git --git-dir=/data/main/.git/worktrees/tree --work-tree=. ls-files").output, "sub/a.txt")
        self.assertNotIn("repository that begins", self.server.python("!git status").text)

    def test_what_pip_cannot_do_is_answered_at_once(self):
        for line, part in (("pip install -q git+https://x.invalid/a.git", "takes packages of the index only, by name"),
                           ("pip download https://x.invalid/a.whl", "takes packages of the index only, by name"),
                           ("python3 -m pip uninstall -y pip", "installed packages stay in this sandbox"),
                           ("pip install -e nowhere", "--no-build-isolation --no-deps")):
            self.assertIn(part, self.server.python("!" + line, timeout_s=60).text, line)

    def test_code_that_closes_the_interpreters_descriptors(self):
        result = self.server.python("import os\nos.closerange(0, 200)", session="closing")
        self.assertIn("exit code 97, as where code has closed descriptors of the interpreter (os.closerange()) | state: ", result.status.line)
        self.assertNotIn("descriptors", self.server.python("raise SystemExit(97)").text)

    def test_notebook_syntax_says_what_to_use(self):
        self.hinted("%prun f()", "cProfile")
        self.hinted("pip install x", "package")
        self.hinted("sys.path[0]?", "help(sys.path[0])")

    def test_uris_and_paths_of_windows(self):
        self.server.write("in/orders.csv", "a")
        path = self.server.directories.get("/work", "/work") + "/in/orders.csv"
        for prefix in ("file://", "file://localhost", "sandbox:"):
            self.hinted(f"open({prefix + path!r})", f"did you mean {path!r}?")
        self.server.write("b.csv", "a")
        self.hinted(r"open(r'C:\Users\me\b.csv')", "b.csv'?")
        for absent in ("https://example.org/c.csv", r"D:\c.csv"):
            result = self.hinted(f"open({absent!r})", "is no path here; files are in")
            self.assertNotIn("makedirs", result.text)

    def test_what_needs_a_display(self):
        self.hinted("raise ImportError('Failed to import any of the following Qt binding modules: PyQt6')", "no display")

    @unittest.skipUnless(CONTAINER, "isolation: elsewhere the sandbox has /dev/shm")
    def test_multiprocessing_without_shared_memory(self):
        self.hinted("exec('raise PermissionError(13, \"x\")', {'__name__': 'multiprocessing.synchronize'})", "/dev/shm", "Pipe")
        self.assertNotIn("/dev/shm", self.server.python("raise PermissionError(13, 'x')").text)

    def test_hint_names_the_other_observer_of_watchdog(self):
        self.assertIn("PollingObserver", self.server.python(
            "exec('raise OSError(38, \"inotify_init\")', {'__name__': 'watchdog.observers.inotify_c'})").text)

    def test_hints(self):
        for code, part in (("import cv2", "opencv-python"), ("%prun f()", "cProfile"),
                           ("import socket; socket.create_connection(('192.0.2.1', 80))", "the sandbox has no network"),
                           ("open('/usr/x', 'w')", "working directory"),
                           ("def f(): f()\nf()", "getrecursionlimit"), ("input()", "stdin")):
            with self.subTest(code=code):
                self.assertIn(part, self.server.python(code).text)


if __name__ == "__main__":
    unittest.main()
