"""Run one module of CPython's test suite and write one line for each case as soon as it has finished:

    one.py MODULE FILE [CASE...]        STATUS <tab> ID <tab> reason

With named cases only those run; an unknown name means all. The last line is "done": without it the process died or was
killed. A case that runs more than once under one name counts by its worst run. Standard library only, as it also runs
in the sandbox.
"""
import os
import sys
import unittest

# The tests must not need a network, a screen, sound or minutes.
RESOURCES = ["subprocess", "decimal", "tzdata"]


class Recorder(unittest.TestResult):
    def __init__(self, path):
        super().__init__()
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self.owner = os.getpid()
        self.status = self.why = ""

    def line(self, *words):
        if os.getpid() == self.owner:  # ignores a fork that a test left behind
            text = "\t".join(" ".join(word.split()) for word in words)
            os.write(self.fd, text.encode("utf-8", "backslashreplace") + b"\n")

    def note(self, test, status, why):
        if isinstance(test, unittest.TestCase) or hasattr(test, "test_case"):
            self.status, self.why = status, why
        else:
            self.line(status, str(test.id()), why)  # setUpClass and setUpModule are not cases

    def startTest(self, test):
        super().startTest(test)
        self.status, self.why = "ok", ""

    def stopTest(self, test):
        super().stopTest(test)
        self.line(self.status, str(test.id()), self.why)

    def addError(self, test, err):
        self.note(test, "fail", f"{err[0].__name__}: {err[1]}"[:300])

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self.note(test, "skip", str(reason))

    def addUnexpectedSuccess(self, test):
        self.note(test, "fail", "passed, but is marked as an expected failure")


def cases_of(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases_of(one)
        else:
            yield one


def chosen(suite, names):
    """The cases of these names, or of classes of these names; all cases if a name is unknown."""
    cases = list(cases_of(suite))
    wanted = [case for case in cases
              if case.id() in names or case.id().rpartition(".")[0] in names]
    known = {case.id() for case in wanted} | {case.id().rpartition(".")[0] for case in wanted}
    return unittest.TestSuite(wanted) if names and known >= set(names) else suite


def main(module, path, *names):
    from test import support
    support.use_resources = RESOURCES
    result = Recorder(path)
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + module)
    except unittest.SkipTest as reason:
        result.line("skip", "test." + module, str(reason))
    else:
        chosen(suite, names).run(result)
    result.line("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Tests may leave threads that are never joined.
    sys.stdout.flush()
    os._exit(0)
