#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parameter table of a sweep: the first line names keys of the job file, every other line is one run.

    sweep_table.py count TABLE         how many rows
    sweep_table.py row TABLE I         row I, counted from 0, as KEY=VALUE lines; an empty cell leaves its key alone
    sweep_table.py record TABLE I FILE CODE BEGIN RANKS     writes FILE, what jobs/collect.py reads of a task that ended

TABLE is .csv, or .tsv with tabs. A value is YAML, as behind --set; in .csv one with a comma stands in "double quotes".
"""
import csv
import json
import sys
import time
from pathlib import Path


def read_table(path):
    """Rows as dicts of key -> value; the message of what is wrong as ValueError."""
    with open(path, newline="") as file:
        lines = [line for line in csv.reader(file, delimiter="\t" if str(path).endswith(".tsv") else ",") if line]
    if len(lines) < 2:
        raise ValueError(f"{path} has no rows (its first line names the keys) add a line for each run")
    keys = [key.strip() for key in lines[0]]
    for i, key in enumerate(keys):
        if not key or " " in key or "=" in key:
            raise ValueError(f"{path}: '{key}' heads column {i + 1} (a column is headed by a key of the job file) "
                             "write for example solver.iterations")
        if key in keys[:i]:
            raise ValueError(f"{path}: {key} heads two columns (only one could count) remove one")
        if key.startswith("output.folder"):
            raise ValueError(f"{path}: output.folder is a column (a sweep names its folders by array job and task) "
                             "remove it")
    for number, line in enumerate(lines[1:]):
        if len(line) != len(keys):
            raise ValueError(f"{path}: row {number} has {len(line)} cells (the first line has {len(keys)}) "
                             "put values with commas into double quotes, or use a .tsv with tabs")
    return [{k: v.strip() for k, v in zip(keys, line) if v.strip()} for line in lines[1:]]


def row(path, index):
    rows = read_table(path)
    if not 0 <= index < len(rows):
        raise ValueError(f"{path} has no row {index} (its rows are 0 to {len(rows) - 1}) "
                         f"submit with --array=0-{len(rows) - 1}")
    return rows[index]


def record(table, index, path, code, begin, ranks):
    run = Path(path).with_suffix("")
    text = json.dumps({"schema": 1, "study": "sweep", "folder": run.name, "settings": row(table, index),
                       "ranks": ranks, "exit_code": code, "wall_seconds": round(time.time() - begin, 3)}, indent=1)
    temporary = Path(f"{path}.tmp")
    temporary.write_text(text + "\n")
    temporary.replace(path)


def main():
    try:
        match sys.argv[1:]:
            case ["count", table]:
                print(len(read_table(table)))
            case ["row", table, index]:
                print("\n".join(f"{key}={value}" for key, value in row(table, int(index)).items()))
            case ["record", table, index, path, code, begin, ranks]:
                record(table, int(index), path, int(code), float(begin), int(ranks))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
