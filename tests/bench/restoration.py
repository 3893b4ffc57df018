#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of restoration.sh: cells, choice of the other methods' parameters, runs, results.csv; the page is
made by restoration_page.py. Noise levels are in gray levels of 255, as papers write them."""

import argparse
import csv
import dataclasses
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import skimage
import skimage.color
import skimage.io

import restoration_methods as methods

# Photographs of the scikit-image wheel: file, first row and column of the area. None of them trained the networks.
COLOR = {"astronaut": (40, 130), "coffee": (130, 180), "chelsea": (50, 110)}
GRAY = {"camera": (60, 150), "coins": (20, 60), "brick": (0, 0)}
TUNING = {"rocket": (60, 240), "motorcycle_left": (180, 150)}  # where the parameters of the other methods are chosen
AREA = 192
LEVELS = 255


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is measured. noise in gray levels of 255; bits 0: neither rounded nor clipped."""

    name: str
    kernel: str = ""
    noise: float = 2.55
    factor: int = 1
    keep: float = 1.0
    bits: int = 8
    circular: bool = False

    @property
    def label(self):
        return f"{self.name}, noise {self.noise:g}"


CELLS = [
    Cell("blur Gaussian 1.6", "gaussian 1.6"),
    Cell("blur Gaussian 1.6", "gaussian 1.6", noise=7.65),
    Cell("blur Gaussian 2.0", "gaussian 2.0"),
    Cell("blur drawn motion", "drawn motion"),
    Cell("blur drawn motion", "drawn motion", noise=7.65),
    Cell("blur drawn motion", "drawn motion", noise=12.75),
    Cell("50 % missing", keep=0.5),
    Cell("80 % missing", keep=0.2),
    Cell("x2 coarser", "gaussian 1.6", factor=2),
    Cell("x3 coarser", "gaussian 1.6", factor=3),
    Cell("x4 coarser", "gaussian 1.6", factor=4),
]
DATA_CELLS = [
    Cell("blur Levin 1", "motion_0"),
    Cell("blur Levin 1", "motion_0", noise=7.65),
    Cell("blur Levin 4", "motion_3"),
    Cell("blur Levin 4", "motion_3", noise=7.65),
]
QUICK_CELLS = [CELLS[0], CELLS[6]]

# tessera's rows: the lines of a job's `solver` section.
SOLVERS = {
    "PnP hqs": "{name: hqs, iterations: 32}",
    "PnP admm": "{name: admm, iterations: 16}",
}
TABLE = ["PnP hqs", "PnP admm"]  # with the shipped networks; other weights in the first of them
OTHERS = ["measurement", "Wiener", "Richardson-Lucy", "TV", "BM3D"]
GRIDS = {
    "Wiener": 10 ** np.arange(-5, 0.1, 0.25),
    "Richardson-Lucy": np.array([2, 3, 5, 7, 10, 15, 20, 30, 45, 70, 100]),
    "TV": 10 ** np.arange(-5, -1.4, 0.25),
}


def wheel_picture(name, size, gray=False, **elsewhere):
    """(C, H, W) in 0 to 1, a square area of a photograph of the scikit-image wheel; at the row and column given."""
    row, column = elsewhere.values() or (COLOR | GRAY | TUNING)[name]
    picture = skimage.io.imread(next(Path(skimage.__file__).parent.glob(f"data/{name}.[pj][np]g")))
    picture = picture[row : row + size, column : column + size]
    return to_planes(picture, gray)


def to_planes(picture, gray=False):
    if picture.ndim == 2:
        return picture[None] / LEVELS
    picture = picture[..., :3]
    return skimage.color.rgb2gray(picture)[None] if gray else np.moveaxis(picture, -1, 0) / LEVELS


class Bench:
    """Options that the runs need, in every process."""

    def __init__(self, o):
        self.work, self.build, self.data = o.work, o.build, o.data
        self.weights = {"shipped": (None, "drunet", "any")}
        for text in o.weights:
            name, _, rest = text.partition("=")
            file, network, kind = rest.rsplit(":", 2)
            self.weights[name] = (str(Path(file).resolve()), network, kind)

    def kernel(self, name):
        if not name:
            return methods.DELTA
        if name == "drawn motion":
            return methods.hand_shake()
        if name.startswith("gaussian "):
            return methods.gaussian(float(name.split()[1]))
        return np.load(self.data / "kernels" / f"{name}.npy")

    def measure(self, cell, area, seed):
        mask = None
        if cell.keep < 1:
            mask = np.random.default_rng([seed, 1]).random(area.shape[1:]) < cell.keep
        camera = methods.Camera(cell.noise / LEVELS, cell.bits)
        return methods.Measurement(area, self.kernel(cell.kernel), camera, seed, cell.factor, mask, cell.circular)

    def job(self, m, folder, weights, solver, extra="", image=True):
        """Writes a job with its files; the program gets samples, kernel, geometry and noise, nothing else."""
        folder.mkdir(parents=True, exist_ok=True)
        if m.camera.bits == 8:
            picture = np.rint(np.moveaxis(m.y, 0, -1) * LEVELS).astype(np.uint8)
            skimage.io.imsave(folder / "y.png", picture.squeeze(), check_contrast=False)
            measurement, sigma = "y.png", m.camera.sigma
        else:
            np.save(folder / "y.npy", m.y.astype(np.float32))
            measurement, sigma = "y.npy", m.camera.sigma
        if m.mask is not None:
            np.save(folder / "mask.npy", m.mask)
            operator = "{type: mask, file: mask.npy}"
        else:
            np.save(folder / "kernel.npy", m.kernel)
            kind = f"downsampling, factor: {m.factor}" if m.factor > 1 else "blur"
            boundary = "circular" if m.circular else "valid"
            operator = f"{{type: {kind}, kernel: {{file: kernel.npy}}, boundary: {boundary}}}"
        crop = "" if m.circular or m.mask is not None else ", crop: false"
        file, network, _ = self.weights[weights]
        denoiser = f"{{network: {network}{f', weights: {file}' if file else ''}}}"
        (folder / "job.yaml").write_text(
            f"schema: 1\nproblem:\n  measurements: {measurement}\n"
            f"{f'  image: {{size: [{m.area[0]}, {m.area[1]}]}}' if image else ''}\n"
            f"  operator: {operator}\n  noise: {{gaussian: {sigma:.6g}}}\n{extra}"
            f"denoiser: {denoiser}\nsolver: {solver}\n"
            f"output: {{folder: out, preview: none, checkpoint: {{keep: 0}}{crop}}}\n")

    def tessera(self, folder):
        """Runs folder/job.yaml; (C, H, W) in 0 to 1. RuntimeError with the program's message."""
        done = subprocess.run([self.build / "bin" / "tessera", "run", "job.yaml", "--force"], cwd=folder, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, errors="replace")
        (folder / "log.txt").write_text(done.stdout + done.stderr)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        with h5py.File(folder / "out" / "reconstruction.h5") as file:
            image = file["image"][:]
        return image / (LEVELS if (folder / "y.png").exists() else 1)

    def restore(self, method, m, parameters, folder):
        """The image of the area, or None where the method does not apply."""
        if method == "measurement":
            return m.shown()
        if method == "Wiener":
            return methods.wiener(m, parameters[method])
        if method == "Richardson-Lucy":
            return methods.richardson_lucy(m, int(parameters.get(method, 0)))
        if method == "TV":
            return methods.total_variation(m, parameters[method], parameters.get("iterations", 1000))
        if method == "BM3D":
            return methods.bm3d(m, parameters["Wiener"])
        solver, _, weights = method.partition(", ")
        self.job(m, folder, weights or "shipped", SOLVERS[solver])
        return self.tessera(folder)


bench = None  # of this process


def set_up(o):
    global bench
    bench = Bench(o)


def scored(m, image, truth):
    cut = np.s_[:, m.rim : truth.shape[1] - m.rim, m.rim : truth.shape[2] - m.rim]
    return image[cut], truth[cut]


def tune(cell):
    """The parameters that serve the tuning pictures best, in mean PSNR; in gray, on one measurement of each. Every second
    value of a grid until it gets worse, then the neighbors of the best."""
    measured = []
    for seed, name in enumerate(TUNING):
        truth = wheel_picture(name, 128, gray=True)
        measured.append((bench.measure(cell, truth, 1000 + seed), truth))
    best = {}
    for method, grid in GRIDS.items():
        found = {}

        def worth(i):
            if i not in found and 0 <= i < len(grid):
                images = [bench.restore(method, m, {method: grid[i], "iterations": 300}, None) for m, _ in measured]
                if images[0] is not None:
                    found[i] = sum(methods.psnr(*scored(m, x, t)) for x, (m, t) in zip(images, measured))
            return found.get(i, -np.inf)

        for i in range(0, len(grid), 2):
            if worth(i) < worth(i - 2) and i > 2:
                break
        if found:
            top = max(found, key=found.get)
            best[method] = float(grid[max((top - 1, top, top + 1), key=worth)])
    return cell, best


def area_of(picture):
    """(C, H, W) of 'camera', or of a file."""
    return wheel_picture(picture, AREA) if picture in COLOR | GRAY else to_planes(skimage.io.imread(picture))


def one(task):
    """Runs one method on one measurement; a row of results.csv."""
    table, kind, cell, picture, seed, method, parameters = task
    row = dict(table=table, kind=kind, cell=cell.label, bits=cell.bits, picture=Path(picture).stem, seed=seed,
               method=method, psnr=np.nan, psnr8=np.nan, ssim=np.nan, seconds=0.0, note="")
    truth = area_of(picture)
    m = bench.measure(cell, truth, seed)
    slug = "-".join([table, cell.label, row["picture"], str(seed), method]).replace(" ", "_").replace(",", "")
    folder = bench.work / "runs" / slug.replace("%", "")
    begin = time.perf_counter()
    try:
        image = bench.restore(method, m, parameters, folder)
    except RuntimeError as error:
        row["note"] = str(error)
        return row
    row["seconds"] = round(time.perf_counter() - begin, 2)
    shutil.rmtree(folder / "out", ignore_errors=True)
    if image is None:
        row["note"] = "does not apply"
        return row
    x, t = scored(m, image, truth)
    row |= {"psnr": methods.psnr(x, t), "psnr8": methods.psnr(x, t, rounded=True), "ssim": methods.ssim(x, t)}
    if seed == 0:
        np.savez_compressed(bench.work / "images" / f"{slug.replace('%', '')}.npz", image=x.astype(np.float16),
                            truth=t.astype(np.float16))
        row["note"] = f"{slug.replace('%', '')}.npz"
    return row


class Kept:
    """Rows that were made before, by what they depend on: with --resume only what is missing is run."""

    def __init__(self, path, program, resume):
        self.path, self.rows = path, {}
        self.program = hashlib.sha256(program.read_bytes()).hexdigest()
        if not resume:
            path.unlink(missing_ok=True)
        if path.exists():
            self.rows = dict(json.loads(line) for line in path.read_text().splitlines())

    def key(self, what, task):
        if what == "tune":
            own = str(list(GRIDS))
        else:
            own = "" if any(name in task for name in OTHERS) else self.program + str(SOLVERS)
        text = json.dumps([what, repr(task), own])
        return hashlib.sha256(text.encode()).hexdigest()

    def run(self, pool, what, tasks, report):
        """Results in the order of the tasks; `report(done, all, result)` after each."""
        keys = [self.key(what.__name__, task) for task in tasks]
        missing = [i for i, key in enumerate(keys) if key not in self.rows]
        with open(self.path, "a") as file:
            for count, (i, result) in enumerate(pool.imap_unordered(indexed, [(what, i, tasks[i]) for i in missing])):
                result = to_json(result)
                self.rows[keys[i]] = result
                print(json.dumps([keys[i], result]), file=file, flush=True)
                report(count + 1, len(missing), result)
        return [self.rows[key] for key in keys]


def indexed(task):
    what, i, argument = task
    return i, what(argument)


def to_json(result):
    return json.loads(json.dumps(result, default=lambda v: dataclasses.asdict(v) if dataclasses.is_dataclass(v) else float(v)))


def networks_for(kind):
    """Names of weights that fit gray or color pictures."""
    return [name for name, (_, _, fits) in bench.weights.items() if fits in ("any", kind)]


def pnp_methods(kind):
    return TABLE + [f"{TABLE[0]}, {name}" for name in networks_for(kind) if name != "shipped"]


def write_csv(path, rows, parameters):
    """Of methods with a parameter, `note` says what was chosen."""
    chosen = {(cell.label, method): f"{value:.3g}" for cell, best in parameters.items() for method, value in best.items()}

    def tidy(row, key, value):
        if isinstance(value, float):
            return round(value, 4)
        if key == "note" and (not value or value.endswith(".npz")):  # the image's file is of no use to others
            return chosen.get((row["cell"], row["method"]), "")
        return value

    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: tidy(row, k, v) for k, v in row.items()} for row in rows)


def progress(done, total, result):
    if isinstance(result, dict) and "written" in result:
        print(f"{done}/{total}  {result['cell']}  {result['picture']}  {result['method']}  {result['iterations']} iterations  "
              f"best {result['best']:.2f}  written {result['written']:.2f}  residual {result['residual']:.1e}", flush=True)
    elif isinstance(result, dict) and "method" in result:
        print(f"{done}/{total}  {result['table']}  {result['cell']}  {result['picture']}  seed {result['seed']}  "
              f"{result['method']}  {result['psnr']:.2f} dB  {result['seconds']} s  "
              f"{'' if result['note'].endswith('.npz') else result['note']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weights", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pictures", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--no-curves", action="store_true")
    parser.add_argument("--no-crimes", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--page", type=Path)
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.work = (o.work or o.build / "bench" / "restoration").resolve()
    partial = o.quick or o.only or o.without or o.pictures < 3
    o.page = (o.page or (o.work if partial else Path("docs"))).resolve()
    if not o.resume:
        for name in ("runs", "images"):
            shutil.rmtree(o.work / name, ignore_errors=True)
    (o.work / "images").mkdir(parents=True, exist_ok=True)
    set_up(o)
    begin = time.perf_counter()
    if o.quick:
        global AREA
        AREA = 128

    cells = QUICK_CELLS if o.quick else CELLS + (DATA_CELLS if o.data else [])
    cells = [cell for cell in cells if o.only in cell.label]
    pictures = {"gray": list(GRAY)[: o.pictures], "color": list(COLOR)[: o.pictures]}
    if o.quick:
        pictures = {"gray": ["camera"], "color": ["astronaut"]}
    others = [name for name in OTHERS if name not in o.without]
    for name in o.without:
        GRIDS.pop(name, None)

    kept = Kept(o.work / "kept.jsonl", o.build / "bin" / "tessera", o.resume)
    with multiprocessing.get_context("fork").Pool(o.jobs) as pool:
        tuned = kept.run(pool, tune, cells, lambda done, total, _: print(f"parameters {done}/{total}", flush=True))
        parameters = {cell: best for cell, (_, best) in zip(cells, tuned)}
        tasks = [("photographs", kind, cell, picture, seed, method, parameters[cell])
                 for cell in cells for kind in pictures for picture in pictures[kind]
                 for seed in range(1 if o.quick else o.seeds) for method in others + pnp_methods(kind) if method not in o.without]
        import restoration_page as page

        if o.data and not o.quick and not o.only:
            tasks += page.paper_tasks(o.data)
        rows = kept.run(pool, one, tasks, progress)
        crimes = [] if o.no_crimes or o.quick else kept.run(pool, page.crime, page.crime_tasks(), progress)
        curves, stability = [], []
        if not o.no_curves and not o.quick:
            import restoration_curves as long_runs

            curves = kept.run(pool, long_runs.long_run, long_runs.curve_tasks(), progress)
            stability = kept.run(pool, long_runs.long_run, long_runs.stability_tasks(), progress)
    write_csv(o.work / "results.csv", rows + crimes, parameters)
    page.write(o.page, rows, crimes, curves, stability, parameters, o.work)
    print(f"{len(rows) + len(crimes) + len(curves) + len(stability)} results in {time.perf_counter() - begin:.0f} s: "
          f"{o.work / 'results.csv'}, {o.page / 'results.md'}")
    failed = [row for row in rows + crimes if np.isnan(row["psnr"]) and row["note"] != "does not apply"]
    if failed:
        sys.exit(f"{len(failed)} runs failed, the first: {failed[0]}")


if __name__ == "__main__":
    sys.modules["restoration"] = sys.modules["__main__"]  # the page's module imports this one
    main()
