#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# MPI_MAX over ranks of which one has NaN.
# Guess: the result is NaN, or else the largest of the numbers.
# Really: it may be neither. The comparison inside keeps whichever operand the algorithm holds second, so that a NaN
#   also throws away larger numbers that were already compared: of 0, 1, NaN, 3 the maximum is 1. Which number comes
#   out depends on the rank that has the NaN and, with several elements, on the place in the message. A stopping rule
#   or a clip level taken from MPI_MAX neither sees the NaN nor is the maximum of the rest. Sum a flag beside it.
# Seen 2026-11-27, Open MPI 4.1.4 (Debian 12; 5.0.11 gives the same), mpi4py 4.1.2, 4 ranks with the values 0 1 2 3:
#   NaN on rank 0: nan, on rank 1: 3.0, on rank 2: 1.0, on rank 3: 2.0. MPICH 5.0.2: 3.0, 3.0, 3.0, nan.
source "$(dirname "$0")/support.sh"
python_packages numpy==2.4.6 mpi4py==4.1.2
open_mpi
cat >maximum.py <<'EOF'
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
results = []
for bad in range(world.size):
    mine = numpy.array([numpy.nan if world.rank == bad else float(world.rank)])
    result = numpy.empty(1)
    world.Allreduce(mine, result, MPI.MAX)
    results.append(str(result[0]))
everyone = world.gather(results)
if world.rank == 0:
    print("NaN on rank 0, 1, 2, 3 gives", *results)
    assert all(other == results for other in everyone), "ranks differ"
    assert results == ["nan", "3.0", "1.0", "2.0"], results
EOF
mpirun.openmpi --oversubscribe -n 4 python maximum.py
