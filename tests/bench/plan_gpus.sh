#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the cost model predicts for GPUs that are described: the table of docs/gpu.md. tests/bench/plan_gpus.sh [SIZE [RANKS...]]
#   An iteration of data/jobs/scaling.yaml (full-width DRUNet, a blur, color) on SIZE x SIZE pixels (4096), RANKS GPUs (1 8 64).
#   PREDICTED from data sheets; needs no GPU.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/../.."
size=${1:-4096}
shift || true
ranks=("${@:-1}")
(($# > 0)) || ranks=(1 8 64)
list=$(IFS=,; echo "${ranks[*]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "| predicted, $size x $size | precision |$(printf ' %s GPUs |' "${ranks[@]}" | sed 's/ 1 GPUs/ 1 GPU/')"
echo "|---|---|$(printf -- '---|%.0s' "${ranks[@]}")"
for gpu in a100 h100 h200 b200; do
  for precision in float32 bfloat16; do
    csv=$work/$gpu-$precision.csv
    "${TESSERA:-build/release/bin/tessera}" plan data/jobs/scaling.yaml --machine "data/machines/$gpu-nvlink-infiniband.yaml" \
      --ranks "$list" --precision "$precision" --set "problem.truth={scene: {size: [$size, $size]}}" --csv "$csv" >/dev/null
    awk -F, -v name="${gpu^^} | $precision |" '
      NR == 1 {for (i = 1; i <= NF; i++) column[$i] = i; printf "| %s", name; next}
      {s = $column["seconds"]; printf(s < 1 ? " %.3g ms" : " %.3g s", s < 1 ? 1e3 * s : s)
       printf " (%.0f %%), %s |", 100 * $column["efficiency"], $column["mode"]}
      END {print ""}' "$csv"
  done
done
