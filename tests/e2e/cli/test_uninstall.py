"""make uninstall: removes what was installed and nothing else, and says so where it may not."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from client import ROOT, Case

FILES = ("bin/sandpiper", "share/man/man1/sandpiper.1", "share/sandpiper/seccomp/sandpiper.json",
         "share/sandpiper/apparmor.d/sandpiper", "lib/systemd/system/sandpiper-server@.service.d/10.conf")


class Namespaces(unittest.TestCase):
    """What make install does on a machine with Ubuntu's rule."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory(prefix="sp-apparmor-")
        self.addCleanup(temp.cleanup)
        self.place = pathlib.Path(temp.name)
        for name in ("bin", "etc/apparmor.d", "proc/sys/kernel"):
            (self.place / name).mkdir(parents=True)
        self.rule = self.place / "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
        self.rule.write_text("1\n")
        self.profile = self.place / "etc/apparmor.d/sandpiper"
        self.program("apparmor_parser", f'echo "$@" >> {self.place}/loaded')
        self.program("id", "echo 0")

    def program(self, name, text):
        path = self.place / "bin" / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def allow(self, word="/usr/local/bin/sandpiper"):
        done = subprocess.run(["sh", ROOT / "build-aux" / "allow_namespaces.sh", word, self.place], capture_output=True, text=True,
                              env={"PATH": f"{self.place}/bin:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def loaded(self):
        path = self.place / "loaded"
        return path.read_text().split() if path.exists() else []

    def test_root_loads_the_profile_and_uninstall_removes_it(self):
        self.assertIn("is loaded", self.allow())
        self.assertEqual(self.loaded(), ["-r", str(self.profile)])
        self.assertIn("is loaded", self.allow())
        self.allow("remove")
        self.assertFalse(self.profile.exists())
        self.assertEqual(self.loaded()[-2:], ["-R", str(self.profile)])

    def test_make_install_names_the_program_that_it_has_installed(self):
        """Its prefix was given to the first make."""
        log = self.place / "build" / "meson-logs" / "install-log.txt"
        log.parent.mkdir(parents=True)
        log.write_text("# List\n/opt/x/bin/sandpiper\n/opt/x/share/bash-completion/completions/sandpiper\n")
        line = subprocess.run(["make", "-s", "-n", "install", f"BUILD={self.place}/build"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.splitlines()[-1]
        self.program("sh", 'echo "$2"')
        done = subprocess.run(["/bin/sh", "-c", line], cwd=ROOT, capture_output=True, text=True, env={"PATH": f"{self.place}/bin:{os.environ['PATH']}"})
        self.assertEqual(done.stdout, "/opt/x/bin/sandpiper\n")

    def test_the_profile_of_a_package_or_another_program_stays(self):
        """The .deb links to its own, for the same paths."""
        own = self.place / "own"
        own.write_bytes((ROOT / "packaging" / "apparmor.d" / "sandpiper").read_bytes())
        self.profile.symlink_to(own)
        self.assertIn("is loaded", self.allow())
        self.allow("remove")
        self.assertTrue(self.profile.is_symlink())
        self.profile.unlink()
        self.allow()
        program = self.place / "usr/bin/sandpiper"
        program.parent.mkdir(parents=True)
        program.write_text("")
        self.allow("remove")
        self.assertTrue(self.profile.exists())
        self.assertNotIn("-R", self.loaded())

    def test_else_it_prints_the_two_commands(self):
        self.program("id", "echo 1000")
        self.assertRegex(self.allow(), r"Run:\n    sudo install -m 644 /\S+ \S+\n    sudo apparmor_parser -r \S+\n$")
        self.program("id", "echo 0")
        self.program("apparmor_parser", "exit 1")
        self.assertIn("sudo apparmor_parser -r", self.allow())
        self.profile.write_text("# mine\n")
        self.assertIn("sudo install", self.allow())
        self.allow("remove")
        self.assertEqual(self.profile.read_text(), "# mine\n")

    def test_elsewhere_it_does_nothing(self):
        self.assertIn("/opt/bin/sandpiper doctor", self.allow("/opt/bin/sandpiper"))
        self.rule.write_text("0\n")
        self.assertEqual(self.allow(), "")
        self.rule.unlink()
        self.assertEqual(self.allow(), "")
        self.assertEqual(self.loaded(), [])


class Uninstall(Case):
    def setUp(self):
        super().setUp()
        temp = tempfile.TemporaryDirectory(prefix="sp-uninstall-")
        self.addCleanup(temp.cleanup)
        self.place = pathlib.Path(temp.name)
        self.place.chmod(0o755)
        log = self.place / "build" / "meson-logs" / "install-log.txt"
        log.parent.mkdir(parents=True)
        log.write_text("# List of files installed by Meson\n" + "".join(f"{self.place}/usr/{name}\n" for name in FILES))
        for name in FILES:
            path = self.place / "usr" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def uninstall(self):
        return subprocess.run([sys.executable, "-B", ROOT / "build-aux" / "uninstall.py", self.place / "build"],
                              capture_output=True, text=True)

    def left(self):
        return sorted(str(path.relative_to(self.place / "usr")) for path in (self.place / "usr").rglob("*"))

    def test_files_and_own_directories_are_removed(self):
        other = self.place / "usr" / "share" / "man" / "man1" / "other.1"
        other.write_text("")
        done = self.uninstall()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.left(), ["bin", "lib", "lib/systemd", "lib/systemd/system", "share", "share/man",
                                       "share/man/man1", "share/man/man1/other.1"])
        self.assertEqual(done.stdout, "5 files removed\n")
        done = self.uninstall()
        self.assertEqual((done.returncode, done.stdout), (0, "0 files removed\n"))

    def test_directories_that_the_installation_has_made_are_removed(self):
        with open(self.place / "build" / "meson-logs" / "install-log.txt", "a") as log:
            log.write(f"{self.place}/usr/lib/systemd/system\n{self.place}/usr/lib/systemd\n{self.place}/usr/bin\n")
        (self.place / "usr" / "bin" / "other").write_text("")
        done = self.uninstall()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.left(), ["bin", "bin/other", "lib", "share", "share/man", "share/man/man1"])

    def test_what_cannot_be_removed_is_an_error(self):
        program = self.place / "usr" / FILES[0]
        program.unlink()
        program.mkdir()
        done = self.uninstall()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{program}: ", done.stderr)
        self.assertIn("sudo make uninstall", done.stderr)


if __name__ == "__main__":
    import unittest

    unittest.main()
