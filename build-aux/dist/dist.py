"""The files of a release, in OUT: static programs in each form that installers take, the registry's entry, sums.

    dist.py OUT [--repository OWNER/NAME] [--image NAME] [--binary ARCH=PROGRAM]...

Without --binary, builds the programs in build-dist/: for this machine's architecture, and for 64-bit ARM if its cross
compiler and libraries are installed (deps.sh aarch64). There are

    sandpiper-VERSION-linux-ARCH.tar.gz   the program, its manual page, the licences of what is linked into it
    sandpiper-VERSION-linux-ARCH.mcpb     an MCP bundle: a client installs it and shows a form for its settings
    sandpiper_mcp-VERSION-...whl          a wheel: pip, uvx, pipx
    sandpiper-mcp-VERSION.tgz             an npm package with the programs for all architectures
    server.json                           the entry of the MCP registry, which lists all these
    SHA256SUMS

URLs point to the release of --repository on GitHub, from which the server's name in the registry derives. With --image,
the name of a container image without its tag, the entry lists that too. The same source gives the same bytes: times are
those of SOURCE_DATE_EPOCH, else of the last commit.
"""
import argparse
import pathlib
import platform
import sys

import forms
import registry
from archives import as_json
from programs import ARCHES, Program, built, source_time, version


def make(release, tools, image):
    """Writes everything, and returns the lines of SHA256SUMS."""
    release.out.mkdir(parents=True, exist_ok=True)
    bundles = [forms.bundle(release, arch, tools) for arch in release.programs]
    made = [*bundles, *(form(release, arch) for arch in release.programs for form in (forms.archive, forms.wheel)),
            forms.npm(release), release.out / "server.json"]
    made[-1].write_bytes(as_json(registry.entry(release, bundles, image)))
    sums = "".join(f"{registry.sha256(path)}  {path.name}\n" for path in sorted(made))
    (release.out / "SHA256SUMS").write_text(sums)
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--repository", default="sandpiper-mcp/sandpiper")
    parser.add_argument("--image")
    parser.add_argument("--binary", action="append", default=[], metavar="ARCH=PROGRAM")
    options = parser.parse_args()
    given = dict(one.split("=", 1) for one in options.binary)
    programs = {arch: Program(pathlib.Path(path)) for arch, path in given.items()} or built()
    release = forms.Release(options.out, version(), options.repository, source_time(), dict(sorted(programs.items())))
    tools = forms.tools_of(programs[ARCHES[platform.machine()]])
    print(make(release, tools, options.image), end="")
    if not options.image:
        print("server.json lists no container image: none was named (IMAGE=NAME)")
    wrong = registry.complaints(options.out)
    print("".join(f"wrong: {one}\n" for one in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
