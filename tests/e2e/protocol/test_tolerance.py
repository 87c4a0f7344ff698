"""Arguments that models send in another form than the schema's, and names of tools that do not exist."""
import base64
import json
import unittest

from client import Shared


class Tolerance(Shared):
    def test_numbers_and_truth_values_are_taken_from_strings(self):
        self.assert_ok(self.server.python("n = 5", timeout_s="12.5", fresh="False"))
        result = self.server.python("print('n' in globals())", undo="True")
        self.assert_prints(result, "False")
        self.server.write("tens.txt", "".join("%d\n" % n for n in range(10, 50, 10)))
        self.assertEqual(self.server.read("tens.txt", start_line="-1").lines[0], "40")
        self.assert_violation(self.server.python("1", timeout_s="12 s"), "timeout_s", "a number", "12 s")
        self.assert_violation(self.server.python("1", reset="on"), "reset", "true or false")

    def test_what_is_sent_for_none_or_in_another_type(self):
        filled = {"job": 0, "session": "", "stop": False, "restore": None, "checkpoint": "", "drop": "", "stdin": ""}
        self.assert_prints(self.server.python("print('ran')", **filled), "ran")
        for timeout in (0, 0.0, "0", ""):
            self.assert_prints(self.server.python("print('ran')", timeout_s=timeout, job="0"), "ran")
        self.assert_ok(self.server.python("kept = 7", session=7))
        self.assert_prints(self.server.python("print(kept)", session="7"), "7")
        self.assertFalse(self.server.call("write_file", path="number.txt", content=123).is_error)
        self.assertEqual(self.server.read("number.txt").text, "123")
        self.assertNotIn("not valid", self.server.call("install_package", packages='["no_such_name"]').text)
        self.assert_violation(self.server.python("1", job=-1), "job", "at least 1")

    def test_a_call_that_only_changes_the_state_needs_no_code(self):
        self.assert_ok(self.server.python("kept = 'first'"))
        self.assert_ok(self.server.call("run_python", checkpoint="first"))
        self.assert_ok(self.server.python("kept = 'second'"))
        self.assertIn("undid", self.server.call("run_python", undo=True).status.state)
        self.assert_prints(self.server.python("print(kept)"), "first")
        self.assert_ok(self.server.python("kept = 'third'"))
        self.assertIn('restored "first"', self.server.call("run_python", restore="first", code=None).status.state)
        self.assertIn("reset", self.server.call("run_python", reset="true").status.state)
        self.assert_prints(self.server.python("print('kept' in globals())"), "False")
        for nothing in ({}, {"undo": False}, {"reset": "false"}, {"fresh": True}, {"restore": None}):
            with self.subTest(arguments=nothing):
                result = self.server.call("run_python", **nothing)
                self.assertTrue(result.is_error and "Nothing to do: send code" in result.text, result.text)

    def test_other_names_of_utf8_are_taken(self):
        for name in ("utf-8", "UTF8", "text"):
            with self.subTest(name=name):
                self.assertFalse(self.server.write("name.txt", "grün\n", encoding=name).is_error)
                self.assertEqual(self.server.read("name.txt", encoding=name).text, "grün\n")
        self.assert_violation(self.server.read("name.txt", encoding="cp1252"), "encoding", "base64")

    def test_names_of_other_tools_are_taken(self):
        call = self.server.call
        self.assertFalse(call("write_file", file_path="other.py", file_text="x = 1\n").is_error)
        self.assertFalse(call("write_file", path="other.py", old_str="x", new_str="y").is_error)
        self.assertFalse(call("write_file", file_path="other.py", old_string="1", new_string="2").is_error)
        self.assertEqual(call("read_file", file_path="other.py").text, "y = 2\n")
        self.assertEqual(call("read_file", path="other.py", session="mine").text, "y = 2\n")
        self.assert_violation(call("read_file", path="other.py", file_path="b.py"), "/file_path", "unknown")
        self.assert_violation(call("read_file", path="other.py", old_str="y"), "/old_str", "unknown")
        self.assert_violation(call("run_python", file_path="other.py"), "/file_path", "unknown")

    def test_what_clients_add_is_left_out(self):
        added = {"sessionId": "4f1c", "action": "sendMessage", "chatInput": "count", "toolCallId": "call_7",
                 "task_progress": "- [ ] one", "security_risk": "LOW"}
        self.assert_prints(self.server.python("print(1 + 1)", **added), "2")
        self.assertFalse(self.server.write("added.txt", "a\n", replace_all=False, **added).is_error)
        self.assertEqual(self.server.read("added.txt", **added).text, "a\n")
        self.assert_violation(self.server.python("1", action="undo"), "/action", "unknown")
        self.assertIn('did you mean "session"', self.server.python("1", session_id="a").text)
        self.assertNotIn("did you mean", self.server.python("1", cwd="/tmp").text)
        self.server.python("kept = 1")
        self.assertIn("reset", self.server.call("run_python", restart=True).status.state)

    def test_arguments_and_tools_of_others_get_the_one_that_does_it(self):
        call = self.server.call
        for result, instead in ((call("read_file", path="a", view_range=[1, 2]), "start_line and end_line"),
                                (call("write_file", path="a", old_text="a", new_text="b", replace_all=True), "one place"),
                                (call("write_file", path="a", edits=[]), "one edit a call"),
                                (call("run_python", command="ls"), "%%bash"), (call("run_python", cwd="/"), "os.chdir()")):
            self.assertTrue(result.is_error)
            self.assertRegex(result.text, r"unknown argument\. Known arguments: [^.]*\. [A-Za-z_ ]*")
            self.assertIn(instead, result.text)
        for name, instead in (("bash", "shell commands"), ("edit_file", "old_text"), ("view", "images")):
            error = self.server.request("tools/call", {"name": name, "arguments": {}})["error"]["message"]
            self.assertRegex(error, r"^Unknown tool: %s\. [a-z_]+ .*%s.*\. Tools: run_python, " % (name, instead))
        self.assert_prints(self.server.python("!echo one"), "one")
        self.assert_prints(self.server.python("%%bash\necho two"), "two")

    def test_empty_is_none_where_every_property_is_sent(self):
        call = self.server.call
        self.assert_ok(call("run_python", code="1", checkpoint="", restore="", session="", stdin="", undo="", timeout_s=""))
        rest = {"encoding": "", "session": ""}
        self.assertIn("created", call("write_file", path="strict.txt", content="a b\n", old_text="", new_text="", **rest).text)
        self.assertIn("edited", call("write_file", path="strict.txt", content="", old_text="a ", new_text="", **rest).text)
        self.assertEqual(call("read_file", path="strict.txt", **rest).text, "b\n")
        self.assertIn("overwrote", call("write_file", path="strict.txt", content="", old_text="", new_text="").text)
        self.assertIn("/content", call("write_file", path="strict.txt", content="x", old_text="b", new_text="").text)
        self.assertIn("/old_text", call("write_file", path="strict.txt", old_text="", new_text="").text)

    def test_json_as_content_is_written_as_text(self):
        for content in ({"name": "demo", "version": [1, 0.1, 0.1 + 0.2, -1.0, True, None], "ö": "\x01\"", "none": {},
                         "0.10": "\"0.1000000000000000055"}, [], [[1]]):
            with self.subTest(content=content):
                self.assertFalse(self.server.call("write_file", path="a.json", content=content).is_error)
                self.assertEqual(self.server.read("a.json").text,
                                 json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        self.server.call("write_file", path="a.json", content=[2 / 3, 1e22, 5e-324, 2**53 + 1])
        self.assert_prints(self.server.python(
            "import json; print(json.load(open('a.json')) == [2 / 3, 1e22, 5e-324, 2**53 + 1])"), "True")
        self.assert_violation(self.server.call("write_file", path="a.json", content=True), "content", "string")

    def test_a_list_of_lines_is_the_text_of_a_file(self):
        for path, content, text in (("b.txt", ["l1", "l2\n", ""], "l1\nl2\n\n"), ("b.json", ["l1"], '[\n  "l1"\n]\n'),
                                    ("lines", ["x = 1"], "x = 1\n"), ("c.txt", ["a", 1], '[\n  "a",\n  1\n]\n')):
            with self.subTest(path=path):
                self.assertFalse(self.server.call("write_file", path=path, content=content).is_error)
                self.assertEqual(self.server.read(path).text, text)

    def test_json_that_grows_beyond_a_file_is_refused(self):
        deep = 7
        for _ in range(150):
            deep = [deep] if deep != 7 else [7] * 300_000
        result = self.server.call("write_file", path="deep.json", content=deep)
        self.assertTrue(result.is_error)
        self.assertIn("64 MiB", result.text)
        self.assertIn("not found", self.server.read("deep.json").text)

    def test_the_head_of_a_data_url_is_left_out(self):
        data = bytes(range(200))
        text = base64.b64encode(data).decode()
        for head in ("data:image/webp;base64,", "DATA:;base64,", "data:text/plain;charset=utf-8;base64,", ""):
            with self.subTest(head=head):
                self.assertFalse(self.server.write("url.bin", head + text, encoding="base64").is_error)
                self.assertEqual(self.server.read("url.bin", encoding="base64").text, text)
        for head in ("data:image/png,", "data;base64,", "data:" + "x" * 400 + ";base64,"):
            with self.subTest(head=head):
                self.assertTrue(self.server.write("url.bin", head + text, encoding="base64").is_error)
        self.server.write("url.txt", "data:;base64,QQ==")
        self.assertEqual(self.server.read("url.txt").text, "data:;base64,QQ==")

    def test_numbers_beyond_all_lines_are_not_absent(self):
        self.server.write("short.txt", "one\ntwo\n")
        result = self.server.read("short.txt", start_line=1e300)
        self.assertTrue(result.is_error, result.text)
        self.assertIn("has 2 lines", result.text)
        result = self.server.read("short.txt", offset=float(2**63))
        self.assertNotIn("one", result.text)
        self.assertIn("has 8 bytes", result.text)
        self.assertEqual(self.server.read("short.txt", end_line=1e19).text, "one\ntwo\n")

    def test_an_unknown_tool_is_answered_with_the_tools(self):
        for name in ("python", "str_replace_editor", ""):
            with self.subTest(name=name):
                error = self.server.request("tools/call", {"name": name, "arguments": {}})["error"]
                self.assertEqual(error["code"], -32602)
                names = [tool["name"] for tool in self.server.request("tools/list")["result"]["tools"]]
                self.assertIn("Tools: " + ", ".join(names), error["message"])


if __name__ == "__main__":
    unittest.main()
