"""Printed output: capture, order of the streams, overflow files, progress while code runs."""
import re
import time
import unittest

from client import SLOW, Case, Server, Shared, need_userns
from container_level import CONTAINER
from libraries import WithLibraries


class Output(Shared):
    def lines(self, result):
        """The lines without the marks where the stream changes."""
        return [line for line in result.output.split("\n")
                if line not in ("[stdout]", "[stderr]")]

    def test_every_way_of_writing_is_captured(self):
        result = self.server.python(
            "import sys, subprocess, os\n"
            "print('one')\nprint('two', file=sys.stderr)\n"
            "subprocess.run(['sh', '-c', 'echo three; echo four >&2'])\n"
            "os.write(1, b'five\\n'); os.write(2, b'six\\n')\nprint('seven')\n"
            "sys.stderr.buffer.write(b'eight\\n')\nprint('nine', end='')\n"
            "print('ten', end='', file=sys.stderr)\nprint('eleven')\n")
        self.assert_ok(result)
        self.assertEqual(self.lines(result), "one two three four five six seven eight nine ten "
                                             "eleven".split())
        self.assertIn("one\n[stderr]\ntwo\n[stdout]\nthree\nfour\n", result.output)

    @unittest.skipIf(CONTAINER, "this level has no /proc")
    def test_the_files_of_the_streams_can_be_written_to(self):
        for code in ("open('/dev/stdout', 'w').write('text\\n')\nNone", "!echo text > /dev/stderr", "!echo text | tee /dev/stderr >&2",
                     "!echo text >> /dev/fd/1"):
            result = self.server.python(code)
            self.assert_ok(result)
            self.assertIn("text", self.lines(result))
            self.assertNotIn("denied", result.text)

    def test_stdout_and_stderr_are_shown_in_the_order_produced(self):
        result = self.server.python("import sys, time\nfor n in range(6):\n"
                                    "    print(n, file=(sys.stdout, sys.stderr)[n % 2])\n"
                                    "    time.sleep(0.05)")
        self.assertEqual(self.lines(result), list("012345"))

    def test_a_child_that_alternates_between_its_streams_keeps_its_order(self):
        shell = "for n in 1 2 3 4 5 6; do echo $n; echo -$n >&2; done"
        result = self.server.python(f"import subprocess\n_ = subprocess.run({shell!r}, shell=True)")
        self.assertEqual(self.lines(result), "1 -1 2 -2 3 -3 4 -4 5 -5 6 -6".split())

    def test_subprocesses_and_code_are_shown_in_the_order_produced(self):
        result = self.server.python("import subprocess\nprint('before')\n"
                                    "subprocess.run(['echo', 'from echo'])\nprint('after')")
        self.assert_prints(result, "before\nfrom echo\nafter")

    def test_a_megabyte_is_cut_in_the_middle_and_kept_whole_in_a_file(self):
        result = self.server.python("for i in range(100_000): print('line', i)")
        self.assert_ok(result)
        self.assertLess(len(result.text), 20_000)
        self.assertIn("line 0\n", result.text)
        self.assertIn("line 99999", result.text)
        self.assertNotIn("line 50000\n", result.text)

    def whole(self, result):
        """The path that a cut result names."""
        found = re.search(self.server.here(r"the whole output \([^)]*\) is in (/tmp/output/\S+), read_file"), result.text)
        self.assertTrue(found, result.text[-300:])
        return found[1]

    def test_the_file_of_a_long_output_is_read_in_ranges(self):
        result = self.server.python("for i in range(100_000): print('line', i)")
        part = self.server.read(self.whole(result), start_line=50_001, end_line=50_002).text
        self.assertTrue(part.startswith("line 50000\nline 50001\n"), part)

    def test_a_long_output_is_whole_also_when_the_call_is_killed(self):
        result = self.server.python("import os\nfor i in range(10_000): print('line', i)\n"
                                    "print(end='', flush=True)\nos._exit(1)")
        part = self.server.read(self.whole(result), start_line=10_000).text
        self.assertTrue(part.startswith("line 9999\n"), part[-200:])

    def test_overflow_files_are_bounded_and_the_oldest_are_removed(self):
        with Server("--disk", "8M") as server:
            for n in range(3):
                result = server.python("for i in range(200_000): print(f'{i:015}')")
                self.assertTrue(server.here("the first 2.1 MB of the output are in /tmp/output/output-"
                                            f"{n + 1}.txt") in result.text)
            self.assertEqual(server.python("1 + 1").output, "Out: 2")
            end = time.monotonic() + 10 * SLOW
            while time.monotonic() < end:
                left = server.python(server.here("import os\nprint(*os.listdir('/tmp/output'))")).output
                if left == "output-3.txt":
                    break
            self.assertEqual(left, "output-3.txt")

    def test_one_long_line_is_cut_too(self):
        result = self.server.python("print('x' * 5_000_000)")
        self.assertLess(len(result.text), 20_000)
        result = self.server.python("print('x' * 5000)\nprint('y')")
        self.assertIn("3000 bytes of this line omitted", result.text)
        self.assertEqual(self.server.read(self.whole(result), start_line=2).text[:2], "y\n")

    def test_unicode_goes_both_ways(self):
        self.assert_prints(self.server.python("print('é 漢字 🐦')"), "é 漢字 🐦")

    def test_a_background_thread_does_not_delay_the_result(self):
        result = self.server.python("import threading, time\n"
                                    "threading.Thread(target=time.sleep, args=(60,), daemon=True)"
                                    ".start()\nprint('now')")
        self.assert_prints(result, "now")


class Order(WithLibraries):
    def test_children_c_code_and_python_keep_their_order(self):
        text = self.out("import ctypes, os, subprocess, sys\nlibc = ctypes.CDLL(None)\n"
                        "for i in range(0, 40, 5):\n"
                        "    print(i)\n    subprocess.run(['echo', str(i + 1)])\n    libc.puts(b'%d' % (i + 2))\n"
                        "    os.write(1, b'%d\\n' % (i + 3))\n    subprocess.run(f'echo {i + 4} >&2', shell=True)")
        self.assertEqual([int(n) for n in re.findall(r"^\d+$", text, re.M)], list(range(40)))

    def test_many_switches_between_the_streams(self):
        text = self.out("import sys\nfor i in range(400): print(i, file=(sys.stdout, sys.stderr)[i // 2 % 2])")
        self.assertEqual([int(n) for n in re.findall(r"^\d+$", text, re.M)], list(range(400)))
        self.assertEqual(text.count("[stderr]"), 100)

    def test_one_stream_alone_is_not_marked(self):
        self.assertEqual(self.out("print('a'); print('b')"), "a\nb")

    def test_threads_do_not_tear_lines(self):
        text = self.out("import threading\ndef say(c):\n    for _ in range(200): print(c * 40)\n"
                        "t = [threading.Thread(target=say, args=(c,)) for c in 'xyz']\n"
                        "[a.start() for a in t]; [a.join() for a in t]\nNone")
        seen = [line for line in text.split("\n") if line and line[0] != "…"]
        self.assertLessEqual(sum(len(set(line)) > 1 for line in seen), 1, seen[:3])  # the cut may split one

    def test_streams_keep_their_order_without_a_pause(self):
        result = self.server.python("import sys\nfor i in range(8): print(i, file=(sys.stdout, sys.stderr)[i % 2])")
        self.assertEqual(re.findall(r"\d", result.output), list("01234567"))

    def test_c_code_and_python_keep_their_order(self):
        self.server.python("import ctypes; c = ctypes.CDLL(None)")
        result = self.server.python("print('a'); c.puts(b'b'); print('c'); c.puts(b'd')\nNone")
        self.assert_prints(result, "a\nb\nc\nd")


class LargeOutput(WithLibraries):
    def test_head_and_tail_are_kept_and_the_rest_is_in_a_file(self):
        text = self.out("for i in range(100000): print('line', i)")
        self.assertLess(len(text), 17_000)
        self.assertTrue(text.startswith("line 0\nline 1\n"))
        self.assertTrue(text.endswith("line 99998\nline 99999"), text[-200:])
        cut = next(line for line in text.split("\n") if "omitted" in line)
        path = re.search(r"/\S+\.txt", cut)[0]
        part = self.server.read(path, start_line=50001, end_line=50002)
        self.assertTrue(part.text.startswith("line 50000\nline 50001\n"), part.text)
        self.assertIn("of 100000", part.text)

    def test_a_flood_of_output_does_not_grow_the_server(self):
        def resident():
            with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
                return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
        self.out("1")
        before = resident()
        result = self.server.python("import os\nb = b'0123456789abcde\\n' * 4096\nfor _ in range(3000): os.write(1, b)",
                                    timeout_s=120, _timeout=120)
        self.assert_ok(result)
        self.assertLess(len(result.text), 17_000)
        self.assertLess(resident() - before, 8000)
        self.assert_alive(self.server)

    def test_control_sequences_are_removed(self):
        text = self.out(r"""
import os, sys
print('\x1b[31mred\x1b[0m \x1b]0;title\x07plain')
for i in range(100): print(f'\r{i}%', end='')
print('\rdone')
os.write(1, b'bad \xff\xfe bytes\n')
print('lone \ud800 half'.encode('utf-8', 'surrogatepass').decode('utf-8', 'replace'))
sys.stdout.write('nul \0 byte\n')
print('x' * 10000)
""")
        lines = text.split("\n")
        self.assertEqual(lines[:2], ["red plain", "done"])
        self.assertIn("bad \ufffd", lines[2])
        self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f]")
        self.assertLess(max(map(len, lines)), 2100)
        self.assertRegex(text, r"\nx{900,1000} … (\d+ bytes of this line omitted … )?x{900,1000}\n")

    def test_a_printed_lone_surrogate_is_no_error(self):
        self.assertIn("half", self.out("print('lone \\ud800 half')"))


class Killed(Shared):
    def test_what_a_python_child_printed_before_a_kill_is_kept(self):
        result = self.server.python("import subprocess, sys\nsubprocess.run([sys.executable, '-c', "
                                    "'import os; print(\"epoch 1\"); os.kill(os.getpid(), 9)'])")
        self.assertIn("epoch 1\n", result.text)

    def test_output_before_a_kill_is_kept(self):
        result = self.server.python("print('seen')\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        self.assertIn("seen\n", result.text)


class Progress(Case):
    def test_progress_has_the_last_line_and_stops_with_the_result(self):
        need_userns()
        with Server() as server:
            server.python("1")
            for token in ("t", None):
                call = server.start("tools/call", {"name": "run_python", "arguments": {
                    "code": "import time\nfor i in range(25): print('step', i); time.sleep(.1)"},
                    **({"_meta": {"progressToken": token}} if token else {})})
                seen = []
                while (message := server.receive()).get("id") != call:
                    seen.append(message)
                self.assertEqual(bool(seen), token is not None)
                self.assertTrue(server.silent(.7))
                values = [m["params"]["progress"] for m in seen]
                self.assertEqual(values, sorted(set(values)))
                for message in seen:
                    self.assertEqual((message["method"], message["params"]["progressToken"]), ("notifications/progress", "t"))
                    self.assertRegex(message["params"]["message"], r"\d.*step \d+")


if __name__ == "__main__":
    unittest.main()
