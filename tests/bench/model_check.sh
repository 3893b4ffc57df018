#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The cost model against runs: measures the machine, runs every case right after it, prints predicted and measured time
# (all of it, and its terms: denoiser, data step, exposed communication) and memory per case, their errors, median and
# 90th percentile. Each case runs twice: what is measured is the median over the iterations of the faster run, and how
# far the two medians are apart is printed too.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/model_check.sh [options]
  --ranks LIST      numbers of MPI ranks (1,2,4); the cores are shared among them
  --networks LIST   of drunet, dncnn, unet (all)
  --sizes LIST      sides of the color image, pixels (256,384)
  --seconds N       of iterations per run of a case (1)
  --iterations N    at least so many, after one that is not timed (4)
  --repeat N        runs of each case (2)
  --machines FOLDER machine files, measured where it has none (measured each time)
  --build FOLDER    where tessera was built (build/release)
  --csv FILE        write the table there too
END
}
source tests/bench/options.sh
take_options '--ranks --networks --sizes --iterations --seconds --repeat --machines --build --csv' "$@"
exec .venv/bin/python tests/bench/model_check.py ${arguments[@]+"${arguments[@]}"}
