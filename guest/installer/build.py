"""The step that runs foreign code: source archives become wheels. Its sandbox has no network."""
import collections
import logging
import os

import confine
from failures import Failure
from pip._internal.commands.wheel import WheelCommand
from reply import progress

LAST_LINES = 12


class Tail(logging.Handler):
    """The last lines of a build's output."""

    def __init__(self):
        super().__init__()
        self.lines = collections.deque(maxlen=LAST_LINES)

    def emit(self, record):
        self.lines.extend(line for line in record.getMessage().splitlines() if line.strip())


def run(request, place):
    if not os.path.isdir(place.built):
        confine.clear(place.built)
    for row in request["to_build"]:
        name = os.path.basename(row["file"])
        progress("building %s %s" % (row["name"], row["version"]))
        words = [*confine.QUIET, "--no-index", "--no-cache-dir", "--no-deps", "--find-links", place.needs,
                 "--wheel-dir", place.built, "-v"]
        command, tail = WheelCommand("wheel", "builds", isolated=True), Tail()
        # Without it, pip before 23.1 runs a setup.py itself where `wheel` is not installed.
        words += ["--use-pep517"] if command.parser.has_option("--use-pep517") else []
        writer = logging.getLogger("pip.subprocessor")
        writer.addHandler(tail)
        try:
            status = command.main(words + ["--", os.path.join(place.sources, name)])
        finally:
            writer.removeHandler(tail)
        if status:
            raise Failure("build_failed", "%s %s could not be built without network access: %s" % (
                row["name"], row["version"], "\n".join(tail.lines) or "see pip's log"))
    return {"ok": True}
