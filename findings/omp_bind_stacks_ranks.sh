#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# OMP_PROC_BIND=true in a job of several processes that may use the same cores.
# Guess: each process keeps to a core of its own, as "bind" promises; with one thread there is nothing to bind.
# Really: each process starts at the first core of those that it may use, and knows nothing of the others. Two ranks
#   with one thread each (mpirun --bind-to none, srun without --cpu-bind, a container) both sit on the first core, the
#   other cores idle, and nothing says so. Even a single thread is bound.
# Seen 2026-11-27, libgomp of GCC 12.2.0 (Debian 12), 2 cores: without it both processes may use cores 0 1; with
#   OMP_PROC_BIND=true both are held to core 0; with it and OMP_NUM_THREADS=2 threads 0 and 1 go to cores 0 and 1.
source "$(dirname "$0")/support.sh"
version=12.2.0-14+deb12u1
debian_packages "libgomp1=$version"
installed=$(dpkg-query -W -f '${Version}' libgomp1 2>/dev/null || true)
[[ -z $installed || $installed == 12.2.0-14+deb12u1 ]] || cannot_try "libgomp1 $version" "$installed is installed"
cat >cores.py <<'EOF'
import ctypes
import os

openmp = ctypes.CDLL("libgomp.so.1")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def region(_):
    if openmp.omp_get_thread_num() == 0:
        print(*sorted(os.sched_getaffinity(0)))


openmp.GOMP_parallel(region, None, 0, 0)
EOF
(($(nproc) > 1)) || cannot_try "one core only" "two processes share it anyway"
export OMP_NUM_THREADS=1
mapfile -t free < <(for _ in 1 2; do env -u OMP_PROC_BIND python3 cores.py & done; wait)
mapfile -t bound < <(for _ in 1 2; do OMP_PROC_BIND=true python3 cores.py & done; wait)
printf 'without: processes on cores %s and %s\n' "${free[@]}"
printf 'OMP_PROC_BIND=true: on core %s and %s\n' "${bound[@]}"
[[ ${free[0]} == *' '* && ${free[0]} == "${free[1]}" ]]
[[ ${bound[0]} =~ ^[0-9]+$ && ${bound[0]} == "${bound[1]}" ]]
