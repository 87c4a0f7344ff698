"""The step with network access: pip's resolver, and the downloads that it chooses."""
import functools
import os
import re
import shutil
import sys
import urllib.parse
import zipfile

import candidates
import confine
import failures
import sources
from candidates import by_import
from failures import Failure
from pip._internal.cli import cmdoptions
from pip._internal.cli.status_codes import SUCCESS
from pip._internal.commands.install import InstallCommand
from pip._internal.exceptions import HashError, InvalidWheel, UnsupportedWheel
from pip._internal.metadata import FilesystemWheel, get_default_environment, get_wheel_distribution
from pip._internal.operations.check import check_install_conflicts
from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
from pip._vendor.packaging.utils import canonicalize_name
from reply import megabytes, progress, with_progress

WHEEL_NAME = re.compile(r"[A-Za-z0-9._+!-]+\.whl")


class Resolved(Exception):
    """Leaves pip's install command before it would install."""


def described(req):
    """The metadata inside the wheel itself, which is what will be installed."""
    return get_wheel_distribution(FilesystemWheel(req.local_file_path), canonicalize_name(req.name))


def names_of(directory):
    """The distributions of which a directory has a wheel."""
    try:
        files = os.listdir(directory)
    except OSError:
        return []
    return sorted({canonicalize_name(name.partition("-")[0]) for name in files if WHEEL_NAME.fullmatch(name)})


@functools.lru_cache(maxsize=None)
def installed():
    """{canonical name: distribution}, read once: pip's get_distribution() reads all of them for each name."""
    found = {}
    for dist in get_default_environment().iter_installed_distributions(local_only=False, skip=()):
        found.setdefault(dist.canonical_name, dist)
    return found


def whole(chunks, name, size):
    """Passes the chunks on. A connection may end as if all were there, which pip may not notice, or call a wrong hash."""
    done = 0
    for chunk in chunks:
        done += len(chunk)
        yield chunk
    if done < size:
        raise failures.cut_off("the download of %s" % name)


class Session:
    """What happened to the requests of one pip session, and what the directory of wheels has."""

    def __init__(self, request, find_links):
        self.limit, self.asked, self.cached, self.hashed = request.get("max_bytes", 0), [], set(), set()
        self.no_index, self.wheels = bool(request.get("no_index")), names_of(find_links) if request.get("find_links") else []
        self.sources = "the directory of wheels has no package" if self.no_index and request.get("find_links") else \
            "neither the index nor the directory of wheels has a package" if request.get("find_links") else \
            "the index has no package"

    def watch(self, session):
        send = session.request

        def request(method, url, *arguments, **options):
            name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rstrip("/").rpartition("/")[2])
            archive = name.endswith((".whl", ".tar.gz", ".zip"))
            if not archive and not name.endswith(".metadata"):
                progress("looking up %s" % name)
            try:
                response = send(method, url, *arguments, **options)
            except Exception as error:
                failure = failures.of_network(error, url)
                self.asked.append((name, failure))
                if failure and failure.kind == "proxy" and " within " in failure.message:
                    raise failure from error  # each further request would wait as long
                raise
            if archive and getattr(response, "from_cache", False):
                self.cached.add(response.url)
            if response.status_code >= 400:
                self.asked.append((name, failures.of_status(response) if response.status_code != 404 else None))
            elif archive and method == "GET":
                self.download(name, response)
            return response

        session.request = request
        for adapter in session.adapters.values():
            if hasattr(adapter, "max_retries"):
                adapter.max_retries = failures.patient(adapter.max_retries)
            if hasattr(adapter, "controller"):
                self.keep(adapter)

    def keep(self, adapter):
        """Lets pip cache a file whose hash the index names, also where a mirror does not say that it never changes."""
        build = adapter.build_response

        def build_response(request, response, *arguments, **more):
            if request.url in self.hashed:
                response.headers.setdefault("Cache-Control", "max-age=31536000")
            return build(request, response, *arguments, **more)

        adapter.build_response = build_response

    def download(self, name, response):
        size = str(response.headers.get("Content-Length", ""))
        size = int(size) if size.isdigit() else 0
        if self.limit and size > self.limit:
            raise Failure("disk", "%s alone is %s, which exceeds --package-disk" % (name, megabytes(size)))
        if not hasattr(response.raw, "stream") or getattr(response, "from_cache", False):
            return  # a file of a directory or of the cache
        progress("downloading %s%s" % (name, " (%s)" % megabytes(size) if size else ""))
        stream = response.raw.stream
        response.raw.stream = lambda *arguments, **options: whole(with_progress(stream(*arguments, **options), name, size),
                                                                  name, size)

    def page_failure(self, name):
        """The failure that hid a project's page, None if the index just does not have it."""
        return next((failure for asked, failure in self.asked if canonicalize_name(asked) == name and failure), None)


class Resolve(InstallCommand):
    """pip install, up to the point where it knows what to install; puts the wheels into `directory`."""

    def __init__(self, request, directory, find_links):
        super().__init__("install", "installs", isolated=True)
        self.request, self.directory, self.session, self.offered = request, directory, Session(request, find_links), {}
        self.pip_session = self.rows = self.error = None
        self.replaces, self.notes = [], []

    def get_default_session(self, options):
        session = super().get_default_session(options)
        if session is not self.pip_session:
            self.pip_session = session
            self.session.watch(session)
            for known in self.request.get("credentials", ()):
                # With its port: another port of that host may have another owner.
                session.auth.passwords[urllib.parse.urlsplit(known["url"]).netloc] = known["login"], known["password"]
        return session

    def make_resolver(self, preparer, finder, **options):
        resolver = super().make_resolver(preparer=preparer, finder=finder, **options)
        evaluate, prepare, resolve = finder.evaluate_links, preparer.prepare_linked_requirement, resolver.resolve

        def evaluate_links(link_evaluator, links):
            links = list(links)
            self.offered.setdefault(canonicalize_name(link_evaluator.project_name), []).extend(links)
            self.session.hashed.update(link.url_without_fragment for link in links if sources.hashes_of(link))
            return evaluate(link_evaluator, links)

        def prepare_wheel(req, *arguments, **more):
            if getattr(req.req, "url", None) or not req.link.is_wheel:
                raise Failure("blocked", "refused: %s would come from a URL (at %s) instead of the index" % (
                    req.name, failures.host_of(req.link.url)))
            return prepare(req, *arguments, **more)

        def resolve_only(*arguments, **more):
            try:
                found = list(resolve(*arguments, **more).requirements.values())
                # Some versions of pip have read no more than the metadata up to here.
                preparer.prepare_linked_requirements_more(found)
                self.compare(found)
                self.rows = [self.take(req) for req in found]
            except Exception as error:
                # pip prints some of them on several lines of its log.
                self.error = error
                raise
            raise Resolved

        finder.evaluate_links, preparer.prepare_linked_requirement = evaluate_links, prepare_wheel
        resolver.resolve = resolve_only
        return resolver

    def run(self, options, args):
        try:
            return super().run(options, args)
        except Resolved:
            return SUCCESS
        except Exception as error:
            self.error = self.error or error
            raise

    def compare(self, found):
        """The versions that the new ones replace, and the installed packages whose requirements they then miss."""
        for req in found:
            old, new = installed().get(canonicalize_name(req.name)), described(req)
            if old is not None and old.version != new.version:
                self.replaces.append({"name": new.raw_name, "from": str(old.version), "to": str(new.version)})
            if req.link.is_yanked:
                self.notes.append("%s %s was withdrawn by its authors%s" % (
                    new.raw_name, new.version, req.link.yanked_reason and ": " + req.link.yanked_reason))
        if self.replaces:
            _, (_, conflicting) = check_install_conflicts(found)
            changed = {canonicalize_name(row["name"]) for row in self.replaces}
            for name, wants in conflicting.items():
                for needed, version, need in wants:
                    if canonicalize_name(needed) in changed:
                        self.notes.append("%s needs %s, but gets %s %s" % (name, need, needed, version))

    def forget(self):
        """Removes the files of this command from the cache, where a bad one would stay for ever. Returns whether there
        were any."""
        for url in self.session.cached:
            adapter = self.pip_session.get_adapter(url)
            adapter.cache.delete(adapter.controller.cache_url(url))
        return bool(self.session.cached)

    def take(self, req):
        name = os.path.basename(req.link.filename)
        if not WHEEL_NAME.fullmatch(name):
            raise Failure("other", "the index offers %s in a file with the invalid name %s" % (req.name, ascii(name)))
        target, dist = os.path.join(self.directory, name), described(req)
        sources.check_hash(req.name, req.link, req.local_file_path)
        # Files of find-links are used in place, and belong to the user.
        (shutil.copyfile if req.link.is_file else shutil.move)(req.local_file_path, target)
        return {"name": dist.raw_name, "version": str(dist.version), "file": name,
                "sha256": sources.digest(target, "sha256")}


def options_of(request, place):
    """pip's arguments that all calls share, without credentials."""
    # An upstream proxy has 30 s for a connection, and the egress proxy then says what it lacks.
    seconds = "40" if request.get("upstream") else "15"
    words = [*confine.QUIET, "--retries", "2", "--timeout", seconds, "--only-binary", ":all:", "--prefix", place.new]
    words += ["--cache-dir", place.cache] if os.path.isdir(place.cache) else ["--no-cache-dir"]
    if place.certificate:
        words += ["--cert", place.certificate]
        # pip 24.2 uses the system's store too, and then cannot verify an index whose URL has an address.
        if "legacy-certs" in cmdoptions.use_deprecated_feature.keywords["choices"]:
            words += ["--use-deprecated", "legacy-certs"]
    words += ["--constraint", place.constraint] if request.get("constraint") else []
    words += ["--find-links", place.find_links] if request.get("find_links") else []
    if request.get("no_index"):
        return words + ["--no-index"]
    urls = [request["index_url"], *request.get("extra_index_urls", ())]
    for option, url in zip(["--index-url"] + ["--extra-index-url"] * len(urls), urls):
        parts = urllib.parse.urlsplit(url)
        words += [option, url]
        # The user has configured this host: otherwise pip silently skips an index without TLS.
        words += ["--trusted-host", parts.netloc] if parts.scheme == "http" else []
    return words


def damaged(error):
    return isinstance(error, (HashError, InvalidWheel, UnsupportedWheel, zipfile.BadZipFile)) or \
        isinstance(error, Failure) and error.kind == "bad_hash"


def resolve(request, directory, words, place, constrained=False):
    """Returns the finished command, or raises Unresolved or Failure."""
    command = Resolve(request, directory, place.find_links)
    try:
        status = command.main(words)
    except SystemExit as end:
        status = end.code
    if command.rows is not None:
        return command
    if damaged(command.error) and command.forget():
        return resolve(request, directory, words, place, constrained)
    error = command.error or Failure("other", "pip exited with status %s; see its log" % status)
    unresolved = candidates.check(error, command.offered, command.session, constrained)
    if unresolved is None:
        raise failures.of(error) from error
    unresolved.command = command
    raise unresolved


def requirements(texts):
    """Parses them as pip does: the server has checked the names, but not markers or the order of versions."""
    wanted, skipped = [], []
    for text in texts:
        try:
            need = Requirement(text)
        except InvalidRequirement:
            raise Failure("other", "%s is not a requirement" % ascii(text)) from None
        (wanted if need.marker is None or need.marker.evaluate({"extra": ""}) else skipped).append(need)
    return wanted, [str(need) for need in skipped]


def of_standard_library(need):
    """Whether to install it would change nothing: the standard library comes before installed packages."""
    return need.name.lower() in getattr(sys, "stdlib_module_names", ()) and not need.extras  # Python 3.10


# Anybody can have taken the names of these on an index.
FORMER = ("asynchat asyncore binhex cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib ossaudiodev "
          "parser pipes smtpd sndhdr spwd sunau symbol telnetlib uu xdrlib").split()


def run(request, place):
    for directory in (place.wheels, place.sources, place.needs):
        confine.clear(directory)
    wanted, skipped = requirements(request["packages"])
    standard = [need.name for need in wanted if of_standard_library(need)]
    wanted = [need for need in wanted if not of_standard_library(need)]
    notes = ["%s belongs to Python's standard library and needs no installation" % name for name in standard]
    former = next((need.name for need in wanted if need.name.lower() in FORMER), None)
    if former:
        raise Failure("not_found", "%s was a module of the standard library, and the index may have something else under this name"
                      % former, near=by_import(former))
    for need in wanted[:]:
        plain = not need.specifier and not request.get("upgrade")
        found = [name for name in by_import(need.name) if canonicalize_name(name) in installed()]
        if plain and found and canonicalize_name(need.name) not in installed():
            notes.append("%s is the module of %s, which is installed" % (need.name, found[0]))
            wanted.remove(need)
    nothing = {"ok": True, "to_install": [], "to_build": [], "already": [], "replaces": [], "skipped": skipped,
               "notes": notes}
    if not wanted:
        return nothing
    words = options_of(request, place) + sources.built_words(request, place)
    words += ["--upgrade"] if request.get("upgrade") else []
    try:
        command = resolve(request, place.wheels, words + ["--"] + [str(need) for need in wanted], place,
                          bool(request.get("constraint")))
    except candidates.Unresolved as unresolved:
        if unresolved.source is None or request.get("only_binary", True):
            raise unresolved.failure from unresolved
        return {**nothing, "to_build": [sources.take(unresolved, request, place)]}
    asked = {canonicalize_name(need.name) for need in wanted}
    for row in command.rows:
        row["requested"] = canonicalize_name(row["name"]) in asked
    taken = {canonicalize_name(row["name"]) for row in command.rows}
    found = [installed().get(name) for name in sorted(asked - taken)]
    already = [{"name": dist.raw_name, "version": str(dist.version)} for dist in found if dist is not None]
    return {**nothing, "to_install": command.rows, "already": already, "replaces": command.replaces,
            "notes": notes + command.notes}
