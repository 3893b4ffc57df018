#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What layer mode costs: one denoising pass on 1 rank x 2 threads, 2 ranks x 1 thread and 4 ranks x 1 thread, in
# turn; medians of the rounds, and a check that the results agree. Wall time says something on an idle machine
# only; the CPU time of all ranks together says what is computed, packed and sent beside the network.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat <<END
usage: tests/bench/layer_mode.sh [options]
  --weights NAME   drunet_small_color (default), or random for the published widths
  --size N         side of the color image, pixels (1024)
  --rounds N       of the programs in turn (3)
  --passes N       timed per program and round, the quickest counts (2)
  --depth N        convolutions that share an exchange (1)
  --columns        cut 2 ranks side by side, not one above the other
  --build FOLDER   where tessera was built (build/release)
END
}

weights=drunet_small_color size=1024 rounds=3 passes=2 depth=1 two='2 1' build=build/release
while (($#)); do
  case $1 in
    --weights) weights=$2 ;;
    --size) size=$2 ;;
    --rounds) rounds=$2 ;;
    --passes) passes=$2 ;;
    --depth) depth=$2 ;;
    --columns) two='1 2'; shift; continue ;;
    --build) build=$2 ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift 2
done
log=$build/bench_layer_mode.log
cmake --build "$build" --target bench_layer_mode >"$log" 2>&1 || { cat "$log" >&2; exit 1; }

lines=$build/bench_layer_mode.jsonl
: >"$lines"
run() {  # ranks, threads, grid
  OMP_NUM_THREADS=$2 jobs/launch.sh -n "$1" "$build/bin/bench_layer_mode" "$weights" "$size" "$depth" "$passes" \
    "${@:3}" >>"$lines" 2>"$log" || { cat "$log" >&2; exit 1; }
}
for ((round = 1; round <= rounds; ++round)); do
  run 1 2 1 1
  run 2 1 $two
  run 4 1 2 2
done

echo "one pass of drunet ($weights), $size x $size color, float32, layer mode, halo depth $depth, $rounds rounds"
.venv/bin/python - "$lines" <<'END'
import json
import statistics
import sys

rounds = {}
for line in open(sys.argv[1]):
    row = json.loads(line)
    rounds.setdefault(row["ranks"], []).append(row)
one = rounds[1]
print("ranks  wall, s   CPU, s   exposed waits   packing, unpacking, MPI calls   CPU time over 1 rank")
for ranks, rows in rounds.items():
    middle = {key: statistics.median(r[key] for r in rows) for key in ("wall", "cpu", "wait", "halo")}
    more = statistics.median(r["cpu"] / o["cpu"] - 1 for r, o in zip(rows, one))
    print(f"{ranks:5} {middle['wall']:8.3f} {middle['cpu']:8.3f} {100 * middle['wait']:13.2f} % {100 * middle['halo']:29.2f} %"
          f" {100 * more:20.1f} %")
    for row, o in zip(rows, one):
        assert abs(row["norm"] / o["norm"] - 1) < 1e-5, "the ranks' results differ"
pairs = [o["wall"] / r["wall"] for r, o in zip(rounds[2], one)]
print(f"2 ranks x 1 thread over 1 rank x 2 threads: {100 * statistics.median(pairs):.1f} % "
      f"(rounds {', '.join(f'{100 * p:.1f}' for p in pairs)}; target 97); exposed waits "
      f"{100 * statistics.median(r['wait'] for r in rounds[2]):.2f} % (target 5)")
END
