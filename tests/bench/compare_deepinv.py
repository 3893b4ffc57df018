#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python part of compare_deepinv.sh: the problem, deepinv's two ways to run it, the table."""

import argparse
import json
import math
import statistics
import struct
import sys
import time
from pathlib import Path

import numpy as np

SIGMA_BLUR, STEP, SIGMA_DENOISER = 1.6, 1.0, 0.02


def network(name, weights=None):
    """deepinv's class with these weights; without them with seeded random ones that let every layer matter."""
    import torch
    from deepinv.models import DRUNet, DnCNN

    with torch.device("meta"):  # deepinv's own start takes half a minute
        net = (DRUNet if name == "drunet" else DnCNN)(pretrained=None, device=None)
    net = net.to_empty(device="cpu").eval().requires_grad_(False)
    torch.manual_seed(0)
    for key, w in net.state_dict().items():
        if weights is not None:
            w.copy_(weights[key])
        else:
            weak = ".res." in key or key == "out_conv.weight"  # branches beside the identity
            w.normal_().mul_((0.3 if weak else 1.0) / math.sqrt(w[0].numel()) if w.ndim == 4 else 0.0)
    return net


def read_weights(path):
    import torch

    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for key, entry in header.items():
        first, last = entry["data_offsets"]
        raw = bytearray(data[8 + length + first : 8 + length + last])
        weights[key] = torch.frombuffer(raw, dtype=torch.float32).reshape(entry["shape"])
    return weights


def prepare(folder, size, name):
    """truth.png (8 bit, drawn by formula), weights.safetensors."""
    import torch
    from torchvision.io import write_png

    v, u = torch.meshgrid(*[torch.linspace(0, 1, size)] * 2, indexing="ij")
    rings = 0.5 + 0.4 * torch.sin(60 * (u - 0.4) ** 2 + 40 * (v - 0.6) ** 2)
    planes = [rings, 0.3 + 0.5 * u * (v > 0.5), torch.where((u - v).abs() < 0.05, 0.9, 0.2 + 0.3 * v)]
    write_png((torch.stack(planes) * 255).round().to(torch.uint8), str(folder / "truth.png"))

    header, blobs, at = {}, [], 0
    for key, w in sorted(network(name).state_dict().items()):
        raw = w.contiguous().numpy().tobytes()
        header[key] = {"dtype": "F32", "shape": list(w.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        blobs.append(raw)
    text = json.dumps(header).encode()
    with open(folder / "weights.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.writelines(blobs)


def iterate(folder, name, way, iterations, threads):
    """x <- D(x - step grad f(x), sigma), `iterations` + 1 times; the seconds of all but the first.

    `way` is untiled or tiled; tiled also inside torchrun, whose first process then speaks for all."""
    import os

    import torch
    from deepinv.distributed import DistributedContext, distribute
    from deepinv.optim import L2
    from deepinv.physics import BlurFFT, stack
    from deepinv.physics.functional import gaussian_blur
    from torchvision.io import read_image

    torch.set_num_threads(threads)
    with torch.no_grad(), DistributedContext(device_mode="cpu") as context:
        truth = read_image(str(folder / "truth.png"))[None] / 255.0
        kernel = gaussian_blur(sigma=(SIGMA_BLUR, SIGMA_BLUR)).reshape(1, 1, 13, 13)
        physics, fidelity = BlurFFT(img_size=truth.shape[1:], filter=kernel), L2()
        net = network(name, read_weights(folder / "weights.safetensors"))
        if way == "tiled":  # everything by default: patches of 256, overlap 64, all of them in one batch
            physics = distribute(stack(physics), context)
            fidelity, net = distribute(fidelity, context), distribute(net, context)
        y = physics.A(truth)
        x = physics.A_adjoint(y)
        seconds = []
        for _ in range(iterations + 1):
            start = time.perf_counter()
            x = net(x - STEP * fidelity.grad(x, y, physics), SIGMA_DENOISER)
            seconds.append(time.perf_counter() - start)
        if int(os.environ.get("RANK", 0)) > 0:
            return
    np.save(folder / f"{way}.npy", x[0].numpy())
    (folder / f"{way}.txt").write_text(" ".join(map(str, seconds[1:])))


def tessera_seconds(folder):
    """Seconds of the iterations of a run, all but the first, from its trace; h5py is in tessera's .venv."""
    import h5py

    with h5py.File(folder / "tessera" / "trace" / "rank-00000.h5") as trace:
        print(*trace["iterations"]["seconds"][1:])


def report(folder, tolerance, targets):
    import h5py

    rounds = {}  # per program, the median of each round
    for line in (folder / "seconds.txt").read_text().splitlines():
        label, *values = line.split()
        rounds.setdefault(label, []).append(statistics.median(map(float, values)))
    with h5py.File(folder / "tessera" / "reconstruction.h5") as file:
        images = {"tessera": file["image"][:] / 255.0}  # written in the units of truth.png
    images |= {name: np.load(folder / f"{name}.npy") for name in ("untiled", "tiled")}
    images["tiled2"] = images["tiled"]
    exact = images["untiled"]
    titles = {
        "tessera": "tessera",
        "untiled": "deepinv, untiled",
        "tiled": "deepinv.distributed, 1 process",
        "tiled2": "deepinv.distributed, 2 processes",
    }
    print(f"{'':34}{'median s':>10}{'least s':>10}{'ratio':>8}{'least':>8}{'most':>8}{'target':>8}{'difference':>12}")
    for label in [name for name in titles if name in rounds]:
        ratios = [theirs / ours for theirs, ours in zip(rounds[label], rounds["tessera"])]
        difference = np.abs(images[label] - exact).max() / np.abs(exact).max()
        target = 0 if label == "tessera" else targets[0 if label == "untiled" else 1]
        reached = "" if not target else "  reached" if statistics.median(ratios) >= target else "  missed"
        print(
            f"{titles[label]:34}{statistics.median(rounds[label]):10.3f}{min(rounds[label]):10.3f}"
            f"{statistics.median(ratios):8.2f}{min(ratios):8.2f}{max(ratios):8.2f}"
            f"{f'{target:.1f}' if target else '':>8}{difference:12.1e}{reached}"
        )
    print("ratio: to tessera's time in the same round, median, least and most of the rounds")
    print("difference: from deepinv's untiled image, the largest, as a share of its maximum")
    difference = np.abs(images["tessera"] - exact).max() / np.abs(exact).max()
    if not difference < tolerance:
        sys.exit(f"tessera's image differs from deepinv's by {difference:.1e} (more than {tolerance:.0e})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prepare", "untiled", "tiled", "tessera", "report"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--network", choices=["drunet", "dncnn"], default="drunet")
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--targets", type=float, nargs=2, default=[0, 0], help="ratios: untiled, distributed")
    o = parser.parse_args()
    if o.what == "prepare":
        prepare(o.folder, o.size, o.network)
    elif o.what == "tessera":
        tessera_seconds(o.folder)
    elif o.what == "report":
        report(o.folder, o.tolerance, o.targets)
    else:
        iterate(o.folder, o.network, o.what, o.iterations, o.threads)


if __name__ == "__main__":
    main()
