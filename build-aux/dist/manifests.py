"""Writes the manifests for Kubernetes, with the image's name and the version of meson.build, to OUT/kubernetes.

    manifests.py OUT [--image NAME]   NAME: as of image.py
"""
import argparse
import pathlib
import re
import sys

from programs import ROOT, version

IMAGE = re.compile(r"registry\.example/sandpiper(-http)?:VERSION\b")  # in packaging/kubernetes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--image", default="sandpiper", metavar="NAME")
    options = parser.parse_args()
    target, tag = options.out / "kubernetes", version()
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "packaging" / "kubernetes").glob("*.yaml")):
        text = IMAGE.sub(lambda found: f"{options.image}{found[1] or ''}:{tag}", path.read_text())
        (target / path.name).write_text(text)
        print(target / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
