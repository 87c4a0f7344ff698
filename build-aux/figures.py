"""Measure what Sandpiper costs beside the bare interpreter, on this machine:

    figures.py PATH-TO-sandpiper [PYTHON]

Prints one line a figure: binary size; process start to the initialize answer; process start to the
first run_python result, beside `python3 -c pass`; warm round trip, beside a bare loop that sends code
over a pipe to exec(); resident memory of the server.
"""
import json
import os
import statistics
import subprocess
import sys
import time

BARE_LOOP = """
import sys
for line in sys.stdin:
    exec(line)
    sys.stdout.write("done\\n")
    sys.stdout.flush()
"""
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {},
    "clientInfo": {"name": "figures", "version": "1"}}}


def ms(seconds):
    return f"{seconds * 1000:.3f} ms"


class Server:
    def __init__(self, binary, python):
        self.began = time.perf_counter()
        self.process = subprocess.Popen([binary, "--python", python], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.request(INITIALIZE)
        self.initialized = time.perf_counter() - self.began

    def request(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def python(self, code):
        answer = self.request({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "run_python", "arguments": {"code": code}}})
        if answer["result"].get("isError"):
            sys.exit(answer["result"]["content"][0]["text"])

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def median_of_starts(binary, python, count=15):
    initialized, first = [], []
    for _ in range(count):
        server = Server(binary, python)
        server.python("pass")
        first.append(time.perf_counter() - server.began)
        initialized.append(server.initialized)
        server.close()
    return statistics.median(initialized), statistics.median(first)


def median_of(action, count):
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def warm(binary, python, count=2000):
    server = Server(binary, python)
    server.python("x = 1")
    ours = median_of(lambda: server.python("x + 1; None"), count)
    with open(f"/proc/{server.process.pid}/status") as file:
        resident = next(line.split(":")[1].strip() for line in file if line.startswith("VmRSS"))
    server.close()
    loop = subprocess.Popen([python, "-c", BARE_LOOP], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)

    def bare():
        loop.stdin.write(b"x = 1\n")
        loop.stdin.flush()
        loop.stdout.readline()
    bare()
    theirs = median_of(bare, count)
    loop.stdin.close()
    loop.wait(10)
    return ours, theirs, resident


def main():
    binary = sys.argv[1]
    python = sys.argv[2] if len(sys.argv) > 2 else "/usr/bin/python3"
    print(f"binary size              {os.path.getsize(binary):,} bytes")
    initialized, first = median_of_starts(binary, python)
    bare_start = median_of(lambda: subprocess.run([python, "-c", "pass"]), 15)
    isolated = median_of(lambda: subprocess.run([python, "-I", "-S", "-c", "pass"]), 15)
    print(f"initialize answered      {ms(initialized)}")
    print(f"first run_python result  {ms(first)} ({first / bare_start:.2f} x python3 -c pass: "
          f"{ms(bare_start)}; -I -S: {ms(isolated)})")
    ours, theirs, resident = warm(binary, python)
    print(f"warm round trip          {ms(ours)} ({ours / theirs:.2f} x bare loop: {ms(theirs)})")
    print(f"resident memory, server  {resident}")


if __name__ == "__main__":
    main()
