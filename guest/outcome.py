"""What an exception that ended a cell becomes in the result."""
import sys

MESSAGE_MAX = 2000
NO_STDIN = "EOF when reading a line: this call has no standard input; pass the lines as the argument `stdin`"
trace = load("trace")
enter = load("session").enter


def cut(text, limit=MESSAGE_MAX):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s ... [%d characters left out] ... %s" % (text[:half], len(text) - 2 * half, text[-half:])


def message_of(error):
    try:
        return cut(enter(str, error))
    except BaseException:
        return "<exception str() failed>"


def describe(session, result, error, no_stdin):
    """Turns result ("ok" so far) into the outcome: exit, interrupted, or error with its traceback."""
    if isinstance(error, SystemExit):
        result[2] = "exit"
        result += ("exit_code", str(exit_code(error)))
        return
    if no_stdin and type(error) is EOFError and error.args == ("EOF when reading a line",):
        error.args = (NO_STDIN,)
    if session.where is not None and isinstance(error, KeyboardInterrupt):
        result[2] = "interrupted"
    else:
        result[2] = "error"
    name, message = type(error).__qualname__, message_of(error)
    result += ("error_type", name, "error_message", message)
    cell, line = trace.position(session, error)
    session.error_line = line or 1
    if cell:
        result += ("error_cell", cell, "error_line", str(line))
    if session.where is not None:
        result += ("where", session.where)
    try:
        text = enter(trace.text_of, session, error)
    except BaseException as second:
        text = "%s: %s\n[the traceback could not be printed: %s]\n" % (name, message, type(second).__name__)
    result += ("traceback", text)
    try:
        hint = load("hints").hint_for(session, error, name, message)
    except BaseException:
        hint = None
    if hint:
        result += ("hint", hint)


def exit_code(error):
    """As CPython ends: None is 0, a number is itself, anything else is printed and means 1."""
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
