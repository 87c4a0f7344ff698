"""Check that tests/e2e/container_level.py, the table of tests to skip without namespaces, names existing tests."""
import importlib
import pathlib
import sys
import unittest


def tests_of(root, module):
    """Class.name of each test, including those that a module generates."""
    paths = list((root / "tests").glob(f"**/{module}.py"))
    if len(paths) != 1:
        return set()
    sys.path.insert(0, str(paths[0].parent))
    found, waiting = set(), [unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))]
    while waiting:
        item = waiting.pop()
        if isinstance(item, unittest.TestSuite):
            waiting += item
        else:
            found.add(f"{type(item).__name__}.{item._testMethodName}")
    return found


def main(root):
    sys.path[:0] = [str(root / "tests" / "e2e"), str(root / "tests" / "helpers")]
    rows = importlib.import_module("container_level").DIFFERENCES
    known = {module: tests_of(root, module) for module in sorted({row.partition(".")[0] for row in rows})}
    bad = []
    for row in rows:
        module, _, test = row.partition(".")
        if test not in known[module]:
            bad.append(f"tests/e2e/container_level.py: {row}: there is no such test")
    print("\n".join(bad) or "differences: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
