# SPDX-License-Identifier: BSD-3-Clause
"""Linear operators on images: those of a job file by its words, and those written in Python."""
from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import yaml

from .core import core, handle, named, together
from .jobs import Job, is_array
from .own import Hook, check_linear, derivative, reach_of, sums
from .program import Error
from .tensors import as_tensor, shape_of


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

    __array_ufunc__ = None  # x @ A is no matter of numpy's
    reach: int | Sequence[int] | None = None
    border: str = "reflect"
    samples: Sequence[int] | None = None
    channels: int | None = None

    def __init__(self, shape: Sequence[int], *, comm: Any = None, like: Any = None):
        """shape: of the image. comm: a communicator of mpi4py; all its ranks call. like: a denoiser whose blocks it stands on.
        Error where `adjoint` is not that of `apply`, which is tried once."""
        self._begin(shape, comm)
        self.name = type(self).__name__
        self._core = core().Operator.of_object(Hook(self), list(self._sizes), handle(comm), _grid(like, self._sizes))
        check_linear(self)

    def _begin(self, shape: Sequence[int], comm: Any) -> None:
        self._sizes, self._comm = shape_of(shape), comm
        self._gray = len(tuple(shape)) == 2
        self.shape = self._sizes[-len(tuple(shape)):]
        self._lock = threading.RLock()  # its buffers are used by one thread at a time

    def __getattr__(self, key: str):
        if key in ("_core", "_sizes", "_gray", "_comm", "_lock", "shape", "name"):
            raise Error(f"operator {type(self).__name__} was not begun (its __init__ does not call Operator's) write "
                        "super().__init__(shape) there")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")

    def __copy__(self) -> "Operator":
        raise Error(f"operator {self.name} is not copied (the copy would go on with the attributes of this one) make another")

    def __deepcopy__(self, memo) -> "Operator":
        return self.__copy__()

    def __reduce__(self):
        raise Error(f"operator {self.name} is not sent to other processes (it lies in the memory of this one) make it there")

    @classmethod
    def _of_words(cls, words: dict, shape: Sequence[int], comm: Any, like: Any, seed: int) -> "Operator":
        self = object.__new__(_Named)
        self._begin(shape, comm)
        folder = Path(tempfile.mkdtemp(prefix="tessera-"))  # of its arrays: read whenever it is placed
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        problem = yaml.safe_load(Job({"problem": {"operator": words, "seed": seed}}, folder, folder).path.read_text())["problem"]
        self._words, self._folder = _absolute(problem, folder), folder
        text = yaml.safe_dump({"problem": self._words}, default_flow_style=False)
        try:
            self._core, said = core().Operator.of_words(text, list(self._sizes), handle(comm), _grid(like, self._sizes))
        except Error as error:
            raise Error(named(str(error), folder), error.code) from None
        for line in said:
            warnings.warn(named(line, folder), stacklevel=3)
        self.name = str(words.get("type", "identity"))
        return self

    # What a subclass writes.

    def apply(self, x: Any) -> Any:
        """The samples of `self.block`, (C, H, W), of the pixels around them, (C, H + 2 reach, W + 2 reach): torch tensors."""
        raise Error(f"operator {type(self).__name__} has no apply (that is what it computes) write apply(self, x), or make one of a "
                    "job file by tessera.operator(words, shape)")

    def adjoint(self, y: Any) -> Any:
        """The transpose of apply."""
        return derivative(self, self._seen(y), y)

    def _seen(self, y) -> tuple[int, ...]:
        if self.reach is None:
            return self._sizes
        return (self._sizes[0], *(n + 2 * r for n, r in zip(y.shape[1:], reach_of(self))))

    # What everybody calls.

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, (Operator, Transposed)):
            raise Error("A @ B of two operators is not made (an operator is applied to an image) write A @ (B @ x)")
        if _derived(x):
            return _linear(self, x, False)
        tensor, back = together(self._comm, lambda: as_tensor(x, self._part(self.block, self._sizes), "x"))
        with self._lock:
            return self._out(self._core.apply(tensor), back)

    __call__ = __matmul__

    def _out(self, parts: list, back) -> Any:
        out = [back(part) for part in parts]
        return out[0] if len(out) == 1 else out

    def _adjoint(self, y):
        if isinstance(y, (Operator, Transposed)):
            raise Error("A.T @ A is not made (an operator is applied to an array) write A.T @ (A @ x)")
        if _derived(y):
            return _linear(self, y, True)

        def taken():
            parts = self._parts(y)
            return [as_tensor(part, self._part(self.range_block(i), tuple(self._core.shape(i))), "y")[0]
                    for i, part in enumerate(parts)], parts

        tensors, parts = together(self._comm, taken)
        double = any(str(tensor.dtype) == "torch.float64" for tensor in tensors)
        with self._lock:
            image = self._core.adjoint([tensor.double() if double else tensor for tensor in tensors])
        image = image if hasattr(parts[0], "detach") else image.numpy()
        return image[0] if self._gray and not (len(np.shape(parts[0])) == image.ndim and np.shape(parts[0])[0] == 1) else image

    def _parts(self, y) -> list:
        """The measurements that y is: one, or a list of as many as the operator has."""
        count = self._core.parts()
        parts = list(y) if isinstance(y, (list, tuple)) and (count > 1 or any(map(is_array, y))) else [y]
        if len(parts) != count:
            raise Error(f"{len(parts)} measurements were given (the operator has {count}) pass a list of them")
        return parts

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
        one = sums(self, seed)
        return abs(one[0] - one[1]) / max((one[2] * one[3]) ** 0.5, 1e-300)

    def aslinearoperator(self) -> Any:
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

    def to_deepinv(self, **more: Any) -> Any:
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
    """Of a job file's words: it does not change, so that a copy is itself."""

    def __copy__(self) -> "Operator":
        return self

    def __deepcopy__(self, memo) -> "Operator":
        return self

    def __reduce__(self):
        if self._comm is not None and self._comm.size > 1:
            return super().__reduce__()
        return _again, (_loaded(self._words, self._folder), self.shape)


_Named.__name__ = "Operator"  # as messages call it


def _again(problem: dict, shape: tuple[int, ...]) -> Operator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return operator(problem["operator"], shape, seed=problem["seed"])


def _loaded(tree: Any, folder: Path) -> Any:
    """The arrays in the place of the files in a folder."""
    if isinstance(tree, dict):
        return {k: _loaded(v, folder) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_loaded(v, folder) for v in tree]
    return np.load(tree) if isinstance(tree, str) and tree.startswith(f"{folder}/") else tree


class Transposed:
    """A.T of an operator."""

    def __init__(self, operator: Operator):
        self.T = operator

    def __matmul__(self, y: Any) -> Any:
        return self.T._adjoint(y)

    __call__ = __matmul__
    __array_ufunc__ = None

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


def _grid(like: Any, sizes: tuple[int, ...]) -> list[int] | None:
    if like is None:
        return None
    grid = getattr(getattr(like, "_core", None), "grid", None)
    if grid is None or like._sizes != sizes:
        raise Error(f"like is {like!r} (blocks are those of a denoiser of the program on an image of this shape) pass "
                    f"tessera.denoiser(words, {sizes[1:] if sizes[0] == 1 else sizes}, comm=comm)")
    return list(grid())


def _derived(x: Any) -> bool:
    """Torch follows it: for a derivative, or a transform such as vmap."""
    if getattr(x, "requires_grad", False):
        return True
    if not hasattr(x, "detach"):
        return False
    import torch

    return torch._C._functorch.is_functorch_wrapped_tensor(x)


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
        def forward(x, transposed):
            return operator._adjoint(x.detach()) if transposed else operator @ x.detach()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.transposed = inputs[1]

        @staticmethod
        def backward(ctx, gradient):
            return Apply.apply(gradient, not ctx.transposed), None

        @staticmethod
        def jvp(ctx, tangent, _):
            return Apply.apply(tangent, ctx.transposed)

        @staticmethod
        def vmap(info, dims, x, transposed):
            return torch.stack([Apply.apply(item, transposed) for item in x.unbind(dims[0])]), 0

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
    if isinstance(words, (list, tuple)):
        words = {"type": "stack", "parts": [{"type": part} if isinstance(part, str) else part for part in words]}
    words = {"type": words} if isinstance(words, str) else words
    if not isinstance(words, dict):
        raise Error(f"the operator is of type {type(words).__name__} (no words of a job) pass a name, a dict of its keys, or a list")
    return Operator._of_words(words, shape, comm, like, seed)


def from_deepinv(thing: Any, shape: Sequence[int] | None = None, *, reach: int | None = None) -> Any:
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
