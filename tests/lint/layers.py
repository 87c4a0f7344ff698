"""Fail when a module includes a header that the tables below do not allow."""
import pathlib
import re
import sys

MAY = {
    "base": set(),
    "schema": {"base"},
    "rpc": {"base", "schema"},
    "view": {"base"},
    "record": {"base", "rpc"},
    "sandbox": {"base"},
    "guest": {"base"},
    "tools": {"base", "guest", "schema", "rpc", "record", "sandbox", "view"},
    "bridge": {"base"},
    "cli": {"base", "bridge", "guest", "schema", "rpc", "record", "sandbox", "tools"},
}
# Modules of which others may include only these headers.
FACE = {"sandbox": {"sandbox/sandbox.h"}}
# sandbox/ from the bottom to the top: a directory may include its own headers and those of the directories before it.
# ".": files of sandbox/ itself, except FACE and SHARED, whose types every directory may use.
INSIDE = ("spec", "trust", "protocol", "policy", "programs", "workspace", "host", "plan", "limits", "box",
          "launch", "unprivileged", "packages", "egress", "report", "interpreter", ".", "installer")
SHARED = {"sandbox/types.h", "sandbox/scratch.h", "sandbox/checkpoint_policy.h", "tools/tools.h"}
# The same for tools/: a session knows nothing of the tools that use it, and nobody the registry at the top.
TOOLS = ("box", "content", "run", "servers", "install", "keep", "session", "jobs", "order", "files", "changes", ".")
# Separate programs: the other parts of their module that they may include; never each other's headers.
PROGRAM = {
    f"sandbox/programs/{directory}/": (f"sandbox/programs/{directory}/", "sandbox/programs/roles.h",
                                       "sandbox/programs/common/", "sandbox/policy/", "sandbox/protocol/",
                                       "sandbox/types.h", *more)
    for directory, more in {
        "apply": (),
        "cleanup": ("sandbox/limits/cgroup.h",),
        "common": ("sandbox/checkpoint_policy.h",),
        "init": (),
        "keeper": (),
        "monitor": (),
        "proxy": ("sandbox/egress/",),
        "tools": (),
    }.items()
}
# Libraries that only certain modules may include.
LIBRARY = {
    "jansson.h": {"schema", "rpc", "record", "tools", "bridge", "cli"},
    "seccomp.h": {"sandbox"},
    "sys/capability.h": {"sandbox"},
}


def rank(path):
    """The position of a file of sandbox/ in INSIDE, or of tools/ in TOOLS."""
    if path in SHARED:
        return -1
    if path in FACE["sandbox"]:
        return len(INSIDE)
    directory = path.split("/")[1] if path.count("/") > 1 else "."
    return (TOOLS if path.startswith("tools/") else INSIDE).index(directory)


def upward(path, included):
    """Why a file may not include that header of its own module, or None."""
    if path.startswith(tuple(PROGRAM)) or rank(included) <= rank(path):
        return None
    return "points upward"


def wrong(path, included):
    """Why this file may not include that header, or None."""
    module = path.split("/")[0]
    for directory, seen in PROGRAM.items():
        if path.startswith(directory) and included.startswith("sandbox/") and not included.startswith(seen):
            return f"{directory} is a program of its own"
    if included in LIBRARY:
        return None if module in LIBRARY[included] else "is another module's library"
    other = included.split("/")[0]
    if other == module and module in ("sandbox", "tools"):
        return upward(path, included)
    if other not in MAY or "/" not in included or other == module:
        return None
    if other not in MAY[module]:
        return f"{module} may not know {other}"
    if included not in FACE.get(other, {included}):
        return f"is private to {other}"
    return None


def main(root):
    bad = []
    for module in MAY:
        for path in sorted((root / module).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
                why = found and wrong(str(path.relative_to(root)), found[1])
                if why:
                    bad.append(f"{path.relative_to(root)}:{number}: {found[1]}: {why}")
    print("\n".join(bad) or "layers: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
