"""Downloads source archives, and opens them only to read what their build requires."""
import hashlib
import os
import re
import shutil
import stat
import tarfile
import zipfile

import fetch
from candidates import Unresolved, files
from failures import Failure, of_status, wrong_hash
from pip._vendor.packaging.utils import canonicalize_name
from reply import progress

ARCHIVE_NAME = re.compile(r"[A-Za-z0-9._+!-]+\.(?:tar\.gz|zip)")
DESCRIPTION_MAX = 1 << 20
# PEP 517: what builds a project without [build-system].
USUAL = ["setuptools>=40.8.0", "wheel"]


def take(unresolved, request, place):
    """Downloads the archive, and the wheels that its build requires, and reports it."""
    name, file = unresolved.source
    saved = os.path.basename(file.link.filename)
    if not ARCHIVE_NAME.fullmatch(saved):
        raise Failure("other", "the index offers %s in a file with the invalid name %s" % (name, ascii(saved)))
    if any(same(row, name, file.version) for row in request.get("built", ())):
        raise Failure("build_failed", "the build of %s %s produced no usable wheel" % (name, file.version))
    path = os.path.join(place.sources, saved)
    download(unresolved.command.pip_session, name, file.link, path, request.get("max_bytes", 0))
    needs = asked_by(path, saved)
    if needs:
        fetch_needs(name, needs, request, place)
    return {"name": name, "version": str(file.version), "file": saved}


def same(row, name, version):
    from pip._vendor.packaging.version import parse

    return canonicalize_name(row["name"]) == canonicalize_name(name) and parse(row["version"]) == version


def download(session, name, link, path, limit):
    size = 0
    response = session.get(link.url_without_fragment, headers={"Accept-Encoding": "identity"}, stream=True)
    if response.status_code != 200:
        raise of_status(response)
    with open(path, "xb") as out:
        for chunk in response.iter_content(1 << 16):
            size += len(chunk)
            if limit and size > limit:
                raise Failure("disk", "%s exceeds --package-disk" % link.filename)
            out.write(chunk)
    check_hash(name, link, path)


def hashes_of(link):
    # pip 22.3 ignores the hashes of an index with JSON pages; its links have them all the same.
    return {link.hash_name: link.hash} if link.hash else getattr(link, "_hashes", None) or {}


def check_hash(name, link, path):
    hashes = hashes_of(link)
    known = [algorithm for algorithm in hashes if algorithm in hashlib.algorithms_guaranteed]
    if any(digest(path, algorithm) != hashes[algorithm] for algorithm in known):
        raise wrong_hash(name)


def digest(path, algorithm):
    hashed = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            hashed.update(chunk)
    return hashed.hexdigest()


def asked_by(path, name):
    """The requirements in pyproject.toml's build-system table."""
    text = description(path)
    if text is None:
        return USUAL
    try:
        import tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib
    try:
        needs = tomllib.loads(text.decode()).get("build-system", {}).get("requires", USUAL)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError):
        raise Failure("build_failed", "%s has an unreadable pyproject.toml" % name) from None
    if not isinstance(needs, list) or not all(isinstance(need, str) for need in needs):
        raise Failure("build_failed", "%s has a pyproject.toml without a valid list of build requirements" % name)
    # setuptools before 70.1 requires wheel only when it runs.
    return needs + ["wheel"] if any(re.match(r"setuptools\b", need) for need in needs) else needs


def description(path):
    """pyproject.toml of the archive's only directory, None when there is none."""
    try:
        if path.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                member = next((one for one in archive.infolist() if one.filename.count("/") == 1
                               and one.filename.endswith("/pyproject.toml")), None)
                if member is None:
                    return None
                with archive.open(member) as file:
                    return file.read(DESCRIPTION_MAX)
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isreg() and re.fullmatch(r"(\./)?[^/]+/pyproject\.toml", member.name):
                    return archive.extractfile(member).read(DESCRIPTION_MAX)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise Failure("build_failed", "%s is not an archive: %s" % (os.path.basename(path), error)) from None
    return None


def fetch_needs(name, needs, request, place):
    progress("fetching build requirements of %s" % name)
    wanted, _ = fetch.requirements(needs)
    words = fetch.options_of({**request, "constraint": False}, place) + ["--ignore-installed", "--"]
    optional = [need for need in wanted if canonicalize_name(need.name) == "wheel" and not need.specifier]
    firm = [need for need in wanted if need not in optional]
    for group, must in ((firm, True), (optional, False)):
        if not group:
            continue
        try:
            fetch.resolve(request, place.needs, words + [str(need) for need in group], place)
        except Unresolved as unresolved:
            if must:
                raise Failure("build_failed", "%s has no wheel, and its build requirements are unavailable: %s" % (
                    name, unresolved.failure.message)) from unresolved


def built_words(request, place):
    """Lets pip find the built wheels that the request names, and no other file there."""
    rows = request.get("built", ())
    if not rows or not os.path.isdir(place.built):
        return []
    from pip._internal.models.link import Link

    directory = os.path.join(place.own, "built")
    os.mkdir(directory)
    links = [Link("file:///" + name) for name in sorted(os.listdir(place.built)) if fetch.WHEEL_NAME.fullmatch(name)]
    for row in rows:
        for file in files(row["name"], links):
            if file.wheel is not None and same(row, row["name"], file.version):
                copy(os.path.join(place.built, file.link.filename), os.path.join(directory, file.link.filename))
    return ["--find-links", directory]


def copy(source, target):
    """Copies a wheel that a build made; the build may have left a symlink or a pipe in its place."""
    opened = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise Failure("build_failed", "%s is not a file" % os.path.basename(source))
        with open(target, "xb") as out:
            shutil.copyfileobj(file, out)
