#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# launch.sh starts the ranks asked for and passes on exit codes: tests/tooling/launch.sh PATH_OF_LAUNCH
set -euo pipefail
launch=$1
unset OMP_NUM_THREADS TESSERA_LAUNCHER SLURM_JOB_ID
export TESSERA_LAUNCHER=mpirun
failed=0
expect() {  # expect WHAT WANTED GOT
  if [[ $2 != "$3" ]]; then
    echo "$1: wanted '$2', got '$3'"
    failed=1
  fi
}
code() { local c=0; "$@" >/dev/null 2>&1 || c=$?; echo "$c"; }

expect "ranks" "0 1 2 3 4" "$("$launch" -n 5 bash -c 'echo $OMPI_COMM_WORLD_RANK' | sort | xargs)"
expect "share of the threads" 1 "$("$launch" -n $(($(nproc) + 1)) bash -c 'echo $OMP_NUM_THREADS' | sort -u)"
expect "threads that were set" 5 "$(OMP_NUM_THREADS=5 "$launch" -n 2 bash -c 'echo $OMP_NUM_THREADS' | sort -u)"
expect "yielding" 1 "$("$launch" -n 2 bash -c 'echo $OMPI_MCA_mpi_yield_when_idle' | sort -u)"
expect "arguments with blanks" "a b|c" "$("$launch" -n 1 bash -c 'echo "$0|$1"' "a b" c)"
expect "success" 0 "$(code "$launch" -n 2 true)"
expect "exit code of all ranks" 85 "$(code "$launch" -n 3 bash -c 'exit 85')"
expect "exit code of one rank" 3 "$(code "$launch" -n 2 bash -c 'exit $((OMPI_COMM_WORLD_RANK * 3))')"
expect "killed rank" 137 "$(code "$launch" -n 2 bash -c 'if [[ $OMPI_COMM_WORLD_RANK == 1 ]]; then kill -9 $$; fi; sleep 60')"
expect "no number of ranks" 2 "$(code "$launch" true)"
expect "a number of ranks that is none" 2 "$(code "$launch" -n two true)"
expect "no program" 2 "$(code "$launch" -n 2)"
expect "unknown launcher" 2 "$(TESSERA_LAUNCHER=ssh code "$launch" -n 1 true)"
unset TESSERA_LAUNCHER
expect "one rank runs without a launcher" "" "$("$launch" -n 1 bash -c 'echo ${OMPI_COMM_WORLD_RANK:-}')"
exit "$failed"
