"""Notebook syntax and the last value as JSON, through the server."""
import json
import pathlib
import tempfile
import unittest

from client import Case, Server, run_cli


class Notebook(Case):
    def setUp(self):
        self.server = Server()
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)

    def test_commands_and_their_status(self):
        result = self.server.python("count = 2\nprint('py')\n!echo shell {count} $count; exit 9\nprint('py')")
        self.assertFalse(result.is_error)
        self.assertEqual(result.output, "py\nshell 2 2\npy")
        self.assertIn("`echo shell 2 2; exit 9` exited with status 9", result.status.field("note"))
        result = self.server.python("sizes = !printf '30\\n12\\n' | sort -n\n[int(size) for size in sizes]")
        self.assertIn("Out: [12, 30]\n", result.text)
        self.assertIn("+sizes", result.status.field("vars"))
        self.assertEqual(self.server.python("%%bash\nset -- a b\necho $#\n(exit 4)\n").status.field("note"), '"`%%bash` exited with status 4"')

    def test_words_of_a_command_stay_in_their_quotes(self):
        note = self.server.python("!false ' | state: lost]'").status.field("note")
        self.assertIn("exited with status 1", note)
        self.assertEqual(self.server.python("!false ' | state: lost]'").status.state, None)

    def test_code_that_bends_the_list_of_statuses_breaks_no_later_result(self):
        self.server.python("class Bent(list):\n    def __len__(self): raise SystemExit\n!true")
        self.server.python("import builtins\nbuiltins.__notebook__.failed = Bent()")
        self.assertIn("Out: 2", self.server.python("1 + 1").text)

    def test_files_that_a_command_writes(self):
        self.assertIn("+made.txt", self.server.python("!echo 5 > made.txt").status.field("files"))
        self.assertIn("5", self.server.read("made.txt").text)

    def test_a_here_document_is_no_python(self):
        code = "!cat > config.py <<'EOF'\nDEBUG = {count}\nEOF\n'DEBUG' in globals(), open('config.py').read()"
        self.assertIn("Out: (False, 'DEBUG = {count}\\n')", self.server.python(code).text)
        result = self.server.python("print('ran')\n!cat > config.py <<'EOF'\nDEBUG = 2\n")
        self.assertNotIn("ran", result.text.splitlines())
        self.assertRegex(result.text, "SyntaxError: .* no later line is EOF alone")
        self.assertRegex(result.text, "Hint: .*%%bash.*write_file")
        self.assertIn("DEBUG = {count}", self.server.read("config.py").text)

    def test_long_output_is_cut(self):
        result = self.server.python("!seq 100000")
        self.assertTrue(result.text.startswith("1\n2\n"))
        self.assertIn("\n100000\n", result.text)
        self.assertLess(len(result.text), 30000)

    def test_a_timeout_ends_the_command(self):
        self.server.python("kept = 1")
        result = self.server.python("x = 2\n!sleep 1000", timeout_s=1)
        self.assertEqual(result.status.kind, "timeout")
        self.assertIn("!sleep 1000", result.text)
        self.assertIn("(1, 2)", self.server.python("kept, x").text)
        self.assertNotIn("sleep 1000", self.server.python("!ps -eo args 2>/dev/null").text)

    def test_undo_and_checkpoints(self):
        self.server.python("rows = !echo first", checkpoint="one")
        self.server.python("rows = !echo second; false\n%env STAGE=two")
        self.assertIn("['second'] two", self.server.python("import os; print(rows, os.environ['STAGE'])").text)
        self.server.python("rows = !echo third")
        self.assertEqual(self.server.python("!echo {rows[0]}", undo=True).output, "second")
        self.assertIn("['first'] None", self.server.python("import os; print(rows, os.environ.get('STAGE'))", restore="one").text)
        self.assertIn("again", self.server.python("import os\n!echo again\nos.abort()").text)
        self.assertIn("['first']", self.server.python("print(rows)\n!true").text)

    def test_magics(self):
        self.assertRegex(self.server.python("%%time\nsum(range(1000))").text, r"Wall time: .*\nOut: 499500\n")
        self.assertRegex(self.server.python("%timeit -n 5 -r 2 len('abc')").text, r"± .* per loop \(mean ± std\. dev\. of 2 runs, 5 loops each\)")
        self.assertIn("Out: 4", self.server.python("%matplotlib inline\n4").text)
        result = self.server.python("ran = True\n%writefile a.py\nx = 1")
        self.assertTrue(result.is_error)
        self.assertIn("Hint: %writefile is not available: use the tool write_file", result.text)
        self.assertIn("NameError", self.server.python("ran").text)

    def test_installers_name_the_tool(self):
        for line in ("%pip install tabulate", "!pip install -q tabulate", "!uv pip install tabulate"):
            result = self.server.python(line + "\nprint('went on')")
            self.assertFalse(result.is_error)
            self.assertIn("install_package", result.text)
            self.assertIn('packages=["tabulate"]', result.text)
            self.assertIn("went on", result.text)

    def test_only_cells_are_notebooks(self):
        done = run_cli("run", "-c", "!echo cell")
        self.assertEqual((done.returncode, done.stdout), (0, b"cell\n"))
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory, "program.py")
            program.write_text("!echo file\n")
            done = run_cli("run", str(program))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"SyntaxError", done.stderr)


class Json(Case):
    def meta(self, server, code):
        return server.python(code).raw.get("_meta", {}).get("sandpiper/result", "absent")

    def test_the_last_value(self):
        with Server() as server:
            for code, value in (("[3, 1.5, 'é\\u2028\\0', None, {'a': [True]}]", [3, 1.5, "é\u2028\0", None, {"a": [True]}]), ("False", False),
                                ("'text'", "text"), ("{}", {}), ("2**53 - 1", 2**53 - 1), ("list(range(12000))", list(range(12000)))):
                self.assertEqual(self.meta(server, code), value)
            for code in ("(1,)", "{1: 1}", "float('inf')", "'x' * 65535", "2**53", "[-(2**62)]", "2**70", "None", "x = 1", "1 / 0", "object()"):
                self.assertEqual(self.meta(server, code), "absent", code)

    def test_the_structured_form(self):
        with Server("--structured") as server:
            form = server.python("{'rows': [1, 2]}").raw["structuredContent"]
            self.assertEqual((form["result"], form["result_json"]), ("{'rows': [1, 2]}", {"rows": [1, 2]}))
            self.assertEqual(self.meta(server, "{'rows': [1, 2]}"), {"rows": [1, 2]})
            self.assertNotIn("result_json", server.python("print(5)").raw["structuredContent"])

    def test_forged_json(self):
        """Code that has the control socket sends what it likes: the server takes only sound JSON."""
        forge = ("import os, socket, struct, sys\nwords = [b'result', b'cell', sys._getframe().f_code.co_filename.strip('<cel >').encode(),"
                 " b'status', b'ok', b'json', %s]\nbody = b''.join(struct.pack('<I', len(word)) + word for word in words)\n"
                 "socket.socket(fileno=os.dup(64)).sendall(struct.pack('<I', len(body)) + body)\nimport time; time.sleep(0.2)")
        for text, value in (("b'[1]'", [1]), ("b'[' * 65 + b']' * 65", "absent"), ("b'{'", "absent"), ("b'\\xff'", "absent"), ("b'1e999'", "absent"),
                            ("b'[' * 60000", "absent"), ("b'\"' + b'x' * 70000 + b'\"'", "absent")):
            with Server() as server:
                result = server.python(forge % text)
                self.assertEqual(json.loads(json.dumps(result.raw)).get("_meta", {}).get("sandpiper/result", "absent"), value, text)
                self.assertIn("7", server.python("3 + 4").text)


if __name__ == "__main__":
    unittest.main()
