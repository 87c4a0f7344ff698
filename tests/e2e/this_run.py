"""What this run of the tests tests, with which times and sizes, and what the machine has of what they need.

SANDPIPER names the binary; SANDPIPER_TEST_SLOW multiplies every time limit (sanitizers, valgrind);
SANDPIPER_TEST_DENY removes a feature for every server (words of helpers/deny.py); SANDPIPER_TEST_WRAP is put before
the program (an emulator).
"""
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import subprocess
import sys
import unittest

from container_level import CONTAINER

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.path.abspath(os.environ.get("SANDPIPER") or ROOT / "build" / "sandpiper")
DENIED = os.environ.get("SANDPIPER_TEST_DENY", "").split()
DENY = [sys.executable, "-I", str(ROOT / "tests" / "helpers" / "deny.py")]
# The command that starts the program, here and in tests that start it themselves.
os.environ["XDG_CONFIG_HOME"] = "/dev/null"  # ignores the settings of the user who runs the tests
COMMAND = [*([*DENY, *DENIED, "--"] if DENIED else []),
           *os.environ.get("SANDPIPER_TEST_WRAP", "").split(), BINARY]
SLOW = float(os.environ.get("SANDPIPER_TEST_SLOW", "1"))
SMALL = os.environ.get("SANDPIPER_TEST_SIZES") == "small"
LARGE = 4 if "ASAN_OPTIONS" in os.environ else 1  # multiplies bounds on memory: sanitizers keep freed memory


def is_denied(what):
    """True if this run removes the feature for the servers."""
    return any(word.partition(":")[0] == what for word in DENIED)


def landlock_version():
    """The Landlock version that the server can use; -1: none. The call has the same number on all architectures."""
    if is_denied("landlock_create_ruleset"):
        return -1
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)


def give_away(directory):
    """Gives a directory of root's to another user, because root's can be a workspace only where ids can be mapped."""
    if os.geteuid() == 0 and is_denied("mount_setattr"):
        with contextlib.suppress(OSError):  # a user namespace may have no other user
            os.chown(directory, 12345, 12345)


@functools.lru_cache(maxsize=None)
def doctor_says(*wrap):
    """{name: row} of doctor's table of protections, here or below the program wrap."""
    done = subprocess.run([*wrap, *COMMAND, "doctor", "--json"], capture_output=True, timeout=60 * SLOW)
    return {row["protection"]: row for row in json.loads(done.stdout)["protections"]}


def writable_cgroup(layer):
    """True if a control group enforces this limit: memory, pids or cpu."""
    return doctor_says()[layer]["state"] == "on"


def once(test):
    """Marks a case, or a class, about a number or size or of one code path, the same whoever runs it: tap.py leaves it
    out where `make check` runs its file for a second identity."""
    test.once = True
    return test


def size(great, small):
    """How many there are of something in a case that a smaller number would show as well. `make check-all` takes the
    great number, so that a limit that nobody thought of is met before a release."""
    return small if SMALL else great


def need_userns():
    """Skips where user namespaces are refused, except at the level that needs none."""
    if CONTAINER:
        return
    if os.geteuid() == 0 and os.path.exists("/proc/self/ns/user"):
        return
    tried = subprocess.run(["unshare", "-Ur", "true"], capture_output=True)
    if tried.returncode != 0:
        raise unittest.SkipTest("userns: " + tried.stderr.decode(errors="replace").strip())


def run_cli(*args, timeout=60, **options):
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([*COMMAND, *args], capture_output=True, timeout=timeout * SLOW, **options)
