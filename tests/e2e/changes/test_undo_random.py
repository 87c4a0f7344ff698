"""Random calls that change files in two sessions, with undo, restore, file tools and crashes in between, against a model.

The model checks the workspace after each call: what differs is what that call has changed, a step of each path from
one version to the next. Going back must lead each path along the steps of the undone calls, as far as nothing else has
changed it since; a path that is then not what it was must be named. The same seed makes the same calls.
"""
import os
import random
import re
import shutil
import stat
import unittest

from client import once
from undoing import LOOK, InDirectory, InMemory, WithCow

SEED = int(os.environ.get("SANDPIPER_TEST_SEED", "0"))
SEEDS = range(SEED, SEED + int(os.environ.get("SANDPIPER_TEST_SEQUENCES", "3")))
FIRST = 3  # calls that fill the workspace before the first that the model sees
CALLS = 24
STEPS = 3
NAMES = ("a", "b", "line\nbreak", "d", "d/x", "d/e", "d/e/y", "f", "f/z", ".hidden")
ENDS = {"ok": "", "raise": "1 / 0", "exit": "os._exit(3)", "kill": "os.kill(os.getpid(), 9)"}
BEGIN = """import contextlib, os, shutil, subprocess
def put(name, text, mode='w'):
    with open(name, mode) as file: file.write(text)
def same_size(name, text):
    at = os.stat(name); size = at.st_size
    with open(name, 'r+') as file: file.write((text * size)[:size])
    os.utime(name, ns=(at.st_atime_ns, at.st_mtime_ns))
def replace(name, text):
    put('fresh', text); os.replace('fresh', name)
def there_and_back(name, text):
    os.rename(name, 'aside'); put(name, text); os.remove(name); os.rename('aside', name)
def mode(name, bits):
    if not os.path.islink(name): os.chmod(name, bits | 0o700 * os.path.isdir(name))
print('x is', globals().get('x'))
"""
OPERATIONS = ("put({name!r}, {text!r})", "put({name!r}, {text!r}, 'a')", "os.remove({name!r})", "os.makedirs({name!r})",
              "shutil.rmtree({name!r})", "os.rename({name!r}, {other!r})", "os.symlink({other!r}, {name!r})",
              "mode({name!r}, {bits})", "os.link({name!r}, {other!r})", "os.utime({name!r}, (1, {bits}))",
              "same_size({name!r}, {text!r})", "replace({name!r}, {text!r})", "there_and_back({name!r}, {text!r})")


class State:
    """What a session can go back to: its variable x, the steps (path, from, to) that its call made of the parent, and what was there
    at its end."""

    def __init__(self, parent=None, x=None):
        self.parent, self.x, self.steps, self.found = parent, x, [], {}

    def line(self):
        return [self] + (self.parent.line() if self.parent else [])


class Session:
    def __init__(self, name):
        self.name, self.before, self.named, self.now = name, [], {}, State()
        self.first = self.now

    def push(self):
        self.before = [*self.before, self.now][-STEPS:]

    def can_go(self, way):
        if way == "undo":
            return bool(self.before) and not (self.named and self.before[-1] is self.first)
        return way is None or way in self.named

    def go(self, way):
        """Returns the state that this leads from."""
        left = self.now
        if way == "undo":
            self.now = self.before.pop()
        else:
            self.push()
            self.now = self.named[way]
        return left


class World:
    """What each path is: the number of a version; 0: never seen."""

    def __init__(self):
        self.now, self.versions, self.seen, self.links = {}, [None], {}, set()

    def take(self, found):
        """Something has changed the files to what is found. Returns the steps."""
        steps = []
        for path in sorted({*self.seen, *found}):
            if self.seen.get(path) != found.get(path):
                steps.append((path, self.now.get(path, 0), self.change(path, found.get(path))))
        self.see(found)
        return steps

    def see(self, found):
        """Names that have been equal may have been one file: (name, other)."""
        self.seen, alike = found, {}
        for path, version in found.items():
            if stat.S_ISREG(version[0]):
                alike.setdefault(what(version), []).append(path)
        self.links |= {(one, other) for names in alike.values() for one in names for other in names if one != other}

    def change(self, path, found):
        self.versions.append(found)
        self.now[path] = len(self.versions) - 1
        return self.now[path]


def what(version):
    """What undo brings back of it."""
    return version[:4] if version else (0, 0, "", 0)


class UndoRandom:
    """The cases. A class below chooses the workspace; the helpers come from undoing.py."""
    exact = True

    def found(self, server):
        """{path: (type, permissions, content, mtime, ctime)}; of directories no times, of symlinks no permissions."""
        found = self.seen_by(server, LOOK.replace("st_mtime_ns", "st_mtime_ns, at.st_ctime_ns"))
        return {path: (kind, 0 if stat.S_ISLNK(kind) else bits, what, mtime if stat.S_ISREG(kind) else 0,
                       0 if stat.S_ISDIR(kind) else ctime)
                for path, (kind, bits, what, mtime, ctime) in found.items()}

    def cell(self, choice, number):
        lines = []
        for turn in range(choice.choice((1, 2, 4, 6))):
            line = choice.choice(OPERATIONS).format(name=choice.choice(NAMES), other=choice.choice(NAMES),
                                                    bits=choice.choice((0o644, 0o600, 0o755)), text=f"{number}.{turn} ")
            lines.append(f"with contextlib.suppress(OSError, shutil.Error): {line}")
        return BEGIN + "\n".join([f"x = {number}", *lines, ""])

    def pattern(self, paths):
        return "|".join(re.escape(at.decode().replace("\n", "\\n")) for at in paths) or "(?!)"

    def check_back(self, world, left, to, found, text):
        """left: the state before. found: the files now."""
        goal, ideal = {}, {}

        def step(path, begin, end):
            goal.setdefault(path, world.now.get(path, 0))
            goal[path] = end if goal[path] == begin else goal[path]
            if what(world.versions[begin]) != what(world.versions[end]):  # a further link changes the time of the file alone
                ideal[path] = end

        line = to.line()
        while left not in line:
            for path, begin, end in reversed(left.steps):
                step(path, end, begin)
            left = left.parent
        for state in reversed(line[:line.index(left)]):
            for one in state.steps:
                step(*one)
        for path in {*goal, *world.seen, *found}:
            is_now, was = what(found.get(path)), what(world.seen.get(path))
            below = any(other.startswith(path + b"/") for other in found)
            above = [path[:at] for at in range(len(path)) if path[at:at + 1] == b"/"]
            blocked = below or any(not stat.S_ISDIR(found.get(name, (0,))[0]) for name in above)
            if path not in goal:
                # What another session has moved into a directory comes and goes with that.
                there = {what(facts) for facts in (world.seen if is_now[0] else found).values()}
                carried = any(at in goal for at in above) and 0 in (is_now[0], was[0]) and {is_now, was} & there
                linked = any(one == path and other in goal and is_now == what(found.get(other)) for one, other in world.links)
                self.assertTrue(is_now == was or below or carried or linked, f"{path} was not to change: {was}, {is_now}; {text}")
            elif is_now == what(world.versions[goal[path]]):
                world.now[path] = goal[path]
            elif self.exact:  # of a file that has had two names, one may stay
                linked = was and any(other != path and what(world.seen[other]) == was for other in world.seen)
                # One name less of a file changes its time alone: that keeps no undo from taking back another.
                reached = path in ideal and is_now == what(world.versions[ideal[path]])
                self.assertTrue(blocked or linked or reached, f"{path} is {is_now}, not {world.versions[goal[path]]}; {text}")
            if is_now != was and is_now != what(world.versions[world.now.get(path, 0)]):
                world.change(path, found.get(path))
            wanted = what(world.versions[ideal[path]]) if path in ideal else is_now
            holds = below and stat.S_ISDIR(is_now[0])  # a directory that has come with what is in it
            if is_now[:3] != wanted[:3] and is_now[:3] != what(to.found.get(path))[:3] and not holds:
                # Itself, or a directory above, which has come with what is in it.
                # Or what it is to be is below a directory that has moved and stays.
                name = os.path.basename(path)
                moved = [other for other in found if os.path.basename(other) == name and what(found[other])[:3] == wanted[:3]]
                parts = [other[:at] for other in moved for at in range(len(other)) if other[at:at + 1] == b"/"]
                links = self.pattern(other for one, other in world.links if one == path)
                names = self.pattern([path, *parts, *(at for at in above if at in goal)])
                named = (re.search(rf"(?:not reverted[^:]*|cannot revert): (?:(?:.*\W)?(?:{names})\W|.* and \d+ more)", text) or
                         re.search(rf"not reverted under other names \(hard links\) of: (?:.*\W)?(?:{links})\W", text))
                self.assertTrue(named, f"{type(self).__name__}, seed {self.seed}: {path} is {is_now}, not {wanted}; {text}")
        world.see(found)

    def call(self, server, world, session, choice, number):
        way = choice.choice((None, None, None, "undo", "undo", "p", "q"))
        name = choice.choice((None, None, "p", "q"))
        bare = way is not None and choice.random() < 0.5
        end = "ok" if bare else choice.choice(("ok",) * 6 + ("raise", "exit", "kill"))
        code = "" if bare else self.cell(choice, number) + ENDS[end]
        back = {} if way is None else {"undo": True} if way == "undo" else {"restore": way}
        if not session.can_go(way):
            return
        if back:  # a call of its own, so that the model sees what it does
            left, result = session.now, server.python("", session=session.name, **back)
            self.assert_ok(result)
            session.go(way)
            self.check_back(world, left, session.now, self.found(server), result.status.line)
        if bare:
            return
        save = {"checkpoint": name} if name else {}
        result = server.python(code, session=session.name, **save)
        self.assertIn(f"x is {session.now.x}", result.output)
        new = State(session.now, session.now.x if end in ("exit", "kill") else number)
        new.steps, new.found = world.take(self.found(server)), world.seen
        if session.now is session.first and end in ("exit", "kill"):
            session.__init__(session.name)  # a fresh interpreter replaces a fresh one
            return
        session.push()
        session.now = new
        if name and end == "ok":
            session.named[name] = new

    def play(self, server, seed):
        self.seed = seed
        choice, world = random.Random(seed), World()
        sessions = [Session("one"), Session("two")]
        for number in range(CALLS, CALLS + FIRST):
            server.python(self.cell(choice, number), branch=True)
        world.take(self.found(server))
        for number in range(CALLS):
            kind = choice.choice(("call",) * 8 + ("tool", "branch"))
            if kind == "call":
                self.call(server, world, choice.choice(sessions), choice, number)
                continue
            if kind == "tool":
                server.write(choice.choice(NAMES), f"tool {number}\n")
            else:
                server.python(self.cell(choice, number), session=choice.choice(sessions).name, branch=True)
            world.take(self.found(server))

    def test_sequences(self):
        for seed in SEEDS:
            with self.subTest(seed=seed), self.server() as server:
                self.play(server, seed)
            for name in os.listdir(self.dir) if hasattr(self, "dir") else ():  # the next seed does not depend on this one
                path = self.dir / name
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@once
class Memory(UndoRandom, InMemory):
    pass


class Directory(UndoRandom, InDirectory):
    exact = False  # what may be the user's stays, and is named


@once
class Cow(UndoRandom, WithCow):
    def tearDown(self):
        self.assertEqual(list(self.dir.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
