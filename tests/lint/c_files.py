"""Run clang-format or clang-tidy over our C files; exit 77 (a skip for meson) where this version of it is missing.

    c_files.py format SOURCE_ROOT
    c_files.py write SOURCE_ROOT                formats the files
    c_files.py fetch SOURCE_ROOT                installs this clang-format in SOURCE_ROOT/build-format, with pip, where it is missing
    c_files.py tidy SOURCE_ROOT BUILD_ROOT      (BUILD_ROOT: a directory configured with clang)

BUILD_ROOT/tidy has a file for each input in which clang-tidy found nothing; it does not read the same once more.

Nine tenths of its time go into long paths of a few big functions, which its analyzer follows up to 225,000 nodes.
SANDPIPER_TEST_NODES is another bound.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

VERSION = "14."  # Debian 12's; 19 lays out some macros in another way, and finds faults in other things
DIRECTORIES = ("base", "schema", "rpc", "record", "sandbox", "guest", "tools", "bridge", "cli", "tests")
FETCHED = "build-format"
WHEEL = "14.0.6"
PINNED = f"clang-format=={WHEEL} --hash=sha256:d7c1c5e404c58e55f0170f01b3c5611dce6c119e62b5d1020347e0ad97d5a047 " \
    "--hash=sha256:dbfd60528eb3bb7d7cfe8576faa70845fbf93601f815ef75163d36606e87f388\n"  # for x86-64 and 64-bit ARM
NODES = os.environ.get("SANDPIPER_TEST_NODES")
INCLUDE = re.compile(rb'^ *# *include *["<]([^">]+)', re.M)


def version_of(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return (re.search(r"version ([\w.]+)", said) or ["", "unknown"])[1]


def need(tool, root):
    """The program of this name that has the version: of the system, or that of `fetch`."""
    programs = [path for path in (shutil.which(tool), shutil.which(root / FETCHED / "bin" / tool)) if path]
    if not programs:
        print(f"{tool}: not installed")
        sys.exit(77)
    for program in programs:
        if version_of(program).startswith(VERSION):
            return program
    more = ": make format installs it" if tool == "clang-format" else ""
    print(f"{tool}: version {version_of(programs[0])}, not version {VERSION}*, for which the files are written{more}")
    sys.exit(77)


def fetch(root):
    """Debian 13 has no package of it."""
    if any(version_of(path).startswith(VERSION) for path in (shutil.which("clang-format"), shutil.which(root / FETCHED / "bin/clang-format")) if path):
        return 0
    print(f"c_files.py: installing clang-format {WHEEL} in {FETCHED}", flush=True)
    for command in ([sys.executable, "-m", "venv", root / FETCHED],
                    [root / FETCHED / "bin" / "pip", "install", "--quiet", "--only-binary=:all:", "--require-hashes", "-r", "/dev/stdin"]):
        if subprocess.run(command, input=PINNED, text=True).returncode:
            print(f"c_files.py: cannot install clang-format {WHEEL}: see the message above; Debian 12 has it as a package")
            return 1
    return 0


def report(done):
    if done.returncode:
        print(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    return done.returncode != 0


def run_format(root, *options):
    program = need("clang-format", root)
    files = [str(path) for directory in DIRECTORIES for path in sorted((root / directory).rglob("*.[ch]"))]
    return report(subprocess.run([program, *options, *files], capture_output=True))


def read_of(path, tops, found, system):
    """Adds the texts of a file and of our headers that it includes to `found`, and the names of others to `system`."""
    found[path] = path.read_bytes()
    for name in map(os.fsdecode, INCLUDE.findall(found[path])):
        header = next((top / name for top in tops if (top / name).is_file()), None)
        if header is None:
            system.add(name)
        elif header not in found:
            read_of(header, tops, found, system)
    return found


def read_by_tidy(once, ours, tops, settings):
    """For each file a hash of what clang-tidy reads: the command, the file with its headers, and the settings. The
    preprocessor runs once, for the system's headers of all files: once for each takes a fifth of clang-tidy's time."""
    system = set()
    read = {path: read_of(path, tops, {}, system) for path in ours}
    words = {path: shlex.split(once[path]["command"]) for path in ours}
    words = {path: words[path][:words[path].index("-MD")] for path in ours}
    headers = subprocess.run([*words[ours[0]], "-E", "-C", "-"], cwd=once[ours[0]]["directory"], stdout=subprocess.PIPE,
                             input="".join(f"#include <{name}>\n" for name in sorted(system)).encode()).stdout
    return {path: hashlib.sha256(b"\0".join((*map(os.fsencode, words[path]), settings, headers, *read[path].values()))).hexdigest()
            for path in ours}


def check_tidy(root, build):
    need("clang-tidy", root)
    commands = json.loads((build / "compile_commands.json").read_text())
    if not any("clang" in entry["command"].split()[0] for entry in commands):
        print("clang: the build directory is not configured with it")
        sys.exit(77)
    # Checks a file that several programs share once: in its second run in a process the analyzer reports every va_list
    # as uninitialized.
    once = {(pathlib.Path(entry["directory"]) / entry["file"]).resolve(): entry for entry in reversed(commands)}
    ours = [path for path in sorted(once) if path.is_relative_to(root) and path.exists()
            and path.relative_to(root).parts[0] in DIRECTORIES[:-1]]
    nodes = ["-analyzer-config", f"max-nodes={NODES}"] if NODES else []
    command = ["clang-tidy", "--quiet", "--checks=clang-diagnostic-*",
               *(f"--extra-arg={word}" for option in nodes for word in ("-Xclang", option))]
    settings = (root / ".clang-tidy").read_bytes() + subprocess.run(
        [*command, "--version"], capture_output=True, check=True).stdout + repr(command).encode()
    (build / "tidy").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pathlib.Path(directory, "compile_commands.json").write_text(json.dumps(list(once.values())))

        hashes = read_by_tidy(once, ours, (root, build), settings)

        def check(path):
            good = build / "tidy" / hashes[path]
            if good.exists():
                return False
            bad = report(subprocess.run([*command, "-p", directory, str(path)], capture_output=True))
            if not bad:
                good.touch()
            return bad

        return any(list(pool.map(check, ours)))


if __name__ == "__main__":
    source = pathlib.Path(sys.argv[2]).resolve()
    if sys.argv[1] == "fetch":
        sys.exit(fetch(source))
    if sys.argv[1] != "tidy":
        sys.exit(run_format(source, *(("-i",) if sys.argv[1] == "write" else ("--dry-run", "--Werror"))))
    sys.exit(check_tidy(source, pathlib.Path(sys.argv[3]).resolve()))
