"""Project rules that no compiler checks: sizes, forbidden calls, forbidden words."""
import pathlib
import re
import subprocess
import sys

MODULES = ("base", "schema", "rpc", "sandbox", "guest", "tools", "bridge", "cli")
MAX_LINES = {".c": 900, ".h": 300, ".py": 600}
# Tests and their tables may be longer.
LONGER = {"tests/e2e", "tests/escape", "tests/unit"}

# call -> reason, and what to use
FORBIDDEN = {
    r"strcpy|strcat|sprintf|vsprintf|gets": "no bound: use snprintf or buf_",
    r"atoi|atol|atoll|strtol|strtoll|strtoul|strtoull|strtod|atof|sscanf": "use base/parse.h",
    r"iconv_open|dlopen|getpw\w+|getgr(?:ent|nam|gid)\w*|getaddrinfo|gethostby\w+":
        "loads the host's modules at run time: a static build would die in them",
    r"alloca|setlocale|system|popen|tmpnam|tempnam|mktemp": "not in this program",
}
# Programs are static and do not link our libraries; they parse only numbers from the kernel's /proc.
NUMBERS_BY_LIBC = ("sandbox/programs/",)
# Only cli/ may print: stdout carries the protocol, and stderr the log.
PRINTING = r"\b(?:v?printf|puts|putchar|perror|v?fprintf|fputs|fputc)\s*\("
MAY_PRINT = ("cli/", "tests/")
# Split so that this file does not contain the words that it searches for.
PROMISES = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|not yet implem" r"ented")
MACHINE = re.compile(r"/work/(?:h-|main|shared)|\.\./sha" r"red\b|/ro" r"ot/\.(?:pyenv|cache)|"
                     r"/ho" r"me/[a-z]+/|registry\.npm" r"js\.org")
BINARY = {".png", ".ico", ".gz"}


def tracked(root):
    """Files under version control and those that are to be, or every file in a source archive."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for path in (root / name for name in listed.stdout.decode().split("\0") if name) if path.is_file()]
    return [path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts
            and "build" not in path.parts[len(root.parts)][:5]]


def strip_comments(text):
    """Removes comments and string literals, keeping every line break."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)


def check_size(name, text):
    limit = MAX_LINES.get(pathlib.PurePath(name).suffix)
    count = text.count("\n")
    if limit and count > limit and not any(name.startswith(directory) for directory in LONGER):
        yield f"{name}: {count} lines, more than {limit}: two files?"


def check_calls(name, text):
    for number, line in enumerate(strip_comments(text).split("\n"), 1):
        for calls, why in FORBIDDEN.items():
            found = re.search(rf"(?<![\w.>])(?:{calls})\s*\(", line)
            if found and not (name.startswith(NUMBERS_BY_LIBC) and "parse.h" in why):
                yield f"{name}:{number}: {found[0]} ...): {why}"
        if re.search(PRINTING, line) and not name.startswith(MAY_PRINT):
            yield f"{name}:{number}: only cli/ prints"


def check_words(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if PROMISES.search(line):
            yield f"{name}:{number}: a promise instead of the work"
        if MACHINE.search(line):
            yield f"{name}:{number}: names a place of one machine, or a registry host"
        if line.rstrip() != line and not name.endswith((".md", ".scd", ".patch")):
            yield f"{name}:{number}: blanks at the end of the line"


def main(root):
    bad = []
    for path in tracked(root):
        name = str(path.relative_to(root))
        if path.suffix in BINARY or name.startswith("tests/corpus/") or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        bad += check_size(name, text)
        bad += check_words(name, text) if "golden/" not in name else []
        if name.split("/")[0] in MODULES and path.suffix in (".c", ".h"):
            bad += check_calls(name, text)
    print("\n".join(bad) or "rules: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
