"""Tracebacks as CPython prints them, without the frames of this directory and with those of libraries counted."""
import sys
import traceback
from _io import StringIO

TEXT_MAX = 12000
HEAD = 4000
LINE_MAX = 300  # of source
END_FRAMES = 1500  # at either end of a traceback; more between them would take seconds
CYCLE_MAX = 8  # frames of a recursion through several functions
REPEATED_MIN = 60  # characters of a message, from which on a chain of exceptions has it once
CHAIN_MAX = 10  # exceptions that led to one
SHOWN = 3  # rounds of it, as CPython shows of a line that repeats
FOLDED = 2  # frames of libraries in a row, from which on they are only counted
OWN = DIRECTORY + "/"
LIBRARY = load("imports").LIBRARY
INSTALLED = ("/site-packages/", "/dist-packages/")
COMPILED = (".pyx", ".pxd", ".pxi")  # Cython names its sources, which are not installed
HEADER = "Traceback (most recent call last):\n"
TracebackException = traceback.TracebackException
hook = sys.__excepthook__
traceback.linecache.cache = load("session").line_cache


def is_cell(name):
    return name.startswith("<cell ")


def position(session, error):
    """(cell number, line) of the innermost frame that is a cell's, or of a SyntaxError in a cell."""
    found = ("", 0)
    if isinstance(error, SyntaxError) and is_cell(str(error.filename)):
        return number(error.filename), error.lineno or 1
    tb = error.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if name in session.sources:
            found = (number(name), tb.tb_lineno)
        tb = tb.tb_next
    return found


def last(error):
    """What CPython keeps of an exception that nothing has caught, for pdb.pm() and the like: {name in sys: value}.

    Unlike CPython, frees the variables of the frames after a MemoryError: the next cell would not have the memory.
    """
    tb = error.__traceback__
    while tb is not None and not is_cell(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    BaseException.with_traceback(error, tb)
    kept = {"last_type": type(error), "last_value": error, "last_traceback": tb}
    if sys.version_info >= (3, 12):
        kept["last_exc"] = error
    while tb is not None and isinstance(error, MemoryError):
        try:
            tb.tb_frame.clear()
        except RuntimeError:
            pass  # a generator that still runs
        tb = tb.tb_next
    return kept


def number(name):
    return name[len("<cell ") : -1]


def trim(stack):
    """Drops the driver's frames, and all above the first cell: asyncio's own, when a cell awaits."""
    own = [i for i, frame in enumerate(stack) if frame.filename.startswith(OWN)]
    if own:
        first = next((i for i, frame in enumerate(stack) if is_cell(frame.filename)), len(stack))
        stack[:] = [f for i, f in enumerate(stack) if i >= first and i not in own]


def package_of(filename, layers):
    """The package or module of the standard library or of an installed package that has this file, or None: it is the
    user's."""
    for place in (LIBRARY, *(layer + "/" for layer in layers)):
        if filename.startswith(place) and not any(part in filename[len(place) - 1 :] for part in INSTALLED):
            return filename[len(place) :].partition("/")[0].partition(".")[0]
    for part in INSTALLED:
        if part in filename:
            return filename.rpartition(part)[2].partition("/")[0].partition(".")[0]
    if filename.startswith("<frozen "):
        return filename[len("<frozen ") : -1].partition(".")[0]
    return filename.partition("/")[0].partition(".")[0] if filename.endswith(COMPILED) else None


def tidy(report, layers, seen):
    """Trims the stacks of a report and of those it leads to. They count what is long and tells little: the frames of
    libraries, except the one that raised the exception, and rounds of several frames (CPython detects rounds of one
    only)."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    stack = report.stack
    if stack:
        trim(stack)
    if len(stack) > CYCLE_MAX or sum(package_of(frame.filename, layers) is not None for frame in stack) > FOLDED:
        stack.format = lambda **options: format_rounds(stack, layers, options)
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        tidy(other, layers, seen)


def format_rounds(stack, layers, options):
    text, at, begun = [], 0, 0
    places = [(frame.filename, frame.lineno, frame.name) for frame in stack]
    packages = [package_of(frame.filename, layers) for frame in stack]
    while at < len(places):
        size, rounds = round_at(places, at)
        if rounds <= SHOWN:
            at += 1
            continue
        text += format_folded(stack[begun : at + size * SHOWN], packages[begun : at + size * SHOWN], type(stack), options)
        text.append("  [Previous %d frames repeated %d more times]\n" % (size, rounds - SHOWN))
        at = begun = at + size * rounds
    return text + format_folded(stack[begun:], packages[begun:], type(stack), options)


def format_folded(frames, packages, kind, options):
    """Formats frames, with a count in place of those in libraries; the last one stays."""
    text, at, begun = [], 0, 0
    while at < len(frames):
        end = at
        while end < len(frames) - 1 and packages[end] is not None:
            end += 1
        if end - at >= FOLDED:
            text += kind.from_list(frames[begun:at]).format(**options)
            names = ", ".join(dict.fromkeys(packages[at:end]))
            text.append("  [%d frames in %s]\n" % (end - at, names if len(names) <= 60 else "libraries"))
            begun = end
        at = max(end, at + 1)
    return text + kind.from_list(frames[begun:]).format(**options)


def round_at(places, at):
    """(frames of the shortest round that repeats here, how many rounds there are)"""
    if places[at : at + 1] == places[at + 1 : at + 2]:
        return 1, 0
    for size in range(2, CYCLE_MAX + 1):
        end = at
        while end + size < len(places) and places[end] == places[end + size]:
            end += 1
        if end - at >= size * SHOWN:
            return size, (end - at) // size + 1
    return 1, 0


def shorten(error):
    """Takes the middle out of a long traceback; returns how many frames it had."""
    count, end = 0, error.__traceback__
    tb = last_of_head = end
    while tb is not None:
        count += 1
        if count == END_FRAMES:
            last_of_head = tb
        if count > END_FRAMES:
            end = end.tb_next
        tb = tb.tb_next
    if count <= 2 * END_FRAMES:
        return 0
    last_of_head.tb_next = end
    return count - 2 * END_FRAMES


def suggestion(error, line):
    """The last line with its "Did you mean", which in 3.10 and 3.11 only the C printer has."""
    saved, SYS["stderr"] = SYS.get("stderr"), StringIO()
    try:
        hook(type(error), error, error.__traceback__)
        printed = SYS["stderr"].getvalue().split("\n")
    finally:
        SYS["stderr"] = saved
    for candidate in reversed(printed):
        if candidate.startswith(line + ". Did you mean"):
            return candidate
    return line


def text_of(session, error, whole=None, message=None):
    """whole: the text of the exception, which appears as message."""
    chain = [error]
    while chain[-1] is not None and len(chain) < CHAIN_MAX:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    left_out = sum(shorten(one) for one in chain if one is not None)
    report = TracebackException(type(error), error, error.__traceback__)
    tidy(report, session.layers, set())
    text = "".join(report.format())
    if not report.stack and text.count(HEADER) == 1 and text.startswith(HEADER):
        text = text[len(HEADER) :]  # as CPython: no header above a SyntaxError of the cell itself
    if (3, 10) <= sys.version_info[:2] <= (3, 11) and isinstance(error, (NameError, AttributeError)):
        line = "".join(report.format_exception_only()).split("\n")[0]
        better = suggestion(error, line)
        if better != line:
            head, _, tail = text.rpartition(line)
            text = head + better + tail
    for one, outer in reversed(list(zip(chain[1:-1], chain))):
        said = message_of(one)
        if len(said) >= REPEATED_MIN and text.count(said) > 1 and said in message_of(outer):
            text = text.replace(": %s\n" % said, ": [its message is in the next one's]\n", 1)
    if left_out:
        text = "[%d frames in the middle are left out]\n%s" % (left_out, text)
    if message != whole:
        text = text.replace(whole, message)
    if len(text) > LINE_MAX:
        text = "\n".join(line if len(line) <= LINE_MAX or line[:4] != "    " else line[:LINE_MAX] + " ..."
                         for line in text.split("\n"))
    if len(text) > TEXT_MAX:
        tail = TEXT_MAX - HEAD
        text = "%s\n  [... %d characters omitted ...]\n%s" % (text[:HEAD], len(text) - TEXT_MAX, text[-tail:])
    return text


# --- the outcome ---
# The result of an exception that ended a cell.
MESSAGE_MAX = 2000
COMMAND_MAX = 300  # of a message that repeats a program's arguments
TAIL_MAX = 1000  # of what a failed program wrote
NO_STDIN = "EOF when reading a line: this call has no standard input; pass the lines as the argument `stdin`"
PARSES = load("language").Pattern(r"\b(?:compile|eval|exec)\(|^\s*(?:from|import)\s")  # an import's own frames are left out
enter = load("session").enter


def cut(text, limit=MESSAGE_MAX):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s ... [%d characters omitted] ... %s" % (text[:half], len(text) - 2 * half, text[-half:])


def message_of(error):
    try:
        return str.__str__(enter(str, error))  # of a subclass it makes a plain copy
    except BaseException:
        return "<exception str() failed>"


def of_process(error):
    """(command, what the process wrote last) of an exception of subprocess; empty texts for any other."""
    kind = getattr(IMPORTED.get("subprocess"), "SubprocessError", None)
    if type(kind) is not type or not isinstance(error, kind):
        return "", ""
    command = getattr(error, "cmd", "")
    for name in ("stderr", "output"):
        text = getattr(error, name, None)
        if type(text) is bytes:
            text = text[-4 * TAIL_MAX :].decode("utf-8", "replace")
        if type(text) is str and text.strip():
            lines = text.rstrip()[-TAIL_MAX:]
            dots = "... " if len(lines) < len(text.rstrip()) else ""
            return str.__str__(str(command)), "%s of the process:\n%s%s\n" % ("stdout" if name == "output" else name, dots, lines)
    return str.__str__(str(command)), ""


def describe(session, result, error, program, no_stdin):
    """Turns result ("ok" so far) into the outcome: exit, interrupted, or error with its traceback."""
    if isinstance(error, SystemExit):
        result[2] = "exit"
        result += ("exit_code", str(exit_code(error)))
        session.add_where(result)
        return
    if no_stdin and not program and type(error) is EOFError and error.args == ("EOF when reading a line",):
        error.args = (NO_STDIN,)
    if session.where is not None and isinstance(error, KeyboardInterrupt):
        result[2] = "interrupted"
    else:
        result[2] = "error"
    name, whole = type(error).__qualname__, message_of(error)
    try:
        command, written = enter(of_process, error)
    except BaseException:
        command = written = ""
    message = cut(whole.replace(command, cut(command, COMMAND_MAX)) if len(command) > COMMAND_MAX else whole)
    result += ("error_type", name, "error_message", message)
    cell, line = position(session, error)
    session.error_line = line or 1
    if cell:
        result += ("error_cell", cell, "error_line", str(line))
    session.add_where(result)
    try:
        text = enter(text_of, session, error, whole, message)
    except BaseException as second:
        text = "%s: %s\n[the traceback could not be printed: %s]\n" % (name, message, type(second).__name__)
    result += ("traceback", text + written)
    try:
        hint = program.hint_for(error) if program else load("hints").hint_for(session, error, name, message)
    except BaseException:
        hint = None
    if hint:
        result += ("hint", hint)


def memory(session, error, message):
    """The hint for a MemoryError: code raises it for other reasons too, and the parser for a stack of its own, up to Python
    3.11 without a word."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    line = traceback.linecache.getline(at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else ""
    is_small = (load("checkpoint").resident() or 0) < session.memory_limit // 2
    if message.startswith("Parser stack") or is_small and not message and (not session.ran or PARSES.search(line)):
        return "nested too deeply for Python's parser"
    if is_small and (message and not message.startswith("Unable to allocate") or line.lstrip().startswith("raise")):
        return None
    return "%s; work in pieces%s, or the user can raise --memory" % (
        "one value exceeds the memory limit" + load("hints").mib(session.memory_limit) if is_small else
        "the memory limit%s is reached" % load("hints").mib(session.memory_limit), "" if is_small else ", delete unused variables")


def exit_code(error):
    """As CPython exits: None is 0, a number is itself, anything else is printed and means 1."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    try:
        text = enter(str, code)
    except BaseException:
        text = "<exception str() failed>"
    try:
        load("streams").say_error(text + "\n")
    except OSError:
        pass
    return 1
