"""read_file and write_file with planted names and files, and on a full disk.

Code in the sandbox plants them; the tools respond at once, and reach nothing that the code itself cannot reach.
"""
import os
import pathlib
import tempfile
import time
import unittest

from client import SLOW, Case, Server, Shared, need_userns, size

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
# None of these is a readable file.
UNREADABLE = (
    "odd/fifo", "odd/socket", "odd/loop-a", "odd/self", "odd/to-fifo", "odd/to-zero", "odd/to-environ", "odd/to-root",
    "odd/to-fd", "odd/broken", "odd/chain0", "odd/to-root/etc/passwd", "odd/file/x", "odd/loop-a/x", "odd/fifo/x",
    "/dev/zero", "/dev/random", "/dev/tty", "/dev/stdin", "/dev/fd/0", "/proc/self/mem", "/proc/self/maps", "/proc/1/cmdline",
    "/proc/self/root/etc/passwd", "/proc/self/cwd/odd/file", "/proc/self/fd/0", "/sys/kernel",
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

    def test_reading_what_is_not_a_file_is_refused(self):
        for path in UNREADABLE:
            for encoding in ("auto", "base64"):
                result = self.server.read(path, encoding=encoding)
                self.assertTrue(result.is_error, (path[:60], result.text[:300]))
                self.assertLess(len(result.text), 1500)
                self.assertNotRegex(result.text, r"[\x00-\x09\x0b-\x1f]")

    def test_writing_what_is_not_a_file_is_refused(self):
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

    def test_a_link_resolves_as_it_does_for_the_code(self):
        """The sandbox has its own /etc/passwd or none."""
        seen = self.server.python("print(open('/etc/passwd').read(), end='')")
        read = self.server.read("odd/to-passwd")
        self.assertEqual(read.is_error, seen.is_error, read.text)
        if seen.is_error:
            self.assertIn("is not accessible", read.text)
        else:
            self.assertEqual(read.text.rstrip("\n"), seen.output.rstrip("\n"))

    def test_a_file_without_permission_is_refused(self):
        if "True" in self.server.python("import os; print(os.access('odd/secret', os.R_OK))").output:
            self.skipTest("owner: this user reads every file of the sandbox")
        self.assertIn("is not accessible", self.server.read("odd/secret").text)

    def test_overwriting_a_name_leaves_the_other_names_of_the_file(self):
        self.server.python("import os\nopen('one', 'w').write('old'); os.link('one', 'two'); os.symlink('one', 'three')")
        self.assertFalse(self.server.write("one", "new").is_error)
        self.assert_prints(self.server.python("print(*[open(n).read() for n in ('one', 'two', 'three')])"), "new old new")
        self.assertFalse(self.server.write("three", "own").is_error)
        self.assert_prints(self.server.python("print(*[open(n).read() for n in ('one', 'two', 'three')], os.path.islink('three'))"),
                           "own old own True")

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
        for _ in range(size(300, 100)):
            result = self.server.read("odd/swapped")
            self.assertTrue(result.is_error or result.text == "inside\n", result.text[:300])
        self.server.write("halt", "")
        self.assert_ok(self.server.finish_call(slow))


class Planted(Case):
    """Objects planted at paths that the file tools then use."""

    def setUp(self):
        need_userns()
        self.server = Server()
        self.server.must_be_contained()

    def tearDown(self):
        with self.server:
            pass

    def plant(self, code):
        self.assert_ok(self.server.python("import os, socket\n" + code))

    def answers_quickly(self, tool, **arguments):
        began = time.monotonic()
        result = self.server.call(tool, **arguments)
        self.assertLess(time.monotonic() - began, 2 * SLOW)
        return result

    def test_fifo(self):
        self.plant("os.mkfifo('pipe')")
        self.assertTrue(self.answers_quickly("read_file", path="pipe").is_error)
        self.answers_quickly("write_file", path="pipe", content="x", mode="append")
        self.assert_alive(self.server)

    def test_fifo_with_a_reader_and_a_writer(self):
        self.plant("os.mkfifo('pipe'); fd = os.open('pipe', os.O_RDWR); os.write(fd, b'trap')")
        self.assertNotIn("trap", self.answers_quickly("read_file", path="pipe").text)

    def test_socket(self):
        self.plant("s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen()")
        self.assertTrue(self.answers_quickly("read_file", path="sock").is_error)

    def test_symbolic_links_out_of_the_workspace(self):
        for target in ("/etc/passwd", "/proc/1/environ", "/proc/self/environ", "/dev/zero",
                       "../../../../etc/shadow", "/proc/1/root/etc/shadow", "/dev/stdin"):
            with self.subTest(target=target):
                self.plant(f"os.path.lexists('link') and os.unlink('link')\n"
                           f"os.symlink({target!r}, 'link')")
                result = self.answers_quickly("read_file", path="link")
                self.assertNotIn("daemon:", result.text)
                self.assertLess(len(result.text), 2_000)
                self.answers_quickly("write_file", path="link", content="x")

    def test_a_link_to_itself(self):
        self.plant("os.symlink('loop', 'loop')")
        self.assertTrue(self.answers_quickly("read_file", path="loop").is_error)

    def test_a_linked_parent_directory(self):
        self.plant("os.symlink('/', 'up'); os.symlink('/proc/self', 'me')")
        self.assertNotIn("daemon:", self.answers_quickly("read_file", path="up/etc/passwd").text)
        self.answers_quickly("write_file", path="up/tmp/planted", content="x")
        self.answers_quickly("read_file", path="me/environ")
        self.assert_alive(self.server)

    def test_devices(self):
        for path in ("/dev/zero", "/dev/random", "/dev/full", "/dev/tty"):
            result = self.answers_quickly("read_file", path=path)
            self.assertTrue(result.is_error, result.text)

    def test_a_file_that_grows_while_it_is_read(self):
        self.plant("import threading\nf = open('grow', 'wb', buffering=0)\n"
                   "def grow():\n    for _ in range(3000): f.write(b'x' * 10000)\n"
                   "threading.Thread(target=grow).start()")
        for _ in range(10):
            self.assertLess(len(self.answers_quickly("read_file", path="grow").text), 40_000)

    def test_a_sparse_file_of_a_terabyte(self):
        self.plant("fd = os.open('sparse', os.O_CREAT | os.O_WRONLY)\ntry: os.ftruncate(fd, 1 << 40)\n"
                   "except OSError: os.ftruncate(fd, 1 << 29)")
        self.assertLess(len(self.answers_quickly("read_file", path="sparse").text), 40_000)
        self.answers_quickly("read_file", path="sparse", start_line=-5)

    def test_a_very_deep_directory(self):
        self.plant(f"d = '.'\nfor _ in range({size(500, 250)}):\n    os.mkdir('d'); os.chdir('d')\n"
                   "os.chdir('/')")
        self.answers_quickly("read_file", path="d")
        self.assert_alive(self.server)

    def test_names_that_are_no_utf8_or_hold_line_breaks(self):
        self.plant("os.makedirs('names', exist_ok=True)\n"
                   "for n in (b'\\xff\\xfe', b'a\\nb', b'a\\x1b[31mb', b'x' * 255):\n"
                   "    open(b'names/' + n, 'w').close()")
        result = self.answers_quickly("read_file", path="names")
        self.assertNotIn("\x1b", result.text)

    def test_a_workspace_that_is_gone(self):
        self.plant("import shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)")
        self.answers_quickly("write_file", path="again.txt", content="x")
        self.assert_alive(self.server)

    def test_swapping_a_file_for_a_link_while_it_is_written(self):
        self.plant("import threading, time\nstop = time.time() + 3\ndef swap():\n"
                   "    while time.time() < stop:\n        try:\n"
                   "            os.symlink('/etc/passwd', 't'); os.rename('t', 'race')\n"
                   "            os.mkfifo('t'); os.rename('t', 'race')\n"
                   "            open('t', 'w').close(); os.rename('t', 'race')\n"
                   "        except OSError: pass\nthreading.Thread(target=swap).start()")
        for _ in range(40):
            self.answers_quickly("write_file", path="race", content="x")
            self.assertNotIn("daemon:", self.answers_quickly("read_file", path="race").text)


class FullDisk(Case):
    def test_a_write_that_does_not_fit_keeps_the_old_file(self):
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

    def test_a_host_directory_is_bounded_too(self):
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-bound-") as directory, \
                Server("--workspace", directory, "--disk", "2M") as server:
            self.assertFalse(server.write("f", "x" * (1 << 20)).is_error)
            self.assertIn("--disk", server.write("f", "x" * (3 << 19), mode="append").text)
            self.assertIn("--disk", server.write("g", "x" * (3 << 20)).text)
            server.read("f")  # init has completed its earlier requests by then
            self.assertEqual(os.path.getsize(pathlib.Path(directory) / "f"), 1 << 20)
            self.assertEqual(os.listdir(directory), ["f"])


class AnyTime(Case):
    def test_before_any_code_has_run(self):
        need_userns()
        with Server() as server:
            self.assertFalse(server.write("early.txt", "early\n").is_error)
            self.assertEqual(server.read("early.txt").text, "early\n")

    def test_the_longest_path_is_accepted(self):
        need_userns()
        with Server() as server:
            path = "d/" * 2047 + "f"
            self.assertTrue(server.read(path).is_error)
            self.assertFalse(server.write(path, "deep\n").is_error)
            self.assertEqual(server.read(path).text, "deep\n")

    def test_file_tools_work_while_code_runs_and_after_it_exits(self):
        need_userns()
        with Server() as server:
            server.write("calm.txt", "calm\n")
            slow = server.start_call("run_python", code="import time; time.sleep(60)", timeout_s=2, session="other")
            self.assertFalse(server.write("calm.txt", "calmer\n").is_error)
            self.assertEqual(server.read("calm.txt").text, "calmer\n")
            self.assertEqual(server.stash, {})  # the code still runs
            self.assert_kind(server.finish_call(slow), "timeout")
            for end in ("import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
                        "x = bytearray(1 << 40)", "import os; os.closerange(0, 1000)"):
                server.python(end)
                self.assertEqual(server.read("calm.txt").text, "calmer\n", end)
                self.assertFalse(server.write("calm.txt", "calmer\n").is_error, end)

    def test_other_calls_are_served_during_a_large_file(self):
        """Checks the order, not the time: pings sent after the read are answered before it."""
        need_userns()
        with tempfile.TemporaryDirectory(prefix="sp-pieces-") as directory:
            with open(pathlib.Path(directory) / "big", "wb") as file:
                file.write(b"x" * 99 + b"\n")
                file.truncate(64 << 20)
            with Server("--workspace", directory) as server:
                server.read("big", encoding="text", end_line=1)
                with server.at_once():
                    read = server.start_call("read_file", path="big", encoding="text", end_line=1)
                    pings = [server.start("ping") for _ in range(5)]
                order = [server.receive()["id"] for _ in range(6)]
                self.assertEqual(order, [*pings, read])


if __name__ == "__main__":
    unittest.main()
