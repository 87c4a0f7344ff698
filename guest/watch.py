"""Prepares some libraries as soon as the code has imported them, and what those say of the stack and of warnings."""
imports = load("imports")

# --- the stack ---
# What code sees of the stack beneath it: its own frames, and none of this directory's.
#
# Frames cannot be unlinked, so the functions of the library that list them leave the driver's out. The values that a cell
# leaves behind are freed in a frame that looks like the cell's, so that warnings and output of their finalizers name the
# cell.
OWN = DIRECTORY + "/"


def is_own(frame):
    return frame.f_code.co_filename.startswith(OWN)


def adopt_traceback(traceback):
    """print_stack, format_stack and extract_stack, and logging with stack_info, all call walk_stack."""
    walk = traceback.walk_stack

    def walk_stack(f):
        return walk(f) if f is None else ((frame, line) for frame, line in walk(f) if not is_own(frame))

    wear(walk_stack, walk)
    traceback.walk_stack = walk_stack


def adopt_inspect(inspect):
    """inspect.stack and trace."""
    outer = inspect.getouterframes

    def getouterframes(frame, context=1):
        return [info for info in outer(frame, context) if not is_own(info.frame)]

    wear(getouterframes, outer)
    inspect.getouterframes = getouterframes


def adopt_threading(session, threading):
    """What a thread dies of is one write: else the end of a call splits it over two results."""
    original = threading.excepthook

    def excepthook(args):
        try:
            text = load("trace").text_of(session, args.exc_value)
        except BaseException:
            text = None
        if text is None or args.exc_type is SystemExit or SYS.get("stderr") is None:
            original(args)
        else:
            SYS["stderr"].write("Exception in thread %s:\n%s" % (getattr(args.thread, "name", "?"), text))

    wear(excepthook, original)
    threading.excepthook = excepthook


def wear(function, original):
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    function.__doc__, function.__wrapped__ = original.__doc__, original


def _free(box):
    box.clear()


def free(session, box, line=1):
    """Drops the only references to the values in box, in a frame of the current cell at line."""
    name = "<cell %s>" % session.cell
    function = _free
    try:
        code = _free.__code__.replace(co_filename=name, co_name="<module>", co_firstlineno=line - 1)
        function = type(_free)(code, session.namespace)
    except BaseException:  # of an audit hook of the code's
        pass
    function(box)


def session():
    return load("session").SESSION


def tune(_):
    load("display").tune_libraries(IMPORTED, session().tuned)


def adopt_ipython(module):
    """IPython's display without IPython's shell would only print."""
    module.display = load("session").display


def ask_plainly(module):
    """getpass without a terminal would warn of that on four lines, and fail twice where there is no input."""
    def getpass(prompt="Password: ", stream=None, **_):
        return IMPORTED["builtins"].input(prompt)

    wear(getpass, module.getpass)
    module.getpass = getpass


def seed(module):
    """Of random and of numpy.random: --seed."""
    module.seed(int(session().options.partition("seed=")[2].split()[0]))


class Watch:
    """The first finder in sys.meta_path."""

    names = {
        "matplotlib": lambda module: load("images").adopt_backends(session(), module), "numpy": tune, "pandas": tune,
        "matplotlib.pyplot": lambda module: load("images").adopt(session(), module),
        "matplotlib._text_helpers": lambda module: load("images").adopt_text(session(), module),
        "PIL.ImageShow": lambda module: load("display").adopt_pillow(session(), module),
        "plotly.io._renderers": lambda module: load("display").adopt_plotly(session(), module),
        "traceback": lambda module: adopt_traceback(module),
        "getpass": ask_plainly, "inspect": lambda module: adopt_inspect(module),
        "threading": lambda module: adopt_threading(session(), module),
        "warnings": lambda module: adopt(session(), module), "IPython.core.display_functions": adopt_ipython,
        "linecache": lambda module: session().share_sources(module), "signal": lambda module: session().note_signals(),
        "pip._internal.cli.main": lambda module: setattr(module, "main", lambda args=None: load("shell").notebook(session()).pip(args)),
    }

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        own = imports.find_shared(name) if path is None else None
        then = cls.names.get(name)
        if then is None:
            return own
        for finder in SYS["meta_path"]:
            spec = own or (finder.find_spec(name, path, target) if finder is not cls else None)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def exec_module(module):
                    execute(module)
                    try:
                        then(module)
                    except Exception:  # a module of the workspace with that name
                        pass

                spec.loader.exec_module = exec_module
                return spec
        return None


def begin():
    SYS["meta_path"].insert(0, Watch)
    if "seed=" in session().options:
        Watch.names.update({"random": seed, "numpy.random": seed})
    for name, then in Watch.names.items():
        if name in IMPORTED:  # by --preload
            then(IMPORTED[name])


# --- warnings ---
# A warning is printed in full once a session; a later cell's repetition takes one short line.
SHORT = 80
SEEN_MAX = 500
seen = {}  # (category, text) → the cell that printed it


def adopt(session, warnings):
    original = warnings.formatwarning

    def formatwarning(message, category, filename, lineno, line=None):
        text = str(message)
        key = (category, text)
        if seen.get(key, session.cell) == session.cell:
            if len(seen) < SEEN_MAX:
                seen[key] = session.cell
            if str(filename).startswith(OWN):  # of a figure that is drawn here
                return "%s: %s\n" % (category.__name__, text)
            return original(message, category, filename, lineno, line)
        first = text.strip().partition("\n")[0]
        first = first if len(first) <= SHORT else first[:SHORT] + " ..."
        place = "" if str(filename).startswith(OWN) else "%s:%s: " % (filename, lineno)
        return "%s%s: %s [as in <cell %s>]\n" % (place, category.__name__, first, seen[key])

    wear(formatwarning, original)
    warnings.formatwarning = formatwarning
