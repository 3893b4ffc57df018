#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The fast part of the sanitized suite: tests/sanitized.sh [FOLDERS...]   those of tests/ that need no torch (core scene comm io)
# All of it is TESSERA_PRESET=sanitize tests/run.sh, which also sets up the machine.
set -euo pipefail
if [[ ${1:-} == --help ]]; then
  sed -n '3,4s/^# //p' "$0"
  exit 0
fi
cd "$(dirname "$0")/.."
jobs=$(jobs/compilers.sh)
folders=("$@")
[[ $# -gt 0 ]] || folders=(core scene comm io)
targets=("${folders[@]/#/tests/}")
targets=("${targets[@]/%//all}")
begin=$SECONDS

log=build/sanitize.log
mkdir -p build
run() {
  "$@" >>"$log" 2>&1 || { tail -n 100 "$log"; echo "sanitized: $1 failed (the end of $log is above)" >&2; exit 1; }
}
: >"$log"
run cmake --preset sanitize
run cmake --build --preset sanitize -j "$jobs" --target "${targets[@]}"
built=$((SECONDS - begin))
run ctest --test-dir build/sanitize -j "$jobs" --no-tests=error --output-on-failure -L "^($(IFS='|'; echo "${folders[*]}"))\$"
printf 'sanitized: %s passed (%d s of build, %d s in all)\n' "${folders[*]}" "$built" $((SECONDS - begin))
