#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Feeds hostile input to the readers of files and jobs (libFuzzer, clang 14): tests/fuzz.sh MINUTES [TARGET...]
#   MINUTES per target, as many at once as jobs/compilers.sh says; targets: safetensors network npy seal job texts picture measurements checkpoint trace crop plan diagnosis (all)
#   New inputs stay in build/fuzz/corpus; what fails is build/fuzz/TARGET-crash-*: make it small by
#   'build/fuzz/bin/fuzz_TARGET -minimize_crash=1 -runs=10000 FILE', and keep it in tests/fuzz/corpus/TARGET.
set -euo pipefail
case ${1:-} in
  "" | --help) sed -n '3,6s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/.."
minutes=$1
jobs=$(jobs/compilers.sh)
shift
targets=(safetensors network npy seal job texts picture measurements checkpoint trace crop plan diagnosis)
(($#)) && targets=("$@")
[[ -f build/fuzz/build.ninja ]] || cmake --preset fuzz
cmake --build --preset fuzz -j "$jobs" --target "${targets[@]/#/fuzz_}"

fuzz_one() { # TARGET
  local target=$1 code=0
  mkdir -p "build/fuzz/corpus/$target"
  local options=(-max_total_time="$(awk "BEGIN { print int(60 * $minutes) }")" -rss_limit_mb=1664 -timeout=20 -print_final_stats=1)
  [[ -f tests/fuzz/$target.dict ]] && options+=("-dict=tests/fuzz/$target.dict")
  # 1 GiB beyond the 0.6 GiB that the program itself takes. Memory that a library keeps is no leak of ours; a refused size is to be refused, not to end the program.
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64 LLVM_PROFILE_FILE=build/fuzz/$target.profraw CUDA_VISIBLE_DEVICES='' \
    "build/fuzz/bin/fuzz_$target" "${options[@]}" -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
    >"build/fuzz/$target.log" 2>&1 || { code=1; tail -40 "build/fuzz/$target.log"; }
  sed -n "s/^stat::number_of_executed_units: */$target: inputs /p" "build/fuzz/$target.log"
  grep -oE 'cov: [0-9]+ ft: [0-9]+' "build/fuzz/$target.log" | tail -1 | sed "s/^/$target: /" || :
  return "$code"
}
export -f fuzz_one
export minutes
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'
