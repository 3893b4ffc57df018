#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts a program on N ranks the right way on this machine: launch.sh -n N PROGRAM [ARGS...]
# Inside a Slurm job: srun. Elsewhere: mpirun, quiet, oversubscribed when there are fewer cores, each rank with its
# share of the threads. OMP_NUM_THREADS, when set, is left alone.
set -euo pipefail
if [[ ${1:-} != -n || $# -lt 3 ]]; then
  echo "usage: launch.sh -n N PROGRAM [ARGS...]" >&2
  exit 2
fi
ranks=$2
shift 2
export OMPI_MCA_mpi_yield_when_idle=1
cores=$(nproc)
share=$((cores / ranks))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
if [[ -n ${SLURM_JOB_ID:-} && -z ${TESSERA_LAUNCHER:-} ]]; then
  exec srun --ntasks="$ranks" --mpi=pmix "$@"
fi
if [[ $ranks == 1 && -z ${TESSERA_LAUNCHER:-} ]]; then
  exec "$@"
fi
if [[ $(id -u) == 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
exec mpirun -q --bind-to none -n "$ranks" "$@"
