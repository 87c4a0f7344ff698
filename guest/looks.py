"""Whether a cell only reads values, so that there is nothing to undo. In doubt it does more."""
import _ast

CALLS = frozenset(
    "abs all any bool dict dir display enumerate float format hex id int isinstance len list max min print range repr "
    "reversed round set sorted str sum tuple type zip".split()
)
METHODS = frozenset("describe head info items keys tail value_counts values".split())
CALL_BACK = ("key", "file", "buf")  # arguments that a call writes to or calls
NODES = frozenset(getattr(_ast, name) for name in (
    "Attribute BinOp BoolOp Call Compare Constant Dict Expr FormattedValue IfExp JoinedStr keyword List Load Name Pass Set "
    "Slice Starred Subscript Tuple UnaryOp".split()
))
OPERATORS = (_ast.operator, _ast.unaryop, _ast.boolop, _ast.cmpop)
TEXT_MAX = 2000  # it is parsed once more


def report(session, text, result):
    if not session.ran or only_looks(text, session.flags, session.namespace):
        result += ("looks", "1")


def only_looks(text, flags, namespace):
    """namespace: after the cell."""
    if len(text) > TEXT_MAX:
        return False
    try:
        nodes = list(load("language").python_tree(text, "<looks>", flags).body)
    except (SyntaxError, ValueError):
        return False
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
        return node.func.id in CALLS and node.func.id not in namespace
    if kind is _ast.Call:
        return type(node.func) is _ast.Attribute and node.func.attr in METHODS
    if kind is _ast.keyword:
        return node.arg not in CALL_BACK
    return kind in NODES or isinstance(node, OPERATORS)
