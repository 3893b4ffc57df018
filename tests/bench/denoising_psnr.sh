#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the shipped and other weights reach: denoising beside published figures, time, and what 1,000 iterations do with
# the shipped ones; makes the page docs/weights.md: tests/bench/denoising_psnr.sh --data FOLDER
# TESSERA_PYTHON names a Python other than that of .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/denoising_psnr.sh --data FOLDER [options]
  --data FOLDER      holds set12/ (gray) and set5/ (color)
  --weights NAME=FILE:NETWORK:KIND   also what these reach, for example DnCNN-B=w.safetensors:dncnn:gray; may be repeated
  --no-stability     without the runs of 1,000 iterations
  --side N           side of the picture that is timed (1024)
  --build FOLDER     where tessera was built (build/release)
  --work FOLDER      pictures, job files, runs, weights.json (BUILD/bench/weights)
  --page FILE        (docs/weights.md; WORK/weights.md where something is left out)
END
}

build=build/release
data=
options=()
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --no-stability) options+=("$1") && shift ;;
    --build | --data | --weights | --side | --work | --page)
      [[ $# -ge 2 ]] || { usage >&2 && exit 2; }
      case $1 in
        --build) build=$2 ;;
        --data) data=$2 ;;
        *) options+=("$1" "$2") ;;
      esac
      shift 2 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
if [[ ! -x $build/bin/tessera ]]; then
  echo "$build/bin/tessera is missing (nothing to measure) build it: cmake --build --preset release" >&2
  exit 2
fi
if [[ ! -d $data/set12 || ! -d $data/set5 ]]; then
  echo "'$data' has no set12 and set5 (the pictures to denoise) name their folder with --data" >&2
  exit 2
fi
exec "${TESSERA_PYTHON:-.venv/bin/python}" -B tests/bench/denoising_psnr.py --build "$build" --data "$data" "${options[@]}"
