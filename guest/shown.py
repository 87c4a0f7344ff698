"""What people see of values, where the client shows results in a view: tables, HTML, plots.

A model gets a text for each of them; "as" has it, so that the view puts the form where the text stands. Nothing here
may change what the model gets: what an object prints while it is asked for HTML is dropped.
"""
import os
from _io import StringIO

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
    if html is None and hasattr(type(value), "_repr_html_") and not any(kind in data for kind in load("forms").IMAGES):
        html = quietly(load("forms").ask, value, "_repr_html_", enter)
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
