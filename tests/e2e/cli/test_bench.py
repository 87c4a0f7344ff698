"""`make bench` itself: its rows are there, and a missed gate is reported. No figure is compared."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from client import Case, need_userns, size

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "build-aux" / "bench"))
import bench  # noqa: E402
import gates  # noqa: E402
from gates import ALONE, MORE, RATIO, Row  # noqa: E402
from measures import Bench  # noqa: E402

# What may be left out of a machine's run: a word of the row, a word of the reason.
AWAY = {"bwrap": "bubblewrap", "pip install": "has no pip", "1,000": "two processors", "memory": "PSS", "by PSS": "PSS"}
QUICK = "start,fresh,warm,pages,processor,output,crash,memory,density,tools,starts"


class Gates(Case):
    def line(self, ours, other, *row, **more):
        text, missed = gates.line(Row("start", "start", "ours", "other", *row, **more), {"ours": ours, "other": other})
        self.assertEqual("MISSED" in text, missed)
        return text.rsplit("  ", 1)[1]

    def test_a_gate_that_is_missed_or_met_is_reported(self):
        one, two = [0.001] * 40, [0.002] * 40
        for wanted, row in (("MISSED", (RATIO, 1.9, 1.5)), ("met", (RATIO, 2.1, 1.9)), ("met, stretch too", (RATIO, 2.1, 2.0)),
                            ("MISSED", (MORE, 0.9)), ("met", (MORE, 1.1)), ("MISSED", (ALONE, 1.9)), ("met", (ALONE, 2.1))):
            self.assertEqual(self.line(two, one, *row), wanted, row)
        self.assertEqual(self.line(one, two, RATIO, 0.6, least=True), "MISSED")
        self.assertEqual(self.line(one, two, RATIO, 0.5, least=True), "met")

    def test_load_that_strikes_both_of_a_pair_decides_nothing(self):
        load = [1, 9, 2, 30, 1, 4] * 10
        self.assertEqual(self.line([2 * one for one in load], load, RATIO, 2.1), "met")
        self.assertIn("close", self.line([2 * one for one in load], load[1:] + load[:1], RATIO, 2.1))

    def test_a_row_without_samples_is_reported_and_misses_nothing(self):
        text, missed = gates.gates([("start", "python3 -c", 1.0)], ["start"], {})
        self.assertEqual((text.count("not measured"), missed), (3, False))


class Run(Case):
    def test_each_row_is_measured(self):
        need_userns()
        self.assertLessEqual({row.measure for row in gates.ROWS}, set(bench.MEASURES))
        self.assertEqual([name for name in bench.MEASURES if not hasattr(Bench, name)], [])
        measures = size(QUICK, ",".join(bench.MEASURES))
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, bench.__file__, os.environ["SANDPIPER"], "--out", out, "--scale", "0",
                                   "--without", "ipykernel,numpy,pandas", "--only", measures],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            text = (pathlib.Path(out) / "bench.txt").read_text()
        self.assertIn(text, done.stdout)
        left_out = re.search("^left out: (.*)$", text, re.M)[1]
        for row in gates.ROWS:
            if row.measure in measures.split(","):
                title = f"{row.group}: {row.ours}" + (f" / {row.other}" if row.other else "")
                line = next((line for line in text.splitlines() if line.startswith(title + "  ")), "")
                away = any(what in title and why in left_out for what, why in AWAY.items())
                self.assertRegex(line, "not measured" if away else "  (met|met, stretch too|MISSED)$")
        self.assertEqual(done.returncode, "MISSED" in text)
