#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TESSERA_CUDA off: what stands beside CUDA in other builds compiles without it (the module comm whole, and what takes
# the place of torch's CUDA libraries): tests/tooling/without_cuda.sh SOURCE_DIR CMAKE VENV PREFIX_PATH
set -euo pipefail
source=$1 cmake=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
"$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_CUDA=OFF -DTESSERA_TESTS=OFF \
  -DTESSERA_VENV="$3" -DCMAKE_PREFIX_PATH="$4" >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }
objects=src/CMakeFiles
"$cmake" --build "$build" -j 2 --target src/libtessera_comm.a \
  $objects/tessera_physics.dir/physics/without_cuda.cpp.o $objects/tessera_domain.dir/domain/without_cuda.cpp.o \
  $objects/tessera_denoise.dir/denoise/without_cuda.cpp.o
if grep -q "^CMAKE_CUDA_COMPILER:" "$build/CMakeCache.txt"; then
  echo "a build without CUDA looked for a CUDA compiler"
  exit 1
fi
