# SPDX-License-Identifier: BSD-3-Clause
"""Solvers on arrays, in this process: reconstruct()."""
from __future__ import annotations

import base64
import contextlib
import copy
import html
import io
import signal
import threading
import warnings
from functools import cached_property
from typing import Any, Callable

import numpy as np
import yaml

from .core import core, named, together
from .denoisers import Denoiser, denoiser as make_denoiser
from .jobs import plain
from .operators import Operator
from .program import Error
from .tensors import as_tensor, number


class Reconstruction:
    """What reconstruct() found: `image` (this rank's block of it), `history`, `notices`, `iterations` and `seconds`.

    `ended_by`: iterations, residual, chi2, rounding, divergence, callback or Ctrl-C (then `interrupted` is true too). `cause`: why
    the image is not that of the last iteration; empty: it is.
    """

    def __init__(self, found: dict, operator: Operator, numpy: bool, interrupted: bool):
        self._history, self._shape, self._comm = found["history"], operator.shape, operator._comm
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
    def history(self) -> Any:
        """A pandas frame: residual, chi2, sigma, step, seconds of each iteration."""
        import pandas

        return pandas.DataFrame(self._history).set_index("iteration")

    def gather(self) -> np.ndarray | None:
        """The whole image on rank 0, None on the others. Collective."""
        comm = self._comm
        if comm is None or comm.size == 1:
            return np.asarray(self.image)
        pieces = comm.gather((self.block, np.asarray(self.image)))
        if pieces is None:
            return None
        whole = np.zeros(self._shape, np.float32)
        for block, piece in pieces:
            whole[block] = piece
        return whole

    def __array__(self, dtype=None, copy=None):
        return np.array(self.image, dtype=dtype) if copy else np.asarray(self.image, dtype=dtype)

    def __getstate__(self) -> dict:
        if self._comm is not None and self._comm.size > 1:
            raise Error("a reconstruction of several ranks is not copied (its image lies in blocks) take .gather()")
        return {**self.__dict__, "_comm": None}

    def _repr_html_(self) -> str:
        """The picture (of a volume the middle slice, of this rank its block) and the residuals, by iteration."""
        parts = [f"<p>{html.escape(repr(self)[1:-1])}</p>", f'<p style="color:#a40">{html.escape(self.cause)}</p>' if self.cause else ""]
        image = np.asarray(self.image)
        try:
            from PIL import Image
        except ImportError:
            return "".join(parts)
        channels = image.reshape(-1, *image.shape[-2:]) if image.ndim == 2 or len(image) != 3 or image.ndim > 3 else image
        shown = np.moveaxis(channels, 0, -1) if len(channels) == 3 and image.ndim == 3 else channels[len(channels) // 2]
        step = max(1, -(-max(shown.shape[:2]) // 1024))  # of large ones every so many pixels
        shown = np.nan_to_num(shown[::step, ::step])
        low, high = (0.0, 1.0) if shown.min() >= -0.1 and 0.2 < shown.max() <= 1.1 else (float(shown.min()), float(shown.max()))
        file = io.BytesIO()
        Image.fromarray(np.uint8(np.clip((shown - low) / max(high - low, 1e-30), 0, 1) * 255 + 0.5)).save(file, "png")
        data = base64.b64encode(file.getvalue()).decode()
        parts.insert(0, f'<img alt="image" title="from {low:.3g} to {high:.3g}" style="max-width:48%;max-height:30em" '
                        f'src="data:image/png;base64,{data}">' + self._curve())
        return "".join(parts)

    def _curve(self) -> str:
        """The residuals by iteration, logarithmic, as SVG."""
        found = [(row["iteration"], np.log10(row["residual"])) for row in self._history if row["residual"] and row["residual"] > 0]
        if len(found) < 2:
            return ""
        n, r = np.array(found).T
        x, y = 10 + 280 * (n - n[0]) / (n[-1] - n[0]), 25 + 150 * (r.max() - r) / max(r.max() - r.min(), 1e-9)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        return ('<svg width="300" height="200" role="img"><title>residual by iteration</title>'
                f'<polyline points="{points}" fill="none" stroke="#36c" stroke-width="1.5"/>'
                f'<text x="10" y="15" font-size="11">residual {10 ** r[0]:.2g} to {10 ** r[-1]:.2g}, {len(r)} iterations</text></svg>')

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
    text, called, samples, numpy, level = together(operator._comm, lambda: _taken(y, operator, noise, denoiser, settings, callback))
    with _alone(operator), _Interrupts() as interrupts:
        try:
            found = core().reconstruct(operator._core, samples, level, text, called, callback, lambda: interrupts.asked)
        except Error as error:
            raise Error(named(str(error)), error.code) from error.__cause__
    if not any(f"network: {name}\n" in text for name in ("tv", "none")):
        _say_scale(found)
    return Reconstruction(found, operator, numpy, interrupts.asked)


def _taken(y: Any, operator: Operator, noise: Any, denoiser: Any, settings: Any, callback: Any) -> tuple:
    """The arguments as C++ takes them: the text of the settings, a function that denoises, one that gives samples, whether they
    are numpy's, the noise."""
    tree = _sections(settings)
    called = None
    if denoiser is not None:
        used = make_denoiser(denoiser)
        tree["denoiser"] = {**used.words, **tree.get("denoiser", {})}
        called = used if used._call is not None else None
    level = 0.0 if noise is None else number(noise, "noise", 1e-15, 1e15)
    if callback is not None and not callable(callback):
        raise Error(f"callback is of type {type(callback).__name__} (it is called after each iteration) pass a function of a dict")
    text = yaml.safe_dump(plain(tree, ""), default_flow_style=False) if tree else ""
    if callable(y) and not hasattr(y, "shape"):
        def asked(part, ends):
            block = (slice(None), *(slice(*e) for e in ends))
            sizes = (operator._core.shape(part)[0], *(e[1] - e[0] for e in ends))
            return as_tensor(y(part, block), sizes, f"the samples of part {part}", double=False)[0]

        return text, called, asked, True, level
    parts = operator._parts(y)
    whole = [as_tensor(part, tuple(operator._core.shape(i)), "y", double=False)[0] for i, part in enumerate(parts)]

    def samples(part, ends):
        return whole[part][(slice(None), *(slice(*e) for e in ends))].contiguous()

    return text, called, samples, not hasattr(parts[0], "detach"), level


def _sections(settings: Any) -> dict:
    """Settings as sections: {"solver": {"iterations": 8}}, also written {"solver.iterations": 8}."""
    wrong = Error("settings are no dict of sections (such as {'solver': {'iterations': 8}}) write one")
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise wrong
    tree: dict = {}
    for key, value in settings.items():
        *sections, last = str(key).split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        if isinstance(value, dict) and isinstance(place.get(last), dict):
            value = {**place[last], **value}
        place[last] = copy.copy(value)
    for key, value in tree.items():
        if not isinstance(value, dict):
            raise wrong
        for name in value if key == "problem" else ():
            if name not in ("noise", "likelihood", "saturation"):
                raise Error(f"settings have problem.{name} (it is no matter of reconstruct, and would be ignored) known here: noise, "
                            "likelihood, saturation")
        if key in ("output", "watchdog"):
            raise Error(f"settings have {key} (reconstruct writes nothing, and it would be ignored) leave it out")
    return tree


def _say_scale(found: dict) -> None:
    image = found["image"]
    reach = float(image.abs().max()) if image.numel() else 0.0
    if reach > 4 and found["ended_by"] != "divergence":
        warnings.warn(f"the image reaches {reach:.4g} (denoisers know values in [0, 1]) divide the measurements by their white, or scale "
                      "the operator", stacklevel=3)


_one = threading.RLock()


@contextlib.contextmanager
def _alone(operator: Operator):
    """One loop at a time in a process: what it plans with is its own. Others wait; on several ranks, where they might wait for
    each other, they are refused."""
    ranks = operator._comm is not None and operator._comm.size > 1
    if not _one.acquire(blocking=not ranks):
        raise Error("a reconstruction is under way in another thread (on several ranks, two would take each other's messages) wait for it")
    try:
        yield
    finally:
        _one.release()


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

