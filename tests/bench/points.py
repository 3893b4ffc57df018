#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Star fields and bright fluorescence, drawn: the shortest job, total variation, and richardson_lucy ended by chi2.

  .venv/bin/python tests/bench/points.py PROGRAM [--half rule|check] [--only s01,t03] [--jobs N]     (minutes of a core)

Counts in a TIFF of 16 bits, drawn by numpy. PSNR in dB, peak: the brightest of what was drawn, without a rim of 8 pixels.
Cases `s` gave the rule; its limit of 5 % was set with both halves in sight."""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
import scipy.ndimage
import scipy.signal
import skimage.io

RIM, SIDE = 8, 144
# what, sigma of the kernel, counts of the brightest pixel of what was drawn, background of them, read noise in counts
CASES = {
    "s": [("stars", 1.0, 60000, 300, 0), ("stars", 1.3, 30000, 50, 0), ("stars", 1.6, 60000, 100, 0), ("stars", 1.2, 40000, 0, 0),
          ("stars", 2.0, 50000, 100, 3), ("stars", 2.0, 3000, 20, 0), ("cells", 1.0, 1000, 20, 0), ("cells", 1.6, 1000, 20, 0),
          ("cells", 2.0, 4000, 100, 0), ("cells", 1.3, 300, 5, 0)],
    "t": [("stars", 1.1, 50000, 200, 0), ("stars", 1.8, 40000, 30, 0), ("stars", 1.5, 30000, 20, 0), ("stars", 2.2, 60000, 20, 0),
          ("stars", 1.4, 60000, 100, 5), ("stars", 1.6, 5000, 20, 0), ("cells", 1.2, 1000, 10, 0), ("cells", 2.0, 1000, 20, 0),
          ("cells", 1.5, 3000, 60, 0), ("cells", 1.8, 2000, 200, 3)],
}
COUNTS = "problem.likelihood.type=poisson"
STATED = ["problem.noise.poisson=1", "problem.noise.unit=file"]
RL = ["solver.name=richardson_lucy", COUNTS, *STATED]
SETTINGS = {"default": [], "default, gain stated": STATED, "network": ["denoiser.network=drunet"], "tv": ["denoiser.network=tv"],
            "rl to chi2 0.9": [*RL, "solver.iterations=1000", "solver.stop.chi2=0.9"],
            **{f"rl {n}": [*RL, f"solver.iterations={n}"] for n in (30, 100, 300)}}


def drawn(what, seed, side):
    r = np.random.default_rng(seed)
    x = np.zeros((side, side))
    if what == "stars":
        for flux in 10 ** r.uniform(-3, 0, side // 3):
            x[tuple(r.integers(4, side - 4, 2))] += flux
        x = scipy.ndimage.gaussian_filter(x, 0.7)
    else:
        for _ in range(side // 10):
            at, angle = r.uniform(0, side, 2), r.uniform(0, 6.3)
            for _ in range(side):
                at, angle = at + [np.sin(angle), np.cos(angle)], angle + r.normal(0, 0.06)
                y0, x0 = at.astype(int)
                if 0 <= y0 < side and 0 <= x0 < side:
                    x[y0, x0] = max(x[y0, x0], 0.35)
        for _ in range(side // 8):
            x[tuple(r.integers(0, side, 2))] += r.uniform(1, 3)
        x = scipy.ndimage.gaussian_filter(x, 0.9)
    return x / x.max()


def run(task):
    program, work, name, setting = task
    what, sigma, peak, background, read = CASES[name[0]][int(name[1:]) - 1]
    m = int(np.ceil(4 * sigma))
    i = np.arange(-m, m + 1)
    k = np.exp(-(i[:, None] ** 2 + i**2) / 2 / sigma**2)
    k /= k.sum()
    truth = peak * drawn(what, sum(map(ord, name)), SIDE + 2 * m) + background
    r = np.random.default_rng(int(name[1:]) + 100)
    y = r.poisson(np.maximum(scipy.signal.convolve(truth, k, "valid"), 0)) + read * r.standard_normal((SIDE, SIDE))
    folder = work / f"{name}-{setting}".replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    offset = 100 if read else 0  # of a camera, so that nothing is cut off at 0
    skimage.io.imsave(folder / "y.tif", np.rint(y + offset).clip(0, 65535).astype(np.uint16), check_contrast=False)
    np.save(folder / "k.npy", k)
    scale = f"  scale: {{offset: {offset}}}\n" if offset else ""
    (folder / "job.yaml").write_text("problem:\n  measurements: y.tif\n  operator: {type: blur, kernel: {file: k.npy}}\n"
                                     f"{scale}output: {{folder: out, preview: none}}\n")
    words = [w for s in SETTINGS[setting] for w in ("--set", s)]
    done = subprocess.run([program, "run", "job.yaml", "--force", *words], cwd=folder, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive"))
    (folder / "log").write_text(done.stdout + done.stderr)
    if done.returncode:
        return name, setting, float("nan"), done.stderr.strip().splitlines()[-1:]
    with h5py.File(folder / "out/reconstruction.h5") as file:
        x = file["image"][0] - (offset if file["image"].attrs.get("offset", 0) else 0)
    cut = [(a - b) // 2 for a, b in zip(truth.shape, x.shape)]
    t = truth[cut[0] : cut[0] + x.shape[0], cut[1] : cut[1] + x.shape[1]]
    inner = np.s_[RIM:-RIM, RIM:-RIM]
    rms = np.sqrt(np.mean((x[inner] - t[inner]) ** 2))
    said = [line for line in done.stdout.splitlines() if "noise:" in line or "denoiser tv:" in line or "richardson" in line]
    return name, setting, 20 * np.log10(truth.max() / rms), said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--half", choices=["rule", "check", "both"], default="both")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=Path)
    o = parser.parse_args()
    names = [f"{half}{k + 1:02}" for half, rows in CASES.items() for k in range(len(rows))
             if o.half == "both" or half == {"rule": "s", "check": "t"}[o.half]]
    names = [n for n in names if not o.only or n in o.only.split(",")]
    with tempfile.TemporaryDirectory() as temporary, multiprocessing.get_context("fork").Pool(o.jobs) as pool:
        work = (o.work or Path(temporary)).resolve()
        print("| case | what | " + " | ".join(SETTINGS) + " |\n|---|---|" + "---|" * len(SETTINGS))
        rows = pool.imap(run, [(o.program.resolve(), work, n, s) for n in names for s in SETTINGS])
        for name in names:
            what, sigma, peak, background, read = CASES[name[0]][int(name[1:]) - 1]
            found = [next(rows)[2] for _ in SETTINGS]
            print(f"| {name} | {what}, kernel {sigma:g}, {peak} counts on {background}{f', read {read}' if read else ''} | "
                  + " | ".join(f"{v:.2f}" for v in found) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
