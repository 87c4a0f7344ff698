"""The view of MCP Apps on the wire: who gets its data, and that nobody else notices. tests/view has the page itself."""
import json
import pathlib
import re
import tempfile
import unittest

from client import LATEST, META, MODERN, Case, Server, give_away, need_userns
from container_level import CONTAINER

UI = "io.modelcontextprotocol/ui"
TYPE = "text/html;profile=mcp-app"
CAPABILITIES = {"extensions": {UI: {"mimeTypes": [TYPE]}}}
DATA = "sandpiper/view"
NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMS = -32002, -32601, -32602
CODE = """class Table:
    def __repr__(self): return "a table"
    def _repr_html_(self): print("while it is asked"); return "<b>bold</b>"
print("first")
display(Table())
kept = [1, 2]
Table()"""


class Client(Server):
    """One that shows views."""

    def __init__(self, *args, version=LATEST, capabilities=CAPABILITIES):
        super().__init__(*args, version=version, initialize=False)
        self.declared = capabilities
        self.greeting = None
        if version != MODERN:
            self.greeting = self.request("initialize", {"protocolVersion": version, "capabilities": capabilities,
                                                        "clientInfo": {"name": "test", "version": "1"}})["result"]

    def start(self, method, params=None, request_id=None):
        if self.stateless:
            params = {**(params or {}), "_meta": {META + "clientCapabilities": self.declared}}
        return super().start(method, params, request_id)


def page_of(server):
    """(its address, the answer to reading it)"""
    tools = {tool["name"]: tool for tool in server.request("tools/list")["result"]["tools"]}
    uri = tools["run_python"]["_meta"]["ui"]["resourceUri"]
    return uri, server.request("resources/read", {"uri": uri})["result"]


def key_of(code, text):
    key = 0xCBF29CE484222325
    for byte in (code + "\0" + text.rstrip(" \t\r\n")).encode():
        key = (key ^ byte) * 0x100000001B3 % (1 << 64)
    return "sandpiper://view/%016x" % key


class View(Case):
    @classmethod
    def setUpClass(cls):
        need_userns()

    def test_the_model_gets_the_same_bytes(self):
        for version in (LATEST, "2024-11-05", MODERN):
            results = []
            for capabilities in ({}, CAPABILITIES):
                with self.subTest(version=version), Client(version=version, capabilities=capabilities) as server:
                    for code in (CODE, "1/0", "import sys; print(1); print(2, file=sys.stderr)"):
                        result = server.python(code).raw
                        meta = result.get("_meta", {})
                        self.assertEqual(DATA in meta, bool(capabilities))
                        meta.pop(DATA, None)
                        result["content"][0]["text"] = re.sub(r"\d+ ms", "N ms", result["content"][0]["text"])
                        results.append({**result, "_meta": {name: meta[name] for name in meta if "serverInfo" not in name}})
                        self.assertNotIn("structuredContent", result)
            self.assertEqual(results[:3], results[3:])

    def test_the_data_is_that_of_the_status_line_and_what_was_shown(self):
        with Client() as server:
            server.python("")  # the first result may name what is degraded
            data = server.python(CODE).raw["_meta"][DATA]
            self.assertEqual((data["status"], data["stdout"], data["result"]), ("ok", "first\na table\n", "a table"))
            self.assertEqual(data["variables"], ["+Table type", "+kept list 2"])
            self.assertEqual(data["shown"], [{"t": "html", "s": "<b>bold</b>", "as": "a table"}] * 2)
            self.assertRegex(data["summary"], r"^\[ok \d+ ms \| vars: ")

    def test_the_data_is_found_by_code_and_text(self):
        with Client() as server:
            server.python("")
            for code in ("print(7)", "print(6 + 1)"):
                result = server.python(code)
                text = re.sub(r"\d+ ms", "N ms", result.text)
                found = server.read(key_of(code, result.content[0]["text"]))
                self.assertEqual((json.loads(found.text), text), (result.raw["_meta"][DATA], "7\n[ok N ms]\n"))
            other = server.read(key_of("print(8)", result.text))
            self.assertTrue(other.is_error)
            self.assertEqual(other.text, "The data of this result is no longer kept.")
            for number in range(32):
                server.python(f"{number}")
            self.assertTrue(server.read(key_of(code, result.content[0]["text"])).is_error)

    def test_without_the_extension_no_data_is_kept(self):
        with Server() as server:
            self.assertTrue(server.read(key_of("1", server.python("1").text)).is_error)
            self.assert_error_code(server.request("resources/list"), METHOD_NOT_FOUND)

    def test_a_client_must_name_the_type(self):
        for declared in ({}, {"mimeTypes": []}, {"mimeTypes": ["text/html"]}, {"mimeTypes": TYPE}, []):
            with self.subTest(declared=declared), Client(capabilities={"extensions": {UI: declared}}) as server:
                self.assertEqual(server.greeting["capabilities"], {"tools": {}})
                self.assertNotIn("_meta", {**server.python("print()").raw})

    def test_the_extension_and_resources_are_declared_to_those_that_declare_it(self):
        with Client() as server:
            self.assertEqual(server.greeting["capabilities"], {"tools": {}, "resources": {}, "extensions": {UI: {}}})
            listed = [{"uri": page_of(server)[0], "name": "The page that shows results", "mimeType": TYPE}]
            self.assertEqual(server.request("resources/list")["result"], {"resources": listed})
            self.assertEqual(server.request("resources/templates/list")["result"], {"resourceTemplates": []})
            self.assert_error_code(server.request("resources/read", {"uri": "ui://sandpiper/other"}), NOT_FOUND)
        with Client("--wait", "25", version=MODERN) as server:
            found = server.request("server/discover")["result"]["capabilities"]
            self.assertEqual(found["extensions"], {UI: {}, "io.modelcontextprotocol/tasks": {}})
            self.assert_error_code(server.request("resources/read", {"uri": "ui://sandpiper/other"}), INVALID_PARAMS)
        with Client("--resources") as server:
            self.assert_ok(server.python("open('a.txt', 'w').write('x')"))
            self.assertEqual([one["name"] for one in server.request("resources/list")["result"]["resources"]], [listed[0]["name"], "a.txt"])
        with Server("--resources") as server:
            self.assertEqual(server.request("resources/list")["result"], {"resources": []})

    @unittest.skipIf(CONTAINER, "isolation: the descriptions name each sandbox's own directory")
    def test_all_clients_get_the_same_tools(self):
        lists = []
        for version in (LATEST, MODERN):
            for capabilities in ({}, CAPABILITIES):
                with Client(version=version, capabilities=capabilities) as server:
                    lists.append(server.request("tools/list")["result"]["tools"])
        for one in lists[1:]:
            self.assertEqual(one, lists[0])
        self.assertEqual([tool["name"] for tool in lists[0] if "ui" in tool["_meta"]], ["run_python"])

    @unittest.skipIf(CONTAINER, "isolation: this level has a supervisor from the beginning")
    def test_the_page_is_served_before_there_is_a_sandbox(self):
        with Server(version=MODERN) as server:
            uri, result = page_of(server)
            children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
            self.assertEqual(children, "")
        contents, = result["contents"]
        self.assertEqual((contents["uri"], contents["mimeType"]), (uri, TYPE))
        self.assertRegex(contents["text"], r"^<!doctype html>\n<html lang=\"en\" data-scripts=\"ask\">")
        self.assertLess(len(contents["text"].encode()), 60000)
        self.assertNotRegex(contents["text"], r"https?:|innerHTML\s*=|outerHTML\s*=|\beval\(|insertAdjacent|document\.write")

    def test_static_is_another_page_and_off_is_none(self):
        pages = set()
        for mode in ("on", "static"):
            with Client("--ui", mode) as server:
                uri, result = page_of(server)
                pages.add(uri)
        self.assertIn('data-scripts="never"', result["contents"][0]["text"])
        self.assertEqual(len(pages), 2)
        with Client("--ui", "off") as server:
            self.assertEqual(server.greeting["capabilities"], {"tools": {}})
            self.assertNotIn("ui", json.dumps(server.request("tools/list")["result"]["tools"][0]["_meta"]))
            self.assert_error_code(server.request("resources/read", {"uri": uri}), METHOD_NOT_FOUND)

    def test_the_result_of_a_job_has_data_too(self):
        with Client("--wait", "25") as server:
            result = server.python("import time\nprint(1, flush=True)\ntime.sleep(0.2)\n7", wait_s=0)
            number = int(re.search(r"job (\d+)", result.text)[1])
            result = server.call("run_python", job=number)
            self.assertEqual(result.raw["_meta"][DATA]["result"], "7")
            self.assertFalse(server.read(key_of("", result.content[0]["text"])).is_error)

    def test_a_script_of_a_package_comes_in_parts(self):
        text = "ä€😀x" * 120000  # characters lie across the parts
        with Client() as server:
            self.assert_ok(server.python("open('plotly.min.js', 'w').write('ä€😀x' * 120000)"))
            path = server.python("import os; print(os.path.realpath('plotly.min.js'))").output
            parts = [server.read(f"sandpiper://lib{path}?part={number}").text for number in range(4)]
            self.assertEqual("".join(parts), text)
            self.assertEqual(parts[3], "")
            for other in ("/etc/passwd", path, path + "?part=x", path + "?part=9999", "/no/plotly.min.js?part=0"):
                self.assertTrue(server.read("sandpiper://lib" + other).is_error, other)

    def test_what_code_says_of_values_is_bounded(self):
        with Client() as server:
            for code in ("class A:\n    def _repr_html_(s): return 'x' * 10_000_000\nA()",
                         "class A:\n    def _repr_html_(s): raise SystemExit\nA()",
                         "class A:\n    def _repr_html_(s): return [1]\nA()"):
                data = server.python(code).raw["_meta"][DATA]
                self.assertEqual((data["status"], data.get("shown")), ("ok", None))
            result = server.python("for _ in range(50):\n    display(type('B', (), {'_repr_html_': lambda s: '<i>' * 3000})())")
            self.assertLess(len(json.dumps(result.raw["_meta"][DATA])), 200000)


HOSTILE = ["a.txt: mode 755", "# a.txt: note", "~ a.txt +1 -1", "x\n~ a.txt +1 -1", "[2000 changes]", "diff --git a b", "b/a.txt b/a.txt", "\u202etxt.a",
           "a (only if named: a)", '"quoted"', "<img src=x onerror=alert(1)>", "\udcff", "y" * 255]
MANY = f"""import os
for number in range(2000):
    os.makedirs(f'src/d{{number // 100}}', exist_ok=True)
    with open(f'src/d{{number // 100}}/f{{number}}.py', 'w') as file: file.write(f'text of {{number}}\\n' * (number % 5 + 1))
for name in {HOSTILE!r}:
    os.makedirs(os.path.dirname('odd/' + name), exist_ok=True)
    open('odd/' + name, 'w').write('odd\\n')
open('a.txt', 'w').write('b\\n'); open('long.txt', 'w').write('äöü text\\n' * 30000)
open('longer.txt', 'w').write('0123456789\\n' * 272727)
"""


class Changes(Case):
    @unittest.skipIf(CONTAINER, "isolation: --cow needs namespaces")
    def test_a_list_has_the_patch_for_people_whichever_the_model_gets(self):
        need_userns()
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "a.txt").write_text("a\nb\n")
            give_away(directory)
            with Client("--cow", "--workspace", directory) as server, Server("--cow", "--workspace", directory) as plain:
                for one in (server, plain):
                    one.python("open('a.txt', 'w').write('a\\nB\\n'); open('é.txt', 'w').write('x')")
                for arguments in ({}, {"diff": True}, {"paths": ["a.txt"]}):
                    result = server.call("list_changes", **arguments)
                    data = result.raw["_meta"][DATA]
                    self.assertEqual(result.content, plain.call("list_changes", **arguments).content)
                    line, patch = data["changes"][0]
                    self.assertEqual((line, data["end"]), ("~ a.txt +1 -1\n", "[%d change%s]" % (len(data["changes"]), "s"[:len(data["changes"]) - 1])))
                    self.assertIn("\n-b\n+B\n", patch)
                    found = server.read(key_of("", result.content[0]["text"]))
                    self.assertEqual(json.loads(found.text), data)
                self.assertNotIn("_meta", plain.call("list_changes").raw)
                names = [tool["name"] for tool in server.request("tools/list")["result"]["tools"] if "ui" in tool["_meta"]]
                self.assertEqual(names, ["run_python", "list_changes", "apply_changes"])
                self.assertIn("applied 2 of 2", server.call("apply_changes").text)

    @unittest.skipIf(CONTAINER, "isolation: --cow needs namespaces")
    def test_people_can_review_every_file_however_many(self):
        """In parts. Names read as other lines, other files and other notes; a diff is longer than a part."""
        need_userns()
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "a.txt").write_text("a\n")
            give_away(directory)
            with Client("--cow", "--workspace", directory) as server:
                server.python(MANY)
                data = server.call("list_changes").raw["_meta"][DATA]
                self.assertEqual(data["end"], f"[{len(HOSTILE) + 2003} changes]")
                parts = [data]
                while "next" in parts[-1]:
                    result = server.read(parts[-1]["next"])
                    self.assertFalse(result.is_error, result.text)
                    parts.append(json.loads(result.text))
                self.assertLess(max(len(json.dumps(part, ensure_ascii=False)) for part in parts), 150000)
                files = []
                for line, patch in (file for part in parts for file in part["changes"]):
                    files += [[line, ""]] if line else []
                    files[-1][1] += patch
                self.assertEqual(len(files), len(HOSTILE) + 2003)
                self.assertEqual([line for line, _ in files if not line.endswith("\n") or "\n" in line[:-1]], [])
                patches = dict(files)
                self.assertIn("\n-a\n+b\n", patches["~ a.txt +1 -1\n"])
                self.assertEqual(patches["+ long.txt 360 kB\n"].count("\n+äöü "), 30000)
                self.assertRegex(patches["+ longer.txt 3.0 MB\n"], "^# : 3.[0-9] MB of lines are not shown here, but where this file is listed alone\n$")
                self.assertEqual(sum("+text of 7" in patch for patch in patches.values()), 1 + 10 + 100)
                alone = server.call("list_changes", paths=["longer.txt"]).raw["_meta"][DATA]
                self.assertIn("+0123456789\n", alone["changes"][0][1])
                for _ in range(4):
                    server.call("list_changes")
                self.assertTrue(server.read(data["next"]).is_error)


if __name__ == "__main__":
    unittest.main()
