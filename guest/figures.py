"""matplotlib without a display: figures that are shown, or open at the end of a cell, become images.

`adopt` runs right after the code has imported pyplot, before the importing line gets it. show() then takes the open
figures and closes them, so that a loop of plot and show gives one image a round. A figure that the cell itself has
shown, or saved to an image file, is returned again only if it was changed since.
"""
import os
from _weakref import ref
from _io import BytesIO

images = load("images")
Pattern = load("pattern").Pattern
SHRINK = 0.7
TRIES = 5
WINDOWS = Pattern(r"(?i)(gtk|qt|tk|wx)\w*(agg|cairo)|wx|macosx|nbagg|webagg\w*|inline|widget|notebook|"
                  r"(module://)?(matplotlib_inline|ipympl|ipykernel)\b.*")
state = {"closed": [], "shown": []}  # the figures that show() closed last: references, and in the same cell themselves


def without_window(choose):
    """A function that selects a back end, which takes Agg for those with windows."""
    def chosen(*args, **kwargs):
        plain = ["agg" if type(name) is str and WINDOWS.fullmatch(name) else name for name in (*args, *kwargs.values())]
        return choose(*plain[: len(args)], **dict(zip(kwargs, plain[len(args) :])))

    load("stack").wear(chosen, choose)
    return chosen


def adopt_backends(session, matplotlib):
    said = set()

    def once(record):
        """A font that is missing is looked for at each text of each figure."""
        found = session.cell, record.getMessage()
        known = found in said
        said.intersection_update([one for one in said if one[0] == session.cell])
        said.add(found)
        return not known

    IMPORTED["logging"].getLogger("matplotlib.font_manager").addFilter(once)
    matplotlib.use = without_window(matplotlib.use)


def adopt_text(session, helpers):
    """The characters that a font lacks make one note of the result, instead of two lines each."""
    def warn_on_missing_glyph(codepoint, *_):
        if chr(codepoint).isprintable():  # not those that a back end uses itself
            session.shown_images().lacking[chr(codepoint)] = None

    load("stack").wear(warn_on_missing_glyph, helpers.warn_on_missing_glyph)
    helpers.warn_on_missing_glyph = warn_on_missing_glyph


def adopt(session, pyplot):
    figure_class = IMPORTED["matplotlib.figure"].Figure
    save, save_current = figure_class.savefig, pyplot.savefig
    settings = IMPORTED["matplotlib"].rcParams
    if WINDOWS.fullmatch(str(dict.get(settings, "backend"))):
        settings["backend"] = "agg"

    def show(*args, **kwargs):
        """Take all open figures as images of this call and close them."""
        take_open(session, True)

    def show_one(self, *args, **kwargs):
        """Take this figure as an image of this call."""
        take(session, self)
        close(self)
        keep([self])

    def savefig(self, fname, *args, **kwargs):
        seen = is_seen(session, self)
        done = save(self, fname, *args, **kwargs)
        if type(fname) is BytesIO:
            self._copy = hash(fname.getvalue())  # the cell may write it to a file
        elif isinstance(getattr(fname, "name", None), str):
            fname.flush()
            fname = fname.name
        if isinstance(fname, (str, os.PathLike)):
            path = os.path.abspath(os.fspath(fname))
            path += "" if os.path.exists(path) else ".png"  # matplotlib's own default
            if images.is_image(path):
                note_saved(session, self, path, seen)
        if seen:
            mark_seen(session, self)  # saving alters it for a moment
        return done

    def savefig_current(*args, **kwargs):
        """Without an open figure, saves the one that show() has closed, as in a script without a display."""
        figure = None if managers() else (state["shown"] or [None])[-1]
        return figure.savefig(*args, **kwargs) if figure is not None else save_current(*args, **kwargs)

    for made, original in ((show, pyplot.show), (show_one, figure_class.show)):
        made.__name__, made.__qualname__ = original.__name__, original.__qualname__
    load("stack").wear(savefig, save)
    load("stack").wear(savefig_current, save_current)
    pyplot.show, pyplot.savefig, pyplot.switch_backend = show, savefig_current, without_window(pyplot.switch_backend)
    figure_class.show, figure_class.savefig = show_one, savefig


def note_saved(session, figure, path, seen):
    """Also keeps what the file has: it may be in a directory that the cell removes again."""
    if seen or is_blank(figure):
        session.shown_images().skip(path)
        session.shown_images().blank = session.shown_images().blank or not seen and path
        return
    few = len(session.saved_images) < images.COUNT_MAX
    session.saved_images.append((path, images.read(path) if few else None))
    mark_seen(session, figure)


def keep(figures):
    state["shown"], state["closed"] = figures, [ref(figure) for figure in figures]


def looks(figure):
    """What changes a figure without making it stale."""
    return [(getattr(axes, "elev", 0), getattr(axes, "azim", 0), getattr(axes, "roll", 0)) for axes in figure.axes]


def is_seen(session, figure, in_any_cell=False):
    """Whether it was shown or saved as it is now."""
    cell, seen = getattr(figure, "_seen", ("", None))
    return seen == looks(figure) and not figure.stale and (in_any_cell or cell == session.cell)


def mark_seen(session, figure):
    figure._seen, figure.stale = (session.cell, looks(figure)), False


def managers():
    helpers = IMPORTED.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers is not None else []


def close(figure):
    IMPORTED["matplotlib.pyplot"].close(figure)


def take_open(session, by_show=False):
    """Makes an image of every open figure and closes it, even if drawing one of them raises. show() also takes those
    that it closed before and that were changed since."""
    figures = [manager.canvas.figure for manager in managers()]
    if by_show:
        before = [figure() for figure in state["closed"]]
        figures += [figure for figure in before if figure not in (None, *figures) and not is_seen(session, figure, True)]
    try:
        for number, figure in enumerate(figures):
            take(session, figure, len(figures) - number)
    finally:
        for figure in figures:
            close(figure)
        if by_show and figures:
            keep(figures)
        elif not by_show:
            state["shown"] = []


def is_blank(figure):
    return len(figure.get_children()) < 2  # one is its background


def take(session, figure, waiting=2):
    if is_blank(figure) or is_seen(session, figure):
        return
    shown, copy = session.shown_images(), getattr(figure, "_copy", None)
    if copy in shown.displayed and not figure.stale:
        mark_seen(session, figure)
        return
    shown.checked.add(copy)
    if shown.full():
        shown.undrawn += 1
        return
    data = draw(figure, shown.share(waiting))
    path = shown.write(data, ".png")
    if images.measure(data)[1] <= images.LONG_SIDE:
        shown.take(path, len(data))
    else:
        shown.missing.append(path)
    mark_seen(session, figure)


def draw(figure, limit):
    """PNG bytes, drawn with fewer dots per inch until both bounds hold."""
    save = type(figure).savefig
    save = getattr(save, "__wrapped__", save)
    inches = max(figure.get_size_inches())
    dpi = min(figure.dpi, images.LONG_SIDE / inches)
    for _ in range(TRIES):
        file = BytesIO()
        save(figure, file, format="png", dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
        data = file.getvalue()
        side = images.measure(data)[1]
        if side <= images.LONG_SIDE and len(data) <= limit:
            break
        dpi *= min(SHRINK, images.LONG_SIDE / side, (limit / len(data)) ** 0.5)
    return data
