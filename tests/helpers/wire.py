"""Checks every line of a server: its form, and the published schema of the version that it speaks.

    wire = Wire()
    wire.sent(data)         the client's bytes, in any pieces
    wire.received(line)     each line of the server; its errors are added to wire.complaints

The version of a message and the expected result follow from the requests, so both directions are read. The schemas are
not ours to distribute: SANDPIPER_MCP_SCHEMAS names their directory, by default one beside this tree. Without them or
python3-jsonschema only the form is checked (NO_SCHEMAS has the reason). Messages of one shape are checked once in a
process: only the words that a schema names (`"type": "text"`) and the types of all other values matter.
"""
import collections
import functools
import importlib.util
import json
import os
import pathlib
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMAS = pathlib.Path(os.environ.get("SANDPIPER_MCP_SCHEMAS") or ROOT.parent / "shared" / "protocol" / "schema")
NO_SCHEMAS = ("schemas: VERSION.json as published are not in SANDPIPER_MCP_SCHEMAS"
              if not (SCHEMAS / "2026-07-28.json").is_file() else
              None if importlib.util.find_spec("jsonschema") else "jsonschema: not installed")
if not NO_SCHEMAS:
    import jsonschema  # takes as long as all other imports of a test together
LINE_LIMIT = 10 << 20  # clients with the official SDK close the connection beyond this
LATEST, MODERN = "2025-11-25", "2026-07-28"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LATEST)  # those that begin with initialize
META = "io.modelcontextprotocol/"
ERRORS = {-32022: "UnsupportedProtocolVersionError", -32021: "MissingRequiredClientCapabilityError"}
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
}
TASKS = META + "tasks"
# What every task has besides resultType and _meta; a completed one also has its result, one that requires input its requests.
TASK = {"taskId": str, "status": str, "statusMessage": str, "createdAt": str, "lastUpdatedAt": str, "ttlMs": int,
        "pollIntervalMs": int}
# JSON allows these in a string, but some clients split lines there.
SEPARATORS = [text.encode() for text in "\u2028\u2029\u0085"]
# A longer line of the client is not parsed; after it responses to unknown ids are allowed.
SENT_LIMIT = 1 << 20


def words_of(value):
    """The strings that a schema requires literally."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "const" and isinstance(inner, str):
                yield inner
            elif key == "enum":
                yield from inner
            else:
                yield from words_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_of(inner)


class Schema:
    """The published schema of one version."""

    def __init__(self, version):
        self.whole = json.loads((SCHEMAS / f"{version}.json").read_text())
        self.key = "$defs" if "$defs" in self.whole else "definitions"
        self.words = frozenset(words_of(self.whole))
        self.seen = {}

    def validator(self, definition):
        kind = jsonschema.validators.validator_for(self.whole)
        return kind({**self.whole, "allOf": [{"$ref": f"#/{self.key}/{definition}"}]})

    def shape(self, value):
        if isinstance(value, dict):
            return tuple((key, self.shape(inner)) for key, inner in value.items())
        if isinstance(value, list):
            return (list, frozenset(map(self.shape, value)))
        if isinstance(value, str):
            return value if value in self.words else str
        return (type(value), value < 0) if isinstance(value, (int, float)) else value

    def complaint(self, definition, value):
        """The error in value, or None."""
        key = definition, self.shape(value)
        if key not in self.seen:
            worst = jsonschema.exceptions.best_match(self.validator(definition).iter_errors(value))
            self.seen[key] = worst and f"{definition} {worst.json_path}: {worst.message[:300]}"
        return self.seen[key]


schema_of = functools.lru_cache(maxsize=None)(Schema)


class Wire:
    def __init__(self):
        self.complaints = []
        self.count = 0
        self.legacy = None  # the version of the last completed initialize
        self.unfinished = bytearray()  # the client's incomplete line
        self.asked = collections.defaultdict(list)  # id: requests without a response, (method, modern, tasks)
        self.blind = False  # a message of the client's was not parsed
        self.lock = threading.Lock()

    # --- the client's side ---

    def sent(self, data):
        with self.lock:
            self.unfinished += data
            if b"\n" not in data:
                return
            *lines, rest = self.unfinished.split(b"\n")
            self.unfinished = bytearray(rest)
            for line in lines:
                self._sent_line(line)

    def _sent_line(self, line):
        if len(line) > SENT_LIMIT:
            self.blind = True
            return
        try:
            message = json.loads(line.decode().lstrip("\ufeff"))
        except (ValueError, RecursionError):
            return  # it has no response, or an error
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and isinstance(one.get("method"), str) and "id" in one:
                self.asked[json.dumps(one["id"])].append(self._request(one))

    @staticmethod
    def _request(message):
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        meta = meta if isinstance(meta, dict) else {}
        capabilities = meta.get(META + "clientCapabilities")
        extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        return (message["method"], META + "protocolVersion" in meta,
                isinstance(extensions, dict) and TASKS in extensions)

    # --- the server's side ---

    def received(self, line):
        with self.lock:
            self.count += 1
            try:
                self._check_line(line)
            except ValueError as error:
                self.complaints.append(f"{error}: {line[:400]!r}")

    def _check_line(self, line):
        if not line.endswith(b"\n") or len(line) > LINE_LIMIT:
            raise ValueError("no end of line" if len(line) <= LINE_LIMIT else "the line is too long")
        if any(separator in line for separator in SEPARATORS):
            raise ValueError("a separator of lines is not escaped")
        message = json.loads(line.decode("utf-8"))
        batch = isinstance(message, list)
        if batch and (self.legacy != "2025-03-26" or not message):
            raise ValueError("a batch that this version has not")
        for one in message if batch else [message]:
            self._check_message(one)

    def _check_message(self, message):
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise ValueError("not a JSON-RPC message")
        if "method" in message:
            self._check_own(message)
        elif "error" in message:
            self._check_error(message)
        else:
            self._check_result(message)

    def _check(self, version, definition, value):
        complaint = NO_SCHEMAS is None and schema_of(version).complaint(definition, value)
        if complaint:
            raise ValueError(f"{version} {complaint}")

    def _check_own(self, message):
        """A notification or request of the server's."""
        modern = message["method"].startswith("notifications/subscriptions/") or not self.legacy
        version = MODERN if modern else self.legacy
        if "id" in message and modern:
            raise ValueError("a request of the server's, which 2026-07-28 forbids")
        self._check(version, "JSONRPCMessage", message)
        self._check(version, "ServerRequest" if "id" in message else "ServerNotification", message)

    def _check_error(self, message):
        code, requests = message["error"].get("code"), self.asked.get(json.dumps(message.get("id")))
        if requests:
            _, modern, _ = requests.pop()
        elif code in (PARSE_ERROR, INVALID_REQUEST) or self.blind:
            modern = not self.legacy
        else:
            raise ValueError("an error that answers no request")
        version = MODERN if modern else self.legacy or LATEST
        if "id" not in message and version < LATEST:
            # These schemas require an id and allow no null, so no valid error can refer to a request without an id.
            message = {**message, "id": ""}
        self._check(version, "JSONRPCMessage", message)
        self._check(version, ERRORS.get(code, "Error") if modern else "JSONRPCMessage",
                    message if code in ERRORS or not modern else message["error"])

    def _check_result(self, message):
        requests = self.asked.get(json.dumps(message.get("id")))
        if not requests and not self.blind:
            raise ValueError("a result that answers no request")
        method, modern, tasks = requests.pop(0) if requests else (None, "resultType" in message["result"], True)
        if method == "initialize":
            self.legacy = message["result"].get("protocolVersion")
            if self.legacy not in VERSIONS:
                raise ValueError("a version that initialize does not have")
        version = MODERN if modern else self.legacy or LATEST
        self._check(version, "JSONRPCMessage", message)
        definition = RESULTS.get(method, "Result")
        if message["result"].get("resultType") == "input_required":
            definition = "InputRequiredResult"
        if message["result"].get("resultType") == "task":
            if not tasks or method not in (None, "tools/call"):
                raise ValueError("a task for a request that gets none")
            definition = "Result"
        if method == "tasks/get" or message["result"].get("resultType") == "task":
            self._check_task(message["result"], method)
        self._check(version, definition, message["result"])
        if modern and META + "serverInfo" not in message["result"].get("_meta", {}):
            raise ValueError("a result of 2026-07-28 without the server's name")

    def _check_task(self, result, method):
        """By the extension's text, as its schema is not among those of the versions."""
        task = {key: value for key, value in result.items() if key not in ("resultType", "_meta", "result", "inputRequests")}
        if task.keys() != TASK.keys() or any(type(task[key]) is not kind for key, kind in TASK.items()):
            raise ValueError("not a task")
        if method == "tasks/get" and (result["resultType"] != "complete" or
                                      ("result" in result) != (task["status"] == "completed")):
            raise ValueError("not a response to tasks/get")
        if ("inputRequests" in result) != (task["status"] == "input_required"):
            raise ValueError("input requests of a task that requires none, or none")
        if task["status"] not in ("working", "completed", "cancelled", "input_required"):
            raise ValueError("a status that no task of ours has")
        if "inputRequests" in result:
            self._check(MODERN, "InputRequests", result["inputRequests"])
        if "result" in result:
            self._check(MODERN, "CallToolResult", result["result"])
