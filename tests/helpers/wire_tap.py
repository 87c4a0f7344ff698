"""Runs between a client and a server and checks the server's output.

    wire_tap.py DIRECTORY SERVER ARG...

It writes DIRECTORY/PID.open, and at exit renames it to PID.json: the number of lines, the complaints, the number of
cancellations that the client sent, and the server's exit status. It forwards signals to the server and exits with it.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

from wire import Wire


def from_host(server, wire, counts):
    while data := os.read(0, 1 << 16):
        counts["cancelled"] += data.count(b'"notifications/cancelled"')
        wire.sent(data)
        try:
            server.stdin.write(data)
            server.stdin.flush()
        except BrokenPipeError:
            return
    wire.sent(b"\n")
    server.stdin.close()


def to_host(server, wire):
    for line in server.stdout:
        wire.received(line)
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the client may exit at any time
            pass


def main(directory, *command):
    report = pathlib.Path(directory, f"{os.getpid()}.open")
    report.touch()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wire, counts = Wire(), {"cancelled": 0}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: server.send_signal(got))
    threading.Thread(target=from_host, args=(server, wire, counts), daemon=True).start()
    to_host(server, wire)
    status = server.wait()
    report.write_text(json.dumps({"lines": wire.count, "complaints": wire.complaints, "status": status, **counts}))
    report.rename(report.with_suffix(".json"))
    os._exit(max(0, status))  # the other thread may still wait for the client


if __name__ == "__main__":
    main(*sys.argv[1:])
