# SPDX-License-Identifier: BSD-3-Clause
"""Denoisers: the networks and total variation of the program, and functions of Python."""
from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import numpy as np
import yaml

from .core import core, handle, named, together
from .jobs import plain
from .program import Error
from .tensors import as_tensor, number, returned, shape_of


class Denoiser:
    """D(x, sigma): one of the program's on an image of a shape, or a function; for itself and for reconstruct().

    x: (H, W), (C, H, W) or (C, D, H, W), numpy or torch, in the range that networks were trained on, [0, 1]; sigma: the noise's
    standard deviation in the same unit. On several ranks each passes its part, `x[D.block]`.
    """

    def __init__(self, call: Callable | None, words: dict, shape: Sequence[int] | None, comm: Any, reach: int | None, name: str):
        self._call, self.words, self.name = call, words, name
        self._reach = -1 if reach is None else reach
        self.shape = None if shape is None else shape_of(shape)[-len(tuple(shape)):]
        self._comm = comm
        self._core = None
        self._lock = threading.RLock()  # its buffers are used by one thread at a time
        if call is None and shape is not None:
            self._sizes = shape_of(shape)
            text = yaml.safe_dump({"denoiser": plain(words, "denoiser")}, default_flow_style=False) if words else ""
            try:
                self._core = core().Denoiser(text, list(self._sizes), handle(comm))
            except Error as error:
                raise Error(named(str(error)), error.code) from None
        elif shape is not None:
            self._sizes = shape_of(shape)

    def __call__(self, x: Any, sigma: float) -> Any:
        if self._core is None and self._call is None:
            raise Error(f"denoiser {self.name} has no shape (what a network takes depends on it) pass tessera.denoiser(words, shape)")
        with self._lock:
            tensor, back, level = together(self._comm, lambda: self._taken(x, sigma))
            return back(self._core.apply(tensor, level) if self._core else self._apply(tensor, level, None))

    def _taken(self, x, sigma: float):
        level = number(sigma, "sigma")
        if self._call is not None:
            alone = self._comm is None or self._comm.size == 1
            sizes = self._sizes if self.shape is not None and alone else shape_of(np.shape(x), "the shape of x")
            return *as_tensor(x, sizes, "x", double=False), level
        block = self.block[-(len(self._sizes) - 1):]
        tensor, back = as_tensor(x, (self._sizes[0], *(s.stop - s.start for s in block)), "x", double=False)
        if not bool(tensor.isfinite().all()):
            raise Error("x has values that are no finite numbers (they would spread over the picture) replace them")
        return tensor, back, level

    @property
    def block(self) -> tuple[slice, ...]:
        """This rank's part of the image: of all channels."""
        if self.shape is None:
            raise Error(f"denoiser {self.name} has no shape (its block is that of an image) pass tessera.denoiser(what, shape)")
        ends = tuple(slice(*e) for e in self._core.block()) if self._core else tuple(slice(0, n) for n in shape_of(self.shape)[1:])
        return (slice(None),) * (len(self.shape) > 2) + ends

    def _apply(self, x, sigma: float, block):
        """What C++ calls of a function: a block with the pixels around it, (C, H, W)."""
        import torch

        with torch.no_grad():
            out = returned(self._call(x.clone(), sigma), f"denoiser {self.name}", torch.float32)
        ones = abs(out.ndim - x.ndim)  # a batch of one, or one channel left out
        if out.shape != x.shape and (out.shape[ones:] == x.shape and set(out.shape[:ones]) <= {1}
                                     or x.shape[ones:] == out.shape and set(x.shape[:ones]) <= {1}):
            out = out.reshape(x.shape)
        if out.shape != x.shape:
            raise Error(f"denoiser {self.name} makes {tuple(out.shape)} of {tuple(x.shape)} (an image of the same shape is "
                        "wanted) return one")
        return out

    def __copy__(self) -> "Denoiser":
        return self

    def __deepcopy__(self, memo) -> "Denoiser":
        return self

    def __reduce__(self):
        if self._comm is not None and self._comm.size > 1:
            raise Error(f"denoiser {self.name} stands on {self._comm.size} ranks (it is not sent to other processes) make it there")
        reach = None if self._reach < 0 else self._reach
        return Denoiser, (self._call, self.words, self.shape, None, reach, self.name)

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
        if shape is None or what.shape == tuple(shape):
            return what
        return Denoiser(what._call, what.words, shape, comm, None if what._reach < 0 else what._reach, what.name)
    if callable(what) and not isinstance(what, type):
        if reach is not None and (isinstance(reach, bool) or not isinstance(reach, (int, np.integer)) or reach < 0):
            raise Error(f"reach is {reach!r} (pixels around a block) write a whole number, 0 or above, or leave it out")
        return Denoiser(what, {"network": "python"}, shape, comm, reach, name or getattr(what, "__name__", type(what).__name__))
    if not isinstance(what, (str, dict)):
        raise Error(f"the denoiser is of type {type(what).__name__} (no denoiser) pass a name, a dict of keys, or a function f(x, sigma)")
    if reach is not None:
        raise Error("reach is given for a denoiser of the program (it knows its own) leave it out")
    words = {"network": what} if isinstance(what, str) else dict(what)
    return Denoiser(None, words, shape, comm, None, name or str(words.get("network", "drunet")))
