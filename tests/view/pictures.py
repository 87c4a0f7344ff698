"""Takes the pictures of docs/VIEW.md and docs/RECORD.md anew: python3 tests/view/pictures.py DIRECTORY, with SANDPIPER as for the tests."""
import os
import pathlib
import subprocess
import sys
import tempfile

from test_view import Looked, code, python
from client import COMMAND, Server

FIGURE = """import numpy as np, matplotlib.pyplot as plt
days = np.arange(120)
level = 3 + np.sin(days / 9) + np.random.default_rng(7).normal(0, .15, 120)
fig, ax = plt.subplots(figsize=(6.4, 2.6))
ax.plot(days, level); ax.set_title("Water level, m"); ax.set_xlabel("day"); fig.tight_layout()
print(f"highest: {level.max():.2f} m on day {level.argmax()}")"""
TABLE = """import pandas as pd
towns = pd.DataFrame({"town": ["Ely", "Wells", "Ripon", "Truro", "Wick", "Oban", "Diss"],
                      "people": [19189, 11145, 16590, 23040, 6954, 8490, 7572],
                      "river": ["Great Ouse", None, "Ure", "Truro", "Wick", None, "Waveney"],
                      "km2": [59.21, 5.63, 48.9, 9.7, 4.12, 3.83, 5.25]})
print(len(towns), "towns")
towns"""
ERROR = """def mean(values):
    return sum(values) / len(values)

readings = {"north": [2.5, 3.1], "south": []}
for name, values in readings.items():
    print(name, mean(values))"""
BEFORE = {"rates.py": "import os\n\nRATE = 0.19\n\n\ndef gross(net):\n    return net + net * RATE\n",
          "prices.csv": "tea,2.50\nmilk,0.99\n", "old.py": "x = 1\n"}
CHANGED = """import os
text = open('rates.py').read().replace('import os\\n\\n', '').replace('net + net * RATE', 'round(net * (1 + RATE), 2)')
open('rates.py', 'w').write(text)
open('prices.csv', 'a').write('salt,0.59\\n'); os.remove('old.py'); os.makedirs('.vscode')
open('.vscode/settings.json', 'w').write('{"python.testing.pytestEnabled": true}\\n')"""


class Pictures(Looked):
    def take(self, target):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in BEFORE.items():
                pathlib.Path(directory, name).write_text(text)
            sort = "document.querySelectorAll('th button')[2].click()"
            cases = {
                "figure": {"input": {"code": FIGURE}},
                "table": {"input": {"code": TABLE}, "evaluate": [sort, sort]},
                "error": {"input": {"code": ERROR}, "theme": "dark"},
                "hostile": {"input": code("hostile"), "hostile": True},
                "changes": {"args": ["--cow", "--workspace", directory], "tool": "list_changes", "input": {},
                            "before": [["run_python", {"code": CHANGED}],
                                       ["file", {"path": directory + "/prices.csv", "text": "tea,2.60\nmilk,0.99\n"}]]}}
            record(target / "record.png", self.chromium)
            self.look(*({**case, "picture": str(target / f"view-{name}.png")} for name, case in cases.items()))


def record(picture, chromium):
    """The export of a short session."""
    with tempfile.TemporaryDirectory() as directory:
        with Server("--record", directory, "--python", python()) as server:
            server.python("# how far it is\nimport math\nfar = math.hypot(3, 4.5)\nprint(f'{far:.2f} km')")
            server.python(ERROR)
            server.python("far = 'away'")
            server.python("import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 1.6)); plt.plot([1, 3, 2]); print(far)", undo=True)
        page = pathlib.Path(directory, "page.html")
        file, = pathlib.Path(directory).glob("*.jsonl")
        subprocess.run([*COMMAND, "record", "export", "--format", "html", "--output", page, file], check=True)
        subprocess.run([chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,1010",
                        f"--screenshot={picture}", page.as_uri()],
                       check=True, capture_output=True, env={"PATH": os.environ["PATH"], "HOME": directory})


if __name__ == "__main__":
    Pictures.setUpClass()
    Pictures("take").take(pathlib.Path(sys.argv[1]).resolve())
