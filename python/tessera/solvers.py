# SPDX-License-Identifier: BSD-3-Clause
"""Solvers on arrays, in this process: reconstruct()."""
from __future__ import annotations

import copy
import signal
import threading
from functools import cached_property
from typing import Any, Callable

import numpy as np
import yaml

from .core import core
from .denoisers import Denoiser, denoiser as make_denoiser
from .operators import Operator
from .program import Error
from .tensors import as_tensor


class Reconstruction:
    """What reconstruct() found: `image` (this rank's block of it), `history`, `notices`, `iterations` and `seconds`.

    `ended_by`: iterations, residual, chi2, rounding, divergence, callback or Ctrl-C (then `interrupted` is true too). `cause`: why
    the image is not that of the last iteration; empty: it is.
    """

    def __init__(self, found: dict, operator: Operator, numpy: bool, interrupted: bool):
        self._operator, self._found = operator, found
        tensor = found["image"][0] if operator._gray else found["image"]
        self.image = tensor.numpy() if numpy else tensor
        self.block = (slice(None),) * (not operator._gray) + tuple(slice(*ends) for ends in found["block"])
        self.iterations: int = found["iterations"]
        self.seconds: float = found["seconds"]
        self.interrupted = interrupted and found["ended_by"] == "signal"  # by Ctrl-C
        # iterations, residual, chi2, rounding, divergence; callback where that ended it, Ctrl-C
        self.ended_by: str = found["ended_by"]
        if self.ended_by == "signal":
            self.ended_by = "Ctrl-C" if self.interrupted else "callback"
        self.cause: str = found["cause"]  # why the image is not that of the last iteration; empty: it is
        self.notices: list[str] = list(found["notices"])

    @cached_property
    def history(self):
        """A pandas frame: residual, chi2, sigma, step, seconds of each iteration."""
        import pandas

        return pandas.DataFrame(self._found["history"]).set_index("iteration")

    def gather(self) -> np.ndarray | None:
        """The whole image on rank 0, None on the others. Collective."""
        comm = self._operator._comm
        if comm is None or comm.size == 1:
            return np.asarray(self.image)
        pieces = comm.gather((self.block, np.asarray(self.image)))
        if pieces is None:
            return None
        whole = np.zeros(self._operator.shape, np.float32)
        for block, piece in pieces:
            whole[block] = piece
        return whole

    def __array__(self, dtype=None, copy=None):
        return np.array(self.image, dtype=dtype) if copy else np.asarray(self.image, dtype=dtype)

    def __repr__(self) -> str:
        return f"<tessera.Reconstruction: {self.iterations} iterations in {self.seconds:.3g} s, ended by {self.ended_by}>"


def reconstruct(y: Any, operator: Operator, *, noise: float | None = None, denoiser: Any = None, settings: dict | None = None,
                callback: Callable[[dict], Any] | None = None) -> Reconstruction:
    """Reconstructs an image from measurements y of an operator, in this process.

    y: the whole measurement, as `operator @ x` shapes it (of several, a list), on every rank; or a function (part, slices) that
    returns those samples of part `part`, (C, ...), so that each rank makes its own. NaN: not measured. Values in the range of
    networks, [0, 1]. noise: standard deviation; None: the data's own estimate.
    denoiser: what tessera.denoiser() takes or returns. settings: sections denoiser, solver, domain of a job file, and of its
    problem noise, likelihood and saturation: {"solver": {"name": "hqs", "iterations": 8}}.
    callback: called after each iteration with a dict (iteration, residual, chi2, sigma, step, seconds); true ends the loop.

    Ctrl-C ends the loop after the iteration that it is in: `interrupted` is true, the image that of this iteration. With several
    ranks all of them call, and what one raises between the iterations ends all.
    """
    if not isinstance(operator, Operator):
        raise Error(f"the operator is of type {type(operator).__name__} (no operator of tessera) pass tessera.operator(...), "
                    "tessera.from_deepinv(...), or an object of a subclass of tessera.Operator")
    tree = copy.deepcopy(settings) if settings else {}
    if not isinstance(tree, dict) or not all(isinstance(section, dict) for section in tree.values()):
        raise Error("settings are no dict of sections (such as {'solver': {'iterations': 8}}) write one")
    called = None
    if denoiser is not None:
        used = make_denoiser(denoiser)
        if not isinstance(used, Denoiser):
            raise Error(f"the denoiser is of type {type(denoiser).__name__} (no denoiser) pass a name, a dict or a function")
        tree["denoiser"] = {**used.words, **tree.get("denoiser", {})}
        called = used if used._call is not None else None
    if noise is not None and not (np.isfinite(noise) and noise > 0):
        raise Error(f"noise is {noise} (a standard deviation is above 0) correct it, or leave it out")
    numpy = [True]
    if callable(y) and not hasattr(y, "shape"):
        def samples(part, ends):
            block = (slice(None), *(slice(*e) for e in ends))
            sizes = (operator._core.shape(part)[0], *(e[1] - e[0] for e in ends))
            tensor, _ = as_tensor(y(part, block), sizes, f"samples of part {part}", double=False)
            return tensor
    else:
        parts = list(y) if isinstance(y, (list, tuple)) else [y]
        if len(parts) != operator._core.parts():
            raise Error(f"{len(parts)} measurements were given (the operator has {operator._core.parts()}) pass a list of them")
        numpy[0] = not hasattr(parts[0], "detach")
        whole = [as_tensor(part, tuple(operator._core.shape(i)), "y", double=False)[0] for i, part in enumerate(parts)]

        def samples(part, ends):
            return whole[part][(slice(None), *(slice(*e) for e in ends))].contiguous()

    text = yaml.safe_dump(_plain(tree), default_flow_style=False) if tree else ""
    with _Interrupts() as interrupts:
        found = core().reconstruct(operator._core, samples, float(noise or 0), text, called, callback, lambda: interrupts.asked)
    return Reconstruction(found, operator, numpy[0], interrupts.asked)


class _Interrupts:
    """Ctrl-C asks the loop to end, a second one raises KeyboardInterrupt."""

    def __init__(self):
        self.asked = False

    def _ask(self, number, frame):
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __enter__(self) -> "_Interrupts":
        self._mine = (threading.current_thread() is threading.main_thread()
                      and signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN))
        self._before = signal.signal(signal.SIGINT, self._ask) if self._mine else None
        return self

    def __exit__(self, *error) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)


def _plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {str(k): _plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_plain(v) for v in tree]
    return tree.item() if isinstance(tree, np.generic) else tree
