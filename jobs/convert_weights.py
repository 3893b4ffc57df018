#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch checkpoint (.pth, .pt, .ckpt) -> safetensors that tessera loads.

  jobs/convert_weights.py drunet_color.pth drunet_color.safetensors --network drunet --sigma 0 50/255
  jobs/convert_weights.py GSDRUNet_torch.ckpt student.safetensors --prefix student_grad.model.

A checkpoint is a state dict, or holds one under state_dict, model_state_dict, params_ema, params or model. Only
tensors are unpickled, no code of the file runs. Counters of batch norms are dropped, DnCNN weights of DPIR and
KAIR (model.N) or DnCNN-PyTorch (dncnn.N) get the names that tessera uses, with their batch norms folded in.
"""
import argparse
import collections
import re
import sys
from fractions import Fraction

import torch
from safetensors.torch import save_file

CONTAINERS = ("state_dict", "model_state_dict", "params_ema", "params", "model")


def fail(message):
    sys.exit(f"convert_weights: {message}")


def unwrap(checkpoint):
    """The state dict inside a checkpoint."""
    while isinstance(checkpoint, collections.abc.Mapping):
        inside = next((checkpoint[k] for k in CONTAINERS if isinstance(checkpoint.get(k), collections.abc.Mapping)), None)
        if inside is None:
            return checkpoint
        checkpoint = inside
    fail(f"it holds a {type(checkpoint).__name__} (a state dict is expected) save model.state_dict()")


def strip(state, prefix):
    """Without `prefix`, keys that lack it dropped; by default without the `module.` of parallel training."""
    if prefix:
        kept = {k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix)}
        if not kept:
            heads = sorted({k.split(".")[0] for k in state})
            fail(f"no key begins with '{prefix}' (the keys begin with {', '.join(heads)}) correct --prefix")
        return kept
    return {re.sub(r"^module\.", "", k): v for k, v in state.items()}


def rename_dncnn(state):
    """Numbered layers -> in_conv, conv_list.i, out_conv; batch norms folded into the convolution before."""
    head = re.match(r"(dncnn|model)\.0\.weight$", next(iter(state)))
    if not head:
        return state
    layers = collections.defaultdict(dict)
    for key, value in state.items():
        _, index, part = key.split(".")
        layers[int(index)][part] = value.double()
    convs = []
    for index in sorted(layers):
        layer = layers[index]
        if "running_var" in layer:
            scale = layer["weight"] / torch.sqrt(layer["running_var"] + 1e-5)
            weight, bias = convs[-1]
            convs[-1] = (weight * scale[:, None, None, None], (bias - layer["running_mean"]) * scale + layer["bias"])
        else:
            weight = layer["weight"]
            convs.append((weight, layer.get("bias", torch.zeros(weight.shape[0], dtype=torch.float64))))
    # These networks predict the noise and subtract it; tessera's adds its last layer to the image.
    convs[-1] = (-convs[-1][0], -convs[-1][1])
    names = ["in_conv"] + [f"conv_list.{i}" for i in range(len(convs) - 2)] + ["out_conv"]
    return {f"{n}.{part}": t.float() for n, conv in zip(names, convs) for part, t in zip(("weight", "bias"), conv)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("output")
    parser.add_argument("--prefix", default="", help="keep the keys that begin so, and cut it off")
    parser.add_argument("--network", choices=("drunet", "dncnn", "unet"), help="written into the metadata")
    parser.add_argument("--sigma", nargs=2, metavar=("LOWEST", "HIGHEST"), help="trained noise levels, range [0, 1]")
    parser.add_argument("--license", default="", help="written into the metadata")
    args = parser.parse_args()

    if args.checkpoint.endswith(".safetensors"):
        from safetensors.torch import load_file
        checkpoint = load_file(args.checkpoint)
    else:
        try:
            checkpoint = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
        except Exception as error:
            fail(f"{args.checkpoint} cannot be read ({str(error).splitlines()[0]}) is it a PyTorch checkpoint?")
    state = strip(unwrap(checkpoint), args.prefix)
    state = {k: v for k, v in state.items() if isinstance(v, torch.Tensor) and not k.endswith("num_batches_tracked")}
    if not state:
        fail(f"{args.checkpoint} holds no tensors (nothing to convert) is it the right file?")
    state = rename_dncnn(state)
    state = {k: v.detach().float().contiguous().clone() for k, v in state.items()}

    metadata = {}
    if args.network:
        metadata["network"] = args.network
    if args.sigma:
        try:
            low, high = (float(Fraction(s)) for s in args.sigma)
        except ValueError:
            fail(f"--sigma {' '.join(args.sigma)} (two numbers are expected) write for example 0 50/255")
        metadata["sigma_range"] = f"{low!r},{high!r}"
    if args.license:
        metadata["license"] = args.license
    save_file(state, args.output, metadata=metadata or None)
    print(f"{args.output}: {len(state)} tensors, {sum(v.numel() for v in state.values())} values")


if __name__ == "__main__":
    main()
