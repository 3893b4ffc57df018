#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Convolution throughput of a full network pass against the best of its single layers, measured in turn: how much
# the runner loses between the convolutions. Also each layer kind against oneDNN's.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/conv_throughput.sh [options]
  --network NAME    drunet (default), dncnn or unet, full width
  --size N          side of the color image, pixels (512), a multiple of 8
  --rounds N        rounds of pass and layers in turn (5)
  --threads N       (all cores)
  --clock NAME      wall (default), or cpu: seconds of all threads, for a machine with other work
  --build FOLDER    the build tree (build/release)
END
}

network=drunet size=512 rounds=5 threads=$(nproc) clock=wall build=build/release
while (($#)); do
  case $1 in
    --network) network=$2 ;;
    --size) size=$2 ;;
    --rounds) rounds=$2 ;;
    --threads) threads=$2 ;;
    --clock) clock=$2 ;;
    --build) build=$2 ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done
cmake --build "$build" --target bench_conv_throughput >"$build/bench_conv_throughput.log" 2>&1 ||
  { cat "$build/bench_conv_throughput.log" >&2; exit 1; }
OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$threads "$build/bin/bench_conv_throughput" "$network" "$size" "$rounds" 0.85 "$clock"
