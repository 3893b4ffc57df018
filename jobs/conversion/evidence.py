# SPDX-License-Identifier: BSD-3-Clause
"""What a state dict does not show, tried: the weights denoise drawn scenes, and only as what they were trained as do they do it well."""
import copy
import functools
import itertools
import math
from dataclasses import dataclass

import torch
from torch.nn import functional as f

LEVELS = (25 / 255, 50 / 255, 15 / 255, 5 / 255, 2 / 255)
SIDE = 48
WELL = 1.5     # dB above the best smoothing, which weights reach only as what they are
CLEARLY = 0.2  # dB between two, and five standard errors


@functools.lru_cache
def scenes(channels, count):
    """Dead leaves: disks over disks, drawn twice as large."""
    random = torch.Generator().manual_seed(1)
    at = torch.arange(2 * SIDE) + 0.5
    pictures = torch.zeros(count, channels, 2 * SIDE, 2 * SIDE)
    for picture in pictures:
        for _ in range(80):
            x, y, r, gray, *color = torch.rand(4 + channels, generator=random).tolist()
            inside = (at - 2 * SIDE * x) ** 2 + (at[:, None] - 2 * SIDE * y) ** 2 < (6 / (1.02 - r) ** 0.7) ** 2
            picture[:, inside] = 0.15 + 0.55 * gray + 0.15 * torch.tensor(color)[:, None]
    return f.avg_pool2d(pictures, 2)


def denoised(network, layers, y, sigma, padding):
    """What the layers make of y; of a gradient step's N, D(y)."""
    if not network.gradient:
        with torch.no_grad():
            return layers.evaluate(y, sigma, padding)
    y = y.clone().requires_grad_()
    n = layers.evaluate(y, sigma, padding)
    rest = (y - n).detach()
    back, = torch.autograd.grad(n, y, rest)
    return (n + back).detach()


def decibels(x, clean):
    """PSNR of each picture."""
    return -10 * torch.log10((x - clean).square().mean((1, 2, 3)).clamp(min=1e-12))


def smoothed(y, clean):
    """The PSNR that the best Gaussian reaches."""
    best = decibels(y, clean)
    for width in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        at = torch.arange(-4, 5)
        line = torch.exp(-at ** 2 / (2 * width ** 2))
        line = (line / line.sum()).expand(y.shape[1], 1, 1, 9)
        z = f.conv2d(f.pad(y, [4] * 4, mode="reflect"), line, groups=y.shape[1])
        best = torch.maximum(best, decibels(f.conv2d(z, line.transpose(2, 3), groups=y.shape[1]), clean))
    return best


class Trial:
    """The weights on noisy scenes, as each of what they may be."""

    def __init__(self, network):
        self.network, self.made, self.seen, self.floor = network, {}, {}, {}
        layers = self.layers({**network.known, **{fact: values[0] for fact, values in network.facts.items()}})
        large = sum(t.numel() for tensors in layers.tensors for t in tensors.values()) > 1e6
        self.clean = scenes(layers.channels[0], 4 if large else 8)
        self.noise = torch.randn(self.clean.shape, generator=torch.Generator().manual_seed(2))

    def layers(self, facts):
        key = tuple(sorted((k, v) for k, v in facts.items() if k not in ("padding", "step")))
        if key not in self.made:
            layers = self.network.layers(facts)
            layers.tensors = [{part: t.float() for part, t in tensors.items()} for tensors in layers.tensors]
            self.made[key] = layers
        return self.made[key]

    def image(self, facts, level):
        """What the weights make of the noisy scenes; the image and the network's output are joined here."""
        facts = {**self.network.known, **facts}
        body = {**facts, "residual": "none"}
        key = tuple(sorted((k, v) for k, v in body.items() if k != "step")), level
        y = self.clean + level * self.noise
        if key not in self.seen:
            out = denoised(self.network, self.layers(body), y, level, facts.get("padding", "zeros"))
            self.seen[key] = torch.nan_to_num(out, nan=1e6)
        out = self.seen[key]
        out = {"add": y + out, "subtract": y - out}.get(facts.get("residual"), out)
        return y + float(facts.get("step", 1)) * (out - y)

    def gain(self, facts, level):
        """dB above what smoothing reaches, the mean over the pictures."""
        if level not in self.floor:
            self.floor[level] = smoothed(self.clean + level * self.noise, self.clean)
        return (decibels(self.image(facts, level), self.clean) - self.floor[level]).mean().item()

    def lead(self, facts, other, level):
        """dB by which one is above the other for sure, picture by picture: 0 where that is not clear."""
        difference = decibels(self.image(facts, level), self.clean) - decibels(self.image(other, level), self.clean)
        mean, error = difference.mean().item(), (difference.std() / math.sqrt(len(difference))).item()
        return mean if abs(mean) > max(CLEARLY, 5 * error) else 0.0

    def alike(self, facts, other, level):
        a, b = self.image(facts, level), self.image(other, level)
        return ((a - b).abs().max() / a.abs().max()).item() < 2e-6


@dataclass
class Finding:
    facts: dict      # as what the weights denoise best
    gain: float      # dB above smoothing
    denoises: bool   # more than not at all
    unclear: list    # facts of which another value does as well
    lead: float      # dB above what was expected


def best(network, expected, sigma):
    """Tries the network as `expected` (fact -> value), then as what else it may be."""
    trial = Trial(network)
    start = {fact: expected.get(fact, values[0]) for fact, values in network.facts.items()}
    levels = ((sigma[1], math.sqrt(max(sigma[0], 1e-3) * sigma[1])) if sigma and sigma[1] > 0 else ()) + LEVELS
    if network.takes_level:
        levels = levels[:2]
    gain, level = max((trial.gain(start, level), level) for level in levels)
    facts = start
    if gain < WELL:  # what changes whole images, together; the others have to be right for no gain at all
        whole = [fact for fact in ("residual", "dilation", "skips", "step") if fact in network.facts] or list(network.facts)
        choices = [{**start, **dict(zip(whole, values))} for values in itertools.product(*(network.facts[fact] for fact in whole))]
        gain, level, i = max((trial.gain(choice, level), level, i) for i, choice in enumerate(choices) for level in levels)
        facts = choices[i]
    noisy = trial.clean + level * trial.noise
    denoises = (decibels(trial.image(facts, level), trial.clean) - decibels(noisy, trial.clean)).mean().item() > 1
    tried = {fact: values for fact, values in network.facts.items() if "instance" not in values}  # an instance norm has no list of layers
    if denoises:
        for fact, values in tried.items():
            above = max(({**facts, fact: value} for value in values), key=lambda other: trial.lead(other, facts, level))
            facts = above if trial.lead(above, facts, level) > 0 else facts
    unclear = [fact for fact, values in tried.items()
               if any(trial.lead(facts, other, level) <= 0 and not trial.alike(facts, other, level)
                      for value in values if (other := {**facts, fact: value}) != facts)]
    return Finding(facts, trial.gain(facts, level), denoises, unclear, trial.lead(facts, {**facts, **expected}, level))


# What a module may take or give in place of an image and a level in [0, 1] and of the image: words, and how it is called then.
FOREIGN = (("its output is the noise, not the image", lambda net, y, s: y - net(y, s)),
           ("its output is the noise with the other sign", lambda net, y, s: y + net(y, s)),
           ("its noise level is one of 0 to 255", lambda net, y, s: net(y, 255 * s)),
           ("its noise level is one of 0 to 255, and its output is the noise", lambda net, y, s: y - net(y, 255 * s)),
           ("its images are of 0 to 255", lambda net, y, s: net(255 * y, 255 * s) / 255),
           ("its images are of 0 to 255, and its level is of 0 to 1", lambda net, y, s: net(255 * y, s) / 255),
           ("its images are of 0 to 255, and its output is the noise", lambda net, y, s: y - net(255 * y, 255 * s) / 255),
           ("its images are of -1 to 1", lambda net, y, s: (net(2 * y - 1, 2 * s) + 1) / 2),
           ("its images are of -1 to 1, and its level is of 0 to 1", lambda net, y, s: (net(2 * y - 1, s) + 1) / 2))


def of_a_list(layers, sigma):
    """(what a list of layers denoises drawn scenes well as, dB above smoothing); ("", gain) is as it stands, an image and a level
    of 0 to 1. (None, gain): as nothing of what is tried."""
    leveled = any(node["op"] == "sigma_map" for node in layers.nodes)
    side = SIDE // layers.alignment() * layers.alignment()
    if side == 0:
        return None, 0.0
    clean = scenes(layers.channels[0], 4)[..., :side, :side]
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(2))
    levels = ((sigma[1], math.sqrt(max(sigma[0], 1e-3) * sigma[1])) if sigma and sigma[1] > 0 else ()) + LEVELS
    levels = levels[:2] if leveled else levels

    single = copy.copy(layers)
    single.tensors = [{part: t.float() for part, t in tensors.items()} for tensors in layers.tensors]

    @torch.no_grad()
    def net(y, s):
        return torch.nan_to_num(single.evaluate(y, s), nan=1e6)

    def gain(call):
        return max((decibels(call(net, clean + s * noise, s), clean) - smoothed(clean + s * noise, clean)).mean().item() for s in levels)

    found = {"": gain(lambda net, y, s: net(y, s))}
    if found[""] < WELL:
        found |= {words: gain(call) for words, call in FOREIGN if leveled or "level" not in words}
    most = max(found.values())
    words = next(words for words in found if found[words] > most - CLEARLY)  # a network without biases takes any range
    return (words if found[words] > WELL and (not words or found[words] > found[""] + 1) else None), found[words]
