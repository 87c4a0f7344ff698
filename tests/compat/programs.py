"""Programs and libraries that use calls of the kernel which few others use. Sent as one cell; each function is a case."""
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading


def messages_by_zmq():
    if importlib.util.find_spec("zmq") is None:
        return "zmq is not there"
    code = ("import zmq\ncontext = zmq.Context()\na = context.socket(zmq.PUSH); a.bind('inproc://x')\n"
            "b = context.socket(zmq.PULL); b.connect('inproc://x')\na.send(b'said'); print(b.recv().decode())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "said\n", (done.returncode, done.stderr)


def programs_of_the_system_are_found():
    for name in ("ldconfig", "sysctl"):
        here = [d for d in ("/usr/sbin", "/sbin") if os.access(f"{d}/{name}", os.X_OK)]
        assert not here or shutil.which(name), (name, os.environ["PATH"])
    assert os.environ["PATH"].index("/usr/bin:") < os.environ["PATH"].index("/usr/sbin:")
