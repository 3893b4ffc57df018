#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs findings, all of them or those named, one line each and a count: findings/run.sh [NAME...]
# Exit code 1 if one changed or could not be tried. Its output then stands below its line.
set -euo pipefail
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if (($#)); then names=("${@%.sh}"); else
  names=()
  for script in *.sh; do
    [[ $script == run.sh || $script == support.sh ]] || names+=("${script%.sh}")
  done
fi
failed=0
for name in "${names[@]}"; do
  begin=$SECONDS code=0
  bash "$name.sh" >"$log" 2>&1 || code=$?
  case $code in
    0) word='still so' ;;
    2) word='not tried' ;;
    *) word=changed ;;
  esac
  printf '%-9s  %s (%d s)\n' "$word" "$name" $((SECONDS - begin))
  ((code == 0)) || { failed=$((failed + 1)); sed 's/^/    /' "$log"; }
done
echo "$((${#names[@]} - failed)) of ${#names[@]} findings still so"
((failed == 0))
