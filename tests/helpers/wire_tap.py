"""Stands between a host and a server and judges what the server writes.

    tap.py FOLDER SERVER ARG...

FOLDER gets PID.open, which at the end becomes PID.json: the number of lines, the complaints, how many
cancellations the host sent, and the server's exit status. Signals go on to the server; the tap ends with it.
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
        except BrokenPipeError:  # the host may go without a word
            pass


def main(folder, *command):
    report = pathlib.Path(folder, f"{os.getpid()}.open")
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
    os._exit(max(0, status))  # the other thread may still wait for the host


if __name__ == "__main__":
    main(*sys.argv[1:])
