"""Fail when a room includes a room that it may not know. The tables below are the law."""
import pathlib
import re
import sys

MAY = {
    "base": set(),
    "schema": {"base"},
    "rpc": {"base", "schema"},
    "sandbox": {"base"},
    "guest": {"base"},
    "tools": {"base", "guest", "schema", "rpc", "sandbox"},
    "bridge": {"base"},
    "cli": {"base", "bridge", "guest", "schema", "rpc", "sandbox", "tools"},
}
# Rooms of which others may see only these headers.
FACE = {"sandbox": {"sandbox/sandbox.h", "sandbox/egress.h"}}
# Programs of their own: what of their room's other parts they may see.
PROGRAM = {
    "sandbox/init/": ("sandbox/init/", "sandbox/confine/", "sandbox/wire/", "sandbox/plan/mount.h", "sandbox/plan/view.h",
                      "sandbox/grade/proof.h", "sandbox/start/sweeper.h", "sandbox/egress.h"),
    "sandbox/egress/": ("sandbox/egress/", "sandbox/confine/", "sandbox/wire/", "sandbox/egress.h"),
}
# Libraries that belong to certain rooms: nobody else includes their headers.
LIBRARY = {
    "jansson.h": {"schema", "rpc", "tools", "bridge", "cli"},
    "seccomp.h": {"sandbox"},
    "sys/capability.h": {"sandbox"},
}


def wrong(path, included):
    """Why this file may not include that header, or None."""
    room = path.split("/")[0]
    for folder, seen in PROGRAM.items():
        if path.startswith(folder) and included.startswith("sandbox/") and not included.startswith(seen):
            return f"{folder} is a program of its own"
    if included in LIBRARY:
        return None if room in LIBRARY[included] else "is another room's library"
    other = included.split("/")[0]
    if other not in MAY or "/" not in included or other == room:
        return None
    if other not in MAY[room]:
        return f"{room} may not know {other}"
    if included not in FACE.get(other, {included}):
        return f"is private to {other}"
    return None


def main(root):
    bad = []
    for room in MAY:
        for path in sorted((root / room).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
                why = found and wrong(str(path.relative_to(root)), found[1])
                if why:
                    bad.append(f"{path.relative_to(root)}:{number}: {found[1]}: {why}")
    print("\n".join(bad) or "layers: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
