# SPDX-License-Identifier: BSD-3-Clause
"""Scaling figures for papers: SVG and PDF, one column wide (85 mm), text as text, black and white safe markers."""

import numpy as np

from . import InputError
from .charts import GIB, PHASE_COLORS, RUN_COLORS, label
from .runs import PHASES

MM = 1 / 25.4
STYLE = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 6.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tessera",  # the same file for the same runs
    "pdf.fonttype": 42,
}
MARKERS = "osD^vP*"


def rank_axis(axes, ranks):
    from matplotlib import ticker

    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(ranks)))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel("ranks")
    axes.grid(True, color="#dddddd", linewidth=0.4)
    axes.set_axisbelow(True)


def plain_numbers(axes):
    from matplotlib import ticker

    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axes.yaxis.set_minor_locator(ticker.LogLocator(base=10, subs=(2, 5)))


def spread(axes, index, one, values, low, high):
    axes.errorbar(
        [p.ranks for p in one.points],
        values,
        yerr=[np.maximum(np.subtract(values, low), 0), np.maximum(np.subtract(high, values), 0)],
        marker=MARKERS[index % len(MARKERS)],
        color=RUN_COLORS[index % len(RUN_COLORS)],
        capsize=2,
        elinewidth=0.7,
        label=one.label,
    )


def ideal(axes, index, one, values):
    axes.plot([p.ranks for p in one.points], values, ":", color=RUN_COLORS[index % len(RUN_COLORS)],
              label="ideal" if index == 0 else None)


def predicted(axes, plans, kind, attribute, factor=1.0):
    for index, plan in enumerate(p for p in plans if p.kind == kind):
        values = np.array(getattr(plan, attribute), float) * factor
        if np.isfinite(values).any():
            axes.plot(plan.ranks, values, "--D", color="#CC79A7", markerfacecolor="none",
                      label="predicted" if index == 0 else None)


def draw(kind, series, plans, plt):
    """{name: figure} of one kind of scaling."""
    figures = {}

    def new(name, y):
        figures[name], axes = plt.subplots(figsize=(85 * MM, 62 * MM), layout="constrained")
        axes.set_ylabel(y)
        return axes

    ranks = [p.ranks for one in series for p in one.points]
    time = new(f"{kind}_time", "time per iteration (s)")
    speedup = new(f"{kind}_speedup", "speedup" if kind == "strong" else "scaled speedup")
    efficiency = new(f"{kind}_efficiency", "efficiency (%)")
    memory = new(f"{kind}_memory", "memory per rank (GiB)")
    for index, one in enumerate(series):
        points, first = one.points, one.points[0]
        seconds = [p.seconds for p in points]
        spread(time, index, one, seconds, [p.least for p in points], [p.most for p in points])
        work = [p.rate() * p.seconds / (first.rate() * first.seconds) for p in points]
        ideal(time, index, one, [first.seconds * w / i for w, i in zip(work, one.ideal())])
        s = one.speedup()
        spread(speedup, index, one, s, [v * p.seconds / p.most for v, p in zip(s, points)],
               [v * p.seconds / p.least for v, p in zip(s, points)])
        ideal(speedup, index, one, one.ideal())
        low, high = 100 * np.array(one.efficiency_spread()).T
        spread(efficiency, index, one, 100 * np.array(one.efficiency()), low, high)
        for name, style, of in (("tracked", "-", "tracked_bytes"), ("resident", "--", "resident_bytes")):
            highest = [max(getattr(run, of)() for run in p.runs) / GIB for p in points]
            memory.plot([p.ranks for p in points], highest, style + MARKERS[index % len(MARKERS)],
                        color=RUN_COLORS[index % len(RUN_COLORS)], label=name if index == 0 else None)
    predicted(time, plans, kind, "seconds")
    predicted(speedup, plans, kind, "speedup")
    predicted(efficiency, plans, kind, "efficiency", 100)
    predicted(memory, plans, kind, "memory", 1 / GIB)
    efficiency.axhline(100, color="#888888", linewidth=0.8, linestyle=":")
    for axes in (time, speedup, efficiency, memory):
        rank_axis(axes, ranks)
    speedup.set_yscale("log", base=2)
    speedup.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    if kind == "strong":
        time.set_yscale("log")
        plain_numbers(time)
    for axes in (efficiency, memory) + (() if kind == "strong" else (time,)):
        axes.set_ylim(bottom=0)
    phases = new(f"{kind}_phases", "time per iteration (s)")
    one, bottom = series[0], np.zeros(len(series[0].points))
    places = np.arange(len(one.points))
    for phase in PHASES:
        values = np.array([np.mean([r.phase_seconds().get(phase, 0) for r in p.runs]) for p in one.points])
        if values.any():
            phases.bar(places, values, 0.7, bottom, color=PHASE_COLORS[phase], label=label(phase))
            bottom += values
    phases.set_xticks(places, [str(p.ranks) for p in one.points])
    phases.set_xlabel("ranks")
    for axes in (time, speedup, efficiency, memory):
        axes.legend(frameon=False)
    phases.figure.legend(frameon=False, loc="outside right upper", reverse=True)  # as the bars are stacked
    return figures


def write_figures(folder, series, plans):
    """strong_time.svg, strong_time.pdf and so on; their names. InputError where nothing scales."""
    if not series:
        raise InputError(
            "there is nothing to draw (figures need runs of one job on at least two numbers of ranks) name such runs"
        )
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise InputError("matplotlib is not installed (it draws the figures) run jobs/setup.sh") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = []
    with plt.rc_context(STYLE):
        for kind in dict.fromkeys(one.kind for one in series):
            for name, figure in draw(kind, [s for s in series if s.kind == kind], plans, plt).items():
                for form in ("svg", "pdf"):
                    path = folder / f"{name}.{form}"
                    try:
                        folder.mkdir(parents=True, exist_ok=True)
                        figure.savefig(path, metadata={"Date": None} if form == "svg" else {"CreationDate": None})
                    except OSError as error:
                        raise InputError(f"cannot write {path} ({error.strerror}) name a folder of yours") from None
                    names.append(path)
                plt.close(figure)
    return names
