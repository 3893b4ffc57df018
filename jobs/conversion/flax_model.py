# SPDX-License-Identifier: BSD-3-Clause
"""Flax models (MessagePack), of which SCICO's DnCNN is known. Needs neither flax nor msgpack."""
import struct

import torch

from . import Refused


def refuse(message):
    raise Refused(message)


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
        refuse(f"a Flax model of {', '.join(sorted(params)) or 'no parameters'} (of these, SCICO's DnCNN is known) "
             "write its tensors into a PyTorch state dict")
    if params["conv_start"]["kernel"].shape[2] != 1:
        refuse("a DnCNN that takes the noise level as a channel, SCICO's 6N or 17N (tessera's takes none) convert one of "
             "the levels L, M, H")

    state, index = {}, 0
    for layer in range(depth):
        block = params.get("conv_start" if layer == 0 else "conv_end" if layer == depth - 1 else f"ConvBNBlock_{layer - 1}")
        conv = block.get("Conv_0", block)
        unread = {*block, *conv} - {"Conv_0", "BatchNorm_0", "kernel", "bias"}
        if unread:
            refuse(f"a Flax DnCNN with {', '.join(sorted(unread))} (SCICO's has convolutions and batch norms alone) "
                   "write its tensors into a PyTorch state dict")
        state[f"dncnn.{index}.weight"] = conv["kernel"].permute(3, 2, 0, 1)  # from (rows, columns, in, out)
        if "bias" in conv:
            state[f"dncnn.{index}.bias"] = conv["bias"]
        if "BatchNorm_0" in block:
            index += 1
            norm, moment = block["BatchNorm_0"], moments[f"ConvBNBlock_{layer - 1}"]["BatchNorm_0"]
            state |= {f"dncnn.{index}.{name}": value for name, value in
                      (("weight", norm["scale"]), ("bias", norm["bias"]), ("running_mean", moment["mean"]), ("running_var", moment["var"]))}
        index += 2  # an activation stands between
    return state
