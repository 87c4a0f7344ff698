"""Images and kernels of the virtual hosts, built from Debian packages into a cache directory.

An image is a Debian with systemd as pid 1, an ordinary user whose manager runs, and the agent of
agent.py. pc:SUITE is Debian's own kernel for QEMU; um:SUITE is User-Mode Linux.
"""
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CACHE = os.environ.get("HOSTVM_CACHE") or os.path.expanduser("~/.cache/hostvm")

SUITES = ("bookworm", "trixie", "forky")    # Debian 12, 13, and the next
PACKAGES = ("systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3,bubblewrap,kmod,procps,"
            "util-linux,apparmor,crun,libjansson4,libseccomp2,libcap2,libsystemd0,strace,iproute2,python3-venv,python3-numpy,git")

# host: defaults that options to `run` may override
HOSTS = {
    "debian12-user": dict(suite="bookworm", session="app", about="desktop program: a scope below user@1000.service"),
    "debian12-login": dict(suite="bookworm", session="login", about="login or ssh shell: logind's session-N.scope"),
    "debian12-service": dict(suite="bookworm", session="service", about="system service with User=, nothing delegated"),
    "debian12-bare": dict(suite="bookworm", session="bare", about="cron-like: another's cgroup, no session"),
    "debian12-root": dict(suite="bookworm", session="login", user="root", about="root's login shell"),
    "debian12-v1": dict(suite="bookworm", session="app", append="systemd.unified_cgroup_hierarchy=0", about="desktop program, cgroup v1 (hybrid)"),
    "debian12-nouserns": dict(suite="bookworm", session="app", sysctl={"user.max_user_namespaces": "0"}, about="user namespaces switched off"),
    "debian13-user": dict(suite="trixie", session="app", about="as debian12-user, systemd 257, Linux 6.12"),
    "debian13-login": dict(suite="trixie", session="login", about="as debian12-login"),
    "debian13-root": dict(suite="trixie", session="login", user="root", about="root's login shell"),
    "debian14-user": dict(suite="forky", session="app", about="as debian12-user, newest systemd and Linux"),
    "debian14-login": dict(suite="forky", session="login", about="as debian12-login"),
    "debian14-root": dict(suite="forky", session="login", user="root", about="root's login shell"),
    "ubuntu2404-user": dict(suite="trixie", session="app", apparmor="ubuntu", append="security=apparmor", about="user namespaces without capabilities, as Ubuntu's AppArmor rule makes them"),
    "docker-root": dict(suite="trixie", session="docker", user="root", about="root in a container with Docker's default confinement"),
    "docker-user": dict(suite="trixie", session="docker", about="ordinary user in such a container"),
}

MASK = """systemd-udevd.service systemd-udev-trigger.service systemd-udev-settle.service systemd-udevd-kernel.socket
systemd-udevd-control.socket systemd-udevd-varlink.socket e2scrub_reap.service e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer
dpkg-db-backup.timer fstrim.timer systemd-pstore.service systemd-modules-load.service systemd-binfmt.service
proc-sys-fs-binfmt_misc.automount systemd-random-seed.service systemd-update-utmp.service systemd-update-utmp-runlevel.service
getty.target getty-static.service getty@tty1.service console-getty.service serial-getty@.service modprobe@.service
systemd-remount-fs.service sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
sys-fs-fuse-connections.mount dev-hugepages.mount dev-mqueue.mount systemd-ask-password-wall.path
systemd-ask-password-console.path systemd-firstboot.service systemd-sysusers.service systemd-machine-id-commit.service
systemd-journal-flush.service systemd-journald-audit.socket systemd-initctl.socket systemd-network-generator.service
systemd-hwdb-update.service systemd-update-done.service systemd-tmpfiles-clean.timer systemd-repart.service
systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup-dev-early.service systemd-sysctl.service apparmor.service
systemd-journal-catalog-update.service systemd-pcrphase.service systemd-tpm2-setup.service systemd-tpm2-setup-early.service
systemd-hibernate-clear.service systemd-battery-check.service systemd-networkd.service kmod-static-nodes.service
systemd-boot-random-seed.service ldconfig.service tpm2.target remote-fs.target""".split()

TARGET = """[Unit]
Description=hostvm
Requires=basic.target
Wants=systemd-logind.service dbus.service systemd-user-sessions.service user@1000.service hostvm-agent.service
After=basic.target
AllowIsolate=yes
"""
AGENT_UNIT = """[Unit]
Description=hostvm agent
Wants=user@1000.service
After=systemd-logind.service systemd-user-sessions.service dbus.service user@1000.service
FailureAction=poweroff-immediate
[Service]
ExecStart=/usr/bin/python3 -I /usr/lib/hostvm/agent.py
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
KillMode=process
"""
# Ubuntu 24.04 lets a program without its own AppArmor profile create a user namespace, and then refuses every operation
# in it, beginning with the write of its uid_map. An ordinary user has no capability anywhere else. A memfd that is
# executed has the name `/` here.
APPARMOR_UBUNTU = """abi <abi/3.0>,
profile hostvm-ubuntu flags=(attach_disconnected,mediate_deleted) {
  capability sys_admin,
  audit deny /proc/*/{uid_map,gid_map,setgroups} w,
  audit deny /proc/*/task/*/{uid_map,gid_map,setgroups} w,
  /{,**} rwlkm, /{,**} pix,
  network, unix, signal, ptrace, dbus, change_profile,
}
"""


class Problem(Exception):
    pass


def note(text):
    print("hostvm: " + text, file=sys.stderr, flush=True)


def sh(*argv, quiet=True, **kw):
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None, text=True, **kw)
    if r.returncode:
        raise Problem(f"{' '.join(argv[:4])}...: exit code {r.returncode}\n{(r.stdout or '')[-3000:]}")
    return r.stdout or ""


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


# ---- building: packages -------------------------------------------------

def need(*packages):
    """install the packages that building needs on this machine"""
    missing = [p for p in packages if subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", p], capture_output=True, text=True).stdout != "installed"]
    if missing:
        note("installing " + " ".join(missing))
        sh("apt-get", "-qq", "update")
        sh("apt-get", "-y", "-o", "DPkg::Lock::Timeout=600", "--no-install-recommends", "install", *missing, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def sources(suite):
    """apt lines for a suite, from this machine's own package sources"""
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages"], capture_output=True, text=True).stdout
    main = sec = None
    for line in out.splitlines():
        site, release = line.split()
        if site.rstrip("/").endswith("debian-security"):
            sec = site
        elif site.rstrip("/").endswith("debian"):
            main = site
    if not main:
        raise Problem("this machine's apt names no Debian mirror")
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    lines = [f"deb {key} {main} {suite} main"]
    if sec and suite != "forky":
        lines.append(f"deb {key} {sec} {suite}-security main")
    return "\n".join(lines) + "\n"


def acquire_options():
    """this machine's own settings for fetching packages"""
    out = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
    return [l for l in out.splitlines() if re.match(r"Acquire::(Check-Valid-Until|Check-Date|https?::[Pp]roxy|ForceIPv4) ", l)]


class Apt:
    """apt for another suite than this machine's, in a directory of its own"""

    def __init__(self, suite):
        self.dir = os.path.join(CACHE, "apt", suite)
        for d in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.dir, d), exist_ok=True)
        write(self.dir + "/status", "")
        write(self.dir + "/etc/sources.list", sources(suite))
        write(self.dir + "/apt.conf", f'Dir::Etc "{self.dir}/etc";\nDir::State "{self.dir}/state";\nDir::State::status "{self.dir}/status";\n'
              f'Dir::Cache "{self.dir}/cache";\nAcquire::Languages "none";\nAPT::Sandbox::User "root";\nAPT::Architecture "amd64";\n' + "\n".join(acquire_options()))
        self.env = {**os.environ, "APT_CONFIG": self.dir + "/apt.conf"}
        sh("apt-get", "-qq", "update", env=self.env)

    def unpack(self, package, into):
        with tempfile.TemporaryDirectory(dir=CACHE) as t:
            sh("apt-get", "-qq", "download", package, env=self.env, cwd=t)
            deb, = os.listdir(t)
            sh("dpkg-deb", "-x", os.path.join(t, deb), into)
            return deb.split("_")[1].replace("%3a", ":")

    def depends(self, package):
        out = sh("apt-cache", "depends", package, env=self.env)
        return re.findall(r"Depends: ([^\s<]+)", out)


# ---- building: images ---------------------------------------------------

def oci_config(seccomp_json):
    """an OCI runtime configuration with Docker's defaults"""
    caps = ["CAP_" + c for c in "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE".split()]
    d = json.load(open(seccomp_json))
    rules = []
    for r in d["syscalls"]:
        inc, exc = r.get("includes") or {}, r.get("excludes") or {}
        if inc.get("arches") and not {"amd64", "x86"} & set(inc["arches"]) or inc.get("caps") and not set(inc["caps"]) <= set(caps):
            continue
        if set(exc.get("arches") or []) & {"amd64"} or set(exc.get("caps") or []) & set(caps):
            continue
        rule = {"names": r.get("names") or [r["name"]], "action": r["action"]}
        if r.get("args"):
            rule["args"] = [{k: a[k] for k in ("index", "value", "valueTwo", "op") if k in a} for a in r["args"]]
        if r.get("errnoRet"):
            rule["errnoRet"] = r["errnoRet"]
        rules.append(rule)
    mount = lambda dst, kind, *opts: {"destination": dst, "type": kind, "source": kind, "options": list(opts)}
    return {
        "ociVersion": "1.0.2", "hostname": "container",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": [], "env": [], "cwd": "/",
                    "capabilities": {k: caps for k in ("bounding", "effective", "permitted")}, "oomScoreAdj": 0},
        "root": {"path": "rootfs", "readonly": False},
        "mounts": [
            mount("/proc", "proc", "nosuid", "noexec", "nodev"),
            mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
            mount("/sys", "sysfs", "nosuid", "noexec", "nodev", "ro"),
            mount("/sys/fs/cgroup", "cgroup", "ro", "nosuid", "noexec", "nodev"),
            mount("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
            mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=67108864"),
        ],
        "linux": {
            "cgroupsPath": "/docker/hostvm",
            "namespaces": [{"type": t} for t in ("mount", "network", "uts", "pid", "ipc", "cgroup")],
            "maskedPaths": ["/proc/" + p for p in "asound acpi interrupts kcore keys latency_stats timer_list timer_stats sched_debug scsi".split()] + ["/sys/firmware", "/sys/devices/virtual/powercap"],
            "readonlyPaths": ["/proc/" + p for p in "bus fs irq sys sysrq-trigger".split()],
            "resources": {"devices": [{"allow": False, "access": "rwm"}] + [
                {"allow": True, "type": "c", "major": a, "minor": b, "access": "rwm"} for a, b in ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2))]
                + [{"allow": True, "type": "c", "major": 136, "access": "rwm"}]},
            "seccomp": {"defaultAction": d["defaultAction"], "defaultErrnoRet": d.get("defaultErrnoRet", 1),
                        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": rules},
        },
    }


def oci_template():
    """the file with that configuration, written at the first use"""
    path = os.path.join(CACHE, "oci.json")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=CACHE) as tmp:
            Apt("trixie").unpack("golang-github-docker-docker-dev", tmp)
            found = [os.path.join(d, "default.json") for d, _, names in os.walk(tmp) if d.endswith("/seccomp") and "default.json" in names]
            if not found:
                raise Problem("Docker's seccomp profile not found in its package")
            write(path, json.dumps(oci_config(found[0])))
    return path


def build_image(suite):
    t0 = time.time()
    need("mmdebstrap", "e2fsprogs", "zstd")
    dest = os.path.join(CACHE, "images", suite + ".ext4")
    os.makedirs(os.path.dirname(dest), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as tmp:
        root = os.path.join(tmp, "root")
        write(tmp + "/sources.list", sources(suite))
        note(f"image {suite}: installing packages")
        opts = ["path-exclude=/usr/share/" + p for p in ("man/*", "doc/*", "locale/*", "info/*", "lintian/*")] + ["force-unsafe-io"]
        sh("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--include=" + PACKAGES, *["--dpkgopt=" + o for o in opts],
           "--aptopt=Acquire::Languages \"none\"", "--aptopt=APT::Install-Recommends \"false\"", *["--aptopt=" + l for l in acquire_options()], suite, root, tmp + "/sources.list")
        shutil.rmtree(root + "/var/lib/apt/lists", ignore_errors=True)
        sh("chroot", root, "useradd", "-m", "-s", "/bin/bash", "-u", "1000", "user")
        os.makedirs(root + "/var/lib/systemd/linger", exist_ok=True)
        write(root + "/var/lib/systemd/linger/user", "")
        write(root + "/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        write(root + "/etc/hostname", suite + "\n")
        write(root + "/etc/hosts", f"127.0.0.1 localhost {suite}\n::1 localhost\n")
        write(root + "/etc/systemd/journald.conf.d/hostvm.conf", "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n")
        write(root + "/etc/systemd/system/hostvm.target", TARGET)
        write(root + "/etc/systemd/system/hostvm-agent.service", AGENT_UNIT)
        for unit in MASK:
            link = root + "/etc/systemd/system/" + unit
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink("/dev/null", link)
        lib = root + "/usr/lib/hostvm"
        os.makedirs(lib)
        shutil.copy(os.path.join(HERE, "agent.py"), lib + "/agent.py")
        write(lib + "/apparmor-ubuntu", APPARMOR_UBUNTU)
        shutil.copy(oci_template(), lib + "/oci.json")
        note(f"image {suite}: making the file system")
        size = int(sh("du", "-sm", root).split()[0]) + 400
        if os.path.exists(dest):
            os.unlink(dest)
        sh("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", root, "-F", dest + ".new", f"{size}M")
        os.rename(dest + ".new", dest)
    for d, names, _ in os.walk(os.path.join(CACHE, "kernels")):     # saved states that belong to the old image
        for n in [n for n in names if n.startswith(f"started-{suite}-")]:
            shutil.rmtree(os.path.join(d, n))
    note(f"image {suite}: {os.stat(dest).st_blocks * 512 >> 20} MiB, {time.time() - t0:.0f} s")


# ---- building: kernels --------------------------------------------------

def kernel_dir(name):
    return os.path.join(CACHE, "kernels", name.replace(":", "-"))


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def build_um(suite):
    t0 = time.time()
    need("kmod")
    apt, d = Apt(suite), fresh(kernel_dir("um:" + suite))
    version = apt.unpack("user-mode-linux", d + "/x")
    os.rename(d + "/x/usr/bin/linux.uml", d + "/linux")
    os.rename(d + "/x/usr/lib/uml/modules", d + "/modules")
    for p in ("libc6", "libgcc-s1"):     # the versions that it was linked with
        apt.unpack(p, d + "/x")
    for top in ("x/lib/x86_64-linux-gnu", "x/usr/lib/x86_64-linux-gnu"):
        if os.path.isdir(os.path.join(d, top)):
            shutil.copytree(os.path.join(d, top), d + "/lib", symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(d + "/x")
    release, = os.listdir(d + "/modules")
    keep = ("overlay", "fuse", "squashfs", "autofs4", "loop", "tun", "veth", "dummy")
    mods = os.path.join(d, "modules", release)
    for base, _, names in os.walk(mods):
        for n in names:
            if ".ko" in n and n.split(".")[0] not in keep:
                os.unlink(os.path.join(base, n))
    os.makedirs(d + "/m/lib")
    os.rename(d + "/modules", d + "/m/lib/modules")
    sh("depmod", "-b", d + "/m", release)
    os.rename(d + "/m/lib/modules", d + "/modules")
    shutil.rmtree(d + "/m")
    write(d + "/kernel.json", json.dumps({"type": "um", "release": release, "package": version, "seccomp": tuple(map(int, release.split(".")[:2])) >= (6, 16)}))
    note(f"kernel um:{suite}: Linux {release}, {time.time() - t0:.0f} s")


def modinfo(data, key):
    m = re.search(b"\0" + key.encode() + b"=([^\0]*)", data)
    return m.group(1).decode() if m else ""


def newc(entries):
    """a cpio archive from (name, mode, bytes)"""
    out = io.BytesIO()
    for i, (name, mode, data) in enumerate(entries + [("TRAILER!!!", 0, b"")]):
        b = name.encode() + b"\0"
        out.write(b"070701" + b"".join(b"%08X" % v for v in (i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(b), 0)) + b)
        out.write(b"\0" * (-out.tell() % 4))
        out.write(data)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


def extract_vmlinux(bz):
    """the ELF kernel inside a bzImage: QEMU starts it directly, so nothing is unpacked under emulation"""
    with tempfile.TemporaryDirectory() as t:
        for magic, tool in ((b"\x28\xb5\x2f\xfd", ["zstd", "-dcqf"]), (b"\x02\x21\x4c\x18", ["lz4", "-dcqf"]), (b"\xfd7zXZ\0", ["xz", "-dcqf"]), (b"\x1f\x8b\x08", ["gzip", "-dcqf"])):
            at = bz.find(magic)
            while at >= 0:
                r = subprocess.run(tool, input=bz[at:], capture_output=True)
                if r.stdout[:4] == b"\x7fELF":
                    return r.stdout
                at = bz.find(magic, at + 1)
    raise Problem("no kernel found inside the kernel image")


INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t devtmpfs d /dev
for m in $($B cat /modules); do $B insmod /lib/$m; done
i=0; while [ ! -b /dev/vda ] && [ $i -lt 500 ]; do $B usleep 10000; i=$((i+1)); done
$B mount -t ext4 -o rw /dev/vda /mnt
$B mount --move /dev /mnt/dev
exec $B switch_root /mnt /lib/systemd/systemd
"""
PC_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "overlay", "fuse", "autofs4", "unix_diag", "veth", "dummy", "ext4")


def build_pc(suite):
    t0 = time.time()
    need("qemu-system-x86", "qemu-utils", "zstd", "lz4", "xz-utils")
    apt, d = Apt(suite), fresh(kernel_dir("pc:" + suite))
    package = next(p for p in apt.depends("linux-image-cloud-amd64") if p.startswith("linux-image-"))
    version = apt.unpack(package, d + "/x")
    for p in apt.depends(package):       # newer suites keep modules in a package of their own
        if p.startswith(("linux-modules-", "linux-binary-", "linux-base-")) and "cloud" in p:
            apt.unpack(p, d + "/x")
    files = [os.path.join(b, n) for b, _, ns in os.walk(d + "/x") for n in ns]
    boot = [f for f in files if os.path.basename(f).startswith("vmlinuz")]
    shutil.copy(next(f for f in files if re.search(r"/(boot/config-|modules/[^/]+/config$)", f)), d + "/config")
    with open(d + "/vmlinux", "wb") as f:
        f.write(extract_vmlinux(open(boot[0], "rb").read()))
    apt.unpack("busybox-static", d + "/bb")
    busybox = next(p for p in (d + "/bb/bin/busybox", d + "/bb/usr/bin/busybox") if os.path.exists(p))
    found = {}
    for base, _, names in os.walk(d + "/x"):
        for n in names:
            m = re.match(r"(.+)\.ko(\.xz|\.zst|\.gz)?$", n)
            if m:
                found[m.group(1).replace("-", "_")] = os.path.join(base, n)
    order, data = [], {}

    def add(name):
        if name in data or name not in found:
            return
        p = found[name]
        tool = {".xz": "xz", "zst": "zstd", ".gz": "gzip"}.get(p[-3:])
        data[name] = subprocess.run([tool, "-dcqf", p], capture_output=True, check=True).stdout if tool else open(p, "rb").read()
        for dep in modinfo(data[name], "depends").split(","):
            add(dep.replace("-", "_"))
        order.append(name)
    for m in PC_MODULES:
        add(m)
    entries = [(x, 0o040755, b"") for x in ("bin", "dev", "lib", "mnt", "proc", "sys")]
    entries += [("bin/busybox", 0o100755, open(busybox, "rb").read()), ("init", 0o100755, INIT.encode()), ("modules", 0o100644, "\n".join(m + ".ko" for m in order).encode() + b"\n")]
    entries += [("lib/" + m + ".ko", 0o100644, data[m]) for m in order]
    with open(d + "/initrd", "wb") as f:
        f.write(newc(entries))
    release = package[len("linux-image-"):]
    write(d + "/kernel.json", json.dumps({"type": "pc", "release": release, "package": version}))
    shutil.rmtree(d + "/x"); shutil.rmtree(d + "/bb")
    note(f"kernel pc:{suite}: Linux {release}, {time.time() - t0:.0f} s")
