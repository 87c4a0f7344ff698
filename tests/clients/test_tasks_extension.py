"""The official client of the extension io.modelcontextprotocol/tasks."""
import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import packages  # noqa: E402
from test_libraries import Tapped  # noqa: E402


class Tasks(Tapped):
    def test_official_client_of_the_extension(self):
        script = packages.own(HERE, "tasks.mjs", "picture.py") / "tasks.mjs"
        done = self.run_node(packages.node(), script, *self.server)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one for one in steps if not one["ok"]], [], done.stderr)
        self.assertEqual((len(steps), done.returncode), (7, 0), done.stderr)
        self.check()


if __name__ == "__main__":
    unittest.main()
