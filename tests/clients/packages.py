"""The npm packages with which tests drive the server: pinned by package-lock.json, installed once.

They are in SANDPIPER_SDK_DIR, a directory beside the build, with their own Node.js: some of them need a newer one than
distributions have.
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
# npm's codes for a mistake of ours: in package-lock.json, or a package that is not what it names. Everything else that
# stops npm is of the machine: no network, a mirror or a proxy that refuses (any code of HTTP, of a socket or of TLS).
OURS = {"EUSAGE", "EINTEGRITY", "ETARGET", "ERESOLVE", "EJSONPARSE", "EINVALIDPACKAGENAME"}


@functools.lru_cache(maxsize=None)
def directory():
    """The directory of the packages. Installs them, or skips the test."""
    kept = os.environ.get("SANDPIPER_SDK_DIR")
    target = pathlib.Path(kept or tempfile.mkdtemp(prefix="sp-sdk-"))
    if not kept:
        unittest.addModuleCleanup(shutil.rmtree, target, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    done = target / "installed-lock.json"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, target / name)
    if not done.exists() or done.read_bytes() != lock:
        done.unlink(missing_ok=True)
        install(target)
        done.write_bytes(lock)
    return target


def install(target):
    try:
        npm = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"], cwd=target,
                             capture_output=True, text=True, errors="replace", timeout=300)
    except OSError:
        raise unittest.SkipTest("npm: not installed") from None
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest("npm: the registry did not answer in time") from None
    # npm may end with 0 although the network failed.
    if npm.returncode or not (target / "node_modules" / ".package-lock.json").exists():
        code = (re.findall(r"^npm \S+ code (\S+)$", npm.stderr, re.M) or ["no code"])[0]
        if code in OURS:
            raise AssertionError(npm.stderr)
        raise unittest.SkipTest(f"npm: the registry cannot be reached ({code})")


def node():
    """The command of Node.js; skips the test on machines for which its package has none."""
    # npm 9 leaves it out of .bin
    programs = list(directory().glob("node_modules/node-linux-*/bin/node"))
    if not programs:
        raise unittest.SkipTest(f"node: no package for {os.uname().machine}")
    return str(programs[0])


def program(path):
    """A command line that starts with a file of the packages."""
    return [node(), str(directory() / "node_modules" / path)]


def own(source, *names):
    """Copies scripts to a directory where they find the packages, and returns it."""
    target = directory() / source.name
    target.mkdir(exist_ok=True)
    for name in names:
        copied = target / name
        copied.parent.mkdir(exist_ok=True)
        shutil.copy(source / name, copied)
    return target
