"""Limits set by flags take effect, and a call that reaches one reports it with numbers."""
import pathlib
import re
import time
import unittest

from client import COMMAND, SLOW, Case, Server, need_userns, once, writable_cgroup
from traces import command_of, descendants, init_of

MEBIBYTE = 1 << 20


class Limits(Case):
    def setUp(self):
        need_userns()

    def test_memory(self):
        with Server("--memory", "128M") as server:
            self.assert_ok(server.python(f"small = bytearray(16 * {MEBIBYTE})"))
            result = server.python("big = [bytearray(1 << 22) for _ in range(256)]")
            self.assertTrue(result.is_error, result.text)
            self.assertIn(result.status.kind, ("out of memory", "error"))
            self.assert_alive(server)
        with Server("--memory", "1G") as server:
            self.assert_ok(server.python(f"big = bytearray(256 * {MEBIBYTE})"))

    @once
    def test_a_table_of_200_megabytes_fits_by_default(self):
        """Its file in memory, its rows, and a checkpoint of them: about 1.5 GB."""
        with Server(command=[*COMMAND]) as server:
            limit = re.search(r"(\d+) MiB of memory", str(server.request("tools/list")))
            if int(limit[1]) < 2048:
                self.skipTest("memory: the machine has too little")
            self.assert_ok(server.python("line = '%d,%.6f,name-%d,' + ','.join(['x' * 20] * 8) + '\\n'\n"
                                         "with open('table.csv', 'w') as file:\n"
                                         "    file.writelines(line % (n, n / 7, n % 1000) for n in range(1_000_000))",
                                         timeout_s=300, wait_s=300, _timeout=310))
            self.assert_ok(server.python("rows = [line.split(',') for line in open('table.csv')]", timeout_s=300, wait_s=300, _timeout=310))
            self.assert_ok(server.python("total = sum(float(row[1]) for row in rows)", timeout_s=300, wait_s=300, _timeout=310))
            self.assertIn("restored to the state before this call", server.python("import os; os._exit(5)").text)
            self.assert_prints(server.python("print(len(rows), round(total))"), "1000000 71428500000")

    def test_a_child_killed_for_memory_is_reported(self):
        with Server("--memory", "128M") as server:
            result = server.python("import os\npids = []\nfor _ in range(3):\n    pids.append(os.fork())\n"
                                   "    if pids[-1] == 0:\n        held = bytearray(80 << 20)\n"
                                   "        held[::4096] = b'x' * len(held[::4096])\n        import time; time.sleep(60)\n"
                                   "gone = os.wait()[0]\nfor pid in pids:\n    if pid != gone: os.kill(pid, 9); os.waitpid(pid, 0)")
            self.assertRegex(result.text, r"memory: limit reached \(--memory 128M\); a process that the code had started was killed|"
                                          r"out of memory: used \d+ of 128 MiB \(--memory\)")
            self.assert_alive(server)

    def test_memory_counts_files_in_memory(self):
        if not writable_cgroup("memory"):
            self.skipTest("cgroup: no memory group can be made here")
        with Server("--memory", "128M", "--disk", "1G") as server:
            result = server.python("with open('/dev/shm/x', 'wb') as f:\n"
                                   "    for _ in range(512): f.write(bytes(1 << 20))", timeout_s=20)
            self.assertTrue(result.is_error, result.text)
            self.assert_alive(server)

    def test_processes(self):
        with Server("--pids", "24") as server:
            result = server.python(
                "import subprocess\nprocs = []\ntry:\n    while len(procs) < 100:\n"
                "        procs.append(subprocess.Popen(['sleep', '9']))\n"
                "except OSError as e: print(e.errno)\n"
                "n = len(procs)\n[p.kill() for p in procs]; [p.wait() for p in procs]\nprint(n)")
            self.assert_ok(result)
            errno, count = result.output.split("\n")[-2:]
            self.assertEqual(errno, "11")
            self.assertLess(int(count), 24)
            self.assertGreater(int(count), 8)

    def test_threads_count_as_processes(self):
        with Server("--pids", "24") as server:
            result = server.python("import threading\ne = threading.Event()\nn = 0\ntry:\n"
                                   "    while n < 100:\n"
                                   "        threading.Thread(target=e.wait).start(); n += 1\n"
                                   "except RuntimeError: pass\ne.set()\nprint(n)")
            self.assertLess(int(result.output), 24)

    def test_disk(self):
        with Server("--disk", "8M") as server:
            for directory in (".", server.here("/tmp")):
                result = server.python(
                    f"import os, errno\nn = 0\nf = open({directory!r} + '/big', 'wb', buffering=0)\n"
                    "try:\n    while n < 256: n += f.write(bytes(1 << 20)) >> 20\n"
                    "except OSError as e: print(errno.errorcode[e.errno])\n"
                    "f.close(); os.unlink(f.name); print(n)")
                self.assert_ok(result)
                name, written = result.output.split("\n")
                self.assertIn(name, ("ENOSPC", "EFBIG", "EDQUOT"))
                self.assertLessEqual(int(written), 9)
            self.assertTrue(server.write("big.txt", "x" * (12 * MEBIBYTE)).is_error)
            self.assertFalse(server.write("small.txt", "x").is_error)

    def test_each_limit_is_named_with_its_flag(self):
        met = {
            "--memory": "x = [bytearray(1 << 22) for _ in range(256)]",
            "--pids": "import os, time\nwhile os.fork(): pass\ntime.sleep(5); os._exit(0)",
            "--disk": "open('big', 'wb').write(bytes(20 << 20))",
            "2 s limit": "import time; time.sleep(60)",
            "capped at 60 s": "pass",
        }
        with Server("--memory", "128M", "--pids", "24", "--disk", "16M", "--timeout", "2",
                    "--max-timeout", "60") as server:
            for word, code in met.items():
                with self.subTest(limit=word):
                    seconds = {"2 s limit": {}, "capped at 60 s": {"timeout_s": 99}}.get(
                        word, {"timeout_s": 60})
                    self.assertIn(word, server.python(code, reset=True, **seconds).text)
            said = server.python("print('x' * 10 ** 7)").text
            self.assertTrue("omitted" in said and len(said) < 20_000, said[-200:])

    def test_timeout_of_a_call_and_by_flag(self):
        with Server("--timeout", "1") as server:
            server.python("1")
            began = time.monotonic()
            result = server.python("import time; time.sleep(60)")
            self.assertLess(time.monotonic() - began, 4 * SLOW)
            self.assertIn("1 s limit", result.status.line)
            self.assert_ok(server.python("import time; time.sleep(1.5)", timeout_s=5))

    def test_maximum_timeout(self):
        with Server("--max-timeout", "2") as server:
            self.assert_ok(server.python("1", timeout_s=2))
            began = time.monotonic()
            self.assertTrue(server.python("while True: pass", timeout_s=60).is_error)
            self.assertLess(time.monotonic() - began, 6 * SLOW)

    def test_processor_share(self):
        if not writable_cgroup("cpu"):
            self.skipTest("cgroup: no cpu group can be made here")
        with Server("--cpus", "0.25") as server:
            result = server.python("import time\nwall, cpu = time.monotonic(), time.process_time()\n"
                                   "while time.monotonic() - wall < 2: pass\n"
                                   "print(time.process_time() - cpu)")
            self.assertLess(float(result.output), 1.0)

    def test_numeric_libraries_get_the_number_of_processors(self):
        with Server("--cpus", "1", "--allow-degraded", "cpu") as server:
            result = server.python("import os; print(os.environ.get('OMP_NUM_THREADS'), "
                                   "os.environ.get('OPENBLAS_NUM_THREADS'))")
            self.assert_prints(result, "1 1")

    def test_core_dumps_are_off_and_descriptors_bounded(self):
        with Server() as server:
            self.assert_prints(server.python(
                "import resource as r\nprint(r.getrlimit(r.RLIMIT_CORE)[1] <= 1, "
                "r.getrlimit(r.RLIMIT_NOFILE)[1] <= 65536)"), "True True")

    def test_a_core_dump_without_limit_has_no_memory_in_it(self):
        """The kernel ignores the limit if core_pattern is a socket. The test reads coredump_filter from outside."""
        mine = pathlib.Path("/proc/self/coredump_filter")
        if not mine.exists():
            self.skipTest("kernel: CONFIG_ELF_CORE is off")
        with Server() as server:
            # exec(2) closes Popen's pipe before the new command line is there; the echo comes after.
            self.assert_ok(server.python("from subprocess import PIPE, Popen\n"
                                         "child = Popen(['cat'], stdin=PIPE, stdout=PIPE, bufsize=0)\n"
                                         "child.stdin.write(b'x')\nassert child.stdout.read(1) == b'x'"))
            waiting = [pid for pid in descendants(server.pid) if command_of(pid).startswith(b"cat\0")]
            self.assertEqual(len(waiting), 1)
            self.assertNotEqual(int(mine.read_text(), 16), 0, "the control")
            for pid in (init_of(server.pid), *waiting):
                self.assertEqual(int(pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(), 16), 0, command_of(pid))

    def test_a_small_memory_limit_does_not_hurt_the_server(self):
        with Server("--memory", "32M") as server:
            for _ in range(3):
                server.python("x = bytearray(1 << 28)")
            self.assertEqual(server.request("ping")["result"], {})


if __name__ == "__main__":
    unittest.main()
