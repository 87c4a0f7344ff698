"""Runs a program many times in forks of one interpreter, which has imported pip: the import takes longer than what most
tests do with it.

    python3 -I -B forking.py PROGRAM DESCRIPTOR

Each message on the socket is an environment as JSON, with the descriptors that become 0, 1 and 3 of a run.
"""
import atexit
import json
import os
import runpy
import socket
import sys

import pip._internal.commands.install
import pip._internal.commands.wheel  # noqa: F401


def run(program, environment, descriptors):
    for number, descriptor in zip((0, 1, 2, 3), (*descriptors[:2], descriptors[1], descriptors[2])):
        os.dup2(descriptor, number)
    os.closerange(4, 64)
    os.environ.clear()
    os.environ.update(environment)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()


def main():
    program, channel = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            run(program, json.loads(message), descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(pid, 0)


main()
