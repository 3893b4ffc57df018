# SPDX-License-Identifier: BSD-3-Clause
"""deepinv's DRUNet and DnCNN for volumes (dim=3): what their names and shapes have to be, and the activation by a trial."""
import re

import torch
from torch.nn import functional as f

from . import Refused, evidence
from .parts import Network, Weights

SIDE = 24
OTHER = {"elu": f.elu, "leaky:0.01": lambda x: f.leaky_relu(x, 0.01), "leaky:0.2": lambda x: f.leaky_relu(x, 0.2), "gelu": f.gelu, "silu": f.silu}
ELSE = "use one of these, whose names are deepinv's; no other network of volumes is known"


def of_volumes(state):
    return any(value.ndim == 5 for value in state.values())


def kernels(state, sides, what):
    """Name -> (kernel, bias); Refused unless they are all there is and have these sides. `sides`: of each name."""
    weights = Weights(state)
    found = {name: weights.conv(name, 5) for name in sides}
    for name, (weight, _) in found.items():
        if tuple(weight.shape[2:]) != (sides[name],) * 3:
            raise Refused(f"{name}.weight of {what} is {'x'.join(map(str, weight.shape))} (its kernels are of 3x3x3, and of 2x2x2 where the scale changes) {ELSE}")
    weights.done()
    return found


def drunet3d(state):
    what = "a DRUNet of volumes"
    blocks, scales = 0, 1
    while f"m_body.{blocks}.res.0.weight" in state:
        blocks += 1
    while f"m_down{scales}.{blocks}.weight" in state:
        scales += 1
    if blocks == 0 or scales == 1:
        raise Refused(f"{what} has no {'block in its body' if blocks == 0 else 'strided convolution behind its first blocks'} (as DRUNet names them) {ELSE}")
    stages = [f"m_down{s}.{b}" for s in range(1, scales) for b in range(blocks)] + [f"m_body.{b}" for b in range(blocks)]
    stages += [f"m_up{s}.{b + 1}" for s in range(1, scales) for b in range(blocks)]
    sides = {"m_head": 3, "m_tail": 3} | {f"{stage}.res.{i}": 3 for stage in stages for i in (0, 2)}
    sides |= {f"m_down{s}.{blocks}": 2 for s in range(1, scales)} | {f"m_up{s}.0": 2 for s in range(1, scales)}
    convs = kernels(state, sides, what)
    if any(bias is not None for _, bias in convs.values()):
        raise Refused(f"{what} has biases (the published one has none) {ELSE}")
    w = {name: weight for name, (weight, _) in convs.items()}
    channels = len(w["m_tail"])
    if w["m_head"].shape[1] != channels + 1:
        raise Refused(f"{what} takes {w['m_head'].shape[1]} channels and makes {channels} (an image and its noise level, and an image, are expected) {ELSE}")

    @torch.no_grad()
    def denoise(y, sigma, activation):
        def stage(x, name, first):
            for b in range(first, first + blocks):
                x = x + f.conv3d(activation(f.conv3d(x, w[f"{name}.{b}.res.0"], padding=1)), w[f"{name}.{b}.res.2"], padding=1)
            return x
        skips = [f.conv3d(torch.cat([y, torch.full_like(y[:, :1], sigma)], 1), w["m_head"], padding=1)]
        for s in range(1, scales):
            skips.append(f.conv3d(stage(skips[-1], f"m_down{s}", 0), w[f"m_down{s}.{blocks}"], stride=2))
        x = stage(skips[-1], "m_body", 0)
        for s in range(scales - 1, 0, -1):
            x = stage(f.conv_transpose3d(x + skips[s], w[f"m_up{s}.0"], stride=2), f"m_up{s}", 1)
        return f.conv3d(x + skips[0], w["m_tail"], padding=1)

    judged = relu(denoise, channels, scales)
    widths = [len(w["m_head"]), *(len(w[f"m_down{s}.{blocks}"]) for s in range(1, scales))]
    about = {"channels": str(channels), "blocks": str(blocks), "widths": ",".join(map(str, widths))}
    return Network("drunet3d", what, known={"activation": "relu"}, words=judged,
                   named=lambda _: ("drunet3d", {f"{name}.weight": weight for name, weight in w.items()}, about))


def relu(denoise, channels, scales):
    """Words on the trial on drawn balls. Refused where another activation denoises them better."""
    random = torch.Generator().manual_seed(1)
    side = max(SIDE >> (scales - 1), 2) << (scales - 1)
    at = torch.arange(side) + 0.5
    clean = torch.full((2, channels, side, side, side), 0.2)
    for volume in clean:
        for _ in range(12):
            z, y, x, r, *gray = torch.rand(4 + channels, generator=random).tolist()
            inside = (at[:, None, None] - side * z) ** 2 + (at[:, None] - side * y) ** 2 + (at - side * x) ** 2 < (2 + 6 * r) ** 2
            volume[:, inside] = 0.1 + 0.8 * torch.tensor(gray)[:, None]
    sigma = 0.1
    noisy = clean + sigma * torch.randn(clean.shape, generator=random)

    def decibels(image):
        return -10 * torch.log10((torch.nan_to_num(image, nan=1e6) - clean).square().mean()).item()

    before, as_relu = decibels(noisy), decibels(denoise(noisy, sigma, f.relu))
    best, name = max((decibels(denoise(noisy, sigma, activation)), name) for name, activation in OTHER.items())
    if best > max(before + 1, as_relu + evidence.CLEARLY):
        raise Refused(f"a DRUNet of volumes that denoises drawn balls {best - as_relu:.1f} dB better with activation {name} than with relu (names and shapes do not show it; tessera's "
                      "drunet3d has relu) train or use one with relu")
    if as_relu > before + 3:
        return f"activation relu: as that it takes {as_relu - before:.1f} dB of noise from drawn balls"
    return "activation relu: not confirmed, as that it does not denoise drawn balls well (is it trained, and for noise?)"


def dncnn3d(state):
    depth = 2
    while f"conv_list.{depth - 2}.weight" in state:
        depth += 1
    names = ["in_conv", *(f"conv_list.{i}" for i in range(depth - 2)), "out_conv"]
    convs = kernels(state, dict.fromkeys(names, 3), "a DnCNN of volumes")
    widths = {len(convs[name][0]) for name in names[:-1]}
    channels = convs["in_conv"][0].shape[1]
    if len(widths) != 1 or len(convs["out_conv"][0]) != channels:
        raise Refused(f"a DnCNN of volumes has {len(widths)} widths and makes {len(convs['out_conv'][0])} channels of {channels} (deepinv's has one width, and a denoiser keeps the channels) {ELSE}")
    tensors = {f"{name}.weight": weight for name, (weight, _) in convs.items()}
    tensors |= {f"{name}.bias": torch.zeros(len(weight)) if bias is None else bias for name, (weight, bias) in convs.items()}
    about = {"channels": str(channels), "widths": str(widths.pop()), "depth": str(depth), "residual": "1"}
    known = {"residual": "add", "dilation": "1", "activation": "relu", "padding": "zeros"}
    return Network("dncnn3d", "deepinv's DnCNN of volumes", known=known, named=lambda _: ("dncnn3d", tensors, about))


def identify(state):
    """The Network of a state dict with kernels of volumes, or None."""
    if "m_head.weight" in state and any(re.search(r"\.res\.", k) for k in state):
        return drunet3d(state)
    if "in_conv.weight" in state and "out_conv.weight" in state:
        return dncnn3d(state)
    return None
