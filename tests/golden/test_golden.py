"""Transcripts: what the server answers, byte for byte but for what changes by nature.

A .rpc file holds lines that are sent ("> ") and the answers that came ("< "), in order. Durations,
versions and the interpreter's are masked. SANDPIPER_BLESS=1 writes the files anew; review the diff.
"""
import json
import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from client import SLOW, Case, Server, need_userns  # noqa: E402

MASKS = (
    (r"\b\d+(\.\d+)? (us|ms|s)(?=[,\]| ])", "<time>"),
    (r'"version": "\d+\.\d+\.\d+[^"]*"', '"version": "<version>"'),
    (r"\\n *[~^]+(?=\\n)", ""),  # how much of a line is marked depends on the interpreter
    (r" \| isolation: [^|\]]*?(?=\]| \|)", ""),  # limits that this host cannot keep
    (r"\\nPython: [^\\\"]*", r"\\n<python>"),  # what is installed
    (r"\\nIsolation: [^\"]*", r"\\n<isolation>"),  # what the kernel has
    (r"(CPython|Python) 3\.\d+(\.\d+)?", r"\1 <version>"),
)


def masked(line):
    text = json.dumps(json.loads(line), ensure_ascii=False)
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


class Transcripts(Case):
    def play(self, path):
        need_userns()
        said, expected = [], path.read_text().splitlines()
        with Server(initialize=False) as server:
            for line in expected:
                if line.startswith("> "):
                    said.append(line)
                    server.send_line(line[2:])
                    if self.wants_answer(line[2:]):
                        said.append("< " + masked(server.lines.get(timeout=30 * SLOW)))
                elif not line.startswith("< "):
                    said.append(line)
        return said, expected

    @staticmethod
    def wants_answer(line):
        """All but notifications and responses; what is no JSON at all is answered with an error."""
        try:
            message = json.loads(line)
        except ValueError:
            return True
        return not isinstance(message, dict) or "id" in message or \
            not str(message.get("method", "")).startswith("notifications/")

    def check(self, path):
        said, expected = self.play(path)
        if os.environ.get("SANDPIPER_BLESS"):
            path.write_text("\n".join(said) + "\n")
        else:
            self.assertEqual(said, expected)


def add_cases():
    for path in sorted(HERE.glob("*.rpc")):
        setattr(Transcripts, f"test_{path.stem}", lambda self, p=path: self.check(p))


add_cases()

if __name__ == "__main__":
    unittest.main()
