"""The static programs of a release, and the licences of what the linker put into them."""
import dataclasses
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHES = {"x86_64": "x64", "aarch64": "arm64"}
CROSS = {"arm64": ROOT / "build-aux" / "aarch64-linux-gnu.ini"}
COMMON = pathlib.Path("/usr/share/common-licenses")


@dataclasses.dataclass
class Program:
    """path: the program. page: its manual page, None if it was not built here. licences: {name: text}."""

    path: pathlib.Path
    page: pathlib.Path = None
    licences: dict = dataclasses.field(default_factory=dict)


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, **options)


def version():
    found = run("meson", "introspect", "--projectinfo", ROOT / "meson.build", stdout=subprocess.PIPE)
    return json.loads(found.stdout)["version"]


def source_time():
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the time of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else 0


def linked_files(trace):
    """The system's objects and archives that the linker used, as ld(1) --trace names them."""
    found = {os.path.realpath(name) for name in re.findall(r"(/[^\s()]+\.[ao])\b", trace)}
    return sorted(name for name in found if name.startswith("/usr/") and not name.startswith(str(ROOT)))


def licences(trace):
    """{name: text}: the copyright file of each Debian package that was linked in, and the licences they name."""
    texts = {}
    owners = run("dpkg", "-S", *linked_files(trace), stdout=subprocess.PIPE).stdout
    for package in sorted({line.split(":")[0] for line in owners.splitlines()}):
        text = (pathlib.Path("/usr/share/doc") / package / "copyright").read_bytes()
        texts[f"{package}.txt"] = text
        for name in re.findall(rb"/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text):
            licence = (COMMON / name.decode()).resolve()
            texts[f"{licence.name}.txt"] = licence.read_bytes()
    return texts


def build(arch):
    directory = ROOT / "build-dist" / arch
    cross = ["--cross-file", CROSS[arch]] if arch != ARCHES[platform.machine()] else []
    shutil.rmtree(directory, ignore_errors=True)
    run("meson", "setup", directory, ROOT, *cross, "-Dstatic=true", "-Dtests=disabled", "-Dman=enabled",
        "--buildtype=release", f"-Dc_args=-ffile-prefix-map={ROOT}=.", "-Dc_link_args=-Wl,--trace",
        stdout=subprocess.DEVNULL)
    trace = run("ninja", "-C", directory, stdout=subprocess.PIPE).stdout
    run("meson", "install", "-C", directory, "--no-rebuild", "--strip", "--destdir", directory / "stage",
        stdout=subprocess.DEVNULL)
    return Program(next((directory / "stage").rglob("bin/sandpiper")),
                   next((directory / "stage").rglob("sandpiper.1")), licences(trace))


def can_cross(arch):
    return shutil.which("aarch64-linux-gnu-gcc") and pathlib.Path("/usr/lib/aarch64-linux-gnu/libjansson.a").exists()


def built():
    """{arch: Program}"""
    own = ARCHES[platform.machine()]
    programs = {own: build(own)}
    for arch in CROSS.keys() - {own}:
        if can_cross(arch):
            programs[arch] = build(arch)
        else:
            print(f"{arch}: left out, its cross compiler and libraries are not installed (deps.sh aarch64)")
    return programs
