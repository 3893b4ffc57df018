#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Set-up, build, all tests, on a fresh machine: tests/run.sh [ctest options]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs/setup.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)"
ctest --test-dir build/release --output-on-failure "$@"
