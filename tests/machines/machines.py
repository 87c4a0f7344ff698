"""Starts a virtual host, exchanges frames with the agent in it, and passes standard streams both ways."""
import io
import json
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import time
import zlib

from images import CACHE, Problem, fresh, kernel_dir, note, sh


# PROTOCOL: frames of 1 byte type, 4 bytes big-endian length, payload.
#   in:  P/p a tar stream to unpack over / and its end; J the job (JSON);
#        I/i standard input and its end; S a signal number for the command
#   out: H the agent has started (JSON); O/E output; L a log line; X the exit status (JSON)

def frame(kind, data=b""):
    return struct.pack(">cI", kind, len(data)) + data


def kernel_info(name):
    try:
        return json.load(open(kernel_dir(name) + "/kernel.json"))
    except OSError:
        raise Problem(f"no kernel {name} here yet: hostvm build --kernel {name}")


class Machine:
    """a guest: start() it, then out (readable fd), send(), stop()"""
    console = None

    def __init__(self, o, tmp):
        self.o, self.tmp, self.info = o, tmp, kernel_info(o.kernel)
        self.image = os.path.join(CACHE, "images", o.suite + ".ext4")
        if not os.path.exists(self.image):
            raise Problem(f"no image {o.suite} here yet: hostvm build {o.suite}")
        self.dir = kernel_dir(o.kernel)

    def common(self):
        return ["root=/dev/vda" if self.info["type"] == "pc" else "root=/dev/ubda", "rw", "systemd.unit=hostvm.target", "systemd.show_status=no", "quiet", "panic=-1"] + (self.o.append or "").split()

    def stop(self, ended):
        """wait until the guest powers itself off, or kill it"""
        if ended and self.proc.poll() is None:
            try:
                self.proc.wait(3)
            except subprocess.TimeoutExpired:
                pass
        for s in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.proc.pid, s)
            except ProcessLookupError:
                break
            try:
                self.proc.wait(1)
            except subprocess.TimeoutExpired:
                pass
        self.proc.wait()


class UserModeLinux(Machine):
    def start(self):
        a, self.inp = os.pipe()
        self.out, b = os.pipe()
        argv = [self.dir + "/linux", f"mem={self.o.memory}M", f"ubd0={self.tmp}/cow,{self.image}", f"ssl0=fd:{a},fd:{b}", "ssl=null", "con=null", "con0=null,fd:2", "con1=null",
                f"uml_dir={self.tmp}", "umid=vm", "hostvm.chan=/dev/ttyS0"] + self.common()
        if self.o.copies:       # a disk with the tar is faster than the serial line
            with open(self.tmp + "/copies", "wb") as f:
                f.write(pack(self.o.copies))
                f.truncate(f.tell() + (-f.tell() % 4096))
            argv.append(f"ubd1r={self.tmp}/copies")
        if os.path.isdir(self.dir + "/modules"):
            argv.append("hostvm.modules=" + self.dir + "/modules")
        if self.info.get("seccomp"):
            argv.append("seccomp=on")
        if self.info.get("smp") and self.o.cpus > 1:
            argv.append(f"ncpus={self.o.cpus}")
        if os.path.isdir(self.dir + "/lib"):    # its own C library, in a mount namespace of its own
            argv = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", 'mount --bind "$0" /usr/lib/x86_64-linux-gnu && exec "$@"', self.dir + "/lib"] + argv
        log = open(self.tmp + "/console", "wb")
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(a, b), start_new_session=True, env={**os.environ, "HOME": self.tmp, "TMPDIR": "/dev/shm"})
        os.close(a)
        os.close(b)

    def send(self, data):
        os.write(self.inp, data)

    def write_fd(self):
        return self.inp


class Pc(Machine):
    def argv(self, disk):
        return ["qemu-system-x86_64", "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.o.cpus), "-m", str(self.o.memory), "-nodefaults", "-no-user-config",
                "-display", "none", "-no-reboot", "-kernel", self.dir + "/vmlinux", "-initrd", self.dir + "/initrd",
                "-append", " ".join(self.common() + ["console=ttyS0", "nokaslr", "mitigations=off", "hostvm.chan=port:hostvm"]), "-serial", "file:" + self.tmp + "/console",
                "-drive", "if=none,id=d0,format=qcow2,cache=unsafe,file=" + disk, "-device", "virtio-blk-pci,drive=d0",
                "-chardev", f"socket,id=c0,path={self.tmp}/chan,server=on,wait=off", "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=c0,name=hostvm",
                "-qmp", f"unix:{self.tmp}/qmp,server=on,wait=off"]

    def state(self):
        """path of the saved state of such a machine just after its start"""
        key = f"{self.o.suite}-{self.o.cpus}-{self.o.memory}" + re.sub(r"[^A-Za-z0-9]+", "_", self.o.append or "")
        key += f"-{zlib.crc32(os.path.realpath(self.image).encode()):08x}"    # the disk refers to the image by path, so a moved cache needs a new state
        return os.path.join(self.dir, "started-" + key)

    def connect(self, name):
        s = socket.socket(socket.AF_UNIX)
        end = time.time() + 20
        while True:
            try:
                s.connect(f"{self.tmp}/{name}")
                return s
            except OSError:
                if time.time() > end or self.proc.poll() is not None:
                    raise Problem("qemu did not start:\n" + self.errors())
                time.sleep(0.02)

    def errors(self):
        return open(self.tmp + "/qemu.log").read()[-2000:]

    def start(self, saved=True):
        st = self.state()
        if saved:
            argv = self.argv(st + "/disk") + ["-snapshot", "-incoming", "exec:zstd -dcq " + st + "/ram"]
        else:
            sh("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.image, self.tmp + "/disk")
            argv = self.argv(self.tmp + "/disk")
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=open(self.tmp + "/qemu.log", "wb"), stderr=subprocess.STDOUT, start_new_session=True)
        self.sock = self.connect("chan")
        self.out = self.sock.fileno()

    def send(self, data):
        self.sock.sendall(data)

    def write_fd(self):
        return self.out

    def qmp(self, *commands):
        s = self.connect("qmp")
        f = s.makefile("rw")
        f.readline()
        r = None
        for c in [{"execute": "qmp_capabilities"}] + list(commands):
            f.write(json.dumps(c) + "\n")
            f.flush()
            while True:
                r = json.loads(f.readline())
                if "return" in r or "error" in r:
                    break
            if "error" in r:
                raise Problem("qemu: " + r["error"]["desc"])
        s.close()
        return r["return"]

    def save(self):
        """save this machine's state, so that later runs continue from here"""
        st = self.state()
        new = fresh(f"{st}.{os.getpid()}")
        self.qmp({"execute": "migrate-set-parameters", "arguments": {"max-bandwidth": 1 << 32}}, {"execute": "migrate", "arguments": {"uri": f"exec:zstd -q -1 -T0 -o {new}/ram -f"}})
        while True:
            s = self.qmp({"execute": "query-migrate"})["status"]
            if s == "completed":
                break
            if s == "failed":
                raise Problem("saving the machine's state failed")
            time.sleep(0.1)
        self.qmp({"execute": "quit"})
        self.proc.wait(20)
        shutil.move(self.tmp + "/disk", new + "/disk")
        shutil.rmtree(st, ignore_errors=True)
        os.rename(new, st)


def machine(o, tmp):
    return (Pc if o.kernel.startswith("pc:") else UserModeLinux)(o, tmp)


class Talk:
    """frames from a machine, with a deadline"""

    def __init__(self, m, deadline):
        self.m, self.buf, self.deadline = m, bytearray(), deadline

    def frames(self):
        while len(self.buf) >= 5:
            kind, n = struct.unpack(">cI", self.buf[:5])
            if len(self.buf) < 5 + n:
                return
            data = bytes(self.buf[5:5 + n])
            del self.buf[:5 + n]
            yield kind, data

    def fill(self):
        d = os.read(self.m.out, 1 << 16)
        if not d:
            raise Problem("the machine went away:\n" + tail(self.m))
        self.buf += d

    def hello(self):
        sel = selectors.DefaultSelector()
        sel.register(self.m.out, selectors.EVENT_READ)
        while True:
            for kind, data in self.frames():
                if kind == b"H":
                    return json.loads(data)
                if kind == b"X":
                    raise Problem("in the guest: " + json.loads(data).get("error", "?"))
            if time.time() > self.deadline:
                raise Problem("the machine did not start in time:\n" + tail(self.m))
            if sel.select(0.5):
                self.fill()
            elif self.m.proc.poll() is not None:
                raise Problem("the machine stopped while starting:\n" + tail(self.m))


def tail(m):
    try:
        return open(m.tmp + "/console", errors="replace").read()[-3000:]
    except OSError:
        return ""


def pack(copies):
    """a tar of the files to copy in, owned by the ordinary user"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        def owner(i):
            if os.path.basename(i.name) in (".git", "node_modules", "__pycache__"):
                return None
            i.uid = i.gid = 1000
            i.uname = i.gname = ""
            return i
        for src, dst in copies:
            t.add(src, arcname=dst.lstrip("/"), filter=owner)
    return out.getvalue()


def converse(m, talk, o, job):
    """send the job, pass standard streams both ways, return the exit code"""
    out = bytearray()
    tar = pack(o.copies) if o.copies and not job["disk"] else b""
    for i in range(0, len(tar), 1 << 16):
        out += frame(b"P", tar[i:i + (1 << 16)])
    if tar:
        out += frame(b"p")
    out += frame(b"J", json.dumps(job).encode())
    sel = selectors.DefaultSelector()
    sel.register(m.out, selectors.EVENT_READ, "guest")
    wfd = m.write_fd() if m.write_fd() != m.out else os.dup(m.out)
    os.set_blocking(wfd, False)
    stdin = None if o.no_input else 0
    stdin_on = writing = False
    pending_signals = []
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda n, _: pending_signals.append(n))
    rfd, sfd = os.pipe()
    os.set_blocking(sfd, False)
    signal.set_wakeup_fd(sfd)
    sel.register(rfd, selectors.EVENT_READ, "signal")
    if stdin is None:
        out += frame(b"i")
    end = None
    while True:
        while pending_signals:
            out += frame(b"S", bytes([pending_signals.pop(0)]))
        if stdin is not None and stdin_on != (len(out) < 1 << 18):
            try:
                (sel.unregister(stdin) if stdin_on else sel.register(stdin, selectors.EVENT_READ, "stdin"))
                stdin_on = not stdin_on
            except PermissionError:         # epoll refuses a regular file: read it on demand
                data = os.read(stdin, 1 << 16)
                out += frame(b"I", data) if data else frame(b"i")
                if not data:
                    stdin = None
        if bool(out) != writing:
            (sel.unregister(wfd) if writing else sel.register(wfd, selectors.EVENT_WRITE, "write"))
            writing = not writing
        left = talk.deadline - time.time()
        if left <= 0:
            raise TimeoutError
        for key, _ in sel.select(min(left, 1.0)):
            if key.data == "guest":
                talk.fill()
            elif key.data == "write":
                try:
                    del out[:os.write(wfd, out[:1 << 16])]
                except BlockingIOError:
                    pass
            elif key.data == "stdin":
                data = os.read(stdin, 1 << 16)
                out += frame(b"I", data) if data else frame(b"i")
                if not data:
                    sel.unregister(stdin)
                    stdin, stdin_on = None, False
            else:
                os.read(rfd, 512)
        for kind, data in talk.frames():
            if kind in (b"O", b"E"):
                fd = 1 if kind == b"O" else 2
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view):]
            elif kind == b"L":
                note(data.decode(errors="replace").strip())
            elif kind == b"X":
                end = json.loads(data)
        if end:
            if "error" in end:
                raise Problem("in the guest: " + end["error"])
            return end
        if m.proc.poll() is not None and not sel.select(0.2):
            raise Problem("the machine stopped while the command ran:\n" + tail(m))


def save_started(o):
    """start a pc: machine once and save its state: a start takes most of a minute, continuing a second"""
    t0 = time.time()
    with tempfile.TemporaryDirectory(prefix="hostvm.", dir=os.environ.get("TMPDIR") or "/dev/shm") as tmp:
        m = Pc(o, tmp)
        if os.path.exists(m.state() + "/ram"):
            return
        note(f"starting {o.suite} with {o.kernel} once, to keep its state")
        m.start(saved=False)
        try:
            Talk(m, t0 + 300).hello()
            time.sleep(3)               # let it become idle
            m.save()
        finally:
            m.stop(False)
    note(f"that took {time.time() - t0:.0f} s")


def run(o):
    if o.kernel.startswith("pc:"):
        save_started(o)
    t0 = time.time()
    job = {"argv": o.command, "session": o.session, "user": o.user, "cwd": o.cwd, "env": dict(e.split("=", 1) for e in o.env), "sysctl": o.sysctl, "client_env": o.client_env,
           "apparmor": o.apparmor, "share": o.shares if o.kernel.startswith("um:") else [], "clock": None,
           "disk": "/dev/ubdb" if o.copies and o.kernel.startswith("um:") else None}
    if o.apparmor:
        job["argv"] = ["aa-exec", "-p", "hostvm-" + o.apparmor, "--"] + job["argv"]
    if o.shares and not job["share"]:
        o.copies += o.shares                # a pc: kernel has no shared file system
    with tempfile.TemporaryDirectory(prefix="hostvm.", dir=os.environ.get("TMPDIR") or "/dev/shm") as tmp:
        m, end = machine(o, tmp), None
        m.start()
        try:
            talk = Talk(m, t0 + o.timeout)
            if isinstance(m, Pc):
                job["clock"] = time.time()
            else:
                talk.hello()
            t1 = time.time()
            try:
                end = converse(m, talk, o, job)
            except TimeoutError:
                note(f"timeout after {o.timeout} s")
                return 124
            t2 = time.time()
        except Problem as e:
            if o.verbose:
                note("console:\n" + tail(m))
            raise
        finally:
            m.stop(end is not None)
            if o.keep_console:
                shutil.copy(tmp + "/console", o.keep_console)
        if o.times:
            note(f"start {t1 - t0:.2f} s, command {t2 - t1:.2f} s ({end['seconds']:.2f} s inside), stop {time.time() - t2:.2f} s, total {time.time() - t0:.2f} s")
        return end["rc"]
