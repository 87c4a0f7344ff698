"""Removes what `meson install` has put in place, and what is empty then of the directories that it made or of our name.

Ninja's `uninstall` keeps those, and succeeds where it may remove nothing. Usage: uninstall.py BUILD
"""
import pathlib
import sys


def own_directories(path):
    """The directories of an installed file that only this program uses, the innermost first."""
    return [parent for parent in path.parents if any(part.startswith("sandpiper") for part in parent.parts)]


def remove_empty(directories):
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            break  # it is not empty, or gone already


def main(build):
    log = pathlib.Path(build, "meson-logs", "install-log.txt")
    if not log.exists():
        sys.exit(f"{log} does not exist: nothing was installed from {build}")
    paths = [pathlib.Path(line) for line in log.read_text().splitlines() if line and line[0] != "#"]
    parents = {parent for path in paths for parent in path.parents}
    files = [path for path in paths if path not in parents and (path.exists() or path.is_symlink())]
    for path in files:
        try:
            path.unlink()
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}; run: sudo make uninstall")
        remove_empty(own_directories(path))
    for directory in paths:  # those that the installation has made: the log ends with them, the innermost first
        if directory in parents:
            remove_empty([directory])
    print(f"{len(files)} files removed")


if __name__ == "__main__":
    main(sys.argv[1])
