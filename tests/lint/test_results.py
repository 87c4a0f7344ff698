"""What the tests print and how it is read: tap.py makes lines of TAP, build-aux/check.py names each skip with its reason."""
import contextlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]


def printed(case):
    """The lines for the tests of a class."""
    result, out = tap.Tap(), io.StringIO()
    with contextlib.redirect_stdout(out):
        unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromTestCase(case)]).run(result)
    return out.getvalue().splitlines()


class Lines(unittest.TestCase):
    def test_a_text_of_several_lines_is_a_comment(self):
        class Case(unittest.TestCase):
            def test_one(self):
                with self.subTest("first\nsecond. third"):
                    self.fail("why\r\nelse")

        lines = printed(Case)
        self.assertEqual(lines[-1], "not ok 1 - test_one")
        self.assertEqual([line for line in lines[:-1] if not line.startswith("# ")], [])

    def test_a_skip_has_the_name_of_its_test_and_its_reason_on_one_line(self):
        class Case(unittest.TestCase):
            def test_one(self):
                with self.subTest("first. second"):
                    self.skipTest("mount: not\npermitted")

        class All(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise unittest.SkipTest("root: needed")

            def test_one(self):
                pass

        self.assertEqual(printed(Case), ["ok 1 - test_one # SKIP mount: not permitted"])
        self.assertEqual(printed(All), ["ok 1 - All # SKIP root: needed"])


def load_check():
    spec = importlib.util.spec_from_file_location("check", ROOT / "build-aux" / "check.py")
    check = sys.modules["check"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    return check


class Read(unittest.TestCase):
    def test_a_skip_of_cmocka_has_its_reason(self):
        text = "TAP version 13\n1..3\n# skipped: root: needed\nnot ok 1 # SKIP one\nok 2 - two\nok 3 # SKIP three\nok 4 - four # SKIP why\n"
        self.assertEqual(load_check().read_tap(text), (1, [], [("one", "root: needed"), ("three", "no reason given"), ("four", "why")]))


class End(unittest.TestCase):
    def test_what_tests_left_is_removed_whatever_its_depth_and_modes(self):
        here = os.open(".", os.O_PATH)
        self.addCleanup(os.close, here)
        self.addCleanup(os.fchdir, here)
        directory = tempfile.mkdtemp(prefix="sp-end-")
        os.chdir(directory)
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
        os.fchdir(here)
        for name, target in (("closed", None), ("symlink", "/")):
            path = os.path.join(directory, name)
            os.symlink(target, path) if target else os.makedirs(path + "/below")
        os.chmod(os.path.join(directory, "closed"), 0)
        load_check().remove(directory)
        self.assertFalse(os.path.exists(directory))

    def test_an_interrupt_ends_what_runs_and_what_would_follow(self):
        """The directory of temporary files is gone, and each run is named that was not made."""
        script = f"""
import sys, threading, signal, os
sys.path.insert(0, {str(ROOT / "build-aux")!r})
import check
def planned(wanted, stack):
    yield check.Run("one", ("unit",), check.ROOT / "none", setup=("--help",))
    yield check.Run("two", ("unit",), check.ROOT / "none")
def build(run, behind):
    if run.name == "one":
        print(os.environ["TMPDIR"], flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    check.call(run, ["sleep", "1000"])
check.planned, check.build, check.run_tests = planned, build, lambda *_: check.call(planned, ["sleep", "1000"])
sys.argv = ["check.py", "quick"]
sys.exit(check.main())
"""
        done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count("not run: the check was interrupted"), 2, done.stdout)
        self.assertFalse(os.path.exists(done.stdout.splitlines()[1]))


class Tools(unittest.TestCase):
    def test_of_another_version_they_check_and_change_nothing(self):
        for tool, *arguments in ("clang-format", "write", "."), ("clang-format", "format", "."), ("clang-tidy", "tidy", ".", "build"):
            with self.subTest(arguments[0]), tempfile.TemporaryDirectory() as directory:
                place = pathlib.Path(directory)
                (place / tool).write_text("#!/bin/sh\necho Debian version 19.1.7\n[ $1 = --version ] || /usr/bin/touch changed\n")
                (place / tool).chmod(0o755)
                done = subprocess.run([sys.executable, ROOT / "tests" / "lint" / "c_files.py", *arguments], capture_output=True, text=True,
                                      cwd=place, env={**os.environ, "PATH": directory})
                self.assertEqual(done.returncode, 77)
                self.assertIn(f"{tool}: version 19.1.7, not version 14.", done.stdout)
                self.assertFalse((place / "changed").exists())


if __name__ == "__main__":
    unittest.main()
