"""The forms that objects of the notebook world offer, and which of them a model gets.

Images become images of the call. Text is Markdown if there is some, else the plain repr, else the rest of HTML without
its tags.
"""
import binascii
import os
import re
from _io import StringIO

METHODS = (
    ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"), ("image/svg+xml", "_repr_svg_"),
    ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"),
)
ENTITIES = {
    "amp": "&", "apos": "'", "bull": "•", "copy": "©", "deg": "°", "emsp": " ", "ensp": " ", "euro": "€", "ge": "≥", "gt": ">",
    "hellip": "…", "larr": "←", "laquo": "«", "ldquo": "“", "le": "≤", "lsquo": "‘", "lt": "<", "mdash": "—", "micro": "µ",
    "middot": "·", "minus": "−", "mu": "μ", "nbsp": " ", "ndash": "–", "ne": "≠", "plusmn": "±", "quot": '"', "raquo": "»",
    "rarr": "→", "rdquo": "”", "rsquo": "’", "sigma": "σ", "sup2": "²", "thinsp": " ", "times": "×",
}
HTML_MAX, TEXT_MAX = 4000000, 200000  # characters, with scripts and without
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Bundle:
    """Forms that a caller gave as they are."""

    def __init__(self, forms):
        self.forms = forms

    def _repr_mimebundle_(self, **_):
        return dict(self.forms)


def shows_itself(value, enter):
    """Calls the method that replaces all forms; ignores one that raises."""
    method = getattr(type(value), "_ipython_display_", None)
    if method is None:
        return False
    try:
        enter(method, value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False
    return True


def forms_of(value, enter):
    """{media type: data}. Leaves out a form that raises; only an interrupt passes."""
    kind, data = type(value), {}
    if getattr(kind, "_repr_mimebundle_", None) is not None:
        found = ask(value, "_repr_mimebundle_", enter)
        if type(found) is dict:
            data.update(found)
    for media_type, method in METHODS:
        if media_type not in data and getattr(kind, method, None) is not None:
            found = ask(value, method, enter)
            if found is not None:
                data[media_type] = found
    if speaks_html(kind) and "text/html" not in data and hasattr(kind, "_repr_html_"):
        data["text/html"] = ask(value, "_repr_html_", enter)
    return data


def speaks_html(kind):
    """Whether its repr says nothing: it names only the type."""
    return kind.__repr__ is object.__repr__ or kind.__module__ == "IPython.core.display"


def ask(value, method, enter):
    try:
        found = enter(getattr(value, method))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return found[0] if type(found) is tuple and found else found  # data may come with its metadata


def as_bytes(data):
    if isinstance(data, str):
        try:
            return binascii.a2b_base64(data)
        except ValueError:
            return b""
    return bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else b""


def add_images(session, data):
    """Lines that name the files of a value's images. An SVG is one, but cannot be shown."""
    for media_type in IMAGES:
        if media_type in data:
            path = session.shown_images().add(as_bytes(data[media_type]))
            if path:
                return ["[image: %s]" % path]
    svg = data.get("image/svg+xml")
    if isinstance(svg, str) and svg and not session.shown_images().full():
        return ["[svg: %s]" % session.shown_images().write(svg.encode("utf-8", "replace"), ".svg")]
    return []


def text_form(value, data):
    """The best text of the forms, or None when the plain repr is."""
    markdown = data.get("text/markdown")
    if isinstance(markdown, str) and markdown:
        return re.sub(r"(?<=;base64,)[A-Za-z0-9+/=]{1000,}", lambda found: "[%d bytes left out]" % len(found[0]), markdown)
    if not speaks_html(type(value)):
        return None
    for media_type in ("text/plain", "text/latex"):
        text = data.get(media_type)
        if isinstance(text, str) and text:
            return text
    html, tree = data.get("text/html"), data.get("application/json")
    if isinstance(html, str) and html.strip():
        return without_tags(html) or None
    return None if tree is None else load("display").text_of(tree, load("session").enter)


def character(match):
    """For a reference to a character: html.unescape knows two thousand names, which take a millisecond to load."""
    name = match[1]
    try:
        if name[0] == "#":
            return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    except (ValueError, OverflowError):
        return match[0]
    return ENTITIES.get(name, match[0])


def without_tags(html):
    rest, html = html[HTML_MAX:], re.sub(r"(?is)<(style|script|head)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", "", html[:HTML_MAX])
    if rest or len(html) > TEXT_MAX:  # no part of a tag, and no half row that looks like the last one
        end = max(html.rfind("</tr", 0, TEXT_MAX), html.rfind("<", 0, TEXT_MAX) if "</tr" not in html[:TEXT_MAX] else -1, 0)
        html = html[:end or TEXT_MAX] + "<br>[... the rest of the HTML is not shown ...]"
    html = re.sub(r"(?i)</t[dh]>\s*(?=<t[dh])", "\t", html)
    html = re.sub(r"(?i)\s*(<br\s*/?>|</(p|div|tr|li|h[1-6]|table|ul|ol|pre)>)\s*", "\n", html)
    text = re.sub(r"&(#[0-9]+|#[xX][0-9a-fA-F]+|[a-z0-9]+);", character, re.sub(r"(?s)<[^>]*>", "", html))
    lines = [line.strip(" ") for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip())


# --- what people see ---
# What people see of values, where the client shows results in a view: tables, HTML, plots.
#
# A model gets a text for each of them; "as" has it, so that the view puts the form where the text stands. Nothing here
# may change what the model gets: what an object prints while it is asked for HTML is dropped.
as_json = load("as_json")
enter = load("session").enter
ROWS, COLUMNS, CELL_MAX = 200, 50, 500
MOST = 100 << 10  # bytes of all of a cell; LIMIT_VIEW_BYTES


class Shown:
    def __init__(self):
        self.parts, self.left = [], MOST - 2

    def add(self, part):
        """Adds a part if it has space."""
        writer = as_json.Writer()
        writer.left = self.left
        try:
            writer.add(part, as_json.DEPTH_MAX)
        except as_json.NoJson:
            return False
        self.add_text("".join(writer.parts))
        return True

    def add_text(self, text):
        data = text.encode("utf-8", "replace")
        if len(data) < self.left:
            self.parts.append(data)
            self.left -= len(data) + 1

    def data(self):
        return b"[%s]" % b",".join(self.parts)


def take(session, value, data, text):
    """Adds the form of a value, whose text the model gets. data: the forms that it offers by media type."""
    columns = columns_of(value)
    if columns is not None:
        names, columns, index, total = columns
        rows = [list(row) for row in zip(*columns)]
        for count in (ROWS, ROWS // 4, ROWS // 16):
            part = {"t": "table", "cols": names, "index": index, "rows": rows[:count], "total": total, "as": text}
            if session.shown.add(part):
                break
        return
    html = data.get("text/html") or data.get("image/svg+xml")
    if html is None and hasattr(type(value), "_repr_html_") and not any(kind in data for kind in IMAGES):
        html = quietly(ask, value, "_repr_html_", enter)
    if isinstance(html, str) and html.strip():
        session.shown.add({"t": "html", "s": str.__str__(html), "as": text})


def take_plotly(session, figure, text):
    """Adds a figure of plotly, with the place of the script that draws it."""
    plotly = IMPORTED["plotly.io"]
    figure = quietly(plotly.to_json, figure, False)
    library = os.path.dirname(IMPORTED["plotly"].__file__) + "/package_data/plotly.min.js"
    rest = as_json.text_of({"lib": library, "as": text})
    session.shown.add_text('{"t":"plotly","fig":%s,%s' % (figure, rest.decode()[1:]))


def quietly(function, *args):
    kept = SYS["stdout"], SYS["stderr"]
    SYS["stdout"] = SYS["stderr"] = StringIO()
    try:
        return enter(function, *args)
    finally:
        SYS["stdout"], SYS["stderr"] = kept


def columns_of(value):
    """(names, values by column, how many of them are the index, [rows, columns] in all) of a table, else None."""
    pandas, polars = IMPORTED.get("pandas"), IMPORTED.get("polars")
    if isinstance(value, getattr(pandas, "Series", ())) or isinstance(value, getattr(polars, "Series", ())):
        value = value.to_frame()
    if isinstance(value, getattr(pandas, "DataFrame", ())):
        part = value.iloc[:ROWS, :COLUMNS]
        levels = range(part.index.nlevels)
        names = ["" if name is None else text_of(name) for name in part.index.names]
        names += [text_of(name) for name in part.columns]
        columns = [part.index.get_level_values(level).tolist() for level in levels]
        columns += [part.iloc[:, at].tolist() for at in range(part.shape[1])]
        nothing = pandas.NaT, getattr(pandas, "NA", None)
    elif isinstance(value, getattr(polars, "DataFrame", ())):
        part = value.head(ROWS)
        names, levels, nothing = [text_of(name) for name in part.columns[:COLUMNS]], (), ()
        columns = [part[name].to_list() for name in part.columns[:COLUMNS]]
    else:
        return None
    columns = [[cell(value, nothing) for value in column] for column in columns]
    return names, columns, len(levels), [int(side) for side in value.shape]


def cell(value, nothing):
    kind = type(value)
    if kind is float:
        return value if -as_json.INFINITY < value < as_json.INFINITY else None if value != value else str(value)
    if kind is bool or value is None or kind is int and -as_json.INT_MAX <= value <= as_json.INT_MAX:
        return value
    if any(value is one for one in nothing):
        return None
    return text_of(value)


def text_of(value):
    return str.__str__(value if type(value) is str else str(value))[:CELL_MAX]
