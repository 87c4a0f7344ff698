"""Run one unittest module as TAP, so that meson counts and shows every case and every skip.

The reason of a skip starts with the missing feature and a colon ("userns: refused by this kernel"). A skip for a
feature listed in SANDPIPER_TEST_REQUIRE (comma separated, or "all") fails. A test finds the modules beside itself,
beside this file and in tests/helpers. With SANDPIPER_TEST_AGAIN=1 it leaves out the cases and
classes that are marked with `once` of this_run.py. Further arguments choose cases by name, as unittest does: tap.py test_files.py
Files.test_append
"""
import importlib.util
import os
import pathlib
import sys
import unittest

REQUIRED = {word for word in os.environ.get("SANDPIPER_TEST_REQUIRE", "").split(",") if word}
AGAIN = os.environ.get("SANDPIPER_TEST_AGAIN") == "1"


class Loader(unittest.TestLoader):
    def getTestCaseNames(self, case):
        if AGAIN and "once" in vars(case):
            return []
        return [name for name in super().getTestCaseNames(case)
                if not (AGAIN and hasattr(getattr(case, name), "once"))]


class Tap(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.failed = 0

    def line(self, ok, name, note=""):
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}{note}", flush=True)

    @staticmethod
    def name(test):
        """Of the method; of the class where its preparation failed, whose id is "setUpClass (module.Class)"."""
        return getattr(test, "test_case", test).id().rsplit(".", 1)[-1].rstrip(")")

    @staticmethod
    def comment(text):
        """Lines of TAP, whatever the text has of them."""
        print("# " + "\n# ".join(text.splitlines()), flush=True)

    def addSuccess(self, test):
        self.line(True, self.name(test))

    def addSkip(self, test, reason):
        feature = reason.split(":", 1)[0].strip()
        wanted = feature in REQUIRED or "all" in REQUIRED
        note = " # SKIP " if not wanted else " # required, but "
        self.line(not wanted, self.name(test), note + " ".join(reason.split()))

    def addFailure(self, test, err):
        self.comment(self._exc_info_to_string(err, test).rstrip())
        self.line(False, self.name(test))

    def addError(self, test, err):
        self.addFailure(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.comment(f"in {subtest}")
            self.addFailure(test, err)

    def addExpectedFailure(self, test, err):
        self.line(True, self.name(test))

    def addUnexpectedSuccess(self, test):
        self.line(False, self.name(test), " # passed, but is marked as an expected failure")


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    os.umask(0o022)  # Ubuntu's and Debian 13's users have 002: files that tests make would have other modes
    here = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(path.parent), str(here), str(here.parent / "helpers")]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    loader = Loader()
    if sys.argv[2:]:
        suite = loader.loadTestsFromNames(sys.argv[2:], module)
    else:
        suite = loader.loadTestsFromModule(module)
    result = Tap()
    suite.run(result)
    print(f"1..{result.count}", flush=True)
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
