# SPDX-License-Identifier: BSD-3-Clause
"""Tiles, tables and notes of the page, as HTML."""

import html
import math

import numpy as np

from .charts import style
from .runs import DONE, repeats

BORDERS = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "double"}


def e(text):
    return html.escape(str(text))


def seconds(value):
    if not math.isfinite(value):
        return "unknown"
    for limit, unit, factor in ((1e-3, "\u00b5s", 1e6), (1, "ms", 1e3), (120, "s", 1), (7200, "min", 1 / 60)):
        if value < limit:
            return f"{value * factor:.3g} {unit}"
    return f"{value / 3600:.3g} h"


def amount(value):
    if not value or not math.isfinite(value):
        return "unknown"
    power = min(int(math.log(value, 1024)), 4) if value >= 1 else 0
    return f"{value / 1024**power:.3g} {['bytes', 'KiB', 'MiB', 'GiB', 'TiB'][power]}"


def decibel(value):
    return f"{value:.2f} dB" if math.isfinite(value) else "none"


def percent(value):
    return f"{100 * value:.3g} %" if math.isfinite(value) else "unknown"


def psnr(run):
    value = run.number("psnr")
    if not math.isfinite(value) and len(run.curve.get("psnr", [])):
        value = float(run.curve["psnr"][-1])
    return value


def status_class(run):
    return {"converged": "good", "limit": "good", "stopped": "", "waiting": ""}.get(run.status, "bad")


def status_text(run):
    return DONE.get(run.status, run.status)


def tile(what, value, more="", kind=""):
    return (
        f'<div class=tile><div class=what>{e(what)}</div><div class="value {kind}">{e(value)}</div>'
        f"<div class=more>{e(more)}</div></div>"
    )


def iterations_text(run):
    done = run.summary.get("iterations")
    if done is None and len(run.curve.get("iteration", [])):
        done = int(run.curve["iteration"].max()) + 1
    wanted = run.job.get("solver.iterations")
    text = f"{done if done is not None else 0}" + (f" of {wanted}" if wanted else "") + " iterations"
    again = run.restart_count
    return text + (f", resumed {again} time{'s' if again > 1 else ''}" if again else "")


def grid_text(grid):
    depth = f"{grid['grid_depth']} x " if grid.get("grid_depth", 1) > 1 else ""
    return f"{depth}{grid['grid_rows']} x {grid['grid_columns']}"


def tiles_of_one(run):
    median, low, high = run.seconds_per_iteration()
    grid = run.attributes[0] if run.attributes and "grid_rows" in run.attributes[0] else None
    start = run.number("psnr_start")
    truth = "problem.truth" in run.job or any(k.startswith("problem.truth.") for k in run.job) or math.isfinite(start)
    spread = (
        f"10th to 90th percentile: {seconds(low)} to {seconds(high)}"
        if math.isfinite(median)
        else "no iteration was recorded"
    )
    here = run.hardware()
    threads = here.threads_text()
    where = f"{here.hosts} host{'s' if here.hosts > 1 else ''}"
    if threads:
        where += f", {threads} thread{'s' if threads != '1' else ''} each, {here.cores} cores"
    if here.shared:
        where += ", which are shared"
    return "".join(
        [
            tile("Status", status_text(run), iterations_text(run), status_class(run)),
            *([tile("PSNR", decibel(psnr(run)), f"start {decibel(start)}" if math.isfinite(start) else "")] if truth else []),
            tile("Time per iteration", seconds(median), spread),
            tile(
                "Ranks",
                run.rank_count or "unknown",
                (
                    f"{grid_text(grid)} blocks, {where}"
                    if grid
                    else ""
                ),
            ),
            tile("Memory per rank", amount(run.resident_bytes()), f"resident; tracked: {amount(run.tracked_bytes())}"),
            *(
                [
                    tile("Exposed communication", percent(run.exposed_fraction()), "of the iterations' time"),
                    tile("Imbalance", percent(run.imbalance()), "slowest rank over the mean, without waiting"),
                ]
                if run.rank_count > 1
                else []
            ),
            tile("Tracing", percent(run.trace_share), "of the run's time, inside trace calls"),
        ]
    )


def tiles_of_many(runs, series):
    done = [r for r in runs if status_class(r) != "bad"]
    best = max((r for r in runs if math.isfinite(psnr(r))), key=psnr, default=None)
    timed = [r for r in runs if math.isfinite(r.seconds_per_iteration()[0])]
    fastest = min(timed, key=lambda r: r.seconds_per_iteration()[0], default=None)
    out = [
        tile(
            "Runs",
            len(runs),
            f"{len(done)} ended well, {len(runs) - len(done)} did not",
            "good" if len(done) == len(runs) else "bad",
        ),
        tile("Best PSNR", decibel(psnr(best)) if best else "none", best.name if best else "no run has a truth"),
        tile(
            "Fastest iteration",
            seconds(fastest.seconds_per_iteration()[0]) if fastest else "unknown",
            fastest.name if fastest else "no run recorded one",
        ),
        tile("Ranks", ", ".join(map(str, sorted({r.rank_count for r in runs if r.rank_count}))) or "unknown", ""),
    ]
    for kind in ("strong", "weak"):
        one = next((s for s in series if s.kind == kind), None)
        if one:
            out.append(
                tile(
                    f"Efficiency, {kind}",
                    percent(one.efficiency()[-1]),
                    f"{one.points[-1].ranks} ranks against {one.points[0].ranks}"
                    + (", cores are shared" if one.points[-1].runs[0].hardware().shared else ""),
                )
            )
    shares = [r.trace_share for r in runs if math.isfinite(r.trace_share)]
    out.append(
        tile("Tracing", percent(max(shares, default=math.nan)), "of the time, in the run with the largest share")
    )
    return "".join(out)


def runs_table(runs):
    head = [
        "run",
        "status",
        "ranks",
        "threads",
        "iterations",
        "PSNR",
        "s/iteration",
        "total",
        "start-up",
        "I/O",
        "tracked",
        "resident",
        "exposed",
        "imbalance",
        "tracing",
    ]
    left = {"run", "status"}
    rows = []
    for index, again in enumerate(repeats(runs)):
        run = again[0]
        times = [r.seconds_per_iteration()[0] for r in again]
        spread = f" ({seconds(min(times))} to {seconds(max(times))})" if len(again) > 1 else ""
        over = lambda of: float(np.median([of(r) for r in again]))  # noqa: E731
        drawn = style(index)
        border = f"border-color:{drawn['color']};border-top-style:{BORDERS[drawn['dash']]}"
        line = f'<span class=line style="{border}"></span>'
        more = f" <span class=note>and {len(again) - 1} repeat{'s' if len(again) > 2 else ''}</span>" if len(again) > 1 else ""
        cells = [f"<td>{line}{e(run.name)}{more}</td>", f"<td class={status_class(run)}>{e(status_text(run))}</td>"]
        done = run.summary.get("iterations", len(run.curve.get("iteration", [])))
        for value in (
            run.rank_count or "",
            run.hardware().threads_text(),
            done,
            decibel(psnr(run)),
            seconds(float(np.median(times))) + spread,
            seconds(over(lambda r: r.total_seconds)),
            seconds(over(lambda r: r.startup_seconds)),
            seconds(over(lambda r: r.io_seconds)),
            amount(max(r.tracked_bytes() for r in again)),
            amount(max(r.resident_bytes() for r in again)),
            percent(over(lambda r: r.exposed_fraction())) if run.rank_count > 1 else "",
            percent(over(lambda r: r.imbalance())) if run.rank_count > 1 else "",
            percent(over(lambda r: r.trace_share)),
        ):
            cells.append(f"<td class=n>{e(value)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = "".join(f"<th{'' if h in left else ' class=n'}>{e(h)}</th>" for h in head)
    return f'<div class="card scroll" style="margin-top:.9rem"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'


def scaling_table(rows):
    """Repeats merged, measured beside predicted."""
    if not rows:
        return ""
    head = [
        "series",
        "ranks",
        "threads",
        "cores",
        "sockets",
        "runs",
        "s/iteration",
        "least to most",
        "speedup",
        "efficiency",
        "predicted",
        "of measured",
        "exposed",
        "tracked",
        "resident",
    ]
    body = []
    for r in rows:
        cells = [
            r["ranks"],
            r["threads"],
            f"{r['cores']}{', shared' if r['shared_cores'] == 'yes' else ''}",
            r["sockets"],
            r["runs"],
            seconds(r["seconds"]),
            f"{seconds(r['seconds_least'])} to {seconds(r['seconds_most'])}",
            f"{r['speedup']:.2f} of {r['ideal_speedup']:.3g}",
            percent(r["efficiency"]),
            seconds(r["predicted_seconds"]) if math.isfinite(r["predicted_seconds"]) else "",
            percent(r["predicted_over_measured"]) if math.isfinite(r["predicted_over_measured"]) else "",
            percent(r["exposed_wait_fraction"]),
            amount(r["tracked_bytes"]),
            amount(r["resident_bytes"]),
        ]
        body.append([f"{r['scaling']}, {r['series']}", *map(str, cells)])
    # What is the same in all rows, or in none, takes no column.
    same = {k for k in range(len(head)) if head[k] in ("threads", "sockets", "runs") and len({row[k] for row in body}) == 1}
    same |= {k for k in range(1, len(head)) if not any(row[k] for row in body)}
    kept = [k for k in range(len(head)) if k not in same]
    heads = "".join(f"<th{' class=n' if k else ''}>{e(head[k])}</th>" for k in kept)
    lines = "".join("<tr>" + "".join(f"<td class={'n' if k else 'wrap'}>{e(row[k])}</td>" for k in kept) + "</tr>" for row in body)
    of_all = ", ".join(f"{head[k]} {body[0][k]}" for k in sorted(same) if body[0][k])
    note = f"<p class=note>In all rows: {e(of_all)}.</p>" if of_all else ""
    return f'<div class="card scroll wide" style="margin-bottom:.9rem"><table><tr>{heads}</tr>{lines}</table>{note}</div>'


def notes(runs):
    said = [(run.name if len(runs) > 1 else "", text) for run in runs for text in run.problems]
    if not said:
        return ""
    items = "".join(f"<li>{'<b>' + e(name) + '</b>: ' if name else ''}{e(text)}</li>" for name, text in said)
    return f"<div class=notes><b>What to know</b><ul>{items}</ul></div>"
