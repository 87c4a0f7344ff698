"""install_package from an index whose name leads into the user's network."""
import os
import pathlib
import shutil
import tempfile
import unittest

import egress_world
from client import Case, Server, need_userns
from index import projects
from index.server import Index

INSIDE = egress_world.enter()
if INSIDE:
    WORLD = egress_world.World()
    WORLD.names.names.update({"index.test": [egress_world.PRIVATE], "files.test": ["169.254.169.254"]})


class IndexOfTheNetwork(Case):
    def setUp(self):
        need_userns()
        if not INSIDE:
            self.skipTest("netns: no network namespace for the test's own servers")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sp-index-"))
        self.addCleanup(shutil.rmtree, self.directory)
        os.chmod(self.directory, 0o755)
        projects.honest(self.directory / "wheels")

    def test_its_address_needs_no_flag_but_no_name_leads_to_a_metadata_service(self):
        with Index(self.directory / "wheels", tls=True, address=egress_world.PRIVATE) as index:
            port = index.port
            index.files_at = f"https://index.test:{port}/files/"
            for name, words in (("index.test", ("installed plain 2.0",)),
                                ("files.test", ("blocked by policy", "the address of a metadata service", "--index-host"))):
                with self.subTest(name), Server("--cache", str(self.directory / name), "--index-cert", index.certificate,
                                                "--index-url", f"https://{name}:{port}/simple/") as server:
                    said = server.call("install_package", packages=["plain"]).text
                    for word in words:
                        self.assertIn(word, said)


if __name__ == "__main__":
    unittest.main()
