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
FREE = ("output.", "domain.grid", "watchdog", "memory", "solver.iterations", "solver.stop.", "denoiser.patch",
        "denoiser.batch", "denoiser.halo_depth")
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


def series_of(runs, kind):
    """All series of one kind with at least two rank counts."""
    leave_out = FREE + (SIZE if kind == "weak" else ())
    groups = {}
    for run in runs:
        if not run.shape() or not math.isfinite(run.seconds_per_iteration()[0]):
            continue
        key = json.dumps([kept(run.job, leave_out), run.summary.get("device"), None if kind == "weak" else run.shape()])
        groups.setdefault(key, []).append(run)
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
        words = [f"{key.split('.')[-1]} {short(values[index])}" for key, values in different.items()
                 if not key.startswith(SIZE)][:4]
        rows, columns = members[0].shape()
        size = f"{rows} x {columns}" if kind == "strong" else f"{pixels(members[0]) // members[0].rank_count:,} pixels per rank"
        series.append(Series(kind, ", ".join([size, *words]), points))
    return series


def short(value):
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else "..." + text[-37:]


# --- predictions ------------------------------------------------------------------------------------------------------
ALIASES = {"ranks": ("ranks",), "seconds": ("seconds_per_iteration", "seconds", "time"), "efficiency": ("efficiency",),
           "memory": ("memory_bytes", "memory_bytes_per_rank", "memory", "peak_bytes"), "mode": ("mode",),
           "scaling": ("scaling", "kind")}


@dataclasses.dataclass
class Plan:
    """A predicted curve: one mode of one plan file. NaN where a column is missing."""

    label: str
    kind: str  # strong | weak
    ranks: list
    seconds: list
    efficiency: list
    memory: list


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def read_plan(path):
    try:
        lines = [line for line in Path(path).read_text().splitlines() if line.strip() and not line.startswith("#")]
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}) name the file that 'tessera plan --csv' wrote") from None
    rows = list(csv.DictReader(lines))
    header = {name.strip().lower(): name for name in (rows[0] if rows else {}) if name}
    column = {key: next((header[a] for a in names if a in header), None) for key, names in ALIASES.items()}
    if not rows or column["ranks"] is None or column["seconds"] is None:
        raise InputError(f"{path} is no plan (it needs the columns ranks and seconds_per_iteration, it has "
                         f"{', '.join(header) or 'none'}) write it with 'tessera plan JOB --ranks 1,2,4 --csv FILE'")
    plans = {}
    for row in rows:
        value = {key: row.get(name) if name else None for key, name in column.items()}
        ranks, seconds = number(value["ranks"]), number(value["seconds"])
        if not ranks >= 1 or not seconds > 0:
            continue  # a rank count on which the job cannot run
        kind = "weak" if (value["scaling"] or "").strip() == "weak" else "strong"
        plan = plans.setdefault((kind, value["mode"]), Plan(value["mode"] or "", kind, [], [], [], []))
        plan.ranks.append(int(ranks))
        plan.seconds.append(seconds)
        plan.efficiency.append(number(value["efficiency"]))
        plan.memory.append(number(value["memory"]))
    if not plans:
        raise InputError(f"{path} predicts nothing (no row has ranks and a time) look at it, and plan again")
    for plan in plans.values():
        order = np.argsort(plan.ranks, kind="stable")
        for name in ("ranks", "seconds", "efficiency", "memory"):
            setattr(plan, name, [getattr(plan, name)[i] for i in order])
        first = plan.ranks[0] * plan.seconds[0] if plan.kind == "strong" else plan.seconds[0]
        plan.efficiency = [e if math.isfinite(e) else first / (s * r if plan.kind == "strong" else s)
                           for e, s, r in zip(plan.efficiency, plan.seconds, plan.ranks)]
    return list(plans.values())
