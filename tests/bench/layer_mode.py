# SPDX-License-Identifier: BSD-3-Clause
"""The parts of layer_mode.sh: a picture, what a run's trace says, the table."""
import argparse
import glob
import json
import statistics
from pathlib import Path

import h5py
import numpy as np


def prepare(folder, size):
    from skimage import data, io, transform
    picture = data.retina()[200:1200, 200:1200] if size <= 1000 else transform.resize(data.retina(), (size, size))
    picture = picture[:size, :size]
    picture = picture if picture.dtype == np.uint8 else (picture * 255).round().astype(np.uint8)
    io.imsave(folder / "truth.png", picture, check_contrast=False)


def read(folder, ranks):
    """Per pass of the last iterations: seconds of the slowest rank, exposed waits, time in exchanges without them."""
    passes = {}
    for name in sorted(glob.glob(str(folder / str(ranks) / "trace" / "rank-*.h5"))):
        with h5py.File(name) as f:
            rows = f["/phases"][...]
            names = {v: k for k, v in h5py.check_enum_dtype(f["/phases"].dtype["phase"]).items()}
        for row in rows:
            if row["iteration"] < 1:
                continue
            totals = passes.setdefault((int(row["iteration"]), name), dict(seconds=0.0, wait=0.0, halo=0.0))
            kind, parent = names[row["phase"]], names[row["parent"]]
            if kind == "denoise":
                totals["seconds"] += float(row["seconds"])
            elif kind == "halo" and parent == "denoise":
                totals["wait"] += float(row["wait_seconds"])
                totals["halo"] += float(row["seconds"] - row["wait_seconds"])
    assert len({name for _, name in passes}) == ranks, "one trace per rank"
    best = min({i for i, _ in passes}, key=lambda i: max(p["seconds"] for (k, _), p in passes.items() if k == i))
    chosen = [p for (i, _), p in passes.items() if i == best]
    print(json.dumps(dict(ranks=ranks, seconds=max(p["seconds"] for p in chosen),
                          wait=max(p["wait"] / p["seconds"] for p in chosen),
                          halo=max(p["halo"] / p["seconds"] for p in chosen))))


def report(folder):
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    middle = {}
    for ranks in sorted({r["ranks"] for r in rounds}):
        mine = [r for r in rounds if r["ranks"] == ranks]
        middle[ranks] = statistics.median(r["seconds"] for r in mine)
        print(f"{ranks} rank{'s' if ranks > 1 else ' '} {middle[ranks]:8.2f} s   exposed waits "
              f"{100 * statistics.median(r['wait'] for r in mine):5.2f} %   packing and MPI calls "
              f"{100 * statistics.median(r['halo'] for r in mine):5.2f} %")
    pairs = [a["seconds"] / b["seconds"] for a, b in zip((r for r in rounds if r["ranks"] == 1), (r for r in rounds if r["ranks"] == 2))]
    print(f"efficiency of 2 ranks x 1 thread over 1 rank x 2 threads: {100 * statistics.median(pairs):.1f} % "
          f"(rounds {', '.join(f'{100 * p:.1f}' for p in pairs)}; target 97)")
    images = {}
    for ranks in middle:
        with h5py.File(folder / str(ranks) / "reconstruction.h5") as f:
            images[ranks] = f["/image"][...].astype(np.float64)
    for ranks in middle:
        d = np.linalg.norm(images[ranks] - images[1]) / np.linalg.norm(images[1])
        assert d < 1e-4, (ranks, d)  # random weights of the published widths are far from a denoiser


def main():
    p = argparse.ArgumentParser()
    p.add_argument("part", choices=["prepare", "read", "report"])
    p.add_argument("folder", type=Path)
    p.add_argument("--size", type=int, default=1024)
    p.add_argument("--ranks", type=int, default=1)
    a = p.parse_args()
    if a.part == "prepare":
        prepare(a.folder, a.size)
    elif a.part == "read":
        read(a.folder, a.ranks)
    else:
        report(a.folder)


if __name__ == "__main__":
    main()
