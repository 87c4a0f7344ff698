"""read_file on what is not a short text: huge and odd files, images, binaries, folders; and how long others
wait meanwhile."""
import base64
import os
import pathlib
import re
import struct
import tempfile
import unittest
import zlib

from client import Case, Server, Shared, need_userns

PYTHON = "/usr/bin/python3"  # where Debian puts Pillow
LONG_SIDE = 1568


def png(width, height, level=1):
    """An RGB image of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress((b"\0" + b"\x20\x60\xa0" * width) * height, level)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) \
        + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def size_of(block):
    data = base64.b64decode(block["data"])
    if data[:4] == b"\x89PNG":
        return struct.unpack(">II", data[16:24])
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    height, width = struct.unpack(">HH", data[at + 5:at + 9])
    return width, height


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

    def test_a_small_image_comes_as_it_is(self):
        data = png(40, 30)
        self.put("small.png", data)
        result = self.server.read("small.png")
        self.assertEqual(base64.b64decode(self.images(result)[0]["data"]), data)
        self.assertEqual(self.images(result)[0]["mimeType"], "image/png")
        self.assertRegex(result.text, r"^\[small.png: PNG image, 40x30, \d+ B\]\n$")

    def test_a_large_image_comes_smaller(self):
        self.need_pillow()
        for name, width, height in (("wide.png", 3000, 500), ("tall.png", 300, 6000)):
            self.put(name, png(width, height))
            result = self.server.read(name)
            shown = self.images(result)
            self.assertEqual(len(shown), 1, result.text)
            self.assertEqual(max(size_of(shown[0])), LONG_SIDE)
            self.assertIn(f"{width}x{height}", result.text)
            self.assertIn("shown as %dx%d" % size_of(shown[0]), result.text)

    def test_an_image_of_many_bytes_comes_smaller(self):
        self.need_pillow()
        self.server.python("from PIL import Image\nimport os\n"
                           "Image.frombytes('RGB', (1500, 1500), os.urandom(6750000)).save('noise.png')")
        result = self.server.read("noise.png")
        self.assertEqual(len(self.images(result)), 1, result.text)
        self.assertLess(len(self.images(result)[0]["data"]), 900_000)

    def test_an_image_of_a_type_that_hosts_do_not_show_is_converted(self):
        self.need_pillow()
        self.server.python("from PIL import Image\nfor end in 'bmp', 'tiff': Image.new('RGB', (40, 30)).save('i.' + end)")
        for end in ("bmp", "tiff"):
            result = self.server.read("i." + end)
            self.assertEqual([size_of(block) for block in self.images(result)], [(40, 30)], result.text)

    def test_a_broken_image_is_no_image_block(self):
        """Some hosts refuse a whole conversation for one of these."""
        data = png(40, 30)
        for broken in (data[:60], b"\x89PNG\r\n\x1a\n" + bytes(40), b"\xff\xd8\xff\xe0" + bytes(200)):
            self.put("broken.png", broken)
            result = self.server.read("broken.png")
            self.assertEqual(self.images(result), [], result.text)
            self.assertFalse(result.is_error)
            self.assertIn("binary", result.text)
            self.assertRegex(result.text, "no image that can be shown|no Pillow")
        self.put("mended.png", data[:-12])
        for block in self.images(self.server.read("mended.png")):
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

    def test_utf16_is_read_as_text(self):
        self.put("wide.txt", "one é\ntwo 😀\n".encode("utf-16"))
        self.assertEqual(self.server.read("wide.txt").text, "one é\ntwo 😀\n")
        self.assertIn("two 😀", self.server.read("wide.txt", start_line=-1).text)

    def test_what_is_not_utf8_is_said(self):
        self.put("latin.txt", "grüße\n".encode("latin-1"))
        self.assertIn("not UTF-8", self.server.read("latin.txt").lines[-1])

    def test_base64_goes_on_where_it_was_cut(self):
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

    def test_every_answer_fits_into_a_page(self):
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

    def test_a_folder_of_many_entries_is_read_in_parts(self):
        self.server.python("import os\nos.makedirs('parts', exist_ok=True)\n"
                           "for i in range(3000): open(f'parts/{i:04}', 'w').close()")
        seen, start = [], 1
        while start:
            lines = self.server.read("parts", start_line=start).lines
            seen += [line.split(" ")[0] for line in lines if not line.startswith("[")]
            found = re.search(r"start_line=(\d+)", lines[-1])
            start = int(found[1]) if found else None
        self.assertEqual(seen, [f"{i:04}" for i in range(3000)])

    def test_a_folder_with_very_many_entries_is_bounded(self):
        self.server.python("import os\nos.makedirs('crowd', exist_ok=True)\n"
                           "for i in range(20100): os.link('crowd/0', f'crowd/{i}') if i else open('crowd/0', 'w').close()")
        result = self.server.read("crowd")
        self.assertEqual(result.lines[0], "[directory crowd, 20000 or more entries]")
        self.assertLess(len(result.text), 16_700)
        self.assertIn("In crowd: ", self.server.read("crowd/missing").text)

    def test_a_missing_path_names_what_is_near(self):
        self.server.write("reports/2024/sales.csv", "a\n")
        for path, near in (("reports/2024/sale.csv", "reports/2024/sales.csv"), ("reports/2042/sales.csv", "reports/2024"),
                           ("report/2024/sales.csv", "reports"), ("reports/2024/zzzzzz", "sales.csv")):
            result = self.server.read(path)
            self.assertTrue(result.is_error)
            self.assertIn("not found", result.text)
            self.assertIn(near, result.text)


class Huge(Case):
    """Files that no answer could hold, on a folder of the host: there --disk is no bound."""

    @classmethod
    def setUpClass(cls):
        need_userns()
        cls.folder = tempfile.TemporaryDirectory(prefix="sp-huge-")
        root = pathlib.Path(cls.folder.name)
        with open(root / "sparse.log", "wb") as file:
            file.write(b"first\nsecond\n")
            file.truncate(1 << 40)
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast but one\nlast\n")
        with open(root / "numbers.txt", "w", encoding="ascii") as file:
            for thousand in range(9000):
                file.write("".join(f"line {n}\n" for n in range(thousand * 1000 + 1, thousand * 1000 + 1001)))
        cls.server = Server("--workspace", cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        with cls.folder, cls.server:
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

    def test_what_lies_too_far_inside_is_refused(self):
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
        (pathlib.Path(self.folder.name) / name).write_text("line\n" * 1000)
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
