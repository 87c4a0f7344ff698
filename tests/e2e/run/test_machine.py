"""What programs read of /proc and /sys to know their machine: it is there, and true for the sandbox.

Code sees it as outside, bounded by the sandbox's limits. test_attacks.py has what code must not see there.
"""
import os
import shutil
import subprocess
import unittest

from client import Case, Server, once, writable_cgroup
from container_level import CONTAINER

SYSTEM_PYTHON = "/usr/bin/python3"
ONE = min(os.sched_getaffinity(0))
ONLY_ONE = ["taskset", "-c", str(ONE)]
FIGURES = "def figures(name): return {row.split()[0]: int(row.split()[1]) << 10 for row in open('/proc/meminfo')}[name + ':']\n"
TIMES = "def times(): return [int(word) for word in open('/proc/stat').readline().split()[1:]]\n"


@unittest.skipIf(CONTAINER, "isolation: this level has no /proc of its own")
class Machine(Case):
    def output(self, server, code, **arguments):
        result = server.python(code, **arguments)
        self.assert_ok(result)
        return result.output.strip()


class Processors(Machine):
    def test_all_ways_to_count_them_agree(self):
        code = ("import multiprocessing, os, re, subprocess\nnames = [n for n in os.listdir('/sys/devices/system/cpu') if re.match(r'cpu\\d', n)]\n"
                "print(len({os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0)), int(subprocess.check_output('nproc')), "
                "open('/proc/cpuinfo').read().count('processor\\t:'), len(re.findall(r'(?m)^cpu\\d', open('/proc/stat').read())), "
                "os.sysconf('SC_NPROCESSORS_CONF'), len(names) or os.cpu_count()}), os.cpu_count())")
        with Server() as server:
            self.assertEqual(self.output(server, code), f"1 {len(os.sched_getaffinity(0))}")
        with Server(wrap=ONLY_ONE) as server:
            self.assertEqual(self.output(server, code), "1 1")

    def test_those_of_the_sandbox_have_their_own_numbers(self):
        code = "import re\nprint(re.findall(r'(?m)^processor\\t: (\\d+)', open('/proc/cpuinfo').read()), open('/sys/devices/system/cpu/online').read())"
        last = str(max(os.sched_getaffinity(0)))
        with Server(wrap=["taskset", "-c", last]) as server:
            self.assertEqual(self.output(server, code), f"['{last}'] {last}")
            self.assertEqual(self.output(server, "import os; print(os.cpu_count(), os.sched_getaffinity(0))"), f"1 {{{last}}}")

    def test_a_limit_bounds_their_number(self):
        if not writable_cgroup("cpu"):
            self.skipTest("cgroup: no writable one for processors")
        with Server("--cpus", "0.5") as server:
            self.assertEqual(self.output(server, "import os; print(os.cpu_count(), open('/sys/fs/cgroup/cpu.max').read())"), "1 50000 100000")

    @once
    def test_cpuinfo_is_the_hosts(self):
        with Server() as server, open("/proc/cpuinfo") as file:
            inside = self.output(server, "print(open('/proc/cpuinfo').read())").split("\n")
            outside = file.read().split("\n")
            self.assertEqual([line for line in inside if line not in outside and "MHz" not in line], [])
            self.assertGreater(len(inside), 1)


class Memory(Machine):
    def test_it_is_the_limit_and_what_is_left_of_it(self):
        with Server("--memory", "300M") as server:
            self.assertEqual(self.output(server, FIGURES + "print(figures('MemTotal') >> 20, figures('MemAvailable') > 200 << 20)"), "300 True")
            code = ("import time\ndef wait(until):\n    end = time.monotonic() + 30\n    while not until() and time.monotonic() < end: time.sleep(0.1)\n"
                    "    print(until(), end=' ')\n"
                    "hog = bytearray(120 << 20)\nwait(lambda: figures('MemAvailable') < 180 << 20)\n"
                    "del hog\nwait(lambda: figures('MemAvailable') > 200 << 20)\nprint(figures('MemFree') <= figures('MemAvailable'))")
            self.assertEqual(self.output(server, code, timeout_s=80), "True True True")
            self.assertEqual(self.output(server, "print(open('/sys/fs/cgroup/memory.max').read())"), str(300 << 20))


class Time(Machine):
    def test_processor_time_is_the_sandboxs(self):
        spin = ("import time\nbefore, end = times(), time.monotonic() + 60\n"
                "while sum(times()[:3]) < sum(before[:3]) + 30 and time.monotonic() < end: pass\n"
                "print(sum(times()[:3]) >= sum(before[:3]) + 30, times()[3] >= before[3])")
        with Server() as server:
            self.assertEqual(self.output(server, TIMES + spin, timeout_s=100), "True True")
            # What a process outside does is not in it.
            with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as outside:
                same = self.output(server, "before = sum(times()[:3])\ntime.sleep(2)\nprint(sum(times()[:3]) - before < 100)")
                outside.kill()
            self.assertEqual(same, "True")

    def test_starts_of_processes_are_true(self):
        code = ("import os, time\nboot = int([row for row in open('/proc/stat') if row.startswith('btime')][0].split()[1])\n"
                "def started(pid): return boot + int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[19]) / os.sysconf('SC_CLK_TCK')\n"
                "at = time.time()\npid = os.posix_spawn('/bin/sleep', ['sleep', '9'], {})\nthen = started(pid)\nos.kill(pid, 9); os.waitpid(pid, 0)\n"
                "up = float(open('/proc/uptime').read().split()[0])\n"
                "print(at - 3 < then < time.time() + 3, abs(up - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60)")
        with Server() as server:
            self.assertEqual(self.output(server, code), "True True")


class Programs(Machine):
    def test_they_work(self):
        wanted = {
            "free -b": r"(?m)^Mem: +1073741824 ", "top -b -n1": r"MiB Mem : +1024\.0 total(.*\n)+.*sandpip", "vmstat": r"(?m)^ *\d+ +\d+ +0 +\d+",
            "uptime": r"load average", "lscpu": r"(?m)^CPU\(s\): +%d$" % len(os.sched_getaffinity(0)), "ps aux": r"%MEM(.*\n)+.*sandpiper-init",
            "pstree": "sandpiper-init", "nproc": r"^%d\n" % len(os.sched_getaffinity(0)),
            "node -p require('os').cpus().length+`/`+require('os').totalmem()": r"%d/1073741824" % len(os.sched_getaffinity(0)),
        }
        with Server() as server:
            for command, shown in wanted.items():
                if not shutil.which(command.split()[0], path="/usr/bin:/bin"):
                    continue
                with self.subTest(command=command):
                    done = server.python(f"import subprocess\nprint(subprocess.run({command.split()!r}, capture_output=True, text=True).stdout)")
                    self.assertRegex(done.text, shown)

    def test_psutil(self):
        if subprocess.run([SYSTEM_PYTHON, "-c", "import psutil"], capture_output=True).returncode:
            self.skipTest("psutil: not installed")
        code = ("import os, psutil\nprint(psutil.cpu_count() == os.cpu_count(), psutil.virtual_memory().total, psutil.swap_memory().total, "
                "0 < psutil.virtual_memory().available <= 1 << 30, psutil.disk_io_counters(), psutil.Process().memory_percent() > 0, "
                "len(psutil.cpu_percent(percpu=True)) == os.cpu_count(), 1 in psutil.pids())")
        with Server("--python", SYSTEM_PYTHON) as server:
            self.assertEqual(self.output(server, code), "True 1073741824 0 True None True True True")

    @once
    def test_its_own_network_is_in_sys(self):
        with Server() as server:
            self.assertEqual(self.output(server, "import os; print(os.listdir('/sys/class/net'), open('/sys/class/net/lo/mtu').read())"), "['lo'] 65536")


if __name__ == "__main__":
    unittest.main()
