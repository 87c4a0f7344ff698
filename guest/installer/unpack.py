"""The step that makes the new layer out of wheels, after a look at what they would write."""
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
from names import canonical
from reply import progress

# Python runs these by itself when their folder is a site; no package may do so in every interpreter.
STARTUP = re.compile(r".*\.pth|(?:site|user)customize(?:\.[^/]+)?", re.S)
LIBRARY = getattr(sys, "stdlib_module_names", ())  # Python 3.10
NAME_MAX, SHOWN = 255, 10
MODULE = re.compile(r"([^\W\d]\w*)(?:\.py|(?:\.[\w-]+)*\.so)")


class Members:
    """What a wheel holds, from the directory at its end. zipfile unpacks no more of a member than is said there."""

    def __init__(self, path):
        self.file = os.path.basename(path)
        try:
            with zipfile.ZipFile(path) as archive:
                self.infos = [info for info in archive.infolist() if not info.is_dir()]
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise Failure("other", "%s is no wheel: %s" % (self.file, error)) from None
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
            what = "a file with the name" if odd else "a link or device,"
            raise Failure("other", "%s holds %s %s: it was not installed" % (self.file, what, ascii(name)[:200]))

    def modules(self):
        """The paths that end up where imports look, without metadata."""
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
    # A folder of scripts without __init__.py counts as one name.
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
            raise Failure("disk", "unpacked that is %s, more than is left for packages; the user can raise "
                          "--package-disk" % what)
    # A build may have been there before.
    confine.clear(place.new)
    installed = []
    for path, wheel, held in wheels:
        name = get_wheel_distribution(FilesystemWheel(path), canonical(wheel.name)).raw_name
        progress("unpacking %s %s" % (name, wheel.version))
        scheme = Scheme(platlib=place.new, purelib=place.new, data=place.new,
                        scripts=os.path.join(place.new, "bin"), headers=os.path.join(place.new, "include", name))
        install_wheel(name, path, scheme, name, pycompile=False, warn_script_location=False)
        installed.append({"name": name, "version": str(wheel.version), "imports": imports(list(held.modules())),
                          "bytes": held.bytes, "files": len(held.infos)})
    notes = drop_startup(place.new) + tell_hidden(wheels)
    progress("compiling")
    compileall.compile_dir(place.new, maxlevels=64, quiet=2, workers=workers(files))
    return {"ok": True, "installed": installed, "notes": notes}


def tell_hidden(wheels):
    """Backports, and worse: what nobody imports from the layer, as it stands behind the standard library."""
    found = {parts[0].partition(".")[0] for _, _, held in wheels for parts in held.modules()}
    hidden = sorted(found.intersection(LIBRARY))
    return ["the standard library comes first for %s" % ", ".join(hidden[:SHOWN])] if hidden else []


def drop_startup(folder):
    """Layers are no site folders, so nothing reads a .pth there; but children import these two by their names."""
    dropped = sorted(name for name in os.listdir(folder) if STARTUP.fullmatch(name))
    for name in dropped:
        path = os.path.join(folder, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    if not dropped:
        return []
    return ["left out, as it would run at the start of every Python: %s" % ", ".join(map(ascii, dropped[:SHOWN]))]


def workers(files):
    """Processes pay off from some hundred files on; where the box has no semaphores, one does it."""
    if files < 400:
        return 1
    try:
        import multiprocessing

        multiprocessing.Lock()
    except (ImportError, OSError):
        return 1
    return min(len(os.sched_getaffinity(0)), 4)
