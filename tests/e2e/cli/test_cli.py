"""The command line: run, call, doctor, schema, --version, --help and bad flags."""
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

from client import COMMAND, LARGE, ROOT, SLOW, Case, Server, give_away, need_userns, once, run_cli
from traces import descendants


class Configuration(Case):
    """Uses `doctor --effective`, which starts no sandbox and reads the same settings as every command."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sp-config-")
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "sandpiper", "config")
        self.file.parent.mkdir()
        self.env = {**os.environ, "XDG_CONFIG_HOME": directory.name}

    def effective(self, text, *flags):
        self.file.write_text(text)
        done = run_cli("doctor", "--effective", *flags, env=self.env)
        rows = [re.split(r"\s{2,}|(?<=\S) (?=default$)", line) for line in done.stdout.decode().splitlines()]
        return done, {row[0]: tuple(row[1:]) for row in rows}

    def test_flags_override_the_configuration_file(self):
        done, rows = self.effective("# mine\n\nmemory = 2G\r\n  timeout=12  \nresources = yes\nrequire = memory\nstructured = no",
                                    "--timeout", "5", "--require=landlock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows["memory"], ("2G", f"{self.file}:3"))
        self.assertEqual(rows["timeout"], ("5", "command line"))
        self.assertEqual(rows["resources"], ("yes", f"{self.file}:5"))
        self.assertEqual((rows["require"], rows[""]), (("memory", f"{self.file}:6"), ("landlock", "command line")))
        self.assertEqual(rows["structured"], ("no", "default"))
        self.assertEqual(rows["pids"], ("256", "default"))

    def test_config_flag_names_another_file(self):
        self.file.write_text("memory = 3G\n")
        other = self.file.with_name("other")
        other.write_text("pids = 99\n")
        for flags in (("--config", str(other)), (f"--config={other}",), ("--config", "/none", "--config", str(other))):
            rows = self.effective("disk = 77M\n", *flags)[1]
            self.assertEqual((rows["pids"], rows["disk"]), (("99", f"{other}:1"), ("1G", "default")))
        self.assertEqual(self.effective("disk = 77M\n", "--config=/dev/null")[1]["disk"], ("1G", "default"))

    def test_sizes_in_force_are_shown_and_agree_with_the_tools(self):
        """By default a quarter of the machine's memory, which may be reduced by the limit of a container; files in memory
        take at most three quarters of the memory."""
        rows = self.effective("")[1]
        size, source = rows["memory"]
        mib = int(size[:-1]) * (1024 if size.endswith("G") else 1)
        quarter = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 >> 20
        self.assertEqual(source, "default")
        self.assertLessEqual(mib, min(max(quarter, 1024), 8192))
        self.assertEqual(self.effective("memory = auto")[1]["memory"][0], f"{size}, from auto")
        shown = f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
        self.assertIn(f"; {shown} of memory,", run_cli("schema", env=self.env).stdout.decode())
        for disk in ("1G", "70M"):
            rows = self.effective("memory = 512M", "--disk", disk, "--isolation=auto")[1]
            self.assertEqual(rows["disk"][0], "384M, from 1G" if disk == "1G" else "70M")
        self.assertEqual(rows["undo-files"][0], "32M")
        rows = self.effective("max-timeout = 10")[1]
        self.assertEqual([rows[name][0] for name in ("timeout", "max-timeout")], ["10", "10"])
        self.assertEqual(self.effective("timeout = 4000")[1]["max-timeout"][0], "4000")

    def test_mistakes_are_reported_with_file_and_line(self):
        for text, sentence in {
            "\nmemry = 1G": "2: memry is not a setting",
            "memory": '1: a line must be "name = value"',
            "memory =": "1: memory needs a value: memory = SIZE",
            "memory = x": '1: --memory takes a size such as 512M or 2G, not "x"',
            "resources = maybe": '1: resources takes yes or no, not "maybe"',
            "json = yes": "1: json belongs to one command",
            "pids = 99\npids = 99": "2: pids is set twice",
            "\0": "is not text",
            "#" * 70000: "has more than 65536 bytes",
        }.items():
            with self.subTest(text[:20]):
                done = self.effective(text)[0]
                self.assertEqual(done.returncode, 2)
                self.assertIn(sentence, done.stderr.decode())

    def test_a_file_that_others_can_write_is_refused(self):
        self.file.write_text("memory = 2G\n")
        self.file.chmod(0o666)
        done = run_cli("doctor", "--effective", env=self.env)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is writable by everybody", done.stderr.decode())

    def test_a_missing_or_irregular_file_is_refused(self):
        for path, why in (("/none/at/all", "No such file"), (str(self.file.parent), "is not a regular file")):
            done = run_cli("doctor", "--effective", "--config", path, env=self.env)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr.decode())

    def test_a_server_with_a_bad_file_serves_and_says_what_to_fix(self):
        self.file.write_text("memory = much\n")
        with Server("--config", str(self.file)) as server:
            result = server.python("1")
            self.assertTrue(result.is_error)
            self.assertIn(f"{self.file}:1: --memory takes a size", result.text)


@once
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
            self.assertEqual(run_cli("run", "--workspace", str(root), *args, cwd=root).stderr, b"")
        self.assertNotIn(b"sandpiper:", run_cli("run", "--workspace", str(root), "-c", "import nowhere", cwd=root).stderr)
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
        process = subprocess.Popen([*COMMAND, "run", "-c", "import time; time.sleep(60)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(1)
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5 * SLOW)
        time.sleep(0.2)
        self.assertEqual([pid for pid in children if os.path.exists(f"/proc/{pid}")], [])


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


class Call(Case):
    def call(self, *args, stdin=None):
        """(exit status, the printed JSON values)."""
        done = subprocess.run([*COMMAND, "call", *args], input=stdin, capture_output=True,
                              timeout=60 * SLOW)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def test_call_prints_the_result_that_a_client_gets(self):
        need_userns()
        status, (result,) = self.call("run_python", '{"code": "6 * 7", "timeout_s": null}')
        self.assertEqual((status, result["isError"]), (0, False))
        self.assertTrue(result["content"][0]["text"].startswith("Out: 42\n"), result)

    def test_a_tool_error_has_the_format_of_a_vendor(self):
        need_userns()
        status, (block,) = self.call("--format", "anthropic", "--id", "toolu_1", "run_python", "-",
                                     stdin=b'{"code": "1 / 0"}')
        self.assertEqual(status, 1)
        self.assertEqual((block["type"], block["tool_use_id"], block["is_error"]),
                         ("tool_result", "toolu_1", True))
        self.assertIn("ZeroDivisionError", block["content"][0]["text"])

    def test_a_long_program_gives_a_long_result(self):
        """Both are larger than a socket's buffer."""
        need_userns()
        code = f"text = {'x' * 3_000_000!r}; print(len(text))"
        status, (result,) = self.call("run_python", "-",
                                      stdin=json.dumps({"code": code}).encode())
        self.assertEqual(status, 0, result)
        self.assertTrue(result["content"][0]["text"].startswith("3000000\n"))
        with tempfile.TemporaryDirectory(prefix="sp-call-") as directory:
            os.chmod(directory, 0o777)
            give_away(directory)
            pathlib.Path(directory, "a.bin").write_bytes(bytes(400_000))
            status, (result,) = self.call(
                "--workspace", directory, "read_file",
                '{"path": "a.bin", "encoding": "base64", "length": 400000}')
        self.assertEqual(status, 0, result)
        self.assertGreater(len(result["content"][0]["text"]), 500_000)

    def test_a_malformed_call_is_a_usage_error(self):
        for args in ([], ["run_python", "{"], ["run_python", "[]"], ["no_such_tool", "{}"],
                     ["run_python", "{}", "more"], ["--format", "nonsense", "run_python", "{}"]):
            with self.subTest(args=args):
                done = run_cli("call", *args)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                self.assertTrue(done.stderr.startswith(b"sandpiper: "))


class Doctor(Case):
    def test_doctor_lists_protections_with_consequences(self):
        done = run_cli("doctor")
        text = done.stdout.decode()
        for word in ("user", "mount", "pid", "seccomp", "cgroup", "memory", "python"):
            self.assertRegex(text, re.compile(word, re.IGNORECASE))

    def test_json(self):
        done = run_cli("doctor", "--json")
        self.assertIsInstance(json.loads(done.stdout), dict)

    def test_packages_get_no_more_than_is_free(self):
        with tempfile.TemporaryDirectory() as cache:
            for size in ("64M", "900T"):
                done = run_cli("doctor", "--json", "--cache", cache, "--package-disk", size)
                text = {fact["fact"]: fact["text"] for fact in json.loads(done.stdout)["facts"]}["packages"]
                free = os.statvfs(cache).f_bavail * os.statvfs(cache).f_frsize >> 20
                most = int(re.search(r"at most (\d+) MiB", text)[1])
                self.assertEqual(most, 64) if size == "64M" else self.assertLess(abs(most - free), 1024)
                self.assertEqual("which are free" in text, size == "900T")

    def test_the_plan_is_printed_and_changes_nothing(self):
        def plan():
            """The plan without the outside identity, which differs for each server."""
            return re.sub(rb"\d{7,}", b"ID", run_cli("doctor", "--plan").stdout)
        before = plan()
        self.assertGreater(before.count(b"\n"), 10)
        self.assertIn(b"pivot", before)
        self.assertIn(b"seccomp", before)
        self.assertEqual(plan(), before)

    def test_flags_change_the_plan(self):
        self.assertNotEqual(run_cli("doctor", "--plan", "--disk", "64M").stdout,
                            run_cli("doctor", "--plan").stdout)

    def test_exit_status_is_that_of_the_worst_protection(self):
        need_userns()
        done = run_cli("doctor", "--json")
        states = {layer["state"] for layer in json.loads(done.stdout)["protections"]}
        self.assertNotIn("off", states)
        self.assertEqual(done.returncode, 1 if "degraded" in states else 0)


class Words(Case):
    def test_version(self):
        done = run_cli("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^sandpiper \d+\.\d+\.\d+(-dev)?\n$")

    def test_help_names_every_flag_of_the_manual(self):
        done = run_cli("--help")
        self.assertEqual(done.returncode, 0)
        text = done.stdout.decode()
        for flag in ("--memory", "--cpus", "--pids", "--disk", "--timeout", "--max-timeout",
                     "--workspace", "--python", "run", "doctor", "--version", "--help"):
            self.assertIn(flag, text)
        manual = ROOT / "docs" / "sandpiper.1.scd"
        documented = set(re.findall(r"^\*(--[a-z-]+)\*", manual.read_text(), re.MULTILINE))
        advertised = set(re.findall(r"--[a-z][a-z-]+", text))
        self.assertEqual(documented - advertised, set(), "in the manual, not in --help")
        self.assertEqual(advertised - documented, set(), "in --help, not in the manual")

    def test_schema_prints_what_tools_list_sends(self):
        done = run_cli("schema")
        self.assertEqual(done.returncode, 0)
        printed = json.loads(done.stdout)
        with Server("--wait", "25") as server:
            listed = server.request("tools/list")["result"]["tools"]
        tools = printed["tools"] if isinstance(printed, dict) else printed
        self.assertEqual([tool["name"] for tool in tools], [tool["name"] for tool in listed])
        for mine, sent in zip(tools, listed):
            self.assertEqual(mine["inputSchema"], sent["inputSchema"])

    def test_every_form_of_the_schema_names_all_tools(self):
        names = [tool["name"] for tool in json.loads(run_cli("schema").stdout)]
        for form in ("mcp", "openai-chat", "openai-responses", "anthropic", "gemini"):
            for strict in ([], ["--strict"]):
                with self.subTest(form=form, strict=strict):
                    done = run_cli("schema", "--format", form, *strict)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    printed = json.loads(done.stdout)
                    tools = printed["functionDeclarations"] if form == "gemini" else printed
                    tools = [tool.get("function", tool) for tool in tools]
                    self.assertEqual([tool["name"] for tool in tools], names)

    def test_output_that_cannot_be_written_is_an_error(self):
        for args in (["--help"], ["--version"], ["schema"], ["doctor", "--effective"], ["doctor", "--plan"],
                     ["config", "--host", "zed"], ["doctor", "--plan", "--json"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                done = subprocess.run([*COMMAND, *args], stdout=full, stderr=subprocess.PIPE, timeout=60 * SLOW)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"cannot write all output to stdout", done.stderr)

    def test_a_closed_descriptor_is_no_other_files(self):
        need_userns()
        for closed in (">&-", "2>&-", "<&-", ">&- 2>&- <&-"):
            with self.subTest(closed=closed):
                done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "run", "-c",
                                       "import sys; print('out'); print('err', file=sys.stderr)"],
                                      capture_output=True, timeout=60 * SLOW)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, b"" if ">&-" in closed.split() else b"out\n")
                self.assertEqual(done.stderr, b"" if "2>&-" in closed else b"err\n")

    def test_unknown_words_are_usage_errors(self):
        for args in (["nonsense"], ["run", "--nonsense"], ["run", "-x"], ["run", "--memory"],
                     ["doctor", "--nonsense"], ["schema", "--nonsense"]):
            with self.subTest(args=args):
                done = run_cli(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr)
                self.assertEqual(done.stdout, b"")

    def test_a_server_with_wrong_flags_stays_up_and_says_what_is_wrong(self):
        """A client shows its user the results of tools, and seldom the last output of a server."""
        for args, word in ((["--nonsense"], "--nonsense"), (["--memory", "x"], "--memory")):
            with self.subTest(args=args), Server(*args) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error)
                self.assertIn(word, result.text)

    def test_flags_come_before_or_after_the_command(self):
        for args in (("--disk", "33M", "--cpus=2", "doctor", "--effective"), ("doctor", "--disk", "33M", "--effective", "--cpus=2"),
                     ("--effective", "doctor", "--cpus", "2", "--disk=33M")):
            done = run_cli(*args)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout.decode(), r"(?m)^cpus +2 [^$]*^disk +33M +command line")

    def test_help_of_each_command_shows_its_own_options(self):
        own = {"run": "--stdin", "doctor": "--plan", "schema": "--strict", "call": "--id", "config": "--host"}
        for command, option in own.items():
            for args in ((command, "--help"), (command, "-h"), ("--help", command), ("help", command),
                         (command, "--cpus", "2", "--help") if command != "config" else (command, "--install", "-h")):
                with self.subTest(args=args):
                    done = run_cli(*args)
                    text = done.stdout.decode()
                    self.assertEqual((done.returncode, done.stderr), (0, b""))
                    self.assertTrue(text.startswith(f"Usage: sandpiper {command} "), text)
                    for other in own.values():
                        self.assertEqual(bool(re.search(rf"(?m)^  {other} ", text)), other == option, other)
        self.assertLessEqual(max(map(len, run_cli("--help").stdout.decode().splitlines())), 100)

    def test_run_and_call_refuse_what_only_a_server_does(self):
        for command in (("run", "-c", "1"), ("call", "read_file", '{"path": "x"}')):
            for option in (("--record", "/tmp"), ("--jobs", "2"), ("--wait", "off"), ("--idle-exit", "9")):
                with self.subTest(command=command, option=option):
                    done = run_cli(command[0], *option, *command[1:], stdin=subprocess.DEVNULL)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"{option[0]} is an option of the server; {command[0]} has no use for it", done.stderr.decode())
                    self.assertNotIn(f"\n  {option[0]} ", run_cli(command[0], "--help").stdout.decode())
        # A file of settings is for all of them.
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("jobs = 2\n")
            file.flush()
            self.assertIn("1", run_cli("run", "--config", file.name, "-c", "print(1)").stdout.decode())

    def test_h_is_the_short_form_of_help(self):
        for command in ((), ("run",), ("config",), ("doctor",)):
            with self.subTest(command=command):
                short, whole = (run_cli(*command, word).stdout.decode() for word in ("-h", "--help"))
                self.assertLess(short.count("\n"), 45)
                self.assertGreater(whole.count("\n"), 70)
                self.assertIn("--workspace DIR", short)
                self.assertNotIn("--pids", short)
                self.assertIn(f"sandpiper {' '.join(command + ('--help',))} lists all", short)
        self.assertIn("--pids", run_cli("help", "run").stdout.decode())

    def test_an_argument_too_many_is_a_usage_error(self):
        for args in (("doctor", "now"), ("--pids", "99", "nonsense", "schema"), ("--cpus", "2", "config", "--host", "zed")):
            self.assertEqual(run_cli(*args, stdin=subprocess.DEVNULL).returncode, 2 if args[0] != "--pids" else 0)

    def test_a_wrong_flag_at_a_terminal_ends_the_server(self):
        """No client is there to show the user what the tools would say."""
        terminal, other = os.openpty()
        done = subprocess.run([*COMMAND, "--nonsense"], stdin=other, capture_output=True, timeout=60 * SLOW)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"--nonsense", done.stderr)
        os.close(terminal)
        os.close(other)

    def test_bad_values_are_named_together_with_the_flag(self):
        for flag, values in {"--memory": ("x", "-1", "0", "1Q", "", "1e3", "99999999999999999999"),
                             "--pids": ("0", "-3", "many", "1.5"),
                             "--cpus": ("0", "-1", "x"),
                             "--timeout": ("0", "-1", "soon"),
                             "--disk": ("0", "x"),
                             "--max-timeout": ("0", "x")}.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    done = run_cli("run", flag, value, "-c", "pass")
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(flag.encode(), done.stderr)

    def test_a_bad_index_url_is_named_by_its_flag_and_not_repeated(self):
        for flag in ("--index-url", "--extra-index-url"):
            for url in ("ftp://me:secret@host/", "https://me:secret@host:x/", "https://me:secret@host/\n"):
                with self.subTest(flag=flag, url=url):
                    done = run_cli("tools", flag, url)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f"{flag}: ".encode(), done.stderr)
                    self.assertNotIn(b"secret", done.stdout + done.stderr)

    def test_a_flag_given_twice_or_with_an_equals_sign(self):
        need_userns()
        self.assertEqual(run_cli("run", "--memory=256M", "--pids=32", "-c", "pass").returncode, 0)
        self.assertEqual(run_cli("run", "--pids", "9", "--pids", "32", "-c", "pass").returncode, 0)


if __name__ == "__main__":
    unittest.main()
