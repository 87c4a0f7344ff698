"""Random calls whose code does everything that changes files, in a directory that is written through: Python, shells and their
programs, C libraries, git, descriptors of directories, mappings, files that stay open from one call to the next. Nobody else is
at work, so each undo leads back to what was there, to the last byte, or names what stays. The same seed makes the same calls.
"""
import contextlib
import os
import random
import re
import shutil
import stat
import unittest

from client import SLOW, once
from projects import GIT
from seen import sees_writes
from undoing import InDirectory, InMemory

SEED = int(os.environ.get("SANDPIPER_TEST_PROGRAMS_SEED", "0"))  # of its own: a check has the same calls each time
EXACT = SEED == 0 or "SANDPIPER_TEST_EXACT" in os.environ  # all comes back; else what stays is named
SEEDS = range(SEED, SEED + int(os.environ.get("SANDPIPER_TEST_SEQUENCES", "3")))
CALLS, STEPS = 6, (1, 3, 8)
NAMES = ("a", "b", "line\nbreak", "d", "d/x", "d/e", "d/e/y", "f", "f/z", ".hidden", "node_modules/m")
BEGIN = """import contextlib, ctypes, mmap, os, shutil, sqlite3, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def run(*words, **more): subprocess.run(words, stderr=-3, stdout=-3, stdin=-3, **more)
def sh(text, *words): run('sh', '-c', text, 'sh', *words)
def put(name, text, mode='w'):
    with open(name, mode) as file: file.write(text)
def replace(name, text):
    put('fresh', text); os.replace('fresh', name)
def there_and_back(name, text):
    os.rename(name, 'aside'); put(name, text); os.remove(name); os.rename('aside', name)
def through(name, text):
    with open(name, 'r+b') as file, mmap.mmap(file.fileno(), 0) as there: there[:1] = text[:1].encode()
def at(name, text):
    directory = os.open(os.path.dirname(name) or '.', os.O_PATH | os.O_DIRECTORY)
    try:
        fd = os.open(os.path.basename(name), os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory)
        os.write(fd, text.encode()); os.close(fd)
    finally: os.close(directory)
def held(name, text):
    if name not in files: files[name] = open(name, 'a+')
    files[name].write(text); files[name].flush()
def database(name, text):
    if name not in databases: databases[name] = sqlite3.connect(name, timeout=0.1)
    base = databases[name]
    with base: base.execute('create table if not exists t(x)'); base.execute('insert into t values(?)', (text,)); base.execute('delete from t where rowid % 3 = 0')
def write_ahead(name, text):
    base = sqlite3.connect(name, timeout=0.1); base.execute('pragma journal_mode=wal')
    with base: base.execute('create table if not exists t(x)'); base.execute('insert into t values(?)', (text,))
    base.close()
def git(*words): run(*GIT, '-c', 'gc.auto=0', *words)
def commit(name, text):
    if not os.path.isdir('.git'): git('init', '-q')
    put(name, text); git('add', '-A'); git('commit', '-qm', text)
def stay(text): subprocess.Popen(['sh', '-c', 'for i in 1 2 3 4 5 6; do echo ' + text + ' >> log; sleep 0.01; done'])
files, databases = globals().get('files', {}), globals().get('databases', {})
"""
OPERATIONS = (
    "put({a!r}, {t!r})", "put({a!r}, {t!r}, 'a')", "os.remove({a!r})", "os.makedirs({a!r})", "shutil.rmtree({a!r})", "os.rename({a!r}, {b!r})",
    "os.symlink({b!r}, {a!r})", "os.chmod({a!r}, {m} | 0o700 * os.path.isdir({a!r}))", "os.utime({a!r}, (1, {m}))", "os.truncate({a!r}, 2)",
    "replace({a!r}, {t!r})", "there_and_back({a!r}, {t!r})", "through({a!r}, {t!r})", "at({a!r}, {t!r})", "held({a!r}, {t!r})",
    "database({a!r}, {t!r})", "write_ahead({a!r}, {t!r})", "commit({a!r}, {t!r})", "git('checkout', '-q', 'HEAD~1')", "git('stash', '-u')",
    "git('checkout', '-q', '-')", "libc.rename({a!r}.encode(), {b!r}.encode())", "libc.unlink({a!r}.encode())", "libc.mkdir({a!r}.encode(), 0o755)",
    "run('rm', '-rf', {a!r})", "run('mv', {a!r}, {b!r})", "run('cp', '-rp', {a!r}, {b!r})", "run('sed', '-i', 's/./&&/', {a!r})",
    "sh('echo $1 > \"$2\"', {t!r}, {a!r})", "sh('echo $1 | tee -a \"$2\"', {t!r}, {a!r})", "run('mkdir', '-p', {a!r})", "run('ln', '-s', {b!r}, {a!r})",
    "run('touch', '-d', '@{m}', {a!r})", "run('chmod', '-R', 'u+rwX,go-w', {a!r})", "run('truncate', '-s', '5', {a!r})",
    "run('dd', 'if=/dev/zero', 'of=' + {a!r}, 'bs=1', 'count=3', 'seek=2', 'conv=notrunc')", "sh('tar cf all.tar \"$1\" && rm -rf \"$1\"', {a!r})",
    "sh('tar xf all.tar')", "sh('for i in 1 2 3; do mkdir -p d/$i; echo $1 > d/$i/n; done', {t!r})", "sh('cd d && mv * .. ')",
    "run('cp', '--remove-destination', {a!r}, {b!r})", "run('install', '-m', '600', {a!r}, {b!r})", "sh('exec 9>>\"$1\"; echo $2 >&9; rm \"$1\"', {a!r}, {t!r})",
    "stay({t!r})",
)


def tree(top):
    """Types, modes, content, and times of files, but those of .git's index, which git itself brings up to date."""
    found = {}
    for path in sorted(top.rglob("*")):
        at = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if stat.S_ISREG(at.st_mode) else b""
        found[str(path.relative_to(top))] = (stat.S_IFMT(at.st_mode), path.is_symlink() or at.st_mode & 0o7777, what,
                                             at.st_mtime_ns if stat.S_ISREG(at.st_mode) else 0)
    return found


class Programs:
    def setUp(self):
        super().setUp()
        if not sees_writes():
            self.skipTest("kernel: nobody is notified of what programs write here")

    def cell(self, choice, number, stays):
        lines = []
        for turn in range(choice.choice(STEPS)):
            # A program that outlives its call works until an undo ends it.
            line = choice.choice(OPERATIONS[:-1] if stays else OPERATIONS).format(a=choice.choice(NAMES), b=choice.choice(NAMES), m=choice.choice((0o644, 0o600, 0o755)),
                                                    t=f"{number}.{turn} ")
            lines.append(f"with contextlib.suppress(OSError, ValueError, shutil.Error, sqlite3.Error): {line}")
        return f"GIT = {GIT!r}\n" + BEGIN + "\n".join(lines)

    def play(self, seed):
        choice = random.Random(seed)
        with self.server() as server:
            self.begin(server, {name: f"of the user: {name}" for name in choice.sample(NAMES, 5)})
            self.assert_ok(server.python("x = 1"))
            for number in range(CALLS):
                stays = choice.random() < 0.3  # and the next call goes on with what this one has left open
                code = self.cell(choice, number, stays)
                before = self.tree(server)
                self.assert_ok(server.python(code, timeout_s=60 * SLOW))
                if stays:
                    continue
                line = self.undo(server).status.line
                after = self.tree(server)
                other = sorted(name for name in {*before, *after} if before.get(name, ())[:3] != after.get(name, ())[:3])
                left = re.search(r"(?:not reverted[^:]*|cannot revert): ([^|\]]*)", line)
                for name in other:  # the database of a connection that stays open, its log: never without a word
                    above = [name[:at] for at in range(len(name) + 1) if name[at:at + 1] in ("", "/")]
                    said = [at.replace("\n", "\\n") for at in above if left and at.replace("\n", "\\n") in left[1]]
                    self.assertTrue(said or left and " more" in left[1], f"seed {seed}, call {number}: {name}; {line}\n{code[len(BEGIN):]}")
                self.assertFalse(other and EXACT, f"seed {seed}, call {number}: left {other}; {line}\n{code[len(BEGIN):]}")

    def test_sequences(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.play(seed)


@once
class Directory(Programs, InDirectory):
    def begin(self, _, files):
        for path in self.dir.iterdir():
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
        for name, text in files.items():
            with contextlib.suppress(OSError):
                (self.dir / name).parent.mkdir(parents=True, exist_ok=True)
                (self.dir / name).write_text(text)

    def tree(self, _):
        return tree(self.dir)


@once
class Memory(Programs, InMemory):
    """There the code is alone, whatever it does."""

    def begin(self, server, files):
        self.assert_ok(server.python(f"import contextlib, os\nfor name, text in {files!r}.items():\n"
                                     "    with contextlib.suppress(OSError):\n        os.makedirs(os.path.dirname(name) or '.', exist_ok=True)\n"
                                     "        open(name, 'w').write(text)"))

    def tree(self, server):
        return {name: facts if stat.S_ISREG(facts[0]) else facts[:3] for name, facts in self.look(server).items()}


if __name__ == "__main__":
    unittest.main()
