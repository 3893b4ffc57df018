#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs tessera into a folder of its own, builds the example against that, runs both:
# tests/install/run.sh SOURCE_DIR BINARY_DIR WORK_DIR CMAKE
set -euo pipefail
source=$1 binary=$2 work=$3 cmake=$4
prefix=$work/prefix
rm -rf "$prefix" "$work/example"
"$cmake" --install "$binary" --prefix "$prefix" >"$work/install.log"

for file in bin/tessera bin/tessera-launch include/tessera/core/box.hpp; do
  [[ -e $prefix/$file ]] || { echo "$file was not installed" >&2; exit 1; }
done
# Every header finds the headers that it includes.
for header in $(grep -rhoE '^#include "tessera/[^"]+"' "$prefix/include" | sort -u | cut -d'"' -f2); do
  [[ -e $prefix/include/$header ]] || { echo "$header was not installed (another header includes it)" >&2; exit 1; }
done
for inside in perf train app/run_status.hpp denoise/runner.hpp; do
  [[ ! -e $prefix/include/tessera/$inside ]] || { echo "tessera/$inside was installed (no program may rely on it)" >&2; exit 1; }
done
for weights in "$source"/data/weights/*.safetensors; do
  [[ -e $weights ]] || continue
  cmp "$weights" "$prefix/share/tessera/weights/${weights##*/}"
done
if grep -rlF "$binary" "$prefix/lib" --include=*.cmake; then
  echo "the package names the build tree (it must work without it)" >&2
  exit 1
fi

cp -r "$source/tests/install/example" "$work/example"
if ! "$cmake" -S "$work/example" -B "$work/example/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" 2>&1; then
  cat "$work/configure.log" >&2
  exit 1
fi
"$cmake" --build "$work/example/build"
for ranks in 1 2 4; do
  "$prefix/bin/tessera-launch" -n "$ranks" "$work/example/build/example"
done
env -u LD_LIBRARY_PATH "$prefix/bin/tessera" info
