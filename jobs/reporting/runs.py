# SPDX-License-Identifier: BSD-3-Clause
"""What a run folder tells: the job, how it went, and its traces summed up by rank, phase and iteration."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import yaml

from . import InputError
from .hardware import hardware_of
from .traces import earlier_traces, read_rank, trace_files

# In the order in which they are stacked. "between": time of an iteration that no phase covers.
PHASES = [
    "denoise",
    "prox",
    "operator",
    "adjoint",
    "halo",
    "reduce",
    "metrics",
    "scratch",
    "checkpoint",
    "write",
    "load",
    "other",
    "between",
]
SUMS = ["own_seconds", "wait_seconds", "flight_seconds", "bytes_sent", "messages", "bytes_read", "bytes_written"]
COLUMNS = 500  # of the map rank x iteration, and points of a curve per iteration and phase
DONE = {"converged": "converged", "limit": "finished"}


@dataclasses.dataclass
class Run:
    """One run. Arrays over ranks have an entry for each rank whose trace could be read (`ranks`)."""

    folder: Path
    name: str = ""
    status: str = "unknown"
    problems: list = dataclasses.field(default_factory=list)  # what is missing, and why: sentences
    summary: dict = dataclasses.field(default_factory=dict)
    job: dict = dataclasses.field(default_factory=dict)  # flat: {"solver.name": "pgd", ...}
    job_text: str = ""
    log_tail: str = ""
    state: dict = dataclasses.field(default_factory=dict)  # status.json: state, message
    record: dict = dataclasses.field(default_factory=dict)  # what a study or sweep noted: exit_code, error, ranks
    words: dict = dataclasses.field(default_factory=dict)  # rank -> its last words
    attributes: list = dataclasses.field(default_factory=list)  # per rank
    ranks: list = dataclasses.field(default_factory=list)
    # By iteration, of the lowest rank: iteration, elapsed (s, starts added up), seconds, objective, chi2, ...
    curve: dict = dataclasses.field(default_factory=dict)
    restarts: list = dataclasses.field(default_factory=list)  # index into curve of the first row after each
    # The same with the traces of earlier starts on other blocks, of which only this is read.
    whole: dict = dataclasses.field(default_factory=dict)
    whole_restarts: list = dataclasses.field(default_factory=list)
    restart_count: int = 0  # also those of which there are no rows
    steady: int = 0  # iterations that averages count: without the first after a start, where there are more
    sums: dict = dataclasses.field(default_factory=dict)  # name of SUMS -> (phase, rank), over the steady iterations
    busy: np.ndarray | None = None  # (rank, column): s per iteration not spent waiting
    by_iteration: np.ndarray | None = None  # (phase, column): s, mean over ranks
    columns: np.ndarray | None = None  # iteration at the start of each column
    peak: np.ndarray | None = None  # (phase, rank) bytes, highest during the run
    resident: np.ndarray | None = None  # (rank) bytes, highest at the end of a phase
    wait_share: float = math.nan  # exposed_wait_fraction, from the traces: what was waited for in iterations, of their time
    memory_curve: np.ndarray | None = None  # (column) bytes, highest over ranks
    total_seconds: float = math.nan  # from program start to the last row, starts added up, slowest rank
    startup_seconds: float = math.nan  # until the first iteration, of the first start
    io_seconds: float = math.nan  # load and write, slowest rank
    lost_seconds: float = 0.0  # iterations that a restart did again
    trace_share: float = math.nan  # of the rank that spent most on its trace

    @property
    def rank_count(self):
        for source in (
            self.summary.get("ranks"),
            self.attributes and self.attributes[0].get("ranks"),
            self.record.get("ranks"),
        ):
            if source:
                return int(source)
        return len(self.ranks)

    def shape(self):
        """(channels, rows, columns) of the image, as far as known."""
        boxes = [np.asarray(a["own_box"]) for a in self.attributes if "own_box" in a]
        size = np.max([box[1] for box in boxes], axis=0) if boxes and len(boxes) == self.rank_count else None
        return None if size is None else (int(size[1]), int(size[2]))

    def seconds_per_iteration(self):
        """Median, and the 10th and 90th percentile, over the steady iterations."""
        seconds = self.curve.get("seconds")
        if seconds is None or len(seconds) == 0:
            return math.nan, math.nan, math.nan
        steady = np.delete(seconds, [0, *self.restarts]) if len(seconds) > 1 + len(self.restarts) else seconds
        return tuple(float(np.percentile(steady, q)) for q in (50, 10, 90))

    def phase_seconds(self):
        """{phase: own seconds per iteration, mean over ranks}, without those that took none."""
        if "own_seconds" not in self.sums:
            return {}
        mean = self.sums["own_seconds"].mean(axis=1) / max(self.steady, 1)
        return {name: float(value) for name, value in zip(PHASES, mean) if value > 0}

    def imbalance(self):
        """Busy time of the slowest rank over the mean, less 1."""
        if "own_seconds" not in self.sums:
            return math.nan
        busy = (self.sums["own_seconds"] - self.sums["wait_seconds"]).sum(axis=0)
        return float(busy.max() / busy.mean() - 1) if busy.mean() > 0 else math.nan

    def exposed_fraction(self):
        given = self.summary.get("exposed_wait_fraction")
        if given is not None:
            return float(given)
        return self.wait_share

    def hardware(self):
        found = hardware_of(self.attributes)
        return found if found.threads else dataclasses.replace(found, units=self.rank_count)

    def tracked_bytes(self):
        """Highest of all ranks, all phases: the traces know what came after the iterations, summary.json does not."""
        of_phases = [] if self.peak is None else [float(self.peak.max(initial=0))]
        return max(of_phases + [float(b) for b in self.summary.get("peak_bytes_per_rank") or []], default=0) or math.nan

    def resident_bytes(self):
        return float(self.resident.max(initial=0)) or math.nan if self.resident is not None else math.nan

    def knows_noise(self):
        """Whether chi2 is in units of the noise variance."""
        level = self.summary.get("noise")
        if level is None and isinstance(self.summary.get("diagnostics"), dict):
            level = self.summary["diagnostics"].get("noise_sigma")
        return isinstance(level, (int, float)) and level > 0

    def number(self, key):
        value = self.summary.get(key)
        return float(value) if isinstance(value, (int, float)) else math.nan


def flatten(tree, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    out = {}
    for key, value in tree.items():
        out |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return out


def is_run(folder):
    # A run's own, and what jobs/submit.sh keeps: copies of jobs.
    if folder.name == "checkpoint" or "submitted" in (folder.name, folder.parent.name):
        return False
    return any((folder / name).exists() for name in ("summary.json", "resolved.yaml", "job.yaml", "trace", "trace.h5"))


def read_record(path):
    """What a study or a sweep noted about a run (docs/slurm.md), or nothing where the file is something else."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and "folder" in record and "exit_code" in record else {}


def runs_inside(path):
    """{folder of a run: its record} of the runs and records in a folder, two levels down at most."""
    found = {}
    for level in ("*", "*/*"):
        for item in sorted(path.glob(level)):
            if item.suffix == ".json" and item.name != "summary.json":
                if record := read_record(item):
                    found[(item.parent / record["folder"]).resolve()] = record
            elif item.is_dir() and is_run(item):
                found.setdefault(item.resolve(), {})
    return dict(sorted(found.items()))


def find_runs(paths, allow_missing=False):
    """{folder: record} of the runs that `paths` name: run folders, records, or folders that hold such."""
    found = {}
    for path in map(Path, paths):
        if not path.exists():
            if not allow_missing:
                raise InputError(
                    f"{path} does not exist (it should be the output folder of a run) name a folder, "
                    "or add --allow-missing to count it as a failed run"
                )
            found[path.resolve()] = {}
        elif path.is_dir() and is_run(path):
            found[path.resolve()] = read_record(path.with_name(path.name + ".json"))
        elif path.is_dir() and (inside := runs_inside(path)):
            found |= inside
        elif record := read_record(path):
            found[(path.parent / record["folder"]).resolve()] = record
        else:
            raise InputError(
                f"{path} is no run (it has no summary.json, job.yaml or trace, and no folder with one) "
                "name the output folder of 'tessera run', or of a study"
            )
    return found


def name_runs(runs):
    """As short as tells them apart: the folder's name, with its parent's where names repeat."""
    for depth in range(1, 8):
        names = ["/".join(run.folder.parts[-depth:]) for run in runs]
        if len(set(names)) == len(names):
            break
    for run, name in zip(runs, names):
        run.name = name


def repeats(runs):
    """[[a run and its repeats]]: the same job, to the same end, on as many ranks and threads of as many hosts."""
    groups = {}
    for run in runs:
        job = {k: v for k, v in run.job.items() if not k.startswith("output.")}
        here = run.hardware()
        key = [job, run.rank_count, here.threads, here.hosts, run.status, run.shape(), len(run.whole.get("iteration", []))]
        alone = [str(run.folder)] if not job or not run.ranks else []
        groups.setdefault(json.dumps(key + alone, sort_keys=True, default=str), []).append(run)
    return list(groups.values())


def read_run(folder, record=None):
    run = Run(folder, record=record or {})
    if folder.exists():
        read_texts(run)
        read_traces(run)
        decide_status(run)
    else:
        run.status = "missing"
        run.problems.append(f"The folder {folder} does not exist: the run never began, or it is elsewhere.")
    if run.record.get("exit_code"):
        run.status = "failed"
        run.problems.append(
            f"It ended with exit code {run.record['exit_code']}: {run.record.get('error') or 'no message'}"
        )
    return run


def read_texts(run):
    try:
        run.summary = json.loads((run.folder / "summary.json").read_text())
        if not isinstance(run.summary, dict):
            raise ValueError("it holds no object")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        run.summary = {}
        run.problems.append(f"summary.json cannot be read ({error}); its figures are missing.")
    for name in ("resolved.yaml", "job.yaml"):
        try:
            run.job_text = (run.folder / name).read_text(errors="replace")  # names of files may be no UTF-8
        except OSError:
            continue
        break
    try:
        state = json.loads((run.folder / "status.json").read_text())
        run.state = state if isinstance(state, dict) else {}
    except (OSError, ValueError):
        pass  # an older run has none
    log = run.folder / "log.txt"
    if log.exists():
        run.log_tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    for path in sorted((run.folder / "log").glob("rank-*.txt")):
        run.words[path.stem.removeprefix("rank-")] = path.read_text(errors="replace").strip()[-1500:]


def read_traces(run):
    files = trace_files(run.folder)
    if not files:
        run.problems.append("There is no trace (trace/rank-*.h5): no times per phase, no curves, no memory.")
    traces = []
    for rank, path in files.items():
        try:
            attributes, attempts = read_rank(path)
        except (OSError, KeyError, ValueError) as error:
            run.problems.append(f"The trace of rank {rank} cannot be read ({str(error)[:120]}); the rank is left out.")
            continue
        if run.attributes and attributes.get("ranks") != run.attributes[0].get("ranks"):
            continue  # left by a start on more ranks
        run.ranks.append(rank)
        run.attributes.append(attributes)
        traces.append(attempts)
    if run.attributes and not run.job_text:
        run.job_text = str(run.attributes[0].get("job", ""))
    try:
        run.job = flatten(yaml.safe_load(run.job_text) or {}) if run.job_text else {}
    except yaml.YAMLError:
        run.problems.append("resolved.yaml is not YAML any more; the job's keys are missing.")
    if traces:
        sum_up(run, traces)
        expected = run.rank_count
        if len(run.ranks) < expected:
            run.problems.append(
                f"Traces of {expected - len(run.ranks)} of {expected} ranks are missing; " "means are over the others."
            )


def decide_status(run):
    traced = str(run.attributes[0].get("status", "")) if run.attributes else ""
    written = run.summary.get("status")
    state, message = run.state.get("state"), run.state.get("message")
    known = f" Its status.json says '{state}'{': ' + str(message) if message else ''}." if state else ""
    if traced == "running":
        run.status = "no end"
        last = run.curve["iteration"].max() if run.curve else None
        reached = "before its first iteration" if last is None else f"after iteration {int(last)}"
        run.problems.append(
            f"The run has no end: it was killed, or is still running ({reached}).{known}"
            + (" summary.json and the result are of an earlier end." if written else "")
        )
    elif written:
        run.status = written
    elif traced and state == "waiting":
        run.status = "waiting"
        run.problems.append("The run wrote a checkpoint and waits to be started again.")
    elif traced:
        run.status = traced
        run.problems.append(f"There is no summary.json: the run ended, but did not come to write its results.{known}")
    elif not run.ranks:
        run.status = "failed"
        run.problems.append(f"Nothing says how the run ended: it failed before its first iteration.{known}")


def curve_of(attempts):
    """Columns of all iterations, and at which rows a new attempt begins."""
    rows = [attempt.iterations for attempt in attempts]
    curve = {name: np.concatenate([r[name] for r in rows]).astype(float) for name in rows[0].dtype.names}
    curve["elapsed"] = np.concatenate([a.iterations["start"] + a.iterations["seconds"] + a.offset for a in attempts])
    firsts = np.cumsum([len(r) for r in rows])[:-1]
    return curve, sorted({int(i) for i in firsts if 0 < i < len(curve["iteration"])})


def with_earlier(run):
    """The curve, after those of earlier traces, up to where the next one begins."""
    whole, restarts = run.curve, list(run.restarts)
    for name in reversed(earlier_traces(run.folder)):
        files = trace_files(run.folder, name)
        try:
            curve, more = curve_of(read_rank(files[min(files)])[1])
        except (OSError, KeyError, ValueError) as error:
            run.problems.append(f"{name} cannot be read ({str(error)[:120]}); the curves begin after it.")
            break
        kept = curve["iteration"] < whole["iteration"][0]
        count = int(kept.sum())
        whole = {key: np.concatenate([curve[key][kept], whole[key]]) for key in whole}
        restarts = sorted({r for r in more if r < count} | {r + count for r in [0, *restarts]} - {0})
    return whole, restarts


def sum_up(run, traces):
    lead = traces[0]
    rows = [attempt.iterations for attempt in lead]
    if sum(map(len, rows)):
        run.curve, run.restarts = curve_of(lead)
        for at in run.restarts:
            again = run.curve["iteration"][:at] >= run.curve["iteration"][at]
            run.lost_seconds += float(run.curve["seconds"][:at][again].sum())
        run.whole, run.whole_restarts = with_earlier(run)
        run.startup_seconds = float((run.whole["elapsed"] - run.whole["seconds"])[0])
        if run.whole["iteration"][0] > 0:
            run.problems.append(
                f"The trace begins at iteration {int(run.whole['iteration'][0])}: the run went on from a "
                "checkpoint, and what was before is not there."
            )
        if len(run.whole["iteration"]) > len(run.curve["iteration"]):
            run.problems.append(
                f"Iterations before {int(run.curve['iteration'][0])} ran on other ranks or blocks: times, "
                "communication and memory are of those since; curves are of all."
            )
    count = len(run.curve.get("iteration", []))
    run.restart_count = max([len(run.whole_restarts), *(int(a.get("restarts", 0)) for a in run.attributes)])
    run.total_seconds = max(attempts[-1].end() for attempts in traces)
    begin = (
        float(lead[0].phases["start"].min())
        if len(run.whole.get("iteration", [])) > count and len(lead[0].phases)
        else 0.0
    )
    shares = [
        float(a.get("trace_seconds", math.nan)) / max(attempts[-1].end() - begin, 1e-9)
        for a, attempts in zip(run.attributes, traces)
    ]
    run.trace_share = max(shares, default=math.nan)

    columns = max(1, min(COLUMNS, count))
    run.columns = run.curve["iteration"][np.arange(columns) * count // columns] if count else np.zeros(1)
    shape = (len(PHASES), len(traces))
    run.sums = {name: np.zeros(shape) for name in SUMS}
    run.peak, run.resident = np.zeros(shape), np.zeros(len(traces))
    run.busy, run.by_iteration = np.zeros((len(traces), columns)), np.zeros((len(PHASES), columns))
    run.memory_curve = np.zeros(columns)
    every = np.zeros(columns)  # iterations in each column
    np.add.at(every, np.arange(count) * columns // max(count, 1), 1)
    run.io_seconds = 0.0
    recorded = (
        run.curve["iteration"] % max(int(run.attributes[0].get("every", 1)), 1) == 0 if count else np.zeros(0, bool)
    )
    warm = np.isin(np.arange(count), [0, *run.restarts])
    counts = recorded & ~warm if (recorded & ~warm).any() else recorded
    run.steady = int(counts.sum())
    for r, attempts in enumerate(traces):
        io, done = 0.0, 0
        for attempt in attempts:
            io += add_attempt(run, r, attempt, done, counts, columns)
            done += len(attempt.iterations)
        run.io_seconds = max(run.io_seconds, io)
    time = sum(float(a.iterations["seconds"].sum()) for attempts in traces for a in attempts)
    wait = sum(float(a.phases["wait_seconds"][a.phases["iteration"] >= 0].sum()) for attempts in traces for a in attempts)
    run.wait_share = wait / time if time > 0 else math.nan
    run.busy /= np.maximum(every, 1)
    run.by_iteration /= np.maximum(every, 1) * len(traces)
    if count <= 1 + len(run.restarts) and count:
        run.problems.append("There is one iteration only: it warms up too, so its time says little about the others.")


def add_attempt(run, r, attempt, done, counts, columns):
    """Adds an attempt's phases, the first of whose iterations is row `done` of the curve. Returns seconds of I/O.

    counts: by row of the curve, whether averages count it; the iterations of which there are no phases are not.
    """
    count = len(counts)
    p, i = attempt.phases, attempt.iterations
    known = np.array(
        [
            PHASES.index(attempt.names.get(c, "other")) if attempt.names.get(c) in PHASES else PHASES.index("other")
            for c in range(max(attempt.names, default=0) + 1)
        ]
    )
    kind = known[p["phase"]] if len(p) else np.zeros(0, int)
    np.maximum.at(run.peak[:, r], kind, p["peak_bytes"])
    if len(p):
        run.resident[r] = max(run.resident[r], p["resident_bytes"].max())
    own, wait = p["own_seconds"], p["wait_seconds"]
    io = float(own[(kind == PHASES.index("load")) | (kind == PHASES.index("write"))].sum())
    if not len(i) or not count:
        return io
    # Rows of the iterations table and of the phases table meet in the iteration's number.
    row = np.searchsorted(i["iteration"], p["iteration"])
    inside = (p["iteration"] >= 0) & (row < len(i))
    inside[inside] = i["iteration"][row[inside]] == p["iteration"][inside]
    kind, row, own, wait = kind[inside], row[inside], own[inside], wait[inside]
    column = np.minimum((done + row) * columns // count, columns - 1)
    counts = np.pad(counts[done : done + len(i)], (0, max(done + len(i) - count, 0)))  # a rank may be a few rows ahead
    rest = np.maximum(i["seconds"] - np.bincount(row, own, len(i)), 0) * (np.bincount(row, minlength=len(i)) > 0)
    rest_column = np.minimum((done + np.arange(len(i))) * columns // count, columns - 1)
    between = PHASES.index("between")

    flat = np.bincount(kind * columns + column, own, len(PHASES) * columns).reshape(len(PHASES), columns)
    flat[between] += np.bincount(rest_column, rest, columns)
    run.by_iteration += flat
    run.busy[r] += flat.sum(axis=0) - np.bincount(column, wait, columns)
    np.maximum.at(run.memory_curve, column, p["peak_bytes"][inside].astype(float))

    steady = counts[row]
    for name in SUMS:
        run.sums[name][:, r] += np.bincount(kind[steady], attempt.column(name)[inside][steady], len(PHASES))
    run.sums["own_seconds"][between, r] += rest[counts].sum()
    return io
