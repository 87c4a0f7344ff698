"""`from sandpiper import tools`: the names that code sees, with signatures, documentation and search."""
import os
import _thread
from keyword import iskeyword

SUMMARY_MAX, SIGNATURE_MAX = 100, 400
calls = load("calls")
frames = load("frames")
imports = load("imports")
TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict, "null": None}


def identifier(name):
    """The name as an attribute: some servers have tools like get-sum."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def arguments_of(schema):
    """{name of a parameter: how Python writes it}: library-name as library_name, from as from_, unless two would be the same."""
    written = {}
    for name, _, _ in parameters_of(schema):
        plain = identifier(name)
        written.setdefault(plain + "_" * iskeyword(plain) if plain.strip("_") else name, []).append(name)
    return {name: plain if len(names) == 1 else name for plain, names in written.items() for name in names}


def type_name(schema):
    kind, options = (schema.get("type"), schema.get("anyOf")) if isinstance(schema, dict) else (None, None)
    if isinstance(options, list):
        names = [*map(type_name, options)]
        return " | ".join(dict.fromkeys(names)) if all(names) else ""
    kinds = kind if isinstance(kind, list) else [kind]
    names = ["None" if k == "null" else TYPES[k].__name__ for k in kinds if isinstance(k, str) and k in TYPES]
    return " | ".join(names)


def parameters_of(schema):
    """[(name, its schema, whether it is required)], those that are required first."""
    properties, required = schema.get("properties"), schema.get("required")
    required = required if isinstance(required, list) else ()
    found = [(name, own if isinstance(own, dict) else {}, name in required)
             for name, own in (properties if isinstance(properties, dict) else {}).items()]
    return sorted(found, key=lambda one: not one[2])


def signature_text(info):
    parts, written = [], arguments_of(info["schema"])
    for name, schema, required in parameters_of(info["schema"]):
        kind = type_name(schema)
        parts.append(written[name] + (": " + kind if kind else "") + ("" if required else " = " + repr(schema.get("default"))))
    return "(" + ", ".join(parts) + ")"


def signature_of(info):
    inspect = imports.shared("inspect")
    parameters, written = [], arguments_of(info["schema"])
    for name, schema, required in parameters_of(info["schema"]):
        if written[name].isidentifier() and not iskeyword(written[name]):
            kind = schema.get("type")
            parameters.append(inspect.Parameter(
                written[name], inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if required else schema.get("default"),
                annotation=TYPES.get(kind, inspect.Parameter.empty) if isinstance(kind, str) else inspect.Parameter.empty))
    return inspect.Signature(parameters)


def summary_of(info):
    lines = (info.get("description") or info.get("title") or "").strip().splitlines()
    return cut(lines[0], SUMMARY_MAX) if lines else ""


def cut(text, most):
    """On one line: whoever writes a tool's name could have it end the line and go on as another tool."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= most else text[:most - 3] + "..."


def shape_of(schema, depth=3):
    """What help() says of a value: as its type, with what is in a list or an object."""
    kind, items = type_name(schema), schema.get("items")
    if kind == "list" and isinstance(items, dict) and depth > 0:
        return "list of " + (shape_of(items, depth - 1) or "any value")
    parts = [name + ("" if required else "?") + ": " + (shape_of(own, depth - 1) or "any value")
             for name, own, required in parameters_of(schema)] if kind == "dict" and depth > 0 else ()
    return "{%s}" % ", ".join(parts) if parts else kind


def documentation_of(info):
    lines, written = [info.get("description") or info.get("title") or "", ""], arguments_of(info["schema"])
    for name, schema, required in parameters_of(info["schema"]):
        words = [shape_of(schema), "" if required else "optional"]
        if isinstance(schema.get("enum"), list):
            words.append("one of " + ", ".join(map(repr, schema["enum"])))
        about = schema.get("description")
        lines.append("%s (%s)%s" % (written[name], ", ".join(filter(None, words)) or "any value",
                                    ": " + about if isinstance(about, str) else ""))
    if not info["granted"]:
        lines += ["", "Not granted: a call raises PermissionError."]
    return "\n".join(lines).strip()


def function_of(server, name, info, error=None):
    """The tool as a function. error: of its server, which does not start; then info is None."""
    target = frames.join(("server", server, "tool", name))
    names = {plain: name for name, plain in arguments_of(info["schema"] if info else {}).items()}
    unset = {name for name, schema, required in parameters_of(info["schema"] if info else {})
             if not required and schema.get("default") is None and "None" not in (type_name(schema) or "None")}

    def sent(positional, arguments):
        """Without None where that stands for no value in the signature, and is none that the tool takes."""
        if error is not None:
            raise error
        if positional:
            raise TypeError("%s takes its arguments by name: %s" % (tool.__qualname__, signature_text(info)))
        sent = {names.get(name, name): value for name, value in arguments.items()}
        return {name: value for name, value in sent.items() if value is not None or name not in unset}

    def tool(*positional, **arguments):
        return calls.call(target, sent(positional, arguments))

    async def aio(*positional, **arguments):
        return await calls.call_awaited(target, sent(positional, arguments))

    for function, title in (tool, identifier(name)), (aio, "aio"):
        function.__name__, function.__module__ = title, "sandpiper"
        function.__qualname__ = "tools.%s.%s" % (server, title if function is tool else identifier(name) + ".aio")
        if info is not None:
            function.__doc__, function.__signature__ = documentation_of(info), signature_of(info)
    tool.aio = aio
    return tool


class Server:
    @property
    def __doc__(self):
        """What help() shows."""
        return repr(lines_of({self.__name__: self}))

    def __init__(self, name):
        self.__name__ = name
        self._cell, self._infos, self._functions = None, {}, {}

    def _list(self):
        """Asks once in a cell: the list may change."""
        cell = load("session").SESSION.cell
        if self._cell != cell:
            infos = {info["name"]: info for info in calls.ask("list", frames.join(("server", self.__name__)))}
            if infos != self._infos:
                self._infos, self._functions = infos, {}
            self._cell = cell
        return self._infos

    def _known(self):
        """(its tools, None), or (None, why it does not start)."""
        try:
            return self._list(), None
        except calls.ToolError as error:
            return None, error

    def _tool(self, name, infos, error):
        if infos is None:
            return function_of(self.__name__, name, None, error)
        if name not in infos:
            alike = [other for other in infos if other[:3] == name[:3] or name in other or other in name]
            raise AttributeError("%s has no tool %r%s" % (
                self.__name__, name, "; similar: " + ", ".join(map(identifier, alike[:3])) if alike else ""))
        if name not in self._functions:
            self._functions[name] = function_of(self.__name__, name, infos[name])
        return self._functions[name]

    def __getitem__(self, name):
        return self._tool(name, *self._known())

    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(name)
        infos, error = self._known()
        if name not in (infos or ()):
            same = [other for other in infos or () if identifier(other) == name]
            name = same[0] if len(same) == 1 else name
        return self._tool(name, infos, error)

    def __dir__(self):
        try:
            return sorted(map(identifier, self._list()))
        except calls.ToolError:
            return []

    def __repr__(self):
        return "<tools of %s>" % self.__name__


class Tools:
    """Tools of other servers.

    tools.search("word") lists those that match, with signatures; "" lists all.
    tools.SERVER.TOOL(name=value) calls one, and `await tools.SERVER.TOOL.aio(name=value)` does so in asyncio.
    Names that are no identifiers: tools["odd-server"]["odd-name"](from_=1, library_name="x").
    Errors: ToolError, and PermissionError where the user has not granted a call.
    """

    ToolError = calls.ToolError

    def __init__(self):
        self._servers = {}

    def _all(self):
        if not self._servers:
            self._servers = {name: Server(name) for name in calls.ask("servers")}
        return self._servers

    def __getitem__(self, name):
        servers = self._all()
        if name not in servers:
            same = [other for other in servers if identifier(other) == name]
            if len(same) != 1:
                raise AttributeError("there is no tool server %r; there are: %s" % (name, ", ".join(servers) or "none"))
            name = same[0]
        return servers[name]

    def __getattr__(self, name):
        if name[:1] == "_":
            raise AttributeError(name)
        return self[name]

    def __dir__(self):
        return sorted({*map(identifier, self._all()), "search", "ToolError"})

    def __repr__(self):
        return "<tools of %s>" % (", ".join(self._all()) or "no server")

    def search(self, word=""):
        """The tools whose name or description has the word, one a line: name, signature and summary."""
        return lines_of(self._all(), word)


class Lines(list):
    """A list of lines that is shown as such."""

    def __repr__(self):
        return "\n".join(self)


def attribute(name, names):
    """How code writes a name of a server or a tool."""
    shown = identifier(name)
    clear = shown.isascii() and shown.isidentifier() and shown[0] != "_" and not iskeyword(shown)
    return "." + shown if clear and [*map(identifier, names)].count(shown) == 1 else "[%s]" % ascii(name)


def lines_of(servers, word=""):
    """A line for each of their tools that has all words in its name or description, and for each server that does not start."""
    found, others, wanted = [], [], word.lower().split()
    for server, (infos, why) in listed(servers).items():
        others += [] if why is None else [cut(why, SIGNATURE_MAX)]
        for info in infos:
            path = attribute(server, [*servers, "search", "ToolError"]) + attribute(info["name"], [one["name"] for one in infos])
            text = "%s.%s%s %s" % (server, info["name"], path, info.get("description") or "")
            if all(one in text.lower() for one in wanted):
                found.append(cut("tools" + path + signature_text(info), SIGNATURE_MAX)
                             + ("" if info["granted"] else "  [not granted]") + ("  " + summary_of(info)).rstrip())
    return Lines((found or ["no tool matches"]) + others)


def meant(name):
    """How code writes a tool, or a server, that it has called by its bare name; None if there is no such."""
    servers = IMPORTED["sandpiper"].tools._all()
    found = [("." + identifier(server), "") for server in servers if identifier(server) == name] or [
        (attribute(server, servers) + attribute(info["name"], [one["name"] for one in infos]), "(...)")
        for server, (infos, _) in listed(servers, 2).items() for info in infos if identifier(info["name"]) == name]
    return "from sandpiper import tools; tools%s%s" % found[0] if found else None


def listed(servers, limit_s=10):
    """{name: (tools, None) or ((), why there are none)}, of all servers at the same time."""
    found, lock = {}, _thread.allocate_lock()
    lock.acquire()

    def look(name, server):
        try:
            found[name] = list(server._list().values()), None
        except Exception as error:
            found[name] = (), str(error) if isinstance(error, calls.ToolError) else "%s: %s" % (name, error)
        if len(found) == len(servers):
            try:
                lock.release()
            except RuntimeError:
                pass

    for name, server in servers.items():
        _thread.start_new_thread(look, (name, server))
    if servers:
        lock.acquire(True, limit_s)
    return {name: found.get(name, ((), "%s did not start within %d s" % (name, limit_s))) for name in servers}


def install():
    """Makes the module that code imports."""
    module = type(os)("sandpiper", Tools.__doc__)
    module.tools, module.ToolError, module.Blob = Tools(), calls.ToolError, calls.Blob
    module.__all__ = ["tools", "ToolError", "Blob"]
    for public in Tools, Server, Lines:
        public.__module__ = "sandpiper"
    IMPORTED["sandpiper"], IMPORTED["sandpiper.tools"] = module, module.tools  # for `from sandpiper.tools import files`
