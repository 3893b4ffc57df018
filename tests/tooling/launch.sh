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
container=$(mktemp -d)
mkdir -p "$container/fs/cgroup/cpu"
echo "150000 100000" >"$container/fs/cgroup/cpu.max"
expect "threads of one and a half cores" $(($(nproc) < 2 ? 1 : 2)) "$(TESSERA_SYSFS=$container "$launch" -n 1 bash -c 'echo $OMP_NUM_THREADS')"
echo "max 100000" >"$container/fs/cgroup/cpu.max"
echo 100000 | tee "$container/fs/cgroup/cpu/cpu.cfs_quota_us" >"$container/fs/cgroup/cpu/cpu.cfs_period_us"
expect "threads of one core" 1 "$(TESSERA_SYSFS=$container "$launch" -n 1 bash -c 'echo $OMP_NUM_THREADS')"
echo -1 >"$container/fs/cgroup/cpu/cpu.cfs_quota_us"
expect "threads of all cores" "$(nproc)" "$(TESSERA_SYSFS=$container "$launch" -n 1 bash -c 'echo $OMP_NUM_THREADS')"
rm -r "$container"
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

# A launcher that cannot start the ranks says why, and so does this script; what a program has explained stands alone.
says() { "$@" 2>&1 >/dev/null </dev/null || :; }
expect "a program's own words" "bad input" "$(says "$launch" -n 1 bash -c 'echo bad input >&2; exit 2')"
expect "85 is explained" "" "$(says "$launch" -n 2 bash -c 'exit 85')"
dashes=$(printf -- '-%.0s' {1..74})
expect "a program's dashes" "$dashes $dashes mine $dashes" "$(says "$launch" -n 1 bash -c "printf '%s\n' $dashes $dashes mine $dashes >&2" | xargs)"
# On a busy machine mpirun itself loses its words now and then (1 of 15 under four loops).
named=0
for _ in 1 2 3 4 5; do
  if [[ $(says "$launch" -n 2 bash -c 'if [[ $OMPI_COMM_WORLD_RANK == 1 ]]; then kill -9 $$; fi; sleep 60') == *"rank 1 "*"signal 9"* ]]; then
    named=1
    break
  fi
done
expect "a killed rank is named" 1 "$named"
explains() {  # explains SETTING WORDS...: all of them are said
  local said setting=$1
  said=$(says env "$setting" "$launch" -n 2 true)
  for word in "${@:2}"; do [[ $said == *"$word"* ]] || expect "$setting says '$word'" 1 "$said"; done
}
explains "TESSERA_LAUNCHER_OPTIONS=--hostfile /none" "hostfile" "launch: exit code 1 is mpirun's" "--hostfile /none -n 2 hostname"
explains "TESSERA_LAUNCHER_OPTIONS=--map-by ppr:1:node" "more processes"
explains SLURM_JOBID=77 SLURM_NODELIST 'no Slurm answers for job 77' 'unset ${!SLURM_@}'
expect "mpirun's exit code" 1 "$(SLURM_JOBID=77 code "$launch" -n 2 true)"

# Ranks of one host that nobody binds do not share a core.
for pinned in OMP_PROC_BIND=Close OMP_PLACES=cores GOMP_CPU_AFFINITY=0-3; do
  said=$(env "$pinned" "$launch" -n 2 bash -c 'echo $OMP_PROC_BIND' 2>&1 | sort -u | xargs)
  [[ $said == *"false launch: note: OMP_PROC_BIND"*"set aside"* ]] || expect "$pinned" "false and a note" "$said"
done
expect "nothing to set aside" "unset" "$("$launch" -n 2 bash -c 'echo ${OMP_PROC_BIND-unset}' | sort -u)"

# Signals that a terminal or a batch system sends to all reach the ranks, once, as SIGUSR2; standard input stays the caller's.
taker='trap "exit 86" USR2; trap "exit 99" HUP TERM XCPU; touch "$0.$OMPI_COMM_WORLD_RANK"; for i in {1..200}; do sleep 0.1; done'
work=$(mktemp -d)
for signal in HUP XCPU TERM; do
  rm -f "$work"/up.*
  setsid "$launch" -n 2 bash -c "$taker" "$work/up" >/dev/null 2>&1 &
  child=$!
  until [[ -e $work/up.0 && -e $work/up.1 ]]; do sleep 0.1; done
  kill "-$signal" -- "-$child"
  ended=0
  wait "$child" || ended=$?
  expect "$signal to the whole group" 86 "$ended"
done
rm -r "$work"
expect "lines of a list that is read" "a b" "$(printf 'a\nb\n' | while read -r line; do "$launch" -n 2 true; echo "$line"; done | xargs)"

# Launchers that pass nothing on: an srun as after sbatch --export=NONE, and an mpirun over ssh.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/a=b"
cat >"$work/srun" <<'FAKE'
#!/bin/bash
[[ ${SLURM_EXPORT_ENV:-ALL} == ALL ]] && pass=ALL=1 || pass=NONE=1
while [[ $1 == -* ]]; do shift; done
exec env -i PATH="$PATH" "$pass" "$@"
FAKE
cat >"$work/mpirun" <<'FAKE'
#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == --bind-to || $1 == -n ]] && shift; shift; done
exec env -i PATH="$PATH" "$@"
FAKE
cat >"$work/a=b/show" <<'FAKE'
#!/bin/sh
echo "$OMP_NUM_THREADS $OMPI_MCA_mpi_yield_when_idle $TESSERA_TERMINAL $TESSERA_BIND ${ALL-} $1"
FAKE
chmod +x "$work/srun" "$work/mpirun" "$work/a=b/show"
for launcher in srun mpirun; do
  [[ $launcher == srun ]] && all=1 || all=
  expect "$launcher that passes nothing on" "3 1 0 off $all a b" "$(PATH="$work:$PATH" TESSERA_LAUNCHER=$launcher TESSERA_BIND=off \
    SLURM_JOB_ID=1 SLURM_EXPORT_ENV=NONE SLURM_CPUS_PER_TASK=3 "$launch" -n 2 "$work/a=b/show" "a b")"
done
# Of the job around, and of the step around.
cat >"$work/srun" <<'FAKE'
#!/bin/bash
echo "${SLURM_MEM_PER_CPU-none} ${SLURM_MEM_PER_NODE-none} ${SLURM_OVERLAP-none}"
FAKE
srun() { env PATH="$work:$PATH" TESSERA_LAUNCHER=srun SLURM_JOB_ID=1 "$@" "$launch" -n 2 true; }
expect "memory asked for twice" "none none none" "$(srun SLURM_MEM_PER_CPU=500 SLURM_MEM_PER_NODE=800)"
expect "memory asked for once" "500 none none" "$(srun SLURM_MEM_PER_CPU=500 SLURM_STEP_ID=4294967290)"
expect "inside of a step" "none none 1" "$(srun SLURM_STEP_ID=0)"
unset TESSERA_LAUNCHER
ln -s "$(command -v bash)" "$(command -v env)" "$work/a=b"
expect "a job without its Slurm" 2 "$(SLURM_JOB_ID=77 PATH="$work/a=b" code "$launch" -n 2 show)"
[[ $(SLURM_JOB_ID=77 PATH="$work/a=b" says "$launch" -n 2 show) == *"SLURM_JOB_ID is 77 and there is no srun"* ]] || expect "it says so" 1 0
expect "one rank runs without a launcher" "" "$("$launch" -n 1 bash -c 'echo ${OMPI_COMM_WORLD_RANK:-}')"
exit "$failed"
