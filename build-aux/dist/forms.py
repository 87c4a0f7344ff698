"""The forms in which a release is installed: archive, npm package, wheel, MCP bundle.

Each function writes one file and returns its path.
"""
import base64
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess
import textwrap

from archives import PLAIN, PROGRAM, as_json, tarball, zipped
from programs import ROOT, run

PACKAGE = "sandpiper-mcp"  # its name on npm and for pip; the command is sandpiper
SUMMARY = "Runs a model's Python in a Linux sandbox that keeps variables, imports and files between calls."
# A static file runs with every libc: tags of the oldest one that current installers accept.
PLATFORMS = {"x64": ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"),
             "arm64": ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64")}
# How each form is installed, for the page that a registry shows of it or that lies beside the program.
COMMANDS = {
    "archive": "sudo install bin/sandpiper /usr/local/bin/\n",
    "npm": f"sudo npm install -g {PACKAGE}\n",
    "wheel": f"python3 -m venv ~/sandpiper-env\n. ~/sandpiper-env/bin/activate\npip install {PACKAGE}\n",
}
# The settings in a bundle's form: name: (flag, what the form says, default).
SETTINGS = {
    "memory": ("memory", "Memory", "Memory limit of the sandbox, such as 512M or 2G; auto is a quarter of the machine's.",
               "auto"),
    "timeout": ("timeout", "Time limit of code", "Default time limit of the code, in seconds.", "300"),
}


@dataclasses.dataclass(frozen=True)
class Release:
    """repository: OWNER/NAME on GitHub. time: of every file, seconds since 1970. programs: {arch: Program}."""

    out: pathlib.Path
    version: str
    repository: str
    time: int
    programs: dict

    @property
    def server_name(self):
        """In the MCP registry. The packages name it too, which tells the registry their owner."""
        return f"io.github.{self.repository}"

    @property
    def url(self):
        return f"https://github.com/{self.repository}"


def source(path):
    return (ROOT / path).read_bytes()


def texts(*programs):
    """Sandpiper's own licence, and those of what is linked into the programs."""
    found = {"LICENSE": (source("LICENSE"), PLAIN)}
    for program in programs:
        found |= {f"licences/{name}": (text, PLAIN) for name, text in program.licences.items()}
    return found


def page(program, name):
    return {name: (program.page.read_bytes(), PLAIN)} if program.page else {}


def archive(release, arch):
    program, stem = release.programs[arch], f"sandpiper-{release.version}-linux-{arch}"
    files = {"bin/sandpiper": (program.path.read_bytes(), PROGRAM), "README.md": (readme(release, "archive").encode(), PLAIN),
             **page(program, "share/man/man1/sandpiper.1"), **texts(program)}
    return tarball(release.out / f"{stem}.tar.gz", stem, files, release.time)


def npm(release):
    """One package for all processors: a program is smaller than the code that would choose between packages."""
    programs = release.programs
    pages = page(next(iter(programs.values())), "sandpiper.1")
    described = {
        "name": PACKAGE, "version": release.version, "description": SUMMARY, "license": "MIT",
        "mcpName": release.server_name, "homepage": release.url,
        "repository": {"type": "git", "url": f"git+{release.url}.git"},
        "keywords": ["mcp", "mcp-server", "sandbox", "python", "code-interpreter"],
        "os": ["linux"], "cpu": sorted(programs, reverse=True),
        "bin": {"sandpiper": "bin/sandpiper", PACKAGE: "bin/sandpiper"}, **({"man": "sandpiper.1"} if pages else {}),
    }
    files = {"package.json": (as_json(described), PLAIN), "README.md": (readme(release, "npm").encode(), PLAIN),
             "bin/sandpiper": (source("packaging/npm/sandpiper"), PROGRAM), **pages, **texts(*programs.values())}
    files |= {f"lib/{arch}/sandpiper": (program.path.read_bytes(), PROGRAM) for arch, program in programs.items()}
    return tarball(release.out / f"{PACKAGE}-{release.version}.tgz", "package", files, release.time)


def readme(release, form):
    """README.md, where the commands of this form stand for those that build the source.

    Its links, which lead to files beside it, lead to the repository: a registry shows it alone.
    """
    before, _, after = re.split(r"(?<=^## Start\n\n)(.*?)(?=^    sandpiper run )", source("README.md").decode(),
                                maxsplit=1, flags=re.M | re.S)
    text = before + textwrap.indent(COMMANDS[form], "    ") + after
    links = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
    return links.sub(lambda to: f"]({release.url}/{'raw' if to[1].endswith(('.svg', '.png')) else 'blob'}/v{release.version}/{to[1]})",
                     text)


def wheel(release, arch):
    """The binary distribution format 1.0: installers copy .data/scripts to the environment's bin."""
    program, stem = release.programs[arch], f"{PACKAGE.replace('-', '_')}-{release.version}"
    info, scripts = f"{stem}.dist-info", f"{stem}.data/scripts"
    described = [
        "Metadata-Version: 2.1", f"Name: {PACKAGE}", f"Version: {release.version}", f"Summary: {SUMMARY}",
        "License: MIT", f"Project-URL: Homepage, {release.url}", "Requires-Python: >=3.9",
        "Classifier: Operating System :: POSIX :: Linux", "Description-Content-Type: text/markdown", "",
        readme(release, "wheel"), f"<!-- mcp-name: {release.server_name} -->", ""]
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in PLATFORMS[arch])
    files = {
        f"{scripts}/sandpiper": (program.path.read_bytes(), PROGRAM),
        f"{scripts}/{PACKAGE}": (source("packaging/wheel/sandpiper-mcp"), PROGRAM),
        f"{info}/METADATA": ("\n".join(described).encode(), PLAIN),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: sandpiper\nRoot-Is-Purelib: false\n{tags}".encode(), PLAIN),
        **{f"{info}/{name}": file for name, file in texts(program).items()}}
    files[f"{info}/RECORD"] = (record(files, f"{info}/RECORD"), PLAIN)
    name = f"{stem}-py3-none-{'.'.join(PLATFORMS[arch])}.whl"
    return zipped(release.out / name, files, release.time)


def record(files, own_name):
    """The list of a wheel's files; it has no digest of itself."""
    lines = []
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{own_name},,\n"]).encode()


def bundle(release, arch, tools):
    """An MCP bundle: a client installs it and shows a form for its settings."""
    program = release.programs[arch]
    settings = {name: {"type": "string", "title": title, "description": text, "default": default, "required": False}
                for name, (_, title, text, default) in SETTINGS.items()}
    settings["flags"] = {"type": "string", "title": "Further flags", "multiple": True, "required": False, "default": [],
                         "description": "Such as --workspace=/srv/project; sandpiper --help lists them."}
    manifest = {
        "manifest_version": "0.3", "name": "sandpiper", "display_name": "Sandpiper", "version": release.version,
        "description": SUMMARY, "author": {"name": "The Sandpiper authors"}, "license": "MIT",
        "server": {"type": "binary", "entry_point": "server/sandpiper", "mcp_config": {
            "command": "${__dirname}/server/sandpiper", "env": {},
            "args": [f"--{flag}=${{user_config.{name}}}" for name, (flag, *_) in SETTINGS.items()]
            + ["${user_config.flags}"]}},
        "tools": tools, "compatibility": {"platforms": ["linux"]}, "user_config": settings,
    }
    files = {"manifest.json": (as_json(manifest), PLAIN), "server/sandpiper": (program.path.read_bytes(), PROGRAM),
             **texts(program)}
    return zipped(release.out / f"sandpiper-{release.version}-linux-{arch}.mcpb", files, release.time)


def tools_of(program):
    """The tools in the program's definitions, each with its first paragraph."""
    listed = json.loads(run(program.path, "schema", stdout=subprocess.PIPE).stdout)
    return [{"name": tool["name"], "description": tool["description"].split("\n\n")[0]} for tool in listed]
