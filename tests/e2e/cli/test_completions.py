"""The shells' completions, requested as the shells do, offer the words of the program's help."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

BINARY = os.environ["SANDPIPER"]
DIRECTORY = pathlib.Path(os.environ["SANDPIPER_COMPLETIONS"])
HELP = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
FLAGS = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", HELP, re.M))
COMMANDS = {"run", "doctor", "schema", "call", "config", "record", "keep"}


def need(shell):
    if not shutil.which(shell):
        raise unittest.SkipTest(f"{shell}: not installed")


def bash(*words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sandpiper 2>/dev/null; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", DIRECTORY / "sandpiper", "sandpiper", *words],
                          capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def fish(line):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {DIRECTORY}/sandpiper.fish; complete -C '{line}'"],
                          capture_output=True, text=True, check=True)
    return {row.partition("\t")[0] for row in done.stdout.splitlines()}


class Completions(unittest.TestCase):
    def test_every_flag_of_the_help_is_offered(self):
        offered = set().union(*(bash(command, "--") for command in COMMANDS))
        self.assertEqual(offered, FLAGS)

    def test_commands_and_tools(self):
        self.assertEqual(bash(""), COMMANDS)
        self.assertEqual(bash("call", "run"), {"run_python"})

    def test_flags_of_other_commands_are_not_offered(self):
        self.assertIn("--plan", bash("doctor", "--p"))
        self.assertNotIn("--plan", bash("--p"))
        self.assertEqual(bash("config", "--"), {"--host", "--name", "--install", "--uninstall", "--in-memory", "--keep", "--file"})
        self.assertIn("--memory", bash("config", "--host", "zed", "--", "--m"))

    def test_values(self):
        self.assertEqual(bash("schema", "--format", "g"), {"gemini"})
        self.assertEqual(bash("schema", "--format", "=", "g"), {"gemini"})
        self.assertEqual(bash("config", "--host", "z"), {"zed"})
        self.assertEqual(bash("--install", "a"), {"ask"})
        self.assertEqual(bash("config", "--install", "--f"), {"--file"})
        self.assertEqual(bash("--require", "memory,c"), {"memory,cpu"})

    def test_fish(self):
        need("fish")
        self.assertEqual(set().union(*(fish(f"sandpiper {command} --") for command in COMMANDS)), FLAGS)
        self.assertEqual(fish("sandpiper schema --format g"), {"gemini"})
        self.assertLessEqual(COMMANDS, fish("sandpiper "))

    def test_zsh_accepts_the_syntax(self):
        need("zsh")
        done = subprocess.run(["zsh", "-n", DIRECTORY / "_sandpiper"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
