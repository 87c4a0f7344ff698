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
# Libraries that belong to certain rooms: nobody else includes their headers.
LIBRARY = {
    "jansson.h": {"schema", "rpc", "tools", "bridge", "cli"},
    "seccomp.h": {"sandbox"},
    "sys/capability.h": {"sandbox"},
}


def wrong(room, included):
    """Why this room may not include that header, or None."""
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
                why = found and wrong(room, found[1])
                if why:
                    bad.append(f"{path.relative_to(root)}:{number}: {found[1]}: {why}")
    print("\n".join(bad) or "layers: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
