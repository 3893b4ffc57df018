# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of any kind as tensors that share their memory where they can, and back as the kind that came."""
from __future__ import annotations

import math
import operator
from typing import Any, Callable

import numpy as np

from .jobs import as_array
from .program import Error


def shape_of(shape: Any, name: str = "shape") -> tuple[int, ...]:
    """(C, H, W) or (C, D, H, W) of a shape as people write it: (H, W) has one channel."""
    if getattr(shape, "ndim", 1) > 1:
        raise Error(f"{name} is an array of {tuple(shape.shape)} (no shape) pass its .shape")
    try:
        if any(isinstance(n, (bool, np.bool_)) for n in shape):
            raise TypeError
        sizes = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise Error(f"{name} is {shape!r} (no shape) pass (H, W), (C, H, W) or (C, D, H, W)") from None
    if len(sizes) == 2:
        sizes = (1, *sizes)
    if len(sizes) not in (3, 4) or min(sizes) < 1:
        raise Error(f"{name} is {shape!r} (images have two to four axes, none of them empty) pass (H, W), (C, H, W) or "
                    "(C, D, H, W)")
    if max(sizes) > 1 << 40 or math.prod(sizes) > 1 << 56:
        raise Error(f"{name} is {shape!r} (no machine holds an image of that size) correct it")
    return sizes


def number(value: Any, name: str, least: float = 0, most: float = float("inf")) -> float:
    """A float of a number of any kind; Error where it is none, or not within."""
    try:
        if isinstance(value, (bool, str)) or getattr(value, "ndim", 0):
            raise TypeError
        out = float(value)
    except (TypeError, ValueError):
        raise Error(f"{name} is {value!r} (no number) pass one") from None
    if not (math.isfinite(out) and least <= out <= most):
        ends = f"from {least:g} to {most:g}" if math.isfinite(most) else f"{least:g} or above"
        raise Error(f"{name} is {out:g} (it must be a finite number, {ends}) correct it")
    return out


def returned(out: Any, who: str, dtype: Any) -> Any:
    """A tensor of what a function of somebody returned."""
    import torch

    if not isinstance(out, torch.Tensor):
        try:
            array = np.asarray(out)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in "fiubc":
            raise Error(f"{who} returned {type(out).__name__} (no numbers) return a tensor or an array")
        out = torch.from_numpy(np.array(array, dtype=np.complex128 if array.dtype.kind == "c" else np.float64))
    if out.is_complex():
        raise Error(f"{who} returned complex numbers (images are real) return the real part or the absolute value")
    if out.device.type != "cpu" or out.layout != torch.strided or out.is_quantized:
        raise Error(f"{who} returned a tensor of {out.device}, {out.layout} (dense ones of the CPU are computed on) convert it")
    return out.detach().to(dtype).resolve_neg().contiguous()


def as_tensor(value: Any, sizes: tuple[int, ...], name: str, double: bool = True) -> tuple[Any, Callable]:
    """A tensor of these sizes, float32 or (where `double` allows) float64, on the CPU, and what turns a result into the kind
    and the axes of `value`. No copy of contiguous floats."""
    import torch

    kind = isinstance(value, torch.Tensor)
    if kind:
        if value.is_complex():
            raise Error(f"{name} is complex (images are real) pass its real part or its absolute value")
        if value.layout != torch.strided or value.is_quantized:
            raise Error(f"{name} is a tensor of {value.dtype}, {value.layout} (dense ones are computed on) convert it")
        if value.device.type == "meta":
            raise Error(f"{name} is on meta (it has no values) pass a tensor of the CPU")
        if value.device.type != "cpu":
            raise Error(f"{name} is on {value.device} (operators and denoisers in Python compute on the CPU) pass {name}.cpu()")
        tensor = value.detach().resolve_neg()
    else:
        if type(value) is not np.ndarray or value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
            value = as_array(value, name)[0]
        if not value.dtype.isnative or not value.flags.writeable or min(value.strides, default=0) < 0:
            value = np.array(value, dtype=value.dtype.newbyteorder("="))
        tensor = torch.from_numpy(value)
    if tensor.dtype != torch.float64 or not double:
        tensor = tensor.to(torch.float32)
    shape = tuple(tensor.shape)
    gray = shape == sizes[1:] and sizes[0] == 1
    if shape != sizes and not gray:
        raise Error(f"{name} has the shape {shape} ({sizes[1:] if sizes[0] == 1 else sizes} is wanted) pass that")
    tensor = tensor.reshape(sizes).contiguous()

    def back(result: Any) -> Any:
        out = result[0] if gray and result.shape[0] == 1 else result
        return out if kind else out.numpy()

    return tensor, back
