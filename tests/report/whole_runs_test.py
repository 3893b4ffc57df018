# SPDX-License-Identifier: BSD-3-Clause
"""The quickstart job on 1, 2 and 4 ranks, and what reports, timelines and the cost of tracing say of it.

usage: whole_runs_test.py SOURCE_DIR TESSERA
"""

import csv
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from harness import SOURCE, WORK, empty_work, need, script

need("h5py", "matplotlib", "pandas", "plotly", "skimage", "yaml")
sys.path[:0] = [str(SOURCE / "jobs"), str(SOURCE / "tests/support")]
import pictures  # noqa: E402
from programs import limit  # noqa: E402
from read_trace import exposed_share, read_trace  # noqa: E402
from reporting.runs import read_run  # noqa: E402

TESSERA = sys.argv.pop(1)


def jobs(name, *arguments):
    done = script(name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(ranks, name, *settings, job=SOURCE / "data/jobs/quickstart.yaml", truth=True):
    settings = [f"output.folder={WORK / name}", *([f"problem.truth={WORK / 'photo.png'}"] if truth else []), *settings]
    more = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run(
        [str(SOURCE / "jobs/launch.sh"), "-n", str(ranks), TESSERA, "run", str(job), "--force", *more],
        text=True,
        capture_output=True,
        timeout=limit(TESSERA, 200),
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def table(*runs):
    jobs("report.py", *runs, "--csv", "table.csv")
    return read_csv(WORK / "table.csv")


class WholeRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        empty_work()
        astronaut = pictures.photograph("astronaut.png")
        pictures.imsave(WORK / "photo.png", astronaut)
        pictures.imsave(WORK / "crop.png", astronaut[40:232, 130:322])
        for ranks in (1, 2, 4):
            run(ranks, f"runs/r{ranks}", f"problem.truth={WORK / 'crop.png'}", "solver.iterations=12")

    def test_report(self):
        jobs("report.py", "runs", "-o", "page.html")
        html = (WORK / "page.html").read_text()
        data = json.loads(re.search(r"<script type=application/json id=report-data>(.*?)</script>", html, re.S)[1])
        for name in ("r1", "r2", "r4"):
            shown = data["pictures"][name]
            self.assertEqual([f["title"] for f in shown["figures"]], ["before", "after", "truth", "error"])
            self.assertEqual(shown["missing"], [], "the PSNR of the files is that of the run")
        charts = {c["name"]: c for c in data["charts"] if c["run"] in (None, "r4")}
        self.assertEqual([name for name, c in charts.items() if not c["data"]], [])
        self.assertEqual([p for p in charts["strong_time"]["data"][0]["x"]], [1, 2, 4])
        self.assertRegex(html, r"torch [\d.]+, .*MPI.*, HDF5 [\d.]+, CUDA")
        self.assertRegex(html, r"\d+ cores, \d+ threads per rank")
        for row in table("runs"):
            self.assertEqual((row["status"], row["iterations"], row["message"]), ("limit", "12", ""))
            summary = json.loads((Path(row["folder"]) / "summary.json").read_text())
            self.assertAlmostEqual(
                float(row["seconds_per_iteration"]) / summary["seconds_per_iteration"], 1, delta=0.4
            )  # one is of the slowest rank
            self.assertGreater(float(row["psnr"]), float(row["psnr_start"]) + 3)
            # One definition of the exposed share, whoever computes it.
            told = summary["exposed_wait_fraction"]
            self.assertAlmostEqual(exposed_share(*read_trace(row["folder"])), told, 6)
            self.assertAlmostEqual(read_run(Path(row["folder"])).wait_share, told, 6)

    def test_a_scaling_study_has_equal_threads_and_its_prediction(self):
        job = WORK / "study.yaml"
        job.write_text(
            "problem: {truth: {scene: {size: [96, 128]}}, noise: {gaussian: 0.02},\n"
            "          operator: {type: blur, kernel: {gaussian: {sigma: 1}}, boundary: valid}}\n"
            "denoiser: {network: drunet}\nsolver: {name: hqs, iterations: 4}\noutput: {folder: none}\n"
        )
        words = [job, "--ranks", "1,2", "--repeats", "2", "--program", TESSERA]
        begin = {key: os.environ.pop(key) for key in ("OMP_NUM_THREADS", "TESSERA_TUNED") if key in os.environ}
        os.environ["TESSERA_TUNED"] = str(WORK / "cache/tuned.yaml")
        try:
            said = jobs("scaling.py", "strong", *words, "--folder", WORK / "study")
            other = script("scaling.py", "strong", *words, "--folder", WORK / "study", "--threads", "77")
            shared = jobs("scaling.py", "weak", *words, "--sizes", "48x64", "--folder", WORK / "weak", "--threads", "share",
                          "--no-plan")
        finally:
            del os.environ["TESSERA_TUNED"]
            os.environ.update(begin)
        self.assertEqual(other.returncode, 2)
        self.assertRegex(other.stderr, r"holds runs with --threads \d+ \(.*of 77\) write --threads")
        cores = len(os.sched_getaffinity(0))
        runs, points, plan = (read_csv(WORK / f"study/{name}.csv") for name in ("scaling", "points", "plan"))
        self.assertEqual({row["threads"] for row in runs}, {str(max(1, cores // 2))})
        self.assertEqual({row["shared_cores"] for row in runs}, {"no" if cores > 1 else "yes"})
        self.assertTrue(all(1 <= int(row["sockets"]) and int(row["cores"]) >= 1 for row in runs), runs)
        self.assertTrue(all(int(row["resident_bytes_per_rank"]) > int(row["peak_bytes_per_rank"]) > 0 for row in runs))
        self.assertEqual([(p["ranks"], p["runs"]) for p in points], [("1", "2"), ("2", "2")])
        for point, told in zip(points, plan):
            self.assertEqual(float(point["predicted_seconds"]), float(f"{float(told['seconds']):.6g}"))
            self.assertGreater(float(told["inner_iterations"]), 1)
            taken = json.loads((WORK / f"study/ranks{point['ranks']}-run0/summary.json").read_text())["prox"]
            self.assertAlmostEqual(float(told["inner_iterations"]), taken["iterations"] / taken["calls"], 2)
        self.assertEqual({row["measured"] for row in plan}, {"measured machine"})
        self.assertTrue((WORK / "study/figures/strong_speedup.svg").stat().st_size > 5000)
        self.assertRegex(said, r"threads per rank: \d+\n")
        self.assertIn("strong scaling, 96 x 128", said)
        self.assertIn("ways to use the machine are compared", shared)
        threads = {(row["ranks"], row["threads"]) for row in read_csv(WORK / "weak/scaling.csv")}
        self.assertEqual(threads, {("1", str(cores)), ("2", str(max(1, cores // 2)))})
        self.assertFalse((WORK / "weak/plan.csv").exists())

    def test_a_scene_is_drawn_again(self):
        scene = WORK / "scene.yaml"
        scene.write_text(
            "problem: {truth: {scene: {seed: 3, size: [48, 64]}}, noise: {gaussian: 0.02},\n"
            "          operator: {type: blur, kernel: {gaussian: {sigma: 1}}}}\n"
            "denoiser: {network: tv}\nsolver: {name: fista, iterations: 3}\noutput: {folder: scene}\n"
        )
        run(1, "scene", job=scene, truth=False)
        jobs("report.py", "scene", "-o", "scene.html", "--program", TESSERA)
        shown = json.loads(re.search(r"id=report-data>(.*?)</script>", (WORK / "scene.html").read_text(), re.S)[1])[
            "pictures"
        ]["scene"]
        self.assertEqual(
            ([f["title"] for f in shown["figures"]], shown["missing"]), (["before", "after", "truth", "error"], [])
        )
        jobs("report.py", "scene", "-o", "scene.html", "--program", "/nowhere/tessera")
        self.assertIn("/nowhere/tessera cannot be started", (WORK / "scene.html").read_text())

    def test_timeline(self):
        jobs("trace_export.py", "runs/r4", "-o", "trace.json")
        events = json.loads((WORK / "trace.json").read_text())["traceEvents"]
        begins = {
            r: [e["ts"] for e in events if e["pid"] == r and e["ph"] == "X" and e["cat"] == "iteration"]
            for r in range(4)
        }
        self.assertEqual([len(b) for b in begins.values()], [12] * 4)
        for rank in range(1, 4):  # iterations of ranks that wait for each other begin nearly together
            apart = [abs(a - b) for a, b in zip(begins[0], begins[rank])]
            self.assertLess(sorted(apart)[4], 0.2 * (begins[0][-1] - begins[0][0]) / 7)

    def test_tracing_takes_less_than_a_hundredth(self):
        # Twice as many iterations as the quickstart has: still short, so that making the files counts for much.
        shares = []
        for attempt in range(3):  # a busy disk may stall one of them
            run(2, "traced", "solver.iterations=16")
            shares.append(float(table("traced")[0]["trace_share"]))
            print(f"inside trace calls: {100 * shares[-1]:.2f} % of the run, on the rank that spent most")
            if shares[-1] < 0.01:
                break
        self.assertLess(min(shares), 0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
