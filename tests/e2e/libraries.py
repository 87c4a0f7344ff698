"""Cases whose interpreter has numpy, pandas, matplotlib and Pillow as Debian installs them."""
import os

from client import Shared

PYTHON = "/usr/bin/python3"


class WithLibraries(Shared):
    args = ("--python", PYTHON) if os.path.exists(PYTHON) else ()

    def need(self, *names):
        for name in names:
            if "True" not in self.server.python(
                    f"import importlib.util as u; print(bool(u.find_spec({name!r})))").output:
                self.skipTest(f"{name}: not installed for this interpreter")

    def out(self, code, **arguments):
        result = self.server.python(code, **arguments)
        self.assert_ok(result)
        return result.output

    def value(self, code, **arguments):
        text = self.out(code, **arguments)
        self.assertIn("Out: ", text)
        return text.partition("Out: ")[2].strip("\n")
