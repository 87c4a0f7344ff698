"""write_file and read_file: arguments, results and refusals."""
import base64
import hashlib
import os
import pathlib
import tempfile
import unicodedata
import unittest

from client import Case, Server, Shared, give_away, need_userns
from container_level import CONTAINER


class Files(Shared):
    def assert_written(self, result, verb, path):
        self.assertFalse(result.is_error, result.text)
        self.assertRegex(result.text, rf"^(?:{verb}) {path} \(")

    def assert_refused(self, result, *words):
        self.assertTrue(result.is_error, result.text)
        for word in words:
            self.assertIn(word, result.text)

    def content(self, path):
        result = self.server.read(path)
        self.assertFalse(result.is_error, result.text)
        return result.text

    def test_what_was_written_is_read_and_seen_by_code(self):
        text = "first\nsecond é\n"
        result = self.server.write("a.txt", text)
        self.assert_written(result, "created", "a.txt")
        self.assertIn("2 lines", result.text)
        self.assertEqual(self.content("a.txt"), text)
        self.assert_prints(self.server.python("print(open('a.txt', encoding='utf-8').read() == "
                                              f"{text!r})"), "True")

    def test_what_code_wrote_is_read(self):
        self.server.python("open('by-code.txt', 'w').write('x\\ny\\n')")
        self.assertEqual(self.content("by-code.txt"), "x\ny\n")

    def test_overwrite_replaces_append_extends_create_refuses(self):
        self.server.write("m.txt", "one\n")
        self.assert_written(self.server.write("m.txt", "two\n"), "overwrote|replaced|updated", "m.txt")
        self.assertEqual(self.content("m.txt"), "two\n")
        self.server.write("m.txt", "three\n", mode="append")
        self.assertEqual(self.content("m.txt"), "two\nthree\n")
        self.assert_refused(self.server.write("m.txt", "no", mode="create"), "m.txt", "already")
        self.assertEqual(self.content("m.txt"), "two\nthree\n")

    def test_append_creates_a_missing_file(self):
        self.server.write("new-append.txt", "x", mode="append")
        self.assertEqual(self.content("new-append.txt").rstrip("\n"), "x")

    def test_a_name_is_found_however_its_characters_are_composed(self):
        form = "another Unicode form (NFC, NFD)"
        for number, (made, sent) in enumerate((("NFD", "NFC"), ("NFC", "NFD"))):
            top, there, twin = (unicodedata.normalize(kind, f"{number}donn\xe9es/\ud55c\uae00") for kind in (made, made, sent))
            there, twin = there + unicodedata.normalize(made, "/.caf\xe9"), twin + unicodedata.normalize(sent, "/.caf\xe9")
            with self.subTest(made=made):
                self.assertNotIn("form", self.server.write(there, "one\n").text)
                self.assert_refused(self.server.write(twin, "no", mode="create"), "already exists", form)
                for arguments, verb, after in (({"content": "two\n", "mode": "append"}, "appended to", "one\ntwo\n"),
                                               ({"content": "dGhyZWU=", "mode": "append", "encoding": "base64"},
                                                "appended to", "one\ntwo\nthree"),
                                               ({"content": "one\n"}, "overwrote", "one\n"),
                                               ({"content": "b25l", "encoding": "base64"}, "overwrote", "one"),
                                               ({"old_text": "one", "new_text": "new"}, "edited", "new")):
                    done = self.server.call("write_file", path=twin, **arguments)
                    self.assertRegex(done.text, rf"^{verb} .*another Unicode form", arguments)
                    self.assertEqual(self.content(there), after)
                for mode in ("create", "append", "overwrite"):
                    new = unicodedata.normalize(sent, f"{number}donn\xe9es/\ud55c\uae00/new/{mode}\xe9")
                    self.assertIn(form, self.server.write(new, "x", mode=mode).text)
                self.assert_prints(self.server.python(
                    "import os\nprint(ascii([n for n in os.listdir() if n.startswith(%r)]),"
                    " sorted(len(f) for d, _, f in os.walk(%r)))" % (f"{number}donn", top)),
                    f"{ascii([top.split('/')[0]])} [1, 3]")

    def test_append_keeps_the_encoding(self):
        for name, old, more, encoding in (("u16.txt", "first\n", "m\xe9\n", "utf-16"), ("l1.txt", "caf\xe9\n", "\xe9\n", "latin-1"),
                                          ("l1.txt", "caf\xe9\n", "\u20ac\n", "cp1252"), ("u8.txt", "caf\xe9\n" * 20000, "\xe9\n", "utf-8")):
            with self.subTest(name=name, more=more):
                count, old = len(old) // 5, old[:6]
                self.assert_ok(self.server.python(f"open({name!r}, 'w', encoding={encoding!r}).write({old!r} * {count})"))
                result = self.server.write(name, more, mode="append")
                self.assertFalse(result.is_error, result.text)
                self.assert_prints(self.server.python(f"open({name!r}, encoding={encoding!r}).read() == {old!r} * {count} + {more!r}"), "Out: True")

    def test_append_spoils_no_other_encoding(self):
        for old, more in (("caf\xe9\n".encode("latin-1"), "\u0436\n"), ("\u4f60\u597d\n".encode("gbk"), "\u4f60\n")):
            self.assert_ok(self.server.python(f"open('other.txt', 'wb').write({old!r})"))
            self.assert_refused(self.server.write("other.txt", more, mode="append"), "is not UTF-8", "Python")
            self.assert_written(self.server.write("other.txt", "more\n", mode="append"), "appended to", "other.txt")
            self.assert_prints(self.server.python("open('other.txt', 'rb').read()"), f"Out: {old + b'more' + bytes([10])!r}")

    def test_an_overwrite_says_what_it_does_not_keep(self):
        rows = (("a".encode("utf-16"), "b", "; in UTF-8 now, no longer in UTF-16)"), ("a".encode("utf-8-sig"), "b", "; without the byte order mark that it had)"),
                ("a".encode("utf-8-sig"), "\ufeffb", " B)"), ("caf\xe9".encode("latin-1"), "\xe9", "; in UTF-8 now, which it was not before)"),
                ("caf\xe9".encode("latin-1"), "e", " B)"), ("\u4f60\u597d".encode("gbk"), "\u4f60", "; in UTF-8 now, which it was not before)"),
                (b"\x89PNG\r\n\x1a\n\0\xff", "\xe9", " B)"), ("\xe9".encode(), "\xe9", " B)"))
        for old, new, said in rows:
            with self.subTest(old=old, new=new):
                self.assert_ok(self.server.python(f"open('was.txt', 'wb').write({old!r})"))
                self.assertTrue(self.server.write("was.txt", new).text.endswith(said + "\n"), said)

    def test_a_path_that_ends_as_one_of_a_directory_is_refused(self):
        self.assert_refused(self.server.write("newdir/", "x"), 'newdir/ ends with "/", as a directory does')
        self.assertTrue(self.server.read("newdir").is_error)

    def test_a_code_fence_that_holds_all_of_the_content_is_taken_off(self):
        note = "without the code fence around it"
        for path, content, text in (("m.py", "```python\nx = 1\n```\n", "x = 1\n"), ("n.txt", "```\n```", ""), ("n.c", "```c++\n\n  a\n```", "\n  a\n"),
                                    ("m.md", "```\nx\n```\n", None), ("two", "```\na\n```\nb\n```\nc\n```", None), ("in", "```", None),
                                    ("open.py", "```python\nx = 1\n", None), ("tail.py", "```\nx\n```\ny\n", None), ("inline", "```a``` b\n```", None)):
            with self.subTest(path=path):
                self.assertEqual(note in self.server.write(path, content).text, text is not None)
                self.assert_prints(self.server.python(f"print(open({path!r}).read() == {content if text is None else text!r})"), "True")

    def test_paths_of_windows_are_refused(self):
        for path, words in ((r"C:\Users\me\a.txt", "path of Windows"), ("C:/Users/me/a.txt", "path of Windows"), (r"sub\b.txt", "has backslashes")):
            self.assert_refused(self.server.write(path, "x"), words, "/")
        self.server.write("sub/c.txt", "x")
        self.assert_refused(self.server.read(r"sub\c.txt"), "not found. Did you mean sub/c.txt?")
        self.assert_refused(self.server.read(r"C:\c.txt"), "path of Windows")
        self.assert_prints(self.server.python("import os; print([name for name in os.listdir() if ':' in name or chr(92) in name])"), "[]")

    def test_another_file_whose_name_differs_in_capitals_is_named(self):
        self.assertNotIn("another", self.server.write("cases/README.md", "x").text)
        self.assertIn("created cases/readme.md (1 line, 1 B); another file is README.md", self.server.write("cases/readme.md", "x").text)
        self.assertNotIn("another", self.server.write("cases/readme.md", "y").text)

    def test_a_write_that_fails_leaves_no_directory(self):
        with Server("--disk", "8M") as server:
            server.write("kept/a.txt", "x")
            for path in ("fresh/deep/big.txt", "kept/deep/big.txt"):
                self.assert_refused(server.write(path, "x" * (9 << 20)), "would exceed the size limit")
            self.assert_prints(server.python("import os; print(os.path.exists('fresh'), os.listdir('kept'))"), "False ['a.txt']")

    def test_empty_content_is_allowed(self):
        self.assertFalse(self.server.write("empty.txt", "").is_error)
        self.assert_prints(self.server.python("import os; print(os.path.getsize('empty.txt'))"), "0")
        self.assertFalse(self.server.read("empty.txt").is_error)

    def test_missing_content_is_not_empty_content(self):
        result = self.server.call("write_file", path="never.txt")
        self.assert_refused(result, "content", "append")
        self.assert_refused(self.server.read("never.txt"), "not found")

    def test_base64_both_ways(self):
        data = bytes(range(256)) * 4
        text = base64.b64encode(data).decode()
        self.assertEqual(self.server.write("bytes.bin", text, encoding="base64").text, "created bytes.bin (1.0 kB)\n")
        self.assert_prints(self.server.python("print(open('bytes.bin','rb').read() == "
                                              "bytes(range(256)) * 4)"), "True")
        read = self.server.read("bytes.bin", encoding="base64").text
        self.assertIn(text[:200], read.replace("\n", ""))

    def test_many_megabytes_arrive_unchanged(self):
        text = 'a "line" \\ with \t, \x00, é, \u2028 and \U0001f600\n' * 200_000
        data = text.encode()
        self.assertIn("200000 lines", self.server.write("long.txt", text).text)
        self.assertFalse(self.server.write("long.bin", base64.b64encode(data).decode(),
                                           encoding="base64").is_error)
        for source in ("open('long.txt', 'rb')", "open('long.bin', 'rb')", "sys.stdin.buffer"):
            result = self.server.python(
                f"import hashlib, sys\nprint(hashlib.sha256({source}.read()).hexdigest())",
                stdin=text if "stdin" in source else "")
            self.assert_prints(result, hashlib.sha256(data).hexdigest())

    def test_many_megabytes_of_bad_base64_write_nothing(self):
        self.assert_refused(self.server.write("bad.bin", "AAAA" * 1_000_000 + "!", encoding="base64"),
                            "base64")
        self.assert_refused(self.server.read("bad.bin"), "not found")

    def test_bad_base64_is_a_violation_and_writes_nothing(self):
        self.assert_refused(self.server.write("bad.bin", "!!!", encoding="base64"), "base64")
        self.assert_refused(self.server.read("bad.bin"), "not found")

    def test_a_binary_is_described_not_dumped(self):
        self.server.python("open('b.bin', 'wb').write(bytes(range(256)) * 100)")
        result = self.server.read("b.bin")
        self.assertLess(len(result.text), 500)

    def test_parents_are_created(self):
        self.assertFalse(self.server.write("src/deep/er/a.py", "x = 1\n").is_error)
        self.assertEqual(self.content("src/deep/er/a.py"), "x = 1\n")

    def test_line_ranges(self):
        self.server.write("lines.txt", "".join(f"line {n}\n" for n in range(1, 101)))
        result = self.server.read("lines.txt", start_line=10, end_line=12)
        self.assertTrue(result.text.startswith("line 10\nline 11\nline 12\n"), result.text)
        self.assertIn("lines 10-12 of 100", result.text)
        self.assertNotIn("line 13\n", result.text)
        result = self.server.read("lines.txt", start_line=-2)
        self.assertIn("line 99\nline 100\n", result.text)
        self.assertNotIn("line 98\n", result.text)
        result = self.server.read("lines.txt", start_line=99, end_line=500)
        self.assertIn("line 99\nline 100\n", result.text)
        self.assertIn("100", self.server.read("lines.txt", start_line=500).text)

    def test_a_partial_result_says_how_to_continue(self):
        self.server.write("many.txt", "".join(f"line {n}\n" for n in range(1, 20001)))
        result = self.server.read("many.txt")
        self.assertLess(len(result.text), 40_000)
        self.assertRegex(result.lines[-1],
                         r"^\[lines 1-\d+ of 20000, .*; continue with start_line=\d+\]$")
        start = int(result.lines[-1].rsplit("=", 1)[1][:-1])
        self.assertTrue(self.server.read("many.txt", start_line=start).text
                        .startswith(f"line {start}\n"))

    def test_one_very_long_line_is_bounded(self):
        self.server.python("open('long.txt', 'w').write('x' * 5_000_000)")
        self.assertLess(len(self.server.read("long.txt").text), 40_000)

    def test_a_missing_file_is_reported_with_similar_names(self):
        self.server.write("report_final.csv", "a\n")
        self.assert_refused(self.server.read("report_finl.csv"), "not found", "report_final.csv")

    def test_a_directory_is_listed(self):
        self.server.write("listing/one.txt", "1")
        self.server.write("listing/two.txt", "22")
        result = self.server.read("listing")
        self.assertFalse(result.is_error)
        self.assertIn("one.txt", result.text)
        self.assertIn("two.txt", result.text)

    def test_a_directory_cannot_be_written(self):
        self.server.python("import os; os.makedirs('directory', exist_ok=True)")
        self.assert_refused(self.server.write("directory", "x"), "directory")
        self.server.write("no-directory.txt", "x")
        self.assert_refused(self.server.write("no-directory.txt/b", "x"), "no-directory.txt")

    def test_path_tricks_are_refused(self):
        """Absolute paths and .. are paths of the sandbox, where none of these exist."""
        for path in ("/etc/shadow", "/proc/self/environ", "", "a\x00b", "x" * 5000,
                     "/proc/1/root/etc/shadow", "../../../etc/shadow", "/root/.profile"):
            with self.subTest(path=path[:40]):
                self.assertTrue(self.server.read(path).is_error)
        self.assertNotIn("daemon:", self.server.read("../../etc/passwd").text)
        for path in ("../escaped.txt", "/etc/escaped", "/usr/escaped", "", "a\x00b", "/escaped",
                     "x" * 5000, "..", ".", "/dev/null/x", "/proc/self/comm"):
            with self.subTest(write=path[:40]):
                self.assertTrue(self.server.write(path, "x").is_error)

    def test_wrong_arguments_are_all_named(self):
        result = self.server.call("write_file", path=True, content=True, mode="truncate", encoding="x")
        self.assert_violation(result, "path", "content", "mode", "encoding")
        result = self.server.call("read_file", path="a.txt", start_line="one", encoding="utf-16")
        self.assert_violation(result, "start_line", "encoding")

    def test_files_work_while_code_runs_and_after_a_crash(self):
        self.server.write("calm.txt", "calm\n")
        slow = self.server.start_call("run_python", code="import time; time.sleep(1)")
        self.assertEqual(self.content("calm.txt").splitlines()[0], "calm")  # and that it waited
        self.server.finish_call(slow)
        self.server.python("import os; os._exit(1)")
        self.assertEqual(self.content("calm.txt"), "calm\n")

    def test_a_write_arrives_while_sessions_end(self):
        """What is killed with a session is no process that writes a file."""
        for number in range(12):
            fresh = self.server.start_call("run_python", code="import os, time\nif os.fork() == 0: time.sleep(60)", fresh=True)
            writes = [self.server.start_call("write_file", path=f"beside{n}", content="x" * 20000) for n in range(5)]
            for write in writes:
                self.assertFalse(self.server.finish_call(write).is_error, number)
            self.assertFalse(self.server.finish_call(fresh).is_error, number)

    def test_a_large_file_goes_both_ways(self):
        text = "0123456789abcde\n" * (1 << 18)
        self.assertFalse(self.server.write("large.txt", text).is_error)
        self.assert_prints(self.server.python("import os; print(os.path.getsize('large.txt'))"),
                           str(len(text)))

    def test_overwrite_keeps_the_old_file_for_open_descriptors(self):
        self.server.write("atomic.txt", "old")
        self.server.python("held = open('atomic.txt')")
        self.server.write("atomic.txt", "new")
        self.assert_prints(self.server.python("print(held.read(), open('atomic.txt').read())"),
                           "old new")

    def test_no_temporary_name_is_left_beside_the_file(self):
        self.server.write("tidy/a.txt", "x")
        self.server.write("tidy/a.txt", "y")
        self.assert_prints(self.server.python("import os; print(os.listdir('tidy'))"), "['a.txt']")

    def test_windows_line_ends_and_a_missing_last_newline_stay(self):
        self.server.write("crlf.txt", "a\r\nb")
        self.assert_prints(self.server.python("print(open('crlf.txt', 'rb').read())"), "b'a\\r\\nb'")

    def test_a_tilde_is_the_sandboxs_home_directory(self):
        self.assertFalse(self.server.write("~/notes.txt", "at home\n").is_error)
        self.assert_prints(self.server.python("import os; print(open(os.path.expanduser('~/notes.txt')).read().strip())"),
                           "at home")
        self.assertIn("notes.txt", self.server.read("~").text)

    def test_a_dangling_symlink_is_named(self):
        self.server.python("import os; os.makedirs('links', exist_ok=True); os.symlink('gone.txt', 'links/ln')\n"
                           "os.symlink('no where', 'links/dir'); os.symlink('/x\\ny', 'links/odd')")
        self.assertEqual(self.server.read("links/ln").text,
                         "links/ln not found: it is a symlink to gone.txt, which does not exist in the sandbox.")
        self.assertEqual(self.server.read("links/dir/deep/a.txt").text,
                         "links/dir/deep/a.txt not found: links/dir is a symlink to no where, which does not exist in "
                         "the sandbox.")
        self.assertIn('a symlink to "/x\\ny", which', self.server.read("links/odd").text)
        self.assertIn("Hint: 'links/ln' is a symlink to 'gone.txt', which does not exist here",
                      self.server.python("open('links/ln')").text)
        self.assertIn("Did you mean links/ln?", self.server.read("links/lm").text)


class HostDirectory(Case):
    """--workspace DIR: the same tools on a directory of the host."""

    def test_files_are_on_the_host_and_belong_to_the_user(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-workspace-") as directory:
            (pathlib.Path(directory) / "given.txt").write_text("given")
            give_away(directory)
            with Server("--workspace", directory) as server:
                self.assertIn("given", server.read("given.txt").text)
                self.assertFalse(server.write("by-tool.txt", "tool").is_error)
                self.assert_ok(server.python("open('by-code.txt', 'w').write('code')"))
            made = {path.name: path.read_text() for path in pathlib.Path(directory).iterdir()}
            self.assertEqual(made, {"given.txt": "given", "by-tool.txt": "tool",
                                    "by-code.txt": "code"})

    def test_a_group_may_write_where_the_users_umask_lets_it(self):
        need_userns()
        for umask, mode in (("002", 0o664), ("022", 0o644), ("077", 0o644), ("000", 0o664)):
            with tempfile.TemporaryDirectory(prefix="sp-workspace-") as directory:
                give_away(directory)
                with Server("--workspace", directory, wrap=("sh", "-c", f'umask {umask}; exec "$@"', "sh")) as server:
                    self.assertFalse(server.write("new/by-tool", "tool").is_error)
                    self.assert_ok(server.python("import os; open('by-code', 'w').close(); os.mkdir('made')"))
                made = {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in pathlib.Path(directory).rglob("*")}
                self.assertEqual(made, {"by-code": mode, "new/by-tool": mode, "made": mode | 0o111, "new": mode | 0o111}, umask)

    def test_a_tilde_before_the_users_directory_is_the_users(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-home-") as home:
            os.chmod(home, 0o755)
            work = pathlib.Path(os.path.realpath(home), "Sandpiper")
            work.mkdir()
            (work / "a.csv").write_text("from the user")
            give_away(work)
            with Server("--workspace", str(work), env={"PATH": os.environ["PATH"], "HOME": str(work.parent)}) as server:
                self.assertEqual(server.read("~/Sandpiper/a.csv").text, "from the user")
                server.write("~/Sandpiper/b.csv", "to the user")
                self.assertEqual((work / "b.csv").read_text(), "to the user")
                self.assertIn("home/a.csv not found", server.read("~/a.csv").text)

    def test_its_paths_on_the_host_are_understood(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-host-") as directory:
            give_away(directory)
            with Server("--workspace", directory) as server:
                self.assertFalse(server.write(f"{directory}/src/a.py", "a = 1\n").is_error)
                self.assertEqual(server.read(f"{directory}/src/a.py").text, "a = 1\n")
                done = server.call("write_file", path=f"{directory}/src/a.py", old_text="1", new_text="2")
                self.assertIn("edited src/a.py", done.text)
                self.assertIn("src/", server.read(directory).text)
                refused = server.write(f"{directory}/.git/hooks/pre-commit", "#!/bin/sh\n")
                self.assertIn("--allow-write", refused.text)
                result = server.python(f"open('{directory}/src/b.py')")
                self.assertTrue(result.is_error)
                if not CONTAINER:  # there it is the same path
                    self.assertIn(f"the user's directory {directory} is /work here", result.text)
                    self.assertNotIn("the user's directory",
                                     server.python("open('/nowhere/src/b.py')").text)
            self.assertEqual(pathlib.Path(directory, "src/a.py").read_text(), "a = 2\n")

    def test_links_in_the_directory_do_not_leave_it(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-workspace-") as directory, \
                tempfile.TemporaryDirectory(prefix="sp-outside-") as outside:
            secret = pathlib.Path(outside) / "secret.txt"
            secret.write_text("outside-secret")
            (pathlib.Path(directory) / "link").symlink_to(secret)
            (pathlib.Path(directory) / "out").symlink_to(outside)
            give_away(directory)
            with Server("--workspace", directory) as server:
                self.assertNotIn("outside-secret", server.read("link").text)
                self.assertNotIn("outside-secret", server.read("out/secret.txt").text)
                server.write("link", "changed")
                server.write("out/new.txt", "new")
                server.python("open('out/new2.txt', 'w').write('x')")
            self.assertEqual(secret.read_text(), "outside-secret")
            self.assertEqual([path.name for path in pathlib.Path(outside).iterdir()],
                             ["secret.txt"])

    def test_a_missing_directory_is_reported(self):
        with Server("--workspace", "/nonexistent/directory") as server:
            result = server.python("1")
            self.assertTrue(result.is_error)
            self.assertIn("/nonexistent/directory", result.text)


if __name__ == "__main__":
    unittest.main()
