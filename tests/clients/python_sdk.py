"""Drives a server with the official Python SDK as its users do, and prints one JSON line per step.

    python_sdk.py MODE SERVER ARG...

MODE: legacy (initialize), auto (the SDK's default) or 2026-07-28. The server has --resources and --allow-host ask.
"""
import contextlib
import json
import os
import pathlib
import sys
import time
from typing import Any, Literal

import anyio
import mcp
import mcp_types
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.stdio import StdioServerParameters

MODE, COMMAND, *ARGUMENTS = sys.argv[1:]
SERVER = StdioServerParameters(command=COMMAND, args=ARGUMENTS, env=dict(os.environ))
PICTURE = pathlib.Path(__file__).with_name("picture.py").read_text()
ASK = "import urllib.request\ntry: urllib.request.urlopen('http://{}.invalid/')\nexcept OSError as error: print(error)"
failed = 0


async def step(title, action, *arguments):
    global failed
    began, detail = time.monotonic(), None
    try:
        ok = await action(*arguments)
    except Exception as error:  # one step, whatever it raises
        ok, detail = False, repr(error)[:600]
    failed += ok is not True
    print(json.dumps({"step": title, "ok": ok is True, "detail": detail or (None if ok is True else repr(ok)[:600]),
                      "ms": round((time.monotonic() - began) * 1000)}), flush=True)


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


class Task(mcp_types.Result):
    """The result of a call that goes on as a task; the SDK has no model of it."""
    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int = 500


class TaskParams(mcp_types.RequestParams):
    task_id: str


class TaskState(mcp_types.Result):
    result_type: Literal["complete"] = "complete"
    status: str
    result: dict[str, Any] | None = None


class Tasks(ClientExtension):
    """The extension of tasks, as an application adds one to the SDK."""
    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        request = mcp_types.Request[TaskParams, str](method="tasks/get", params=TaskParams(task_id=task.task_id))
        while True:
            state = await context.session.send_request(request, TaskState)
            self.seen.append(state.status)
            if state.status != "working":
                return mcp_types.CallToolResult.model_validate(state.result)
            await anyio.sleep(task.poll_interval_ms / 1000)


class Steps:
    def __init__(self, client, asked):
        self.client, self.asked = client, asked

    async def python(self, code, **options):
        return await self.client.call_tool("run_python", {"code": code, **options.pop("more", {})}, **options)

    async def prints(self, code, expected):
        said = text(await self.python(code))
        return said.startswith(f"{expected}\n") or said

    async def version(self):
        version = self.client.protocol_version
        return version == ("2025-11-25" if MODE == "legacy" else "2026-07-28") or version

    async def tools(self):
        names = {tool.name for tool in (await self.client.list_tools()).tools}
        return names >= {"run_python", "write_file", "read_file", "install_package"} or names

    async def state(self):
        await self.python("kept = 'here'")
        return await self.prints("print(kept)", "here")

    async def image(self):
        types = [block.mime_type for block in (await self.python(PICTURE)).content if block.type == "image"]
        return types == ["image/png"] or types

    async def exception(self):
        result = await self.python("{}['k']")
        return result.is_error and "KeyError" in text(result)

    async def missing_argument(self):
        return (await self.client.call_tool("run_python", {})).is_error

    async def unknown_tool(self):
        try:
            return await self.client.call_tool("no_such_tool", {})
        except mcp.MCPError as error:
            return error.code == mcp_types.INVALID_PARAMS or error.code

    async def progress(self):
        seen = []

        async def progressed(progress, total, message):
            seen.append((progress, message))

        await self.python("import time\nfor n in range(3): print('line', n, flush=True); time.sleep(0.7)",
                          progress_callback=progressed)
        return bool(seen) and all("line" in (message or "") for _, message in seen) or seen

    async def resources(self):
        await self.client.call_tool("write_file", {"path": "sdk/a.txt", "content": "hello\n"})
        found = {resource.name: resource.uri for resource in (await self.client.list_resources()).resources}
        read = await self.client.read_resource(next(uri for uri in found.values() if str(uri).endswith("a.txt")))
        return read.contents[0].text == "hello\n" or (found, read)

    async def elicitation(self):
        for name, answer in ("a", "accept"), ("b", "decline"):
            await self.python(ASK.format(name))
            self.asked["answer"] = answer
            said = text(await self.python("0"))
            if f"{name}.invalid" not in self.asked["messages"][-1]:
                return self.asked, said
        return len(self.asked["messages"]) == 2 or self.asked

    async def at_once(self):
        said = {}

        async def one(n):
            said[n] = text(await self.python(f"print({n})"))

        async with anyio.create_task_group() as group:
            for n in range(8):
                group.start_soon(one, n)
        return all(said[n].startswith(f"{n}\n") for n in range(8)) or said

    async def cancel(self):
        with anyio.move_on_after(0.5) as scope:
            await self.python("import time; time.sleep(25)")
        return scope.cancelled_caught and await self.prints("print(kept)", "here")

    async def timeout(self):
        with contextlib.suppress(mcp.MCPError, TimeoutError):
            await self.python("import time; time.sleep(25)", read_timeout_seconds=0.5)
            return "no timeout"
        return await self.prints("print(kept)", "here")


async def main():
    asked = {"messages": [], "answer": "accept"}
    complaints = []

    async def ask(context, params):
        asked["messages"].append(params.message)
        return mcp_types.ElicitResult(action=asked["answer"], content={} if asked["answer"] == "accept" else None)

    async def received(message):
        if isinstance(message, Exception):
            complaints.append(repr(message))

    options = {"mode": MODE, "elicitation_callback": ask, "message_handler": received}
    async with mcp.Client(SERVER, **options) as client:
        steps = Steps(client, asked)
        for title, action in (
                ("the version is agreed", steps.version), ("the tools are listed", steps.tools),
                ("state persists", steps.state), ("an image arrives as an image", steps.image),
                ("an exception is an error", steps.exception), ("a missing argument is an error", steps.missing_argument),
                ("an unknown tool is refused", steps.unknown_tool), ("progress has the last line", steps.progress),
                ("files are resources", steps.resources), ("the user is asked about a host", steps.elicitation),
                ("eight calls at once", steps.at_once), ("a cancelled call leaves the server usable", steps.cancel),
                ("so does a time limit of the client's", steps.timeout)):
            await step(title, action)
    if MODE != "legacy":
        tasks = Tasks()
        async with mcp.Client(SERVER, **options, extensions=[tasks]) as client:
            async def long():
                said = text(await Steps(client, asked).python("import time\ntime.sleep(4)\nprint('slept')"))
                return (said.startswith("slept\n") and set(tasks.seen) == {"working", "completed"}) or (said, tasks.seen)

            await step("a long cell is a task", long)
    if complaints:
        print(json.dumps({"step": "the SDK had nothing to complain of", "ok": False, "detail": complaints}))
    sys.exit(1 if failed or complaints else 0)


anyio.run(main)
