# SPDX-License-Identifier: BSD-3-Clause
"""What a run left in its output folder, finished or not."""
from __future__ import annotations

import base64
import html
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .program import Error
from .trace import read_trace


class Result:
    """An output folder: `image`, `summary`, `status`, `history`, `warnings`, `log`. It shows itself in a notebook.

    `folder`: where it lies. `interrupted`: Ctrl-C ended the run, and the image is that of its last whole iteration.
    """

    def __init__(self, folder: str | Path, channels_last: bool = False, keep: Any = None):
        if not isinstance(folder, (str, Path)):
            raise Error(f"the folder is of type {type(folder).__name__} (no path) pass the output folder of a run")
        self.folder = Path(folder)
        self._last = channels_last
        self.interrupted = False  # Ctrl-C ended it: the image is that of its last whole iteration
        self._keep = keep  # the temporary folder that all of it lies in
        if not (self.folder / "status.json").exists():
            raise Error(f"{folder} (it holds no run: there is no status.json) pass the output folder of one")

    @property
    def status(self) -> dict:
        """Where the run is: state, iteration, seconds_left, ... Read anew each time."""
        return json.loads((self.folder / "status.json").read_text())

    @property
    def finished(self) -> bool:
        """The run came to its end, and its image is there."""
        return (self.folder / "reconstruction.h5").exists() and self.status["state"] == "finished"

    @cached_property
    def summary(self) -> dict:
        """What the run says of itself at its end: psnr, chi2, noise, iterations, seconds, ranks, ... Error before that."""
        file = self.folder / "summary.json"
        if not file.exists():
            raise Error(f"{self.folder} (the run there has not ended: {self.status['state']}) wait for it, or look at status")
        return json.loads(file.read_text())

    @property
    def log(self) -> str:
        """What the run said, line by line."""
        return (self.folder / "log.txt").read_text()

    @property
    def notices(self) -> list[str]:
        """What was chosen and found, one line each."""
        return [line.removeprefix("note: ") for line in self.log.splitlines() if line.startswith("note: ")]

    @property
    def warnings(self) -> list[str]:
        """What the run said about data and result that deserves a look."""
        return [line.removeprefix("warning: ") for line in self.log.splitlines() if line.startswith("warning: ")]

    def _dataset(self) -> tuple[np.ndarray, dict]:
        file = self.folder / "reconstruction.h5"
        if not file.exists():
            raise Error(f"{self.folder} (the run there has written no picture: {self.status['state']}) wait for it, or go on with "
                        "tessera.run(folder, resume=True)")
        with h5py.File(file) as data:
            return data["image"][:], dict(data["image"].attrs)

    @cached_property
    def image(self) -> np.ndarray:
        """In the units of the data: (H, W) of gray pictures, (D, H, W) of gray volumes, else channels first, or last where
        the measurement's came last."""
        values = self._dataset()[0]
        if values.shape[0] == 1:
            return values[0]
        return np.moveaxis(values, 0, -1) if self._last else values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.image, dtype=dtype) if copy else np.asarray(self.image, dtype=dtype)

    def to_xarray(self) -> Any:
        """The image with its axes, and coordinates in the unit of the pixel size where the data say one, else in pixels of
        the measurement's grid."""
        import xarray

        values, attributes = self._dataset()
        volume = values.ndim == 4
        axes = ["z", "y", "x"] if volume else ["y", "x"]
        first = 0 if volume else 1
        coords, unit = {}, attributes.get("unit", "")
        for k, axis in enumerate(axes):
            size = values.shape[1 + k]
            origin = float(attributes.get(f"origin_{first + k}", 0))
            pixel = float(attributes.get(f"pixel_{k}", 0))
            coords[axis] = (origin + np.arange(size)) * (pixel or 1.0)
        kept = values if values.shape[0] > 1 else values[0]
        unit = unit.decode() if isinstance(unit, bytes) else unit
        return xarray.DataArray(kept, dims=(["c"] if values.shape[0] > 1 else []) + axes, coords=coords, name="image",
                                attrs={"unit": unit or "pixel", "folder": str(self.folder)})

    @cached_property
    def trace(self) -> tuple[Any, Any]:
        """(iterations, phases): pandas frames of all ranks, docs/trace.md."""
        return read_trace(self.folder)

    @property
    def history(self) -> Any:
        """A pandas frame: residual, chi2, psnr, seconds, ... of each iteration."""
        iterations = self.trace[0]
        return iterations[iterations["rank"] == 0].drop(columns="rank").set_index("iteration")

    def __repr__(self) -> str:
        state = self.status
        text = f"<tessera.Result {self.folder}: {state['state']}, {state['iteration']} of {state['iterations']} iterations"
        if state.get("psnr") is not None:
            text += f", PSNR {state['psnr']:.2f} dB"
        if state.get("chi2") is not None:
            text += f", chi2 {state['chi2']:.3g}"
        return text + ">"

    def _repr_html_(self) -> str:
        parts = []
        for name in ("measurement.png", "reconstruction.png"):
            if (self.folder / name).exists():
                data = base64.b64encode((self.folder / name).read_bytes()).decode()
                parts.append(f'<img alt="{name}" title="{name}" style="max-width:48%;max-height:30em" src="data:image/png;base64,{data}">')
        parts.append(f"<p>{html.escape(repr(self)[1:-1])}</p>")
        for line in self.warnings if (self.folder / "log.txt").exists() else []:
            parts.append(f'<p style="color:#a40">{html.escape(line)}</p>')
        if (self.folder / "summary.json").exists():
            rows = [(key, self.summary.get(key)) for key in ("seconds", "ranks", "noise", "lambda", "psnr", "ssim", "chi2")]
            cells = "".join(f"<tr><td>{key}</td><td>{value:.4g}</td></tr>" for key, value in rows if value is not None)
            parts.append(f"<table>{cells}</table>")
        return "".join(parts)


def load(folder: str | Path) -> Result:
    """The run in an output folder, also of one that is under way."""
    return Result(folder)
