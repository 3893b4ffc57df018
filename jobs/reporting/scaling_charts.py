# SPDX-License-Identifier: BSD-3-Clause
"""Charts of scaling series: time, efficiency, phases and memory against ranks, with ideal and predicted lines."""

import math

import numpy as np

from .charts import GIB, RUN_COLORS, axis, chart, digits, stacked
from .runs import PHASES

NEEDS = {
    "strong": "No strong scaling: it needs runs of one job on at least two numbers of ranks.",
    "weak": "No weak scaling: it needs runs whose image grows with their ranks, with as many pixels per rank.",
}


def rank_axis(ranks):
    ranks = sorted(set(ranks))
    return (
        axis(
            "ranks",
            type="log",
            tickmode="array",
            tickvals=ranks,
            ticktext=[str(r) for r in ranks],
            range=[math.log10(ranks[0]) - 0.06, math.log10(ranks[-1]) + 0.06],
        )
        if ranks
        else axis("ranks")
    )


def measured(one, index, values, low, high, unit):
    color = RUN_COLORS[index % len(RUN_COLORS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": one.label,
        "x": [p.ranks for p in one.points],
        "y": digits(values),
        "line": {"color": color, "width": 2},
        "marker": {"size": 8},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": digits(np.subtract(high, values)),
            "arrayminus": digits(np.subtract(values, low)),
            "thickness": 1.2,
            "width": 4,
        },
        "hovertemplate": f"{one.label}<br>%{{x}} ranks: %{{y:.4g}} {unit}<extra></extra>",
    }


def line(name, x, y, color, dash, unit):
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": digits(y),
        "line": {"color": color, "dash": dash, "width": 1.5},
        "hovertemplate": f"{name}<br>%{{x}} ranks: %{{y:.4g}} {unit}<extra></extra>",
    }


def predicted(plans, kind, attribute, unit, scale=1.0):
    lines = []
    for index, plan in enumerate(p for p in plans if p.kind == kind):
        values = np.array(getattr(plan, attribute), float) / scale
        if np.isfinite(values).any():
            name = "predicted" + (f" ({plan.label})" if plan.label else "")
            lines.append(
                line(name, plan.ranks, values, ["#CC79A7", "#8A7A00", "#56B4E9"][index % 3], "dash", unit)
                | {
                    "mode": "lines+markers",
                    "marker": {"symbol": "diamond-open", "size": 8},
                    "text": plan.modes,
                    "hovertemplate": f"{name} %{{text}}<br>%{{x}} ranks: %{{y:.4g}} {unit}<extra></extra>",
                }
            )
    return lines


def measured_with_ideal(one, index, values, low, high, ideal, unit):
    return [
        measured(one, index, values, low, high, unit),
        line("ideal", [p.ranks for p in one.points], ideal, RUN_COLORS[index % len(RUN_COLORS)], "dot", unit),
    ]


def times(one, index):
    first = one.points[0]
    work = [p.rate() * p.seconds / (first.rate() * first.seconds) for p in one.points]  # pixels, relative
    ideal = [first.seconds * w / i for w, i in zip(work, one.ideal())]
    values, low, high = ([getattr(p, name) for p in one.points] for name in ("seconds", "least", "most"))
    return measured_with_ideal(one, index, values, low, high, ideal, "s")


def speedups(one, index):
    values = one.speedup()
    low = [v * p.seconds / p.most for v, p in zip(values, one.points)]
    high = [v * p.seconds / p.least for v, p in zip(values, one.points)]
    return measured_with_ideal(one, index, values, low, high, one.ideal(), "times")


def efficiencies(one, index):
    values = np.multiply(one.efficiency(), 100)
    low, high = np.multiply(one.efficiency_spread(), 100).T
    return [measured(one, index, values, low, high, "%")]


def scaling(kind, series, plans):
    mine = [s for s in series if s.kind == kind]
    title = "Strong scaling" if kind == "strong" else "Weak scaling"
    time, speedup, efficiency = (
        [trace for index, one in enumerate(mine) for trace in of(one, index)] for of in (times, speedups, efficiencies)
    )
    time += predicted(plans, kind, "seconds", "s")
    if not time:
        return [chart(f"{kind}_time", title, [], {}, empty=NEEDS[kind])]
    ranks = [r for trace in time for r in trace["x"]]
    speedup += predicted(plans, kind, "speedup", "times")
    efficiency += predicted(plans, kind, "efficiency", "%", 0.01)
    efficiency.append(line("ideal", [min(ranks), max(ranks)], [100, 100], "#888888", "dot", "%"))
    log = {"xaxis": rank_axis(ranks), "yaxis": axis("s per iteration", type="log")}
    linear = {"xaxis": rank_axis(ranks), "yaxis": axis("s per iteration", rangemode="tozero")}
    compares = " ".join(dict.fromkeys(one.compares() for one in mine if one.compares()))
    spread = "Points: medians. Bars: least and most of repeats, or 10th and 90th percentile of one run's iterations."
    return [
        chart(
            f"{kind}_time", f"{title}: time per iteration", time, log if kind == "strong" else linear,
            f"{spread} {compares}".strip(),
        ),
        chart(
            f"{kind}_speedup", f"{title}: speedup", speedup,
            {"xaxis": rank_axis(ranks), "yaxis": axis("speedup", type="log")},
            "Pixels per second, against the fewest ranks of the series." + ("" if mine else " " + NEEDS[kind]),
        ),
        chart(
            f"{kind}_efficiency", f"{title}: efficiency", efficiency,
            {"xaxis": rank_axis(ranks), "yaxis": axis("efficiency (%)", rangemode="tozero")},
            "Speedup over the ideal one, per core or GPU." + ("" if mine else " " + NEEDS[kind]),
        ),
    ]


def phases_against_ranks(series):
    """Stacked time per phase of the first series, a bar per rank count."""
    one = series[0]
    times = [[run.phase_seconds() for run in p.runs] for p in one.points]
    values = np.array([[np.mean([t.get(phase, 0) for t in some]) for some in times] for phase in PHASES])
    return chart(
        "phases_by_ranks",
        "Phases against ranks",
        stacked([str(p.ranks) for p in one.points], values),
        {
            "barmode": "stack",
            "xaxis": axis("ranks", type="category"),
            "yaxis": axis("s per iteration"),
        },
        f"Mean over ranks; {one.kind} scaling, {one.label}.",
        "The runs have no trace with phases.",
    )


def memory_against_ranks(series, plans):
    data = []
    for index, one in enumerate(series):
        for name, dash, of in (("tracked", "solid", "tracked_bytes"), ("resident", "dash", "resident_bytes")):
            highest = [np.nanmax([getattr(run, of)() for run in p.runs] + [0.0]) for p in one.points]
            if any(highest):
                color = RUN_COLORS[index % len(RUN_COLORS)]
                title = f"{name}: {one.kind}, {one.label}"
                data.append(
                    line(title, [p.ranks for p in one.points], np.array(highest) / GIB, color, dash, "GiB")
                    | {"mode": "lines+markers", "marker": {"size": 8}}
                )
    if data:
        for kind in dict.fromkeys(one.kind for one in series):
            data += predicted(plans, kind, "memory", "GiB", GIB)
    ranks = [r for trace in data for r in trace["x"]]
    return chart(
        "memory_by_ranks",
        "Memory per rank against ranks",
        data,
        {"xaxis": rank_axis(ranks), "yaxis": axis("GiB, highest rank", rangemode="tozero")},
        "Tracked: images, weights, activations, buffers, metrics. Resident: the whole process, at the ends of phases.",
        "No run tells its memory.",
    )


def scaling_charts(series, plans):
    charts = scaling("strong", series, plans) + scaling("weak", series, plans)
    return charts + [phases_against_ranks(series), memory_against_ranks(series, plans)] if series else charts
