#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Forward projection and adjoint of the projector and of other packages in turn, on the same cores: seconds and accuracy
# against a closed form, one table. Peers: astra-toolbox 2.5.0 (2-D), mbirjax 0.7.3 (3-D), in a temporary environment
# of Python, or in the one that --venv names.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/tomography.sh [options]
  --rounds N        of which the best counts (3)
  --threads N       (all cores; astra has one)
  --no-peers        the projector alone
  --small           512^2 and 96^3, fewer views of the peers: a minute
  --sides           128, 256 and 512: time per voxel and view
  --venv FOLDER     with astra-toolbox and mbirjax
  --build FOLDER    the build tree (build/release)
END
}

rounds=3 threads=$(nproc) peers=1 sides=0 small=0 venv= build=build/release
while (($#)); do
  case $1 in
    --rounds) rounds=$2 && shift ;;
    --threads) threads=$2 && shift ;;
    --no-peers) peers=0 ;;
    --sides) sides=1 ;;
    --small) small=1 ;;
    --venv) venv=$2 && shift ;;
    --build) build=$2 && shift ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
cmake --build "$build" --target bench_projector >"$build/bench_projector.log" 2>&1 ||
  { cat "$build/bench_projector.log" >&2; exit 1; }
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads
if ((peers)) && [[ -z $venv ]]; then
  venv=$(mktemp -d)
  trap 'rm -rf "$venv"' EXIT
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet astra-toolbox==2.5.0 mbirjax==0.7.3
fi
echo "$(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs), $threads threads, load $(cut -d' ' -f1 /proc/loadavg)"
if ((sides)); then
  for side in 128 256 512; do
    for case in parallel3 cone; do "$build/bin/bench_projector" "$case" "$rounds" "$side"; done
  done
  exit
fi
for case in parallel2 fan2 parallel3 cone; do
  size=()
  if ((small)); then
    case $case in
      parallel3) size=(96 60) ;;
      cone) size=(96 20) ;;
      *) size=(512) ;;
    esac
  fi
  "$build/bin/bench_projector" "$case" "$rounds" "${size[@]:0:1}"
  if ((peers)) && [[ $case != fan2 ]]; then
    # mbirjax keeps a log and compiled code in the home folder, jax takes all cores that it may.
    HOME=$venv taskset -c "0-$((threads - 1))" "$venv/bin/python" -B tests/bench/tomography_peers.py "$case" "${size[@]}" 2>/dev/null
  fi
done
