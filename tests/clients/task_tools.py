"""Gives a server the tools of the official suite's scenarios about tasks: task_tools.py SERVER ARG...

Their calls become calls of run_python. All other messages pass unchanged.
"""
import json
import subprocess
import sys
import threading

CODE = {
    "greet": "print('Hello, {name}!')",
    "slow_compute": "import time; time.sleep({seconds}); print('computed')",
    "failing_job": "import time; time.sleep(1); raise ValueError",
}


def replaced(line):
    message = json.loads(line)
    params = message.get("params", {})
    code = CODE.get(params.get("name")) if message.get("method") == "tools/call" else None
    if code is None:
        return line
    given = {"name": "", "seconds": 0, **params.get("arguments", {})}
    params.update(name="run_python", arguments={"code": code.format(**given)})
    return json.dumps(message).encode() + b"\n"


def to_server(server):
    with server.stdin:
        for line in sys.stdin.buffer:
            server.stdin.write(replaced(line))
            server.stdin.flush()


def main():
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Thread(target=to_server, args=(server,), daemon=True).start()
    for line in server.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    sys.exit(server.wait())


main()
