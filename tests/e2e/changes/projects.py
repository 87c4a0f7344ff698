"""Projects for --cow: directories and what they hold, and the lines of list_changes and apply_changes.

A tree is {name: what}, names as bytes relative to the top. It compares names, types, modes, and content; an exact one
also inodes and times, which nobody may touch in a directory that stays as it is.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

from client import Case, Server, give_away
from overlay import cow_flags, need_overlay, remove

HASHED_BYTES = 64 << 20
COUNTS = re.compile(rb"(?: \+(\d+))?(?: -(\d+))?$")
FACT = re.compile(rb" (?:\d+(?:\.\d+)? [kMG]?B|mode \d+|symlink(?: to .*)?|special file)$")
MARKS = re.compile(rb" \(([^()]*)\)$")
MOVED = re.compile(r'("(?:[^"\\]|\\.)*"|\S+)/ -> ("(?:[^"\\]|\\.)*"|\S+)/ \(\d+ files moved\)$', re.M)
ESCAPED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
MAKE = """import os
for name in {names!r}:
    if os.path.dirname(name): os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, 'w') as file: file.write('by code\\n')
"""


def content(path, found):
    if stat.S_ISLNK(found.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(found.st_mode):
        return b""
    if found.st_size > HASHED_BYTES:
        return found.st_size
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def tree(top, exact=False):
    top, found = os.fsencode(top), {}

    def enter(path):
        with os.scandir(path) as entries:
            for entry in entries:
                at = entry.stat(follow_symlinks=False)
                more = (at.st_ino, at.st_mtime_ns, at.st_nlink, at.st_uid, at.st_gid) if exact else ()
                found[os.path.relpath(entry.path, top)] = (
                    stat.S_IFMT(at.st_mode), at.st_mode & 0o7777, content(entry.path, at), *more)
                if entry.is_dir(follow_symlinks=False):
                    enter(entry.path)

    enter(top)
    return found


def unquote(text):
    """The bytes of a name that git would quote."""
    out, i = bytearray(), 0
    while i < len(text):
        char = text[i]
        if char != "\\":
            out += char.encode()
            i += 1
        elif text[i + 1] in "0123":
            out.append(int(text[i + 1:i + 4], 8))
            i += 4
        else:
            out.append(ESCAPED[text[i + 1]])
            i += 2
    return bytes(out)


def quote(name):
    """A name as git quotes it, for `paths`."""
    out = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in name)
    return f'"{out}"'


class Changes(dict):
    """The lines of list_changes: {name: mark}. Beside it the counts of lines and the notes in parentheses."""

    def __init__(self, text):
        super().__init__()
        self.counts, self.notes, self.directories = {}, {}, []
        *lines, self.last = text.rstrip("\n").split("\n")
        found = re.search(r"\[(\d+|no) changes?\b.*\]$", self.last)
        if not found:
            raise AssertionError(f"no last line with the number of changes: {self.last!r}")
        self.number = 0 if found[1] == "no" else int(found[1])
        for line in lines:
            if re.match(r"[-+~] ", line):
                self.take(line[0], line[2:])

    def take(self, mark, rest):
        quoted = re.match(r'"((?:[^"\\]|\\.)*)"', rest)
        name = rest.encode("utf-8", "surrogateescape")
        if quoted:
            name = rest[quoted.end():].encode()
        notes = MARKS.search(name)
        name = name[:notes.start()] if notes else name
        name = re.sub(rb" mode \d+$", b"", name)
        counts = COUNTS.search(name)
        name = FACT.sub(b"", name[:counts.start()])
        if quoted:
            name = unquote(quoted[1]) + name
        if name.endswith(b"/"):
            self.directories.append(name[:-1])
        name = name.rstrip(b"/")
        if name in self:
            raise AssertionError(f"listed twice: {name!r}")
        self[name] = mark
        self.notes[name] = notes[1].decode() if notes else ""
        self.counts[name] = (int(counts[1] or 0), int(counts[2] or 0))

    def files(self):
        """Without directories that other lines are in."""
        return {name: mark for name, mark in self.items()
                if not any(other.startswith(name + b"/") for other in self if other != name)}


class Project(Case):
    """A directory, something outside of it, and a server with --cow."""

    def setUp(self):
        need_overlay()
        self.make_directories()

    def make_directories(self):
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-cow-"))
        self.temp.chmod(0o755)
        self.addCleanup(remove, self.temp)
        self.dir, self.outside = self.temp / "project", self.temp / "outside"
        for path in (self.dir, self.outside):
            path.mkdir()
            path.chmod(0o755)
            give_away(path)
        (self.outside / "secret.txt").write_text("outside\n")

    def put(self, name, text="as it was\n", mode=0o644):
        path = self.dir / name
        for parent in reversed(path.relative_to(self.dir).parents):
            (self.dir / parent).mkdir(exist_ok=True)
            (self.dir / parent).chmod(0o755)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def read(self, name):
        return (self.dir / name).read_text()

    def server(self, *args, **options):
        return Server("--workspace", str(self.dir), *cow_flags(self, *args), **options)

    def changes(self, server, **arguments):
        result = server.call("list_changes", _timeout=120, **arguments)
        self.assertFalse(result.is_error, result.text)
        changes = Changes(result.text)
        for side in (side for move in MOVED.findall(result.text) for side in move):
            one = Changes(server.call("list_changes", _timeout=120, paths=[side]).text)
            for mine, others in ((changes, one), (changes.counts, one.counts), (changes.notes, one.notes)):
                mine.update({name: value for name, value in others.items() if name not in mine})
        return changes

    def patch(self, server, **arguments):
        """The bytes of the whole patch."""
        result = server.call("list_changes", _timeout=120, diff=True, **arguments)
        self.assertFalse(result.is_error, result.text)
        if "/tmp/output/changes.diff" not in result.text:
            return result.text[:result.text.rstrip("\n").rindex("\n") + 1].encode()
        whole, more = b"", True
        while more:
            piece = server.python("import base64\nwith open('/tmp/output/changes.diff', 'rb') as file:\n"
                                  f"    file.seek({len(whole)}); lines = base64.encodebytes(file.read(9000)).decode().split()\n"
                                  "for number, line in enumerate(lines): print(number, line)  # equal lines are counted\nNone",
                                  session="reader")
            self.assert_ok(piece)
            more = base64.b64decode("".join(line.split()[1] for line in piece.output.splitlines()))
            whole += more
        return whole

    def git(self, *words):
        """What the user's git prints in the directory."""
        done = subprocess.run([*GIT, *words], cwd=self.dir, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.temp)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def git_apply(self, patch, top):
        file = self.temp / "changes.diff"
        file.write_bytes(patch)
        done = subprocess.run(["git", "apply", "--whitespace=nowarn", str(file)], cwd=top, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.temp), "GIT_CEILING_DIRECTORIES": "/"})
        self.assertEqual(done.returncode, 0, done.stderr + patch.decode(errors="replace")[:3000])

    def assert_tree(self, found, expected):
        """Two trees are the same; names only the entries that are not."""
        different = {name: (found.get(name), expected.get(name)) for name in sorted(found.keys() | expected.keys())
                     if found.get(name) != expected.get(name)}
        if different:
            self.fail(f"{len(different)} names differ (found, expected): " + repr(dict(list(different.items())[:6]))[:3000])

    def copy(self, name):
        top = self.temp / name
        shutil.copytree(self.dir, top, symlinks=True)
        return top

    def apply(self, server, done=None, of=None, **arguments):
        """Applies; checks the numbers of the first line, and that isError is true if nothing was."""
        return self.carry_out(server, "applied", done, of, arguments)

    def apply_all(self, server, **arguments):
        result = self.apply(server, **arguments)
        self.assertFalse(result.is_error, result.text[:2000])
        return result

    def discard(self, server, done=None, of=None, **arguments):
        return self.carry_out(server, "discarded", done, of, {"discard": True, **arguments})

    def carry_out(self, server, word, done, of, arguments):
        result = server.call("apply_changes", _timeout=180, **arguments)
        found = re.match(rf"{word} (\d+) of (\d+)\b", result.text.replace("[no changes]", f"{word} 0 of 0"))
        self.assertTrue(found, result.text[:1000])
        numbers = int(found[1]), int(found[2])
        if done is not None:
            self.assertEqual(numbers, (done, done if of is None else of), result.text[:2000])
        if numbers[0] == 0 < numbers[1]:
            self.assertTrue(result.is_error, result.text[:1000])
        if numbers[0] > 0 and "conflict" not in result.text:
            self.assertFalse(result.is_error, result.text[:1000])
        return result

    def reason(self, result, name):
        """Why this change was not carried out."""
        for line in result.text.split("\n")[1:]:
            for start in (name, quote(os.fsencode(name))):
                if line.startswith(start + ": "):
                    return line[len(start) + 2:]
        raise AssertionError(f"no line for {name!r} in {result.text[:2000]!r}")

    def pending(self, result):
        """The number of changes in the status line that are not applied."""
        found = re.fullmatch(r"(\d+) changes? not applied", result.status.parts[-1])
        return int(found[1]) if found else 0

    def inside(self, server, name):
        """What code reads in a file, in a session of its own."""
        return server.python(f"print(open({name!r}).read(), end='')", session="reader").output


class Stored(Project):
    def setUp(self):
        super().setUp()
        self.store = self.temp / "store"
        self.store.mkdir()

    def server(self, *args, **options):
        return super().server("--cow-store", str(self.store), *args, **options)
