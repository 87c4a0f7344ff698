"""A ceiling of code lines and files for each directory of production code, and each of sandbox/ and tools/.

    ceilings.py SOURCE_ROOT          compares with ceilings.txt
    ceilings.py SOURCE_ROOT write  makes ceilings.txt anew, with the numbers of today

Code lines are those with more than comments, braces and punctuation, so that layout changes nothing.
"""
import collections
import pathlib
import re
import sys

from rules import tracked

TABLE = pathlib.Path(__file__).resolve().with_suffix(".txt")
TOPS = ("base", "bridge", "cli", "guest", "record", "rpc", "sandbox", "schema", "tools", "view")
DIVIDED = ("sandbox", "tools")
SUFFIXES = (".c", ".h", ".py", ".js", ".css", ".html")
SLACK_LINES, SLACK_FILES = 40, 2  # below a ceiling, before it must be lowered
HEAD = """# What each directory may have: code lines, files. A commit that removes code lowers its rows (ceilings.py . write). A
# capability that needs more raises them in a commit of its own, whose body says what users get for it (CONTRIBUTING.md).
"""


def code_lines(path):
    text = path.read_text(errors="replace")
    if path.suffix in (".c", ".h", ".js", ".css"):
        text = re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', lambda found: found[1] or " ", text, flags=re.S)
    elif path.suffix == ".py":
        text = re.sub(r"""^[ \t]*(\"{3}|'{3}).*?\1[ \t]*$|^[ \t]*#[^\n]*""", "", text, flags=re.S | re.M)
    return sum(1 for line in text.split("\n") if re.search(r"[A-Za-z0-9\"'_]", line))


def measured(root):
    """{directory: (code lines, files)}"""
    found = collections.defaultdict(lambda: [0, 0])
    for path in tracked(root):
        parts = path.relative_to(root).parts
        if parts[0] not in TOPS or path.suffix not in SUFFIXES:
            continue
        names = {parts[0], "/".join(parts[:2]) if parts[0] in DIVIDED and len(parts) > 2 else parts[0]}
        lines = code_lines(path)
        for name in names:
            found[name][0] += lines
            found[name][1] += 1
    return {name: tuple(found[name]) for name in sorted(found)}


def read_table():
    rows = (line.split() for line in TABLE.read_text().splitlines() if line and line[0] != "#")
    return {name: (int(lines), int(files)) for name, lines, files in rows}


def faults(now, ceilings):
    for name in sorted({*now, *ceilings}):
        have, most = now.get(name, (0, 0)), ceilings.get(name, (0, 0))
        for count, ceiling, slack, unit in zip(have, most, (SLACK_LINES, SLACK_FILES), ("code lines", "files")):
            if count > ceiling:
                yield (f"{name}: {count} {unit}, and the ceiling is {ceiling}: remove as much, here or by a simpler design; or "
                       "raise the ceiling in a commit of its own that says what users get for it")
            elif ceiling - count > slack or not count:
                yield f"{name}: {count} {unit}, far below the ceiling of {ceiling}: lower it (tests/lint/ceilings.py . write)"


def main():
    now = measured(pathlib.Path(sys.argv[1]).resolve())
    if sys.argv[2:] == ["write"]:
        rows = "".join(f"{name:24} {lines:6} {files:4}\n" for name, (lines, files) in now.items())
        TABLE.write_text(HEAD + rows)
        return 0
    found = list(faults(now, read_table()))
    print("\n".join(found) or f"{sum(now[name][0] for name in TOPS)} code lines in {sum(now[name][1] for name in TOPS)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
