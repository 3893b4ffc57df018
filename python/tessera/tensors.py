# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of any kind as tensors that share their memory where they can, and back as the kind that came."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .jobs import as_array
from .program import Error


def shape_of(shape: Any, name: str = "shape") -> tuple[int, ...]:
    """(C, H, W) or (C, D, H, W) of a shape as people write it: (H, W) has one channel."""
    try:
        sizes = tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        raise Error(f"{name} is {shape!r} (no shape) pass (H, W), (C, H, W) or (C, D, H, W)") from None
    if len(sizes) == 2:
        sizes = (1, *sizes)
    if len(sizes) not in (3, 4) or min(sizes) < 1:
        raise Error(f"{name} is {shape!r} (images have two to four axes, none of them empty) pass (H, W), (C, H, W) or "
                    "(C, D, H, W)")
    return sizes


def as_tensor(value: Any, sizes: tuple[int, ...], name: str, double: bool = True) -> tuple[Any, Callable]:
    """A tensor of these sizes, float32 or (where `double` allows) float64, on the CPU, and what turns a result into the kind
    and the axes of `value`. No copy of contiguous floats."""
    import torch

    kind = isinstance(value, torch.Tensor)
    if kind:
        if value.is_complex():
            raise Error(f"{name} is complex (images are real) pass its real part or its absolute value")
        if value.device.type != "cpu":
            raise Error(f"{name} is on {value.device} (operators and denoisers in Python compute on the CPU) pass {name}.cpu()")
        tensor = value.detach()
    else:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
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
