"""What is meant by a text that does not compile as it was sent: code with prose, escapes or prompts around it.

A reading is taken only if the whole text has its form, it compiles, and no other reading that compiles differs. All
keep the numbers of the lines, except that of new lines which were escaped.
"""
import _ast
import os
import re

hints = load("hints")
language = load("language")
environ = load("zygote").environ  # which child processes get
Pattern = load("language").Pattern
FENCE = Pattern(r"(?ms)^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*\n(.*?)^[ \t]*\1[ \t]*$")
MARK = Pattern(r"(?m)^[ \t]*(?:```|~~~)")
PROMPT = Pattern(r"(>>>|In ?\[\d*\]:)(?: |$)")
CONTINUED = Pattern(r"(?:\.\.\.|[ ]*\.\.\.+:)(?: |$)")
SILENT = Pattern(r"(?:import|from|def|async|class)\b|[\w.,\[\] ]+=(?!=)")  # statements that print nothing
TRACEBACK = Pattern(r'.*Traceback \(most recent|  File "')
# The first line of a statement that need not end with the line, so that it does not compile, and lines of a notebook.
CODE = Pattern(r"""[ \t]*(?:(?:async|def|class|if|for|while|with|match|case)\b.*:[ \t]*(?:#.*)?$|(?:else|try|finally)[ ]*:|(?:elif|except)\b.*:"""
               r"""|[\w.]+[ ]*=(?!=)(?:[ ]*\w{0,2}["']|.*[(\[{\\][ \t]*$)|print\(|.*\bopen\((?!\))|[!%]+[a-z])""")
STRING = Pattern(r"""(?s)#[^\n]*|(\"{3}|'{3}|["'])((?:[^\\"']+|\\.|(?!\1).)*)\1?""")
ENTITY = Pattern(r"&(?:(lt)|(gt)|(amp)|(quot|#34|#x22)|(apos|#0?39|#x27));")
ENTITIES = "<", ">", "&", '"', "'"
ESCAPE = Pattern(r"(?s)\\(.)")
UNCLEAR = Pattern(r"""(?is)\\\\|\\r(?!\\n)|\A(?=.*\\t).*?\b(?:r[bf]?|[bf]r)\\?["']""")  # escapes that a string may have had: all depends on how many times
ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "\\": "\\", "/": "/"}
SHELLS = ("bash", "sh", "shell", "zsh", "console")
RUNS_SHELL = "a cell that begins with %%bash runs commands"
SHELL_ONLY = "write it and what needs it as one line, or as the lines of a cell that begins with %%%%bash"
NO_EFFECT = {  # commands that change the shell, which ends with the line
    "cd": "%%cd %s", "export": "%%env %s, or os.environ[...] = ..., is for this session and all that it starts",
    **dict.fromkeys(("source", "alias", "unset", "set", "pushd", "popd", "umask", "ulimit"), SHELL_ONLY + "%.0s"),
}
# A line of the shell as Python takes it: "ls", "ls -la", "ls /tmp" are expressions, others are no Python.
COMMAND = Pattern(r"(?:\$ +)?([a-z][\w.+-]*)((?: +(?![-+*/%&|^<>=!@:]*=|[-+*/%&|^<>@] |in |is |not |and |or |if |else |for )[^\s(,=].*)?)")
OPERANDS = Pattern(r"(?: +(?:--?[A-Za-z]|[/~.])\S*)*")
BARE = ("ls", "pwd", "ps", "env", "whoami", "date", "pip", "git")  # other names alone, as df, are variables that are not there
NOT_COMMANDS = frozenset(("print", "exec", "import", "from", "if", "for", "while", "with", "def", "class", "return", "raise", "assert",
                          "del", "lambda", "not", "await", "async", "try", "else", "elif", "yield", "global", "pass", "match", "case"))


def blank(text):
    return "\n" * text.count("\n")


def is_code(line, calls=True):
    """Whether a line does something, which prose and output do not. Without calls a call is none: so values are shown."""
    if CODE.match(line):
        return True
    try:
        body = language.tree_of(line.strip(), "<prose>", 0).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return any(one.value is not None if type(one) is _ast.AnnAssign  # "Result: 4" has none
               else type(one) is not _ast.Expr or type(one.value) is _ast.Await or calls and type(one.value) is _ast.Call for one in body)


def may_be_open(text):
    """Whether what follows a text outside of fences can be a part of a string or of brackets."""
    return '"""' in text or "'''" in text or any(text.count(one) != text.count(other) for one, other in ("()", "[]", "{}"))


def of_fences(text):
    """The code in one fence with prose around it, or in several with nothing between them."""
    found = list(FENCE.finditer(text))
    around = FENCE.sub("", text)
    if (not found or any(one[2].lower() not in language.FENCE_NAMES for one in found) or MARK.search(around)
            or len(found) > 1 and around.strip() or any(map(is_code, language.lines_of(around))) or any(map(may_be_open, FENCE.split(text)[::4]))):
        return
    parts, at = [], 0
    for one in found:
        parts += [blank(text[at : one.start(3)]), one[3]]
        at = one.end(3)
    yield "".join(parts), "only the code in the fence was run" if len(found) == 1 else "the code of %d fences was run" % len(found)


def of_transcript(text):
    """The statements behind prompts. Lines without one are output, but not before the first, nor if they may be code."""
    lines, out, is_open, statement, is_traceback = language.lines_of(text), [], False, "", False
    first = next((line for line in lines if line.strip()), "").lstrip()
    if not PROMPT.match(first):
        return
    indent = len(first) and next(len(line) - len(line.lstrip()) for line in lines if line.strip())
    for line in lines:
        line = line[indent:] if not line[:indent].strip() else line
        prompt = PROMPT.match(line)
        found = prompt or is_open and CONTINUED.match(line)
        out.append(line[found.end() :] if found else "")
        statement = out[-1] if prompt else statement
        is_traceback = not found and (TRACEBACK.match(line) or is_traceback and line[:1].isspace())
        if not found and not is_traceback:
            bare, goes_on = line.strip(), is_open and line[:1] in " \t."
            if bare.startswith((">>>", "In [", "In[")) or is_code(bare.lstrip(".: "), goes_on or SILENT.match(statement)):
                return
        is_open = bool(found)
    yield "\n".join(out), "prompts and output of a transcript were left out"


def of_entities(text):
    """Whoever has escaped all of it has left no such character. One inside of a string may be meant as it stands."""
    if ENTITY.search(text) and not re.search("[<>]|&(?!%s)" % ENTITY.pattern[1:], text):
        reading = ENTITY.sub(lambda found: ENTITIES[found.lastindex - 1], text)
        places = ENTITY.sub("\0", text)  # each is one character in both
        if not any(one[1] and "\0" in places[slice(*one.span(2))] for one in STRING.finditer(reading)):
            yield reading, "HTML entities (%s) were replaced" % ", ".join(dict.fromkeys(one[0] for one in ENTITY.finditer(text)))


def of_escapes(text):
    """As inside a string of JSON. Between real new lines only quotes are escaped."""
    rest, whole = ESCAPE.sub("", text), "\n" not in text.strip()
    quotes = ["\\" + mark for mark in "\"'" if "\\" + mark in text]
    if any(mark[1] in rest for mark in quotes) or not whole and not quotes or UNCLEAR.search(text):
        return
    note = "escapes (%s) were replaced" % ", ".join(quotes or ["\\n"])
    if whole:
        yield ESCAPE.sub(lambda found: ESCAPES.get(found[1], found[0]), text), note
    yield re.sub(r"\\([\"'])", lambda found: found[1], text), note  # a template would import the code's re


def certain(text, flags, depth=2):
    """(code, what was done) of a text that does not compile, or None."""
    found = {}
    for kind in of_fences, of_transcript, of_entities, of_escapes:
        for reading, note in kind(text):
            if language.parses(reading, flags):
                found.setdefault(reading, note)
                break
            if depth > 1 and reading != text:
                inner = certain(reading, flags, depth - 1)
                if inner:
                    found.setdefault(inner[0], note + ", " + inner[1])
    return next(iter(found.items())) if len(found) == 1 else None


def script(text):
    """What to do with a text that names a shell in its first line, or None."""
    return RUNS_SHELL if re.match(r"\s*#!.*sh\b", text) else None


def seen(text, line, message):
    """One sentence about a text of which no reading is certain, or None. line: the one with the error."""
    if script(text):
        return script(text)
    marks = len(MARK.findall(text)) if MARK.match(line) or text.lstrip().startswith(line) else 0
    other = marks and next((one[2] for one in FENCE.finditer(text) if one[2].lower() not in language.FENCE_NAMES), None)
    if other:
        return "the fence is marked %s: %s" % (other, RUNS_SHELL if other in SHELLS else "send Python alone")
    if marks:
        return "the text has %d line%s of code fences (```) with more around them: send the code alone" % (marks, "s" * (marks > 1))
    if PROMPT.match(line) or line[:3] == "...":
        return "`%s` is a prompt of a transcript: send the statements alone" % line.partition(" ")[0]
    escaped = re.search(r"""\\([n"'])""", line) if "after line continuation" in message else None
    if escaped:
        return "the code has `%s`, escaped twice, where a %s should be" % (escaped[0], "new line" if escaped[1] == "n" else "quote")
    entity = ENTITY.search(line)
    if entity:
        return "the code has HTML entities: write `%s` for `%s`" % (ENTITIES[entity.lastindex - 1], entity[0])
    if re.search("[\u2018\u2019\u201c\u201d]", line):
        return "the code has typographic quotes: write \" or '"
    return None


def command(line, is_python=False):
    """Of a line that is meant for the shell, as its first word is a program."""
    found = COMMAND.fullmatch(line)
    if not found or found[1] in NOT_COMMANDS or is_python and not OPERANDS.fullmatch(found[2]):
        return None
    word, rest = found[1], found[2].strip()
    if word in hints.SYSTEM_INSTALLERS:
        return hints.NO_SYSTEM_PACKAGES
    if word in NO_EFFECT and (rest or word == "cd"):
        return "%s is a command of the shell: %s" % (word, NO_EFFECT[word] % rest)
    if is_python and not rest and word not in BARE or not any(os.access(place + "/" + word, os.X_OK) for place in environ.get("PATH", "").split(":")):
        return None
    return "`%s` is a command of the shell, if that is meant: !%s%s" % (word, word, " " + rest if rest else "")
