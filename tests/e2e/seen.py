"""Whether the keeper is notified of each program's writes: not on an old kernel, nor below an engine with a listener of its own."""
import functools
import os
import tempfile

from client import Server, give_away

UNSEEN = "undo takes back what Python code itself did to files"


@functools.cache
def sees_writes():
    with tempfile.TemporaryDirectory(prefix="sp-seen-") as directory:
        os.chmod(directory, 0o755)
        give_away(directory)
        with Server("--workspace", directory) as server:
            return UNSEEN not in server.python("1").text
