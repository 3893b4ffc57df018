# SPDX-License-Identifier: BSD-3-Clause
"""Makes output folders of runs that never ran, with figures that a test can foresee: the layout of docs/trace.md.

A rank's iteration k takes SECONDS (1 + rank / 100): denoise 0.6 of it (a halo inside, a tenth, of which it waits half
and is under way for twice as long), prox 0.3, and 0.1 between them.
"""

import json
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

SECONDS = 0.1
PHASE = {
    name: code
    for code, name in enumerate(
        ["load", "halo", "operator", "adjoint", "prox", "denoise", "reduce", "metrics", "checkpoint", "write", "other"]
    )
}
ITERATION_ROW = np.dtype(
    [("iteration", "<i8")]
    + [(name, "<f8") for name in ("start", "seconds", "objective", "chi2", "residual", "step", "sigma", "psnr")]
)
KIND = h5py.enum_dtype(PHASE, "i1")
PHASE_ROW = np.dtype(
    [("iteration", "<i8"), ("phase", KIND), ("parent", KIND)]
    + [
        (name, "<f8")
        for name in ("start", "seconds", "own_seconds", "wait_seconds", "flight_seconds")
    ]
    + [
        (name, "<i8")
        for name in (
            "bytes_sent",
            "bytes_received",
            "messages",
            "allocated_bytes",
            "peak_bytes",
            "resident_bytes",
        )
    ]
)
JOB = """\
schema: 1
problem:
  truth: "{truth}"
  scale: {{offset: 0, factor: 255}}
  operator: {{type: identity}}
  noise: {{gaussian: 0.1}}
denoiser: {{network: drunet, mode: {mode}}}
solver: {{name: {solver}, iterations: {iterations}}}
domain: {{grid: [1, {ranks}], transport: auto}}
output: {{folder: "{folder}"}}
"""


DIAGNOSTICS = {
    "noise_sigma": 0.1,
    "chi2": 0.314,
    "chi2_tiles": {"side": 32, "low": 0.25, "high": 0.41},
    "parts": [
        {
            "name": f"part {i}",
            "samples": 4608,
            "chi2": 0.314,
            "mean": 0.01 * (i + 1),
            "deviation": 0.56,
            "correlation": -0.12 * (i + 1),
            "correlation_lag": [0, 1 + i],
            "correlation_white": 0.015,
            "at_smallest": 0.001,
            "at_largest": 0.02 * i,
        }
        for i in range(2)
    ],
    "image": {"smallest": -0.02, "largest": 1.31, "below_0": 0.001, "above_1": 0.012},
    "denoiser": {"sigma": 0.1, "passes": 10, "largest_gain": 1.091, "last_gain": 1.082},
    "warnings": ["chi2 is 0.31 per sample (the noise is overstated <or so>) check problem.noise"],
}


def phase_rows(iterations, begin, seconds, first=0, halos=1, waits=True):
    """Phases of iterations first .. first + iterations - 1, from the time `begin` on; load before, write after."""
    per = 2 + halos
    rows = np.zeros(iterations * per + 2, PHASE_ROW)
    rows["parent"] = PHASE["other"]
    rows["peak_bytes"] = 3 << 20
    rows["allocated_bytes"], rows["resident_bytes"] = 2 << 20, 50 << 20
    rows[0] = rows[-1] = rows[0]
    inner = rows[1:-1].reshape(iterations, per)
    start = begin + seconds * np.arange(iterations)
    inner["iteration"] = (first + np.arange(iterations))[:, None]
    for h in range(halos):
        halo = inner[:, h]
        halo["phase"], halo["parent"] = PHASE["halo"], PHASE["denoise"]
        halo["start"] = start + h * 0.1 * seconds / halos
        halo["seconds"] = halo["own_seconds"] = 0.1 * seconds / halos
        if waits:
            halo["wait_seconds"] = 0.05 * seconds / halos
            halo["flight_seconds"] = 0.2 * seconds / halos
            halo["bytes_sent"] = halo["bytes_received"] = 4000
            halo["messages"] = 2
    denoise, prox = inner[:, halos], inner[:, halos + 1]
    denoise["phase"], denoise["start"], denoise["seconds"], denoise["own_seconds"] = (
        PHASE["denoise"],
        start,
        0.6 * seconds,
        0.5 * seconds,
    )
    denoise["peak_bytes"] = 8 << 20
    prox["phase"], prox["start"], prox["seconds"] = PHASE["prox"], start + 0.6 * seconds, 0.3 * seconds
    prox["own_seconds"] = prox["seconds"]
    for row, kind, at in ((0, "load", begin - 0.2), (-1, "write", begin + seconds * iterations)):
        rows["iteration"][row], rows["phase"][row], rows["start"][row] = -1, PHASE[kind], at
        rows["seconds"][row] = rows["own_seconds"][row] = 0.15
    return rows


def iteration_rows(iterations, begin, seconds, first=0, psnr=True):
    rows = np.zeros(iterations, ITERATION_ROW)
    k = first + np.arange(iterations)
    rows["iteration"], rows["start"], rows["seconds"] = k, begin + seconds * np.arange(iterations), seconds
    rows["objective"], rows["chi2"], rows["residual"] = 100 / (k + 1), 1 + 1 / (k + 1), 0.1 / (k + 1)
    rows["step"], rows["sigma"] = 1, 0.1
    rows["psnr"] = 30 - 10 / (k + 1) if psnr else np.nan
    return rows


def write_trace(path, rank, ranks, box, iterations, phases, status="limit", job="", **attributes):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["iterations"], file["phases"] = iterations, phases
        file.attrs.update(
            {
                "schema": 2,
                "every": 1,
                "status": np.bytes_(status),
                "trace_seconds": 0.001,
                "rank": rank,
                "ranks": ranks,
                "grid_rows": 1,
                "grid_columns": ranks,
                "own_box": np.array(box, np.int64),
                "host": f"host{rank // 8}",
                "device": "cpu",
                "tessera_version": "1.2.3",
                "tessera_commit": "abc",
                "command_line": "tessera run job.yaml",
                "start_time": "2026-01-01T00:00:00+0000",
                "job": job,
                **attributes,
            }
        )


def make_run(
    folder,
    ranks=2,
    iterations=5,
    shape=(32, 48),
    seconds=SECONDS,
    mode="auto",
    solver="pgd",
    truth=None,
    psnr=True,
    status="limit",
    summary=True,
    pictures=True,
    halos=1,
    attempts=None,
    diagnostics=True,
    threads=1,
    cores="0-63",
    noise=0.1,
):
    """cores: that every rank may run on. attempts: [(first iteration, iterations, time at which its first one begins)], one by default."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    job = JOB.format(truth=truth or "", mode=mode, solver=solver, iterations=iterations, ranks=ranks, folder=folder)
    if not truth:
        job = job.replace('  truth: ""\n', "")
    (folder / "job.yaml").write_text(job)
    (folder / "resolved.yaml").write_text(job)
    (folder / "log.txt").write_text("the log\n")
    for rank in range(ranks):
        each = seconds * (1 + rank / 100)
        pieces = [
            (iteration_rows(n, begin, each, first, psnr), phase_rows(n, begin, each, first, halos, ranks > 1))
            for first, n, begin in attempts or [(0, iterations, 1.0)]
        ]
        columns = [shape[1] * r // ranks for r in (rank, rank + 1)]
        write_trace(
            folder / f"trace/rank-{rank:05}.h5",
            rank,
            ranks,
            [[0, 0, columns[0]], [1, shape[0], columns[1]]],
            np.concatenate([p[0] for p in pieces]),
            np.concatenate([p[1] for p in pieces]),
            status,
            job,
            threads=threads,
            cores=cores,
            sockets=2,
        )
    if pictures:
        image = np.full((3, *shape), 100, np.float32)
        with h5py.File(folder / "reconstruction.h5", "w") as file:
            file["image"] = image
            file["image"].attrs.update({"offset": 0.0, "factor": 255.0})
    if summary:
        figures = {
            "schema": 1,
            "status": status,
            "psnr": 28.13 if psnr else None,
            "psnr_start": 20.0 if psnr else None,
            "ssim": 0.9 if psnr else None,
            "noise": noise,
            "iterations": iterations,
            "residual": 0.01,
            "seconds": iterations * seconds,
            "seconds_per_iteration": seconds,
            "ranks": ranks,
            "peak_bytes_per_rank": [8 << 20] * ranks,
            "bytes_sent_per_iteration": 4000 * ranks,
            "exposed_wait_fraction": 0.05,
            "device": "cpu",
            "precision": "float32",
            "transport": "mpi",
            "tessera": "1.2.3",
        }
        if diagnostics:
            figures["diagnostics"] = DIAGNOSTICS | ({} if noise else {"noise_sigma": None})
            picture = np.full(shape, 128, np.uint8)
            Image.fromarray(picture).save(folder / "residual.png")
            Image.fromarray(np.stack([picture] * 3, -1)[::2]).save(folder / "chi2.png")
        (folder / "summary.json").write_text(json.dumps(figures))
    return folder


def make_training(weights, orbits=False):
    """Weights with the curve and the sheet that tessera train puts beside them: three rows, 10 s each."""
    weights.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "__metadata__": {"network": "drunet", "steps": "300"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    text = json.dumps(header).encode()
    weights.write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))
    rows = ["step,seconds,loss,learning_rate,penalty,norm,largest_norm,psnr@25"]
    for k, psnr in enumerate(["", 30.5, 30.0], start=1):
        norms = f"0.01,{1.2 - 0.1 * k},1.5" if orbits else "0,0,0"
        rows.append(f"{100 * k},{10 * k},{0.05 - 0.01 * k:.2f},0.001,{norms},{psnr}")
    weights.with_name(weights.name + ".curve.csv").write_text("\n".join(rows) + "\n")
    Image.fromarray(np.full((8, 12), 128, np.uint8)).save(weights.with_name(weights.name + ".png"))
    return weights
