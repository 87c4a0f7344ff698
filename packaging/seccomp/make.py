"""Makes sandpiper.json, a seccomp profile for containers, of calls.txt, whose first lines describe its form.

    make.py            writes it beside this file
    make.py --check    checks whether the existing file is the same

The profile keeps to what Docker's form and the OCI runtime's have in common, so the same file serves `docker run`,
`podman run` and a kubelet's Localhost profiles. It names no architecture: a runtime then takes the machine's own, and
kills programs of other ones (32-bit ones on x86-64). It skips names that its libseccomp does not know.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROFILE = HERE / "sandpiper.json"
EPERM = 1
TEST = re.compile(r"(\w+): (\d) (\w+) (\w+)")
REFUSAL = re.compile(r"(\w+) = (\d+)")


def rule(line):
    """One line of calls.txt in the profile's form."""
    if found := TEST.fullmatch(line):
        name, index, operation, value = found.groups()
        test = {"index": int(index), "value": int(value, 0), "op": f"SCMP_CMP_{operation}"}
        return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [test]}
    if found := REFUSAL.fullmatch(line):
        return {"names": [found[1]], "action": "SCMP_ACT_ERRNO", "errnoRet": int(found[2])}
    return {"names": line.split(), "action": "SCMP_ACT_ALLOW"}


def profile(text):
    rules = [rule(line) for line in text.splitlines() if line and not line.startswith("#")]
    plain = [each for each in rules if each.keys() == {"names", "action"}]
    names = [name for each in plain for name in each["names"]]
    several = {name for name in names if names.count(name) > 1}
    if several:
        raise SystemExit(f"calls.txt: more than once: {' '.join(sorted(several))}")
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": EPERM,
            "syscalls": [{"names": sorted(names), "action": "SCMP_ACT_ALLOW"},
                         *(each for each in rules if each not in plain)]}


def main(arguments):
    made = json.dumps(profile((HERE / "calls.txt").read_text()), indent=1) + "\n"
    if arguments == ["--check"]:
        return 0 if PROFILE.read_text() == made else f"{PROFILE.name} is not what make.py makes of calls.txt"
    PROFILE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
