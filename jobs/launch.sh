#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts a program on N ranks the right way on this machine: jobs/launch.sh -n N PROGRAM [ARGUMENTS...]
#   Inside a Slurm job: srun with PMIx. Elsewhere: mpirun, quiet, more ranks than cores allowed, no binding.
#   Each rank gets its share of the cores as OMP_NUM_THREADS, unless that is set.
#   Waiting ranks yield their core. The exit code is the program's.
#   Ctrl-C and SIGTERM reach the ranks as SIGUSR2, and tessera then writes a checkpoint; Ctrl-C after that ends all.
#   TESSERA_LAUNCHER=mpirun or srun chooses; with either, one rank is launched too (otherwise it simply runs).
#   TESSERA_LAUNCHER_OPTIONS are passed on to mpirun or srun.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,9s/^# //p' "$0"; exit 0 ;;
esac
if [[ ${1:-} != -n || $# -lt 3 || ! $2 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: launch.sh -n N PROGRAM [ARGUMENTS...]   (--help says more)" >&2
  exit 2
fi
ranks=$2
shift 2
case ${TESSERA_LAUNCHER:-} in
  "") [[ -n ${SLURM_JOB_ID:-} ]] && launcher=srun || launcher=mpirun ;;
  mpirun | srun) launcher=$TESSERA_LAUNCHER ;;
  *) echo "TESSERA_LAUNCHER is '$TESSERA_LAUNCHER' (it names no launcher) write mpirun or srun" >&2; exit 2 ;;
esac
read -ra options <<<"${TESSERA_LAUNCHER_OPTIONS:-}"
if ! command -v "$1" >/dev/null; then
  echo "launch: no program $1 (each rank would fail to start it) is the name right, and built?" >&2
  exit 2
fi

# supervise LAUNCHER...: runs it and ends with its exit code. mpirun answers Ctrl-C and SIGTERM by killing its ranks a second
# later, so both are kept from it (blocked, which it leaves to itself: ranks get them back), and this shell passes them on as
# SIGUSR2, which mpirun and srun forward. Killed, this shell takes the launcher with it. Older coreutils cannot block.
supervise() {
  local child code=0 caught asked=0 cut=0
  local -a shield=()
  env --block-signal=INT true 2>/dev/null && shield=(env --block-signal=INT,TERM)
  setpriv --pdeathsig HUP true 2>/dev/null && shield=(setpriv --pdeathsig HUP ${shield[@]+"${shield[@]}"})
  ${shield[@]+"${shield[@]}"} "$@" <&0 &
  child=$!
  pass() { caught=1; kill "-$1" "$child" 2>/dev/null || :; }
  trap 'if ((asked)); then cut=1; pass HUP; else asked=1; pass USR2; fi' INT
  trap 'asked=1; pass USR2' TERM
  trap 'pass USR1' USR1
  while :; do
    caught='' code=0
    wait "$child" || code=$?
    [[ -n $caught ]] || break
  done
  if [[ -n ${filter:-} ]]; then  # all of it is to be seen before this shell ends
    exec 2>&3
    wait "$filter" || :
  fi
  # 140: a program that does not take SIGUSR2.
  if ((asked && code == 140 || cut && code != 0 && code != 85 && code != 86)); then code=130; fi
  exit "$code"
}

if [[ -t 1 ]]; then export TESSERA_TERMINAL=${TESSERA_TERMINAL:-1}; else export TESSERA_TERMINAL=${TESSERA_TERMINAL:-0}; fi
# srun never tells Open MPI that ranks share cores; a spinning rank then costs the others milliseconds per message.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
if [[ $launcher == srun ]]; then
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
  # A rank that alone had a node and is killed leaves the others waiting for it; Slurm would watch that for ever. (Ending
  # all at the first bad exit code would cut ranks short that are about to end with the same code, after a checkpoint.)
  export SLURM_WAIT=${SLURM_WAIT:-10}
  # Ranks that end with 85 or 86 have checkpointed and say so themselves; to srun that is an error.
  exec 3>&2
  exec 2> >(trap '' INT TERM; exec sed --unbuffered '/^srun: error: .*Exited with exit code 8[56]$/d' >&3)
  filter=$!
  supervise srun --ntasks="$ranks" --mpi=pmix ${options[@]+"${options[@]}"} "$@"
fi
# Threads that wait sleep instead of spinning: many operators are short, and on a machine with other work a spinning
# thread takes the core from the one it waits for (eight blurs of 1411 x 1411, 2 busy cores: 11.9 s spinning, 2.9 s not).
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
share=$(($(nproc) / ranks))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((share > 0 ? share : 1))}
if [[ $ranks == 1 && -z ${TESSERA_LAUNCHER:-} ]]; then
  exec "$@"
fi
if [[ $(id -u) == 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers; Open MPI refuses with one alone
fi
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
  export OMPI_MCA_plm=isolated  # mpirun otherwise looks for ssh, even for ranks on this host alone, and gives up
fi
# Oversubscription: 4 ranks on 2 cores are refused without it. Binding: mpirun would pin both threads of a rank to one
# core. Single-copy messages through process_vm_readv are forbidden in containers, and Open MPI then warns per rank.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
supervise mpirun -q --bind-to none ${options[@]+"${options[@]}"} -n "$ranks" "$@"
