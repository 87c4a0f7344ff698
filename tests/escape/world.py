"""The host around the sandbox, as bait: what an attack would read, change, reach or kill.

Everything that an attacker could want to know is told to it (W in the attack's code), because the
promise is containment, not secrecy. The secret is the one thing that is not told. After every attack
unharmed() says what happened to the bait; an empty list is the good answer.
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
        self.folder = tempfile.mkdtemp(prefix="sp-bait-")
        os.chmod(self.folder, 0o777)
        self.file = pathlib.Path(self.folder, "canary.txt")
        self.file.write_text(self.secret)
        self.file.chmod(0o666)
        self.shm = pathlib.Path(f"/dev/shm/sp-bait-{os.getpid()}")
        self.shm.write_text(self.secret)
        self.shm.chmod(0o666)
        self.victim = subprocess.Popen(["sleep", "3600"], env={"BAIT": self.secret})
        with contextlib.suppress(OSError):  # not every file system has them
            os.setxattr(self.file, "user.bait", self.secret.encode())
        self.listeners = [self.listen(socket.AF_UNIX, f"{self.folder}/socket"),
                          self.listen(socket.AF_UNIX, f"\0sp-bait-{os.getpid()}"),
                          self.listen(socket.AF_INET, ("127.0.0.1", 0)),
                          self.listen(socket.AF_INET, ("0.0.0.0", 0))]
        self.shm_id = LIBC.shmget(0, 4096, IPC_CREAT | 0o666)
        self.squatted = f"\0sp-squatted-{os.getpid()}"
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

    def names(self):
        return {path for folder in ("/", "/etc", "/usr", "/usr/bin", "/root", self.folder)
                if os.access(folder, os.R_OK) for path in pathlib.Path(folder).iterdir()}

    def attributes(self):
        return {path: (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns, os.listxattr(path))
                for path in map(str, (self.file, self.shm)) for st in [os.stat(path)]} | \
            {self.folder: os.stat(self.folder).st_mode}

    def victim_state(self):
        pid = self.victim.pid
        return (pathlib.Path(f"/proc/{pid}/limits").read_text(), os.getpriority(os.PRIO_PROCESS, pid),
                os.sched_getaffinity(pid), os.sched_getscheduler(pid))

    def told(self, server_pid):
        return {"folder": self.folder, "file": str(self.file), "shm": str(self.shm),
                "victim": self.victim.pid, "server": server_pid, "tester": os.getpid(),
                "abstract": f"\0sp-bait-{os.getpid()}", "socket": f"{self.folder}/socket",
                "squatted": self.squatted,
                "ports": [listener.getsockname()[1] for listener in self.listeners[2:]],
                "shm_id": self.shm_id, "uid": os.getuid(), "hostname": self.hostname,
                "namespaces": {name: os.readlink(f"/proc/self/ns/{name}")
                               for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}}

    def unharmed(self):
        harm = []
        if self.file.read_text() != self.secret or self.shm.read_text() != self.secret:
            harm.append("a bait file was changed")
        if self.victim.poll() is not None or self.stopped():
            harm.append("the bait process was killed or stopped")
        elif self.victim_state() != self.victim_before:
            harm.append("the bait process has other limits or another place on the processors")
        if self.attributes() != self.attributes_before:
            harm.append(f"a bait file has other attributes: {self.attributes()}")
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
        new = self.names() - self.names_before
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
        shutil.rmtree(self.folder, ignore_errors=True)
