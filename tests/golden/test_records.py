"""What `sandpiper record` prints of records, byte for byte: of a server (jobs, analysis; cow, which was altered), and forged ones.

NAME.txt has all of it, and digests.txt only the SHA-256 of what is long. The look of the page is left out.
SANDPIPER_BLESS=1 rewrites the files; review the diff.
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent / "records"
sys.path.insert(0, str(HERE.parents[1] / "e2e"))

from client import COMMAND, SLOW  # noqa: E402

SHOWN, LONG = ("cow", "jobs"), ("analysis", "codes", "random")
FORMS = tuple(("export", "--format", form) for form in ("html", "ipynb", "md", "py"))
COMMANDS = (("show",), ("why",), ("why", "3"), ("check",), *FORMS, (*FORMS[0], "--session", "b"), (*FORMS[1], "--session", "other"),
            (*FORMS[2], "--session", "default"))
BLESS = os.environ.get("SANDPIPER_BLESS") == "1"


def printed(name, words):
    action, *rest = words
    done = subprocess.run([*COMMAND, "record", action, str(HERE / f"{name}.jsonl"), *rest], capture_output=True, timeout=60 * SLOW)
    out = re.sub(rb"<style>.*?</style>", b"<style></style>", done.stdout, flags=re.DOTALL)
    return b"".join((f"--- {' '.join(words)}: {done.returncode}\n".encode(), done.stderr, out))


class Records(unittest.TestCase):
    def compare(self, path, text):
        if BLESS:
            path.write_bytes(text)
        self.assertEqual(path.read_bytes().decode().split("\n"), text.decode().split("\n"))

    def test_what_is_printed(self):
        for name in SHOWN:
            with self.subTest(name=name):
                self.compare(HERE / f"{name}.txt", b"".join(printed(name, words) for words in COMMANDS))

    def test_digests_of_what_is_printed(self):
        rows = (f"{hashlib.sha256(printed(name, words)).hexdigest()} {name} {' '.join(words)}\n" for name in LONG for words in COMMANDS)
        self.compare(HERE / "digests.txt", "".join(rows).encode())


if __name__ == "__main__":
    unittest.main()
