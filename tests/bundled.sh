#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the tests of a bundle (jobs/bundle.sh), where there is no ctest: ./run tests/bundled.sh [-L LABEL] [-n RANKS]
#   -L LABEL   only tests with this label     -n RANKS   on so many ranks, instead of those that the list says
# Exit code 1 if a test failed; the last lines count passed, skipped and failed ones.
set -euo pipefail
cd "$(dirname "$0")/.."
label="" override=""
while getopts L:n: option; do
  case $option in
    L) label=$OPTARG ;;
    n) override=$OPTARG ;;
    *) echo "usage: bundled.sh [-L LABEL] [-n RANKS]" >&2; exit 2 ;;
  esac
done
[[ -f tests/list.tsv ]] || { echo "no tests/list.tsv (this is no bundle) use tests/run.sh" >&2; exit 2; }

passed=0 skipped=() failed=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while IFS=$'\t' read -r -u 3 name labels ranks limit environment program; do
  [[ -n $label && ",$labels," != *",$label,"* ]] && continue
  ((ranks > 1)) && ranks=${override:-$ranks}
  code=0
  read -ra command <<<"$program"
  settings=()
  [[ $environment == - ]] || read -ra settings <<<"$environment"
  timeout "$limit" env ${settings[@]+"${settings[@]}"} jobs/launch.sh -n "$ranks" "${command[@]}" >"$log" 2>&1 || code=$?
  if [[ $code == 77 ]]; then
    skipped+=("$name")
    printf '%-40s skipped\n' "$name"
  elif [[ $code == 0 ]]; then
    passed=$((passed + 1))
    printf '%-40s passed, %s ranks\n' "$name" "$ranks"
    grep -E '^\[  SKIPPED \] .*\(' "$log" || true
  else
    failed+=("$name")
    printf '%-40s FAILED, %s ranks, exit code %s\n' "$name" "$ranks" "$code"
    tail -40 "$log"
  fi
done 3<tests/list.tsv
echo "passed $passed; skipped ${#skipped[@]}: ${skipped[*]-}; failed ${#failed[@]}: ${failed[*]-}"
((passed + ${#skipped[@]} + ${#failed[@]} > 0)) || { echo "no test has the label '$label'" >&2; exit 1; }
((${#failed[@]} == 0))
