"""sandpiper run: programs, their arguments, output and exit status, and what is said of them."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from client import COMMAND, LARGE, SLOW, Case, give_away, need_userns, run_cli
from traces import any_left, descendants


class Run(Case):
    def setUp(self):
        need_userns()

    def test_code_on_the_command_line_runs(self):
        done = run_cli("run", "-c", "print('out'); import sys; print('err', file=sys.stderr)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"out\n", done.stdout)

    def test_exit_code_is_that_of_the_code(self):
        for code, status in (("pass", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1),
                             ("import os; os._exit(7)", 7)):
            with self.subTest(code=code):
                self.assertEqual(run_cli("run", "-c", code).returncode, status)

    def test_a_file(self):
        with tempfile.TemporaryDirectory(prefix="sp-run-") as directory:
            path = pathlib.Path(directory, "program.py")
            path.write_text("print(6 * 7)\n")
            done = run_cli("run", str(path))
            self.assertEqual((done.returncode, done.stdout.startswith(b"42\n")), (0, True))

    def program(self, files):
        """A directory with these files, which every user may read and change."""
        directory = tempfile.TemporaryDirectory(prefix="sp-run-")
        self.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name).resolve()
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        for path in (root, *root.rglob("*")):
            path.chmod(0o777)
            give_away(path)
        return root

    def test_a_program_gets_what_python_gives_it(self):
        """Arguments, its own file, the modules beside it; threads and exit functions are waited for."""
        text = ("# -*- coding: latin-1 -*-\nimport atexit, os, sys, threading, time, __main__\n"
                "print(sys.argv[1:], __name__, os.path.basename(__file__), sys.argv[0] == __file__ == __main__.__file__)\n"
                "print(ascii('\xe4'), open(__file__, 'rb').read(4), sys.path[0] == os.path.dirname(__file__))\n"
                "atexit.register(print, 'at exit')\n"
                "threading.Thread(target=lambda: (time.sleep(.3), print('thread'))).start()\n'no echo'\n").encode("latin-1")
        root = self.program({"tools/count.py": text})
        done = run_cli("run", "--pids", "90", str(root / "tools" / "count.py"), "--pids", "-c", "a b", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.decode().splitlines(), [
            "['--pids', '-c', 'a b', ''] __main__ count.py True", r"'\xe4' b'# -*' True", "thread", "at exit"])

    def test_arguments_of_code_and_of_standard_input(self):
        code = "import sys; print(sys.argv)"
        self.assertEqual(run_cli("run", "-c", code, "one", "-x").stdout, b"['-c', 'one', '-x']\n")
        self.assertEqual(run_cli("run", "-", "--memory", input=code.encode()).stdout, b"['-', '--memory']\n")

    def test_a_program_in_the_workspace_runs_at_its_place(self):
        root = self.program({"src/main.py": "import helper\nopen('made.txt', 'w').write(helper.WORD)\nopen(__file__).read()\n",
                             "src/helper.py": "WORD = 'here'\n", "data/x.csv": ""})
        done = run_cli("run", "--workspace", str(root), "../src/main.py", cwd=root / "data")
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        self.assertEqual((root / "data" / "made.txt").read_text(), "here")

    def test_a_program_outside_of_the_workspace_leaves_nothing_there(self):
        root = self.program({"tool.py": "print(len(open(__file__).read()) > 9)\n", "work/kept": ""})
        done = run_cli("run", "--workspace", str(root / "work"), str(root / "tool.py"), cwd="/")
        self.assertEqual((done.returncode, done.stdout), (0, b"True\n"), done.stderr)
        self.assertEqual(os.listdir(root / "work"), ["kept"])

    def test_files_that_are_gone_with_the_sandbox_are_named(self):
        root = self.program({"make.py": "for name in 'abcdefg': open(name + '.txt', 'w').close()\n"})
        done = run_cli("run", str(root / "make.py"))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), r"files gone with the sandbox: a\.txt, .* and 2 more; --workspace DIR keeps them")
        self.assertNotIn(b"make.py", done.stderr)
        self.assertEqual(run_cli("run", "-c", "1").stderr, b"")

    def test_tracebacks_and_exit_status_are_those_of_python(self):
        for text, status, end in (
                ("def f():\n    return {}['key']\nf()", 1, "line 2, in f\n    return {}['key']"),
                ("def f(:", 1, "SyntaxError"), ("raise SystemExit('why')", 1, "why\n"), ("raise SystemExit(259)", 3, ""),
                ("import sys\nsys.excepthook = lambda *a: print('own hook', file=sys.stderr)\n1 / 0", 1, "own hook\n")):
            with self.subTest(text=text):
                root = self.program({"p.py": text})
                done = run_cli("run", str(root / "p.py"))
                said = done.stderr.decode()
                self.assertEqual(done.returncode, status, said)
                self.assertIn(end, said)
                self.assertNotIn("/run/sandpiper", said)
                self.assertEqual(bool(end), bool(said))
        root = self.program({"p.py": "def wait():\n    while True: pass\nwait()\n"})
        done = run_cli("run", "--timeout", "1", str(root / "p.py"))
        self.assertEqual(done.returncode, 124)
        self.assertRegex(done.stderr.decode(), r"in wait\n    while True: pass\n(?: +\^+\n)?KeyboardInterrupt\nsandpiper: \[timeout: 1 s limit")
        self.assertEqual(done.stderr.count(b"KeyboardInterrupt"), 1)

    def test_a_missing_interpreter_is_reported_once(self):
        done = run_cli("run", "--python", "/no/such/python3", "-c", "1")
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count(b"/no/such/python3"), 1, done.stderr)
        server = subprocess.run([*COMMAND, "--python", "/no/such/python3"], input=(
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},'
            b' "clientInfo": {"name": "t", "version": "1"}}}\n'
            b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
            + b"".join(b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "run_python", '
                       b'"arguments": {"code": "1"}}}\n' % n for n in range(2, 6))), capture_output=True, timeout=60 * SLOW)
        self.assertEqual(server.stdout.count(b"/no/such/python3"), 4, server.stdout)
        self.assertLessEqual(server.stderr.count(b"/no/such/python3"), 1, server.stderr)

    def test_a_server_that_ends_while_its_sandbox_starts_says_nothing(self):
        hello = (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",'
                 b' "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}\n'
                 b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        for _ in range(3):
            self.assertEqual(run_cli(input=hello).stderr, b"")

    def test_output_that_cannot_be_written_sets_the_exit_status(self):
        for code, status in (("print(1)", 1), ("print('x' * 3000000)", 1), ("print(1); raise SystemExit(3)", 1)):
            with self.subTest(code=code), open("/dev/full", "wb") as full:
                done = subprocess.run([*COMMAND, "run", "-c", code], stdout=full, stderr=subprocess.PIPE, timeout=60 * SLOW)
                self.assertEqual((done.returncode, done.stderr), (status, b"sandpiper: stdout: No space left on device\n"))

    def test_a_slow_reader_gets_everything_and_the_program_waits_for_it(self):
        """Also from a descriptor that others made non-blocking, which it stays."""
        for blocking in (True, False):
            reader, writer = os.pipe()
            os.set_blocking(writer, blocking)
            process = subprocess.Popen([*COMMAND, "run", "-c", "for n in range(300000): print(n)"], stdout=writer)
            time.sleep(2)
            self.assertEqual(os.get_blocking(writer), blocking)
            os.close(writer)
            with open(reader, "rb") as stream:
                self.assertEqual(stream.read(), b"".join(b"%d\n" % n for n in range(300000)))
            self.assertEqual(process.wait(60 * SLOW), 0)

    def test_a_stalled_reader_stops_neither_the_time_limit_nor_signals(self):
        for flags, sent, status in ((("--timeout", "1"), None, 124), ((), signal.SIGTERM, 143)):
            reader, writer = os.pipe()
            process = subprocess.Popen([*COMMAND, "run", *flags, "-c", "while True: print('x' * 999)"], stdout=writer,
                                       stderr=subprocess.PIPE)
            if sent:
                time.sleep(2)
                status_file = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                self.assertLess(int(re.search(r"VmRSS:\s+(\d+)", status_file)[1]), 40_000 * LARGE)  # the program waits
                process.send_signal(sent)
            said = process.communicate(timeout=60 * SLOW)[1].decode()
            self.assertEqual(process.returncode, status)
            self.assertEqual(re.findall(r"bytes of output are lost", said), [] if sent else ["bytes of output are lost"])
            os.close(reader)
            os.close(writer)

    def test_modules_and_directories_are_programs(self):
        show = "import sys, os\nfrom {} import WORD\nprint(WORD, [os.path.basename(sys.argv[0])] + sys.argv[1:], __name__)\n"
        root = self.program({"pack/__init__.py": "", "pack/word.py": "WORD = 'here'\n", "pack/__main__.py": show.format("pack.word"),
                             "flat/__main__.py": show.format("word"), "flat/word.py": "WORD = 'beside'\n"})
        for args, word in ((["-m", "pack"], b"here"), (["flat"], b"beside")):
            done = run_cli("run", "--workspace", str(root), *args, "--pids", "-c", cwd=root)
            self.assertEqual((done.returncode, done.stdout), (0, word + b" ['__main__.py', '--pids', '-c'] __main__\n"), done.stderr)
        self.assertEqual(run_cli("run", "-c", "import sys; print(sys.argv)", "--flag", "-h").stdout, b"['-c', '--flag', '-h']\n")
        self.assertEqual(run_cli("run", "-m", "a\"b").returncode, 2)
        self.assertIn(b"pack/data/__main__.py: No such file", run_cli("run", "pack/data", cwd=self.program({"pack/data/x": ""})).stderr)

    def test_a_program_that_lacks_a_flag_gets_a_hint(self):
        root = self.program({"imports.py": "import beside\n", "beside.py": "", "opens.py": "open('x.csv')\n", "x.csv": "", "asks.py": "input()\n",
                             "lib.py": "import pandas\n", "net.py": "import socket\nsocket.create_connection(('192.0.2.1', 80))\n"})
        bare = root / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
        for args, flag in ((["imports.py"], b"--workspace DIR"), (["opens.py"], b"--workspace DIR"), (["asks.py"], b"--stdin"),
                           (["-c", "import beside"], b"--workspace DIR"), (["-m", "beside"], b"--workspace DIR"),
                           (["-c", "input()"], b"--stdin"), (["-c", "import numpy.linalg"], b"--preinstall numpy installs"),
                           (["lib.py"], b"--preinstall pandas installs"), (["net.py"], b"--allow-host example.org"),
                           (["-c", "import urllib.request as u; u.urlopen('http://a.invalid')"], b"--allow-host example.org"), (["--timeout", "1", "-c", "while True: pass"], b"--timeout S")):
            with self.subTest(args=args):
                done = run_cli("run", "--python", str(bare), *args, cwd=root)
                self.assertRegex(done.stderr, rb"(?m)^sandpiper: .*" + flag)
                self.assertNotIn(b"argument `stdin`", done.stderr)
                self.assertNotIn(b"state:", done.stderr)
        for args in (["imports.py"], ["opens.py"]):
            self.assertNotIn(b"--", run_cli("run", "--workspace", str(root), *args, cwd=root).stderr)
        self.assertNotIn(b"--", run_cli("run", "--workspace", str(root), "-c", "import nowhere", cwd=root).stderr)
        self.assertNotIn(b"sandpiper:", run_cli("run", "--stdin", "asks.py", cwd=root).stderr)

    def test_standard_input_that_no_code_gets_is_said(self):
        root = self.program({"reads.py": "import sys\nfor line in sys.stdin: print(line)\n"})
        for args in (["reads.py"], ["-c", "print(list(__import__('sys').stdin))"]):
            done = subprocess.run([*COMMAND, "run", *args], input=b"hi\n", capture_output=True, cwd=root, timeout=60 * SLOW)
            self.assertIn(b"--stdin passes it on", done.stderr)
            done = subprocess.run([*COMMAND, "run", "--stdin", *args], input=b"hi\n", capture_output=True, cwd=root,
                                  timeout=60 * SLOW)
            self.assertIn(b"hi", done.stdout)
            self.assertEqual(done.stderr, b"")
        reader, writer = os.pipe()  # that stays open
        done = subprocess.run([*COMMAND, "run", "-c", "print(1)"], stdin=reader, capture_output=True, timeout=60 * SLOW)
        os.close(reader)
        os.close(writer)
        self.assertEqual((done.stdout, done.stderr), (b"1\n", b""))

    def test_terminal_learns_that_an_assistant_starts_it(self):
        ours, theirs = os.openpty()
        with subprocess.Popen(COMMAND, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
            os.close(theirs)
            self.assertIn(b"an assistant starts this", server.stderr.readline())
            os.close(ours)
            self.assertEqual(server.wait(timeout=60 * SLOW), 0)
        self.assertEqual(subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * SLOW).stderr, b"")

    def test_misspelt_words_are_named(self):
        for args, word in ((["--workspce", "x"], b"did you mean --workspace"), (["doctor", "--memry=1G"], b"did you mean --memory"),
                           (["docter"], b"did you mean doctor"), (["--install"], b"sandpiper config --install"),
                           (["--zzzzzzz"], b"unknown option --zzzzzzz; ")):
            with self.subTest(args=args):
                self.assertIn(word, run_cli(*args, stdin=subprocess.DEVNULL).stderr)

    def test_a_missing_file_is_a_usage_error(self):
        done = run_cli("run", "/nonexistent.py")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"/nonexistent.py", done.stderr)
        self.assertEqual(run_cli("run").returncode, 2)

    def test_limits_apply(self):
        began = time.monotonic()
        done = run_cli("run", "--timeout", "1", "-c", "while True: pass")
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - began, 5 * SLOW)

    def test_a_traceback_is_shown(self):
        done = run_cli("run", "-c", "{}['k']")
        self.assertIn(b"KeyError: 'k'", done.stdout + done.stderr)

    def test_sigint_ends_the_run_and_leaves_nothing(self):
        process = subprocess.Popen([*COMMAND, "run", "-c", "import time; print('runs', flush=True); time.sleep(60)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(process.stdout.readline(), b"runs\n")
        children = descendants(process.pid)
        self.assertTrue(children)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5 * SLOW)
        self.assertFalse(any_left(children, 10 * SLOW), f"some of {children} are left")

    def test_a_signal_interrupts_the_program_once(self):
        code = "import time\ntry:\n    print('runs', flush=True)\n    time.sleep(60)\nfinally:\n    print('cleans', flush=True); {}print('end')\n"
        root = self.program({"p.py": code.format("")})
        for sent, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for args, count in ((["p.py"], 1), (["-c", code.format("")], 1), (["-c", code.format("time.sleep(60); ")], 2)):
                process = subprocess.Popen([*COMMAND, "run", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root, bufsize=0)
                self.assertEqual(process.stdout.readline(), b"runs\n")
                process.send_signal(sent)
                self.assertEqual(process.stdout.readline(), b"cleans\n", args)
                if count > 1:
                    process.send_signal(sent)
                out, said = process.communicate(timeout=30 * SLOW)
                self.assertEqual((out, process.returncode), (b"end\n" if count == 1 else b"", status), (args, said))
                self.assertEqual(b"KeyboardInterrupt" in said, count == 1, said)

    def test_a_preload_that_fails_is_named(self):
        done = run_cli("run", "--preload", "json,no_such", "-c", "print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, b"1\n"))
        self.assertIn("--preload no_such: No module named 'no_such'", done.stderr.decode())
        self.assertEqual(run_cli("run", "--preload", "json", "-c", "print(1)").stderr, b"")
        arguments = json.dumps({"code": "1"})
        self.assertIn("--preload no_such: No module", run_cli("call", "--preload", "no_such", "run_python", arguments).stdout.decode())

    def test_a_wrong_hash_seed_is_named_with_its_fix(self):
        done = run_cli("run", "-c", "1", env={**os.environ, "PYTHONHASHSEED": "x"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("Fix: unset PYTHONHASHSEED.", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
