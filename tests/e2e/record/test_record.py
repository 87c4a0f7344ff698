"""--record: what is kept of a server, what is said of it again, and what happens when it cannot be written."""
import ast
import hashlib
import html
import json
import os
import re
import resource
import subprocess
import sys
import unittest

from client import COMMAND, Server, give_away, once
from container_level import CONTAINER
from record_case import Record

PIXEL = ("import base64\nopen('plot.png', 'wb').write(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUl"
         "EQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))")
EVIL = "\x1b]52;c;x\x07\x9b1m\u202e<script>alert(1)</script>\" onerror=\"x"


class Kept(Record):
    def test_file_is_made_at_the_first_call_and_is_the_users_alone(self):
        with self.server() as server:
            server.request("tools/list")
            self.assertFalse(self.records.exists())
            server.python("1")
            self.assertEqual(self.records.stat().st_mode & 0o7777, 0o700)
            self.assertEqual(self.path().stat().st_mode & 0o7777, 0o600)
        self.assertRegex(self.path().name, r"^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-\d+\.jsonl$")
        self.assertEqual(self.events("end")[0]["why"], "stdin was closed")

    def test_calls_are_recorded_with_their_results(self):
        with self.server("--timeout", "60") as server:
            server.python("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('more')\n40 + 2")
            server.write("a.txt", "hello\n")
            server.read("a.txt")
            server.python("1/0")
            server.python("x = 1", checkpoint="one")
            server.python("import os; os._exit(3)")
            server.python("", undo=True)
            server.python("y", restore="one")
            server.python("1", reset=True)
            server.python("1", nonsense=2)
            server.python(PIXEL)
        start = self.events("start")[0]
        self.assertIn({"name": "timeout", "value": "60", "source": "command line"}, start["settings"])
        cell, result = self.events("cell")[0], self.events("result")[0]
        self.assertEqual((cell["session"], cell["cell"]), ("default", 1))
        self.assertEqual(result["output"], [["stdout", "out\n"], ["stderr", "err\n"], ["stdout", "more\n"]])
        self.assertEqual((result["value"], result["outcome"], result["state"]), ("42", "ok", "kept"))
        write = self.events("write")[0]
        self.assertEqual((write["size"], write["sha256"]), (6, hashlib.sha256(b"hello\n").hexdigest()))
        self.assertEqual(self.events("read")[0]["content"][0]["text"].strip(), "1\thello"
                         if "\t" in self.events("read")[0]["content"][0]["text"] else "hello")
        self.assertEqual(self.events("result")[1]["error_type"], "ZeroDivisionError")
        self.assertEqual(self.events("checkpoint")[0]["name"], "one")
        self.assertEqual(len(self.events("undo")), 1)
        self.assertEqual(self.events("restore")[0]["name"], "one")
        self.assertEqual(len(self.events("reset")), 1)
        self.assertIn("nonsense", self.events("tool")[0]["content"][0]["text"])
        self.assertEqual(self.events("result")[-1]["images"][0]["mime"], "image/png")

    def test_jobs_and_fresh_runs_are_recorded(self):
        with self.server("--wait", "25") as server:
            server.python("import time; print('a', flush=True); time.sleep(0.3); print('b')", wait_s=0)
            server.python("", job=1)
            server.python("7", fresh=True)
        self.assertEqual(self.events("job")[0]["job"], 1)
        self.assertEqual(self.events("result")[0]["output"], [["stdout", "a\nb\n"]])
        self.assertEqual(self.events("result")[1]["state"], "dropped")

    def test_long_outputs_are_cut_with_length_and_hash(self):
        with self.server() as server:
            server.python("import sys; sys.stdout.write('x' * 3_000_000)")
        result = self.events("result")[0]
        self.assertEqual(len(result["output"][0][1]), 1 << 20)
        self.assertEqual(result["output_bytes"], 3_000_000)
        self.assertEqual(result["output_sha256"], hashlib.sha256(b"x" * 3_000_000).hexdigest())

    def test_no_secret_of_the_environment_or_of_a_url_is_in_it(self):
        env = dict(os.environ, SECRET_CANARY="canary-4711", HTTPS_PROXY="http://u:canary-4712@proxy.invalid")
        with self.server("--index-url", "https://user:canary-4713@index.invalid/simple", env=env) as server:
            server.python("import os; print(sorted(os.environ))")
            server.call("install_package", packages=["six"])
        text = self.path().read_text()
        self.assertNotIn("canary-47", text)
        self.assertIn("index.invalid", text)

    def test_refused_connections_are_recorded(self):
        with self.server("--allow-host", "allowed.invalid") as server:
            server.python("import urllib.request\ntry: urllib.request.urlopen('http://other.invalid/x?secret')\n"
                          "except Exception as error: print(error)")
        network = self.events("network")[0]
        self.assertEqual((network["host"], network["port"], network["decision"]), ("other.invalid", 80, "refused"))
        self.assertIn("--allow-host", self.command("why", self.path()).replace("setting: --", "--"))


class Refused(Record):
    def test_directory_that_code_could_see_is_refused(self):
        work = self.place / "work"
        (work / "in").mkdir(parents=True)
        give_away(work)
        for args in (("--workspace", work, "--record", work / "in"), ("--workspace", work, "--record", work),
                     ("--workspace", work / "in", "--record", work), ("--mount", work, "--record", work / "in")):
            with self.subTest(args=args), Server(*map(str, args)) as server:
                result = server.python("1")
                self.assertTrue(result.is_error)
                self.assertIn("which code can see", result.text)

    def test_directory_of_another_mode_is_refused_and_not_changed(self):
        self.records.mkdir(mode=0o755)
        self.records.chmod(0o755)
        with self.server() as server:
            self.assertIn("mode 0700", server.python("1").text)
        self.assertEqual(self.records.stat().st_mode & 0o7777, 0o755)

    def test_record_required_needs_a_directory(self):
        with Server("--record-required") as server:
            self.assertIn("--record-required needs", server.python("1").text)


class Failing(Record):
    def limit(self, server):
        """No file of this server may grow by more than 2,000 bytes."""
        server.python("x = 0")
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                         (self.path().stat().st_size + 2000, resource.RLIM_INFINITY))

    def test_session_goes_on_when_the_record_cannot_be_written(self):
        with self.server() as server:
            self.limit(server)
            texts = [server.python("print('y' * 900)\nx = %d" % number).text for number in range(8)]
            self.assert_prints(server.python("print(x)"), "7")
        self.assertEqual(sum("the record has ended" in text for text in texts), 1)
        self.assertTrue(self.events())  # whole lines
        self.assertIn("without \"end\"", self.command("check", self.path()))

    def test_nothing_runs_without_a_required_record(self):
        with self.server("--record-required") as server:
            self.limit(server)
            texts = [server.python("print('y' * 900)").text for _ in range(8)]
        self.assertIn("--record-required", texts[-1])

    def test_two_servers_have_a_file_each_and_keep_it(self):
        with self.server("--record-size", "1M") as one, self.server("--record-size", "1M") as two:
            one.python("1")
            two.python("2")
            self.assertEqual(len(list(self.records.iterdir())), 2)


@once
class Read(Record):
    def analysis(self):
        with self.server("--timeout", "60") as server:
            server.write("data.txt", "1 2 3\n")
            server.python("numbers = [int(n) for n in open('data.txt').read().split()]\nprint(len(numbers))")
            server.python("sum(numbers)")
            server.python("numbers[9]")
            server.python("while True: pass", timeout_s=1)
            server.python("import os; os.abort()")
            server.python("numbers.clear()")
            server.python("print(numbers)", undo=True)
            server.python(f"print({EVIL!r})")
            server.python("def f(:")
            server.python("!echo shell")
            server.python("5", session="other")
        return self.path()

    def test_altered_removed_and_moved_lines_are_found(self):
        path = self.analysis()
        self.assertIn("whole", self.command("check", path))
        lines = path.read_bytes().splitlines(keepends=True)
        for changed in ([*lines[:3], lines[3].replace(b'"session":"default"', b'"session":"another"'), *lines[4:]],
                        lines[:3] + lines[4:], [*lines[:3], lines[4], lines[3], *lines[5:]], lines[1:]):
            path.write_bytes(b"".join(changed))
            self.assertIn("altered, missing or moved", self.command("check", path, status=1))
        path.write_bytes(b"".join(lines)[:-5])
        self.assertIn("torn", self.command("check", path))

    def test_list_show_and_why(self):
        path = self.analysis()
        self.assertIn("11 cells", self.command("list", "--record", self.records))
        shown = self.command("show", path)
        for word in ("sum(numbers)", "Out: 6", "IndexError", "taken back later", "write_file data.txt"):
            self.assertIn(word, shown)
        self.assertEqual(shown, self.command("show", "--record", self.records))
        why = self.command("why", path)
        self.assertIn("timeout: 1 s limit", why)
        self.assertIn("--max-timeout 3600 (default)", why)
        self.assertIn("crashed: SIGABRT", why)
        self.assertIn("Nothing that the record knows of failed", self.command("why", path, "1"))
        self.command("why", path, "99", status=2)

    def test_directory_stands_for_its_newest_record(self):
        path = self.analysis()
        self.assertEqual(self.command("show", self.records), self.command("show", path))
        self.assertEqual(self.command("list", self.records), self.command("list", "--record", self.records))

    def test_why_of_a_cell_has_what_happened_in_it(self):
        with self.server("--install", "off") as server:
            server.python("import urllib.request\nurllib.request.urlopen('http://a.invalid/')")
            server.call("read_file", path="gone")
        self.assertIn("read_file gone", self.command("why", self.path()))
        self.assertNotIn("read_file gone", self.command("why", self.path(), "1"))

    @unittest.skipIf(CONTAINER, "isolation: --cow needs namespaces")
    def test_each_form_has_hints_and_results_of_other_calls(self):
        (self.place / "work").mkdir()
        with self.server("--workspace", str(self.place / "work"), "--cow") as server:
            server.python("open('new.txt', 'w').write('x')\nopen('new.tx')")
            server.call("list_changes")
        hint, = {event["hint"] for event in self.events("result")}
        for words in (["show"], ["export", "--format", "html"], ["export", "--format", "md"], ["export", "--format", "py"]):
            text = html.unescape(self.command(*words, self.path()))
            self.assertIn(hint, text, words)
            self.assertRegex(text, r"list_changes[\s\S]+new.txt", words)
            self.assertNotIn("list_changes \n", text)

    def test_no_control_character_reaches_a_reader(self):
        path = self.analysis()
        for words in (["show"], ["why"], ["export", "--format", "html"], ["export", "--format", "md"],
                      ["export", "--format", "py"]):
            text = self.command(*words, path)
            self.assertFalse([c for c in text if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\x9b\u202e"], words)
            self.assertTrue("\\x1b]52" in text or words == ["why"], words)
        page = self.command("export", "--format", "html", path)
        self.assertNotIn("<script", page)
        self.assertTrue(page.startswith("<!doctype html>\n<html lang=\"en\"><head><meta http-equiv=\"Content-Security-Policy\""))

    def test_script_compiles_and_notebook_has_the_live_cells(self):
        path = self.analysis()
        ast.parse(self.command("export", "--format", "py", path))
        book = json.loads(self.command("export", "--format", "ipynb", path))
        code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([source.partition("\n")[0] for source in code],
                         ["# write_file", "numbers = [int(n) for n in open('data.txt').read().split()]", "sum(numbers)",
                          "numbers[9]", "import signal", "print(numbers)", f"print({EVIL!r})", "def f(:", "!echo shell"])
        raised = [cell for cell in book["cells"] if "raises-exception" in cell["metadata"].get("tags", ())]
        self.assertEqual(len(raised), 3)
        try:
            import nbformat
        except ImportError:
            self.skipTest("nbformat: not installed")
        nbformat.validate(nbformat.reads(json.dumps(book), 4))

    def test_interrupted_cell_is_part_of_the_state(self):
        with self.server() as server:
            server.python("z = 1\nwhile z: pass", timeout_s=1)
            server.python("z + 1")
            server.python("z = 5\nwhile z: pass", timeout_s=1)
            server.python("z", undo=True)
        shown = self.command("show", self.path())
        self.assertEqual(re.findall(r"^cell .*\((.*)\)$", shown, re.M),
                         ["interrupted; what it did until then stays", "taken back later"])
        script = self.command("export", self.path(), "--format", "py")
        self.assertIn("interrupted; what it did until then stays\nz = 1\nwhile z: pass\n#   Traceback", script)
        self.assertIn("# code: z = 5", script)
        book = json.loads(self.command("export", self.path(), "--format", "ipynb"))
        self.assertEqual([cell["cell_type"] for cell in book["cells"]],
                         ["markdown", "markdown", "code", "code", "markdown", "code"])

    def test_script_compiles_whatever_the_cells_are(self):
        codes = ("  x = 1", "\n\ty = 1\n\tz = 2", "   \n  y = 1", "async with x: pass", "[x async for x in y()]", "\ufeffx = 2",
                 "x = 1 \\\n", "x = '''\n%a\n'''", "x = 3\u2028y = 4", "yield 5", "return 5", "%time 5", "!ls", "x = !ls", "x?",
                 "await x", "def f():\n\treturn 1", "# only a comment", "x = 1\x0c", "break", "'a' \\\n'b'", ">>> x = 5", "1;;2")
        with self.server() as server:
            for code in codes:
                server.python(code)
        script = self.command("export", self.path(), "--format", "py")
        ast.parse(script)
        self.assertEqual(script.count("# %% cell"), len(codes))

    def test_output_file_is_not_replaced_without_force(self):
        path, out = self.analysis(), self.place / "out.md"
        self.command("export", path, "--format", "md", "-o", out)
        self.assertEqual(out.stat().st_mode & 0o7777, 0o600)
        self.command("export", path, "--format", "md", "-o", out, status=1)
        self.command("export", path, "--format", "md", "-o", out, "--force")
        self.command("export", path, "--format", "odt", status=2)

@once
class OwnPython(Record):
    """What runs the commands."""

    def planted(self):
        """A directory in which each module that they import, or Python at its start, would leave a mark."""
        place = self.place / "planted"
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python3").symlink_to(sys.executable)
        (place / "pyvenv.cfg").write_text(f"home = {place}/evil/bin\n")
        for version in range(9, 15):
            (place / "evil" / "lib" / f"python3.{version}" / "encodings").mkdir(parents=True)
            (place / "evil" / "lib" / f"python3.{version}" / "os.py").touch()
            (place / "evil" / "lib" / f"python3.{version}" / "encodings" / "__init__.py").write_text(f"open({str(place / 'mark')!r}, 'w')")
        mark = f"open({str(place / 'mark')!r}, 'w')"
        for name in ("book", "re", "os", "json", "hashlib", "show", "visible", "sitecustomize", "usercustomize", "site", "__main__"):
            (place / f"{name}.py").write_text(mark)
        return place, dict(os.environ, PYTHONPATH=str(place), PYTHONHOME=str(place), PYTHONSTARTUP=str(place / "re.py"),
                           PYTHONINSPECT="1", PYTHONUSERBASE=str(place), PYTHONEXECUTABLE=str(place / "bin" / "python3"), __PYVENV_LAUNCHER__=str(place / "bin" / "python3"),
                           OPENSSL_CONF=str(place / "openssl.cnf"), PYTHONHASHSEED="none", LC_ALL="C", PYTHONIOENCODING="ascii")

    def test_neither_variables_nor_the_current_directory_take_part(self):
        path = self.forge_cells("'é'")
        place, env = self.planted()
        self.assertIn("| 'é'\n", self.command("show", path, env=env, cwd=place))
        self.assertEqual(self.command("show", path, env=env, cwd=place), self.command("show", path))
        self.assertFalse((place / "mark").exists())
        self.assertFalse((place / "__pycache__").exists())

    def test_interpreter_that_code_can_write_is_not_used(self):
        work = self.place / "work"
        (work / "bin").mkdir(parents=True)
        (work / "bin" / "python3").write_text(f"#!/bin/sh\n: > {work}/ran\n")
        (work / "bin" / "python3").chmod(0o755)
        env = dict(os.environ, PATH=f"{work}/bin:{os.environ['PATH']}")
        self.command("check", self.forge_cells("1"), "--workspace", work, "--python", work / "bin" / "python3", env=env)
        config = self.place / "config"
        config.write_text(f"workspace = {work}\npython = {work}/bin/python3\n")
        self.command("check", self.forge_cells("1"), "--config", config, env=env)
        self.assertFalse((work / "ran").exists())

    def test_without_python_they_say_so(self):
        hide = "mount --bind /dev/null /usr/bin/python3 && exec \"$@\""
        words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh"]
        if not os.path.exists("/usr/bin/python3") or subprocess.run([*words, "true"], capture_output=True).returncode:
            self.skipTest("namespaces: cannot hide /usr/bin/python3")
        done = subprocess.run([*words, *COMMAND, "record", "check", str(self.forge_cells("1"))], capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.place}:/usr/bin:/bin"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "sandpiper: record needs a CPython 3.9 or newer (--python PATH): python3 in PATH: "
                                      "No such file or directory\n")


if __name__ == "__main__":
    unittest.main()
