#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of denoising_psnr.sh: noisy pictures, runs, scores and the page. Noise levels in gray levels of 255."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import h5py
import numpy as np
import skimage.data
import skimage.io
import torch
from safetensors import safe_open

LEVELS = (15, 25, 50)
SHIPPED = {f"drunet_{name}{version}": name.split("_")[1] for name in ("small_gray", "wide_gray", "small_color") for version in ("", "_stable")}
SETS = {"gray": ("set12", "Set12"), "color": ("set5", "Set5")}
SOLVERS = ("pgd", "fista", "hqs", "admm", "red")
# Set12, from Zhang et al., IEEE Trans. Pattern Anal. Mach. Intell. 44 (2022) 6360 (DPIR).
PUBLISHED = {"BM3D": (32.37, 29.97, 26.72), "DnCNN": (32.86, 30.44, 27.18), "FFDNet": (32.75, 30.43, 27.32), "DRUNet": (33.25, 30.94, 27.90)}


def pictures(folder):
    """(C, H, W) float32 in 0 to 1, in the order of their names."""
    for file in sorted(p for p in folder.iterdir() if p.suffix in (".png", ".bmp", ".tif", ".jpg")):
        picture = skimage.io.imread(file)
        yield picture[None] if picture.ndim == 2 else np.moveaxis(picture[..., :3], -1, 0)


def levels_of(weights):
    """The levels that a file's metadata say it was trained for, within 5 %; all where they say nothing."""
    with safe_open(weights, "np") as f:
        low, high = map(float, ((f.metadata() or {}).get("sigma_range") or "0,1").split(","))
    return [level for level in LEVELS if 0.95 * low <= level / 255 <= 1.05 * high]


def psnr(a, b):
    return -10 * np.log10(np.mean(np.square(a.astype(np.float64) - b.astype(np.float64))))


class Bench:
    def __init__(self, o):
        self.work = o.work
        self.program = (o.build / "bin/tessera").resolve()
        self.work.mkdir(parents=True, exist_ok=True)

    def tessera(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], cwd=self.work, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"tessera {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def denoise(self, noisy, level, network, weights):
        """(the image, seconds of the pass)"""
        np.save(self.work / "noisy.npy", noisy)
        said = self.tessera("denoise", "noisy.npy", "out.h5", "--sigma", level / 255, "--network", network, "--weights", weights, "--force")
        value, unit = re.search(r"rank: ([\d.]+) (ms|s)", said).groups()
        with h5py.File(self.work / "out.h5") as f:
            image = next(d for d in f.values() if isinstance(d, h5py.Dataset))[...]
        return image.reshape(noisy.shape), float(value) * (1e-3 if unit == "ms" else 1)


def scores(bench, data, network, weights, kind, levels):
    """Mean PSNR at each level, None where it is none of `levels`. One generator per set and level, so all networks see the same noise."""
    reached, before = [], []
    for level in LEVELS:
        generator = torch.Generator().manual_seed(0)
        out, noisy_psnr = [], []
        for picture in pictures(data / SETS[kind][0]):
            clean = picture.astype(np.float32) / np.float32(255)
            noisy = clean + np.float32(level / 255) * torch.randn(1, *clean.shape, generator=generator).numpy()[0]
            noisy_psnr.append(psnr(noisy, clean))
            if level in levels:
                image, _ = bench.denoise(noisy, level, network, weights)
                out.append(psnr(np.clip(image, 0, 1), clean))
        reached.append(statistics.mean(out) if out else None)
        before.append(statistics.mean(noisy_psnr))
    return reached, before


def seconds_per_megapixel(bench, side, networks, levels):
    """By name: the shortest of five passes over side x side pixels, all networks in turn, so that a slow minute meets them all."""
    pixels = np.random.default_rng(0).random((3, side, side), np.float32)
    passes = {name: [] for name in networks}
    for _ in range(5):
        for name, (weights, network, kind) in networks.items():
            passes[name].append(bench.denoise(pixels[:1] if kind == "gray" else pixels, levels[name][0], network, weights)[1])
    return {name: min(p) / (side * side / 1e6) for name, p in passes.items()}


def stability(bench, network, weights, kind):
    """By solver: best and written PSNR of 1,000 iterations at a low level, the last residual, the gain at the result."""
    picture = skimage.data.camera()[100:228, 180:308] if kind == "gray" else skimage.data.astronaut()[40:168, 130:258]
    skimage.io.imsave(bench.work / f"{kind}.png", picture, check_contrast=False)
    rows = {}
    for solver in SOLVERS:
        (bench.work / "job.yaml").write_text(
            f"problem:\n  truth: {kind}.png\n  operator: {{type: blur, kernel: {{gaussian: {{sigma: 1.6}}}}}}\n  noise: {{gaussian: 0.01}}\n"
            f"denoiser: {{network: {network}, weights: {weights}}}\n"
            f"solver: {{name: {solver}, iterations: 1000, sigma: 0.02, stop: {{rounding: false}}}}\n"
            "output: {folder: out, preview: none, checkpoint: {keep: 0}}\n")
        shutil.rmtree(bench.work / "out", ignore_errors=True)  # a run that fails leaves no figures of the one before
        subprocess.run([bench.program, "run", "job.yaml", "--force"], cwd=bench.work, stdout=subprocess.DEVNULL, check=False)
        summary = json.loads((bench.work / "out/summary.json").read_text())
        with h5py.File(bench.work / "out/trace/rank-00000.h5") as f:
            table = f["iterations"][...]
        rows[solver] = {"best": float(np.nanmax(table["psnr"])), "written": summary["psnr"], "iterations": len(table),
                        "residual": float(table["residual"][-1]), "status": summary["status"]}
        print(f"  {solver}: {rows[solver]}", flush=True)
    return rows


def page(results, o):
    def row(*cells):
        return "| " + " | ".join(str(c) for c in cells) + " |"

    command = f"tests/bench/denoising_psnr.sh --data FOLDER{''.join(' --weights ' + w.split('=')[0] + '=...' for w in o.weights)}"
    lines = ["# Weights", "",
             f"What the shipped weights reach, measured by `{command}` on {results['cpu']}, {results['cores']} cores. How they were trained, and "
             "their checksums: [data/weights](../data/weights/README.md).", "", "## Denoising", ""]
    for kind, (_, name) in SETS.items():
        some = {w: r for w, r in results["weights"].items() if r["kind"] == kind}
        noisy = next(iter(some.values()))["noisy"]
        lines += [f"Mean PSNR over {name} ({kind}), dB:", "", row("weights", *(f"{level}/255" for level in LEVELS), "s per megapixel"), "|---|---|---|---|---|",
                  row("the noisy pictures", *(f"{v:.2f}" for v in noisy), "")]
        lines += [row(f"`{w}`" if w in SHIPPED else w, *("-" if v is None else f"{v:.2f}" for v in r["psnr"]), f"{r['seconds']:.2f}") for w, r in some.items()]
        if kind == "gray":
            lines += [row(f"{m}, published", *(f"{v:.2f}" for v in values), "") for m, values in PUBLISHED.items()]
        lines.append("")
    lines += ["Pictures divided by 255; seeded noise, neither clipped nor rounded, the same for all; the whole picture in float32; the result clamped to "
              "[0, 1]; PSNR over all pixels and channels, then the mean over the pictures. A dash: weights for one noise level, and another one. Time: the shortest of five passes over 1024 x 1024 pixels on all "
              "cores, all networks in turn. Published: Zhang et al., IEEE Trans. Pattern Anal. Mach. Intell. 44 (2022) 6360; whether their noisy pictures were clipped or "
              "rounded is not said. Set5 stands alone: those tables have no figures for it. "
              "The validation of `tessera train` draws other noise: its figures differ in the second decimal.", ""]
    some = {w: r for w, r in results["weights"].items() if "stability" in r}
    if some:
        lines += ["## A thousand iterations", "",
                  "Blur 1.6, noise 0.01, sigma 0.02 throughout, a 128 x 128 crop (gray: camera, color: astronaut), 1,000 iterations. Best: of all iterations; "
                  "written: what the run gives back, dB; and the last residual. A lower level than a job takes by itself: `denoiser.weights: auto` and "
                  "`solver.sigma: auto` avoid what is unstable here ([solvers](solvers.md#how-long)).", "",
                  row("weights", *(f"`{s}`" for s in SOLVERS)), "|---|" + "---|" * len(SOLVERS)]
        for w, r in some.items():
            def cell(s):
                short = "" if s["iterations"] == 1000 else f", {s['status']} after {s['iterations']}"
                return f"{s['best']:.2f} / {s['written']:.2f}, {s['residual']:.0e}{short}"
            lines.append(row(f"`{w}`" if w in SHIPPED else w, *(cell(r["stability"][s]) for s in SOLVERS)))
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", action="append", default=[], metavar="NAME=FILE:NETWORK:KIND")
    parser.add_argument("--no-stability", action="store_true")
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--page", type=Path)
    o = parser.parse_args()
    o.work = (o.work or o.build / "bench/weights").resolve()
    bench = Bench(o)

    networks = {name: (name, "drunet", kind) for name, kind in SHIPPED.items()}
    for text in o.weights:
        name, _, rest = text.partition("=")
        file, network, kind = rest.rsplit(":", 2)
        networks[name] = (str(Path(file).resolve()), network, kind)
    with open("/proc/cpuinfo") as f:
        cpu = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    results = {"cpu": cpu, "cores": os.cpu_count(), "weights": {}}
    levels = {name: levels_of(f"data/weights/{weights}.safetensors" if name in SHIPPED else weights) for name, (weights, _, _) in networks.items()}
    for name, trained in levels.items():
        if not trained:
            raise SystemExit(f"{name} was trained for none of {LEVELS} (nothing to measure) leave it out")
    seconds = seconds_per_megapixel(bench, o.side, networks, levels)
    for name, (weights, network, kind) in networks.items():
        reached, noisy = scores(bench, o.data, network, weights, kind, levels[name])
        print(f"{name}: {', '.join('-' if v is None else f'{v:.3f}' for v in reached)} dB, {seconds[name]:.2f} s per megapixel", flush=True)
        results["weights"][name] = {"kind": kind, "psnr": reached, "noisy": noisy, "seconds": seconds[name]}
        if not o.no_stability and name in SHIPPED:
            results["weights"][name]["stability"] = stability(bench, network, weights, kind)
    (o.work / "weights.json").write_text(json.dumps(results, indent=1))
    target = o.page or (o.work / "weights.md" if o.no_stability else Path("docs/weights.md"))
    target.write_text(page(results, o))
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
