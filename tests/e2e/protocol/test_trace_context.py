"""What a request says of its trace (MCP SEP-414): it goes to code and what it starts, for that call, and is checked before."""
import json
import unittest

from client import Case, MODERN, Server

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
WHOLE = {"traceparent": PARENT, "tracestate": "rojo=1, congo=t61", "baggage": "userId=alice;p, n=DF%2028"}
NAMES = "TRACEPARENT", "TRACESTATE", "BAGGAGE"
SEEN = f"import json, os; print(json.dumps([os.environ.get(name) for name in {NAMES}]))"
NONE = [None, None, None]


class TraceContext(Case):
    def python(self, server, code=SEEN, meta=None, **arguments):
        params = {"name": "run_python", "arguments": {"code": code, **arguments}}
        return server.finish_call(server.start("tools/call", {**params, "_meta": meta} if meta else params))

    def seen(self, server, meta=None, **arguments):
        result = self.python(server, SEEN, meta, **arguments)
        return json.loads(result.output)

    def test_code_has_the_variables_for_that_call_only(self):
        for options in ({}, {"version": MODERN}):
            with self.subTest(**options), Server(**options) as server:
                self.assertEqual(self.seen(server, WHOLE), list(WHOLE.values()))
                self.assertEqual(self.seen(server), NONE)
                self.assertEqual(self.seen(server, {"traceparent": OTHER}), [OTHER, None, None])
                self.assertEqual(self.seen(server, WHOLE, fresh=True), list(WHOLE.values()))
                self.assertEqual(self.seen(server, WHOLE, branch=True), list(WHOLE.values()))
                self.assertEqual(self.seen(server, undo=True), NONE)

    def test_processes_that_code_starts_have_them(self):
        with Server() as server:
            code = "import subprocess; print(subprocess.run(['env'], capture_output=True, text=True).stdout)"
            self.assertIn(f"TRACEPARENT={PARENT}\n", self.python(server, code, WHOLE).output)
            self.assertIn(f"BAGGAGE={WHOLE['baggage']}\n", self.python(server, "%%bash\nenv", WHOLE).output)
            self.assertNotIn("TRACE", self.python(server, code).output)

    def test_they_end_with_a_call_that_fails_or_crashes(self):
        with Server() as server:
            for code in ("1 / 0", "raise SystemExit(3)", "import os; os.abort()", "import time; time.sleep(100)"):
                with self.subTest(code):
                    self.python(server, code, WHOLE, timeout_s=1)
                    self.assertEqual(self.seen(server), NONE)

    def test_they_are_no_change(self):
        with Server() as server:
            server.python("x = 1")
            self.assertEqual(self.python(server, "x", WHOLE).text.rpartition("[")[2].count("|"),
                             self.python(server, "x").text.rpartition("[")[2].count("|"))

    def test_what_code_has_set_itself_comes_back_or_stays(self):
        with Server() as server:
            server.python("import os; os.environ['BAGGAGE'] = 'own=1'")
            self.assertEqual(self.seen(server, WHOLE), list(WHOLE.values()))
            self.assertEqual(self.seen(server), [None, None, "own=1"])
            self.python(server, "import os; os.environ['TRACEPARENT'] = 'mine'; del os.environ['BAGGAGE']", WHOLE)
            self.assertEqual(self.seen(server), ["mine", None, None])

    def test_code_that_breaks_the_environment_gets_a_result(self):
        with Server() as server:
            self.python(server, "import os; os.environ.clear(); type(os.environ).__setitem__ = None", WHOLE)
            result = self.python(server, "6 * 7", WHOLE)
            self.assertIn("42", result.text)
            self.assertIn("the trace context could not be reported", result.text)

    def test_what_is_not_in_the_formats_of_the_w3c_is_left_out(self):
        with Server() as server:
            for name, values in (("traceparent", (PARENT.upper(), PARENT + "-x", "ff" + PARENT[2:], 5, None, [PARENT], {}, "")),
                                 ("tracestate", ("a=1\nLD_PRELOAD=x", "a=\0", "a=1,a=2", "x" * 9000, "a=é")),
                                 ("baggage", ("a=1\nb=2", "a=\0", "a", "a=" + "x" * 9000, "a=\u2028", 7))):
                for value in values:
                    with self.subTest(name, value=str(value)[:40]):
                        self.assertIsNone(self.seen(server, {**WHOLE, name: value})[list(WHOLE).index(name)])
            self.assertEqual(self.seen(server, {**WHOLE, "traceparent": "00-0"}), [None, None, WHOLE["baggage"]])

    def test_a_job_keeps_those_of_the_call_that_began_it(self):
        with Server("--wait", "25") as server:
            begun = self.python(server, "import time, os\ntime.sleep(2)\nprint(os.environ['TRACEPARENT'])", WHOLE, wait_s=0)
            self.assertIn("job 1", begun.text)
            params = {"name": "run_python", "arguments": {"job": 1}, "_meta": {"traceparent": OTHER}}
            ended = server.finish_call(server.start("tools/call", params))
            self.assertIn(PARENT, ended.output)
            self.assertEqual(self.seen(server), NONE)


if __name__ == "__main__":
    unittest.main()
