"""A record as Markdown, as a Python script and as a notebook. What the session's text says stays text in each of them."""
import re
import textwrap
import warnings
import json_text
from book import CUT
from show import edit_of, title
from visible import fenced, indented, items, lines, number, split, whole, word

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
