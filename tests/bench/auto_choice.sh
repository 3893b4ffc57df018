#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Is `auto` the fastest? Measures every choice that the cost model thinks worth a try on each case (tessera tune), and
# prints what the model's own first choice takes over the fastest one. With the tuned file auto takes the fastest.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/auto_choice.sh [options]
  --ranks LIST      numbers of MPI ranks (1,2,4); the cores are shared among them
  --networks LIST   of drunet, dncnn, unet (all)
  --sizes LIST      sides of the color image, pixels (256,384)
  --seconds N       measured per choice (3)
  --build FOLDER    where tessera was built (build/release)
END
}
source tests/bench/options.sh
take_options '--ranks --networks --sizes --seconds --build' "$@"
exec .venv/bin/python tests/bench/model_check.py --what auto ${arguments[@]+"${arguments[@]}"}
