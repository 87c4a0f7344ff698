"""The information that a client gets before the first call: tool descriptions, annotations, instructions."""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

from client import Case, Server, give_away
from container_level import CONTAINER

# OpenAI's API refuses longer descriptions of functions, and clients pass ours on to it.
DESCRIPTION_MOST = 1024


def tools_of(server):
    return {tool["name"]: tool for tool in server.request("tools/list")["result"]["tools"]}


class Descriptions(Case):
    def test_descriptions_are_short_and_have_no_placeholder_left(self):
        with Server() as server:
            for name, tool in tools_of(server).items():
                with self.subTest(tool=name):
                    self.assertLessEqual(len(tool["description"]), DESCRIPTION_MOST)
                    self.assertNotRegex(json.dumps(tool), r"\{[a-z_]+\}")
                    self.assertIs(tool["_meta"]["anthropic/alwaysLoad"], True)
                    self.assertEqual(tool["annotations"]["title"], tool["title"])

    def test_descriptions_have_the_limits_in_force(self):
        with Server("--memory", "2G", "--disk", "64M", "--pids", "77", "--timeout", "5",
                    "--max-timeout", "9") as server:
            text = tools_of(server)["run_python"]["description"]
            for words in ("no network", "2 GiB of memory", "64 MiB of files", "77 processes", "5 s per call",
                          "at most 9"):
                self.assertIn(words, text)

    def test_hints_say_what_a_tool_may_do(self):
        with Server() as server:
            tools = tools_of(server)
        for name, reads, destroys, open_world in (("run_python", False, True, False),
                                                  ("write_file", False, True, False),
                                                  ("read_file", True, None, False),
                                                  ("install_package", False, False, True)):
            hints = tools[name]["annotations"]
            self.assertEqual((hints["readOnlyHint"], hints.get("destructiveHint"), hints["openWorldHint"]),
                             (reads, destroys, open_world), name)

    def test_all_that_a_model_reads_before_it_calls_is_short(self):
        """Each conversation pays for it. Without the packages of this machine's Python."""
        with tempfile.TemporaryDirectory(prefix="sp-short-") as directory:
            os.chmod(directory, 0o755)
            for args in ((), ("--workspace", directory), ("--allow-host", "ask")):
                with Server(*args, initialize=False) as server:
                    text = server.initialize()["instructions"]
                    tools = json.dumps(server.request("tools/list")["result"], ensure_ascii=False, separators=(",", ":"))
                    self.assertLess(len(tools.encode()) + len(re.sub("(?m)^Python: .*", "", text).encode()), 9500 - 250, args)

    def instructions(self, *args, **options):
        with Server(*args, initialize=False, **options) as server:
            text = server.initialize()["instructions"]
            self.assertLess(len(text.encode()), 2048)
            return text

    def test_instructions_name_the_interpreter_and_well_known_packages(self):
        with tempfile.TemporaryDirectory(prefix="sp-hosts-") as directory:
            binary = os.path.realpath(sys.executable)
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            pathlib.Path(directory, "bin").mkdir()
            pathlib.Path(directory, "bin", "python").symlink_to(binary)
            pathlib.Path(directory, "pyvenv.cfg").write_text(f"home = {os.path.dirname(binary)}\n")
            site = pathlib.Path(directory, "lib", f"python{version}", "site-packages")
            for name in ("pandas-2.1.4", "numpy-1.26.4", "somebodys-1.0"):
                (site / f"{name}.dist-info").mkdir(parents=True)
            text = self.instructions("--python", f"{directory}/bin/python")
            self.assertIn(f"CPython {version} with numpy 1.26.4, pandas 2.1.4; its clock is in UTC", text)

    def test_instructions_say_whether_packages_can_be_added(self):
        self.assertIn("install_package adds others from a directory of wheels.",
                      self.instructions("--no-index", "--find-links", tempfile.gettempdir()))
        self.assertIn("with the user's approval", self.instructions("--install", "ask"))
        self.assertNotIn("install_package", self.instructions("--install", "off"))

    def test_instructions_name_workspace_and_isolation(self):
        text = self.instructions()
        for words in ("no network", "/work", "Isolation: "):
            self.assertIn(words, text)

    def test_instructions_say_whether_the_user_finds_the_files(self):
        with tempfile.TemporaryDirectory(prefix="sp kept-") as directory:
            os.chmod(directory, 0o777)
            give_away(directory)
            place = os.path.realpath(directory)
            gone, out_of_reach, keep = "gone when this server exits", "the user cannot open its files", "--workspace DIR"
            for args, said, unsaid in (
                    ((), (gone, out_of_reach, keep), (place,)),
                    (("--mount", f"{place}:in"), (gone, out_of_reach, keep), ()),
                    (("--mount", f"{place}:out:rw"), (gone, out_of_reach, "to a writable directory of the user's"), (keep,)),
                    (("--resources",), (gone, "the user gets its files as resources"), (out_of_reach,)),
                    (("--workspace", directory), (f"the user's directory {place}, where the user finds the files",),
                     (gone, out_of_reach))):
                text = self.instructions(*args)
                for words in said:
                    self.assertIn(words, text, args)
                for words in unsaid:
                    self.assertNotIn(words, text, args)
            self.assertIn("in memory, gone" if not CONTAINER else "temporary, gone", self.instructions())


if __name__ == "__main__":
    unittest.main()
