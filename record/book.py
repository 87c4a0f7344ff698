"""A record as it is shown: each call with its result, and what became of its effect. The file may be anybody's: its lines are
bounded, and the members of its events have the types that a server writes."""
import hashlib
import json_text
import os
import re
import stat
from visible import number, own_line, part, word

LINE_BYTES, TIME_BYTES, NAME_BYTES = 64 << 20, len("2026-11-22T10:15:02.123Z"), 63
FILE_NAME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(-[0-9]{2}){2}Z(-[0-9]{1,10}){1,2}\.jsonl")

# --- what an event may have ---


def is_text(value):
    return isinstance(value, str)


def is_number(value):
    return type(value) is int and 0 <= value <= 1 << 53


def is_object(value):
    return isinstance(value, dict)


def is_piece(value):
    return isinstance(value, list) and len(value) == 2 and all(map(is_text, value))


def list_of(is_item):
    return lambda value: isinstance(value, list) and all(map(is_item, value))


NEEDED = ("v", "seq", "time", "kind", "prev")
# The members that readers rely on, by their types.
MEMBERS = {name: has_type for has_type, names in (
    (is_text, "answer arguments_sha256 code code_sha256 content_sha256 decision error_message error_type files_note hint host "
              "isolation kind message name note outcome output_sha256 path prev python refusal rule saved session setting sha256 "
              "state status subject text time tool tools traceback value version why"),
    (is_number, "arguments_bytes call code_bytes content_bytes duration_ms exit_code job missed output_bytes port restored_cell "
                "seq signal size timeout_ms to v"),
    (lambda value: value is None or is_number(value), "cell"),
    (lambda value: isinstance(value, bool), "cut failed is_error sent"),
    (list_of(is_text), "file_kinds file_sizes notes"),
    (list_of(is_piece), "output"),
    (is_object, "arguments trace"),
    (list_of(is_object), "content images installed protections settings"),
) for name in names.split()}


def mistake_of(event):
    """What is wrong with it, or None."""
    if not is_object(event):
        return "is no JSON object, or nests too deep"
    for name in NEEDED:
        if name not in event:
            return f"{name} is missing"
    for name, value in event.items():
        if name in MEMBERS and not MEMBERS[name](value):
            return f"{name} has another type or is out of range"
    if event["v"] != 1:
        return "is of another version of the format"
    if not re.fullmatch("[a-z]+", event["kind"]):
        return "kind is no word"
    return None if len(event["time"].encode()) == TIME_BYTES else "time is no time"


# --- lines ---


class Reading:
    """What is known of a file's lines."""

    def __init__(self):
        self.lines = 0  # so far, whole ones
        self.hash = "0" * 64  # of the last
        self.altered = 0  # number of the first line that does not follow from others; 0: none
        self.torn = False  # the file ends within a line
        self.ended = False  # the last event is of kind "end"
        self.why = ""  # of the first line that is no event: "line 3: seq is missing"

    def refuse(self, why):
        self.why = self.why or f"line {self.lines + 1}: {why}"

    def check_link(self, event):
        """Whether its number and hash follow from the lines before, and it stands in its place: a record has one start and end."""
        misplaced = event["seq"] != self.lines or self.ended or (event["kind"] == "start") != (self.lines == 0)
        if not self.altered and (misplaced or word(event, "prev") != self.hash):
            # In the right place, it is the line before that has another hash.
            self.altered = self.lines + (misplaced or self.lines == 0)
        self.ended = self.ended or event["kind"] == "end"

    def events(self, file):
        """Passes lines that are no events."""
        try:
            while True:
                text = file.readline(LINE_BYTES + 2)
                size = len(text) - text.endswith(b"\n")
                if size > LINE_BYTES:
                    return self.refuse("is longer than 64 MiB; the rest is left out")
                if size == len(text):
                    self.torn = size > 0
                    return None
                text = text[:size]
                try:
                    event = json_text.load(text)
                except ValueError:
                    event = None
                mistake = mistake_of(event)
                if mistake:
                    self.refuse(mistake)
                else:
                    self.check_link(event)
                self.hash = hashlib.sha256(text).hexdigest()
                self.lines += 1
                if not mistake:
                    yield event
        except OSError as error:
            self.refuse(error.strerror)


def open_file(path, directory):
    """Raises OSError with the whole sentence."""
    shown = part(path, 0, 300)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        raise OSError(f"{shown}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{shown} is not a regular file")
    return open(fd, "rb", buffering=1 << 18)


def names(directory):
    """The records in a directory, a descriptor, the oldest first."""
    def is_record(name):
        try:
            status = os.lstat(name, dir_fd=directory)
        except OSError:  # removed meanwhile
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size > 0
    return sorted(filter(is_record, filter(FILE_NAME.fullmatch, os.listdir(directory))))


# --- the book ---

LIVE = ""  # its effect is in the final state of its session
CUT = "interrupted; what it did until then stays"
UNDONE = "taken back later"
GONE = "its effect is not in the final state"  # its process crashed or was killed; or its state was lost
DROPPED = "ran in an interpreter of its own"
BRANCH = "a branch, which was discarded"
NOT_RUN = "did not run"
NO_END = "the record has no result of it"


class Entry:
    """An event that is no start, end or result."""

    def __init__(self, event):
        self.event, self.kind = event, event["kind"]
        self.result = None  # of a cell
        self.fate = LIVE  # of a cell
        self.before = None  # the cell whose state it began with

    def is_cell(self):
        return self.kind == "cell"

    def is_live(self):
        """Whether the cell led to the final state of its session."""
        return self.fate in (LIVE, CUT)

    def is_cut(self):
        return word(self.result, "state") == "interrupted"


def is_set(event, argument):
    return event.get("arguments", {}).get(argument) is True


class Book:
    """A whole record. A line that is no event is left out: then reading.why is set."""

    def __init__(self, path, directory=None):
        self.name = own_line(path.rpartition("/")[2], NAME_BYTES)
        self.reading, self.start, self.end, self.entries = Reading(), {}, None, []
        self.calls = {}  # cells by the number of their call
        self.numbers = {}  # and by their own number and session
        self.states = {}  # the cell whose state a session has
        with open_file(path, directory) as file:
            self.events = list(self.reading.events(file))
        for event in self.events:
            self.take(event)
        seen = set()
        for cell in self.states.values():
            while cell and cell not in seen:
                seen.add(cell)
                if cell.fate == UNDONE:
                    cell.fate = CUT if cell.is_cut() else LIVE
                cell = cell.before

    def take(self, event):
        kind = event["kind"]
        if kind == "start":
            self.start = self.start or event
        elif kind == "end":
            self.end = event
        elif kind == "result":
            self.take_result(event)
        else:
            entry = Entry(event)
            self.entries.append(entry)
            if kind == "cell":
                self.take_cell(entry)
            elif kind in ("undo", "restore"):
                self.states[word(event, "session")] = self.numbers.get(self.key(event, number(event, "to")))
            elif kind == "reset":
                self.states[word(event, "session")] = None

    def key(self, event, cell):
        return cell, word(event, "session")

    def take_cell(self, entry):
        event = entry.event
        entry.fate = BRANCH if is_set(event, "branch") else DROPPED if is_set(event, "fresh") else NO_END
        if entry.fate == NO_END:
            entry.before = self.states.get(word(event, "session"))
            self.numbers[self.key(event, number(event, "cell"))] = entry
        if 0 < number(event, "call") <= len(self.events):
            self.calls[event["call"]] = entry

    def take_result(self, result):
        entry = self.calls.get(number(result, "call"))
        if not entry:
            return
        entry.result = result
        if entry.fate in (DROPPED, BRANCH):
            return
        outcome, state, session = (word(result, name) for name in ("outcome", "state", "session"))
        ran = outcome not in ("refused", "cancelled")
        entry.fate = GONE if ran else NOT_RUN
        if (entry.is_cut() or ran and state == "kept") and number(entry.event, "cell") > 0:
            if entry.is_cut() or outcome in ("ok", "error", "exit"):
                entry.fate = UNDONE  # until it is known to be live
            self.states[session] = entry
        elif state == "restored_earlier":
            self.states[session] = self.numbers.get(self.key(result, number(result, "restored_cell")))
        elif state in ("lost", "all_lost"):
            self.states[session] = None
