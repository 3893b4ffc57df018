#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch checkpoint (.pth, .pt, .ckpt), safetensors of others, TorchScript module (.pt), or SCICO's DnCNN (.mpk) ->
safetensors that tessera loads.

  jobs/convert_weights.py drunet_color.pth drunet_color.safetensors --sigma 0 50/255
  jobs/convert_weights.py GSDRUNet_torch.ckpt gsdrunet_color.safetensors --sigma 0 50/255
  jobs/convert_weights.py ircnn_gray.pth ircnn_gray.safetensors --network ircnn
  jobs/convert_weights.py mine.pth mine.safetensors --network unet --residual none
  jobs/convert_weights.py mine.pt mine.safetensors                  # of torch.jit.script or torch.jit.trace

A state dict is looked for at any depth of a checkpoint; only tensors are unpickled, no code of the file runs. Names of
wrappers (module., _orig_mod., one prefix of all keys) go, and counters that are no weights.

Which network it is, names and shapes tell. What they do not show (whether the output is added to the image, dilations,
activations, padding, the constant of batch norms) is never assumed: --network says that it is the network as published,
--residual and the others say one thing each, and what nobody says is tried. The weights denoise drawn scenes as each of
what they may be; where they denoise well as one alone, that is what they are. Else, or where a trial contradicts what
was said, nothing is written (exit code 2).

A TorchScript module brings its code, which is run here: convert those of people you trust. What it does to an image is
written down as a list of tessera's layers (`network: traced` in the job) and compared with the module on pictures of
other sizes; a module that does something else (reductions over the image, other padding than zeros) is refused, and one
that denoises drawn scenes with another range of image or level than 0 to 1, or as the noise that it finds. In double
precision both give the same image to rounding.

SCICO's DnCNN (Flax) pads circularly where tessera pads with zeros, so a pixel nearer to the border than the network has
layers comes out otherwise than in SCICO.
"""
import argparse
import os
import sys
from fractions import Fraction

if __name__ == "__main__":
    from own_python import need

    need("torch", "numpy", "safetensors")

import torch
import traced_network
from conversion import Refused, checkpoint, evidence, networks
from safetensors import SafetensorError
from safetensors.torch import save_file

FACTS = ("residual", "dilation", "activation", "padding", "skips", "norm", "step")


def write(path, state, metadata):
    os.umask(mask := os.umask(0))
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~mask
    save_file(state, path, metadata=metadata or None)
    os.chmod(path, mode)  # the library's file is for its owner alone


def traced(path, channels, sigma):
    """(state dict, metadata, words) of a TorchScript module."""
    try:
        channels, layers = traced_network.convert(path, channels)
    except traced_network.Refused as refused:
        raise Refused(f"{path}: {refused}") from None
    except (RuntimeError, torch.jit.Error) as error:
        raise Refused(f"{path}: the module fails ({traced_network.last_line(error)}) save it with torch.jit.script") from None
    other, gain = evidence.of_a_list(layers, sigma)
    if other:
        raise Refused(f"{path}: {other} (so it denoises drawn scenes {gain:.1f} dB better than smoothing does, and not with an image and a level of 0 to 1 and the image as its output, "
                      "as tessera calls it) save a module around it that takes and gives these")
    words = ("an image and a level of 0 to 1: not confirmed, it does not denoise drawn scenes well (is it trained, and for noise?)" if other is None
             else f"with an image and a level of 0 to 1 it denoises drawn scenes {gain:.1f} dB better than smoothing does")
    return layers.state(), {"network": "traced", "channels": str(channels), "layers": layers.text()}, [words]


def find(path, state, prefix, wanted):
    """The Network, whatever one prefix its keys have in common, and words on what was left out."""
    if prefix:
        state = checkpoint.unwrapped(checkpoint.cut(state, prefix))
    left = []
    while (network := networks.identify(state, wanted)) is None:
        heads = sorted({key.split(".")[0] for key in state})
        inside = {head: checkpoint.unwrapped(checkpoint.cut(state, head + ".")) for head in heads if any(k.startswith(head + ".") for k in state)}
        if len(heads) > 1:
            known = [head for head in inside if networks.identify_deep(inside[head], wanted)]
            if len(known) > 1:
                raise Refused(f"{path} holds {len(known)} networks, under {', '.join(known)} (which of them is wanted, it does not say) choose with --prefix {known[0]}.")
            if not known:
                raise Refused(f"{path} holds no network that is known (its keys begin with {checkpoint.heads(state)}) give --prefix where the network's own names "
                              f"come later in them, or {networks.TRACE}")
            left += [head for head in heads if head != known[0]]
            heads = known
        if heads[0] not in inside:
            raise Refused(f"{path} holds no network that is known (its keys are {', '.join(list(state)[:4])}) {networks.TRACE}")
        state = inside[heads[0]]
    return network, left


def settled(path, network, args, sigma):
    """The facts of the network, said or found by trial, and words on them."""
    said = {fact: value for fact in FACTS if (value := getattr(args, fact)) is not None}
    foreign = [fact for fact in said if fact not in network.facts]
    if foreign:
        known = {fact: network.known[fact] for fact in foreign if fact in network.known}
        if any(said[fact] != value for fact, value in known.items()) or len(known) < len(foreign):
            raise Refused(f"--{foreign[0]} says {said[foreign[0]]} of {network.says} (it has {known.get(foreign[0], 'no such choice')}) leave --{foreign[0]} away")
    published = networks.PUBLISHED[args.network] if args.network else {}
    expected = {fact: value for fact, value in {**published, **said}.items() if fact in network.facts}
    for fact, value in said.items():  # also a value that is not among those that are tried
        if fact in network.facts and value not in network.facts[fact]:
            network.facts[fact] = (value, *network.facts[fact])
    facts = {fact: expected.get(fact, values[0]) for fact, values in network.facts.items()}
    if network.layers is not None:
        networks.fits(network, {**facts, **network.known})
    if not network.facts:
        return facts, network.words

    usual = networks.PUBLISHED[network.name] if network.name in ("drunet", "gsdrunet") else {}  # all that is published
    expected = {**usual, **expected}
    found = evidence.best(network, expected, sigma)
    well = found.gain > evidence.WELL
    other = {fact: found.facts[fact] for fact in expected if found.facts[fact] != expected[fact]}
    if other and found.denoises and found.lead > (0 if well else 1):
        fact, value = next(iter(other.items()))
        source = f"--{fact}" if fact in said else f"--network {args.network}" if fact in published else "the published one"
        raise Refused(f"{path}: {network.says} that denoises drawn scenes {found.lead:.1f} dB better with {fact} {value} than with {fact} {expected[fact]} "
                      f"({source} says that; names and shapes do not show it) say --{fact} and what it has, or {networks.TRACE}")
    unsaid = [fact for fact in network.facts if fact not in expected and (not well or fact in found.unclear)]
    if unsaid:
        raise Refused(question(path, network, well, unsaid))
    facts = {**found.facts, **expected}
    about = ", ".join(f"{fact} {value}" for fact, value in facts.items())
    if well:
        return facts, f"{about}: as that it denoises drawn scenes {found.gain:.1f} dB better than smoothing does"
    return facts, f"{about}: not confirmed, as that it does not denoise drawn scenes well (is it trained, and for noise?)"


def question(path, network, well, unsaid):
    """What has to be said, and how."""
    values = {"activation": "relu|elu|gelu|leaky:SLOPE", "dilation": "1|1,2,3,4,3,2,1|..."}
    values = {fact: values.get(fact, "|".join(network.facts[fact])) for fact in unsaid}
    published = {name: facts for name, facts in networks.PUBLISHED.items() if name in family(network)}
    short = [fact for fact in unsaid if all(fact in facts for facts in published.values())]
    ways = []
    if short:
        ways.append(" ".join([f"--network {' or '.join(published)}", *(f"--{fact} {values[fact]}" for fact in unsaid if fact not in short)]) + " where it is that as published")
    if len(short) < len(unsaid) or len(unsaid) > 1 or not ways:
        ways.append(" ".join(f"--{fact} {value}" for fact, value in values.items()))
    tried = "the trial on drawn scenes leaves it open" if well else "on drawn scenes they denoise well as none of what was tried"
    return f"{path}: {network.says} (names and shapes do not show its {', '.join(unsaid)}; {tried}) say {', or '.join(ways)}; or {networks.TRACE}"


def family(network):
    """The networks that these names and shapes may be of, as --network names them."""
    if network.name == "dncnn":
        return ("dncnn", "ircnn") if networks.IRCNN in network.facts.get("dilation", ()) else ("dncnn",)
    return ("drunet", "gsdrunet") if network.name == "drunet" else (network.name,)


def tensors(args, sigma):
    """(state dict, metadata, words) of a checkpoint."""
    path = args.checkpoint
    content, flax = checkpoint.read(path)
    state, types = checkpoint.weights(path, checkpoint.unwrapped(checkpoint.choose(path, content, args.entry)))
    if not state:
        raise Refused(f"{path} holds no weights (counters alone) is it the right file?")
    network, left = find(path, state, args.prefix, args.network)
    if flax:
        network.known = {**networks.PUBLISHED["dncnn"], "norm": "batch:1e-5"}
        network.facts = {}
    if args.network and args.network not in family(network):
        raise Refused(f"{path} holds {network.says} (--network says {args.network}) leave --network away")
    facts, words = settled(path, network, args, sigma)
    everything = {**facts, **network.known}
    if everything.get("padding", "zeros") != "zeros" or everything.get("norm") == "instance":
        raise Refused(f"{path}: {network.says} with {'padding ' + everything['padding'] if everything.get('padding', 'zeros') != 'zeros' else 'instance norms'} (tessera's "
                      "networks pad with zeros and measure nothing) train or use a network that does")
    made = network.named(everything)
    if made is None and (network.gradient or everything["activation"] in ("silu", "softplus")):
        raise Refused(f"{path}: {network.says} with {', '.join(f'{k} {v}' for k, v in facts.items())} (tessera has no such {'gradient step' if network.gradient else 'layer'}) use another network")
    if made is None:
        layers = network.layers(everything)
        made = "traced", layers.state(), {"channels": str(layers.channels[0]), "layers": layers.text()}
    name, state, metadata = made
    notes = [words] if words else []
    if flax:
        notes.append("SCICO pads circularly, tessera with zeros: pixels nearer to the border than the network has layers differ")
    if types != {"float32"}:
        notes.append(f"written in float32 (it had {', '.join(sorted(types))})")
    if left:
        notes.append(f"left out: {', '.join(left[:6])}{' ...' if len(left) > 6 else ''}")
    return {k: v.float().contiguous().clone() for k, v in state.items()}, {"network": name} | metadata, notes


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("output")
    parser.add_argument("--entry", help="of a checkpoint with several state dicts, for example state_dict_ema")
    parser.add_argument("--prefix", default="", help="keep the keys that begin so, and cut it off")
    parser.add_argument("--network", choices=networks.PUBLISHED, help="it is this one, as published (--residual and so on may differ from it)")
    parser.add_argument("--residual", choices=("none", "add", "subtract"), help="what is done with the image and the network's output")
    parser.add_argument("--dilation", help="of each convolution, or of all: 1,2,3,4,3,2,1")
    parser.add_argument("--activation", help="relu, elu, leaky:SLOPE, gelu")
    parser.add_argument("--padding", choices=networks.PADDINGS, help="of the convolutions")
    parser.add_argument("--norm", help="batch:EPS, the constant of its batch norms; biasfree:EPS; none")
    parser.add_argument("--skips", choices=("joined", "none"), help="of a UNet")
    parser.add_argument("--step", help="of a gradient step denoiser (alpha)")
    parser.add_argument("--channels", type=int, help="of the image that a TorchScript module takes; else 1 and 3 are tried")
    parser.add_argument("--sigma", nargs=2, metavar=("LOWEST", "HIGHEST"), help="trained noise levels, range [0, 1]")
    parser.add_argument("--license", default="", help="written into the metadata")
    return parser.parse_args()


def checked(args):
    """(lowest, highest) of --sigma, or None. Refused where an option's value is none."""
    for fact, pattern in networks.PATTERNS.items():
        value = getattr(args, fact)
        if value is not None and not pattern.fullmatch(value):
            raise Refused(f"--{fact} {value} (none of the known ones) see --help")
    if not args.sigma:
        return None
    try:
        low, high = (float(Fraction(s)) for s in args.sigma)
    except (ValueError, ZeroDivisionError):
        low, high = 1.0, 0.0
    if not 0 <= low <= high <= 10:
        raise Refused(f"--sigma {' '.join(args.sigma)} (two numbers in rising order are expected, of images in [0, 1]) write for example 0 50/255")
    return low, high


def convert(args):
    sigma = checked(args)
    if checkpoint.is_torchscript(args.checkpoint):
        given = [name for name in ("network", "prefix", "entry", *FACTS) if getattr(args, name)]
        if given:
            raise Refused(f"{args.checkpoint} is a TorchScript module (its own code says what it is) leave --{given[0]} away")
        state, metadata, notes = traced(args.checkpoint, args.channels, sigma)
    else:
        if args.channels:
            raise Refused(f"{args.checkpoint} is no TorchScript module (the shapes of its weights say the channels) leave --channels away")
        state, metadata, notes = tensors(args, sigma)
    if sigma:
        metadata["sigma_range"] = f"{sigma[0]!r},{sigma[1]!r}"
    if args.license:
        metadata["license"] = args.license
    try:
        write(args.output, state, metadata)
    except (OSError, SafetensorError) as error:
        raise Refused(f"{args.output} cannot be written ({checkpoint.plain(error)}) name another file") from None
    print(f"{args.output}: {metadata['network']}, {len(state)} tensors, {sum(v.numel() for v in state.values())} values")
    for note in notes:
        print(f"  {note}")


def main():
    try:
        convert(parse())
    except Refused as refused:
        print(f"convert_weights.py: {' '.join(str(refused).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
