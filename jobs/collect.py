#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Collects runs into one CSV table, a row per run, failed ones too.

    collect.py PATH... -o runs.csv [--warmup N]

PATH is the output folder of a run, the record (.json) that a sweep or a study keeps of one, or a folder that holds
such records. Numbers come from summary.json and the traces; docs/slurm.md says what the columns mean. An empty cell: the
run did not get that far, or wrote no such number. Needs h5py and numpy.
"""
import argparse
import csv
import json
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("h5py", "numpy")

from reporting import in_utf8
from reporting.hardware import hardware_of

PHASES = ["halo", "operator", "adjoint", "prox", "denoise", "reduce", "metrics", "checkpoint"]
COLUMNS = ["study", "folder", "ranks", "nodes", "threads", "cores", "sockets", "shared_cores", "rows", "columns", "mode",
           "transport", "repeat", "exit_code", "status", "error", "iterations", "wall_seconds", "startup_seconds", "load_seconds", "loop_seconds", "write_seconds",
           "seconds_per_iteration", "seconds_min", "seconds_q25", "seconds_q75", "seconds_max", "warmup",
           *[f"{phase}_seconds" for phase in PHASES], "exposed_wait_fraction", "bytes_sent_per_iteration",
           "peak_bytes_per_rank", "resident_bytes_per_rank", "psnr", "psnr_start", "ssim", "residual", "device",
           "precision", "solver", "network", "tessera", "start_time"]


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def from_trace(folder, warmup):
    """Columns that the traces tell. Times are those of the slowest rank: it is the one that the others wait for."""
    import h5py
    import numpy as np

    files = sorted(folder.glob("trace/rank-*.h5"))
    if not files:
        return {}
    found, machines, by_rank, phase_sums = {}, [], [], {}
    rows = columns = peak = resident = 0
    first_iteration, load, write = [], [], []
    for path in files:
        with h5py.File(path, "r") as file:
            attributes = file.attrs
            machines.append({key: text(value) if isinstance(value, (bytes, str)) else value
                             for key, value in attributes.items()})
            box = attributes["own_box"]
            rows, columns = max(rows, int(box[1][1])), max(columns, int(box[1][2]))
            iterations = file["iterations"][:]
            phases = file["phases"][:]
            codes = h5py.check_enum_dtype(file["phases"].dtype["phase"])
            if not by_rank:
                job = text(attributes["job"])
                found = {"mode": first(r"^  mode: (\S+)", job), "solver": first(r"^solver:\n  name: (\S+)", job),
                         "network": first(r"^  network: (\S+)", job), "start_time": text(attributes["start_time"])}
        by_rank.append(dict(zip(iterations["iteration"].tolist(), iterations["seconds"].tolist())))
        if len(iterations):
            first_iteration.append(iterations["start"][0])
        outside = phases[phases["iteration"] < 0]
        load.append(outside["own_seconds"][outside["phase"] == codes["load"]].sum())
        write.append(outside["own_seconds"][outside["phase"] == codes["write"]].sum())
        if len(phases):
            peak = max(peak, int(phases["peak_bytes"].max()))
            resident = max(resident, int(phases["resident_bytes"].max()))
        inside = phases[phases["iteration"] >= warmup]
        for phase in PHASES:
            if phase in codes:
                phase_sums.setdefault(phase, []).append(inside["own_seconds"][inside["phase"] == codes[phase]].sum())
    found |= hardware_of(machines).columns()
    found |= {"rows": rows, "columns": columns, "warmup": warmup, "peak_bytes_per_rank": peak or "",
              "resident_bytes_per_rank": resident or "",
              "load_seconds": max(load), "write_seconds": max(write)}
    if first_iteration:
        found["startup_seconds"] = max(first_iteration)
    together = sorted(set.intersection(*map(set, by_rank)))
    seconds = [max(rank[k] for rank in by_rank) for k in together if k >= warmup]
    if seconds:
        least, low, middle, high, most = np.percentile(seconds, [0, 25, 50, 75, 100])
        found |= {"seconds_per_iteration": middle, "seconds_min": least, "seconds_q25": low, "seconds_q75": high,
                  "seconds_max": most}
        found |= {f"{phase}_seconds": max(sums) / len(seconds) for phase, sums in phase_sums.items()}
    return found


def first(pattern, where):
    match = re.search(pattern, where, re.M)
    return match.group(1).strip('"') if match else ""


def from_summary(folder):
    path = folder / "summary.json"
    if not path.exists():
        return {}
    summary = json.loads(path.read_text())
    found = {key: summary[key] for key in COLUMNS if key in summary and key != "seconds_per_iteration"}
    found["loop_seconds"] = summary["seconds"]
    found.pop("peak_bytes_per_rank", None)  # the trace also knows what came after the iterations
    return found


def row_of(folder, record, warmup):
    """One run as a dict of columns. What a broken file does not tell is left out; its message becomes the error."""
    row = {"folder": str(folder)}
    for source in (lambda: from_trace(folder, warmup), lambda: from_summary(folder)):
        try:
            row |= source()
        except (OSError, ValueError, KeyError) as error:
            row["error"] = f"{type(error).__name__}: {error}"
    settings = record.pop("settings", {})
    record.pop("schema", None)
    record.pop("folder", None)
    # What was asked for stands where the run says nothing better: rows of a failed run still tell ranks and sizes.
    for key, value in record.items():
        if key in ("exit_code", "wall_seconds", "repeat", "study", "error") or row.get(key) in (None, ""):
            row[key] = value
    row.setdefault("status", "failed" if record.get("exit_code") else "")
    return row | settings


def runs_in(path):
    """(output folder, record) of every run that the path names."""
    path = Path(path)
    if path.suffix == ".json":
        record = json.loads(path.read_text())
        yield path.parent / record["folder"], record
    elif (path / "resolved.yaml").exists() or (path / "trace").is_dir():
        yield path, {}
    else:
        records = [p for p in sorted(path.rglob("*.json")) if is_record(p)]
        if not records:
            raise FileNotFoundError(f"{path} is no run and holds no record of one (a run has a trace folder, a study .json "
                                    "records) give the output folder of a run, a sweep or a study")
        for record in records:
            yield from runs_in(record)


def is_record(path):
    if path.name == "summary.json":
        return False
    try:
        record = json.loads(path.read_text())
    except ValueError:
        return False
    return isinstance(record, dict) and "folder" in record and "exit_code" in record


def collect(paths, output, warmup=1):
    """Writes the CSV; its rows."""
    return write_rows([row_of(folder, dict(record), warmup) for path in paths for folder, record in runs_in(path)], output)


def write_rows(rows, output, columns=tuple(COLUMNS)):
    columns = list(columns)
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in columns))
    with open(f"{output}.tmp", "w", newline="", errors="replace") as file:  # names of folders may be no UTF-8
        writer = csv.DictWriter(file, columns + keys)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    Path(f"{output}.tmp").replace(output)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="+")
    parser.add_argument("-o", "--output", required=True, help="the CSV file")
    parser.add_argument("--warmup", type=int, default=1, help="first iterations that are left out of the times (1)")
    arguments = parser.parse_args()
    try:
        rows = collect(arguments.path, arguments.output, arguments.warmup)
    except (OSError, ValueError, KeyError) as error:
        print(f"collect: {error}", file=sys.stderr)
        return 2
    failed = sum(1 for row in rows if row.get("exit_code"))
    print(f"{arguments.output}: {len(rows)} runs" + (f", {failed} of them failed" if failed else ""))
    return 0


if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
