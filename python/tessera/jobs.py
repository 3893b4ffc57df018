# SPDX-License-Identifier: BSD-3-Clause
"""A job as a dict, with arrays in the place of files: written as the job file and files that the program reads."""
from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from .program import Error

# Keys whose words are paths where a file of that name is there.
PATHS = {"measurements", "truth", "weights", "file", "start", "flats", "darks", "angles"}


def as_array(value: Any, name: str) -> tuple[np.ndarray, bool]:
    """numpy's view of an array of any kind, channels first, and whether they were last: (H, W), (C, H, W), (C, D, H, W), or
    colors last, (H, W, 3) and (H, W, 4), whose alpha is left out with a warning. Error of what is no image."""
    if getattr(value, "requires_grad", False):
        raise Error(f"{name} is a tensor that requires a gradient (a run has none) pass {name}.detach()")
    if hasattr(value, "detach"):
        value = _of_torch(value, name)
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise Error(f"{name} is a masked array (its mask would be lost) pass {name}.astype(float).filled(numpy.nan): in "
                    "measurements, what is no number is not measured")
    try:
        array = np.asarray(value)
    except ValueError:
        raise Error(f"{name} is a list of rows of different lengths (no image) pass an array of numbers") from None
    array, last = _channels_first(array, getattr(value, "dims", ()), name)
    return np.ascontiguousarray(array), last


def _channels_first(array: Any, dims: Any, name: str) -> tuple[Any, bool]:
    """The same, of an array of numpy or dask, as a view. `dims`: names of its axes, as xarray has them."""
    dims = [str(d) for d in dims]
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind in "OUSVMmT":
        raise Error(f"{name} has the type {array.dtype} (no numbers) pass an array of numbers")
    if array.dtype.kind == "c":
        raise Error(f"{name} is complex (images are real) pass its real part or its absolute value")
    if array.size == 0:
        raise Error(f"{name} has the shape {array.shape} (it holds nothing) pass an image")
    if dims and len(set(dims)) == array.ndim and set(dims) <= {"c", "z", "y", "x", "channel", "band"}:
        order = sorted(range(array.ndim), key=lambda d: {"z": 1, "y": 2, "x": 3}.get(dims[d], 0))
        return array.transpose(order), False
    if array.ndim == 3 and array.shape[2] in (3, 4) and array.shape[0] > 4:
        if array.shape[2] == 4:
            warnings.warn(f"{name}: the fourth channel is taken for alpha and left out; pass (C, H, W) if it is data", stacklevel=5)
        return array[..., :3].transpose(2, 0, 1), True
    if array.ndim not in (1, 2, 3, 4):
        raise Error(f"{name} has the shape {array.shape} (images have two to four axes) pass (H, W), (C, H, W) or (C, D, H, W)")
    return array, False


def _blocks_of(value: Any, name: str) -> Any:
    """The dask array of a value that is one, by itself or in an xarray; None of others."""
    blocks = getattr(value, "data", value) if getattr(value, "dims", None) else value
    if not (hasattr(blocks, "__dask_graph__") and hasattr(blocks, "chunks")):
        return None
    if any(not math.isfinite(n) for n in blocks.shape):
        raise Error(f"{name} is a dask array of unknown size (its blocks were not counted) call its compute_chunk_sizes()")
    return blocks


def save(value: Any, path: Path, name: str) -> bool:
    """Writes an array of any kind as .npy, channels first; whether they were last. One of dask is computed and written block
    by block, so that it need not fit into memory."""
    blocks = _blocks_of(value, name)
    if blocks is None:
        array, last = as_array(value, name)
        np.save(path, array)
        return last
    import dask.array

    array, last = _channels_first(blocks, getattr(value, "dims", ()), name)
    if isinstance(array._meta, np.ma.MaskedArray):
        raise Error(f"{name} is made of masked arrays (their masks would be lost) pass dask.array.ma.filled({name}, numpy.nan)")
    file = np.lib.format.open_memmap(path, mode="w+", dtype=array.dtype.newbyteorder("="), shape=array.shape)
    dask.array.store(array, file, lock=False)
    file.flush()
    return last


def _of_torch(value: Any, name: str) -> np.ndarray:
    if str(value.layout) != "torch.strided" or value.is_quantized:
        raise Error(f"{name} is a tensor of {value.dtype}, {value.layout} (dense ones are computed on) convert it")
    if value.device.type == "meta":
        raise Error(f"{name} is on meta (it has no values) pass a tensor that has")
    value = value.detach().cpu().resolve_conj().resolve_neg()
    try:
        return value.numpy()
    except TypeError:  # bfloat16, float8
        return value.float().numpy()


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "__array__") and hasattr(value, "shape") and len(value.shape) > 0)


def _is_table(value: Any) -> bool:
    """Rows of numbers."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(
        _is_table(v) if isinstance(v, (list, tuple)) else isinstance(v, (int, float, np.generic)) for v in value)


def plain(value: Any, name: str) -> Any:
    """A value as YAML has it: numpy's and torch's numbers as those of Python. Error of what no job holds."""
    if isinstance(value, dict):
        return {str(k): plain(v, f"{name}.{k}" if name else str(k)) for k, v in value.items()}
    if getattr(value, "ndim", 0) > 1:
        raise Error(f"{name} is an array of {tuple(value.shape)} (no key takes one there) leave it out")
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v, name) for v in value]
    if isinstance(value, Path):
        return str(value)
    if value is not None and type(value) not in (bool, int, float, str):
        raise Error(f"{name} is of type {type(value).__name__} (no job holds one) write a number, a word, a list or a dict")
    return value


class Job:
    """The job in `folder`: `path` is its file, `last` whether the measurement's channels came last."""

    def __init__(self, job: dict | str | Path, folder: Path, output: Path):
        self.last = False
        self.path = folder / "job.yaml"
        self._folder = folder
        if isinstance(job, dict):
            tree = self._written(job, ())
        elif isinstance(job, (str, Path)):
            self.path = Path(job)
            if not self.path.is_file():
                raise Error(f"{job} (no such job file) pass the path of one, or a dict")
            return
        else:
            raise Error(f"the job is of type {type(job).__name__} (no job) pass a dict, or the path of a job file")
        section = tree.setdefault("output", {})
        if not isinstance(section, dict):
            raise Error("output is no section (its keys are folder, preview, ...) pass a dict")
        section["folder"] = str(Path(section["folder"]).absolute()) if "folder" in section else str(output)
        tree.setdefault("schema", 1)
        self.path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))

    def _written(self, value: Any, keys: tuple) -> Any:
        if isinstance(value, dict):
            return {str(k): self._written(v, (*keys, str(k))) for k, v in value.items()}
        if isinstance(value, (list, tuple)) and not any(isinstance(v, (dict, list, tuple, str, Path)) or is_array(v) for v in value):
            return [self._scalar(v) for v in value]
        if isinstance(value, (list, tuple)):
            if keys and keys[-1] in PATHS and _is_table(value):
                return self._written(np.asarray(value), keys)
            return [self._written(v, (*keys, str(k))) for k, v in enumerate(value)]
        if is_array(value):
            if keys and (keys[-1] == "angles" or keys[-1] not in PATHS) and np.ndim(value) == 1:
                return [self._scalar(v) for v in np.asarray(value)]
            file = "_".join(keys) + ".npy"
            last = save(value, self._folder / file, ".".join(keys))
            self.last = self.last or (last and keys[-1] in ("measurements", "truth"))
            return file
        if isinstance(value, Path):
            return str(value.absolute())
        if isinstance(value, str) and keys and keys[-1] in PATHS and Path(value.split(":/")[0]).is_file():
            return str(Path(value.split(":/")[0]).absolute()) + value[len(value.split(":/")[0]):]
        return self._scalar(value, '.'.join(keys))

    @staticmethod
    def _scalar(value: Any, name: str = "a value") -> Any:
        return plain(value, name)
