"""One life of sessions: `save` runs cells and saves, `load` brings back and runs cells. Each session is a fork, with the
driver's modules loaded as in a sandbox.

    keep_process.py save|load < JSON [{"body": path, "cells": [...], "checks": [...], "options": {...}}, ...]
It prints a JSON list: {"outcomes": of cells, "checks": of checks, "printed", "forks": how many, "report": of load}. A check is code
whose last expression counts; those of `save` run in a fork of their own.
"""
import ast
import builtins
import io
import json
import os
import pathlib
import sys
import traceback

GUEST = pathlib.Path(__file__).resolve().parents[2] / "guest"


def load_driver():
    """load() of loader.py, in a world like that of driver.py, up to where a session begins."""
    def code_of(name):
        return compile(texts[name], str(GUEST / (name + ".py")), "exec", dont_inherit=True)

    texts = {path.stem: path.read_text() for path in GUEST.glob("*.py")}
    texts["loader"], found, _ = texts["loader"].rpartition('load("zygote").main')
    assert found
    world = {"__name__": "driver", "sys": sys, "DIRECTORY": str(GUEST), "code_of": code_of, "compiled": False, "files": {}}
    del sys.argv[1:]
    exec(code_of("loader"), world)
    load = world["load"]
    load("imports").hold()
    for name in "keep_load", "language", "notebook", "packages", "spawn", "hints":
        load(name)
    load("imports").seal()
    return load


def run(code, name, namespace):
    """The repr of its last expression, or its exception."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    try:
        exec(compile(tree, name, "exec", dont_inherit=True), namespace)
        return repr(eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), namespace)) if last else None
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def in_fork(function, *args):
    """What function returns, from a fork of this process; its traceback if it raises."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            answer = function(*args)
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writing, data) :]
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        data = file.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(data) if data else {"failed": "status %d" % status}


def session(load, what, request):
    main, printed, forks = type(sys)("__main__"), io.StringIO(), []
    sys.modules["__main__"], namespace = main, vars(main)
    namespace["__builtins__"] = builtins
    sys.stdout, stdout = printed, sys.stdout
    answer = {}
    checks = lambda: [run(code, "<check>", namespace) for code in request.get("checks", ())]
    options = request.get("options", {})
    if what == "save":
        cells = {"<cell %d>" % number: code for number, code in enumerate(request["cells"], 1)}
        answer["outcomes"] = [run(code, name, namespace) for name, code in cells.items()]
        answer["checks"] = in_fork(checks) if "checks" in request else []
        os.register_at_fork(before=lambda: forks.append(1))
        fd = os.open(request["body"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        load("keep").save(namespace, cells, fd, **options)
    else:
        os.register_at_fork(before=lambda: forks.append(1))
        fd = os.open(request["body"], os.O_RDONLY)
        answer["report"] = load("keep_load").bring_back(fd, namespace, **options)
        answer["forks"] = len(forks)
        answer["checks"] = checks()
    sys.stdout = stdout
    answer.setdefault("forks", len(forks))
    return {**answer, "printed": printed.getvalue()}


def main(what):
    load, requests = load_driver(), json.load(sys.stdin)
    print(json.dumps([in_fork(session, load, what, request) for request in requests]))


if __name__ == "__main__":
    main(*sys.argv[1:])
