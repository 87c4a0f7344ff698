"""From the text of a cell to code objects: fences, the last expression, top-level await; and what the code can change."""
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
    statements: None of long code and of notebook syntax)."""
    tree = parse(text, name, flags)
    try:
        return codes_of(tree, text, name, flags)
    except SyntaxError as error:  # of the compiler, which has no text
        lines = lines_of(without_indent(text) or text)
        error.text = lines[error.lineno - 1] if 0 < (error.lineno or 0) <= len(lines) else None
        raise


def codes_of(tree, text, name, flags):
    body = tree.body
    statements = None if len(text) > KEPT_MAX or hasattr(tree, "wanted") else list(body)
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


# --- whether a cell changes anything ---
# Whether a cell only reads values, so that there is nothing to undo. In doubt it does more.
CALLS = frozenset(
    "abs all any bool dict dir display enumerate float format hex id int isinstance len list max min print range repr "
    "reversed round set sorted str sum tuple type zip".split()
)
METHODS = frozenset("describe exists getcwd getsize head info isdir isfile items keys listdir tail value_counts values".split())
ROWS = frozenset(("fetchall", "fetchone", "fetchmany"))
OF_CLOSED = frozenset("commit cursor execute executemany executescript rollback".split())  # methods of a connection that fail once it is closed
QUERY = Pattern(r"(?is)\s*(?:explain\b|select\b(?!.*\bcollate\b)|pragma\s+(?:\w+\.)?(?:table_|index_|foreign_key_list|database_list)[^=]*\Z)")
CALLED = Pattern(r"([^\s(),<>=+*|%-]*)\s*\(")
# What SQLite has before a parenthesis; another function may be the code's own.
OF_SQLITE = frozenset(
    " abs and as avg by cast coalesce count date datetime distinct exists from group_concat ifnull in index_info index_list instr join length "
    "lower max min not nullif on or over replace round select strftime substr sum table_info table_xinfo then total trim typeof upper values "
    "when where".split(" ")
)
READS = frozenset("read readline readlines".split())  # of a file that is opened for it
MODULES = frozenset(("os", "sys"))  # to import them runs no code
MODULE = type(_ast)
ACTORS = frozenset(("__main__", "logging"))  # whose classes' methods may write, whatever their names
CALL_BACK = ("key", "file", "buf")  # arguments that a call writes to or calls
NODES = frozenset(getattr(_ast, name) for name in (
    "Attribute BinOp BoolOp Call Compare comprehension Constant Dict DictComp Expr FormattedValue GeneratorExp IfExp Import "
    "JoinedStr keyword List ListComp Load Name Pass Set SetComp Slice Starred Store Subscript Tuple UnaryOp".split()
))
OPERATORS = (_ast.operator, _ast.unaryop, _ast.boolop, _ast.cmpop)


def report(session, result):
    if not session.ran or session.statements is not None and only_looks(begun(session, result), session.namespace):
        result += ("looks", "1")


def begun(session, result):
    """The statements that the cell has come to. Of the one that an exception ended, an assignment to names, the value alone."""
    nodes, trace = session.statements, SYS.get("last_traceback")
    if result[2] != "error" or trace is None or trace.tb_frame.f_code.co_filename != "<cell %s>" % session.cell:
        return nodes
    nodes = [node for node in nodes if node.lineno <= trace.tb_lineno]
    last = nodes[-1:]
    if last and type(last[0]) is _ast.Assign and all(type(target) is _ast.Name for target in last[0].targets):
        nodes[-1] = last[0].value
    return nodes


def only_looks(nodes, namespace):
    """namespace: after the cell."""
    for node in nodes:  # it grows
        if not looks(node, namespace):
            return False
        for field in node._fields:
            value = getattr(node, field, None)
            nodes += [one for one in (value if type(value) is list else [value]) if isinstance(one, _ast.AST)]
    return True


def looks(node, namespace):
    kind = type(node)
    if kind is _ast.Name:
        value = type(namespace.get(node.id))
        return not hasattr(value, "__next__") and not hasattr(value, "__missing__")  # to read these changes them
    if kind is _ast.Call and type(node.func) is _ast.Name:
        known = node.func.id in CALLS or opens_to_read(node, namespace)
        return (known or node.func.id == "input" and SYS.get("stdin") is load("streams").stdin) and node.func.id not in namespace
    if kind is _ast.Call:
        attribute = node.func if type(node.func) is _ast.Attribute else None
        return attribute is not None and (attribute.attr in METHODS and not acts(attribute.value, namespace) or
                                          attribute.attr in READS and opens_to_read(attribute.value, namespace) or
                                          attribute.attr in ROWS and queries(attribute.value, namespace) or queries(node, namespace))
    if kind is _ast.alias:
        return node.name in MODULES
    if kind is _ast.comprehension:
        return not node.is_async
    if kind is _ast.keyword:
        return node.arg not in CALL_BACK
    return kind in NODES or isinstance(node, OPERATORS)


def acts(node, namespace):
    """Whether nobody knows what methods of it do, as `info` of a logger."""
    value = namespace.get(node.id) if type(node) is _ast.Name else None
    return type(value).__module__ in ACTORS or type(value) is MODULE and value.__name__ not in MODULES


def opens_to_read(node, namespace):
    """Of a path that is a plain string, and with nothing that open() calls or closes."""
    if type(node) is not _ast.Call or type(node.func) is not _ast.Name or node.func.id != "open" or not node.args[:1]:
        return False
    words = {word.arg: word.value for word in node.keywords}
    modes = node.args[1:2] + [words.pop("mode", _ast.Constant("r"))]
    constants = [namespace.get(value.id) if type(value) is _ast.Name else getattr(value, "value", None)
                 for value in node.args[:1] + modes]
    return type(constants[0]) is str and {"r", "rb", "rt"}.issuperset(constants[1:]) and words.keys() <= {"encoding", "errors", "newline"}


def queries(node, namespace):
    """Whether it calls a connection of sqlite3 for what changes nothing: a query, or anything once it is closed."""
    func = node.func if type(node) is _ast.Call else None
    name = func.value.id if type(func) is _ast.Attribute and type(func.value) is _ast.Name else ""
    connection, module = namespace.get(name), IMPORTED.get("_sqlite3")
    if type(connection) is not getattr(module, "Connection", None) or func.attr not in OF_CLOSED:
        return False
    try:
        own = connection.row_factory, connection.text_factory
        connection.total_changes
    except module.ProgrammingError:
        return True
    text, *values = [one.value if type(one) is _ast.Constant else one for one in node.args] or [None]
    plain = all(type(each) is _ast.Constant for one in values for each in getattr(one, "elts", [None]))
    return (func.attr == "execute" and plain and type(text) is str and QUERY.match(text) is not None and own[0] in (None, module.Row)
            and own[1] is str and OF_SQLITE.issuperset(map(str.lower, CALLED.findall(text))))
