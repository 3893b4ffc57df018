#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Is a benchmark's program slower than that of an older build? Its rows are measured one by one, both programs in turn.

A machine with other work, or whose clock changes, shows two readings of one program 10 % apart and more, but readings
that are taken within a tenth of a second of each other much less. So both programs run at once, each waits until it is
asked for a row, and the older one runs twice, so that it is seen how far a program is from itself. Where the parts of
an image lie in memory is worth some percent as well, and is drawn anew with each start: --starts of them, each with the
median of --turns ratios of new over old. The interval from the second least to the second greatest of nine starts holds
the true median in 96 of 100 cases, whatever the noise (order statistics). A row is called slower where all of the
interval is above --limit, and no slower where all of it is below; the rest is not known from so few starts.

  tests/bench/in_turn.py OLD_BUILD NEW_BUILD -- bench_conv_throughput drunet 256 turns
  tests/bench/in_turn.py OLD_BUILD NEW_BUILD -- bench_data_step blurs turns 512

An old build whose program has no turns yet: compile the new file of the program against the old sources.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

# What glibc gives back to the system and takes again costs up to 700 page faults in a blur of 20 ms, or none, by what was
# allocated before: by the rows measured before, that is, and not by the program.
KEEP_FREED_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**31), "MALLOC_MMAP_MAX_": "0"}


class Program:
    def __init__(self, build, words):
        self.command = [str(build / "bin" / words[0]), *words[1:]]
        environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **KEEP_FREED_MEMORY, **os.environ}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.rows = [self.line().strip() for _ in range(int(self.line()))]

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.command)} ended before it answered, exit code {self.process.wait()}")
        return line

    def milliseconds(self, row):
        self.process.stdin.write(f"{row}\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def interval(values):
    """(low, median, high): the median of what the values are drawn from lies between in 95 of 100 cases at least."""
    values, n = sorted(values), len(values)
    outside, k = 0.5**n, 0  # P(at most k of n below the median)
    while outside + math.comb(n, k + 1) * 0.5**n <= 0.025:
        k += 1
        outside += math.comb(n, k) * 0.5**n
    return values[k], statistics.median(values), values[n - 1 - k]


def ratios(old, new, again, row, turns):
    """Medians over the turns: new over old, the old program over itself, milliseconds of the old one."""
    programs, taken = (old, new, again), []
    for turn in range(turns + 1):
        order = [(k + turn) % 3 for k in range(3)][:: 1 if turn % 2 == 0 else -1]
        times = {k: programs[k].milliseconds(row) for k in order}
        taken.append((2 * times[1] / (times[0] + times[2]), times[2] / times[0], times[0]))
    return [statistics.median(column) for column in zip(*taken[1:])]  # the first turn warms up


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old", type=Path, help="build tree, such as ../before/build/release")
    arguments.add_argument("new", type=Path)
    arguments.add_argument("program", nargs="+", help="of both trees' bin/, and its arguments")
    arguments.add_argument("--starts", type=int, default=9, help="(9; 6 at least)")
    arguments.add_argument("--turns", type=int, default=6, help="of each row after a start (6)")
    arguments.add_argument("--limit", type=float, default=1.02, help="(1.02)")
    arguments.add_argument("--rows", default="", help="those whose name contains this regular expression (all)")
    arguments.add_argument("--core", type=int, help="all run on this core")
    asked = arguments.parse_args()
    if asked.starts < 6:
        arguments.error("--starts is below 6 (no interval of 95 % comes from so few) write 6 or more")
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})

    found = {}  # by row, the ratios of each start
    for start in range(asked.starts):
        programs = [Program(build, asked.program) for build in (asked.old, asked.new, asked.old)]
        if programs[0].rows != programs[1].rows:
            sys.exit(f"the rows differ: {programs[0].rows} and {programs[1].rows}")
        chosen = [(row, name) for row, name in enumerate(programs[0].rows) if re.search(asked.rows, name)]
        if not chosen:
            arguments.error(f"no row contains '{asked.rows}' (rows: {'; '.join(programs[0].rows)}) choose another --rows")
        for row, name in chosen:
            found.setdefault(name, []).append(ratios(*programs, row, asked.turns))
        for program in programs:
            program.end()
        print(f"start {start + 1} of {asked.starts}", file=sys.stderr)

    counts = {"slower": 0, "no slower": 0, "": 0}
    itself = 0
    print(f"{'row':<36} {'old ms':>9} {'new/old':>8} {'interval':>14}   old/old")
    for name, starts in found.items():
        new, old, milliseconds = zip(*starts)
        (low, middle, high), (least, own, most) = interval(new), interval(old)
        said = "slower" if low > asked.limit else "no slower" if high <= asked.limit else ""
        counts[said] += 1
        itself += least > asked.limit or 1 / most > asked.limit
        print(
            f"{name:<36} {statistics.median(milliseconds):9.3f} {middle:8.3f} {low:6.3f} to {high:.3f}   "
            f"{own:.3f}, {least:.3f} to {most:.3f}  {said}"
        )
    print(
        f"{len(found)} rows, median {statistics.median(interval([s[0] for s in starts])[1] for starts in found.values()):.3f}: "
        f"{counts['slower']} slower by more than {asked.limit - 1:.0%}, {counts['no slower']} no slower, {counts['']} not known; "
        f"of the old program against itself {itself} apart by more"
    )
    return counts["slower"] > 0


if __name__ == "__main__":
    sys.exit(main())
