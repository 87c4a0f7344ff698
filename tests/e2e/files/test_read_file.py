"""read_file on anything but a short text: huge and odd files, images, binaries, directories; and the delay of other
calls."""
import base64
import contextlib
import glob
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unicodedata
import unittest

from client import Case, Server, Shared, need_userns
from libraries import PYTHON
from pictures import png, size_of

LONG_SIDE = 1568


@contextlib.contextmanager
def bare_python(case):
    """An interpreter without any library."""
    with tempfile.TemporaryDirectory(prefix="sp-bare-") as directory:
        if subprocess.run([PYTHON, "-m", "venv", "--without-pip", directory], capture_output=True).returncode:
            case.skipTest("venv: the module is not installed")
        os.chmod(directory, 0o755)
        yield f"{directory}/bin/python"


class Kinds(Shared):
    args = ("--python", PYTHON) if os.path.exists(PYTHON) else ()

    def put(self, path, data):
        result = self.server.write(path, base64.b64encode(data).decode(), encoding="base64")
        self.assertFalse(result.is_error, result.text)

    def images(self, result):
        return [block for block in result.content if block["type"] == "image"]

    def need_pillow(self):
        if "True" not in self.server.python("import importlib.util as u; print(bool(u.find_spec('PIL')))").output:
            self.skipTest("pillow: not installed for this interpreter")

    def test_a_small_image_is_returned_unchanged(self):
        data = png(40, 30)
        self.put("small.png", data)
        result = self.server.read("small.png")
        self.assertEqual(base64.b64decode(self.images(result)[0]["data"]), data)
        self.assertEqual(self.images(result)[0]["mimeType"], "image/png")
        self.assertRegex(result.text, r"^\[small.png: PNG image, 40x30, \d+ B\]\n$")

    def test_a_large_image_is_scaled_down(self):
        self.need_pillow()
        for name, width, height in (("wide.png", 3000, 500), ("tall.png", 300, 6000)):
            self.put(name, png(width, height))
            result = self.server.read(name)
            shown = self.images(result)
            self.assertEqual(len(shown), 1, result.text)
            self.assertEqual(max(size_of(shown[0])), LONG_SIDE)
            self.assertIn(f"{width}x{height}", result.text)
            self.assertIn("shown as %dx%d" % size_of(shown[0]), result.text)

    def test_an_image_of_many_bytes_is_scaled_down(self):
        self.need_pillow()
        self.server.python("from PIL import Image\nimport os\n"
                           "Image.frombytes('RGB', (1500, 1500), os.urandom(6750000)).save('noise.png')")
        result = self.server.read("noise.png")
        self.assertEqual(len(self.images(result)), 1, result.text)
        self.assertLess(len(self.images(result)[0]["data"]), 900_000)

    def test_an_image_type_that_clients_cannot_show_is_converted(self):
        self.need_pillow()
        self.server.python("from PIL import Image\nfor end in 'bmp', 'tiff': Image.new('RGB', (40, 30)).save('i.' + end)")
        for end in ("bmp", "tiff"):
            result = self.server.read("i." + end)
            self.assertEqual([size_of(block) for block in self.images(result)], [(40, 30)], result.text)

    def test_without_pillow_a_large_image_is_only_described(self):
        """Some hosts lose the conversation over an image of thousands of pixels."""
        with bare_python(self) as python:
            for install, ends in (("off", " to convert it"), ("on", ", install_package can add it")):
                with Server("--python", python, "--install", install) as server:
                    server.must_be_contained()
                    for side in (1569, 2500):
                        server.write("big.png", base64.b64encode(png(20, side)).decode(), encoding="base64")
                        result = server.read("big.png")
                        self.assertEqual(self.images(result), [])
                        self.assertRegex(result.text, rf"^\[big.png: PNG image, 20x{side}, .*no Pillow.*{ends}\]\n$")
                    server.write("fits.png", base64.b64encode(png(20, 1568)).decode(), encoding="base64")
                    self.assertEqual(len(self.images(server.read("fits.png"))), 1)

    def test_a_broken_image_is_no_image_block(self):
        """Some clients refuse a whole conversation because of one."""
        data = png(40, 30)
        stored = png(400, 300, level=0)
        for broken in (data[:60], stored[:900] + stored[1100:], b"\x89PNG\r\n\x1a\n" + bytes(40), b"\xff\xd8\xff\xe0" + bytes(200)):
            self.put("broken.png", broken)
            result = self.server.read("broken.png")
            self.assertEqual(self.images(result), [], result.text)
            self.assertFalse(result.is_error)
            self.assertRegex(result.text, r"^\[broken.png: .*; not shown: .*(not a displayable image|incomplete or damaged).*\]\n$")
        self.put("fixed.png", data[:-12])
        for block in self.images(self.server.read("fixed.png")):
            self.assertIn(b"IEND", base64.b64decode(block["data"]))

    def test_reading_an_image_leaves_the_session_as_it_is(self):
        self.need_pillow()
        self.server.python("kept = 41")
        self.put("wide.png", png(3000, 100))
        self.server.read("wide.png")
        result = self.server.python(self.server.here("import os, sys; kept, 'PIL' in sys.modules, os.listdir('/tmp')"))
        self.assertNotIn("restored", result.text)
        self.assertIn("41", result.output)

    def test_other_binaries_are_one_line_that_says_what_they_are(self):
        self.server.python("import gzip, pickle, sqlite3, zipfile\n"
                           "open('a.gz', 'wb').write(gzip.compress(b'abc'))\n"
                           "pickle.dump([1], open('a.pkl', 'wb'))\n"
                           "c = sqlite3.connect('a.db'); c.execute('create table t(x)'); c.commit()\n"
                           "zipfile.ZipFile('a.zip', 'w').writestr('x', 'y')\n"
                           "open('odd.bin', 'wb').write(bytes(1000))")
        for name, kind in (("a.gz", "gzip"), ("a.pkl", "pickle"), ("a.db", "SQLite database"),
                           ("a.zip", "ZIP archive"), ("odd.bin", "binary")):
            result = self.server.read(name)
            self.assertRegex(result.text, rf"^\[{name} is a binary file.*{kind if kind != 'binary' else ''}.*\]\n$")
            self.assertEqual(result.text.count("\n"), 1)

    def need(self, module):
        if "True" not in self.server.python(f"import importlib.util as u; print(bool(u.find_spec({module!r})))").output:
            self.skipTest(f"{module}: not installed for this interpreter")

    def test_other_documents_name_the_library_that_reads_them(self):
        self.put("B.XLS", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30))
        self.assertIn("old Microsoft Office document, 38 B; read it with Python and xlrd, or its bytes",
                      self.server.read("B.XLS").text)

    def test_documents_name_the_library_that_is_not_there(self):
        with bare_python(self) as python, Server("--python", python, "--install", "off") as server:
            server.must_be_contained()
            for name, data, library in (("a.pdf", b"%PDF-1.7\n\x00\xff", "pypdf"), ("a.docx", b"PK\3\4" + bytes(30), "python-docx"),
                                        ("B.XLSX", b"PK\3\4" + bytes(30), "openpyxl")):
                server.write(name, base64.b64encode(data).decode(), encoding="base64")
                self.assertRegex(server.read(name).text, rf"^\[{name} is a binary file: .*; not shown as text: this Python has "
                                 rf"no {library} to read it as text; encoding=\"base64\" returns its bytes\]\n$")

    def test_a_pdf_is_read_as_its_pages(self):
        """The library stands for any: text, none, too much, and an error where a document is damaged."""
        library = ("class Page:\n    def __init__(self, text): self.text = text\n"
                   "    def extract_text(self): return self.text if isinstance(self.text, str) else self.text()\n"
                   "class PdfReader:\n    def __init__(self, path):\n"
                   "        self.pages = [Page(text) for text in eval(open(path, 'rb').read()[6:])]\n")
        with bare_python(self) as python, Server("--python", python) as server:
            pathlib.Path(glob.glob(str(pathlib.Path(python).parent.parent / "lib/python*/site-packages"))[0],
                         "pypdf.py").write_text(library)
            server.must_be_contained()
            head = '[text of a.pdf; encoding="base64" returns its bytes]\n'

            def read(pages, **arguments):
                server.write("a.pdf", "%PDF-\n" + pages)
                result = server.read("a.pdf", **arguments)
                self.assertFalse(result.is_error, result.text)
                return result.text

            self.assertEqual(read(r"['one \xe9\n\n', ' ', 'two\ud800']"), head + "--- page 1 of 3 ---\none é\n"
                             "--- page 2 of 3 ---\n[no text; perhaps an image]\n--- page 3 of 3 ---\ntwo?\n")
            self.assertEqual(read("[]"), head)
            self.assertTrue(read("['one', 'two']", start_line=4, end_line=5).startswith("--- page 2 of 2 ---\ntwo\n"))
            self.assertTrue(read("['one', lambda: 1/0]").endswith("--- page 1 of 2 ---\none\n--- page 2 of 2 ---\n\n"
                                 "[the rest is not shown: division by zero]\n"))
            self.assertIn('not shown as text: "it cannot be read: division by zero"; enc', read("1/0"))
            self.assertIn("[the rest is not shown: it is too long", read("['x' * 99 + '\\n'] * (1 << 17)", start_line=-1))
            self.assertIn("[the rest is not shown: it is too long", read("[('x' * 99 + '\\n') * (1 << 17)]", start_line=-2))
            self.assertIn("not shown as text: it could not be read as text", read("__import__('os').abort()"))

    def test_a_docx_is_read_as_its_paragraphs_and_tables(self):
        self.need("docx")
        self.server.python("import docx\nd = docx.Document()\nd.add_heading('Title')\nd.add_paragraph('Some é')\n"
                           "t = d.add_table(2, 2)\nt.cell(0, 0).text = 'x'\nt.cell(1, 1).text = 'y'\nd.add_paragraph('end')\n"
                           "d.save('a.docx')")
        self.assertEqual(self.server.read("a.docx").text, '[text of a.docx; encoding="base64" returns its bytes]\n'
                         "Title\nSome é\nx\t\n\ty\nend\n")

    def test_an_xlsx_is_read_as_its_rows(self):
        self.need("openpyxl")
        self.server.python("import openpyxl\nb = openpyxl.Workbook()\ns = b.active\ns.title = 'Sales'\n"
                           "s.append(['name', 'n'])\ns.append(['a\\tb', 3.5])\ns['A5'] = '=1+2'\nb.create_sheet('none')\n"
                           "import datetime; s['A9'] = datetime.datetime(2024, 5, 1); s['B9'] = datetime.datetime(2024, 5, 1, 12, 30)\n"
                           "s['C9'] = datetime.time(8, 5); b.create_sheet('old').sheet_state = 'hidden'\n"
                           "b.save('A.XLSX')")
        self.assertEqual(self.server.read("A.XLSX").text, '[text of A.XLSX; encoding="base64" returns its bytes]\n'
                         '--- sheet Sales ---\nname\tn\n"a\tb"\t3.5\n\n\n=1+2 [no value]\n'
                         "[3 empty rows]\n2024-05-01\t2024-05-01 12:30:00\t08:05:00\n--- sheet none ---\n--- sheet old (hidden) ---\n")

    def test_a_notebook_is_read_as_its_cells(self):
        book = {"nbformat": 4, "cells": [
            {"cell_type": "markdown", "source": ["# Sums\n", "of two"]},
            {"cell_type": "code", "source": "print(1)\n1 + 1", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["2"], "text/html": "<b>2</b>"}},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0K" * 4000, "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "KeyError", "evalue": "'k'", "traceback": ["\x1b[31m"]}]},
            {"cell_type": "code", "source": [], "outputs": []}]}
        self.put("sums.ipynb", json.dumps(book).encode())
        text = ("[notebook of 3 cells as text; encoding=\"text\" shows its JSON]\n\n--- cell 1, markdown ---\n# Sums\nof two\n\n"
                "--- cell 2, code ---\nprint(1)\n1 + 1\n--- output of cell 2 ---\n1\n2\n<Figure>\n[image/png]\nKeyError: 'k'\n\n"
                "--- cell 3, code ---\n")
        self.assertEqual(self.server.read("sums.ipynb").text, text)
        self.assertEqual(self.server.read("sums.ipynb", start_line=4, end_line=5).lines[:2], ["# Sums", "of two"])
        self.assertTrue(self.server.read("sums.ipynb", encoding="text").text.startswith('{"nbformat": 4'))
        for other in (b"[]", b"{}", b"# no JSON", b'{"cells": [1, {"source": 1, "outputs": [2, {"data": 3}]}]}', b'{"cells": 1}'):
            self.put("odd.ipynb", other)
            self.assertFalse(self.server.read("odd.ipynb").is_error)
        self.assertEqual(self.server.read("odd.ipynb").text, '{"cells": 1}')

    def test_base64_in_a_report_is_left_out(self):
        self.put("report.html", b"<h1>Sales</h1>\n<img src='data:image/png;base64," + b"A" * 30000 + b"'>\n<p>end</p>\n")
        self.assertEqual(self.server.read("report.html").text, "<h1>Sales</h1>\n<img src='data:image/png;base64,[30 kB left out; "
                         "encoding=\"text\" shows them]'>\n<p>end</p>\n")
        self.assertIn("AAAA", self.server.read("report.html", encoding="text").text)

    def test_utf16_is_read_as_text(self):
        self.put("wide.txt", "one é\ntwo 😀\n".encode("utf-16"))
        self.assertEqual(self.server.read("wide.txt").text,
                         'one é\ntwo 😀\n[lines 1-2 of 2, 16 B; UTF-16: open() needs encoding="utf-16"]\n')
        self.assertIn("two 😀", self.server.read("wide.txt", start_line=-1).text)

    def test_an_encoding_other_than_utf8_is_reported(self):
        self.put("latin.txt", "größer €\nGruß\n".encode("cp1252"))
        self.assertEqual(self.server.read("latin.txt").text, "größer €\nGruß\n"
                         '[lines 1-2 of 2, 14 B; not UTF-8, perhaps Latin-1: open() needs encoding="cp1252"]\n')
        self.put("russian.txt", "привет и пока\n".encode("cp1251"))
        self.assertIn("not UTF-8: bytes that do not fit", self.server.read("russian.txt").lines[-1])
        self.put("mark.txt", "a\nb\n".encode("utf-8-sig"))
        self.assertIn('byte order mark: open() needs encoding="utf-8-sig"', self.server.read("mark.txt").lines[-1])
        self.assertNotIn("open()", self.server.read("mark.txt", start_line=2).text)

    def test_bytes_are_named_as_lines_are(self):
        self.put("ten.txt", b"123\n567\n9\n")
        read = self.server.read
        self.assertEqual(read("ten.txt", start_line=2, end_line=2).lines[-1], "[lines 2-2 of 3, 10 B; continue with start_line=3]")
        self.assertEqual(read("ten.txt", offset=4, length=4).lines[-1], "[bytes 4-7 of 10; continue with offset=8]")
        self.assertEqual(read("ten.txt", offset=4, length=4, encoding="base64").lines[-1],
                         "[bytes 4-7 of 10; continue with offset=8, length up to 480000]")
        for offset in (10, 2**63 - 1):
            for encoding in ("auto", "text", "base64"):
                result = read("ten.txt", offset=offset, encoding=encoding)
                self.assertTrue(result.is_error)
                self.assertEqual(result.text, f"ten.txt has 10 bytes; there is no byte at offset {offset}.")

    def test_lines_and_bytes_at_once_are_refused(self):
        self.put("ten.txt", b"123\n567\n9\n")
        read = self.server.read
        for arguments in ({"start_line": 2, "offset": 4}, {"end_line": 2, "length": 4}, {"start_line": -1, "encoding": "base64"}):
            result = read("ten.txt", **arguments)
            self.assertTrue(result.is_error, arguments)
            self.assertIn("length", result.text)
        self.assertEqual(read("ten.txt", start_line=3, offset=0).lines[0], "9")
        self.assertEqual(read("ten.txt", start_line=1, offset=8).lines[0], "9")
        self.assertIn("is a directory", read(".", offset=1).text)
        self.put("small.png", png(4, 3))
        self.assertIn("binary file: PNG image", read("small.png", offset=1).text)

    def test_base64_continues_where_it_was_cut(self):
        data = bytes(range(256)) * 200
        self.put("long.bin", data)
        got, offset = b"", 0
        while offset is not None:
            text, _, place = self.server.read("long.bin", encoding="base64", offset=offset).text.partition("\n")
            self.assertLess(len(text), 20_000)
            got += base64.b64decode(text)
            found = re.search(r"continue with offset=(\d+)", place)
            offset = int(found[1]) if found else None
        self.assertEqual(got, data)
        whole = self.server.read("long.bin", encoding="base64", length=len(data)).text
        self.assertEqual(base64.b64decode(whole), data)

    def test_every_result_fits_into_a_page(self):
        self.server.python("import os\nopen('one-line', 'w').write('é' * 500000)\n"
                           "open('lines', 'w').write('abc\\n' * 500000)\n"
                           "os.makedirs('many', exist_ok=True)\n"
                           "for i in range(3000): open(f'many/{i:04}' + 'x' * 100, 'w').close()")
        for arguments in ({"path": "one-line"}, {"path": "lines"}, {"path": "many"},
                          {"path": "one-line", "length": 10**6}, {"path": "lines", "start_line": -10**6}):
            result = self.server.read(**arguments)
            self.assertFalse(result.is_error, result.text)
            self.assertTrue(4000 < len(result.text) < 16_700, (arguments, len(result.text)))
            self.assertIn("continue with", result.lines[-1])
            self.assertNotIn("\ufffd", result.text)

    def test_a_directory_of_many_entries_is_read_in_parts(self):
        self.server.python("import os\nos.makedirs('parts', exist_ok=True)\n"
                           "for i in range(3000): open(f'parts/{i:04}', 'w').close()")
        seen, start = [], 1
        while start:
            lines = self.server.read("parts", start_line=start).lines
            seen += [line.split(" ")[0] for line in lines if not line.startswith("[")]
            found = re.search(r"start_line=(\d+)", lines[-1])
            start = int(found[1]) if found else None
        self.assertEqual(seen, [f"{i:04}" for i in range(3000)])

    def test_a_directory_with_very_many_entries_is_bounded(self):
        self.server.python("import os\nos.makedirs('crowd', exist_ok=True)\n"
                           "for i in range(20100): os.link('crowd/0', f'crowd/{i}') if i else open('crowd/0', 'w').close()")
        result = self.server.read("crowd")
        self.assertEqual(result.lines[0], "[directory crowd, 20000 or more entries]")
        self.assertLess(len(result.text), 16_700)
        self.assertIn("In crowd: ", self.server.read("crowd/missing").text)

    def test_a_missing_path_is_reported_with_similar_names(self):
        self.server.write("reports/2024/sales.csv", "a\n")
        for path, near in (("reports/2024/sale.csv", "reports/2024/sales.csv"), ("reports/2042/sales.csv", "reports/2024"),
                           ("report/2024/sales.csv", "reports"), ("reports/2024/zzzzzz", "sales.csv")):
            result = self.server.read(path)
            self.assertTrue(result.is_error)
            self.assertIn("not found", result.text)
            self.assertIn(near, result.text)
        long = "quarterly_report_of_the_northern_region.csv"
        self.server.write(long, "a\n")
        self.assertIn(f"Did you mean {long}?", self.server.read(long.replace("northern", "nothern")).text)
        for path in ("/mnt/data/sales.csv", "/zzzzzz", "~/sales.csv"):
            self.assertIn(self.server.here("Files are in /work."), self.server.read(path).text)

    def test_names_are_found_however_their_characters_are_composed(self):
        for name in ("r\u00e9sum\u00e9.txt", "\u1ec7/\ud55c\uae00/\u304c.txt", "\u00c5ngstr\u00f6m/plain.txt"):
            for made, sent in (("NFD", "NFC"), ("NFC", "NFD")):
                with self.subTest(name=name, made=made):
                    path, sent = f"{made}/" + unicodedata.normalize(made, name), f"{made}/" + unicodedata.normalize(sent, name)
                    self.server.write(path, "found\n")
                    self.assertEqual(self.server.read(sent).text, "found\n")
                    if "/" not in name:
                        edit = self.server.call("write_file", path=sent, old_text="found", new_text="edited")
                        self.assertFalse(edit.is_error, edit.text)
                        self.assertEqual(self.server.read(path).text, "edited\n")
        self.server.write("one/e\u0301.txt", "a")
        self.assertTrue(self.server.read("one/\u00e8.txt").is_error)


class Huge(Case):
    """Files larger than any result, in a directory of the host, where --disk does not limit them."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.directory = tempfile.TemporaryDirectory(prefix="sp-huge-")
        root = pathlib.Path(cls.directory.name)
        with open(root / "sparse.log", "wb") as file:
            file.write(b"first\nsecond\n")
            file.truncate(1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast but one\nlast\n")
        with open(root / "numbers.txt", "w", encoding="ascii") as file:
            for thousand in range(9000):
                file.write("".join(f"line {n}\n" for n in range(thousand * 1000 + 1, thousand * 1000 + 1001)))
        cls.server = Server("--workspace", cls.directory.name)

    @classmethod
    def tearDownClass(cls):
        with cls.directory, cls.server:
            pass

    def resident(self):
        text = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text)[1])

    def test_the_ends_of_a_terabyte_are_read_at_once(self):
        read = self.server.read
        self.assertIn("[lines -1 to -1, 1.1 TB]", read("sparse.log", encoding="text", start_line=-1).text)
        self.assertEqual(read("sparse.log", encoding="text", end_line=2).lines[:2], ["first", "second"])
        tail = read("sparse.log", encoding="text", start_line=-2).lines
        self.assertEqual(tail[:2], ["last but one", "last"])
        self.assertIn("last\n", read("sparse.log", encoding="text", offset=(1 << 40) + 1).text)

    def test_offsets_too_far_inside_a_file_are_refused(self):
        result = self.server.read("sparse.log", encoding="text", start_line=-3)
        self.assertTrue(result.is_error)
        self.assertIn("offset", result.text)

    def test_any_line_of_a_large_file_is_found_and_memory_does_not_grow(self):
        before = self.resident()
        read = self.server.read
        self.assertTrue(read("numbers.txt", start_line=8_765_432, end_line=8_765_433).text
                        .startswith("line 8765432\nline 8765433\n[lines 8765432-8765433, "))
        self.assertTrue(read("numbers.txt", start_line=-3, end_line=-2).text
                        .startswith("line 8999998\nline 8999999\n[lines -3 to -2, "))
        self.assertTrue(read("numbers.txt").text.startswith("line 1\n"))
        self.assertTrue(read("numbers.txt", start_line=9_000_001).is_error)
        self.assertLess(self.resident() - before, 8000)

    def test_a_file_that_shrinks_and_grows_while_it_is_read(self):
        name = "restless.txt"
        (pathlib.Path(self.directory.name) / name).write_text("line\n" * 1000)
        slow = self.server.start_call("run_python", timeout_s=60, code=(
            f"import os\nf = open({name!r}, 'r+')\nwhile not os.path.exists('stop'):\n"
            "    f.truncate(2000000); f.seek(0); f.write('line\\n' * 400000); f.flush(); f.truncate(10)"))
        for start in (1, -1, 1000, -5000, 200_000) * 8:
            result = self.server.read(name, encoding="text", start_line=start)
            self.assertLess(len(result.text), 17_000)
            self.assertTrue(result.is_error or "line" in result.text or "\0" in result.text, result.text[:200])
        self.server.write("stop", "")
        self.assert_ok(self.server.finish_call(slow))


if __name__ == "__main__":
    unittest.main()
