#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The quickstart's jobs on 2 ranks, without its set-up and build: the network must beat total variation, and that the
# measurement, by clear margins.  tests/tooling/quickstart.sh SOURCE_DIR TESSERA PYTHON
set -euo pipefail
source=$1 tessera=$2 python=$3
"$python" -c 'import h5py, skimage' 2>/dev/null || { echo "skipped: no scikit-image (set-up puts it into .venv)"; exit 77; }
folder=$PWD/quickstart
rm -rf "$folder" && mkdir "$folder"
"$python" "$source/jobs/show_quickstart.py" photo "$folder"
launch() { "$source/jobs/launch.sh" -n 2 "$tessera" "$@" --set "problem.truth=$folder/photo.png"; }
launch simulate "$source/data/jobs/quickstart.yaml" "$folder/measurement.h5"
launch run "$source/data/jobs/quickstart_tv.yaml" --set "output.folder=$folder/tv"
launch run "$source/data/jobs/quickstart.yaml" --set "output.folder=$folder/drunet"
"$python" "$source/jobs/show_quickstart.py" report "$folder"
"$python" - "$folder" <<'PYTHON'
import json, pathlib, sys
tv, network = (json.loads((pathlib.Path(sys.argv[1]) / run / "summary.json").read_text()) for run in ("tv", "drunet"))
assert network["ranks"] == 2, network
assert abs(network["psnr_start"] - tv["psnr_start"]) < 1e-3, (network, tv)  # the same measurement
assert tv["psnr"] > tv["psnr_start"] + 3, tv
assert network["psnr"] > tv["psnr"] + 1, (network, tv)
PYTHON
test -s "$folder/comparison.png"
