"""The result of an exception that ended a cell."""

MESSAGE_MAX = 2000
COMMAND_MAX = 300  # of a message that repeats a program's arguments
TAIL_MAX = 1000  # of what a failed program wrote
NO_STDIN = "EOF when reading a line: this call has no standard input; pass the lines as the argument `stdin`"
PARSES = load("pattern").Pattern(r"\b(?:compile|eval|exec)\(|^\s*(?:from|import)\s")  # an import's own frames are left out
trace = load("trace")
enter = load("session").enter


def cut(text, limit=MESSAGE_MAX):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s ... [%d characters omitted] ... %s" % (text[:half], len(text) - 2 * half, text[-half:])


def message_of(error):
    try:
        return str.__str__(enter(str, error))  # of a subclass it makes a plain copy
    except BaseException:
        return "<exception str() failed>"


def of_process(error):
    """(command, what the process wrote last) of an exception of subprocess; empty texts for any other."""
    kind = getattr(IMPORTED.get("subprocess"), "SubprocessError", None)
    if type(kind) is not type or not isinstance(error, kind):
        return "", ""
    command = getattr(error, "cmd", "")
    for name in ("stderr", "output"):
        text = getattr(error, name, None)
        if type(text) is bytes:
            text = text[-4 * TAIL_MAX :].decode("utf-8", "replace")
        if type(text) is str and text.strip():
            lines = text.rstrip()[-TAIL_MAX:]
            dots = "... " if len(lines) < len(text.rstrip()) else ""
            return str.__str__(str(command)), "%s of the process:\n%s%s\n" % ("stdout" if name == "output" else name, dots, lines)
    return str.__str__(str(command)), ""


def describe(session, result, error, program, no_stdin):
    """Turns result ("ok" so far) into the outcome: exit, interrupted, or error with its traceback."""
    if isinstance(error, SystemExit):
        result[2] = "exit"
        result += ("exit_code", str(exit_code(error)))
        session.add_where(result)
        return
    if no_stdin and not program and type(error) is EOFError and error.args == ("EOF when reading a line",):
        error.args = (NO_STDIN,)
    if session.where is not None and isinstance(error, KeyboardInterrupt):
        result[2] = "interrupted"
    else:
        result[2] = "error"
    name, whole = type(error).__qualname__, message_of(error)
    try:
        command, written = enter(of_process, error)
    except BaseException:
        command = written = ""
    message = cut(whole.replace(command, cut(command, COMMAND_MAX)) if len(command) > COMMAND_MAX else whole)
    result += ("error_type", name, "error_message", message)
    cell, line = trace.position(session, error)
    session.error_line = line or 1
    if cell:
        result += ("error_cell", cell, "error_line", str(line))
    session.add_where(result)
    try:
        text = enter(trace.text_of, session, error, whole, message)
    except BaseException as second:
        text = "%s: %s\n[the traceback could not be printed: %s]\n" % (name, message, type(second).__name__)
    result += ("traceback", text + written)
    try:
        hint = program.hint_for(error) if program else load("hints").hint_for(session, error, name, message)
    except BaseException:
        hint = None
    if hint:
        result += ("hint", hint)


def memory(session, error, message):
    """The hint for a MemoryError: code raises it for other reasons too, and the parser for a stack of its own, up to Python
    3.11 without a word."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    line = trace.traceback.linecache.getline(at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else ""
    is_small = (load("checkpoint").resident() or 0) < session.memory_limit // 2
    if message.startswith("Parser stack") or is_small and not message and (not session.ran or PARSES.search(line)):
        return "nested too deeply for Python's parser"
    if is_small and (message and not message.startswith("Unable to allocate") or line.lstrip().startswith("raise")):
        return None
    return "%s; work in pieces%s, or the user can raise --memory" % (
        "one value exceeds the memory limit" + load("hints").mib(session.memory_limit) if is_small else
        "the memory limit%s is reached" % load("hints").mib(session.memory_limit), "" if is_small else ", delete unused variables")


def exit_code(error):
    """As CPython exits: None is 0, a number is itself, anything else is printed and means 1."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    try:
        text = enter(str, code)
    except BaseException:
        text = "<exception str() failed>"
    try:
        load("streams").say_error(text + "\n")
    except OSError:
        pass
    return 1
