# SPDX-License-Identifier: BSD-3-Clause
"""One CSV row per run, failed ones too. docs/report.md says what the columns hold."""
import csv
import math

from .runs import PHASES


def row(run):
    job, summary = run.job.get, run.summary.get
    first = run.attributes[0] if run.attributes else {}
    rows, columns = run.shape() or (None, None)
    median, low, high = run.seconds_per_iteration()
    iterations = summary("iterations")
    if iterations is None and len(run.curve.get("iteration", [])):
        iterations = int(run.curve["iteration"][-1]) + 1
    peak = summary("peak_bytes_per_rank") or (run.peak.max(axis=0).tolist() if run.peak is not None else [])
    sent = summary("bytes_sent_per_iteration")
    if sent is None and run.steady:
        sent = run.sums["bytes_sent"].sum() / run.steady
    last = {name: run.curve[name][-1] if len(run.curve.get(name, [])) else None
            for name in ("psnr", "ssim", "residual", "objective", "chi2")}
    values = {
        "run": run.name, "folder": str(run.folder), "status": run.status, "ranks": run.rank_count or None,
        "grid": f"{first['grid_rows']}x{first['grid_columns']}" if "grid_rows" in first else None,
        "hosts": len({a.get("host") for a in run.attributes}) or None,
        "device": summary("device") or str(first.get("device", "")).split(":")[0],
        "transport": summary("transport") or job("domain.transport"), "mode": summary("mode") or job("denoiser.mode"),
        "precision": summary("precision") or job("denoiser.precision"), "network": job("denoiser.network"),
        "solver": job("solver.name"), "height": rows, "width": columns,
        "iterations": iterations, "restarts": len(run.restarts) if run.attributes else None,
        **{name: summary(name) if summary(name) is not None else value for name, value in last.items()},
        "psnr_start": summary("psnr_start"),
        "seconds_per_iteration": median, "seconds_per_iteration_p10": low, "seconds_per_iteration_p90": high,
        "loop_seconds": summary("seconds"), "total_seconds": run.total_seconds, "startup_seconds": run.startup_seconds,
        "io_seconds": run.io_seconds, "lost_seconds": run.lost_seconds if run.attributes else None,
        "peak_bytes_per_rank": max(peak, default=None),
        "resident_bytes_per_rank": run.resident.max() if run.resident is not None else None,
        "bytes_sent_per_iteration": sent, "exposed_wait_fraction": run.exposed_fraction(), "imbalance": run.imbalance(),
        "trace_fraction": run.trace_share,
    }
    phases = run.phase_seconds()
    values |= {f"{name}_seconds": phases.get(name) for name in PHASES}
    values |= {"version": first.get("tessera_version"), "commit": first.get("tessera_commit"),
               "start_time": first.get("start_time"), "message": " ".join(run.problems)}
    return {key: clean(value) for key, value in values.items()}


def clean(value):
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.9g}"
    return value


def write_table(runs, path):
    rows = [row(run) for run in runs]
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
