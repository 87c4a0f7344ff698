"""The measures of what a user adds: files, a record, tools, packages, and more servers."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from contestants import SHOWS_VIEWS, Failed, Sandpiper, ToolPipe, available_kib, children, command, processor_s, pss_kib, tree
from measuring import PAUSE_S, Measuring, timed

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
SERVER_KIB = 25 << 10  # more than a server takes
PARSE = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
EDIT = "open('d0/f0', 'a').write('y')"  # of a file that the call before has changed too
FLUSHES = ("fsync", "syncfs", "sync_file_range")
CHANGES = "for i in range(7): open(f'd0/f{i}', 'a').write('z')"


def make_project(directory, files):
    """Files of one line in directories of a hundred."""
    for at in range(0, files, 100):
        os.makedirs(f"{directory}/d{at // 100}")
        for name in range(min(100, files - at)):
            with open(f"{directory}/d{at // 100}/f{name}", "w") as file:
                file.write("x = 1\n")


def make_record(path, calls, lines):
    """A record of so many calls, each with as many lines of code and of output."""
    prev, seq = "0" * 64, 0
    with open(path, "wb") as file:
        def add(kind, **members):
            nonlocal prev, seq
            line = json.dumps({"v": 1, "seq": seq, "time": "2026-11-22T10:15:02.123Z", "kind": kind, "prev": prev, **members})
            prev, seq = hashlib.sha256(line.encode()).hexdigest(), seq + 1
            file.write(line.encode() + b"\n")

        add("start", version="0", settings=[])
        for number in range(1, calls + 1):
            of = {"call": number, "session": "default", "cell": number}
            add("cell", **of, arguments={}, code="\n".join(f"values[{i}] = sum(range({number}))  # {i}" for i in range(lines)))
            add("result", **of, outcome="ok", state="kept", is_error=False, duration_ms=3, status="[ok 3 ms | vars: ~values]",
                output=[["stdout", f"line of output {number}\n" * lines]], value="42")
        add("end", why="stdin was closed")


@contextlib.contextmanager
def pinned(processor):
    """What is started within stays on a processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Workloads(Measuring):
    # --- a user's project as the workspace ---

    def project(self):
        """Copy-on-write: what the size of the project costs. The reference is the smallest project, which has the
        files that the calls change."""
        small, names = 10, {10: "10 files", self.many(): "many files"}
        with contextlib.ExitStack() as stack:
            top = stack.enter_context(tempfile.TemporaryDirectory())
            for files in names:
                make_project(f"{top}/{files}", files)
            flags = {files: ("--workspace", f"{top}/{files}", "--cow") for files in names}
            for _ in range(self.times(25)):
                for files, name in names.items():
                    yield "start on a project", f"--cow, {name}", self.first_result(
                        Sandpiper, self.binary, self.python, *flags[files])
                    yield "start on a project", f"straight, {name}", self.first_result(
                        Sandpiper, self.binary, self.python, *flags[files][:2])
            servers = {files: stack.enter_context(self.sandpiper(*flags[files])) for files in names}
            same = stack.enter_context(self.sandpiper(*flags[small]))  # how far two of the same differ
            for server in (*servers.values(), same):
                server.run(CHANGES)
            actions = {name: servers[files] for files, name in names.items()} | {f"{small} files once more": same}
            for group, action in (("--cow: a call", lambda server: server.run("x = 1")),
                                  ("--cow: a call that edits", lambda server: server.run(EDIT)),
                                  ("--cow: list_changes, 7 files", lambda server: server.use("list_changes")),
                                  ("--cow: list_changes, diff", lambda server: server.use("list_changes", diff=True))):
                for _ in range(self.times(150)):
                    for name, server in actions.items():
                        time.sleep(PAUSE_S)
                        yield group, name, timed(action, server)

    def files(self):
        """What files in the workspace cost a call that does not use them."""
        with contextlib.ExitStack() as stack:
            names, servers = {"no files": 0, "no files once more": 0, "1,900 files": 1900, "many files": self.many()}, {}
            top = stack.enter_context(tempfile.TemporaryDirectory())
            for name, files in names.items():
                os.mkdir(f"{top}/{name}")
                make_project(f"{top}/{name}", files)
                for cow in ((), ("--cow",)):
                    group = " ".join(("--workspace", *cow)) + ": a call"
                    server = stack.enter_context(self.sandpiper("--workspace", f"{top}/{name}", *cow))
                    server.run("x = 1")
                    servers.setdefault(group, {})[name] = server
            for group, of in servers.items():
                for _ in range(self.times(150)):
                    for name, server in of.items():
                        time.sleep(PAUSE_S)
                        yield group, name, timed(server.run, "x = 1")

    def many(self):
        return max(2500, int(100_000 * self.scale))

    def undo_files(self):
        """What states of files cost in a workspace that is written through. The reference keeps none."""
        for files in (10, 1500):
            with contextlib.ExitStack() as stack:
                actions = {}
                for name, undo in (("none kept", "0"), ("none kept once more", "0"), ("kept", "64M")):
                    top = f"{stack.enter_context(tempfile.TemporaryDirectory())}/{files}"
                    make_project(top, files)
                    actions[name] = stack.enter_context(self.sandpiper("--workspace", top, "--undo-files", undo))
                for what, code in (("a call", "x = 1"), ("a call that edits", EDIT)):
                    for _ in range(self.times(150)):
                        for name, server in actions.items():
                            time.sleep(PAUSE_S)
                            yield f"files of {files:,}: {what}", name, timed(server.run, code)

    def apply(self):
        """What it costs that files are on the disk before they take their names. The reference only seems to flush."""
        wrap = (sys.executable, "-I", str(TESTS / "helpers" / "deny.py"), *(f"{call}:NOTHING" for call in FLUSHES), "--")
        with contextlib.ExitStack() as stack:
            servers, files = {}, 1000
            for name, more in (("on the disk", ()), ("without a flush", wrap), ("without a flush once more", wrap)):
                top = f"{stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(self.binary))))}/{files}"
                make_project(top, files)
                servers[name] = stack.enter_context(self.sandpiper("--workspace", top, "--cow", wrap=more))
            for turn in range(self.times(9)):
                for name, server in servers.items():
                    server.run(f"for i in range({files}): open(f'd{{i // 100}}/f{{i % 100}}', 'w').write('x = {turn}\\n')")
                    yield "apply 1,000 files", name, timed(server.use, "apply_changes")

    # --- a record ---

    def record(self):
        """What --record costs a call, and what it takes to read 10,000 calls. The reference of the second parses them."""
        with tempfile.TemporaryDirectory() as top, contextlib.ExitStack() as stack:
            actions = {name: stack.enter_context(self.sandpiper(*flags)) for name, flags in (
                ("without", ()), ("without, once more", ()), ("--record", ("--record", f"{top}/records")))}
            for code in ("x = 1", "print('a line of output')"):
                for server in actions.values():
                    for _ in range(20):
                        server.run(code)
                for _ in range(self.times(250)):
                    for name, server in actions.items():
                        time.sleep(PAUSE_S)
                        yield f"with a record: {code}", name, timed(server.run, code)
            for name in ("short calls", "calls of 20 lines"):
                path = f"{top}/{name[:5]}.jsonl"
                make_record(path, 10_000, 1 if name == "short calls" else 20)
                commands = {"python: json.loads of each line": (self.python, "-c", PARSE, path)} | {
                    " ".join(words): (self.binary, "record", *words, path)
                    for words in (("show",), ("check",), ("export", "--format", "html"))}
                for _ in range(self.times(8)):
                    for contestant, line in commands.items():
                        yield f"a record of 10,000 {name}", contestant, timed(command, *line)

    # --- results for people ---

    def view(self):
        """What the page of MCP Apps costs a call: for clients without the extension, and for those with it."""
        with contextlib.ExitStack() as stack:
            actions = {name: stack.enter_context(self.sandpiper(*flags, capabilities=capabilities)) for name, flags, capabilities in (
                ("--ui off", ("--ui", "off"), None), ("--ui off once more", ("--ui", "off"), None), ("--ui on", (), None),
                ("--ui on, the client shows it", (), SHOWS_VIEWS))}
            for code in ("x = 1", "print('a line of output')"):
                for server in actions.values():
                    for _ in range(20):
                        server.run(code)
                for _ in range(self.times(400)):
                    for name, server in actions.items():
                        time.sleep(PAUSE_S)
                        before = processor_s(server.pid)
                        yield f"results for people: {code}", name, timed(server.run, code)
                        yield f"results for people: server alone: {code}", name, processor_s(server.pid) - before

    # --- many servers on one machine ---

    def density(self):
        """Servers of one user with a session each, all at once."""
        count = self.times(200)
        if available_kib() < count * SERVER_KIB:
            self.absent["many servers"] = f"needs {count * SERVER_KIB >> 20} GiB of available memory"
            return
        start, warm, memory = "start to first result, many servers", "warm call, many servers", "memory, many servers"
        for _ in range(self.times(10)):
            yield start, "alone", self.first_result(Sandpiper, self.binary, self.python)
        with contextlib.ExitStack() as stack:
            def one_more():
                server = stack.enter_context(self.sandpiper())
                server.run("x = 1")
                return server
            servers = [one_more()]
            self.rest(1)
            for _ in range(self.times(100)):
                self.rest(PAUSE_S)
                yield warm, "alone", timed(servers[0].run, "x = 1")
            yield memory, "alone: its processes", pss_kib(tree(servers[0].pid))
            free = available_kib()
            servers += [one_more() for _ in range(count - 1)]
            for _ in range(self.times(10)):
                yield start, f"beside {count} idle", self.first_result(Sandpiper, self.binary, self.python)
            respond = 0
            for server in servers:
                respond += server.run("1 + 1")["content"][0]["text"].startswith("Out: 2\n")
            yield "servers at once", "respond", respond
            yield "servers at once", "started", count
            self.rest(5)
            for _ in range(self.times(100)):
                self.rest(PAUSE_S)
                yield warm, f"beside {count - 1} idle", timed(servers[0].run, "x = 1")
            each = (free - available_kib()) / max(1, count - 1)
            yield memory, f"each of {count - 1} more, by the machine", each
            yield "servers for each GiB", "by the machine's free memory", (1 << 20) / each if each > 0 else None
            below = children()
            trees = [tree(server.pid, below) for server in servers]
            shares = [pss_kib(one) for one in trees]
            if None in shares:
                self.absent["PSS"] = "the kernel shows it to root only"
            else:
                for share in shares:
                    yield memory, f"one of {count}: its processes", share
                yield "servers for each GiB", "by PSS", count * (1 << 20) / sum(shares)
            yield f"processes of {count} servers", "all", sum(map(len, trees))
            for server in servers:  # they exit side by side
                server.process.stdin.close()

    def starts(self):
        """What somebody waits who starts a hundred sandboxes on one machine. Those that begin one after the other end before the
        next; the others live until the last has responded."""
        count = self.times(100)
        if available_kib() < count * SERVER_KIB:
            self.absent["many starts"] = f"needs {count * SERVER_KIB >> 20} GiB of available memory"
            return
        for name, at_once, gap_s in (("one after the other", 1, 0), ("one every 100 ms", count, 0.1), ("all at once", count, 0)):
            yield from self.started(count, name, at_once, gap_s)
            self.rest(5)

    def started(self, count, name, at_once, gap_s):
        with contextlib.ExitStack() as stack:
            def start():
                began = time.perf_counter()
                server = Sandpiper(self.binary, self.python)
                stack.callback(server.close) if at_once > 1 else None
                with contextlib.nullcontext() if at_once > 1 else contextlib.closing(server):
                    if server.run("1 + 1")["content"][0]["text"].startswith("Out: 2\n"):
                        return time.perf_counter() - began
                raise Failed("another result than 2")

            free = available_kib()
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                waiting = []
                for _ in range(count):
                    waiting.append(pool.submit(start))
                    self.rest(gap_s)
            failed = [one.exception() for one in waiting if one.exception()]
            for one in waiting:
                if not one.exception():
                    yield "start to first result, 100 starts", name, one.result()
            yield "servers that failed to start, of 100", name, len(failed)
            for why in sorted({repr(one) for one in failed}):
                self.absent[f"{name}: a start that failed"] = why
            if at_once > 1:
                yield "memory of each, 100 starts", name, (free - available_kib()) / count

    # --- packages ---

    def packages(self):
        """A wheel and its dependency from an index on loopback; nothing is in either cache."""
        sys.path.insert(0, str(TESTS / "helpers"))
        from index import projects
        from index.server import Index

        group, pip = "packages: a wheel and its dependency", [self.python, "-m", "pip", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--version"], capture_output=True).returncode:
            self.absent["pip install --target"] = f"{self.python} has no pip"
            return
        with tempfile.TemporaryDirectory() as top:
            os.chmod(top, 0o755)  # the installer has a user id of its own
            projects.save(f"{top}/wheels", projects.Wheel("leaf"), projects.Wheel("stem", requires=["leaf"]))
            with Index(f"{top}/wheels") as index:
                for turn in range(self.times(12)):
                    with self.sandpiper("--index-url", index.url, "--cache", f"{top}/cache-{turn}") as server:
                        server.run("pass")
                        self.rest(PAUSE_S)
                        yield group, "install_package", timed(server.use, "install_package", packages=["stem"])
                        server.run("import stem, leaf")
                    yield group, "pip install --target", timed(
                        command, *pip, "install", "-qq", "--index-url", index.url, "--cache-dir", f"{top}/pip-{turn}",
                        "--target", f"{top}/target-{turn}", "stem")

    # --- tools of other servers ---

    def tools(self):
        """1,000 calls of a tool by one cell and over a plain pipe, and what --tools costs where no tool is called.

        Where a process may run on either processor, the scheduler has the two of the pipe on one processor in some turns and
        on two in others, and a call takes 0.05 or 0.2 ms; with the three processes of a cell it does so at other times. A
        comparison would say where it had them. So both sides are pinned alike: the tool server on one processor and what
        calls it on another, as a machine with idle processors has them; and once more all on one, without a gate."""
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) > 1:
            yield from self.tool_calls("", processors[0], processors[1])
        else:
            self.absent["tools beside the code"] = "needs two processors"
        yield from self.tool_calls(", one processor", processors[0], processors[0])
        with tempfile.TemporaryDirectory() as directory:
            flags = self.tool_server(directory)[1]
            with self.sandpiper() as plain, self.sandpiper(*flags) as unused:
                for _ in range(self.times(25)):
                    yield "start, no tool called", "without --tools", self.first_result(Sandpiper, self.binary, self.python)
                    yield "start, no tool called", "with --tools", self.first_result(
                        Sandpiper, self.binary, self.python, *flags)
                    for name, server in {"without --tools": plain, "with --tools": unused}.items():
                        time.sleep(PAUSE_S)
                        yield "warm call, no tool called", name, timed(server.run, "x = 1")

    def tool_server(self, directory, *before):
        """(the command of the tests' tool server, the flags of a server that offers it)"""
        program = [*before, self.python, str(TESTS / "e2e" / "tools" / "stand_in.py"), directory]
        file = pathlib.Path(directory) / "tools.json"
        file.write_text(json.dumps({"mcpServers": {"stand": {"command": program[0], "args": program[1:], "trust_hints": True}}}))
        file.chmod(0o600)
        return program, ("--tools", str(file))

    def tool_calls(self, where, caller, called):
        count = 1000 if self.scale else 1
        calls = {"1,000 calls of a tool": ("echo", "value", 7), "1,000 pages of a tool": ("rows", "page", 7)}
        with tempfile.TemporaryDirectory() as directory, pinned(caller):
            program, flags = self.tool_server(directory, shutil.which("taskset"), "-c", str(called))
            with self.sandpiper(*flags, "--timeout", "60") as server, contextlib.closing(ToolPipe(program)) as pipe:
                for _ in range(self.times(12)):
                    for group, (tool, name, value) in calls.items():
                        code = f"from sandpiper import tools\nfor _ in range({count}): tools.stand.{tool}({name}={value})"
                        yield group + where, "plain pipe", timed(lambda: [pipe.call(tool, {name: value}) for _ in range(count)])
                        yield group + where, "one cell", timed(server.run, code)
