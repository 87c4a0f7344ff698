"""The measures. Each yields (group, contestant, seconds or KiB) and interleaves what it compares: one sample of each
contestant in turn, so that other load on the machine affects all of them."""
import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import time

from contestants import BWRAP, SHOWS_VIEWS, ExecLoop, IPykernel, Sandpiper, ToolPipe, available_kib, command, modules_of, pss_kib

PAUSE_S = 0.02  # between spaced calls: time to make the checkpoint
NO_CHECKPOINT = "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))"  # no fork, so no copy
ARRAYS = "state = [bytearray(b'x') * (1 << 20) for _ in range({mb})]"
OBJECTS = "state = [{{'id': i, 'name': str(i)}} for i in range({mb} * 3400)]"  # about 300 bytes each
TOUCH = "state[0]; x = 1"
FORK = """
import os, time
began = time.perf_counter()
pid = os.fork()
if not pid: os._exit(0)
print(time.perf_counter() - began)
os.waitpid(pid, 0)
"""
FAULTS = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
PROGRAMS = {  # run inside and outside by the same interpreter, which measures the time itself
    "loop": "n = 0\nfor i in range(1_500_000): n += i * i % 7",
    "bodies": "p = [(i * .1, i * .2, i * .3) for i in range(1, 6)]\nv = [[0., 0., 0.] for _ in p]\n"
              "for _ in range(6000):\n    for i, (x, y, z) in enumerate(p):\n        for a, b, c in p[i + 1:]:\n"
              "            d = (x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2\n            v[i][0] += (x - a) / d ** 1.5",
    "matrices": "import numpy as np\na = np.ones((400, 400))\nfor _ in range(12): a = a @ a / 400",
    "json": "import json\nd = [{'a': i, 'b': str(i) * 3} for i in range(6000)]\n"
            "for _ in range(6): json.loads(json.dumps(d))",
    "regex": "import re\nt = 'abc 123 def_456 ' * 4000\nfor _ in range(8): re.findall(r'(\\w+)_(\\d+)', t)",
    "stat, open, read": "import os\nopen('/tmp/f', 'w').write('x' * 100)\n"
                        "for _ in range(8000):\n    os.stat('/tmp/f')\n    with open('/tmp/f') as f: f.read()",
    "getppid": "import os\nfor _ in range(300_000): os.getppid()",
    "pipe there and back": "import os, threading\na, b = os.pipe(), os.pipe()\ndef echo():\n"
                           "    for _ in range(8000): os.write(b[1], os.read(a[0], 1))\n"
                           "other = threading.Thread(target=echo)\nother.start()\n"
                           "for _ in range(8000): os.write(a[1], b'x'); os.read(b[0], 1)\nother.join()",
    "write and rename": "import os\nfor i in range(4000):\n    with open('/dev/shm/a', 'w') as f: f.write('x' * 500)\n"
                        "    os.rename('/dev/shm/a', '/dev/shm/b')",
    "fork and exec": "import subprocess\nfor _ in range(15): subprocess.run(['/bin/true'])",
}
PARSE = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
TIMED = "import time\nbegan = time.perf_counter()\n{program}\nprint(time.perf_counter() - began)"


CONTAINER = ("--isolation", "container")
EDIT = "open('d0/f0', 'a').write('y')"  # of a file that the call before has changed too
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


def timed(action, *arguments, **more):
    began = time.perf_counter()
    action(*arguments, **more)
    return time.perf_counter() - began


def processor_s(pid):
    """What a process of one thread has run, proc(5): what other load takes is not in it."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


class Bench:
    def __init__(self, binary, python, absent, scale):
        self.binary, self.python, self.absent, self.scale = binary, python, absent, scale

    def times(self, count):
        return max(3, int(count * self.scale))

    def sandpiper(self, *flags, **more):
        return contextlib.closing(Sandpiper(self.binary, self.python, *flags, **more))

    def both_ways(self, **actions):
        """Samples of each action in turn; a pause before each."""
        for name, action in actions.items():
            time.sleep(PAUSE_S)
            yield name, timed(action)

    # --- start ---

    def start(self):
        group = "start"
        for turn in range(self.times(25)):
            began = time.perf_counter()
            with self.sandpiper() as server:
                yield group, "sandpiper: initialize", time.perf_counter() - began
                server.run("pass")
                yield group, "sandpiper: first result", time.perf_counter() - began
            if "container level" not in self.absent:
                yield group, "container level: first result", self.first_result(
                    Sandpiper, self.binary, self.python, *CONTAINER)
            yield group, "python3 -c", timed(command, self.python, "-c", "pass")
            yield group, "python3 -I -S -c", timed(command, self.python, "-I", "-S", "-c", "pass")
            yield group, "exec loop: first result", self.first_result(ExecLoop, self.python)
            if "bubblewrap" not in self.absent:
                yield group, "bwrap python3 -c", timed(command, *BWRAP, self.python, "-c", "pass")
            if "ipykernel" not in self.absent and turn < 3:
                yield group, "ipykernel: first result", self.first_result(IPykernel, self.python)

    def first_result(self, kind, *arguments):
        began = time.perf_counter()
        with contextlib.closing(kind(*arguments)) as one:
            one.run("pass")
            return time.perf_counter() - began

    # --- a call in a running session ---

    def warm(self):
        code = "x = 1"
        with contextlib.ExitStack() as stack:
            enter = lambda one: stack.enter_context(contextlib.closing(one))
            ours = enter(Sandpiper(self.binary, self.python))
            ours.run(NO_CHECKPOINT, session="bare")
            others = {"exec loop": enter(ExecLoop(self.python))}
            if "bubblewrap" not in self.absent:
                others["exec loop in bwrap"] = enter(ExecLoop(self.python, BWRAP))
            actions = {"sandpiper": lambda: ours.run(code),
                       "sandpiper, no checkpoints": lambda: ours.run(code, session="bare"),
                       **{name: lambda one=one: one.run(code) for name, one in others.items()}}
            if "container level" not in self.absent:
                contained = enter(Sandpiper(self.binary, self.python, *CONTAINER))
                actions["container level"] = lambda: contained.run(code)
            if "ipykernel" not in self.absent:
                kernel = enter(IPykernel(self.python))
                actions["ipykernel"] = lambda: kernel.run(code)
            for action in actions.values():
                for _ in range(20):
                    action()
            for _ in range(self.times(250)):
                for name, seconds in self.both_ways(**actions):
                    yield "warm call, spaced", name, seconds
            for _ in range(self.times(40)):
                for name, action in actions.items():
                    time.sleep(PAUSE_S)
                    action()
                    for _ in range(5):
                        yield "warm call, back to back", name, timed(action)

    # --- a user's project as the workspace ---

    def project(self):
        """Copy-on-write: what the size of the project costs. The reference is the smallest project, which has the
        files that the calls change."""
        small, large = 10, max(1000, int(100_000 * self.scale))
        names = {small: f"{small} files", large: f"{large:,} files"}
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

    # --- a new interpreter ---

    def fresh(self):
        sets = [("nothing", [])]
        present = modules_of(self.python, ("numpy", "pandas"))
        if present:
            sets += [("numpy", ["numpy"])] if "numpy" in present else []
            sets += [("numpy, pandas", ["numpy", "pandas"])] if len(present) == 2 else []
        for label, names in sets:
            group = f"new interpreter, {label} imported"
            imports = "import " + ", ".join(names) if names else "pass"
            with self.sandpiper(*(("--preload", ",".join(names)) if names else ())) as server:
                server.run("pass")
                for turn in range(self.times(25 if not names else 12)):
                    actions = {"sandpiper: fresh": lambda: server.run(imports, fresh=True),
                               "sandpiper: reset": lambda: server.run(imports, reset=True),
                               "python3 -c": lambda: command(self.python, "-c", imports)}
                    if "bubblewrap" not in self.absent:
                        actions["bwrap python3 -c"] = lambda: command(*BWRAP, self.python, "-c", imports)
                    for name, seconds in self.both_ways(**actions):
                        yield group, name, seconds

    # --- the cost of a large state ---

    def sizes(self, megabytes):
        for kind, code in (("arrays", ARRAYS), ("objects", OBJECTS)):
            for mb in megabytes:
                yield from self.size(f"{kind}, {mb} MB", code.format(mb=mb), mb)

    def size(self, group, code, mb):
        limit = max(1024, 4 * mb)
        with self.sandpiper("--memory", f"{limit}M", "--timeout", "600") as server, \
                contextlib.closing(ExecLoop(self.python)) as loop:
            server.run(code)
            loop.run(code)
            for _ in range(self.times(12 if mb < 1000 else 5)):
                time.sleep(PAUSE_S + mb / 5000)
                yield group, "sandpiper: call, spaced", timed(server.run, TOUCH)
                yield group, "sandpiper: call, back to back", timed(server.run, TOUCH)
                time.sleep(PAUSE_S + mb / 5000)
                yield group, "sandpiper: crash to answer", timed(server.crash)
                yield group, "exec loop: call", timed(loop.run, TOUCH)
                yield group, "exec loop: fork alone", float(loop.run(FORK))

    # --- memory ---

    def memory(self):
        group = "memory"
        for _ in range(3):
            with self.sandpiper() as server:
                time.sleep(0.5)
                yield group, "sandpiper: idle, interpreter ready", pss_kib(server.pid)
                server.run("x = 1")
                time.sleep(0.3)
                before = pss_kib(server.pid)
                yield group, "sandpiper: one session, its checkpoint", before
                for name in "abcd":
                    server.run("x = 1", session=name)
                time.sleep(0.3)
                after = pss_kib(server.pid)
                yield group, "sandpiper: each further session", after and (after - before) / 4
            with contextlib.closing(ExecLoop(self.python)) as loop:
                loop.run("x = 1")
                yield group, "exec loop", pss_kib(loop.pid)
            if "ipykernel" not in self.absent:
                with contextlib.closing(IPykernel(self.python)) as kernel:
                    kernel.run("x = 1")
                    yield group, "ipykernel", pss_kib(kernel.pid)

    def pages(self):
        """How many pages the interpreter writes anew for a call because its checkpoint shares them: page faults."""
        calls = 20
        with self.sandpiper() as server, contextlib.closing(ExecLoop(self.python)) as loop:
            contestants = {"sandpiper": (server.run, lambda reply: reply["content"][0]["text"], "x = 1"),
                           "exec loop that forks": (loop.run, str, FORK + "x = 1")}
            for turn in range(self.times(5) + 1):
                for name, (run, text_of, code) in contestants.items():
                    before = int(text_of(run(FAULTS)).split("\n", 1)[0])
                    for _ in range(calls):
                        time.sleep(PAUSE_S)
                        run(code)
                    time.sleep(PAUSE_S)
                    if turn:  # the first warms up
                        after = int(text_of(run(FAULTS)).split("\n", 1)[0])
                        yield "pages written by a warm call", name, (after - before) / (calls + 1)

    # --- many servers on one machine ---

    def density(self):
        """Servers with a session each, all idle except the measured one."""
        others = self.times(100)
        start, warm, memory = "start to first result, many servers", "warm call, many servers", "memory, many servers"
        for _ in range(self.times(10)):
            yield start, "alone", self.first_result(Sandpiper, self.binary, self.python)
        with contextlib.ExitStack() as stack:
            def one_more():
                server = stack.enter_context(self.sandpiper())
                server.run("x = 1")
                return server
            first = one_more()
            time.sleep(1)
            for _ in range(self.times(100)):
                time.sleep(PAUSE_S)
                yield warm, "alone", timed(first.run, "x = 1")
            yield memory, "alone: its processes", pss_kib(first.pid)
            free = available_kib()
            servers = [one_more() for _ in range(others - 1)]
            for _ in range(self.times(10)):
                yield start, f"beside {others} idle", self.first_result(Sandpiper, self.binary, self.python)
            time.sleep(5)
            for _ in range(self.times(100)):
                time.sleep(PAUSE_S)
                yield warm, f"beside {others - 1} idle", timed(first.run, "x = 1")
            yield memory, f"each of {others - 1} more, by the machine", (free - available_kib()) / len(servers)
            for server in servers:
                yield memory, f"one of {others}: its processes", pss_kib(server.pid)

    # --- tools of other servers ---

    def tools(self):
        """1,000 calls of a tool by one cell and over a plain pipe, and what --tools costs where no tool is called."""
        stand_in = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e" / "tools" / "stand_in.py"
        calls = {"1,000 calls of a tool": ("echo", "value", 7), "1,000 pages of a tool": ("rows", "page", 7)}
        with tempfile.TemporaryDirectory() as directory:
            program = [self.python, str(stand_in), directory]
            file = pathlib.Path(directory) / "tools.json"
            file.write_text(json.dumps({"mcpServers": {"stand": {"command": program[0], "args": program[1:],
                                                                 "trust_hints": True}}}))
            file.chmod(0o600)
            flags = ("--tools", str(file))
            with self.sandpiper(*flags, "--timeout", "60") as server, contextlib.closing(ToolPipe(program)) as pipe:
                for _ in range(self.times(12)):
                    for group, (tool, name, value) in calls.items():
                        code = f"from sandpiper import tools\nfor _ in range(1000): tools.stand.{tool}({name}={value})"
                        yield group, "plain pipe", timed(lambda: [pipe.call(tool, {name: value}) for _ in range(1000)])
                        yield group, "one cell", timed(server.run, code)
            with self.sandpiper() as plain, self.sandpiper(*flags) as unused:
                for _ in range(self.times(25)):
                    yield "start, no tool called", "without --tools", self.first_result(Sandpiper, self.binary, self.python)
                    yield "start, no tool called", "with --tools", self.first_result(
                        Sandpiper, self.binary, self.python, *flags)
                    for name, server in {"without --tools": plain, "with --tools": unused}.items():
                        time.sleep(PAUSE_S)
                        yield "warm call, no tool called", name, timed(server.run, "x = 1")

    # --- output, and the code itself ---

    def output(self):
        code = "import sys\nfor _ in range(256): sys.stdout.write(('x' * 1023 + '\\n') * 64)"
        group = "16 MiB of output"
        with self.sandpiper() as server, contextlib.closing(ExecLoop(self.python)) as loop:
            for _ in range(self.times(8)):
                for name, seconds in self.both_ways(**{
                        "sandpiper": lambda: server.run(code), "exec loop": lambda: loop.run(code),
                        "python3 -c": lambda: command(self.python, "-c", code)}):
                    yield group, name, seconds

    def overhead(self):
        with self.sandpiper() as server, contextlib.closing(ExecLoop(self.python)) as loop:
            for _ in range(self.times(8)):
                for name, program in PROGRAMS.items():
                    code = TIMED.format(program=program)
                    text = server.run(code)["content"][0]["text"]
                    yield f"program: {name}", "sandpiper", float(text.split("\n", 1)[0])
                    yield f"program: {name}", "exec loop", float(loop.run(code))
