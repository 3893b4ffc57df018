# SPDX-License-Identifier: BSD-3-Clause
"""One rank's trace, cut into attempts: a resumed run has several. The columns are those of docs/trace.md."""

import dataclasses
import re
from pathlib import Path

import h5py
import numpy as np


@dataclasses.dataclass
class Attempt:
    """Rows from one start of the program to its end."""

    iterations: np.ndarray  # structured, as in the file
    phases: np.ndarray
    names: dict  # phase code -> name
    offset: float = 0.0  # add it to times, for the time since the run first began

    def end(self):
        """Of the last row, since the run first began."""
        return self.offset + max((float(ends(r).max()) for r in (self.iterations, self.phases) if len(r)), default=0.0)

    def column(self, name):
        """Of the phases; zeros where an older trace has no such column."""
        return self.phases[name] if name in self.phases.dtype.names else np.zeros(len(self.phases))


def ends(rows):
    return rows["start"] + rows["seconds"]


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def trace_files(folder, name="trace"):
    """{rank: its file} of a run folder."""
    found = {
        int(path.stem.removeprefix("rank-")): path
        for path in Path(folder, name).glob("rank-*.h5")
        if re.fullmatch(r"rank-\d+", path.stem)
    }
    return dict(sorted(found.items()))


def earlier_traces(folder):
    """Names of the folders that hold the traces of earlier starts on other blocks, oldest first."""
    numbers = [
        int(match[1]) for path in Path(folder).glob("trace-*") if (match := re.fullmatch(r"trace-(\d+)", path.name))
    ]
    return [f"trace-{n}" for n in sorted(numbers)]


def pieces(rows, starts_anew):
    return np.split(rows, np.flatnonzero(np.r_[False, starts_anew]) if len(rows) else [])


def loads_again(phases, names):
    """Times at which a program began to load after iterations had been done: it went on from a checkpoint."""
    codes = [code for code, name in names.items() if name == "load"]
    load = np.isin(phases["phase"], codes) & (phases["iteration"] < 0)
    index = np.arange(len(phases))
    last_done = np.maximum.accumulate(np.where(phases["iteration"] >= 0, index, -1)) if len(phases) else index
    last_load = np.r_[-1, np.maximum.accumulate(np.where(load, index, -1))[:-1]] if len(phases) else index
    return phases["start"][load & (last_done >= 0) & (last_load < last_done)]


def cut(iterations, phases, names):
    """Attempts of one file.

    A resumed run goes on in its file and with its clock, and loads again. Where the clock falls back, a program did not
    know of the one before.
    """
    first = pieces(iterations, (np.diff(ends(iterations)) < 0) | (np.diff(iterations["iteration"]) <= 0))
    second = pieces(phases, np.diff(ends(phases)) < 0)
    if len(first) != len(second):  # no telling which belong together
        first, second = [iterations], [phases]
    attempts, offset = [], 0.0
    for i, p in zip(first, second):
        again = loads_again(p, names)
        in_i, in_p = np.searchsorted(i["start"], again), np.searchsorted(ends(p), again)
        attempts += [Attempt(a, b, names, offset) for a, b in zip(np.split(i, in_i), np.split(p, in_p))]
        offset = attempts[-1].end()
    return attempts


def read_rank(path):
    """(attributes, attempts) of one rank. OSError, KeyError, ValueError where the file is damaged."""
    with h5py.File(path) as file:
        attributes = {
            key: text(value) if isinstance(value, (bytes, str)) else value for key, value in file.attrs.items()
        }
        names = {code: name for name, code in h5py.check_enum_dtype(file["phases"].dtype["phase"]).items()}
        return attributes, cut(file["iterations"][:], file["phases"][:], names)
