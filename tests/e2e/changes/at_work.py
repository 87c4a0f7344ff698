"""The user works in the directory of the workspace at the same moment as code, which waits for them by a file outside of it."""
import contextlib
import os
import threading
import time

from client import SLOW, Server, give_away, need_userns
from container_level import CONTAINER
from projects import Project

# The cell waits until the user has done what they do.
WAIT = "import os, time\nopen('/data/signals/waits', 'w').close()\nwhile not os.path.exists('/data/signals/go'): time.sleep(0.005)\n"


class AtWork(Project):
    flags = ()

    def make_directories(self):
        super().make_directories()
        self.signals = self.temp / "signals"
        self.signals.mkdir()
        self.signals.chmod(0o777)
        give_away(self.signals)

    def start(self, *args, **options):
        return self.server("--mount", f"{self.signals}:rw", "--wait", "600", *self.flags, *args, **options)

    def meanwhile(self, server, before, act, after="", **arguments):
        """Runs before, then act() outside of the sandbox, then after, in one cell."""
        failed = []

        def user():
            end = time.monotonic() + 60 * SLOW
            while not (self.signals / "waits").exists() and time.monotonic() < end:
                time.sleep(0.005)
            try:
                act()
            except Exception as error:  # must not leave the cell waiting
                failed.append(error)
            (self.signals / "go").touch()

        thread = threading.Thread(target=user)
        thread.start()
        wait = WAIT.replace("/data/signals", str(self.signals)) if CONTAINER else WAIT  # there is no other root
        result = server.python(f"{before}\n{wait}{after}", timeout_s=120 * SLOW, _timeout=180 * SLOW, **arguments)
        thread.join()
        for name in ("waits", "go"):
            (self.signals / name).unlink()
        self.assertEqual(failed, [])
        self.assert_ok(result)
        return result

    @contextlib.contextmanager
    def at(self, moment, act):
        """act() as soon as moment() holds, beside what is done in the context; then acted says whether it has come."""
        over = threading.Event()
        self.acted = False

        def wait():
            end = time.monotonic() + 60 * SLOW
            while time.monotonic() < end and not over.is_set():
                if moment():
                    act()
                    self.acted = True
                    return

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def save(self, name, text):
        """As an editor that replaces the file."""
        fresh = self.dir / (name + "~")
        fresh.write_text(text)
        give_away(fresh)
        os.replace(fresh, self.dir / name)


class WrittenThrough(AtWork):
    """The workspace is written through; undo knows only what Python code has reported."""

    def setUp(self):
        need_userns()
        self.make_directories()

    def server(self, *args, **options):
        for path in self.dir.rglob("*"):
            if not path.is_symlink():
                give_away(path)
        return Server("--workspace", str(self.dir), *args, **options)

    def undo(self, server):
        result = server.python("", undo=True)
        self.assert_ok(result)
        return result.status.line
