#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""A drunet or drunet3d of twice the widths that computes the same, for a longer training to begin with.

  jobs/widen_weights.py drunet3d_small.safetensors wide.safetensors

Every channel is there twice, and what reads it takes half from each, a little more from one than from the other:
without that both would learn the same. Source: Chen, Goodfellow, Shlens, "Net2Net", ICLR 2016.
"""
import argparse
import os
import sys

if __name__ == "__main__":
    from own_python import need

    need("safetensors", "torch")

import torch
from average_weights import read
from convert_weights import write
from safetensors import SafetensorError

UNEVEN = 0.3  # of the weights' own size


def refuse(message):
    sys.exit(f"widen_weights.py: {message}")


def widened(name, weight, draws):
    """Kernels (out, in, ...), those of upward steps (in, out, ...). The head's inputs and the tail's output stay."""
    up = name.startswith("m_up") and weight.shape[2] == 2
    weight = weight.double().transpose(0, 1) if up else weight.double()
    if name != "m_tail.weight":
        weight = torch.cat([weight, weight], 0)
    if name != "m_head.weight":
        half = weight / 2
        apart = UNEVEN * half.square().mean().sqrt() * torch.randn(half.shape, generator=draws, dtype=torch.float64)
        weight = torch.cat([half + apart, half - apart], 1)
    return (weight.transpose(0, 1) if up else weight).float().contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    tensors, about = read(o.weights)
    if about.get("network") not in ("drunet", "drunet3d") or "m_head.weight" not in tensors or \
            any(not name.endswith(".weight") or weight.dim() < 4 for name, weight in tensors.items()):
        refuse(f"{o.weights} holds no drunet as tessera trains it (kernels alone, m_head to m_tail) widen one of those")
    draws = torch.Generator().manual_seed(o.seed)
    wide = {name: widened(name, tensors[name], draws) for name in sorted(tensors)}
    widths = [2 * int(width) for width in about["widths"].split(",")]
    about = {key: value for key, value in about.items() if key not in ("steps", "seed", "training_seconds")}
    about |= {"widths": ",".join(map(str, widths)), "widened": os.path.basename(o.weights)}
    try:
        write(o.out, wide, about)
    except (OSError, SafetensorError) as error:
        refuse(f"{o.out} cannot be written ({error}) name another file")
    print(f"{o.out}: widths {about['widths']}")


if __name__ == "__main__":
    main()
