"""The text of a cell's value: plain repr if it is short, laid out and bounded if not."""
import sys
from _collections import deque
from _io import BytesIO

enter = load("session").enter
TEXT_MAX = 8000
WIDTH = 100
ITEMS_MAX = 60
LISTED = 8
DEPTH_MAX = 6
STRING_MAX = 4000
INNER_STRING_MAX = 400
ARGUMENT_MAX = 200
BUDGET = 1500  # values visited; the rest of a structure is only counted
SHARE_MIN = 30  # of these, for one of many siblings
BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}", deque: "[]"}
PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")
PLAIN = (int, float, bool, type(None), complex)


def cut(text, limit=TEXT_MAX):
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    return "%s\n[... %d characters omitted ...]\n%s" % (text[:head], len(text) - head - tail, text[-tail:])


def text_of(value, enter):
    """The text for a value; raises what its repr raises."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return short_string(value, STRING_MAX)
    if kind in BRACKETS:
        return cut(enter(Layout().text, value, 0, 0))
    if kind is getattr(IMPORTED.get("subprocess"), "CompletedProcess", None):
        return enter(completed, value)
    return cut(enter(repr, value))


def completed(value):
    """As its own repr, with each part bounded: the arguments may be a whole program."""
    args = value.args
    if type(args) in (list, tuple):
        args = "[%s]" % ", ".join(safe_repr(arg, enter) if type(arg) not in (str, bytes) else
                                  short_string(arg, ARGUMENT_MAX) for arg in args[:ITEMS_MAX])
    else:
        args = short_string(args, ARGUMENT_MAX) if type(args) in (str, bytes) else cut(repr(args), ARGUMENT_MAX)
    parts = ["args=" + args, "returncode=%r" % (value.returncode,)]
    for name in ("stdout", "stderr"):
        written = getattr(value, name)
        if type(written) in (str, bytes):
            parts.append("%s=%s" % (name, short_string(written, STRING_MAX)))
    return cut("CompletedProcess(%s)" % ", ".join(parts))


def present(session, value, enter):
    """The text for a value, None if it shows itself; adds its images to those of the call."""
    kind = type(value)
    if kind in PLAIN or kind in BRACKETS or kind in (str, bytes, bytearray):
        return "\n".join([text_of(value, enter), *images_in(session, value)])
    if kind.__name__ == "coroutine":
        load("shell").notebook(session).notes.append("the value is a coroutine, which runs only with `await`")
    if is_figure(value):
        enter(load("images").take, session, value)
        return text_of(value, enter)
    if load("forms").shows_itself(value, enter):
        return None
    data = load("forms").forms_of(value, enter)
    paths = load("forms").add_images(session, data)
    text = load("forms").text_form(value, data)
    text = "\n".join([text_of(value, enter) if text is None else cut(text)] + paths)
    if session.shown is not None:
        session.guard([], "the form for people", enter, load("forms").take, session, value, data, text)
    return text


def images_in(session, value):
    """Lines for the images among what a tool of --tools has returned."""
    blobs = value[:LISTED] if type(value) is list and "sandpiper" in IMPORTED else ()
    return [line for one in blobs if type(one) is load("calls").Blob for line in load("forms").add_images(session, {one.type: one})]


def is_for(session, hook, value):
    """Whether this sys.displayhook shows the value. One of a library's gets only that library's objects: sympy's would
    take the images and forms of all others."""
    package = load("trace").package_of(getattr(getattr(hook, "__code__", None), "co_filename", ""), session.layers)
    return package in (None, *getattr(sys, "stdlib_module_names", ()), str(type(value).__module__).partition(".")[0])


def adopt_pillow(session, module):
    """PIL.ImageShow, which Image.show() calls, would start a viewer."""
    def show(image, title=None, **options):
        """Take the image as one of this call."""
        file, shown = BytesIO(), session.shown_images()
        (image if image.mode in PNG_MODES else image.convert("RGB")).save(file, "PNG")
        shown.undrawn += shown.add(file.getvalue()) is None
        return True

    module.show = show


def adopt_plotly(session, module):
    """plotly.io._renderers would open a browser, or show nothing."""
    def show(fig, *args, **kwargs):
        """Take the figure as an image of this call, or write it to an HTML file."""
        shown, plotly, line = session.shown_images(), IMPORTED["plotly.io"], ""
        if shown.full():
            shown.undrawn += 1
            return
        try:
            shown.add(plotly.to_image(fig, "png"))
        except Exception:
            path = shown.write(plotly.to_html(fig).encode("utf-8", "replace"), ".html")
            line = "[html: %s; plotly makes images only with the package kaleido]\n" % path
            SYS["stdout"].write(line)
        if session.shown is not None:
            session.guard([], "the form for people", enter, load("forms").take_plotly, session, fig, line)

    module.show = show
    module.renderers.default = "json"  # any: with none, a figure as the last value is not shown at all


def is_figure(value):
    module = IMPORTED.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def display(session, objects, raw, enter):
    """As in a notebook: text goes to stdout at once, images to the result."""
    for value in objects:
        if raw and isinstance(value, dict):
            value = load("forms").Bundle(value)
        text = value if type(value) is str else present(session, value, enter)
        if text is not None:
            SYS["stdout"].write(text + "\n")


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
    sample = repr(value[:limit])
    if len(sample) > 2 * limit:  # escapes: bytes have four characters each
        limit = max(limit * limit // len(sample), 1)
    if len(value) <= limit:
        return repr(value)
    head, tail = limit * 3 // 4, limit // 4
    unit = "characters" if type(value) is str else "bytes"
    return "%r ... [%d %s in total] ... %r" % (value[:head], len(value), unit, value[-tail:])


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
            return cut(safe_repr(value, enter), 2000)
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
    """Once a library is imported: wide tables unbroken, many columns shown. The user's settings stay."""
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
