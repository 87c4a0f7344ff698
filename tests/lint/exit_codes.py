"""Fail when the exit statuses of guest/ differ from the table in guest/guest.h, or have no name."""
import pathlib
import re
import sys


def main(root):
    table = dict(re.findall(r"GUEST_(EXIT_\w+) = (\d+)", (root / "guest/guest.h").read_text()))
    found, bad = {}, []
    for path in sorted((root / "guest").rglob("*.py")):
        text = path.read_text()
        found.update(re.findall(r"^(EXIT_\w+) = (\d+)\b", text, re.MULTILINE))
        bad += [f"{path.relative_to(root)}: {call}): a status without a name"
                for call in re.findall(r"exit\((?![01]\))\d+", text)]
    bad += [f"{name}: {table.get(name)} in guest/guest.h, {found.get(name)} in guest/*.py"
            for name in sorted(table.keys() | found.keys()) if table.get(name) != found.get(name)]
    print("\n".join(bad) or "exit_codes: clean")
    return bool(bad) or not table


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
