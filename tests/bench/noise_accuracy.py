# SPDX-License-Identifier: BSD-3-Clause
"""How well the noise of measurements is estimated: noise_accuracy.py TESSERA writes the tables of docs/noise.md.

Four photographs (camera, astronaut, coffee, chelsea of scikit-image), blurred and with noise of a known level, each
written as a file that says nothing of its noise; the run's own line is compared with the truth.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from skimage import data, io

program, work = Path(sys.argv[1]).resolve(), Path(tempfile.mkdtemp())
PICTURES = ("camera", "astronaut", "coffee", "chelsea")
for name in PICTURES:
    io.imsave(work / f"{name}.png", getattr(data, name)(), check_contrast=False)


def call(*arguments):
    done = subprocess.run([program, *map(str, arguments)], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def estimate(name, operator, noise):
    """The line that a run on such a measurement prints about its noise: sigma and gain."""
    (work / "job.yaml").write_text(f"problem: {{truth: {name}.png, operator: {operator}, noise: {noise}}}\ndenoiser: {{network: none}}\n")
    call("simulate", "job.yaml", "sim.h5", "--force")
    with h5py.File(work / "sim.h5") as f, h5py.File(work / "y.h5", "w") as g:
        g["measurements/0"] = f["measurements/0"][...]
    boundary = ", boundary: circular" if "blur" in operator else ""
    (work / "real.yaml").write_text(f"problem: {{measurements: y.h5, operator: {operator[:-1]}{boundary}}}}}\ndenoiser: {{network: none}}\n"
                                    "solver: {name: pgd, iterations: 1}\noutput: {folder: out, preview: none}\n")
    line = re.search(r"note: noise: (.*), estimated", call("run", "real.yaml", "--force")).group(1)
    found = [re.search(key + r" (\S+?)(,|$| )", line) for key in ("gaussian", "gain")]
    return [float(f.group(1)) if f else 0.0 for f in found]


def operators():
    yield "none", "{type: identity}"
    for sigma in (1, 1.6, 3):
        yield f"blur {sigma}", f"{{type: blur, kernel: {{gaussian: {{sigma: {sigma}}}}}}}"
    for keep in (0.5, 0.2):
        yield f"mask, {keep} kept", f"{{type: mask, keep: {keep}}}"


def cell(ratios):
    return f"{np.mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


levels = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
print("| operator | " + " | ".join(f"{s:g}" for s in levels) + " |\n|---|" + "---|" * len(levels))
for label, operator in operators():
    row = []
    for sigma in levels:
        # Where a gain was found, the level in the middle of the range.
        found = [estimate(p, operator, f"{{gaussian: {sigma}}}") for p in PICTURES]
        row.append([np.sqrt(s**2 + 0.5 * g) / sigma for s, g in found])
    print(f"| {label} | " + " | ".join(map(cell, row)) + " |", flush=True)

print("\n| operator | gain, read noise | gain found | read noise found |\n|---|---|---|---|")
for label, operator in list(operators())[:3]:
    for gain, sigma in ((0.001, 0.01), (0.005, 0.02), (0.02, 0.02)):
        found = [estimate(p, operator, f"{{gaussian: {sigma}, poisson: {gain}}}") for p in PICTURES]
        print(f"| {label} | {gain}, {sigma} | {cell([g / gain for _, g in found])} | {cell([s / sigma for s, _ in found])} |", flush=True)
