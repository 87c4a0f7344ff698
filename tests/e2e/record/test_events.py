"""What a record says of reads, branches, changes, undone files, jobs, installations and calls of other servers' tools."""
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from client import give_away
from container_level import CONTAINER
from index.wheels import Wheel
from record_case import Record
import tools_case


class Events(Record):
    def test_reads_have_path_size_and_hash(self):
        with self.server() as server:
            server.write("a.txt", "one\ntwo\n")
            server.read("a.txt", start_line=2)
            server.read("none.txt")
        read, failed = self.events("read")
        self.assertEqual((read["path"], read["size"], read["sha256"]), ("a.txt", 8, hashlib.sha256(b"one\ntwo\n").hexdigest()))
        self.assertIn("two", read["content"][0]["text"])
        self.assertTrue(failed["is_error"])

    def test_branches_are_no_part_of_the_state(self):
        with self.server() as server:
            server.python("x = 1")
            server.python("x = 2", branch=True)
            server.python("x = 3", fresh=True)
        self.assertEqual([cell["arguments"] for cell in self.events("cell")], [{}, {"branch": True}, {"fresh": True}])
        shown = self.command("show", self.path())
        self.assertIn("(a branch, which was discarded)", shown)
        self.assertIn("(ran in an interpreter of its own)", shown)

    @unittest.skipIf(CONTAINER, "isolation: --cow needs namespaces")
    def test_changes_that_were_listed_and_applied_and_files_that_were_undone(self):
        work = self.place / "work"
        work.mkdir()
        (work / "old.txt").write_text("a\nb\n")
        give_away(work)
        self.place.chmod(0o755)
        with self.server("--cow", "--workspace", str(work)) as server:
            server.python("open('old.txt', 'w').write('a\\nc\\n'); open('new.txt', 'w').write('n')")
            server.call("list_changes", diff=True)
            server.call("apply_changes", paths=["new.txt"])
            server.python("import os; os.remove('old.txt')")
            server.python("", undo=True)
            server.call("apply_changes", discard=True)
        listed, applied, discarded = self.events("change")
        self.assertIn("-b\n+c", listed["content"][0]["text"])
        self.assertEqual(applied["arguments"], {"paths": ["new.txt"]})
        self.assertIn("applied 1", applied["content"][0]["text"])
        self.assertTrue(discarded["arguments"]["discard"])
        self.assertEqual(self.events("undo")[0]["files"], "files back: old.txt")
        page = self.command("export", self.path(), "--format", "html")
        self.assertIn('<span class="del">-b\n</span><span class="add">+c\n</span>', page)

    def test_jobs_are_started_and_ended(self):
        with self.server("--wait", "25") as server:
            server.python("import time; time.sleep(60)", wait_s=0)
            server.python("", job=1, stop=True)
        job, result = self.events("job")[0], self.events("result")[0]
        self.assertEqual((job["job"], job["call"]), (1, result["call"]))
        self.assertEqual((result["outcome"], result["job"]), ("stopped", 1))

    def test_installations_have_versions_and_hashes(self):
        wheels = self.place / "wheels"
        wheels.mkdir()
        Wheel("wheeled", "1.5").save(wheels)
        for directory in (self.place, wheels):
            directory.chmod(0o755)
        with self.server("--no-index", "--find-links", str(wheels), "--cache", str(self.place / "cache")) as server:
            server.call("install_package", packages=["wheeled"])
            server.call("install_package", packages=["missing"])
        done, failed = self.events("install")
        hash_of = hashlib.sha256(next(wheels.iterdir()).read_bytes()).hexdigest()
        self.assertEqual((done["packages"], done["installed"]),
                         (["wheeled"], [{"name": "wheeled", "version": "1.5", "sha256": hash_of}]))
        self.assertTrue(failed["failed"])
        self.assertIn("missing", self.command("why", self.path()))

    def test_why_the_server_exited(self):
        with self.server() as server:
            server.python("1")
            server.process.terminate()
            server.process.wait()
        self.assertEqual(self.events("end")[0]["why"], "a signal")


class ToolCalls(tools_case.ToolsCase, Record):
    def setUp(self):
        tools_case.ToolsCase.setUp(self)
        Record.setUp(self)

    def test_each_call_has_outcome_sizes_and_hashes(self):
        secret = "in-the-arguments-4711"
        with tools_case.ToolsCase.server(self, flags=("--record", str(self.records))) as server:
            server.python(tools_case.BEGIN + f"stand.rows(page=1)\nstand.echo(value={secret!r})")
            server.python(tools_case.BEGIN + "stand.add()")
            server.python(tools_case.BEGIN + "for _ in range(200): stand.rows(page=0)")
        calls = self.events("tool")
        self.assertEqual([(call["tool"], call["cell"], call["outcome"], call["sent"]) for call in calls[:3]],
                         [("stand.rows", 1, "ok", True), ("stand.echo", 1, "ok", True), ("stand.add", 2, "denied", False)])
        arguments = json.dumps({"page": 1}).encode()
        self.assertIn((calls[0]["arguments_bytes"], calls[0]["arguments_sha256"]),
                      [(len(text), hashlib.sha256(text).hexdigest()) for text in (arguments, arguments.replace(b" ", b""))])
        self.assertGreater(calls[0]["result_bytes"], 10)
        self.assertNotIn(secret, json.dumps(calls))
        self.assertEqual(len(calls), 3 + 100, "code must not fill the record")
        self.assertIn("stand.rows ×200", self.events("result")[2]["tools"])
        why = self.command("why", self.path())
        self.assertIn("not granted: stand.add. The user decides this in tools.json", why)

    def test_the_trace_of_a_request_is_in_the_record_and_goes_to_tool_servers(self):
        trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1",
                 "baggage": "userId=alice"}
        for era in ("modern", "legacy"):
            with self.subTest(era), tools_case.ToolsCase.server(self, "--era", era, flags=("--record", str(self.records))) as server:
                for tool, arguments in (("run_python", {"code": tools_case.BEGIN + "stand.rows(page=1)"}),
                                        ("write_file", {"path": "a", "content": "x"}), ("read_file", {"path": "a"}),
                                        ("read_file", {"path": 5}), ("install_package", {"packages": []})):
                    for meta in ({"_meta": {**trace, "other": 1}}, {}):
                        server.finish_call(server.start("tools/call", {"name": tool, "arguments": arguments, **meta}))
            events = [event for event in self.events() if event["kind"] in ("cell", "read", "write") or "arguments" in event]
            self.assertEqual([event.get("trace") for event in events], [trace, None] * 5)
            sent = [json.loads(line) for line in (self.directory / "traces").read_text().splitlines()]
            self.assertEqual(sent, [trace, {}])
            (self.directory / "traces").unlink()
            self.assertIn("2 cells", self.command("list", self.records))


if __name__ == "__main__":
    unittest.main()
