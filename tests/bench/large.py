#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Images larger than memory: docs/large.md's tables. Measures; a quiet machine and a free disk are yours to bring.

  tests/bench/large.py PROGRAM                      16384 x 16384 color with 6 GiB against 4096 x 4096 in memory: an hour,
                                                    40 GB of disk
  tests/bench/large.py PROGRAM --side 2048 --memory "600 MiB" --group 0     two minutes
  tests/bench/large.py PROGRAM --blurs              the eight blurs, 1, 2 and 4 ranks, in memory and with 0.5 GiB
  tests/bench/large.py PROGRAM --volume 1024        gray 1024^3, half of its voxels masked, one iteration by planes

--group BYTES: runs under a memory limit of a control group (version 1 or 2, as root), the kernel's cache of files
included; by default memory and half a gigabyte. 0: none, so that memory that nobody uses is a cache."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

source = Path(__file__).resolve().parents[2]
JOB = """\
schema: 1
problem:
  truth: {{scene: {{size: [{side}, {side}], channels: 3}}}}
  operator: {{type: blur, kernel: {{gaussian: {{sigma: 1.6}}}}}}
  noise: {{gaussian: 0.02}}
denoiser: {{mode: patch, patch: 752}}
solver: {{iterations: {iterations}}}
output: {{folder: {folder}, preview: none, diagnostics: false, checkpoint: {{keep: 1}}}}
"""
VOLUME = """\
schema: 1
problem:
  truth: {truth}
  operator: {{type: mask, keep: 0.5}}
  noise: {{gaussian: 0.05}}
solver: {{iterations: 1}}
output: {{folder: {folder}, preview: none, diagnostics: false, checkpoint: {{keep: 0}}}}
"""


def beads(path, side):
    """Balls of a lattice, one gray in each period, as .npy of 8 bits: by slices, so that no memory is the limit."""
    axis = (np.arange(side) + 12) % 48 - 24
    ball = 196 - axis[:, None] ** 2 - axis ** 2  # above 0 inside
    shades = np.random.default_rng(7).integers(90, 250, (-(-side // 48) + 1,) * 3).astype(np.uint8)
    number = (np.arange(side) + 12) // 48
    volume = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(1, side, side, side))
    for z in range(side):
        volume[0, z] = np.where(ball > axis[z] ** 2, shades[number[z]][np.ix_(number, number)], 40)


class Group:
    """A control group with a limit of memory; without effect where `most` is 0."""

    def __init__(self, most):
        self.most = most
        if not most:
            return
        old = Path("/sys/fs/cgroup/memory")
        self.path = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"tessera-large-{os.getpid()}"
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")).write_text(str(most))
        self.tasks = self.path / ("tasks" if old.is_dir() else "cgroup.procs")

    def enter(self):
        if self.most:
            self.tasks.write_text(str(os.getpid()))

    def end(self):
        if self.most:
            self.path.rmdir()


def run(program, text, folder, *settings, ranks=1, group=0):
    job = Path(folder).with_suffix(".yaml")
    job.write_text(text)
    limit = Group(group)
    command = [program, "run", str(job), "--force", *(w for s in settings for w in ("--set", s))]
    if ranks > 1:
        command = [str(source / "jobs/launch.sh"), "-n", str(ranks), *command]
    done = subprocess.run(command, text=True, capture_output=True, preexec_fn=limit.enter)
    limit.end()
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr)
    return json.loads((Path(folder) / "summary.json").read_text())


def skip_in_memory(folder):
    """Where the folder lies in memory no scratch file may."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder or tempfile.gettempdir()], text=True, capture_output=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        print(f"skipped: {folder or tempfile.gettempdir()} is in memory, where no scratch file may be (--folder names another)")
        sys.exit(77)


def bytes_of(text):
    number, unit = re.fullmatch(r"([\d.]+) *([KMGT]i?)?B?", text).groups()
    powers = {None: 1, **{u: 1000 ** k for k, u in enumerate("KMGT", 1)}, **{u + "i": 1024 ** k for k, u in enumerate("KMGT", 1)}}
    return int(float(number) * powers[unit])


def line(name, s, pixels):
    disk = s.get("scratch", {})
    print(f"| {name} | {s['seconds_per_iteration']:.3g} s | {1e9 * s['seconds_per_iteration'] / pixels:.0f} ns | "
          f"{max(s['resident_peak_bytes_per_rank']) / 1e6:.0f} MB | {max(disk.get('bytes_per_rank', [0])) / 1e9:.2f} GB | "
          f"{disk.get('read_per_iteration', 0) / 1e9:.2f} GB | {disk.get('written_per_iteration', 0) / 1e9:.2f} GB |", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("program")
    a.add_argument("--side", type=int, default=16384)
    a.add_argument("--memory", default="6 GiB")
    a.add_argument("--iterations", type=int, default=2)
    a.add_argument("--group", type=bytes_of)
    a.add_argument("--folder", help="where files lie: the disk that is measured (a temporary one)")
    a.add_argument("--blurs", action="store_true")
    a.add_argument("--volume", type=int)
    o = a.parse_args()
    o.folder = o.folder and os.path.abspath(o.folder)
    skip_in_memory(o.folder)
    group = bytes_of(o.memory) + (1 << 29) if o.group is None else o.group
    print("| run | iteration | per pixel | resident | scratch file | read | written |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=o.folder) as work:
        folder = f"{work}/out"
        disk = (f"scratch_folder={work}",)
        if o.blurs:
            text = (source / "data/jobs/eight_blurs.yaml").read_text().replace("../../runs/eight_blurs", folder)
            for ranks in (1, 2, 4):
                line(f"eight blurs, {ranks} rank{'s'[:ranks > 1]}", run(o.program, text, folder, ranks=ranks), 1366 * 2048)
                line("the same, memory 0.5 GiB", run(o.program, text, folder, "memory=0.5 GiB", *disk, ranks=ranks), 1366 * 2048)
        elif o.volume:
            beads(f"{work}/beads.npy", o.volume)
            s = run(o.program, VOLUME.format(truth=f"{work}/beads.npy", folder=folder), folder, f"memory={o.memory}", *disk, group=group)
            line(f"{o.volume}^3, memory {o.memory}", s, o.volume ** 3)
            most = max(s["resident_peak_bytes_per_rank"]) / bytes_of(o.memory)
            sys.exit(not s.get("scratch") or most > 1.25)
        else:
            small, large = o.side // 4, o.side
            rates = []
            for side, settings, limit in ((small, ("scratch=never",), 0), (large, (f"memory={o.memory}", "scratch=always", *disk), group)):
                s = run(o.program, JOB.format(side=side, iterations=o.iterations, folder=folder), folder, *settings, group=limit)
                line(f"{side} x {side} x 3, {'in memory' if limit == 0 and side == small else 'memory ' + o.memory}", s, side * side)
                rates.append(s["seconds_per_iteration"] / side ** 2)
                if side == large:
                    most = max(s["resident_peak_bytes_per_rank"]) / bytes_of(o.memory)
            print(f"\n{rates[1] / rates[0]:.2f} times the seconds per pixel and iteration; {100 * most:.0f} % of the memory that it may have")
            sys.exit(most > 1.25)  # a test of the night runs beside others


if __name__ == "__main__":
    main()
