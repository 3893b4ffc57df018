#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of defaults.sh: how far the shortest job is from the best setting of the same program and from the
best classical method, on the cases of defaults_cases.py. The best is chosen with the truth, the default never sees it."""

import argparse
import csv
import dataclasses
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import skimage.io

import restoration_methods as methods
from defaults_cases import CASES, KERNELS, RIM, Measured, kernel

DEFAULT = ""
# Settings that a user could have written; the best of them, with the true noise stated and without, is the goal.
SETTINGS = {
    "default": DEFAULT,
    "pgd": "solver: {name: pgd, iterations: 20}",  # what a job without a solver ran up to 0.2.0
    "pgd λ 1": "solver: {name: pgd, iterations: 40, lambda: 1}",
    "hqs 8": "solver: {name: hqs, iterations: 8}",
    "hqs 24": "solver: {name: hqs, iterations: 24}",
    "hqs 36": "solver: {name: hqs, iterations: 36}",
    "hqs 8 dpir": "solver: {name: hqs, iterations: 8, sigma: dpir}",
    "hqs 24 dpir": "solver: {name: hqs, iterations: 24, sigma: dpir}",
    "admm 8": "solver: {name: admm, iterations: 8}",
    "admm 16": "solver: {name: admm, iterations: 16}",
    "admm 8 dpir": "solver: {name: admm, iterations: 8, sigma: dpir}",
    "once": "solver: {name: hqs, iterations: 1}",
    **{f"tv {w:g}": f"denoiser: {{network: tv, tv: {{weight: {w:g}}}}}\nsolver: {{name: admm, iterations: 60}}"
       for w in (0.1, 0.3, 1)},
}
FOR_VOLUMES = [name for name in SETTINGS if name.startswith("tv")] + ["default", "hqs 24", "admm 16"]
STATED = ["default", "hqs 24", "hqs 8 dpir", "admm 16", "tv 0.3"]
STRENGTHS = {"W": 10 ** np.arange(-5, 0.6, 0.5), "T": 10 ** np.arange(-5, -0.9, 0.5), "R": [2, 4, 7, 12, 20, 35, 60, 100]}


def job(m, folder, text, stated):
    """The job that a user would write; returns what one unit of the file is inside."""
    case = m.case
    folder.mkdir(parents=True, exist_ok=True)
    y, unit = m.y, 1.0
    if case.file == "npy":
        name = "y.npy"
        np.save(folder / name, y.astype(np.float32))
    elif case.file == "u16":
        name, unit = "y.tif", case.peak
        skimage.io.imsave(folder / name, np.rint(y[0] * unit).astype(np.uint16), check_contrast=False)
    else:
        name, unit = "y.png" if case.file == "png" else "y.jpg", 255.0
        rows = np.rint(np.clip(np.moveaxis(y, 0, -1), 0, 1) * unit).astype(np.uint8).squeeze()
        quality = {} if case.file == "png" else {"quality": int(case.file[3:])}
        skimage.io.imsave(folder / name, rows, check_contrast=False, **quality)
    kind, _, amount = case.wrong.partition(" ")
    lines = ["problem:", f"  measurements: {name}"]
    if case.operator == "id":
        lines.append("  operator: {type: identity}")
    elif m.mask is not None:
        np.save(folder / "mask.npy", m.mask)
        lines.append("  operator: {type: mask, file: mask.npy}")
    elif case.picture == "volume":
        lines.append(f"  operator: {{type: blur, kernel: {{gaussian: {{sigma: {3 * [KERNELS[case.operator]]}}}}}, boundary: reflect}}")
    else:
        np.save(folder / "kernel.npy", kernel(case.operator, float(amount) if kind == "kernel" else 1.0))
        what = f"downsampling, factor: {m.factor}" if m.factor > 1 else "blur"
        edge = ", boundary: circular" if kind == "boundary" else ""
        lines.append(f"  operator: {{type: {what}, kernel: {{file: kernel.npy}}{edge}}}")
    if case.peak and case.file == "npy":
        lines.append("  scale: {factor: 1}")
    if stated or kind == "noise":
        factor = float(amount) if kind == "noise" else 1.0
        noise = f"poisson: {1 / case.peak:g}" if case.peak else f"gaussian: {case.noise * factor:g}"
        lines.insert(2, f"  noise: {{{noise}}}")
        if case.file == "u16":
            lines[2] = "  noise: {poisson: 1, unit: file}"
    (folder / "job.yaml").write_text("\n".join([*lines, text, "output: {folder: out, preview: none}"]) + "\n")
    return unit


def run(task):
    """One job of the program: (case's name, setting, stated, PSNR, chi2, seconds, passes)."""
    o, case, setting, stated = task
    m = Measured(case)
    folder = o.work / "runs" / f"{case.name}-{setting}{'-stated' if stated else ''}".replace(" ", "_")
    unit = job(m, folder, SETTINGS[setting], stated)
    done = subprocess.run([o.build / "bin" / "tessera", "run", "job.yaml", "--force"], cwd=folder, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, errors="replace")
    (folder / "log.txt").write_text(done.stdout + done.stderr)
    row = dict(case=case.name, method=setting, stated=stated, psnr=float("nan"), chi2=float("nan"), note="")
    if done.returncode:
        row["note"] = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        return row
    with h5py.File(folder / "out" / "reconstruction.h5") as file:
        x = file["image"][:] / unit
    if x.shape != m.truth.shape and m.origin:  # boundary circular: the image is the measured area itself
        row["note"] = f"shape {x.shape} for {m.truth.shape}"
    summary = json.loads((folder / "out" / "summary.json").read_text())
    row |= {"psnr": m.score(x), "chi2": summary.get("chi2") or float("nan")}
    shutil.rmtree(folder / "out", ignore_errors=True)
    return row


def timed(task):
    """The shortest job by one build: PSNR, seconds of CPU (all ranks) and of the clock, passes of the network over the image."""
    o, case, build = task
    m = Measured(case)
    folder = o.work / "runs" / f"{case.name}-by-{'now' if build == o.build else 'older'}"
    unit = job(m, folder, DEFAULT, False)
    launch = [Path("jobs/launch.sh").resolve(), "-n", str(o.ranks)] if o.ranks > 1 else []
    command = [*launch, build / "bin" / "tessera", "run", "job.yaml", "--force"]
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    clock = time.monotonic() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with h5py.File(folder / "out" / "reconstruction.h5") as file:
        x = file["image"][:] / unit
    summary = json.loads((folder / "out" / "summary.json").read_text())
    passes = summary["iterations"] + summary.get("trial_iterations", 0)
    shutil.rmtree(folder / "out", ignore_errors=True)
    return m.score(x), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock, passes


def compare(o, cases):
    """This build beside an older one, in turn: a line per case, and what it comes to."""
    print("| case | dB older | now | CPU s older | now | clock s older | now | passes older | now |\n|---|---|---|---|---|---|---|---|---|")
    rows = []
    for case in cases:
        (a, s, w, n), (b, t, v, m) = timed((o, case, o.older)), timed((o, case, o.build))
        rows.append((case.is_right, b - a, s, t, w, v, n, m))
        print(f"| {case.name} | {a:.2f} | {b - a:+.2f} | {s:.2f} | {t:.2f} | {w:.2f} | {v:.2f} | {n} | {m} |", flush=True)
    for right, title in ((True, "right"), (False, "wrong")):
        own = np.array([r[1:] for r in rows if r[0] == right])
        if len(own):
            print(f"\n{len(own)} {title} models: {np.nanmean(own[:, 0]):+.3f} dB on average, {np.nanmin(own[:, 0]):+.2f} at worst; "
                  f"{own[:, 2].sum() / own[:, 1].sum():.2f} of the CPU seconds, {own[:, 4].sum() / own[:, 3].sum():.2f} of the clock's, "
                  f"{own[:, 6].sum() / own[:, 5].sum():.2f} of the passes.")


def classical(task):
    """The best of Wiener, total variation and Richardson-Lucy, each with the strength that the truth likes best."""
    o, case = task
    m = Measured(case)
    row = dict(case=case.name, method="classical", stated=False, psnr=-np.inf, chi2=float("nan"), note="")
    if case.picture == "volume":
        return row | {"psnr": float("nan"), "note": "none for volumes"}
    used = methods.Measurement.__new__(methods.Measurement)
    used.kernel, used.factor, used.mask, used.circular = m.kernel, m.factor, m.mask, False
    used.area, used.camera, used.origin, used.y, used.rim = m.area.shape[1:], None, m.origin, m.y, RIM
    n = [m.factor * (s - 1) + 1 for s in m.y.shape[1:]]
    crop = (slice(None), slice(m.origin, m.origin + n[0]), slice(m.origin, m.origin + n[1]))
    for letter, call in (("W", methods.wiener), ("T", lambda m, s: methods.total_variation(m, s, 150)),
                         ("R", methods.richardson_lucy)):
        worse, last = 0, -np.inf
        for strength in STRENGTHS[letter]:
            if letter == "R" and case.operator == "id":
                break
            image = call(used, int(strength) if letter == "R" else strength)
            if image is None:
                break
            value = m.score(image[crop])
            if value > row["psnr"]:
                row |= {"psnr": value, "note": f"{letter} {strength:.2g}"}
            worse, last = worse + 1 if value < last else 0, value
            if worse > 1:
                break
    return row


def measurement(task):
    o, case = task
    m = Measured(case)
    row = dict(case=case.name, method="input", stated=False, psnr=float("nan"), chi2=float("nan"), note="")
    if m.factor == 1:
        row["psnr"] = m.score(m.y)
    return row


def call(task):
    what, argument = task
    return {"run": run, "classical": classical, "measurement": measurement}[what](argument)


def table(rows, cases):
    """Lines of the page's table, and the summary of each half."""
    found = {(r["case"], r["method"], r["stated"]): r for r in rows}
    lines, halves = [], {True: [], False: []}
    for case in cases:
        own = [r for r in rows if r["case"] == case.name]
        default = found.get((case.name, "default", False))
        ranked = sorted((r for r in own if r["method"] in SETTINGS and np.isfinite(r["psnr"])), key=lambda r: -r["psnr"])
        if not default or not ranked:
            continue
        best = ranked[0]
        classic = next((r for r in own if r["method"] == "classical"), {"psnr": float("nan"), "note": ""})
        old = next((r["psnr"] for r in own if r["method"] == "pgd"), float("nan"))
        entry = next((r["psnr"] for r in own if r["method"] == "input"), float("nan"))
        noise = f"counts to {case.peak:g}" if case.peak else f"{case.noise:g}"
        differs = ", ".join(t for t in ("color" if case.color else "", "" if case.file == "npy" else case.file,
                                        "" if case.size == 256 else f"{case.size} pixels", case.wrong) if t)
        gap = best["psnr"] - default["psnr"]
        halves[case.rule].append((case, gap, default["psnr"] - classic["psnr"], default["psnr"] - old))
        show = lambda v: "" if not np.isfinite(v) else f"{v:.2f}"
        lines.append(f"| {case.name} | {case.picture} {case.operator}, {noise}{'; ' + differs if differs else ''} | {show(entry)} | "
                     f"{show(old)} | **{show(default['psnr'])}** | {show(best['psnr'])} ({best['method']}{', noise stated' if best['stated'] else ''}) | "
                     f"{show(classic['psnr'])} ({classic['note']}) | {gap:.2f} |")
    return lines, halves


def summary(halves):
    text = []
    for rule, title in ((True, "half by which the rule was chosen"), (False, "half set aside")):
        right = [h for h in halves[rule] if h[0].is_right]
        wrong = [h for h in halves[rule] if not h[0].is_right]
        if not right:
            continue
        gaps = np.array([g for _, g, _, _ in right])
        over = [d > 0 for _, _, d, _ in right if np.isfinite(d)]
        text.append(f"{title}: {len(right)} cases with a right model: {gaps.mean():.2f} dB below the best setting on average, "
                    f"{gaps.max():.2f} at worst; above the best classical method in {sum(over)} of {len(over)}.")
        if wrong:
            old = np.array([d for *_, d in wrong if np.isfinite(d)] or [np.nan])
            text.append(f"{title}: {len(wrong)} with a wrong model: {old.mean():+.2f} dB on average against `pgd` with 20 steps, "
                        f"{old.min():+.2f} at worst; {np.mean([g for _, g, _, _ in wrong]):.2f} dB below the best setting.")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--half", choices=["rule", "check", "both", "new"], default="both")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--settings", default="", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--older", type=Path, help="the folder of another build: the default by both, in turn, with times")
    parser.add_argument("--size", type=int, help="with --older: sides of the pictures in place of the cases' own")
    parser.add_argument("--ranks", type=int, default=1, help="with --older")
    parser.add_argument("--again", default="", help="settings whose kept results are made anew")
    o = parser.parse_args()
    o.build = o.build.resolve()
    o.work = (o.work or o.build / "bench" / "defaults").resolve()
    o.work.mkdir(parents=True, exist_ok=True)
    cases = [c for c in CASES if o.only or c.name[0] in {"rule": "r", "check": "c", "both": "rc", "new": "n"}[o.half]]
    if o.only:
        cases = [c for c in cases if c.name in o.only.split(",")]
    if o.older:
        o.older = o.older.resolve()
        compare(o, [dataclasses.replace(c, size=o.size) for c in cases] if o.size else cases)
        return
    tasks = []
    for case in cases:
        names = FOR_VOLUMES if case.picture == "volume" else list(SETTINGS)
        if o.settings:
            names = [n for n in names if n in o.settings.split(",")]
        tasks += [("run", (o, case, name, stated)) for name in names for stated in (False, True)
                  if not stated or (name in STATED and not case.wrong.startswith("noise"))]
        if not o.settings:
            tasks += [("classical", (o, case)), ("measurement", (o, case))]
    kept_file = o.work / "kept.jsonl"
    kept = dict(json.loads(line) for line in kept_file.read_text().splitlines()) if kept_file.exists() else {}
    again = o.again.split(",") if o.again else []

    def key(task):
        what, (_, case, *rest) = task
        own = SETTINGS[rest[0]] if rest else ""
        return hashlib.sha256(repr((what, case, rest, own)).encode()).hexdigest()

    missing = [t for t in tasks if key(t) not in kept or (t[0] == "run" and t[1][2] in again)]
    with multiprocessing.get_context("fork").Pool(o.jobs) as pool, open(kept_file, "a") as file:
        for k, (task, row) in enumerate(zip(missing, pool.imap(call, missing))):
            kept[key(task)] = row
            print(json.dumps([key(task), row]), file=file, flush=True)
            print(f"{k + 1}/{len(missing)}  {row['case']}  {row['method']}{' stated' if row['stated'] else ''}  "
                  f"{row['psnr']:.2f} dB  {row['note']}", flush=True)
    rows = [kept[key(t)] for t in tasks]
    with open(o.work / "defaults.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines, halves = table(rows, cases)
    page = ["| case | what | input | pgd, 20 steps | default | best setting | best classical | gap |", "|---|---|---|---|---|---|---|---|", *lines, "",
            *summary(halves)]
    (o.work / "defaults.md").write_text("\n".join(page) + "\n")
    print("\n".join(page))
    failed = [r for r in rows if not np.isfinite(r["psnr"]) and not (r["method"] in ("classical", "input"))]
    for r in failed:
        print(f"failed: {r['case']} {r['method']}: {r['note']}", file=sys.stderr)


if __name__ == "__main__":
    main()
