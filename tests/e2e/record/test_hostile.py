"""Records by anybody: what stands in them is text in a terminal, on a page, in a notebook and in a script."""
import ast
import base64
import http.server
import io
import json
import os
import re
import threading
import tokenize
import unittest

import browser
from client import run_cli
from record_case import Record

PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
CONTROLS = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\x90q\x00\x08\x7f\r\u202e\u2066\u200b\u2028\ufeff\U000e0041"
MARKUP = ("</pre></details></section></main></style></title><script>window.ran=1</script><img src=x onerror=window.ran=1>"
          "<svg onload=window.ran=1></svg><a href='javascript:window.ran=1'>x</a><iframe srcdoc='<script>parent.ran=1</script>'>"
          "<meta http-equiv=refresh content='0;url=HOST/meta'><link rel=stylesheet href=HOST/link><base href=HOST/>"
          "<img src=HOST/image><style>@import 'HOST/style';body{background:url(HOST/css)}</style>"
          "\" onmouseover=\"window.ran=1\" style=\"background:url(HOST/attribute)\" ' autofocus onfocus='window.ran=1")
FENCES = "\n```\n<script>window.ran=1</script>\n````````\n~~~\n# %% x\nraise SystemExit\n[a](javascript:1)\n\"\"\"\n'''\n"
WORDS = ("session", "code", "value", "traceback", "status", "refusal", "name", "text", "host", "rule", "decision", "subject",
         "answer", "setting", "tool", "message", "note", "why", "version", "isolation", "python", "state", "outcome", "path",
         "files", "left", "left_out", "error_type", "error_message", "hint", "where", "saved", "tools", "not_undone", "packages")
LISTS = ("notes", "file_kinds", "file_sizes", "image_files", "variables")
KINDS = ("cell", "read", "write", "install", "network", "question", "undo", "restore", "checkpoint", "reset", "job", "change",
         "tool", "unknownkind")


class Hostile(Record):
    def setUp(self):
        super().setUp()
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                requests.append(self.path)
                self.send_error(404)

            def log_message(self, *_):
                pass

        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        self.site = f"http://127.0.0.1:{site.server_port}"
        self.evil = (CONTROLS + MARKUP + FENCES).replace("HOST", self.site)

    def hostile(self, evil=None):
        """A record with the evil text in every field of every kind of event."""
        evil = self.evil if evil is None else evil
        every = {**{word: evil for word in WORDS}, **{word: [evil, evil] for word in LISTS}}
        images = [{"mime": evil, "data": PIXEL}, {"mime": "image/svg+xml", "data": base64.b64encode(b"<svg onload=x>").decode()},
                  {"mime": "text/html", "data": evil}, {"mime": "image/png", "data": PIXEL + '"onerror="window.ran=1'}]
        arguments = {word: evil for word in ("path", "content", "old_text", "new_text", "mode", "encoding", evil.replace("\0", ""))}
        more = {**every, "arguments": arguments, "installed": [{"name": evil, "version": evil}, {"name": "ok", "version": "1.0"}],
                "content": [{"type": "text", "text": evil}, {"type": "image", "data": PIXEL}, {"text": {}, "data": []}],
                "images": images, "output": [["stdout", evil], ["stderr", evil], [evil, evil]], "output_bytes": 9,
                "is_error": True, "failed": True, "port": 80, "job": 1}
        events = [(kind, more) for kind in KINDS]
        for call, outcome in enumerate(("ok", "error", "exit", "timeout", "crashed", "refused", evil), 1):
            of = {"call": call, "session": "default", "cell": call}
            events.append(("cell", {**of, "code": evil, "arguments": arguments}))
            events.append(("result", {**more, **of, "outcome": outcome, "state": "kept"}))
        settings = [{"name": name, "value": evil, "source": evil}
                    for name in ("workspace", "mount", "allow-host", "timeout", "install", evil)]
        return self.forge(*events, start={**every, "settings": settings, "packages": evil})

    def export(self, form, path, **options):
        return self.command("export", path, "--format", form, **options)

    def assert_plain(self, text):
        found = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0
                 or c in "\u200b\u2028\u202e\u2066\ufeff\U000e0041"]
        self.assertFalse(found)

    def test_no_control_character_of_any_field_reaches_a_terminal(self):
        path = self.hostile()
        for words in (("show",), ("why",), ("check",)):
            with self.subTest(words=words):
                text = self.command(*words, path)
                self.assert_plain(text)
                self.assertTrue(words == ("check",) or "\\x1b]52" in text)
        self.records.mkdir(mode=0o700)
        path.rename(self.records / "2026-11-22T10-15-02Z-1.jsonl")
        listed = self.command("list", "--record", self.records)
        self.assert_plain(listed)
        self.assertEqual(listed.count("\n"), 1)

    def test_file_names_are_text(self):
        path = self.hostile().rename(self.place / "\x1b]0;x\x07\u202e<b>.jsonl")
        for words in (("show",), ("export", "--format", "html"), ("export", "--format", "md"), ("export", "--format", "py")):
            self.assert_plain(self.command(*words, path))
        done = run_cli("record", "show", str(self.place / "\x1b[2Jmissing\u202e"))
        self.assert_plain(done.stderr.decode())

    def test_page_has_no_markup_of_the_record(self):
        page = self.export("html", self.hostile())
        self.assert_plain(page)
        self.assertEqual(set(re.findall(r"<(/?[a-z0-9]+)", page)) - {"pre", "/pre"},
                         {"html", "head", "meta", "style", "title", "body", "header", "h1", "p", "details", "summary", "table", "tr",
                          "td", "nav", "ol", "li", "a", "main", "section", "h2", "span", "time", "em", "img",
                          *("/" + name for name in ("html", "head", "style", "title", "body", "header", "h1", "p", "details",
                                                    "summary", "table", "tr", "td", "nav", "ol", "li", "a", "main", "section", "h2",
                                                    "span", "time", "em"))})
        self.assertLess(page.index("Content-Security-Policy"), page.index("<style>"))
        self.assertEqual(re.findall(r"<img[^>]*src=\"(?!data:image/png;base64,[A-Za-z0-9+/=]*\")", page), [])

    @unittest.skipUnless(browser.PROGRAM, "chromium: not installed")
    def test_browser_requests_and_runs_nothing_and_shows_all_at_360_pixels(self):
        out = self.place / "page.html"
        out.write_text(self.export("html", self.hostile(self.evil + "w" * 5000)))
        colours = set()
        with browser.Browser() as page:
            for scheme in ("light", "dark"):
                for width in (360, 1280):
                    with self.subTest(scheme=scheme, width=width):
                        self.assertEqual(page.open(out.as_uri(), width, scheme), [out.as_uri()])
                        self.assertIsNone(page.value("window.ran"))
                        self.assertEqual(page.value("document.scripts.length + document.links.length - "
                                                    "document.querySelectorAll('nav a').length"), 0)
                        self.assertLessEqual(page.value("document.documentElement.scrollWidth"), width)
                        self.assertGreater(page.value("document.images.length"), 0)
                        self.assertTrue(page.value("[...document.images].every(image => image.naturalWidth == 1)"))
                        self.assertEqual(page.value("[...document.querySelectorAll('details')].map(d => d.open = true) && "
                                                    "document.documentElement.scrollWidth <= innerWidth"), True)
                        colours.add((scheme, page.value("getComputedStyle(document.body).backgroundColor")))
            # The policy refuses what the page would load if something of a session became markup.
            self.assertEqual(page.value(f"""new Promise(done => {{
                const image = new Image;
                image.onload = () => done('loaded');
                image.onerror = () => done('refused');
                image.src = '{self.site}/late';
                document.body.append(image);
            }})"""), "refused")
        self.assertEqual(len(colours), 2, colours)
        self.assertEqual(self.requests, [])

    def test_markdown_keeps_everything_between_fences(self):
        text = self.export("md", self.hostile())
        self.assert_plain(text)
        self.assert_outside(text, r"# A record of Sandpiper|## (cell \d+|no cell|call)(: [a-z ,;]+)?")

    def assert_outside(self, text, expected):
        """Nothing else is outside of the fences of Markdown."""
        fence, outside = None, []
        for line in text.split("\n"):
            if fence is None and re.match(r"`{3,}(python|diff)?$", line):
                fence = line.removesuffix("python").removesuffix("diff")
            elif line == fence:
                fence = None
            elif fence is None and line:
                outside.append(line)
        self.assertIsNone(fence)
        self.assertEqual([line for line in outside if not re.fullmatch(expected, line)], [])

    def test_script_runs_no_text_of_a_record(self):
        text = self.export("py", self.hostile())
        ast.parse(text)
        self.assert_plain(text)
        kinds = {tokenize.tok_name[token.type] for token in tokenize.generate_tokens(io.StringIO(text).readline)}
        self.assertEqual(kinds, {"COMMENT", "NL", "ENDMARKER"} | ({"NEWLINE"} & kinds))

    def test_code_that_is_not_seen_as_it_is(self):
        path = self.forge_cells("x = '\u202e\x1b]52;c;aGk=\x07'", "y = 'ü'")
        text = self.export("py", path)
        self.assert_plain(text)
        self.assertIn("# code: x = '\\u202e\\x1b", text)
        self.assertIn("\ny = 'ü'\n", text)
        self.assertTrue(self.export("ipynb", path).isascii())

    def test_notebook_is_valid_and_shows_only_text(self):
        book = json.loads(self.export("ipynb", self.hostile()))
        self.assertEqual(set(book["metadata"]), {"kernelspec", "language_info"})
        for cell in book["cells"]:
            self.assertLessEqual(set(cell["metadata"]), {"tags"})
            for output in cell.get("outputs", ()):
                self.assertLessEqual(set(output.get("data", ())), {"text/plain", "image/png", "image/jpeg"})
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and source.startswith("%pip"):
                self.assertEqual(source, "%pip install --quiet ok==1.0")
            if cell["cell_type"] == "markdown":
                self.assertNotIn("\x1b", source)
                self.assert_outside(source, r"# A session of Sandpiper|Its directories, remote hosts and packages:|\*\*cell \d+: [a-z ,;]+\*\*[a-z ;]*")
        try:
            import nbformat
        except ImportError:
            return
        nbformat.validate(nbformat.reads(json.dumps(book), 4))

    def test_huge_and_malformed_fields_are_refused_or_shown(self):
        deep = json.loads("[" * 70 + "]" * 70)
        for members, says in (({"code": 5}, "code has another type"), ({"cell": -1}, "cell has another type or is out of range"),
                              ({"cell": 1 << 60}, "cell has another type or is out of range"), ({"code": deep}, "nests too deep"),
                              ({"output": [["stdout"]]}, "output has another type"), ({"v": 2}, "v"), ({"kind": "Cell!"}, "kind is no word"),
                              ({"arguments": []}, "arguments has another type"), ({"time": "x"}, "time is no time")):
            with self.subTest(members=members):
                done = run_cli("record", "show", str(self.forge(("cell", {"call": 1, **members}))))
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"line 2: ", done.stderr.decode())
                self.assertIn(says, done.stderr.decode())
        path = self.forge(("cell", {"call": 1, "cell": 1, "session": "s" * (20 << 20), "code": "x" * (20 << 20), "arguments": {}}))
        for words in (("show",), ("export", "--format", "html")):
            self.command(*words, path)
        with open(path, "ab") as file:
            file.write(b"{" * ((64 << 20) + 2))
        self.assertIn("longer than 64 MiB", run_cli("record", "show", str(path)).stderr.decode())

    def test_files_elsewhere_are_not_written_by_a_notebook(self):
        paths = ("/etc/profile", "../../.bashrc", "/work/../../etc/x", "a/../../b", "/work/ok.txt", "in/ok.txt")
        path = self.forge(*(("write", {"tool": "write_file", "is_error": False, "arguments": {"path": name, "content": "x"}})
                            for name in paths))
        done = run_cli("record", "export", "--format", "ipynb", str(path))
        book = json.loads(done.stdout)
        written = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
        self.assertEqual([source.split("Path(")[1].split(")")[0] for source in written], ['"ok.txt"', '"in/ok.txt"'])
        self.assertIn("left out: 4 calls of write_file", done.stderr.decode())

    def test_file_beside_the_output_is_not_touched(self):
        path, out = self.hostile(), self.place / "page.html"
        beside = {self.place / name: name for name in ("page.html.new", "page.html.tmp")}
        for file, text in beside.items():
            file.write_text(text)
        self.command("export", path, "--format", "html", "-o", out)
        target = self.place / "target"
        target.write_text("the user's")
        link = self.place / "link"
        link.symlink_to(target)
        self.command("export", path, "--format", "html", "-o", link, status=1)
        self.command("export", path, "--format", "html", "-o", link, "--force")
        self.assertEqual(target.read_text(), "the user's")
        self.assertFalse(link.is_symlink())
        self.assertEqual({file: file.read_text() for file in beside}, beside)
        self.assertEqual(out.stat().st_mode & 0o7777, 0o600)
        self.assertEqual(sorted(file.name for file in self.place.iterdir() if file.name.startswith("page.html")),
                         ["page.html", "page.html.new", "page.html.tmp"])

    def test_only_regular_files_are_read(self):
        fifo, link = self.place / "fifo", self.place / "link"
        os.mkfifo(fifo)
        for path in (fifo, "/dev/zero"):
            self.assertIn("is not a regular file", run_cli("record", "show", str(path)).stderr.decode())
        link.symlink_to("/nowhere")
        self.assertEqual(run_cli("record", "show", str(link)).returncode, 2)


if __name__ == "__main__":
    unittest.main()
