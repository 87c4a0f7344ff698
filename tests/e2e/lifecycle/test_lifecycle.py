"""Start and shutdown of a server; nothing may be left behind."""
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from client import COMMAND, LARGE, SLOW, Case, Server, give_away, need_userns, once
from container_level import CONTAINER
from traces import descendants

EXIT_LIMIT_S = 0.5  # we promise this; clients allow 2 s


class Ends(Case):
    def setUp(self):
        need_userns()

    def assert_ends(self, server, stop):
        stop(server)
        status = server.join()
        seconds = time.monotonic() - server.stopped_at
        self.assertEqual(status, 0)
        self.assertLess(seconds, EXIT_LIMIT_S * SLOW)
        self.assertEqual(server.left(), [])

    def in_each_phase(self, stop):
        """Stops one server before the first call, one at rest and one while code runs."""
        with Server(check=False) as server:
            self.assert_ends(server, stop)
        with Server(check=False) as server:
            self.assert_alive(server)
            self.assert_ends(server, stop)
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("run_python", code="import subprocess\n"
                              "subprocess.run(['sleep', '60'])")
            time.sleep(0.3)
            self.assert_ends(server, stop)

    def test_end_of_stdin(self):
        self.in_each_phase(lambda server: server.close_stdin())

    def test_sigterm(self):
        self.in_each_phase(lambda server: server.signal(signal.SIGTERM))

    def test_sigint(self):
        self.in_each_phase(lambda server: server.signal(signal.SIGINT))

    def test_sighup(self):
        self.in_each_phase(lambda server: server.signal(signal.SIGHUP))

    def test_sigterm_followed_by_the_end_of_stdin(self):
        def stop(server):
            server.signal(signal.SIGTERM)
            server.close_stdin()
        self.in_each_phase(stop)

    def test_sigint_then_sigterm(self):
        def stop(server):
            server.signal(signal.SIGINT)
            time.sleep(0.05)
            if server.process.poll() is None:
                server.signal(signal.SIGTERM)
        self.in_each_phase(stop)

    def test_quick_requests_before_the_end_are_answered(self):
        with Server() as server:
            server.send_bytes(b'{"jsonrpc":"2.0","id":"a","method":"ping"}\n'
                              b'{"jsonrpc":"2.0","id":"b","method":"tools/list"}\n')
            server.close_stdin()
            self.assertEqual(server.receive()["id"], "a")
            self.assertEqual(server.receive()["id"], "b")
            self.assertEqual(server.join(), 0)

    def test_stdout_closed_by_the_client(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("run_python", code="import time; time.sleep(60)")
            server.look()
            server.close_stdout()
            with contextlib.suppress(BrokenPipeError):  # it may have exited by then
                server.start("ping")
            server.close_stdin()
            server.join()
            self.assertEqual(server.left(), [])

    def test_with_stubborn_code_running(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("run_python", code=(
                "import os, signal, time\n"
                "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
                "    except (OSError, ValueError): pass\n"
                "for _ in range(20):\n    if os.fork() == 0: os.setsid()\n"
                "while True:\n    try: time.sleep(60)\n    except BaseException: pass"))
            time.sleep(0.5)
            self.assert_ends(server, lambda server: server.close_stdin())

    def test_with_stopped_processes(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("run_python", code="import os, signal\nos.fork()\n"
                              "os.kill(os.getpid(), signal.SIGSTOP)")
            time.sleep(0.3)
            self.assert_ends(server, lambda server: server.signal(signal.SIGTERM))


class Killed(Case):
    """kill -9 of the server itself: the sandbox must be gone within one second."""

    def setUp(self):
        need_userns()

    def assert_nothing_left(self, server):
        server.signal(signal.SIGKILL)
        server.join()
        self.assertEqual(server.left(1.0), [])

    def test_before_the_first_call(self):
        with Server(check=False) as server:
            self.assert_nothing_left(server)

    def test_at_rest(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            self.assert_nothing_left(server)

    def test_while_code_runs(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("run_python", code="while True: pass")
            time.sleep(0.3)
            self.assert_nothing_left(server)

    def test_while_a_file_is_written(self):
        with Server(check=False) as server:
            self.assert_alive(server)
            server.start_call("write_file", path="big.txt", content="x" * (8 << 20))
            self.assert_nothing_left(server)

    def test_half_of_a_file_leaves_nothing_in_a_directory_of_the_user(self):
        for stop in [lambda server: server.signal(signal.SIGKILL), Server.close_stdin] * 5:
            with tempfile.TemporaryDirectory(prefix="sp-half-") as directory:
                give_away(directory)
                with Server("--workspace", directory, check=False) as server:
                    self.assert_alive(server)
                    server.start_call("write_file", path="big.txt", content="x" * (3 << 20))
                    stop(server)
                    server.join()
                    self.assertEqual(server.left(1.0), [])
                self.assertIn(os.listdir(directory), ([], ["big.txt"]))

    def test_while_the_sandbox_is_set_up(self):
        for delay in (0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16):
            with self.subTest(delay=delay), Server(check=False) as server:
                server.start_call("run_python", code="import time; time.sleep(60)")
                time.sleep(delay)
                self.assert_nothing_left(server)

    def test_with_few_descriptors(self):
        for limits in ("160:160", "131:180", "30:600"):
            with self.subTest(limits), \
                    Server(check=False, wrap=("prlimit", f"--nofile={limits}", "--")) as server:
                self.assert_alive(server)
                self.assert_nothing_left(server)

    def test_with_many_stubborn_daemons(self):
        with Server(check=False) as server:
            self.assert_ok(server.python(
                "import os, signal, time\nfor _ in range(20):\n    if os.fork() == 0:\n"
                "        os.setsid()\n        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "        time.sleep(600)\n        os._exit(0)"))
            self.assert_nothing_left(server)

    def test_a_sandbox_killed_from_outside_loses_no_response(self):
        with Server() as server:
            self.assert_alive(server)
            for child in server.traces.seen:
                if child[0] != server.pid:
                    try:
                        os.kill(child[0], signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            time.sleep(0.2)
            server.python("1")
            self.assert_alive(server)


class Environment(Case):
    def setUp(self):
        need_userns()

    def test_two_servers_do_not_affect_each_other(self):
        with Server() as one, Server() as two:
            one.python("name = 'one'; open('f', 'w').write(name)")
            two.python("name = 'two'; open('f', 'w').write(name)")
            self.assert_prints(one.python("print(name, open('f').read())"), "one one")
            self.assert_prints(two.python("print(name, open('f').read())"), "two two")

    def test_an_empty_environment(self):
        with Server(env={}) as server:
            self.assert_alive(server)

    def test_a_strange_environment(self):
        env = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], "LANG": "xx_YY.nonsense",
               "TMPDIR": "/nonexistent", "PYTHONHOME": "/nonexistent", "PYTHONPATH": "/nonexistent",
               "PYTHONSTARTUP": "/nonexistent", "LD_PRELOAD": "", "PYTHONIOENCODING": "ascii"}
        with Server(env=env) as server:
            self.assert_prints(server.python("print('é')"), "é")

    def test_another_locale(self):
        with Server(env={**os.environ, "LC_ALL": "de_DE.UTF-8"}) as server:
            self.assertRegex(server.python("print(1.5)").text, r"^1\.5\n\[ok ")

    def test_a_strange_working_directory(self):
        for directory in ("/", "/proc", "/tmp"):
            with self.subTest(directory=directory), Server(cwd=directory) as server:
                self.assert_alive(server)

    def test_a_parent_that_dies_while_others_hold_stdin_open(self):
        host = subprocess.Popen(
            [sys.executable, "-c", "import subprocess, sys\nchild = subprocess.Popen(sys.argv[1:])\n"
             "print(child.pid, file=sys.stderr, flush=True)\nchild.wait()", *COMMAND],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with host:
            server = int(host.stderr.readline())
            host.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
                             b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
                             b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_python",'
                             b'"arguments":{"code":"1"}}}\n')
            host.stdin.flush()
            self.assertIn(b'"id":1', host.stdout.readline())
            self.assertIn(b'"id":2', host.stdout.readline())
            watched = [os.pidfd_open(pid) for pid in (server, *descendants(server))]
            host.kill()
            until = time.monotonic() + 20 * SLOW
            for fd in watched:
                self.assertTrue(select.select([fd], [], [], max(0, until - time.monotonic()))[0], "still there")
                os.close(fd)

    def test_an_idle_server_exits_when_asked_to(self):
        with Server("--idle-exit", "1", check=False) as server:
            self.assert_prints(server.python("import time; time.sleep(1.5); print('done')"), "done")
            self.assertEqual(server.join(), 0)
            self.assertEqual(server.left(), [])

    def test_a_deleted_working_directory(self):
        directory = f"/tmp/sp-gone-{os.getpid()}"
        os.mkdir(directory)
        wrap = ["sh", "-c", f"cd {directory} && rmdir {directory} && exec \"$@\"", "sh"]
        with Server(wrap=wrap) as server:
            self.assert_alive(server)

    def test_closed_standard_error(self):
        with Server(wrap=["sh", "-c", 'exec "$@" 2>&-', "sh"]) as server:
            self.assert_alive(server)

    def test_standard_error_that_is_not_read(self):
        env = {**os.environ, "SANDPIPER_LOG": "trace"}
        with Server(env=env, stderr=subprocess.PIPE) as server:
            for _ in range(300):
                server.request("ping")
            self.assert_alive(server)
            server.process.stderr.close()
            self.assert_alive(server)

    def test_signals_ignored_or_blocked_by_the_client(self):
        wrap = ["python3", "-c", "import os, signal, sys\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
                "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 13, 15, 17)]\n"
                "os.execvp(sys.argv[1], sys.argv[1:])"]
        with Server(wrap=wrap) as server:
            self.assert_alive(server)
            self.assert_prints(server.python(
                "import subprocess; print(subprocess.run(['sh', '-c', 'kill $$']).returncode)"),
                "-15")

    def test_exits_are_noticed_with_sigchld_ignored(self):
        with Server(wrap=("env", "--ignore-signal=CHLD")) as server:
            server.python("kept = 41")
            result = server.python("import os; os._exit(3)")
            self.assertEqual(result.status.parts[0], "exit code 3", result.text)
            self.assert_prints(server.python("print(kept + 1)"), "42")

    def test_a_limit_on_files_is_an_error_and_the_server_stays(self):
        limited = ("prlimit", "--fsize=65536:65536", "--")
        with Server(wrap=limited) as server:
            result = server.call("run_python", code="print(6 * 7)")
            self.assertTrue(result.is_error, result.text)
            self.assertIn("File too large", result.text)
            self.assertEqual(server.request("ping")["result"], {})

    @unittest.skipIf(CONTAINER, "isolation: this level has no /proc")
    def test_what_is_not_loaded_yet_takes_no_memory_of_the_session(self):
        with Server() as server:
            maps = server.python("print(open('/proc/self/maps').read())").text
        for kind in "/modules.", ".pyc":
            self.assertIn(kind, maps)

    def test_too_few_descriptors_are_an_error_and_the_server_stays(self):
        for most in (33, 100):
            with self.subTest(most), Server(wrap=("prlimit", f"--nofile={most}:{most}", "--")) as server:
                result = server.call("run_python", code="print(6 * 7)")
                self.assertTrue(result.is_error, result.text)
                self.assertIn(f"at most {most} files may be open at once", result.text)
                self.assertIn("ulimit -Hn", result.text)
                self.assertEqual(server.request("ping")["result"], {})

    def test_descriptors_suffice_for_all_sessions(self):
        with Server(wrap=("prlimit", "--nofile=128:128", "--")) as server:
            for name in "abcdefghijklmno":
                self.assert_prints(server.python("print('began')", session=name), "began")

    def test_descriptors_left_open_by_the_client_stay_outside(self):
        wrap = ["python3", "-c", "import os, sys\nfor n in range(20, 40):\n"
                "    os.dup2(os.open('/etc/passwd', os.O_RDONLY), n)\n"
                "os.execvp(sys.argv[1], sys.argv[1:])"]
        with Server(wrap=wrap) as server:
            result = server.python("import os\nfor fd in range(3, 256):\n    try:\n"
                                   "        data = os.pread(fd, 10, 0)\n"
                                   "        if b'root' in data: print('leak', fd)\n"
                                   "    except OSError: pass")
            self.assertNotIn("leak", result.text)

    def test_time_limits_hold_when_the_client_stops_reading(self):
        with Server() as server:
            self.assert_alive(server)
            server.stop_reading()
            ids = [server.start_call("run_python", code="print('x' * 15000)", session="default")
                   for _ in range(40)]
            last = server.start_call("run_python", code="while True: pass", timeout_s=1)
            time.sleep(3)
            server.go_on_reading()
            for request_id in ids:
                self.assert_ok(server.finish_call(request_id))
            self.assertEqual(server.finish_call(last).status.kind, "timeout")

    def test_a_client_that_never_reads_can_end_the_server(self):
        with Server(check=False) as server:
            server.python("1")
            server.stop_reading()
            for _ in range(60):
                server.start_call("run_python", code="print('x' * 15000)")
            time.sleep(1)
            server.close_stdin()
            self.assertIsNotNone(server.join())
            self.assertEqual(server.left(), [])

    @once
    def test_a_long_session_does_not_grow(self):
        with Server() as server:
            for _ in range(50):
                server.python("print('x' * 1000)")
            before = resident_kb(server.pid)
            for _ in range(300):
                server.python("print('x' * 1000)")
            self.assertLess(resident_kb(server.pid) - before, 2048 * LARGE)
            if not os.access(f"/proc/{server.pid}/fd", os.R_OK):
                self.skipTest("proc: this user is not shown what the server has open")
            before = len(os.listdir(f"/proc/{server.pid}/fd"))
            for _ in range(10):
                server.python("import os; os._exit(1)")
            self.assert_alive(server)
            self.assertLessEqual(len(os.listdir(f"/proc/{server.pid}/fd")), before + 2)


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


if __name__ == "__main__":
    unittest.main()
