"""matplotlib without a display: figures that are shown, or open at the end of a cell, become images.

`adopt` runs right after the code has imported pyplot, before the importing line gets it. show() then takes the open
figures and closes them, so that a loop of plot and show gives one image a round. A figure that the cell itself has
saved to an image file is not returned a second time.
"""
import os
from io import BytesIO

images = load("images")
SHRINK = 0.7
TRIES = 5
state = {"session": None}


def adopt(session, pyplot):
    state["session"] = session
    figure_class = IMPORTED["matplotlib.figure"].Figure
    save = figure_class.savefig

    def show(*args, **kwargs):
        """Take all open figures as images of this call and close them."""
        take_open(session)

    def show_one(self, *args, **kwargs):
        """Take this figure as an image of this call."""
        take(session, self)
        close(self)

    def savefig(self, fname, *args, **kwargs):
        done = save(self, fname, *args, **kwargs)
        if isinstance(fname, (str, os.PathLike)):
            path = os.path.abspath(os.fspath(fname))
            path += "" if os.path.exists(path) else ".png"  # matplotlib's own default
            if images.is_image(path):
                session.saved_images.append(path)
                self._saved_in_cell = session.cell
        return done

    for made, original in ((show, pyplot.show), (show_one, figure_class.show), (savefig, save)):
        made.__name__, made.__qualname__ = original.__name__, original.__qualname__
    savefig.__doc__, savefig.__wrapped__ = save.__doc__, save
    pyplot.show, figure_class.show, figure_class.savefig = show, show_one, savefig


def managers():
    helpers = IMPORTED.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers is not None else []


def close(figure):
    IMPORTED["matplotlib.pyplot"].close(figure)


def take_open(session):
    """Makes an image of every open figure and closes it, even if drawing one of them raises."""
    figures = [manager.canvas.figure for manager in managers()]
    try:
        for number, figure in enumerate(figures):
            if getattr(figure, "_shown_in_cell", None) != session.cell:
                take(session, figure, len(figures) - number)
    finally:
        for figure in figures:
            close(figure)


def is_blank(figure):
    return not (figure.axes or figure.texts or figure.images or figure.lines or figure.patches)


def take(session, figure, waiting=2):
    if is_blank(figure) or getattr(figure, "_saved_in_cell", None) == session.cell:
        return
    shown = session.shown_images()
    if shown.full():
        shown.undrawn += 1
        return
    data = draw(figure, shown.share(waiting))
    path = shown.write(data, ".png")
    if images.measure(data)[1] <= images.LONG_SIDE:
        shown.take(path, len(data))
    else:
        shown.missing.append(path)
    figure._shown_in_cell = session.cell


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
