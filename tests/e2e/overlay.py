"""Whether this machine can have an overlay in a user namespace, and the flags of --cow that work here.

Files in memory have the attributes that an overlay needs since Linux 6.6. On an older kernel, and with
SANDPIPER_TEST_COW_STORE=1 anywhere, each server gets a store of its own on disk.
"""
import functools
import os
import subprocess
import tempfile
import unittest

from client import need_userns
from container_level import CONTAINER

OVERLAY = """set -e
cd "$1"; mkdir lower upper work merged lower/directory; echo x >lower/file
mount -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work none merged
echo y >>merged/file; rmdir merged/directory; mkdir merged/directory"""


def remove(top):
    """An overlay leaves a directory that not even its owner may read. Trees may be deeper than shutil.rmtree() can go."""
    subprocess.run(["chmod", "-R", "u+rwx", str(top)], capture_output=True)
    subprocess.run(["rm", "-rf", str(top)], capture_output=True)


def error_of_overlay(before=""):
    """The error of mounting one and changing something in it, or None."""
    top = tempfile.mkdtemp()
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", before + OVERLAY, "sh", top], capture_output=True, text=True)
    remove(top)
    return done.stderr.strip() or "fails" if done.returncode else None


@functools.lru_cache(maxsize=None)
def not_in_memory():
    """Why changes must be in a store, or None."""
    if os.environ.get("SANDPIPER_TEST_COW_STORE") == "1":
        return "memory: SANDPIPER_TEST_COW_STORE=1 puts changes on disk"
    error = error_of_overlay('mount -t tmpfs none "$1"; ')
    return "memory: an overlay's changes cannot be on a tmpfs: " + error if error else None


@functools.lru_cache(maxsize=None)
def no_overlay():
    """Why there can be none at all, or None."""
    if CONTAINER:
        return "isolation: this level has no mounts"
    error = error_of_overlay() if not_in_memory() else None
    return "overlay: " + error if error else None


def need_overlay():
    need_userns()
    if no_overlay():
        raise unittest.SkipTest(no_overlay())


def need_memory():
    """For what is true only of changes in memory."""
    if not_in_memory():
        raise unittest.SkipTest(not_in_memory())


def cow_flags(case, *args, owner=None):
    """--cow, args, and a store that the case removes at its end where changes cannot be in memory."""
    if "--cow-store" in args or not not_in_memory():
        return ("--cow", *args)
    store = tempfile.mkdtemp(prefix="sp-store-")
    case.addCleanup(remove, store)
    if owner is not None:
        os.chown(store, owner, owner)
    return ("--cow", "--cow-store", store, *args)
