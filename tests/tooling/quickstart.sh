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
"$python" "$source/jobs/show_quickstart.py" report "$folder" | tee "$folder/said.txt"
"$python" - "$folder" "$source/README.md" <<'PYTHON'
import json, pathlib, re, sys
from skimage import io
tv, network = (json.loads((pathlib.Path(sys.argv[1]) / run / "summary.json").read_text()) for run in ("tv", "drunet"))
assert network["ranks"] == 2, network
assert abs(network["psnr_start"] - tv["psnr_start"]) < 1e-3, (network, tv)  # the same measurement
assert tv["psnr"] > tv["psnr_start"] + 3, tv
assert network["psnr"] > tv["psnr"] + 1, (network, tv)
# The README's table is what comes out, but for the seconds.
def rows(path):
    found = re.findall(r"^(measurement|total variation|network) +([\d.]+) dB *([\d.]*) *[\d.]* *(\d*)$", pathlib.Path(path).read_text(), re.M)
    return {name: (float(psnr), float(ssim or 0), iterations) for name, psnr, ssim, iterations in found}
said, readme = rows(f"{sys.argv[1]}/said.txt"), rows(sys.argv[2])
assert len(said) == 3 and said.keys() == readme.keys(), (said, readme)
for name, (psnr, ssim, iterations) in said.items():
    assert abs(psnr - readme[name][0]) < 0.02 and abs(ssim - readme[name][1]) < 0.002 and iterations == readme[name][2], (name, said, readme)
# All four pictures show the same face.
four = io.imread(f"{sys.argv[1]}/comparison.png").astype(float)
means = [four[:, k * 392:k * 392 + 384].mean() for k in range(4)]
assert four.shape[1] == 4 * 392 - 8 and max(means) - min(means) < 3, means
PYTHON
test -s "$folder/comparison.png"
