# SPDX-License-Identifier: BSD-3-Clause
"""What jobs/report.py makes of runs that failed, stopped, were resumed or are hostile, and of bad input.

usage: states_test.py SOURCE_DIR
"""

import json
import os
import re
import shutil
import unittest

from harness import WORK, script
from pages import Pages, report  # first: it skips where a package is missing

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from made_runs import SECONDS, make_run  # noqa: E402
from reporting.runs import PHASES, read_run  # noqa: E402


class States(Pages):
    def test_runs_that_failed_are_on_the_page_and_in_the_table(self):
        make_run(WORK / "runs/good", truth=self.truth)
        make_run(WORK / "runs/killed", status="running", summary=False, pictures=False)
        damaged = make_run(WORK / "runs/damaged", ranks=3)
        path = damaged / "trace/rank-00001.h5"
        path.write_bytes(path.read_bytes()[:1000])
        early = make_run(WORK / "runs/early", status="running", summary=False, pictures=False)
        shutil.rmtree(early / "trace")
        (early / "log").mkdir()
        (early / "log/rank-1.txt").write_text("rank 1 waited 300 s for rank 0")
        (WORK / "runs/refused.json").write_text(
            json.dumps({"folder": "refused", "exit_code": 2, "error": "unknown key", "ranks": 8})
        )
        folders = [WORK / "runs", WORK / "never"]
        data, text, _ = self.page(*folders, "--allow-missing")
        rows = self.rows(*folders, "--allow-missing")
        self.assertEqual(
            {name: row["status"] for name, row in rows.items()},
            {
                "good": "limit",
                "killed": "no end",
                "damaged": "limit",
                "early": "failed",
                "refused": "failed",
                "never": "missing",
            },
        )
        self.assertEqual(rows["refused"]["ranks"], "8")
        self.assertIn("unknown key", rows["refused"]["message"])
        self.assertAlmostEqual(float(rows["killed"]["seconds_per_iteration"]), SECONDS * 1.01)
        for words in (
            "it was killed, or is still running (after iteration 4)",
            "The trace of rank 1 cannot be read",
            "Traces of 1 of 3 ranks are missing",
            "There is no trace",
            "exit code 2: unknown key",
            "rank 1 waited 300 s for rank 0",
            "never does not exist",
        ):
            self.assertIn(words, text)
        self.assertEqual(len(self.chart(data, "psnr_iteration")["data"]), 3, "of the runs that have iterations")
        for name in ("early", "refused", "never"):
            self.assertIn("no trace", self.chart(data, "phases_by_rank", name)["empty"], "others have one")

    def test_one_iteration_no_truth_one_rank(self):
        make_run(WORK / "a", ranks=1, iterations=1, psnr=False)
        data, text, html = self.page("a")
        self.assertIn("one iteration only", text)
        self.assertIn("Not shown: PSNR against iteration, PSNR against time (No PSNR: no run has a truth", text)
        self.assertEqual(len(self.chart(data, "residual")["data"][0]["x"]), 1)
        self.assertIn("nobody to compare", text)
        self.assertEqual([c["name"] for c in data["charts"] if not c["data"]], [], "no panel is empty")
        self.assertEqual(re.findall(r"<section id=(\w+)", html)[3:], ["convergence", "time", "memory", "machine"])
        np.testing.assert_allclose(read_run(WORK / "a").seconds_per_iteration()[0], SECONDS)

    def test_a_resumed_run_with_one_clock(self):
        run = read_run(make_run(WORK / "a", ranks=2, iterations=9, attempts=[(0, 4, 1.0), (4, 5, 3.0)]))
        self.assertEqual(
            (run.restarts, run.restart_count, run.steady), ([4], 1, 7), "the first after each start warms up"
        )
        np.testing.assert_allclose(run.curve["elapsed"], [1.1, 1.2, 1.3, 1.4, 3.1, 3.2, 3.3, 3.4, 3.5])
        np.testing.assert_allclose(run.sums["own_seconds"][PHASES.index("denoise"), 0] / run.steady, 0.5 * SECONDS)

    def test_a_resumed_run_whose_clock_began_anew_and_that_did_iterations_again(self):
        run = read_run(make_run(WORK / "a", ranks=2, iterations=8, attempts=[(0, 5, 1.0), (3, 5, 0.5), (6, 2, 0.4)]))
        self.assertEqual((run.restarts, run.restart_count), ([5, 10], 2))
        self.assertAlmostEqual(run.lost_seconds, 4 * SECONDS)
        np.testing.assert_allclose(run.curve["elapsed"][[4, 5]], [1.5, 1.5 + 0.15 + 0.6])
        data, text, _ = self.page("a")
        self.assertIn("resumed 2 times", text)
        curve = self.chart(data, "psnr_iteration")
        self.assertEqual(curve["data"][0]["x"], list(range(1, 9)), "each iteration once, from 1 as in the log")
        self.assertEqual(len(curve["layout"]["shapes"]), 2)
        self.assertEqual(len(self.chart(data, "psnr_time")["data"][0]["x"]), 12, "against time, what was done")

    def test_a_run_resumed_on_other_ranks_keeps_its_curve(self):
        folder = make_run(WORK / "a", ranks=3, iterations=9, attempts=[(0, 2, 1.0), (2, 5, 2.0)])
        (folder / "trace").rename(WORK / "first")
        shutil.rmtree(folder)
        make_run(folder, ranks=2, iterations=9, attempts=[(5, 4, 4.0)])
        (WORK / "first").rename(folder / "trace-0")
        run = read_run(folder)
        self.assertEqual((list(run.whole["iteration"]), run.whole_restarts), (list(range(9)), [2, 5]))
        np.testing.assert_allclose(run.whole["elapsed"][[0, 4, 5]], [1.1, 2.3, 4.1])
        self.assertEqual((len(run.ranks), run.steady, run.restart_count), (2, 3, 2))
        self.assertAlmostEqual(run.trace_share, 0.001 / (4.0 + 4 * SECONDS + 0.15 - 3.8), 6, "of the time since")
        data, text, _ = self.page("a")
        self.assertIn("Iterations before 5 ran on other ranks or blocks", text)
        self.assertEqual(self.chart(data, "psnr_time")["data"][0]["x"][-1], 4.4)
        shutil.rmtree(folder / "trace-0")
        self.assertIn("The trace begins at iteration 5", " ".join(read_run(folder).problems))

    def test_a_run_that_waits_and_one_killed_after_an_earlier_end(self):
        waits = make_run(WORK / "waits", status="stopped", summary=False)
        (waits / "status.json").write_text('{"state": "waiting", "message": "time limit"}')
        self.assertEqual(read_run(waits).status, "waiting")
        killed = make_run(WORK / "killed", status="running")
        (killed / "status.json").write_text('{"state": "running"}')
        run = read_run(killed)
        self.assertEqual(run.status, "no end")
        self.assertIn("are of an earlier end", run.problems[0])

    def test_a_trace_that_keeps_every_fourth_iteration(self):
        folder = make_run(WORK / "a", ranks=2, iterations=10)
        for path in folder.glob("trace/*.h5"):
            with h5py.File(path, "r+") as file:
                i, p = file["iterations"][:], file["phases"][:]
                kept = (i["iteration"] % 4 == 0) | (i["iteration"] == 9)
                del file["iterations"], file["phases"]
                file["iterations"], file["phases"] = i[kept], p[(p["iteration"] < 0) | (p["iteration"] % 4 == 0)]
                file.attrs["every"] = 4
        run = read_run(folder)
        self.assertEqual(list(run.curve["iteration"]), [0, 4, 8, 9])
        self.assertEqual(run.steady, 2)
        self.assertAlmostEqual(run.phase_seconds()["denoise"], 0.5 * SECONDS * 1.005)

    def test_an_older_trace_does_not_say_what_was_hidden(self):
        folder = make_run(WORK / "a")
        for path in folder.glob("trace/*.h5"):
            with h5py.File(path, "r+") as file:
                rows = file["phases"][:]
                names = [name for name in rows.dtype.names if name != "flight_seconds"]
                kept = np.zeros(len(rows), [(name, rows.dtype[name]) for name in names])
                for name in names:
                    kept[name] = rows[name]
                del file["phases"]
                file["phases"] = kept
        data, _, _ = self.page("a")
        self.assertIn("older version", self.chart(data, "hidden_exposed", "a")["note"])

    def test_bad_input_is_one_sentence_and_code_2(self):
        make_run(WORK / "a")
        (WORK / "bad.csv").write_text("a,b\n1,2\n")
        (WORK / "hopeless.csv").write_text("ranks,seconds\n2,\n")
        (WORK / "nothing").mkdir()
        cases = [
            (("a",), "nothing to write"),
            (("b", "-o", "x.html"), "b does not exist"),
            (("nothing", "-o", "x.html"), "nothing is no run"),
            (("bad.csv", "-o", "x.html"), "bad.csv is no run"),
            (("a", "--plan", "bad.csv", "-o", "x.html"), "needs the columns ranks and seconds, it has a, b"),
            (("a", "--plan", "hopeless.csv", "-o", "x.html"), "predicts nothing"),
            (("a", "--plan", "none.csv", "-o", "x.html"), "cannot read none.csv"),
            (("a", "-o", "no/where.html"), "cannot write no/where.html"),
            (("a", "--csv", "no/where.csv"), "cannot write no/where.csv"),
            (("a", "--side", "3", "-o", "x.html"), "--side is 3"),
        ]
        for arguments, words in cases:
            done = report(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertRegex(done.stderr, r"^report: .+ \(.+\) .+\n$", arguments)
            self.assertIn(words, done.stderr)
            self.assertFalse((WORK / "x.html").exists(), arguments)
        self.assertEqual(script("report.py", "b", "-o", "x.html").returncode, 2)

    def test_names_that_look_like_a_page(self):
        make_run(WORK / "a", truth=self.truth).rename(WORK / "<!--<script>")
        data, _, _ = self.page("<!--<script>")
        self.assertIn("<!--<script>", json.dumps(data))

    def test_names_that_are_no_utf8(self):
        folder = WORK / os.fsdecode(b"M\xfcnchen")
        make_run(WORK / "a", truth=self.truth).rename(folder)
        with open(folder / "resolved.yaml", "ab") as file:
            file.write(b"# sha256 0 /data/M\xfcnchen/photo.png\n")
        (folder / "status.json").write_text("[]")
        run = read_run(folder)
        self.assertEqual((run.status, run.problems), ("limit", []))
        self.assertIn("M?nchen", self.page(folder)[1])
        self.assertEqual(report(folder, "--csv", "table.csv").returncode, 0)
        self.assertIn("M?nchen", (WORK / "table.csv").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
