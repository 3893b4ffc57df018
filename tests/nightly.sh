#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What tests/run.sh leaves out, before a version: every job of the documents at full size, the Slurm guide command by command,
# studies, reports of whole runs, the site, benchmarks that check themselves, a photograph on four ranks, volumes of 256^3, a
# thousand iterations of each solver, and tests/sanitized.sh: tests/nightly.sh [CTEST OPTIONS...]
set -euo pipefail
case ${1:-} in
  --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")"
TESSERA_NIGHTLY=1 ./run.sh -L nightly "$@"  # sets up the machine
exec ./sanitized.sh
