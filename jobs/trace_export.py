#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a run's trace as a timeline for Perfetto (ui.perfetto.dev) or chrome://tracing.

A process per rank, with tracks: its iterations, what the host did (phases, nested), its waits and exchanges under way;
counters of memory. Clocks of the ranks are shifted so that their iterations begin
together. docs/report.md says how exact it is.

examples:
  jobs/trace_export.py runs/photo -o trace.json
  jobs/trace_export.py runs/photo -o trace.json.gz --iterations 10:20 --ranks 0,1
"""

import argparse
import gzip
import json
import math
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("h5py", "numpy")

import numpy as np

from reporting import InputError
from reporting.traces import ends, read_rank, trace_files

ITERATIONS, HOST, WAITS = range(3)  # tracks
TRACKS = {ITERATIONS: "iterations", HOST: "host", WAITS: "waiting for other ranks"}
MICRO = 1e6  # times of the format are in microseconds


def micro(seconds):
    return round(float(seconds) * MICRO, 3)


def finite(values):
    return {key: float(f"{v:.6g}") for key, v in values.items() if math.isfinite(v)}


def names_of(rank, attributes, tracks):
    title = f"rank {rank} ({attributes.get('host', 'unknown host')}, {attributes.get('device', 'unknown device')})"
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": title}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
    for track in sorted(tracks):
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": track, "args": {"name": TRACKS[track]}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": track, "args": {"sort_index": track}}


def iteration_events(rank, rows, shift, leads):
    for row in rows:
        figures = finite({name: row[name] for name in ("psnr", "residual", "objective", "chi2", "step", "sigma")})
        begin = micro(row["start"] + shift)
        yield {
            "ph": "X",
            "name": f"iteration {row['iteration']}",
            "cat": "iteration",
            "pid": rank,
            "tid": ITERATIONS,
            "ts": begin,
            "dur": micro(row["seconds"]),
            "args": figures,
        }
        if leads:  # a line through all tracks
            yield {
                "ph": "i",
                "name": f"iteration {row['iteration']}",
                "cat": "iteration",
                "pid": rank,
                "tid": ITERATIONS,
                "ts": begin,
                "s": "g",
            }


def phase_events(rank, attempt, rows, shift):
    flights = attempt.column("flight_seconds")[rows] if len(rows) else []
    for row, flight in zip(attempt.phases[rows], flights):
        name = attempt.names[row["phase"]]
        begin, end = row["start"] + shift, row["start"] + row["seconds"] + shift
        counts = {
            key: int(row[key])
            for key in ("iteration", "bytes_sent", "bytes_received", "messages", "peak_bytes")
            if row[key]
        }
        yield {
            "ph": "X",
            "name": name,
            "cat": "phase",
            "pid": rank,
            "tid": HOST,
            "ts": micro(begin),
            "dur": micro(row["seconds"]),
            "args": counts | {"own_seconds": float(f"{row['own_seconds']:.6g}")},
        }
        if flight > 0:
            exchange = {
                "name": f"exchange for {name}",
                "cat": "exchange",
                "pid": rank,
                "tid": WAITS,
                "id": f"{rank}.{micro(begin):.3f}",
            }
            yield exchange | {
                "ph": "b",
                "ts": micro(end - flight),
                "args": {"bytes_received": int(row["bytes_received"])},
            }
            yield exchange | {"ph": "e", "ts": micro(end)}
        memory = {"tracked": int(row["allocated_bytes"]), "resident": int(row["resident_bytes"])}
        for what, value in memory.items():
            yield {
                "ph": "C",
                "name": f"memory: {what}",
                "pid": rank,
                "tid": 0,
                "ts": micro(end),
                "args": {"bytes": value},
            }


def wait_events(rank, attempt, rows, shift):
    """The trace says how long a phase waited; that it was at its end is likely, not known."""
    rows = rows[attempt.phases["wait_seconds"][rows] > 0]
    free = -math.inf  # waits follow each other
    for row in attempt.phases[rows[np.argsort(ends(attempt.phases[rows]), kind="stable")]]:
        end = row["start"] + row["seconds"]
        begin = max(end - min(row["wait_seconds"], row["seconds"]), free)
        free = max(free, end)
        if end > begin:
            yield {
                "ph": "X",
                "name": f"wait in {attempt.names[row['phase']]}",
                "cat": "wait",
                "pid": rank,
                "tid": WAITS,
                "ts": micro(begin + shift),
                "dur": micro(end - begin),
            }


def clock_shift(lead, other):
    """Seconds to add to another rank's clock: median difference of the iterations that both began."""
    starts = [
        {int(row["iteration"]): row["start"] + a.offset for a in attempts for row in a.iterations}
        for attempts in (lead, other)
    ]
    both = starts[0].keys() & starts[1].keys()
    return float(np.median([starts[0][k] - starts[1][k] for k in both])) if both else 0.0


def all_events(folder, chosen_ranks=None, first=None, last=None, own_clocks=False, notes=None):
    """Events of the ranks, in no order. Iterations [first, last); None: all, and what is around them."""
    files = trace_files(folder)
    if not files:
        raise InputError(
            f"{folder} has no trace/rank-*.h5 (it should be the output folder of a run) name such a folder"
        )
    unknown = [r for r in chosen_ranks or [] if r not in files]
    if unknown:
        raise InputError(f"there is no trace of rank {unknown[0]} (the run has {len(files)}, from 0) choose among them")
    lead, there = None, set()  # there: iterations that are recorded
    for rank in chosen_ranks or list(files):
        try:
            attributes, attempts = read_rank(files[rank])
        except (OSError, KeyError, ValueError) as error:
            if notes is not None:
                notes.append(f"the trace of rank {rank} cannot be read ({str(error)[:120]}) and is left out")
            continue
        leads, lead = lead is None, lead or attempts
        shift = 0.0 if own_clocks or leads else clock_shift(lead, attempts)
        tracks = {ITERATIONS, HOST}
        for attempt in attempts:
            if len(attempt.phases):
                tracks |= {WAITS} if attempt.phases["wait_seconds"].any() else set()
        yield from names_of(rank, attributes, tracks)
        for attempt in attempts:
            there |= set(attempt.iterations["iteration"].tolist())
            at = shift + attempt.offset
            inside = (
                slice(None)
                if first is None
                else (attempt.iterations["iteration"] >= first) & (attempt.iterations["iteration"] < last)
            )
            yield from iteration_events(rank, attempt.iterations[inside], at, leads)
            number = attempt.phases["iteration"]
            rows = np.arange(len(number)) if first is None else np.flatnonzero((number >= first) & (number < last))
            rows = rows[np.argsort(attempt.phases["start"][rows], kind="stable")]
            yield from phase_events(rank, attempt, rows, at)
            yield from wait_events(rank, attempt, rows, at)
    if lead is None:
        raise InputError(f"no trace in {folder} can be read (they are damaged) run the job again")
    if first is not None and not any(first <= k < last for k in there):
        known = f"it has {min(there)} to {max(there)}" if there else "it has none"
        raise InputError(f"no iteration of {first}:{last} is in the trace of {folder} ({known}) choose among them")


def write(path, folder, events):
    """Writes the file, whole or not at all; how many events."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(unfinished, "wt") as file:
            file.write(
                f'{{"displayTimeUnit": "ms", "otherData": {{"run": {json.dumps(str(folder))}}}, "traceEvents": [\n'
            )
            for event in events:
                file.write((",\n" if count else "") + json.dumps(event, separators=(",", ":")))
                count += 1
            file.write("\n]}\n")
        os.replace(unfinished, path)
    except OSError as error:
        raise InputError(
            f"cannot write {path} ({error.strerror}) name a file in a folder that exists and is yours"
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def span(text):
    first, _, last = text.partition(":")
    if not (first.isdigit() and last.isdigit() and int(first) < int(last)):
        raise argparse.ArgumentTypeError(f"'{text}' is no span (FIRST:LAST, LAST not included) write for example 10:20")
    return int(first), int(last)


def rank_list(text):
    if not all(part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of ranks (numbers with commas) write for example 0,1")
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="output folder of a run")
    parser.add_argument("-o", "--output", required=True, help="file to write; .gz: compressed, which both viewers read")
    parser.add_argument(
        "--iterations", type=span, help="FIRST:LAST, LAST not included (default: all, and what is around them)"
    )
    parser.add_argument("--ranks", type=rank_list, help="for example 0,1,5 (default: all)")
    parser.add_argument("--own-clocks", action="store_true", help="leaves every rank's clock as it is")
    given = parser.parse_args()
    first, last = given.iterations or (None, None)
    notes = []
    count = write(given.output, given.run, all_events(given.run, given.ranks, first, last, given.own_clocks, notes))
    for note in notes:
        print(f"trace_export: {note}", file=sys.stderr)
    print(f"{given.output}: {count} events, {Path(given.output).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        print(f"trace_export: {error}", file=sys.stderr)
        sys.exit(2)
