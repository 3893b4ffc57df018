# SPDX-License-Identifier: BSD-3-Clause
"""What all networks of others are to the converter, and how their weights, norms and activations are read."""
from dataclasses import dataclass, field
from typing import Callable

import torch

from . import Refused

TRACE = "convert the module itself, whose code shows all (torch.jit.script(module.eval()).save('mine.pt'))"


@dataclass
class Network:
    name: str                                # as --network has it
    says: str                                # what it is, in words
    facts: dict = field(default_factory=dict)  # not shown -> the values that may be, the published one first
    known: dict = field(default_factory=dict)  # facts that the names do show
    layers: Callable = None                  # of facts; None: layers that have no list here
    named: Callable = None                   # of facts: (network, tensors, metadata), or None: it is no network by name
    gradient: bool = False                   # the layers are N of a gradient step
    takes_level: bool = False
    words: str = ""                          # on a trial of its own


class Weights:
    """A state dict of which each tensor is to be read."""

    def __init__(self, state):
        self.state, self.read = state, set()

    def get(self, name):
        if name in self.state:
            self.read.add(name)
        return self.state.get(name)

    def conv(self, name, axes=4):
        weight = self.get(name + ".weight")
        if weight is None or weight.ndim != axes:
            raise Refused(f"{name}.weight is {'missing' if weight is None else 'x'.join(map(str, weight.shape))} (a convolution's kernel is expected there) {TRACE}")
        return weight, self.get(name + ".bias")

    def norm(self, name):
        """The parts of a norm with running statistics, or None where there is none."""
        if f"{name}.running_var" not in self.state:
            return None
        parts = {part: self.get(f"{name}.{part}") for part in ("weight", "bias", "running_mean", "running_var")}
        var = parts["running_var"].double()
        plain = {"weight": torch.ones_like(var), "bias": torch.zeros_like(var), "running_mean": torch.zeros_like(var)}
        return {part: plain[part] if value is None else value.double() for part, value in parts.items()}

    def done(self):
        extra = sorted(self.state.keys() - self.read)
        if extra:
            raise Refused(f"{len(extra)} tensors are of no layer of it, such as {', '.join(extra[:4])} (another network, or another version of it) {TRACE}")


def affine(norm, kind):
    """(scale, shift) of a norm at evaluation."""
    kind, eps = kind.split(":")
    deviation = norm["running_var"].sqrt() + float(eps) if kind == "biasfree" else torch.sqrt(norm["running_var"] + float(eps))
    scale = norm["weight"] / deviation
    return scale, norm["bias"] - norm["running_mean"] * scale


def normed(name, norm, kind):
    """As tessera's batch norms, whose constant is 1e-5: of another kind, with a variance that makes up for it."""
    if kind != "batch:1e-5":
        scale, shift = affine(norm, kind)
        norm = {"weight": scale, "bias": shift, "running_mean": torch.zeros_like(scale), "running_var": torch.ones_like(scale) - 1e-5}
    return {f"{name}.{part}": value.float() for part, value in norm.items()}


def activate(layers, x, activation):
    name, _, slope = activation.partition(":")
    if name != "leaky":
        return layers.add(name, [x], layers.channels[x])
    bent = layers.scaled(layers.add("relu", [x], layers.channels[x]), 1 - float(slope))
    return layers.add("add", [bent, layers.scaled(x, float(slope))], layers.channels[x])
