#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Restores photographs from measurements that numpy made, by tessera and by other methods; makes the page docs/results.md,
# its table as CSV, its pictures and the convergence curves: tests/bench/restoration.sh
# The Python packages (BM3D among them, whose license allows non-commercial use only) get a virtual environment of their
# own, build/restoration-venv; TESSERA_RESTORATION_PYTHON names another Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/restoration.sh [options]
  --quick            two small pictures and two cells only, nothing else; writes no page
  --data FOLDER      also kernels/motion_N.npy, and cbsd10/, set5/ for the comparison with papers
  --weights NAME=FILE:NETWORK:KIND   also these weights, for example DnCNN=w.safetensors:dncnn:gray; may be repeated
  --seeds N          measurements of each picture (2)
  --pictures N       of each kind (3 gray, 3 color)
  --only WORD        cells whose name holds the word
  --without METHOD   leaves a method out; may be repeated
  --no-curves        without the runs of 1,000 iterations
  --no-crimes        without the table of what wrong assumptions cost
  --resume           keeps the results that are in the work folder already
  --jobs N           runs at once, one thread each (all cores)
  --build FOLDER     where tessera was built (build/release)
  --work FOLDER      job files, runs, results.csv (BUILD/bench/restoration)
  --page FOLDER      writes results.md and img/ here (docs; the work folder where something is left out)
END
}

build=build/release
options=()
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --build) build=$2 && shift 2 ;;
    --quick | --no-curves | --no-crimes | --resume) options+=("$1") && shift ;;
    --data | --weights | --seeds | --pictures | --only | --without | --jobs | --work | --page)
      [[ $# -ge 2 ]] || { usage >&2 && exit 2; }
      options+=("$1" "$2") && shift 2 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
if [[ ! -x $build/bin/tessera ]]; then
  echo "$build/bin/tessera is missing (nothing to measure) build it: cmake --build --preset release" >&2
  exit 2
fi

python=${TESSERA_RESTORATION_PYTHON:-build/restoration-venv/bin/python}
if [[ -z ${TESSERA_RESTORATION_PYTHON:-} ]] && ! "$python" -c 'import bm3d, h5py, matplotlib, pandas, skimage' 2>/dev/null; then
  python3 -m venv build/restoration-venv
  # bm3d 4.0.3 calls numpy.trapz, which later numpy does not have.
  build/restoration-venv/bin/pip install -q --disable-pip-version-check bm3d==4.0.3 numpy==2.2.6 scipy==1.17.1 \
    scikit-image==0.26.0 matplotlib==3.11.2 h5py==3.16.0 pandas==3.1.1
fi
# One thread for each of the runs at once.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONWARNINGS=ignore
exec "$python" -B tests/bench/restoration.py --build "$build" "${options[@]}"
