"""Whether a cell only reads values, so that there is nothing to undo. In doubt it does more."""
import _ast

changes = load("changes")
Pattern = load("language").Pattern
CALLS = frozenset(
    "abs all any ascii bin bool bytes callable chr dict dir display divmod enumerate float format frozenset getattr globals hasattr hash "
    "help hex id int isinstance issubclass len list locals max min oct ord pow print range repr reversed round set sorted str sum tuple "
    "type vars zip".split()
)
CONSUMERS = frozenset("all any bytes dict enumerate frozenset list max min set sorted sum tuple zip".split())  # of iterators
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
# What changes nothing but the value that it returns. None: nothing of the module does.
FUNCTIONS = {module: names and frozenset(names.split()) for module, names in (
    ("math", None), ("cmath", None), ("posixpath", None), ("collections", "Counter"), ("csv", "DictReader reader"), ("glob", "glob"),
    ("inspect", "getdoc getsource signature"), ("json", "dumps load loads"), ("os", "cpu_count getcwd getenv getpid listdir stat walk"),
    ("pathlib", "Path PosixPath PurePath"), ("pprint", "pformat pp pprint"), ("re", "findall fullmatch match search split"),
    ("shutil", "disk_usage which"), ("statistics", "fmean mean median mode pstdev pvariance quantiles stdev variance"),
    ("sys", "getrefcount getsizeof"), ("textwrap", "dedent fill indent shorten wrap"), ("datetime", "date datetime timedelta"),
    ("time", "asctime ctime gmtime localtime monotonic perf_counter process_time strftime time time_ns"),
    ("numpy", "abs all allclose any arange argmax argmin argsort array corrcoef count_nonzero cumsum diff exp isnan linspace load log max mean "
     "median min ndim ones percentile prod quantile round shape size sort sqrt std sum unique var zeros"),
    ("pandas", "DataFrame Series concat crosstab date_range isna notna read_csv read_excel read_json read_parquet to_datetime to_numeric unique"),
)}
# Methods of values of exactly these types. None: all of them, as the values never change.
OF_TYPES = {**dict.fromkeys((str, bytes, int, float, complex, bool, tuple, range, frozenset, type(None))), **{kind: frozenset(names.split()) for kind, names in (
    (dict, "copy get items keys values"), (list, "copy count index"),
    (set, "copy difference intersection isdisjoint issubset issuperset symmetric_difference union"),
)}}
OF_PATHS = frozenset("absolute as_posix cwd exists glob home is_dir is_file iterdir joinpath lstat match read_bytes read_text relative_to resolve rglob stat "
                     "with_name with_suffix".split())
OF_TABLES = frozenset(  # of pandas and numpy, with literals for arguments
    "abs agg all any argmax argmin astype copy corr count cov cummax cummin cumprod cumsum diff drop dropna duplicated fillna groupby idxmax "
    "idxmin isin isna isnull item max mean median memory_usage min mode nlargest notna notnull nsmallest nunique pct_change prod quantile rank "
    "rename reset_index round sem shift skew sort_index sort_values std sum to_dict to_list to_numpy to_string tolist transpose unique var".split()
)
WRITING = frozenset("allow_pickle inplace out stream".split())  # arguments with which these do more
MAKES = {"str": str, "repr": str, "ascii": str, "format": str, "int": int, "float": float, "sorted": list, "list": list, "tuple": tuple, "dict": dict,
         "set": set, "bytes": bytes}
SHELL = r"\s*(?:cat|cmp|cut|date|df|diff|du|echo|free|grep|head|id|ls|md5sum|nproc|od|pwd|sha256sum|stat|tail|tr|uname|wc|which|whoami)(?:\s[^;&|<>`$(){}!\\\n]*)?"
COMMAND = Pattern(r"%s(?:\|%s)*\Z" % (SHELL, SHELL))  # that writes nowhere
passing = set()  # names that only such cells have bound, in `for` and `with open(...)`: the next such cell may do it again
MODULES = frozenset(("os", "sys"))  # to import them runs no code
MODULE, CALLABLE = type(_ast), (type, type(load), type(len))
ACTORS = frozenset(("__main__", "logging"))  # whose classes' methods may write, whatever their names
CALL_BACK = ("key", "file", "buf")  # arguments that a call writes to or calls
NODES = frozenset(getattr(_ast, name) for name in (
    "alias Assert Attribute BinOp BoolOp Break Call Compare comprehension Constant Continue Dict DictComp ExceptHandler Expr For FormattedValue "
    "GeneratorExp If IfExp Import ImportFrom JoinedStr keyword List ListComp Load Name Pass Set SetComp Slice Starred Store Subscript Try Tuple UnaryOp "
    "With withitem".split()
))
LITERALS = tuple(getattr(_ast, name) for name in "Constant Dict List Load Set Tuple UnaryOp".split())
OPERATORS = (_ast.operator, _ast.unaryop, _ast.boolop, _ast.cmpop)


def report(session, result):
    changed = [name for key, name in zip(result[1::2], result[2::2]) if key in ("var", "vars_more")]
    try:
        looks = session.ran and only_looks(session, result, changed)
    except BaseException:
        looks = False  # a type says what no type should
    (passing.update if looks else passing.difference_update)(name[1:] for name in changed)
    result += ("looks", "1") if looks or not session.ran else ()


def only_looks(session, result, changed):
    nodes = begun(session, result)
    if nodes is None or changes.state["touched"] or any(type(node) not in NODES for node in nodes):
        return False
    cell = Cell(nodes, session)
    cell.modules = {name[2:] for key, name in zip(result[1::2], result[2::2]) if key == "module"}  # new by this name
    return all(map(cell.allows, changed)) and all(map(cell.looks, cell.nodes))


def begun(session, result):
    """The statements that the cell has come to. Of the one that an exception ended, an assignment to names, the value alone."""
    nodes, trace = session.statements, SYS.get("last_traceback")
    if nodes is None or result[2] != "error" or trace is None or trace.tb_frame.f_code.co_filename != "<cell %s>" % session.cell:
        return nodes
    nodes = [node for node in nodes if node.lineno <= trace.tb_lineno]
    last = nodes[-1:]
    if last and type(last[0]) is _ast.Assign and all(type(target) is _ast.Name for target in last[0].targets):
        nodes[-1] = last[0].value
    return nodes


def parts(nodes):
    """All nodes below these, and these."""
    nodes = list(nodes)
    for node in nodes:  # it grows
        for field in node._fields:
            value = getattr(node, field, None)
            nodes += [one for one in (value if type(value) is list else [value]) if isinstance(one, _ast.AST)]
    return nodes


class Cell:
    """Its statements, and the namespace after it."""

    def __init__(self, statements, session):
        self.nodes, self.namespace, self.root = parts(statements), session.namespace, session.root
        loops = [(one.id, node.iter) for node in self.nodes if type(node) in (_ast.For, _ast.comprehension)
                 for one in parts([node.target]) if type(one) is _ast.Name]
        self.loose = {name for name, _ in loops}  # may have had values of other types than now
        self.files = {node.optional_vars.id for node in self.nodes if type(node) is _ast.withitem and type(node.optional_vars) is _ast.Name} - self.loose
        self.bound = {one.id for node in self.nodes if type(node) is _ast.For for one in parts([node.target]) if type(one) is _ast.Name} | self.files
        self.texts = ()
        self.texts = self.loose - {name for name, source in loops if not self.is_file(source) and self.kind(source) is not str}

    def allows(self, change):
        """A variable that it has changed, with a sign: only those that it binds, and that hold nothing of other cells."""
        return change[1:] in self.bound and (change[0] == "+" or change[0] == "~" and change[1:] in passing)

    def looks(self, node):
        kind = type(node)
        if kind is _ast.Name:
            if type(node.ctx) is _ast.Store and node.id[0] == "_" != node.id:
                return False  # no result names it
            value = type(self.namespace.get(node.id))
            # To read these changes them.
            return node.id in self.files or not hasattr(value, "__next__") and not hasattr(value, "__missing__")
        if kind in (_ast.Attribute, _ast.Subscript):
            return type(node.ctx) is _ast.Load
        if kind is _ast.Call:
            return self.only_returns(node) or self.finds(node)
        if kind is _ast.withitem:
            return self.opens_to_read(node.context_expr) and type(node.optional_vars) in (type(None), _ast.Name)
        if kind in (_ast.Import, _ast.ImportFrom):
            return all(map(self.was_there, node.names, [getattr(node, "module", None)] * len(node.names)))
        if kind in (_ast.comprehension, _ast.For):
            return not getattr(node, "is_async", 0) and self.is_whole(node.iter)
        if kind is _ast.Starred:
            return self.is_whole(node.value)
        if kind is _ast.keyword:
            return node.arg is not None and node.arg not in CALL_BACK
        if kind is _ast.ExceptHandler:
            return (node.name or "e")[0] != "_"
        return kind in NODES or isinstance(node, OPERATORS)

    def was_there(self, alias, module):
        """Whether an import of it has bound nothing new, so that no module's code ran either."""
        value = self.namespace.get(name := alias.asname or alias.name)
        if module is not None:
            return name[0] != "_" and type(value) in CALLABLE and module_of(value) == module.partition(".")[0]
        return alias.name in MODULES or type(value) is MODULE and name[0] != "_" and name not in self.modules

    def only_returns(self, node):
        """Whether it is a call of a builtin function, or of a method by its name."""
        func = node.func
        if type(func) is _ast.Name:
            known = func.id in CALLS or self.opens_to_read(node)
            return (func.id not in CONSUMERS or all(map(self.is_whole, node.args))) and (known or func.id == "input" and SYS.get("stdin") is load("streams").stdin) and func.id not in self.namespace
        if type(func) is not _ast.Attribute:
            return False
        return (func.attr in METHODS and not self.acts(func.value) or func.attr in READS and self.is_file(func.value) or
                func.attr in ROWS and queries(func.value, self.namespace) or queries(node, self.namespace))

    def is_whole(self, node):
        """Not what an attribute or an item may be: an iterator, which to read changes."""
        return type(node) not in (_ast.Attribute, _ast.Subscript) or self.kind(node) in OF_TYPES or self.is_table(node) or self.is_file(node)

    def finds(self, node):
        """Whether it is a call of a library's function that is known, or of a method of a type that is."""
        func = node.func
        if type(func) is _ast.Attribute and getattr(func.value, "id", "") == load("notebook").NAME and func.value.id not in self.namespace:
            return func.attr in ("pwd", "skip", "who") or func.attr == "system" and len(node.args) == 1 and COMMAND.match(node.args[0].value) is not None
        if any(word.arg is None or word.arg in WRITING or not literal([word.value]) for word in node.keywords):
            return False
        module, value = self.found(func)
        if module in FUNCTIONS:
            name, names = func.attr if type(func) is _ast.Attribute else value.__name__, FUNCTIONS[module]
            return (names is None or name in names) and not self.is_own(value, module) and (module not in ("numpy", "pprint") or literal(node.args[1:]))
        if type(func) is not _ast.Attribute:
            return False
        kind = self.kind(func.value)
        if kind in OF_TYPES:
            return OF_TYPES[kind] is None or func.attr in OF_TYPES[kind]
        if module_of(kind) == "pathlib":
            return func.attr in OF_PATHS
        return (module_of(kind) in ("datetime", "re") and func.attr[:3] != "sub"
                or func.attr in OF_TABLES and literal(node.args) and self.is_table(func.value))

    def found(self, node):
        """(name of a module, what of it an expression names); None where it names nothing of one."""
        value = self.namespace.get(node.id) if type(node) is _ast.Name and node.id not in self.loose else None
        if type(node) is _ast.Attribute:
            value = self.found(node.value)[1]
            return (value.__name__, vars(value).get(node.attr)) if type(value) is MODULE else (None, None)
        return module_of(value) if type(value) in CALLABLE else None, value if type(value) in CALLABLE + (MODULE,) else None

    def is_own(self, value, module):
        """Whether the code has put it there."""
        if type(value) is type(load):
            return value.__code__.co_filename.startswith(("<cell ", "<string>", self.root + "/"))
        return module_of(value) != module if type(value) is type else type(value) not in CALLABLE and module_of(type(value)) != "numpy"

    def kind(self, node):
        """The type of its value, or None; of a class whose own methods are like those of its values, itself. Text stands for
        all that is new and that nobody else has."""
        at, (_, value) = type(node), self.found(node)
        if at is _ast.Constant:
            return type(node.value)
        if at is _ast.JoinedStr or at is _ast.Subscript and self.kind(node.value) is str:
            return str
        if type(value) is type and module_of(value) in ("datetime", "pathlib"):
            return value
        if at is _ast.Name:
            known = node.id in self.namespace and node.id not in self.loose
            return str if node.id in self.texts else type(self.namespace[node.id]) if known else None
        if at is _ast.BinOp and type(node.op) is _ast.Div or at is _ast.Attribute and node.attr == "parent":
            kind = self.kind(node.left if at is _ast.BinOp else node.value)
            return kind if module_of(kind) == "pathlib" else None
        func = node.func if at is _ast.Call else None
        if type(func) is _ast.Name:
            return MAKES.get(func.id) if func.id not in self.namespace else self.kind(func) if type(self.found(func)[1]) is type else None
        if type(func) is not _ast.Attribute:
            return None
        if func.attr in READS and self.is_file(func.value):
            return str
        kind = self.kind(func.value)
        if module_of(kind) == "pathlib":
            return str if func.attr[:5] == "read_" else kind if func.attr in ("absolute", "joinpath", "resolve", "with_name", "with_suffix") else None
        return str if kind in (str, bytes) else kind if module_of(kind) == "datetime" else self.kind(func) if self.found(func)[1] else None

    def is_frame(self, node):
        if type(node) is _ast.Subscript:
            return type(node.slice) in (_ast.Compare, _ast.BinOp, _ast.UnaryOp, _ast.List) and self.is_frame(node.value)
        kind = self.kind(node) if type(node) is _ast.Name else None
        return module_of(kind) == "pandas" and kind.__name__ == "DataFrame"

    def is_table(self, node):
        """Of pandas or numpy; not what is in one, which may be anything."""
        if type(node) in (_ast.Attribute, _ast.Subscript):
            base = node.value
            return self.is_frame(node) or self.is_frame(base) or (
                type(base) is _ast.Call and getattr(base.func, "attr", "") == "groupby" and self.is_table(base))
        if type(node) is _ast.Call:
            module, _ = self.found(node.func)
            return module in ("numpy", "pandas") or type(node.func) is _ast.Attribute and node.func.attr in OF_TABLES and self.is_table(node.func.value)
        return module_of(self.kind(node)) in ("numpy", "pandas")

    def acts(self, node):
        """Whether nobody knows what methods of it do, as `info` of a logger."""
        value = self.namespace.get(node.id) if type(node) is _ast.Name else None
        return module_of(type(value)) in ACTORS or type(value) is MODULE and value.__name__ not in MODULES

    def is_file(self, node):
        return type(node) is _ast.Name and node.id in self.files or self.opens_to_read(node)

    def opens_to_read(self, node):
        """Of a path that is plain text, and with nothing that open() calls or closes."""
        if type(node) is not _ast.Call or type(node.func) is not _ast.Name or node.func.id != "open" or not node.args[:1]:
            return False
        words = {word.arg: word.value for word in node.keywords}
        modes = node.args[1:2] + [words.pop("mode", _ast.Constant("r"))]
        modes = [self.namespace.get(value.id) if type(value) is _ast.Name else getattr(value, "value", None) for value in modes]
        path = self.kind(node.args[0])
        return (path is str or module_of(path) == "pathlib") and {"r", "rb", "rt"}.issuperset(modes) and words.keys() <= {"encoding", "errors", "newline"}


def literal(nodes):
    return all(isinstance(node, LITERALS + OPERATORS) for node in parts(nodes))


def module_of(value):
    """The name of the library that has a type or a function; runs no code of it."""
    name = changes.MODULE_OF(value) if isinstance(value, type) else getattr(value, "__module__", None) if type(value) in CALLABLE else None
    return name.partition(".")[0].lstrip("_" if name != "__main__" else "") if type(name) is str else ""


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
