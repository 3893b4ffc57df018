# SPDX-License-Identifier: BSD-3-Clause
"""What the tests share: a clone to submit from, submitting, waiting, a pretended Slurm, and the pieces of a run's result."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cluster import children_of, wait_until
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from programs import sanitized  # noqa: E402

LONG = 300  # seconds that a step may take on a machine with other work, or with sanitizers
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}

# Small, with real ranks, real messages and a real network, and long enough (3 s on two fast cores) to be interrupted.
ITERATIONS = 60 if any(sanitized(word) for word in sys.argv[1:] if Path(word).name == "tessera") else 400
JOB = f"""\
schema: 1
problem:
  truth: photo.png
  operator: {{type: blur, kernel: {{gaussian: {{sigma: 1.6}}}}, boundary: circular}}
  noise: {{gaussian: 0.02}}
denoiser: {{network: drunet, weights: drunet_small_color, mode: patch}}
solver: {{name: pgd, iterations: {ITERATIONS}, stop: {{rounding: false}}, sigma: 0.05}}
output: {{folder: out, preview: none, checkpoint: {{minutes: 0, iterations: 5}}}}
"""


def make_clone(folder, source, program):
    """A tree as a user has it: scripts and documents of ours, the program of this build, nothing of the real runs."""
    for part in ("jobs", "docs", "data"):
        shutil.copytree(source / part, folder / part)
    (folder / "build/release/bin").mkdir(parents=True)
    (folder / "build/release/bin/tessera").symlink_to(program)
    if (source / ".venv").exists():
        (folder / ".venv").symlink_to((source / ".venv").resolve())


class Bench:
    """One scenario's folder, with a clone in it, on a cluster."""

    def __init__(self, cluster, folder, source, program):
        self.cluster, self.source, self.program = cluster, Path(source), program
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.clone = self.folder / "clone"
        make_clone(self.clone, self.source, program)
        import pictures  # scikit-image may be missing, which scenarios say
        pictures.imsave(self.folder / "photo.png", pictures.photograph("astronaut.png")[60:156, 150:278])

    def job(self, name="job", text=JOB, **changes):
        """A job file; changes replace text."""
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        path = self.folder / f"{name}.yaml"
        path.write_text(text.replace("folder: out", f"folder: {name}.out"))
        return path

    def shell(self, *command, expect=0, **environment):
        """Runs a command in the clone as a user of the cluster would; its standard output."""
        everything = os.environ | {"OMP_NUM_THREADS": "1"} | self.cluster.environment | environment
        done = subprocess.run([str(c) for c in command], cwd=self.clone, text=True, capture_output=True, env=everything,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == expect, (f"{' '.join(map(str, command))}\nexit code {done.returncode}, wanted {expect}\n"
                                           f"{done.stdout}\n{done.stderr}")
        return done.stdout if expect == 0 else done.stdout + done.stderr

    def submit(self, *arguments, time=20):
        """Number of the job that jobs/submit.sh submitted."""
        return self.number(self.shell("jobs/submit.sh", *arguments, "--time", time))

    @staticmethod
    def number(said):
        return re.search(r"Submitted batch job (\d+)", said).group(1)

    def processes(self, variable):
        """Pids of this cluster's processes with NAME=VALUE in their environment."""
        return children_of(self.cluster.marker, variable.encode() + b"\0")

    # --- what Slurm says ----------------------------------------------------------------------------------------------
    def show(self, job):
        """Fields of a job, or of one task of an array (`12_3`)."""
        line = self.cluster.ask("scontrol", "show", "job", "-o", job).splitlines()
        return dict(re.findall(r"(\w+)=(\S+)", line[0])) if line else {}

    def wait_for_state(self, job, *states):
        def there():
            shown = self.show(job)
            assert shown.get("JobState") in states or shown.get("JobState") not in ENDED, (states, shown, self.log(job))
            return shown if shown.get("JobState") in states else None
        try:
            return wait_until(f"job {job} to be {' or '.join(states)}", LONG, there)
        except TimeoutError as late:
            raise AssertionError(f"{late}\n{self.show(job)}\n{self.log(job)}") from late

    def finished(self, job, code="0:0", state="COMPLETED"):
        shown = self.wait_for_state(job, state)
        assert shown["ExitCode"] == code, (shown, self.log(job))
        return shown

    def log(self, job):
        """What the job wrote so far, over all of its restarts."""
        path = Path(self.show(job).get("StdOut", "/none"))
        return path.read_text(errors="replace") if path.exists() else ""

    # --- what the run says ---------------------------------------------------------------------------------------------
    def under_way(self, output, job, start=1):
        """The job, once its run iterates, for the `start`-th time: its log has the line that comes just before."""
        self.wait_for(job, f"start {start} of {output}",
                      lambda: (Path(output) / "log.txt").read_text().count("PSNR of the start") >= start)
        return job

    def checkpointed(self, output, job):
        """The job, once its run has written a checkpoint."""
        self.wait_for(job, f"a checkpoint in {output}", lambda: any((Path(output) / "checkpoint").glob("*.h5")))
        return job

    def wait_for(self, job, what, question):
        def there():
            # First, what Slurm says: a job that ended in between left everything behind.
            shown = self.show(job)
            assert shown.get("JobState") not in ENDED, f"ended before {what}: {shown}\n{self.log(job)}"
            try:
                return question()
            except FileNotFoundError:
                return False
        wait_until(what, LONG, there, pause=0.03)


class NoCluster:
    environment = {}


def alone(name):
    """The bench of a test PROGRAM SOURCE without a cluster; ends with 77 where the jobs' picture cannot be made."""
    try:
        import skimage  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing} (jobs/setup.sh puts it into .venv)")
        sys.exit(77)
    return Bench(NoCluster(), Path.cwd() / name, sys.argv[2], sys.argv[1])


def pretend(folder, **programs):
    """PATH with programs, NAME=TEXT of bash, in front of all others."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def image(folder):
    import h5py
    with h5py.File(Path(folder) / "reconstruction.h5") as file:
        return file["image"][...]


def summary(folder):
    return json.loads((Path(folder) / "summary.json").read_text())


def distance(a, b):
    import numpy as np
    assert a.shape == b.shape, (a.shape, b.shape)
    return np.linalg.norm((a - b).ravel()) / np.linalg.norm(b.ravel())
