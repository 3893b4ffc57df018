#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What bfloat16 costs a denoised picture, by where it is rounded: in features and weights alone, and, as products of pairs
want it, in Winograd's domain too (F(2 x 2) and our F(4 x 4)). In torch, so that it needs no processor with the instructions.

  .venv/bin/python tests/bench/winograd_rounding.py WEIGHTS NOISE PICTURE...   a shipped drunet_*, noise of 255

Prints the mean PSNR of float32 and the mean and largest loss of each form. Pictures are cut to 320 x 320.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file

torch.set_grad_enabled(False)
FEWEST, DIRECT, SIDE = 16, 4, 320  # inputs from which, outputs up to which a layer is not Winograd's; pixels
FORMS = {"features": None, "F(2 x 2)": (2, [0, 1, -1]), "F(4 x 4)": (4, [0, 0.5**0.5, -(0.5**0.5), 2**0.5, -(2**0.5)])}


def rounded(x):
    return x.to(torch.bfloat16).float()


def transforms(m, points):
    """A^T, G, B^T of F(m, 3); infinity comes last."""
    n = len(points) + 1
    a = np.array([[p**i for p in points] + [float(i == m - 1)] for i in range(m)])
    g = np.array([[p**i / np.prod([p - q for q in points if q != p]) for i in range(3)] for p in points] + [[0, 0, 1]])
    products = (a[:, None] * g.T[None]).reshape(3 * m, n)
    wanted = np.array([np.arange(n) == i + j for i in range(m) for j in range(3)], float)
    return [torch.tensor(t, dtype=torch.float32) for t in (a, g, np.linalg.lstsq(products, wanted, rcond=None)[0])]


def winograd(x, w, m, points):
    a, g, b = transforms(m, points)
    height, width = x.shape[2:]
    x = F.pad(x, (1, 1 + -width % m, 1, 1 + -height % m)).unfold(2, len(b), m).unfold(3, len(b), m)
    v = rounded(torch.einsum("pi,bcxyij,qj->pqbcxy", b, x, b))
    u = rounded(torch.einsum("pa,ocab,qb->pqoc", g, w, g))
    y = torch.einsum("ip,pqboxy,jq->boxiyj", a, torch.einsum("pqbcxy,pqoc->pqboxy", v, u), a)
    return y.flatten(4, 5).flatten(2, 3)[:, :, :height, :width]


def denoised(x, weights, form):
    """The network; `form` None: float32."""
    kept = (lambda t: t) if form is None else rounded

    def conv(x, name):
        w = weights[name + ".weight"]
        domain = FORMS.get(form)
        if domain and x.shape[1] >= FEWEST and w.shape[0] > DIRECT:
            return winograd(x, rounded(w), *domain)
        return F.conv2d(x, kept(w), padding=1)

    def block(x, name):
        return kept(x + conv(kept(F.relu(conv(x, name + ".res.0"))), name + ".res.2"))

    levels = [kept(conv(kept(x), "m_head"))]
    for i in (1, 2, 3):
        x = block(levels[-1], f"m_down{i}.0")
        levels.append(kept(F.conv2d(x, kept(weights[f"m_down{i}.1.weight"]), stride=2)))
    y = block(levels[3], "m_body.0")
    for i in (3, 2, 1):
        y = F.conv_transpose2d(kept(y + levels[i]), kept(weights[f"m_up{i}.0.weight"]), stride=2)
        y = block(kept(y), f"m_up{i}.1")
    return conv(kept(y + levels[0]), "m_tail")


def main():
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    name, noise, pictures = sys.argv[1], float(sys.argv[2]) / 255, sys.argv[3:]
    weights = load_file(Path(__file__).parents[2] / "data/weights" / f"{name}.safetensors")
    kind = "RGB" if weights["m_tail.weight"].shape[0] == 3 else "L"
    psnr = {form: [] for form in (None, *FORMS)}
    for file in pictures:
        pixels = np.atleast_3d(np.asarray(Image.open(file).convert(kind), np.float32))[:SIDE, :SIDE] / 255
        truth = torch.tensor(pixels[: len(pixels) // 8 * 8, : pixels.shape[1] // 8 * 8]).permute(2, 0, 1)[None]
        noisy = truth + noise * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
        x = torch.cat([noisy, torch.full_like(truth[:, :1], noise)], 1)
        for form, values in psnr.items():
            values.append(-10 * math.log10(((denoised(x, weights, form) - truth) ** 2).mean()))
    exact = np.array(psnr.pop(None))
    print(f"{name}, noise {255 * noise:g}, {len(pictures)} pictures: float32 {exact.mean():.3f} dB")
    for form, values in psnr.items():
        lost = exact - np.array(values)
        print(f"  {form:9} loses {lost.mean():.4f} dB in the mean, {lost.max():.4f} at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
