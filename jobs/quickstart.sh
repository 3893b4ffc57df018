#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# From a clone to a picture: sets up, builds, and reconstructs a real photograph on 2 ranks: jobs/quickstart.sh [RANKS]
#   The photograph (astronaut.png, 512 x 512, NASA, public domain) comes with scikit-image. It is blurred and gets noise;
#   total variation and a trained network then take both away again.
set -euo pipefail
unset PYTHONPATH PYTHONHOME  # a module's, for another Python
case ${1:-} in
  -h | --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
esac
ranks=${1:-2}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || { echo "usage: jobs/quickstart.sh [RANKS]" >&2; exit 2; }
cd "$(dirname "$0")/.."
jobs=$(jobs/compilers.sh)
begin=$SECONDS
step() { printf '== %s (%d s)\n' "$1" $((SECONDS - begin)); }

step "set-up"
jobs/setup.sh
step "build, $jobs compilers at once (by cores and memory; TESSERA_JOBS says otherwise)"
cmake --preset release >build.log 2>&1 || { tail -30 build.log >&2; exit 1; }
rm build.log
cmake --build --preset release --target tessera -j "$jobs"

tessera=build/release/bin/tessera
folder=runs/quickstart
mkdir -p "$folder"
.venv/bin/python jobs/show_quickstart.py photo "$folder"
step "simulate"
jobs/launch.sh -n "$ranks" "$tessera" simulate data/jobs/quickstart.yaml "$folder/measurement.h5" --force
step "reconstruct with total variation, $ranks ranks"
jobs/launch.sh -n "$ranks" "$tessera" run data/jobs/quickstart_tv.yaml --force
step "reconstruct with a network, $ranks ranks"
jobs/launch.sh -n "$ranks" "$tessera" run data/jobs/quickstart.yaml --force
step "done"
.venv/bin/python jobs/show_quickstart.py report "$folder"
cat <<TEXT

Go on:
  the job file            data/jobs/quickstart.yaml; every key: docs/job_file.md
  on more ranks           jobs/launch.sh -n 4 $tessera run data/jobs/quickstart.yaml --force
  a page about both runs  .venv/bin/python jobs/report.py $folder -o $folder/report.html
  other settings          add for example: --set problem.noise.gaussian=0.05 --set solver.iterations=12
  what it would take      $tessera check data/jobs/quickstart.yaml
  your own photograph     data/jobs/own_photo.yaml, step by step: docs/tutorial.md
TEXT
