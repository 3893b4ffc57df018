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
ends=()
step() { ends+=("$((SECONDS - begin))"); printf '== %s (%d s)\n' "$1" "${ends[-1]}"; }

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
printf '\nslowest:\n'
sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*/\2 s  \1/p' "$log" | sort -rn | awk 'NR <= 10'
step "done, exit code $code"
printf 'timing: set-up %d s, configure %d s, build %d s (%d at once), test %d s (%d at once)\n' \
  $((ends[1] - ends[0])) $((ends[2] - ends[1])) $((ends[3] - ends[2])) "$jobs" $((ends[4] - ends[3])) $((jobs + 2)) | tee -a "$log"
exit "$code"
