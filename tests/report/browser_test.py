# SPDX-License-Identifier: BSD-3-Clause
"""Report pages in headless Chromium: no console error, every chart drawn with its data, pictures shown, no network.

usage: browser_test.py SOURCE_DIR
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import WORK, empty_work, need, script

chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if not chromium:
    print("skipped: no chromium (jobs/setup.sh --tests installs it on Debian)")
    sys.exit(77)
need("h5py", "numpy", "plotly", "yaml", "PIL")
import numpy as np  # noqa: E402
from made_runs import make_run, make_training  # noqa: E402
from PIL import Image  # noqa: E402


def show(page, query="", size="1280,800"):
    """(what the page says it drew, lines on the console, the page)."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}",
            f"--window-size={size}",
            "--enable-logging=stderr",
            "--virtual-time-budget=60000",
            "--dump-dom",
            f"file://{page}{query}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=os.environ | {"HOME": profile})
    found = re.search(r'<script type="application/json" id="self-check">(.*?)</script>', done.stdout, re.S)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    if not found:
        raise AssertionError(f"the page did not get to its end\n{done.stderr[-3000:]}")
    return json.loads(html.unescape(found[1])), console, done.stdout


class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        empty_work()
        truth = WORK / "truth.png"
        Image.fromarray(np.full((32, 48, 3), 110, np.uint8)).save(truth)
        for ranks in (1, 2, 4):
            folder = make_run(WORK / f"runs/r{ranks}", ranks=ranks, iterations=12, truth=truth, seconds=0.2 / ranks)
            Image.fromarray(np.full((32, 48, 3), 90, np.uint8)).save(folder / "measurement.png")
        for ranks in (2, 4):
            make_run(WORK / f"runs/w{ranks}", ranks=ranks, shape=(32, 48 * ranks), seconds=0.2)
        make_run(WORK / "runs/resumed", ranks=2, iterations=8, solver="admm", attempts=[(0, 5, 1.0), (3, 5, 0.5)])
        make_run(WORK / "runs/killed", ranks=2, solver="red", status="running", summary=False, pictures=False)
        (WORK / "runs/refused.json").write_text(
            json.dumps({"folder": "refused", "exit_code": 2, "error": "no", "ranks": 8})
        )
        (WORK / "plan.csv").write_text(
            "ranks,seconds_per_iteration,efficiency,memory_bytes,mode\n1,0.2,1,1e9,\n4,0.06,0.8,3e8,\n"
        )
        cls.make("many.html", "runs", "--plan", "plan.csv")
        cls.make("one.html", "runs/r4")
        cls.make("failed.html", "runs/refused.json")
        make_training(WORK / "gray.safetensors", orbits=True)
        make_training(WORK / "color.safetensors")
        cls.make("trainings.html", "gray.safetensors", "color.safetensors")

    fits = {"killed": [], "refused": [], "gray": [], "color": []}  # pictures of the fit; of other runs, two

    @staticmethod
    def make(name, *arguments):
        done = script("report.py", *arguments, "-o", name)
        assert done.returncode == 0, done.stderr

    def data(self, name):
        text = (WORK / name).read_text()
        return json.loads(re.search(r"<script type=application/json id=report-data>(.*?)</script>", text, re.S)[1])

    def check(self, name, query="", size="1280,800", run=None):
        """Every chart of the page is drawn with all its traces and points, or says why it has none."""
        drawn, console, dom = show(WORK / name, query, size)
        self.assertEqual(drawn["errors"], [])
        self.assertEqual(console, [])
        data = self.data(name)
        run = run or data["detail"]
        wanted = {c["name"]: c for c in data["charts"] if c["run"] in (None, run)}
        self.assertEqual(drawn["charts"].keys(), wanted.keys())
        for chart, given in wanted.items():
            got = drawn["charts"][chart]
            if not given["data"]:
                self.assertGreater(len(got["empty"]), 20, chart)
                continue
            self.assertEqual(got["traces"], len(given["data"]), chart)
            self.assertTrue(all(points > 0 for points in got["points"]), f"{chart}: {got}")
            for points, trace in zip(got["points"], given["data"]):
                if isinstance(trace.get("y"), list) and trace["type"] != "heatmap":
                    self.assertEqual(points, len(trace["y"]), f"{chart}, {trace.get('name')}")
        fit = self.fits.get(run, [[48, 32], [48, 16]])
        self.assertEqual(drawn["fit"], fit, "residual and chi2 of this run, and of no other")
        self.assertEqual(drawn["pictures"], [[f["width"], f["height"]] for f in data["pictures"][run]["figures"]])
        return drawn, dom

    def test_several_runs(self):
        drawn, dom = self.check("many.html")
        full = [name for name, c in drawn["charts"].items() if "empty" not in c]
        self.assertGreaterEqual(len(full), 18, full)
        self.assertIn("strong_efficiency", full)
        self.assertIn("weak_efficiency", full)
        self.assertEqual(len(drawn["pictures"]), 4)
        self.assertIn("predicted", dom)
        self.assertEqual(drawn["cut"], [], "table and menu fit into 1280 pixels")
        self.assertLess(dom.index("<section id=\"scaling\""), dom.index("<section id=\"pictures\""), "a study begins with what it is of")
        self.assertEqual(len(drawn["compared"]), 2, "before and after lie in one box")

    def test_details_of_another_run(self):
        drawn, dom = self.check("many.html", "?run=resumed", run="resumed")
        self.assertEqual(drawn["charts"]["phases_by_rank"]["points"][0], 2)
        self.assertIn('<span class="run-name">resumed</span>', dom)

    def test_one_run_in_dark_on_a_narrow_screen(self):
        drawn, dom = self.check("one.html", "?theme=dark", "390,800")
        self.assertIn('data-theme="dark"', dom)
        self.assertEqual(drawn["charts"]["busy"]["points"], [4 * 12])

    def test_a_run_that_failed_before_it_began(self):
        drawn, _ = self.check("failed.html")
        self.assertTrue(all("empty" in c for c in drawn["charts"].values()), drawn["charts"])

    def test_trainings(self):
        drawn, dom = self.check("trainings.html", "?run=color", run="color")
        self.assertEqual(drawn["charts"]["psnr@25"]["points"], [2, 2])
        self.assertEqual(drawn["charts"]["norm"]["traces"], 1)
        self.assertEqual(drawn["pictures"], [[12, 8]])

    def test_an_error_and_a_request_would_be_seen(self):
        text = (WORK / "one.html").read_text()
        self.assertEqual(text.count("  show_fit();\n  draw_all()"), 1)
        (WORK / "broken.html").write_text(
            text.replace(
                "  show_fit();\n  draw_all()",
                "  setTimeout(() => nowhere(), 0); fetch('https://localhost/');\n  show_fit();\n  draw_all()",
            )
        )
        drawn, console, _ = show(WORK / "broken.html")
        self.assertTrue(any("nowhere" in text for text in drawn["errors"]), drawn["errors"])
        self.assertTrue(any("Content Security Policy" in line for line in console), console)


if __name__ == "__main__":
    unittest.main(verbosity=2)
