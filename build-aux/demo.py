"""Run a session with the real server over its stdin and stdout, as a client would, and print it.

    demo.py PATH-TO-sandpiper
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile

DEBIAN_PYTHON = "/usr/bin/python3"  # its packages include matplotlib where python3-matplotlib is installed

COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
HOST, MODEL, DIM, BAD, GOOD = "1;36", "1;34", "2", "31", "32"


def paint(style, text):
    return f"\033[{style}m{text}\033[0m" if COLOUR else text


def show(style, mark, text):
    for line in text.rstrip("\n").split("\n"):
        print(f"  {paint(style, mark)} {line}")


def chart_options():
    """--python for an interpreter that can draw, if the default one cannot."""
    for options, python in (([], "python3"), (["--python", DEBIAN_PYTHON], DEBIAN_PYTHON)):
        asked = subprocess.run([python, "-c", "import importlib.util as u; print(bool(u.find_spec('matplotlib')))"],
                               capture_output=True, text=True)
        if asked.stdout == "True\n":
            return options
    return None


class Host:
    def __init__(self, binary, options):
        self.images = []
        self.server = subprocess.Popen([binary, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last_id = 0

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message})
        self.server.stdin.write(line.encode() + b"\n")
        self.server.stdin.flush()

    def request(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        while True:
            line = self.server.stdout.readline()
            if not line:
                sys.exit("demo: the server exited early; see `sandpiper doctor`")
            answer = json.loads(line)
            if answer.get("id") == self.last_id:
                return answer["result"]

    def call(self, tool, **arguments):
        """Shows one tool call with its result; returns the result's text."""
        for name, value in arguments.items():
            if isinstance(value, str) and "\n" in value:
                show(MODEL, "│", value)
            else:
                show(MODEL, "│", f"{name} = {value!r}")
        began = time.monotonic()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = (time.monotonic() - began) * 1000
        self.images = [base64.b64decode(block["data"]) for block in result["content"] if block["type"] == "image"]
        text = "".join(block.get("text", f"<{block['type']}>\n") for block in result["content"])
        show(BAD if result.get("isError") else GOOD, "▌", text)
        print(f"  {paint(DIM, f'{tool}, {took:.1f} ms')}\n")
        return text

    def python(self, code, **arguments):
        return self.call("run_python", code=textwrap.dedent(code).strip() + "\n", **arguments)


def title(text):
    print(paint(HOST, f"── {text} " + "─" * max(0, 88 - len(text))))


def expect(condition, what):
    if not condition:
        sys.exit(f"demo: expected {what}")


def analysis(host):
    title("An analysis in four steps; variables persist between calls")
    host.call("write_file", path="data/orders.csv", content=textwrap.dedent("""\
        day,city,amount
        mon,Lima,120.50
        mon,Oslo,80
        tue,Lima,
        tue,Oslo,95.25
        wed,Lima,210
        wed,Pune,n/a
        """))
    host.python("""
        import csv
        rows = list(csv.DictReader(open("data/orders.csv")))
        print(len(rows), "rows;", rows[0])
        """)
    host.python("""
        def number(text):
            try:
                return float(text)
            except ValueError:
                return None
        clean = [{**r, "amount": number(r["amount"])} for r in rows if number(r["amount"]) is not None]
        len(clean)
        """)
    host.python("""
        totals = {}
        for r in clean:
            totals[r["city"]] = totals.get(r["city"], 0) + r["amount"]
        totals
        """)
    host.python("""
        with open("data/totals.csv", "w") as f:
            for city, amount in sorted(totals.items()):
                print(city, amount, sep=",", file=f)
        """)
    text = host.call("read_file", path="data/totals.csv")
    expect("Lima,330.5" in text, "the totals in the file")


def chart(host, can_draw):
    title("A chart: the model sees the image itself")
    if not can_draw:
        show(DIM, "▌", "skipped: matplotlib is not installed (Debian: apt install python3-matplotlib)\n")
        return
    host.python("""
        import matplotlib.pyplot as plt
        fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
        cities = sorted(totals, key=totals.get, reverse=True)
        bars = ax.bar(cities, [totals[c] for c in cities], color=["#2a6f97", "#e09f3e"], width=0.55)
        ax.bar_label(bars, fmt="%.2f", padding=3)
        ax.set(title="Orders by city", ylabel="amount", ylim=(0, max(totals.values()) * 1.15))
        ax.spines[["top", "right"]].set_visible(False)
        """)
    expect(len(host.images) == 1 and host.images[0].startswith(b"\x89PNG"), "one PNG image")
    handle, path = tempfile.mkstemp(prefix="sandpiper-demo-", suffix=".png")
    os.close(handle)
    pathlib.Path(path).write_bytes(host.images[0])
    show(GOOD, "✔", f"the image, {len(host.images[0])} bytes, is in {path}")
    print()


def mistakes(host):
    title("An error, reported as CPython reports it, then corrected; nothing is lost")
    text = host.python('best = totals["Pune"]\nprint(best)\n')
    expect("KeyError" in text, "a KeyError")
    text = host.python('best = max(totals, key=totals.get)\nprint(best, totals[best])\n')
    expect("Lima 330.5" in text, "the corrected answer")


def wheel(directory):
    """A small package in a directory that stands for an index."""
    with zipfile.ZipFile(pathlib.Path(directory, "exchange_rates-1.2-py3-none-any.whl"), "w") as archive:
        info = "exchange_rates-1.2.dist-info/"
        archive.writestr("exchange_rates.py", "RATES = {'EUR': 1.0, 'USD': 1.08, 'NOK': 11.6}\n")
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: exchange-rates\nVersion: 1.2\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: demo\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")


def packages(host):
    title("A missing package: a separate sandbox installs it, the code has no network")
    text = host.python("import exchange_rates\n")
    expect("install_package" in text, "a hint that names the tool")
    text = host.call("install_package", packages=["exchange-rates>=1"])
    if "no pip" in text:
        show(DIM, "▌", "the rest is skipped: pip is not installed (Debian: apt install python3-pip)\n")
        return
    expect("installed exchange-rates 1.2" in text, "an installed package")
    text = host.python("import exchange_rates\nround(totals['Oslo'] / exchange_rates.RATES['NOK'], 2)\n")
    expect("Out: 15.11" in text, "the package in the running interpreter")


def dangers(host):
    title("Code that would damage the machine")
    text = host.python(f"import os\nprint(os.path.exists({os.path.abspath(__file__)!r}))\n")
    expect(text.startswith("False"), "a sandbox that does not see this program")
    text = host.python("""
        import os, shutil
        for top in "/home", "/etc", "/usr/bin":
            shutil.rmtree(top, ignore_errors=True)
        print("the sandbox still has", len(os.listdir("/usr/bin")), "programs in /usr/bin")
        print("the host's users:", open("/etc/passwd").read().count("\\n"), "lines in /etc/passwd")
        """)
    expect("programs in /usr/bin" in text, "an answer after rmtree('/usr/bin')")
    expect(os.path.exists("/etc/passwd") and os.path.exists("/usr/bin/env"), "the host unharmed")
    show(GOOD, "✔", "the host is unharmed")
    print()
    title("An endless loop, stopped after one second; the variables are kept")
    text = host.python("while True:\n    pass\n", timeout_s=1)
    expect("[timeout" in text, "a timeout")
    text = host.python("print(totals)\n")
    expect("Lima" in text, "the variables after the timeout")
    title("A segmentation fault; the variables are restored")
    text = host.python("import ctypes\nctypes.string_at(0)\n")
    expect("[crashed: SIGSEGV at <cell" in text and "| state: restored" in text, "a reported crash")
    text = host.python("print(totals)\n")
    expect("Lima" in text, "the variables after the crash")


def job(host):
    title("Work that takes longer than a call may wait: a job")
    text = host.python("""
        import time
        for epoch in range(4):
            time.sleep(0.5)
            print("epoch", epoch, "loss", 2.0 ** -epoch)
        done = True
        """, wait_s=0.6)
    expect("[running: job 1" in text, "an answer before the end")
    text = host.python("max(totals, key=totals.get)\n", branch=True)
    expect("Out: " in text, "the variables meanwhile")
    text = host.call("run_python", job=1)
    expect("epoch 3" in text and "[ok" in text, "the job's whole result")
    text = host.python("done\n")
    expect("True" in text, "the job's variables in the session")


def export(binary, place):
    """Makes a notebook and a page of the demo's own record."""
    title("Its record, as a notebook and as a page")
    for form in ("ipynb", "html"):
        out = os.path.join(place, "demo." + form)
        done = subprocess.run([binary, "record", "export", "--record", place, "--format", form, "-o", out])
        expect(done.returncode == 0, "a record that can be exported")
        show(GOOD, "✔", out)


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "build/sandpiper"
    options = chart_options()
    began = time.monotonic()
    wheels = tempfile.TemporaryDirectory()
    wheel(wheels.name)
    os.chmod(wheels.name, 0o755)  # for a server that root starts: the sandbox has another user
    place = tempfile.mkdtemp(prefix="sandpiper-demo-")  # stays, with what is made of its record
    host = Host(binary, [*(options or []), "--no-index", "--find-links", wheels.name, "--record", place])
    title("initialize")
    hello = host.request("initialize", {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "demo", "version": "1"}})
    host.send({"method": "notifications/initialized"})
    server = hello["serverInfo"]
    show(GOOD, "▌", f"{server['name']} {server['version']}, protocol {hello['protocolVersion']}, "
                    f"after {(time.monotonic() - began) * 1000:.1f} ms")
    tools = host.request("tools/list", {})["tools"]
    show(GOOD, "▌", "tools: " + ", ".join(tool["name"] for tool in tools) + "\n")
    analysis(host)
    chart(host, options is not None)
    mistakes(host)
    packages(host)
    dangers(host)
    job(host)
    title("The end: stdin is closed")
    began = time.monotonic()
    host.server.stdin.close()
    status = host.server.wait(5)
    expect(status == 0, f"exit status 0, not {status}")
    show(GOOD, "✔", f"exit status 0 after {(time.monotonic() - began) * 1000:.0f} ms")
    export(binary, place)


if __name__ == "__main__":
    main()
