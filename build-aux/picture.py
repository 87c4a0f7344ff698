"""Draw docs/session.svg, the README's picture: calls to the real server, and their results.

    picture.py PATH-TO-sandpiper > docs/session.svg
    picture.py PATH-TO-sandpiper --check FILE     fails unless FILE says the same
"""
import html
import pathlib
import re
import sys
import textwrap

import demo

CALLS = (
    "orders = [('Lima', 120.5), ('Oslo', 80.0), ('Lima', 210.0), ('Oslo', 95.25)]\n"
    "totals = {}\n"
    "for city, amount in orders:\n"
    "    totals[city] = totals.get(city, 0) + amount\n"
    "totals",
    "totals['Pune']",
    "import shutil; shutil.rmtree('/home', ignore_errors=True)\n"
    "open('/etc/shadow')",
    "import ctypes; ctypes.string_at(0)  # a segmentation fault",
    "max(totals, key=totals.get)",
)
COLUMNS, LINE, CHAR, MARGIN = 92, 17, 7.8, 18
BACK, CODE, TEXT, GOOD, BAD = "#16181d", "#7fb4ff", "#c9ced6", "#7bd88f", "#ff8f8f"


def rows(host):
    """(colour of the mark, colour of the text, text) of each line; None for a gap."""
    for code in CALLS:
        result = host.request("tools/call", {"name": "run_python", "arguments": {"code": code + "\n"}})
        answer = "".join(block.get("text", "") for block in result["content"]).rstrip("\n").split("\n")
        mark = BAD if result.get("isError") else GOOD
        yield from ((CODE, CODE, line) for line in code.split("\n"))
        for line in answer[:-1]:
            yield from ((mark, TEXT, part) for part in textwrap.wrap(line, COLUMNS, drop_whitespace=False) or [""])
        yield from ((mark, mark, part) for part in textwrap.wrap(answer[-1], COLUMNS))
        yield None


def draw(lines):
    height = 2 * MARGIN + LINE * len(lines)
    width = 2 * MARGIN + CHAR * (COLUMNS + 2)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
           'font-family="ui-monospace, monospace" font-size="13">')
    yield "<title>Five calls of run_python: state survives an error and a crash</title>"
    yield f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>'
    for number, line in enumerate(lines):
        if line:
            mark, colour, text = line
            top = MARGIN + LINE * number
            yield f'<rect x="{MARGIN}" y="{top}" width="3" height="{LINE}" fill="{mark}"/>'
            yield (f'<text x="{MARGIN + 2 * CHAR:.0f}" y="{top + 13}" fill="{colour}" xml:space="preserve">'
                   f"{html.escape(text)}</text>")
    yield "</svg>"


def said(picture):
    """Its words, without what other machines and versions of Python say in another way: times, marks below code."""
    text = " ".join(html.unescape(part) for part in re.findall(r"preserve\">(.*)</text>", picture))
    text = re.sub(r"[~^]{2,}|isolation: degraded [^|\]]*\| ", "", text)
    return re.sub(r"[0-9.]+ ms", "N ms", " ".join(text.split()))


def main():
    host = demo.Host(sys.argv[1], [])
    host.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                "clientInfo": {"name": "picture", "version": "1"}})
    host.send({"method": "notifications/initialized"})
    lines = list(rows(host))[:-1]
    host.server.stdin.close()
    host.server.wait()
    picture = "\n".join(draw(lines)) + "\n"
    if sys.argv[2:3] != ["--check"]:
        sys.stdout.write(picture)
        return
    if said(pathlib.Path(sys.argv[3]).read_text()) != said(picture):
        print(picture)
        sys.exit(f"picture: {sys.argv[3]} is out of date; make it anew as the head of picture.py says")


if __name__ == "__main__":
    main()
