"""A server with --tools and the stand-in as its only tool server, for the tests of code mode."""
import json
import pathlib
import shutil
import sys
import tempfile

from client import Case, Server, need_userns

STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in.py"
BEGIN = "from sandpiper import tools\nstand = tools.stand\n"


class ToolsCase(Case):
    def setUp(self):
        need_userns()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-tools-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.programs = pathlib.Path(tempfile.mkdtemp(prefix="sp-programs-"))
        self.addCleanup(shutil.rmtree, self.programs)
        shutil.copy(STAND_IN, self.programs)

    def entry(self, *arguments, **more):
        return {"command": sys.executable, "args": [str(self.programs / "stand_in.py"), str(self.directory), *arguments],
                **more}

    def file(self, servers):
        path = self.programs / "tools.json"
        path.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}))
        path.chmod(0o600)
        return str(path)

    def server(self, *arguments, grants=None, flags=(), kind=Server, options=None, **more):
        """A Sandpiper whose code may call what grants say, and all that only reads."""
        entry = self.entry(*arguments, trust_hints=True, tools=grants or {}, **more)
        return kind("--tools", self.file({"stand": entry}), *flags, **(options or {}))

    def counter(self):
        path = self.directory / "counter"
        return int(path.read_text()) if path.exists() else 0

    def requests(self, name):
        path = self.directory / "requests"
        return path.read_text().split("\n").count(name) if path.exists() else 0

    def pids(self):
        path = self.directory / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []
