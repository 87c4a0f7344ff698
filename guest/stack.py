"""What code sees of the stack beneath it: its own frames, and none of this directory's.

Frames cannot be unlinked, so the functions of the library that list them leave the driver's out. The values that a cell
leaves behind are freed in a frame that looks like the cell's, so that warnings and output of their finalizers name the
cell.
"""
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
