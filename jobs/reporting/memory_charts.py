# SPDX-License-Identifier: BSD-3-Clause
"""What a run kept in memory, and what of it went to a disk."""
from .charts import GIB, PHASE_COLORS, axis, chart, digits, label, packed, ranks_of
from .runs import PHASES


def memory_of(run):
    none = "This run has no trace."
    by_rank, by_phase, over = [], [], []
    if run.peak is not None and run.peak.any():
        rows = [
            ("resident set", run.resident, "#999999"),
            ("tracked peak", run.peak.max(axis=0), "#0072B2"),
        ]
        by_rank = [
            {
                "type": "bar",
                "name": name,
                "x": run.ranks,
                "y": digits(values / GIB),
                "marker": {"color": color},
                "hovertemplate": "rank %{x}: %{y:.3f} GiB<extra></extra>",
            }
            for name, values, color in rows
            if values.any()
        ]
        some = [i for i in range(len(PHASES)) if run.peak[i].any()]
        if len(run.ranks) > 1:
            by_phase = [
                {
                    "type": "heatmap",
                    "x": run.ranks,
                    "y": [label(PHASES[i]) for i in some],
                    "z": packed(run.peak[some] / GIB, (len(some), len(run.ranks))),
                    "colorscale": "Cividis",
                    "colorbar": {"title": {"text": "GiB", "side": "right"}, "thickness": 12},
                    "hovertemplate": "%{y}, rank %{x}<br>%{z:.3f} GiB<extra></extra>",
                }
            ]
        else:
            by_phase = [
                {
                    "type": "bar",
                    "x": [label(PHASES[i]) for i in some],
                    "y": digits(run.peak[some, 0] / GIB),
                    "marker": {"color": [PHASE_COLORS[PHASES[i]] for i in some]},
                    "showlegend": False,
                    "hovertemplate": "%{x}: %{y:.3f} GiB<extra></extra>",
                }
            ]
        if run.memory_curve.any():
            over = [
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": "tracked peak, highest rank",
                    "x": digits(run.columns + 1),
                    "y": packed(run.memory_curve / GIB),
                    "line": {"color": "#0072B2", "width": 2},
                    "showlegend": False,
                    "hovertemplate": "iteration %{x}: %{y:.3f} GiB<extra></extra>",
                }
            ]
    many = by_phase and by_phase[0]["type"] == "heatmap"
    return [
        chart(
            "memory_by_rank",
            "Memory per rank",
            by_rank,
            {"barmode": "overlay", "xaxis": ranks_of(run), "yaxis": axis("GiB", rangemode="tozero")},
            "Tracked: images, weights, activations, buffers. Resident: everything, libraries too.",
            none,
            run.name,
        ),
        chart(
            "memory_by_phase",
            "Peak memory per phase",
            by_phase,
            (
                {"xaxis": ranks_of(run), "yaxis": axis("", type="category")}
                if many
                else {"xaxis": axis("", type="category"), "yaxis": axis("GiB")}
            ),
            "Highest tracked memory during each phase.",
            none,
            run.name,
        ),
        chart(
            "memory_over_time",
            "Memory over the iterations",
            over,
            {"xaxis": axis("iteration"), "yaxis": axis("GiB, highest rank", rangemode="tozero")},
            "",
            none if run.peak is None else "No iteration was recorded.",
            run.name,
        ),
    ]


def disk_of(run):
    """What went between the scratch file and the disk; no chart where there was no such file."""
    if "bytes_read" not in run.sums or not (run.sums["bytes_read"].any() or run.sums["bytes_written"].any()):
        return []
    data = []
    for name, key, opacity in (("read", "bytes_read", 1.0), ("written", "bytes_written", 0.5)):
        each = run.sums[key].mean(axis=1) / max(run.steady, 1)
        some = [i for i in range(len(PHASES)) if each[i] > 0]
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [label(PHASES[i]) for i in some],
                "y": digits(each[some]),
                "marker": {"color": [PHASE_COLORS[PHASES[i]] for i in some], "opacity": opacity},
                "hovertemplate": "%{x}: %{y:.3s}B<extra>" + name + "</extra>",
            }
        )
    return [
        chart(
            "disk",
            "Scratch file: bytes read and written",
            data,
            {"barmode": "group", "xaxis": axis("", type="category"), "yaxis": axis("bytes per iteration and rank", tickformat="~s")},
            "By the phase during which they went; pages are written beside what is computed, often in a later phase.",
            run=run.name,
        )
    ]
