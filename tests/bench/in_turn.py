#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Is a program slower than that of an older build? Both run in turn, and rows of their tables are compared.

A row is named by the words before its first number with a decimal point; the first --values of these numbers are
taken for times. Each pair of runs gives a ratio, new over old; which of the two comes first changes from pair to pair.
Shown are the median of the ratios and the interval that holds the true median in at least 95 of 100 cases (order
statistics of a binomial: no assumption on the noise). A row is called slower where all of the interval is above
the limit, and no slower where all of it is below; the rest this machine cannot tell with so few pairs. The old
program against itself, by neighboring runs, says how often noise alone is called slower.

  tests/bench/in_turn.py OLD_BUILD NEW_BUILD --pairs 12 --rows '^ *[0-9]|full pass' -- bench_conv_throughput drunet 256 1 0.85 cpu
  tests/bench/in_turn.py OLD_BUILD NEW_BUILD --pairs 12 --values 3 -- bench_data_step blurs 3
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

DECIMAL = re.compile(r"\d+\.\d+$")


def read_table(text, rows, values):
    """{(name, which value): number} of the lines that `rows` is found in."""
    table = {}
    for line in text.splitlines():
        words = line.replace(",", " ").split()
        decimals = [k for k, word in enumerate(words) if DECIMAL.match(word)]
        if decimals and rows.search(line):
            name = " ".join(words[: decimals[0]])
            for k, at in enumerate(decimals[:values]):
                table[name, k] = float(words[at])
    return table


def interval(ratios):
    """(low, median, high): the median of what the ratios are drawn from lies between with 95 % at least; None for few."""
    ratios, n = sorted(ratios), len(ratios)
    outside, k = 0.5**n, 0  # P(fewer than k + 1 of n below the median)
    if outside > 0.025:
        return None
    while outside + math.comb(n, k + 1) * 0.5**n <= 0.025:
        k += 1
        outside += math.comb(n, k) * 0.5**n
    return ratios[k], statistics.median(ratios), ratios[n - 1 - k]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old", type=Path, help="build tree, such as ../before/build/release")
    arguments.add_argument("new", type=Path)
    arguments.add_argument("program", nargs="+", help="of both trees' bin/, and its arguments")
    arguments.add_argument("--pairs", type=int, default=12, help="(12; 6 at least)")
    arguments.add_argument("--values", type=int, default=1, help="numbers of a row that are times (1)")
    arguments.add_argument("--rows", type=re.compile, default=re.compile(""), help="regular expression of the lines compared")
    arguments.add_argument("--limit", type=float, default=1.02, help="(1.02)")
    arguments.add_argument("--core", type=int, help="both run on this core")
    asked = arguments.parse_args()
    if asked.pairs < 6:
        arguments.error("--pairs is below 6 (no interval of 95 % comes from so few) write 6 or more")
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})
    environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **os.environ}

    def run(build):
        command = [str(build / "bin" / asked.program[0]), *asked.program[1:]]
        done = subprocess.run(command, text=True, capture_output=True, env=environment)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return read_table(done.stdout, asked.rows, asked.values)

    old, new = [], []
    for pair in range(asked.pairs):
        for build, tables in ((asked.old, old), (asked.new, new))[:: 1 if pair % 2 == 0 else -1]:
            tables.append(run(build))
    rows = [row for row in old[0] if all(row in table and table[row] > 0 for table in old + new)]
    if not rows:
        sys.exit("no row of one has a partner in the other (the tables differ) see --rows")

    counts = {"slower": 0, "no slower": 0, "": 0}
    noise = 0
    print(f"{'row':<44} {'old':>9} {'ratio':>6}   interval")
    for row in sorted(rows, key=lambda row: -statistics.median(b[row] / a[row] for a, b in zip(old, new))):
        low, middle, high = interval([b[row] / a[row] for a, b in zip(old, new)])
        said = "slower" if low > asked.limit else "no slower" if high <= asked.limit else ""
        counts[said] += 1
        itself = interval([b[row] / a[row] for a, b in zip(old, old[1:])])
        noise += itself is not None and not itself[0] <= asked.limit
        name = row[0] + (f" [{row[1]}]" if asked.values > 1 else "")
        print(f"{name:<44} {statistics.median(t[row] for t in old):9.3f} {middle:6.3f}   {low:.3f} to {high:.3f}  {said}")
    middle = statistics.median(statistics.median(b[row] / a[row] for a, b in zip(old, new)) for row in rows)
    print(
        f"{len(rows)} rows, {asked.pairs} pairs, median ratio {middle:.3f}: {counts['slower']} slower by more than "
        f"{asked.limit - 1:.0%}, {counts['no slower']} not, {counts['']} undecided; the old program against itself: {noise} slower"
    )
    return counts["slower"] > 0


if __name__ == "__main__":
    sys.exit(main())
