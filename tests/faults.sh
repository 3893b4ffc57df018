#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Faults, kills and damage against runs of 3 ranks, of which docs/reliability.md tells: tests/faults.sh [FAULTS [KILLS]]
#   FAULTS  injected one by one (2000), each in a run of its own: about 3 s each on 2 idle cores
#   KILLS   kill -9 of a random rank (300)
#   TESSERA_PRESET  the build to test (release)
set -euo pipefail
case ${1:-} in
  --help) sed -n '3,6s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/.."
build=build/${TESSERA_PRESET:-release}
cmake --build "$build" --target tessera tessera_faults
python=.venv/bin/python3
[[ -x $python ]] || python=python3
code=0
nice "$python" tests/faults/sweep.py "$build/bin/tessera" "$build/bin/libtessera_faults.so" --faults "${1:-2000}" || code=1
nice "$python" tests/faults/kills.py "$build/bin/tessera" --kills "${2:-300}" || code=1
exit "$code"
