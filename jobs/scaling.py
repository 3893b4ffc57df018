#!/usr/bin/env -S -u PYTHONHOME python3
# SPDX-License-Identifier: BSD-3-Clause
"""A scaling study: runs one job on several rank counts, sizes, modes and transports, and collects the times.

    scaling.py strong JOB.yaml --ranks 1,2,4 --folder DIR [--sizes 2048x2048,4096x4096]
    scaling.py weak   JOB.yaml --ranks 1,2,4 --folder DIR --sizes 1024x1024

strong: the same image on more ranks; sizes are whole images, without sizes it is the job's own. weak: sizes are one rank's
share, the image grows with the ranks. An image of a given size is a synthetic scene, made by the ranks themselves.
Every rank has the same number of threads, by default what the cores give each of the most ranks; --threads share
compares ways to divide one machine instead, and the tables say so. Repeats are the outermost loop, so that a machine that
slows down shows as spread, not as scaling. A run that fails is recorded and the study goes on. An interrupted study
(SIGUSR1: exit code 85; SIGTERM: 86), started again with the same folder, makes the runs that are missing. Then the cost
model predicts the same runs (--no-plan leaves that out), on machine files that are measured where there are none.
Result, in DIR: scaling.csv, a row per run; points.csv, a row per number of ranks, repeats merged, measured beside
predicted; figures/ as SVG and PDF; plan.csv; records and logs of the runs.
Inside a Slurm job the ranks are started by srun, elsewhere by mpirun (jobs/launch.sh).
"""
import argparse
import csv
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    from own_python import need

    need("h5py", "matplotlib", "numpy", "PIL", "plotly", "yaml")

from collect import collect
from report import main as report
from reporting import in_utf8

ROOT = Path(__file__).resolve().parent.parent


def numbers(text):
    values = [int(part) for part in text.split(",")]
    if any(value < 1 for value in values):
        raise argparse.ArgumentTypeError(f"{text} (whole numbers from 1, separated by commas)")
    return values


def size(text):
    rows, columns = (int(part) for part in text.split("x"))
    return rows, columns


def sizes(text):
    return [size(part) for part in text.split(",")]


def words(text):
    return text.split(",")


def threads(text):
    if text != "share" and not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} (a whole number from 1, or share)")
    return text


def equal_threads(ranks, per_node):
    """Of each rank: what is said ($OMP_NUM_THREADS, Slurm), else the share of this computer's cores on the most ranks."""
    for said in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        if os.environ.get(said, "").isdigit():
            return int(os.environ[said])
    if "SLURM_JOB_ID" in os.environ:
        return 1
    return max(1, len(os.sched_getaffinity(0)) // min(max(ranks), per_node))


def grid(ranks):
    """The most square rows x columns of blocks, rows <= columns."""
    rows = max(r for r in range(1, int(ranks**0.5) + 1) if ranks % r == 0)
    return rows, ranks // rows


def plan(arguments):
    """All runs, in order, as (name, settings of the job, what the table shows)."""
    runs = []
    combinations = itertools.product(range(arguments.repeats), arguments.sizes or [None], arguments.modes,
                                     arguments.transports, arguments.ranks)
    for repeat, extent, mode, transport, ranks in combinations:
        settings, shown, name = [], {"repeat": repeat, "ranks": ranks}, []
        if extent:
            if arguments.study == "weak":
                extent = tuple(e * g for e, g in zip(extent, grid(ranks)))
            settings.append(f"problem.truth={{scene: {{seed: {arguments.seed}, size: [{extent[0]}, {extent[1]}]}}}}")
            shown |= {"rows": extent[0], "columns": extent[1]}
            name.append("%dx%d" % extent)
        for key, value, short in (("denoiser.mode", mode, "mode"), ("domain.transport", transport, "transport")):
            if value != "auto":
                settings.append(f"{key}={value}")
                name.append(value)
            shown[short] = value
        if arguments.iterations:
            settings.append(f"solver.iterations={arguments.iterations}")
        settings.append("solver.stop.rounding=false")  # every run of as many iterations
        runs.append(("-".join([*name, f"ranks{ranks}", f"run{repeat}"]), settings, shown))
    return runs


def layout(ranks, per_node):
    """Options of the launcher that fill one node after the other; an allocation is otherwise spread out."""
    if "SLURM_JOB_ID" not in os.environ:
        return ""
    here = min(ranks, per_node)
    if os.environ.get("TESSERA_LAUNCHER", "srun") == "mpirun":
        return f"--map-by ppr:{here}:node"
    return f"--nodes={-(-ranks // per_node)} --ntasks-per-node={here}"


def sets(settings):
    return list(itertools.chain.from_iterable(("--set", setting) for setting in settings))


def last_words(log):
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "".join(([line for line in lines if line.startswith("tessera:")] or lines[-1:])[:1])[:500]


class Interrupted(Exception):
    """Slurm wants this job to end; carries the exit code that says how."""


class Study:
    def __init__(self, arguments):
        self.arguments = arguments
        self.threads = None  # of each rank; None: every launch divides the cores
        if arguments.threads != "share":
            self.threads = int(arguments.threads or equal_threads(arguments.ranks, arguments.ranks_per_node))
        self.folder = Path(arguments.folder).resolve()
        self.child = None
        self.code = 0  # that a signal asked for
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, lambda *_, code=85 if number == signal.SIGUSR1 else 86: self.interrupt(code))

    def interrupt(self, code):
        self.code = self.code or code
        if self.child:
            self.child.terminate()

    def environment(self, ranks):
        options = os.environ.get("TESSERA_LAUNCHER_OPTIONS", "") + " " + layout(ranks, self.arguments.ranks_per_node)
        given = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS" or self.threads}
        return given | {"TESSERA_LAUNCHER_OPTIONS": options.strip()} | (
            {"OMP_NUM_THREADS": str(self.threads)} if self.threads else {})

    def launched(self, ranks, *command):
        """The program with this command on so many ranks."""
        return [str(ROOT / "jobs/launch.sh"), "-n", str(ranks), str(ROOT / "jobs/bind.sh"),
                *self.arguments.container.split(), self.arguments.program, *command]

    def wait(self, command, ranks, log):
        """Exit code of a child that a signal to this process ends too; 124: it was given up."""
        with open(log, "w") as out:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                          env=self.environment(ranks), cwd=ROOT)
            if self.code:
                self.child.terminate()
            try:
                code = self.child.wait(self.arguments.limit)
            except subprocess.TimeoutExpired:
                self.child.terminate()
                self.child.wait()
                code = 124
            self.child = None
        # What Slurm's signal ended is no measurement: without a record it is made again.
        if self.code or code in (85, 86):
            raise Interrupted(self.code or code)
        return code

    def run(self, name, settings, shown):
        """One run; its record is written last, so that only a run that ended has one."""
        record = self.folder / f"{name}.json"
        if record.exists():
            return json.loads(record.read_text())
        output = self.folder / name
        shutil.rmtree(output, ignore_errors=True)
        everything = [*self.arguments.set, *settings, f"output.folder={output}"]
        log = self.folder / f"{name}.log"
        begin = time.monotonic()
        code = self.wait(self.launched(shown["ranks"], "run", self.arguments.job, *sets(everything)), shown["ranks"], log)
        wall = time.monotonic() - begin
        result = {"schema": 1, "study": self.arguments.study, "folder": name, **shown,
                  "threads": self.threads or "share", "exit_code": code,
                  "wall_seconds": round(wall, 3)}
        if code:
            result["error"] = f"no end within {self.arguments.limit} s" if code == 124 else last_words(log)
        temporary = record.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        temporary.replace(record)
        return result

    def predict(self, runs):
        """Writes plan.csv, what the cost model says of these runs; else returns why there is none."""
        machines, rows = {}, []
        for name, settings, shown in runs:
            ranks, log, table = shown["ranks"], self.folder / "plan.log", self.folder / f".{name}.csv"
            if shown["repeat"]:
                continue
            # Conjugate gradients are counted as the run beside it took them.
            job = [self.arguments.job, *sets([*self.arguments.set, *settings, f"output.folder={self.folder / name}"])]
            if ranks not in machines:  # some ten seconds, in the launch that is predicted
                machines[ranks] = self.folder / f"machine-{ranks}.yaml"
                command = self.launched(ranks, "tune", *job, "--only-machine", "--machine", str(machines[ranks]))
                if not machines[ranks].exists() and self.wait(command, ranks, log):
                    return f"not predicted: {last_words(log)}"
            command = ["plan", *job, "--machine", str(machines[ranks]), "--ranks", str(ranks), "--csv", str(table)]
            if self.wait(self.launched(1, *command), 1, log):
                return f"not predicted: {last_words(log)}"
            with open(table, newline="") as file:
                rows += [row | {"table": self.arguments.study, "efficiency": "", "cores": self.cores(ranks)}
                         for row in csv.DictReader(file)]
            table.unlink()
        log.unlink()
        with open(self.folder / "plan.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        return ""

    def cores(self, ranks):
        """That so many ranks compute on, as far as this process knows."""
        here = len(os.sched_getaffinity(0))
        wanted = ranks * (self.threads or max(1, here // ranks))
        return wanted if "SLURM_JOB_ID" in os.environ else min(wanted, here)

    def show(self):
        """points.csv, figures/ and a table here."""
        points = self.folder / "points.csv"
        if report([str(self.folder), "--points", str(points), "--table", "--quiet"]) == 0 and len(
                points.read_text().splitlines()) > 1:
            report([str(self.folder), "--figures", str(self.folder / "figures")])

    def other_threads(self, runs):
        """What an earlier start of this study gave its ranks, where that is something else."""
        for name, _, _ in runs:
            if (record := self.folder / f"{name}.json").exists():
                was = json.loads(record.read_text()).get("threads", self.threads or "share")
                if was != (self.threads or "share"):
                    return was
        return None

    def other_job(self):
        """Whether the folder holds runs of another job or of other settings; a new one keeps what it is of."""
        given = {"job": hashlib.sha256(Path(self.arguments.job).read_bytes()).hexdigest(), "set": self.arguments.set,
                 "iterations": self.arguments.iterations, "seed": self.arguments.seed}
        kept = self.folder / "study.json"
        if kept.exists():
            return json.loads(kept.read_text()) != given
        kept.write_text(json.dumps(given, indent=1) + "\n")
        return False

    def go(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        runs = plan(self.arguments)
        if self.other_job():
            print(f"scaling: {self.folder} holds runs of another job, or with other --set, --iterations or --seed (they would "
                  "stand beside these) name another folder", file=sys.stderr)
            return 2
        if was := self.other_threads(runs):
            print(f"scaling: {self.folder} holds runs with --threads {was} (they would stand beside others of "
                  f"{self.threads or 'share'}) write --threads {was}, or name another folder", file=sys.stderr)
            return 2
        good = 0
        most = max(self.arguments.ranks)
        print(f"threads per rank: {self.threads}" if self.threads else "threads per rank: the cores divided by the ranks of "
              "each launch, so that ways to use the machine are compared, not more of it", flush=True)
        if self.threads and "SLURM_JOB_ID" not in os.environ and self.threads * most > len(os.sched_getaffinity(0)):
            print(f"note: {most} ranks share {len(os.sched_getaffinity(0))} cores; efficiency counts cores", flush=True)
        if "SLURM_JOB_ID" not in os.environ and (load := os.getloadavg()[0]) > os.cpu_count():
            print(f"warning: this machine is busy, its load is {load:.1f} on {os.cpu_count()} cores: times and efficiency are not what it can do",
                  flush=True)
        try:
            for number, (name, settings, shown) in enumerate(runs, 1):
                if self.code:
                    raise Interrupted(self.code)
                result = self.run(name, settings, shown)
                good += result["exit_code"] == 0
                said = result.get("error") or f"{result['wall_seconds']:.1f} s"
                print(f"{number}/{len(runs)} {name}: {said}", flush=True)
            if good and not self.arguments.no_plan:
                print("predicting the same runs ...", flush=True)
                if note := self.predict(runs):
                    print(note, flush=True)
        except Interrupted as interrupted:
            print(f"interrupted at run {number} of {len(runs)}; the same command goes on from there", flush=True)
            return interrupted.args[0]
        finally:
            if any(self.folder.glob("*.json")):
                collect([self.folder], self.folder / "scaling.csv", self.arguments.warmup)
        if good:
            self.show()
        print(f"{self.folder / 'scaling.csv'}: {len(runs)} runs, {len(runs) - good} failed")
        return 0 if good else 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["strong", "weak"])
    parser.add_argument("job", help="job file; its output folder is not used")
    parser.add_argument("--ranks", type=numbers, required=True, help="for example 1,2,4,8")
    parser.add_argument("--folder", required=True, help="results")
    parser.add_argument("--sizes", type=sizes, default=[], help="ROWSxCOLUMNS, several separated by commas")
    parser.add_argument("--modes", type=words, default=["auto"], help="of denoiser.mode, for example patch,layer")
    parser.add_argument("--transports", type=words, default=["auto"], help="of domain.transport")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind (3)")
    parser.add_argument("--threads", type=threads, help="of each rank: a number, or share: the cores over the ranks of each "
                        "launch (equal: $OMP_NUM_THREADS, Slurm's, or the cores over the most ranks)")
    parser.add_argument("--no-plan", action="store_true", help="measure only, predict nothing")
    parser.add_argument("--warmup", type=int, default=1, help="first iterations that are left out of the times (1)")
    parser.add_argument("--iterations", type=int, help="of each run (the job's)")
    parser.add_argument("--seed", type=int, default=1, help="of the scene (1)")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a run is given up (3600)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the job")
    parser.add_argument("--ranks-per-node", type=int, default=10**9, help="inside Slurm (all on one node)")
    parser.add_argument("--program", default=os.environ.get("TESSERA_PROGRAM", str(ROOT / "build/release/bin/tessera")))
    parser.add_argument("--container", default="", help="command in front of the program")
    arguments = parser.parse_args()
    if arguments.study == "weak" and not arguments.sizes:
        parser.error("a weak study grows the image with the ranks: --sizes says how much of it one rank has")
    if arguments.repeats < 1:
        parser.error("--repeats takes a whole number from 1")
    arguments.job = str(Path(arguments.job).resolve())
    return Study(arguments).go()


if __name__ == "__main__":
    in_utf8()
    sys.exit(main())
