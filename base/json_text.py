"""JSON as the server's own parser takes it: bounded, without duplicate members, lone surrogates and what is beyond a double.

The module json of the standard library is missing in Debian's python3-minimal, and takes more.
"""
import re

DEPTH_MOST, VALUES_MOST = 64, 500_000  # LIMIT_RECORD_JSON_DEPTH, LIMIT_JSON_VALUES
INTEGERS = range(-1 << 63, 1 << 63)
INFINITY = float("inf")
SPACE = r"[ \t\n\r]*"
TOKEN = re.compile(SPACE + r'(?:"([^"\\\0-\x1f]*)"|([]{}[,:"])|(true|false|null)'
                   r"|(-?(?:0|[1-9][0-9]*))(\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)?)")
STRING, SIGN, WORD, INTEGER, REAL = range(1, 6)
END = re.compile(SPACE + r"\Z")
WORDS = {"true": True, "false": False, "null": None}
CONTROL = re.compile(r"[\0-\x1f]")
PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = re.compile(rf"({PAIR}|\\u[0-9a-fA-F]{{4}})|\\(.)", re.DOTALL)
LETTERS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SHORT = {character: "\\" + letter for letter, character in LETTERS.items() if letter != "/"}
QUOTED, ALL_BUT_ASCII = re.compile(r'["\\\0-\x1f]'), re.compile(r'["\\\0-\x1f]|[^\0-\x7f]')


def unescape(found):
    """Half of a surrogate pair becomes U+FFFD."""
    if found[1]:
        return bytes.fromhex(found[1].replace("\\u", "")).decode("utf-16-be", "replace")
    return LETTERS[found[2]]


class Parser:
    def __init__(self, text):
        self.text, self.at, self.left = text, 0, VALUES_MOST

    def next(self):
        found = TOKEN.match(self.text, self.at)
        if not found:
            raise ValueError
        self.at = found.end()
        return found

    def string(self, found):
        """The string that begins with this token."""
        if found.lastindex == STRING:
            return found[1]
        if found[SIGN] != '"':
            raise ValueError
        text, begin = self.text, self.at
        end, escapes = begin - 1, 1
        while escapes % 2:
            end = text.index('"', end + 1)
            first = end
            while text[first - 1] == "\\":
                first -= 1
            escapes = end - first
        self.at = end + 1
        part = text[begin:end]
        if CONTROL.search(part):
            raise ValueError
        return ESCAPE.sub(unescape, part)

    def value(self, found, depth=0):
        """The value that begins with this token."""
        kind = found.lastindex
        if kind == STRING:
            return found[1]
        if kind == WORD:
            return WORDS[found[WORD]]
        if kind == REAL:
            number = float(found[INTEGER] + found[REAL])
            if abs(number) == INFINITY:
                raise ValueError
            return number
        if kind == INTEGER:
            if len(found[INTEGER]) > 20 or int(found[INTEGER]) not in INTEGERS:
                raise ValueError
            return int(found[INTEGER])
        if found[SIGN] == "[":
            return self.items(depth + 1)
        return self.members(depth + 1) if found[SIGN] == "{" else self.string(found)

    def parts(self, depth, end):
        """The first token of each item, or none after the last one."""
        self.left -= 1
        found = self.next()
        if depth > DEPTH_MOST or self.left < 0:
            raise ValueError
        while found[SIGN] != end:
            yield found
            found = self.next()
            if found[SIGN] == ",":
                self.left -= 1
                found = self.next()
                if found[SIGN] == end or self.left < 0:
                    raise ValueError
            elif found[SIGN] != end:
                raise ValueError

    def items(self, depth):
        return [self.value(found, depth) for found in self.parts(depth, "]")]

    def members(self, depth):
        members = {}
        for found in self.parts(depth, "}"):
            name = self.string(found)
            if name in members or "\0" in name or self.next()[SIGN] != ":":
                raise ValueError
            members[name] = self.value(self.next(), depth)
        return members


def load(data):
    """The value of JSON text, bytes. Raises ValueError for any other."""
    try:
        parser = Parser(data.decode())
        value = parser.value(parser.next())
        if END.match(parser.text, parser.at):
            return value
    except LookupError:  # an escape or a string without an end
        pass
    raise ValueError


def escape(found):
    character = found[0]
    return SHORT.get(character) or "".join(f"\\u{int.from_bytes(pair, 'big'):04X}" for pair in
                                           re.findall(b"..", character.encode("utf-16-be"), re.DOTALL))


def quote(text, to_escape=QUOTED):
    """The text as a string of JSON, which also is one of Python."""
    return f'"{to_escape.sub(escape, text)}"'


def dump(value, line="\n"):
    """The value as text, ASCII. line: a line feed and the indentation of what is around it, or "" for all on one line."""
    inner = line and line + " "
    if isinstance(value, str):
        return quote(value, ALL_BUT_ASCII)
    if isinstance(value, dict):
        begin, end, items = "{", "}", [f"{quote(name, ALL_BUT_ASCII)}: {dump(item, inner)}" for name, item in value.items()]
    elif isinstance(value, list):
        begin, end, items = "[", "]", [dump(item, inner) for item in value]
    else:
        return {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else repr(value)
    return f"{begin}{inner}{f',{inner}'.join(items)}{line}{end}" if items else begin + end
