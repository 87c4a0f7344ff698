"""A record as a page: it has no script, loads nothing, and its policy allows neither. All text of the session passes through
html()."""
import re
from book import BRANCH, DROPPED
from export import entries_of, image_type
from show import clock, left_out, title
from visible import fill, html, items, part, whole, word

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
