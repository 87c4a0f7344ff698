"""The Debian package, in OUT: a .deb for this machine's architecture, with .changes and .buildinfo.

    deb.py OUT

Builds in build-deb/, from the files that git tracks or would add, with packaging/debian as their debian/. The version
is meson.build's; the changelog has one entry, of the last commit's time (or SOURCE_DATE_EPOCH), which is also what
makes the same source give the same package.
"""
import email.utils
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def said(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def copy_source(target):
    for name in said("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copytree(target / "packaging" / "debian", target / "debian")


def changelog(version, seconds):
    control = (ROOT / "packaging" / "debian" / "control").read_text()
    maintainer = re.search(r"^Maintainer: (.+)", control, re.M)[1]
    return (f"sandpiper ({version}) unstable; urgency=medium\n\n  * Release {version}.\n\n"
            f" -- {maintainer}  {email.utils.formatdate(seconds)}\n")


def main():
    out = pathlib.Path(sys.argv[1])
    version = json.loads(said("meson", "introspect", "--projectinfo", "meson.build"))["version"]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or said("git", "log", "-1", "--format=%ct"))
    if f"\n## [{version}] - " not in (ROOT / "CHANGELOG.md").read_text():
        version += f"~dev{seconds}"  # not released: a later build, and the release, are upgrades
    place = ROOT / "build-deb"
    shutil.rmtree(place, ignore_errors=True)
    source = place / f"sandpiper-{version}"
    source.mkdir(parents=True)
    copy_source(source)
    (source / "debian" / "changelog").write_text(changelog(version, seconds))
    # Only the system's own programs: another python3 or meson on the PATH would be no build dependency.
    built = subprocess.run(["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=source,
                           env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if built.returncode:
        print(built.stdout[-6000:])
        return 1
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(place.glob("sandpiper*_*")):
        shutil.copy2(path, out)
        print(out / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
