"""A server whose undo takes files back, in each workspace: in memory, in a directory, and with --cow; and what its
workspace has. The classes have no cases: test_undo_*.py adds them."""
import ast
import base64
import os
import pathlib
import shutil
import stat
import tempfile
import time
import zlib

from client import SLOW, Case, Server, give_away, need_userns
from overlay import cow_flags, need_overlay


KILL = "import os; os.kill(os.getpid(), 9)"
MIB = 1 << 20
# Runs in an interpreter of its own, so that it is no call that undo could take back.
LOOK = """import base64, hashlib, os, stat, zlib
def look(top):
    for entry in os.scandir(top):
        at = entry.stat(follow_symlinks=False)
        what = os.readlink(entry.path) if entry.is_symlink() else ''
        if stat.S_ISREG(at.st_mode):
            with open(entry.path, 'rb') as file: data = file.read(); what = data.decode('latin-1') if len(data) < 100 else hashlib.sha256(data).hexdigest()
        found[os.path.relpath(entry.path, b'.')] = stat.S_IFMT(at.st_mode), at.st_mode & 0o7777, what, at.st_mtime_ns
        if entry.is_dir(follow_symlinks=False): look(entry.path)
found = {}; look(b'.'); print(base64.encodebytes(zlib.compress(repr(found).encode(), 9)).decode())
"""
WRITE = "import os\nfor name in {names!r}: open(name, 'w').write({text!r})"


class InMemory(Case):
    workspace = ()

    def setUp(self):
        need_userns()

    def server(self, *args):
        return Server(*self.workspace, "--wait", f"{25 * SLOW:g}", *args)

    def look(self, server):
        """{name: (type, permissions, content, mtime)} of /work."""
        return self.seen_by(server, LOOK)

    def seen_by(self, server, look):
        result = server.python(look, fresh=True)
        self.assert_ok(result)
        return ast.literal_eval(zlib.decompress(base64.b64decode(result.output)).decode())

    def contents(self, server):
        return {os.fsdecode(name): facts[2] for name, facts in self.look(server).items() if stat.S_ISREG(facts[0])}

    def undo(self, server, **arguments):
        result = server.python("", undo=True, **arguments)
        self.assertEqual(result.status.kind, "ok", result.text)
        return result

    def without_times_of_directories(self, found):
        return found

    def start_job(self, server, code, **arguments):
        """Returns when the job has run the code; it then sleeps."""
        result = server.python(f"import time; {code}; print('there', flush=True); time.sleep(600)", wait_s=0, timeout_s=600, **arguments)
        end = time.monotonic() + 20 * SLOW
        while "there" not in result.text and time.monotonic() < end:
            result = server.call("run_python", job=1, wait_s=1)
        self.assertIn("there", result.text)

    def write(self, server, text, *names, **arguments):
        self.assert_ok(server.python(WRITE.format(names=names, text=text), **arguments))

    def assert_back_or_named(self, server, result, expected, name):
        """Whose change it was, where calls run beside each other, nobody knows: then it stays, and the result names it."""
        found = self.contents(server)
        self.assertEqual({other: text for other, text in found.items() if other != name and other in expected},
                         {other: text for other, text in expected.items() if other != name})
        if found.get(name) != expected.get(name):
            self.assertIn("not reverted", result.text)
            self.assertRegex(result.text, rf"\b{name}\b")


class InDirectory(InMemory):
    def setUp(self):
        super().setUp()
        self.temp = pathlib.Path(tempfile.mkdtemp(prefix="sp-undo-"))
        self.temp.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)
        self.dir = self.temp / "project"
        self.dir.mkdir()
        give_away(self.dir)
        self.workspace = ("--workspace", str(self.dir))


class WithCow(InDirectory):
    def setUp(self):
        need_overlay()
        super().setUp()

    def server(self, *args):
        return super().server(*cow_flags(self, *args))

    def tearDown(self):
        if hasattr(self, "dir") and not self._testMethodName.startswith(("test_files_that_were", "test_after_an_apply", "test_a_tree_that_was")):
            self.assertEqual(os.listdir(self.dir), [])
