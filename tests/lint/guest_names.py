"""Fail when a module of the guest uses a name of another one that it does not have: `hints.lost`, `load("hints").lost`.

The guest loads its modules late, so that nothing else sees a name that a merge has taken away until a model meets it.
Argument: the source directory.
"""
import ast
import pathlib
import sys


def loaded(node):
    """NAME of load("NAME"), or None."""
    is_load = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load" and node.args
    return node.args[0].value if is_load and isinstance(node.args[0], ast.Constant) else None


def names(tree):
    for node in tree.body:
        for one in [node] if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ast.walk(node):
            yield from (getattr(one, "name", None), one.id if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) else None)
            if isinstance(one, ast.alias):
                yield (one.asname or one.name).partition(".")[0]
    for one in ast.walk(tree):
        if isinstance(one, ast.Global):
            yield from one.names


def uses(tree):
    """(line, module, name, whether it is set) of each use of another module."""
    aliases = {node.targets[0].id: loaded(node.value) for node in ast.walk(tree)
               if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and loaded(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = loaded(node.value) or (isinstance(node.value, ast.Name) and aliases.get(node.value.id))
            if module:
                yield node.lineno, module, node.attr, isinstance(node.ctx, ast.Store)


def main(root):
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted((root / "guest").glob("*.py"))}
    has = {module: set(names(tree)) for module, tree in trees.items()}
    found = [(module, *use) for module, tree in trees.items() for use in uses(tree)]
    for _, _, other, name, is_set in found:
        if is_set:
            has[other].add(name)
    wrong = [f"guest/{module}.py:{line}: {other} has no {name}" for module, line, other, name, _ in found if name not in has[other]]
    print("\n".join(wrong) or f"{len(found)} uses of other modules")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
