#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Read the performance trace of a run as pandas frames; docs/trace.md says what the columns hold.

    from read_trace import read_trace
    iterations, phases = read_trace("runs/photo")

On the command line: read_trace.py RUN prints a summary. Needs h5py and pandas, which the tree's .venv has.
"""
import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("h5py", "pandas")

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from tessera.trace import exposed_share, read_rank, read_trace  # noqa: E402


def summary(run_folder):
    """Text: how the run went and where its time was, mean and worst rank."""
    iterations, phases = read_trace(run_folder)
    attributes = read_rank(sorted(Path(run_folder, "trace").glob("rank-*.h5"))[0])[2]
    ranks = iterations["rank"].nunique()
    lines = [f"{run_folder}: {ranks} rank{'s' if ranks != 1 else ''}, status {attributes['status']}"]
    first = iterations[iterations["rank"] == 0]
    if len(first):
        last = first.iloc[-1]
        lines.append(f"{len(first)} iterations recorded, the last is {int(last.iteration)}: residual "
                     f"{last.residual:.3g}, PSNR {last.psnr:.2f} dB, mean {first.seconds.mean():.4g} s each")
    inside = phases[phases["iteration"] >= 0]
    if len(inside):
        per_rank = inside.groupby(["phase", "rank"]).agg(
            own_seconds=("own_seconds", "sum"), wait_seconds=("wait_seconds", "sum"),
            bytes_sent=("bytes_sent", "sum"), peak_bytes=("peak_bytes", "max"))
        # A rank without a phase spent nothing in it.
        every = pd.MultiIndex.from_product([per_rank.index.levels[0], sorted(phases["rank"].unique())],
                                           names=["phase", "rank"])
        by_phase = per_rank.reindex(every, fill_value=0).groupby("phase")
        table = by_phase.mean()
        table.insert(1, "worst_own_seconds", by_phase["own_seconds"].max())
        table["share"] = table["own_seconds"] / table["own_seconds"].sum()
        lines += ["", "inside iterations, per rank:",
                  table.sort_values("own_seconds", ascending=False).to_string(float_format="%.4g")]
        lines.append(f"\nexposed communication: {100 * exposed_share(iterations, phases):.2g} % of the iterations' time")
    lines.append(f"\nthe trace itself took {attributes['trace_seconds']:.4g} s on rank 0")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Print a summary of a run's performance trace.")
    parser.add_argument("run", help="output folder of a run")
    arguments = parser.parse_args()
    try:
        print(summary(arguments.run))
    except (OSError, ValueError) as error:
        sys.exit(f"read_trace: {error}")


if __name__ == "__main__":
    main()
