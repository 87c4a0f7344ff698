"""Runs an image as Docker and Podman do by default, or with our profiles, with crun and without a daemon. Needs root.

    with Container(image, "docker") as container:
        with Server(wrap=container.command()) as server: ...

The root is an overlay over the unpacked image, so the outer /proc is not below it. As under an engine, the kernel
refuses to mount a new /proc while the runtime masks parts of it. Docker's filter, masks and capabilities are those of
its Debian package (tests/machines/images.py), Podman's filter is that of containers-common.
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "machines"))
import images  # noqa: E402

OURS = ROOT / "packaging" / "seccomp" / "sandpiper.json"
PODMAN = pathlib.Path("/usr/share/containers/seccomp.json")
PODMAN_CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID",
    "SYS_CHROOT")]
# Confinement: (engine, additional options).
CONFINEMENTS = {
    "docker": ("docker", ()),
    "docker, our profile": ("docker", ("profile",)),
    "docker, our profile, unmasked": ("docker", ("profile", "unmasked")),
    "podman": ("podman", ()),
    "podman, unmasked": ("podman", ("unmasked",)),
}
# crun requires cgroup version 2; this mount namespace has nothing else.
SCRIPT = """set -e
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs "$1/top"
mkdir "$1/top/upper" "$1/top/work"
mount -t overlay -o "lowerdir=$2,upperdir=$1/top/upper,workdir=$1/top/work" overlay "$1/rootfs"
exec crun --cgroup-manager=disabled --root "$1/state" run --bundle "$1" "$3"
"""


def need_crun():
    if os.geteuid():
        raise unittest.SkipTest("root: containers without an engine need it")
    for program in ("crun", "unshare"):
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program}: not installed")


def filter_of_podman():
    """The rules of Podman's filter that apply on this machine to a container with its default capabilities."""
    if not PODMAN.exists():
        raise unittest.SkipTest("podman: golang-github-containers-common is not installed")
    return images.oci_config(PODMAN)["linux"]["seccomp"]


class Image:
    """An unpacked archive: a root, and the image's configuration."""

    def __init__(self, archive, directory):
        self.root = pathlib.Path(directory, "root")
        self.root.mkdir()
        with tarfile.open(archive) as packed:
            def blob(descriptor):
                return packed.extractfile("blobs/" + descriptor["digest"].replace(":", "/"))
            self.index = json.load(packed.extractfile("index.json"))
            self.manifest = json.load(blob(self.index["manifests"][0]))
            self.config = json.load(blob(self.manifest["config"]))
            for layer in self.manifest["layers"]:
                with tarfile.open(fileobj=blob(layer), mode="r:gz") as files:
                    files.extractall(self.root, filter="fully_trusted")
        self.wants = self.config["config"]


class Container:
    """One container that can be started once. Leaving the block removes its files."""

    def __init__(self, image, confinement, env=(), arguments=None, hardened=False, host_network=False, command=None, volumes=None):
        """hardened: read-only except /tmp, without capabilities or new privileges, as a restricted pod. command: instead of the
        image's program. volumes: {place in the container: directory}."""
        self.image, self.name = image, f"sandpiper-{os.getpid()}-{id(self)}"
        self.base, self.extras = CONFINEMENTS[confinement]
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-container-"))
        for name in ("top", "rootfs", "state"):
            (self.directory / name).mkdir()
        wants = image.wants
        command = command or [*wants["Entrypoint"], *(wants.get("Cmd", []) if arguments is None else arguments)]
        config = self.config(command, [*wants["Env"], *env])
        if hardened:
            config["process"].update(capabilities={}, noNewPrivileges=True)
            config["root"]["readonly"] = True
            config["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                                     "options": ["nosuid", "nodev", "mode=1777"]})
        for place, directory in (volumes or {}).items():
            config["mounts"].append({"destination": place, "type": "bind", "source": str(directory), "options": ["rbind", "rw"]})
        if host_network:
            config["linux"]["namespaces"].remove({"type": "network"})
        (self.directory / "config.json").write_text(json.dumps(config))

    def config(self, command, env):
        config = json.loads(pathlib.Path(images.oci_template()).read_text())
        process, linux = config["process"], config["linux"]
        uid, gid = map(int, self.image.wants["User"].split(":"))
        bounding = PODMAN_CAPABILITIES if self.base == "podman" else process["capabilities"]["bounding"]
        process.update(args=command, env=env, cwd=self.image.wants["WorkingDir"], user={"uid": uid, "gid": gid},
                       capabilities={"bounding": bounding})
        if self.base == "podman":
            linux["seccomp"] = filter_of_podman()
        if "profile" in self.extras:
            linux["seccomp"] = json.loads(OURS.read_text())
        if "unmasked" in self.extras:
            del linux["maskedPaths"], linux["readonlyPaths"]
        del linux["cgroupsPath"]
        config["root"] = {"path": str(self.directory / "rootfs"), "readonly": False}
        return config

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def command(self):
        """The command that starts it, as a client's `command` would be. Further arguments are ignored."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "container", str(self.directory),
                str(self.image.root), self.name]

    def enter(self, *command):
        """The command that starts another process in it, once it runs, as `kubectl exec -i` does. Further arguments are ignored."""
        words = ["crun", "--cgroup-manager=disabled", "--root", str(self.directory / "state"), "exec", "--user",
                 self.image.wants["User"], self.name, *command]
        return ["nsenter", "--mount", "--target", str(self.outer()), "sh", "-c", f"exec {shlex.join(words)}", "enter"]

    def outer(self):
        """The pid of the runtime, in whose mount namespace the container's files are."""
        return int(pathlib.Path(f"/proc/{self.first()}/stat").read_text().rpartition(")")[2].split()[1])

    def run(self, timeout=120):
        return subprocess.run(self.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)

    def first(self):
        """The outer pid of the container's init; None before it runs the image's program."""
        for state in self.directory.glob("state/*/status"):
            pid = json.loads(state.read_text())["pid"]
            if pathlib.Path(f"/proc/{pid}/comm").read_text() != "crun\n" and not (state.parent / "exec.fifo").exists():
                return pid
        return None
