"""The workspace's files as MCP resources, which a client can list and read."""
import base64
import json
import os
import pathlib
import tempfile
import unittest

from client import Case, Server, Shared, give_away, need_userns

PREFIX = "sandpiper://workspace/"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
                       "awAAAABJRU5ErkJggg==")
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {}}


def pages(server):
    """Reads all pages of the list."""
    params = {}
    while True:
        result = server.request("resources/list", params)["result"]
        yield result["resources"]
        if "nextCursor" not in result:
            return
        params = {"cursor": result["nextCursor"]}


def names(server):
    return [resource["name"] for page in pages(server) for resource in page]


class Resources(Shared):
    args = ("--resources",)

    def read(self, path, **params):
        return self.server.request("resources/read", {"uri": PREFIX + path, **params})

    def contents(self, path):
        found = self.read(path)["result"]["contents"]
        self.assertEqual([item["uri"] for item in found], [PREFIX + path])
        return found[0]

    def setUp(self):
        self.assert_ok(self.server.python(
            "import os, shutil\n"
            "for at in os.scandir('.'):\n"
            "    shutil.rmtree(at) if at.is_dir(follow_symlinks=False) else os.remove(at)"))

    def test_a_file_is_listed_with_its_address_and_size_and_read_there(self):
        self.server.write("data/été 1%.csv", "a,b\n1,2\n")
        (resource,), = pages(self.server)
        self.assertEqual(resource, {"uri": PREFIX + "data/%C3%A9t%C3%A9%201%25.csv",
                                    "name": "data/été 1%.csv", "size": 8})
        item = self.server.request("resources/read", {"uri": resource["uri"]})["result"]["contents"]
        self.assertEqual(item, [{"uri": resource["uri"], "mimeType": "text/csv",
                                 "text": "a,b\n1,2\n"}])

    def test_results_link_files_that_the_client_can_read(self):
        def links(result):
            found = [block for block in result.content if block["type"] == "resource_link"]
            for link in found:
                item, = self.server.request("resources/read", {"uri": link["uri"]})["result"]["contents"]
                self.assertIn(item["mimeType"], (link["mimeType"], "text/plain"))
                self.assertTrue(item["mimeType"] == link["mimeType"] or link["name"].endswith(".bin"), link)
            return [(link["name"], link["mimeType"], link["size"]) for link in found]

        result = self.server.python("import os\nos.mkdir('out d')\nopen('out d/tab é.csv', 'w').write('a\\n')\n"
                                    "open('.hidden', 'w').close()\nos.symlink('nowhere', 'link')\nopen('/tmp/other', 'w').close()")
        self.assertEqual(links(result), [("out d/tab é.csv", "text/csv", 2)])
        self.assertEqual(result.content[0]["type"], "text")
        work = self.server.python("import os; print(os.getcwd())").lines[0]
        for path, name in (("notes.md", "notes.md"), (f"{work}/sub/x.bin", "sub/x.bin")):
            written = self.server.write(path, "12345")
            self.assertEqual([link[0::2] for link in links(written)], [(name, 5)])
        self.assertEqual(links(self.server.write("notes.md", "67", mode="append")), [("notes.md", "text/markdown", 7)])
        self.assertEqual(links(self.server.call("write_file", path="notes.md", old_text="5", new_text="five")), [("notes.md", "text/markdown", 10)])
        for path in (".env", "a/.git/x", "/tmp/x"):
            self.assertEqual(links(self.server.write(path, "1")), [])
        many = self.server.python("for n in range(30): open(f'{n}-{n * n}.txt', 'w').write('x')\nraise ValueError")
        self.assertLessEqual(len(links(many)), 8)
        self.assertEqual(links(self.server.python("os.remove('notes.md')")), [])

    def test_no_links_for_clients_that_do_not_know_them(self):
        for args, version in ((("--resources",), "2025-03-26"), ((), "2025-11-25")):
            with Server(*args, version=version) as server:
                for result in (server.python("open('a.txt', 'w').close()"), server.write("b.txt", "")):
                    self.assertEqual([block["type"] for block in result.content], ["text"])

    def test_files_are_sorted_without_hidden_files_and_links(self):
        self.server.python("import os\n"
                           "for directory in ('b', 'a/c', '.git', 'empty'): os.makedirs(directory)\n"
                           "for name in ('z', 'b/1', 'a/c/2', 'a/0', 'a.txt', '.hidden', '.git/x'):\n"
                           "    open(name, 'w').close()\n"
                           "os.symlink('z', 'link'); os.symlink('/etc', 'outside'); os.mkfifo('pipe')")
        self.assertEqual(names(self.server), ["a/0", "a/c/2", "a.txt", "b/1", "z"])

    def test_pages_hold_every_file_once(self):
        made = [name for i in range(250) for name in (f"d{i % 7}/e{i}/f", f"d{i % 7}/{i}")]
        self.assert_ok(self.server.python(
            f"import os\nfor name in {made}:\n"
            "    os.makedirs(os.path.dirname(name), exist_ok=True); open(name, 'w').close()"))
        found = list(pages(self.server))
        self.assertGreater(len(found), 2)
        self.assertEqual([resource["name"] for page in found for resource in page],
                         sorted(made, key=lambda name: name.split("/")))

    def test_a_page_stays_small_whatever_the_names(self):
        self.server.python("for i in range(300): open(f'{i:03}' + '\\n' * 250, 'w').close()")
        answers = list(pages(self.server))
        self.assertEqual(sum(map(len, answers)), 300)
        self.assertLess(max(len(json.dumps(page)) for page in answers), 900_000)

    def test_an_unknown_cursor_is_refused(self):
        for cursor in ("bogus!", "", 5, "Li4vYQ=="):
            with self.subTest(cursor=cursor):
                self.assert_error_code(self.server.request("resources/list", {"cursor": cursor}), -32602)
        self.assert_error_code(self.server.request("resources/templates/list", {"cursor": "x"}), -32602)

    def test_a_template_says_how_files_are_named(self):
        template, = self.server.request("resources/templates/list")["result"]["resourceTemplates"]
        self.assertEqual(template["uriTemplate"], PREFIX + "{+path}")
        self.assertTrue(template["name"])

    def test_binary_files_come_as_base64(self):
        data = bytes(range(256)) * 4
        self.server.write("data.bin", base64.b64encode(data).decode(), encoding="base64")
        self.server.write("dot.png", base64.b64encode(PNG).decode(), encoding="base64")
        item = self.contents("data.bin")
        self.assertEqual((item["mimeType"], base64.b64decode(item["blob"])),
                         ("application/octet-stream", data))
        item = self.contents("dot.png")
        self.assertEqual((item["mimeType"], base64.b64decode(item["blob"])), ("image/png", PNG))

    def test_an_empty_file_and_utf16_are_text(self):
        self.server.python("open('empty', 'w').close(); open('wide', 'w', encoding='utf-16').write('é')")
        self.assertEqual(self.contents("empty")["text"], "")
        self.assertEqual(self.contents("wide")["text"], "é")

    def test_a_file_that_is_not_there_is_not_found(self):
        self.server.python("import os; os.mkdir('directory'); os.mkfifo('pipe')")
        for path in ("none", "directory", "pipe", "directory/none", "../etc/passwd", "/etc/passwd", "a//b", "",
                     "%00", "directory/%2e%2e/x"):
            with self.subTest(path=path):
                answer = self.read(path)
                self.assert_error_code(answer, -32002)
                self.assertEqual(answer["error"]["data"], {"uri": PREFIX + path})
        for uri in ("file:///etc/passwd", "", "x"):
            self.assert_error_code(self.server.request("resources/read", {"uri": uri}), -32002)
        for params in ({}, {"uri": 5}, {"uri": None}):
            self.assert_error_code(self.server.request("resources/read", params), -32602)

    def test_the_largest_results_stay_within_what_clients_accept(self):
        self.server.python("import os\n"
                           "open('text', 'w').write('\\\\' * 640_000)\n"
                           "open('lines', 'w').write('\\n' * 640_000)\n"
                           "open('plain', 'w').write('a' * 640_000)\n"
                           "open('bytes', 'wb').write(os.urandom(640_000))\n"
                           "open('over', 'wb').write(bytes(640_001))")
        for name in ("text", "lines", "plain", "bytes"):
            with self.subTest(name=name):
                answer = self.read(name)
                self.assertLess(len(json.dumps(answer)), 900_000)
                item = answer["result"]["contents"][0]
                self.assertEqual("text" in item, name == "plain")
        answer = self.read("over")
        self.assert_error_code(answer, -32603)
        self.assertIn("read_file", answer["error"]["message"])

    def test_files_are_read_while_code_runs(self):
        self.server.write("now.txt", "x")
        busy = self.server.start_call("run_python", code="import time\nwhile True: time.sleep(0.1)")
        self.assertEqual(self.contents("now.txt")["text"], "x")
        self.assertEqual(names(self.server), ["now.txt"])
        self.server.cancel(busy)

    def test_the_stateless_era_has_its_fields_and_codes(self):
        self.server.write("a.txt", "x")

        def ask(method, **params):
            return self.server.request(method, {"_meta": MODERN, **params})
        for method, params, kept in (("resources/list", {}, False), ("resources/templates/list", {}, True),
                                     ("resources/read", {"uri": PREFIX + "a.txt"}, False)):
            with self.subTest(method=method):
                result = ask(method, **params)["result"]
                self.assertEqual((result["resultType"], result["cacheScope"], result["ttlMs"] > 0),
                                 ("complete", "public" if kept else "private", kept))
        self.assert_error_code(ask("resources/read", uri=PREFIX + "none"), -32602)
        self.assertEqual(ask("server/discover")["result"]["capabilities"],
                         {"tools": {}, "resources": {}})


class Beginnings(Case):
    def test_without_the_flag_there_are_none(self):
        with Server() as server:
            self.assertEqual(server.initialize()["capabilities"], {"tools": {}})
            for method in ("resources/list", "resources/read", "resources/templates/list"):
                self.assert_error_code(server.request(method, {"uri": PREFIX + "x"}), -32601)

    def test_a_workspace_in_memory_begins_empty(self):
        need_userns()
        with Server("--resources") as server:
            self.assertEqual(server.initialize()["capabilities"], {"tools": {}, "resources": {}})
            self.assertEqual(names(server), [])

    def test_a_directory_of_the_users_is_listed_before_any_call_and_nothing_beside_it(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-resources-") as directory:
            pathlib.Path(directory, "mine").mkdir()
            pathlib.Path(directory, "mine", "note.txt").write_text("hello")
            pathlib.Path(directory, "out").symlink_to(pathlib.Path(__file__).parent)
            for path in (directory, f"{directory}/mine", f"{directory}/mine/note.txt"):
                os.chmod(path, 0o755)
                give_away(path)
            with Server("--resources", "--workspace", directory) as server:
                self.assertEqual(names(server), ["mine/note.txt"])
                answer = server.request("resources/read", {"uri": PREFIX + "mine/note.txt"})
                self.assertEqual(answer["result"]["contents"][0]["text"], "hello")
                self.assert_error_code(
                    server.request("resources/read", {"uri": PREFIX + "out/client.py"}), -32002)


if __name__ == "__main__":
    unittest.main()
