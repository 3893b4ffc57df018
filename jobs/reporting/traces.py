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

    def seconds(self):
        """From the start of the program to the end of the last row."""
        return max((float(ends(rows).max()) for rows in (self.iterations, self.phases) if len(rows)), default=0.0)

    def column(self, name):
        """Of the phases; zeros where an older trace has no such column."""
        return self.phases[name] if name in self.phases.dtype.names else np.zeros(len(self.phases))


def ends(rows):
    return rows["start"] + rows["seconds"]


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def trace_files(folder):
    """{rank: its files, oldest first} of a run folder."""
    found = {}
    for path in Path(folder, "trace").glob("rank-*.h5"):
        if match := re.fullmatch(r"rank-(\d+)(?:[.-](\d+))?\.h5", path.name):
            found.setdefault(int(match[1]), []).append((int(match[2] or 0), path))
    return {rank: [path for _, path in sorted(files)] for rank, files in sorted(found.items())}


def pieces(rows, starts_anew):
    return np.split(rows, np.flatnonzero(np.r_[False, starts_anew]) if len(rows) else [])


def cut(iterations, phases, names):
    """Attempts of one file. Every start of the program begins its clock anew, and a resumed one goes on from a
    checkpoint, at an iteration that the one before may have done too."""
    first = pieces(iterations, (np.diff(ends(iterations)) < 0) | (np.diff(iterations["iteration"]) <= 0))
    second = pieces(phases, np.diff(ends(phases)) < 0)
    if len(first) != len(second):  # no telling which belong together
        return [Attempt(iterations, phases, names)]
    return [Attempt(i, p, names) for i, p in zip(first, second)]


def read_trace_file(path):
    """(attributes, attempts) of one file. OSError, KeyError where it is damaged."""
    with h5py.File(path) as file:
        attributes = {key: text(value) if isinstance(value, (bytes, str)) else value for key, value in file.attrs.items()}
        names = {code: name for name, code in h5py.check_enum_dtype(file["phases"].dtype["phase"]).items()}
        return attributes, cut(file["iterations"][:], file["phases"][:], names)


def read_rank(paths):
    """(attributes of the last file, attempts of all of them)."""
    attributes, attempts = {}, []
    for path in paths:
        attributes, more = read_trace_file(path)
        attempts += more
    return attributes, attempts
