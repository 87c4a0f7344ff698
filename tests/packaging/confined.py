"""Runs the server in a container under our AppArmor profile, as root in a virtual machine. Prints a line of JSON.

    confined.py SANDPIPER SECCOMP APPARMOR

The container's root is the machine's own, with /proc unmasked, so that only AppArmor refuses.
"""
import json
import pathlib
import subprocess
import sys

DOCKER = pathlib.Path("/usr/lib/hostvm/oci.json")
TOP = pathlib.Path("/run/confined")
CORE_PATTERN = "/proc/sys/kernel/core_pattern"
WRITE = f"cat /proc/self/attr/current; cat {CORE_PATTERN} > /tmp/same; cat /tmp/same > {CORE_PATTERN} && echo written"


def config(command, uid, seccomp, profile):
    made = json.loads(DOCKER.read_text())
    process, linux = made["process"], made["linux"]
    process.update(args=command, cwd="/", user={"uid": uid, "gid": uid}, env=["HOME=/tmp", "PATH=/usr/bin:/bin"],
                   capabilities={"bounding": process["capabilities"]["bounding"]}, noNewPrivileges=True)
    if profile:
        process["apparmorProfile"] = profile
    linux["seccomp"] = json.loads(pathlib.Path(seccomp).read_text())
    for name in ("maskedPaths", "readonlyPaths", "cgroupsPath"):
        del linux[name]
    made["root"]["path"] = str(TOP / "rootfs")
    return made


def contained(name, *wanted):
    (TOP / "config.json").write_text(json.dumps(config(*wanted)))
    return subprocess.run(["crun", "--cgroup-manager=cgroupfs", "run", "--bundle", str(TOP), name],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)


def main(sandpiper, seccomp, apparmor):
    (TOP / "rootfs").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", TOP / "rootfs"], check=True)
    for name in ("upper", "work", "root"):
        (TOP / "rootfs" / name).mkdir()
    layers = f"lowerdir=/,upperdir={TOP}/rootfs/upper,workdir={TOP}/rootfs/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", TOP / "rootfs" / "root"], check=True)
    subprocess.run(["mount", "--bind", TOP / "rootfs" / "root", TOP / "rootfs"], check=True)
    subprocess.run(["install", "-m", "755", sandpiper, TOP / "rootfs" / "opt" / "sandpiper"], check=True)
    subprocess.run(["apparmor_parser", "-r", "-K", apparmor], check=True)
    profile = pathlib.Path(apparmor).name
    doctor = contained("doctor", ["/opt/sandpiper", "doctor", "--json"], 1000, seccomp, profile)
    print(json.dumps({
        "doctor": doctor.stdout or doctor.stderr,
        "root with the profile": contained("with", ["sh", "-c", WRITE], 0, seccomp, profile).stdout,
        "root without": contained("without", ["sh", "-c", WRITE], 0, seccomp, None).stdout,
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
