"""What hosts are told before they call, and that no answer is more than they take."""
import base64
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

from client import Case, Server, Shared

ANSWER_MOST = 900_000  # Claude Desktop refuses a result of more than 1 MB
TEXT_MOST = 24_000
# OpenAI's interface refuses longer descriptions of functions, and hosts hand ours on to it.
DESCRIPTION_MOST = 1024


def noise_png(size):
    """A picture that hardly compresses, of about so many bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    side = int((size / 3) ** 0.5)
    rows = b"".join(b"\0" + os.urandom(side * 3) for _ in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def tools_of(server):
    return {tool["name"]: tool for tool in server.request("tools/list")["result"]["tools"]}


class Told(Case):
    def test_descriptions_are_short_and_have_no_placeholder_left(self):
        with Server() as server:
            for name, tool in tools_of(server).items():
                with self.subTest(tool=name):
                    self.assertLessEqual(len(tool["description"]), DESCRIPTION_MOST)
                    self.assertNotRegex(json.dumps(tool), r"\{[a-z_]+\}")
                    self.assertIs(tool["_meta"]["anthropic/alwaysLoad"], True)
                    self.assertEqual(tool["annotations"]["title"], tool["title"])

    def test_limits_in_force_are_told(self):
        with Server("--memory", "2G", "--disk", "64M", "--pids", "77", "--timeout", "5",
                    "--max-timeout", "9") as server:
            text = tools_of(server)["run_python"]["description"]
            for words in ("no network", "2 GiB of memory", "64 MiB of files", "77 processes", "5 s a call",
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

    def instructions(self, *args, **options):
        with Server(*args, initialize=False, **options) as server:
            text = server.initialize()["instructions"]
            self.assertLess(len(text.encode()), 2048)
            return text

    def test_instructions_name_the_interpreter_and_well_known_packages(self):
        with tempfile.TemporaryDirectory(prefix="sp-hosts-") as folder:
            binary = os.path.realpath(sys.executable)
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            pathlib.Path(folder, "bin").mkdir()
            pathlib.Path(folder, "bin", "python").symlink_to(binary)
            pathlib.Path(folder, "pyvenv.cfg").write_text(f"home = {os.path.dirname(binary)}\n")
            site = pathlib.Path(folder, "lib", f"python{version}", "site-packages")
            for name in ("pandas-2.1.4", "numpy-1.26.4", "somebodys-1.0"):
                (site / f"{name}.dist-info").mkdir(parents=True)
            text = self.instructions("--python", f"{folder}/bin/python")
            self.assertIn(f"CPython {version} with numpy 1.26.4, pandas 2.1.4.\n", text)

    def test_instructions_say_whether_packages_can_be_added(self):
        self.assertIn("install_package adds others from a folder of wheels.",
                      self.instructions("--no-index", "--find-links", tempfile.gettempdir()))
        self.assertIn("when the user agrees", self.instructions("--install", "ask"))
        self.assertNotIn("install_package", self.instructions("--install", "off"))

    def test_instructions_name_workspace_and_isolation(self):
        text = self.instructions()
        for words in ("no network", "/work", "Isolation: "):
            self.assertIn(words, text)
        self.assertNotIn("folder of the user's", text)
        self.assertIn("folder of the user's", self.instructions("--workspace", tempfile.gettempdir()))


class Taken(Shared):
    """The largest answers that each tool gives."""

    def measured(self, tool, **arguments):
        request = self.server.start_call(tool, **arguments)
        answer = self.server.wait(request, 60)
        self.assertLess(len(json.dumps(answer, ensure_ascii=False).encode()), ANSWER_MOST)
        content = answer["result"]["content"]
        self.assertLessEqual(sum(len(block.get("text", "")) for block in content), TEXT_MOST)
        return content

    def put(self, path, data):
        self.server.write(path, base64.b64encode(data).decode(), encoding="base64")

    def test_much_output_with_pictures(self):
        for number in range(4):
            self.put(self.server.here(f"/tmp/{number}.png"), noise_png(149_000))
        content = self.measured(
            "run_python", code=self.server.here("import shutil\nfor n in range(4): shutil.copy(f'/tmp/{n}.png', '.')\n"
                                                "print('\\x01' * 100_000)"))
        self.assertGreater(sum(block["type"] == "image" for block in content), 2)

    def test_much_output_of_every_kind(self):
        for code in ("print('\\u2028' * 100_000)", "print('x' * 10_000_000)", "print('\\n' * 100_000)",
                     "raise ValueError('\\x02' * 1_000_000)", "'\\\\' * 1_000_000",
                     "for n in range(5000): globals()[f'v{n}' + 'x' * 200] = n"):
            with self.subTest(code=code):
                self.measured("run_python", code=code)

    def test_large_files(self):
        self.server.python("open('controls', 'w').write(('a' * 40 + '\\x01') * 20_000)\n"
                           "open('line', 'w').write('x' * 3_000_000)")
        self.put("big.png", noise_png(600_000))
        for arguments in ({"path": "controls"}, {"path": "line"}, {"path": "controls", "encoding": "text"},
                          {"path": "big.png"}):
            with self.subTest(arguments=arguments):
                self.measured("read_file", **arguments)
        answer = self.server.wait(self.server.start_call("read_file", path="line", encoding="base64",
                                                         length=480_000))
        self.assertLess(len(json.dumps(answer)), ANSWER_MOST)

    def test_a_refusal_does_not_repeat_what_was_sent(self):
        self.measured("run_python", code=5, **{"x" * 100_000: 1})
        self.measured("read_file", path="n/" * 2000)
        self.measured("write_file", path="x" * 5000, content="y" * 100_000, mode="z" * 100_000)


if __name__ == "__main__":
    unittest.main()
