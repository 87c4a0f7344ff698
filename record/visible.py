"""Text of a session, which may be anybody's, with every invisible character made visible, as base/word.h writes it."""
import contextlib
import os
import re

# As base/word.c has them; tests/record/test_reading.py compares. Bytes that are not UTF-8 are lone surrogates here.
UNSEEN = (r"\x7F-\xA0\xAD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890-\u0891\u08E2\u115F-\u1160\u1680\u17B4-\u17B5"
          r"\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F\u2800\u3000\u3164\uD800-\uF8FF\uFDD0-\uFDEF\uFE00-\uFE0F\uFEFF"
          r"\uFFA0\uFFF0-\uFFFC\uFFFE-\uFFFF\U000110BD\U000110CD\U00013430-\U0001345F\U0001BCA0-\U0001BCA3\U0001D159"
          r"\U0001D173-\U0001D17A\U0001FFFE-\U0001FFFF\U0002FFFE-\U0002FFFF\U0003FFFE-\U0010FFFF")
MARKS = re.compile(r"[\u0300-\u036F\u0483-\u0489\u1AB0-\u1AFF\u1DC0-\u1DFF\u20D0-\u20FF\uFE20-\uFE2F]")
IN_LINE, IN_LINES = re.compile(rf"[\x00-\x1F{UNSEEN}]"), re.compile(rf"[\x00-\x08\x0B-\x1F{UNSEEN}]")
LETTERS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
MARKUP = {ord(character): entity for character, entity in zip("&<>\"'", ("&amp;", "&lt;", "&gt;", "&quot;", "&#39;"))}
SAID_BYTES = 4096


def escape(found):
    code = ord(found[0])
    return LETTERS.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def lines(text):
    """Keeps line feeds and tabs."""
    return IN_LINES.sub(escape, text)


def line(text):
    return IN_LINE.sub(escape, text)


def html(text):
    """The same as lines(), and markup is text, also in an attribute between '"'."""
    return lines(text).translate(MARKUP)


def part(text, begin, end):
    """These bytes of it; characters may be cut."""
    return text.encode("utf-8", "surrogateescape")[begin:end].decode("utf-8", "surrogateescape")


def own_line(text, most):
    """A line of ours that may hold words of others: of at most so many bytes, and no mark is drawn over what stands before."""
    out = ""
    for at, character in enumerate(text[:most]):
        shown = line(character) if at or not MARKS.match(character) else escape([character])
        most -= len(shown.encode())
        if most < 0:
            break
        out += shown
    return out


def write(text):
    """To stdout, at once."""
    with open(1, "wb", closefd=False) as out:
        out.write(text.encode())


def say(text):
    """Writes a line of ours to stderr."""
    shown = own_line(part(text, 0, SAID_BYTES - 1), SAID_BYTES + SAID_BYTES // 2 - 1)
    with contextlib.suppress(OSError):
        os.write(2, f"sandpiper: {shown}\n".encode())


def split(text):
    """Its lines, without line feeds; a last one that is empty is none."""
    return text.removesuffix("\n").split("\n") if text else []


def indented(prefix, text):
    return "".join(f"{prefix}{one}\n" for one in split(text))


def fenced(language, text):
    """A block of Markdown between fences that are longer than any in the text; nothing of an empty text."""
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}{language}\n{lines(text)}{'' if text[-1] == chr(10) else chr(10)}{fence}\n\n" if text else ""


def whole(members, name):
    """The text of an event's member, which may be missing."""
    value = members.get(name) if members else None
    return value if isinstance(value, str) else ""


def word(members, name):
    """The same for comparisons and short words: ends before a NUL."""
    return whole(members, name).partition("\0")[0]


def number(members, name, missing=0):
    value = members.get(name) if members else None
    return value if type(value) is int else missing


def items(members, name):
    value = members.get(name) if members else None
    return value if isinstance(value, list) else []


def fill(members, template, escape=line):
    """The template, in which {name} stands for that member, a text or an integer."""
    value = lambda found: escape(whole(members, found[1]) or str(number(members, found[1], "")))
    return re.sub(r"\{(\w+)\}", value, template)
