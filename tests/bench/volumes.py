# SPDX-License-Identifier: BSD-3-Clause
"""Priors for volumes: total variation, the shipped network plane by plane, and the shipped network of volumes,
beside each other (docs/volumes_measured.md).

Volumes made here (balls, a foam of cells, filaments, soft cells, thick slices of a foam), and one from a file (--file NAME.tif or NAME.nii.gz, of any
scale); blurred and noised by tessera, or noised alone (--noise 15,25,50, of 255). PSNR in dB, peak 1; one seed each.
Every setting is what a job without more words does, but for the strength of total variation, the best of three
(--strengths), chosen with the truth. Where --bm4d names a Python with BM4D (PyPI: bm4d), a column has it, of the same
noisy volumes and told their noise; without a blur only.
"""
import argparse
import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import scipy.ndimage
import scipy.spatial

CASES = [(0.0, 0.05), (0.0, 0.1), (1.0, 0.01), (1.6, 0.02), (1.0, 0.05)]  # blur in voxels (0: none), noise


def balls(size, seed):
    r = np.random.default_rng(seed)
    grid = np.mgrid[:size, :size, :size]
    x = np.full((size, size, size), 0.1)
    for _ in range(14):
        center, radius = r.uniform(0, size, 3), r.uniform(3, 10)
        x[((grid - center[:, None, None, None]) ** 2).sum(axis=0) < radius**2] = r.uniform(0.2, 1)
    return x


def foam(size, seed):
    """Cells with walls, of a gray of their own and a shade across each."""
    r = np.random.default_rng(seed)
    at = np.moveaxis(np.mgrid[:size, :size, :size], 0, -1)
    distance, cell = scipy.spatial.cKDTree(r.uniform(0, size, (60, 3))).query(at, k=2)
    x = r.uniform(0.15, 0.7, 60)[cell[..., 0]] + 0.15 * np.sin(at @ r.normal(0, 0.15, 3))
    x[distance[..., 1] - distance[..., 0] < 1.5] = 0.95
    return x.clip(0, 1)


def cells(size, seed):
    """Soft bodies with a brighter nucleus and grains inside, out of focus light between them."""
    r = np.random.default_rng(seed)
    at = np.mgrid[:size, :size, :size]
    x = 0.08 + 0.05 * scipy.ndimage.gaussian_filter(r.normal(0, 60, (size,) * 3), 10, mode="wrap")
    for _ in range(size**3 // 2500):
        center, radii = r.uniform(0, size, 3), r.uniform(4, 9, 3)
        away = np.sqrt((((at - center[:, None, None, None]) / radii[:, None, None, None]) ** 2).sum(0))
        x += r.uniform(0.15, 0.35) / (1 + np.exp(8 * (away - 1))) + r.uniform(0.1, 0.3) / (1 + np.exp(8 * (2 * away - 1)))
    x += 0.5 * scipy.ndimage.gaussian_filter((r.random(x.shape) < 2e-3) * (x > 0.3) * 6.0, 0.8)
    return x.clip(0, 1)


def thick(size, seed):
    """A foam in slices four times as thick as their pixels."""
    r = np.random.default_rng(seed)
    at = np.moveaxis(np.mgrid[:4 * size, :size, :size], 0, -1)
    distance, cell = scipy.spatial.cKDTree(r.uniform(0, 1, (240, 3)) * (4 * size, size, size)).query(at, k=2)
    x = r.uniform(0.15, 0.7, 240)[cell[..., 0]] + 0.15 * np.sin(at @ r.normal(0, 0.15, 3))
    x[distance[..., 1] - distance[..., 0] < 1.5] = 0.95
    return x.clip(0, 1).reshape(size, 4, size, size).mean(1)


def filaments(size, seed):
    """Curved threads in an uneven background, as a microscope sees them."""
    r = np.random.default_rng(seed)
    x = np.zeros((size, size, size))
    for _ in range(24):
        p, v, weight = r.uniform(0, size, 3), r.normal(0, 1, 3), r.uniform(0.3, 1)
        for _ in range(4 * size):
            v += r.normal(0, 0.12, 3)
            v /= np.linalg.norm(v)
            p = (p + 0.5 * v) % size
            x[tuple(p.astype(int) % size)] = weight
    x = scipy.ndimage.gaussian_filter(x, 0.7, mode="wrap")
    return (0.05 + 0.1 * scipy.ndimage.gaussian_filter(r.normal(0, 40, x.shape), 8, mode="wrap") + 0.9 * x / x.max()).clip(0, 1)


def read_volume(path, side):
    """A TIFF of pages or a NIfTI-1 volume, largest value 1; of a larger one the middle, `side` voxels along each axis."""
    if path.suffix == ".gz":
        raw = gzip.open(path).read()
        shape, kind = np.frombuffer(raw, "<i2", 3, 42), int(np.frombuffer(raw, "<i2", 1, 70)[0])
        types = {2: "u1", 4: "<i2", 8: "<i4", 16: "<f4", 64: "<f8", 512: "<u2"}
        x = np.frombuffer(raw, types[kind], int(np.prod(shape, dtype=int)), int(np.frombuffer(raw, "<f4", 1, 108)[0]))
        x = x.reshape(shape[::-1]).astype(float)
    else:
        import tifffile
        x = tifffile.imread(path).astype(float)
    middle = tuple(slice(max(0, (n - side) // 2), max(0, (n - side) // 2) + side) for n in x.shape)
    return (x / x.max())[middle]


def run(build, folder, truth, blur, noise, denoiser):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "truth.npy", truth.astype(np.float32)[None])
    operator = f"{{type: blur, kernel: {{gaussian: {{sigma: [{blur}, {blur}, {blur}]}}}}}}" if blur else "{type: identity}"
    (folder / "job.yaml").write_text(f"schema: 1\nproblem:\n  truth: truth.npy\n  operator: {operator}\n  noise: {{gaussian: {noise}}}\n"
                                     f"denoiser: {denoiser}\noutput: {{folder: out, checkpoint: {{keep: 0}}}}\n")
    done = subprocess.run([str(build / "bin/tessera"), "run", "job.yaml", "--force"], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    told = json.loads((folder / "out/summary.json").read_text())
    return told["psnr"], told["seconds_per_iteration"] * told["iterations"]


BM4D = """import sys, time
import numpy as np
from bm4d import bm4d
y = np.load("y.npy")
begin = time.perf_counter()
np.save("bm4d.npy", bm4d(y, float(sys.argv[1])))
print(time.perf_counter() - begin)
"""


def run_bm4d(build, folder, truth, noise, python):
    """BM4D of what the last job in this folder took for its samples."""
    import h5py
    done = subprocess.run([str(build / "bin/tessera"), "simulate", "job.yaml", "y.h5", "--force"], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    with h5py.File(folder / "y.h5") as f:
        about = f["measurements"].attrs
        y = np.squeeze(f["measurements/0"][...]).astype(float) * about["factor"] + about["offset"]
    off = np.std(y - truth)
    assert abs(off / noise - 1) < 0.05, (off, noise)
    np.save(folder / "y.npy", y)
    done = subprocess.run([python, "-c", BM4D, str(noise)], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return -10 * np.log10(np.mean((np.load(folder / "bm4d.npy") - truth) ** 2)), float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--file", type=Path, help="one more volume, a TIFF of pages or NIfTI (.nii.gz)")
    parser.add_argument("--side", type=int, default=1 << 30, help="of --file only the middle, so many voxels a side")
    parser.add_argument("--noise", default="", help="noise alone, of 255: 15,25,50; instead of the cases")
    parser.add_argument("--network3d", type=Path, help="weights of drunet3d in place of the shipped ones")
    parser.add_argument("--volumes", default="", help="only these, separated by commas")
    parser.add_argument("--settings", default="", help="only these, separated by semicolons")
    parser.add_argument("--cases", default="", help="only these, by number")
    parser.add_argument("--strengths", default="0.1,0.3,1", help="of total variation")
    parser.add_argument("--bm4d", help="a Python that has BM4D, for a column more")
    o = parser.parse_args()
    if not o.bm4d:
        print("no column of BM4D (--bm4d names a Python that has it)")
    work = (o.work or o.build / "bench/volumes").resolve()
    volumes = {"balls": balls(o.size, 8), "foam": foam(o.size, 8), "filaments": filaments(o.size, 8),
               "cells": cells(o.size, 8), "thick slices": thick(o.size, 8)}
    if o.file:
        volumes[o.file.name.split(".")[0]] = read_volume(o.file, o.side)
    if o.volumes:
        volumes = {name: volumes[name] for name in o.volumes.split(",")}
    weights = [float(w) for w in o.strengths.split(",")]
    settings = {"tv": ["{network: tv}"], "tv, best": [f"{{network: tv, tv: {{weight: {w:g}}}}}" for w in weights],
                **{f"{p}": [f"{{network: drunet, planes: {p}}}"] for p in ("axial", "all")},
                "all, flips": ["{network: drunet, planes: all, averaging: flips}"]}
    network3d = f"network: drunet3d, weights: {o.network3d.resolve() if o.network3d else 'drunet3d_small'}"
    settings |= {"drunet3d": [f"{{{network3d}}}"], "drunet3d, flips": [f"{{{network3d}, averaging: flips}}"]}
    cases = [(0.0, float(level) / 255) for level in o.noise.split(",")] if o.noise else CASES
    if o.settings:
        settings = {k: v for k, v in settings.items() if k in o.settings.split(";")}
    columns = [*settings, *(["BM4D"] if o.bm4d else [])]
    print("| volume | blur, noise | " + " | ".join(columns) + " |\n|" + "---|" * (2 + len(columns)), flush=True)
    for name, truth in volumes.items():
        for k, (blur, noise) in enumerate(cases):
            if o.cases and str(k) not in o.cases.split(","):
                continue
            row = []
            for choices in settings.values():
                psnr, seconds = max(run(o.build.resolve(), work / f"{name}-{k}", truth, blur, noise, c) for c in choices)
                row.append(f"{psnr:.2f} ({seconds:.1f} s)")
            if o.bm4d:
                row.append("{:.2f} ({:.1f} s)".format(*run_bm4d(o.build.resolve(), work / f"{name}-{k}", truth, noise, o.bm4d)) if not blur else "")
            print(f"| {name} | {blur or 'none'}, {noise:.4g} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
