#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch checkpoint (.pth, .pt, .ckpt), TorchScript module (.pt), or SCICO's DnCNN (.mpk) -> safetensors that tessera
loads.

  jobs/convert_weights.py drunet_color.pth drunet_color.safetensors --sigma 0 50/255
  jobs/convert_weights.py GSDRUNet_torch.ckpt gsdrunet_color.safetensors --sigma 0 50/255
  jobs/convert_weights.py dncnn17M.mpk dncnn17M.safetensors --sigma 0.1 0.1
  jobs/convert_weights.py mine.pt mine.safetensors                  # of torch.jit.script or torch.jit.trace

A checkpoint is a state dict, or holds one under state_dict, model_state_dict, params_ema, params or model. Only
tensors are unpickled, no code of the file runs. Which network it is, its names tell: DRUNet, GSDRUNet, DnCNN, FFDNet,
SCUNet and UNet as deepinv, DPIR and KAIR name their layers, DnCNN-PyTorch's (dncnn.N) too. Counters of batch norms are
dropped, those of DnCNN are folded in, FFDNet gets the 2x2 kernels that move pixels into channels, the matrices of
SCUNet become 1x1 kernels, one for each half of its channels.

A TorchScript module brings its code, which is run here: convert those of people you trust. What it does to an image is
written down as a list of tessera's layers (`network: traced` in the job) and compared with the module on pictures of
other sizes; a module that does something else (reductions over the image, other padding than zeros) is refused. In
double precision both give the same image to rounding.

The file of a Flax model (MessagePack) needs neither flax nor msgpack. SCICO's DnCNN is the model that is known:
its kernels become (out, in, rows, columns) and its batch norms are folded in. It pads circularly where tessera pads
with zeros, so a pixel nearer to the border than the network has layers comes out otherwise than in SCICO.
"""
import argparse
import collections
import os
import re
import struct
import sys
import zipfile
from fractions import Fraction

import torch
import traced_network
from safetensors.torch import save_file
from traced_network import moves

CONTAINERS = ("state_dict", "model_state_dict", "params_ema", "params", "model")


def write(path, state, metadata):
    os.umask(mask := os.umask(0))
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~mask
    save_file(state, path, metadata=metadata or None)
    os.chmod(path, mode)  # the library's file is for its owner alone


def fail(message):
    sys.exit(f"convert_weights: {message}")


def unpack(data, at=0):
    """(value, next position) of the MessagePack object at `at`. Source: the specification at msgpack.org."""
    def number(code):
        return struct.unpack_from(">" + code, data, at + 1)[0], at + 1 + struct.calcsize(code)

    def many(count, at):
        values = []
        for _ in range(count):
            value, at = unpack(data, at)
            values.append(value)
        return values, at

    def mapping(count, at):
        values, at = many(2 * count, at)
        return dict(zip(values[::2], values[1::2])), at

    def raw(size, at):
        if at + size > len(data):
            raise ValueError("it ends too early")
        return data[at:at + size], at + size

    def text(size, at):
        value, at = raw(size, at)
        return value.decode(), at

    def extension(size, at):
        value, end = raw(size, at + 1)
        return (array(value) if data[at] == 1 else value), end  # Flax: 1 is an array, else a scalar or a complex

    byte = data[at]
    if byte <= 0x7f or byte >= 0xe0:  # the small integer itself
        return byte - 256 * (byte >= 0xe0), at + 1
    if byte <= 0x8f:
        return mapping(byte & 0x0f, at + 1)
    if byte <= 0x9f:
        return many(byte & 0x0f, at + 1)
    if byte <= 0xbf:
        return text(byte & 0x1f, at + 1)
    if byte in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[byte], at + 1
    if 0xca <= byte <= 0xd3:  # floats, then integers without and with sign
        return number("fdBHIQbhiq"[byte - 0xca])
    if 0xd4 <= byte <= 0xd8:
        return extension(1 << (byte - 0xd4), at + 1)
    sized = {0xc4: raw, 0xc7: extension, 0xd9: text, 0xdc: many, 0xde: mapping}
    for first, read in sized.items():  # each with a length of one, two and four bytes; the last two lack the first
        codes = "HI" if first in (0xdc, 0xde) else "BHI"
        if first <= byte < first + len(codes):
            return read(*number(codes[byte - first]))
    raise ValueError(f"byte {byte:#x} begins nothing")


def array(packed):
    """Flax's array: shape, name of the type, values."""
    (shape, dtype, values), _ = unpack(packed)
    values = torch.frombuffer(bytearray(values), dtype=getattr(torch, dtype))
    return values.reshape(shape)


def flax_dncnn(tree):
    """The variables of SCICO's DnCNN as the state dict of a numbered one (dncnn.N)."""
    params, moments = tree.get("params", {}), tree.get("batch_stats", {})
    depth = sum(name.startswith("ConvBNBlock_") for name in params) + 2
    if set(params) != {"conv_start", "conv_end", *(f"ConvBNBlock_{i}" for i in range(depth - 2))}:
        fail(f"a Flax model of {', '.join(sorted(params)) or 'no parameters'} (of these, SCICO's DnCNN is known) "
             "write its tensors into a PyTorch state dict")
    if params["conv_start"]["kernel"].shape[2] != 1:
        fail("a DnCNN that takes the noise level as a channel, SCICO's 6N or 17N (tessera's takes none) convert one of "
             "the levels L, M, H")

    state = {}
    for layer in range(depth):
        block = params.get("conv_start" if layer == 0 else "conv_end" if layer == depth - 1 else f"ConvBNBlock_{layer - 1}")
        conv = block.get("Conv_0", block)
        state[f"dncnn.{2 * layer}.weight"] = conv["kernel"].permute(3, 2, 0, 1)  # from (rows, columns, in, out)
        if "BatchNorm_0" in block:
            norm, moment = block["BatchNorm_0"], moments[f"ConvBNBlock_{layer - 1}"]["BatchNorm_0"]
            state |= {f"dncnn.{2 * layer + 1}.{name}": value for name, value in
                      (("weight", norm["scale"]), ("bias", norm["bias"]), ("running_mean", moment["mean"]), ("running_var", moment["var"]))}
    return state


def read(path):
    """The tensors of a file, whatever its kind; failing in one line."""
    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file
            return load_file(path)
        with open(path, "rb") as file:
            head = file.read(1)
            # A map of MessagePack that is not empty; pickles begin with 0x80, archives with P.
            if head and (0x81 <= head[0] <= 0x8f or head[0] in (0xde, 0xdf)):
                tree, _ = unpack(head + file.read())
                return flax_dncnn(tree)
        # Lightning keeps its arguments beside the weights, in a class that holds values and does nothing.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        fail(f"{path} cannot be read ({str(error).splitlines()[0]}) is it a PyTorch checkpoint?")


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


def ffdnet(state):
    """deepinv's names, with a bias in the last layer and the moves between pixels and channels."""
    last = f"blocks.{max(int(k.split('.')[1]) for k in state)}"
    channels = state[f"{last}.weight"].shape[0] // 4
    state.setdefault(f"{last}.bias", torch.zeros(4 * channels))
    return state | {"unshuffle.weight": moves(channels + 1), "shuffle.weight": moves(channels)}


def numbered_ffdnet(state):
    """KAIR's FFDNet (model.N): the noise level is one channel beside the moved pixels; here it is moved with them."""
    layers = sorted({int(k.split(".")[1]) for k in state})
    named = {}
    for i, layer in enumerate(layers):
        name = f"blocks.{i}" + (".0" if i < len(layers) - 1 else "")
        named |= {f"{name}.{part}": state[f"model.{layer}.{part}"] for part in ("weight", "bias")}
    first = named["blocks.0.0.weight"]
    named["blocks.0.0.weight"] = torch.cat([first, torch.zeros_like(first[:, :3])], dim=1)
    return ffdnet(named)


def scunet(state):
    """Matrices as 1x1 kernels; what splits or joins the two halves of a block's channels in two, one for each half."""
    named = {}
    for key, value in state.items():
        layer, _, part = key.rpartition(".")
        name, half = layer.rpartition(".")[2], len(value) // 2
        if part == "relative_position_params":
            named[key] = value[:, None]
        elif name == "conv1_1":
            named |= {f"{layer}.conv.{part}": value[:half], f"{layer}.trans.{part}": value[half:]}
        elif name == "conv1_2" and part == "weight":
            named |= {f"{layer}.conv.weight": value[:, :half], f"{layer}.trans.weight": value[:, half:]}
        elif name == "conv1_2":
            named[f"{layer}.trans.bias"] = value
        else:
            named[key] = value[:, :, None, None] if value.ndim == 2 else value
    return named


def restormer(state):
    """With the moves between pixels and channels behind the convolutions that change the level."""
    moved = {k: v.shape[0] // (4 if k.startswith("up") else 1) for k, v in state.items() if re.fullmatch(r"(up|down)\d_\d\.body\.0\.weight", k)}
    return state | {k.replace("body.0", "body.1"): moves(channels) for k, channels in moved.items()}


def identify(state):
    """(network, state dict with the names that tessera uses); the network is None where the names tell nothing."""
    if all(k.startswith("student_grad.model.") for k in state):
        return "gsdrunet", strip(state, "student_grad.model.")
    if "m_head.weight" in state:
        return "drunet", state
    if "m_head.0.weight" in state:
        return "scunet", scunet(state)
    if "patch_embed.proj.weight" in state and "latent.0.attn.temperature" in state:
        return "restormer", restormer(state)
    if "blocks.0.0.weight" in state:
        return "ffdnet", ffdnet(state)
    if "Conv1.0.weight" in state:
        return "unet", state
    if "in_conv.weight" in state:
        return "dncnn", state
    first = state.get("model.0.weight")
    if first is not None and first.ndim == 4 and first.shape[1] in (5, 13):  # 4 C + 1
        return "ffdnet", numbered_ffdnet(state)
    if first is not None or "dncnn.0.weight" in state:
        return "dncnn", rename_dncnn(state)
    return None, state


def is_torchscript(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def traced(path, channels):
    """(state dict, metadata) of a TorchScript module."""
    try:
        channels, layers = traced_network.convert(path, channels)
    except traced_network.Refused as refused:
        fail(f"{path}: {refused}")
    except (RuntimeError, torch.jit.Error) as error:
        fail(f"{path}: the module fails ({traced_network.last_line(error)}) save it with torch.jit.script")
    return layers.state(), {"network": "traced", "channels": str(channels), "layers": layers.text()}


def tensors(args):
    """(state dict, metadata) of a checkpoint."""
    state = strip(unwrap(read(args.checkpoint)), args.prefix)
    state = {k: v for k, v in state.items() if isinstance(v, torch.Tensor) and not k.endswith("num_batches_tracked")}
    if not state:
        fail(f"{args.checkpoint} holds no tensors (nothing to convert) is it the right file?")
    network, state = identify(state)
    both_drunets = {network, args.network} == {"drunet", "gsdrunet"}
    if network and args.network and network != args.network and not both_drunets:
        fail(f"{args.checkpoint} holds weights of a {network} (--network says {args.network}) leave --network away")
    network = args.network or network
    return {k: v.detach().float().contiguous().clone() for k, v in state.items()}, {"network": network} if network else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("output")
    parser.add_argument("--prefix", default="", help="keep the keys that begin so, and cut it off")
    parser.add_argument("--network", choices=("drunet", "gsdrunet", "dncnn", "ffdnet", "scunet", "restormer", "unet"),
                        help="where the names do not tell, or tell another (a DRUNet may be GSDRUNet's, without its prefix)")
    parser.add_argument("--channels", type=int, help="of the image that a TorchScript module takes; else 1 and 3 are tried")
    parser.add_argument("--sigma", nargs=2, metavar=("LOWEST", "HIGHEST"), help="trained noise levels, range [0, 1]")
    parser.add_argument("--license", default="", help="written into the metadata")
    args = parser.parse_args()

    if is_torchscript(args.checkpoint):
        if args.network or args.prefix:
            fail(f"{args.checkpoint} is a TorchScript module (its own code says what it is) leave --network and --prefix away")
        state, metadata = traced(args.checkpoint, args.channels)
    else:
        if args.channels:
            fail(f"{args.checkpoint} is no TorchScript module (the shapes of its weights say the channels) leave --channels away")
        state, metadata = tensors(args)

    if args.sigma:
        try:
            low, high = (float(Fraction(s)) for s in args.sigma)
        except ValueError:
            fail(f"--sigma {' '.join(args.sigma)} (two numbers are expected) write for example 0 50/255")
        metadata["sigma_range"] = f"{low!r},{high!r}"
    if args.license:
        metadata["license"] = args.license
    write(args.output, state, metadata)
    print(f"{args.output}: {metadata.get('network', 'unknown network')}, {len(state)} tensors, {sum(v.numel() for v in state.values())} values")


if __name__ == "__main__":
    main()
