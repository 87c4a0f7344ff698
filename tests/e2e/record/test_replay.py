"""sandpiper record replay: the same results again, or the first difference; and nothing of somebody else's record does harm."""
import base64
import http.server
import json
import pathlib
import struct
import subprocess
import threading
import unittest
import zlib

from client import COMMAND, SLOW, give_away
from container_level import CONTAINER
from index.wheels import Wheel
from record_case import Record

ANALYSIS = (  # cell 3 ends in an exception, 4 in a timeout, 5 in a crash, 7 undoes 6, 10 is refused its remote host
    ("numbers = [int(n) for n in open('data.txt').read().split()]\nprint(len(numbers))", {}),
    ("import wheeled\nsum(numbers), wheeled.VERSION", {}),
    ("numbers[9]", {}),
    ("print('endless')\nimport time; time.sleep(600)", {"timeout_s": 2}),
    ("import os; os.abort()", {}),
    ("numbers.clear()", {}),
    ("print(numbers)", {"undo": True}),
    ("import time\nbegan = time.perf_counter()\nprint(object())\nprint(time.perf_counter() - began < 9, '0.3 s')", {}),
    ("from PICTURE import Picture\nPicture()", {}),
    ("import urllib.request\ntry: urllib.request.urlopen('http://other.invalid/')\nexcept OSError: print('refused')", {}),
    ("import sys\nprint('out'); print('err', file=sys.stderr)\nopen('result.txt', 'w').write('6')", {}),
    ("import random\nrandom.random() + len(open(OTHER).read())", {}),
)
PICTURE = (pathlib.Path(__file__).resolve().parents[2] / "clients" / "picture.py").read_text().rpartition("\n\n\n")[0]
FREE = ("--no-index", "--seed", "5", "--allow-host", "allowed.invalid")


def png(rows, text=b"", level=9):
    """A greyscale PNG."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pixels = b"".join(b"\0" + bytes(row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0))
            + chunk(b"tEXt", b"Comment\0" + text) + chunk(b"IDAT", zlib.compress(pixels, level)) + chunk(b"IEND", b""))


class Replay(Record):
    def setUp(self):
        super().setUp()
        self.mounted = self.place / "mounted"
        self.wheels = self.place / "wheels"
        for directory in (self.place, self.mounted, self.wheels):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
            give_away(directory)
        (self.mounted / "numbers.txt").write_text("1 2 3\n")
        Wheel("wheeled", "1.5").save(self.wheels)
        self.own = (*FREE, "--find-links", str(self.wheels), "--cache", str(self.place / "cache"))

    def analysis(self):
        with self.server(*self.own, "--mount", str(self.mounted)) as server:
            server.write("data.txt", "1 2 3\n")
            server.write("PICTURE.py", PICTURE)
            server.call("install_package", packages=["wheeled"])
            for code, arguments in ANALYSIS:
                server.python(code.replace("OTHER", repr(self.at("mounted/numbers.txt"))), **arguments)
        self.assertEqual(len(self.events("cell")), 12)
        return self.path()

    def at(self, name):
        """Where code finds what is beside the mounted directory."""
        return str(self.mounted.parent / name) if CONTAINER else f"/data/{name}"

    def test_twelve_cells_are_the_same(self):
        path = self.analysis()
        text = self.command("replay", path, *self.own, "--mount", self.mounted)
        self.assertEqual(text.splitlines(), [*(f"cell {n}: same" for n in range(1, 13)), "12 same"])
        (self.mounted / "numbers.txt").write_text("1 2 3 4\n")
        text = self.command("replay", path, *self.own, "--mount", self.mounted, status=1)
        lines = text.splitlines()
        self.assertEqual([line for line in lines if line.startswith("cell") and "same" not in line], ["cell 12: different"])
        self.assertEqual(lines[-1], "11 same, 1 different")
        self.assertRegex(text, r"cell 12: different\n    value:\n    - 6\.\d+\n    \+ 8\.\d+\n")

    def test_what_the_record_had_and_replay_lacks_comes_first(self):
        text = self.command("replay", self.analysis(), status=1)
        self.assertIn(f"the record had --mount {self.mounted}, replay lacks it\n", text)
        self.assertIn("the record had --find-links", text)
        self.assertLess(text.index("--mount"), text.index("cell 1:"))
        self.assertIn("install_package", text)
        self.assertIn("cell 2: different\n", text)

    def test_another_workspace_is_named(self):
        other = self.place / "other"
        other.mkdir()
        give_away(other)
        path = self.forge_cells("open('made', 'w').close()", start={"settings": [{"name": "workspace", "value": "/gone", "source": "command line"}]})
        text = self.command("replay", path, "--workspace", other)
        self.assertIn(f"the record had --workspace /gone, replay has {other}\n", text)
        self.assertTrue((other / "made").exists())

    def test_seed_of_the_record_is_used(self):
        with self.server("--seed", "5") as server:
            server.python("import random; random.random()")
        self.assertIn("1 same\n", self.command("replay", self.path()))

    def test_jobs_sessions_branches_and_calls_without_code(self):
        with self.server("--wait", "25") as server:
            server.python("import time; print('a'); time.sleep(0.2); x = 1", wait_s=0)
            server.python("", job=1)
            server.python("x = 2")
            server.python("", undo=True)
            server.python("x")
            server.python("x + 1", branch=True)
            server.python("3", fresh=True)
            server.python("y = 1", session="other", checkpoint="one")
            server.python("y = 2", session="other")
            server.python("y", session="other", restore="one")
            server.python("1", restore="none")
            server.python("print('begun', flush=True)\nwhile True: pass", wait_s=0)
            # One that is stopped before its code begins has no cell.
            self.assertTrue(any("begun" in server.python("", job=2, wait_s=1).text for _ in range(60)))
            server.python("", job=2, stop=True)
            server.python("raise ValueError(x)")
        text = self.command("replay", self.path(), status=1)
        self.assertIn("not run (it was stopped)\n", text)
        self.assertIn("cell 3 of session other: same\n", text)
        self.assertEqual(text.splitlines()[-1], "9 same, 1 not run")

    def test_users_directory_is_not_touched_unless_asked(self):
        work, config = self.place / "work", self.place / "config"
        work.mkdir()
        work.chmod(0o777)
        give_away(work)
        (work / "kept").write_text("the user's")
        config.write_text(f"workspace = {work}\nmount = {self.mounted}:rw\n")
        path = self.forge_cells("import os, pathlib\nfor name in ('kept', '/data/mounted/numbers.txt'):\n"
                                "    pathlib.Path(name).write_text('changed')",
                                start={"settings": [{"name": "workspace", "value": str(work), "source": "command line"}]})
        self.assertIn(f"the record had --workspace {work}, replay lacks it",
                      self.command("replay", path, "--config", config, status=1))
        self.assertEqual((work / "kept").read_text(), "the user's")
        self.assertEqual((self.mounted / "numbers.txt").read_text(), "1 2 3\n")
        self.command("replay", path, "--workspace", work, status=1)
        self.assertEqual((work / "kept").read_text(), "changed")

    def test_doctored_record_reaches_nothing(self):
        canary = self.place / "canary"
        canary.mkdir()
        (canary / "secret").write_text("canary-4711")
        requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                requests.append(self.path)
                self.send_error(404)

        site = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        program = canary / "python"
        program.write_text(f"#!/bin/sh\ntouch {canary}/ran\n")
        program.chmod(0o755)
        tools = canary / "tools.json"
        tools.write_text(json.dumps({"mcpServers": {"evil": {"command": str(program), "args": []}}}))
        tools.chmod(0o600)
        wanted = {"workspace": canary, "mount": f"{canary}:rw", "allow-host": f"127.0.0.1:{site.server_port}",
                  "python": program, "tools": tools, "isolation": "best", "allow-degraded": "memory", "mount-home": "yes",
                  "index-url": f"http://127.0.0.1:{site.server_port}/simple", "memory": "900G", "timeout": "3600",
                  "max-timeout": "3600", "preinstall": "evil", "find-links": canary, "cache": canary, "record": canary,
                  "allow-write": "all", "config": canary / "config", "preload": "os", "seed": "x; import os"}
        settings = [{"name": name, "value": str(value), "source": "command line"} for name, value in wanted.items()]
        codes = (
            f"import os\nfor top in ('/data', '/work', {str(canary)!r}):\n    for at, _, names in os.walk(top):\n"
            "        for name in names: print(open(os.path.join(at, name)).read())",
            f"import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{site.server_port}/reached')",
            "from sandpiper import tools",
            "import time; time.sleep(600)",
        )
        path = self.forge_cells(*codes, start={"settings": settings})
        events = [("tool", {"tool": "install_package", "is_error": False, "arguments": {
                      "packages": [f"http://127.0.0.1:{site.server_port}/evil-1.0-py3-none-any.whl"]}}),
                  ("write", {"tool": "write_file", "is_error": False, "arguments": {
                      "path": f"{canary}/written", "content": "x", "mode": "overwrite"}}),
                  ("write", {"tool": "write_file", "is_error": False, "arguments": {
                      "path": "../../../.." + f"{canary}/written", "content": "x"}}),
                  ("change", {"tool": "apply_changes", "is_error": False, "arguments": {}})]
        forged = self.forge(*events, start={"settings": settings})
        for path in (path, forged):
            done = subprocess.run([*COMMAND, "record", "replay", str(path), "--timeout", "2", "--no-index"], capture_output=True,
                                  text=True, timeout=200 * SLOW)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertNotIn("canary-4711", done.stdout + done.stderr)
        self.assertEqual(sorted(name.name for name in canary.iterdir()), ["python", "secret", "tools.json"])
        self.assertEqual(requests, [])

    def test_cells_that_called_tools_do_not_run_without_tools(self):
        path = self.forge_cells("print('called')", "print('plain')", tools="stand.count ×1 (0.1 s)")
        text = self.command("replay", path, status=1)
        self.assertIn("cell 1: not run (it called tools of other servers", text)
        self.assertIn("2 not run", text)

    def test_altered_record_is_replayed_with_a_warning(self):
        with self.server() as server:
            for number in range(3):
                server.python(str(number))
        lines = self.path().read_bytes().splitlines(keepends=True)
        self.path().write_bytes(b"".join([*lines[:3], lines[3].replace(b'"code":"1"', b'"code":"7"'), *lines[4:]]))
        text = self.command("replay", self.path(), status=1)
        self.assertEqual(text.splitlines(), ["cell 1: same", "cell 2: different", "    value:", "    - 1", "    + 7",
                                             "cell 3: same", "2 same, 1 different"])

    def test_figures_are_compared_by_pixels(self):
        shown = "import base64, IMAGE\nIMAGE.Shown()"
        dark, light = [[0, 9], [9, 0]], [[0, 9], [9, 1]]
        for now, same in ((png(dark, b"other words", 1), True), (png(light), False)):
            image = {"mime": "image/png", "data": base64.b64encode(png(dark)).decode()}
            of = {"call": 1, "session": "default", "cell": 1}
            module = ("import base64\nclass Shown:\n    def _repr_png_(self): return base64.b64decode("
                      f"{base64.b64encode(now).decode()!r})\n    def __repr__(self): return 'shown'\n")
            path = self.forge(
                ("write", {"tool": "write_file", "is_error": False, "arguments": {"path": "IMAGE.py", "content": module}}),
                ("cell", {**of, "code": shown, "arguments": {}}),
                ("result", {**of, "outcome": "ok", "state": "kept", "is_error": False, "images": [image],
                            "value": f"\nshown\n[image: {'/tmp/sandpiper-0123abcd' if CONTAINER else ''}/tmp/figures/figure-1-1.png]"}))
            with self.subTest(same=same):
                text = self.command("replay", path, status=0 if same else 1)
                self.assertEqual("figure 1: other pixels" in text, not same, text)

    def test_what_no_server_would_have_recorded_fails_with_a_sentence(self):
        of = {"call": 1, "session": "default", "cell": 1}
        cells = [{**of, "code": "x" * (17 << 20), "arguments": {}},
                 {**of, "code": "1", "arguments": {"timeout_s": "for ever", "undo": [1], "\x1b[2J": 1}},
                 {**of, "session": "\x1b[2J" * 100, "code": "1", "arguments": {}}, {"call": 1, "cell": 2, "code": "2"}]
        result = {**of, "outcome": "ok", "state": "kept", "is_error": False}
        for cell in cells:
            with self.subTest(cell=str(cell)[:100]):
                text = self.command("replay", self.forge(("cell", cell), ("result", result)), status=1)
                self.assertRegex(text, r"cell \d.*: (failed: |different\n)")
                self.assertNotIn("\x1b", text)
                self.assertLess(len(text), 5000)

    def test_differences_are_shown_as_text(self):
        text = self.command("replay", self.forge_cells(
            "print('\\x1b]52;c;x\\x07\\u202e')\nraise ValueError('\\x1b[2J')", value="\x1b[31m\u202e",
            start={"settings": [{"name": "mount", "value": "\x1b]0;x\x07", "source": "x"}]}), status=1)
        self.assertFalse([c for c in text if (ord(c) < 32 and c != "\n") or c in "\x7f\x9b\u202e"], text)
        self.assertIn("\\x1b]52", text)


if __name__ == "__main__":
    unittest.main()
