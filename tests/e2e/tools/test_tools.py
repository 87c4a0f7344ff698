"""Code calls tools of other servers as functions: values, errors, grants, and what a result says of the calls."""
import base64
import json
import os
import unittest

from client import ROOT, Server
from pictures import png
from tools_case import BEGIN, ToolsCase

PNG = png(2, 2)
SUM = 37492500  # of the stand-in's rows


class Calls(ToolsCase):
    def python(self, server, code, **more):
        return server.python(BEGIN + code, **more)

    def test_fifty_pages_are_summed_in_one_cell(self):
        for era in ("modern", "legacy"):
            (self.directory / "requests").unlink(missing_ok=True)
            with self.subTest(era=era), self.server("--era", era) as server:
                result = self.python(server, "sum(row['value'] for page in range(50) for row in stand.rows(page=page))")
                self.assertIn(f"Out: {SUM}", result.output)
                self.assertLess(len(result.text), 300)
                self.assertEqual(self.requests("tools/call rows"), 50)
                self.assertRegex(result.status.field("tools"), r"^stand\.rows ×50 \(\d+\.\d s\)$")

    def test_the_table_of_the_documentation(self):
        """Bytes: the texts of all results. Without --tools, those of the pages, as their server sends them."""
        with self.server() as server:
            pages = self.python(server, "import json\nprint(sum(len(json.dumps(stand.rows(page=page))) for page in range(50)))")
            calls = self.requests("tools/call rows")
        text = (ROOT / "docs" / "TOOLS.md").read_text()
        size = int(pages.output)
        self.assertIn(f"| without `--tools` | {calls} | {size:,} | {round(size / 4, -2):,.0f} |", text)

    def test_results_are_python_values(self):
        kinds = {"image": "b'\\x89PNG bytes' image/png", "json": "{'a': [1, 2]}", "text": "plain [1] {", "many": "['one', [2]]",
                 "none": "None", "structured": "{'answer': 42}", "resource": "inside"}
        with self.server() as server:
            for kind, shown in kinds.items():
                code = (f"value = stand.forms(kind={kind!r})\n"
                        "print(*([bytes(value), value.type] if isinstance(value, bytes) else [value]))")
                self.assertEqual(self.python(server, code).output, shown, kind)
            self.assertEqual(self.python(server, "print(ascii(stand.control()))").output, r"'\x00\x1b[2J\u2028end'")
            self.assertEqual(self.python(server, "print(len(stand.huge()))").output, str(20 << 20))

    def test_errors_are_exceptions_with_the_tools_own_message(self):
        rows = {"stand.fails(text='its own words')": "ToolError: its own words",
                "stand.refuses()": "ToolError: refused",
                "stand.broken()": "not valid JSON",
                "stand.deep()": "nested too deeply",
                "stand.huger()": "longer than 64 MiB",
                "stand.nothing_such()": "AttributeError: stand has no tool 'nothing_such'",
                "stand.row": "similar: rows",
                "tools.other": "AttributeError: there is no tool server 'other'; there are: stand",
                "stand.add()": "PermissionError: not granted: stand.add. The user decides this in tools.json, key "
                               "mcpServers.stand.tools.add; ask them."}
        with self.server() as server:
            for code, words in rows.items():
                self.assertIn(words, self.python(server, code).text, code)
            self.assertEqual(self.counter(), 0)
            self.assertIn("Out: 1", self.python(server, "stand.rows(page=0)[1]['id']").output)

    def test_arguments_against_the_schema_never_arrive(self):
        rows = {"stand.rows()": "/page: is required", "stand.rows(page='1')": "/page: must be an integer",
                "stand.rows(1)": "tools.stand.rows takes its arguments by name: (page: int)",
                "await stand.rows.aio(1)": "tools.stand.rows takes its arguments by name: (page: int)",
                "stand.rows(page=-1)": "/page: must be at least 0", "stand.rows(page=1, more=2)": "/more: unknown argument",
                "stand.forms(kind='x')": "/kind: must be one of", "stand.pattern(a='A')": "/a: must match",
                "stand.rows(page=None)": "/page: must be an integer, got null",
                "stand.rows(page=float('nan'))": "ValueError: argument `page` (float): ",
                "import datetime; stand.echo(value=1, other=datetime.date(2024, 5, 1))":
                    "TypeError: argument `other` (date): Object of type date is not JSON serializable; send other.isoformat()",
                "import array; stand.echo(value=array.array('i', [1]))": "argument `value` (array): ",
                "stand.echo(value={'deep': {1, 2}})": "argument `value` (dict): Object of type set is not JSON serializable",
                "stand.echo(value=2 ** 63)": "a number is out of range: integers are from -2**63 to 2**63 - 1",
                "stand.echo(value='x' * (4 << 20))": "more than 4 MiB"}
        with self.server() as server:
            for code, words in rows.items():
                self.assertIn(words, self.python(server, code).text, code)
            self.assertEqual(sum(self.requests(f"tools/call {name}") for name in ("rows", "forms", "pattern", "echo")), 0)
            self.assertIn("['anyOf', 'b', 'null']", self.python(server, "sorted(stand.nullable(anyOf=None, a=None, b=None, null=None))").output)
            # A pattern that could take for ever is not tried.
            self.assertIn("Out: 'ok'", self.python(server, "stand.pattern(b='a' * 50 + '!')").output)

    def test_names_signatures_documentation_and_search(self):
        with self.server() as server:
            self.assertEqual(self.python(server, "import inspect; print(inspect.signature(stand.rows))").output,
                             "(*, page: int)")
            help_text = self.python(server, "help(stand.rows)").output
            self.assertIn("rows(*, page: int)", help_text)
            self.assertIn("page (int): which page", help_text)
            self.assertIn("Not granted", self.python(server, "help(stand.add)").output)
            nested = self.python(server, "help(stand.nested)").output
            for line in ("edits (list of {a: str, b?: list of any value}, optional)", "x ({y?: any value, z?: any value}, optional)",
                         "deep (list of list of list of list, optional)"):
                self.assertIn(line, nested)
            self.assertIn("similar: odd_name, odd", self.python(server, "stand.odd_nam").text)
            self.assertEqual(self.python(server, "print(tools.search('nullable'))").output,
                             "tools.stand.nullable(a: int = None, b = None, anyOf: str | None = None, null: int | None = None)  The arguments.")
            self.assertEqual(self.python(server, "print(tools.search('page'))").output, "tools.stand.rows(page: int)  A page of rows.")
            self.assertIn("tools.stand.add(by: int = None, to: str = None)  [not granted]  Add to the counter.",
                          self.python(server, "tools.search()").output)
            self.assertEqual(self.python(server, "print(tools.search('LINES two'))").output,
                             r"tools.stand.a_stand_forged__()  Two\x1b[31m lines")
            self.assertEqual(self.python(server, "print(tools.search('no such thing'))").output, "no tool matches")
            self.assertIn("tools.stand.rows(page: int)  A page of rows.", self.python(server, "help(stand)").output)
            self.assertEqual(self.python(server, "print(hasattr(stand, 'add'), hasattr(stand, 'nope'), 'rows' in dir(stand))").output,
                             "True False True")
            found = self.python(server, "print(tools.search('odd-name'), tools.search('that are no'))").output
            self.assertIn("tools.stand.odd_name(from_: int)  A name that is no identifier.", found)
            self.assertIn("tools.stand['class'](class_, ", found)
            for call in ("stand.odd_name", "tools['stand']['odd-name']"):
                self.assertEqual(self.python(server, call + "(**{'from': 7})").output, "Out: '7'", call)
                self.assertEqual(self.python(server, call + "(from_=8)").output, "Out: '8'", call)

    def test_they_are_found_however_they_are_named(self):
        with self.server() as server:
            hint = "Hint: from sandpiper import tools; tools.stand"
            for code, words in (("rows(page=1)", hint + ".rows(...)"), ("stand.rows(page=1)", hint), ("odd_name(from_=1)", hint + ".odd_name(...)"),
                                ("tools.stand.rows(page=1)", "Hint: from sandpiper import tools"),
                                ("from sandpiper.tools.stand import rows", "its tools are attributes")):
                text = server.python(code, fresh=True).text
                self.assertIn(words, text, code)
            self.assertNotIn("sandpiper", server.python("nothing_such(1)").text)
            self.assertIn("Out: 0", server.python("from sandpiper.tools import stand\nstand.rows(page=0)[0]['id']").output)
            self.assertIn("Out: 1", server.python("import sandpiper.tools\nsandpiper.tools.stand.rows(page=0)[1]['id']").output)
            message = server.request("tools/call", {"name": "rows", "arguments": {}})["error"]["message"]
            self.assertIn("Unknown tool: rows. Code of run_python calls those of other servers: from sandpiper import tools;", message)

    def test_an_image_is_shown_where_it_is_the_value(self):
        image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
        for content, shown in (([image], "<image/png, %d bytes>" % len(PNG)), ([{"type": "text", "text": "Paris"}, image], "'Paris'")):
            with self.subTest(shown), self.server() as server:
                result = self.python(server, "stand.odd(json=%r)" % json.dumps({"content": content}))
                self.assertIn(shown, result.text)
                self.assertEqual([block["type"] for block in result.content].count("image"), 1, result.text)

    def test_names_of_others_forge_no_line_and_no_attribute(self):
        with self.server() as server:
            lines = self.python(server, "print(tools.search())").output.split("\n")
            self.assertEqual([line for line in lines if line.startswith("stand.forged")], [])
            self.assertIn(r"tools.stand.a_stand_forged__()  Two\x1b[31m lines", lines)
            self.assertEqual(self.python(server, "print(stand['class'](**{'class': 1, 'self': 2, 'a b': 3}))").output, "ok")
            self.assertEqual(self.python(server, "import inspect; print(inspect.signature(stand['class']))").output, "(*, class_, self=None, a_b=None, None_=None)")
            self.assertIn('/a: must be one of 1, null, {"b":2}, got string', self.python(server, "stand.options(a='x')").text)
            self.assertIn("AttributeError", self.python(server, "stand.__wrapped__").text)

    def test_results_of_any_form_are_values_or_errors_of_the_tool(self):
        rows = {'{"content": 5}': "None", '{}': "None", '{"content": [5, {"type": 5}]}': "{'type': 5}",
                '{"structuredContent": {"__class__": 1}}': "{'__class__': 1}",
                '{"content": [{"type": "image", "data": "!", "mimeType": 5}]}': "<bytes, 0 bytes>",
                '{"content": [{"type": "text", "text": "\\ud800"}]}': r"'\ud800'",
                '{"content": [], "isError": true}': "ToolError('the tool has failed without a message')",
                '{"structuredContent": {"a": 1, "a": 2}}': "a key occurs twice", '{"structuredContent": NaN}': "not valid JSON",
                '{"structuredContent": [18446744073709551616, -9223372036854775809, 12, 1.5]}':
                    "[18446744073709551616, -9223372036854775809, 12, 1.5]",
                '{"structuredContent": [%s, "9223372036854775808"]}' % (10 ** 400): "[%s, '9223372036854775808']" % (10 ** 400),
                '{"structuredContent": 1e999}': "sent a response that is not usable: a number is out of range",
                '{"structuredContent": [99999999999999999999-1]}': "a number is out of range",
                '[]': "stand sent a response without a result", '{}, "result": {}': "a key occurs twice"}
        code = "try: print(repr(stand.odd(json={!r})))\nexcept tools.ToolError as error: print(repr(error))"
        with self.server() as server:
            for text, words in rows.items():
                self.assertIn(words, self.python(server, code.format(text)).output, text)

    def test_threads_and_asyncio_call_at_the_same_time(self):
        threads = """
import threading
right = []
def work(k):
    for i in range(63):
        right.append(stand.echo(value=k * 1000 + i)["value"] == k * 1000 + i)
threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
len(right), all(right)"""
        awaited = """
import asyncio
values = await asyncio.gather(*[stand.echo.aio(value=i) for i in range(100)])
[value["value"] for value in values] == list(range(100))"""
        with self.server() as server:
            self.assertIn("Out: (1008, True)", self.python(server, threads, timeout_s=60).output)
            self.assertIn("Out: True", self.python(server, awaited, timeout_s=60).output)
            self.assertIn("Out: 4", server.python("2 + 2").output)

    def test_children_and_threads_of_an_ended_cell_cannot_call(self):
        fork = """
import os
if os.fork() == 0:
    try:
        stand.echo(value=1)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait() and None"""
        late = """
import threading
go, said = threading.Event(), []
def work():
    go.wait()
    try:
        stand.echo(value=1)
    except RuntimeError as error:
        said.append(str(error))
thread = threading.Thread(target=work)
thread.start()
threading.Timer(0.2, go.set).start()"""
        with self.server() as server:
            self.assertIn("not in a child", self.python(server, fork).output)
            self.python(server, late)
            server.python("import time; time.sleep(0)")
            self.poll(lambda: "no cell runs" in server.python("said").output or "[]" not in server.python("said").output)
            left = self.python(server, "import threading\nthreading.Thread(target=lambda: stand.slow(s=60)).start()")
            self.assertEqual(left.status.kind, "ok")
            self.assertIn("Out: {'value': 5}", self.python(server, "stand.echo(value=5)").output)

    def poll(self, fn):
        for _ in range(50):
            if fn():
                return
        self.fail("never")

    def test_an_interrupt_ends_the_call_and_not_the_state(self):
        with self.server() as server:
            result = self.python(server, "x = 1\nstand.never()", timeout_s=1)
            self.assertEqual(result.status.kind, "timeout")
            self.assertIn("interrupted", result.text)
            self.assertEqual(self.requests("notifications/cancelled "), 1)
            self.assertIn("Out: (1, {'value': 2})", self.python(server, "x, stand.echo(value=2)").output)


class Grants(ToolsCase):
    def add(self, server, arguments="", **more):
        return server.python(BEGIN + f"stand.add({arguments})", **more).text

    def test_max_calls_is_not_given_back(self):
        with self.server(grants={"add": {"max_calls": 3}}) as server:
            self.assertIn("Out: '1'", self.add(server))
            server.python("import os; os._exit(1)")
            self.assertIn("Out: '2'", self.add(server))
            server.python("", undo=True)
            self.assertIn("TypeError", self.add(server, "by='x'"))  # which uses up nothing
            self.assertIn("Out: '3'", self.add(server, session="other"))
            for more in ({}, {"reset": True}, {"session": "third"}):
                self.assertIn("PermissionError: no calls are left: stand.add", self.add(server, **more))
            self.assertEqual(self.counter(), 3)

    def test_when_refuses_any_other_value(self):
        with self.server(grants={"add": {"when": {"to": ["me/sandbox"]}}}) as server:
            for arguments in ("", "to='me/other'", "to='Me/sandbox'", "to='me/sandbox '"):
                self.assertIn("PermissionError: not granted with these arguments", self.add(server, arguments))
            self.assertIn("TypeError", self.add(server, "to=1"))
            self.assertIn("Out: '1'", self.add(server, "to='me/sandbox'"))
            self.assertEqual(self.counter(), 1)

    def test_names_with_dots_are_in_quotes(self):
        with Server("--tools", self.file({"a.b": self.entry(trust_hints=True)})) as server:
            text = server.python("from sandpiper import tools\ntools['a.b'].add()").text
            self.assertIn('not granted: "a.b".add. The user decides this in tools.json, key mcpServers."a.b".tools.add', text)
            result = server.python("tools['a.b'].echo(value=1)")
            self.assertRegex(result.status.field("tools"), r'^"a.b".echo ×1')

    def test_a_mistyped_grant_opens_nothing(self):
        entries = {"max_call": {"add": {"max_call": 3}}, "when": {"add": {"when": {"to": "x"}}}}
        for word, grants in entries.items():
            with self.server(grants=grants) as server:
                text = self.add(server)
                self.assertIn("ToolError: stand is off: ", text)
                self.assertIn(word, text)
        self.assertEqual((self.counter(), self.pids()), (0, []))


class Words(ToolsCase):
    """What results, descriptions and restored states say."""

    def python(self, server, code, **more):
        return server.python(BEGIN + code, **more)

    def test_a_crash_names_what_it_did(self):
        with self.server(grants={"add": {}}) as server:
            result = self.python(server, "stand.add(); import os; os._exit(1)")
            self.assertIn("restored to the state before this call", result.status.line)
            self.assertRegex(result.status.line, r"\| tools: stand\.add ×1 \(\d\.\d s\) \| not undone: stand\.add ×1")
            self.assertEqual(self.counter(), 1)
            result = self.python(server, "import threading, os\nthreading.Thread(target=stand.never).start()\n"
                                         "stand.add()\nos._exit(1)")
            self.assertIn("not undone: stand.add ×1", result.status.line)
            self.assertNotIn("stand.never ×1 |", result.status.line.split("not undone")[1])  # it only reads

    def test_undo_restore_and_reset_name_the_calls_that_stay(self):
        with self.server(grants={"add": {}}) as server:
            self.python(server, "a = 1", checkpoint="one")
            self.python(server, "stand.add()")
            self.python(server, "b = stand.add(), stand.add()")
            undo = server.python("", undo=True)
            self.assertIn("not undone: stand.add ×2", undo.status.line)
            undo = server.python("", undo=True)
            self.assertIn("not undone: stand.add ×1", undo.status.line)
            self.python(server, "stand.add()")
            self.assertIn("not undone: stand.add ×4", server.python("", restore="one").status.line)
            self.assertIn("not undone: stand.add ×4", server.python("1", reset=True).status.line)
            self.assertNotIn("not undone", server.python("1", reset=True).status.line)
            for more in ({"branch": True}, {"fresh": True}):
                self.assertIn("not undone: stand.add ×1", self.python(server, "stand.add() and None", **more).status.line)
            self.assertEqual(self.counter(), 6)

    def test_undo_names_the_calls_of_the_states_that_it_leaves(self):
        with self.server(grants={"add": {}}) as server:
            self.python(server, "a = 1", checkpoint="one")
            self.python(server, "b = stand.add()")
            self.assertIn("not undone: stand.add ×1", server.python("", undo=True).status.line)
            self.python(server, "c = 1", checkpoint="other")  # without that call
            self.python(server, "d = stand.add()")
            self.assertIn("not undone: stand.add ×1", server.python("", restore="other").status.line)
            self.assertNotIn("not undone", server.python("", undo=True).status.line)  # the restore
            self.assertIn("not undone: stand.add ×1", server.python("", undo=True).status.line)
            self.assertNotIn("not undone", server.python("", undo=True).status.line)  # back to one

    def test_an_undone_restore_brings_calls_back(self):
        with self.server(grants={"add": {}}) as server:
            self.python(server, "a = 1", checkpoint="one")
            self.python(server, "b = stand.add()")
            self.python(server, "c = stand.add()", checkpoint="both")
            self.assertIn("not undone: stand.add ×2", server.python("", restore="one").status.line)
            self.assertNotIn("not undone", server.python("", undo=True).status.line)
            self.assertIn("not undone: stand.add ×1", server.python("", undo=True).status.line)
            self.python(server, "d = 1", checkpoint="last")
            server.python("", restore="both")
            self.assertIn("not undone: stand.add ×1", server.python("", restore="last").status.line)  # c's

    def test_a_call_without_a_response_is_unknown(self):
        with self.server(grants={"dies": {}}) as server:
            result = self.python(server, "try:\n    stand.dies()\nexcept tools.ToolError as error:\n    print(error)\n"
                                         "print(stand.echo(value=1))\nimport os; os._exit(1)")
            self.assertIn("stand exited with status 3; whether the call was carried out is unknown", result.output)
            self.assertIn("{'value': 1}", result.output)  # the next call has started it again
            self.assertIn("unknown: stand.dies ×1", result.status.line)

    def test_descriptions_name_servers_and_grants(self):
        with self.server(grants={"add": {"max_calls": 3, "when": {"to": ["a b", "c"], "by": ["1"]}}}) as server:
            tool = next(tool for tool in server.request("tools/list")["result"]["tools"] if tool["name"] == "run_python")
            self.assertIn("Granted: stand: add (at most 3 calls) (only to=a b or 1 other, by=1), what only reads.", tool["description"])
            self.assertTrue(tool["annotations"]["openWorldHint"])
        with Server("--tools", self.file({})) as server:
            tool = next(tool for tool in server.request("tools/list")["result"]["tools"] if tool["name"] == "run_python")
            self.assertIn("Granted: nothing.", tool["description"])
        many = {f"server-{i}": self.entry(tools={f"tool_{k}": {} for k in range(50)}) for i in range(30)}
        with Server() as plain:
            before = next(tool for tool in plain.request("tools/list")["result"]["tools"] if tool["name"] == "run_python")
        with Server("--tools", self.file(many)) as server:
            after = next(tool for tool in server.request("tools/list")["result"]["tools"] if tool["name"] == "run_python")
            self.assertLessEqual(len(after["description"]), len(before["description"]) + 800)
            self.assertIn("Granted: server-0 (50 granted); server-1 (50 granted); ", after["description"])
            self.assertRegex(after["description"], r" \(50 granted\) and \d+ more\.")
            self.assertIn("no such", server.python("'no such' if 'sandpiper' not in dir() else 1").output)
        self.assertEqual(self.pids(), [])  # no server is started for any of it

    def test_without_the_flag_there_is_no_module(self):
        with Server() as server:
            self.assertIn("ModuleNotFoundError", server.python("import sandpiper").text)

    def test_structured_results_have_the_calls(self):
        with self.server(grants={"add": {}}, flags=("--structured",)) as server:
            raw = self.python(server, "stand.add(); import os; os._exit(1)").raw["structuredContent"]
            self.assertRegex(raw["tools"], r"^stand\.add ×1 ")
            self.assertEqual(raw["not_undone"], "not undone: stand.add ×1")


class Frames(ToolsCase):
    """What code writes on the socket itself."""

    def test_a_socket_that_code_has_spoilt_is_a_new_one_in_the_next_cell(self):
        spoilt = {"non-blocking": "os.set_blocking(72, False)",
                  "shut down": "socket.socket(fileno=os.dup(72)).shutdown(2)",
                  "a frame that is too long": "os.write(72, b'\\xff\\xff\\xff\\x7f')", "taken": "os.write(72, TAKEN)"}
        taken = "TAKEN = b'\\x1e\\0\\0\\0\\7\\0\\0\\0servers\\2\\0\\0\\0id\\1\\0\\0\\0z'\n"
        with self.server() as server:
            for name, code in spoilt.items():
                text = server.python(BEGIN + "import os, socket\n" + taken + code + "\nstand.echo(value=1)", timeout_s=2).text
                self.assertRegex(text, "RuntimeError|timeout|'value': 1", name)
                for _ in range(2):
                    again = server.python(BEGIN + "stand.echo(value=2)").text
                self.assertIn("Out: {'value': 2}", again, name)

    def test_forged_and_broken_frames_open_nothing(self):
        code = """
import os, random, socket, array
random.seed(SEED)
raw = socket.socket(fileno=os.dup(72))
def pack(*fields):
    body = b"".join(len(f).to_bytes(4, "little") + f for f in fields)
    return len(body).to_bytes(4, "little") + body
words = [b"call", b"list", b"cancel", b"servers", b"reply", b"run", b"id", b"server", b"stand", b"tool", b"add", b"dies",
         b"arguments", b"{}", b'{"by": 1, "by": 2}', b"[]", b"NaN", b"1", b"", b"\\x00", b"\\xff" * 9, b"x" * 300, b"{" * 600]
sent = 0
for i in range(2500):
    if random.random() < 0.002:
        frame = os.urandom(random.randrange(1, 64))
    else:
        frame = pack(*[random.choice(words) for _ in range(random.randrange(1, 10))])
        if random.random() < 0.5:
            frame = pack(b"call", b"id", b"%d" % i, b"server", b"stand", b"tool", random.choice([b"add", b"dies", b"ro\\x00ws"]),
                         b"arguments", random.choice(words))
    fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))] if random.random() < 0.1 else []
    try:
        raw.settimeout(0.2)
        raw.sendmsg([frame], fds)
        sent += 1
        raw.settimeout(0)
        raw.recv(1 << 20)
    except OSError as error:
        if not isinstance(error, BlockingIOError):
            break
sent"""
        with self.server(options={"check": True}) as server:
            fds = None
            for seed in range(4):
                server.python(BEGIN + code.replace("SEED", str(seed)), timeout_s=60)
                self.assertIn("Out: {'value': 1}", server.python(BEGIN + "stand.echo(value=1)", session="s%d" % seed).text)
                again = server.python(BEGIN + "stand.echo(value=2)").text
                if "RuntimeError" in again:  # half of a frame was left: the next cell has another socket
                    again = server.python(BEGIN + "stand.echo(value=2)").text
                self.assertIn("Out: {'value': 2}", again)
                count = len(os.listdir(f"/proc/{server.pid}/fd"))
                fds = fds or count
                self.assertLess(count, fds + 40)
            self.assertEqual((self.counter(), self.requests("tools/call dies")), (0, 0))


if __name__ == "__main__":
    unittest.main()
