"""make uninstall: removes what was installed and nothing else, and says so where it may not."""
import pathlib
import subprocess
import sys
import tempfile

from client import ROOT, Case

FILES = ("bin/sandpiper", "share/man/man1/sandpiper.1", "share/sandpiper/seccomp/sandpiper.json",
         "share/sandpiper/apparmor.d/sandpiper", "lib/systemd/system/sandpiper-server@.service.d/10.conf")


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
        self.assertEqual(self.uninstall().returncode, 0)

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
