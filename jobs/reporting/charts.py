# SPDX-License-Identifier: BSD-3-Clause
"""Charts as plain plotly figures; page.js adds what depends on the theme. An empty chart says why it is."""

import base64
import math

import numpy as np

from .runs import PHASES

# Okabe and Ito's colors, which all kinds of color vision tell apart.
RUN_COLORS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#8A7A00"]
DASHES = ["solid", "dash", "dot", "dashdot"]
PHASE_COLORS = {
    "denoise": "#0072B2",
    "prox": "#E69F00",
    "operator": "#009E73",
    "adjoint": "#56B4E9",
    "halo": "#D55E00",
    "reduce": "#CC79A7",
    "metrics": "#F0E442",
    "scratch": "#000000",
    "checkpoint": "#8A7A00",
    "write": "#7F7F7F",
    "load": "#A6A6A6",
    "other": "#BFBFBF",
    "between": "#D9D9D9",
}
PHASE_LABELS = {"between": "between phases", "other": "other phases", "scratch": "waiting for the scratch file"}
GIB = float(1 << 30)
POINTS = 2000  # of a curve


def chart(name, title, data, layout, note="", empty="", run=None):
    """empty: why there is no data; shown in place of the chart."""
    return {
        "name": name,
        "title": title,
        "data": data,
        "layout": layout,
        "note": note,
        "empty": "" if data else empty,
        "run": run,
    }


def axis(title, **more):
    return {"title": {"text": title}, **more}


def packed(values, shape=None):
    values = np.ascontiguousarray(values, np.float32)
    out = {"dtype": "f4", "bdata": base64.b64encode(values.tobytes()).decode()}
    if shape:
        out["shape"] = ", ".join(map(str, shape))
    return out


def digits(values):
    """Six significant digits; null where undefined."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in np.asarray(values, float)]


def label(phase):
    return PHASE_LABELS.get(phase, phase)


def style(index):
    return {
        "color": RUN_COLORS[index % len(RUN_COLORS)],
        "dash": DASHES[index // len(RUN_COLORS) % len(DASHES)],
        "width": 2,
    }


def thin(count):
    """Indices of at most POINTS of `count` rows, the last one always."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int)) if count else np.zeros(0, int)


# --- convergence ------------------------------------------------------------------------------------------------------
def in_order(run):
    """Rows of the curve by iteration; of an iteration done again, the last."""
    iteration = run.whole["iteration"]
    _, last = np.unique(iteration[::-1], return_index=True)
    return len(iteration) - 1 - last


def curve(run, index, column, against):
    values = run.whole.get(column, np.zeros(0))
    rows = in_order(run) if against == "iteration" and len(values) else np.arange(len(values))
    rows = rows[thin(len(rows))]
    if not np.isfinite(values[rows]).any():
        return None
    x = run.whole[against][rows] + (against == "iteration")  # from 1, as in the log
    hover = "iteration %{x}" if against == "iteration" else "%{x:.4g} s"
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(rows) <= 40 else "lines",
        "name": run.name,
        "x": digits(x),
        "y": digits(values[rows]),
        "line": style(index),
        "marker": {"size": 5},
        "hovertemplate": f"{run.name}<br>{hover}: %{{y:.5g}}<extra></extra>",
    }


def restart_lines(runs, against):
    """Vertical lines where a run was resumed."""
    shapes = []
    for index, run in enumerate(runs):
        for at in run.whole_restarts[:50]:
            x = float(run.whole["iteration"][at] + 1 if against == "iteration" else run.whole["elapsed"][at - 1])
            shapes.append(
                {
                    "type": "line",
                    "xref": "x",
                    "yref": "paper",
                    "x0": x,
                    "x1": x,
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": style(index)["color"], "width": 1, "dash": "dot"},
                }
            )
    return shapes


def convergence(runs):
    def over(name, title, column, unit, against="iteration", log=False, note="", empty="", shapes=()):
        data = [c for i, run in enumerate(runs) if (c := curve(run, i, column, against))]
        if log and not any(y and y > 0 for trace in data for y in trace["y"]):
            log = False
        x = (
            axis("iteration")
            if against == "iteration"
            else axis("time since the program began (s)", rangemode="tozero")
        )
        if any(run.whole_restarts for run in runs) and data:
            note += " Dotted lines: the run was resumed." + (
                "" if against == "iteration" else " The time between is left out."
            )
        return chart(
            name,
            title,
            data,
            {
                "xaxis": x,
                "yaxis": axis(unit, type="log" if log else "linear"),
                "shapes": restart_lines(runs, against) + list(shapes),
            },
            note.strip(),
            empty,
        )

    knows = all(run.knows_noise() for run in runs)
    none = "No run has a trace with iterations."
    no_truth = "No PSNR: no run has a truth to compare with (problem.truth), or none reached an iteration."
    one = {
        "type": "line",
        "xref": "paper",
        "yref": "y",
        "x0": 0,
        "x1": 1,
        "y0": 1,
        "y1": 1,
        "line": {"color": "#888", "width": 1, "dash": "dash"},
    }
    return [
        over("psnr_iteration", "PSNR against iteration", "psnr", "PSNR (dB)", empty=no_truth),
        over("psnr_time", "PSNR against time", "psnr", "PSNR (dB)", "elapsed", empty=no_truth),
        over("residual", "Change of the image", "residual", "of an iteration, relative to the image", log=True, empty=none),
        over(
            "chi2",
            "Squared residual per sample",
            "chi2",
            "chi2 (noise variance)" if knows else "chi2 (squared units of the data)",
            log=True,
            shapes=[one] if knows else [],
            note="1 (dashed): the noise level." if knows else "The noise level is not known in all runs.",
            empty=none,
        ),
        over(
            "objective",
            "Objective",
            "objective",
            "value of the data term",
            log=True,
            empty="The data term's value is not defined in these runs, or there are no iterations.",
        ),
        schedule(runs),
    ]


def scale_for(values):
    """A logarithmic axis where values differ by much."""
    positive = [v for v in values if v and v > 0]
    wide = positive and len(positive) == len(values) and max(positive) > 4 * min(positive)
    return {"type": "log"} if wide else {"type": "linear", "rangemode": "tozero"}


def schedule(runs):
    data = []
    for index, run in enumerate(runs):
        for column, symbol in (("step", "circle"), ("sigma", "diamond")):
            trace = curve(run, index, column, "iteration")
            if not trace or not any(y for y in trace["y"]):
                continue
            trace |= {
                "name": f"{run.name}: {column}",
                "marker": {"size": 6, "symbol": symbol},
                "mode": "lines+markers",
                "yaxis": "y" if column == "step" else "y2",
                "line": trace["line"] | {"width": 1.5} | ({"dash": "dash"} if column == "sigma" else {}),
            }
            data.append(trace)
    scale = {key: scale_for([y for trace in data if trace["yaxis"] == key for y in trace["y"]]) for key in ("y", "y2")}
    layout = {
        "xaxis": axis("iteration"),
        "yaxis": axis("step (circles)", **scale["y"]),
        "yaxis2": axis("denoiser sigma (diamonds)", overlaying="y", side="right", showgrid=False, **scale["y2"]),
    }
    return chart("schedule", "Step and noise level", data, layout, empty="No run has a trace with iterations.")


# --- time -------------------------------------------------------------------------------------------------------------
def stacked(names, values, what="", **more):
    """Bars per phase; values (phase, n). what: of which `names` are numbers."""
    return [
        {
            "type": "bar",
            "name": label(phase),
            "x": names,
            "y": digits(row),
            "marker": {"color": PHASE_COLORS[phase]},
            "hovertemplate": f"{label(phase)}<br>{what}%{{x}}: %{{y:.4g}} s<extra></extra>",
            **more,
        }
        for phase, row in zip(PHASES, values)
        if np.nansum(row) > 0
    ]


def phases_by_run(groups):
    """groups: repeats of a run each."""
    some = [again for again in groups if again[0].phase_seconds()]
    times = [[run.phase_seconds() for run in again] for again in some]
    values = np.array([[np.mean([t.get(p, 0) for t in again]) for again in times] for p in PHASES])
    return chart(
        "phases_by_run",
        "Time per iteration and phase",
        stacked([again[0].name for again in some], values) if some else [],
        {"barmode": "stack", "xaxis": axis("", type="category"), "yaxis": axis("s per iteration")},
        "Mean over ranks and repeats. Phases without those inside them; the first iteration after each start is left out.",
        "No run has a trace with phases.",
    )


def ranks_of(run, **more):
    return axis("rank", tickformat="d", **({"dtick": 1} if len(run.ranks) <= 20 else {}), **more)


def time_of(run):
    none = "This run has no trace with iterations."
    has = "own_seconds" in run.sums and run.steady > 0
    own = run.sums["own_seconds"] / max(run.steady, 1) if has else None
    area = []
    if has:
        for phase, row in zip(PHASES, run.by_iteration):
            if row.sum() > 0:
                area.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "stackgroup": "phases",
                        "name": label(phase),
                        "x": digits(run.columns + 1),
                        "y": packed(row),
                        "line": {"width": 0.5, "color": PHASE_COLORS[phase]},
                        "fillcolor": PHASE_COLORS[phase],
                        "hovertemplate": f"{label(phase)}<br>iteration %{{x}}: %{{y:.4g}} s<extra></extra>",
                    }
                )
    binned = len(run.curve.get("iteration", [])) > len(run.columns) if has else False
    spread = f"Slowest rank over the mean: {1 + run.imbalance():.3f} (without waiting)." if has else ""
    heat = []
    if has and len(run.ranks) > 1:
        heat = [
            {
                "type": "heatmap",
                "x": digits(run.columns + 1),
                "y": run.ranks,
                "z": packed(run.busy, run.busy.shape),
                "colorscale": "Viridis",
                "colorbar": {"title": {"text": "s", "side": "right"}, "thickness": 12},
                "hovertemplate": "rank %{y}, iteration %{x}<br>%{z:.4g} s busy<extra></extra>",
            }
        ]
    return [
        chart(
            "phases_by_iteration",
            "Phases over the iterations",
            area,
            {"xaxis": axis("iteration"), "yaxis": axis("s per iteration"), "hovermode": "x unified"},
            "Mean over ranks" + (" and neighboring iterations." if binned else "."),
            none,
            run.name,
        ),
        chart(
            "phases_by_rank",
            "Time per rank",
            stacked(run.ranks, own, "rank ") if has else [],
            {"barmode": "stack", "xaxis": ranks_of(run), "yaxis": axis("s per iteration")},
            spread,
            none,
            run.name,
        ),
        chart(
            "busy",
            "Busy time of every rank",
            heat,
            {"xaxis": axis("iteration"), "yaxis": ranks_of(run, autorange="reversed")},
            "Time not spent waiting for others. A bright row is a slow rank, a bright column a slow moment.",
            none if not has else "One rank: there is nobody to compare it with.",
            run.name,
        ),
    ]


# --- communication ----------------------------------------------------------------------------------------------------
def hidden_and_exposed(run):
    """Seconds per iteration and rank: exchanges that computation hid, exchanges and reductions waited for."""
    wait, flight = run.sums["wait_seconds"], run.sums["flight_seconds"]
    reduce = PHASES.index("reduce")
    exchanges = np.delete(wait, reduce, axis=0).sum(axis=0)
    hidden = np.maximum(flight.sum(axis=0) - exchanges, 0)
    return np.array([hidden, exchanges, wait[reduce]]) / max(run.steady, 1)


def communication_of(run):
    none = "This run has no trace with iterations."
    has = "own_seconds" in run.sums and run.steady > 0
    alone = "One rank: it sends nothing."
    data, traffic = [], []
    if has and run.rank_count > 1:
        kinds = [
            ("hidden", "#009E73"),
            ("exposed: exchanges", "#D55E00"),
            ("exposed: reductions", "#CC79A7"),
        ]
        data = [
            {
                "type": "bar",
                "name": name,
                "x": run.ranks,
                "y": digits(row),
                "marker": {"color": color},
                "hovertemplate": "rank %{x}: %{y:.4g} s<extra>" + name + "</extra>",
            }
            for (name, color), row in zip(kinds, hidden_and_exposed(run))
        ]
        sent = run.sums["bytes_sent"] / run.steady
        traffic = [
            {
                "type": "bar",
                "name": label(phase),
                "x": run.ranks,
                "y": digits(row),
                "marker": {"color": PHASE_COLORS[phase]},
                "hovertemplate": f"{label(phase)}<br>rank %{{x}}: %{{y:.3s}}B<extra></extra>",
            }
            for phase, row in zip(PHASES, sent)
            if row.sum() > 0
        ]
    older = has and run.rank_count > 1 and run.sums["flight_seconds"].sum() == 0 and run.sums["bytes_sent"].sum() > 0
    note = (
        "This trace is of an older version, which did not record how long exchanges were under way."
        if older
        else (
            "An exchange counts as hidden from its begin until its rank saw it complete, less what it waited. Waiting "
            "includes that for slower ranks."
        )
    )
    return [
        chart(
            "hidden_exposed",
            "Communication, hidden and exposed",
            data,
            {"barmode": "stack", "xaxis": ranks_of(run), "yaxis": axis("s per iteration")},
            note,
            alone if has else none,
            run.name,
        ),
        chart(
            "traffic",
            "Bytes sent",
            traffic,
            {"barmode": "stack", "xaxis": ranks_of(run), "yaxis": axis("bytes per iteration", tickformat="~s")},
            "",
            alone if has else none,
            run.name,
        ),
    ]
