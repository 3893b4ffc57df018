# SPDX-License-Identifier: BSD-3-Clause
"""Runs jobs/report.py in this process, and reads its page and its table."""

import contextlib
import csv
import io
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

from harness import SOURCE, WORK, empty_work, need

need("h5py", "matplotlib", "numpy", "pandas", "plotly", "tifffile", "yaml", "PIL")
sys.path.insert(0, str(SOURCE / "jobs"))
import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402
from report import main  # noqa: E402


def report(*arguments):
    """The script, in this process: its imports take longer than its work."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(WORK), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


class Pages(unittest.TestCase):
    def setUp(self):
        empty_work()
        self.truth = WORK / "truth.png"
        Image.fromarray(np.full((32, 48, 3), 110, np.uint8)).save(self.truth)

    def page(self, *arguments):
        """(the page's data, its visible text, its HTML)."""
        done = report(*arguments, "-o", "page.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        html = (WORK / "page.html").read_text()
        raw = re.search(r"<script type=application/json id=report-data>(.*?)</script>", html, re.S)[1]
        self.assertNotIn("<", raw, "'<!--<script' in a name would swallow the page")
        data = json.loads(raw)
        body = re.search(r"<main>(.*)</main>", html, re.S)[1]
        return data, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)), html

    def chart(self, data, name, run=None):
        return next(c for c in data["charts"] if c["name"] == name and c["run"] in (None, run))

    def rows(self, *arguments):
        done = report(*arguments, "--csv", "table.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(WORK / "table.csv", newline="") as file:
            return {Path(row["folder"]).name: row for row in csv.DictReader(file)}
