"""The step that makes the new layer out of wheels, after it has checked what they would write."""
import compileall
import os
import re
import shutil
import stat
import sys
import zipfile

import confine
from failures import Failure
from pip._internal.metadata import FilesystemWheel, get_wheel_distribution
from pip._internal.models.scheme import Scheme
from pip._internal.models.wheel import Wheel
from pip._internal.operations.install.wheel import install_wheel
from pip._vendor.packaging.utils import canonicalize_name
from reply import progress

# Python runs these by itself in a site directory; no package may do so in every interpreter.
STARTUP = re.compile(r".*\.pth|(?:site|user)customize(?:\.[^/]+)?", re.S)
LIBRARY = getattr(sys, "stdlib_module_names", ())  # Python 3.10
NAME_MAX, SHOWN = 255, 10
MODULE = re.compile(r"([^\W\d]\w*)(?:\.py|(?:\.[\w-]+)*\.so)")


class Members:
    """The members of a wheel, from the directory at its end. zipfile unpacks no more of a member than that says."""

    def __init__(self, path):
        self.file = os.path.basename(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self.infos = [info for info in archive.infolist() if not info.is_dir()]
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise Failure("other", "%s is not a wheel: %s" % (self.file, error)) from None
        for info in self.infos:
            self.check(info)
        self.bytes = sum(info.file_size for info in self.infos)

    def check(self, info):
        # orig_filename: zipfile cuts the other one at NUL.
        name = info.orig_filename
        parts = name.split("/")
        odd = (name.startswith("/") or "\\" in name or ".." in parts or "." in parts or "" in parts
               or any(ord(letter) < 32 or letter == "\x7f" for letter in name)
               or any(len(part.encode("utf-8", "surrogateescape")) > NAME_MAX for part in parts))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if odd or kind not in (0, stat.S_IFREG):
            what = "a file with the invalid name" if odd else "a symlink or device,"
            raise Failure("other", "%s contains %s %s: it was not installed" % (self.file, what, ascii(name)[:200]))

    def modules(self):
        """The paths that imports will find, without metadata."""
        for info in self.infos:
            parts = info.filename.split("/")
            if parts[0].endswith(".data") and parts[1:2] in (["purelib"], ["platlib"]):
                parts = parts[2:]
            if not parts[0].endswith((".data", ".dist-info")) and not STARTUP.fullmatch(parts[0]):
                yield parts


def imports(paths):
    """The names to import: top-level modules and packages; inside namespaces the packages themselves."""
    found, packages = set(), {tuple(parts[:-1]) for parts in paths if parts[-1] == "__init__.py"}
    for parts in paths:
        module = MODULE.fullmatch(parts[-1])
        if module is None:
            continue
        for depth in range(1, len(parts)):
            if tuple(parts[:depth]) in packages:
                found.add(".".join(parts[:depth]))
                break
        else:
            found.add(".".join([*parts[:-1], module[1]]))
    found = {name for name in found if all(part.isidentifier() for part in name.split("."))
             and name.partition(".")[0] not in LIBRARY}
    public = {name for name in found if not any(part.startswith("_") for part in name.split("."))} or found
    tops = {name for name in public if "." not in name}
    # A directory of scripts without __init__.py counts as one name.
    loose = sorted(public - tops)
    if len(loose) > SHOWN:
        loose = sorted({name.partition(".")[0] for name in loose})
    return (sorted(tops, key=str.lower) + loose)[:SHOWN]


def run(request, place):
    try:
        return unpack(request, place)
    except BaseException:
        shutil.rmtree(place.new, ignore_errors=True)
        raise


def unpack(request, place):
    paths = [os.path.join(place.wheels, os.path.basename(name)) for name in request["wheels"]]
    wheels = [(path, Wheel(os.path.basename(path)), Members(path)) for path in paths]
    files, size = sum(len(held.infos) for _, _, held in wheels), sum(held.bytes for _, _, held in wheels)
    for have, limit, what in ((size, request.get("max_bytes"), "%.0f MB" % (size / 1e6)),
                              (files, request.get("max_files"), "%d files" % files)):
        if limit and have > limit:
            raise Failure("disk", "unpacked, this takes %s, more than the package disk has left; the user can raise "
                          "--package-disk" % what)
    # A build may have written there.
    confine.clear(place.new)
    installed = []
    for path, wheel, held in wheels:
        name = get_wheel_distribution(FilesystemWheel(path), canonicalize_name(wheel.name)).raw_name
        progress("unpacking %s %s" % (name, wheel.version))
        scheme = Scheme(platlib=place.new, purelib=place.new, data=place.new,
                        scripts=os.path.join(place.new, "bin"), headers=os.path.join(place.new, "include", name))
        install_wheel(name, path, scheme, name, pycompile=False, warn_script_location=False)
        installed.append({"name": name, "version": str(wheel.version), "imports": imports(list(held.modules())),
                          "bytes": held.bytes})
    notes = drop_startup(place.new) + report_hidden(wheels)
    progress("compiling")
    compileall.compile_dir(place.new, maxlevels=64, quiet=2, workers=workers(files))
    return {"ok": True, "installed": installed, "notes": notes}


def report_hidden(wheels):
    """Reports modules that no import finds in the layer, as the standard library comes first: backports, and worse."""
    found = {parts[0].partition(".")[0] for _, _, held in wheels for parts in held.modules()}
    hidden = sorted(found.intersection(LIBRARY))
    return ["the standard library takes precedence over %s" % ", ".join(hidden[:SHOWN])] if hidden else []


def drop_startup(directory):
    """Removes these two. No layer is a site directory, so .pth files have no effect; but children import these two by
    name."""
    dropped = sorted(name for name in os.listdir(directory) if STARTUP.fullmatch(name))
    for name in dropped:
        path = os.path.join(directory, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    if not dropped:
        return []
    return ["omitted, because it would run at the start of every Python: %s" % ", ".join(map(ascii, dropped[:SHOWN]))]


def workers(files):
    """Processes save time from some hundred files on; one process does it where the sandbox has no semaphores."""
    if files < 400:
        return 1
    try:
        import multiprocessing

        multiprocessing.Lock()
    except (ImportError, OSError):
        return 1
    return min(len(os.sched_getaffinity(0)), 4)
