"""What the server declares for the extension io.modelcontextprotocol/ui, as MCPJam checks it. tests/view has the page."""
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import packages  # noqa: E402
from test_libraries import Tapped  # noqa: E402


class Apps(Tapped):
    def test_all_checks_of_tools_and_resources_pass(self):
        script = packages.own(HERE, "apps.mjs") / "apps.mjs"
        for flags in ((), ("--cow",), ("--resources",), ("--ui", "static")):
            with self.subTest(flags=flags):
                done = self.run_node(packages.node(), script, *self.server, *flags, env={**os.environ, "DO_NOT_TRACK": "1"})
                checks = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertEqual([one for one in checks if one["status"] != "passed" or one.get("warnings")], [], done.stderr)
                self.assertEqual(len(checks), 7, done.stderr)
        self.check()


if __name__ == "__main__":
    unittest.main()
