"""The Debian package: built, checked by lintian, and installed in virtual machines (tests/machines), where installed.py
runs. SANDPIPER_DEB names an existing package.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTVM = ROOT / "tests" / "machines" / "hostvm.py"
THERE = "/srv/sandpiper"  # in the virtual machine
HOSTVM_FAILED = 125

package = None
directory = None


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", **options)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program}: not installed")


def setUpModule():
    global package, directory
    temp = tempfile.TemporaryDirectory(prefix="sp-deb-")
    unittest.addModuleCleanup(temp.cleanup)
    directory = pathlib.Path(temp.name)
    if os.environ.get("SANDPIPER_DEB"):
        package = pathlib.Path(os.environ["SANDPIPER_DEB"])
        return
    package = build(directory / "built")


def build(target, source=ROOT):
    need("dh", "dpkg-buildpackage")
    seconds = run("git", "-C", ROOT, "log", "-1", "--format=%ct", check=True).stdout.strip()
    done = run(sys.executable, source / "build-aux" / "deb.py", target, env={"SOURCE_DATE_EPOCH": seconds, **os.environ})
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return next(target.glob("sandpiper_*.deb"))


def older(target):
    """The package with a version that sorts before all others."""
    tree = directory / "older"
    run("dpkg-deb", "--raw-extract", package, tree, check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^Version: .*", "Version: 0.0.0~old", control.read_text(), flags=re.M))
    run("dpkg-deb", "--root-owner-group", "--build", tree, target, check=True)
    shutil.rmtree(tree)


def stage():
    """A directory for the machine with the packages and the tests that run there."""
    staged = directory / "stage"
    if not staged.exists():
        shutil.copytree(ROOT / "tests", staged / "tests",
                        ignore=shutil.ignore_patterns("__pycache__", "node_modules", "corpus"))
        for name in ("build-aux/allow_namespaces.sh", "packaging/apparmor.d/sandpiper"):  # of make install
            (staged / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, staged / name)
        older(staged / "old.deb")
        shutil.copy(package, staged / "new.deb")
    return staged


class Built(unittest.TestCase):
    def test_lintian_reports_nothing(self):
        need("lintian")
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_its_contents(self):
        listed = run("dpkg-deb", "--contents", package, check=True).stdout
        names = re.findall(r" \./(\S*[^/\s])$", listed, re.M)
        for name in ("usr/bin/sandpiper", "usr/share/man/man1/sandpiper.1.gz", "usr/share/doc/sandpiper/copyright",
                     "usr/share/doc/sandpiper/CHANGELOG.md.gz", "usr/share/doc/sandpiper/README.md.gz",
                     "usr/share/sandpiper/apparmor.d/sandpiper", "usr/share/sandpiper/seccomp/sandpiper.json",
                     "usr/share/bash-completion/completions/sandpiper",
                     "usr/share/zsh/vendor-completions/_sandpiper", "usr/share/fish/vendor_completions.d/sandpiper.fish",
                     "usr/lib/systemd/system/sandpiper.socket", "usr/lib/systemd/system/sandpiper@.service"):
            self.assertIn(name, names)
        documents = {path.name for path in (ROOT / "docs").glob("*.md")}
        self.assertEqual(documents - {pathlib.PurePath(name).name.removesuffix(".gz") for name in names}, set())
        self.assertEqual([name for name in names if name.startswith("etc/")], [])
        self.assertNotRegex(listed, r"(?m)^-..[sS]|^-.....[sS]")

    def test_another_copy_of_the_source_gives_the_same_bytes(self):
        if os.environ.get("SANDPIPER_DEB"):
            raise unittest.SkipTest("SANDPIPER_DEB: not built here")
        another = directory / "another" / "place"
        for name in run("git", "-C", ROOT, "ls-files", "-z", check=True).stdout.split("\0")[:-1]:
            (another / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, another / name)
        run("git", "-C", another, "init", check=True)
        self.assertEqual(build(directory / "again", another).read_bytes(), package.read_bytes())

    def test_the_version_is_the_program_s(self):
        version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
        self.assertEqual(run("dpkg-deb", "--field", package, "Version").stdout.strip().partition("~")[0], version)


class Installed(unittest.TestCase):
    def look(self, host, kernel, *cases, around=(), seconds=1800):
        """Runs cases of installed.py in a machine; a case that fails there fails here."""
        command = (f"cd {THERE} && PACKAGES={THERE} SANDPIPER=/usr/bin/sandpiper SANDPIPER_TEST_SLOW=10 "
                   f"PYTHONPATH=tests/e2e python3 tests/e2e/tap.py tests/packaging/installed.py {' '.join(cases)}")
        done = run(sys.executable, HOSTVM, "run", "--host", host, "--kernel", kernel, "--user", "root", "--session",
                   "login", "--no-input", "--memory", 2048, "--timeout", seconds, "--copy", f"{stage()}:{THERE}",
                   "--", *around, "sh", "-c", command)
        if done.returncode == HOSTVM_FAILED and re.search(r"no (image|kernel) \S+ here yet", done.stderr):
            raise unittest.SkipTest(f"hostvm: {done.stderr.strip()}")
        said = done.stdout + done.stderr
        found = re.findall(r"^(ok|not ok) \d+ - (\w+)(?: # SKIP (.*))?$", said, re.M)
        self.assertRegex(said, r"(?m)^1\.\.[1-9]", said[-3000:])
        for good, case, skip in found:
            with self.subTest(case=case):
                self.assertFalse(skip, skip)
                self.assertEqual(good, "ok", said[-6000:])

    def test_debian12(self):
        self.look("debian12-root", "um", "Stdio", "Socket")

    def test_debian13(self):
        # Debian 13's own User-Mode Linux may panic (tests/machines/README.md).
        self.look("debian13-root", "um:forky", "Stdio", "Socket")

    def test_debian14(self):
        self.look("debian14-user", "um:forky", "Stdio", "Socket")

    def test_debian12_keeps_apparmor_working(self):
        self.look("debian12-root", "pc", "Profile")

    def test_debian13_loads_the_profile(self):
        self.look("debian13-root", "pc", "Profile")

    def test_ubuntu_s_rule(self):
        self.look("ubuntu2404-user", "pc", "Ubuntu", around=("aa-exec", "-p", "unconfined", "--"))
