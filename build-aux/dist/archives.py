"""Archives whose bytes follow from their contents: no clock, no user, no order of a directory.

Contents are {name: (bytes, mode)}.
"""
import gzip
import io
import json
import tarfile
import time
import zipfile

PLAIN, PROGRAM = 0o644, 0o755


def as_json(value):
    return (json.dumps(value, indent=2) + "\n").encode()


def tarball(path, top, files, now):
    """A compressed tar file with everything below the directory top."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=now) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (data, mode) in sorted(files.items()):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode, member.mtime = len(data), mode, now
            archive.addfile(member, io.BytesIO(data))
    return path


def zipped(path, files, now):
    """A zip file with the modes of Unix; its times start in 1980."""
    moment = max(time.gmtime(now)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w") as archive:
        for name, (data, mode) in sorted(files.items()):
            member = zipfile.ZipInfo(name, moment)
            member.external_attr = (0o100000 | mode) << 16
            member.create_system = 3
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data, compresslevel=9)
    return path
