"""The static files of a release: a reproducible build, no dependencies, and runs on Debian 12 to 14 with name service
modules, where a static program of glibc dies at its first name look-up."""
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "build-aux" / "dist")]

import programs  # noqa: E402

HOSTVM = [sys.executable, "-B", ROOT / "tests" / "machines" / "hostvm.py"]
NO_HOST = 125
NAME_SERVICES = """passwd: compat systemd
group: compat systemd
hosts: hesiod mdns4_minimal [NOTFOUND=return] files dns
"""
ASKS = """#include <pwd.h>
#include <stdio.h>
int main(void) { printf("asked %d\\n", getpwuid(4711) != NULL); return 0; }
"""
PT_DYNAMIC, PT_INTERP, DT_NEEDED = 2, 3, 1


def dist(tree, out):
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(programs.source_time())}
    subprocess.run([sys.executable, "-B", tree / "build-aux" / "dist" / "dist.py", out], env=env, check=True,
                   stdout=subprocess.DEVNULL, timeout=900)
    return out


def copy_of_the_tree(target):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0")[:-1]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    return target


def loader_and_libraries(data):
    """The number of loaders and libraries that a 64-bit program names."""
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = 0
    for at in range(offset, offset + size * count, size):
        kind, = struct.unpack_from("<I", data, at)
        begin, length = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<Q", data, at + 32)[0]
        found += kind == PT_INTERP
        if kind == PT_DYNAMIC:
            tags = struct.iter_unpack("<qQ", data[begin:begin + length])
            found += sum(tag == DT_NEEDED for tag, _ in tags)
    return found


class Static(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-static-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.made = dist(ROOT, cls.directory / "made")
        cls.programs = {}
        for path in cls.made.glob("*.tar.gz"):
            with tarfile.open(path) as archive:
                archive.extractall(cls.directory)
            top = cls.directory / path.name.removesuffix(".tar.gz")
            cls.programs[path.name.removesuffix(".tar.gz").rpartition("-")[2]] = top

    def program(self, arch):
        if arch not in self.programs:
            self.skipTest(f"{arch}: its cross compiler and libraries are not installed")
        return self.programs[arch] / "bin" / "sandpiper"

    def test_another_copy_of_the_source_gives_the_same_bytes(self):
        again = dist(copy_of_the_tree(self.directory / "another" / "place"), self.directory / "again")
        self.assertEqual((again / "SHA256SUMS").read_text(), (self.made / "SHA256SUMS").read_text())

    def test_they_need_no_loader_and_no_library(self):
        self.assertGreater(loader_and_libraries(pathlib.Path(sys.executable).read_bytes()), 0)
        for arch in programs.ARCHES.values():
            with self.subTest(arch):
                self.assertEqual(loader_and_libraries(self.program(arch).read_bytes()), 0)

    def test_the_licences_of_all_that_is_linked_in_are_there_in_full(self):
        for arch, top in self.programs.items():
            with self.subTest(arch):
                texts = {path.name: path.read_text() for path in (top / "licences").iterdir()}
                for part in ("libc6-dev", "libcap-dev", "libgcc-", "libjansson-dev", "libseccomp-dev"):
                    self.assertTrue(any(name.startswith(part) for name in texts), f"{part} in {sorted(texts)}")
                self.assertIn("END OF TERMS AND CONDITIONS", texts["LGPL-2.1.txt"])
                self.assertTrue((top / "share/man/man1/sandpiper.1").exists())

    def test_the_protocol_of_the_file_for_arm_under_an_emulator(self):
        if not shutil.which("qemu-aarch64-static"):
            self.skipTest("qemu: no qemu-aarch64-static")
        env = {**os.environ, "SANDPIPER": str(self.program("arm64")), "SANDPIPER_TEST_WRAP": "qemu-aarch64-static"}
        done = subprocess.run([sys.executable, "-B", ROOT / "tests/e2e/tap.py", ROOT / "tests/e2e/isolation/test_emulated.py"],
                              env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("SKIP", done.stdout)

    def test_each_form_of_the_program_is_started_by_the_official_client(self):
        if programs.ARCHES.get(platform.machine()) not in self.programs:
            self.skipTest(f"release: none for {platform.machine()}")
        env = {**os.environ, "SANDPIPER": str(self.program(programs.ARCHES[platform.machine()])),
               "SANDPIPER_TEST_WHOLE": "1"}
        done = subprocess.run([sys.executable, "-B", ROOT / "tests/e2e/tap.py", ROOT / "tests/clients/test_forms.py"],
                              env=env, capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout)
        if "SKIP" in done.stdout:
            self.skipTest(done.stdout[done.stdout.index("SKIP") + 5:].split("\n")[0])

    def on_host(self, host, command):
        (self.directory / "nsswitch.conf").write_text(NAME_SERVICES)
        asks = self.directory / "asks"
        subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", asks], input=ASKS, text=True, check=True,
                       stderr=subprocess.DEVNULL)  # the linker warns of what the program is meant to show
        done = subprocess.run([*HOSTVM, "run", "--host", host, "--kernel", "um", "--no-input", "--timeout", "400",
                               "--copy", f"{self.directory}/nsswitch.conf:/etc/nsswitch.conf", "--copy", f"{asks}:/srv/asks",
                               "--copy", f"{self.program('x64')}:/srv/sandpiper", "--", "sh", "-c", command],
                              capture_output=True, text=True)
        if done.returncode == NO_HOST and "here yet" in done.stderr:
            self.skipTest(f"{host}: no image or kernel (hostvm.py build)")
        return done

    def check_host(self, host, asking_is_deadly):
        done = self.on_host(host, "/srv/asks; echo asks $?; /srv/sandpiper run -c 'print(6 * 7)'; /srv/sandpiper doctor")
        self.assertIn("\n42\n", done.stdout, done.stderr)
        self.assertIn("Tools run code in the sandbox.", done.stdout)
        # The control: a static program of glibc dies here where the test expects it to.
        self.assertEqual("asked 0\nasks 0\n" not in done.stdout, asking_is_deadly, done.stdout)

    def test_debian_12(self):
        self.check_host("debian12-user", asking_is_deadly=False)

    def test_debian_13(self):
        self.check_host("debian13-user", asking_is_deadly=True)

    def test_debian_14(self):
        self.check_host("debian14-user", asking_is_deadly=True)


if __name__ == "__main__":
    unittest.main()
