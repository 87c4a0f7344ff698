"""write_file with old_text and new_text: a file is changed at one place."""
import os
import pathlib
import tempfile
import unittest

from client import Case, Server, Shared, give_away, need_userns

ATTRIBUTES = "import os; s = os.stat({path!r}); print(oct(s.st_mode & 0o777), s.st_ino)"


class Edit(Shared):
    def edit(self, path, old_text, new_text, **arguments):
        return self.server.call("write_file", path=path, old_text=old_text, new_text=new_text, **arguments)

    def assert_refused(self, result, *words):
        self.assertTrue(result.is_error, result.text)
        for word in words:
            self.assertIn(word, result.text)

    def bytes_of(self, path):
        return eval(self.server.python(f"print(open({path!r}, 'rb').read())").output)

    def test_the_result_names_the_lines(self):
        self.server.write("app.py", "def f():\n    return 1\n\n\ndef g():\n    return 2\n")
        result = self.edit("app.py", "    return 2\n", "    x = 2\n    return x\n", mode="overwrite", encoding="utf-8")
        self.assertFalse(result.is_error)
        self.assertEqual(result.text, "edited app.py (line 6, now 6-7; 7 lines in all, 56 B)\n")
        self.assertEqual(self.server.read("app.py").text,
                         "def f():\n    return 1\n\n\ndef g():\n    x = 2\n    return x\n")

    def test_the_mode_stays_and_the_change_is_atomic(self):
        self.server.python("open('run.sh', 'w').write('#!/bin/sh\\necho one\\n'); import os; os.chmod('run.sh', 0o751)\n"
                           "held = open('run.sh')")
        before = self.server.python(ATTRIBUTES.format(path="run.sh")).output.split()
        self.assertFalse(self.edit("run.sh", "one", "two").is_error)
        after = self.server.python(ATTRIBUTES.format(path="run.sh")).output.split()
        self.assertEqual(after[0], "0o751")
        self.assertNotEqual(before[1], after[1], "the file was changed in place")
        self.assert_prints(self.server.python("print(held.read().split()[-1], os.popen('./run.sh').read().strip())"), "one two")
        self.assert_prints(self.server.python("print([n for n in os.listdir() if n.startswith('.write')])"), "[]")

    def test_no_place_or_several_change_nothing(self):
        text = "alpha\n  beta\nalpha beta\n"
        self.server.write("words.txt", text)
        self.assert_refused(self.edit("words.txt", "beta", "gamma"), "words.txt", "2 places", "lines 2, 3")
        self.assert_refused(self.edit("words.txt", "beta\nomega", "gamma"), "not in the file",
                            'lines 2-3 are like it, but line 3 is "alpha beta"')
        self.assert_refused(self.edit("words.txt", "delta", "gamma"), "words.txt: old_text is not in the file")
        self.assertEqual(self.server.read("words.txt").text, text)

    def test_windows_line_ends_stay(self):
        self.server.write("dos.ini", "[a]\r\nx=1\r\ny=2\r\n")
        self.assertFalse(self.edit("dos.ini", "x=1\ny=2\n", "x=3\nz=4\ny=5\n").is_error)
        self.assertEqual(self.bytes_of("dos.ini"), b"[a]\r\nx=3\r\nz=4\r\ny=5\r\n")

    def test_other_bytes_stay(self):
        self.server.python("open('bom.txt', 'wb').write(b'\\xef\\xbb\\xbfone\\ntwo')")
        self.assertFalse(self.edit("bom.txt", "one\n", "ö\n").is_error)
        self.assertEqual(self.bytes_of("bom.txt"), b"\xef\xbb\xbf\xc3\xb6\ntwo")

    def test_wrong_arguments_are_refused_with_a_sentence(self):
        self.server.write("a.txt", "some text\n")
        call = self.server.call
        self.assert_refused(call("write_file", path="a.txt", old_text="some"), "/new_text", "old_text")
        self.assert_refused(call("write_file", path="a.txt", new_text="some"), "/old_text", "new_text")
        self.assert_refused(call("write_file", path="a.txt", content="x", old_text="some", new_text="any"),
                            "/content", "old_text")
        self.assert_refused(self.edit("a.txt", "", "any"), "/old_text", "empty")
        self.assert_refused(self.edit("a.txt", "some", "some"), "/new_text", "same")
        self.assert_refused(self.edit("a.txt", "some", "any", mode="append"), "/mode")
        self.assert_refused(self.edit("a.txt", "c29tZQ==", "YW55", encoding="base64"), "/encoding", "Python")
        self.assert_refused(call("write_file", path="a.txt"), "/content", "append", "old_text")
        self.assertEqual(self.server.read("a.txt").text, "some text\n")

    def test_what_is_no_text_file_is_refused(self):
        self.server.python("import os\n"
                           "open('nul.bin', 'wb').write(b'some\\0text'); open('l1.txt', 'wb').write(b'some \\xfc')\n"
                           "open('wide.txt', 'w', encoding='utf-16').write('some'); os.makedirs('some', exist_ok=True)\n"
                           "os.mkfifo('pipe'); f = open('huge.txt', 'w'); f.write('some'); f.truncate(17 << 20)")
        self.assert_refused(self.edit("nul.bin", "some", "any"), "nul.bin", "no text in UTF-8", "Python")
        for path in ("l1.txt", "wide.txt"):
            self.assert_refused(self.edit(path, "some", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16") if path == "l1.txt" else "\ufffd"),
                                path, "lacks a character", "Python")
        self.assert_refused(self.edit("huge.txt", "some", "any"), "larger than 16 MiB", "Python")
        self.assert_refused(self.edit("some", "some", "any"), "directory")
        self.assert_refused(self.edit("pipe", "some", "any"), "not a regular file")
        self.assert_refused(self.edit("missing.txt", "some", "any"), "missing.txt not found. In ", ". To create it, send content")
        self.assert_refused(self.edit("huge.tx", "some", "any"), "huge.tx not found. Did you mean huge.txt? To create it")
        self.assert_refused(self.edit("missing/a.txt", "some", "any"), "missing/a.txt not found")
        self.assert_prints(self.server.python("print(os.path.exists('missing'), os.path.exists('missing.txt'))"),
                           "False False")

    def test_the_encoding_of_the_file_stays(self):
        for encoding in ("latin-1", "utf-16", "utf-16-be", "utf-8-sig"):
            with self.subTest(encoding=encoding):
                mark = "\ufeff" if encoding == "utf-16-be" else ""
                self.server.python(f"open('e.txt', 'w', encoding={encoding!r}, newline='').write({mark!r} + 'caf\xe9 one\\r\\ntwo\\r\\n')")
                done = self.edit("e.txt", "caf\xe9 one\ntwo", "t\xeate\nthree")
                self.assertFalse(done.is_error, done.text)
                self.assertIn("lines 1-2", done.text)
                self.assert_prints(self.server.python(f"open('e.txt', encoding={encoding!r}, newline='').read()"),
                                   "Out: " + repr(mark + "t\xeate\r\nthree\r\n"))

    def test_a_symlink_is_followed_to_the_file(self):
        self.server.python("import os\nos.makedirs('sub/deep', exist_ok=True); open('sub/real.md', 'w').write('# old\\n')\n"
                           "os.symlink('../real.md', 'sub/deep/one'); os.symlink('sub/deep/one', 'two.md')\n"
                           "os.symlink('loop', 'loop'); os.symlink('gone.md', 'dangling')")
        result = self.edit("two.md", "old", "new")
        self.assertFalse(result.is_error, result.text)
        self.assertIn("edited sub/real.md", result.text)
        self.assert_prints(self.server.python("print(os.path.islink('two.md'), open('sub/real.md').read().strip())"),
                           "True # new")
        self.assert_refused(self.edit("loop", "old", "new"), "symbolic links")
        self.assert_refused(self.edit("dangling", "old", "new"), "gone.md not found")
        self.assert_refused(self.edit("/usr/bin/env", "old", "new"), "/usr/bin/env")

    def test_a_large_file_is_edited(self):
        self.server.python("open('large.txt', 'w').write('line\\n' * 3_000_000 + 'last\\n')")
        result = self.edit("large.txt", "last", "end")
        self.assertIn("line 3000001", result.text)
        self.assert_refused(self.edit("large.txt", "line", "end"), "more than 1000 places", "1, 2, 3, 4, 5, 6, 7, 8 and")


    def test_edits_that_are_sent_at_once_all_count(self):
        self.server.write("many.txt", "".join(f"<{n}>\n" for n in range(30)))
        with self.server.at_once():
            calls = [self.server.start_call("write_file", path="many.txt", old_text=f"<{n}>", new_text=f"[{n}]")
                     for n in range(30)]
            seen = self.server.start_call("run_python", code="print(open('many.txt').read().split())")
        for call in calls:
            self.assertFalse(self.server.finish_call(call).is_error)
        self.assert_prints(self.server.finish_call(seen), str([f"[{n}]" for n in range(30)]))


class HostDirectory(Case):
    def test_files_of_the_user_are_edited_and_settings_are_not(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-edit-") as directory:
            root = pathlib.Path(directory)
            (root / "notes.md").write_text("- milk\n")
            (root / "notes.md").chmod(0o640)
            (root / ".vscode").mkdir()
            (root / ".vscode/settings.json").write_text("{}\n")
            (root / "settings").symlink_to(".vscode/settings.json")
            give_away(directory)
            with Server("--workspace", directory) as server:
                done = server.call("write_file", path="notes.md", old_text="milk", new_text="tea")
                self.assertFalse(done.is_error, done.text)
                for path in (".vscode/settings.json", "settings"):
                    refused = server.call("write_file", path=path, old_text="{}", new_text="[]")
                    self.assertTrue(refused.is_error)
                    self.assertIn("--allow-write", refused.text)
            self.assertEqual((root / "notes.md").read_text(), "- tea\n")
            self.assertEqual(os.stat(root / "notes.md").st_mode & 0o777, 0o640)
            self.assertEqual((root / ".vscode/settings.json").read_text(), "{}\n")


if __name__ == "__main__":
    unittest.main()
