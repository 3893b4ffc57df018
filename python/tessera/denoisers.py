# SPDX-License-Identifier: BSD-3-Clause
"""Denoisers: the networks and total variation of the program, and functions of Python."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import yaml

from .core import core, handle
from .program import Error
from .tensors import as_tensor, shape_of


class Denoiser:
    """D(x, sigma): one of the program's on an image of a shape, or a function; for itself and for reconstruct().

    x: (H, W), (C, H, W) or (C, D, H, W), numpy or torch, in the range that networks were trained on, [0, 1]; sigma: the noise's
    standard deviation in the same unit. On several ranks each passes its part, `x[D.block]`.
    """

    def __init__(self, call: Callable | None, words: dict, shape: Sequence[int] | None, comm: Any, reach: int | None, name: str):
        self._call, self.words, self.name = call, words, name
        self._reach = -1 if reach is None else reach
        self.shape = None if shape is None else tuple(int(n) for n in shape)
        self._comm = comm
        self._core = None
        if call is None and shape is not None:
            self._sizes = shape_of(shape)
            text = yaml.safe_dump({"denoiser": words}, default_flow_style=False) if words else ""
            self._core = core().Denoiser(text, list(self._sizes), handle(comm))

    def __call__(self, x, sigma: float):
        if self._core is None and self._call is None:
            raise Error(f"denoiser {self.name} has no shape (what a network takes depends on it) pass tessera.denoiser(words, shape)")
        if self._call is not None:
            sizes = shape_of(getattr(x, "shape", ()), "the shape of x")
            tensor, back = as_tensor(x, sizes, "x", double=False)
            return back(self._apply(tensor, sigma, None))
        block = self.block[-(len(self._sizes) - 1):]
        tensor, back = as_tensor(x, (self._sizes[0], *(s.stop - s.start for s in block)), "x", double=False)
        return back(self._core.apply(tensor, float(sigma)))

    @property
    def block(self) -> tuple[slice, ...]:
        """This rank's part of the image: of all channels."""
        ends = tuple(slice(*e) for e in self._core.block()) if self._core else tuple(slice(0, n) for n in shape_of(self.shape)[1:])
        return (slice(None),) * (len(self.shape) > 2) + ends

    def _apply(self, x, sigma: float, block):
        """What C++ calls of a function: a block with the pixels around it, (C, H, W)."""
        import numpy as np
        import torch

        with torch.no_grad():
            out = self._call(x.clone(), sigma)
        if not isinstance(out, torch.Tensor):
            out = torch.from_numpy(np.ascontiguousarray(out))
        return out.detach().to(torch.float32).reshape(x.shape if out.numel() == x.numel() else out.shape).contiguous()

    def __repr__(self) -> str:
        return f"<tessera.Denoiser {self._core.description() if self._core else self.name}>"


def denoiser(what: dict | str | Callable = "drunet", shape: Sequence[int] | None = None, *, comm: Any = None,
             reach: int | None = None, name: str | None = None) -> Denoiser:
    """A denoiser: by the keys of the section `denoiser` of a job file ({"network": "drunet", "averaging": "flips"}), by the
    name of a network with its shipped weights, or a function f(x, sigma) of a torch tensor (C, H, W) that returns one.

    shape: of the image; may be left out for what only reconstruct() calls. comm: an mpi4py communicator, all ranks call.
    reach: of a function, the pixels around its own that an output depends on: with it the function runs on several ranks, each
    on its block and so many pixels around it, and the result is that of one rank. None: the whole image, one rank.
    """
    if isinstance(what, Denoiser):
        return what
    if callable(what):
        if reach is not None and (isinstance(reach, bool) or not isinstance(reach, int) or reach < 0):
            raise Error(f"reach is {reach!r} (pixels around a block) write a whole number, 0 or above, or leave it out")
        return Denoiser(what, {"network": "python"}, shape, comm, reach, name or getattr(what, "__name__", type(what).__name__))
    words = {"network": what} if isinstance(what, str) else dict(what)
    return Denoiser(None, words, shape, comm, None, name or str(words.get("network", "drunet")))
