"""A record as Markdown, as a Python script, as a notebook and as a page. What the session's text says stays text in each of them."""
import re
import textwrap
import warnings
import json_text
from book import BRANCH, CUT, DROPPED
from show import clock, edit_of, left_out, title
from visible import fenced, fill, html, indented, items, lines, number, part, split, whole, word

BASE64 = re.compile("[A-Za-z0-9+/=]*")


def image_type(data):
    """The type of a figure that is shown, by the first bytes that its base64 stands for, or None."""
    if not isinstance(data, str) or not BASE64.fullmatch(data):
        return None
    return "image/png" if data.startswith("iVBORw0KGgo") else "image/jpeg" if data.startswith("/9j/") else None


def entries_of(book, session):
    """Those of this session, or of none, with their numbers. session None: of all."""
    for position, entry in enumerate(book.entries, 1):
        if session is None or word(entry.event, "session") in ("", session):
            yield position, entry


def joined_output(result, stream=None):
    """All that was printed, in its order; to this stream, or to any."""
    return "".join(text for name, text in items(result, "output") if stream in (None, name.partition("\0")[0]))


def name_of(entry):
    return title(entry) + (f": {entry.fate}" if entry.fate else "")


def result_of(entry, form, value="", hint="", status="", plain=""):
    """Each part of a result by form(mark, text); plain: the mark of what was printed, a traceback, another call's result."""
    result = entry.result or {}
    content = "".join(whole(block, "text") for block in items(entry.event, "content"))
    return "".join(form(mark, text) for mark, text in (
        (plain, joined_output(result)), (value, whole(result, "value")), (plain, whole(result, "traceback")),
        (hint, whole(result, "hint")), (plain, content), (status, whole(result, "status"))))


def markdown(book, session):
    out = ["# A record of Sandpiper\n\n", fenced("", book.name)]
    for _, entry in entries_of(book, session):
        # The name of another call may hold words of the session.
        out += [f"## {name_of(entry)}\n\n" if entry.is_cell() else "## call\n\n" + fenced("", name_of(entry)),
                fenced("python", whole(entry.event, "code")),
                fenced("", whole(entry.event.get("arguments"), "content")), fenced("diff", edit_of(entry)), result_of(entry, fenced)]
    return "".join(out), ""


# --- Python ---

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST: nothing is made of the code
FOR_NOTEBOOKS = ("await", "async", "__future__", "global ", "= !", "= %", "=!", "=%")


def compiles(code):
    try:
        compile(code, "", "exec", ONLY_AST, True)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def is_plain_python(entry, code):
    """Whether Python's own compiler takes the code as it is, as far as is known without it: nothing that only a notebook
    understands. And nothing in it is invisible, or reorders what people see of it."""
    error = word(entry.result, "error_type")
    compiled = ((word(entry.result, "outcome") in ("ok", "error") or entry.fate == CUT)
                and not any(name in error for name in ("SyntaxError", "IndentationError", "TabError")))
    return (compiled and code and lines(code) == code and code.lstrip("\n")[:1] not in (" ", "\t") and code[-1] != "\\"
            and not any(part in code for part in FOR_NOTEBOOKS)
            and not any(re.match(r"[ \t]*[!%?$]|.*\?$", one) for one in code.split("\n")) and compiles(code))


def code_that_ran(entry):
    """Without what the sandbox takes off code before it runs: a fence around all of it, an indent, returns."""
    code = whole(entry.event, "code").replace("\r\n", "\n")
    first, _, rest = code.strip().partition("\n")
    fence, (inside, _, last) = re.fullmatch(r"(`{3,}|~{3,})[\w+-]*", first.rstrip()), rest.rpartition("\n")
    code = inside if fence and last.strip() == fence[1] else code
    return code if compiles(code) else textwrap.dedent(code)


def comment(prefix, text):
    return indented(prefix, lines(text))


def script(book, session):
    warnings.simplefilter("ignore")  # of code that Python takes all the same
    out = ["# A record of Sandpiper. Code that would not compile here is a comment.\n"]
    for _, entry in entries_of(book, session):
        code = code_that_ran(entry)
        is_code = entry.is_live() and is_plain_python(entry, code)
        out += ["\n# %% ", comment("", name_of(entry)), f"{code}\n" if is_code else comment("# code: ", code),
                comment("#   ", edit_of(entry)),
                result_of(entry, comment, "# Out: ", "# Hint: ", "# ", "#   ")]
    return "".join(out), ""


# --- a notebook, nbformat 4.5: what led to the final state of one session are code cells, so that "Run All" repeats it; the
# rest is Markdown between fences ---

FIRST_SETTINGS = ("workspace", "mount", "allow-host", "index-url", "find-links", "preinstall")
# In a notebook an interrupted cell would go on, for ever if it was a loop without end.
ALARM = ("import signal\nsignal.signal(signal.SIGALRM, signal.default_int_handler)\nsignal.setitimer(signal.ITIMER_REAL, {seconds:g})\n"
         "{code}\nsignal.setitimer(signal.ITIMER_REAL, 0)")
REPLACE = ('text = path.read_text(encoding="utf-8")\n'
           '_ = path.write_text(text.replace({old}, {new}, 1), encoding="utf-8")\n')


def outputs_of(result):
    outputs = [{"output_type": "stream", "name": "stderr" if name.partition("\0")[0] == "stderr" else "stdout", "text": text}
               for name, text in items(result, "output")]
    paths = items(result, "image_files")
    for position, image in enumerate(items(result, "images")):
        data = image.get("data")
        path = paths[position] if position < len(paths) else None
        # Not a file that the code has saved.
        if image_type(data) and isinstance(path, str) and path.startswith("/tmp/figures/"):
            outputs.append({"output_type": "display_data", "data": {image_type(data): data}, "metadata": {}})
    if "value" in result:
        # As Python shows it: without the line feed before several lines, and the line that names its figure.
        text = whole(result, "value").removeprefix("\n")
        figure = text.partition("\0")[0].find("\n[image: ")
        outputs.append({"output_type": "execute_result", "execution_count": None,
                        "data": {"text/plain": text if figure < 0 else text[:figure]}, "metadata": {}})
    if word(result, "outcome") == "exit":
        outputs.append({"output_type": "error", "ename": "SystemExit", "evalue": str(number(result, "exit_code")),
                        "traceback": []})
    elif word(result, "traceback"):
        outputs.append({"output_type": "error", "ename": word(result, "error_type"), "evalue": word(result, "error_message"),
                        "traceback": split(word(result, "traceback"))})
    return outputs


def code_of_write(event):
    """Python that writes the file below the notebook's directory, which stands for the workspace; None: it was not written, or
    elsewhere, where a notebook that runs without a sandbox should not write."""
    arguments = event.get("arguments", {})
    path = word(arguments, "path").removeprefix("/work/")
    if path.startswith("/") or ".." in path or event.get("is_error") or "cut" in event:
        return None
    code = ("# write_file\nimport base64, pathlib\n"
            f"path = pathlib.Path({json_text.quote(path)})\npath.parent.mkdir(parents=True, exist_ok=True)\n")
    if "old_text" in arguments:
        old, new = (json_text.quote(whole(arguments, name)) for name in ("old_text", "new_text"))
        return code + REPLACE.format(old=old, new=new)
    content = json_text.quote(whole(arguments, "content"))
    content = f"base64.b64decode({content})" if word(arguments, "encoding") == "base64" else f"{content}.encode()"
    mode = "ab" if word(arguments, "mode") == "append" else "wb"
    return code + f'with path.open("{mode}") as file:\n    _ = file.write({content})\n'


def code_of_install(event):
    """None: nothing was installed."""
    packages = ["".join(f" {word(item, 'name')}=={word(item, 'version')}") for item in items(event, "installed")
                if all(re.fullmatch(r"(?!-)[A-Za-z0-9._+!-]+", word(item, name)) for name in ("name", "version"))]
    return "%pip install --quiet" + "".join(packages) if packages else None


def markdown_cell(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code_cell(source, outputs=(), metadata=(), count=None):
    return {"cell_type": "code", "execution_count": count, "metadata": dict(metadata), "source": source,
            "outputs": [{**output, "execution_count": count} if "execution_count" in output else output for output in outputs]}


def first_of(book):
    settings = [(word(row, "name"), word(row, "value")) for row in items(book.start, "settings")]
    shown = [row for row in settings if row[0] in FIRST_SETTINGS] + [("packages", word(book.start, "packages"))]
    return ("# A session of Sandpiper\n\nIts directories, remote hosts and packages:\n\n"
            + fenced("", "".join(f"{name:11} {value}\n" for name, value in shown)))


def cells_of(entry):
    """Of a cell in the notebook's session."""
    code, result = code_that_ran(entry) if "code" in entry.event else None, entry.result or {}
    cut, count = entry.fate == CUT, number(entry.event, "cell")
    fate = (f"**cell {count}: {entry.fate}**{'; here an alarm interrupts it' if cut else ''}\n\n"
            + fenced("", whole(result, "status")))
    if not entry.is_live():
        text = fate + fenced("python", code) + fenced("", joined_output(result)) if code else ""
        return [markdown_cell(text)] if code else []
    raised = word(result, "traceback") or word(result, "outcome") != "ok"
    if cut and code is not None:
        code = ALARM.format(code=code, seconds=max(number(result, "duration_ms"), 100) / 1000)
    cell = code_cell(code, outputs_of(result), {"tags": ["raises-exception"]} if raised else {}, count or None)
    return [markdown_cell(fate)] * cut + [cell] * (code is not None)


def session_of(book):
    """The default one, else the first."""
    sessions = [word(entry.event, "session") for entry in book.entries if entry.is_cell()]
    return sessions[0] if sessions and "default" not in sessions else "default"


def notebook(book, session):
    session = session_of(book) if session is None else session
    cells, others, files = [markdown_cell(first_of(book))], 0, 0
    for entry in book.entries:
        code = None
        if entry.kind == "write":
            code = code_of_write(entry.event)
            files += code is None
        elif entry.kind == "install":
            code = code_of_install(entry.event)
        elif entry.is_cell() and word(entry.event, "session") == session:
            cells += cells_of(entry)
        else:
            others += entry.is_cell()
        cells += [code_cell(code)] if code else []
    cells = [{**cell, "id": f"c{position}"} for position, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4,
            "nbformat_minor": 5}
    notes = [f"{others} cell{'' if others == 1 else 's'} of other sessions (--session)"] if others else []
    notes += [f"{files} call{'' if files == 1 else 's'} of write_file (refused, cut, or outside of the workspace)"] if files else []
    return json_text.dump(book) + "\n", f"left out: {'; '.join(notes)}" if notes else ""


# --- a page ---
# A record as a page: it has no script, loads nothing, and its policy allows neither. All text of the session passes through
# html().
LINES_SHOWN, OUTLINE_BYTES = 30, 60
BEGIN = ("<!doctype html>\n<html lang=\"en\"><head>"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
         '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
         '<meta name="color-scheme" content="light dark">\n')
# What a page of many results needs beside the look that it shares with the view of one, view/view.css.
STYLE = """body{margin:0 auto;max-width:72rem;padding:1rem;display:grid;gap:0 2rem;grid-template-columns:minmax(0,1fr)}
h1{font-size:1.15rem;margin:0}
header p{margin:.2rem 0 1rem;color:var(--dim)}
section{border-top:1px solid var(--line);padding:.7rem 0;scroll-margin-top:.5rem}
h2{font-size:.9rem;margin:0 0 .35rem;display:flex;gap:.7rem;flex-wrap:wrap;align-items:baseline}
h2 time{color:var(--dim);font-weight:400}
h2 em{font-style:normal;font-weight:400;color:var(--warn)}
.out{margin:.45rem .7rem 0}.status{color:var(--dim);padding:.45rem .7rem 0}
.ok h2 span{color:var(--ok)}.bad h2 span,nav .bad{color:var(--bad)}
.off .code,.off .out{opacity:.65}.off h2 span{color:inherit}
img{margin:.5rem .7rem}summary{color:var(--dim);padding:.3rem .7rem}
nav ol{list-style:none;margin:0;padding:0;font-size:.8125rem}
nav a{display:block;color:inherit;text-decoration:none;padding:.1rem .4rem;\
border-radius:4px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
nav a:hover{background:var(--soft)}nav .off{color:var(--dim)}
header td{white-space:normal;vertical-align:top}
@media(min-width:62rem){body{grid-template-columns:15rem minmax(0,1fr)}\
header{grid-column:1/3}nav{position:sticky;top:1rem;align-self:start;max-height:95vh;overflow:auto}}
</style>"""
HEAD = ("</h1><p>Sandpiper {version}, isolation level {isolation}, CPython {python}. "
        "Everything below the headings was written by code or by a model.</p>")
KEYWORDS = frozenset(
    "False None True and as assert async await break case class continue def del elif else except finally for from global "
    "if import in is lambda match nonlocal not or pass raise return try while with yield".split())
# A string ends before what ends it: string_end().
TOKEN = re.compile(r"(#[^\n]*)|(\"{3}|'{3}|[\"'])|([0-9][\w\x80-\U0010FFFF]*)|([A-Za-z_\x80-\U0010FFFF][\w\x80-\U0010FFFF]*)"
                   r"|[^#\"'A-Za-z0-9_\x80-\U0010FFFF]+", re.ASCII)
CLASSES = (None, "c", "s", "n", "k")


def string_end(code, at, quote):
    """Where the string ends whose text begins there. One that does not end takes its line, or, in triple quotes, all."""
    for found in re.compile(rf"\\.|{quote}" if len(quote) == 3 else rf"\\.|{quote}|(?=\n)", re.DOTALL).finditer(code, at):
        if not found[0].startswith("\\"):
            return found.end()
    return len(code)


def highlight(code):
    """Python code with spans of the classes k, c, s and n (view/view.css) around keywords, comments, strings and numbers."""
    out, at = [], 0
    while at < len(code):
        found = TOKEN.match(code, at)
        end = string_end(code, found.end(), found[2]) if found[2] else found.end()
        text = html(code[at:end])
        kind = found.lastindex and CLASSES[found.lastindex]
        is_plain = not kind or kind == "k" and found[4] not in KEYWORDS
        out.append(text if is_plain else f'<span class="{kind}">{text}</span>')
        at = end
    return "".join(out)


def block(classes, text, before=""):
    """A long one is folded."""
    count = text.count("\n")
    begin, end = (f"<details><summary>{count} lines</summary>", "</details>") if count > LINES_SHOWN else ("", "")
    return f'{begin}<pre class="{classes}">{before}{html(text)}</pre>{end}\n' if text else ""


def images_of(images):
    return "".join(f'<img alt="figure {position}" src="data:{image_type(image.get("data"))};base64,{image["data"]}">\n'
                   for position, image in enumerate(images, 1) if image_type(image.get("data")))


def class_of(entry):
    event = (entry.result or {}) if entry.is_cell() else entry.event
    wrong = event.get("is_error") or event.get("failed") or word(event, "decision") == "refused"
    if entry.is_cell() and not entry.is_live() and entry.fate not in (DROPPED, BRANCH):
        return "off bad" if wrong else "off"
    return "bad" if wrong else "ok"


def cell(entry):
    code, result = whole(entry.event, "code"), entry.result or {}
    left = left_out(result)
    return "".join((
        f'<pre class="code">{highlight(code)}</pre>\n' if code else "",
        *(block("out err" if stream.partition("\0")[0] == "stderr" else "out", text) for stream, text in items(result, "output")),
        f'<p class="status">{left}</p>\n' if left else "",
        block("out", whole(result, "value"), "Out: "), block("out trace", whole(result, "traceback")),
        block("out", whole(result, "hint"), "Hint: "), block("out", whole(result, "refusal")),
        images_of(items(result, "images")), block("status", whole(result, "status"))))


def diff(text):
    """Text of a result in which a diff may be: its lines by their first character."""
    classes = {"+": "add", "-": "del", " ": "same"}
    lines = (f'<span class="{classes.get(one[0], "at")}">{html(one)}</span>' for one in re.findall(r"[^\n]*\n|[^\n]+", text))
    return f'<pre class="out diff">{"".join(lines)}</pre>\n'


def call(entry):
    arguments, content = entry.event.get("arguments"), items(entry.event, "content")
    texts = [whole(item, "text") for item in content]
    return "".join((*(block("code", whole(arguments, name)) for name in ("content", "old_text", "new_text")),
                    *(diff(text) if entry.kind == "change" and text else block("out", text) for text in texts),
                    images_of(content)))


def section(entry, position):
    session = fill(entry.event, "<em>session {session}</em>", html) if word(entry.event, "session") not in ("", "default") else ""
    fate = f"<em>{entry.fate}</em>" if entry.fate else ""
    return (f'<section id="e{position}" class="{class_of(entry)}"><h2><span>{html(title(entry))}</span>'
            f"<time>{html(clock(entry.event))}</time>{session}{fate}</h2>\n"
            f"{cell(entry) if entry.is_cell() else call(entry)}</section>\n")


def outline(entry, position):
    """With the first line of a cell's code, which says most about it."""
    first = word(entry.event, "code").partition("\n")[0].encode()[:OUTLINE_BYTES].decode(errors="ignore")
    return f'<li><a class="{class_of(entry)}" href="#e{position}">{html(title(entry))}  {html(first)}</a></li>\n'


def page(book, session):
    css = __loader__.get_data("view.css").decode()
    name = html(book.name)
    settings = (fill(row, "<tr><td>{name}</td><td>{value}</td><td>{source}</td></tr>\n", html)
                for row in items(book.start, "settings") if word(row, "source") != "default")
    entries = list(entries_of(book, session))
    return "".join((
        BEGIN, "<style>\n", css, STYLE, f"<title>{name}</title></head>\n<body><header><h1>{name}", fill(book.start, HEAD, html),
        "<details><summary>Changed settings</summary><table>\n", *settings, "</table></details>\n",
        "</header>\n<nav><details open><summary>Outline</summary><ol>\n", *(outline(entry, position) for position, entry in entries),
        "</ol></details></nav>\n<main>\n", *(section(entry, position) for position, entry in entries), "</main></body></html>\n")), ""
