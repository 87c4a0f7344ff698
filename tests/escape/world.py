"""The host around the sandbox, as canary: what an attack would read, change, reach or kill.

The attack receives everything useful except the secret (W in its code), because the promise is containment, not
secrecy. After every attack unharmed() lists what happened to the canary; the list must be empty.
"""
import contextlib
import ctypes
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_RMID = 0o1000, 0


class World:
    def __init__(self):
        self.secret = "secret-" + secrets.token_hex(16)
        self.mark = secrets.token_hex(4)
        self.directory = tempfile.mkdtemp(prefix="sp-canary-")
        os.chmod(self.directory, 0o777)
        self.file = pathlib.Path(self.directory, "canary.txt")
        self.file.write_text(self.secret)
        self.file.chmod(0o666)
        self.shm = pathlib.Path(f"/dev/shm/sp-canary-{self.mark}")
        self.shm.write_text(self.secret)
        self.shm.chmod(0o666)
        self.victim = subprocess.Popen(["sleep", "3600"], env={"CANARY": self.secret})
        with contextlib.suppress(OSError):  # not every file system has extended attributes
            os.setxattr(self.file, "user.canary", self.secret.encode())
        self.listeners = [self.listen(socket.AF_UNIX, f"{self.directory}/socket"),
                          self.listen(socket.AF_UNIX, f"\0sp-canary-{self.mark}"),
                          self.listen(socket.AF_INET, ("127.0.0.1", 0)),
                          self.listen(socket.AF_INET, ("0.0.0.0", 0))]
        self.shm_id = LIBC.shmget(0, 4096, IPC_CREAT | 0o666)
        self.squatted = f"\0sp-squatted-{self.mark}"
        self.hostname = socket.gethostname()
        self.attributes_before, self.victim_before = self.attributes(), self.victim_state()
        self.names_before = self.names()

    @staticmethod
    def listen(family, address):
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen()
        listener.setblocking(False)
        return listener

    def names(self, top=""):
        """Of files where the sandbox could make some; with `top`, those written since tests/helpers/own_host.py began."""
        own = ("/", self.directory)
        return {pathlib.Path(directory, name) for directory in (*own, "/etc", "/usr", "/usr/bin", "/root")
                for place in [directory if directory in own else top + directory]
                if os.access(place, os.R_OK | os.W_OK) for name in os.listdir(place)}

    def attributes(self):
        return {path: (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns, os.listxattr(path))
                for path in map(str, (self.file, self.shm)) for st in [os.stat(path)]} | \
            {self.directory: os.stat(self.directory).st_mode}

    def victim_state(self):
        pid = self.victim.pid
        return (pathlib.Path(f"/proc/{pid}/limits").read_text(), os.getpriority(os.PRIO_PROCESS, pid),
                os.sched_getaffinity(pid), os.sched_getscheduler(pid))

    def facts(self, server_pid):
        return {"directory": self.directory, "file": str(self.file), "shm": str(self.shm),
                "victim": self.victim.pid, "server": server_pid, "tester": os.getpid(),
                "abstract": f"\0sp-canary-{self.mark}", "socket": f"{self.directory}/socket",
                "squatted": self.squatted,
                "ports": [listener.getsockname()[1] for listener in self.listeners[2:]],
                "shm_id": self.shm_id, "uid": os.getuid(), "hostname": self.hostname,
                "namespaces": {name: os.readlink(f"/proc/self/ns/{name}")
                               for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}}

    def unharmed(self):
        harm = []
        if self.file.read_text() != self.secret or self.shm.read_text() != self.secret:
            harm.append("a canary file was changed")
        if self.victim.poll() is not None or self.stopped():
            harm.append("the canary process was killed or stopped")
        elif self.victim_state() != self.victim_before:
            harm.append("the canary process has other limits or another place on the processors")
        if self.attributes() != self.attributes_before:
            harm.append(f"a canary file has other attributes: {self.attributes()}")
        for listener in self.listeners:
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                harm.append(f"a connection came in at {listener.getsockname()!r}")
        with socket.socket(socket.AF_UNIX) as free:
            try:
                free.bind(self.squatted)
            except OSError as error:
                harm.append(f"an abstract name was taken: {error}")
        if socket.gethostname() != self.hostname:
            harm.append("the host's name was changed")
        new = self.names(os.environ.get("SANDPIPER_TEST_CHANGES", "")) - self.names_before
        if new:
            harm.append(f"new files on the host: {new}")
        return harm

    def stopped(self):
        text = pathlib.Path(f"/proc/{self.victim.pid}/stat").read_text()
        return text[text.rindex(")") + 2] in "Tt"

    def close(self):
        self.victim.send_signal(signal.SIGKILL)
        self.victim.wait()
        for listener in self.listeners:
            listener.close()
        LIBC.shmctl(self.shm_id, IPC_RMID, None)
        self.shm.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)
