#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The work of model_check.sh and auto_choice.sh."""

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from skimage import data, io

NETWORKS = {
    "drunet": "{network: drunet, weights: drunet_small_color}",
    "dncnn": "{network: dncnn, weights: random, depth: 12}",
    "unet": "{network: unet, weights: random, widths: [32, 64, 128]}",
}
LAUNCH = str(Path("jobs/launch.sh").resolve())


TERMS = ["denoise", "data", "exposed"]


def write_job(folder, network, size):
    name = folder / f"{network}-{size}.yaml"
    picture = folder / f"photo-{size}.png"
    if not picture.exists():
        photo = data.retina()
        top = (photo.shape[0] - size) // 2
        io.imsave(picture, np.ascontiguousarray(photo[top : top + size, top : top + size]), check_contrast=False)
    # Random networks amplify: little of them, that many iterations stay in range.
    more = "sigma: 0.05" if network == "drunet" else "relaxation: 0.01"
    name.write_text(
        f"""schema: 1
problem:
  truth: {picture.name}
  operator: {{type: blur, kernel: {{gaussian: {{sigma: [1.6, 1.6]}}}}, boundary: circular}}
  noise: {{gaussian: 0.02}}
denoiser: {NETWORKS[network]}
solver: {{name: pgd, iterations: 2, step: 1.0, {more}}}
watchdog: 0
output: {{folder: out, preview: none}}
"""
    )
    return name


def tessera(program, ranks, *arguments, cache):
    environment = dict(os.environ, TESSERA_TUNED=str(cache / "tuned.yaml"))
    done = subprocess.run(
        [LAUNCH, "-n", str(ranks), program, *map(str, arguments)], text=True, capture_output=True, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def ways(ranks, layers):
    """What is set over the job: every mode that this many ranks can run."""
    if ranks == 1:
        return [["mode=whole"], ["mode=patch", "patch=128", "batch=1"], ["mode=patch", "patch=64", "batch=4"]]
    found = [["mode=patch", "patch=1024", "batch=1"], ["mode=patch", "patch=96", "batch=1"]]
    if layers:
        found += [["mode=layer", "halo_depth=1"], ["mode=layer", "halo_depth=3"]]
    return found


def settings(way):
    return [part for key in way for part in ("--set", f"denoiser.{key}")]


def measured(folder, ranks):
    """What iterations took, but for the first: the total of each, and per iteration (denoise, data, exposed) of the rank
    that computed longest. Exposed: in exchanges and reductions that nothing hid; data: what remains."""
    totals, terms = [], []
    for rank in range(ranks):
        with h5py.File(folder / f"trace/rank-{rank:05d}.h5") as file:
            seconds = {int(r["iteration"]): r["seconds"] for r in file["iterations"][:]}
            codes = h5py.check_enum_dtype(file["phases"].dtype["phase"])
            denoise, exposed = dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0.0)
            for row in file["phases"][:]:
                if int(row["iteration"]) not in seconds:
                    continue
                alone = row["phase"] in (codes["halo"], codes["reduce"])
                waited = 0.0 if alone else row["wait_seconds"]
                exposed[int(row["iteration"])] += row["own_seconds"] if alone else waited
                if row["phase"] == codes["denoise"]:
                    denoise[int(row["iteration"])] += row["own_seconds"] - waited
            later = [i for i in sorted(seconds) if i > 0]
            totals.append([seconds[i] for i in later])
            terms.append([[denoise[i], seconds[i] - denoise[i] - exposed[i], exposed[i]] for i in later])
    terms = np.array(terms)  # rank, iteration, term
    longest = terms[:, :, 0].argmax(axis=0)
    return np.max(totals, axis=0), terms[longest, np.arange(terms.shape[1])]


def run_case(o, folder, program, job, ranks, way, predicted):
    """Runs the case `repeat` times; the fastest one counts, since whatever else the machine does only adds."""
    iterations = 1 + max(o.iterations, min(200, math.ceil(o.seconds / predicted)))
    runs = []
    for _ in range(o.repeat):
        result = folder / "run"
        changes = ["--set", f"output.folder={result}", "--set", f"solver.iterations={iterations}"]
        code, out, err = tessera(program, ranks, "run", job, "--force", *changes, *settings(way), cache=folder)
        if code != 0:
            sys.exit(f"the run failed: {err}")
        totals, terms = measured(result, ranks)
        runs.append((np.median(totals), *np.median(terms, axis=0)))
    row = dict(zip([f"measured_{name}" for name in ("seconds", *TERMS)], min(runs)))
    row["repeats"] = max(runs)[0] / min(runs)[0] - 1
    row["measured_bytes"] = max(json.loads((result / "summary.json").read_text())["peak_bytes_per_rank"])
    return row


def model_check(o, folder, program):
    rows = []
    for network in o.networks:
        for ranks in o.ranks:
            probe = write_job(folder, network, o.sizes[0])
            machine = Path(o.machines or folder).resolve() / f"machine-{network}-{ranks}.yaml"
            machine.parent.mkdir(parents=True, exist_ok=True)
            if not o.machines or not machine.exists():
                code, out, err = tessera(program, ranks, "tune", probe, "--only-machine", "--machine", machine, cache=folder)
                if code != 0:
                    sys.exit(f"measuring the machine failed: {out}{err}")
            layers = tessera(program, 1, "check", probe, "--set", "denoiser.mode=layer", cache=folder)[0] == 0
            for size in o.sizes:
                job = write_job(folder, network, size)
                for way in ways(ranks, layers):
                    table = folder / "plan.csv"
                    code, out, err = tessera(
                        program, 1, "plan", job, "--ranks", ranks, "--machine", machine, "--csv", table, *settings(way), cache=folder
                    )
                    if code != 0:
                        sys.exit(f"plan failed: {err}")
                    told = next(csv.DictReader(table.open()))
                    row = {"network": network, "ranks": ranks, "size": size, "way": " ".join(way)}
                    row["predicted_seconds"] = float(told["seconds"])
                    row["predicted_denoise"] = float(told["denoise_seconds"])
                    row["predicted_data"] = float(told["data_seconds"])
                    row["predicted_exposed"] = float(told["exposed_seconds"]) + float(told["reduce_seconds"])
                    row["predicted_bytes"] = float(told["memory_bytes"])
                    row.update(run_case(o, folder, program, job, ranks, way, row["predicted_seconds"]))
                    rows.append(row)
                    show(row)
    return rows


def error(row, what):
    return row[f"predicted_{what}"] / row[f"measured_{what}"] - 1


def show(row):
    pair = lambda name: f"{1e3 * row[f'predicted_{name}']:7.1f}|{1e3 * row[f'measured_{name}']:7.1f}"
    print(
        f"{row['network']:<7} {row['ranks']:>2} ranks {row['size']:>4}  {row['way']:<27}"
        f" ms predicted|measured {pair('seconds')} {100 * error(row, 'seconds'):+6.1f} % (repeats to {100 * row['repeats']:.1f} %)"
        + "".join(f"  {name} {pair(name)}" for name in TERMS)
        + f"  MB {row['predicted_bytes'] / 1e6:5.0f}|{row['measured_bytes'] / 1e6:5.0f} {100 * error(row, 'bytes'):+6.1f} %",
        flush=True,
    )


def summarize(rows):
    for what, median, ninetieth in (("seconds", 15, 30), ("bytes", 10, 10)):
        errors = sorted(100 * abs(error(r, what)) for r in rows)
        print(
            f"{what}: median error {np.median(errors):.1f} % (target {median}), 90th percentile"
            f" {np.percentile(errors, 90):.1f} % (target {ninetieth}), largest {errors[-1]:.1f} %, {len(errors)} cases"
        )
    again = [100 * r["repeats"] for r in rows]
    print(f"the same case again: median difference {np.median(again):.1f} %, largest {max(again):.1f} %")


def auto_choice(o, folder, program):
    worst = 0.0
    for network in o.networks:
        for ranks in o.ranks:
            for size in o.sizes:
                job = write_job(folder, network, size)
                code, out, err = tessera(program, ranks, "tune", job, "--seconds", o.seconds, cache=folder)
                if code != 0:
                    sys.exit(f"tune failed: {out}{err}")
                ratio = float(re.search(r"auto by the cost model: .*, ([\d.]+) times the best", out).group(1))
                worst = max(worst, ratio)
                best = re.search(r"best: (.*) per iteration", out).group(1)
                print(f"{network:<7} {ranks:>2} ranks {size:>5}  auto / best {ratio:.3f}   best: {' '.join(best.split())}", flush=True)
    print(f"largest auto / best: {worst:.3f} (target 1.05)")


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=["check", "auto"], default="check")
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4])
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--sizes", type=numbers, default=[256, 384])
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--machines")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--csv")
    o = parser.parse_args()
    o.seconds = o.seconds or {"check": 1.0, "auto": 3.0}[o.what]
    folder = Path(o.build) / "bench" / o.what
    folder.mkdir(parents=True, exist_ok=True)
    program = str(Path(o.build).resolve() / "bin/tessera")
    if o.what == "auto":
        auto_choice(o, folder.resolve(), program)
        return
    rows = model_check(o, folder.resolve(), program)
    summarize(rows)
    if o.csv:
        with open(o.csv, "w", newline="") as out:
            table = csv.DictWriter(out, rows[0])
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
