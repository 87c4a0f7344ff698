"""Notebook syntax: lines for the shell and magics, in a cell that is no valid Python as it stands.

The parser turns such a cell into Python with the same line numbers, so that tracebacks show the user's lines. It needs
to know only where a statement begins: no Python begins there with "!" or "%". What that Python calls is in shell.py,
and runs as a part of the cell.
"""
import _ast
import re

language = load("language")
commands = load("commands")
Pattern = load("language").Pattern
NAME = "__notebook__"  # what translated code calls; among the builtins
TARGET = Pattern(r"[\w.,*\[\]\"' \t]{1,200}")
QUOTES = ('"""', "'''", '"', "'")
# A comment, the beginning of a string, a bracket, or a backslash with what it escapes.
TOKEN = Pattern(r"#.*|\"\"\"|'''|\"|'|[\[({]|[\])}]|\\.?")
ENDS = {quote: Pattern(r"\\.|\\$|" + quote) for quote in QUOTES}
OPTIONS = Pattern(r"(?:-[nr]\s*\d{1,9}\s+|-[tcq]\s+)*")
CELL_OPTIONS = Pattern(r"(?:-[nr]\s*\d{1,9}(?:\s+|$)|-[tcq](?:\s+|$))*")
ALIASES = ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")
COMMANDS = ALIASES + ("pip", "conda", "mamba", "uv")
CALLS = {"cd": "cd", "env": "env", "set_env": "env", "pwd": "pwd", "run": "run", "who": "who", "whos": "who"}
SHELLS = ("bash", "sh", "python", "python3")
# Settings of IPython's own, without which a cell does the same.
SKIPPED = ("autoreload", "load_ext", "reload_ext", "unload_ext", "config", "autosave", "colors", "xmode", "pdb", "gui", "autocall", "automagic",
           "tensorflow_version", "precision", "pprint", "logstart", "logstop", "logon", "logoff", "notebook", "aimport")
CAPTURE = Pattern(r"(?:--no-(?:stdout|stderr|display)\s*)*([A-Za-z_]\w*)?")


class Unknown(Exception):
    """A magic that does not exist here, or a command that does not end: (line number, line, what is said of it)."""


class State:
    """Where a line of Python ends: in a string, in brackets, behind a backslash, or between statements."""

    def __init__(self):
        self.quote, self.depth, self.continued = None, 0, False

    def is_start(self):
        return not (self.quote or self.depth or self.continued)

    def read(self, line):
        at, self.continued = 0, False
        while True:
            if self.quote:
                found = ENDS[self.quote].search(line, at)
                while found and found[0] != self.quote and found.end() < len(line):
                    found = ENDS[self.quote].search(line, found.end())
                if found is None or found[0] != self.quote:
                    if len(self.quote) == 1 and not line.endswith("\\"):
                        self.quote = None  # no string: an error of the code's
                    return
                self.quote, at = None, found.end()
            found = TOKEN.search(line, at)
            if found is None or found[0][0] == "#":
                return
            token, at = found[0], found.end()
            if token in QUOTES:
                self.quote = token
            elif token in "[({":
                self.depth += 1
            elif token in "])}":
                self.depth = max(0, self.depth - 1)
            elif token == "\\":
                self.continued = True


def call(method, *arguments):
    return "%s.%s(%s)" % (NAME, method, ", ".join(repr(argument) for argument in arguments if argument != {}))


def split(line):
    """(indent, target, mark, rest) of a line that begins with a mark, or that assigns what follows one; else None."""
    bare = line.lstrip(" \t")
    indent = line[: len(line) - len(bare)]
    target, rest = "", bare
    if bare[:1] not in ("!", "%"):
        left, equals, rest = bare.partition("=")
        rest = rest.lstrip(" \t")
        if not equals or rest[:1] not in ("!", "%") or rest[:2] == "!=" or not TARGET.fullmatch(left.rstrip()):
            return None
        target = left.rstrip() + " = "
    mark = rest[:2] if rest[:2] in ("!!", "%%") else rest[:1]
    return indent, target, mark, rest[len(mark) :]


def system(target, mark, command, bodies):
    """What a command for the shell becomes, or None."""
    hints = load("hints")
    word = command.partition(" ")[0]
    if word in load("readings").NO_EFFECT and not re.search(r"[;&|\n]", command) or word in hints.SYSTEM_INSTALLERS:
        return None  # it would change nothing
    if hints.INSTALL.match(command) and "\n" not in command:
        return target + call("install", command)
    return target + call("output" if target or mark == "!!" else "system", command, bodies)


def magic(target, word, rest, number):
    """What the line of a magic becomes, or None."""
    rest = rest.strip()
    if word == "matplotlib" and not target:
        return "pass"
    if word in SKIPPED and not target:
        return call("skip", word)
    if word == "timeit":
        found = OPTIONS.match(rest)
        source = rest[found.end() :]
        return target + call("timeit", found[0], source, number) if source and source[0] != "-" else None
    return target + call(CALLS[word], rest) if word in CALLS else None


class Translation:
    def __init__(self, text):
        self.lines = language.lines_of(text)
        self.out = []
        self.changed = set()  # numbers of the lines that are not the user's
        self.wanted = []  # what lines of installers name
        self.around = None  # (line, call) of %%time or %%capture

    def text(self):
        return "\n".join(self.out)

    def emit(self, python, taken=1):
        self.changed.update(range(len(self.out) + 1, len(self.out) + taken + 1))
        self.out += [python] + [""] * (taken - 1)

    def run(self):
        """Whether there was anything to translate. Raises Unknown."""
        self.cell_magic()
        state = State()
        while len(self.out) < len(self.lines):
            line = self.lines[len(self.out)]
            found = split(line) if state.is_start() else None
            if found is None:
                state.read(line)
                self.out.append(line)
            elif found[2] == "%" and re.match(r"time(?=\s|$)", found[3]):
                self.time_line(state, *found)
            else:
                self.line(*found)
        return bool(self.changed)

    def first(self):
        """The line that is neither empty nor a comment."""
        return next((at for at, line in enumerate(self.lines) if line.strip() and line.lstrip()[0] != "#"), None)

    def cell_magic(self):
        at = self.first()
        found = re.match(r"\s*%%(\w+)(.*)", self.lines[at]) if at is not None else None
        if not found:
            return
        word, rest, body = found[1], found[2].strip(), "\n".join(self.lines[at + 1 :])
        self.out += self.lines[:at]
        left = len(self.lines) - at
        if word == "script" and rest in SHELLS:
            word, rest = rest, ""
        captured = CAPTURE.fullmatch(rest) if word == "capture" else None
        if captured or word == "time" and not rest:
            self.emit("")
            inner = Translation("\n" * (at + 1) + body)
            inner.run()
            self.out, self.wanted = inner.out, inner.wanted
            self.around = at + 1, call("capture", captured[1]) if captured else call("timed")
            self.changed |= inner.changed
        elif word == "timeit" and CELL_OPTIONS.fullmatch(rest):
            self.emit(call("timeit", rest, body, at + 2), left)
        elif word in ("writefile", "file") and rest:
            self.emit(call("writefile", rest, body), left)
        elif word in SHELLS and rest in ("", "--no-raise-error"):
            self.emit(call("script", word, body), left)
        else:
            raise Unknown(at + 1, self.lines[at])

    def time_line(self, state, indent, target, _, rest):
        """The statement may go on in the next lines."""
        number = len(self.out) + 1
        statement = rest[len("time") :].strip()
        python = "%swith %s: %s%s" % (indent, call("timed"), target, statement or "pass")
        self.emit(python)
        state.read(python)
        if statement[:1] in ("!", "%"):
            raise Unknown(number, self.lines[number - 1])

    def command(self, indent, first):
        """What commands.read() finds: in lines without the indent of their block, if they have it."""
        lines = self.lines[len(self.out) + 1 :]
        inner = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(indent)), len(lines))
        try:
            return commands.read([first] + [line[len(indent) :] for line in lines[:inner]])
        except commands.Open:
            pass
        try:
            return commands.read([first] + lines)
        except commands.Open as why:
            number = len(self.out) + 1
            raise Unknown(number, self.lines[number - 1], "%s %s" % (load("hints").OPEN, why)) from None

    def magic_line(self, rest):
        taken = 1
        while rest.rstrip().endswith("\\") and len(self.out) + taken < len(self.lines):
            rest = rest.rstrip()[:-1] + " " + self.lines[len(self.out) + taken].strip()
            taken += 1
        return rest, taken

    def line(self, indent, target, mark, rest):
        number = len(self.out) + 1
        word = re.match(r"[A-Za-z_]\w*", rest)
        if mark == "%" and word and word[0] in ("sx", "system"):
            mark, rest = "!!", rest[word.end() :]
        if mark[0] == "!" or mark == "%" and word and word[0] in COMMANDS:
            rest, bodies, taken = self.command(indent, rest.lstrip())
            python = system(target, mark, rest, bodies)
        else:
            rest, taken = self.magic_line(rest)
            python = magic(target, word[0], rest[word.end() :], number) if mark == "%" and word else None
        if python is None:
            raise Unknown(number, self.lines[number - 1])
        installs = load("hints").INSTALL.match(rest)
        if installs:
            self.wanted += load("hints").requirements(installs[1])
        self.emit(indent + python, taken)


def parse(text, name, flags, error):
    """The tree of a cell for which CPython has raised error. Raises that, or one that tells more."""
    translation = Translation(text)
    try:
        if not translation.run() or (error.lineno or 0) < min(translation.changed):
            raise error
        tree = language.python_tree(translation.text(), name, flags)
    except Unknown as unknown:
        number, line, *why = unknown.args
        first = min(translation.changed | {number})
        if (error.lineno or first) < first if why else error.lineno not in translation.changed:
            raise error from None
        raise SyntaxError(why[0] if why else "invalid syntax", (name, number, 1, line + "\n")) from None
    except SyntaxError as second:
        if second is error or second.lineno in translation.changed:
            raise error from None
        if second.lineno and second.lineno <= len(translation.lines):
            second.text = translation.lines[second.lineno - 1] + "\n"
        raise second from None
    hide_columns(tree, translation.changed)
    if translation.around:
        wrap(tree, *translation.around)
    keep_value(tree)
    tree.wanted = translation.wanted
    IMPORTED["builtins"].__dict__[NAME] = load("shell").notebook(load("session").SESSION)
    return tree


def hide_columns(tree, changed):
    """Carets below the user's line would be in the wrong place."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if getattr(node, "lineno", 0) in changed:
            node.col_offset = node.end_col_offset = -1
            node.end_lineno = node.lineno if node.end_lineno in changed else node.end_lineno
        nodes += load("packages").children_of(node)


def made(source, line):
    """The statements of source, at a line."""
    body = language.tree_of("\n" * (line - 1) + source, "<notebook>", 0).body
    hide_columns(_ast.Module(body, []), (line,))
    return body


def made_for(node):
    """The method of a statement that this module has made for %time or %%capture, else None."""
    manager = node.items[0].context_expr if type(node) is _ast.With else None
    method = getattr(manager, "func", None)
    return method.attr if type(method) is _ast.Attribute and getattr(method.value, "id", None) == NAME else None


def wrap(tree, line, manager):
    whole = made("with %s: pass" % manager, line)
    whole[0].body = tree.body or whole[0].body
    tree.body = whole


def keep_value(tree):
    """The value of a timed expression at the end is that of the cell."""
    last = tree.body[-1] if tree.body else None
    if made_for(last) != "timed":
        return
    keep_value(last)
    if type(last.body[-1]) is _ast.Expr:
        kept = made("%s.hold(0)" % NAME, last.body[-1].lineno)[0]
        kept.value.args = [last.body[-1].value]
        last.body[-1] = kept
        tree.body += made(call("take"), last.lineno)


def statements(tree):
    """Those of a cell, without what %%time or %%capture has put around them."""
    body = tree.body
    while body and made_for(body[0]):
        body = body[0].body + body[1:]
    return body
