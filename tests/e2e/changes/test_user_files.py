"""Random work of a user and of code in one directory, with undo and restore or, with --cow, with lists and applications.

What is checked, by content alone: each file that the user writes has a token of its own. Right before an undo, a restore or
an application, every token that is somewhere in the directory is noted; afterwards each is still there. A token that code
has not touched since the user wrote it (neither the file nor a directory above it) is also still at its path. With --cow
nothing of the code's is in the directory that was not applied, and a file that the user wrote after the last list is as
the user wrote it. SANDPIPER_TEST_SEED is the seed of the first of SANDPIPER_TEST_SEQUENCES sequences.
"""
import contextlib
import os
import random
import re
import shutil
import signal
import time
import unittest

from at_work import AtWork, WrittenThrough
from client import SLOW, give_away

SEED = int(os.environ.get("SANDPIPER_TEST_SEED") or time.time_ns() // 10**6 % 10**8)
SEQUENCES = int(os.environ.get("SANDPIPER_TEST_SEQUENCES", "12"))
NAMES = ("a", "b", "c", "d/x", "d/y", "d/e/z", "f/x", "f/y", ".venv/q", "big")
DIRECTORIES = ("d", "f", "d/e", ".venv", "g")
TOKEN = re.compile(rb"user-\d+-\d+")
BIG = 300_000  # above --undo-files

HELP = """import contextlib, ctypes, os, shutil, sqlite3, subprocess, mmap
libc = ctypes.CDLL(None)
kept = globals().get('kept', {})
def run(*words): subprocess.run(words, stdin=-3, stdout=-3, stderr=-3)
def at(n, t):
    directory = os.open(os.path.dirname(n) or '.', os.O_PATH | os.O_DIRECTORY)
    try:
        fd = os.open(os.path.basename(n), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=directory)
        os.write(fd, t.encode()); os.close(fd)
    finally: os.close(directory)
def held(n, t):
    if n not in kept: kept[n] = open(n, 'a')
    kept[n].write(t); kept[n].flush()
def mapped(n, t):
    if n not in kept:
        with open(n, 'r+b') as f: kept[n] = mmap.mmap(f.fileno(), 0)
    kept[n][:5] = b'code-'[:len(kept[n])]
def database(n, t):
    with contextlib.closing(sqlite3.connect(n, timeout=0.1)) as base, base:
        base.execute('pragma journal_mode=' + ('wal' if 'x' in n else 'delete'))
        base.execute('create table if not exists t(x)'); base.execute('insert into t values(?)', (t,))
def git(*words): run('git', '-c', 'user.name=n', '-c', 'user.email=e', '-c', 'gc.auto=0', '-c', 'safe.directory=*', *words)
def commit():
    git('init', '-q'); git('add', '-A'); git('commit', '-qm', 'm')
def put(n, t, m='w'):
    os.makedirs(os.path.dirname(n) or '.', exist_ok=True)
    with open(n, m) as f: f.write(t)
def replace(n, t):
    put('fresh~', t); os.replace('fresh~', n)
def through(n, t):
    with open(n, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[:min(len(m), len(t))] = t.encode()[:len(m)]
"""
CODE = ("put({a!r}, {t!r})", "put({a!r}, {t!r}, 'a')", "os.remove({a!r})", "replace({a!r}, {t!r})", "os.rename({a!r}, {b!r})",
        "os.rename({d!r}, {e!r})", "shutil.move({d!r}, {e!r})", "shutil.rmtree({d!r})", "through({a!r}, {t!r})", "os.link({a!r}, {b!r})",
        "os.symlink({a!r}, {b!r})", "os.chmod({a!r}, 0o600)", "os.truncate({a!r}, 3)", "subprocess.run(['cp', {a!r}, {b!r}], stderr=-3)",
        "subprocess.run(['mv', {a!r}, {b!r}], stderr=-3)", "subprocess.run(['sh', '-c', 'echo {t} >>' + {a!r}], stderr=-3)",
        "subprocess.Popen(['sh', '-c', 'sleep 0.02; echo {t} >>' + {a!r}], stderr=-3, start_new_session=True)",
        "put({a!r}, {t!r} + 'x' * %d)" % BIG, "run('sed', '-i', 's/u/uu/', {a!r})", "run('rm', '-rf', {d!r})", "run('rm', '-f', {a!r}, {b!r})",
        "libc.rename({a!r}.encode(), {b!r}.encode())", "libc.unlink({a!r}.encode())", "libc.rename({d!r}.encode(), {e!r}.encode())",
        "at({a!r}, {t!r})", "held({a!r}, {t!r})", "held({a!r}, {t!r})", "mapped({a!r}, {t!r})", "database({a!r}, {t!r})", "commit()", "git('stash', '-u')",
        "git('checkout', '-q', '.')", "git('clean', '-fdx')", "run('sh', '-c', 'tar cf g.tar \"$1\"; rm -r \"$1\"; tar xf g.tar', 'sh', {d!r})",
        "run('cp', '--remove-destination', {a!r}, {b!r})", "run('ln', {a!r}, {b!r})", "run('mv', {d!r}, {e!r})", "run('truncate', '-s', '3', {a!r})",
        "subprocess.Popen(['sh', '-c', 'exec 9>>\"$1\"; for i in 1 2 3 4 5 6 7 8; do sleep 0.02; echo {t} >&9; done', 'sh', {a!r}], stderr=-3, start_new_session=True)",
        "subprocess.Popen(['sh', '-c', 'for i in 1 2 3 4; do sleep 0.01; sed -i s/code/code/ \"$1\"; done', 'sh', {a!r}], stderr=-3, start_new_session=True)")


def below(path, top):
    return path == top or path.startswith(top + "/")


class Sequence:
    """One user and one session. files: {path: token} of the user's files that code has not touched since."""

    def __init__(self, case, seed):
        self.case, self.seed, self.choice, self.files, self.count, self.steps = case, seed, random.Random(seed), {}, 0, []
        self.gone, self.forward, self.handles, self.inodes, self.let_go = set(), False, {}, {}, set()

    def token(self):
        self.count += 1
        return f"user-{self.seed}-{self.count} "

    def user(self):
        """One thing that the user does."""
        choice, top = self.choice, self.case.dir
        name, other = choice.choice(NAMES), choice.choice(NAMES)
        act = choice.choice(("write", "write", "save", "save", "append", "delete", "move", "swap", "remove", "exchange",
                             "hold", "hold", "close", "chmod", "link", "rename2"))
        self.steps.append(f"user {act} {name} {other}")
        path = top / name
        if act in ("write", "save", "delete", "remove", "move"):  # what copies of code's still hold of it may go
            self.let_go |= self.tokens(path.parent if act == "remove" else top / other if act == "move" else path)
        try:
            if act in ("write", "save", "append"):
                path.parent.mkdir(parents=True, exist_ok=True)
                for directory in (path.parent, path.parent.parent):
                    if directory != top.parent:
                        give_away(directory)
                if path.is_symlink() or path.is_dir():
                    return
                token = self.token() + ("u" * BIG if name == "big" else "")
                if act == "save":
                    fresh = path.with_name("save~")
                    fresh.write_text(token)
                    give_away(fresh)
                    os.replace(fresh, path)
                else:
                    linked = path.exists() and path.stat().st_nlink > 1
                    with open(path, "a" if act == "append" else "w") as file:
                        file.write(token)
                    give_away(path)
                    if linked:  # its other names changed too
                        self.files = {n: t for n, t in self.files.items() if not (top / n).exists() or (top / n).stat().st_nlink == 1}
                self.files[name] = token.split()[0]
            elif act == "hold":
                if name not in self.handles and path.is_file() and not path.is_symlink():
                    self.handles[name] = open(path, "a")
                    self.inodes[name] = os.fstat(self.handles[name].fileno()).st_ino
                if name in self.handles:
                    token = self.token()
                    self.handles[name].write(token)
                    self.handles[name].flush()
                    if path.is_file() and not path.is_symlink() and path.stat().st_ino == self.inodes[name]:
                        self.files = {n: t for n, t in self.files.items() if not (top / n).exists() or (top / n).stat().st_nlink == 1}
                        self.files[name] = token.split()[0]
            elif act == "close" and self.handles:
                self.handles.pop(choice.choice(sorted(self.handles))).close()
            elif act == "chmod" and path.is_file() and not path.is_symlink():
                path.chmod(choice.choice((0o644, 0o600)))
            elif act == "link" and path.is_file() and not path.is_symlink() and not (top / other).exists():
                os.link(path, top / other)
            elif act == "rename2" and path.is_file() and (top / other).is_file() and not path.is_symlink() and not (top / other).is_symlink():
                if __import__("ctypes").CDLL(None).renameat2(-100, os.fsencode(path), -100, os.fsencode(top / other), 2) == 0:
                    one, two = self.files.pop(name, None), self.files.pop(other, None)
                    self.files.update({n: t for n, t in ((other, one), (name, two)) if t})
            elif act == "delete" and not path.is_dir():
                path.unlink()
                self.files.pop(name, None)
            elif act == "move" and path.is_file() and not path.is_symlink():
                (top / other).parent.mkdir(parents=True, exist_ok=True)
                os.rename(path, top / other)
                token = self.files.pop(name, None)
                self.files.pop(other, None)
                if token:
                    self.files[other] = token
            elif act == "swap" and (top / "d").is_dir() and not (top / "h").exists():
                os.rename(top / "d", top / "h")
                self.files = {("h" + n[1:] if below(n, "d") else n): t for n, t in self.files.items()}
            elif act == "remove" and path.parent != top:
                shutil.rmtree(path.parent, ignore_errors=True)
                self.files = {n: t for n, t in self.files.items() if not below(n, os.path.dirname(name))}
            elif act == "exchange" and (top / "d").is_dir() and (top / "f").is_dir():
                os.rename(top / "d", top / "other")
                os.rename(top / "f", top / "d")
                os.rename(top / "other", top / "f")
                swapped = {"d": "f", "f": "d"}
                self.files = {(swapped[n[0]] + n[1:] if n[1:2] == "/" and n[0] in swapped else n): t for n, t in self.files.items()}
        except OSError:
            pass

    def code(self):
        choice = self.choice
        values = {"a": choice.choice(NAMES), "b": choice.choice(NAMES), "d": choice.choice(DIRECTORIES), "e": choice.choice(DIRECTORIES),
                  "t": f"code-{choice.randrange(10 ** 9)} "}
        line = choice.choice(CODE).format(**values)
        if line.startswith(("git", "commit")):
            self.files = {}
        for path in [v for k, v in values.items() if k != "t" and repr(v) in line]:
            self.files = {name: token for name, token in self.files.items() if not below(name, path)}
        self.steps.append("code " + line[:70])
        return f"with contextlib.suppress(OSError, shutil.Error, ValueError, sqlite3.Error): {line}"

    def tokens(self, top=None):
        found = set()
        for path in [top] if top and not top.is_dir() else (top or self.case.dir).rglob("*"):
            if path.is_file() and not path.is_symlink():
                found |= set(TOKEN.findall(path.read_bytes()))
        return found

    def check(self, before, what, forward=False):
        """forward: an undo of a restore repeats what code did; then what is gone must come back with the state before it."""
        lost = before - self.tokens() - self.let_go
        self.gone |= lost
        self.case.assertTrue(forward or not lost, f"seed {self.seed}: {lost} lost by {what}: {self.steps}")
        for name, token in self.files.items():
            path = self.case.dir / name
            text = path.read_text(errors="replace") if path.is_file() else None
            self.case.assertIn(token, text or "", f"seed {self.seed}: {name} after {what}: {self.steps}")

    def call(self, server):
        """Some code, maybe the user meanwhile, maybe more code."""
        lines = [self.code() for _ in range(self.choice.randrange(1, 4))]
        if self.choice.random() < 0.5:
            self.case.meanwhile(server, HELP + "\n".join(lines), lambda: [self.user() for _ in range(self.choice.randrange(1, 4))])
        else:
            result = server.python(HELP + "\n".join(lines), timeout_s=120 * SLOW, _timeout=180 * SLOW)
            self.case.assert_ok(result)
        if self.choice.random() < 0.5:
            self.write(server)

    def write(self, server):
        """By write_file, maybe through a symlink of code's."""
        choice, top = self.choice, self.case.dir
        name, mode = choice.choice(NAMES), choice.choice(("overwrite", "append"))
        real = os.path.relpath(os.path.realpath(top / name), os.path.realpath(top))
        self.files = {n: t for n, t in self.files.items() if n not in (name, real)}
        self.steps.append(f"write_file {mode} {name} {real}")
        server.call("write_file", path=choice.choice(("", "./", "d/../", "/work/")) + name, mode=mode,
                    content=f"code-{choice.randrange(10 ** 9)} ")


class Plain(WrittenThrough):
    def play(self, server, seed):
        for path in self.dir.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.assert_ok(server.python("", reset=True))
        self.assert_ok(server.python("x = 1", checkpoint="base"))
        one = Sequence(self, seed)
        for _ in range(3):
            one.user()
        for _ in range(one.choice.randrange(2, 7)):
            kind = one.choice.choice(("call", "call", "user", "undo", "restore", "back"))
            if kind == "call":
                one.call(server)
            elif kind == "user":
                one.user()
            else:
                before = one.tokens()
                one.steps.append(kind)
                result = server.python("", **({"undo": True} if kind == "undo" else {"restore": "base" if kind == "restore" else "before-undo"}))
                one.steps.append(result.text.strip()[-200:])
                one.check(before, kind, forward=kind == "back" or (kind == "undo" and one.forward))
                one.forward = one.forward or kind in ("restore", "back")
        before = one.tokens()
        result = server.python("", undo=True)
        one.steps.append("undo " + result.text.strip()[-200:])
        one.check(before, "the last undo", one.forward)
        if one.gone and not one.forward:  # else the user may have moved what was to come back
            server.python("", restore="base")
            self.assertLessEqual(one.gone, one.tokens(), f"seed {seed}: not kept: {one.steps}")

    def test_sequences(self):
        print(f"# SANDPIPER_TEST_SEED={SEED}")
        with self.start("--undo-files", "256K") as server:
            for seed in range(SEED, SEED + SEQUENCES):
                with self.subTest(seed=seed):
                    self.play(server, seed)


class Cow(AtWork):
    kinds = ("call", "call", "user", "undo", "list", "discard")

    def play(self, seed):
        for path in self.dir.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        one = Sequence(self, seed)
        for _ in range(4):
            one.user()
        with contextlib.ExitStack() as servers:
            server = servers.enter_context(self.begin())
            for _ in range(one.choice.randrange(2, 7)):
                server = self.step(one, server, servers)
            self.apply(one, server)

    @contextlib.contextmanager
    def begin(self):
        with self.start("--undo-files", "256K", check=False) as server:
            self.assert_ok(server.python("x = 1"))
            yield server

    def step(self, one, server, servers):
        """Returns the server to go on with."""
        kind = one.choice.choice(self.kinds)
        before = one.tokens()
        code = self.code_in()
        if kind == "call":
            kept = dict(one.files)
            one.call(server)
            one.files = {**kept, **one.files}  # code reaches nothing of the user's
            one.files = {n: t for n, t in one.files.items() if (self.dir / n).is_file() and t in (self.dir / n).read_text(errors="replace")}
        elif kind == "user":
            one.user()
            return server
        elif kind == "undo":
            one.steps.append("undo")
            server.python("", undo=True)
        elif kind == "list":
            server.call("list_changes", _timeout=120)
        elif kind == "kill":
            one.steps.append("kill")
            server.signal(signal.SIGKILL)
            server.join()
            self.assertEqual(server.left(10), [])
            server = servers.enter_context(self.begin())
        else:
            one.steps.append("discard")
            server.call("apply_changes", discard=True, _timeout=120)
        if kind != "call":
            one.check(before, kind)
        self.assertEqual(self.code_in(), code, f"seed {one.seed}: code reached the directory: {one.steps}")
        return server

    def apply(self, one, server):
        listed = {os.fsdecode(name) for name in self.changes(server)}
        time.sleep(0.02)  # past the clock's tick of what was listed
        saved = {}
        for name in one.choice.sample(NAMES, 3):
            path = self.dir / name
            if path.is_file() and not path.is_symlink():
                saved[name] = one.token()
                self.save(name, saved[name])
        files = {name: token for name, token in one.files.items() if name not in saved and not any(below(name, top) for top in listed)}
        code = self.code_in()
        one.steps.append(f"apply, listed {sorted(listed)}, saved {sorted(saved)}")
        result = server.call("apply_changes", _timeout=120)
        one.steps.append(result.text[:300])
        for name, token in {**files, **saved}.items():
            path = self.dir / name
            self.assertIn(token, path.read_text(errors="replace") if path.is_file() else "", f"seed {one.seed}: {name}: {one.steps}")
        for path in self.code_in() - code:
            name = os.path.relpath(path, self.dir)
            self.assertTrue(any(below(name, top) for top in listed) or name in result.text, f"seed {one.seed}: {name}: {one.steps}")

    def code_in(self):
        return {str(path) for path in self.dir.rglob("*") if path.is_file() and not path.is_symlink() and b"code-" in path.read_bytes()}

    def test_sequences(self):
        print(f"# SANDPIPER_TEST_SEED={SEED}")
        for seed in range(SEED, SEED + SEQUENCES):
            with self.subTest(seed=seed):
                self.play(seed)


class Stored(Cow):
    """The changes outlive servers, which are killed."""
    kinds = ("call", "call", "user", "undo", "list", "discard", "kill", "kill")

    def start(self, *args, **options):
        return super().start("--cow-store", str(self.store), *args, **options)

    def play(self, seed):
        self.store = self.temp / f"store{seed}"  # only root could remove one
        self.store.mkdir()
        super().play(seed)


def load_tests(loader, _tests, _pattern):
    return unittest.TestSuite(case("test_sequences") for case in (Plain, Cow, Stored))


if __name__ == "__main__":
    unittest.main()
