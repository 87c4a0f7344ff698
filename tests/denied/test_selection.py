"""A selection of the other suites, for servers from which something is taken (SANDPIPER_TEST_DENY).

What a fallback could get wrong is here: the view of files and every trick on names, what a dead session
leaves, limits, the ends of a server, and attacks on mounts, /proc and other processes. The suites whole:
`make check-denied`.
"""
import pathlib
import re
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "escape")]

import test_attacks  # noqa: E402
import test_checkpoints  # noqa: E402
import test_files  # noqa: E402
import test_hostile  # noqa: E402
import test_lifecycle  # noqa: E402
import test_limits  # noqa: E402
import test_run_python  # noqa: E402

SELECTION = {
    test_run_python.State: ".",
    test_run_python.WhatWorks: "threads|by_fork|loopback|shared_memory",
    test_files.Files: ".",
    test_files.HostFolder: ".",
    test_hostile.Planted: "fifo$|link|devices|socket|sparse|deep",
    test_checkpoints.TakeOver: "each_death|call_started|waiting_for|two_sessions",
    test_limits.Limits: "test_memory$|test_processes|test_disk",
    test_lifecycle.Ends: "^test_end_of_stdin|^test_sigterm$",
    test_lifecycle.Killed: "at_rest|code_runs",
    test_lifecycle.Surroundings: "left_open",
    test_attacks.Attacks: "^test_(?!call_|socket_)[a-z_0-9]*(mount|proc|descriptor|signal|link|root|memory|files|folder)",
}


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for case, names in SELECTION.items():
        suite.addTests(case(name) for name in loader.getTestCaseNames(case)
                       if re.search(names, name))
    return suite
