#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks C++ and CUDA sources against .clang-format with clang-format 14: tests/format.sh [--fix]
# Exit code 77 (skipped) where there is no clang-format 14; jobs/setup.sh puts one into .venv.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,4s/^# //p' "$0" && exit 0 ;;
  '' | --fix) ;;
  *) echo "$1 is no option of tests/format.sh (it knows --fix) see --help" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
formatter=
for candidate in clang-format-14 .venv/bin/clang-format clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "skipped: no clang-format 14 (another version formats differently) run jobs/setup.sh"
  exit 77
fi
shopt -s globstar nullglob
files=()
for file in {include,src,solvers,tests}/**; do
  [[ $file == *.hpp || $file == *.cpp || $file == *.cu || $file == *.cuh ]] && files+=("$file")
done
((${#files[@]} > 30)) || { echo "only ${#files[@]} files found (the tree has more) run it in a complete tree" >&2; exit 1; }
if [[ ${1:-} == --fix ]]; then
  "$formatter" -i "${files[@]}"
else
  "$formatter" --dry-run --Werror "${files[@]}" || { echo "format differs; tests/format.sh --fix changes it" >&2; exit 1; }
fi
echo "${#files[@]} files"
