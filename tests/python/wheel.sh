#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The wheel as somebody gets it: built, installed into a fresh environment that has torch, and both test programs of the
# package run against it, without the clone's package and program: tests/python/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs/wheel.sh "$work/wheel"
.venv/bin/python -m venv "$work/venv"
from=$(readlink -f .venv/lib/python3*/site-packages)
to=$(readlink -f "$work"/venv/lib/python3*/site-packages)
for package in "$from"/*; do  # linked, not copied: torch and NVIDIA's libraries are some 5 GB
  [[ -e $to/${package##*/} ]] || cp -al "$package" "$to/" 2>/dev/null || cp -a "$package" "$to/"
done
begin=$SECONDS
"$work/venv/bin/python" -m pip install -q --no-deps --no-index --disable-pip-version-check "$work"/wheel/*.whl
printf 'installed in %d s\n' $((SECONDS - begin))
cd "$work"
export PATH=$work/venv/bin:$PATH TESSERA_INSTALLED=1
unset TESSERA PYTHONPATH
tessera --version
python - <<'PYTHON'
import pathlib, sys, tessera
assert str(tessera.find_program()).startswith(sys.prefix), tessera.find_program()
assert str(pathlib.Path(tessera.core.core().__file__)).startswith(sys.prefix)
PYTHON
program=$(python -c 'import tessera; print(tessera.find_program())')
python -B "$source/tests/python/parts_test.py" "$source" "$program"
python -B "$source/tests/python/package_test.py" "$source" "$program"
