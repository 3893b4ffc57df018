#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures a study and draws it: jobs/study.sh NAME [FOLDER] [options of tessera study...]
#   NAME: shape | batch | layers | precision | loader | halo, or all. FOLDER: runs/study-NAME.
#   RANKS=4 jobs/study.sh halo: ranks of the halo study (2). precision and loader take three of scikit-image's photographs
#   unless --image is given. TESSERA names another program than build/release/bin/tessera.
set -euo pipefail
unset PYTHONPATH PYTHONHOME  # a module's, for another Python
here=$(cd "$(dirname "$0")/.." && pwd)
case ${1:-} in
  -h | --help) sed -n '3,6s/^# //p' "$0"; exit 0 ;;
  shape | batch | layers | precision | loader | halo | all) name=$1 ;;
  *) echo "usage: study.sh shape|batch|layers|precision|loader|halo|all [FOLDER] [options]   (--help says more)" >&2; exit 2 ;;
esac
shift
folder=runs/study-$name
if [[ ${1:-} && $1 != -* ]]; then
  folder=$1
  shift
fi
tessera=${TESSERA:-$here/build/release/bin/tessera}
python=$here/.venv/bin/python
[[ $name == all ]] && names=(shape batch layers precision loader halo) || names=("$name")
for study in "${names[@]}"; do
  launch=() images=()
  if [[ $study == halo ]]; then launch=("$here/jobs/launch.sh" -n "${RANKS:-2}"); fi
  if [[ $study == @(precision|loader) && " $* " != *" --image"* ]]; then
    photographs=$("$python" -c 'import skimage, os; print(os.path.join(os.path.dirname(skimage.__file__), "data"))')
    for photograph in astronaut coffee chelsea; do images+=(--image "$photographs/$photograph.png"); done
  fi
  "${launch[@]}" "$tessera" study "$study" --out "$folder" "$@" "${images[@]}"
done
"$python" "$here/jobs/plot_study.py" "$folder"
