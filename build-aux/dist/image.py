"""Makes the container images, in OUT, without a container engine.

    image.py OUT [--image NAME] [--repository OWNER/NAME] [--binary PROGRAM]

    sandpiper-VERSION-image-ARCH.tar        the server, and a Python with numpy, pandas and matplotlib
    sandpiper-http-VERSION-image-ARCH.tar   the same behind a gateway from npm that speaks Streamable HTTP

for `docker load`, `podman load` and `skopeo copy`. There they are called NAME:VERSION (sandpiper:VERSION) and
NAME-http:VERSION. What is in them are Debian packages (mmdebstrap) and the static program, which is built where --binary
does not name it. The same source and the same packages give the same bytes, with the times of a release (dist.py).
"""
import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile

import oci
from forms import SUMMARY, Release, texts
from programs import ARCHES, ROOT, Program, build, run, source_time, version

sys.path.append(str(ROOT / "tests" / "machines"))
import images  # noqa: E402 - has this machine's source of Debian packages

SUITE = "trixie"
OCI_ARCHES = {"x64": "amd64", "arm64": "arm64"}
PACKAGES = "python3,python3-numpy,python3-pandas,python3-matplotlib,python3-pip-whl,ca-certificates,tini,tzdata"
PYTHON = "/usr/lib/python3/dist-packages"
# Not installed: documentation except the licences.
NO_FILES = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "info", "doc", "lintian")]
NO_FILES.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
# Removed, half of the rest: tests, and what packages need only for features that are optional: fontTools
# (scipy, sympy, lxml, unicode-data), matplotlib's windows (tk, blt). A user's install_package brings them whole.
REMOVED = (
    *(f"{PYTHON}/{name}" for name in ("scipy*", "*sympy*", "mpmath*", "lxml*", "*/tests", "*/*/tests", "*/*/*/tests")),
    *(f"/usr/share/{name}" for name in ("unicode", "javascript", "X11", "tcltk")),
    *(f"/usr/lib/{name}" for name in ("tcltk", "blt*", "*/libtk8*", "*/libBLT*")),
    "/var/lib/apt/*", "/var/log/*", "/var/cache/*", "/etc/hostname", "/etc/resolv.conf")
USER, UID, HOME = "sandpiper", 1000, "/home/sandpiper"
GATEWAY = ROOT / "packaging" / "image"
GATEWAY_AT = "opt/gateway"
NODE = f"/{GATEWAY_AT}/node_modules"
LABEL = "org.opencontainers.image."
SERVER_NAME = "io.modelcontextprotocol.server.name"  # tells the MCP registry the image's owner


def base(now):
    """The layer of Debian packages, with the user that the server runs as."""
    hook = "; ".join([
        f'echo {USER}:x:{UID}:{UID}::{HOME}:/usr/sbin/nologin >> "$1/etc/passwd"',
        f'echo {USER}:x:{UID}: >> "$1/etc/group"',
        "rm -rf " + " ".join(f'"$1"{path}' for path in REMOVED), ': > "$1/etc/machine-id"'])
    with tempfile.TemporaryDirectory() as work:
        sources, packed = pathlib.Path(work, "sources.list"), pathlib.Path(work, "base.tar")
        sources.write_text(images.sources(SUITE))
        run("mmdebstrap", "--quiet", "--variant=essential", f"--include={PACKAGES}", "--skip=output/dev",
            '--aptopt=Acquire::Languages "none"', '--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io",
            *(f"--aptopt={line}" for line in images.acquire_options()), *NO_FILES, f"--customize-hook={hook}",
            SUITE, packed, sources, env={**os.environ, "SOURCE_DATE_EPOCH": str(now)})
        return oci.layer(packed.read_bytes(), f"Debian {SUITE}: {PACKAGES}")


def program(release, made):
    now = release.time
    entries = [(oci.member("usr/bin/sandpiper", now, mode=0o755), made.path.read_bytes()),
               (oci.member(HOME[1:], now, tarfile.DIRTYPE, 0o755, UID), b"")]
    entries += [(oci.member(f"usr/share/doc/sandpiper/{name}", now, mode=mode), text)
                for name, (text, mode) in sorted(texts(made).items())]
    return oci.layer(oci.archive(entries), f"Sandpiper {release.version}")


def gateway_entry(path, name, now):
    if path.is_symlink():
        return oci.member(name, now, tarfile.SYMTYPE, 0o777, target=os.readlink(path)), b""
    if path.is_dir():
        return oci.member(name, now, tarfile.DIRTYPE, 0o755), b""
    return oci.member(name, now, mode=0o755 if os.access(path, os.X_OK) else 0o644), path.read_bytes()


def gateway(now):
    """The layer with Node.js and the gateway, or None without npm."""
    if not shutil.which("npm"):
        return None
    with tempfile.TemporaryDirectory() as work:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(GATEWAY / name, work)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=work, stdout=subprocess.DEVNULL)
        paths = sorted(pathlib.Path(work, "node_modules").rglob("*"))
        entries = [gateway_entry(path, f"{GATEWAY_AT}/{path.relative_to(work)}", now)
                   for path in paths if path.name != ".package-lock.json"]
        return oci.layer(oci.archive(entries), "a gateway and Node.js from npm")


def settings(release):
    """Its container has nothing but the server, so the image asks for the best isolation level that works in it."""
    return {
        "User": f"{UID}:{UID}", "WorkingDir": HOME, "StopSignal": "SIGTERM", "Entrypoint": ["/usr/bin/sandpiper"],
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={HOME}", "LANG=C.UTF-8", "SANDPIPER_ISOLATION=best"],
        "Labels": {SERVER_NAME: release.server_name, LABEL + "title": "Sandpiper", LABEL + "description": SUMMARY,
                   LABEL + "version": release.version, LABEL + "licenses": "MIT", LABEL + "source": release.url},
    }


def http_settings(plain):
    """Pid 1 is tini: a gateway does not reap. The registry's entry is the image that speaks stdio."""
    labels = {name: text for name, text in plain["Labels"].items() if name != SERVER_NAME}
    return {**plain, "Labels": {**labels, LABEL + "title": "Sandpiper over HTTP"}, "ExposedPorts": {"8000/tcp": {}},
            "Entrypoint": ["/usr/bin/tini", "--", f"{NODE}/.bin/node", f"{NODE}/supergateway/dist/index.js"],
            "Cmd": ["--stdio", "/usr/bin/sandpiper", "--outputTransport", "streamableHttp", "--stateful",
                    "--sessionTimeout", "600000", "--healthEndpoint", "/healthz", "--port", "8000"]}


def write(release, title, layers, arch, config, reference):
    path = release.out / f"{title}-{release.version}-image-{arch}.tar"
    path.write_bytes(oci.image(layers, OCI_ARCHES[arch], config, reference, release.time))
    print(f"{path}: {reference}, {path.stat().st_size >> 20} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--image", default="sandpiper", metavar="NAME")
    parser.add_argument("--repository", default="sandpiper-mcp/sandpiper")
    parser.add_argument("--binary", type=pathlib.Path, metavar="PROGRAM")
    options = parser.parse_args()
    arch = ARCHES[platform.machine()]
    made = Program(options.binary) if options.binary else build(arch)
    release = Release(options.out, version(), options.repository, source_time(), {arch: made})
    release.out.mkdir(parents=True, exist_ok=True)
    layers, plain = [base(release.time), program(release, made)], settings(release)
    write(release, "sandpiper", layers, arch, plain, f"{options.image}:{release.version}")
    front = gateway(release.time)
    if front:
        write(release, "sandpiper-http", [*layers, front], arch, http_settings(plain),
              f"{options.image}-http:{release.version}")
    else:
        print("sandpiper-http: left out, npm is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
