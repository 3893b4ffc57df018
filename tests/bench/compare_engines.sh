#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One pass of DRUNet, sigma map included, with the same weights over the same random image by tessera, torch as it is
# and compiled, OpenVINO, ONNX Runtime and deepinv: each in a process of its own, all in turn, as a Markdown table.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/compare_engines.sh [options]
  --networks LIST    of drunet_small_color, drunet_small_gray, drunet_wide_gray and full, which is the published
                     widths for color with random weights (all)
  --sizes LIST       sides of the image, pixels, multiples of 8 (512,1024,2048)
  --precisions LIST  of float32, bfloat16 (both; float32 where the processor has no bfloat16 instructions)
  --engines LIST     of torch, compile, openvino, onnxruntime, deepinv; tessera always runs (all)
  --threads N        of every engine (all cores)
  --rounds N         rounds of the engines in turn, after a pass each that is not timed (3)
  --limit SECONDS    of a start, or of a pass; an engine that takes longer is left out (120)
  --build FOLDER     where tessera was built (build/release)
  --python FOLDER    a virtual environment, such as build/engines-venv; made and filled, 6 GB, where there is none
                     (a temporary one, made each time)
END
}

python='' arguments=()
while (($#)); do
  case $1 in
    --help) usage && exit 0 ;;
    --networks | --sizes | --precisions | --engines | --threads | --rounds | --limit | --build | --python)
      (($# >= 2)) || { echo "$1 has no value (every option has one) see --help" >&2; exit 2; }
      [[ $1 == --python ]] && python=$2 || arguments+=("$1" "$2")
      shift 2
      ;;
    *) echo "unknown option $1 (it would be ignored) see --help" >&2 && exit 2 ;;
  esac
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Wrong options end it here, before anything is installed.
python3 tests/bench/compare_engines.py check "$folder" ${arguments[@]+"${arguments[@]}"}
python=${python:-$folder/venv}
if [[ ! -e $python ]]; then
  python3 -m venv "$python"
  "$python/bin/pip" install -q torch==2.11.0 'openvino==2026.4.*' 'onnxruntime==1.32.*' onnx onnxscript \
    deepinv==0.5.0 safetensors h5py || { rm -rf "$python"; exit 1; }
fi
export PYTHONWARNINGS=ignore
"$python/bin/python" tests/bench/compare_engines.py run "$folder" ${arguments[@]+"${arguments[@]}"}
