#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Everything that needs a GPU, on a machine with one or more: tests/gpu.sh
#   1. all tests labeled gpu   2. one whole run on 1, 2 and 4 ranks against the CPU result
#   3. compute-sanitizer over the kernels' tests, where it is installed
# Works in a build tree and in an unpacked bundle (jobs/bundle.sh). With one GPU its ranks share it, and messages go
# through host memory (NCCL refuses two ranks on one GPU). Exit code 77 without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=()
step() { printf '\n== %s\n' "$1"; }

if ! "$bin/tessera" info | tee "$out/info" | grep -q '^GPU 0'; then
  cat "$out/info"
  echo "skipped: no GPU on this machine"
  exit 77
fi
cat "$out/info"
gpus=$(grep -c '^GPU [0-9]' "$out/info")

step "tests labeled gpu"
if [[ -f tests/list.tsv ]]; then
  gpu_tests=$(awk -F'\t' '$2 ~ /(^|,)gpu(,|$)/ {print $1}' tests/list.tsv)
  tests/bundled.sh -L gpu || failed+=("tests labeled gpu")
else
  gpu_tests=$(ctest --test-dir build/release -L gpu -N | sed -n 's/^ *Test *#[0-9]*: //p')
  ctest --test-dir build/release -L gpu --no-tests=error --output-on-failure || failed+=("tests labeled gpu")
fi

# The same job on every device and rank count: float32 results differ by rounding only.
step "whole runs"
job=data/jobs/quickstart.yaml
if [[ ! -f runs/quickstart/photo.png ]]; then
  mkdir -p runs/quickstart
  .venv/bin/python jobs/show_quickstart.py photo runs/quickstart
fi
run() {  # run RANKS DEVICE TRANSPORT FOLDER
  jobs/launch.sh -n "$1" "$bin/tessera" run "$job" --set "device=$2" --set "domain.transport=$3" \
    --set "output.folder=$4" >"$4.log" 2>&1 || { tail -30 "$4.log"; return 1; }
}
compare() {  # compare NAME FOLDER
  local line error
  line=$("$bin/tessera" compare "$out/cpu/reconstruction.h5" "$2/reconstruction.h5" | head -1)
  error=$(sed -n 's/.*relative error \([0-9.e+-]*\).*/\1/p' <<<"$line")
  echo "$1: $line; $(sed -n 's/.*"seconds_per_iteration": \([^,]*\),/\1 s per iteration/p' "$2/summary.json")"
  awk -v e="$error" 'BEGIN {exit !(e != "" && e + 0 < 1e-4)}' || failed+=("$1 differs from the CPU by $error")
}
if run 1 cpu mpi "$out/cpu"; then
  for ranks in 1 2 4; do
    run "$ranks" cuda mpi "$out/mpi-$ranks" && compare "$ranks ranks, mpi" "$out/mpi-$ranks" ||
      failed+=("run on $ranks ranks, mpi")
    ((ranks <= gpus)) || continue
    run "$ranks" cuda nccl "$out/nccl-$ranks" && compare "$ranks ranks, nccl" "$out/nccl-$ranks" ||
      failed+=("run on $ranks ranks, nccl")
  done
else
  failed+=("run on the CPU")
fi

step "compute-sanitizer"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [[ -z $sanitizer ]]; then
  echo "skipped: no compute-sanitizer (it comes with the CUDA toolkit)"
else
  for tool in memcheck racecheck synccheck; do
    for name in $gpu_tests; do
      program=$bin/test_$name
      "$sanitizer" --tool "$tool" --error-exitcode 9 "$program" >"$out/sanitizer" 2>&1 ||
        { tail -30 "$out/sanitizer"; failed+=("$tool of ${program##*/}"); }
      echo "$tool ${program##*/}: $(tail -1 "$out/sanitizer")"
    done
  done
fi

step "result"
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "all passed on $gpus GPU(s)"
