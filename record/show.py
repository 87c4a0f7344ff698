"""A record as text for a terminal: whatever the session has printed is only text."""
import datetime
import re
from visible import fill, indented, items, line, lines, number, part, whole, word

PLAIN = ("",) * 5
COLOURED = ("\033[0m", "\033[1m", "\033[2m", "\033[36m", "\033[31m")
NORMAL, BOLD, DIM, CODE, WRONG = range(5)
HOST_BYTES = 64
TITLES = {
    "network": "network {host}:{port} {decision}: {rule}",
    "missed": "{missed} more connections or calls of tools by code, of which nothing is here",
    "question": "asked the user: {subject}: {answer}",
    "undo": "{text}",
    "restore": "{text}",
    "checkpoint": 'checkpoint "{name}" {saved}',
    "job": "goes on as job {job}",
}
# The setting that decides about an outcome.
SETTINGS = {"timeout": "timeout", "out_of_memory": "memory", "disk_full": "disk", "stopped": "jobs"}


def title(entry):
    """What the entry is, on one line: "cell 3", "write_file data.csv"."""
    event = entry.event
    if entry.kind in TITLES:
        return fill(event, TITLES[entry.kind])
    if entry.is_cell():
        return fill(event, "cell {cell}" if number(event, "cell") > 0 else "no cell")
    if entry.kind == "install":
        begin = fill(event, "not installed: {message}" if event.get("failed") else "installed{message}")
        installed = ", ".join(fill(item, "{name} {version}") for item in items(event, "installed"))
        return f"{begin}: {installed}" if installed else begin
    if word(event, "tool"):
        arguments = event.get("arguments")
        return fill(event, "{tool}") + (fill(arguments, " {path}") if word(arguments, "path") else "")
    return line(entry.kind)


def clock(event):
    """The time of day: "10:15:02"."""
    time = word(event, "time")
    return line(part(time, 11, 19)) if len(time.encode()) > 19 else ""


def edit_of(entry):
    """What an edit of write_file has replaced, as the lines of a diff."""
    arguments = entry.event.get("arguments")
    return indented("- ", whole(arguments, "old_text")) + indented("+ ", whole(arguments, "new_text"))


def left_out(result):
    """What is said of an output that is not there, or not whole."""
    size = number(result, "output_bytes")
    return f"{'cut: ' if 'output' in result else 'left out: '}{size} bytes of output in all" if size > 0 else ""


class Page:
    def __init__(self, colours):
        self.out, self.colours = [], colours

    def put(self, text):
        self.out.append(text)

    def block(self, colour, prefix, text):
        """Several lines in one colour, indented."""
        if text:
            self.put(self.colours[colour] + indented(prefix, lines(text)) + self.colours[NORMAL])

    def head(self, entry):
        event, fate = entry.event, entry.fate
        self.put(self.colours[BOLD] + title(entry) + self.colours[NORMAL])
        if entry.is_cell() and word(event, "session") != "default":
            self.put(fill(event, "  session {session}"))
        self.put(f"  {clock(event)}")
        if fate:
            self.put(f"  {self.colours[WRONG]}({fate}){self.colours[NORMAL]}")
        self.put("\n")

    def cell(self, entry):
        result = entry.result or {}
        self.block(CODE, "| ", whole(entry.event, "code"))
        for stream, text in items(result, "output"):
            self.block(WRONG if stream.partition("\0")[0] == "stderr" else NORMAL, "  ", text)
        if left_out(result):
            self.put(f"  [{left_out(result)}]\n")
        self.block(NORMAL, "  Out: ", whole(result, "value"))
        self.block(WRONG, "  ", whole(result, "traceback"))
        self.block(NORMAL, "  Hint: ", whole(result, "hint"))
        self.block(NORMAL, "  ", whole(result, "refusal"))
        for path in items(result, "image_files"):
            if isinstance(path, str):
                self.put(f"  [figure {line(path)}]\n")
        self.block(DIM, "  ", whole(result, "status"))

    def other(self, entry):
        if entry.kind == "write":
            self.block(CODE, "| ", whole(entry.event.get("arguments"), "content") or edit_of(entry))
        for block in items(entry.event, "content"):
            self.block(DIM, "  ", whole(block, "text"))


def show(book, colours):
    page = Page(COLOURED if colours else PLAIN)
    page.put(f"{page.colours[BOLD]}{book.name}{page.colours[NORMAL]}\n")
    page.put(fill(book.start, "Sandpiper {version}, isolation level {isolation}, CPython {python}\n\n"))
    for entry in book.entries:
        page.head(entry)
        page.cell(entry) if entry.is_cell() else page.other(entry)
        page.put("\n")
    if book.end:
        page.put(fill(book.end, "The server exited: {why}\n"))
    return "".join(page.out)


# --- list and check ---


def seconds_of(event):
    """Of the clock; what is no time is the end of 1899."""
    found = re.match(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", word(event, "time"), re.ASCII)
    year, month, day, hour, minute, second = map(int, found.groups()) if found else (1900, 1, 0, 0, 0, 0)
    days = datetime.date(max(year, 1), min(max(month, 1), 12), 1).toordinal() + day
    return ((days * 24 + hour) * 60 + minute) * 60 + second


def summary(book):
    """A line for `record list`: when, how long, how many cells, which host."""
    cells = sum(entry.is_cell() for entry in book.entries)
    seconds = seconds_of(book.events[-1] if book.events else {}) - seconds_of(book.start)
    state = ("damaged  " if book.reading.why else "altered  " if book.reading.altered
             else "" if book.reading.ended else "without its end  ")
    host = line(part(word(book.start, "host"), 0, HOST_BYTES))
    return f"{book.name:36} {max(seconds, 0):6} s  {cells:5} cell{' ' if cells == 1 else 's'}  {state}{host}\n"


def verdict(reading):
    """What the chain says, and whether it is whole."""
    said = [f"{reading.lines} line{'' if reading.lines == 1 else 's'}, last hash {reading.hash}"]
    if reading.lines == 0 and not reading.torn:
        return "the file is empty: no record\n", False
    if reading.altered:
        said.append(f"line {reading.altered} was altered, missing or moved")
    if reading.why:
        said.append(reading.why)
    whole = len(said) == 1
    if whole:
        said.append("the last line is torn" if reading.torn else "whole" if reading.ended
                    else 'ends without "end": the server was killed, or lines are missing at the end')
    return "".join(f"{one}\n" for one in said), whole


# --- why ---


def setting(book, flag):
    """"  setting: --memory 1G (command line)". flag: its name, maybe with dashes and a value after it."""
    name = re.match("[^ =]*", flag.lstrip("-"))[0]
    return "".join(fill(row, "  setting: --{name} {value} ({source})\n") for row in items(book.start, "settings")
                   if word(row, "name") == name)


def why_cell(book, entry):
    result = entry.result or {}
    outcome = word(result, "outcome")
    decides = SETTINGS.get(outcome)
    if not decides and outcome not in ("refused", "crashed", "sandbox_exited", "cancelled", "error"):
        return ""
    if outcome == "error":
        return f"cell {number(entry.event, 'cell')}: " + fill(result, "{error_type}: {error_message}\n")
    said = f"cell {number(entry.event, 'cell')}: " + fill(result, "{refusal}\n" if word(result, "refusal") else "{status}\n")
    if decides == "timeout" and "timeout_s" in entry.event.get("arguments", {}):
        said += "  setting: timeout_s of the call\n"
        decides = "max-timeout"
    return said + (setting(book, decides) if decides else "")


def why_other(book, entry):
    event = entry.event
    network = entry.kind == "network" and word(event, "decision") != "allowed"
    declined = entry.kind == "question" and word(event, "answer") != "allowed"
    failed = event.get("failed", False)
    refused = word(event, "tool") and event.get("is_error", False)
    if not (entry.kind == "missed" or network or declined or failed or refused):
        return ""
    said = title(entry) + "\n"
    if refused:
        said += indented("  ", lines(whole((items(event, "content") or [{}])[0], "text")))
    said += setting(book, "allow-host" if network else word(event, "setting") if declined else "install" if failed else "")
    return said + "".join(setting(book, flag) for flag in ("allow-package", "deny-package", "index-url") if failed)


def why(book, cell):
    """Each error, refusal, limit and denial: what, why, and the setting that decides; None if there is no cell with this number. cell:
    only of those and of what came while they ran; 0: of all."""
    last, said, found = None, "", cell == 0
    for entry in book.entries:
        last = entry if entry.is_cell() else last
        belongs = last and number(last.event, "cell") == cell and (
            not last.result or entry.event["seq"] < last.result["seq"])
        if cell == 0 or belongs:
            found = True
            said += why_cell(book, entry) if entry.is_cell() else why_other(book, entry)
    if not found:
        return None
    return said or "Nothing that the record knows of failed, or was refused or limited.\n"
