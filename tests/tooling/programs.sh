#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# tessera says the version of its headers, is linked without torch's CUDA libraries, and becomes tessera-cuda where the
# host has NVIDIA's driver; its threads sleep where they wait unless the environment says otherwise:
# tests/tooling/programs.sh TESSERA COMPILER
set -euo pipefail
program=$1 compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
loaded() { LD_DEBUG=files LD_DEBUG_OUTPUT="$work/loaded" "$@" --version >/dev/null && cat "$work"/loaded.*; rm -f "$work"/loaded.*; }

header=$(dirname "$0")/../../include/tessera/core/version.hpp
version=$(sed -nE 's/^#define TESSERA_VERSION_[A-Z]+ ([0-9]+)$/\1/p' "$header" | paste -sd.)
[[ $version == *.*.* && $("$program" --version) == "$version ("* ]] || fail "$("$program" --version) is not $version, as $header says"

! loaded "$program" | grep -q libtorch_cuda || fail "$program loads torch's CUDA libraries (every process pays for them)"
loaded "$program-cuda" | grep -q libtorch_cuda || fail "$program-cuda does not load torch's CUDA libraries"

spins() { OMP_DISPLAY_ENV=verbose "$@" run "$work/none.yaml" 2>&1 | sed -n "s/.*GOMP_SPINCOUNT = '\\(.*\\)'/\\1/p" | tail -1; }
[[ $(spins env -u OMP_WAIT_POLICY "$program") == 0 ]] || fail "$program: threads that wait spin"
[[ $(spins env OMP_WAIT_POLICY=active "$program") != 0 ]] || fail "$program: OMP_WAIT_POLICY=active is not kept"

mkdir "$work/driver" # what tessera looks for, without a function in it
"$compiler" -shared -o "$work/driver/libcuda.so.1" -x c++ - </dev/null
export LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
loaded "$program" | grep -q libtorch_cuda || fail "$program does not start its neighbor where there is a driver"
[[ $("$program" --version) == "$("$program-cuda" --version)" ]]

cp "$program" "$work/tessera"
if "$work/tessera" --version 2>"$work/said"; then fail "a lone tessera ran on a host with a driver"; else code=$?; fi
[[ $code == 2 ]] && grep -q "side by side" "$work/said" || fail "exit code $code: $(cat "$work/said")"
