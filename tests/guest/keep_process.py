"""One process of a pair: runs cells and saves, or loads and runs cells. The driver's modules are loaded as in a sandbox.

    keep_process.py save|load BODY < JSON {"cells": [...], "before": [...], options of save or bring_back}
It prints JSON: for save {"errors"}; for load {"report", "values": the outcome of each cell}.
"""
import builtins
import contextlib
import io
import json
import os
import pathlib
import sys

GUEST = pathlib.Path(__file__).resolve().parents[2] / "guest"


def load_driver():
    """The function load() of loader.py, in a world like that of driver.py."""
    def code_of(name):
        if name == "loader":
            whole = (GUEST / "loader.py").read_text()
            head, found, _ = whole.rpartition('load("zygote")')
            assert found
            return compile(head, str(GUEST / "loader.py"), "exec", dont_inherit=True)
        return compile(texts[name], str(GUEST / (name + ".py")), "exec", dont_inherit=True)

    texts = {path.stem: path.read_text() for path in GUEST.glob("*.py")}
    world = {"__name__": "driver", "sys": sys, "DIRECTORY": str(GUEST), "code_of": code_of, "compiled": False, "files": {}, "read": None,
             "loads": None}
    sys.argv[1:] = []
    exec(code_of("loader"), world)
    world["load"]("imports").hold()
    for name in "keep", "keep_load", "language", "notebook", "packages", "spawn", "hints":
        world["load"](name)
    world["load"]("imports").seal()
    return world["load"]


def cells_of(namespace, cells, first):
    """Runs cells as a session does; the outcome of each is the repr of its last expression, or its exception."""
    import ast

    outcomes, sources = [], {}
    for number, text in enumerate(cells, first):
        name = "<cell %d>" % number
        sources[name] = text
        tree = ast.parse(text, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            exec(compile(tree, name, "exec", dont_inherit=True), namespace)
            outcomes.append(repr(eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), namespace)) if last else None)
        except Exception as error:
            outcomes.append("%s: %s" % (type(error).__name__, error))
    return outcomes, sources


def main(what, body):
    request = json.load(sys.stdin)
    cells, options = request.pop("cells"), request
    load = load_driver()
    keep = load("keep")
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    namespace = vars(main)
    namespace["__builtins__"] = builtins
    printed = io.StringIO()
    if what == "save":
        keep.begin()
        with contextlib.redirect_stdout(printed):
            outcomes, sources = cells_of(namespace, cells, 1)
        fd = os.open(body, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        keep.save(namespace, sources, fd, **options)
        print(json.dumps({"outcomes": outcomes}))
    else:
        fd = os.open(body, os.O_RDONLY)
        with contextlib.redirect_stdout(printed):
            report = keep.bring_back(fd, namespace, **options)
            outcomes, _ = cells_of(namespace, cells, report["cell"])
        print(json.dumps({"report": report, "outcomes": outcomes, "printed": printed.getvalue()}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
