"""Code that misbehaves: the server responds, reports what happened, and the next call works."""
import time
import unittest

from client import SLOW, Case, Server, need_userns, once

PATIENT_S = min(int(10 * SLOW), 600)  # for code that ends by itself, later on a slow machine
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
        """noisy: processes that the code left may write into the next result, even in the middle of its lines."""
        result = self.server.python(code, _timeout=timeout, **arguments)
        self.assertIn(result.status.kind, kinds, result.text)
        if noisy:
            self.assertIn("survived 42", self.server.python("print(f'survived {6 * 7}')").output)
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

    def test_os_exit_with_status_zero_is_reported_too(self):
        result = self.survives("import os; os._exit(0)")
        self.assertIn("exit code 0", result.status.parts[0])

    def test_exit_statuses_are_reported_by_number_only(self):
        """The driver, init and the installer have their own exit statuses; code can exit with any, so no word takes them for theirs."""
        for fresh in {}, {"fresh": True}:
            for code in (1, 2, 3, 96, 97, 98, 99, *range(100, 112), 124, 125, 126, 127, 128, 137, 255):
                with self.subTest(code=code, **fresh):
                    result = self.survives(f"import os; os._exit({code})", **fresh)
                    driver = ", as where code has closed descriptors of the interpreter (os.closerange())" if code == 97 else ""
                    self.assertEqual(result.status.parts[0], f"exit code {code}{driver}")
                    self.assertNotRegex(result.text.replace(driver, ""), "descriptor|Landlock|Pillow|connection")

    def test_a_closed_control_socket_is_reported(self):
        result = self.survives("import os; os.closerange(3, 1000)")
        self.assertEqual(result.status.kind, "exit code")
        self.assertIn("the code has closed descriptor 64", result.output)
        # This code closed nothing.
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

    @once
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

    @once
    def test_keyboard_interrupt_swallowed(self):
        result = self.survives("while True:\n    try:\n        while True: pass\n"
                               "    except BaseException: pass", ("timeout",), timeout_s=1)
        if result.status.state != "kept (interrupted)":
            self.assert_state_after_kill(result)

    def test_stopping_itself(self):
        self.survives("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout_s=1)
        self.survives("import os, signal; os.kill(0, signal.SIGSTOP)", timeout_s=1)

    @once
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
            "import os, errno\nfor directory in ('.', '/tmp', '/dev/shm'):\n    try:\n"
            "        with open(directory + '/big', 'wb') as f:\n"
            "            while True: f.write(bytes(1 << 20))\n"
            "    except OSError as e: print(errno.errorcode[e.errno])\n"
            "    finally:\n        os.path.exists(directory + '/big') and os.unlink(directory + '/big')",
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

    @once
    def test_a_gigabyte_of_output(self):
        result = self.survives("import os\nblock = b'0123456789abcde\\n' * 65536\n"
                               "for _ in range(1024): os.write(1, block)\nprint('the end')",
                               ("ok", "timeout"), timeout=120, timeout_s=10)
        self.assertLess(len(result.text), 20_000)

    @once
    def test_output_without_end_is_stopped_by_the_clock(self):
        result = self.survives("while True: print('y' * 1000)", ("timeout",), timeout_s=2)
        self.assertLess(len(result.text), 20_000)

    def test_descriptors_until_none_is_left(self):
        self.survives("import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))",
                      ("error",), timeout_s=PATIENT_S)

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

    def test_a_forged_head_of_stderr_ends_with_its_call(self):
        with Server() as server:
            self.assert_ok(server.python(r"import os, sys; os.write(1, b'\0\x1berr\0\xff\xffabc\n')"))
            for _ in range(2):
                text = server.python("print('warn', file=sys.stderr); print('out')").text
                self.assertTrue(text.startswith("[stderr]\nwarn\n[stdout]\nout\n["), text)

    def test_reading_every_descriptor_dry(self):
        self.survives("import os\nfor fd in range(3, 64):\n    try:\n"
                      "        os.set_blocking(fd, False); os.read(fd, 70000)\n"
                      "    except OSError: pass", ("ok", *STATUS_OF_A_KILL))

    def test_replacing_every_descriptor_by_dev_null(self):
        self.survives("import os\nn = os.open('/dev/null', os.O_RDWR)\nfor fd in range(3, 64):\n"
                      "    try:\n        os.fstat(fd); os.dup2(n, fd)\n    except OSError: pass",
                      ("ok", *STATUS_OF_A_KILL))

    def test_a_forged_outcome_frame_is_not_the_result(self):
        result = self.survives(
            "import os, struct\nbody = b'outcome\\0ok'\nfor fd in range(3, 64):\n    try:\n"
            "        os.set_blocking(fd, False)\n"
            "        os.write(fd, struct.pack('<I', len(body)) + body)\n"
            "        os.write(fd, struct.pack('>I', 0x7fffffff))\n    except OSError: pass\n"
            "raise ValueError('the real one')", STATUS_OF_A_KILL)
        self.assertTrue(result.is_error)

    @once
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
        """The code's state may be broken; a reset must give a fresh interpreter."""
        self.assert_prints(self.server.python("print(6 * 7)", reset=True), "42")

    def test_an_atexit_handler_that_hangs_does_not_delay_the_exit(self):
        self.survives("import atexit, time; atexit.register(time.sleep, 99)", ("ok",))
        status, seconds = self.server.end()
        self.assertEqual(status, 0)
        self.assertLess(seconds, 1.0 * SLOW)

    # --- processes left running ---

    def test_daemons_do_not_delay_the_result(self):
        began = time.monotonic()
        self.survives("import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 60'], "
                      "start_new_session=True)\nprint('started')", ("ok",))
        self.assertLess(time.monotonic() - began, 5 * SLOW)

    def test_a_double_forked_daemon_that_holds_the_output_pipe(self):
        self.survives("import os, time\nif os.fork() == 0:\n    os.setsid()\n"
                      "    if os.fork() == 0:\n        time.sleep(60)\n    os._exit(0)\n"
                      "os.wait(); print('done')", ("ok",))

    def test_a_daemon_that_keeps_writing_does_not_disturb_later_results_for_ever(self):
        self.survives("import subprocess\nsubprocess.Popen(['sh', '-c', "
                      "'while :; do echo noise; sleep 0.01; done'])", ("ok",), noisy=True)
        for _ in range(5):
            self.assertLess(len(self.server.python("pass").text), 20_000)

    def test_zombies_are_reaped(self):
        self.survives("import subprocess\nfor _ in range(200):\n"
                      "    subprocess.run(['sh', '-c', '(true &) '])", ("ok",), timeout_s=PATIENT_S)
        self.assert_alive(self.server)


if __name__ == "__main__":
    unittest.main()
