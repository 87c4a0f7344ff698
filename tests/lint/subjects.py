"""Refuse a commit whose subject has more than 60 characters; exit 77 (a skip for meson) without git or these commits.

    subjects.py SOURCE_ROOT
"""
import subprocess
import sys

BASE = "90b05c7f45fdbe543245a92668bddea16a8e8be1"  # commits up to this one are older than the rule
MOST = 60


def main(root):
    try:
        log = subprocess.run(["git", "-C", root, "log", "--format=%h %s", f"{BASE}..HEAD"], capture_output=True, text=True)
    except FileNotFoundError:
        print("git: not installed")
        return 77
    if log.returncode:
        print("git: " + log.stderr.strip().replace("\n", " "))
        return 77
    long = [line for line in log.stdout.splitlines() if len(line.partition(" ")[2]) > MOST]
    for line in long:
        print(f"{line}: {len(line.partition(' ')[2])} characters, at most {MOST}")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
