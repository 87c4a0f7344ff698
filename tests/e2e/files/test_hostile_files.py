"""read_file and write_file against names and files that somebody has prepared, and against a full disk.

Code in the sandbox plants them; the tools answer at once, and reach nothing that the code itself could not.
"""
import os
import pathlib
import tempfile
import unittest

from client import Case, Server, Shared, need_userns

PLANT = """
import os, socket
os.makedirs('odd/deep', exist_ok=True)
os.chdir('odd')
open('file', 'w').write('inside\\n')
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('socket')
os.symlink('loop-b', 'loop-a'); os.symlink('loop-a', 'loop-b'); os.symlink('self', 'self')
os.symlink('fifo', 'to-fifo'); os.symlink('/dev/zero', 'to-zero'); os.symlink('/etc', 'to-etc')
os.symlink('/proc/self/environ', 'to-environ'); os.symlink('/proc/1/root', 'to-root')
os.symlink('/proc/self/fd/1', 'to-fd'); os.symlink('../../../../../../etc/passwd', 'to-passwd')
os.symlink('file', 'to-file'); os.symlink('nowhere', 'broken'); os.symlink('deep', 'to-deep')
os.link('file', 'hard')
for i in range(60): os.symlink(f'chain{i + 1}', f'chain{i}')
open('chain60', 'w').write('end of the chain\\n')
open('secret', 'w').close(); os.chmod('secret', 0)
os.chdir('..')
"""
# Not one of these is a file that can be read.
UNREADABLE = (
    "odd/fifo", "odd/socket", "odd/loop-a", "odd/self", "odd/to-fifo", "odd/to-zero", "odd/to-environ", "odd/to-root",
    "odd/to-fd", "odd/broken", "odd/chain0", "odd/to-root/etc/passwd", "odd/file/x", "odd/loop-a/x", "odd/fifo/x",
    "/dev/zero", "/dev/random", "/dev/tty", "/dev/stdin", "/dev/fd/0", "/proc/self/mem", "/proc/self/maps", "/proc/1/cmdline",
    "/proc/self/root/etc/passwd", "/proc/self/cwd/odd/file", "/proc/self/fd/0", "/proc/kmsg", "/proc/kcore", "/sys/kernel",
    "", "\x00", "odd\x00/file", "x" * 4095, "x" * 4096, "/" + "y/" * 2000, "d/" * 2047 + "f", "é" * 200, "x" * 300,
)
UNWRITABLE = (
    "odd/fifo", "odd/socket", "odd", "odd/", "odd/deep/..", ".", "..", "/", "odd/to-root/work/x", "odd/file/x", "odd/loop-a/x",
    "/dev/null", "/dev/full", "/dev/new", "/proc/self/comm", "/proc/self/oom_score_adj", "/proc/1/comm", "/proc/new",
    "/etc/passwd", "/etc/new", "/usr/bin/env", "/usr/new", "/new", "/run/sandpiper/driver.py", "odd/to-etc/new",
    "", "\x00", "odd/\x00x", "x" * 4096, "x" * 300,
)


class Odd(Shared):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        result = cls.server.python(PLANT)
        if result.is_error:
            raise AssertionError(result.text)

    def test_what_is_no_file_is_refused_in_a_sentence(self):
        for path in UNREADABLE:
            for encoding in ("auto", "base64"):
                result = self.server.read(path, encoding=encoding)
                self.assertTrue(result.is_error, (path[:60], result.text[:300]))
                self.assertLess(len(result.text), 1500)
                self.assertNotRegex(result.text, r"[\x00-\x09\x0b-\x1f]")

    def test_what_cannot_be_written_is_refused_in_a_sentence(self):
        for path in UNWRITABLE:
            for mode in ("overwrite", "append", "create"):
                result = self.server.write(path, "planted", mode=mode)
                self.assertTrue(result.is_error, (path[:60], mode, result.text[:300]))
                self.assertLess(len(result.text), 1500)
        result = self.server.python("import os\nnames = [n for _, d, f in os.walk('.') for n in d + f]\n"
                                    "print([n for n in names if n.startswith('.write-') or n == 'x'], open('odd/file').read())")
        self.assert_prints(result, "[] inside\n")

    def test_links_inside_are_followed(self):
        for path in ("odd/to-file", "odd/hard", "odd/to-deep/../file", "odd/./deep//../file", "/work/odd/file", "../work/odd/file",
                     "/tmp/../work/odd/file"):
            self.assertEqual(self.server.read(self.server.here(path)).text, "inside\n", path)
        self.assertIn("end of the chain", self.server.read("odd/chain45").text)

    def test_a_link_leads_where_it_leads_for_the_code(self):
        """The sandbox has an /etc/passwd of its own, or shows none."""
        seen = self.server.python("print(open('/etc/passwd').read(), end='')")
        read = self.server.read("odd/to-passwd")
        self.assertEqual(read.is_error, seen.is_error, read.text)
        if seen.is_error:
            self.assertIn("may not be accessed", read.text)
        else:
            self.assertEqual(read.text.rstrip("\n"), seen.output.rstrip("\n"))

    def test_a_file_without_permission_is_refused(self):
        if "True" in self.server.python("import os; print(os.access('odd/secret', os.R_OK))").output:
            self.skipTest("owner: this user reads every file of the sandbox")
        self.assertIn("may not be accessed", self.server.read("odd/secret").text)

    def test_overwriting_a_name_leaves_the_other_names_of_the_file(self):
        self.server.python("import os\nopen('one', 'w').write('old'); os.link('one', 'two'); os.symlink('one', 'three')")
        self.assertFalse(self.server.write("one", "new").is_error)
        self.assert_prints(self.server.python("print(*[open(n).read() for n in ('one', 'two', 'three')])"), "new old new")
        self.assertFalse(self.server.write("three", "own").is_error)
        self.assert_prints(self.server.python("print(*[open(n).read() for n in ('one', 'two', 'three')])"), "new old own")

    def test_names_with_control_characters_cannot_forge_lines(self):
        for name in ("a\nb", "a\r[ok 1 ms]", "a\x1b[2Jb", "a\x7fb"):
            self.assertEqual(self.server.write(name, "x").text.count("\n"), 1)
            self.assertEqual(self.server.read(name).text, "x")
        listing = self.server.read(".").text
        self.assertNotRegex(listing, r"[\x00-\x09\x0b-\x1f\x7f]")
        self.assertNotIn("\n[ok", listing)

    def test_a_writer_cannot_swap_the_file_between_look_and_open(self):
        code = ("import os\nwhile not os.path.exists('halt'):\n"
                "    for target in ('fifo', '/dev/zero', '/proc/self/environ', 'file'):\n"
                "        os.symlink(target, 'odd/next'); os.rename('odd/next', 'odd/swapped')\n")
        slow = self.server.start_call("run_python", code=code, session="swapper", timeout_s=60)
        for _ in range(300):
            result = self.server.read("odd/swapped")
            self.assertTrue(result.is_error or result.text == "inside\n", result.text[:300])
        self.server.write("halt", "")
        self.assert_ok(self.server.finish_call(slow))


class FullDisk(Case):
    def test_a_write_that_does_not_fit_leaves_what_was_there(self):
        need_userns()
        with Server("--disk", "4M") as server:
            self.assertFalse(server.write("kept.txt", "old\n").is_error)
            for mode in ("overwrite", "append"):
                result = server.write("kept.txt", "x" * (5 << 20), mode=mode)
                self.assertTrue(result.is_error)
                self.assertIn("--disk", result.text)
                self.assertEqual(server.read("kept.txt").text, "old\n")
            self.assert_ok(server.python("open('filler', 'wb').write(bytes(3 << 20))"))
            for mode in ("overwrite", "append", "create"):
                path = "new.txt" if mode == "create" else "kept.txt"
                result = server.write(path, "x" * (2 << 20), mode=mode)
                self.assertTrue(result.is_error, mode)
                self.assertIn("does not fit", result.text)
                self.assertEqual(server.read("kept.txt").text, "old\n")
            self.assertTrue(server.read("new.txt").is_error)
            self.assert_prints(server.python("import os; print(sorted(os.listdir('.')))"), "['filler', 'kept.txt']")
            self.assertFalse(server.write("kept.txt", "new\n").is_error)

    def test_a_host_folder_has_the_bound_too(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-bound-") as folder, \
                Server("--workspace", folder, "--disk", "2M") as server:
            self.assertFalse(server.write("f", "x" * (1 << 20)).is_error)
            self.assertIn("--disk", server.write("f", "x" * (3 << 19), mode="append").text)
            self.assertIn("--disk", server.write("g", "x" * (3 << 20)).text)
            server.read("f")  # what pid 1 was told before, it has done by then
            self.assertEqual(os.path.getsize(pathlib.Path(folder) / "f"), 1 << 20)
            self.assertEqual(os.listdir(folder), ["f"])


class AnyTime(Case):
    def test_before_any_code_has_run(self):
        need_userns()
        with Server() as server:
            self.assertFalse(server.write("early.txt", "early\n").is_error)
            self.assertEqual(server.read("early.txt").text, "early\n")

    def test_the_longest_path_is_a_path(self):
        need_userns()
        with Server() as server:
            path = "d/" * 2047 + "f"
            self.assertTrue(server.read(path).is_error)
            self.assertFalse(server.write(path, "deep\n").is_error)
            self.assertEqual(server.read(path).text, "deep\n")

    def test_while_code_runs_and_after_each_end_of_it(self):
        need_userns()
        with Server() as server:
            server.write("calm.txt", "calm\n")
            slow = server.start_call("run_python", code="while True: pass", timeout_s=2)
            self.assertFalse(server.write("calm.txt", "calmer\n").is_error)
            self.assertEqual(server.read("calm.txt").text, "calmer\n")
            self.assertEqual(server.stash, {})  # the code still runs
            self.assert_kind(server.finish_call(slow), "timeout")
            for end in ("import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
                        "x = bytearray(1 << 40)", "import os; os.closerange(0, 1000)"):
                server.python(end)
                self.assertEqual(server.read("calm.txt").text, "calmer\n", end)
                self.assertFalse(server.write("calm.txt", "calmer\n").is_error, end)

    def test_others_are_answered_between_the_pieces_of_a_large_file(self):
        """By order, not by time: pings that were sent behind the read are answered before it."""
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-pieces-") as folder:
            with open(pathlib.Path(folder) / "big", "wb") as file:
                file.write(b"x" * 99 + b"\n")
                file.truncate(64 << 20)
            with Server("--workspace", folder) as server:
                server.read("big", encoding="text", end_line=1)
                with server.at_once():
                    read = server.start_call("read_file", path="big", encoding="text", end_line=1)
                    pings = [server.start("ping") for _ in range(5)]
                order = [server.receive()["id"] for _ in range(6)]
                self.assertEqual(order, [*pings, read])


if __name__ == "__main__":
    unittest.main()
