"""The command line: run, call, doctor, schema, --version, --help and bad flags."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from client import COMMAND, SLOW, Case, Server, give_away, need_userns, run_cli
from traces import descendants


class Configuration(Case):
    """`doctor --effective` starts no sandbox: it reads what every command reads."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sp-config-")
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "sandpiper", "config")
        self.file.parent.mkdir()
        self.env = {**os.environ, "XDG_CONFIG_HOME": folder.name}

    def effective(self, text, *flags):
        self.file.write_text(text)
        done = run_cli("doctor", "--effective", *flags, env=self.env)
        rows = [re.split(r"\s{2,}|(?<=\S) (?=default$)", line) for line in done.stdout.decode().splitlines()]
        return done, {row[0]: tuple(row[1:]) for row in rows}

    def test_the_usual_file_and_flags_over_it(self):
        done, rows = self.effective("# mine\n\nmemory = 2G\r\n  timeout=12  \nresources = yes\nrequire = memory\nstructured = no",
                                    "--timeout", "5", "--require=landlock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows["memory"], ("2G", f"{self.file}:3"))
        self.assertEqual(rows["timeout"], ("5", "command line"))
        self.assertEqual(rows["resources"], ("yes", f"{self.file}:5"))
        self.assertEqual((rows["require"], rows[""]), (("memory", f"{self.file}:6"), ("landlock", "command line")))
        self.assertEqual(rows["structured"], ("no", "default"))
        self.assertEqual(rows["pids"], ("256", "default"))

    def test_another_file(self):
        self.file.write_text("memory = 3G\n")
        other = self.file.with_name("other")
        other.write_text("pids = 99\n")
        for flags in (("--config", str(other)), (f"--config={other}",), ("--config", "/none", "--config", str(other))):
            rows = self.effective("memory = 3G\n", *flags)[1]
            self.assertEqual((rows["pids"], rows["memory"]), (("99", f"{other}:1"), ("1G", "default")))
        self.assertEqual(self.effective("memory = 3G\n", "--config=/dev/null")[1]["memory"], ("1G", "default"))

    def test_mistakes_have_their_place(self):
        for text, sentence in {
            "\nmemry = 1G": "2: memry is no setting",
            "memory": '1: a line is "name = value"',
            "memory =": "1: memory needs a value: memory = SIZE",
            "memory = x": '1: --memory takes a size such as 512M or 2G, not "x"',
            "resources = maybe": '1: resources takes yes or no, not "maybe"',
            "json = yes": "1: json is for one command",
            "pids = 99\npids = 99": "2: pids is there twice",
            "\0": "is not text",
            "#" * 70000: "has more than 65536 bytes",
        }.items():
            with self.subTest(text[:20]):
                done = self.effective(text)[0]
                self.assertEqual(done.returncode, 2)
                self.assertIn(sentence, done.stderr.decode())

    def test_a_file_that_others_may_write_is_refused(self):
        self.file.write_text("memory = 2G\n")
        self.file.chmod(0o666)
        done = run_cli("doctor", "--effective", env=self.env)
        self.assertEqual(done.returncode, 2)
        self.assertIn("can be written by everybody", done.stderr.decode())

    def test_files_that_are_none(self):
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


class Run(Case):
    def setUp(self):
        need_userns()

    def test_code_given_on_the_command_line(self):
        done = run_cli("run", "-c", "print('out'); import sys; print('err', file=sys.stderr)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"out\n", done.stdout)

    def test_the_exit_code_is_that_of_the_code(self):
        for code, status in (("pass", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1),
                             ("import os; os._exit(7)", 7)):
            with self.subTest(code=code):
                self.assertEqual(run_cli("run", "-c", code).returncode, status)

    def test_a_file(self):
        with tempfile.TemporaryDirectory(prefix="sp-run-") as folder:
            path = pathlib.Path(folder, "program.py")
            path.write_text("print(6 * 7)\n")
            done = run_cli("run", str(path))
            self.assertEqual((done.returncode, done.stdout.startswith(b"42\n")), (0, True))

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

    def test_interrupt_ends_it_and_leaves_nothing(self):
        process = subprocess.Popen([*COMMAND, "run", "-c", "import time; time.sleep(60)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(1)
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5 * SLOW)
        time.sleep(0.2)
        self.assertEqual([pid for pid in children if os.path.exists(f"/proc/{pid}")], [])


class Call(Case):
    def call(self, *args, stdin=None):
        """(exit status, the JSON values that it printed)."""
        done = subprocess.run([*COMMAND, "call", *args], input=stdin, capture_output=True,
                              timeout=60 * SLOW)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_result_as_a_host_gets_it(self):
        need_userns()
        status, (result,) = self.call("run_python", '{"code": "6 * 7", "timeout_s": null}')
        self.assertEqual((status, result["isError"]), (0, False))
        self.assertTrue(result["content"][0]["text"].startswith("Out: 42\n"), result)

    def test_an_error_of_the_tool_in_the_form_of_a_vendor(self):
        need_userns()
        status, (block,) = self.call("--format", "anthropic", "--id", "toolu_1", "run_python", "-",
                                     stdin=b'{"code": "1 / 0"}')
        self.assertEqual(status, 1)
        self.assertEqual((block["type"], block["tool_use_id"], block["is_error"]),
                         ("tool_result", "toolu_1", True))
        self.assertIn("ZeroDivisionError", block["content"][0]["text"])

    def test_a_long_program_and_a_long_answer(self):
        """Both are longer than what a socket takes at once."""
        need_userns()
        code = f"text = {'x' * 3_000_000!r}; print(len(text))"
        status, (result,) = self.call("run_python", "-",
                                      stdin=json.dumps({"code": code}).encode())
        self.assertEqual(status, 0, result)
        self.assertTrue(result["content"][0]["text"].startswith("3000000\n"))
        with tempfile.TemporaryDirectory(prefix="sp-call-") as folder:
            os.chmod(folder, 0o777)
            give_away(folder)
            pathlib.Path(folder, "a.bin").write_bytes(bytes(400_000))
            status, (result,) = self.call(
                "--workspace", folder, "read_file",
                '{"path": "a.bin", "encoding": "base64", "length": 400000}')
        self.assertEqual(status, 0, result)
        self.assertGreater(len(result["content"][0]["text"]), 500_000)

    def test_what_is_no_call_is_a_usage_error(self):
        for args in ([], ["run_python", "{"], ["run_python", "[]"], ["no_such_tool", "{}"],
                     ["run_python", "{}", "more"], ["--format", "nonsense", "run_python", "{}"]):
            with self.subTest(args=args):
                done = run_cli("call", *args)
                self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
                self.assertTrue(done.stderr.startswith(b"sandpiper: "))


class Doctor(Case):
    def test_it_lists_the_layers_with_their_consequence(self):
        done = run_cli("doctor")
        text = done.stdout.decode()
        for word in ("user", "mount", "pid", "seccomp", "cgroup", "memory", "python"):
            self.assertRegex(text, re.compile(word, re.IGNORECASE))

    def test_json(self):
        done = run_cli("doctor", "--json")
        self.assertIsInstance(json.loads(done.stdout), dict)

    def test_the_plan_is_printed_and_changes_nothing(self):
        def plan():
            """Without the outside identity, which is another one for each server."""
            return re.sub(rb"\d{7,}", b"ID", run_cli("doctor", "--plan").stdout)
        before = plan()
        self.assertGreater(before.count(b"\n"), 10)
        self.assertIn(b"pivot", before)
        self.assertIn(b"seccomp", before)
        self.assertEqual(plan(), before)

    def test_flags_change_the_plan(self):
        self.assertNotEqual(run_cli("doctor", "--plan", "--disk", "64M").stdout,
                            run_cli("doctor", "--plan").stdout)

    def test_exit_status_is_that_of_the_worst_layer(self):
        need_userns()
        done = run_cli("doctor", "--json")
        states = {layer["state"] for layer in json.loads(done.stdout)["layers"]}
        self.assertNotIn("off", states)
        self.assertEqual(done.returncode, 1 if "degraded" in states else 0)


class Words(Case):
    def test_version(self):
        done = run_cli("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout.decode(), r"^sandpiper \d+\.\d+\.\d+\n$")

    def test_help_names_every_flag_of_the_manual(self):
        done = run_cli("--help")
        self.assertEqual(done.returncode, 0)
        text = done.stdout.decode()
        for flag in ("--memory", "--cpus", "--pids", "--disk", "--timeout", "--max-timeout",
                     "--workspace", "--python", "run", "doctor", "--version", "--help"):
            self.assertIn(flag, text)
        manual = pathlib.Path(__file__).parents[2] / "docs" / "sandpiper.1.scd"
        documented = set(re.findall(r"^\*(--[a-z-]+)\*", manual.read_text(), re.MULTILINE))
        advertised = set(re.findall(r"--[a-z][a-z-]+", text))
        self.assertEqual(documented - advertised, set(), "in the manual, not in --help")
        self.assertEqual(advertised - documented, set(), "in --help, not in the manual")

    def test_schema_prints_what_tools_list_sends(self):
        done = run_cli("schema")
        self.assertEqual(done.returncode, 0)
        printed = json.loads(done.stdout)
        with Server() as server:
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

    def test_unknown_words_are_usage_errors(self):
        for args in (["nonsense"], ["run", "--nonsense"], ["run", "-x"], ["run", "--memory"],
                     ["doctor", "--nonsense"], ["schema", "--nonsense"]):
            with self.subTest(args=args):
                done = run_cli(*args)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr)
                self.assertEqual(done.stdout, b"")

    def test_a_server_with_wrong_flags_stays_up_and_says_what_is_wrong(self):
        """A host shows its user what a tool answers, and seldom what a server wrote when it ended."""
        for args, word in ((["--nonsense"], "--nonsense"), (["--memory", "x"], "--memory")):
            with self.subTest(args=args), Server(*args) as server:
                result = server.python("print('code ' + 'ran')")
                self.assertTrue(result.is_error)
                self.assertIn(word, result.text)

    def test_a_command_behind_flags_is_told_on_the_terminal(self):
        done = run_cli("--pids", "99", "run", "program.py")
        self.assertIn(b'"run" (a command comes first)', done.stderr)

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

    def test_a_flag_given_twice_or_with_an_equals_sign(self):
        need_userns()
        self.assertEqual(run_cli("run", "--memory=256M", "--pids=32", "-c", "pass").returncode, 0)
        self.assertEqual(run_cli("run", "--pids", "9", "--pids", "32", "-c", "pass").returncode, 0)


if __name__ == "__main__":
    unittest.main()
