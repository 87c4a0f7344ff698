"""The input and output of an installer: the request on stdin, progress and the reply on descriptor 3."""
import json
import os
import sys
import time

CHANNEL = 3


def read_request():
    # So that no child of pip inherits them: the output of a build is not a reply.
    os.set_inheritable(CHANNEL, False)
    request = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return request


def send(answer):
    sys.stdout.flush()
    sys.stderr.flush()
    data = memoryview(json.dumps(answer).encode() + b"\n")
    while data:
        data = data[os.write(CHANNEL, data):]


def progress(text):
    send({"progress": text})


def megabytes(size):
    return "%.1f MB" % (size / 1e6) if size >= 1e5 else "%d kB" % -(-size // 1000)


def with_progress(chunks, what, total):
    """Passes the chunks on, and reports the progress every second."""
    done, last = 0, time.monotonic()
    for chunk in chunks:
        done += len(chunk)
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            progress("%s: %s%s" % (what, megabytes(done), " of " + megabytes(total) if total else ""))
        yield chunk
