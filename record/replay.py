"""Runs what a record says again, in a new sandbox, and compares. A record may be anybody's: it says what runs, and nothing of
where. The server's part, cli/record.c, has the sandboxes and their settings; each request to it is a line of JSON, and so is
each of its responses."""
import hashlib
import json_text
import os
import re
import sys
from export import joined_output
from show import title
from visible import fill, items, line, number, part, whole, word, write

LINES_SHOWN, LINE_BYTES = 20, 1000
LIMITS = ("memory", "disk", "timeout", "max-timeout")
NAMED = ("workspace", "cow", "mount", "allow-host", "tools", "python", "preload", "preinstall", "auto-install", "index-url",
         "extra-index-url", "find-links")
# What differs from run to run. Of several that begin at the same place, the longest comes first.
VARYING = re.compile(
    r"0x[0-9a-fA-F]{4,16}(?!\w)"  # an address
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # a UUID
    r"|/tmp[a-z0-9_]{8}(?!\w)"  # of tempfile
    r"|/sandpiper-[0-9a-f]{8}(?!\w)"  # where a sandbox without namespaces has its files
    r"|\b(?:[Pp][Ii][Dd]|[Pp]rocess|[Tt]hread)(?: id)?[ =:-]{1,3}[0-9]+\b"  # of a process
    r"|\b[0-9]+:[0-9][0-9]:[0-9][0-9]\.[0-9]+\b"  # of timedelta
    r"|\b[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)? ?(?:ns|us|\xB5s|\u03BCs|ms|s|secs?|seconds?|min|minutes?)\b"  # a duration
    r"|\b1[34][0-9]{13}\b",  # id()
    re.ASCII)


# --- comparing: two results of a cell. Each function returns what differs, each line indented by four; "" if nothing does ---


def changed_lines(sign, text):
    out = ""
    for position, one in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text)):
        if position == LINES_SHOWN:
            return f"{out}    {sign} [{len(text.encode())} bytes more]\n"
        one = one.removesuffix("\n")
        out += f"    {sign} {line(part(one, 0, LINE_BYTES))}{' [cut]' if len(one.encode()) > LINE_BYTES else ''}\n"
        text = text[len(one) + 1:]
    return out


def same_front(one, other):
    """Characters of whole lines at the front that are the same."""
    return os.path.commonprefix((one, other)).rfind("\n") + 1


def differ(name, was, now):
    was, now = (VARYING.sub("\u2026", text) for text in (was, now))
    if was == now:
        return ""
    front = same_front(was, now)
    was, now = was[front:], now[front:]
    # The newline at the end of a line belongs to it.
    same = os.path.commonprefix((was[::-1], now[::-1]))
    back = max(same.rfind("\n"), 0)
    return f"    {name}:\n" + changed_lines("-", was[:len(was) - back]) + changed_lines("+", now[:len(now) - back])


def outcome_of(result):
    """"crashed, signal 6" """
    return word(result, "outcome") + "".join(
        f", {name} {number(result, name)}" for name in ("exit_code", "signal") if name in result)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def differ_in_output(was, now):
    """Where the record has only a part of the output, or none, its hash decides."""
    if "output_sha256" not in was:
        return "".join(differ(stream, joined_output(was, stream), joined_output(now, stream)) for stream in ("stdout", "stderr"))
    one, other = (word(result, "output_sha256") or sha256(joined_output(result)) for result in (was, now))
    return "" if one == other else "    output: another hash; the record does not have all of it\n"


def same_image(was, now, same_pixels):
    if not isinstance(was.get("data"), str):
        return word(was, "base64_sha256") == sha256(word(now, "data"))
    one, other = word(was, "data"), word(now, "data")
    return one == other or same_pixels(one, other)


def differ_in_images(was, now, same_pixels):
    was, now = items(was, "images"), items(now, "images")
    out = f"    figures:\n    - {len(was)}\n    + {len(now)}\n" if len(was) != len(now) else ""
    return out + "".join(f"    figure {position}: other pixels\n" for position, (one, other) in enumerate(zip(was, now), 1)
                         if not same_image(one, other, same_pixels))


def compare(was, now, same_pixels):
    """How it ended, what it printed to each stream, its value, its traceback and its figures. Durations, addresses and ids in
    texts count as the same. same_pixels: whether two figures that are not the same bytes, as base64, show the same."""
    return (differ("outcome", outcome_of(was), outcome_of(now)) + differ_in_output(was, now)
            + "".join(differ(name, whole(was, name), whole(now, name)) for name in ("value", "traceback"))
            + differ_in_images(was, now, same_pixels))


# --- running ---


def is_refused(response):
    result = (response or {}).get("result")
    return not result or result.get("isError") is True


def said_in(response):
    """What the response says, on a line: in place of a result."""
    response = response or {}
    texts = (word(response.get("error"), "message"), word((items(response.get("result"), "content") or [{}])[0], "text"))
    return line(texts[0] or texts[1] or "the server did not respond")


class Replay:
    def __init__(self, book, server, has_tools):
        self.book, self.has_tools = book, has_tools
        self.requests, self.responses = open(server, "wb"), open(server, "rb", closefd=False)
        self.counts = {"same": 0, "different": 0, "failed": 0, "not run": 0}

    def ask(self, **request):
        self.requests.write(json_text.dump(request, "").encode() + b"\n")
        self.requests.flush()
        response = self.responses.readline()
        if not response:
            sys.exit(1)  # it has said why
        return json_text.load(response)

    def take_settings(self):
        """The server takes of the record what may be taken; this says what else the record had."""
        rows = items(self.book.start, "settings")
        answer = self.ask(settings=rows)
        for position, row in enumerate(rows):
            name, value = word(row, "name"), word(row, "value")
            had = fill(row, "the record had --{name} {value}")
            ours = [setting["value"] for setting in answer["settings"] if setting["name"] == name]
            if name in LIMITS and position in answer["higher"]:
                write(f"{had}, replay has {ours[0]}\n")
            elif name in NAMED and word(row, "source") != "default" and value not in ours:
                others = [line(one["value"]) for one in answer["settings"] if one["name"] == name and one.get("source") != "default"]
                write(f"{had}, replay {'has ' + ', '.join(others) if others else 'lacks it'}\n")
        version, ours = word(self.book.start, "python"), answer["python"]
        if version and ours and version != ours:
            write(fill(self.book.start, "the record had CPython {python}") + f", replay has {ours}\n")

    def call(self, tool, arguments):
        """Makes a call of the model's again. What it said, and the events of its result and installation, or None of each."""
        answer = self.ask(tool=tool, arguments=arguments, views=False)
        return answer["response"], answer["result"], answer["installed"]

    def same_pixels(self, one, other):
        arguments = {"code": __loader__.get_data("pixels.py").decode(), "stdin": f"{one}\n{other}\n", "fresh": True}
        return word(self.ask(tool="run_python", arguments=arguments, views=True)["result"], "value") == "True"

    def why_not(self, entry):
        """Why the cell does not run, or None."""
        outcome = word(entry.result, "outcome")
        return ("the record has no result of it" if not entry.result
                else "the record has only the hash of its code" if "code_sha256" in entry.event
                else "it was cancelled" if outcome == "cancelled" else "it was stopped" if outcome == "stopped"
                else "it called tools of other servers; --tools FILE on the command line lets it"
                if word(entry.result, "tools") and not self.has_tools else None)

    def cell(self, entry):
        """A call that ran no code, such as an undo alone, is named only if it goes another way. In place of code that does not
        run, other code that does nothing lets later cells have their numbers."""
        event, session, why = entry.event, word(entry.event, "session"), self.why_not(entry)
        is_cell = number(event, "cell") > 0
        if why and not is_cell:
            return
        arguments = {**event.get("arguments", {}), "code": "pass" if why else whole(event, "code")}
        arguments.pop("wait_s", None)
        response, result, _ = self.call("run_python", {**arguments, "session": session} if session else arguments)
        said = title(entry) + (fill(event, " of session {session}") if session not in ("", "default") else "")
        count = "not run"
        if why:
            said += f": not run ({why})\n"
        elif not result or word(result, "refusal") and word(entry.result, "outcome") != "refused":
            count, said = "failed", f"{said}: failed: {said_in(response)}\n"
        else:
            different = compare(entry.result, result, self.same_pixels)
            count = "different" if different else "same"
            said += f": {count}\n{different}"
        if is_cell or count != "same":
            self.counts[count] += 1
            write(said)

    def say(self, entry, count, what):
        write(f"{title(entry)}: {what}\n")
        self.counts[count] += 1

    def write_file(self, entry):
        if "cut" in entry.event:
            self.say(entry, "not run", "not run (the record has only a part of the content)")
            return
        response, _, _ = self.call("write_file", entry.event.get("arguments"))
        if is_refused(response):
            self.say(entry, "failed", f"failed: {said_in(response)}")

    def installed_by(self, position):
        """What the installation installed that the call has caused: the last one of the same packages, or None."""
        packages = self.book.entries[position].event.get("arguments", {}).get("packages")
        for entry in reversed(self.book.entries[:position]):
            if word(entry.event, "tool") == "install_package":
                return None
            if entry.kind == "install" and packages is not None and entry.event.get("packages") == packages:
                return entry.event.get("installed")
        return None

    def install(self, entry, position):
        """The same versions."""
        installed, arguments = self.installed_by(position), entry.event.get("arguments")
        if installed and arguments is not None:
            arguments = {**arguments, "packages": [f"{word(item, 'name')}=={word(item, 'version')}" for item in installed]}
        response, _, now = self.call("install_package", arguments)
        if is_refused(response):
            self.say(entry, "failed", f"failed: {said_in(response)}")
        elif installed is not None and installed != now:
            self.say(entry, "failed", f"other files were installed: {said_in(response)}")

    def run(self):
        """Returns the exit status."""
        self.take_settings()
        for position, entry in enumerate(self.book.entries):
            tool = word(entry.event, "tool")
            if entry.is_cell():
                self.cell(entry)
            elif entry.event.get("is_error"):
                continue  # it has changed nothing
            elif tool == "write_file":
                self.write_file(entry)
            elif tool == "install_package":
                self.install(entry, position)
            elif tool == "apply_changes":
                self.say(entry, "not run", "not run (it is about the user's own files)")
        write(", ".join(f"{count} {name}" for name, count in self.counts.items() if count or name == "same") + "\n")
        return 0 if sum(self.counts.values()) == self.counts["same"] else 1
