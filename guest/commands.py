"""Where a command for the shell ends: quotes, brackets and here-documents go on in the next lines of a cell."""
import re

Pattern = load("language").Pattern
language = load("language")
INNER = r"\$\(\(|\$\(|\$\{|`|\\.|\\$"
PLAIN = Pattern(r"\\\s*$|\$'|'|\"|\(\(|\(|\)|<<<|<<-?|\|&?|&&|(?<![^\s;&|()<>])#.*|\{|" + INNER)
WITHIN = {"'": Pattern("'"), "$'": Pattern(r"'|\\."), '"': Pattern(r'"|\{|' + INNER), "${": Pattern(r"\}|\"|'|" + INNER),
          "((": Pattern(r"[()]")}
CLOSING = {"'": "'", "$'": "'", '"': '"', "${": "}", "((": ")", "(": ")"}
DELIMITER = Pattern(r"[ \t]*((?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\|&;()<>$`{}])+)(?=[\s|&;()<>]|$)")
QUOTED = Pattern(r"'([^']*)'|\"([^\"]*)\"|\\(.)")
CONTINUED = Pattern(r"(?<!\\)(?:\\\\)*\\$")


class Open(Exception):
    """A command that does not end in its cell. Its argument says why."""


class State:
    """Where a line of the shell's ends: in quotes, in brackets, or before the here-documents that it has announced."""

    def __init__(self):
        self.open, self.due, self.goes_on = [], [], False

    def is_word(self):
        """Whether the next line is a part of a word."""
        return bool(self.open) and self.open[-1] not in ("(", "`")

    def read(self, line):
        """Where the backslash is that continues the line, or None."""
        at = behind = 0  # behind an operator after which the shell reads on
        while True:
            found = (WITHIN[self.open[-1]] if self.is_word() else PLAIN).search(line, at)
            if found is None:
                self.goes_on = bool(behind) and not line[behind:].strip()
                return None
            token, at = found[0], found.end()
            if token[0] == "\\":
                if at == len(line) and not self.is_word() and not token[1:].strip():
                    return found.start()
            elif token[0] == "#":
                line = line[: found.start()]
            elif token in ("<<", "<<-"):
                at = self.here_document(token, line, at)
            elif token[0] in "|&":
                behind = at
            elif token == "{":
                at = behind_expression(line, found.start())
            elif token != "<<<":
                self.bracket(token)

    def bracket(self, token):
        last = self.open[-1] if self.open else None
        if token == "`" and "`" in self.open:
            del self.open[self.open.index("`") :]
        elif CLOSING.get(last) == token:
            self.open.pop()
        elif token in ("((", "$(("):
            self.open += ["((", "(("]
        elif last == "((":
            self.open.append("((")
        elif token not in ")}":
            self.open.append("(" if token == "$(" else token)

    def here_document(self, token, line, at):
        found = DELIMITER.match(line, at)
        if not found:
            raise Open("<< is followed by no plain word, so the end of its here-document is unknown")
        # Of a template re would look for itself in the modules that code sees.
        name = QUOTED.sub(lambda quoted: quoted[quoted.lastindex], found[1])
        self.due.append((name, token == "<<-", name != found[1]))
        return found.end()


def behind_expression(line, at):
    """Where the {expression} ends that Python fills in, or behind the brace of something else."""
    end = load("shell").end_of(line, at)
    return end if end and language.parses("(" + line[at + 1 : end - 1] + ")") else at + 1


def body(name, strips, quoted, lines):
    """How many lines a here-document takes, with its last."""
    joined = None
    for number, line in enumerate(lines, 1):
        if not joined and (line.lstrip("\t") if strips else line) == name:
            return number
        joined = not quoted and CONTINUED.search(line)
    raise Open("no later line is %s alone, which would end its here-document" % (name or "an empty one"))


def read(lines):
    """(the command that begins in the first line, {where the body of a here-document begins in it: (its size, whether
    the shell takes it as it is)}, how many lines it takes)."""
    state, text, bodies, taken = State(), "", {}, 0
    while taken == 0 or (state.open or state.goes_on) and taken < len(lines):
        line, taken = lines[taken], taken + 1
        end = state.read(line)
        while end is not None and taken < len(lines):
            text, line, taken = text + line[:end] + " ", lines[taken].lstrip(), taken + 1
            end = state.read(line)
        text += line + "\n"
        for name, strips, quoted in state.due if not state.is_word() else ():
            size = body(name, strips, quoted, lines[taken:])
            added = "\n".join(lines[taken : taken + size]) + "\n"
            bodies[len(text)] = len(added), quoted
            text, taken = text + added, taken + size
        state.due = state.due if state.is_word() else []
    if state.open or state.due:
        raise Open("its %s is never closed" % state.open[-1][-1])
    return text if bodies else text.strip(), bodies, taken
