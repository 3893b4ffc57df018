# SPDX-License-Identifier: BSD-3-Clause
"""Operators written in Python: what they say of themselves, how C++ calls them, and whether they are linear."""
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .program import Error
from .tensors import returned, shape_of

BORDERS = {"none": 0, "circular": 1, "reflect": 2, "replicate": 3, "zero": 4}


class Hook:
    """What C++ calls of an operator in Python; it does not keep it alive."""

    def __init__(self, operator: Any):
        self._operator = weakref.ref(operator)
        self.name = operator.name
        self._whole = operator.reach is None
        sizes, channels = operator._sizes, channels_of(operator)
        if self._whole:
            self._samples = list(shape_of(operator.samples, "samples") if operator.samples is not None else (channels, *sizes[1:]))
            if operator.channels is not None and self._samples[0] != channels:
                raise Error(f"samples is {operator.samples!r} and channels {channels} (the first says the channels too) leave "
                            "channels out")
        else:
            if operator.samples is not None:
                raise Error("samples is given beside a reach (such an operator has a sample for each pixel) leave one of them out")
            self._reach = list(reach_of(operator))
            if not isinstance(operator.border, str) or operator.border not in BORDERS:
                raise Error(f"border is {operator.border!r} (there are {', '.join(BORDERS)}) write one of them")
            self._border = BORDERS[operator.border] if any(self._reach) else 0
            if any(self._reach) and self._border == 0:
                raise Error("border is none beside a reach (samples at the rim need something beyond it) write reflect, replicate, "
                            "circular or zero")
            self._channels = channels

    def _call(self, method: str, tensor, block):
        import torch

        operator = self._operator()
        operator.__dict__["block_asked"] = tuple(slice(*ends) for ends in block)
        with torch.no_grad():  # on a copy: what the method does to it in place is nobody else's
            return returned(getattr(operator, method)(tensor.clone()), f"operator {self.name}: {method}", tensor.dtype)

    def _apply(self, x, block):
        return self._call("apply", x, block)

    def _adjoint(self, y, block):
        return self._call("adjoint", y, block)


def _whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def channels_of(operator: Any) -> int:
    channels = operator.channels
    if channels is None:
        return operator._sizes[0]
    if not _whole_number(channels) or channels < 1:
        raise Error(f"channels is {channels!r} (of a sample) write a whole number, 1 or above, or leave it out")
    return int(channels)


def reach_of(operator: Any) -> tuple[int, ...]:
    axes = len(operator._sizes) - 1
    reach = operator.reach
    out = (reach,) * axes if _whole_number(reach) else tuple(reach) if hasattr(reach, "__iter__") else ()
    if len(out) != axes or any(not _whole_number(r) or not 0 <= r <= 1 << 20 for r in out):
        raise Error(f"reach is {reach!r} (the image has {axes} axes beside its channels) write a whole number, or one for each")
    return tuple(int(r) for r in out)


def derivative(operator: Any, pixels: tuple[int, ...], y):
    """The transpose of apply, by torch."""
    import torch

    wrong = Error(f"operator {operator.name} has no adjoint (apply is not made of torch's functions, so that torch cannot derive "
                  "it) write adjoint, or apply with torch")
    with torch.enable_grad():
        x = torch.zeros(pixels, dtype=y.dtype, requires_grad=True)
        try:
            out = operator.apply(x.clone())
        except RuntimeError as error:
            if "requires grad" not in str(error):
                raise
            raise wrong from None
    if not isinstance(out, torch.Tensor) or not out.requires_grad:
        raise wrong
    if out.is_complex() or out.numel() != y.numel():
        returned(out, f"operator {operator.name}: apply", y.dtype)
        raise Error(f"operator {operator.name}: apply makes {tuple(out.shape)} of {pixels} ({tuple(y.shape)} is wanted) return that")
    return torch.autograd.grad(out, x, y.reshape(out.shape).to(out.dtype))[0]


def sums(operator: Any, seed: int, like_ax: bool = False) -> tuple[float, float, float, float, float]:
    """<A x, y>, <x, A.T y>, |A x|^2, |y|^2 of random x, and random y or y = A x, and the number of samples: of all ranks."""
    import torch

    comm = operator._comm
    random = torch.Generator().manual_seed(seed + 7919 * (comm.rank if comm is not None else 0))
    x = torch.randn(operator._part(operator.block, operator._sizes), generator=random, dtype=torch.float64)
    ax = operator._core.apply(x)
    y = ax if like_ax else [torch.randn(part.shape, generator=random, dtype=torch.float64) for part in ax]
    aty = operator._core.adjoint(y)
    found = [sum(float((a * b).sum()) for a, b in zip(ax, y)), float((x * aty).sum()), sum(float((a * a).sum()) for a in ax),
             sum(float((b * b).sum()) for b in y), float(sum(a.numel() for a in ax))]
    return tuple(comm.allreduce(s) for s in found) if comm is not None else tuple(found)


def check_linear(operator: Any) -> None:
    """Error where A 0 is not 0, or A.T not the transpose of A. Collective."""
    import torch

    zero = operator._core.apply(torch.zeros(operator._part(operator.block, operator._sizes), dtype=torch.float64))
    offset = max((float(part.abs().max()) if part.numel() else 0.0 for part in zero), default=0.0)
    if operator._comm is not None:
        offset = max(operator._comm.allgather(offset))
    if offset != 0:
        raise Error(f"operator {operator.name}: apply of an image of zeros has values up to {offset:.2g} (a linear operator makes "
                    "zeros of it) take what is constant off the measurements")
    # Random x and y see any entry that is not transposed, of a size that shrinks with the root of their number; y = A x sees a
    # factor, and what is transposed in the wrong direction.
    one, other = sums(operator, 0), sums(operator, 1, like_ax=True)
    size = max((one[2] * one[3]) ** 0.5, 1e-300)
    off = abs(one[0] - one[1]) / size
    factor = abs(other[0] - other[1]) / max(other[2], 1e-300)
    if not off * one[4] ** 0.5 < 1e-2 or not factor < 1e-3:
        worst = off if factor < 1e-3 else factor
        raise Error(f"operator {operator.name}: <A x, y> and <x, A.T y> differ by {worst:.2g} of |A x| |y| (adjoint is not that of "
                    "apply, or apply is not linear) correct it, or leave adjoint out and write apply with torch")
