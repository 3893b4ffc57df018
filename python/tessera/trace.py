# SPDX-License-Identifier: BSD-3-Clause
"""The performance trace of a run as pandas frames; docs/trace.md says what the columns hold.

    iterations, phases = tessera.read_trace("runs/photo")
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

SCHEMA = 2


def read_rank(path: str | Path) -> tuple[Any, Any, dict[str, Any]]:
    """One rank's file as (iterations, phases, attributes)."""
    import pandas as pd

    with h5py.File(path, "r") as file:
        attributes = {key: value.decode() if isinstance(value, bytes) else value
                      for key, value in file.attrs.items()}
        if attributes["schema"] > SCHEMA:
            raise ValueError(f"{path} has trace schema {attributes['schema']} (this reader knows {SCHEMA}) "
                             "use the reader that came with that tessera")
        iterations = pd.DataFrame.from_records(file["iterations"][:])
        phases = pd.DataFrame.from_records(file["phases"][:])
        for column in ("phase", "parent"):
            codes = h5py.check_enum_dtype(file["phases"].dtype[column])
            names = {code: name for name, code in codes.items()}
            phases[column] = phases[column].map(names).astype("object")
    return iterations, phases, attributes


def read_trace(run_folder: str | Path) -> tuple[Any, Any]:
    """All ranks of a run: (iterations, phases), frames with the columns of docs/trace.md and `rank`."""
    import pandas as pd

    files = sorted(Path(run_folder, "trace").glob("rank-*.h5"))
    if not files:
        raise FileNotFoundError(f"no trace/rank-*.h5 in {run_folder} (is it the output folder of a run?)")
    frames = [], []
    for file in files:
        rank = int(file.stem.removeprefix("rank-"))
        for frame, into in zip(read_rank(file), frames):
            frame.insert(0, "rank", rank)
            into.append(frame)
    return tuple(pd.concat(parts, ignore_index=True) for parts in frames)


def exposed_share(iterations: Any, phases: Any) -> float:
    """exposed_wait_fraction of summary.json, of the rows of read_trace()."""
    return phases.loc[phases["iteration"] >= 0, "wait_seconds"].sum() / iterations["seconds"].sum()
