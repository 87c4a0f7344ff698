"""Removes what `meson install` has put in place, and its directories of our own name that are empty then.

Ninja's `uninstall` keeps those, and succeeds where it may remove nothing. Usage: uninstall.py BUILD
"""
import pathlib
import sys


def own_directories(path):
    """The directories of an installed file that only this program uses, the innermost first."""
    return [parent for parent in path.parents if any(part.startswith("sandpiper") for part in parent.parts)]


def main(build):
    log = pathlib.Path(build, "meson-logs", "install-log.txt")
    if not log.exists():
        sys.exit(f"{log} does not exist: nothing was installed from {build}")
    paths = [pathlib.Path(line) for line in log.read_text().splitlines() if line and line[0] != "#"]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}; run: sudo make uninstall")
        for directory in own_directories(path):
            try:
                directory.rmdir()
            except OSError:
                break  # it is not empty, or gone already
    print(f"{len(paths)} files removed")


if __name__ == "__main__":
    main(sys.argv[1])
