#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Convolutions of volumes and a pass of drunet3d, ours and torch's in turn (docs/volumes_measured.md).
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/volume_throughput.sh [options]
  --size N          side of the volume, voxels (64), a multiple of 4
  --rounds N        rounds in turn (5)
  --threads N       (all cores)
  --clock NAME      wall (default), or cpu: seconds of all threads, for a machine with other work
  --build FOLDER    the build tree (build/release)
  --deepinv PYTHON  then a pass of deepinv's DRUNet in three dimensions, by a Python that has deepinv 0.5.0
                    (that of tests/bench/compare_deepinv.sh: build/bench-venv/bin/python)
END
}

size=64 rounds=5 threads=$(nproc) clock=wall build=build/release deepinv=
while (($#)); do
  case $1 in
    --size) size=$2 ;;
    --rounds) rounds=$2 ;;
    --threads) threads=$2 ;;
    --clock) clock=$2 ;;
    --build) build=$2 ;;
    --deepinv) deepinv=$2 ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done
cmake --build "$build" --target bench_volume_throughput >"$build/bench_volume_throughput.log" 2>&1 ||
  { cat "$build/bench_volume_throughput.log" >&2; exit 1; }
OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$threads "$build/bin/bench_volume_throughput" "$size" "$rounds" "$clock"
[[ -z $deepinv ]] || OMP_NUM_THREADS=$threads "$deepinv" tests/bench/volume_deepinv.py "$size" "$rounds" "$clock"
