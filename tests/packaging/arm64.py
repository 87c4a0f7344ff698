"""An emulated 64-bit ARM machine: Debian's kernel under QEMU, with only a Python.

    with tempfile.TemporaryDirectory() as directory:
        text = arm64.run({"sandpiper": (data, 0o755)}, "/sandpiper doctor", timeout_s=600)

Everything is in memory: the files of a few arm64 packages, unpacked and never run here, then the job's own. The
packages' files are cached beside the images of tests/machines. It is about twenty times slower than this machine: do
not measure times on it.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "machines"))

import images  # noqa: E402

SUITE = "trixie"
PACKAGES = "busybox-static,python3,linux-image-cloud-arm64"
CACHE = pathlib.Path(images.CACHE) / f"arm64-{SUITE}"
NOT_NEEDED = ("usr/lib/modules/", "usr/share/doc/", "usr/share/man/", "usr/share/locale/", "boot/")
# pivot_root(2) cannot leave rootfs, which holds the initial RAM disk, so everything is moved to a tmpfs first.
INIT = """#!/usr/bin/busybox sh
B=/usr/bin/busybox
if [ -z "$MOVED" ]; then
    $B mkdir -p /proc /new && $B mount -t tmpfs -o size=80% new /new
    for each in bin dev etc job lib sbin tmp usr var root proc sys run init; do $B cp -a /$each /new/ 2>/dev/null; done
    MOVED=1 exec $B switch_root /new /init
fi
export PATH=/usr/bin:/usr/sbin HOME=/root
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
$B mkdir -p /dev/shm /dev/pts; $B mount -t tmpfs shm /dev/shm; $B mount -t devpts pts /dev/pts
$B mount -t cgroup2 cgroup /sys/fs/cgroup
$B ip link set lo up
$B chmod 1777 /tmp /dev/shm
cd /
echo "-- begin"
$B sh /job/command </dev/null 2>&1
echo "-- end $?"
$B poweroff -f
"""


def need():
    """The directory with the kernel and the packages' files; creates it, or skips the test."""
    if not shutil.which("qemu-system-aarch64"):
        raise unittest.SkipTest("qemu: no qemu-system-aarch64 (package qemu-system-arm)")
    if not (CACHE / "root.cpio").exists():
        if os.geteuid() or not shutil.which("mmdebstrap"):
            raise unittest.SkipTest("arm64: its image is made by root, with mmdebstrap")
        build()
    return CACHE


def build():
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        root, lines = pathlib.Path(directory, "root"), pathlib.Path(directory, "sources.list")
        lines.write_text(images.sources(SUITE))
        options = ['Acquire::Languages "none"', 'APT::Install-Recommends "false"', *images.acquire_options()]
        images.sh("mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", "--mode=root", f"--include={PACKAGES}",
                  *[f"--aptopt={option}" for option in options], SUITE, str(root), str(lines))
        for name in ("bin", "lib", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        files = [("init", 0o100755, INIT.encode())]
        for name in ("root", "run", "sys", "job"):
            files.append((name, 0o040755, b""))
        files += entries(root)
        shutil.copy(next((root / "boot").glob("vmlinuz-*")), CACHE / "vmlinuz")
        (CACHE / "root.new").write_bytes(images.newc(files))
        (CACHE / "root.new").rename(CACHE / "root.cpio")


def entries(root):
    """(name, mode, data) of everything below root that the machine needs."""
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(NOT_NEEDED):
            continue
        if path.is_symlink():
            yield name, 0o120777, os.readlink(path).encode()
        elif path.is_dir():
            yield name, 0o040755, b""
        elif path.is_file():
            yield name, 0o100000 | path.stat().st_mode & 0o777, path.read_bytes()


def run(files, command, timeout_s):
    """Runs a shell command there; its output and exit status. files: {name below /job: (data, mode)}."""
    place = need()
    directories = {str(parent) for name in files for parent in pathlib.PurePath("job", name).parents} - {".", "job"}
    job = [(name, 0o040755, b"") for name in sorted(directories)]
    job += [(f"job/{name}", 0o100000 | mode, data) for name, (data, mode) in files.items()]
    job.append(("job/command", 0o100644, command.encode()))
    with tempfile.NamedTemporaryFile(prefix="sp-arm64-") as initrd:
        initrd.write((place / "root.cpio").read_bytes() + images.newc(job))
        initrd.flush()
        machine = subprocess.run(
            ["qemu-system-aarch64", "-M", "virt", "-cpu", "neoverse-n1", "-smp", "2", "-m", "3072", "-nodefaults",
             "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", place / "vmlinuz",
             "-initrd", initrd.name, "-append", "console=ttyAMA0 quiet panic=-1 mitigations=off"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s)
    found = re.search(r"^-- begin\n(.*)^-- end (\d+)$", machine.stdout.replace("\r", ""), re.S | re.M)
    if not found:
        raise AssertionError(f"the machine came to no end: {machine.stdout[-2000:]}{machine.stderr[-2000:]}")
    return found[1], int(found[2])
