"""Serve a directory as a package index until stdin ends: python3 -m index [--projects] [--tls] [--auth U:P] DIRECTORY"""
import argparse
import sys

from . import projects
from .server import Index


def main():
    options = argparse.ArgumentParser(prog="index", description=__doc__)
    options.add_argument("directory")
    options.add_argument("--projects", action="store_true", help="fill the directory with the tests' packages first")
    options.add_argument("--tls", action="store_true")
    options.add_argument("--auth", metavar="LOGIN:PASSWORD")
    options.add_argument("--port", type=int, default=0)
    given = options.parse_args()
    if given.projects:
        projects.everything(given.directory)
    auth = tuple(given.auth.split(":", 1)) if given.auth else None
    with Index(given.directory, given.tls, auth, port=given.port) as index:
        print(index.url, *([index.certificate] if given.tls else []), flush=True)
        sys.stdin.read()


main()
