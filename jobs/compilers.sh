#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# How many compilers this machine runs at once: cmake --build --preset release -j "$(jobs/compilers.sh)"
#   One per core and per 1.5 GB of memory, of what is free and granted to this shell, at least one. TESSERA_JOBS says otherwise.
# jobs/compilers.sh [ROOT]: with the proc and sys of another machine, for tests.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
esac
if [[ -n ${TESSERA_JOBS:-} ]]; then
  [[ $TESSERA_JOBS =~ ^[1-9][0-9]{0,3}$ ]] || {
    echo "TESSERA_JOBS is '$TESSERA_JOBS' (it says how many compilers run at once) give a number from 1 to 9999, or unset it" >&2
    exit 2
  }
  echo "$TESSERA_JOBS"
  exit
fi
root=${1:-}
jobs=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
at_most() { if (($1 < jobs)); then jobs=$1; fi; }
cores() { if [[ $1 =~ ^[0-9]+$ ]]; then at_most $((($1 + $2 - 1) / $2)); fi; }  # cores QUOTA PERIOD; max and -1: no limit
memory() { if [[ $1 =~ ^[0-9]{1,15}$ ]]; then at_most $(($1 / 1500000000)); fi; }  # memory BYTES
number() { cat "$1" 2>/dev/null || :; }

memory $(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' "$root/proc/meminfo") * 1024))
while IFS=: read -r _ controllers group; do  # "0::/path", or "9:memory:/path" of the first version
  while :; do  # a group is granted no more than those around it
    group=${group%/}
    case ,$controllers, in
      ,,)
        read -r quota period <<<"$(number "$root/sys/fs/cgroup$group/cpu.max")"
        cores "$quota" "${period:-1}"
        memory "$(number "$root/sys/fs/cgroup$group/memory.max")" ;;
      *,cpu,*)
        folder=$root/sys/fs/cgroup/$controllers$group
        cores "$(number "$folder/cpu.cfs_quota_us")" "$(number "$folder/cpu.cfs_period_us")" ;;
      *,memory,*) memory "$(number "$root/sys/fs/cgroup/memory$group/memory.limit_in_bytes")" ;;
    esac
    [[ -n $group ]] || break
    group=${group%/*}
  done
done < <(number "$root/proc/self/cgroup")
echo $((jobs > 0 ? jobs : 1))
