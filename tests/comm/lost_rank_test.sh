#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# lost_rank_test.sh LAUNCHER PROGRAM hang|kill|freeze|slow|fail: what a job of 4 ranks does when rank 2 is lost.
set -uo pipefail
launcher=$1 program=$2 how=$3
limit=1
out=$(mktemp)
words=$(mktemp -d)
trap 'rm -rf "$out" "$words"' EXIT
fail() { echo "FAILED: $*"; cat "$out"; exit 1; }
all_spoke() {
  for r in 0 1 3; do
    grep -qsE "^rank $r was ended by SIGTERM in (reduce|halo), iteration 1[23]( \(it waited .*\))?$" "$words/rank-$r" || return 1
  done
}
# A launcher that cleans up may end a survivor before its handler has run (about 1 job of 8 here): such a job is tried
# again, up to 5 times.
tries=1
[[ $how == kill ]] && tries=5 limit=10  # nor may the watchdog be faster than a launcher on a busy machine
for ((try = 1; try <= tries; ++try)); do
  rm -f "$words"/*
  begin=$(date +%s%N)
  TESSERA_PATIENCE=0.5 TESSERA_LAUNCHER=mpirun timeout 60 "$launcher" -n 4 "$program" "$how" 2 "$limit" "$words" > "$out" 2>&1
  code=$?
  took=$(( ($(date +%s%N) - begin) / 1000000 ))
  echo "$how: exit code $code after $took ms"
  cat "$out"
  ((took < 15000)) || fail "took $took ms"
  all_spoke && break
done
case $how in
  hang | freeze)
    ((code == 3)) || fail "exit code $code, wanted 3"
    pattern='^rank [013] waited [0-9]+ s for rank 2 in (reduce|halo), iteration 1[23] \(rank 2 sent nothing: (its process stands still, last seen )?in denoise, iteration 12, for [0-9]+ s\) see its last line in log.txt$'
    (($(cat "$words"/rank-* | grep -cE "$pattern") == 1)) || fail "the message that names rank 2 is not there exactly once"
    ;;
  kill)
    ((code == 137)) || fail "exit code $code, wanted the launcher's 137"
    all_spoke || fail "in $tries jobs some survivor did not say where it was"
    ;;
  fail)
    ((code == 3)) || fail "exit code $code, wanted 3"
    grep -qx 'tessera: rank 2 failed: the disk is full' "$out" || fail "the rank that failed does not say why"
    ;;
  slow)
    ((code == 0)) && grep -q finished "$out" || fail "a slow rank that still works was taken for a hanging one"
    ;;
esac
# Folders of other jobs may be there; ours names the uid and a process that has gone.
for folder in /dev/shm/tessera-"$(id -u)"-*; do
  [[ -e $folder && $folder -nt $out ]] && [[ ! -d /proc/${folder##*-} ]] && fail "$folder was left behind"
done
exit 0
