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
    least: float  # of repeated runs, or the 10th and 90th percentile of one run's iterations
    most: float

    def rate(self):
        return pixels(self.runs[0]) / self.seconds

    def units(self):
        return self.runs[0].hardware().units


@dataclasses.dataclass
class Series:
    kind: str  # strong | weak
    label: str
    points: list

    def speedup(self):
        """Pixels per second against the first point: of weak scaling, where the image grows, the scaled speedup."""
        return [p.rate() / self.points[0].rate() for p in self.points]

    def ideal(self):
        """The speedup if every core (or GPU) did as much as those of the first point."""
        return [p.units() / self.points[0].units() for p in self.points]

    def efficiency(self):
        return [s / i for s, i in zip(self.speedup(), self.ideal())]

    def efficiency_spread(self):
        """[(least, most)]: repeats of this point, against the median of the first."""
        return [(e * p.seconds / p.most, e * p.seconds / p.least) for e, p in zip(self.efficiency(), self.points)]

    def compares(self):
        """What else than ranks changes along the series, a sentence; or nothing."""
        threads = {p.runs[0].hardware().threads_text() for p in self.points} - {""}
        shared = [str(p.ranks) for p in self.points if p.runs[0].hardware().shared]
        said = []
        if len(threads) > 1:
            of = ", ".join(f"{p.runs[0].hardware().threads_text()} on {p.ranks}" for p in self.points)
            said.append(f"Threads per rank differ ({of} ranks): ways to use the cores are compared, not more of them.")
        if shared:
            said.append(f"{' and '.join(shared)} ranks have more threads than cores: the ideal counts cores.")
        return " ".join(said)


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


def apart(group, what):
    """Several modes (or threads) on the same ranks are several series, one for each number of ranks is one."""
    values, on_ranks = {}, {}
    for run in group:
        value = what(run)
        values.setdefault(value, []).append(run)
        on_ranks.setdefault(run.rank_count, set()).add(value)
    return list(values.values()) if any(len(some) > 1 for some in on_ranks.values()) else [group]


def by_mode_and_threads(group):
    for part in apart(group, lambda run: run.job.get("denoiser.mode")):
        yield from apart(part, lambda run: run.hardware().threads_text())


def series_of(runs, kind):
    """All series of one kind with at least two rank counts."""
    leave_out = FREE + ("denoiser.mode",) + (SIZE if kind == "weak" else ())
    groups = {}
    for run in runs:
        if not run.shape() or not math.isfinite(run.seconds_per_iteration()[0]):
            continue
        key = json.dumps([kept(run.job, leave_out), run.summary.get("device"), None if kind == "weak" else run.shape()])
        groups.setdefault(key, []).append(run)
    groups = {(key, i): part for key, group in groups.items() for i, part in enumerate(by_mode_and_threads(group))}
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
        threads = {run.hardware().threads_text() for run in members} - {""}
        if len(threads) == 1:
            words.append("1 thread per rank" if threads == {"1"} else f"{threads.pop()} threads per rank")
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
    "cores": ("cores",),
}


@dataclasses.dataclass
class Plan:
    """A predicted curve. NaN where a column is missing."""

    label: str
    kind: str  # strong | weak
    ranks: list
    seconds: list
    speedup: list
    efficiency: list
    memory: list
    modes: list
    sizes: list  # (rows, columns) or None


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
    given = [number(row["efficiency"]) for row in rows]
    cores = [number(row["cores"]) if number(row["cores"]) > 0 else r for row, r in zip(rows, ranks)]
    sizes = [size_of(row) for row in rows]
    share = [s[0] * s[1] if s else (1 if key[0] == "strong" else r) for s, r in zip(sizes, ranks)]
    speedup = [p / s * seconds[0] / share[0] for p, s in zip(share, seconds)]
    per_core = [s * cores[0] / c for s, c in zip(speedup, cores)]
    efficiency = [e if math.isfinite(e) else p for e, p in zip(given, per_core)]
    return Plan(
        ", ".join(word for word in key[1:] if word) if several else key[2],
        key[0],
        ranks,
        seconds,
        speedup,
        efficiency,
        [number(row["memory"]) for row in rows],
        [row["mode"] or "" for row in rows],
        sizes,
    )


def size_of(row):
    try:
        return int(row["height"]), int(row["width"])
    except (TypeError, ValueError):
        return None


def predicted_for(plans, kind, run):
    """Predicted (seconds, bytes) of such a run, of the plan's row for its ranks and image, its mode if there are several."""
    found = [
        (plan.modes[i] == run.job.get("denoiser.mode"), plan.seconds[i], plan.memory[i])
        for plan in plans
        if plan.kind == kind
        for i, ranks in enumerate(plan.ranks)
        if ranks == run.rank_count and plan.sizes[i] in (None, run.shape())
    ]
    return max(found, key=lambda f: f[0])[1:] if found else (math.nan, math.nan)

