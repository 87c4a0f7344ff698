"""Transcripts: compares the server's responses byte for byte, except for variable parts.

A .rpc file has the sent lines ("> ") and the responses ("< ") in order. Durations, versions and facts of the
interpreter are masked. SANDPIPER_BLESS=1 rewrites the files; review the diff.
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
    (r"\\n *[~^]+(?=\\n)", ""),  # the marked part of a line depends on the interpreter
    (r" \| isolation: [^|\]]*?(?=\]| \|)", ""),  # limits that this host cannot enforce
    (r"\\nPython: [^\\\"]*", r"\\n<python>"),  # installed packages
    (r"\\nIsolation: [^\"]*", r"\\n<isolation>"),  # the kernel's features
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
        with Server("--wait", "25", initialize=False) as server:
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
        """True except for notifications and responses; a line that is not JSON gets an error response."""
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
