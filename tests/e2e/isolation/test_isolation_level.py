"""Isolation levels: which one an enclosing container allows, how it is reported, and which one the user may require.

The tests imitate one property of a container: mounts hide parts of /proc, so that the kernel refuses a new /proc to
user namespaces.
"""
import os
import shutil
import signal
import subprocess
import unittest

from client import BINARY, Case, Server, need_userns
from test_isolation_report import doctor, instructions, without
from traces import command_of, descendants

MASK = 'mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"'
MASKED = ["unshare", "-Urm", "sh", "-c", MASK, "sh"]
# As in most containers, no control group is writable either.
BARE = [*MASKED[:-2], "mount -t tmpfs none /sys/fs/cgroup && " + MASK, "sh"]


class Isolation(Case):
    def setUp(self):
        need_userns()

    def need_masked(self):
        if subprocess.run([*MASKED, "true"], capture_output=True).returncode:
            self.skipTest("mount: /proc cannot be masked here")


class WithoutProc(Isolation):
    def setUp(self):
        super().setUp()
        self.need_masked()

    def test_falls_back_and_reports_it(self):
        status, report, layers = doctor(wrap=MASKED)
        self.assertEqual((status, report["isolation"]), (1, "full without /proc"))
        self.assertTrue(report["usable"] and report["proven"])
        self.assertEqual(layers["mounts"]["state"], "degraded")
        self.assertTrue(layers["mounts"]["consequence"] and layers["mounts"]["remedy"])
        with Server(wrap=MASKED) as server:
            first = server.python("import os\nprint(sorted(os.listdir('/proc')))")
            self.assertEqual(first.output.split("\n")[0], "['cpuinfo', 'filesystems', 'meminfo', 'stat', 'sys', 'version', 'vmstat']")
            self.assertRegex(first.text, r"isolation: degraded \(mounts[,)]")
            self.assertIn("Isolation: full without /proc.", instructions(server))
            figures = server.python("print(open('/proc/meminfo').readline().split()[1], open('/proc/cpuinfo').read().count('processor\t:') == os.cpu_count())\n"
                                    "open('/proc/meminfo', 'w')")
            self.assertEqual(figures.output.split("\n")[0], f"{1 << 20} True")
            self.assertIn("Read-only file system", figures.text)

    def test_full_isolation_on_demand_is_refused(self):
        for arguments in (("--isolation", "full"), ("--require", "mounts")):
            with self.subTest(arguments=arguments):
                status, report, layers = doctor(*arguments, wrap=MASKED)
                self.assertEqual((status, report["usable"]), (2, False))
                self.assertIn("mounts: ", report["refusal"])
                with Server(*arguments, wrap=MASKED) as server:
                    self.assertIn("/proc", self.refused(server))

    def refused(self, server):
        result = server.python("print('code ' + 'ran')")
        self.assertTrue(result.is_error, result.text)
        self.assertNotIn("code ran", result.text)
        return result.text

    def test_failover_restores_the_state_and_kills_other_processes(self):
        """init finds processes by their pids here."""
        with Server(wrap=MASKED) as server:
            self.assert_ok(server.python("x = 41\nimport os, subprocess"))
            self.assert_ok(server.python("subprocess.Popen(['sleep', '1000'], start_new_session=True)"))
            lost = server.python("os.kill(os.getpid(), 9)")
            self.assertIn("state: ", lost.text)
            self.assertEqual(server.python("print(x + 1)").output.split("\n")[0], "42")
            self.assertFalse([pid for pid in descendants(server.process.pid)
                              if command_of(pid).startswith(b"sleep")])

    def test_memory_is_bounded_without_a_control_group(self):
        with Server("--memory", "256M", wrap=BARE) as server:
            self.assert_ok(server.python("x = 41"))
            bomb = server.python("hog = bytearray(600 << 20)\nwhile True: pass", timeout_s=60)
            self.assertIn("memory", bomb.text.split("\n[")[-1])
            self.assertEqual(server.python("print(x + 1)").output.split("\n")[0], "42")

    def test_event_queues_are_bounded_without_a_control_group(self):
        """Their items are memory that no process's figures contain."""
        with Server("--memory", "64M", wrap=BARE) as server:
            result = server.python(
                "import os, select, time\npids = []\nfor n in range(20):\n    pids.append(os.fork())\n"
                "    if pids[-1] == 0:\n        files = [os.eventfd(0) for _ in range(200)]\n"
                "        queues = [select.epoll() for _ in range(290)]\n"
                "        for queue in queues:\n            for file in files: queue.register(file, 1)\n"
                "        time.sleep(60); os._exit(0)\n"
                "end = time.monotonic() + 30\nwhile os.waitpid(-1, os.WNOHANG)[0] == 0 and time.monotonic() < end: time.sleep(0.1)\n"
                "print(time.monotonic() < end)\nfor pid in pids: os.kill(pid, 9)", timeout_s=60)
            self.assertTrue(result.status.kind == "out of memory" or result.output.startswith("True"), result.text)

    def test_the_keeper_of_files_outlives_sessions_that_hold_too_much(self):
        """All of them end where the owner of what is too much is unknown."""
        hoard = ("import socket, time\nkept = []\nfor n in range(20):\n"
                 "    kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(f'\\0{n}'); kept[-1].listen(100)\n"
                 "    for _ in range(90):\n        with socket.socket(socket.AF_UNIX) as end: end.connect(kept[-1].getsockname())\n"
                 "time.sleep(60)")
        with Server("--memory", "64M", wrap=BARE) as server:
            self.assert_ok(server.python("open('a', 'w').write('1')"))
            self.assert_ok(server.python("open('a', 'w').write('22')"))
            self.assert_kind(server.python(hoard, timeout_s=60), "out of memory")
            back = server.python("print(open('a').read())", undo=True)
            self.assertNotIn("files are not rolled back", back.text)

    def test_a_sandbox_without_its_process_monitor_exits(self):
        with Server(wrap=BARE) as server:
            self.assert_ok(server.python("x = 1"))
            monitor, = [pid for pid in descendants(server.process.pid)
                        if command_of(pid).startswith(b"sandpiper-monitor")]
            os.kill(monitor, signal.SIGKILL)
            lost = server.python("print('x' in globals())")
            while lost.output.startswith("True"):  # the call was quicker than the news of the end
                lost = server.python("print('x' in globals())")
            self.assertEqual(server.python("print(6 * 7)").output.split("\n")[0], "42", lost.text)

    def test_multiprocessing_spawns(self):
        with Server(wrap=MASKED) as server:
            result = server.python(
                "import multiprocessing\ndef double(n):\n    return 2 * n\n"
                "with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                "    print(pool.map(double, [21]))", timeout_s=60)
            self.assertEqual(result.output.split("\n")[0], "[42]")


class InsideBubblewrap(Isolation):
    """On a read-only mount of this machine, as assistants start their tools."""

    BWRAP = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run",
             "--unshare-all", "--unshare-user", "--die-with-parent"]

    def setUp(self):
        super().setUp()
        if not shutil.which("bwrap") or subprocess.run([*self.BWRAP, "true"], capture_output=True).returncode:
            self.skipTest("bwrap: not here, or it cannot start")

    def test_user_namespaces_that_are_left_are_used(self):
        status, report, layers = doctor(wrap=self.BWRAP)
        self.assertTrue(report["usable"], report["refusal"])
        self.assertIn(report["isolation"], ("full", "full without /proc"))

    def test_with_user_namespaces_disabled_the_refusal_names_the_option(self):
        closed = [*self.BWRAP, "--disable-userns"]
        if subprocess.run([*closed, "true"], capture_output=True).returncode:
            self.skipTest("bwrap: no --disable-userns")
        status, report, layers = doctor(wrap=closed)
        self.assertEqual((status, report["usable"]), (2, False))
        self.assertIn("--disable-userns", report["refusal"])
        if layers["landlock"]["state"] == "on":
            status, report, layers = doctor("--isolation", "container", wrap=closed)
            self.assertTrue(report["usable"], report["refusal"])


class Enclosing(Isolation):
    def test_code_with_roots_id_changes_no_file_of_the_kernel(self):
        """In a user namespace that maps one id, which root has made, code has root's: the mode would change for all."""
        with Server(wrap=["unshare", "-Ur"]) as server:
            for name in ("loadavg", "version", "meminfo", "interrupts"):
                self.assertIn("Read-only file system", server.python(f"import os; os.chmod('/proc/{name}', 0o444)").text)

    def test_a_refused_hostname_change_is_reported(self):
        status, report, layers = doctor(wrap=without("sethostname:EPERM"))
        self.assertEqual((report["isolation"], report["usable"]), ("full", True))
        self.assertIn("the hostname is the host's", layers["namespaces"]["detail"])
        self.assertNotIn("hostname is the host's", doctor()[2]["namespaces"]["detail"])

    def test_best_chooses_the_strongest_level_available(self):
        self.assertEqual(doctor("--isolation", "best")[1]["isolation"], "full")
        refused = without("pivot_root:EPERM")
        status, report, layers = doctor(wrap=refused)
        self.assertEqual((status, report["not_promised"]), (2, []))
        if layers["landlock"]["state"] != "on":
            self.skipTest("landlock: the kernel has none")
        self.assertIn("--isolation=container", report["refusal"])
        status, report, layers = doctor("--isolation", "best", wrap=refused)
        self.assertEqual((report["isolation"], report["usable"]), ("container", True))
        self.assertIn("code can detect other processes", report["not_promised"])

    def test_the_flag_overrides_the_variable(self):
        def says(value, *arguments):
            done = subprocess.run([BINARY, "doctor", "--effective", *arguments], text=True,
                                  env={**os.environ, "SANDPIPER_ISOLATION": value},
                                  capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            line = next(line for line in done.stdout.splitlines() if line.startswith("isolation "))
            return " ".join(line.split()[1:])
        self.assertEqual(says(""), "auto default")
        self.assertEqual(says("full"), "full SANDPIPER_ISOLATION")
        self.assertEqual(says("full", "--isolation=auto"), "auto command line")

    def test_an_unknown_level_is_refused(self):
        done = subprocess.run([BINARY, "doctor", "--isolation", "none"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--isolation takes ", done.stderr)


if __name__ == "__main__":
    unittest.main()
