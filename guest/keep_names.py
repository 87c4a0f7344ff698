"""Which of a session's names are kept, and the statements of cells that made them."""
import _ast

LINE_MAX = 80  # characters: a line may have a password in it
SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef, _ast.Lambda, _ast.ListComp, _ast.SetComp, _ast.DictComp, _ast.GeneratorExp)
IMPORTS = (_ast.Import, _ast.ImportFrom)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
SETTINGS = load("language").Pattern(
    r"environ\b[^\n]*=[^=]|environ\.(?:update|setdefault|pop|clear)|\b(?:putenv|unsetenv|set_option|rcParams|rc|set_theme|set_style|setlocale|"
    r"simplefilter|filterwarnings|basicConfig|set_printoptions|setrecursionlimit|setcontext|getcontext\(\)\.\w+ *=|seterr)\b")


def is_shown(name):
    """Whether the status line would show it, see changes.py."""
    return type(name) is str and name[:1] != "_"


def made_names(namespace, cells):
    """({name: (cell number as text, line, whether it is an import) of the statement that has bound it last}, the modules that
    `import a.b` has imported)"""
    found, dotted = {}, set()
    for file, text in cells.items():
        try:
            tree = load("language").parse(text, file, 0)
            lines = text.split("\n")
            for each in (each for node in load("notebook").statements(tree) for each in flat(node)):
                names = imported(each, namespace, dotted) if type(each) in IMPORTS else bound(each)
                found.update(dict.fromkeys(names, (file[len("<cell ") : -1], line_of(each, lines), type(each) in IMPORTS)))
        except (SyntaxError, ValueError, MemoryError, RecursionError, IndexError):
            continue
    return found, dotted


def line_of(node, lines):
    return load("spawn").statement(node, lines).partition("\n")[0].strip()[:LINE_MAX]


def flat(node):
    """The statement, and those in its blocks."""
    yield node
    if type(node) not in SCOPES:
        for block in BLOCKS:
            for each in getattr(node, block, None) or ():
                yield from flat(each)


def bound(node):
    """The names that it binds itself, without those of its blocks."""
    stack, first = [node], True
    while stack:
        each = stack.pop()
        if type(each) in SCOPES and not (first and getattr(each, "name", None)):
            continue
        name = getattr(each, "name", None) or getattr(each, "rest", None)  # also of an exception, and of a pattern
        if type(name) is str:
            yield name
        if type(each) is _ast.Name and type(each.ctx) is _ast.Store:
            yield each.id
        if type(each) not in SCOPES:
            blocks = [one for block in BLOCKS for one in getattr(each, block, None) or ()] if isinstance(getattr(each, "body", None), list) else ()
            stack += [child for child in load("packages").children_of(each) if child not in blocks]
        first = False


def imported(node, namespace, dotted):
    for alias in node.names:
        if alias.name == "*":
            there = getattr(IMPORTED.get(node.module), "__dict__", {})
            yield from (name for name, value in namespace.items() if name in there and there[name] is value)
        else:
            yield alias.asname or alias.name.partition(".")[0]
        if type(node) is _ast.Import:
            dotted.add(alias.name)
