"""The directories of an installer, and what its process must not do: import what was installed, or run what was
downloaded."""
import glob
import importlib
import importlib.machinery
import os
import re
import shutil
import sys
import sysconfig
import tempfile

from failures import Failure

OLDEST = (22, 0)
NAME = re.compile(r"[A-Za-z0-9._-]+")  # no version, no extra
KEPT = ("PATH", "LANG", "LC_ALL", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
# For every pip: no prompts, and no search for a newer pip.
QUIET = ("--no-input", "--no-color", "--progress-bar", "off", "--disable-pip-version-check")


class Place:
    """The directories of one installer, as its sandbox has them. `own` exists only for this installer."""

    def __init__(self, request):
        self.stage, self.cache, self.find_links, self.constraint, certificate = (
            os.environ["SANDPIPER_" + name] for name in ("STAGE", "CACHE", "FIND_LINKS", "CONSTRAINT", "CERTIFICATE"))
        self.wheels, self.new = self.at("wheels"), self.at("new")
        # Each source's build finds only what was fetched for builds.
        self.sources, self.needs, self.built = (self.at(name) for name in ("sources", "needs", "built"))
        self.layers = list(request.get("layers", ()))
        self.certificate = certificate if request.get("cert") else os.environ.get("SANDPIPER_BUNDLE")
        # An unguessable name: a build of an earlier installer may have left files in the staging directory.
        self.own = tempfile.mkdtemp(prefix="own-", dir=self.stage)
        os.environ.update({"HOME": self.own, "TMPDIR": self.own, "PIP_CONFIG_FILE": os.devnull})
        tempfile.tempdir = self.own

    def at(self, name):
        return os.path.join(self.stage, name)


def enter(name, place):
    """Confines the process of a step."""
    for variable in list(os.environ):
        if variable not in KEPT and variable not in ("HOME", "TMPDIR", "PIP_CONFIG_FILE"):
            del os.environ[variable]
    os.chdir(place.own)
    seal(place.layers)
    if name == "fetch":
        forbid_programs()


def present(request):
    """The reply of FETCH if all that is wanted is there, without pip, which takes seconds to load; else None."""
    from importlib import metadata

    if request["step"] != "fetch" or request.get("upgrade") or request.get("constraint"):
        return None
    try:
        found = [metadata.distribution(name) for name in request["packages"] if NAME.fullmatch(name)]
        rows = [{"name": one.metadata["Name"], "version": one.version} for one in found]
    except Exception:  # one is missing, or its metadata broken
        return None
    return {"ok": True, "to_install": [], "to_build": [], "already": rows, "replaces": [], "skipped": [],
            "notes": []} if len(rows) == len(request["packages"]) else None


def load(directory, name):
    """Imports the module of the step."""
    take_pip()
    sys.path.insert(0, directory)
    try:
        return importlib.import_module({"fetch": "fetch", "build": "build", "install": "unpack"}[name])
    finally:
        sys.path.remove(directory)


class Sealed(importlib.machinery.FileFinder):
    """Finds no module in a layer. Metadata is still found: importlib.metadata reads the directories of sys.path by
    itself, and pkg_resources needs only the type of the finder."""

    def find_spec(self, fullname, target=None):
        return None


def seal(layers):
    """Puts the layers on sys.path before site-packages, so that pip sees what is installed, and keeps pip from
    importing any of it: pip tries names such as keyring, which a layer may have."""
    def hook(path):
        if path not in layers:
            raise ImportError
        return Sealed(path)

    sys.path_hooks.insert(0, hook)
    sites = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    first = min((sys.path.index(site) for site in sites if site in sys.path), default=len(sys.path))
    sys.path[first:first] = layers


def forbid_programs():
    """No step with network access starts a program, whatever pip thinks it needs (a build, git, a version of rustc)."""
    starts = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.forkpty"}

    def hook(event, arguments):
        if event in starts:
            raise PermissionError("no program may run while packages are fetched: %s" % event)

    sys.addaudithook(hook)


def take_pip():
    """Makes pip importable: the interpreter's own, else the wheel that ensurepip or the distribution has of it."""
    found = None
    try:
        import pip

        found = getattr(pip, "__version__", "")  # no version: an empty directory of that name
        if version(found) >= OLDEST:
            return
        for name in [name for name in sys.modules if name == "pip" or name.startswith("pip.")]:
            del sys.modules[name]
    except ImportError:
        pass
    directories = [sysconfig.get_path("stdlib") + "/ensurepip/_bundled", sysconfig.get_config_var("WHEEL_PKG_DIR"),
               "/usr/share/python-wheels"]
    wheels = [path for directory in directories if directory for path in glob.glob(directory + "/pip-*.whl")]
    wheels = [path for path in wheels if version(os.path.basename(path).split("-")[1]) >= OLDEST]
    if wheels:
        sys.path.insert(0, max(wheels, key=lambda path: version(os.path.basename(path).split("-")[1])))
        return
    have = "its pip %s is older than %d.%d" % (found, *OLDEST) if found else "it has no pip"
    raise Failure("no_installer", "this Python cannot install packages: %s" % have)


def version(text):
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def clear(path):
    """Makes an empty directory, whatever was there."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    os.mkdir(path)
