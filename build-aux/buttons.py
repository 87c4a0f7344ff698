"""The buttons of docs/INSTALL.md that add Sandpiper to an editor, made of the entries of `sandpiper config` (bridge/clients.py).

    buttons.py ROOT   writes them there anew; tests/lint/documents.py compares

Pages on GitHub cannot name vscode: and cursor: addresses, so each button leads to a page of the vendor's that opens the editor.
Formats: code.visualstudio.com/api/extension-guides/ai/mcp ("Create an MCP installation URL"), cursor.com/docs/mcp/install-links.
"""
import base64
import json
import pathlib
import re
import sys
import urllib.parse

PAGE = "docs/INSTALL.md"
NAME = "sandbox"  # as config's default


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def vscode(entry):
    quoted = urllib.parse.quote(compact({"name": NAME, **entry}), safe="")
    return "https://insiders.vscode.dev/redirect?url=" + urllib.parse.quote(f"vscode:mcp/install?{quoted}", safe="")


def cursor(entry):
    config = base64.b64encode(compact(entry).encode()).decode()
    return f"https://cursor.com/en/install-mcp?name={NAME}&config={urllib.parse.quote(config, safe='')}"


def lines(root):
    """{how a line of the page begins: the line}"""
    sys.path[:0] = [str(root / "bridge"), str(root / "base")]
    from clients import CLIENTS, make_entry
    made = {f"[add to {name}]: ": address(make_entry(CLIENTS[name], "sandpiper", [], 0))
            for name, address in (("vscode", vscode), ("cursor", cursor))}
    return {start: start + address for start, address in made.items()}


def main(root):
    page = root / PAGE
    text = page.read_text()
    for start, line in lines(root).items():
        text = re.sub(f"^{re.escape(start)}.*$", lambda _: line, text, flags=re.M)
    page.write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
