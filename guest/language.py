"""From the text of a cell to code objects: fences, the last expression, top-level await."""
import _ast
import re
from sys import version_info

try:
    import unicodedata
except ImportError:  # a trimmed Python
    unicodedata = None


class Pattern:
    """Regular expressions that are compiled at their first use: most sessions need none, and all wait for the start."""

    def __init__(self, text):
        self.text = text

    def __getattr__(self, name):  # search, match and so on; re keeps what it has compiled
        return getattr(re.compile(self.text), name)


imports = load("imports")
ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
FUTURES = 0x1FE0000  # all CO_FUTURE_ bits; the same numbers in CPython 3.9 to 3.14
COROUTINE = 0x80
TAGS = (("<execute_python>", "</execute_python>"), ("<python>", "</python>"), ("<code>", "</code>"))
LOOP_USERS = frozenset(("create_task", "ensure_future", "get_running_loop"))
LOOP_OWNERS = frozenset(("run", "run_until_complete", "run_forever", "Runner"))
BYTE_ORDER_MARK = "\ufeff"
# The compiler warns by it from 3.13 on. Made before code can clear sys.modules, after which it cannot be made.
WARNINGS = imports.shared("warnings") if version_info >= (3, 13) else None
KEPT_MAX = 2000  # characters of code whose statements are kept while it runs
FENCE_NAMES = ("", "python", "py", "python3", "ipython", "pycon", "tool_code")


def strip_wrapping(text):
    """The text without a byte order mark, and without a code fence or tag that wraps all of it; line numbers stay as
    they were sent."""
    text = text[text[:1] == BYTE_ORDER_MARK :]
    for _ in range(2):
        bare = text.strip()
        if bare[:1] == "`":
            text = strip_fence(text, bare)
        elif bare[:1] == "<":
            text = strip_tag(text, bare)
    return text


def strip_fence(text, bare):
    mark = bare[: len(bare) - len(bare.lstrip("`"))]
    first, _, rest = bare.partition("\n")
    if len(mark) < 3 or first[len(mark) :].strip().lower() not in FENCE_NAMES or not rest:
        return text
    body = rest.rstrip()
    if not body.endswith(mark):
        return text
    body = body[: -len(mark)]
    if "\n" + mark in body and not parses(body):
        return text  # two fences: see readings.py
    if body.endswith("`") or body.rpartition("\n")[2].strip() and not parses(body):
        return text  # the mark is part of the code
    blank_lines = len(lines_of(text[: len(text) - len(text.lstrip())])) - 1
    return "\n" * (blank_lines + 1) + body


def parses(text, flags=0):
    try:
        parse(text, "<fenced>", flags)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def strip_tag(text, bare):
    for opening, closing in TAGS:
        if bare.startswith(opening) and bare.endswith(closing):
            blank_lines = len(lines_of(text[: len(text) - len(text.lstrip())])) - 1
            return "\n" * blank_lines + bare[len(opening) : -len(closing)]
    return text


def lines_of(text):
    """Those of Python's source, without their ends: CPython ends a line here only, and str.splitlines also at form feeds,
    U+2028 and others."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def without_indent(text):
    """The text moved left by the indent of its first line, or None when its lines do not share it."""
    lines = lines_of(text)
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    if not indent or any(line.strip() and not line.startswith(indent) for line in lines):
        return None
    return "\n".join(line[len(indent) :] if line.strip() else line for line in lines)


def prepare_compiler(source):
    """It imports a module to normalize names, and from 3.13 on one to warn, and then looks for it in sys.modules."""
    if WARNINGS is not None:
        IMPORTED.setdefault("warnings", WARNINGS)
    if not source.isascii() and unicodedata is not None:
        imports.shared("unicodedata")


def tree_of(text, name, flags):
    prepare_compiler(text)
    return compile(text, name, "exec", flags | ONLY_AST | TOP_LEVEL_AWAIT, True)


def python_tree(text, name, flags):
    try:
        return tree_of(text, name, flags)
    except IndentationError:
        moved = without_indent(text)
        if moved is None:
            raise
        return tree_of(moved, name, flags)


def parse(text, name, flags):
    """The tree of a cell: of Python, or, only if it is no valid Python, of notebook syntax."""
    try:
        return tree_of(text, name, flags)
    except SyntaxError as error:
        failed = error
    moved = without_indent(text) if isinstance(failed, IndentationError) else None
    if moved is not None:
        try:
            return tree_of(moved, name, flags)
        except SyntaxError as error:
            failed = error
    return load("notebook").parse(text, name, flags, failed)


def compile_cell(text, name, flags):
    """(code objects to evaluate in order, future flags from then on, whether the last one has the cell's value, the
    statements: None of long code)."""
    tree = parse(text, name, flags)
    try:
        return codes_of(tree, text, name, flags)
    except SyntaxError as error:  # of the compiler, which has no text
        lines = lines_of(without_indent(text) or text)
        error.text = lines[error.lineno - 1] if 0 < (error.lineno or 0) <= len(lines) else None
        raise


def codes_of(tree, text, name, flags):
    body = tree.body
    statements = None if len(text) > KEPT_MAX else list(body)
    if not body:
        return (), flags, False, statements
    last = body.pop() if type(body[-1]) is _ast.Expr else None
    codes = []
    if body:
        code = compile(tree, name, "exec", flags | TOP_LEVEL_AWAIT, True)
        flags |= code.co_flags & FUTURES
        codes.append(code)
    if last is not None:
        expression = _ast.Expression(last.value)
        codes.append(compile(expression, name, "eval", flags | TOP_LEVEL_AWAIT, True))
    return codes, flags, last is not None, statements


def wants_loop(code):
    """Whether a cell without an await starts tasks on the loop of the session, and runs no loop itself."""
    names = code.co_names
    return not LOOP_USERS.isdisjoint(names) and LOOP_OWNERS.isdisjoint(names)
