"""A workspace, a writable mount and a home directory, in which code plants what the host must not run. Each test plants a
file from a session, and then checks for a file that only a program on the host could have written: after a reset, a
crash, a fresh run, an installation, and the next start. docs/THREATS.md has the table."""
import os
import pathlib
import shutil
import tempfile

from client import Case, Server, give_away, need_userns
from container_level import CONTAINER

PYTHON = "/usr/bin/python3"

# In the sandbox: creates a file of this mode and the directories above it.
PLANT = """
import os
def plant(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.path.lexists(path) and os.unlink(path)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, mode), "w") as file:
        file.write(text)
"""


class Planting(Case):
    """A workspace, a writable mount, and a home directory, none of them in another."""

    def setUp(self):
        need_userns()
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(f"python: no {PYTHON}")
        self.temp = tempfile.mkdtemp(prefix="sp-trust-")
        self.addCleanup(shutil.rmtree, self.temp, ignore_errors=True)
        os.chmod(self.temp, 0o755)
        for name in ("work", "out", "home", "shims"):
            os.mkdir(f"{self.temp}/{name}")
        self.marker = f"{self.temp}/ran-on-the-host"
        self.asked = f"{self.temp}/asked"
        self.evil = f"#!/bin/sh\n: >>{self.marker}\nexec {PYTHON} \"$@\"\n"
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.at("home")}
        for name in ("work", "out"):
            give_away(self.at(name))

    def at(self, name):
        return f"{self.temp}/{name}"

    def program(self, name, text):
        path = pathlib.Path(self.at(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def granted(self, name):
        """The flags that make the directory writable for code, and its path there."""
        if name == "work":
            return ["--workspace", self.at(name)], self.at(name) if CONTAINER else "/work"
        return ["--mount", self.at(name) + ":rw"], self.at(name) if CONTAINER else "/data/" + name

    def need_mount(self, name):
        mapped = pathlib.Path("/proc/self/uid_map").read_text().split()[2] != "1"
        if name == "out" and os.geteuid() == 0 and mapped and CONTAINER:
            self.skipTest("isolation: nothing of root's is handed over without mapped ids")

    def attack(self, name, planted, env=None, cwd=None, flags=(), wrap=()):
        """Plants {path below name: text} from inside, and then starts the sandbox again in every way."""
        granted, inside = self.granted(name)
        options = dict(env={**self.env, **(env or {})}, cwd=cwd, wrap=wrap)
        code = PLANT + "".join(f"plant({inside + '/' + path!r}, {text!r})\n" for path, text in planted.items())
        with Server(*granted, "--no-index", *flags, **options) as server:
            self.assert_ok(server.python(code))
            for path in planted:
                self.assertTrue(os.path.lexists(self.at(f"{name}/{path}")), "the control: it was planted")
            self.assert_ok(server.python("kept = 1"))
            self.assert_ok(server.python("print(1)", reset=True))
            server.python("import os; os.kill(os.getpid(), 11)")
            self.assert_ok(server.python("print(2)", fresh=True))
            server.call("install_package", packages=["nothing-of-this-name"])
            self.assert_alive(server)
            self.assert_not_run("in the same server")
        with Server(*granted, "--no-index", *flags, **options) as server:
            result = server.python("print('next')")
            self.assert_not_run("by the next one")
        return result

    def assert_not_run(self, when):
        self.assertFalse(os.path.lexists(self.marker), f"what code planted was executed on the host, {when}")
