# SPDX-License-Identifier: BSD-3-Clause
"""Names and shapes of a state dict -> the network that they are of, and what of it they do not show.

A network is a function from what they do not show (`facts`) to a list of layers; a list that is one of tessera's networks
gets its names, any other is written as `traced`.
"""
import collections
import re
from dataclasses import dataclass

import torch
from traced_network import Layers, moves
from traced_network import Refused as NoLayer

from . import Refused, volumes
from .attention import restormer, scunet
from .parts import TRACE, Network, Weights, activate, affine, normed

IRCNN = "1,2,3,4,3,2,1"
# Facts of the networks as published, by the name that --network gives.
PUBLISHED = {
    "dncnn": {"residual": "subtract", "dilation": "1", "activation": "relu", "padding": "zeros"},
    "ircnn": {"residual": "subtract", "dilation": IRCNN, "activation": "relu", "padding": "zeros"},
    "fdncnn": {"residual": "none", "dilation": "1", "activation": "relu", "padding": "zeros"},
    "ffdnet": {"residual": "none", "dilation": "1", "activation": "relu", "padding": "zeros", "norm": "none"},
    "unet": {"residual": "add", "skips": "joined", "activation": "relu", "padding": "zeros", "norm": "batch:1e-5"},
    "drunet": {"activation": "relu"},
    "gsdrunet": {"activation": "elu", "step": "1"},
    "drunet3d": {"activation": "relu"},
    "dncnn3d": {"residual": "add", "dilation": "1", "activation": "relu", "padding": "zeros"},
    "scunet": {},
    "restormer": {},
}
ACTIVATIONS = ("relu", "elu", "leaky:0.01", "leaky:0.05", "leaky:0.2", "gelu", "silu", "softplus")
PATTERNS = {"activation": re.compile(r"relu|elu|gelu|silu|softplus|leaky:0?\.\d+"), "dilation": re.compile(r"[1-9](,[1-9])*"), "step": re.compile(r"\d*\.?\d+"),
            "norm": re.compile(r"none|instance|(batch|biasfree):\d*\.?\d+(e-\d+)?")}
PADDINGS = ("zeros", "circular", "reflect", "replicate")


# --- chains of convolutions: DnCNN, IRCNN, FDnCNN, FFDNet -------------------------------------------------------------


@dataclass
class Link:
    weight: torch.Tensor
    bias: torch.Tensor = None
    norm: dict = None
    active: bool = False
    slope: torch.Tensor = None  # of a prelu


def numbered(state, weights):
    """Links of PREFIX.N: what has no weights, an activation, leaves its number out."""
    parts = collections.defaultdict(set)
    prefix = next(iter(state)).split(".")[0]
    for key in state:
        _, index, part = key.split(".")
        parts[int(index)].add(part)
    links, last = [], -1
    for index in sorted(parts):
        name = f"{prefix}.{index}"
        gap, last = index - last - 1, index
        if gap and links:
            links[-1].active = True
        if gap > 1 or (gap and not links):
            raise Refused(f"{gap} layers without weights come before {name} (one activation is known between two convolutions) {TRACE}")
        weight = state.get(name + ".weight")
        if "running_var" in parts[index] and links and not links[-1].active and links[-1].norm is None:
            links[-1].norm = weights.norm(name)
        elif weight is not None and weight.ndim == 4:
            links.append(Link(*weights.conv(name)))
        elif weight is not None and weight.ndim == 1 and parts[index] == {"weight"} and links and not links[-1].active:
            links[-1].slope = weights.get(name + ".weight")
        else:
            raise Refused(f"{name} has {', '.join(sorted(parts[index]))} (no convolution, batch norm behind one, or prelu) {TRACE}")
    return links


def chain_layers(links, channels, level, moved, facts):
    """level: a map of the noise beside the image; moved: 2x2 pixels in channels."""
    layers = Layers(channels)
    x = layers.add("concat", [0, layers.noise_level()], channels + 1) if level else 0
    if moved:
        x = layers.add("conv_down", [x], 4 * (channels + 1), moves(channels + 1).double())
    dilations = facts["dilation"].split(",")
    dilations = dilations * len(links) if len(dilations) == 1 else dilations
    if len(dilations) != len(links):
        raise Refused(f"{len(dilations)} dilations are given (there are {len(links)} convolutions) correct --dilation")
    for link, dilation in zip(links, map(int, dilations)):
        into, reads = layers.channels[x], link.weight.shape[1]
        if link.weight.shape[2] % 2 == 0 or into % reads:
            raise Refused(f"a kernel of {'x'.join(map(str, link.weight.shape))} follows {into} channels (odd kernels that fit are known) {TRACE}")
        padding = [(k - 1) * dilation // 2 for k in link.weight.shape[2:]]
        bias = None if link.bias is None else link.bias.double()
        x = layers.convolution(x, link.weight, bias, [1, 1], padding, [dilation] * 2, False, into // reads)
        if link.norm is not None:
            x = layers.scaled(x, *affine(link.norm, facts["norm"]))
        if link.slope is not None:
            slope = link.slope.double().reshape(-1).expand(layers.channels[x])
            bent = layers.scaled(layers.add("relu", [x], layers.channels[x]), 1 - slope)
            x = layers.add("add", [bent, layers.scaled(x, slope)], layers.channels[x])
        elif link.active:
            x = activate(layers, x, facts["activation"])
    if moved:
        x = layers.add("conv_up", [x], channels, moves(channels).double())
    if facts["residual"] == "add":
        layers.add("add", [x, 0], channels)
    elif facts["residual"] == "subtract":
        layers.add("subtract", [0, x], channels)
    layers.simplify()
    return layers


def chain_named(links, channels, level, moved, facts):
    """As tessera's dncnn or ffdnet, where it is one."""
    widths = {link.weight.shape[0] for link in links[:-1]}
    norms = sum(link.norm is not None for link in links)  # tessera's ffdnet has one behind each inner convolution, or none
    alike = (len(widths) == 1 and all(link.weight.shape[2:] == (3, 3) and link.slope is None and link.active == (link is not links[-1]) for link in links)
             and all(link.weight.shape[1] == widths.copy().pop() for link in links[1:]))
    if not alike or facts["dilation"] != "1" or facts["activation"] != "relu" or level != moved or len(links) < (3 if moved else 2) \
            or (moved and (facts["residual"] != "none" or norms not in (0, len(links) - 2) or links[0].norm or links[-1].norm)):
        return None
    end = len(links) - 1
    tensors = {}
    for i, link in enumerate(links):
        weight, bias = link.weight.double(), torch.zeros(len(link.weight)).double() if link.bias is None else link.bias.double()
        if link.norm is not None and moved:
            tensors |= normed(f"blocks.{i}.1", link.norm, facts["norm"])
        elif link.norm is not None:
            scale, shift = affine(link.norm, facts["norm"])
            weight, bias = weight * scale[:, None, None, None], bias * scale + shift
        if i == end and facts["residual"] == "subtract":  # tessera adds its last layer to the image
            weight, bias = -weight, -bias
        if moved:
            name = f"blocks.{i}" + ("" if i == end else ".0")
        else:
            name = "in_conv" if i == 0 else "out_conv" if i == end else f"conv_list.{i - 1}"
        tensors |= {f"{name}.weight": weight.float(), f"{name}.bias": bias.float()}
    about = {"channels": str(channels), "widths": str(widths.pop()), "depth": str(len(links))}
    if moved:
        return "ffdnet", tensors | {"unshuffle.weight": moves(channels + 1), "shuffle.weight": moves(channels)}, about | {"batch_norm": str(int(norms > 0))}
    return "dncnn", tensors, about | {"residual": "0" if facts["residual"] == "none" else "1"}


def chain(links, known, name=None, says=None):
    """The network of these links: where the noise level comes in, channels show."""
    out, into = links[-1].weight.shape[0], links[0].weight.shape[1]
    level = moved = False
    channels = out
    if into == out + 1 and out in (4, 12):  # KAIR's FFDNet: one channel of the level beside the moved pixels
        first = links[0].weight
        links[0].weight = torch.cat([first, torch.zeros_like(first[:, :3])], dim=1)
        level = moved = True
    elif into == out + 4 and out % 4 == 0:
        level = moved = True
    elif into == out + 1:
        level = True
    elif into != out:
        raise Refused(f"its first convolution takes {into} channels and its last one makes {out} (an image, or an image and its noise level, is expected) {TRACE}")
    channels = out // 4 if moved else out
    deep = len(links)
    name = name or ("ffdnet" if moved else "fdncnn" if level else "dncnn")
    facts = {"residual": ("none", "add", "subtract") if level else ("subtract", "add", "none"), "dilation": ("1", IRCNN) if deep == 7 else ("1",),
             "activation": ACTIVATIONS, "padding": PADDINGS}
    if not any(link.active for link in links):
        facts.pop("activation")
        known = known | {"activation": "relu"}
    if any(link.norm is not None for link in links):
        facts["norm"] = ("batch:1e-5", "batch:1e-4")
    facts = {fact: values for fact, values in facts.items() if fact not in known}
    return Network(name, says or f"a chain of {deep} convolutions", facts, known,
                   layers=lambda chosen: chain_layers(links, channels, level, moved, chosen),
                   named=lambda chosen: chain_named(links, channels, level, moved, chosen), takes_level=level)


def dncnn_of_deepinv(state, weights):
    depth = 2
    while f"conv_list.{depth - 2}.weight" in state:
        depth += 1
    names = ["in_conv", *(f"conv_list.{i}" for i in range(depth - 2)), "out_conv"]
    links = [Link(*weights.conv(name), active=name != "out_conv") for name in names]
    return chain(links, {"residual": "add", "dilation": "1", "activation": "relu", "padding": "zeros"}, says="deepinv's DnCNN")


def ffdnet_of_deepinv(state, weights):
    count = 1 + max(int(k.split(".")[1]) for k in state if re.fullmatch(r"blocks\.\d+\..*", k))
    links = []
    for i in range(count):
        last = i == count - 1
        links.append(Link(*weights.conv(f"blocks.{i}" + ("" if last else ".0")), norm=weights.norm(f"blocks.{i}.1"), active=not last))
    known = {"dilation": "1", "activation": "relu", "padding": "zeros"}
    if any(link.norm is not None for link in links):
        return chain(links, known | {"norm": "batch:1e-5"}, "ffdnet", "deepinv's FFDNet")
    network = chain(links, known, "ffdnet", "deepinv's FFDNet")
    network.facts["norm"] = ("none", "instance")  # which leaves no weights either
    return network


# --- UNet and DRUNet --------------------------------------------------------------------------------------------------


def unet(state, weights):
    scales = 1
    while f"Conv{scales + 1}.0.weight" in state:
        scales += 1
    norms = "Conv1.1.running_var" in state
    sequences = {f"Conv{s}": (0, 2 + norms) for s in range(1, scales + 1)}
    sequences |= {f"Up_conv{s}": (0, 2 + norms) for s in range(2, scales + 1)} | {f"Up{s}": (1,) for s in range(2, scales + 1)}
    links = {(name, at): Link(*weights.conv(f"{name}.{at}"), norm=weights.norm(f"{name}.{at + 1}") if norms else None)
             for name, places in sequences.items() for at in places}
    end = Link(*weights.conv("Conv_1x1"))
    channels = links["Conv1", 0].weight.shape[1]
    if any(link.weight.shape[2:] != (3, 3) for link in links.values()) or end.weight.shape[2:] != (1, 1):
        raise Refused(f"its kernels are not 3x3, and 1x1 at the end (as a UNet with these names has them) {TRACE}")
    if len(end.weight) != channels:
        raise Refused(f"it makes {len(end.weight)} channels of {channels} (a denoiser keeps them) {TRACE}")

    def layers(facts):
        g = Layers(channels)

        def run(x, name):
            for at in sequences[name]:
                link = links[name, at]
                bias = None if link.bias is None else link.bias.double()
                x = g.convolution(x, link.weight, bias, [1, 1], [k // 2 for k in link.weight.shape[2:]], [1, 1], False, 1)
                if link.norm is not None:
                    x = g.scaled(x, *affine(link.norm, facts["norm"]))
                x = activate(g, x, facts["activation"])
            return x

        x, skips = 0, []
        for s in range(1, scales + 1):
            x = run(x if s == 1 else g.add("max_pool", [x], g.channels[x]), f"Conv{s}")
            skips.append(x)
        for s in range(scales, 1, -1):
            x = run(g.add("upsample", [x], g.channels[x]), f"Up{s}")
            if facts["skips"] == "joined":
                skip = skips[s - 2]
                x = run(g.add("concat", [skip, x], g.channels[skip] + g.channels[x]), f"Up_conv{s}")
        x = g.convolution(x, end.weight, None if end.bias is None else end.bias.double(), [1, 1], [0, 0], [1, 1], False, 1)
        if facts["residual"] != "none":
            g.add("add" if facts["residual"] == "add" else "subtract", [x, 0] if facts["residual"] == "add" else [0, x], channels)
        g.simplify()
        return g

    def named(facts):
        if facts["residual"] == "subtract" or facts["skips"] != "joined" or facts["activation"] != "relu" or scales < 2:
            return None
        tensors = {"Conv_1x1.weight": end.weight}
        for (name, at), link in [*links.items(), (("Conv_1x1", None), end)]:
            key = f"{name}.{at}" if at is not None else name
            tensors[key + ".weight"] = link.weight
            tensors[key + ".bias"] = torch.zeros(len(link.weight)) if link.bias is None else link.bias
            if link.norm is not None:
                tensors |= normed(f"{name}.{at + 1}", link.norm, facts["norm"])
        widths = ",".join(str(len(links[f"Conv{s}", 0].weight)) for s in range(1, scales + 1))
        return "unet", tensors, {"channels": str(channels), "widths": widths, "batch_norm": str(int(norms)), "residual": str(int(facts["residual"] == "add"))}

    facts = {"residual": ("add", "none"), "skips": ("joined", "none"), "padding": PADDINGS}
    if norms:
        facts["norm"] = ("batch:1e-5", "biasfree:1e-5")
    return Network("unet", "a UNet with deepinv's names", facts, {"activation": "relu"}, layers=layers, named=named)


def drunet(state, weights, gradient=False):
    blocks, scales = 0, 1
    while f"m_body.{blocks}.res.0.weight" in state:
        blocks += 1
    while f"m_down{scales}.{blocks}.weight" in state:
        scales += 1
    if blocks == 0 or scales == 1:
        raise Refused(f"its {'body has no blocks' if blocks == 0 else 'first stage has no strided convolution behind its blocks'} (as DRUNet names them: "
                      f"m_body.0.res.0.weight, m_down1.N.weight) {TRACE}")
    stages = {f"m_down{s}.{b}": None for s in range(1, scales) for b in range(blocks)} | {f"m_body.{b}": None for b in range(blocks)}
    stages |= {f"m_up{s}.{b + 1}": None for s in range(1, scales) for b in range(blocks)}
    names = ["m_head", "m_tail", *(f"{block}.res.{i}" for block in stages for i in (0, 2)), *(f"m_down{s}.{blocks}" for s in range(1, scales)), *(f"m_up{s}.0" for s in range(1, scales))]
    convs = {name: weights.conv(name) for name in names}
    channels = convs["m_tail"][0].shape[0]
    strided = {name for name in convs if re.fullmatch(rf"m_down\d+\.{blocks}|m_up\d+\.0", name)}
    odd = [name for name, (weight, _) in convs.items() if tuple(weight.shape[2:]) != ((2, 2) if name in strided else (3, 3))]
    if odd:
        raise Refused(f"{odd[0]}.weight is {'x'.join(map(str, convs[odd[0]][0].shape))} (a DRUNet's kernels are 3x3, and 2x2 where the scale changes; those of others "
                      f"do not fit its shapes) {TRACE}")
    if convs["m_head"][0].shape[1] != channels + 1:
        raise Refused(f"it takes {convs['m_head'][0].shape[1]} channels and makes {channels} (an image and its noise level, and an image, are expected) {TRACE}")

    def layers(facts):
        g = Layers(channels)

        def conv(x, name, stride=1, transposed=False):
            weight, bias = convs[name]
            return g.convolution(x, weight, None if bias is None else bias.double(), [stride] * 2, [0, 0] if stride == 2 else [k // 2 for k in weight.shape[2:]], [1, 1], transposed, 1)

        def stage(x, name, first):
            for b in range(blocks):
                inner = activate(g, conv(x, f"{name}.{first + b}.res.0"), facts["activation"])
                x = g.add("add", [x, conv(inner, f"{name}.{first + b}.res.2")], g.channels[x])
            return x

        x = conv(g.add("concat", [0, g.noise_level()], channels + 1), "m_head")
        skips = [x]
        for s in range(1, scales):
            x = conv(stage(x, f"m_down{s}", 0), f"m_down{s}.{blocks}", 2)
            skips.append(x)
        x = stage(x, "m_body", 0)
        for s in range(scales - 1, 0, -1):
            x = g.add("add", [x, skips[s]], g.channels[x])
            x = stage(conv(x, f"m_up{s}.0", 2, True), f"m_up{s}", 1)
        conv(g.add("add", [x, skips[0]], g.channels[x]), "m_tail")
        g.simplify()
        return g

    def named(facts):
        if facts["activation"] != ("elu" if gradient else "relu") or facts.get("step", "1") != "1" or any(bias is not None for _, bias in convs.values()):
            return None
        widths = [len(convs["m_head"][0]), *(len(convs[f"m_down{s}.{blocks}"][0]) for s in range(1, scales))]
        about = {"channels": str(channels), "blocks": str(blocks), "widths": ",".join(map(str, widths))}
        return "gsdrunet" if gradient else "drunet", {f"{name}.weight": weight for name, (weight, _) in convs.items()}, about

    facts = {"activation": (("elu", "relu") if gradient else ("relu", "elu")) + ACTIVATIONS[2:]}
    if gradient:
        facts["step"] = ("1", "0.1", "0.5", "2")
    return Network("gsdrunet" if gradient else "drunet", "the network of a gradient step denoiser" if gradient else "a DRUNet", facts, layers=layers, named=named, gradient=gradient, takes_level=True)


# --- which one it is --------------------------------------------------------------------------------------------------


def identify(state, wanted):
    """The Network that the names are of, or None. `wanted`: --network, which tells a gradient step's DRUNet."""
    # What one block of DPIR's sequences leaves out.
    state = {re.sub(r"^((?:student_grad\.model\.)?m_body)\.res\.", r"\1.0.res.", k): v for k, v in state.items()}
    inner = {k.removeprefix("student_grad.model."): v for k, v in state.items() if k.startswith("student_grad.model.")}
    gradient = bool(inner)
    if gradient:
        state = inner
    if volumes.of_volumes(state):
        return None if gradient else volumes.identify(state)
    weights = Weights(state)
    if "m_head.weight" in state and any(".res." in k for k in state):
        network = drunet(state, weights, gradient or wanted == "gsdrunet")
    elif "m_head.0.weight" in state:
        return scunet(state)
    elif "patch_embed.proj.weight" in state and "latent.0.attn.temperature" in state:
        return restormer(state)
    elif "blocks.0.0.weight" in state:
        network = ffdnet_of_deepinv(state, weights)
    elif "Conv1.0.weight" in state and "Conv_1x1.weight" in state:
        network = unet(state, weights)
    elif "in_conv.weight" in state and "out_conv.weight" in state:
        network = dncnn_of_deepinv(state, weights)
    elif all(re.fullmatch(r"(model|dncnn|layers|net|\d+)\.\d+\.\w+", k) for k in state) and len({k.split(".")[0] for k in state}) == 1:
        network = chain(numbered(state, weights), {})
    else:
        return None
    weights.done()
    return network


def identify_deep(state, wanted):
    """Whether a network is known under these keys, or under one prefix of all of them."""
    while identify(state, wanted) is None:
        heads = {key.split(".")[0] for key in state}
        if len(heads) != 1 or not all("." in key for key in state):
            return False
        state = {key.split(".", 1)[1]: value for key, value in state.items()}
    return True


def fits(network, facts):
    """Refused where shapes do not fit each other."""
    try:
        layers = network.layers(facts)
        side = max(16, 2 * layers.alignment())
        with torch.no_grad():
            layers.evaluate(torch.zeros(1, layers.channels[0], side, side, dtype=torch.float64), 0.1)
    except NoLayer as refused:
        raise Refused(f"{network.says}: {refused}") from None
    except (RuntimeError, IndexError, ValueError) as error:
        raise Refused(f"{network.says}, whose shapes do not fit each other ({str(error).splitlines()[0][:120]}) {TRACE}") from None
