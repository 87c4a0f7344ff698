"""--seed: the same random numbers in each interpreter, and after each of the server's own forks."""
import os
import subprocess
import unittest

from client import Case, Server

DRAW = "import random\nprint(random.random(), random.getrandbits(40))"
NUMPY = "import numpy as np\nprint(np.random.rand(), np.random.randint(1000))"


class Seed(Case):
    def draws(self, code, *args):
        """Printed by the first cell, the second, a fresh run, a branch, after a failover, and in another session."""
        with Server("--seed", "7", *args) as server:
            first, second = server.python(code), server.python(code)
            fresh, branch = server.python(code, fresh=True), server.python(code, branch=True)
            server.python("import os; os.abort()")
            return [result.output for result in (first, second, fresh, branch, server.python(code),
                                                 server.python(code, session="other"))]

    def check(self, code, *args):
        first, second, fresh, branch, failover, other = self.draws(code, *args)
        self.assertNotEqual(first, second)
        self.assertEqual((fresh, other), (first, first))
        self.assertEqual(branch, failover)
        self.assertEqual(self.draws(code, *args), [first, second, fresh, branch, failover, other])
        return first

    def test_random_is_seeded(self):
        expected = subprocess.run(["python3", "-c", f"import random; random.seed(7)\n{DRAW}"], capture_output=True,
                                  text=True, check=True).stdout.strip()
        self.assertEqual(self.check(DRAW), expected)
        self.assertEqual(self.check(DRAW, "--preload", "random"), expected)

    @unittest.skipUnless(os.path.exists("/usr/bin/python3") and subprocess.run(
        ["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode == 0, "numpy: /usr/bin/python3 has none")
    def test_legacy_generator_of_numpy_is_seeded(self):
        python = ("--python", "/usr/bin/python3")
        self.assertEqual(self.check(NUMPY, *python), self.check(NUMPY, *python, "--preload", "numpy"))

    def test_without_it_each_interpreter_differs(self):
        with Server() as server:
            self.assertNotEqual(server.python(DRAW, fresh=True).output, server.python(DRAW, fresh=True).output)

    def test_wrong_seed_is_refused(self):
        for seed in ("-1", "x", "4294967296"):
            with Server("--seed", seed) as server:
                self.assertIn("--seed takes a number between 0 and 4294967295", server.python("1").text)


if __name__ == "__main__":
    unittest.main()
