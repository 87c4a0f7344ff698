"""Runs a command in a container that allows sandboxes: Docker's confinement without its filter and its masks of /proc
(--security-opt seccomp=unconfined --security-opt systempaths=unconfined), or with its masks and the filter of FILE
(--security-opt seccomp=FILE), or unchanged (--default).

    container.py [--seccomp FILE | --default] [--memory MIB] [--writable-cgroup] [--user NAME] -- COMMAND [ARG...]

For a machine of hostvm.py, as root there.
"""
import argparse
import json
import os
import pathlib
import pwd
import subprocess

DOCKER = "/usr/lib/hostvm/oci.json"
BUNDLE = pathlib.Path("/run/container")
GROUP = "/docker/container"


def bundle(options):
    config = json.loads(pathlib.Path(DOCKER).read_text())
    user = pwd.getpwnam(options.user)
    process, linux = config["process"], config["linux"]
    process.update(args=options.command, cwd="/", user={"uid": user.pw_uid, "gid": user.pw_gid},
                   env=[f"HOME={user.pw_dir}", "PATH=/usr/bin:/bin", "LANG=C.UTF-8"])
    if user.pw_uid:
        process["capabilities"] = {"bounding": process["capabilities"]["bounding"]}
    if options.seccomp:
        linux["seccomp"] = json.loads(options.seccomp.read_text())
    elif not options.default:
        for name in ("seccomp", "maskedPaths", "readonlyPaths"):
            del linux[name]
    linux["cgroupsPath"] = GROUP
    if options.memory:
        linux["resources"]["memory"] = {"limit": options.memory << 20}
    for mount in config["mounts"]:
        if options.writable_cgroup and mount["type"] == "cgroup":
            mount["options"].remove("ro")
    # The host's own root serves as the image: its systemd must not be seen from inside.
    config["mounts"].append({"destination": "/run", "type": "tmpfs", "source": "tmpfs",
                             "options": ["nosuid", "nodev", "mode=755"]})
    config["root"]["path"] = str(BUNDLE / "rootfs")
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seccomp", type=pathlib.Path)
    parser.add_argument("--default", action="store_true")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--writable-cgroup", action="store_true")
    parser.add_argument("--user", default="root")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    (BUNDLE / "rootfs").mkdir(parents=True)
    subprocess.run(["mount", "--rbind", "/", BUNDLE / "rootfs"], check=True)
    subprocess.run(["mount", "--make-rslave", BUNDLE / "rootfs"], check=True)
    subprocess.run(["umount", "-R", "-l", BUNDLE / "rootfs/sys/fs/cgroup"], check=False)
    (BUNDLE / "config.json").write_text(json.dumps(bundle(options)))
    os.execvp("crun", ["crun", "--cgroup-manager=cgroupfs", "run", "--bundle", str(BUNDLE),
                       "sandpiper"])


if __name__ == "__main__":
    main()
