# SPDX-License-Identifier: BSD-3-Clause
"""What jobs/report.py makes of runs and studies whose figures are known.

usage: report_test.py SOURCE_DIR
"""

import base64
import csv
import gzip
import re
import shutil
import time
import unittest

from harness import SOURCE, WORK, script
from pages import Pages, report  # first: it skips where a package is missing

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from made_runs import SECONDS, make_run, make_training  # noqa: E402
from read_trace import exposed_share, read_trace  # noqa: E402
from reporting.charts import hidden_and_exposed  # noqa: E402
from reporting.runs import PHASES, read_run  # noqa: E402


class Report(Pages):
    def test_one_run_is_summed_up_by_rank_and_phase(self):
        run = read_run(make_run(WORK / "a", ranks=4, iterations=11))
        self.assertEqual((run.status, run.rank_count, run.shape(), run.problems), ("limit", 4, (32, 48), []))
        self.assertEqual(run.steady, 10, "the first iteration warms up")
        own = run.sums["own_seconds"] / run.steady
        for rank in range(4):
            each = SECONDS * (1 + rank / 100)
            for phase, share in {"denoise": 0.5, "prox": 0.3, "halo": 0.1, "between": 0.1, "load": 0}.items():
                self.assertAlmostEqual(own[PHASES.index(phase), rank], share * each, 9, f"{phase} of rank {rank}")
            hidden, exchanges, reductions = hidden_and_exposed(run)[:, rank]
            self.assertAlmostEqual(hidden, 0.15 * each, 9)
            self.assertAlmostEqual(exchanges, 0.05 * each, 9)
            self.assertEqual(reductions, 0)
            np.testing.assert_allclose(run.busy[rank], 0.95 * each, rtol=1e-9)
        np.testing.assert_allclose(run.by_iteration.sum(axis=0), SECONDS * 1.015, rtol=1e-9)
        self.assertAlmostEqual(run.imbalance(), 1.03 / 1.015 - 1, 9)
        self.assertEqual(run.peak[PHASES.index("denoise"), 2], 8 << 20)
        self.assertEqual(run.peak[PHASES.index("load"), 2], 3 << 20)
        self.assertEqual((run.sums["bytes_sent"] / run.steady).sum(), 4 * 4000)
        self.assertAlmostEqual(run.startup_seconds, 1.0)
        self.assertAlmostEqual(run.io_seconds, 0.3)
        self.assertAlmostEqual(run.total_seconds, 1 + 11 * SECONDS * 1.03 + 0.15)

    def test_the_fit_is_told_with_its_warnings(self):
        make_run(WORK / "runs/a")
        make_run(WORK / "runs/b", diagnostics=False)
        _, text, html = self.page("runs")
        self.assertIn("Does the result fit the data?", text)
        self.assertIn("chi2 per sample 0.314 1 is the noise level, 0.1", text)
        self.assertIn("chi2 over the image 0.25 to 0.41 5 % and 95 % of the tiles of 32 x 32", text)
        self.assertIn("Correlation of the residual -0.240 largest, at lag (0, 2); white noise has 0.015", text)
        self.assertIn("At the ends of the range 2 % of the samples have the largest value", text)
        self.assertIn("Image outside of [0, 1] 1.3 % values from -0.02 to 1.31", text)
        self.assertIn("Gain of the denoiser 1.082", text)
        self.assertIn("the noise is overstated &lt;or so&gt;", html)
        self.assertEqual(html.count("<div class=fit "), 2)
        self.assertIn("This run says nothing about it", text)
        _, _, html = self.page("runs/a", "--pictures", "none")
        self.assertNotIn("residual.png", html)
        self.assertNotIn('<div class="card picture"><figure><h3>Residual', html)

    def test_strong_scaling_has_ideal_spread_and_prediction(self):
        for ranks, repeat, seconds in ((1, 0, 0.4), (1, 1, 0.42), (1, 2, 0.5), (2, 0, 0.25), (4, 0, 0.15)):
            make_run(WORK / f"runs/r{ranks}-{repeat}", ranks=ranks, seconds=seconds)
        (WORK / "plan.csv").write_text(
            "# made by hand\nranks,seconds_per_iteration,efficiency,memory_bytes,mode\n"
            "4,0.12,0.9,1e9,patch\n1,0.4,1,4e9,whole\n"
        )
        data, text, _ = self.page("runs", "--plan", "plan.csv")
        time, efficiency = self.chart(data, "strong_time"), self.chart(data, "strong_efficiency")
        measured, ideal, predicted = time["data"]
        self.assertEqual((measured["x"], measured["y"]), ([1, 2, 4], [0.42, 0.25, 0.15]))
        self.assertEqual((measured["error_y"]["array"][0], measured["error_y"]["arrayminus"][0]), (0.08, 0.02))
        np.testing.assert_allclose(ideal["y"], [0.42, 0.21, 0.105])
        self.assertEqual((predicted["name"], predicted["x"], predicted["y"]), ("predicted", [1, 4], [0.4, 0.12]))
        np.testing.assert_allclose(efficiency["data"][0]["y"], [100, 84, 70])
        self.assertEqual(efficiency["data"][1]["y"], [100, 90])
        self.assertIn("predicted", [t["name"] for t in self.chart(data, "memory_by_ranks")["data"]])
        speedup = self.chart(data, "strong_speedup")["data"]
        np.testing.assert_allclose(speedup[0]["y"], [1, 1.68, 2.8])
        np.testing.assert_allclose(speedup[0]["error_y"]["array"][0], 0.42 / 0.4 - 1)
        self.assertEqual((speedup[1]["y"], speedup[2]["y"]), ([1, 2, 4], [1, 3.33333]))
        self.assertIn("No weak scaling", text)
        self.assertIn("Efficiency, strong 70 %", text)
        self.assertIn("and 2 repeats", text)
        self.assertIn("420 ms (400 ms to 500 ms)", text)
        self.assertEqual(len(self.chart(data, "psnr_iteration")["data"]), 3, "of repeats, the first")

    def test_a_plan_of_the_program_gives_a_curve_per_image_and_precision(self):
        make_run(WORK / "a")
        (WORK / "plan.csv").write_text(
            "table,machine,height,width,ranks,precision,mode,seconds,memory_bytes,efficiency\n"
            "strong,m,64,64,1,float32,whole,1,1,1\nstrong,m,64,64,2,float32,patch,0.6,1,0.83\n"
            "strong,m,128,128,1,float32,whole,4,1,1\n"
            "weak,m,64,64,1,float32,whole,1,1,1\nweak,m,64,128,2,float32,patch,1.25,1,\n"
            "strong,m,128,128,2,float32,,,,\n"
        )
        data, _, _ = self.page("a", "--plan", "plan.csv")
        strong = {t["name"]: t["y"] for t in self.chart(data, "strong_time")["data"]}
        self.assertEqual(
            strong, {"predicted (64 x 64, m, float32)": [1, 0.6], "predicted (128 x 128, m, float32)": [4]}
        )
        weak = self.chart(data, "weak_efficiency")["data"][0]
        self.assertEqual(weak["y"], [100, 80])  # computed where the file does not say

    def points(self, *arguments):
        done = report(*arguments, "--points", "points.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(WORK / "points.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_efficiency_is_per_core_that_computes(self):
        # Two cores: one rank of two threads, two of one, four that share them. All use both cores.
        for ranks, threads, seconds in ((1, 2, 0.4), (2, 1, 0.4), (4, 1, 0.5)):
            make_run(WORK / f"divided/r{ranks}", ranks=ranks, threads=threads, cores="0-1", seconds=seconds)
        rows = self.points("divided")
        self.assertEqual([r["efficiency"] for r in rows], ["1", "1", "0.8"])
        self.assertEqual([r["threads"] for r in rows], ["2", "1", "1"])
        self.assertEqual([r["shared_cores"] for r in rows], ["no", "no", "yes"])
        self.assertEqual({(r["cores"], r["sockets"], r["ideal_speedup"]) for r in rows}, {("2", "2", "1")})
        note = self.chart(self.page("divided")[0], "strong_time")["note"]
        self.assertIn("Threads per rank differ (2 on 1, 1 on 2, 1 on 4 ranks)", note)
        self.assertIn("4 ranks have more threads than cores", note)
        # One thread each: one rank leaves a core idle.
        shutil.rmtree(WORK / "divided/r1")
        make_run(WORK / "divided/r1", ranks=1, threads=1, cores="0-1", seconds=0.6)
        rows = self.points("divided")
        self.assertEqual([r["ideal_speedup"] for r in rows], ["1", "2", "2"])
        self.assertEqual([r["efficiency"] for r in rows], ["1", "0.75", "0.6"])
        # On GPUs every rank has one, whatever it is called.
        for ranks in (1, 2):
            make_run(WORK / f"gpu/r{ranks}", ranks=ranks, threads=8, cores="0-7", seconds=0.4 / ranks)
            for path in (WORK / f"gpu/r{ranks}").glob("trace/*.h5"):
                with h5py.File(path, "r+") as file:
                    file.attrs["device"] = "cuda:0"
        rows = self.points("gpu")
        self.assertEqual([(r["ideal_speedup"], r["efficiency"], r["shared_cores"]) for r in rows][1], ("2", "1", "no"))
        # Threads on the same ranks are series of their own.
        for ranks in (1, 2):
            make_run(WORK / f"two/t{ranks}", ranks=ranks, threads=2, seconds=0.2 / ranks)
            make_run(WORK / f"two/o{ranks}", ranks=ranks, threads=1, seconds=0.4 / ranks)
        self.assertEqual({r["series"].split(", ")[1] for r in self.points("two")}, {"1 thread per rank", "2 threads per rank"})

    def test_points_merge_repeats_and_stand_beside_the_plan_of_the_folder(self):
        for ranks, seconds in ((1, 0.4), (2, 0.25)):
            for repeat, factor in enumerate((1, 1.1, 0.9)):
                make_run(WORK / f"runs/r{ranks}-{repeat}", ranks=ranks, seconds=seconds * factor)
        (WORK / "runs/plan.csv").write_text(
            "table,height,width,ranks,mode,seconds,memory_bytes,efficiency,cores\n"
            "strong,32,48,1,whole,0.5,4e6,,1\nstrong,32,48,2,layer,0.2,3e6,,2\nstrong,64,96,2,layer,9,9e6,,2\n"
        )
        rows = self.points("runs")
        self.assertEqual([(r["ranks"], r["runs"]) for r in rows], [("1", "3"), ("2", "3")])
        self.assertEqual([r["predicted_seconds"] for r in rows], ["0.5", "0.2"])
        self.assertEqual([float(r["seconds"]) for r in rows], [0.4, 0.25])
        self.assertEqual([float(r["efficiency_most"]) for r in rows], [1.11111, 0.888889])
        self.assertEqual((float(rows[1]["tracked_bytes"]), float(rows[1]["resident_bytes"])), (8388610, 52428800))
        data, text, _ = self.page("runs")
        predicted = [t for t in self.chart(data, "strong_efficiency")["data"] if "predicted" in t["name"]]
        self.assertEqual(predicted[0]["y"], [100, 125])
        self.assertIn("6 runs", text)
        done = report("runs", "--table")
        self.assertRegex(done.stdout, r"strong scaling, 32 x 48, 1 thread per rank\n +ranks .*\n +1 +1 +64 +no +0.4 ")

    def test_figures_for_a_paper(self):
        for ranks in (1, 2, 4):
            make_run(WORK / f"runs/s{ranks}", ranks=ranks, seconds=0.4 / ranks)
            make_run(WORK / f"runs/w{ranks}", ranks=ranks, solver="admm", shape=(32, 48 * ranks), seconds=0.4)
        done = report("runs", "--figures", "figures")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = {f"{kind}_{what}.{form}" for kind in ("strong", "weak") for form in ("svg", "pdf")
                 for what in ("time", "speedup", "efficiency", "memory", "phases")}
        self.assertEqual({p.name for p in (WORK / "figures").iterdir()}, names)
        svg = (WORK / "figures/strong_speedup.svg").read_text()
        for words in (">speedup<", ">ideal<", ">ranks<", "32 x 48, 1 thread per rank"):
            self.assertIn(words, svg, "text is text")
        self.assertTrue((WORK / "figures/weak_time.pdf").read_bytes().startswith(b"%PDF"))
        self.assertIn("nothing to draw", report("runs/s1", "--figures", "none").stderr)

    def test_the_noise_level_is_drawn_where_there_is_one(self):
        make_run(WORK / "known")
        make_run(WORK / "unknown", solver="admm", noise=0)
        for name, wanted, missing in (("known", "4 noise levels", "not known"), ("unknown", "is not known", "4 noise levels")):
            fit = self.page(name)[1].split("Does the result fit the data?")[1].split("Convergence")[0]
            self.assertIn(wanted, fit)
            self.assertNotIn(missing, fit)
        for runs, words, lines in ((["known"], "the noise level", 1), (["known", "unknown"], "is not known", 0)):
            chart = self.chart(self.page(*runs)[0], "chi2")
            self.assertIn(words, chart["note"])
            self.assertEqual(len(chart["layout"]["shapes"]), lines)

    def test_the_exposed_share_has_one_definition(self):
        folder = make_run(WORK / "a", ranks=3, summary=False)
        by_report = read_run(folder).exposed_fraction()
        by_reader = exposed_share(*read_trace(folder))
        self.assertAlmostEqual(by_report, 0.05, 9)
        self.assertAlmostEqual(by_reader, by_report, 12)

    def test_weak_scaling_and_modes_are_series_of_their_own(self):
        for ranks, width in ((1, 48), (2, 96), (4, 192)):
            make_run(WORK / f"runs/w{ranks}", ranks=ranks, shape=(32, width), seconds=0.1 * (1 + ranks / 10))
        for ranks in (1, 2):
            make_run(WORK / f"runs/layer{ranks}", ranks=ranks, mode="layer", seconds=0.2 / ranks)
            make_run(WORK / f"runs/patch{ranks}", ranks=ranks, mode="patch", seconds=0.3 / ranks)
        data, _, _ = self.page("runs")
        weak = self.chart(data, "weak_time")["data"]
        self.assertEqual((weak[0]["x"], weak[0]["y"]), ([1, 2, 4], [0.11, 0.12, 0.14]))
        self.assertEqual(weak[1]["y"], [0.11] * 3, "the ideal")
        strong = [t["name"] for t in self.chart(data, "strong_time")["data"] if t["name"] != "ideal"]
        self.assertEqual(
            sorted(strong), [f"32 x 48, mode {mode}, 1 thread per rank" for mode in ("layer", "patch")]
        )

    def test_differing_keys_are_listed(self):
        make_run(WORK / "runs/a")
        make_run(WORK / "runs/b", solver="admm", iterations=9)
        _, text, html = self.page("runs")
        table = re.search(r"<section id=compare>(.*?)</section>", html, re.S)[1]
        keys = re.findall(r"<tr><td>(.*?)</td>", table)
        self.assertEqual(sorted(keys), ["solver.iterations", "solver.name"])
        self.assertIn("solver.name pgd admm", text)

    def test_the_page_needs_nothing_else(self):
        make_run(WORK / "a", truth=self.truth)
        _, _, html = self.page("a")
        self.assertIn("default-src 'none'", html)
        own = html.replace((SOURCE / "jobs/reporting/page.js").read_text(), "")
        packed = re.findall(r"<script type=text/plain id=plotly>([^<]*)</script>", own)
        self.assertEqual(len(packed), 1, "plotly is embedded once")
        self.assertIn("plotly.js v", gzip.decompress(base64.b64decode(packed[0])).decode())
        self.assertLess(len(own), 2_600_000)
        page_only = re.sub(r"<script>/\*\*?.*?</script>", "", own, flags=re.S)
        self.assertIsNone(re.search(r"""(?:src|href)=["']?(?!data:|#)[^"'\s>]*//""", page_only))

    def test_sixty_four_ranks_and_a_thousand_iterations_in_seconds(self):
        make_run(WORK / "a", ranks=64, iterations=1000, halos=14, shape=(512, 640))
        begin = time.monotonic()
        done = script("report.py", "a", "-o", "page.html", "--csv", "table.csv")
        took = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"64 ranks x 1000 iterations, {64 * 1000 * 16} phases: {took:.1f} s")
        self.assertLess(took, 20)
        shutil.rmtree(WORK / "a")

    def test_trainings_are_shown_with_their_curves(self):
        make_training(WORK / "one/gray.safetensors")
        make_training(WORK / "two/gray.safetensors", orbits=True)
        data, text, _ = self.page("one/gray.safetensors")
        self.assertIn("Steps 300 in 30 s of training Weights 6 drunet", text)
        self.assertIn("PSNR at 25/255 30.00 dB best 30.50 dB at step 200", text)
        self.assertIn("Not shown: Norm of the Jacobian, Penalty (Trained without train.jacobian).", text)
        psnr = self.chart(data, "psnr@25")["data"]
        self.assertEqual([(t["name"], t["x"], t["y"]) for t in psnr], [("gray", [20, 30], [30.5, 30])])
        self.assertEqual(self.chart(data, "loss")["data"][0]["y"], [0.04, 0.03, 0.02])
        (figure,) = data["pictures"]["gray"]["figures"]
        self.assertEqual((figure["width"], figure["height"]), (12, 8))

        data, text, _ = self.page("one/gray.safetensors", "two/gray.safetensors")
        self.assertEqual(data["runs"], ["one/gray", "two/gray"])
        self.assertEqual([t["name"] for t in self.chart(data, "norm")["data"]], ["two/gray"])
        self.assertIn("|2 D&#x27; - 1|", text)

    def test_what_is_no_training_is_refused(self):
        make_training(WORK / "gray.safetensors")
        make_run(WORK / "a")
        for words, problem in {
            ("gray.safetensors", "a", "-o", "page.html"): "a is not for the page of trainings",
            ("gray.safetensors", "--csv", "t.csv"): "a training is not for the page of trainings",
            ("none.safetensors", "-o", "page.html"): "none.safetensors holds no weights (No such file",
        }.items():
            done = report(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(problem, done.stderr)
        for harm, problem in {
            "step,loss\n1,x\n": "is not the curve of a training",
            "step,loss\n": "is not the curve of a training",
            None: "cannot read",
        }.items():
            curve = WORK / "gray.safetensors.curve.csv"
            curve.unlink() if harm is None else curve.write_text(harm)
            done = report("gray.safetensors", "-o", "page.html")
            self.assertEqual((done.returncode, problem in done.stderr), (2, True), done.stderr)
        (WORK / "gray.safetensors").write_bytes(b"0123456789")
        self.assertIn("it is not a safetensors file", report("gray.safetensors", "-o", "page.html").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
