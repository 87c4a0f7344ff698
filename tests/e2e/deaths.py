"""Ways in which code ends its own interpreter, and the beginning of the resulting status line.

Each is a few lines that run in the sandbox and do not return. KILLED_LATER kills the process from a thread {us}
microseconds after the cell has returned: during the result, the fork of the checkpoint, the wait for the next call, or
that call. GROUP_KILLED_LATER kills its whole process group.
"""

CLOSED = "crashed: connection to the interpreter lost|exit code 97"

SUDDEN = {
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", "crashed: SIGSEGV"),
    "abort": ("import os; os.abort()", "crashed: SIGABRT"),
    "exit": ("import os; os._exit(3)", "exit code 3"),
    "exit without error": ("import os; os._exit(0)", "exit code 0"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "crashed: SIGKILL"),
    "kill by a thread": (
        "import os, threading, time\n"
        "threading.Thread(target=os.kill, args=(os.getpid(), 9)).start(); time.sleep(60)",
        "crashed: SIGKILL"),
    "kill by a child": (
        "import os, time\nlive = os.getpid()\nif os.fork() == 0: os.kill(live, 9); os._exit(0)\n"
        "time.sleep(60)", "crashed: SIGKILL"),
    "kill of the process group": ("import os; os.killpg(0, 9)", "crashed: SIGKILL"),
    "terminated": ("import os, time; os.kill(os.getpid(), 15); time.sleep(60)", "crashed: SIGTERM"),
    "illegal instruction": (
        "import ctypes, mmap\npage = mmap.mmap(-1, 4096, prot=7); page.write(b'\\x0f\\x0b' * 64)\n"
        "start = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "ctypes.CFUNCTYPE(None)(start)()", "crashed: SIGILL"),
    # Recurses in the C library, because Python 3.14 checks the depth of its own calls, also through ctypes.
    "stack overflow": (
        "import ctypes\nctypes.CDLL(None).regcomp(ctypes.create_string_buffer(999), b'(' * (1 << 20), 1)",
        "crashed: SIGSEGV"),
    "another program": ("import os; os.execv('/bin/true', ['true'])", "exit code 0"),
    "closed channel": ("import os, time; os.close(64); time.sleep(0.01); 1", CLOSED),
    "closed channel, late exit": ("import os, time; os.close(64); time.sleep(1); os._exit(3)", "exit code 3"),
    "all descriptors closed": ("import os; os.closerange(0, 1000)", CLOSED),
    "too long a frame": (
        "import os, time; os.write(64, b'\\xff' * 64); time.sleep(60)", CLOSED),
    "half a frame": (
        "import os\nos.write(64, (64).to_bytes(4, 'little') + b'x'); os._exit(5)", "exit code 5"),
}
SLOW = {
    "no memory": (
        "filler = []\nwhile True: filler.append(bytearray(8 << 20))", "out of memory"),
    "stuck in native code": ("import itertools; sum(itertools.repeat(0))", "timeout"),
    "stops itself": ("import os; os.kill(os.getpid(), 19)", "timeout"),
    "swallows every interrupt": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", "timeout"),
    "becomes a program that stays": (
        "import os; os.execv('/bin/sleep', ['sleep', '60'])", "timeout"),
    "blocks every signal": (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "time.sleep(60)", "timeout"),
}
ALL = {**SUDDEN, **SLOW}

KILLED_LATER = (
    "import os, threading, time\n"
    "def strike(live=os.getpid()):\n"
    "    time.sleep({us} / 1e6)\n"
    "    os.kill(live, 9)\n"
    "threading.Thread(target=strike, daemon=True).start()")
GROUP_KILLED_LATER = KILLED_LATER.replace("os.kill(", "os.killpg(")
