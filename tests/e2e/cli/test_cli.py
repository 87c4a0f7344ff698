"""The command line: call, doctor, schema, --version, --help and bad flags."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from client import COMMAND, ROOT, SLOW, Case, Server, give_away, need_userns, run_cli


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
        for command in (("config",), ("record",)):
            with self.subTest(command=command):
                whole = run_cli(*command, "--help").stdout.decode()
                self.assertLess(whole.count("\n"), 25, whole)
                self.assertNotIn("--memory", whole)
                self.assertIn("options of the server; sandpiper --help lists them", whole)
                self.assertEqual(run_cli(*command, "-h").stdout.decode(), whole)
        for command in ((), ("run",), ("doctor",)):
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
