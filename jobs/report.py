#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes one HTML page, which needs nothing else, of one run or many: convergence, pictures, time, memory, scaling.

examples:
  jobs/report.py runs/photo -o report.html
  jobs/report.py runs/scaling --plan plan.csv -o scaling.html   every run in a folder
  jobs/report.py runs/a runs/b --csv table.csv                  a table only
  jobs/report.py runs/scaling --figures figures                 SVG and PDF for a paper
  jobs/report.py weights.safetensors -o training.html           a training, or several
docs/report.md says what is on the page.
"""

import argparse
import datetime
import math
import os
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("h5py", "numpy", "PIL", "plotly", "yaml")

from collect import COLUMNS, row_of, write_rows
from reporting import InputError, in_utf8
from reporting.figures import write_figures
from reporting.fit import fit_of
from reporting.page import page
from reporting.pictures import Album
from reporting.points import COLUMNS as POINT_COLUMNS
from reporting.points import cell, rows_of, table_text
from reporting.runs import find_runs, name_runs, read_run
from reporting.scaling import read_plan, series_of
from reporting.training import is_training, read_training, training_page


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="+", help="output folder of a run, a folder with such folders, or weights")
    parser.add_argument("-o", "--output", help="HTML file to write")
    parser.add_argument("--csv", help="CSV file to write: a row per run, failed ones too")
    parser.add_argument("--points", help="CSV file to write: a row per point of scaling, repeats merged")
    parser.add_argument("--table", action="store_true", help="print those points")
    parser.add_argument("--quiet", action="store_true", help="say nothing of what was written")
    parser.add_argument("--figures", help="folder to write: figures of scaling as SVG and PDF")
    parser.add_argument(
        "--plan",
        action="append",
        default=[],
        help="CSV of 'tessera plan --csv': drawn in as predicted; may be repeated (default: plan.csv of the folders)",
    )
    parser.add_argument(
        "--side", type=int, help="longest side of a picture on the page, pixels (default: 2048, less for many runs)"
    )
    parser.add_argument(
        "--pictures", choices=["auto", "all", "none"], default="auto", help="auto: those that are quickly read"
    )
    parser.add_argument(
        "--program", help="tessera, which draws scenes (default: $TESSERA_PROGRAM, or that of build/release)"
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="a folder that does not exist counts as a failed run"
    )
    return parser.parse_args(words)


def write_whole(path, text):
    """The file is whole or is not there."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, errors="replace")
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InputError(
            f"cannot write {path} ({error.strerror}) name a file in a folder that exists and is yours"
        ) from None


def default_program():
    built = Path(__file__).resolve().parent.parent / "build/release/bin/tessera"
    return os.environ.get("TESSERA_PROGRAM") or (str(built) if built.exists() else shutil.which("tessera"))


def pictures(runs, given):
    if given.pictures == "none":
        return {run.name: {"figures": [], "missing": ["Left out (--pictures none)."]} for run in runs}
    side = given.side or max(384, int(2048 / math.sqrt(len(runs))))
    with Album(side, given.program or default_program(), given.pictures == "all") as album:
        return {run.name: dict(zip(("figures", "missing"), album.pictures_of(run))) for run in runs}


def fits(runs, given):
    side = given.side or max(384, int(1024 / math.sqrt(len(runs))))
    return {run.name: fit_of(run, side, given.pictures != "none") for run in runs}


def row(run):
    """The columns of jobs/collect.py, and what this page knows beyond them."""
    found = row_of(run.folder, dict(run.record), 1) | {"status": run.status, "ranks": run.rank_count or ""}
    beyond = {
        "restarts": run.restart_count if run.ranks else None,
        "imbalance": run.imbalance(),
        "trace_share": run.trace_share,
        "total_seconds": run.total_seconds,
        "message": " ".join(run.problems),
    }
    return found | {key: "" if value is None or value != value else value for key, value in beyond.items()}


def make_of_trainings(given):
    runs = [path for path in given.run if not is_training(path)]
    if runs or given.csv or given.points or given.figures or given.table:
        raise InputError(
            f"{runs[0] if runs else 'a training'} is not for the page of trainings (it shows weights, with their curves) "
            "name weights alone, and -o"
        )
    trainings = [read_training(path) for path in given.run]
    name_runs(trainings)
    count = f"{len(trainings)} training{'s' if len(trainings) > 1 else ''}"
    made = f"Made {datetime.datetime.now():%Y-%m-%d %H:%M} from {count}."
    text = training_page(trainings, made)
    write_whole(given.output, text)
    if not given.quiet:
        print(f"{given.output}: {len(text) / 1e6:.1f} MB, {count}")


def make(given):
    if not (given.output or given.csv or given.points or given.figures or given.table):
        raise InputError(
            "nothing to write (none of -o, --csv, --points, --figures is given) add for example -o report.html"
        )
    if given.side is not None and given.side < 16:
        raise InputError(f"--side is {given.side} (nothing could be seen) give 16 or more")
    if any(map(is_training, given.run)):
        return make_of_trainings(given)
    beside = [] if given.plan else [Path(p) / "plan.csv" for p in given.run if (Path(p) / "plan.csv").is_file()]
    plans = [plan for path in given.plan or beside for plan in read_plan(path)]
    runs = [read_run(folder, record) for folder, record in find_runs(given.run, given.allow_missing).items()]
    name_runs(runs)
    series = series_of(runs, "strong") + series_of(runs, "weak")
    merged = rows_of(series, plans)
    points = [{key: cell(value) for key, value in r.items()} for r in merged]
    say = (lambda text: None) if given.quiet else print
    if given.table:
        print(table_text(merged))
    tables = [(given.csv, [row(run) for run in runs] if given.csv else [], COLUMNS), (given.points, points, POINT_COLUMNS)]
    for path, rows, columns in tables:
        if path:
            try:
                write_rows(rows, path, columns)
            except OSError as error:
                raise InputError(f"cannot write {path} ({error.strerror}) name a file in a folder that exists") from None
            say(f"{path}: {len(rows)} row{'s' if len(rows) != 1 else ''}")
    if given.figures:
        names = write_figures(Path(given.figures), series, plans)
        say(f"{given.figures}: {len(names)} figures")
    if given.output:
        made = (
            f"Made {datetime.datetime.now():%Y-%m-%d %H:%M} from {len(runs)} run folder{'s' if len(runs) > 1 else ''}."
        )
        text = page(runs, plans, pictures(runs, given), fits(runs, given), made)
        write_whole(given.output, text)
        say(f"{given.output}: {len(text) / 1e6:.1f} MB, {len(runs)} run{'s' if len(runs) > 1 else ''}")


def main(words=None):
    try:
        make(arguments(words))
    except InputError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
