# SPDX-License-Identifier: BSD-3-Clause
"""What jobs/report.py makes of runs whose figures are known, of broken ones, and of bad input.

usage: report_test.py SOURCE_DIR
"""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest
import unittest.mock
import zlib
from pathlib import Path

from harness import SOURCE, WORK, empty_work, need, script

need("h5py", "matplotlib", "numpy", "pandas", "plotly", "tifffile", "yaml", "PIL")
sys.path.insert(0, str(SOURCE / "jobs"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import tifffile  # noqa: E402
from made_runs import SECONDS, make_run  # noqa: E402
from PIL import Image  # noqa: E402
from read_trace import exposed_share, read_trace  # noqa: E402
from report import main  # noqa: E402
from reporting.charts import hidden_and_exposed  # noqa: E402
from reporting.image_files import Unreadable, open_image  # noqa: E402
from reporting.runs import PHASES, read_run  # noqa: E402


def report(*arguments):
    """The script, in this process: its imports take longer than its work."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(WORK), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


class Report(unittest.TestCase):
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

    def test_psnr_is_compared_in_the_region_that_was_scored(self):
        # Right inside, wrong outside of the scored region.
        folder = make_run(WORK / "a", truth=self.truth)
        image = np.full((3, 32, 48), 100, np.float32)
        image[:, :4] = image[:, :, 40:] = 0
        with h5py.File(folder / "reconstruction.h5", "a") as file:
            file["image"][...] = image
        figures = json.loads((folder / "summary.json").read_text())
        figures["psnr"] = 20 * np.log10(255 / 10)
        for region, told in (([[4, 32], [0, 40]], False), ([[0, 32], [0, 48]], True)):
            figures["scored_region"] = region
            (folder / "summary.json").write_text(json.dumps(figures))
            data, _, _ = self.page("a")
            missing = " ".join(data["pictures"]["a"]["missing"])
            self.assertEqual("The PSNR of these files" in missing, told, missing)

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

    def test_pictures_before_after_error(self):
        folder = make_run(WORK / "a", truth=self.truth)
        Image.fromarray(np.full((16, 24, 3), 90, np.uint8)).save(folder / "measurement.png")
        data, _, _ = self.page("a")
        shown = data["pictures"]["a"]
        self.assertEqual([f["title"] for f in shown["figures"]], ["before", "after", "truth", "error"])
        self.assertEqual((shown["figures"][0]["width"], shown["figures"][1]["width"]), (24, 48))
        self.assertEqual(shown["missing"], [], "10 of 255 are 28.13 dB, as the run says")
        self.assertEqual(
            shown["figures"][3]["ramp"]["ends"][1], "0.05 and more", "the next round number above 10 / 255"
        )
        data, _, _ = self.page("a", "--side", "20")
        self.assertEqual(
            [(f["height"], f["width"]) for f in data["pictures"]["a"]["figures"]],
            [(8, 12), (11, 16), (11, 16), (11, 16)],
        )
        self.assertIn("1/3 of its size", data["pictures"]["a"]["figures"][1]["caption"])

    def test_truths_of_every_kind_are_read_as_the_program_does(self):
        color = np.arange(6 * 5 * 3, dtype=np.uint8).reshape(6, 5, 3)
        planar = np.moveaxis(color, -1, 0).astype(np.float32)
        Image.fromarray(color).save(WORK / "c.png")
        Image.fromarray(np.dstack([color, np.full((6, 5), 9, np.uint8)])).save(WORK / "alpha.png")
        Image.fromarray(color[..., 0]).save(WORK / "gray.png")
        Image.fromarray(color[..., 0].astype(np.uint16) * 257 + 5).save(WORK / "gray16.png")
        deep = b"".join(b"\0" + row.astype(">u2").tobytes() for row in color.astype(np.uint16) * 257)
        chunk = (
            lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )
        (WORK / "color16.png").write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", 5, 6, 16, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(deep))
            + chunk(b"IEND", b"")
        )
        turned = Image.fromarray(color)
        exif = turned.getexif()
        exif[0x0112] = 6  # stored on its side
        turned.save(WORK / "turned.png", exif=exif)
        tifffile.imwrite(WORK / "c.tif", color.astype(np.uint16) * 257)
        np.save(WORK / "c.npy", planar)
        with h5py.File(WORK / "c.h5", "w") as file:
            file["image"], file["deep"] = planar, planar[:, None]
        cases = {
            "c.png": planar,
            "alpha.png": planar,
            "gray.png": planar[:1],
            "gray16.png": planar[:1] * 257 + 5,
            "color16.png": planar * 257,
            "c.tif": planar * 257,
            "c.npy": planar,
            "c.h5": planar,
            "c.h5:/deep": planar,
            "turned.png": np.rot90(planar, -1, (1, 2)),
        }
        for name, wanted in cases.items():
            image = open_image(WORK / name)
            self.assertEqual(image.shape, wanted.shape, name)
            np.testing.assert_array_equal(image.rows(0, image.shape[1]), wanted, name)
            np.testing.assert_array_equal(image.rows(2, 4), wanted[:, 2:4], name)
        volume = np.arange(4 * 6 * 5, dtype=np.float32).reshape(1, 4, 6, 5)
        with h5py.File(WORK / "v.h5", "w") as file:
            file["image"] = volume
        slices = open_image(WORK / "v.h5")  # rows x columns, rows x depth, depth x columns, in the middle
        self.assertEqual((slices.shape, slices.volume), ((1, 11, 10), (4, 6, 5)))
        page = slices.rows(0, 11)
        np.testing.assert_array_equal(page[:, :6, :5], volume[:, 2])
        np.testing.assert_array_equal(page[:, :6, 6:], volume[:, :, :, 2].transpose(0, 2, 1))
        np.testing.assert_array_equal(page[:, 7:, :5], volume[:, :, 3])
        (WORK / "no.png").write_bytes(b"nothing")
        for name, words in (
            ("no.png", "cannot be read"),
            ("gone.png", "not there"),
            ("c.h5:/x", "cannot be read"),
        ):
            with self.assertRaisesRegex(Unreadable, words):
                open_image(WORK / name)

    def test_large_pictures_are_left_out_unless_asked_for(self):
        make_run(WORK / "a", truth=self.truth)
        make_run(WORK / "b", truth=self.truth)
        with unittest.mock.patch("reporting.pictures.Album.AFFORDED", 32 * 48 * 3):
            data, _, _ = self.page("a", "b")
            everything, _, _ = self.page("a", "b", "--pictures", "all")
        self.assertEqual([len(data["pictures"][name]["figures"]) for name in "ab"], [3, 0])
        self.assertIn("--pictures all shows it", data["pictures"]["b"]["missing"][0])
        self.assertEqual([len(everything["pictures"][name]["figures"]) for name in "ab"], [3, 3])
        self.assertEqual(len(everything["sources"]), 3, "equal pictures are stored once")
        none, _, _ = self.page("a", "--pictures", "none")
        self.assertEqual((none["pictures"]["a"]["figures"], none["sources"]), ([], []))

    def test_pictures_say_what_is_missing(self):
        make_run(WORK / "gone", truth=WORK / "removed.png")
        Image.fromarray(np.full((32, 48, 3), 190, np.uint8)).save(WORK / "other.png")
        make_run(WORK / "changed", truth=WORK / "other.png")
        Image.fromarray(np.full((9, 9, 3), 190, np.uint8)).save(WORK / "size.png")
        make_run(WORK / "size", truth=WORK / "size.png")
        make_run(WORK / "none", psnr=False)
        make_run(WORK / "empty", pictures=False)
        data, _, _ = self.page("gone", "changed", "size", "none", "empty")
        said = {run: " ".join(p["missing"]) for run, p in data["pictures"].items()}
        self.assertIn("removed.png is not there", said["gone"])
        self.assertIn("The PSNR of these files is 9.0", said["changed"])
        self.assertIn("the truth is 9 x 9, the result 32 x 48", said["size"])
        self.assertIn("the job has no truth", said["none"])
        self.assertIn("There is no result", said["empty"])
        self.assertIn("No picture of the measurement", said["empty"])

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
        self.assertEqual(curve["data"][0]["x"], list(range(8)), "each iteration once")
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

    def test_a_scene_of_another_size_is_not_drawn(self):
        from reporting.pictures import Scenes, Unreadable

        scenes = Scenes("/bin/false")
        with self.assertRaisesRegex(Unreadable, "a scene of 99999 x 99999, the result 32 x 48"):
            scenes.image({"problem.truth.scene.size": [99999, 99999]}, (3, 32, 48))
        scenes.folder.cleanup()

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

    def test_the_page_needs_nothing_else(self):
        make_run(WORK / "a", truth=self.truth)
        _, _, html = self.page("a")
        self.assertIn("default-src 'none'", html)
        own = html.replace((SOURCE / "jobs/reporting/page.js").read_text(), "")
        self.assertEqual(own.count("plotly.js v"), 1, "plotly is embedded once")
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
