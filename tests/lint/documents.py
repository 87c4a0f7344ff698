"""What documents repeat of the source, so that neither drifts: variables, flags, exit statuses, names, links, versions.

    documents.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from rules import tracked

WIDTH = 120  # of a line of prose; rows of tables, addresses and what somebody types stay whole
# Flags of other programs that pages name.
FOREIGN = set("list suite setup verbose only scale big rm security-opt privileged network cap-drop read-only tmpfs stdio stateful "
              "port init for type now user scope upgrade check ignore-missing offline package track kernel short no-rebuild".split())
OF_CONFIG = {"host", "file", "name", "install", "uninstall", "in-memory", "help", "version"}  # cli/config.c, cli/options.c
# Set by meson, make and the build for what they start; a test's own, for its child; or a name in C.
INTERNAL = set("SANDPIPER_UNITS SANDPIPER_COMPLETIONS SANDPIPER_VERSION SANDPIPER_TEST_SECRET SANDPIPER_TEST_WORLD "
               "SANDPIPER_CACHE SANDPIPER_CERTIFICATE SANDPIPER_CONSTRAINT SANDPIPER_DIRECTORY SANDPIPER_FIND_LINKS SANDPIPER_STAGE SANDPIPER_BUNDLE SANDPIPER_SETTINGS".split())
# A figure and the pages that give it, each with the words beside it.
FIGURES = (
    ("16 MB", {"README.md": "A server takes 16 MB", "docs/DEPLOY.md": "(their share) | 16 MB",
               "docs/COMPARISON.md": "16 MB after calls"}),
    ("4 MB", {"README.md": "a further session 4 MB", "docs/COMPARISON.md": "each further session | 4 MB"}),
    ("27 ms", {"README.md": "first result comes after 27 ms", "docs/COMPARISON.md": "the first result | 27 ms"}),
    ("0.9 ms", {"README.md": "0.9 ms (", "docs/COMPARISON.md": "100 ms after the one before | 0.9 ms"}),
)


class Source:
    def __init__(self, root):
        self.files = {str(path.relative_to(root)): path for path in tracked(root) if path.is_file()}

    def text(self, name):
        return self.files[name].read_text(errors="replace")

    def pages(self):
        return {name: self.text(name) for name in self.files if name.endswith((".md", ".scd"))}


def variables(source):
    """docs/ENVIRONMENT.md has the variables that programs and tests read, and no others."""
    page = source.text("docs/ENVIRONMENT.md")
    named = set(re.findall(r"\bSANDPIPER(?:_[A-Z]+)*\b", page))
    read = set()
    for name in source.files:
        if name.endswith((".c", ".h", ".py", ".build", ".sh")) or name == "Makefile":
            text = source.text(name)
            read |= set(re.findall(r"\bSANDPIPER_[A-Z][A-Z_]*\b", text)) if name != "tests/lint/documents.py" else set()
            if name.endswith(".c") and not name.startswith("tests/"):
                yield from (f"docs/ENVIRONMENT.md: {one} is missing, which {name} reads"
                            for one in re.findall(r'getenv\("(\w+)"\)', text) if one not in page)
    yield from (f"docs/ENVIRONMENT.md: {one} is missing" for one in sorted(read - named - INTERNAL))
    yield from (f"docs/ENVIRONMENT.md: nothing reads {one}" for one in sorted(named - read - {"SANDPIPER"}))


def flags(source):
    """A page names no flag that is not there, and the manual has the defaults of the help."""
    table = source.text("cli/flags.c")
    known = set(re.findall(r'^ {4}\{"([a-z-]+)",', table, re.M)) | OF_CONFIG | FOREIGN
    for name, page in source.pages().items():
        if name != "CHANGELOG.md":  # a release had other flags
            for word in sorted(set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", page)) - known):
                yield f"{name}: there is no flag --{word}"
    manual = source.text("docs/sandpiper.1.scd")
    for name, default in re.findall(r'\{"([a-z-]+)"[^}]*?"([0-9][0-9.]*[KMG]?)",', table):
        entry = re.search(rf"^\*--{name}\* .*\n((?:\t.*\n)+)", manual, re.M)
        if not entry or not re.search(rf"\b{re.escape(default)}\b", entry[1]):
            yield f"docs/sandpiper.1.scd: --{name} does not name its default, {default}"


def statuses(source):
    """The manual has each exit status of the commands."""
    manual = source.text("docs/sandpiper.1.scd")
    for name in source.files:
        if name.startswith("cli/") and name.endswith(".c"):
            for constant, value in re.findall(r"\b(EXIT_[A-Z]+) = (\d+)", source.text(name)):
                if not re.search(rf"(?<!\d){value}(?!\d)", manual[manual.index("# SUBCOMMANDS"):]):
                    yield f"docs/sandpiper.1.scd: exit status {value} is missing ({constant} of {name})"


def names(source):
    """The tables of names on which other programs act."""
    rows = source.text("sandbox/workspace/names.c")
    first, others = (re.findall(r'^    "([^"]+)",$', re.sub(r" */\*.*?\*/", "", rows[rows.index(start):rows.index(end)]), re.M)
                     for start, end in (("rows[] = {", "ROWS = "), ("others[] = {", "OTHERS = ")))
    for page, mark, wanted in (("docs/WORKSPACE.md", "`%s`", first), ("docs/sandpiper.1.scd", "_%s_", first),
                               ("docs/REVIEW.md", "`%s`", others)):
        text = source.text(page)
        yield from (f"{page}: {name} is missing" for name in wanted if mark % name not in text)


def anchors(text):
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(source):
    """What [text](path#heading) names is there, and so is a target of `make`."""
    targets = source.text("Makefile").split("\n\nall:")[0]
    for name, page in source.pages().items():
        place = pathlib.PurePosixPath(name).parent
        for where, _, anchor in (one.partition("#") for one in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page)):
            path = re.sub(r"[^/]+/\.\./", "", str(place / where)) if where else name
            if path not in source.files and not any(file.startswith(path + "/") for file in source.files):
                yield f"{name}: {where} leads nowhere"
            elif anchor and anchor not in anchors(source.text(path)):
                yield f"{name}: {path} has no heading #{anchor}"
        for target in re.findall(r"(?:^ {4}|`)(?:sudo )?make ([a-z][a-z0-9-]*)", page, re.M):
            if target not in targets.split():
                yield f"{name}: there is no `make {target}`"


def figures(source):
    for figure, pages in FIGURES:
        for name, words in pages.items():
            if words not in source.text(name):
                yield f"{name}: not \"{words}\": {figure} stands in {', '.join(pages)}"


def versions(source):
    """What is not released has another version than the last release, and no page names a file with a number."""
    version = re.search(r"version: '([\d.]+)'", source.text("meson.build"))[1]
    log = source.text("CHANGELOG.md")
    waiting = re.search(r"## \[Unreleased\]\n(.*?)(?=^## \[)", log, re.M | re.S)[1].strip()
    last = re.search(r"^## \[(\d[\d.]*)\] - \d{4}-\d\d-\d\d$", log, re.M)[1]
    if bool(waiting) == (version == last):
        yield f"meson.build: {version}, and CHANGELOG.md has {'entries' if waiting else 'nothing'} after {last}"
    manifests = {name: source.text(name) for name in source.files if name.endswith(".yaml")}
    for name, page in {**source.pages(), **manifests}.items():
        for found in re.findall(r"sandpiper[-_:](?:mcp-|http:)?(\d+\.\d+\.\d+)", page):
            yield f"{name}: write VERSION, not {found}"


def buttons(source, root):
    """The buttons that add Sandpiper to an editor have the entries of `sandpiper config`."""
    sys.path.insert(0, str(root / "build-aux"))
    from buttons import PAGE, lines
    page = source.text(PAGE).split("\n")
    for start, line in lines(root).items():
        if line not in page:
            yield f"{PAGE}: {start.strip()} is missing or another one; python3 build-aux/buttons.py ."


def hosts(source):
    """Each host of the table names the tests by which it was tried, which are there, or says that it was not."""
    page, machines = source.text("docs/INSTALL.md"), source.text("tests/machines/check.py")
    for host, _, tried in re.findall(r"^\| (.+) \|(.*)\| (.+) \|$", page[page.index("## Where it was tried"):], re.M)[2:]:
        found = re.findall(r"`(tests/[^`]+\.py|[a-z]+\d*-[a-z0-9-]+)`", tried)
        yield from (f"docs/INSTALL.md: there is no {name}" for name in found
                    if name not in source.files and f'    "{name}": Host(' not in machines)
        if not found and "not tried" not in tried:
            yield f"docs/INSTALL.md: by what was it tried: {host}?"


def times(source):
    """Pages give the default time limit and wait of a call."""
    seconds = {name: default for name, default in re.findall(r'\{"(timeout|wait|max-timeout)"[^}]*?"(\d+)",', source.text("cli/flags.c"))}
    for name, words in (("README.md", "takes longer than {wait} seconds goes on as a job"), ("README.md", "`--timeout {timeout}`"),
                        ("docs/STATE.md", "by default `--wait`, {wait} s"), ("docs/STATE.md", "by default `--timeout`, {timeout} s"),
                        ("docs/TROUBLE.md", "`--wait` ({wait} s)"), ("docs/TROUBLE.md", "limit was reached: {timeout} s"),
                        ("docs/ARCHITECTURE.md", "| {timeout} s, at most {max-timeout} s |")):
        if words.format(**seconds) not in source.text(name):
            yield f"{name}: not \"{words.format(**seconds)}\", the default of cli/flags.c"


def widths(source):
    for name, page in source.pages().items():
        for number, line in enumerate(page.split("\n"), 1):
            whole = line.startswith(("|", "[", "    ", "\t`", "*sandpiper", "\tsandpiper")) or "](http" in line
            if len(line) > WIDTH and not whole:
                yield f"{name}:{number}: {len(line)} columns, more than {WIDTH}"


def main(root):
    source = Source(root)
    checks = (variables, flags, statuses, names, links, figures, versions, hosts, times, widths)
    bad = [f"{line}" for check in checks for line in check(source)] + [*buttons(source, root)]
    print("\n".join(bad) or "documents: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
