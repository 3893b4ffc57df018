#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The cost model against runs: measures the machine, runs every case right after it, prints predicted and measured time
# and memory per case, their errors, median and 90th percentile.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/model_check.sh [options]
  --ranks LIST      numbers of MPI ranks (1,2,4); the cores are shared among them
  --networks LIST   of drunet, dncnn, unet (all)
  --sizes LIST      sides of the color image, pixels (256,384)
  --iterations N    timed per case, after one that is not timed (4)
  --build FOLDER    where tessera was built (build/release)
  --csv FILE        write the table there too
END
}
source tests/bench/options.sh
take_options '--ranks --networks --sizes --iterations --build --csv' "$@"
exec .venv/bin/python tests/bench/model_check.py ${arguments[@]+"${arguments[@]}"}
