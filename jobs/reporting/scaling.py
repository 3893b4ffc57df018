# SPDX-License-Identifier: BSD-3-Clause
"""Groups runs into strong and weak scaling series, and reads predictions of `tessera plan --csv`."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np

from . import InputError

# Keys that may differ between the runs of one series: where results go, how ranks are laid out, how long it runs.
FREE = (
    "output.",
    "domain.grid",
    "watchdog",
    "memory",
    "solver.iterations",
    "solver.stop.",
    "denoiser.patch",
    "denoiser.batch",
    "denoiser.halo_depth",
)
SIZE = ("problem.truth", "problem.image.size", "problem.measurements", "problem.weights")


@dataclasses.dataclass
class Point:
    """Runs of one series on one rank count."""

    ranks: int
    runs: list
    seconds: float  # median over runs, per iteration
    least: float
    most: float


@dataclasses.dataclass
class Series:
    kind: str  # strong | weak
    label: str
    points: list

    def efficiency(self):
        first = self.points[0]
        if self.kind == "weak":
            return [first.seconds / p.seconds for p in self.points]
        return [first.seconds * first.ranks / (p.seconds * p.ranks) for p in self.points]


def kept(job, leave_out):
    return {k: json.dumps(v, sort_keys=True) for k, v in job.items() if not k.startswith(leave_out)}


def differing(jobs):
    """{key: value of each job, None where it has none} of the keys that are not the same in all."""
    keys = dict.fromkeys(k for job in jobs for k in job)
    rows = {key: [job.get(key) for job in jobs] for key in keys}
    return {k: v for k, v in rows.items() if len({json.dumps(x, sort_keys=True) for x in v}) > 1}


def pixels(run):
    shape = run.shape()
    return shape[0] * shape[1] if shape else 0


def by_share(groups):
    """Each group cut where pixels per rank jump by more than a tenth."""
    for group in groups.values():
        group.sort(key=lambda run: pixels(run) / run.rank_count)
        share = [pixels(run) / run.rank_count for run in group]
        cuts = [0, *(i for i in range(1, len(group)) if share[i] > 1.1 * share[i - 1]), len(group)]
        yield from (group[a:b] for a, b in zip(cuts, cuts[1:]))


def by_mode(group):
    """Several modes on the same ranks are several series, a mode chosen for each number of ranks is one."""
    modes, on_ranks = {}, {}
    for run in group:
        mode = run.job.get("denoiser.mode")
        modes.setdefault(mode, []).append(run)
        on_ranks.setdefault(run.rank_count, set()).add(mode)
    return list(modes.values()) if any(len(some) > 1 for some in on_ranks.values()) else [group]


def series_of(runs, kind):
    """All series of one kind with at least two rank counts."""
    leave_out = FREE + ("denoiser.mode",) + (SIZE if kind == "weak" else ())
    groups = {}
    for run in runs:
        if not run.shape() or not math.isfinite(run.seconds_per_iteration()[0]):
            continue
        key = json.dumps([kept(run.job, leave_out), run.summary.get("device"), None if kind == "weak" else run.shape()])
        groups.setdefault(key, []).append(run)
    groups = {(key, i): part for key, group in groups.items() for i, part in enumerate(by_mode(group))}
    found = []
    for members in by_share(groups) if kind == "weak" else groups.values():
        by_ranks = {}
        for run in members:
            by_ranks.setdefault(run.rank_count, []).append(run)
        if len(by_ranks) < 2 or (kind == "weak" and len({run.shape() for run in members}) < len(by_ranks)):
            continue
        points = []
        for ranks, some in sorted(by_ranks.items()):
            each = [run.seconds_per_iteration() for run in some]
            medians = [m for m, _, _ in each]
            spread = (medians, medians) if len(some) > 1 else ([each[0][1]], [each[0][2]])
            points.append(Point(ranks, some, float(np.median(medians)), min(spread[0]), max(spread[1])))
        found.append((members, points))
    jobs = [members[0].job for members, _ in found]
    different = {k: v for k, v in differing(jobs).items() if not k.startswith(FREE)} if len(jobs) > 1 else {}
    series = []
    for index, (members, points) in enumerate(found):
        words = [
            f"{key.split('.')[-1]} {short(values[index])}"
            for key, values in different.items()
            if not key.startswith(SIZE)
        ][:4]
        rows, columns = members[0].shape()
        size = (
            f"{rows} x {columns}"
            if kind == "strong"
            else f"{pixels(members[0]) // members[0].rank_count:,} pixels per rank"
        )
        series.append(Series(kind, ", ".join([size, *words]), points))
    return series


def short(value):
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else "..." + text[-37:]


# --- predictions ------------------------------------------------------------------------------------------------------
ALIASES = {
    "ranks": ("ranks",),
    "seconds": ("seconds_per_iteration", "seconds", "time"),
    "efficiency": ("efficiency",),
    "memory": ("memory_bytes", "memory", "peak_bytes"),
    "kind": ("table", "scaling", "kind"),
    "mode": ("mode",),
    "height": ("height",),
    "width": ("width",),
    "machine": ("machine",),
    "precision": ("precision",),
}


@dataclasses.dataclass
class Plan:
    """A predicted curve. NaN where a column is missing."""

    label: str
    kind: str  # strong | weak
    ranks: list
    seconds: list
    efficiency: list
    memory: list
    modes: list


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def curve_key(row):
    """What a curve has in common. In weak scaling the image grows."""
    weak = row["kind"] == "weak"
    size = "" if weak or not row["height"] else f"{row['height']} x {row['width']}"
    return ("weak" if weak else "strong", size, row["machine"] or "", row["precision"] or "")


def read_plan(path):
    try:
        lines = [line for line in Path(path).read_text().splitlines() if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path} ({error}) name the file that 'tessera plan --csv' wrote") from None
    table = list(csv.DictReader(lines))
    header = {name.strip().lower(): name for name in (table[0] if table else {}) if name}
    column = {key: next((header[a] for a in names if a in header), None) for key, names in ALIASES.items()}
    if not table or column["ranks"] is None or column["seconds"] is None:
        raise InputError(
            f"{path} is no plan (it needs the columns ranks and seconds, it has {', '.join(header) or 'none'}) "
            "write it with 'tessera plan JOB --ranks 1,2,4 --csv FILE'"
        )
    rows = [{key: row.get(name) if name else None for key, name in column.items()} for row in table]
    rows = [row for row in rows if number(row["ranks"]) >= 1 and number(row["seconds"]) > 0]
    if not rows:
        raise InputError(f"{path} predicts nothing (no row has ranks and a time) look at it, and plan again")
    curves = {}
    for row in rows:
        curves.setdefault(curve_key(row), []).append(row)
    for key in list(curves):  # several modes on the same ranks are several curves, a mode chosen for each is one
        if len({row["ranks"] for row in curves[key]}) < len(curves[key]):
            for row in curves.pop(key):
                curves.setdefault((*key, row["mode"] or ""), []).append(row)
    return [make_plan(key, some, len(curves) > 1) for key, some in curves.items()]


def make_plan(key, rows, several):
    rows = sorted(rows, key=lambda row: number(row["ranks"]))
    ranks, seconds = [int(number(row["ranks"])) for row in rows], [number(row["seconds"]) for row in rows]
    work = [s * (r if key[0] == "strong" else 1) for s, r in zip(seconds, ranks)]
    given = [number(row["efficiency"]) for row in rows]
    efficiency = [e if math.isfinite(e) else work[0] / w for e, w in zip(given, work)]
    return Plan(
        ", ".join(word for word in key[1:] if word) if several else key[2],
        key[0],
        ranks,
        seconds,
        efficiency,
        [number(row["memory"]) for row in rows],
        [row["mode"] or "" for row in rows],
    )
