#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Starts a program on N ranks the right way on this machine: jobs/launch.sh -n N PROGRAM [ARGUMENTS...]
#   Inside a Slurm job: srun with PMIx. Elsewhere: mpirun, more ranks than cores allowed, no binding.
#   Each rank gets its share of the cores as OMP_NUM_THREADS, unless that is set. What is decided here reaches the ranks on
#   all nodes, also where the launcher passes no environment on (Slurm's --export=NONE).
#   Waiting ranks yield their core. The exit code is the program's.
#   Ctrl-C, SIGTERM, SIGHUP and SIGXCPU reach the ranks as SIGUSR2, and tessera then writes a checkpoint; Ctrl-C after that
#   ends all. Standard input is not read.
#   TESSERA_LAUNCHER=mpirun or srun chooses; with either, one rank is launched too (otherwise it simply runs).
#   TESSERA_LAUNCHER_OPTIONS are passed on to mpirun or srun.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,11s/^# //p' "$0"; exit 0 ;;
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
job=${SLURM_JOB_ID:-${SLURM_JOBID:-}}
if [[ $ranks != 1 || -n ${TESSERA_LAUNCHER:-} || $launcher == srun ]] && ! command -v "$launcher" >/dev/null; then
  if [[ $launcher == srun && -z ${TESSERA_LAUNCHER:-} ]]; then
    echo "launch: SLURM_JOB_ID is $job and there is no srun (a job's variables without its Slurm: left over, or in a" \
      "container) unset \${!SLURM_@}, or set TESSERA_LAUNCHER=mpirun" >&2
  else
    echo "launch: there is no $launcher (it starts the ranks) install or load it, or choose by TESSERA_LAUNCHER" >&2
  fi
  exit 2
fi

# The launchers' own words on the way to standard error: none for exit codes that the program has explained. In a block
# between dashes mpirun says that a rank returned one, or aborted, and it tells of each signal; srun calls 85 and 86, after a
# checkpoint, errors.
read -r -d '' drop <<'SED' || :
/^mpirun: Forwarding signal [0-9]* to job$/d
/^srun: error: .*Exited with exit code 8[56]$/d
/help message help-mpi-api.txt \/ mpi-abort$/d
/^-\{74\}$/{
  $!N
  /\n\(Primary job  terminated\|mpirun detected that\|MPI_ABORT was invoked\)/{
    :more
    N
    /\n-\{74\}$/d
    b more
  }
  P
  D
}
SED

# supervise LAUNCHER...: runs it and ends with its exit code. mpirun answers Ctrl-C and SIGTERM by killing its ranks a second
# later, so both are kept from it (blocked, which it leaves to itself: ranks get them back), and this shell passes them on as
# SIGUSR2, which mpirun and srun forward. In a session of its own it gets none of those that a terminal which closes, or a
# batch system, sends to all. Killed, this shell takes the launcher with it. Older coreutils and util-linux cannot do this.
supervise() {
  local child code=0 caught asked=0 cut=0
  local -a shield=()
  env --block-signal=INT true 2>/dev/null && shield=(env --block-signal=INT,TERM)
  setpriv --pdeathsig HUP true 2>/dev/null && shield=(setsid setpriv --pdeathsig HUP ${shield[@]+"${shield[@]}"})
  exec 3>&2
  exec 2> >(trap '' INT TERM HUP XCPU; exec sed --unbuffered "$drop" >&3)
  local filter=$!
  ${shield[@]+"${shield[@]}"} "$@" </dev/null &
  child=$!
  pass() { caught=1; kill "-$1" "$child" 2>/dev/null || :; }
  trap 'if ((asked)); then cut=1; pass HUP; else asked=1; pass USR2; fi' INT
  trap 'asked=1; pass USR2' TERM HUP XCPU
  trap 'pass USR1' USR1
  trap 'pass USR2' USR2
  while :; do
    caught='' code=0
    wait "$child" || code=$?
    [[ -n $caught ]] || break
  done
  exec 2>&3
  wait "$filter" || :  # all of it is to be seen before this shell ends
  if ((code == 1 && !asked)); then explain "$@"; fi
  # 140: a program that does not take SIGUSR2.
  if ((asked && code == 140 || cut && code != 0 && code != 85 && code != 86)); then code=130; fi
  exit "$code"
}

# explain LAUNCHER...: exit code 1 is no code of tessera: the launcher could not start the ranks, or MPI ended one.
explain() {
  local -a start=()
  while [[ $1 != env ]]; do start+=("$1"); shift; done
  echo "launch: exit code 1 is $launcher's, or of a rank that MPI ended (messages above, where there are any) to look closer:" \
    "$(printf '%q ' "${start[@]}")hostname" >&2
  local types
  if [[ $launcher == srun ]] && types=$(srun --mpi=list 2>&1) && [[ $types != *pmix* ]]; then
    echo "launch: this Slurm's srun has no PMIx (srun --mpi=list names none) set TESSERA_LAUNCHER=mpirun" >&2
  fi
  if [[ -n $job && -z $(squeue --noheader --job "$job" 2>/dev/null) ]]; then
    echo "launch: no Slurm answers for job $job of SLURM_JOB_ID or SLURM_JOBID (left over from a job that has ended?)" \
      "unset \${!SLURM_@}" >&2
  fi
}

if [[ -t 1 ]]; then export TESSERA_TERMINAL=${TESSERA_TERMINAL:-1}; else export TESSERA_TERMINAL=${TESSERA_TERMINAL:-0}; fi
# mpirun's ranks do not see its width, which may change while one rank that simply runs looks at it.
if [[ -t 1 && ($ranks != 1 || -n ${TESSERA_LAUNCHER:-} || $launcher == srun) ]] && size=$(stty size <&1 2>/dev/null); then
  export TESSERA_COLUMNS=${TESSERA_COLUMNS:-${size#* }}
fi
# srun never tells Open MPI that ranks share cores; a spinning rank then costs the others milliseconds per message.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
# sbatch --export=NONE leaves behind that a job's srun, and that of mpirun's daemons, pass nothing on either.
[[ -z $job ]] || export SLURM_EXPORT_ENV=ALL SRUN_EXPORT_ENV=ALL
# in_rank PROGRAM...: the command line with the settings of this script in it, in `command`
in_rank() {
  local name
  command=(env)
  for name in $(compgen -e); do
    case $name in
      TESSERA_* | OMP_NUM_THREADS | OMP_WAIT_POLICY | OMP_PROC_BIND | OMPI_MCA_mpi_yield_when_idle) command+=("$name=${!name}") ;;
    esac
  done
  command+=(sh -c 'exec "$0" "$@"' "$@")  # env takes a program with a = in its path for a setting
}
# Of the job that one works in and of a job that was submitted from there: srun takes one of them, and without any the job's.
memory=(${SLURM_MEM_PER_CPU:+1} ${SLURM_MEM_PER_GPU:+1} ${SLURM_MEM_PER_NODE:+1})
if ((${#memory[@]} > 1)); then unset SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE; fi
if [[ $launcher == srun ]]; then
  # Inside of a step (srun --pty bash) another one waits for ever for the cores of the one around it, unless it shares them.
  # The numbers of the batch script's step, and of salloc's, are far above.
  if [[ ${SLURM_STEP_ID:-} =~ ^[0-9]{1,9}$ ]]; then export SLURM_OVERLAP=1; fi
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
  # A rank that alone had a node and is killed leaves the others waiting for it; Slurm would watch that for ever. (Ending
  # all at the first bad exit code would cut ranks short that are about to end with the same code, after a checkpoint.)
  export SLURM_WAIT=${SLURM_WAIT:-10}
  in_rank "$@"
  supervise srun --ntasks="$ranks" --mpi=pmix ${options[@]+"${options[@]}"} "${command[@]}"
fi
# Threads that wait sleep instead of spinning: many operators are short, and on a machine with other work a spinning
# thread takes the core from the one it waits for (eight blurs of 1411 x 1411, 2 busy cores: 11.9 s spinning, 2.9 s not).
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# A container may run on all cores, and for less of their time: more threads than that wait for each other.
cores=$(nproc)
sysfs=${TESSERA_SYSFS:-/sys}  # tests put a machine of their own there
group=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null) || group=
for quota in "$sysfs/fs/cgroup${group%/}/cpu.max" "$sysfs/fs/cgroup/cpu.max" "$sysfs/fs/cgroup/cpu/cpu.cfs_quota_us"; do
  limit='' period=''
  read -r limit period 2>/dev/null <"$quota" || continue
  [[ -n $period ]] || read -r period 2>/dev/null <"${quota%quota_us}period_us" || continue
  if [[ $limit =~ ^[1-9][0-9]*$ && $period =~ ^[1-9][0-9]*$ ]] && (((limit + period - 1) / period < cores)); then
    cores=$(((limit + period - 1) / period))
  fi
done
share=$((cores / ranks))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-$((share > 0 ? share : 1))}}
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
# Unbound ranks see the same cores: OpenMP would bind the first thread of each to the first of them.
pinned=${OMP_PROC_BIND:-${OMP_PLACES:-${GOMP_CPU_AFFINITY:-false}}}
if [[ $ranks != 1 && ${pinned,,} != false && " ${options[*]-} " != *" --bind-to "* ]]; then
  echo "launch: note: OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY are set aside (all ranks would share one core)" >&2
  export OMP_PROC_BIND=false
fi
in_rank "$@"
supervise mpirun --bind-to none ${options[@]+"${options[@]}"} -n "$ranks" "${command[@]}"
