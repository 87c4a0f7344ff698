"""The last line of a result: the outcome of the call and the fate of the state."""
import unittest

from client import DURATION, Case, Server, Shared


class StatusLine(Case):
    """Status lines exactly as documented, because a model reads them."""

    def setUp(self):
        self.server = Server("--memory", "256M")

    def tearDown(self):
        with self.server:
            pass

    def line(self, code, **arguments):
        return self.server.python(code, **arguments).status.line

    def test_ok(self):
        self.assertRegex(self.line("print(1)"), rf"^\[ok {DURATION}( \| .*)?\]$")
        self.assertRegex(self.line("x = 1"), rf"^\[ok {DURATION}, no output( \| .*)?\]$")

    def test_error(self):
        self.server.python("pass")
        self.assertRegex(self.line("a = 1\nb = 2\n{}['k']"),
                         rf"^\[error: KeyError at <cell 2>:3, {DURATION} \| state: kept( \| .*)?\]$")

    def test_error_names_the_innermost_frame_of_the_user(self):
        self.server.python("def f():\n    import json\n    json.loads('{')")
        line = self.line("f()")
        self.assertRegex(line, r"^\[error: (json\.decoder\.)?JSONDecodeError at <cell 1>:3, ")

    def test_another_current_directory_is_named_once(self):
        note = "the current directory is /work/src; relative paths of write_file and read_file begin in /work"
        self.assertIn(self.server.here(note), self.line("import os\nos.mkdir('src'); os.chdir('src')"))
        self.assertNotIn("directory", self.line("open('a.py', 'w').close()"))
        self.assertNotIn("directory", self.line("%cd .."))
        self.assertIn(self.server.here(note), self.line("%cd src"))
        self.assertNotIn("current directory", self.line("import os\nos.rmdir('../src') if os.remove('a.py') else os.rmdir('/work/src')"))

    def test_timeout_by_interrupt(self):
        line = self.line("import time\nkept = 1\nwhile True:\n    time.sleep(99)", timeout_s=1)
        self.assertRegex(line, r'^\[timeout: 1 s limit; interrupted at <cell 1>:4 "time\.sleep\(99\)" \| '
                               r"state: kept \(interrupted\)( \| .*)?\]$")
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_timeout_in_native_code(self):
        line = self.line("import itertools\n\n\nsum(itertools.repeat(0))", timeout_s=1)
        self.assertRegex(line, r'^\[timeout: 1 s limit; the interrupt had no effect \(native code, or a SIGINT handler of the code.s\) at <cell 1>:4 "sum\(itertools\.repeat\(0\)\)" \| state: ')

    def test_out_of_memory(self):
        result = self.server.python("blocks = []\nwhile True:\n    blocks.append(bytearray(1 << 24))")
        if result.status.kind == "error":
            self.assertIn("MemoryError", result.text)
            return
        self.assertRegex(result.status.line,
                         r"^\[out of memory: used \d+ of 256 MiB.* \| state: ")
        self.assert_state_after_kill(result)

    def test_crash(self):
        result = self.server.python("import ctypes\nctypes.string_at(0)")
        self.assertRegex(result.status.line, r'^\[crashed: SIGSEGV at <cell 1>:2 "ctypes\.string_at\(0\)" \| state: ')
        self.assertTrue(result.is_error)
        self.assert_state_after_kill(result)

    def test_crash_names_the_innermost_line_of_a_cell(self):
        self.assert_ok(self.server.python("import ctypes, os\n\ndef read(at):\n    return ctypes.string_at(at)"))
        self.assertRegex(self.line("read(0)"), r'^\[crashed: SIGSEGV at <cell 1>:4 \| state: ')
        self.assertRegex(self.line("x = 1\nos.abort()"), r'^\[crashed: SIGABRT at <cell 3>:2 "os\.abort\(\)" \| state: ')
        self.assertRegex(self.line("os.kill(os.getpid(), 9)"), r"^\[crashed: SIGKILL \| state: ")
        in_child = "if os.fork() == 0: os.abort()\nos.wait()\nos.kill(os.getpid(), 9)"
        self.assertRegex(self.line(in_child), r"^\[crashed: SIGKILL \S*")

    def test_exit_codes(self):
        self.assert_exit_code(self.server.python("kept = 1\nraise SystemExit(3)"), 3)
        self.assert_exit_code(self.server.python("import sys\nsys.exit()"), 0)
        result = self.server.python("import sys\nsys.exit('why')")
        self.assert_exit_code(result, 1)
        self.assertIn("why", result.text)
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_a_status_line_printed_by_the_code_is_not_the_last_one(self):
        result = self.server.python("print('[ok 1 ms]')\nraise ValueError")
        self.assert_kind(result, "error")
        self.assertIn("[ok 1 ms]", result.output)


class Memory(Shared):
    def test_running_out_of_memory_names_the_flag(self):
        self.assert_ok(self.server.python("kept = 1"))
        result = self.server.python("x = []\nwhile True: x.append(bytearray(10**7))", timeout_s=60, _timeout=120)
        self.assertIn(result.status.kind, ("out of memory", "error"))
        self.assertIn("--memory", result.text)
        self.assertRegex(result.status.state, "^(restored to the state before this call|kept)")
        self.assertEqual(self.server.python("kept").output, "Out: 1")


class Timeouts(Shared):
    def test_a_timeout_names_the_place_and_keeps_the_output(self):
        result = self.server.python("print('begun')\nimport time\ndef wait():\n    time.sleep(99)\nwait()", timeout_s=1)
        self.assert_kind(result, "timeout")
        self.assertIn("begun", result.output)
        self.assertRegex(result.status.line, r'^\[timeout: 1 s limit; interrupted at <cell \d+>:4 "time\.sleep\(99\)" \| state: kept \(interrupted\)')

    def test_native_code_is_killed_and_the_place_named(self):
        self.server.python("kept = 41")
        result = self.server.python("print('begun')\nx = 0\ny = sum(range(10**13))", timeout_s=1)
        self.assertIn("begun", result.output)
        self.assertRegex(result.status.line, r'the interrupt had no effect \(native code, or a SIGINT handler of the code.s\) at <cell \d+>:3 "y = sum\(range\(10\*\*13\)\)" \| state: restored')
        self.assert_prints(self.server.python("print(kept)"), "41")

    def test_code_that_ignores_the_interrupt(self):
        result = self.server.python("import time\nwhile True:\n    try:\n        while True: time.sleep(.01)\n    except BaseException: pass", timeout_s=1)
        self.assertIn("ignored the interrupt at <cell", result.status.line)

    def test_threads_and_children_do_not_survive_a_kill(self):
        result = self.server.python("import subprocess, threading, time\nsubprocess.Popen(['sleep', '77'])\n"
                                    "def tick():\n    while True: open('tick', 'w').write(str(time.time())); time.sleep(.01)\n"
                                    "threading.Thread(target=tick, daemon=True).start()\n"
                                    "import os\nwhile not os.path.exists('tick') or not open('tick').read(): time.sleep(.01)\nsum(range(10**13))", timeout_s=1)
        self.assertIn("restored", result.status.line)
        text = self.server.python("import glob, time\na = open('tick').read(); time.sleep(.3)\n"
                                  "print(a == open('tick').read(), sum(b'sleep\\x0077' in open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/cmdline')))")
        self.assert_prints(text, "True 0")


if __name__ == "__main__":
    unittest.main()
