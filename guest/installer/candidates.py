"""Why the resolver found nothing: judged by the files that the index offers for each name."""
import sys

from failures import Failure
from names import canonical, near

SHOWN = 8


class File:
    """One file of a project: its version, and what stands against it here."""

    def __init__(self, link, version, wheel):
        from pip._vendor.packaging import specifiers, tags

        self.link, self.version, self.wheel = link, version, wheel
        self.source = wheel is None
        self.platform_fits = self.source or wheel.supported(list(tags.sys_tags()))
        try:
            python = specifiers.SpecifierSet(link.requires_python or "")
            self.python_fits = python.contains("%d.%d.%d" % sys.version_info[:3], prereleases=True)
        except specifiers.InvalidSpecifier:
            self.python_fits = True

    @property
    def installable(self):
        return self.platform_fits and self.python_fits and not self.source


def files(name, links):
    """Those of the links that are wheels or source archives of the project, newest first."""
    from pip._internal.exceptions import InvalidWheelFilename
    from pip._internal.models.wheel import Wheel
    from pip._vendor.packaging import version

    found = {}
    for link in links:
        try:
            if link.filename.endswith(".whl"):
                wheel = Wheel(link.filename)
                if canonical(wheel.name) == canonical(name):
                    found[link.filename] = File(link, version.parse(str(wheel.version)), wheel)
            elif source_version(link.filename, name):
                found[link.filename] = File(link, version.parse(source_version(link.filename, name)), None)
        except (InvalidWheelFilename, version.InvalidVersion):
            continue
    return sorted(found.values(), key=lambda file: file.version, reverse=True)


def source_version(filename, name):
    """The version in a source archive's name, None when it is no archive of this project."""
    for ending in (".tar.gz", ".zip"):
        if filename.endswith(ending):
            stem = filename[:-len(ending)]
            for at, letter in enumerate(stem):
                if letter == "-" and canonical(stem[:at]) == canonical(name):
                    return stem[at + 1:]
    return None


class Unresolved(Exception):
    """A failure, and the source archive that would mend it where there is one."""

    def __init__(self, failure, source=None):
        super().__init__(failure.message)
        self.failure, self.source = failure, source


def judge(error, offered, session, constrained):
    """The Unresolved for an exception of the resolver; None when the exception is not about candidates.

    offered: canonical name -> links. session: what happened to its requests. constrained: there is a constraint file.
    """
    from pip._internal.exceptions import DistributionNotFound
    from pip._vendor.resolvelib.resolvers import ResolutionImpossible

    cause = error.__cause__
    if not isinstance(error, DistributionNotFound) and not isinstance(cause, ResolutionImpossible):
        return None
    causes = getattr(cause, "causes", ())
    for need, parent in causes:
        ireq = need.get_candidate_lookup()[1]
        if ireq is None:
            if parent is not None and need.name == "<Python from Requires-Python>":
                return Unresolved(Failure("no_wheel", "%s %s does not run on this Python %d.%d" % (
                    parent.name, parent.version, *sys.version_info[:2]), names=[parent.name]))
            continue
        name = canonical(ireq.name)
        there = files(name, offered.get(name, ()))
        if not any(file.installable and fits(file, ireq.specifier) for file in there):
            return missing(name, ireq.specifier, there, parent, session)
    return Unresolved(conflict(causes, constrained))


def fits(file, specifier):
    """Pre-releases count: whether one may be taken is pip's choice, and told in its own sentence."""
    return specifier.contains(file.version, prereleases=True)


def missing(name, specifier, there, parent, session):
    """Nothing that the index has of this name can be installed."""
    wanted = "%s%s" % (name, specifier)
    by = ", which %s %s needs," % (parent.name, parent.version) if parent is not None else ""
    if not there:
        trouble = session.trouble(name)
        if trouble is not None:
            return Unresolved(trouble)
        return Unresolved(Failure("not_found", "there is no package %s%s on the index" % (name, by), names=[name],
                                  near=near(name)))
    here = list(dict.fromkeys(str(file.version) for file in there if file.installable))[:SHOWN]
    more = {"names": [name], "available": here}
    matching = [file for file in there if fits(file, specifier)]
    if not matching:
        versions = here or list(dict.fromkeys(str(file.version) for file in there))[:SHOWN]
        return Unresolved(Failure("not_found", "no version of %s%s fits %s; there are: %s" % (
            name, by, specifier, ", ".join(versions)), **more))
    best, only = matching[0], "%s%s has no wheel" % (wanted, by)
    if not any(file.python_fits for file in matching):
        return Unresolved(Failure("no_wheel", "%s %s needs Python %s, and this is %d.%d" % (
            name, best.version, best.link.requires_python, *sys.version_info[:2]), **more))
    source = next((file for file in matching if file.source and file.python_fits), None)
    if source is not None:
        return Unresolved(Failure("no_wheel", only + " for this platform, only a source archive; the user can allow "
                                  "builds with --allow-sdist", **more), (name, source))
    platforms = sorted({str(tag) for file in matching if file.wheel for tag in file.wheel.file_tags})[:SHOWN]
    return Unresolved(Failure("no_wheel", "%s for this platform and Python %d.%d; there is: %s" % (
        only, *sys.version_info[:2], ", ".join(platforms)), **more))


def conflict(causes, constrained):
    """Each name can be had, but not all of them together."""
    told, names = [], []
    for need, parent in causes:
        who = "%s %s needs" % (parent.name, parent.version) if parent is not None else "you ask for"
        told.append("%s %s" % (who, need.format_for_error()))
        names.append(canonical(need.project_name))
    told = list(dict.fromkeys(told))[:SHOWN]
    text = "these do not go together: %s" % "; ".join(told) if told else "the packages contradict each other"
    if len(told) < 2 and constrained:
        text = "%s, and the user's constraint file rules that out" % (told or ["this"])[0]
    return Failure("conflict", text, names=list(dict.fromkeys(names)))
