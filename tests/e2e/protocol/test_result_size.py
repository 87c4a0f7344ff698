"""No result is larger than clients accept, whatever the call printed, drew, read or sent."""
import base64
import json
import os
import struct
import unittest
import zlib

from client import Server, Shared

ANSWER_MOST = 900_000  # Claude Desktop refuses a result of more than 1 MB
TEXT_MOST = 24_000
MOST = "anthropic/maxResultSizeChars"


def noise_png(size):
    """A picture of about so many bytes that hardly compresses."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    side = int((size / 3) ** 0.5)
    rows = b"".join(b"\0" + os.urandom(side * 3) for _ in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


class Size(Shared):
    """The largest results of each tool."""

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

    def test_a_client_learns_how_long_a_result_can_be(self):
        """Claude Code puts a longer text in a file, and one of very many tokens, unless the tool says that it is meant so."""
        lines, names = "for i in range(9000): print(i)\n", "for n in range(5000): globals()[f'v{n}' + 'x' * 200] = n\n"
        codes = (lines + names + "['8' * 1000] * 300", lines + names + "['8' * 60] * 1000",
                 lines + names + "raise ValueError('x\\n' * 100_000)")
        for flags, at_least in ((), 24_000), (("--structured",), 80_000):
            with Server(*flags) as server:
                tools = {tool["name"]: tool["_meta"] for tool in server.request("tools/list")["result"]["tools"]}
                said = {name: meta[MOST] for name, meta in tools.items() if MOST in meta}
                self.assertEqual(list(said), ["run_python"])
                self.assertLessEqual(said["run_python"], 500_000, "more than Claude Code takes")
                results = [server.python(code).raw for code in codes]
                longest = max(max(len(json.dumps(raw.get("structuredContent", ""), ensure_ascii=False)),
                                  sum(len(block.get("text", "")) for block in raw["content"])) for raw in results)
                self.assertGreater(longest, at_least)
                self.assertLessEqual(longest, said["run_python"])

    def test_a_refusal_does_not_repeat_what_was_sent(self):
        self.measured("run_python", code=True, **{"x" * 100_000: 1})
        self.measured("read_file", path="n/" * 2000)
        self.measured("write_file", path="x" * 5000, content="y" * 100_000, mode="z" * 100_000)


if __name__ == "__main__":
    unittest.main()
