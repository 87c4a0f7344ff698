"""Figures of the sandbox, in the form of the files of /proc that psutil reads and that the sandbox does not have.

In the Pythons that code starts, children/sitecustomize.py runs this file, without the driver.
"""
import os
import time
from _io import BytesIO, StringIO


def used():
    """(user ticks, system ticks, pages) of all processes of the sandbox."""
    total = [0, 0, 0]
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%d/stat" % int(name), "rb", 0) as file:
                fields = file.readall().rpartition(b")")[2].split()
            total = [old + int(fields[at]) for old, at in zip(total, (11, 12, 21))]  # proc_pid_stat(5)
        except (OSError, ValueError):  # no process, or one that has ended
            continue
    return total


def text_of(path, memory):
    """memory: the limit in bytes, 0 if it is not known."""
    processors = range(len(os.sched_getaffinity(0)))
    if path == "/proc/stat":
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        user, system, _ = used()
        idle = max(0, int(up * os.sysconf("SC_CLK_TCK")) * len(processors) - user - system)
        row = "%d 0 %d %d 0 0 0 0 0 0\n"
        each = row % tuple(ticks // len(processors) for ticks in (user, system, idle))
        rows = ["cpu  " + row % (user, system, idle)] + ["cpu%d %s" % (number, each) for number in processors]
        return "".join(rows) + "intr 0\nctxt 0\nbtime %d\nprocesses 0\nsoftirq 0\n" % (time.time() - up)
    if path == "/proc/cpuinfo":
        return "".join("processor\t: %d\n\n" % number for number in processors)
    if path == "/proc/meminfo" and memory:
        free = max(0, memory - used()[2] * os.sysconf("SC_PAGE_SIZE")) >> 10
        rows = ("MemTotal", memory >> 10), ("MemFree", free), ("MemAvailable", free), ("SwapTotal", 0), ("SwapFree", 0)
        rows += tuple((name, 0) for name in ("Buffers", "Cached", "Shmem", "Active", "Inactive", "Slab", "SReclaimable"))
        return "".join("%s: %d kB\n" % row for row in rows)
    return "pswpin 0\npswpout 0\n" if path == "/proc/vmstat" else None


def adopt(module, memory):
    """Has psutil._common open these texts where it finds no file."""
    def replace(name, kind):
        original = getattr(module, name)

        def opened(path, *more, **options):
            try:
                return original(path, *more, **options)
            except FileNotFoundError:
                text = text_of(path, memory)
                if text is None:
                    raise
                return kind(text)

        setattr(module, name, opened)

    replace("open_text", StringIO)
    replace("open_binary", lambda text: BytesIO(text.encode()))
