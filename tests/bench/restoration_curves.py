# SPDX-License-Identifier: BSD-3-Clause
"""For restoration.py: what 1,000 iterations do, on one photograph as curves and on ten of each kind as a table."""

import json
import sys
from pathlib import Path

import numpy as np
import skimage
import skimage.io

import restoration as R

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "jobs"))

ITERATIONS = 1000
SOLVERS = ("pgd", "fista", "hqs", "admm", "red")
COLUMNS = ("residual", "chi2", "psnr")
CURVES = "astronaut", 128
# Of the scikit-image wheel; the middle of each.
PICTURES = {
    "color": ("astronaut.png", "chelsea.png", "coffee.png", "color.png", "hubble_deep_field.jpg", "ihc.png",
              "motorcycle_left.png", "phantom.png", "retina.jpg", "rocket.jpg"),
    "gray": ("brick.png", "camera.png", "cell.png", "clock_motion.png", "coins.png", "grass.png", "gravel.png",
             "moon.png", "page.png", "text.png"),
}
SIDE = 96
LOSS = 0.2  # dB between the best iteration and what is written that count as kept
SETTLED = 1e-5  # a residual at float32's rounding


def cells():
    return [cell for cell in R.CELLS if cell.noise == 2.55 and cell.name in ("blur Gaussian 1.6", "50 % missing", "x2 coarser")]


def curve_tasks():
    return [("curve", solver, "color", CURVES[0], R.CELLS[0]) for solver in SOLVERS]


def stability_tasks():
    return [("stability", solver, kind, picture, cell) for cell in cells() for kind in PICTURES
            for picture in PICTURES[kind] for solver in SOLVERS]


def middle(file):
    picture = skimage.io.imread(Path(skimage.__file__).parent / "data" / file)
    row, column = ((n - SIDE) // 2 for n in picture.shape[:2])
    return R.to_planes(picture[row : row + SIDE, column : column + SIDE])


def long_run(task):
    """A run of 1,000 iterations with automatic settings: best, last and written PSNR, and the last numbers; the curves
    themselves for the table "curve"."""
    from read_trace import read_trace

    table, solver, kind, picture, cell = task
    truth = R.wheel_picture(*CURVES) if table == "curve" else middle(picture)
    folder = R.bench.work / "runs" / f"{table}-{solver}-{Path(picture).stem}-{cell.name.replace(' ', '_').replace('%', '')}"
    m = R.bench.measure(cell, truth, 0)
    folder.mkdir(parents=True, exist_ok=True)
    skimage.io.imsave(folder / "truth.png", np.rint(np.moveaxis(truth, 0, -1) * R.LEVELS).astype(np.uint8).squeeze(),
                      check_contrast=False)
    R.bench.job(m, folder, "shipped", f"{{name: {solver}, iterations: {ITERATIONS}}}", "  truth: truth.png\n", image=False)
    row = dict(table=table, method=solver, kind=kind, picture=picture, cell=cell.label, note="")
    try:
        R.bench.tessera(folder)
    except RuntimeError as error:
        row["note"] = str(error)
    summary = json.loads((folder / "out" / "summary.json").read_text())
    trace, _ = read_trace(folder / "out")
    curves = {column: [float(v) for v in trace[column]] for column in COLUMNS}
    psnr = np.array(curves["psnr"])
    row |= {"iterations": len(psnr), "best": float(np.nanmax(psnr)), "best_at": int(np.nanargmax(psnr)) + 1,
            "last": float(psnr[-1]), "written": summary["psnr"], "written_at": summary["written_iteration"],
            "residual": curves["residual"][-1], "chi2": curves["chi2"][-1], "status": summary["status"]}
    if table == "curve":
        row["curves"] = curves
    R.shutil.rmtree(folder / "out", ignore_errors=True)
    return row


def figure_of_curves(path, rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
    for row in rows:
        for axis, column in zip(axes, COLUMNS):
            values = row["curves"][column]
            axis.plot(np.arange(1, len(values) + 1), values, label=row["method"], linewidth=1.2)
    for axis, (title, scale) in zip(axes, (("residual |x+ - x| / |x|", "log"), ("chi2 per sample", "log"), ("PSNR, dB", "linear"))):
        axis.set(title=title, xscale="log", yscale=scale, xlabel="iteration")
        axis.grid(alpha=0.3)
    best = max(row["best"] for row in rows)
    axes[2].set_ylim(best - 8, best + 0.5)
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def write_curves(out, rows, table):
    print(f"""## A thousand iterations

Every solver with the shipped color network and its automatic settings, asked for {ITERATIONS:,} iterations: {CURVES[0]}, {CURVES[1]} x {CURVES[1]}, {R.CELLS[0].label}, 8 bits. PSNR on the region that the samples surround.

![residual, chi2 and PSNR over the iterations](img/results_curves.png)
""", file=out)
    table(out, ["solver", "iterations", "best PSNR", "written", "last residual", "last chi2"],
          [[r["method"], str(r["iterations"]), f"{r['best']:.2f} at {r['best_at']}", f"{r['written']:.2f} of {r['written_at']}",
            f"{r['residual']:.1e}", f"{r['chi2']:.3f}"] for r in rows])


def write_stability(out, rows, table):
    names = {kind: ", ".join(Path(p).stem for p in PICTURES[kind]) for kind in PICTURES}
    lost = sorted({Path(r["picture"]).stem for r in rows if r["best"] - r["written"] > LOSS})
    settled = sum(r["residual"] < SETTLED for r in rows)
    print(f"""### On ten photographs of each kind

The same, on the middle {SIDE} x {SIDE} pixels of {names["color"]} (color) and {names["gray"]} (gray). Of {len(rows)} runs {settled} end with a residual below {SETTLED:g}, and {sum(r["status"] == "diverged" for r in rows) or "none"} as diverging. A cell has the mean PSNR of what is written, how many of ten are at most {LOSS} dB below their best iteration, and the largest loss. The losses are of {", ".join(lost)}, which an earlier and stronger level serves better.
""", file=out)
    lines = []
    for cell in cells():
        for kind in PICTURES:
            line = [f"{cell.name}, {kind}"]
            for solver in SOLVERS:
                mine = [r for r in rows if (r["cell"], r["kind"], r["method"]) == (cell.label, kind, solver)]
                loss = [r["best"] - r["written"] for r in mine]
                line.append(f"{np.mean([r['written'] for r in mine]):.2f}, {sum(v <= LOSS for v in loss)}, {max(loss):.2f}")
            lines.append(line)
    table(out, ["measurement", *SOLVERS], lines)
