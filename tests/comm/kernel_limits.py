#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the assembler said of our kernels: registers, spills, occupancy. kernel_limits.py REPORT...

REPORT: what ptxas printed when the build compiled a .cu file (build/*/src/kernels/*.sm_NN.txt). No GPU is needed. A
kernel that spills, or whose registers leave room for fewer than half of a multiprocessor's threads, fails: kernels
that wait for memory want many threads in flight. A quarter suffices where everything is computed in double.
"""
import pathlib
import re
import sys

REGISTERS = 65536  # of a multiprocessor, 8.0 to 10.0
THREADS = 2048  # of a multiprocessor, all of them
BLOCK = 256
GRAIN = 256  # registers are given to a warp in this many
IN_DOUBLE = ("run_project<double>", "run_gather_any<float>", "run_gather_any<double>")
TYPES = {"f": "float", "d": "double"}


def occupancy(registers):
    per_warp = -(-registers * 32 // GRAIN) * GRAIN
    warps = REGISTERS // per_warp
    blocks = min(warps // (BLOCK // 32), THREADS // BLOCK)
    return blocks * BLOCK / THREADS


def short(name):
    """run_project<float>, of what the linker calls _ZN7tessera4rays...11run_projectIfEE..."""
    found = re.match(r"^_ZN.*?\d+(run_[a-z_]+)(?:I(?:Li)?(\w+?)E)?", name)
    if not found:
        return name
    return found.group(1) + (f"<{TYPES.get(found.group(2), found.group(2))}>" if found.group(2) else "")


def kernels(report):
    """(name, registers, spilled bytes, stack bytes) of every kernel of an assembler's report."""
    found = []
    for part in report.split("Compiling entry function")[1:]:
        name = re.search(r"'(\S+)'", part).group(1)
        stack, stores, loads = map(int, re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part).groups())
        registers = int(re.search(r"Used (\d+) registers", part).group(1))
        found.append((name, registers, stores + loads, stack))
    return found


def main():
    bad, seen = [], 0
    print(f"{'kernel':<58} sm  registers  spills  stack  occupancy")
    for path in map(pathlib.Path, sys.argv[1:]):
        arch = re.search(r"sm_(\d+)", path.name).group(1)
        found = kernels(path.read_text())
        if not found:
            sys.exit(f"no kernel in {path} (the report of ptxas was not understood)")
        for name, registers, spills, stack in found:
            seen += 1
            share = occupancy(registers)
            wanted = 0.25 if short(name) in IN_DOUBLE else 0.5
            print(f"{short(name)[:58]:<58} {arch:>3} {registers:>9} {spills:>7} {stack:>6} {share:>9.0%}")
            if spills or share < wanted:
                bad.append(f"{name} for sm_{arch}: {registers} registers, {spills} bytes spilled, "
                           f"{share:.0%} of the threads (such a kernel needs {wanted:.0%}) use fewer")
    if seen == 0:
        sys.exit("no report was given (there is nothing to judge) name build/*/src/kernels/*.txt")
    sys.exit("\n".join(bad) if bad else 0)


if __name__ == "__main__":
    main()
