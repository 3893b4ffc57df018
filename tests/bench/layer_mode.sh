#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Layer mode's price: one denoising pass on 1 rank x 2 threads, 2 ranks x 1 thread and 4 ranks x 1 thread, in
# turn. Efficiency of 2 ranks, exposed waits, packing; medians of the rounds, and a check that the images agree.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/layer_mode.sh [options]
  --weights NAME   drunet_small_color (default), or random for the published widths
  --size N         side of the color image, pixels (1024)
  --rounds N       of the runs in turn (3)
  --depth N        denoiser.halo_depth (1)
  --four           also 4 ranks x 1 thread, for packing and MPI
  --build FOLDER   where tessera was built (build/release)
END
}

weights=drunet_small_color size=1024 rounds=3 depth=1 four=0 build=build/release
while (($#)); do
  case $1 in
    --weights) weights=$2 ;;
    --size) size=$2 ;;
    --rounds) rounds=$2 ;;
    --depth) depth=$2 ;;
    --four) four=1; shift; continue ;;
    --build) build=$2 ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done
tessera=$build/bin/tessera
if [[ ! -x $tessera ]]; then
  echo "$tessera is missing (nothing to measure) build it: cmake --build --preset release" >&2
  exit 2
fi

folder=$build/bench/layer-$weights-$size
rm -rf "$folder" && mkdir -p "$folder"
part() { .venv/bin/python tests/bench/layer_mode.py "$@"; }
part prepare "$folder" --size "$size"
cat >"$folder/job.yaml" <<END
schema: 1
problem: {truth: truth.png, operator: {type: identity}}
denoiser: {network: drunet, weights: $weights, mode: layer, halo_depth: $depth}
solver: {name: pgd, iterations: 3, sigma: 0.05}
output: {folder: out, preview: none}
END

run() {  # ranks, threads
  local out=$folder/$1
  OMP_NUM_THREADS=$2 jobs/launch.sh -n "$1" "$tessera" run "$folder/job.yaml" --force --set "output.folder=$PWD/$out" \
    >"$out.log" 2>&1 || { cat "$out.log" >&2; exit 1; }
  part read "$folder" --ranks "$1" >>"$folder/rounds.jsonl"
}
for ((round = 1; round <= rounds; ++round)); do
  run 1 2
  run 2 1
  if ((four)); then run 4 1; fi
done

echo "one pass of drunet, weights $weights, $size x $size color, float32, layer mode, halo depth $depth, $rounds rounds"
part report "$folder"
