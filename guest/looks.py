"""Whether a cell only reads values, so that there is nothing to undo. In doubt it does more."""
import _ast

CALLS = frozenset(
    "abs all any bool dict dir display enumerate float format hex id int isinstance len list max min print range repr "
    "reversed round set sorted str sum tuple type zip".split()
)
METHODS = frozenset("describe exists getcwd getsize head info isdir isfile items keys listdir tail value_counts values".split())
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
    if not session.ran or session.statements is not None and only_looks(session.statements, session.namespace):
        result += ("looks", "1")


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
        return (node.func.id in CALLS or opens_to_read(node, namespace)) and node.func.id not in namespace
    if kind is _ast.Call:
        attribute = node.func if type(node.func) is _ast.Attribute else None
        return attribute is not None and (attribute.attr in METHODS and not acts(attribute.value, namespace) or
                                          attribute.attr in READS and opens_to_read(attribute.value, namespace))
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
