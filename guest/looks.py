"""Whether a cell only reads values, so that there is nothing to undo. In doubt it does more."""
import _ast

Pattern = load("pattern").Pattern
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
