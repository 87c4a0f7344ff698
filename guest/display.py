"""The text of a cell's value: plain repr where it is short, laid out and bounded where it is not."""
import sys
from collections import deque

TEXT_MAX = 8000
WIDTH = 100
ITEMS_MAX = 60
DEPTH_MAX = 6
STRING_MAX = 4000
INNER_STRING_MAX = 400
BUDGET = 1500  # values visited before the rest of a structure is only counted
SHARE_MIN = 30  # of these, for one of many siblings
BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}", deque: "[]"}
PLAIN = (int, float, bool, type(None), complex)


def cut(text, limit=TEXT_MAX):
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return "%s\n[... %d characters left out ...]\n%s" % (text[:head], len(text) - head - tail, text[-tail:])


def text_of(value, enter):
    """The text for a value; what its repr raises is raised."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return short_string(value, STRING_MAX)
    if kind in BRACKETS:
        return cut(enter(Layout().text, value, 0, 0))
    return cut(enter(repr, value))


def present(session, value, enter):
    """The text for a value, None where it shows itself; its images are added to those of the call."""
    kind = type(value)
    if kind in PLAIN or kind in BRACKETS or kind in (str, bytes, bytearray):
        return text_of(value, enter)
    if is_figure(value):
        enter(load("figures").take, session, value)
        return text_of(value, enter)
    if load("forms").shows_itself(value, enter):
        return None
    data = load("forms").forms_of(value, enter)
    paths = load("forms").add_images(session, data)
    text = load("forms").text_form(value, data)
    if text is None:
        text = text_of(value, enter)
    else:
        text = cut(text)
    return "\n".join([text] + paths)


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def display(session, objects, raw, enter):
    """As in a notebook: text goes to stdout where the call stands, images to the result."""
    for value in objects:
        if raw and isinstance(value, dict):
            value = load("forms").Bundle(value)
        text = value if type(value) is str else present(session, value, enter)
        if text is not None:
            sys.stdout.write(text + "\n")


def safe_repr(value, enter):
    try:
        return enter(repr, value)
    except BaseException as error:
        return "<%s object: its repr raised %s>" % (type(value).__qualname__, brief(error))


def brief(error):
    try:
        return "%s: %s" % (type(error).__name__, str(error)[:200])
    except BaseException:
        return type(error).__name__


def short_string(value, limit):
    if len(value) <= limit:
        return repr(value)
    head, tail = limit * 3 // 4, limit // 4
    unit = "characters" if type(value) is str else "bytes"
    return "%r ... [%d %s in all] ... %r" % (value[:head], len(value), unit, value[-tail:])


class Layout:
    """One value laid out; a budget of visited values, shared among siblings, bounds time and text."""

    def __init__(self):
        self.left = BUDGET
        self.open = set()

    def text(self, value, depth, indent):
        self.left -= 1
        kind = type(value)
        if kind in PLAIN:
            return repr(value)
        if kind in (str, bytes, bytearray):
            return short_string(value, INNER_STRING_MAX)
        if kind not in BRACKETS:
            return cut(safe_repr(value, lambda function, *args: function(*args)), 2000)
        if id(value) in self.open:
            return "%s...%s" % tuple(BRACKETS[kind])
        if not value:
            return repr(value)
        if depth >= DEPTH_MAX or self.left < 0:
            return "<%s of %d>" % (kind.__name__, len(value))
        self.open.add(id(value))
        parts = self.parts(value, kind, depth, indent)
        self.open.discard(id(value))
        return self.join(parts, value, kind, indent)

    def parts(self, value, kind, depth, indent):
        parts, inner = [], indent + 1
        for count, item in enumerate(value.items() if kind is dict else value):
            if count >= ITEMS_MAX or self.left < 0:
                parts.append("... %d more" % (len(value) - count))
                break
            left = self.left
            share = self.left = min(left, max(left // (min(len(value), ITEMS_MAX) - count), SHARE_MIN))
            if kind is dict:
                key = self.text(item[0], depth + 1, inner)
                parts.append("%s: %s" % (key, self.text(item[1], depth + 1, inner + len(key) + 2)))
            else:
                parts.append(self.text(item, depth + 1, inner))
            self.left += left - share
        return parts

    def join(self, parts, value, kind, indent):
        opening, closing = BRACKETS[kind]
        if kind is tuple and len(value) == 1:
            closing = ",)"
        if kind in (frozenset, deque):
            opening, closing = "%s(%s" % (kind.__name__, opening), closing + ")"
        line = ", ".join(parts)
        if len(line) + indent + 2 <= WIDTH and "\n" not in line:
            return opening + line + closing
        pad = "\n" + " " * (indent + len(opening))
        if all(len(part) <= 24 and "\n" not in part for part in parts) and kind is not dict:
            return opening + self.fill(parts, indent, pad) + closing
        return opening + ("," + pad).join(parts) + closing

    def fill(self, parts, indent, pad):
        lines, used = [[]], indent
        for part in parts:
            if used + len(part) + 2 > WIDTH and lines[-1]:
                lines.append([])
                used = indent
            lines[-1].append(part)
            used += len(part) + 2
        return ("," + pad).join(", ".join(line) for line in lines)


def tune_libraries(modules, done):
    """Once a library is there: wide tables unbroken, many columns shown. What the user set stays."""
    pandas, numpy = modules.get("pandas"), modules.get("numpy")
    try:
        if "pandas" not in done and hasattr(pandas, "set_option") and hasattr(pandas, "DataFrame"):
            done.add("pandas")
            for name, default, better in (
                ("display.width", 80, 1000),
                ("display.max_columns", (0, 20), 30),
                ("display.max_rows", 60, 40),
                ("display.max_colwidth", 50, 80),
            ):
                now = pandas.get_option(name)
                if now == default or type(default) is tuple and now in default:
                    pandas.set_option(name, better)
        if "numpy" not in done and hasattr(numpy, "set_printoptions"):
            done.add("numpy")
            if numpy.get_printoptions().get("linewidth") == 75:
                numpy.set_printoptions(linewidth=120)
    except Exception:
        done.update(("pandas", "numpy"))
