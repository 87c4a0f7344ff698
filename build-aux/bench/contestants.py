"""The contestants: Sandpiper and its alternatives. All are driven from outside.

Each contestant starts in its constructor, runs code with run(code) until the code has ended, has its process in pid,
and ends with close().
"""
import json
import os
import shutil
import subprocess

EXEC_LOOP = """
import sys
space = {"__name__": "__main__"}
for line in sys.stdin:
    exec(eval(line), space)
    sys.stdout.write("\\0\\n")
    sys.stdout.flush()
"""
BWRAP = ["bwrap", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev",
         "--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--new-session"]
INITIALIZE = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "bench", "version": "1"}}
SHOWS_VIEWS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


class Failed(Exception):
    """A contestant failed."""


class Sandpiper:
    def __init__(self, binary, python, *flags, capabilities=None, wrap=()):
        self.process = subprocess.Popen([*wrap, binary, "--python", python, *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                   "params": {**INITIALIZE, "capabilities": capabilities or {}}})
        self.receive()

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed("the server ended")
            message = json.loads(line)
            if "id" in message:
                return message

    def call(self, tool, **arguments):
        self.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments}})
        return self.receive()["result"]

    def use(self, tool, **arguments):
        result = self.call(tool, **arguments)
        if result.get("isError"):
            raise Failed(result["content"][0]["text"])
        return result

    def run(self, code, **arguments):
        return self.use("run_python", code=code, **arguments)

    def crash(self, session="default"):
        """Kills the interpreter; returns after the failover to its checkpoint."""
        text = self.call("run_python", code="import os; os.kill(os.getpid(), 9)",
                         session=session)["content"][0]["text"]
        if "state: restored to the state before this call" not in text:
            raise Failed(text)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(20)


class ExecLoop:
    """The minimum: exec() at the other end of two pipes. No sandbox (but wrap), no capture, no limits."""

    def __init__(self, python, wrap=()):
        self.process = subprocess.Popen([*wrap, python, "-c", EXEC_LOOP], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def run(self, code):
        """Returns what the code printed."""
        self.process.stdin.write(repr(code).encode() + b"\n")
        self.process.stdin.flush()
        printed = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed("the exec loop ended")
            if line.endswith(b"\0\n"):
                printed.append(line[:-2])
                return b"".join(printed).decode()
            printed.append(line)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(20)


class ToolPipe:
    """A client at the other end of a tool server's pipes, without anything between."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.count = 0

    def call(self, tool, arguments):
        self.count += 1
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        request = {"jsonrpc": "2.0", "id": self.count, "method": "tools/call", "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())["result"]
        return result.get("structuredContent") or json.loads(result["content"][0]["text"])

    def close(self):
        self.process.kill()
        self.process.communicate()


class IPykernel:
    """A kernel driven as notebooks do it, through jupyter_client."""

    def __init__(self, python):
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager()
        self.manager.kernel_spec.argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.pid = self.manager.provisioner.pid

    def run(self, code):
        reply = self.client.execute_interactive(code, timeout=60, output_hook=lambda message: None)
        if reply["content"]["status"] != "ok":
            raise Failed(str(reply["content"]))

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def command(*arguments):
    """Runs a command to its end."""
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def missing(python, binary, without):
    """{contestant: why it does not take part here}"""
    found = {name: "--without" for name in without}
    if subprocess.run([binary, "doctor", "--isolation", "container", "--python", python], capture_output=True).returncode > 1:
        found["container level"] = "unavailable here, see sandpiper doctor --isolation=container"
    if not shutil.which("bwrap"):
        found["bubblewrap"] = "bwrap is not installed"
    elif subprocess.run([*BWRAP, python, "-c", "pass"], capture_output=True).returncode:
        found["bubblewrap"] = "bwrap cannot make a sandbox here"
    if "ipykernel" in found:
        return found
    try:
        import jupyter_client
    except ImportError:
        found["ipykernel"] = "jupyter_client is not installed for the Python that runs this"
    if subprocess.run([python, "-c", "import ipykernel"], capture_output=True).returncode:
        found["ipykernel"] = f"{python} has no ipykernel"
    return found


def modules_of(python, names):
    return [name for name in names
            if not subprocess.run([python, "-c", f"import {name}"], capture_output=True).returncode]


def of_process(pid, name):
    """The text of /proc/PID/NAME; None if the process has exited."""
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None


def stat(pid):
    """(name, the fields of proc(5) from the state on)"""
    text = of_process(pid, "stat")
    return text and (text[text.index("(") + 1:text.rindex(")")], text.rsplit(")", 1)[1].split())


def children():
    """{process: its children}, of all processes."""
    found = {}
    for pid in [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]:
        row = stat(pid)
        if row:
            found.setdefault(int(row[1][1]), []).append(pid)
    return found


def tree(pid, below=None):
    """A process and all its descendants."""
    below, found = below or children(), [pid]
    for one in found:
        found += below.get(one, [])
    return found


def pss_kib(pids):
    """Proportional memory of the processes; None if the kernel does not report it."""
    total = 0
    for pid in pids:
        try:
            rows = of_process(pid, "smaps_rollup") or ""
        except PermissionError:
            return None
        total += next((int(line.split()[1]) for line in rows.splitlines() if line.startswith("Pss:")), 0)
    return total


def processor_s(pid):
    """What a process of one thread has run: what other load takes is not in it."""
    return int(of_process(pid, "schedstat").split()[0]) / 1e9


def processor_by_role(pid):
    """{name of a process, "exited": seconds} of a process and its descendants. A process that exits moves to "exited"
    of its parent, in ticks of the kernel, so that the sum of all grows by what all have run."""
    found = {"exited": 0}
    for one in tree(pid):
        row, own = stat(one), of_process(one, "schedstat")
        if row and own:
            found[row[0]] = found.get(row[0], 0) + int(own.split()[0]) / 1e9
            found["exited"] += sum(map(int, row[1][13:15])) / os.sysconf("SC_CLK_TCK")
    return found


def available_kib():
    """What the machine could still give to programs, by the kernel's own estimate."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
