# SPDX-License-Identifier: BSD-3-Clause
"""What cleaning a scan brings: tomography_cleaning.py PROGRAM SOURCE [SIDE [WAY...]]. Prints the table of docs/tomography_measured.md.

The samples are no product of the program's own operator: each is a mean of line integrals through ellipses, in closed form, over 8
places of its column; the truth is the mean over 8 x 8 places of a pixel. Poisson counts of 20,000 photons over 180 views; gains of columns that the
flats do not tell, a beam that hardens, phases.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.fft import dct, idct

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
    side = int(sys.argv[3]) if len(sys.argv) > 3 else 128
    columns, views = int(side * 1.45) + 1, 180
    work = Path(tempfile.mkdtemp())
    try:
        truth = picture(side)
        np.save(work / "truth.npy", truth.astype(np.float32)[None])
        exact = integrals(side, views, columns)
        exact *= DEEPEST / exact.max()
        unit = DEEPEST / integrals(side, views, columns).max()
        np.save(work / "truth.npy", (truth * unit).astype(np.float32)[None])
        random = np.random.default_rng(1)

        def measured(name, share):
            take = lambda mean: random.poisson(mean).astype(np.uint16)
            np.save(work / f"{name}.npy", take(PHOTONS * share.clip(0)))
            np.save(work / "flat.npy", take(np.full((50, columns), float(PHOTONS))))
            np.save(work / "dark.npy", np.zeros((2, columns), np.uint16))

        def psnr(name, keys, way):
            (work / "job.yaml").write_text(f"""\
problem:
  measurements: {name}.npy
  flat: flat.npy
  dark: dark.npy
  truth: truth.npy
  operator: {{type: tomography, values: transmission, views: {{last: 180}}, detector: {{axis: 0}}{keys}}}
device: cpu
{way}
output: {{folder: out}}
""")
            done = subprocess.run([str(source / "jobs/launch.sh"), "-n", "1", program, "run", "job.yaml", "--force"], cwd=work, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            print("\n".join(re.findall(r".*rings.*|.*columns of the detector.*", done.stdout)), file=sys.stderr)
            return json.loads((work / "out/summary.json").read_text())["psnr"]

        ways = {"FBP, ram-lak": "solver: {name: fbp, window: ram-lak}", "total variation": "denoiser: {network: tv}\nsolver: {name: admm, iterations: 60, bounds: nonnegative}",
                "network": "solver: {bounds: nonnegative}"}
        ways = {name: way for name, way in ways.items() if not sys.argv[4:] or name in sys.argv[4:]}
        print("| | " + " | ".join(ways) + " |\n|---" + "|---" * len(ways) + "|")
        row = lambda what, name, keys: print(f"| {what} | " + " | ".join(f"{psnr(name, keys, way):.2f}" for way in ways.values()) + " |", flush=True)
        for percent in (0, 1, 3):
            measured("gains", np.exp(percent / 100 * random.normal(size=columns) - exact))
            for keys in (", rings: keep", ""):
                row(f"gains off by {percent} %{keys.replace(', ', ', `') + '`' if keys else ''}", "gains", keys)
        for strength, keys in ((0.06, ""), (0.06, ", hardening: [1, 0.05, 0.016]")):
            measured("hard", np.exp(strength * exact ** 2 - exact))
            row(f"a beam that hardens, {100 * strength * DEEPEST:.0f} % at most{', `' + keys[2:] + '`' if keys else ''}", "hard", keys)
        # pi lambda z (delta / beta) / pixel^2 of the keys below, in columns^2: fringes of the share of the beam.
        phase = np.pi * 1.239842e-3 / 20 * 1000 * 40 / 1.0 ** 2
        frequency = np.arange(columns) / (2 * columns)
        weak = exact / 3
        np.save(work / "truth.npy", (truth * unit / 3).astype(np.float32)[None])
        measured("phase", idct(dct(np.exp(-weak)) * (1 + phase * frequency ** 2)))
        measured("none", np.exp(-weak))
        for what, name, keys in (("a third of the density, no phases", "none", ""), ("with phases, as they are", "phase", ""),
                                 ("with phases, `paganin`", "phase", ", paganin: {delta_beta: 40, energy: 20, distance: 1, pixel: 1}")):
            row(what, name, keys)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
