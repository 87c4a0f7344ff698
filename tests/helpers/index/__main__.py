"""Serve a folder as a package index until stdin ends: python3 -m index [--projects] [--tls] [--auth U:P] FOLDER"""
import argparse
import sys

from . import projects
from .server import Index


def main():
    options = argparse.ArgumentParser(prog="index", description=__doc__)
    options.add_argument("folder")
    options.add_argument("--projects", action="store_true", help="fill the folder with the tests' packages first")
    options.add_argument("--tls", action="store_true")
    options.add_argument("--auth", metavar="LOGIN:PASSWORD")
    options.add_argument("--port", type=int, default=0)
    given = options.parse_args()
    if given.projects:
        projects.everything(given.folder)
    auth = tuple(given.auth.split(":", 1)) if given.auth else None
    with Index(given.folder, given.tls, auth, port=given.port) as index:
        print(index.url, *([index.certificate] if given.tls else []), flush=True)
        sys.stdin.read()


main()
