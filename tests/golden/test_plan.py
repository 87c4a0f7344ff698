"""The plan of a sandbox as `doctor --plan` prints it, without the parts that depend on the host.

Left out are optional trees, symlinks and trees of system directories, the interpreter's own directories, ids, and the
driver's modules. SANDPIPER_BLESS=1 rewrites the file; review the diff.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import COMMAND, Case  # noqa: E402

SYSTEM = r"/(bin|lib|lib32|lib64|libx32|sbin)"


def plan(*options):
    done = subprocess.run([*COMMAND, "doctor", "--plan", "--memory", "1G", *options], capture_output=True, text=True,
                          timeout=30)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines()


def is_passed_over(step):
    if step.startswith("write file /run/sandpiper/") and not step.endswith("/driver.py"):
        return True
    if step.endswith("[if present]") or re.fullmatch(rf"link \S+ at {SYSTEM}", step):
        return True
    tree = re.match(r"(?:open|mount) tree (\S+)(?: at (\S+))?", step)
    return bool(tree) and not re.match(r"(/usr|/dev/\w+|<workspace>)$", tree[1])


def masked(lines, workspace=None, shown=None):
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*(\d+)  (.*)$", line)
        if not found or int(found[1]) != number:
            raise AssertionError(f"line {number} is no step: {line}")
        step = found[2]
        if workspace:
            # Which of the two depends on the owner of the directory and on the user.
            step = re.sub(rf"^(open tree|take tree with mapped ids) {re.escape(workspace)}",
                          "open or take tree <workspace>", step)
            step = step.replace(workspace, "<workspace>")
        if shown and shown in step:
            step = re.sub(r"^(open tree|take tree with mapped ids)", "open or take tree", step)
            yield step.replace(shown, "<directory>")
            continue
        step = re.sub(r"\d+:\d+ outside", "<ids> outside", step)
        if not is_passed_over(step):
            yield step


class Plan(Case):
    def check(self, name, lines):
        path = HERE / name
        if os.environ.get("SANDPIPER_BLESS"):
            path.write_text("\n".join(lines) + "\n")
        self.assertEqual(lines, path.read_text().splitlines())

    def test_own_workspace(self):
        self.check("plan.txt", list(masked(plan())))

    def test_named_workspace(self):
        with tempfile.TemporaryDirectory() as directory:
            lines = plan("--workspace", directory, "--disk", "5M")
            self.check("plan_workspace.txt", list(masked(lines, os.path.realpath(directory))))

    def test_directories_of_the_user(self):
        """The steps that they add to the plan."""
        with tempfile.TemporaryDirectory() as directory:
            directory = os.path.realpath(directory)
            for name in ("in", "out"):
                os.mkdir(f"{directory}/{name}")
            steps = list(masked(plan("--mount", f"{directory}/in", "--mount", f"{directory}/out:results:rw"),
                                shown=directory))
        without = list(masked(plan()))
        self.check("plan_mount.txt", [step for step in steps if "<directory>" in step])
        self.assertEqual([step for step in steps if "<directory>" not in step], without)


if __name__ == "__main__":
    unittest.main()
