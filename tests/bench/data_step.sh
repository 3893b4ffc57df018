#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Times of the data step with one thread and with two, on one rank: data_step.sh step | blurs [ROUNDS [BUILD]].
#   step    eight turned blurs of 512 x 512 color: gradient, closed-form prox, inner products, noise, checksum
#   blurs   tap by tap against FFT, kernels of 3 x 3 to 25 x 25: which of them `method: auto` takes
# Medians; on an idle machine only.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${1:-} == step || ${1:-} == blurs ]] || { sed -n '3,6s/^# //p' "$0" >&2; exit 2; }
build=${3:-build/release}
log=$build/bench_data_step.log
cmake --build "$build" --target bench_data_step >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
for threads in 1 2; do
  OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$threads "$build/bin/bench_data_step" "$1" "${2:-9}"
done
