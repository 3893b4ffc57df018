#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# setup.sh: quick where nothing is missing; says what is missing, and the ways to get it, where it may not install.
# tests/tooling/setup.sh SOURCE_DIR
set -euo pipefail
source=$1
failed=0
complain() { echo "$1"; failed=1; }

begin=$(date +%s%N)
if "$source/jobs/setup.sh" --check; then
  took=$((($(date +%s%N) - begin) / 1000000))
  echo "nothing missing: $took ms"
  ((took < 10000)) || complain "looking for what is missing took $took ms (it must stay quick)"
else
  echo "this build does not use what setup.sh makes; only the messages are tested"
fi
[[ $("$source/jobs/setup.sh" --wrong 2>&1 || echo "code $?") == *"code 2" ]] || complain "an unknown option must end with 2"

# A machine with a shell and little else, in a tree of its own.
bare=$PWD/bare_machine
rm -rf "$bare"
mkdir -p "$bare/bin" "$bare/jobs"
cp "$source/jobs/setup.sh" "$bare/jobs/"
for tool in bash env dirname readlink sed sort id cat grep; do ln -s "$(command -v $tool)" "$bare/bin/"; done
code=0
said=$(env -i PATH="$bare/bin" "$bare/jobs/setup.sh" --check 2>&1) || code=$?
[[ $code == 1 ]] || complain "a bare machine must end with 1, got $code: $said"
for word in 'g++' 'CMake 3.25' 'HDF5 built with MPI' 'libhdf5-openmpi-dev' 'conda create' 'module avail' 'spack install'; do
  [[ $said == *"$word"* ]] || complain "the message does not say '$word': $said"
done
[[ ! -e $bare/.venv ]] || complain "--check made a .venv"
exit "$failed"
