#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parameter table of a sweep: the first line names keys of the job file, every other line is one run.

    sweep_table.py count TABLE         how many rows
    sweep_table.py row TABLE I         row I, counted from 0, as KEY=VALUE; an empty cell leaves its key alone
    sweep_table.py inputs JOB TABLE WORD...   the files that these name (WORD: KEY=VALUE of --set; TABLE may be ''), with size
                                       and time of change, behind a line with the folder where they begin
    sweep_table.py changed FILE        those of FILE, which `inputs` has printed, that are others now, or gone
    sweep_table.py left TABLE FOLDER   the rows that are not finished in FOLDER, as 0-3,7 for sbatch --array
    sweep_table.py finished FOLDER I   exit code 0 where row I is
    sweep_table.py record FILE CODE BEGIN RANKS KEY=VALUE...   writes FILE, what jobs/collect.py reads of a task that ended

TABLE is text with commas, semicolons or tabs between its cells, in UTF-8 or UTF-16, as spreadsheets write it. A value is
YAML, as behind --set; one with a comma stands in "double quotes". Between semicolons 0,05 is a decimal comma. Rows of `row`
end with a zero byte.
"""
import codecs
import csv
import io
import json
import os
import re
import stat
import sys
import time
from pathlib import Path

WEIGHTS = os.fsencode(Path(__file__).resolve().parent.parent / "data/weights")  # those that a job names without a path
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
MAY_BE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+(,\d+)?")


def decode(path):
    """The file's text, whatever a spreadsheet saved it as."""
    data = Path(path).read_bytes()
    if data.startswith(b"PK\x03\x04"):
        raise ValueError(f"{path} is a spreadsheet's own file (a table is text) export it as CSV")
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in data[:2]:
        encoding = "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8 or UTF-16 ({error.reason} at byte {error.start}) "
                         "save it as 'CSV UTF-8'") from error
    if "\0" in text:
        raise ValueError(f"{path} holds zero bytes (a table is text) export it as CSV")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cells_of(path):
    """(what stands between the cells, lines of cells); keys hold none of the separators, so the first line tells."""
    text = decode(path)
    said = re.match(r'"?sep=(.)"?\n', text)  # a spreadsheet's word for it
    if said:
        text = text[said.end():]
    head = text.lstrip("\n").split("\n", 1)[0]
    ways = [said.group(1)] if said else [way for way in "\t;," if way in head]
    if len(ways) > 1:
        raise ValueError(f"{path}: the first line has {' and '.join(map(repr, ways))} between its cells (one of them would "
                         "be part of a key) use one")
    way = ways[0] if ways else "\t" if str(path).endswith(".tsv") else ","
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=way, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}: {error} (a cell that begins with a double quote ends with one) write a double quote "
                         "inside of a value twice") from error
    return way, [[cell.strip() for cell in line] for line in lines if line]


def decimal_commas(cells):
    """Whether numbers are written with them for certain: 0,05, and not 1,000."""
    return any(DECIMAL_COMMA.fullmatch(cell) and not MAY_BE_THOUSANDS.fullmatch(cell) for cell in cells)


def with_points(place, cell, certain):
    """A cell of a table with semicolons, as YAML; `certain`: decimal_commas() of the table."""
    if MAY_BE_THOUSANDS.fullmatch(cell) and ("." in cell) == certain:  # 1.000 beside 0,05; 1,000 beside no such
        raise ValueError(f"{place} holds {cell} (what stands between its digits may be decimal, or part thousands) write "
                         "for example 1000, or 1.0")
    if DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(",", ".")
    if "." not in cell and re.search(r"\d,\d", cell):
        raise ValueError(f"{place} holds {cell} (a comma between digits may be decimal, or part a list) write decimal "
                         "points, and a blank behind commas that part")
    return cell


def read_table(path, note=lambda text: None):
    """Rows as dicts of key -> value; the message of what is wrong as ValueError. note() is told what was left out."""
    way, lines = cells_of(path)
    keys = lines[0] if lines else []
    width = len(keys)
    while width and not keys[width - 1]:  # a spreadsheet's empty columns
        width -= 1
    keys = keys[:width]
    for i, key in enumerate(keys):
        if not KEY.fullmatch(key):
            raise ValueError(f"{path}: {ascii(key)} heads column {i + 1} (a column is headed by a key of the job file) "
                             "write for example solver.iterations")
        if key in keys[:i]:
            raise ValueError(f"{path}: {key} heads two columns (only one could count) remove one")
        if key in ("output.folder", "relative_to"):
            raise ValueError(f"{path}: {key} is a column (a sweep names its folders itself) remove it")
    certain = decimal_commas(cell for line in lines[1:] for cell in line)
    rows = []
    for number, line in enumerate(lines[1:], 1):
        place = f"{path}: row {len(rows)}"
        if not any(line):
            note(f"{path}: line {number} below the first holds no value and is left out")
            continue
        if any(line[width:]) or len(line) < width:
            why = ("write decimal points, and put values with commas into double quotes" if len(line) > width
                   else f"add what is missing: an empty cell is nothing between two {way!r}")
            raise ValueError(f"{place} has {len(line)} cells (the first line has {width}) {why}")
        rows.append({key: with_points(place, cell, certain) if way == ";" else cell
                     for key, cell in zip(keys, line) if cell})
    if not rows:
        raise ValueError(f"{path} has no rows (its first line names the keys) add a line for each run")
    return rows


def row(path, index):
    rows = read_table(path)
    if not 0 <= index < len(rows):
        raise ValueError(f"{path} has no row {index} (its rows are 0 to {len(rows) - 1}) "
                         f"submit with --array=0-{len(rows) - 1}")
    return rows[index]


def scalars(line):
    """What may be a value on a line of YAML: all behind its key, quoted words, and the parts of lists and maps."""
    for single, double in re.findall(r"""'((?:[^']|'')+)'|"((?:[^"\\]|\\.)+)\"""", line):
        yield single.replace("''", "'") or re.sub(r"\\(.)", r"\1", double)
    plain = re.sub(r"(^|\s)#.*", "", line)
    yield re.sub(r"^[\s-]*[\w.]+\s*[:=]\s*", "", plain).strip()
    yield from (part.strip() for part in re.split(r"[\[\]{},]|:\s|^\s*-\s", plain))


def state(folder, name):
    """Size and time of change of a file as a job names it; None where there is none. `folder`, `name`: bytes."""
    for path in (name, os.path.expandvars(os.path.expanduser(name)), WEIGHTS + b"/%s.safetensors" % name):
        try:
            status = os.stat(os.path.join(folder, path))
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(status.st_mode):
            return b"%d %d" % (status.st_size, status.st_mtime_ns)
    return None


def inputs(job, table, words):
    """The folder of the job, and a line with size, time of change and name for each file that these name."""
    lines = Path(job).read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    lines += [os.fsencode(word).decode(errors="surrogateescape") for word in words]
    lines += [value for row in (read_table(table) if table else []) for value in row.values()]
    names = {name.rpartition(":/")[0] or name for line in lines for name in scalars(line)}  # of an HDF5 file's dataset
    folder = os.path.dirname(os.path.abspath(os.fsencode(job)))
    found = [folder + b"\n"]
    for name in sorted(name.encode(errors="surrogateescape") for name in names):
        if name and (known := state(folder, name)):
            found.append(b"%s %s\n" % (known, name))
    return b"".join(found)


def changed(path):
    """The names of the files of inputs() that are not what they were."""
    folder, *lines = Path(path).read_bytes().splitlines()
    names = []
    for line in lines:
        size, when, name = line.split(b" ", 2)
        if state(folder, name) != size + b" " + when:
            names.append(name)
    return b", ".join(names)


def finished(folder, index):
    """Whether the task's record says that it ended well, and its result is there."""
    try:
        record = json.loads((folder / f"{index}.json").read_text(encoding="utf-8"))
        return record["exit_code"] == 0 and (folder / str(index) / "summary.json").exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def left(path, folder):
    """The rows that are to be computed as sbatch takes them: 0-3,7; empty where none is."""
    runs = []
    for index in range(len(read_table(path))):
        if finished(folder, index):
            continue
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def record(path, code, begin, ranks, settings):
    run = Path(path).with_suffix("")
    text = json.dumps({"schema": 1, "study": "sweep", "folder": run.name,
                       "settings": dict(setting.split("=", 1) for setting in settings),
                       "ranks": ranks, "exit_code": code, "wall_seconds": round(time.time() - begin, 3)}, indent=1)
    temporary = Path(f"{path}.tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(path)


def main():
    try:
        match sys.argv[1:]:
            case ["count", table]:
                print(len(read_table(table, lambda text: print(f"note: {text}", file=sys.stderr))))
            case ["row", table, index]:
                for key, value in row(table, int(index)).items():
                    sys.stdout.buffer.write(f"{key}={value}\0".encode())
            case ["inputs", job, table, *words]:
                sys.stdout.buffer.write(inputs(job, table, words))
            case ["changed", path]:
                sys.stdout.buffer.write(changed(path))
            case ["left", table, folder]:
                print(left(table, Path(folder)))
            case ["finished", folder, index]:
                return 0 if finished(Path(folder), int(index)) else 1
            case ["record", path, code, begin, ranks, *settings]:
                record(path, int(code), float(begin), int(ranks), settings)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
