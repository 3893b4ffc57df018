#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One PnP-PGD iteration (circular Gaussian blur, network with random weights) by tessera, by deepinv untiled and
# by deepinv.distributed with its default tiling on 1 and on 2 processes, in turn; medians, ratios, the targets,
# and a check that the images agree.
# deepinv 0.5.0 gets a virtual environment of its own, build/bench-venv; TESSERA_DEEPINV_PYTHON names another one.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/compare_deepinv.sh [options]
  --network NAME    drunet or dncnn, full width (both, one after the other)
  --size N          side of the color image, pixels (drunet 512, dncnn 1024); above 256, a multiple of 8
  --repetitions N   rounds of the programs in turn (3)
  --iterations N    timed iterations per program and round, after one that is not timed (1)
  --ranks N         MPI ranks of tessera (1); the cores are shared among them
  --build FOLDER    where tessera was built (build/release)
END
}

networks=(drunet dncnn) side='' repetitions=3 iterations=1 ranks=1 build=build/release
while (($#)); do
  case $1 in
    --network) networks=("$2") ;;
    --size) side=$2 ;;
    --repetitions) repetitions=$2 ;;
    --iterations) iterations=$2 ;;
    --ranks) ranks=$2 ;;
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

python=${TESSERA_DEEPINV_PYTHON:-build/bench-venv/bin/python}
if [[ -z ${TESSERA_DEEPINV_PYTHON:-} ]] && ! "$python" -c 'import deepinv' 2>/dev/null; then
  python3 -m venv build/bench-venv
  build/bench-venv/bin/pip install -q deepinv==0.5.0 torch==2.11.0
fi
export PYTHONWARNINGS=ignore
part() { "$1" tests/bench/compare_deepinv.py "${@:2}"; }
cores=$(nproc)

# compare NETWORK SIZE TARGET_UNTILED TARGET_DISTRIBUTED
compare() {
  local network=$1 size=$2 folder=$build/bench/deepinv-$1-$2 sigma='sigma: 0.02, ' round way processes
  rm -rf "$folder" && mkdir -p "$folder"
  part "$python" prepare "$folder" --size "$size" --network "$network"
  [[ $network == drunet ]] || sigma=''  # dncnn takes none, and tessera refuses keys that act on nothing
  cat >"$folder/job.yaml" <<END
schema: 1
problem:
  truth: truth.png
  operator: {type: blur, kernel: {gaussian: {sigma: [1.6, 1.6]}}, boundary: circular}
denoiser: {network: $network, weights: weights.safetensors}
solver: {name: pgd, iterations: $((iterations + 1)), step: 1.0, ${sigma}start: adjoint}
output: {folder: tessera}
END
  for ((round = 1; round <= repetitions; ++round)); do
    OMP_NUM_THREADS=$((cores / ranks > 0 ? cores / ranks : 1)) \
      jobs/launch.sh -n "$ranks" "$tessera" run "$folder/job.yaml" --force >"$folder/tessera.log" 2>&1 ||
      { cat "$folder/tessera.log" >&2; exit 1; }
    echo "tessera $(part .venv/bin/python tessera "$folder")" >>"$folder/seconds.txt"
    for way in untiled tiled tiled2; do
      processes=1 launch=("$python")
      if [[ $way == tiled2 ]]; then
        processes=2 launch=("$python" -m torch.distributed.run --standalone --nproc_per_node 2)
      fi
      "${launch[@]}" tests/bench/compare_deepinv.py "${way%2}" "$folder" --network "$network" \
        --iterations "$iterations" --threads $((cores / processes > 0 ? cores / processes : 1)) \
        >"$folder/$way.log" 2>&1 || { cat "$folder/$way.log" >&2; exit 1; }
      echo "$way $(<"$folder/${way%2}.txt")" >>"$folder/seconds.txt"
    done
  done
  echo "one PnP-PGD iteration, $network, $size x $size color, float32, $cores cores, $ranks ranks, $repetitions rounds"
  part .venv/bin/python report "$folder" --targets "$3" "$4"
}

for network in "${networks[@]}"; do
  case $network in
    drunet) compare drunet "${side:-512}" 2.0 4.0 ;;
    dncnn) compare dncnn "${side:-1024}" 2.5 5.0 ;;
    *) echo "no network $network (it would not be compared) write drunet or dncnn" >&2; exit 2 ;;
  esac
done
