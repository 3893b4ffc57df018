# SPDX-License-Identifier: BSD-3-Clause
"""Two images compared, by the command `tessera compare`."""
from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .jobs import as_array
from .program import ask
from .result import Result
from .tensors import number


def compare(a: Any, b: Any, range: float | None = None) -> dict[str, Any]:
    """How far b is from the reference a: psnr and psnr_8bit (dB), ssim, ssim_valid (without a rim of 5 pixels), maximum_error,
    relative_error, and `notes`, what the command says beside them.

    Each: an array of any kind, a Result or Reconstruction, or the path of a file. range: what both are divided by; None: each by its
    full scale, as a job reads it (1 of floats in [0, 1], 255 of uint8).
    """
    with tempfile.TemporaryDirectory(prefix="tessera-") as name:
        files = [_file(value, Path(name) / f"{key}.npy", key) for key, value in (("a", a), ("b", b))]
        words = [] if range is None else ["--range", repr(number(range, "range", 1e-300))]
        said = ask(["compare", *files, *words]).replace(f"{name}/", "").splitlines()
    text = " ".join(said)
    patterns = {"psnr": r"PSNR (\S+) dB  SSIM", "ssim": r"dB  SSIM (\S+)", "maximum_error": r"maximum error (\S+)",
                "relative_error": r"relative error (\S+)", "psnr_8bit": r"8-bit pictures: PSNR (\S+) dB", "ssim_valid": r"pixels: SSIM (\S+)"}
    found: dict[str, Any] = {key: float(re.search(pattern, text)[1]) for key, pattern in patterns.items()}
    return {**found, "notes": [line for line in said if line.startswith(("note: ", "warning: ", "sizes differ"))]}


def _file(value: Any, file: Path, name: str) -> str:
    if isinstance(value, (str, Path)):
        return str(value)
    if isinstance(value, Result):
        return str(value.folder / "reconstruction.h5")
    np.save(file, as_array(value, name)[0])
    return str(file)
