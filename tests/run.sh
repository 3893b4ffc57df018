#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Set-up, build and all tests, on a fresh machine: tests/run.sh [CTEST OPTIONS...]   e.g. tests/run.sh -L domain
#   TESSERA_PRESET  preset to build and test (release)
#   TESSERA_NIGHTLY 1: with the tests labelled nightly, which take long and repeat what others guard (tests/nightly.sh)
#   TESSERA_JOBS    compilers at once (jobs/compilers.sh: by cores and memory); tests: two more, for those of Slurm wait for
#                   each other, and others for processes to start
set -euo pipefail
case ${1:-} in
  --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/.."
preset=${TESSERA_PRESET:-release}
jobs=$(jobs/compilers.sh)
begin=$SECONDS
step() { printf '== %s (%d s)\n' "$1" $((SECONDS - begin)); }

step "set-up"
jobs/setup.sh --tests
step "configure"
cmake --preset "$preset"
step "build, $jobs compilers at once"
cmake --build --preset "$preset" -j "$jobs"
step "test, $((jobs + 2)) at once"
((${TESSERA_NIGHTLY:-0})) || set -- -LE nightly "$@"
log=build/$preset/tests.log
code=0
ctest --test-dir "build/$preset" -j "$((jobs + 2))" --no-tests=error --output-on-failure "$@" 2>&1 | tee "$log" || code=$?

# ctest calls a program passed that skipped some of its tests; they are named here.
skipped=$(sed -n 's/^\[  SKIPPED \] \([^ ]*\.[^ ]*\) (.*/\1/p' "build/$preset/Testing/Temporary/LastTest.log" | sort -u)
if [[ -n $skipped ]]; then
  printf '\nskipped inside programs (the reason is in build/%s/Testing/Temporary/LastTest.log):\n%s\n' "$preset" "$skipped"
  sed -n '/tests passed/,$p' "$log"
fi
step "done, exit code $code"
exit "$code"
