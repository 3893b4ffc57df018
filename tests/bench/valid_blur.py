#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory and time of whole runs: hqs with a shipped network on a scene behind a 15 x 15 kernel with boundary valid,
conjugate gradients in every iteration. One rank; several programs in turn, for example of two commits.

tests/bench/valid_blur.py PROGRAM... [--sides 1024,2048] [--channels 1,3] [--iterations 8] [--threads 2]
  --measured   measurements from a file and no truth, as users have them (the last program makes the file)
  --patch N    windows of N in every program but the last, which chooses for itself"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np


def kernel():
    """A drawn camera path: a bow of 15 x 15 taps, smoothed."""
    t = np.linspace(0, 1, 400)
    rows, columns = 2 + 10 * t, 3 + 9 * t**2
    y, x = np.mgrid[:15, :15]
    taps = sum(np.exp(-((y - r) ** 2 + (x - c) ** 2) / (2 * 0.7**2)) for r, c in zip(rows, columns))
    return (taps / taps.sum()).astype(np.float32)


def problem(program, folder, side, channels, o):
    """The job's problem; with --measured the samples alone, in a file that says nothing else of them."""
    operator = "  operator: {type: blur, kernel: {file: kernel.npy}, boundary: valid}\n"
    simulated = f"problem:\n  truth: {{scene: {{size: [{side}, {side}], channels: {channels}}}}}\n{operator}  noise: {{gaussian: 0.01}}\n"
    if not o.measured:
        return simulated
    (folder / "scene.yaml").write_text(simulated)
    subprocess.run([program, "simulate", folder / "scene.yaml", folder / "made.h5", "--force"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    with h5py.File(folder / "made.h5") as made, h5py.File(folder / "y.h5", "w") as plain:
        made.copy("measurements/0", plain, "measurements/0", without_attrs=True)
    (folder / "made.h5").unlink()
    return f"problem:\n  measurements: y.h5\n{operator}"


def run(program, folder, problem, channels, patch, o):
    """Highest resident and tracked GB, seconds of an iteration after the first, of all."""
    weights = "drunet_small_gray" if channels == 1 else "drunet_small_color"
    windows = f", mode: patch, patch: {patch}" if patch else ""
    job = folder / "job.yaml"
    job.write_text(f"""{problem}denoiser: {{network: drunet, weights: {weights}{windows}}}
solver: {{name: hqs, iterations: {o.iterations}, sigma: {{dpir: 0.01}}}}
output: {{folder: out, checkpoint: {{keep: 0}}}}
""")
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([program, "run", job, "--force"], stdout=log, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, OMP_NUM_THREADS=str(o.threads)))
        begin = time.monotonic()
        _, status, usage = os.wait4(process.pid, 0)
        whole = time.monotonic() - begin
    if status:
        sys.exit(f"{program} failed ({os.waitstatus_to_exitcode(status)}):\n" + (folder / "log").read_text())
    summary = json.loads((folder / "out" / "summary.json").read_text())
    return usage.ru_maxrss * 1024 / 1e9, max(summary["peak_bytes_per_rank"]) / 1e9, summary["seconds_per_iteration"], whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="+", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--sides", default="1024,2048")
    parser.add_argument("--channels", default="1,3")
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--patch", type=int)
    o = parser.parse_args()
    print("| side | channels | " + " | ".join(f"{name} {i + 1}" for i in range(len(o.program))
                                              for name in ("resident (tracked), GB,", "s per iteration,", "s in all,")) + " |")
    print("|---" * (2 + 3 * len(o.program)) + "|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "kernel.npy", kernel())
        for side in map(int, o.sides.split(",")):
            for channels in map(int, o.channels.split(",")):
                cells = [str(side), str(channels)]
                posed = problem(o.program[-1], folder, side, channels, o)
                for i, program in enumerate(o.program):
                    patch = o.patch if i + 1 < len(o.program) else None
                    resident, tracked, seconds, whole = run(program, folder, posed, channels, patch, o)
                    cells += [f"{resident:.2f} ({tracked:.2f})", f"{seconds:.2f}", f"{whole:.1f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
