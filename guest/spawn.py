"""`__main__.__file__` for the two callers that need one: multiprocessing and inspect.

A spawned process imports the parent's main file to find its functions. This module writes that file on demand: the
imports, definitions and constants of all cells, not their other statements, so that a child neither repeats the work
nor starts children of its own. inspect asks with a class and gets the name of its cell.
"""
import _ast
import os

DEFINERS = (  # calls that make a constant or a type
    "namedtuple", "TypeVar", "NewType", "Enum", "IntEnum", "compile", "partial", "getLogger", "ContextVar",
    "frozenset", "set", "list", "dict", "tuple", "range", "Path", "Decimal", "Fraction", "make_dataclass",
)
PREAMBLE = """def _define(source, name, line, flags):
    try:
        exec(compile("\\n" * (line - 1) + source, name, "exec", flags, True), globals())
    except Exception:
        pass

"""
CELLS_FD = load("frames").CELLS_FD
written = {"for": None}  # the process, and how many cells it had


def main_file(caller, sources):
    module = caller.f_globals.get("__name__", "")
    if module == "inspect" and caller.f_code.co_name == "getfile":
        subject = caller.f_locals.get("object")
        return cell_of_class(subject, sources) if isinstance(subject, type) else None
    if module.startswith("multiprocessing."):
        return definitions_file(sources)
    return None


def cell_of_class(subject, sources):
    for name, text in reversed(list(sources.items())):
        if "class " + subject.__name__ in text:
            return name
    return None


def plain(node):
    """Whether a child can evaluate the expression again at low cost and without effects."""
    stack = [node]
    while stack:
        node = stack.pop()
        kind = type(node).__name__
        if kind in ("Await", "Yield", "YieldFrom", "NamedExpr") or "Comp" in kind and kind != "Compare":
            return False
        if kind == "Lambda":
            continue
        if kind == "Call":
            function = node.func
            name = getattr(function, "id", None) or getattr(function, "attr", None)
            if name not in DEFINERS:
                return False
        stack += load("packages").children_of(node)
    return True


def kept(node):
    kind = type(node)
    if kind in (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef, _ast.Import, _ast.ImportFrom):
        return getattr(node, "module", None) != "__future__"
    if kind in (_ast.Assign, _ast.AnnAssign) and node.value is not None:
        return plain(node.value)
    return type(node).__name__ == "TypeAlias"


def start_of(node):
    return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())])


def statement(node, lines):
    first = start_of(node)
    if first == node.end_lineno:  # possibly one of several on its line
        line = lines[first - 1].encode()
        return line[node.col_offset : node.end_col_offset].decode()
    return "\n".join(lines[first - 1 : node.end_lineno])


def definitions(sources):
    """One call a statement, each on its own: one that fails alone in a child must not stop the others."""
    yield PREAMBLE
    flags = 0
    for name, text in sources.items():
        try:
            tree = load("language").parse(text, name, flags)
            flags = load("language").compile_cell(text, name, flags)[1]
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        lines = load("language").lines_of(text)
        for node in load("notebook").statements(tree):
            if kept(node):
                yield "_define(%a, %a, %d, %d)" % (statement(node, lines), name, start_of(node), flags)


def definitions_file(sources):
    """A file without a name, so that it leaves nothing behind; children open it through this process.

    Where they have no /proc it has a name below the directory for temporary files.
    """
    now = os.getpid(), len(sources)
    if written["for"] != now:
        text = "\n".join(definitions(sources)) + "\n"
        fd = load("streams").nameless_file()
        with open(fd, "w", encoding="utf-8", errors="replace", closefd=False) as file:
            file.write(text)
        os.dup2(fd, CELLS_FD, False)
        os.close(fd)
        written.update({"for": now, "path": path_of(CELLS_FD, text)})
    return written["path"]


def path_of(fd, text):
    path = "/proc/%d/fd/%d" % (os.getpid(), fd)
    if os.access(path, os.R_OK):
        return path
    path = "%s/.cells-%d.py" % (load("streams").TMP, os.getpid())
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path
