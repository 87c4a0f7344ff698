"""The protocol's reference servers from npm, and one of its SDK, called by code through --tools."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "e2e" / "protocol"), str(HERE)]

import packages  # noqa: E402
from client import COMMAND, SLOW, Case, Server, need_userns  # noqa: E402
from test_elicitation import DECLINE, AskingServer, ModernServer  # noqa: E402

GRAPH = [{"name": "x", "entityType": "t", "observations": ["o"]}]


class Reference(Case):
    def setUp(self):
        need_userns()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-reference-"))
        self.addCleanup(shutil.rmtree, self.directory)
        (self.directory / "a.txt").write_text("hello\n")
        everything, files, memory = (packages.program(f"@modelcontextprotocol/server-{name}/dist/index.js")
                                     for name in ("everything", "filesystem", "memory"))
        servers = {"everything": (everything, {}), "files": ([*files, str(self.directory)], {}),
                   "asks": ([packages.node(), str(packages.own(HERE, "asks.mjs") / "asks.mjs")], {}),
                   "memory": (memory, {"MEMORY_FILE_PATH": str(self.directory / "memory.json")})}
        self.file = self.directory / "tools.json"
        self.file.write_text(json.dumps({"mcpServers": {
            name: {"command": command[0], "args": command[1:], "env": env, "tools": {"*": {}}}
            for name, (command, env) in servers.items()}}))
        os.chmod(self.file, 0o600)

    def test_values_of_all_three(self):
        calls = {"everything.echo(message='hi')": "'Echo: hi'",
                 "everything.get_sum(a=2, b=3)": "'The sum of 2 and 3 is 5.'",
                 "everything.get_tiny_image()[1].type": "'image/png'",
                 f"files.read_text_file(path={str(self.directory / 'a.txt')!r})['content']": "'hello\\n'",
                 f"memory.create_entities(entities={GRAPH!r})": str({"entities": GRAPH}),
                 "memory.read_graph()['entities']": str(GRAPH)}
        with Server("--tools", str(self.file), "--timeout", "60") as server:
            server.python("from sandpiper import tools")
            for call, value in calls.items():
                self.assertEqual(server.python(f"print(repr(tools.{call}))").output, value, call)

    def test_the_form_of_everything_reaches_the_user_and_comes_back(self):
        accept = {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 42}}
        code = "from sandpiper import tools\ntools.everything.trigger_elicitation_request()"
        with AskingServer("--tools", str(self.file), "--timeout", "60") as server:
            server.answers = [accept, DECLINE]
            self.assertIn("- Name: Ada", server.python(code).output)
            self.assertIn("declined", server.python(code).output)
            asked = server.questions[0]["params"]
            self.assertTrue(asked["message"].startswith("everything asks: "), asked["message"])
            properties = asked["requestedSchema"]["properties"]
            self.assertEqual(properties["name"]["type"], "string")
            self.assertLessEqual({"birthdate", "number", "titledMultipleSelectEnum", "legacyTitledEnum"}, set(properties))

    def test_official_clients_ask_their_user_in_the_middle_of_a_cell(self):
        cells = ["""from sandpiper import tools
for name in 'abc':
    try: print(tools.everything.echo(message=name))
    except PermissionError as error: print(error)""", "print(tools.everything.trigger_elicitation_request())"]
        grants = json.loads(self.file.read_text())
        grants["mcpServers"]["everything"]["tools"]["echo"] = {"ask": True}
        self.file.write_text(json.dumps(grants))
        script = packages.own(HERE, "asked.mjs") / "asked.mjs"
        tasks = packages.own(HERE, "tasks.mjs", "picture.py") / "tasks.mjs"
        done = subprocess.run([packages.node(), tasks, *COMMAND, "--wait", "25", "--tools", str(self.file), "--timeout", "60"],
                              capture_output=True, text=True, timeout=120 * SLOW)
        self.assertEqual([json.loads(line)["ok"] for line in done.stdout.splitlines()], [True], done.stdout)
        for kind in "v1", "legacy", "modern":
            with self.subTest(kind):
                done = subprocess.run([packages.node(), script, kind, *COMMAND, "--tools", str(self.file), "--timeout", "60"],
                                      input=json.dumps(cells), capture_output=True, text=True, timeout=120 * SLOW)
                calls, form = map(json.loads, done.stdout.splitlines())
                self.assertEqual(len(calls["asked"]), 3)
                self.assertIn("Echo: a\nnot approved: everything.echo. The user declined.\nEcho: c\n", calls["text"])
                self.assertIn("everything asks: ", form["asked"][0])
                self.assertIn("- Name: Ada\\n- Agreed to terms: true\\n- Favorite Integer: 42", form["text"])  # a default

    def test_the_form_of_a_server_of_2026_reaches_the_user_and_comes_back(self):
        code = "from sandpiper import tools\ntools.asks.deploy()"
        for kind in (AskingServer, ModernServer):
            with self.subTest(kind=kind.__name__), kind("--tools", str(self.file), "--timeout", "60") as server:
                server.answers = [{"action": "accept", "content": {"sure": True}}, DECLINE]
                self.assertIn("Out: 'deployed: true'", server.python(code).output)
                self.assertIn("Out: 'not deployed'", server.python(code).output)
                self.assertEqual([question["params"]["message"] for question in server.questions], ["asks asks: Deploy?"] * 2)

    def test_each_tools_signature_is_that_of_its_schema(self):
        code = """
import inspect
from sandpiper import tools
count = 0
for server in (tools.everything, tools.files, tools.memory):
    for name, info in server._list().items():
        parameters = inspect.signature(server[name]).parameters
        properties = info["schema"].get("properties", {})
        assert set(parameters) == set(properties), name
        required = {key for key, one in parameters.items() if one.default is inspect.Parameter.empty}
        assert required == set(info["schema"].get("required", ())), name
        assert server[name].__doc__, name
        count += 1
count"""
        with Server("--tools", str(self.file), "--timeout", "60") as server:
            found = server.python(code).output
            self.assertGreater(int(found.partition("Out: ")[2]), 30, found)


if __name__ == "__main__":
    unittest.main()
