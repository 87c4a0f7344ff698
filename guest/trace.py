"""Tracebacks as CPython prints them, without the frames of this folder."""
import sys
import traceback
from io import StringIO

TEXT_MAX = 12000
HEAD = 4000
CYCLE_MAX = 8  # frames of a recursion through several functions
SHOWN = 3  # rounds of it, as CPython shows of a line that repeats itself
OWN = FOLDER + "/"
HEADER = "Traceback (most recent call last):\n"
TracebackException = traceback.TracebackException
hook = sys.__excepthook__


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


def number(name):
    return name[len("<cell ") : -1]


def trim(report, seen):
    """Drops our frames, and all above the first cell: asyncio's own, when a cell awaits."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    stack = report.stack
    if stack:
        own = [i for i, frame in enumerate(stack) if frame.filename.startswith(OWN)]
        if own:
            first = next((i for i, frame in enumerate(stack) if is_cell(frame.filename)), len(stack))
            stack[:] = [f for i, f in enumerate(stack) if i >= first and i not in own]
    for other in (report.__cause__, report.__context__):
        trim(other, seen)
    for other in getattr(report, "exceptions", None) or ():
        trim(other, seen)


def collapse(report, seen):
    """Makes a stack say how often a round of several frames repeats: CPython knows rounds of one only."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    stack = report.stack
    if len(stack) > CYCLE_MAX:
        stack.format = lambda **options: format_rounds(stack, options)
    for other in (report.__cause__, report.__context__):
        collapse(other, seen)
    for other in getattr(report, "exceptions", None) or ():
        collapse(other, seen)


def format_rounds(stack, options):
    text, at, begun = [], 0, 0
    places = [(frame.filename, frame.lineno, frame.name) for frame in stack]
    while at < len(places):
        size, rounds = round_at(places, at)
        if rounds <= SHOWN:
            at += 1
            continue
        text += type(stack).from_list(stack[begun : at + size * SHOWN]).format(**options)
        text.append("  [Previous %d frames repeated %d more times]\n" % (size, rounds - SHOWN))
        at = begun = at + size * rounds
    return text + type(stack).from_list(stack[begun:]).format(**options)


def round_at(places, at):
    """(frames of the shortest round that repeats itself here, how many rounds there are)"""
    if places[at : at + 1] == places[at + 1 : at + 2]:
        return 1, 0
    for size in range(2, CYCLE_MAX + 1):
        end = at
        while end + size < len(places) and places[end] == places[end + size]:
            end += 1
        if end - at >= size * SHOWN:
            return size, (end - at) // size + 1
    return 1, 0


def suggestion(error, line):
    """The last line with its "Did you mean", which in 3.10 and 3.11 only the C printer knows."""
    saved, sys.stderr = sys.stderr, StringIO()
    try:
        hook(type(error), error, error.__traceback__)
        printed = sys.stderr.getvalue().splitlines()
    finally:
        sys.stderr = saved
    for candidate in reversed(printed):
        if candidate.startswith(line + ". Did you mean"):
            return candidate
    return line


def text_of(session, error):
    if session.line_cache is None:
        session.remember("<cell import>", "import")
        del session.sources["<cell import>"]
    report = TracebackException(type(error), error, error.__traceback__)
    trim(report, set())
    collapse(report, set())
    text = "".join(report.format())
    if not report.stack and text.count(HEADER) == 1 and text.startswith(HEADER):
        text = text[len(HEADER) :]  # as CPython: no header above a SyntaxError of the cell itself
    if (3, 10) <= sys.version_info[:2] <= (3, 11) and isinstance(error, (NameError, AttributeError)):
        line = "".join(report.format_exception_only()).splitlines()[0]
        better = suggestion(error, line)
        if better != line:
            head, _, tail = text.rpartition(line)
            text = head + better + tail
    if len(text) > TEXT_MAX:
        tail = TEXT_MAX - HEAD
        left_out = len(text) - TEXT_MAX
        text = "%s\n  [... %d characters left out ...]\n%s" % (text[:HEAD], left_out, text[-tail:])
    return text
