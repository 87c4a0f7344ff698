"""Makes schemas.json, beside this file, of agent-sandbox's custom resource definitions.

    make.py CRDS   the directory helm/crds of a checkout

For each kind of version v1beta1 it has the schema of the definition, without descriptions, which are most of it.
Needs python3-yaml.
"""
import json
import pathlib
import sys

import yaml

VERSION = "v1beta1"


def short(schema):
    """The schema without the texts for people. Under `properties` a description is a field."""
    made = {key: value for key, value in schema.items() if key != "description"}
    for key, value in made.items():
        if key == "properties":
            made[key] = {name: short(one) for name, one in value.items()}
        elif isinstance(value, dict):
            made[key] = short(value)
        elif isinstance(value, list):
            made[key] = [short(one) if isinstance(one, dict) else one for one in value]
    return made


def main(directory):
    found = {}
    for path in sorted(pathlib.Path(directory).glob("*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            if version["name"] == VERSION:
                found[f"{spec['group']}/{VERSION} {spec['names']['kind']}"] = short(version["schema"]["openAPIV3Schema"])
    lines = [f"{json.dumps(kind)}:{json.dumps(schema, separators=(',', ':'))}" for kind, schema in sorted(found.items())]
    pathlib.Path(__file__).with_name("schemas.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
