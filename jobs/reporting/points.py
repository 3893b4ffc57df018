# SPDX-License-Identifier: BSD-3-Clause
"""One row per point of a scaling series: repeats merged, with their spread, beside what was predicted."""

import math

import numpy as np

from .scaling import predicted_for

COLUMNS = [
    "scaling",
    "series",
    "ranks",
    "nodes",
    "threads",
    "cores",
    "sockets",
    "shared_cores",
    "rows",
    "columns",
    "runs",
    "seconds",
    "seconds_least",
    "seconds_most",
    "speedup",
    "ideal_speedup",
    "efficiency",
    "efficiency_least",
    "efficiency_most",
    "predicted_seconds",
    "predicted_over_measured",
    "exposed_wait_fraction",
    "tracked_bytes",
    "resident_bytes",
    "predicted_bytes",
]


def middle(values):
    known = [v for v in values if math.isfinite(v)]
    return float(np.median(known)) if known else math.nan


def highest(values):
    return max((v for v in values if math.isfinite(v)), default=math.nan)


def rows_of(series, plans):
    rows = []
    for one in series:
        figures = zip(one.points, one.speedup(), one.ideal(), one.efficiency(), one.efficiency_spread())
        for point, speedup, ideal, efficiency, spread in figures:
            first = point.runs[0]
            seconds, memory = predicted_for(plans, one.kind, first)
            shape = first.shape()
            rows.append(
                {
                    "scaling": one.kind,
                    "series": one.label,
                    "ranks": point.ranks,
                    **first.hardware().columns(),
                    "rows": shape[0],
                    "columns": shape[1],
                    "runs": len(point.runs),
                    "seconds": point.seconds,
                    "seconds_least": point.least,
                    "seconds_most": point.most,
                    "speedup": speedup,
                    "ideal_speedup": ideal,
                    "efficiency": efficiency,
                    "efficiency_least": spread[0],
                    "efficiency_most": spread[1],
                    "predicted_seconds": seconds,
                    "predicted_over_measured": seconds / point.seconds,
                    "exposed_wait_fraction": middle([run.exposed_fraction() for run in point.runs]),
                    "tracked_bytes": highest([run.tracked_bytes() for run in point.runs]),
                    "resident_bytes": highest([run.resident_bytes() for run in point.runs]),
                    "predicted_bytes": memory,
                }
            )
    return rows


def cell(value):
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return value


def table_text(rows):
    """For a terminal."""
    head = ["ranks", "threads", "cores", "shared", "time/it", "least", "most", "speedup", "eff.", "predicted", "exposed"]
    lines, last = [], None
    for r in rows:
        if (r["scaling"], r["series"]) != last:
            last = (r["scaling"], r["series"])
            lines += [f"{r['scaling']} scaling, {r['series']}", "".join(f"{h:>10}" for h in head)]
        plan = f"{r['predicted_seconds']:.3g}" if math.isfinite(r["predicted_seconds"]) else "-"
        exposed = f"{100 * r['exposed_wait_fraction']:.2g} %" if math.isfinite(r["exposed_wait_fraction"]) else "-"
        figures = [f"{r[k]:.3g}" for k in ("seconds", "seconds_least", "seconds_most", "speedup")]
        cells = [r["ranks"], r["threads"], r["cores"], r["shared_cores"], *figures, f"{100 * r['efficiency']:.0f} %", plan]
        lines.append("".join(f"{str(c):>10}" for c in [*cells, exposed]))
    return "\n".join(lines)
