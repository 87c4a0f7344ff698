"""The program that reads records, without the binary: its zip file lies beside that in the build."""
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZIP = str(pathlib.Path(os.environ.get("SANDPIPER") or ROOT / "build/sandpiper").parent / "record/record.zip")
sys.path.insert(0, ZIP)

import book  # noqa: E402
import export  # noqa: E402
import json_text  # noqa: E402
import replay  # noqa: E402
import show  # noqa: E402
import visible  # noqa: E402

ZEROS = "0" * 64
# Those of the standard library that Debian's python3-minimal lacks and somebody may want here.
LACKING = ("difflib", "html", "json", "shutil", "tempfile", "mmap", "queue", "pprint", "statistics")
EVIL = "\x1b]52;c;x\x07\u202e<script>alert(1)</script>\" onerror=\"x\x9b1m```\r"


def event(kind="cell", seq=0, prev=ZEROS, **members):
    return {"v": 1, "seq": seq, "time": "2026-11-22T10:15:02.123Z", "kind": kind, "prev": prev, **members}


def chain(*kinds):
    lines, prev = [], ZEROS
    for seq, kind in enumerate(kinds):
        lines.append(json.dumps(event(kind, seq, prev, text=str(seq))).encode())
        prev = hashlib.sha256(lines[-1]).hexdigest()
    return [line + b"\n" for line in lines]


def forms(read):
    return [show.show(read, colours=False), show.why(read, 0), show.summary(read), show.verdict(read.reading)[0],
            *(form(read, None)[0] for form in (export.markdown, export.script, export.notebook, export.page))]


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="sp-reading-")
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "record.jsonl")

    def read(self, *lines):
        """Of bytes, or of events."""
        with open(self.path, "wb") as file:
            file.writelines(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        return book.Book(self.path)


class Lines(Case):
    def test_altered_removed_or_moved_line_is_found(self):
        lines = chain("start", "undo", "end")
        for changed, altered in ((lines, 0), ([lines[0], lines[1].replace(b'"text": "1"', b'"text": "7"'), lines[2]], 2),
                                 ([lines[0], lines[2]], 2), (lines[1:], 1), ([lines[0], lines[2], lines[1]], 2)):
            self.assertEqual(self.read(*changed).reading.altered, altered)
        whole = self.read(*lines).reading
        self.assertEqual((whole.ended, whole.lines, whole.torn), (True, 3, False))
        torn = self.read(b"".join(lines)[:-5]).reading
        self.assertEqual((torn.altered, torn.lines, torn.torn), (0, 2, True))
        empty = self.read(b"").reading
        self.assertEqual((empty.altered, empty.torn, empty.ended), (0, False, False))

    def test_other_lines_are_refused_with_their_number(self):
        text = json.dumps(event()).encode()[:-1]
        rows = [b"", b"null", b"[]", b"{}", b'{"v":1}', text, text + b', "kind": "cell"}', text + b', "a\\u0000": 1}',
                text + b', "x": ' + b"[" * 80 + b"]" * 80 + b"}", text + b', "x": [' + b"1," * 500_000 + b"1]}", text + b', "x": NaN}',
                text + b', "x": 1e999}', text + b', "x": 9223372036854775808}', text + b', "x": "\xff"}', text + b', "x": "\n"}']
        rows = [row + b"\n" for row in rows]
        rows += [event("a b"), event(""), event("cell\0"), event(call=-1), event(call=1 << 60), event(call=1.5), event(call=True),
                 event(code=7), event(session={}), event(output=["x"]), event(output=[["x", 1]]), event(images=[1]),
                 event(settings={}), event(cell="1"), event(failed=1), {**event(), "v": 2}, {**event(), "time": "x"}]
        for row in rows:
            with self.subTest(row=str(row)[:80]):
                self.assertRegex(self.read(row).reading.why, "^line 1: .")

    def test_line_of_more_than_64_mib_is_refused(self):
        with open(self.path, "wb") as file:
            file.truncate(70 << 20)
        self.assertIn("64 MiB", book.Book(self.path).reading.why)

    def test_only_regular_files_are_read(self):
        for path in ("/dev/zero", "/tmp", "/nowhere/file"):
            with self.assertRaisesRegex(OSError, f"^{path}( is not a regular file|: No such file or directory)$"):
                book.Book(path)


class Fates(Case):
    def test_what_led_to_the_final_state_is_live(self):
        events = []
        for number, outcome, state in ((1, "ok", "kept"), (2, "ok", "kept"), ("restore", 1, 0), (3, "error", "kept"),
                                       (4, "crashed", "restored"), ("undo", 2, 0), (5, "timeout", "interrupted"), (6, "ok", "kept")):
            if isinstance(number, str):
                events.append(event(number, session="default", to=outcome))
                continue
            of = {"call": number, "session": "default", "cell": number}
            events += [event("cell", **of, code="x", arguments={}), event("result", **of, outcome=outcome, state=state)]
        self.assertEqual([entry.fate for entry in self.read(*events).entries if entry.is_cell()],
                         [book.LIVE, book.LIVE, book.UNDONE, book.GONE, book.CUT, book.LIVE])


class Forms(Case):
    def cells(self, *codes, **result):
        of = [{"call": number, "session": "default", "cell": number} for number in range(1, len(codes) + 1)]
        return [one for each, code in zip(of, codes) for one in (
            event("cell", **each, code=code, arguments={}),
            event("result", **each, **{"outcome": "ok", "state": "kept", "duration_ms": 1500, **result}))]

    def test_code_is_as_it_ran(self):
        sent = ("```python\nx = 1\n```", "~~~\nx = 2\n~~~\n", "  x = 3\n  y = 3", "x = 4\r\ny = 4\r\n", "```\nx = 5\n``` and more", 's = """\n```\n"""')
        read = self.read(*self.cells(*sent))
        ran = ["x = 1", "x = 2", "x = 3\ny = 3", "x = 4\ny = 4\n", sent[4], sent[5]]
        cells = json.loads(export.notebook(read, None)[0])["cells"]
        self.assertEqual([(cell["source"], cell["execution_count"]) for cell in cells if cell["cell_type"] == "code"], list(zip(ran, range(1, 7))))
        script = export.script(read, None)[0]
        compile(script, "", "exec")
        for code in ran[:4] + ran[5:]:
            self.assertIn(f"\n{code}\n", script)

    def test_an_interrupted_cell_ends_in_a_notebook_too(self):
        read = self.read(*self.cells("x = 9\nwhile True: pass", outcome="timeout", state="interrupted"))
        cell, = [cell for cell in json.loads(export.notebook(read, None)[0])["cells"] if cell["cell_type"] == "code"]
        names = {}
        with self.assertRaises(KeyboardInterrupt):
            exec(cell["source"], names)
        self.assertIn("signal.ITIMER_REAL, 1.5)\n", cell["source"])
        self.assertEqual((names["x"], signal.getitimer(signal.ITIMER_REAL)), (9, (0, 0)))
        self.assertEqual(cell["metadata"], {"tags": ["raises-exception"]})

    def test_an_edit_is_shown(self):
        read = self.read(event("write", tool="write_file", arguments={"path": "a", "old_text": "one\ntwo", "new_text": "three"}))
        for text in (show.show(read, colours=False), export.markdown(read, None)[0], export.script(read, None)[0]):
            self.assertRegex(text, "- one\n.*- two\n.*[+] three\n")

    def test_errors_have_a_reason_and_empty_files_none(self):
        error = {"outcome": "error", "error_type": "ValueError", "error_message": "first\nand second"}
        self.assertEqual(show.why(self.read(*self.cells("x", **error)), 0), "cell 1: ValueError: first\\nand second\n")
        self.assertEqual(show.verdict(self.read(b"").reading), ("the file is empty: no record\n", False))


class Hostile(Case):
    def test_no_text_of_a_session_is_obeyed(self):
        words = {name: EVIL for name in ("session", "code", "tool", "host", "rule", "text", "value", "status", "traceback",
                                         "refusal", "decision", "hint", "name", "message")}
        read = self.read(*(event(kind, **words, call=1, cell=1, outcome="refused", arguments={"path": EVIL, "content": EVIL},
                                 output=[[EVIL, EVIL]], content=[{"text": EVIL}],
                                 images=[{"data": 'iVBORw0KGgo"><script>'}])
                           for kind in ("cell", "result", "network", "change", "write", "odd")))
        for text in forms(read):
            self.assertEqual([c for c in text if ord(c) < 32 and c not in "\n\t" or c in "\x7f\x9b\u202e"], [])
        page = export.page(read, None)[0]
        self.assertFalse("<script" in page or "<img" in page)

    def test_anything_is_read_without_an_error_of_ours(self):
        seed = int(os.environ.get("SANDPIPER_TEST_SEED") or random.randrange(1 << 32))
        chance = random.Random(seed)
        lines = [line for path in sorted((ROOT / "tests/golden/records").glob("*.jsonl"))
                 for line in path.read_bytes().splitlines(keepends=True)]
        values = (None, True, 0, -1, 1.5, 1 << 53, "", "\0x", EVIL, [], {}, [EVIL], [[EVIL, EVIL]], [{"text": EVIL, "data": 1}])
        for _ in range(25):
            some = chance.sample(lines, 20)
            for at in range(0, 20, 2):
                changed = json.loads(some[at])
                for name in chance.sample(sorted(changed), 3):
                    changed[name] = chance.choice(values)
                some[at] = json.dumps(changed).encode() + b"\n"
            data = bytearray(b"".join(some))
            for _ in range(chance.randrange(4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            with self.subTest(seed=seed):
                for text in forms(self.read(bytes(data))):
                    text.encode()


class Texts(unittest.TestCase):
    def test_what_is_unseen_is_what_the_server_has(self):
        source = (ROOT / "base/word.c").read_text()
        for name, ours in (("unseen", visible.IN_LINE), ("marks", visible.MARKS)):
            rows = re.findall(r"\{(0x\w+), (0x\w+)\}", re.search(rf" {name}\[\] = {{(.*?)}};", source, re.DOTALL)[1])
            theirs = {code for first, last in rows for code in range(int(first, 16), int(last, 16) + 1)}
            self.assertEqual({code for code in range(0x110000) if ours.match(chr(code))}, theirs, name)

    def test_limits_are_the_servers(self):
        limits = (ROOT / "base/limits.h").read_text()
        for name, ours in (("LIMIT_RECORD_LINE_BYTES (64UL << 20)", book.LINE_BYTES == 64 << 20),
                           ("LIMIT_RECORD_JSON_DEPTH 64U", json_text.DEPTH_MOST == 64),
                           ("LIMIT_JSON_VALUES 500000", json_text.VALUES_MOST == 500_000)):
            self.assertTrue(ours and f"#define {name}" in limits, name)

    def test_json_is_that_of_the_standard_library(self):
        chance = random.Random(1)
        leaves = (1, -5, 2.5, "", "x", "é\n\"\\\u2028😀\x7f\0/", None, True, False)

        def any_value(depth=0):
            kind = chance.random() + depth / 8
            if kind > 0.7:
                return chance.choice(leaves)
            items = [any_value(depth + 1) for _ in range(chance.randrange(4))]
            return items if kind < 0.35 else {f"é{position}": item for position, item in enumerate(items)}

        for _ in range(2000):
            value = any_value()
            text = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice((None, 1)))
            self.assertEqual(json_text.load(text.encode()), value)
            for dumped in (json_text.dump(value), json_text.dump(value, "")):
                self.assertEqual(json.loads(dumped), value)
        self.assertNotIn("\n", json_text.dump(value, ""))
        self.assertEqual(json_text.load(rb'"\ud800x\ud83d\ude00\udc00"'), "\ufffdx😀\ufffd")
        for text in (b"", b"[1,]", b"[,1]", b"{1:2}", b'{"a" 1}', b"01", b"1.", b"nullx", b'"\\x"', b'"\\', b"[1 2]", b"]", b'{"a":1,}'):
            with self.subTest(text=text), self.assertRaises(ValueError):
                json_text.load(text)

    def test_code_on_a_page_is_marked(self):
        code = "if x in 'a\\'b' or y: # <c>\n  z1 = 0x1F + \"\"\"q\n\"\"\" 'open\n1"
        marked = export.highlight(code)
        self.assertEqual(re.findall('<span class="(.)">(.*?)</span>', marked, re.DOTALL), [
            ("k", "if"), ("k", "in"), ("s", "&#39;a\\&#39;b&#39;"), ("k", "or"), ("c", "# &lt;c&gt;"), ("n", "0x1F"),
            ("s", "&quot;&quot;&quot;q\n&quot;&quot;&quot;"), ("s", "&#39;open"), ("n", "1")])
        self.assertEqual(re.sub("</?span.*?>", "", marked), visible.html(code))

    def test_what_varies_is_the_same(self):
        for was, now in (("<A at 0x7f00aa11bb22>", "<A at 0x7fffffffffff>"), ("took 1.5 ms", "took 2 s"), ("pid 12", "pid 13"),
                         ("130000000000000", "140000000000001"), ("/tmpabcd_123/x", "/tmpzzzz9999/x"), ("0:00:01.5", "1:02:03.4")):
            self.assertEqual(replay.differ("x", was, now), "", was)
        self.assertEqual(replay.differ("x", "a\nb\nc\n", "a\nd\nc\n"), "    x:\n    - b\n    + d\n")
        self.assertEqual(replay.differ("x", "a\nb", "a\nb\n"), "    x:\n    - b\n    + b\n")
        self.assertIn("    - [2 bytes more]\n", replay.differ("x", "y\n" * 21, ""))

    def test_no_module_is_needed_that_a_minimal_python_lacks(self):
        path = str(ROOT / "tests/golden/records/jobs.jsonl")
        code = (f"import runpy, sys\nfor name in {LACKING!r}: sys.modules[name] = None\n"
                f"sys.argv[:] = ['', *sys.argv[1:]]\nrunpy.run_path({ZIP!r}, run_name='__main__')")
        for words in (("action", "show"), ("action", "check"), ("action", "why"),
                      *(("action", "export", "format", form) for form in ("html", "ipynb", "md", "py"))):
            done = subprocess.run([sys.executable, "-I", "-S", "-c", code, *words, "file", path], capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout)


if __name__ == "__main__":
    unittest.main()
