"""MCP clients: where their configuration files are, and these texts with the entry of a server, or without it. Pure.

Everything else in a file stays as it is, byte for byte: an edit finds where to cut the text, and never writes it anew.
Surrogates in a text stand for bytes that are not UTF-8. Imports only what Debian's python3-minimal has, so not json.
"""
import collections
import errno
import re

from json_text import LETTERS, quote

RESULT_MS = 30000  # between a call's time limit and its result, sandbox start included

# directory: below the user's home directory, without the variable. files: the first that exists. section: the object,
# or TOML table, that has the servers by name. timeout: the member with the time limit of a call, and its unit in ms.
# is_list: the program and its arguments are one array.
Client = collections.namedtuple("Client", "directory files section type more timeout variable is_list",
                                defaults=(None, {}, None, None, False))
# From each client's documentation and, where it could be run, from observing what it reads.
CLIENTS = {
    "claude-code": Client("", [".claude.json"], "mcpServers", "stdio", variable="CLAUDE_CONFIG_DIR"),
    "claude-desktop": Client(".config/Claude", ["claude_desktop_config.json"], "mcpServers"),
    "codex": Client(".codex", ["config.toml"], "mcp_servers", timeout=("tool_timeout_sec", 1000), variable="CODEX_HOME"),
    "copilot": Client(".copilot", ["mcp-config.json"], "mcpServers", "local", {"tools": ["*"]}),
    "cursor": Client(".cursor", ["mcp.json"], "mcpServers", "stdio"),
    "gemini": Client(".gemini", ["settings.json"], "mcpServers", timeout=("timeout", 1)),
    "opencode": Client(".config/opencode", ["opencode.json", "opencode.jsonc"], "mcp", "local", {"enabled": ("true",)},
                       is_list=True),
    "vscode": Client(".config/Code/User", ["mcp.json"], "servers", "stdio"),
    "zed": Client(".config/zed", ["settings.json"], "context_servers", more={"source": "custom"}),
}


class Failure(Exception):
    """text: a clause for the user. code: the errno value; EEXIST: the file has another entry of the name."""

    def __init__(self, text, code=errno.EINVAL):
        self.text, self.code = text, code


# --- JSON, with comments and with commas before closing brackets, as editors' settings may have ---

SPACE = re.compile(r"[ \t\r\n]*(?:(?://[^\n]*|/\*(?s:.*?)\*/)[ \t\r\n]*)*")
PLAIN = r'[^"\\\x00-\x1f\udc80-\udcff]*'
ESCAPED = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# A string without the quote that closes it, which is checked where it is read; its first wrong escape is a group.
TOKEN = re.compile(rf'"{PLAIN}(?:{ESCAPED}{PLAIN})*(\\(?:u[0-9a-fA-F]{{0,3}})?(?s:.?))?|-?[0-9][0-9.]*(?:[eE][+-]?[0-9]*)?|[A-Za-z]+|(?s:.)|\Z')
INDENT_MOST = 16

# Where a member of an object begins, where its value begins and ends, and the comma after it or None.
Member = collections.namedtuple("Member", "key value end comma")


class Object(dict):
    """A JSON object with the places of its braces, and of its members by their keys."""


class Reader:
    """Reads JSON. Numbers, true, false and null become tuples of their one token, so that they are written as they were."""

    def __init__(self, text):
        self.text = text
        self.end = 1 if text.startswith("\ufeff") else 0  # a byte order mark
        self.next()

    def fail(self, what):
        near = f" near '{self.token}'" if self.token else " near end of file"
        line = 1 + self.text.count("\n", 0, self.end)
        raise Failure(f"line {line}: {what}{near if len(self.token) <= 20 else ''}")

    def expect(self, token, what=None):
        if self.token != token:
            self.fail(what or f"'{token}' expected")

    def next(self):
        """Goes to the next token, "" at the end. last: the end of the one before."""
        self.last, self.start = self.end, SPACE.match(self.text, self.end).end()
        found = TOKEN.match(self.text, self.start)
        self.token, self.end = found[0], found.end()
        is_string = self.token[:1] == '"'
        after = self.text[self.end:self.end + 1] if is_string else self.token
        if "\udc80" <= after <= "\udcff":
            self.fail(f"unable to decode byte 0x{ord(after) & 0xff:x}")
        if found[1] or is_string and after != '"':
            self.fail("invalid escape" if found[1] else "premature end of input" if not after else
                      "unexpected newline" if after == "\n" else f"control character 0x{ord(after):x}")
        if is_string:
            self.token, self.end = self.token + '"', self.end + 1

    def string(self):
        text = re.sub(r"\\(u....|.)", lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "u" else
                      LETTERS[found[1]], self.token[1:-1])
        return text.encode("utf-16", "surrogatepass").decode("utf-16")  # pairs of surrogates become one character

    def value(self):
        if self.token in ("{", "["):
            value = self.group(Object(), "}") if self.token == "{" else self.group([], "]")
        elif self.token[:1] == '"':
            value = self.string()
        elif self.token in ("true", "false", "null") or NUMBER.fullmatch(self.token):
            value = (self.token,)
        else:
            self.fail("unexpected token" if self.token in ",:]}" else "invalid token")
        self.next()
        return value

    def group(self, group, closing):
        """Reads what is in an object or a list, up to its closing bracket."""
        opening, key, places = self.start, None, {}
        self.next()
        while self.token != closing:
            start = self.start
            if closing == "}":
                if self.token[:1] != '"':
                    self.fail("string or '}' expected")
                key = self.string()
                if key in group:
                    self.fail("duplicate object key")
                self.next()
                self.expect(":")
                self.next()
            begin, value = self.start, self.value()
            places[key] = Member(start, begin, self.last, self.start if self.token == "," else None)
            group.append(value) if key is None else group.update({key: value})
            if self.token != ",":
                break
            self.next()
        self.expect(closing)
        if closing == "}":
            group.open, group.close, group.places = opening, self.start, places
        return group


def read_json(text):
    if "\0" in text:
        raise Failure("it contains a NUL byte")
    reader = Reader(text)
    reader.expect("{" if reader.token != "[" else "[", "'[' or '{' expected")
    try:
        root = reader.value()
    except UnicodeError:
        reader.fail("invalid Unicode")
    except RecursionError:
        reader.fail("maximum parsing depth reached")
    reader.expect("", "end of file expected")
    if not isinstance(root, Object):
        raise Failure("it is not a JSON object")
    return root


def written(value, line, indent):
    """value as JSON text. line: a line's end and the indentation of the line on which the value begins."""
    if not isinstance(value, (dict, list)):
        return quote(value) if isinstance(value, str) else value[0]
    is_list = isinstance(value, list)
    parts = [written(one, line + indent, indent) for one in (value if is_list else value.values())]
    parts = parts if is_list else [f"{quote(key)}: {part}" for key, part in zip(value, parts)]
    inner = line + indent + f",{line}{indent}".join(parts) + line if parts else ""
    return f"[{inner}]" if is_list else f"{{{inner}}}"


def find_indent(text, root):
    """Two blanks a level, unless the first member has another indentation."""
    first = min((place.key for place in root.places.values()), default=root.close)
    line = text.rfind("\n", 0, first) + 1
    indent = text[line:first]
    return indent if line and 0 < len(indent) <= INDENT_MOST and not indent.strip(" \t") else "  "


def with_member(text, members, key, value, line, indent):
    """text with one more member at the object's end. line: as in written(), for the object."""
    *_, last = Member(None, None, members.open + 1, -1), *members.places.values()
    end = len(text[:members.close].rstrip(" \t\r\n"))  # after everything in the object, comments too
    added = f"{line}{indent}{quote(key)}: {written(value, line + indent, indent)}"
    rest = text[end:] if "\n" in text[end:members.close] else line + text[members.close:]
    return text[:last.end] + ("," if last.comma is None else "") + text[last.end:end] + added + rest


def without_member(text, members, key):
    """text without the member, the comma after it, else the one before it, and its lines where nothing else is on them."""
    begin, _, end, comma = members.places[key]
    before = max((place.comma for place in members.places.values() if place.comma), default=None) if comma is None else None
    end = end if comma is None else comma + 1
    line = len(text[:begin].rstrip(" \t"))
    rest = end + len(re.match(r"[ \t\r]*", text[end:])[0])
    if text[line - 1:line] == "\n" and text[rest:rest + 1] == "\n":
        begin, end = line, rest + 1
    kept = text[:begin] if before is None else text[:before] + text[before + 1:begin]
    return kept + text[end:]


def merged(old, entry):
    """The entry with what else the user has put into the old one (env, disabled, ...), unless that was a server of another
    kind, such as one with a URL."""
    old = old if isinstance(old, dict) else {}
    return {**(old if "command" in old else {}), **entry, **{key: old[key] for key in ("enabled", "tools") if key in old}}


def edit_json(section, name, entry, text):
    """As edit()."""
    text = text if text.strip(" \t\r\n") else "{}\n"
    root = read_json(text)
    servers = root.get(section, {})
    if not isinstance(servers, dict):
        raise Failure(f"its \"{section}\" is not an object")
    if entry and name in servers:
        entry = merged(servers[name], entry)
    if servers.get(name) == entry:
        return None, text
    line, indent = "\r\n" if "\r" in text else "\n", find_indent(text, root)
    if section not in root:
        edited = with_member(text, root, section, {name: entry}, line, indent)
    elif not entry:
        edited = without_member(text, servers, name)
    elif name in servers:
        place = servers.places[name]
        edited = text[:place.value] + written(entry, line + 2 * indent, indent) + text[place.end:]
    else:
        edited = with_member(text, servers, name, entry, line + indent, indent)
    wanted = {**servers, name: entry} if entry else {key: value for key, value in servers.items() if key != name}
    if read_json(edited) != {**root, section: wanted}:
        raise Failure("cannot edit it")
    return ("removed" if not entry else "replaced" if name in servers else "added"), edited


# --- TOML, version 1.0.0 of its specification ---

# One or two quotes may precede the three that end a long string.
STRING = (r'(?s:"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""(?:"{0,2})|"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"'
          r"|'''.*?'''(?:'{0,2})|'(?!'')[^'\n]*')")
PART = rf"[ \t]*(?:{STRING}|[A-Za-z0-9_-]+)[ \t]*"
KEY = rf"{PART}(?:\.{PART})*"
LINE_END = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
HEADER = re.compile(rf"[ \t]*\[(\[)?({KEY})\](?(1)\])" + LINE_END.pattern)
PAIR = re.compile(rf"({KEY})=[ \t]*")
# Numbers, true and false, and times, which may have a blank after the date; and what a list or an inline table consists of.
SCALAR, NESTED = re.compile(rf"{STRING}|[A-Za-z0-9_+.: -]+"), re.compile(rf"{STRING}|#[^\n]*|[\[\]{{}}]|[^\"'#\[\]{{}}]+")


def skip_value(text, at):
    """The end of the value that begins at at; None: there is none."""
    depth, piece = 0, NESTED if text[at:at + 1] in ("[", "{") else SCALAR
    while True:
        found = piece.match(text, at)
        if not found:
            return None
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        at = found.end()
        if depth <= 0:
            return at


def parts_of(key):
    parts = (part.strip(" \t") for part in re.findall(PART, key))
    return [part[1:-1] if part[0] in "\"'" else part for part in parts]


def edit_toml(section, name, entry, text):
    """As edit(). Walks the file only to find what it defines, and skips values. Refuses a file that defines the wanted name
    in another form, or that the walk does not understand."""
    if "\0" in text:
        raise Failure("it contains a NUL byte")
    wanted, table, inside = [section, name], [], False
    present = elsewhere = False  # the file defines the name, and not only by the table from begin to end
    closed = False  # the section is not a table that can be extended
    begin = end = 0
    kept, starts_program = "", False  # lines of the table that the entry does not have; the table has a command
    rest, rest_at, was_own = "", 0, False  # the text without the table and those in it, up to rest_at
    start = at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        line, header, pair = at, HEADER.match(text, at), PAIR.match(text, at)
        if pair and not header:
            at = skip_value(text, pair.end())
        found = header or (LINE_END.match(text, at) if at is not None else None)
        if not found:
            raise Failure(f"cannot parse line {1 + text.count(chr(10), 0, line)}")
        at = found.end()
        if not header and not pair:
            continue
        is_table = header and not header[1]
        key = table = parts_of(header[2]) if header else table
        if not header:
            key = table + parts_of(pair[1])
            elsewhere = elsewhere or len(table) < 2 and key[:2] == wanted
        # A part with an escape could be any name.
        closed = closed or "\\" in key[0] or key == [section] and not is_table
        if len(key) > 1 and key[0] == section:
            escaped = "\\" in key[1]
            present, elsewhere = present or escaped or key[1] == name, elsewhere or escaped
        if header:
            inside = key == wanted and bool(is_table) and not end
            elsewhere = elsewhere or key == wanted and not inside
            begin = line if inside else begin
        elif inside:
            starts_program = starts_program or key[2] == "command"
            kept += text[line:at] if key[2] not in (entry or {}) and "\\" not in key[2] else ""
        end = at if inside else end
        is_own = table[:2] == wanted  # comments between such lines belong to them
        rest += text[rest_at:line] if is_own and not was_own else ""
        rest_at, was_own = at if is_own else rest_at, is_own
    if closed:
        raise Failure(f"its {section} is not a table that can be extended")
    added = "".join([f"[{section}.{name}]\n"] + [f"{key} = {toml(value)}\n" for key, value in entry.items()]) if entry else ""
    if "\n" + added in "\n" + text[start:] and present if entry else not present:
        return None, text
    if not entry and elsewhere:
        raise Failure(f"its {section}.{name} is no table with a header: remove it by hand", errno.EEXIST)
    if present and not elsewhere and (end or not entry):
        if entry and starts_program:  # what is in it or below it stays
            return "replaced", text[:begin] + added + kept + text[end:]
        return "replaced" if entry else "removed", rest + added + text[rest_at:]
    if present:
        raise Failure(f"it already has another {section}.{name}", errno.EEXIST)
    return "added", text + ("" if not text else "\n" if text.endswith("\n") else "\n\n") + added


def toml(value):
    """A string, a list of strings or a number, which TOML writes as JSON does, but for DEL."""
    text = f"[{', '.join(map(quote, value))}]" if isinstance(value, list) else written(value, "", "")
    return text.replace("\x7f", "\\u007F")


# --- entries ---

def make_entry(client, program, flags, call_ms):
    """call_ms: the longest time of a call, which goes into the entries of clients with a shorter default."""
    for what, word in (*(("", flag) for flag in flags), ("the path of this program, ", program)):
        if any("\udc80" <= one <= "\udcff" for one in word):
            raise Failure(f'{what}"{word[:100]}" is not UTF-8')
    entry = {"type": client.type} if client.type else {}
    entry.update({"command": [program, *flags]} if client.is_list else {"command": program, "args": flags})
    entry.update(client.more)
    if client.timeout:
        member, unit_ms = client.timeout
        entry[member] = (str((call_ms + RESULT_MS) // unit_ms),)
    return entry


def edit(client, name, entry, text):
    """(what was done, text with this entry of that name or, for None, without one). What was done: "added", "replaced" or
    "removed"; None: the text has this entry, or none to remove."""
    return (edit_toml if client.files[0].endswith(".toml") else edit_json)(client.section, name, entry, text)
