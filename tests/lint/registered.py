"""Fail when a file of tests is in no suite: it would never run; or when two have one name, at which meson ends.

Arguments: the source and the build directory.
"""
import collections
import json
import pathlib
import sys

# A cross build alone registers it.
ELSEWHERE = {"tests/e2e/isolation/test_emulated.py"}


def main(root, build):
    known = json.loads((build / "meson-info" / "intro-tests.json").read_text())
    words = {word for test in known for word in test["cmd"]}
    scripts = {pathlib.Path(word).resolve() for word in words if word.endswith(".py")}
    programs = {pathlib.Path(word).name for word in words}
    missing = [path for path in root.glob("tests/**/test_*.py") if path.resolve() not in scripts]
    for path in root.glob("tests/unit/**/test_*.c"):
        parts = path.relative_to(root / "tests" / "unit").with_suffix("").parts
        name = "_".join((*parts[:-1], parts[-1].removeprefix("test_")))
        if f"test_{name}" not in programs:
            missing.append(path)
    names = sorted(set(str(path.relative_to(root)) for path in missing) - ELSEWHERE)
    for name in names:
        print(f"{name}: in no suite of tests/meson.build")
    twice = [name for name, count in collections.Counter((*test["suite"], test["name"]) for test in known).items() if count > 1]
    for *suites, name in twice:
        print(f"{name}: the name of two tests of {suites} in tests/meson.build")
    return 1 if names or twice else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
