"""server.json, the entry of the MCP registry, and the check of a release as a whole.

    registry.py DIRECTORY     prints the inconsistencies of a release; exit status 1 if there are any

The rules are those of the schema that the entry names, and of the registry: it learns the owner of a package from the
server's name in it. Stricter than the schema, a field that is not in ENTRY and PACKAGES is refused.
"""
import base64
import csv
import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile
import zipfile

from forms import PACKAGE, SUMMARY

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
STDIO = {"type": "stdio"}
ENTRY = {"$schema", "name", "title", "description", "version", "repository", "packages"}
# The fields of a package: an image and a bundle have their version in the identifier.
PACKAGES = {
    "npm": {"registryType", "identifier", "version", "runtimeHint", "transport"},
    "pypi": {"registryType", "identifier", "version", "runtimeHint", "transport"},
    "oci": {"registryType", "identifier", "runtimeHint", "transport"},
    "mcpb": {"registryType", "identifier", "fileSha256", "transport"},
}


def entry(release, bundles, image):
    """bundles: paths. image: a container image's name without tag, or None where none is published."""
    packages = [{"registryType": kind, "identifier": PACKAGE, "version": release.version, "runtimeHint": hint,
                 "transport": STDIO} for kind, hint in (("npm", "npx"), ("pypi", "uvx"))]
    if image:
        packages.append({"registryType": "oci", "identifier": f"{image}:{release.version}",
                         "runtimeHint": "docker", "transport": STDIO})
    packages += [{"registryType": "mcpb", "fileSha256": sha256(path), "transport": STDIO,
                  "identifier": f"{release.url}/releases/download/v{release.version}/{path.name}"} for path in bundles]
    return {"$schema": SCHEMA, "name": release.server_name, "title": "Sandpiper", "description": SUMMARY,
            "version": release.version, "repository": {"url": release.url, "source": "github"}, "packages": packages}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def complaints(directory):
    """Sentences; none for a consistent release."""
    said = json.loads((directory / "server.json").read_text())
    if said.keys() != ENTRY:
        return [f"server.json: these fields are missing or unknown: {sorted(said.keys() ^ ENTRY)}"]
    return [*of_entry(said), *of_sums(directory), *of_npm(directory, said), *of_wheels(directory, said),
            *of_bundles(directory, said), *of_packages(directory, said)]


def of_entry(said):
    owner = re.fullmatch(r"io\.github\.([\w.-]+/[\w.-]+)", said["name"])
    if said["$schema"] != SCHEMA:
        yield "server.json: another schema"
    if not owner or said["repository"] != {"url": f"https://github.com/{owner[1]}", "source": "github"}:
        yield f"server.json: {said['name']} is not the name for {said['repository']}"
    if not re.fullmatch(r"\d+\.\d+\.\d+", said["version"]):
        yield f"server.json: {said['version']} is no release's version"
    for field in ("title", "description"):
        if not 1 <= len(said[field]) <= 100:
            yield f"server.json: {field} has {len(said[field])} characters, not 1 to 100"


def of_packages(directory, said):
    kinds = [package.get("registryType") for package in said["packages"]]
    if [kind for kind in kinds if kind not in ("oci", "mcpb")] != ["npm", "pypi"] or "mcpb" not in kinds:
        yield f"server.json: its packages are {kinds}"
    for package in said["packages"]:
        kind, name = package.get("registryType"), package.get("identifier", "")
        if package.keys() != PACKAGES.get(kind):
            yield f"server.json: fields of {kind}: {sorted(package)}"
        elif package["transport"] != STDIO:
            yield f"server.json: {kind}: transport {package['transport']}"
        elif kind in ("npm", "pypi") and (name, package["version"]) != (PACKAGE, said["version"]):
            yield f"server.json: {kind}: {name} {package['version']}"
        elif kind == "oci" and not re.fullmatch(rf"[a-z0-9./_-]+:{re.escape(said['version'])}", name):
            yield f"server.json: {name} is not an image with the version as its tag"
        elif kind == "mcpb":
            yield from of_link(directory, said, package)


def of_link(directory, said, package):
    place, _, name = package["identifier"].rpartition("/")
    if place != f"{said['repository']['url']}/releases/download/v{said['version']}":
        yield f"server.json: {package['identifier']} is no file of this release"
    elif not (directory / name).is_file() or sha256(directory / name) != package["fileSha256"]:
        yield f"server.json: {name} is not the file with this sum"


def of_sums(directory):
    listed = [line.split("  ") for line in (directory / "SHA256SUMS").read_text().splitlines()]
    for digest, name in listed:
        if not (directory / name).is_file() or sha256(directory / name) != digest:
            yield f"SHA256SUMS: {name} is not the file with this sum"
    kinds = {"server.json", *(path.name for kind in ("*.tar.gz", "*.tgz", "*.whl", "*.mcpb") for path in directory.glob(kind))}
    if kinds != {name for _, name in listed}:
        yield f"SHA256SUMS: missing or too many: {sorted(kinds ^ {name for _, name in listed})}"


def of_npm(directory, said):
    paths = list(directory.glob("*.tgz"))
    if [path.name for path in paths] != [f"{PACKAGE}-{said['version']}.tgz"]:
        yield f"npm: {[path.name for path in paths]}"
        return
    with tarfile.open(paths[0]) as archive:
        modes = {member.name.removeprefix("package/"): member.mode for member in archive}
        described = json.load(archive.extractfile("package/package.json"))
    for field, wanted in {"name": PACKAGE, "version": said["version"], "mcpName": said["name"], "os": ["linux"]}.items():
        if described.get(field) != wanted:
            yield f"npm: {field} is {described.get(field)}, not {wanted}"
    if {"scripts", "dependencies", "optionalDependencies"} & described.keys():
        yield "npm: something runs or is fetched when it is installed"
    programs = [*described["bin"].values(), *(f"lib/{cpu}/sandpiper" for cpu in described["cpu"])]
    if any(modes.get(name) != 0o755 for name in programs):
        yield f"npm: not all of {programs} are programs"


def of_wheels(directory, said):
    for path in directory.glob("*.whl"):
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        if path.name.split("-")[:2] != [PACKAGE.replace("-", "_"), said["version"]]:
            yield f"{path.name}: its name is not that of {PACKAGE} {said['version']}"
        info = next(name for name in files if name.endswith(".dist-info/METADATA"))
        metadata = files[info].decode()
        for line in (f"Name: {PACKAGE}", f"Version: {said['version']}", f"<!-- mcp-name: {said['name']} -->"):
            if line not in metadata.splitlines():
                yield f"{path.name}: no line {line}"
        rows = csv.reader(io.StringIO(files[info.replace("METADATA", "RECORD")].decode()))
        listed = {name: digest for name, digest, _ in rows}
        for name, data in files.items():
            digest = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if listed.get(name) != ("" if name.endswith("/RECORD") else digest):
                yield f"{path.name}: RECORD is wrong about {name}"


def of_bundles(directory, said):
    for path in directory.glob("*.mcpb"):
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            mode = archive.getinfo(manifest["server"]["entry_point"]).external_attr >> 16 & 0o777
        if manifest["version"] != said["version"]:
            yield f"{path.name}: version {manifest['version']}"
        if mode != 0o755:
            yield f"{path.name}: its program has mode {mode:o}"


if __name__ == "__main__":
    found = complaints(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "everything fits")
    sys.exit(bool(found))
