# SPDX-License-Identifier: BSD-3-Clause
"""Linear operators on images: those of a job file by its words, and those written in Python."""
from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import yaml

from .core import core, handle
from .jobs import Job
from .program import Error
from .tensors import as_tensor, shape_of

BORDERS = {"none": 0, "circular": 1, "reflect": 2, "replicate": 3, "zero": 4}


class Operator:
    """A linear operator of an image, distributed over the ranks of a communicator where there is one.

    `A @ x` applies it, `A.T @ y` its adjoint: numpy arrays and torch tensors of float32 or float64, (H, W), (C, H, W) or
    (C, D, H, W); what comes back is of the kind that went in. On several ranks each passes its own part, `x[A.block]`, and all
    of them call together. Operators of a job file come from tessera.operator(). One of your own is a subclass with `apply`:

        class Difference(tessera.Operator):
            reach = 1                                     # pixels that a sample needs around its own
            def apply(self, x):                           # (C, H + 2, W + 2): with the pixels around
                return x[:, 1:-1, 2:] - x[:, 1:-1, 1:-1]  # (C, H, W)

    reach: pixels that a sample needs in each direction, one number or one per axis; None: the whole image (one rank only).
    border: what stands beyond the image for an operator with a reach: reflect, replicate, circular, zero.
    name: that messages call it. samples: the shape of what an operator without reach measures, where it is not the image's.
    channels: of a sample, where they are not the image's.
    adjoint(y): left out, it is torch's derivative of `apply`, which then has to be written with torch.
    In both, `self.block_asked` says which samples are asked for, as slices of the whole measurement.
    """

    reach: int | Sequence[int] | None = None
    border: str = "reflect"
    samples: Sequence[int] | None = None
    channels: int | None = None

    def __init__(self, shape: Sequence[int], *, comm: Any = None, like: Any = None):
        """shape: of the image. comm: a communicator of mpi4py; all its ranks call. like: a denoiser whose blocks it stands on.
        Error where `adjoint` is not that of `apply`, which is tried once."""
        self._begin(shape, comm)
        self.name = type(self).__name__
        self._core = core().Operator.of_object(_Hook(self), list(self._sizes), handle(comm), _grid(like))
        off = self.dot_test()
        if not off < 1e-3:
            raise Error(f"operator {self.name}: <A x, y> and <x, A.T y> differ by {off:.2g} of |A x| |y| (adjoint is not that of "
                        "apply, or apply is not linear) correct it, or leave adjoint out and write apply with torch")

    def _begin(self, shape: Sequence[int], comm: Any) -> None:
        self._sizes, self._comm = shape_of(shape), comm
        self._gray = len(tuple(shape)) == 2
        self.shape = tuple(int(n) for n in shape)

    @classmethod
    def _of_words(cls, words: dict, shape: Sequence[int], comm: Any, like: Any, seed: int) -> "Operator":
        self = object.__new__(_Named)
        self._begin(shape, comm)
        folder = Path(tempfile.mkdtemp(prefix="tessera-"))  # of its arrays: read whenever it is placed
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        problem = yaml.safe_load(Job({"problem": {"operator": words, "seed": seed}}, folder, folder).path.read_text())["problem"]
        text = yaml.safe_dump({"problem": _absolute(problem, folder)}, default_flow_style=False)
        self._core, said = core().Operator.of_words(text, list(self._sizes), handle(comm), _grid(like))
        for line in said:
            warnings.warn(line, stacklevel=3)
        self.name = str(words.get("type", "?"))
        return self

    # What a subclass writes.

    def apply(self, x):
        """The samples of `self.block`, (C, H, W), of the pixels around them, (C, H + 2 reach, W + 2 reach): torch tensors."""
        raise NotImplementedError

    def adjoint(self, y):
        """The transpose of apply."""
        import torch

        pixels = self._seen(y)
        with torch.enable_grad():
            x = torch.zeros(pixels, dtype=y.dtype, requires_grad=True)
            out = self.apply(x)
        if not isinstance(out, torch.Tensor) or not out.requires_grad:
            raise Error(f"operator {self.name} has no adjoint (apply is not made of torch's functions, so that torch cannot derive "
                        "it) write adjoint, or apply with torch")
        return torch.autograd.grad(out, x, y.reshape(out.shape))[0]

    def _seen(self, y) -> tuple[int, ...]:
        if self.reach is None:
            return self._sizes
        return (self._sizes[0], *(n + 2 * r for n, r in zip(y.shape[1:], _reach(self))))

    # What everybody calls.

    def __matmul__(self, x):
        if getattr(x, "requires_grad", False):
            return _linear(self, x, False)
        tensor, back = as_tensor(x, self._part(self.block, self._sizes), "x")
        return self._out(self._core.apply(tensor), back)

    __call__ = __matmul__

    def _out(self, parts: list, back) -> Any:
        out = [back(part) for part in parts]
        return out[0] if len(out) == 1 else out

    def _adjoint(self, y):
        if getattr(y, "requires_grad", False):
            return _linear(self, y, True)
        parts = y if isinstance(y, (list, tuple)) else [y]
        if len(parts) != self._core.parts():
            raise Error(f"{len(parts)} measurements were given (the operator has {self._core.parts()}) pass a list of them")
        tensors = [as_tensor(part, self._part(self.range_block(i), tuple(self._core.shape(i))), "y") for i, part in enumerate(parts)]
        image = self._core.adjoint([tensor for tensor, _ in tensors])
        image = image if hasattr(parts[0], "detach") else image.numpy()
        return image[0] if self._gray and not (parts[0].ndim == image.ndim and parts[0].shape[0] == 1) else image

    @property
    def T(self) -> "Transposed":  # noqa: N802
        """The adjoint: `A.T @ y`, and `A.T(y)`."""
        return Transposed(self)

    @property
    def block(self) -> tuple[slice, ...]:
        """This rank's part of the image: of all channels."""
        return (slice(None),) * (not self._gray) + tuple(slice(*ends) for ends in self._core.block())

    def range_block(self, part: int = 0) -> tuple[slice, ...]:
        """This rank's part of a measurement, (C, ...)."""
        return (slice(None), *(slice(*ends) for ends in self._core.range_block(part)))

    @property
    def range_shapes(self) -> list[tuple[int, ...]]:
        """Of all measurements, of all ranks: without the axis of channels where there is one."""
        return [shape[1:] if shape[0] == 1 and self._sizes[0] == 1 else shape
                for shape in (tuple(self._core.shape(i)) for i in range(self._core.parts()))]

    @staticmethod
    def _part(block: tuple[slice, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (sizes[0], *(s.stop - s.start for s in block[-(len(sizes) - 1):]))

    def norm(self) -> float:
        """The largest singular value, by formula or to some percent from above."""
        return self._core.norm()

    def dot_test(self, seed: int = 0) -> float:
        """|<A x, y> - <x, A.T y>| over |A x| |y| for random x and y: rounding where the adjoint is right."""
        import torch

        random = torch.Generator().manual_seed(seed + 7919 * (self._comm.rank if self._comm is not None else 0))
        x = torch.randn(self._part(self.block, self._sizes), generator=random, dtype=torch.float64)
        ax = self._core.apply(x)
        y = [torch.randn(part.shape, generator=random, dtype=torch.float64) for part in ax]
        aty = self._core.adjoint(y)
        sums = [sum(float((a * b).sum()) for a, b in zip(ax, y)), float((x * aty).sum()),
                sum(float((a * a).sum()) for a in ax), sum(float((b * b).sum()) for b in y)]
        if self._comm is not None:
            sums = [self._comm.allreduce(s) for s in sums]
        return abs(sums[0] - sums[1]) / max((sums[2] * sums[3]) ** 0.5, 1e-300)

    def aslinearoperator(self):
        """scipy's LinearOperator on flat vectors; one rank."""
        from scipy.sparse.linalg import LinearOperator

        self._alone("scipy's LinearOperator")
        shapes = [tuple(self._core.shape(i)) for i in range(self._core.parts())]
        ends = np.cumsum([0] + [int(np.prod(s)) for s in shapes])

        def forward(x):
            out = self._core.apply(as_tensor(np.asarray(x).reshape(self._sizes), self._sizes, "x")[0])
            return np.concatenate([part.numpy().ravel() for part in out])

        def back(y):
            parts = [np.asarray(y)[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes)]
            return self._core.adjoint([as_tensor(p, s, "y")[0] for p, s in zip(parts, shapes)]).numpy().ravel()

        return LinearOperator((int(ends[-1]), int(np.prod(self._sizes))), matvec=forward, rmatvec=back, dtype=np.float64)

    def to_deepinv(self, **more):
        """deepinv's LinearPhysics, on batches (N, C, H, W); one rank."""
        import deepinv
        import torch

        self._alone("deepinv's physics")
        if self._core.parts() > 1:
            raise Error(f"operator {self.name} has {self._core.parts()} measurements (deepinv's physics has one) pass one of them")

        def batched(pass_):
            return lambda batch, **_: torch.stack([pass_(item) for item in batch])

        physics = deepinv.physics.LinearPhysics(A=batched(lambda x: _linear(self, x, False)),
                                                A_adjoint=batched(lambda y: _linear(self, y, True)), img_size=self._sizes, **more)
        physics.samples = tuple(self._core.shape(0))
        return physics

    def _alone(self, what: str) -> None:
        if self._comm is not None and self._comm.size > 1:
            raise Error(f"operator {self.name} stands on {self._comm.size} ranks ({what} knows one) make it without comm")

    def __repr__(self) -> str:
        return f"<tessera.Operator {self.name}: {self.shape} to {', '.join(map(str, self.range_shapes))}>"


class _Named(Operator):
    """Of a job file's words."""


class Transposed:
    """A.T of an operator."""

    def __init__(self, operator: Operator):
        self.T = operator

    def __matmul__(self, y):
        return self.T._adjoint(y)

    __call__ = __matmul__


class _Hook:
    """What C++ calls of an operator in Python; it does not keep it alive."""

    def __init__(self, operator: Operator):
        self._operator = weakref.ref(operator)
        self.name = operator.name
        self._whole = operator.reach is None
        sizes = operator._sizes
        if self._whole:
            self._samples = list(shape_of(operator.samples, "samples") if operator.samples is not None else sizes)
        else:
            self._reach = list(_reach(operator))
            if operator.border not in BORDERS:
                raise Error(f"border is {operator.border!r} (there are {', '.join(BORDERS)}) write one of them")
            self._border = BORDERS[operator.border] if any(self._reach) else 0
            if any(self._reach) and self._border == 0:
                raise Error("border is none beside a reach (samples at the rim need something beyond it) write reflect, replicate, "
                            "circular or zero")
            self._channels = int(operator.channels or 0)

    def _call(self, method: str, tensor, block):
        import torch

        operator = self._operator()
        operator.__dict__["block_asked"] = tuple(slice(*ends) for ends in block)
        with torch.no_grad():
            out = getattr(operator, method)(tensor)
        if not isinstance(out, torch.Tensor):
            out = torch.from_numpy(np.ascontiguousarray(out))
        return out.detach().to(tensor.dtype).contiguous()

    def _apply(self, x, block):
        return self._call("apply", x, block)

    def _adjoint(self, y, block):
        return self._call("adjoint", y, block)


def _reach(operator: Operator) -> tuple[int, ...]:
    axes = len(operator._sizes) - 1
    reach = operator.reach
    out = (reach,) * axes if isinstance(reach, int) else tuple(reach)
    if len(out) != axes or any(not isinstance(r, int) or r < 0 for r in out):
        raise Error(f"reach is {reach!r} (the image has {axes} axes beside its channels) write a whole number, or one for each")
    return out


def _grid(like: Any) -> list[int] | None:
    return None if like is None else list(like._core.grid())


def _absolute(tree: Any, folder: Path) -> Any:
    """Files that stand in the folder of the job by their whole path."""
    if isinstance(tree, dict):
        return {k: _absolute(v, folder) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_absolute(v, folder) for v in tree]
    if isinstance(tree, str) and tree and (folder / tree).is_file():
        return str(folder / tree)
    return tree


def _linear(operator: Operator, x, transposed: bool):
    """A x, or A.T x, of a tensor, with its derivative: networks are trained through it."""
    import torch

    class Apply(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, transposed):
            ctx.transposed = transposed
            return operator._adjoint(x.detach()) if transposed else operator @ x.detach()

        @staticmethod
        def backward(ctx, gradient):
            return Apply.apply(gradient, not ctx.transposed), None

    if operator._core.parts() > 1:
        raise Error(f"x requires a gradient, and operator {operator.name} has {operator._core.parts()} measurements (a derivative "
                    "goes through one) pass x.detach(), or use operators of one")
    return Apply.apply(x, transposed)


def operator(words: dict | list | str, shape: Sequence[int], *, comm: Any = None, like: Any = None, seed: int = 0) -> Operator:
    """An operator of a job file: the keys of problem.operator ({"type": "blur", "kernel": {"file": array}, "boundary": "reflect"}),
    or a list of such, or the name of one without keys. Arrays may stand for files.

    shape: of the image, (H, W), (C, H, W) or (C, D, H, W). comm: an mpi4py communicator, all ranks call. like: a denoiser on whose
    blocks it stands. seed: problem.seed. Warnings are what `tessera check` would say. Error: what the program would refuse.
    """
    words = {"type": words} if isinstance(words, str) else {"type": "stack", "parts": list(words)} if isinstance(words, (list, tuple)) else words
    if not isinstance(words, dict):
        raise Error(f"the operator is of type {type(words).__name__} (no words of a job) pass a name, a dict of its keys, or a list")
    return Operator._of_words(words, shape, comm, like, seed)


def from_deepinv(thing: Any, shape: Sequence[int] | None = None, *, reach: int | None = None):
    """deepinv's LinearPhysics as an Operator of an image of `shape` (one rank), or its denoiser as one for reconstruct()."""
    import torch

    if not hasattr(thing, "A_adjoint"):
        from .denoisers import denoiser
        return denoiser(lambda x, sigma: thing(x[None], sigma)[0], reach=reach, name=type(thing).__name__)
    if shape is None:
        raise Error("shape is missing (physics do not all know that of their image) pass from_deepinv(physics, (H, W))")
    sizes = shape_of(shape)
    with torch.no_grad():
        measured = tuple(thing.A(torch.zeros((1, *sizes))).shape[1:])

    class Physics(Operator):
        samples = measured

        def apply(self, x):
            return thing.A(x[None].float())[0]

        def adjoint(self, y):
            return thing.A_adjoint(y.reshape(1, *measured).float())[0]

    Physics.__name__ = type(thing).__name__
    return Physics(shape)
