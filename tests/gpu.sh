#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Everything that a machine with a GPU can say, in one go of at most 30 minutes: tests/gpu.sh [--out FOLDER] [--only PARTS] [--rehearse]
#   tests: those labeled gpu   runs: whole ones on 1, 2 and 4 ranks, every precision, transport and mode, against the CPU
#   training: a network against the CPU's, and steps per second   large: an image above 2^31 elements per feature
#   tomography: the projector, voxels times views per second, against the CPU
#   sanitizer: compute-sanitizer, where it runs   studies: what is measured   (--only tests,runs: these of the seven parts)
#   FOLDER (runs/gpu) keeps every log, gpu.md (a page of tables) and the figures, ready for docs/ and docs/img/.
#   --rehearse walks through all of it on the CPU with small sizes, where there is no GPU: the script's own test.
# Works in a build tree and in an unpacked bundle (jobs/bundle.sh). With one GPU its ranks share it, and messages go
# through host memory (NCCL refuses two ranks on one GPU). Exit code 77 without a GPU and without a driver for one; a
# driver that does not work is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=tests,runs,training,large,tomography,sanitizer,studies
out=runs/gpu rehearse="" only=$parts
while (($#)); do
  case $1 in
    -h | --help) sed -n '3,12s/^# //p' "$0"; exit 0 ;;
    --out) out=${2:?"--out wants a folder"}; shift ;;
    --only) only=${2:?"--only wants parts, as tests,runs"}; shift ;;
    --rehearse) rehearse=yes ;;
    *) echo "unknown option $1 (gpu.sh [--out FOLDER] [--only PARTS] [--rehearse]) see --help" >&2; exit 2 ;;
  esac
  shift
done
for part in ${only//,/ }; do
  [[ ,$parts, == *,$part,* ]] || { echo "unknown part $part (known: ${parts//,/, }) see --help" >&2; exit 2; }
done
part() { [[ ,$only, == *,$1,* ]] && step "$2"; }
bin=build/release/bin
mkdir -p "$out"
out=$(realpath "$out")
failed=() skipped=()
began=$SECONDS
step() { printf '\n== %s (after %d s)\n' "$1" $((SECONDS - began)); }
fail() { failed+=("$1"); echo "FAILED: $1"; }
skip() { skipped+=("$1"); echo "skipped: $1"; }

"$bin/tessera" info | tee "$out/info.txt"
if [[ $rehearse ]]; then
  device=cpu side=256 iterations=2 gpus=0 quick=(--quick --scale 32)
elif grep -q '^GPU  *unusable' "$out/info.txt"; then
  echo "FAILED: the driver does not work (line GPU above) update it, or look at nvidia-smi"
  exit 1
elif ! grep -q '^GPU 0' "$out/info.txt"; then
  echo "skipped: no GPU on this machine (--rehearse walks through the script without one)"
  exit 77
else
  device=cuda side=6144 iterations=3 gpus=$(grep -c '^GPU [0-9]' "$out/info.txt") quick=()
fi

if [[ -f tests/list.tsv ]]; then
  gpu_tests=$(awk -F'\t' '$2 ~ /(^|,)gpu(,|$)/ {print $1}' tests/list.tsv)
  run_tests=(tests/bundled.sh -L gpu)
else
  gpu_tests=$(ctest --test-dir build/release -L gpu -N | sed -n 's/^ *Test *#[0-9]*: //p')
  run_tests=(ctest --test-dir build/release -L gpu --no-tests=error --output-on-failure)
fi
if part tests "tests labeled gpu"; then
  timeout 420 "${run_tests[@]}" 2>&1 | tee "$out/tests.txt" || fail "tests labeled gpu"
fi

# The same job on every device and rank count: results differ by the rounding of the precision only.
job=data/jobs/quickstart.yaml
if [[ ! -f runs/quickstart/photo.png ]]; then
  mkdir -p runs/quickstart
  .venv/bin/python jobs/show_quickstart.py photo runs/quickstart
fi
run() {  # run NAME RANKS JOB [KEY=VALUE...]
  local name=$1 ranks=$2 file=$3 set=() bind=()
  shift 3
  for pair in "$@"; do set+=(--set "$pair"); done
  if ((ranks <= gpus)); then bind=(jobs/bind.sh); fi  # one GPU each; else they share
  timeout 300 jobs/launch.sh -n "$ranks" ${bind[@]+"${bind[@]}"} "$bin/tessera" run "$file" --force \
    --set "output.folder=$out/$name" "${set[@]}" >"$out/$name.log" 2>&1 && return
  tail -15 "$out/$name.log"
  fail "run $name"
  return 1
}
table=$out/runs.md
echo '| run | ranks | seconds per iteration | peak bytes per rank | relative difference | limit |
|---|---|---|---|---|---|' >"$table"
compare() {  # compare NAME RANKS REFERENCE LIMIT
  local line error
  line=$("$bin/tessera" compare "$out/$3/reconstruction.h5" "$out/$1/reconstruction.h5" | head -1)
  error=$(sed -n 's/.*relative error \([0-9.e+-]*\).*/\1/p' <<<"$line")
  of() { tr -d ' \n' <"$out/$2/summary.json" | sed -n "s/.*\"$1\":\[*\([0-9.e+-]*\).*/\1/p"; }
  echo "| $1 | $2 | $(of seconds_per_iteration "$1") | $(of peak_bytes_per_rank "$1") | ${error:-none} | $4 |" | tee -a "$table"
  awk -v e="$error" -v l="$4" 'BEGIN {exit !(e != "" && e + 0 < l)}' || fail "$1 differs by ${error:-an unknown amount}"
}

if part runs "whole runs against the CPU" && run cpu 1 "$job" device=cpu; then
  for ranks in 1 2 4; do
    for transport in mpi nccl; do
      [[ $transport == nccl ]] && ((ranks > gpus)) && continue
      for mode in patch layer; do
        name=$mode-$transport-$ranks
        run "$name" "$ranks" "$job" "device=$device" "domain.transport=$transport" "denoiser.mode=$mode" &&
          compare "$name" "$ranks" cpu 1e-4 || true
      done
    done
  done
  for precision in tf32:2e-2 bfloat16:5e-2 float16:2e-2; do
    [[ $rehearse && $precision == tf32* ]] && { skip "tf32 (a CPU has none)"; continue; }
    run "${precision%:*}" 1 "$job" "device=$device" "denoiser.precision=${precision%:*}" &&
      compare "${precision%:*}" 1 cpu "${precision#*:}" || true
  done
  run deterministic-a 1 "$job" "device=$device" deterministic=true &&
    run deterministic-b 1 "$job" "device=$device" deterministic=true && compare deterministic-b 1 deterministic-a 1e-12 || true
fi

if part training "training against the CPU"; then
  train() {  # train NAME DEVICE STEPS WIDTHS PRECISION
    printf 'schema: 1\ntrain:\n  network: {name: drunet, channels: 1, widths: [%s], blocks: 1}\n  output: %s.safetensors\n' \
      "$4" "$1" >"$out/$1.yaml"
    printf '  dead_leaves: 1\n  steps: %s\n  optimizer: muon\n  device: %s\n  precision: %s\n  workers: 2\n  log_every: %s\n' \
      "$3" "$2" "$5" "$(($3 / 2))" >>"$out/$1.yaml"
    printf '  jacobian: {weight: 1.0e-2, orbits: 6, batch: 3}\n' >>"$out/$1.yaml"
    rm -f "$out/$1".safetensors*
    timeout 300 "$bin/tessera" train "$out/$1.yaml" 2>&1 | tee "$out/$1.log" | tail -1
  }
  steps=$([[ $rehearse ]] && echo 20 || echo 100)
  train train-cpu cpu "$steps" "8, 16" float32 && train "train-$device" "$device" "$steps" "8, 16" float32 || fail "training"
  loss() { sed -n 's/.*loss \([0-9.]*\) .*/\1/p' "$out/train-$1.log" | tail -1; }
  awk -v a="$(loss cpu)" -v b="$(loss "$device")" 'BEGIN {exit !(a > 0 && b > 0 && (a - b)^2 < (0.005 * a)^2)}' ||
    fail "training: the loss is $(loss "$device") instead of $(loss cpu)"
  for precision in float32 bfloat16; do
    [[ $rehearse ]] || train "train-$precision" "$device" 200 "24, 48, 96, 192" "$precision" || fail "training in $precision"
  done
fi

large=("problem.truth={scene: {size: [$side, $side]}}" "device=$device" "denoiser.precision=bfloat16"
  "denoiser.weights=drunet_small_color" "solver={name: pgd, iterations: $iterations, sigma: 0.02}")
if part large "an image of $side x $side" && run large-whole 1 "$job" "${large[@]}" denoiser.mode=whole; then
  run large-patch 1 "$job" "${large[@]}" denoiser.mode=patch "denoiser.patch=$((side / 4))" &&
    compare large-patch 1 large-whole 2e-2 || true
fi

if part tomography "the projector"; then
  rays=$out/tomography.md
  project() { timeout 240 "$bin/bench_rays" "$@" "$device" >>"$rays" 2>"$out/tomography.log" || { cat "$out/tomography.log"; fail "projector: $*"; }; }
  [[ $rehearse ]] && scans=(24:9) few=(24 9) || scans=(512:720 1024:720) few=(96 90)
  echo '| beam | volume | projection | G voxel views/s | adjoint | G voxel views/s | dot test |
|---|---|---|---|---|---|---|' >"$rays"
  for scan in "${scans[@]}"; do
    for beam in parallel cone; do project "$beam" "${scan%:*}" "${scan#*:}" 2; done
  done
  printf '\n| beam | volume | projection: relative difference from the CPU | adjoint |\n|---|---|---|---|\n' >>"$rays"
  project check "${few[@]}"
  cat "$rays"
  printf 'problem:\n  truth: {scene: {size: [%s, %s]}}\n  operator: {type: tomography, views: {count: 60}}\n  noise: {gaussian: 0.5}\n' \
    $([[ $rehearse ]] && echo 48 56 || echo 480 560) >"$out/tomography.yaml"
  for solver in "{name: sirt, iterations: 20}" "{name: fbp}"; do
    name=$(sed 's/[^a-z]*name: *\([a-z]*\).*/\1/' <<<"$solver")
    run "$name-cpu" 1 "$out/tomography.yaml" device=cpu "solver=$solver" || continue
    for ranks in 1 2; do
      run "$name-$ranks" "$ranks" "$out/tomography.yaml" "device=$device" domain.share_gpu=true "solver=$solver" &&
        compare "$name-$ranks" "$ranks" "$name-cpu" 1e-4 || true
    done
  done
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if ! part sanitizer "compute-sanitizer"; then
  :
elif [[ -z $sanitizer ]]; then
  skip "compute-sanitizer (it comes with the CUDA toolkit)"
elif [[ $rehearse ]] || ! timeout 60 "$sanitizer" "$bin/tessera" info >"$out/sanitizer-probe.log" 2>&1; then
  skip "compute-sanitizer (a device that is virtualized, or none, may refuse it: $out/sanitizer-probe.log)"
else
  # cuDNN's own kernels are not what is tested: racecheck would take hours over them.
  for pair in memcheck:exchange_gpu initcheck:exchange_gpu memcheck:projection_gpu initcheck:runner_gpu; do
    tool=${pair%:*} name=${pair#*:} log=$out/$tool-$name.log
    grep -qx "$name" <<<"$gpu_tests" || { skip "$tool of $name (not built)"; continue; }
    timeout 240 "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 "$bin/test_$name" >"$log" 2>&1 ||
      { tail -15 "$log"; fail "$tool of $name"; }
    echo "$tool $name: $(tail -1 "$log")"
  done
fi

if part studies "what is measured"; then
  for study in kernels layers shape batch; do
    timeout 150 "$bin/tessera" study "$study" --out "$out/study" --device "$device" ${quick[@]+"${quick[@]}"} \
      >"$out/study-$study.log" 2>&1 || fail "study $study"
    tail -5 "$out/study-$study.log"
  done
  if ((gpus > 1)); then
    timeout 150 jobs/launch.sh -n "$gpus" jobs/bind.sh "$bin/tessera" study halo --out "$out/study" >"$out/study-halo.log" 2>&1 ||
      fail "study halo"
  fi
  if [[ -x .venv/bin/python ]] && .venv/bin/python -c 'import matplotlib' 2>/dev/null; then
    .venv/bin/python jobs/plot_study.py "$out/study" >"$out/plot.log" 2>&1 || fail "drawing the studies ($out/plot.log)"
  else
    skip "figures (no matplotlib here: copy $out/study and run jobs/plot_study.py on it)"
  fi
fi

page=$out/gpu.md
{
  echo "# Measured on $(sed -n 's/^GPU 0 *//p' "$out/info.txt")"
  [[ $rehearse ]] && echo "A rehearsal on a CPU: no figure here is of a GPU."
  printf '\n`tests/gpu.sh`, %s, %d s.\n\n```\n' "$(date -u +%F)" $((SECONDS - began))
  cat "$out/info.txt"
  printf '```\n\n## Whole runs\n\n'
  cat "$table"
  [[ -s $out/tomography.md ]] && printf '\n## Projector\n\n' && cat "$out/tomography.md"
  for study in kernels layers shape batch halo; do
    [[ -s $out/study/$study.csv ]] || continue
    printf '\n## tessera study %s\n\n' "$study"
    awk -F, 'NR == 1 {n = NF} {printf "|"; for (i = 1; i <= n; i++) printf " %s |", $i; print ""}
      NR == 1 {printf "|"; for (i = 1; i <= n; i++) printf "---|"; print ""}' "$out/study/$study.csv"
  done
} >"$page"
echo "tables: $page; figures: $out/study/*.png (for docs/img); logs: $out"

step "result"
((${#skipped[@]} == 0)) || printf 'skipped: %s\n' "${skipped[@]}"
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
[[ $rehearse ]] && echo "the rehearsal is over: the script works, no GPU was seen" || echo "all passed on $gpus GPU(s)"
