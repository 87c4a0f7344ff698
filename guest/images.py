"""The images of one result: counted, measured, and scaled down if a library for that is installed.

Writes what is drawn or displayed to a directory outside of the workspace: read_file can read it, and it is no file that
the cell seems to have made. Pillow scales down an image that is too big, in a process of its own, so that it need not
be imported here; without Pillow the result only names the file.
"""
import os
import stat
import sys
from _signal import SIGKILL
from time import clock_gettime, monotonic
from _weakref import ref
from _io import BytesIO

try:
    from select import POLLIN, poll
except ImportError:  # a trimmed Python
    poll = None

LONG_SIDE = 1568  # pixels
COUNT_MAX = 4
WRITTEN_MAX = 20
LISTED_MAX = 8  # of its files
NAMED_MAX = 6  # of the images that are not shown
LACKING_MAX = 30
BYTES_MAX = 600000  # of all images of a call; base64 makes 800 kB of it
SHARE_MIN = 100000
READ_MAX = 50000000
SMALLER_CPU_S = 5  # for all the steps that scale down an image
SMALLER_MOST_S = 20  # the same on a busy machine
EXECUTABLE = sys.executable
ENDS = {".png": b"IEND", ".jpg": b"\xff\xd9"}
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Images:
    def __init__(self, session):
        self.session = session
        self.paths = []
        self.checked = set()  # files that the cell has made, some both saved and among its changes; hashes of images
        self.displayed = set()  # hashes of images that the cell has displayed
        self.missing = []  # files of images that found no space
        self.undrawn = 0
        self.blank = None  # a file to which the cell has saved an empty figure
        self.lacking = {}  # characters for which the font of a figure has no glyph
        self.written = []  # (path, size) of what this class wrote to its directory
        self.left = BYTES_MAX
        self.notes = []

    def share(self, waiting=2):
        """How many bytes the next image may have, so that others have space too."""
        places = max(1, min(waiting, COUNT_MAX - len(self.paths)))
        return max(self.left // places, min(SHARE_MIN, self.left))

    def full(self):
        return len(self.written) >= WRITTEN_MAX

    def write(self, data, suffix):
        """Writes these bytes to a new file. Its name is unused: sessions and restarts share the directory."""
        directory = load("streams").TMP + "/figures"
        os.makedirs(directory, 0o755, True)
        name = self.session.name if self.session.name != "default" else ""
        stem = "%s/figure%s-%s" % (directory, name and "-" + safe(name), self.session.cell)
        for number in range(len(self.written) + 1, 1000):
            path = "%s-%d%s" % (stem, number, suffix)
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                continue
            with open(fd, "wb") as file:
                file.write(data)
            self.written.append((path, len(data)))
            return path
        raise OSError("no free name for an image in " + directory)

    def take(self, path, size):
        """Adds the image to the result if it has space."""
        if len(self.paths) < COUNT_MAX and size <= self.left:
            self.paths.append(path)
            self.left -= size
        else:
            self.missing.append(path)

    def add(self, data):
        """Adds the bytes of a displayed image. Returns the path of its file, None if it is no image."""
        found = measure(data)
        if found is None or self.full():
            return None
        path = self.write(data, found[0])
        self.displayed.add(hash(data))
        self.add_file(path, displayed=True)
        return path

    def skip(self, path):
        """Whether it was skipped or added before."""
        real = os.path.realpath(path)
        known = real in self.checked
        self.checked.add(real)
        return known

    def add_file(self, path, kept=None, displayed=False):
        """Adds an image file that the cell has made, or what is kept of it if it is gone; copies of one only once."""
        if self.skip(path):
            return
        if len(self.paths) >= COUNT_MAX:
            self.missing.append(path)
            return
        data = read(path)
        if data is None and kept and not os.path.exists(path):
            self.add(kept)
            return
        found = data and measure(data)
        if not found and data:
            self.notes.append("%s is damaged or no image, so it is not shown" % short(path, self.session.root))
        if not found or not displayed and hash(data) in self.checked:
            return
        self.checked.add(hash(data))
        limit = self.share()
        if found[1] <= LONG_SIDE and len(data) <= limit:
            self.take(path, len(data))
            return
        whole = ENDS.get(found[0], b"") in data[-100:]
        try:
            data = smaller(path, limit, self.session.layers)
        except TimeoutError:  # read_file has more time
            self.missing.append(path)
            return
        if data:
            self.take(self.write(data, measure(data)[0]), len(data))
        else:
            self.notes.append("%s is %s" % (short(path, self.session.root), "too large to show, and could not be scaled down"
                                            if whole else "incomplete, so it is not shown"))

    def all_notes(self):
        """Also names the images that are not in the result."""
        if self.missing:
            names = [short(path, self.session.root) for path in self.missing[:NAMED_MAX]]
            rest = len(self.missing) - len(names)
            own = {path for path, _ in self.written}
            several = "%s to %s" % (self.missing[0], self.missing[-1]) if rest and own.issuperset(self.missing) else ", ".join(names)
            yield "%d more image%s not shown; read_file shows %s%s" % (
                len(self.missing), " is" if len(self.missing) == 1 else "s are", several,
                " and %d more" % rest if rest and several[:1] != "/" else "",
            )
        if self.undrawn:
            yield "%d more figure%s not drawn: a call draws at most %d" % (
                self.undrawn, " was" if self.undrawn == 1 else "s were", WRITTEN_MAX,
            )
        if self.blank:
            yield "%s is blank: its figure was empty; show() closes figures, so save before it" % short(
                self.blank, self.session.root)
        if self.lacking:
            yield "the figure's font has no glyph for %s" % "".join([*self.lacking][:LACKING_MAX])
        yield from self.notes


def short(path, root):
    """A file of the workspace as code names it."""
    return path[len(root) + 1 :] if path.startswith(root + "/") else path


def safe(name):
    return "".join(ch if ch.isalnum() else "_" for ch in name)[:40]


def is_image(path):
    return path.lower().endswith(SUFFIXES)


def read(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > READ_MAX:
            return None
        return file.read(READ_MAX)


def measure(data):
    """(suffix, long side in pixels) of image bytes, or None. Formats: PNG, GIF, JPEG, WebP."""
    size = None
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and len(data) > 24:
        size = ".png", max(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    elif data[:6] in (b"GIF87a", b"GIF89a") and len(data) > 10:
        size = ".gif", max(int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    elif data[:2] == b"\xff\xd8":
        size = ".jpg", side_of_jpeg(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) > 30:
        size = ".webp", side_of_webp(data)
    return size if size and size[1] else None


def side_of_jpeg(data):
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # a start of frame
            return max(int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big"))
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


def side_of_webp(data):
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + max(int.from_bytes(data[24:27], "little"), int.from_bytes(data[27:30], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + max(bits & 0x3FFF, bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return max(int.from_bytes(data[i : i + 2], "little") & 0x3FFF for i in (26, 28))
    return 0


def smaller(path, limit, layers):
    """The image of a file within both bounds, or None. Raises TimeoutError if that takes too long."""
    try:
        data = output_of([EXECUTABLE, "-I", DIRECTORY + "/convert.py", str(limit)], os.fsencode(path), limit, layers)
    except TimeoutError:
        raise
    except (OSError, ValueError):
        return None
    found = measure(data)
    return data if found and len(data) <= limit and found[1] <= LONG_SIDE else None


def output_of(command, written, limit, layers):
    """What a program that reads `written`, less than a pipe holds, prints; b"" if it fails or prints more than `limit`.

    Kills it after SMALLER_CPU_S of processor time or SMALLER_MOST_S, and raises TimeoutError.

    Uses nothing of subprocess, which belongs to the code.
    """
    environment = dict(os.environ, SANDPIPER_PACKAGES=":".join(layers))
    if poll is None:
        return b""
    null, fds = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC), []
    pid, data, end = 0, b"", monotonic() + SMALLER_MOST_S
    try:
        fds += os.pipe()
        fds += os.pipe()
        os.write(fds[1], written)
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((fds[0], fds[3], null))]
        pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
        os.close(fds.pop(1))
        os.close(fds.pop())
        waiting = poll()
        waiting.register(fds[1], POLLIN)
        while len(data) <= limit:
            if monotonic() > end or cpu_time(pid) > SMALLER_CPU_S:
                raise TimeoutError
            if waiting.poll(500):
                part = os.read(fds[1], 1 << 16)
                if not part:
                    pid, done = 0, pid
                    return data if has_succeeded(done) else b""
                data += part
        return b""
    finally:
        load("frames").close(fds + [null])
        if pid:
            os.kill(pid, SIGKILL)
            has_succeeded(pid)


def cpu_time(pid):
    """Seconds of processor time that a process has used: clock_getcpuclockid(3) makes the same number of its pid."""
    try:
        return clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0


def has_succeeded(pid):
    try:
        return os.waitpid(pid, 0)[1] == 0
    except OSError:
        return True  # not known: the code ignores SIGCHLD, or waits for all of its children


# --- figures ---
# matplotlib without a display: figures that are shown, or open at the end of a cell, become images.
#
# `adopt` runs right after the code has imported pyplot, before the importing line gets it. show() then takes the open
# figures and closes them, so that a loop of plot and show gives one image a round. A figure that the cell itself has
# shown, or saved to an image file, is returned again only if it was changed since.
Pattern = load("language").Pattern
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

    load("watch").wear(chosen, choose)
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

    load("watch").wear(warn_on_missing_glyph, helpers.warn_on_missing_glyph)
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
            if is_image(path):
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
    load("watch").wear(savefig, save)
    load("watch").wear(savefig_current, save_current)
    pyplot.show, pyplot.savefig, pyplot.switch_backend = show, savefig_current, without_window(pyplot.switch_backend)
    figure_class.show, figure_class.savefig = show_one, savefig


def note_saved(session, figure, path, seen):
    """Also keeps what the file has: it may be in a directory that the cell removes again."""
    if seen or is_blank(figure):
        session.shown_images().skip(path)
        session.shown_images().blank = session.shown_images().blank or not seen and path
        return
    few = len(session.saved_images) < COUNT_MAX
    session.saved_images.append((path, read(path) if few else None))
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
    if measure(data)[1] <= LONG_SIDE:
        shown.take(path, len(data))
    else:
        shown.missing.append(path)
    mark_seen(session, figure)


def draw(figure, limit):
    """PNG bytes, drawn with fewer dots per inch until both bounds hold."""
    save = type(figure).savefig
    save = getattr(save, "__wrapped__", save)
    inches = max(figure.get_size_inches())
    dpi = min(figure.dpi, LONG_SIDE / inches)
    for _ in range(TRIES):
        file = BytesIO()
        save(figure, file, format="png", dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor())
        data = file.getvalue()
        side = measure(data)[1]
        if side <= LONG_SIDE and len(data) <= limit:
            break
        dpi *= min(SHRINK, LONG_SIDE / side, (limit / len(data)) ** 0.5)
    return data
