#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The work of model_check.sh and auto_choice.sh."""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from skimage import data, io

NETWORKS = {
    "drunet": "{network: drunet, weights: drunet_small_color}",
    "dncnn": "{network: dncnn, weights: random, depth: 12}",
    "unet": "{network: unet, weights: random, widths: [32, 64, 128]}",
}
LAUNCH = str(Path("jobs/launch.sh").resolve())


def write_job(folder, network, size, iterations):
    name = folder / f"{network}-{size}.yaml"
    picture = folder / f"photo-{size}.png"
    if not picture.exists():
        photo = data.retina()
        top = (photo.shape[0] - size) // 2
        io.imsave(picture, np.ascontiguousarray(photo[top : top + size, top : top + size]), check_contrast=False)
    sigma = ", sigma: 0.05" if network == "drunet" else ""
    name.write_text(
        f"""schema: 1
problem:
  truth: {picture.name}
  operator: {{type: blur, kernel: {{gaussian: {{sigma: [1.6, 1.6]}}}}, boundary: circular}}
  noise: {{gaussian: 0.02}}
denoiser: {NETWORKS[network]}
solver: {{name: pgd, iterations: {iterations + 1}, step: 1.0{sigma}}}
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


def model_check(o, folder, program):
    rows = []
    for network in o.networks:
        for ranks in o.ranks:
            probe = write_job(folder, network, o.sizes[0], o.iterations)
            machine = folder / f"machine-{network}-{ranks}.yaml"
            code, out, err = tessera(program, ranks, "tune", probe, "--only-machine", "--machine", machine, cache=folder)
            if code != 0:
                sys.exit(f"measuring the machine failed: {out}{err}")
            layers = tessera(program, 1, "check", probe, "--set", "denoiser.mode=layer", cache=folder)[0] == 0
            for size in o.sizes:
                job = write_job(folder, network, size, o.iterations)
                for way in ways(ranks, layers):
                    table, result = folder / "plan.csv", folder / "run"
                    code, out, err = tessera(
                        program, 1, "plan", job, "--ranks", ranks, "--machine", machine, "--csv", table, *settings(way), cache=folder
                    )
                    if code != 0:
                        sys.exit(f"plan failed: {err}")
                    told = next(csv.DictReader(table.open()))
                    code, out, err = tessera(
                        program, ranks, "run", job, "--force", "--set", f"output.folder={result}", *settings(way), cache=folder
                    )
                    if code != 0:
                        sys.exit(f"the run failed: {err}")
                    seen = json.loads((result / "summary.json").read_text())
                    rows.append(
                        {
                            "network": network,
                            "ranks": ranks,
                            "size": size,
                            "way": " ".join(way),
                            "predicted_seconds": float(told["seconds"]),
                            "measured_seconds": seen["seconds_per_iteration"],
                            "predicted_bytes": float(told["memory_bytes"]),
                            "measured_bytes": max(seen["peak_bytes_per_rank"]),
                        }
                    )
                    show(rows[-1])
    return rows


def error(row, what):
    return row[f"predicted_{what}"] / row[f"measured_{what}"] - 1


def show(row):
    print(
        f"{row['network']:<7} {row['ranks']:>2} ranks {row['size']:>5}  {row['way']:<32} time"
        f" {row['predicted_seconds']:8.3f} s predicted {row['measured_seconds']:8.3f} s measured {100 * error(row, 'seconds'):+6.1f} %"
        f"   memory {row['predicted_bytes'] / 1e6:7.0f} MB {row['measured_bytes'] / 1e6:7.0f} MB {100 * error(row, 'bytes'):+6.1f} %",
        flush=True,
    )


def summarize(rows):
    for what, median, ninetieth in (("seconds", 15, 30), ("bytes", 10, 10)):
        errors = sorted(100 * abs(error(r, what)) for r in rows)
        print(
            f"{what}: median error {np.median(errors):.1f} % (target {median}), 90th percentile"
            f" {np.percentile(errors, 90):.1f} % (target {ninetieth}), largest {errors[-1]:.1f} %, {len(errors)} cases"
        )


def auto_choice(o, folder, program):
    worst = 0.0
    for network in o.networks:
        for ranks in o.ranks:
            for size in o.sizes:
                job = write_job(folder, network, size, o.iterations)
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
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--csv")
    o = parser.parse_args()
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
