#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# How good the shortest job is (problem and output, nothing else), beside the best setting of the same program and the best
# classical method, on 52 cases: tests/bench/defaults.sh [--half rule|check|new] [--only r01,c03] [--jobs N]   (hours of a core)
# Results are kept in build/release/bench/defaults: what was run is not run again; --again default runs the default anew.
# --older BUILD [--half new] [--size N] [--ranks N]: the default by this build and by another one, in turn, with seconds and
# passes of the network.
# defaults.md there is the table of docs/defaults.md. tests/bench/defaults.sh photographs | points: files as people have
# them; stars and fluorescence (minutes).
set -euo pipefail
cd "$(dirname "$0")/../.."
case ${1:-} in
  -h | --help) sed -n '3,9s/^# //p' "$0"; exit 0 ;;
esac
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONWARNINGS=ignore
case ${1:-} in
  photographs | points) what=$1; shift; exec .venv/bin/python -B "tests/bench/$what.py" build/release/bin/tessera "$@" ;;
esac
exec .venv/bin/python -B tests/bench/defaults.py "$@"
