"""A tool server with all bad habits, for the tests: standard library only.

    stand_in.py DIRECTORY [--era modern|legacy|exits|silent|nonsense|dead] [--grandchild] [--page N]

Writes one line for each request to DIRECTORY/requests, what calls say of their trace to DIRECTORY/traces, and counts `add`
in DIRECTORY/counter. `exits`: the modern
question ends it. `silent`: it never responds. `dead`: it exits at once.
"""
import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("directory", type=pathlib.Path)
options.add_argument("--era", default="modern")
options.add_argument("--grandchild", action="store_true")
options.add_argument("--page", type=int, default=100)
options.add_argument("--stderr", default="")
options = options.parse_args()
lock = threading.Lock()
ROWS = 5000
META = "io.modelcontextprotocol/"


def tool(name, description, properties=None, required=(), reads=False, **more):
    return {"name": name, "description": description, "annotations": {"readOnlyHint": reads},
            "inputSchema": {"type": "object", "properties": properties or {}, "required": list(required), **more}}


TOOLS = [
    tool("rows", "A page of rows.\nMore about it.", {"page": {"type": "integer", "minimum": 0, "description": "which page"}},
         ["page"], True, additionalProperties=False),
    tool("add", "Add to the counter.", {"by": {"type": "integer"}, "to": {"type": "string"}}),
    tool("slow", "Wait.", {"s": {"type": "number"}}, ["s"], True),
    tool("huge", "A text of 20 MiB.", reads=True),
    tool("huger", "A text of 66 MiB.", reads=True),
    tool("dies", "Exit in the middle of the call."),
    tool("never", "No response.", reads=True),
    tool("fails", "An error of its own.", {"text": {"type": "string"}}, reads=True),
    tool("refuses", "A JSON-RPC error.", reads=True),
    tool("broken", "A response that is no JSON.", reads=True),
    tool("deep", "A response that nests too deeply.", reads=True),
    tool("echo", "The arguments.", {"value": {}}, reads=True),
    tool("nullable", "The arguments.", {"a": {"type": "integer"}, "b": {}, "anyOf": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                                        "null": {"type": ["integer", "null"]}}, reads=True),
    tool("forms", "Blocks of all kinds.", {"kind": {"type": "string", "enum": ["image", "json", "text", "many", "none",
                                                                              "structured", "resource"]}}, ["kind"], True),
    tool("asks", "Ask the user.", {"url": {"type": "boolean"}, "rounds": {"type": "integer"}, "result": {"type": "object"},
                                     "request": {"type": "boolean"}}, reads=True),
    tool("asks_late", "Ask the user before the next request is read.", reads=True),
    tool("odd-name", "A name that is no identifier.", {"from": {"type": "integer"}}, ["from"], True),
    tool("nested", "Values of values.", {"edits": {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string"}, "b": {"type": "array", "items": {}}}}}, "x": {"type": "object", "properties": {"y": {}, "z": 5}},
        "deep": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "array"}}}}}, reads=True),
    tool("pattern", "A pattern.", {"a": {"type": "string", "pattern": "^[a-z]+$"},
                                   "b": {"type": "string", "pattern": "^(a+)+$"}}, reads=True),
    tool("control", "Result with control characters.", reads=True),
    tool("a\nstand.forged()", "Two\x1b[31m lines\nin one.", reads=True),
    tool("class", "Names that are no parameters.", {"self": {}, "class": {}, "a b": {}, "None": {}, "*": {}}, ["class"], True),
    tool("options", "Values of other types.", {"a": {"enum": [1, None, {"b": 2}]}}, reads=True),
    tool("shrinks", "Have none but itself from now on.", reads=True),
    tool("deaf", "Read no more.", {"close": {"type": "boolean"}, "pings": {"type": "integer"}}, reads=True),
    tool("odd", "Results of other forms.", {"json": {"type": "string"}}, ["json"], True),
]


def write(message):
    with lock:
        sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        sys.stdout.flush()


def text(*texts, **more):
    return {"content": [{"type": "text", "text": one} for one in texts], **more}


answers = {}
late = []


def ask(identity, method, params):
    done = threading.Event()
    answers[identity] = [done, None]
    write({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
    done.wait(30)
    return answers.pop(identity)[1]


def question(arguments):
    if arguments.get("url"):
        return {"mode": "url", "url": "https://example.org", "message": "go"}
    return {"message": "your \x1b[31mname?", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string", "title": "Na\x1b[1mme"}}}}


def require(params):
    """As 2026-07-28 asks: by a result, until the call has come again so often. The state is the number of the round."""
    arguments = params["arguments"]
    given = {key: params[key] for key in ("inputResponses", "requestState") if key in params}
    if given if "result" in arguments else int(params.get("requestState", 0)) >= arguments.get("rounds", 1):
        return text(json.dumps(given))
    asked = {"inputRequests": {"the user": {"method": "elicitation/create", "params": question(arguments)}},
             "requestState": str(int(params.get("requestState", 0)) + 1)}
    return {"resultType": "input_required", **arguments.get("result", asked)}


def form(kind):
    png = base64.b64encode(b"\x89PNG bytes").decode()
    if kind == "image":
        return {"content": [{"type": "image", "data": png, "mimeType": "image/png"}]}
    if kind == "json":
        return text('{"a": [1, 2]}')
    if kind == "many":
        return {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "[2]"}]}
    if kind == "structured":
        return text("ignored", structuredContent={"answer": 42})
    if kind == "resource":
        return {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}]}
    return text("plain [1] {") if kind == "text" else {"content": []}


def call(identity, params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "rows":
        first = arguments["page"] * options.page
        rows = [{"id": i, "value": i * 3} for i in range(first, min(first + options.page, ROWS))]
        return text(json.dumps(rows))
    if name == "add":
        with lock:
            counter = options.directory / "counter"
            value = int(counter.read_text() or 0) + arguments.get("by", 1) if counter.exists() else arguments.get("by", 1)
            counter.write_text(str(value))
        return text(str(value))
    if name == "slow":
        time.sleep(arguments["s"])
        return text("slept")
    if name in ("huge", "huger"):
        return text("x" * ((20 if name == "huge" else 66) << 20))
    if name == "dies":
        os._exit(3)
    if name == "never":
        time.sleep(1000)
    if name == "fails":
        return text(arguments.get("text", "it has failed"), isError=True)
    if name == "broken":
        return '{"jsonrpc": "2.0", "id": %d, "result": {' % identity
    if name == "deep":
        return '{"jsonrpc": "2.0", "id": %d, "result": %s1%s}' % (identity, "[" * 1000, "]" * 1000)
    if name in ("echo", "nullable"):
        return {"content": [], "structuredContent": arguments}
    if name == "forms":
        return form(arguments["kind"])
    if name == "asks":
        if "elicitation" in params.get("_meta", {}).get(META + "clientCapabilities", {}) and not arguments.get("request"):
            return require(params)
        return text(json.dumps(ask("ask-%d" % identity, "elicitation/create", question(arguments))))
    if name == "asks_late":
        late.extend({"jsonrpc": "2.0", "id": "late-%d" % i, "method": "elicitation/create", "params": question({})} for i in range(99))
    if name == "deaf":
        if arguments.get("close"):
            os.close(0)
        for _ in range(arguments.get("pings", 0)):
            write({"jsonrpc": "2.0", "id": "p" * 100000, "method": "ping"})
        time.sleep(1000)
    if name == "shrinks":
        TOOLS[:] = [one for one in TOOLS if one["name"] == name]
        write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("done")
    if name == "odd-name":
        return text(str(arguments["from"]))
    if name == "odd":
        return '{"jsonrpc": "2.0", "id": %d, "result": %s}' % (identity, arguments["json"])
    if name == "control":
        return text("\x00\x1b[2J\u2028end")
    return text("ok")


def handle(request):
    identity, method, params = request.get("id"), request.get("method"), request.get("params") or {}
    with lock, open(options.directory / "requests", "a") as file:
        file.write("%s %s\n" % (method, params.get("name", "")))
    if "result" in request or "error" in request:
        waiting = answers.get(identity)
        if waiting:
            waiting[1] = request.get("result", request.get("error"))
            waiting[0].set()
        return
    if identity is None:
        return
    while late:
        write(late.pop())
    modern = options.era == "modern"
    if method == "server/discover" and options.era == "exits":
        os._exit(1)
    if method == "server/discover" and modern:
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0,
                  "cacheScope": "private"}
    elif method == "initialize" and not modern:
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "stand-in", "version": "1"}}
    elif modern and params.get("_meta", {}).get(META + "protocolVersion") != "2026-07-28":
        write({"jsonrpc": "2.0", "id": identity, "error": {"code": -32602, "message": "no version"}})
        return
    elif method == "tools/list":
        half = len(TOOLS) // 2
        result = {"tools": TOOLS[half:]} if params.get("cursor") else {"tools": TOOLS[:half], "nextCursor": "more"}
    elif method == "tools/call" and params["name"] == "refuses":
        write({"jsonrpc": "2.0", "id": identity, "error": {"code": -32000, "message": "refused\x1b[1m"}})
        return
    elif method == "tools/call":
        with lock, open(options.directory / "traces", "a") as file:
            meta = params.get("_meta", {})
            file.write(json.dumps({key: meta[key] for key in ("traceparent", "tracestate", "baggage") if key in meta}) + "\n")
        result = call(identity, params)
        if isinstance(result, str):
            write(result)
            return
    else:
        write({"jsonrpc": "2.0", "id": identity, "error": {"code": -32601, "message": "Method not found"}})
        return
    write({"jsonrpc": "2.0", "id": identity, "result": {"resultType": "complete", **result} if modern else result})


def main():
    with open(options.directory / "pids", "a") as file:
        file.write("%d\n" % os.getpid())
    sys.stderr.write("token is %s \x1b[31m\n" % os.environ.get("TOKEN"))
    sys.stderr.write(options.stderr + "\n")
    sys.stderr.flush()
    open_ones = [fd for fd in range(64) if os.path.lexists(f"/proc/self/fd/{fd}")]
    (options.directory / "descriptors").write_text(json.dumps(open_ones))
    (options.directory / "environment").write_text(json.dumps(dict(os.environ, CWD=os.getcwd())))
    if options.era == "dead":
        sys.exit(7)
    if options.grandchild:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(options.directory / "pids", "a") as file:
            file.write("%d\n" % child.pid)
    for line in sys.stdin:
        if options.era == "silent":
            continue
        if options.era == "nonsense":
            write("hello, I am no MCP server")
            continue
        request = json.loads(line)
        if request.get("method") == "tools/call" and (request["params"]["name"] in ("slow", "never", "asks")):
            threading.Thread(target=handle, args=(request,), daemon=True).start()
        else:
            handle(request)


main()
