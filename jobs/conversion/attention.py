# SPDX-License-Identifier: BSD-3-Clause
"""SCUNet and Restormer: what their names and shapes have to be, and the tensors as tessera's graphs read them."""
import re

from traced_network import moves

from . import Refused
from .parts import Network


def compared(state, wanted, what):
    """Refused unless these are its tensors."""
    wrong = [f"{k} is missing" for k in wanted if k not in state]
    wrong += [f"{k} is {'x'.join(map(str, state[k].shape))} instead of {'x'.join(map(str, shape))}" for k, shape in wanted.items() if k in state and tuple(state[k].shape) != shape]
    wrong += [f"{k} is of no layer" for k in state if k not in wanted]
    if wrong:
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise Refused(f"{what} differs from the published one ({'; '.join(wrong[:4])}{more}) write the network in C++ (docs/add_a_network.md)")


def count(state, pattern):
    """One more than the largest number N of names like the pattern."""
    return 1 + max((int(m[1]) for m in (re.match(pattern, k) for k in state) if m), default=-1)


def scunet(state):
    """Matrices as 1x1 kernels; what splits or joins the two halves of a block's channels in two, one for each half."""
    blocks, scales = count(state, r"m_body\.(\d+)\."), 1 + count(state, r"m_down(\d+)\.") - 1
    head = state["m_head.0.weight"]
    channels = head.shape[1]
    widths = [head.shape[0] << s for s in range(max(scales, 1))]
    wanted = {"m_head.0.weight": (widths[0], channels, 3, 3), "m_tail.0.weight": (channels, widths[0], 3, 3)}
    stages = [("m_body", widths[-1], 0)]
    for s, width in enumerate(widths[:-1], 1):
        stages += [(f"m_down{s}", width, 0), (f"m_up{s}", width, 1)]
        wanted |= {f"m_down{s}.{blocks}.weight": (2 * width, width, 2, 2), f"m_up{s}.0.weight": (2 * width, width, 2, 2)}
    positions = state.get("m_body.0.trans_block.msa.relative_position_params")
    size = widths[-1] // 2 // max(1, len(positions)) if positions is not None else 32  # of an attention head
    for stage, width, first in stages:
        t = width // 2
        block = {f"{norm}.{part}": (t,) for norm in ("ln1", "ln2") for part in ("weight", "bias")}
        block |= {"msa.relative_position_params": (max(1, t // size), 15, 15)}
        for name, out, into in (("msa.embedding_layer", 3 * t, t), ("msa.linear", t, t), ("mlp.0", 4 * t, t), ("mlp.2", t, 4 * t)):
            block |= {f"{name}.weight": (out, into), f"{name}.bias": (out,)}
        block = {f"trans_block.{k}": v for k, v in block.items()}
        for name in ("conv1_1", "conv1_2"):
            block |= {f"{name}.weight": (width, width, 1, 1), f"{name}.bias": (width,)}
        block |= {f"conv_block.{i}.weight": (t, t, 3, 3) for i in (0, 2)}
        wanted |= {f"{stage}.{first + b}.{k}": v for b in range(blocks) for k, v in block.items()}
    compared(state, wanted, "a SCUNet")

    tensors = {}
    for key, value in state.items():
        layer, _, part = key.rpartition(".")
        name, half = layer.rpartition(".")[2], len(value) // 2
        if part == "relative_position_params":
            tensors[key] = value[:, None]
        elif name == "conv1_1":
            tensors |= {f"{layer}.conv.{part}": value[:half], f"{layer}.trans.{part}": value[half:]}
        elif name == "conv1_2" and part == "weight":
            tensors |= {f"{layer}.conv.weight": value[:, :half], f"{layer}.trans.weight": value[:, half:]}
        elif name == "conv1_2":
            tensors[f"{layer}.trans.bias"] = value
        else:
            tensors[key] = value[:, :, None, None] if value.ndim == 2 else value
    about = {"channels": str(channels), "blocks": str(blocks), "widths": ",".join(map(str, widths))}
    return Network("scunet", "a SCUNet", named=lambda _: ("scunet", tensors, about))


def restormer(state):
    """With the moves between pixels and channels behind the convolutions that change the level."""
    patch = state["patch_embed.proj.weight"]
    width, channels = patch.shape[:2]
    widths = [width << s for s in range(4)]
    wanted = {"patch_embed.proj.weight": (width, channels, 3, 3), "output.weight": (channels, 2 * width, 3, 3)}
    for s in range(3):
        wanted |= {f"down{s + 1}_{s + 2}.body.0.weight": (widths[s] // 2, widths[s], 3, 3), f"up{s + 2}_{s + 1}.body.0.weight": (2 * widths[s + 1], widths[s + 1], 3, 3)}
        if s:
            wanted[f"reduce_chan_level{s + 1}.weight"] = (widths[s], widths[s + 1], 1, 1)
    inner, heads = state.get("latent.0.ffn.project_out.weight"), len(state["latent.0.attn.temperature"])
    expansion = (inner.shape[1] + 0.5) / widths[3] if inner is not None else 2.66
    size = widths[3] // heads
    biased = "latent.0.norm1.body.bias" in state
    for stage, of, like in (("encoder_level1", 0, ""), ("encoder_level2", 1, ""), ("encoder_level3", 2, ""), ("latent", 3, ""), ("refinement", 0, ""),
                            ("decoder_level3", 2, "encoder_level3"), ("decoder_level2", 1, "encoder_level2"), ("decoder_level1", 0, "encoder_level1")):
        c = 2 * width if stage in ("refinement", "decoder_level1") else widths[of]
        h = int(c * expansion)
        block = {"attn.temperature": (max(1, widths[of] // size), 1, 1), "attn.qkv.weight": (3 * c, c, 1, 1), "attn.qkv_dwconv.weight": (3 * c, 1, 3, 3), "attn.project_out.weight": (c, c, 1, 1),
                 "ffn.project_in.weight": (2 * h, c, 1, 1), "ffn.dwconv.weight": (2 * h, 1, 3, 3), "ffn.project_out.weight": (c, h, 1, 1)}
        block |= {f"norm{i}.body.{part}": (c,) for i in (1, 2) for part in (("weight", "bias") if biased else ("weight",))}
        for b in range(max(1, count(state, (like or stage) + r"\.(\d+)\."))):
            wanted |= {f"{stage}.{b}.{k}": v for k, v in block.items()}
    compared(state, wanted, "a Restormer")
    moved = {k: v.shape[0] // (4 if k.startswith("up") else 1) for k, v in state.items() if re.fullmatch(r"(up|down)\d_\d\.body\.0\.weight", k)}
    tensors = state | {k.replace("body.0", "body.1"): moves(number) for k, number in moved.items()}
    return Network("restormer", "a Restormer", named=lambda _: ("restormer", tensors, {"channels": str(channels)}))
