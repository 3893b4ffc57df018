#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the assembler says of our kernels: registers, spills, occupancy. kernel_limits.py NVCC SOURCE_DIR FILE.cu...

No GPU is needed. A kernel that spills, or whose registers leave room for fewer than half of a multiprocessor's
threads, fails: kernels that only move memory want many threads in flight.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ARCHITECTURES = {"80": 65536, "90": 65536, "100": 65536}  # registers of a multiprocessor
THREADS = 2048  # of a multiprocessor, all of them
BLOCK = 256
GRAIN = 256  # registers are given to a warp in this many


def occupancy(registers, total):
    per_warp = -(-registers * 32 // GRAIN) * GRAIN
    warps = total // per_warp
    blocks = min(warps // (BLOCK // 32), THREADS // BLOCK)
    return blocks * BLOCK / THREADS


def compile_for(nvcc, source, include, arch):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [nvcc, "-cubin", f"-arch=sm_{arch}", "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-Xptxas=-v",
             *(f"-I{i}" for i in include), "-o", f"{folder}/out.cubin", source],
            capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{source} does not compile for sm_{arch} (nvcc says below)\n{done.stderr}")
    return done.stderr


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
    nvcc, root, *sources = sys.argv[1:]
    include = [f"{root}/include", f"{root}/src/comm"]
    bad, seen = [], 0
    print(f"{'kernel':<58} sm  registers  spills  stack  occupancy")
    for source in sources:
        for arch, total in ARCHITECTURES.items():
            for name, registers, spills, stack in kernels(compile_for(nvcc, source, include, arch)):
                seen += 1
                share = occupancy(registers, total)
                short = re.sub(r"^_ZN.*?(\d+)(run_\w+?)I(\w+?)E.*$", r"\2<\3>", name)
                print(f"{short[:58]:<58} {arch:>3} {registers:>9} {spills:>7} {stack:>6} {share:>9.0%}")
                if spills or share < 0.5:
                    bad.append(f"{name} for sm_{arch}: {registers} registers, {spills} bytes spilled, "
                               f"{share:.0%} of the threads (a kernel that moves memory needs half) use fewer")
    if seen == 0:
        sys.exit(f"no kernel in {pathlib.Path(sources[0]).name} (the report of ptxas was not understood)")
    sys.exit("\n".join(bad) if bad else 0)


if __name__ == "__main__":
    main()
