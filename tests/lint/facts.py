"""Compare what is made of the table of facts (tools/run/facts.h) with it: the schema and the page of results.

    facts.py SOURCE_ROOT          compares
    facts.py SOURCE_ROOT write    makes the facts' part of both anew
"""
import json
import pathlib
import re
import sys

TABLE = "tools/run/facts.h"
TEXTS = {"tools/run/run.c": "what results say of a run", "tools/jobs/jobs.c": "what results say of jobs"}  # in the part of this name
SCHEMA, PAGE = "schema/run_python.output.json", "docs/RESULTS.md"
HEAD = "| the status line says | `--structured`, the record | what it means |\n| --- | --- | --- |\n"
STRING = r'"(?:\\.|[^"\\])*"'
FORMAT = r"%[\d.*]*(?:llu|zu|[dgsu])"
LIST = {"type": "array", "items": {"type": "string"}}


def strings(text):
    """The value of C's strings that follow each other."""
    return "".join(json.loads(found) for found in re.findall(STRING, text))


def rows(root):
    """Each row's columns: fact, means, example, and those of struct run_row by name."""
    text = re.sub(r"/\*.*?\*/", "", (root / TABLE).read_text(), flags=re.S)
    head = rf"^FACT\(\s*(\w+),\s*((?:{STRING}\s*)+),\s*((?:{STRING}\s*)+),((?:{STRING}|[^\"])*?)\)$"
    for fact, means, example, others in re.findall(head, text, re.M):
        columns = re.findall(rf"\.(\w+) =\s*((?:{STRING}\s*)+|\w+)", others)
        yield {"fact": fact, "means": strings(means), "example": strings(example),
               **{name: strings(value) if value[0] == '"' else value for name, value in columns}}


def place(schema, row):
    """The properties of which the fact is one, and its name there, or None."""
    *group, name = row.get("json", row.get("name", "")).split(".")
    return (schema["properties"][group[0]]["properties"] if group else schema["properties"], name) if name else None


def fill(schema, table):
    for row in table:
        found = place(schema, row)
        if found:
            kind = {"RUN_LIST": LIST, "RUN_NUMBER": {"type": "integer"}}.get(row.get("kind"), {"type": "string"})
            found[0][found[1]] = {**kind, **({"description": row["means"]} if row["means"] else {})}
    return schema


def dump(value, indent=""):
    """As JSON, what fits on a line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or len(line) < 120 or not any(isinstance(one, dict) for one in value.values()):
        return line
    inner = ",\n".join(f"{indent}  {json.dumps(name)}: {dump(one, indent + '  ')}" for name, one in value.items())
    return f"{{\n{inner}\n{indent}}}"


def code(text):
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def listed(table):
    """The table of the page."""
    for row in table:
        lines = [row[name].replace("{}", row["example"]) for name in ("line", "otherwise") if name in row]
        if lines:
            said = ", or ".join(code(("…" if "goes_on" in row else "") + line) for line in lines)
            names = dict.fromkeys(name for name in (row.get("json"), row.get("name")) if name)
            yield f"| {said} | {', '.join(map(code, names))} | {row['means']} |\n".replace("|  |", "| |")


def unsaid(root, page):
    """What the code writes into status lines beside the facts, and the page does not have."""
    page = page.replace("\\|", "|")
    for name, part in TEXTS.items():
        code = (root / name).read_text().split(f"/* --- {part} --- */")[1].split("/* --- ")[0]
        code = re.sub(r"/\*.*?\*/|^#.*?$", "", code, flags=re.S | re.M)
        for found in re.findall(rf"{STRING}(?:\s*{STRING})*", code):
            text = strings(found).strip(" |;,\n")
            pattern = ".+?".join(map(re.escape, re.split(FORMAT, text)))
            if len(re.findall("[a-z]", re.sub(FORMAT, "", text))) > 2 and not re.search(pattern, page):
                yield f"{PAGE}: nothing about {text!r}, which {name} says"


def main(root, write):
    table = list(rows(root))
    schema, page = (root / SCHEMA).read_text(), (root / PAGE).read_text()
    wanted = dump(fill(json.loads(schema), table)) + "\n"
    start = page.index(HEAD)
    behind = page[start:].partition("\n\n")[2]
    made = page[:start] + HEAD + "".join(listed(table)) + "\n" + behind
    if write:
        (root / SCHEMA).write_text(wanted)
        (root / PAGE).write_text(made)
    bad = [f"{name}: not what {TABLE} says: python3 tests/lint/facts.py . write"
           for name, now, made in ((SCHEMA, schema, wanted), (PAGE, page, made)) if now != made and not write]
    count = (root / TABLE).read_text().count("\nFACT(")
    bad += [] if count == len(table) else [f"{TABLE}: {count} rows, of which {len(table)} can be read"]
    bad += unsaid(root, made)
    print("\n".join(bad) or "facts: clean")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] == ["write"]))
