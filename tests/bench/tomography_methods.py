# SPDX-License-Identifier: BSD-3-Clause
"""One slice by every way there is: tomography_methods.py PROGRAM SOURCE [SIDE]. Prints the table of docs/tomography_measured.md.

The samples are no product of the program's own operator: each is a mean of line integrals through ellipses, in closed
form, over 8 places of its column; of these Poisson counts of a beam of I0 photons, and their logarithm, weighted by the
counts. The truth is the mean of the ellipses over 8 x 8 places of a pixel.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PHOTONS, DEEPEST, FINER = 20000, 3.0, 8  # DEEPEST: the largest line integral, in nepers
# (density, x, y, half axes, degrees): of a side of 2.
ELLIPSES = ((1.0, 0, 0, 0.69, 0.9, 0), (-0.7, 0, 0.02, 0.63, 0.84, 0), (-0.15, 0.22, 0, 0.11, 0.31, -18), (-0.15, -0.22, 0, 0.16, 0.41, 18),
            (0.2, 0, -0.35, 0.21, 0.25, 0), (0.25, 0, -0.1, 0.046, 0.046, 0), (0.25, 0, 0.1, 0.023, 0.046, 0), (0.3, -0.08, 0.6, 0.046, 0.023, 0),
            (0.3, 0.06, 0.6, 0.023, 0.046, 0), (0.15, 0.3, 0.45, 0.05, 0.14, 40), (0.15, -0.33, 0.45, 0.12, 0.03, 10))


def picture(side):
    n = side * FINER
    at = (np.arange(n) + 0.5) / n * 2 - 1
    out = np.zeros((n, n))
    for density, cx, cy, a, b, degrees in ELLIPSES:
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        x, y = at[None, :] - cx, at[:, None] - cy
        out += density * (((x * c + y * s) / a) ** 2 + ((-x * s + y * c) / b) ** 2 < 1)
    return out.reshape(side, FINER, side, FINER).mean((1, 3))


def integrals(side, views, columns):
    """In pixels; the rays of angle t run along (sin t, cos t), columns along (cos t, -sin t)."""
    s = (np.arange(columns * FINER) + 0.5) / FINER - columns / 2
    out = np.zeros((views, columns * FINER))
    for k in range(views):
        t = np.pi * k / views
        u, w = np.array([np.cos(t), -np.sin(t)]), np.array([np.sin(t), np.cos(t)])
        for density, cx, cy, a, b, degrees in ELLIPSES:
            c, d = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
            turn = np.array([[c, d], [-d, c]]) / np.array([[a], [b]]) * 2 / side  # to the unit circle
            p = s[:, None] * u - np.array([cx, cy]) * side / 2
            q, r = p @ turn.T, turn @ w
            rest = (q @ r) ** 2 - (r @ r) * ((q * q).sum(1) - 1)
            out[k] += density * np.where(rest > 0, 2 * np.sqrt(np.maximum(rest, 0)) / (r @ r), 0)
    return out.reshape(views, columns, FINER).mean(2)


def main():
    program, source = sys.argv[1], Path(sys.argv[2])
    side = int(sys.argv[3]) if len(sys.argv) > 3 else 192
    ways = {"FBP, ram-lak": "solver: {name: fbp, window: ram-lak}", "FBP, hann": "solver: {name: fbp}",
            "SIRT, to the noise": "solver: {name: sirt, iterations: 400, bounds: nonnegative, stop: {chi2: 1}}",
            "total variation": "denoiser: {network: tv}\nsolver: {name: admm, iterations: 60, bounds: nonnegative}",
            "network (hqs)": "solver: {bounds: nonnegative}"}
    work = Path(tempfile.mkdtemp())
    try:
        truth = picture(side)
        np.save(work / "truth.npy", truth.astype(np.float32)[None])
        columns = int(side * 1.45) + 1
        print(f"{side} x {side}, {columns} columns, {PHOTONS} photons a sample\n\n| | views | PSNR, dB | iterations | CPU s |\n|---|---|---|---|---|")
        for views in (180, 45):
            exact = integrals(side, views, columns)
            unit = DEEPEST / exact.max()
            counts = np.random.default_rng(views).poisson(PHOTONS * np.exp(-unit * exact)).clip(1)
            y = -np.log(counts / PHOTONS) / unit
            np.save(work / "y.npy", y.astype(np.float32)[None])
            weights = counts * unit**2  # inverse variances
            np.save(work / "w.npy", weights.astype(np.float32)[None])
            for name, way in ways.items():
                (work / "job.yaml").write_text(f"""\
schema: 1
problem:
  measurements: y.npy
  weights: w.npy
  truth: truth.npy
  scale: {{factor: 1}}
  noise: {{gaussian: {weights.mean() ** -0.5:.6f}}}
  operator: {{type: tomography, views: {{count: {views}}}, detector: {{columns: {columns}}}}}
device: cpu
{way}
output: {{folder: out}}
""")
                done = subprocess.run(["/usr/bin/env", "bash", "-c", 'time "$@"', "_", str(source / "jobs/launch.sh"), "-n", "1", program,
                                       "run", "job.yaml", "--force"], cwd=work, text=True, capture_output=True)
                assert done.returncode == 0, done.stdout + done.stderr
                clock = {line.split()[0]: line.split()[1] for line in done.stderr.splitlines() if line.startswith(("user", "sys"))}
                cpu = sum(60 * float(t.split("m")[0]) + float(t.split("m")[1][:-1]) for t in clock.values())
                said = json.loads((work / "out/summary.json").read_text())
                print(f"| {name} | {views} | {said['psnr']:.2f} | {said['iterations']} | {cpu:.1f} |", flush=True)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
