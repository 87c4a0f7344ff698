"""A selection of the other suites for servers that lack a kernel feature (SANDPIPER_TEST_DENY).

It covers what a fallback could break: files, their undo and attacks on their names, cleanup after a dead session, limits, shutdown,
and attacks on mounts, /proc and other processes. `make check-denied` runs the whole suites.
"""
import pathlib
import re
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "escape"), *map(str, (TESTS / "e2e").glob("*/"))]

import test_attacks  # noqa: E402
import test_checkpoints  # noqa: E402
import test_files  # noqa: E402
import test_hostile_files  # noqa: E402
import test_language  # noqa: E402
import test_lifecycle  # noqa: E402
import test_limits  # noqa: E402
import test_state  # noqa: E402
import test_undo_bounds  # noqa: E402
import test_undo_files  # noqa: E402
from container_level import CONTAINER  # noqa: E402

# The system counts files but at level container, where the watchdog does.
LEFT_OUT = "call_|socket_" if CONTAINER else "call_|socket_|a_million_"
SELECTION = {
    test_state.State: ".",
    test_language.WhatWorks: "threads|by_fork|loopback|shared_memory",
    test_files.Files: ".",
    test_files.HostDirectory: ".",
    test_hostile_files.Planted: "fifo$|link|devices|socket|sparse|deep",
    test_checkpoints.Failover: "each_death|call_started|waiting_for|one_session",
    test_undo_files.Directory: ".",
    test_undo_bounds.Memory: "open_file",
    test_limits.Limits: "test_memory$|test_processes|test_disk",
    test_lifecycle.Ends: "^test_end_of_stdin|^test_sigterm$",
    test_lifecycle.Killed: "at_rest|code_runs",
    test_lifecycle.Environment: "left_open",
    test_attacks.Attacks: f"^test_(?!{LEFT_OUT})[a-z_0-9]*(mount|proc|descriptor|signal|link|root|memory|files|director)",
}


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for case, names in SELECTION.items():
        suite.addTests(case(name) for name in loader.getTestCaseNames(case)
                       if re.search(names, name))
    return suite
