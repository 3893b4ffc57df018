#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# compilers.sh counts what a machine and its groups grant: tests/tooling/compilers.sh PATH_OF_COMPILERS
set -euo pipefail
compilers=$1
unset TESSERA_JOBS
machine=$PWD/made_machine
failed=0
expect() {  # expect WHAT WANTED GOT
  if [[ $2 != "$3" ]]; then
    echo "$1: wanted '$2', got '$3'"
    failed=1
  fi
}
# made FREE_KB LINE_OF_CGROUP [FILE TEXT]...: what is said on a machine of 64 cores
made() {
  rm -rf "$machine" && mkdir -p "$machine/proc/self" "$machine/bin"
  printf 'MemTotal: 999999999 kB\nMemAvailable:   %s kB\n' "$1" >"$machine/proc/meminfo"
  echo "$2" >"$machine/proc/self/cgroup"
  printf '#!/bin/sh\n[ -z "$OMP_NUM_THREADS" ] && echo 64\n' >"$machine/bin/nproc" && chmod +x "$machine/bin/nproc"
  shift 2
  while (($#)); do
    mkdir -p "$machine/sys/fs/cgroup/$(dirname "$1")"
    echo "$2" >"$machine/sys/fs/cgroup/$1"
    shift 2
  done
  OMP_NUM_THREADS=1 PATH=$machine/bin:$PATH "$compilers" "$machine" 2>&1
}

expect "cores" 64 "$(made 200000000 0::/)"
expect "memory" 10 "$(made 16000000 0::/)"
expect "little memory" 1 "$(made 800000 0::/)"
expect "a group's memory" 4 "$(made 200000000 0::/a/b a/memory.max 6000000000 a/b/memory.max max)"
expect "a group's cores" 3 "$(made 200000000 0::/a/b a/cpu.max 'max 100000' a/b/cpu.max '250000 100000')"
expect "the root's memory, as in a container" 2 "$(made 200000000 0::/ memory.max 3500000000)"
expect "the first version's memory" 5 "$(made 200000000 9:memory:/a memory/memory.limit_in_bytes 9223372036854771712 memory/a/memory.limit_in_bytes 8000000000)"
expect "the first version's cores" 7 "$(made 200000000 3:cpu,cpuacct:/ cpu,cpuacct/cpu.cfs_quota_us 700000 cpu,cpuacct/cpu.cfs_period_us 100000)"
expect "no limit" 64 "$(made 200000000 3:cpu,cpuacct:/ cpu,cpuacct/cpu.cfs_quota_us -1 cpu,cpuacct/cpu.cfs_period_us 100000)"
expect "this machine" yes "$([[ $("$compilers") -ge 1 ]] && echo yes)"
expect "what the user says" 5 "$(TESSERA_JOBS=5 "$compilers")"
for wrong in 0 -3 two 1.5; do
  expect "TESSERA_JOBS=$wrong" "code 2" "$(TESSERA_JOBS=$wrong "$compilers" 2>/dev/null || echo "code $?")"
done
rm -rf "$machine"
exit "$failed"
