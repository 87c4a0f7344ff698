"""The measures of Sandpiper itself: start, calls, states, memory, output."""
import contextlib
import time

from contestants import (BWRAP, ExecLoop, IPykernel, Sandpiper, command, modules_of, processor_by_role, processor_s, pss_kib,
                         tree)
from measuring import PAUSE_S, timed
from workloads import Workloads

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
HOST_S = 0.5  # a host connects long before its model calls
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
    "stat, open, read": "import os, tempfile\nwith tempfile.NamedTemporaryFile('w') as t:\n    t.write('x' * 100)\n    t.flush()\n"
                        "    for _ in range(8000):\n        os.stat(t.name)\n        with open(t.name) as f: f.read()",
    "getppid": "import os\nfor _ in range(300_000): os.getppid()",
    "pipe there and back": "import os, threading\na, b = os.pipe(), os.pipe()\ndef echo():\n"
                           "    for _ in range(8000): os.write(b[1], os.read(a[0], 1))\n"
                           "other = threading.Thread(target=echo)\nother.start()\n"
                           "for _ in range(8000): os.write(a[1], b'x'); os.read(b[0], 1)\nother.join()",
    "write and rename": "import os, tempfile\nwith tempfile.TemporaryDirectory(dir='/dev/shm') as d:\n    for i in range(4000):\n"
                        "        with open(d + '/a', 'w') as f: f.write('x' * 500)\n        os.rename(d + '/a', d + '/b')",
    "fork and exec": "import subprocess\nfor _ in range(15): subprocess.run(['/bin/true'])",
}
ROLES = {"sandpiper": "server", "sandpiper-init": "init", "sp-keeper": "keeper", "sp-session-defa": "session"}
TIMED = "import time\nbegan = time.perf_counter()\n{program}\nprint(time.perf_counter() - began)"


CONTAINER = ("--isolation", "container")
class Bench(Workloads):
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

    # --- a call in a running session ---

    def warm(self):
        code = "x = 1"
        with contextlib.ExitStack() as stack:
            enter = lambda one: stack.enter_context(contextlib.closing(one))
            ours = enter(Sandpiper(self.binary, self.python))
            self.rest(HOST_S)
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
            yield from self.bursts("warm call, 3 ms between", 0.003, 25, 10, actions)
            yield from self.bursts("warm call, back to back", 0, 40, 5, actions)
            yield from self.bursts("warm call, 100 ms between", 0.1, 12, 5, {
                name: actions[name] for name in ("sandpiper", "exec loop")})

    # --- a new interpreter ---

    def fresh(self):
        sets = [("nothing", [])]
        present = modules_of(self.python, [name for name in ("numpy", "pandas") if name not in self.absent])
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

    def crash(self):
        with self.sandpiper() as server:
            server.run("x = 1")
            for _ in range(self.times(40)):
                self.rest(PAUSE_S)
                yield "crash", "sandpiper: crash to response", timed(server.crash)

    # --- memory, pages and processor time ---

    def memory(self):
        group = "memory"
        for _ in range(self.times(3)):
            with self.sandpiper() as server:
                self.rest(HOST_S)
                yield group, "sandpiper: idle, interpreter ready", pss_kib(tree(server.pid))
                server.run("x = 1")
                self.rest(0.3)
                before = pss_kib(tree(server.pid))
                if before is None:
                    self.absent["PSS"] = "the kernel shows it to root only"
                yield group, "sandpiper: one session, its checkpoint", before
                for name in "abcd":
                    server.run("x = 1", session=name)
                self.rest(0.3)
                after = pss_kib(tree(server.pid))
                yield group, "sandpiper: each further session", after and (after - before) / 4
            with contextlib.closing(ExecLoop(self.python)) as loop:
                loop.run("x = 1")
                yield group, "exec loop", pss_kib([loop.pid])
            if "ipykernel" not in self.absent:
                with contextlib.closing(IPykernel(self.python)) as kernel:
                    kernel.run("x = 1")
                    yield group, "ipykernel", pss_kib(tree(kernel.pid))

    def pages(self):
        """How many pages the interpreter writes anew for a call because its checkpoint shares them: page faults."""
        calls = self.times(20)
        with self.sandpiper() as server, contextlib.closing(ExecLoop(self.python)) as loop:
            self.rest(HOST_S)
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

    def processor(self):
        """What all processes of a server run for a call, and each by its role. Checkpoints exit, which the kernel counts in
        ticks: so many calls make a sample that a tick is 4 % of a millisecond."""
        calls, group, code = self.times(250), "processor time of a warm call", "x = 1"
        with self.sandpiper() as server, contextlib.closing(ExecLoop(self.python)) as loop:
            self.rest(HOST_S)
            for turn in range(self.times(3) + 1):
                before, bare = processor_by_role(server.pid), processor_s(loop.pid)
                for _ in range(calls if turn else 20):  # the first warms up
                    for one in (server, loop):
                        time.sleep(0.003)
                        one.run(code)
                self.rest(PAUSE_S)
                if turn:
                    spent = {name: (value - before.get(name, 0)) / calls for name, value in processor_by_role(server.pid).items()}
                    yield group, "all processes", sum(spent.values())
                    for name, role in ROLES.items():
                        yield group, role, spent.pop(name, None)
                    yield group, "checkpoints and others", sum(spent.values())
                    yield group, "exec loop", (processor_s(loop.pid) - bare) / calls

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
