"""The files of a release, in OUT: static programs, bundles for hosts that install those, the registry's entry.

    dist.py OUT [--repository OWNER/NAME] [--binary ARCH=PROGRAM]...

Without --binary the programs are built in build-dist/: for this machine's architecture, and for 64-bit ARM where
its cross compiler and libraries are installed (deps.sh aarch64). For each there are

    sandpiper-VERSION-linux-ARCH.tar.gz   the program, its manual page, the licences of what is linked into it
    sandpiper-VERSION-linux-ARCH.mcpb     an MCP bundle: a host installs it and shows a form for its settings

and for all together server.json, the entry of the MCP registry, whose links point to the release of --repository on
GitHub, and SHA256SUMS. The same source gives the same bytes: times are those of SOURCE_DATE_EPOCH, else of the last
commit.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHES = {"x86_64": "x64", "aarch64": "arm64"}
CROSS = {"arm64": ROOT / "build-aux" / "aarch64-linux-gnu.ini"}
LINKED = ("libjansson-dev", "libseccomp-dev", "libcap-dev", "libc6-dev")
SUMMARY = "Runs a model's Python in a Linux sandbox that keeps variables, imports and files between calls."
# What a bundle's user is asked: name: (flag, what the form says, default).
SETTINGS = {
    "memory": ("memory", "Memory", "Memory of the sandbox, such as 512M or 2G.", "1G"),
    "timeout": ("timeout", "Seconds a call may take", "Where the model asks for no other time.", "30"),
}


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, **options)


def version():
    found = run("meson", "introspect", "--projectinfo", ROOT / "meson.build", stdout=subprocess.PIPE)
    return json.loads(found.stdout)["version"]


def source_time():
    """Seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def build(arch):
    """(program, manual page or None) of a static release build."""
    folder = ROOT / "build-dist" / arch
    cross = ["--cross-file", CROSS[arch]] if arch != ARCHES[platform.machine()] else []
    shutil.rmtree(folder, ignore_errors=True)
    run("meson", "setup", folder, ROOT, *cross, "-Dstatic=true", "-Dtests=disabled", "--buildtype=release",
        f"-Dc_args=-ffile-prefix-map={ROOT}=.", stdout=subprocess.DEVNULL)
    run("ninja", "-C", folder, stdout=subprocess.DEVNULL)
    run("meson", "install", "-C", folder, "--no-rebuild", "--strip", "--destdir", folder / "stage",
        stdout=subprocess.DEVNULL)
    pages = list((folder / "stage").rglob("sandpiper.1"))
    return next((folder / "stage").rglob("bin/sandpiper")), pages[0] if pages else None


def can_cross(arch):
    return shutil.which("aarch64-linux-gnu-gcc") and pathlib.Path("/usr/lib/aarch64-linux-gnu/libjansson.a").exists()


def built():
    """{arch: (program, manual page)}"""
    own = ARCHES[platform.machine()]
    programs = {own: build(own)}
    for arch in CROSS.keys() - {own}:
        if can_cross(arch):
            programs[arch] = build(arch)
        else:
            print(f"{arch}: left out, its cross compiler and libraries are not installed (deps.sh aarch64)")
    return programs


def licences():
    """{name in the archive: text} of ours and of what is linked in."""
    texts = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for package in LINKED:
        path = pathlib.Path("/usr/share/doc") / package / "copyright"
        if path.exists():
            texts[f"licences/{package.removesuffix('-dev')}.txt"] = path.read_bytes()
    return texts


def tarball(path, files, now):
    """files: {name: (bytes, mode)}"""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=now) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (data, mode) in sorted(files.items()):
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            member.size, member.mode, member.mtime = len(data), mode, now
            archive.addfile(member, io.BytesIO(data))


def bundle(path, files, now):
    """A zip file with the modes of Unix; its times start in 1980."""
    moment = max(time.gmtime(now)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w") as archive:
        for name, (data, mode) in sorted(files.items()):
            member = zipfile.ZipInfo(name, moment)
            member.external_attr = (0o100000 | mode) << 16
            member.create_system = 3
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data, compresslevel=9)


def tools_of(programs):
    """The tools as the program for this machine tells them, each with its first paragraph."""
    program = programs[ARCHES[platform.machine()]][0]
    listed = json.loads(run(program, "schema", stdout=subprocess.PIPE).stdout)
    return [{"name": tool["name"], "description": tool["description"].split("\n\n")[0]} for tool in listed]


def manifest(release, tools):
    settings = {name: {"type": "string", "title": title, "description": text, "default": default, "required": False}
                for name, (_, title, text, default) in SETTINGS.items()}
    settings["flags"] = {"type": "string", "title": "Further flags", "multiple": True, "required": False, "default": [],
                         "description": "Such as --workspace=/srv/project; sandpiper --help lists them."}
    return {
        "manifest_version": "0.3", "name": "sandpiper", "display_name": "Sandpiper", "version": release,
        "description": SUMMARY, "author": {"name": "The Sandpiper authors"}, "license": "MIT",
        "server": {"type": "binary", "entry_point": "server/sandpiper", "mcp_config": {
            "command": "${__dirname}/server/sandpiper", "env": {},
            "args": [f"--{flag}=${{user_config.{name}}}" for name, (flag, *_) in SETTINGS.items()]
            + ["${user_config.flags}"]}},
        "tools": tools, "compatibility": {"platforms": ["linux"]}, "user_config": settings,
    }


def registry_entry(release, repository, bundles):
    url = f"https://github.com/{repository}"
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": f"io.github.{repository}", "title": "Sandpiper", "description": SUMMARY, "version": release,
        "repository": {"url": url, "source": "github"},
        "packages": [{"registryType": "mcpb", "identifier": f"{url}/releases/download/v{release}/{path.name}",
                      "fileSha256": sha256(path), "transport": {"type": "stdio"}} for path in bundles],
    }


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def as_json(value):
    return (json.dumps(value, indent=2) + "\n").encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--repository", default="sandpiper-mcp/sandpiper")
    parser.add_argument("--binary", action="append", default=[], metavar="ARCH=PROGRAM")
    options = parser.parse_args()
    given = dict(one.split("=", 1) for one in options.binary)
    programs = {arch: (pathlib.Path(path), None) for arch, path in given.items()} or built()
    release, now, tools = version(), source_time(), tools_of(programs)
    options.out.mkdir(parents=True, exist_ok=True)
    made, bundles = [], []
    for arch, (program, page) in sorted(programs.items()):
        stem = options.out / f"sandpiper-{release}-linux-{arch}"
        texts = {name: (data, 0o644) for name, data in licences().items()}
        files = {"bin/sandpiper": (program.read_bytes(), 0o755),
                 "README.md": ((ROOT / "README.md").read_bytes(), 0o644), **texts}
        if page:
            files["share/man/man1/sandpiper.1"] = (page.read_bytes(), 0o644)
        tarball(pathlib.Path(f"{stem}.tar.gz"), files, now)
        bundle(pathlib.Path(f"{stem}.mcpb"),
               {"manifest.json": (as_json(manifest(release, tools)), 0o644),
                "server/sandpiper": (program.read_bytes(), 0o755), **texts}, now)
        bundles.append(pathlib.Path(f"{stem}.mcpb"))
        made += [pathlib.Path(f"{stem}.tar.gz"), bundles[-1]]
    entry = options.out / "server.json"
    entry.write_bytes(as_json(registry_entry(release, options.repository, bundles)))
    made.append(entry)
    sums = "".join(f"{sha256(path)}  {path.name}\n" for path in made)
    (options.out / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
