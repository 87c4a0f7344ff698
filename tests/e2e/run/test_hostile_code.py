"""Code that misbehaves: the server answers, says what happened, and the next call works."""
import time
import unittest

from client import SLOW, Case, Server, need_userns

PATIENT_S = min(int(10 * SLOW), 600)  # for what ends by itself, on a slow machine later
STATUS_OF_A_KILL = ("crashed", "out of memory", "exit code", "error", "timeout")


class Hostile(Case):
    args = ("--memory", "512M", "--pids", "64", "--timeout", "10")

    def setUp(self):
        need_userns()
        self.server = Server(*self.args)
        self.server.must_be_contained()
        self.server.python("kept = 1")

    def tearDown(self):
        with self.server:
            pass

    def survives(self, code, kinds=STATUS_OF_A_KILL, timeout=60, noisy=False, **arguments):
        """noisy: processes that the code left may write between the next answer's lines."""
        result = self.server.python(code, _timeout=timeout, **arguments)
        self.assertIn(result.status.kind, kinds, result.text)
        if noisy:
            self.assertIn("42", self.server.python("print(6 * 7)").output.split("\n"))
        else:
            self.assert_alive(self.server)
        return result

    # --- ends of the interpreter ---

    def test_sys_exit(self):
        self.assert_exit_code(self.survives("import sys; sys.exit(4)"), 4)
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_os_exit(self):
        result = self.survives("import os; print('last words', flush=True); os._exit(5)")
        self.assertIn("exit code 5", result.status.parts[0])
        self.assertIn("last words", result.text)
        self.assert_state_after_kill(result)

    def test_os_exit_with_status_zero_is_told_too(self):
        result = self.survives("import os; os._exit(0)")
        self.assertIn("exit code 0", result.status.parts[0])

    def test_no_exit_status_says_more_than_its_number(self):
        """The driver has statuses of its own, init and the installer too: code can exit with any of them."""
        for fresh in {}, {"fresh": True}:
            for code in (1, 2, 3, 96, 97, 98, 99, *range(100, 112), 124, 125, 126, 127, 128, 137, 255):
                with self.subTest(code=code, **fresh):
                    result = self.survives(f"import os; os._exit({code})", **fresh)
                    self.assertEqual(result.status.parts[0], f"exit code {code}")
                    self.assertNotRegex(result.text, "descriptor|Landlock|Pillow|connection")

    def test_a_closed_connection_is_told_as_what_it_is(self):
        result = self.survives("import os; os.closerange(3, 1000)")
        self.assertEqual(result.status.kind, "exit code")
        self.assertIn("the code has closed descriptor 64", result.output)
        # Nothing was closed here.
        result = self.survives("import os, time; os.write(64, b'\\xff' * 64); time.sleep(9)")
        self.assertEqual(result.status.parts[0], "crashed: connection to the interpreter lost")

    def test_segfault(self):
        result = self.survives("import ctypes; ctypes.string_at(0)")
        self.assertIn("SIGSEGV", result.status.line)
        self.assert_state_after_kill(result)

    def test_abort_and_other_signals_of_its_own(self):
        for name in ("SIGABRT", "SIGKILL", "SIGTERM", "SIGBUS", "SIGFPE", "SIGILL", "SIGHUP",
                     "SIGALRM", "SIGXCPU"):
            with self.subTest(signal=name):
                result = self.survives(f"import os, signal; os.kill(os.getpid(), signal.{name}); "
                                       "import time; time.sleep(9)")
                self.assertIn(name, result.status.line)

    def test_kill_everything_that_can_be_seen(self):
        self.survives("import os, signal\nos.kill(-1, signal.SIGKILL)\nimport time; time.sleep(9)",
                      ("ok", *STATUS_OF_A_KILL))

    def test_every_visible_process_is_killed_one_by_one(self):
        self.survives("import os, signal\nfor pid in range(1, 300):\n    try:\n"
                      "        if pid != os.getpid(): os.kill(pid, signal.SIGKILL)\n"
                      "    except OSError: pass", ("ok", *STATUS_OF_A_KILL))

    def test_exec_of_another_program(self):
        result = self.survives("import os; os.execv('/bin/sh', ['sh', '-c', 'echo from sh; exit 6'])")
        self.assertIn("exit code 6", result.status.parts[0])

    def test_fork_and_carry_on_in_the_child(self):
        result = self.survives("import os\nif os.fork(): os._exit(0)\nprint('child')")
        self.assertNotEqual(result.status.kind, "ok")

    def test_a_forked_child_that_returns_from_the_cell(self):
        self.survives("import os, time\npid = os.fork()\nif pid == 0: kept = 'child'",
                      ("ok", *STATUS_OF_A_KILL))

    # --- time ---

    def test_an_endless_loop_is_interrupted(self):
        began = time.monotonic()
        result = self.survives("while True: pass", ("timeout",), timeout_s=1)
        self.assertLess(time.monotonic() - began, 4 * SLOW)
        self.assertEqual(result.status.state, "kept (interrupted)")
        self.assert_prints(self.server.python("print(kept)"), "1")

    def test_sigint_ignored(self):
        result = self.survives("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                               "while True: time.sleep(1)", ("timeout",), timeout_s=1)
        self.assert_state_after_kill(result)

    def test_keyboard_interrupt_swallowed(self):
        result = self.survives("while True:\n    try:\n        while True: pass\n"
                               "    except BaseException: pass", ("timeout",), timeout_s=1)
        if result.status.state != "kept (interrupted)":
            self.assert_state_after_kill(result)

    def test_stopping_itself(self):
        self.survives("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout_s=1)
        self.survives("import os, signal; os.kill(0, signal.SIGSTOP)", timeout_s=1)

    def test_a_huge_number_is_interrupted_or_killed(self):
        self.survives("x = 7 ** (10 ** 9)", timeout_s=1)

    # --- memory, processes, output ---

    def test_allocating_without_end(self):
        result = self.survives("blocks = []\nwhile True: blocks.append(bytearray(1 << 24))",
                               timeout_s=PATIENT_S)
        self.assertIn(result.status.kind, ("out of memory", "error"), result.text)

    def test_allocating_in_a_subprocess(self):
        self.survives("import subprocess, sys\nsubprocess.run([sys.executable, '-c', "
                      "'b = []\\nwhile 1: b.append(bytearray(1 << 24))'])",
                      ("ok", *STATUS_OF_A_KILL))

    def test_filling_every_temporary_file_system(self):
        result = self.survives(
            "import os, errno\nfor folder in ('.', '/tmp', '/dev/shm'):\n    try:\n"
            "        with open(folder + '/big', 'wb') as f:\n"
            "            while True: f.write(bytes(1 << 20))\n"
            "    except OSError as e: print(errno.errorcode[e.errno])\n"
            "    finally:\n        os.path.exists(folder + '/big') and os.unlink(folder + '/big')",
            ("ok", "disk full", *STATUS_OF_A_KILL))
        self.assertIsNotNone(result)

    def test_fork_bomb(self):
        self.survives("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                      timeout_s=2)

    def test_fork_bomb_in_the_shell(self):
        self.survives("import subprocess\nsubprocess.run(['sh', '-c', 'f() { f | f & }; f; wait'])",
                      ("ok", *STATUS_OF_A_KILL), noisy=True, timeout_s=2)

    def test_thread_bomb(self):
        self.survives("import threading, time\nwhile True:\n"
                      "    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
                      timeout_s=3)

    def test_a_gigabyte_of_output(self):
        result = self.survives("import os\nblock = b'0123456789abcde\\n' * 65536\n"
                               "for _ in range(1024): os.write(1, block)\nprint('the end')",
                               ("ok", "timeout"), timeout=120, timeout_s=10)
        self.assertLess(len(result.text), 20_000)

    def test_output_without_end_is_stopped_by_the_clock(self):
        result = self.survives("while True: print('y' * 1000)", ("timeout",), timeout_s=2)
        self.assertLess(len(result.text), 20_000)

    def test_descriptors_until_none_is_left(self):
        self.survives("import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))",
                      ("error",))

    # --- the channel to the server ---

    def test_closing_every_descriptor(self):
        self.survives("import os; os.closerange(0, 1 << 16)", ("ok", *STATUS_OF_A_KILL))

    def test_closing_standard_output(self):
        self.survives("import sys, os; sys.stdout.close(); os.close(1); os.close(2)",
                      ("ok", *STATUS_OF_A_KILL))

    def test_garbage_on_every_descriptor(self):
        self.survives("import os\nfor fd in range(3, 64):\n    try:\n"
                      "        os.set_blocking(fd, False); os.write(fd, b'\\xff' * 70000)\n"
                      "    except OSError: pass", ("ok", *STATUS_OF_A_KILL))

    def test_reading_every_descriptor_dry(self):
        self.survives("import os\nfor fd in range(3, 64):\n    try:\n"
                      "        os.set_blocking(fd, False); os.read(fd, 70000)\n"
                      "    except OSError: pass", ("ok", *STATUS_OF_A_KILL))

    def test_replacing_every_descriptor_by_dev_null(self):
        self.survives("import os\nn = os.open('/dev/null', os.O_RDWR)\nfor fd in range(3, 64):\n"
                      "    try:\n        os.fstat(fd); os.dup2(n, fd)\n    except OSError: pass",
                      ("ok", *STATUS_OF_A_KILL))

    def test_a_forged_outcome_frame_is_not_the_answer(self):
        result = self.survives(
            "import os, struct\nbody = b'outcome\\0ok'\nfor fd in range(3, 64):\n    try:\n"
            "        os.set_blocking(fd, False)\n"
            "        os.write(fd, struct.pack('<I', len(body)) + body)\n"
            "        os.write(fd, struct.pack('>I', 0x7fffffff))\n    except OSError: pass\n"
            "raise ValueError('the real one')", STATUS_OF_A_KILL)
        self.assertTrue(result.is_error)

    def test_breaking_the_interpreter_from_inside(self):
        for code in ("import sys; sys.modules.clear()", "import builtins; builtins.__dict__.clear()",
                     "globals().clear()", "import os, sys; os.write = os.read = None; del sys.stdout",
                     "import gc\nfor o in gc.get_objects():\n"
                     "    if type(o) is dict and o is not globals(): o.clear()",
                     "import sys; sys.setrecursionlimit(10)",
                     "import sys; sys.settrace(lambda *a: 1 / 0)",
                     "import sys; sys.excepthook = None; sys.displayhook = None; 5",
                     "import builtins; builtins.compile = builtins.exec = None"):
            with self.subTest(code=code):
                self.server.python(code, _timeout=30, timeout_s=3)
                self.assert_alive_after_reset()

    def assert_alive_after_reset(self):
        """State that the code itself broke is its own; a fresh interpreter must be there."""
        self.assert_prints(self.server.python("print(6 * 7)", reset=True), "42")

    def test_an_atexit_handler_that_hangs_does_not_hold_the_end(self):
        self.survives("import atexit, time; atexit.register(time.sleep, 99)", ("ok",))
        status, seconds = self.server.end()
        self.assertEqual(status, 0)
        self.assertLess(seconds, 1.0 * SLOW)

    # --- what is left running ---

    def test_daemons_do_not_hold_the_answer(self):
        began = time.monotonic()
        self.survives("import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 60'], "
                      "start_new_session=True)\nprint('started')", ("ok",))
        self.assertLess(time.monotonic() - began, 5 * SLOW)

    def test_a_double_forked_daemon_that_holds_the_output_pipe(self):
        self.survives("import os, time\nif os.fork() == 0:\n    os.setsid()\n"
                      "    if os.fork() == 0:\n        time.sleep(60)\n    os._exit(0)\n"
                      "os.wait(); print('done')", ("ok",))

    def test_a_daemon_that_keeps_writing_does_not_mix_into_later_answers_without_end(self):
        self.survives("import subprocess\nsubprocess.Popen(['sh', '-c', "
                      "'while :; do echo noise; sleep 0.01; done'])", ("ok",), noisy=True)
        for _ in range(5):
            self.assertLess(len(self.server.python("pass").text), 20_000)

    def test_zombies_are_reaped(self):
        self.survives("import subprocess\nfor _ in range(200):\n"
                      "    subprocess.run(['sh', '-c', '(true &) '])", ("ok",), timeout_s=PATIENT_S)
        self.assert_alive(self.server)


class Planted(Case):
    """Things planted under the names that the file tools then use."""

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

    def test_a_linked_parent_folder(self):
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

    def test_a_very_deep_folder(self):
        self.plant("d = '.'\nfor _ in range(500):\n    os.mkdir('d'); os.chdir('d')\n"
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


if __name__ == "__main__":
    unittest.main()
