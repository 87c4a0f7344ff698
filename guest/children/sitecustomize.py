"""Starts with each Python that a session starts: puts the installed packages behind the standard library.

As entries of PYTHONPATH they would stand before it, and a package may have modules of any name. This
directory alone stands there, and it holds nothing else. site(3) imports a sitecustomize after the paths of
site-packages are known; the interpreter's own one is run first.
"""
import os
import sys

SITES = ("site-packages", "dist-packages")


def place(layers):
    """At the place that session's sys.path has them, see packages.py."""
    path = [entry for entry in sys.path if entry not in layers]
    at = [i for i, entry in enumerate(path) if os.path.basename(entry) in SITES] + [len(path)]
    path[at[0] : at[0]] = layers
    sys.path[:] = path


own = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != own]
del sys.modules[__name__]
try:
    import sitecustomize  # the next one; where there is none, site expects this ImportError
finally:
    place([layer for layer in os.environ.get("SANDPIPER_PACKAGES", "").split(":") if layer])
