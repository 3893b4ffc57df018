#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing to build tessera, and makes .venv with torch: jobs/setup.sh [--check] [--tests]
# As root on Debian or Ubuntu it uses apt-get. Elsewhere it says what is missing and how to get it without root.
# May be run again at any time; with nothing missing it takes about a second. --check changes nothing.
# --tests: also what only the tests need and can do without: a Slurm for the private cluster of
#   tests/slurm, a browser for the pages of jobs/report.py, .venv-scico (0.8 GB) with SCICO, to compare with, and
#   .venv-formats (0.6 GB) with the readers that formats are compared with.
set -euo pipefail
unset PYTHONPATH PYTHONHOME  # a module's, for another Python
cd "$(dirname "$0")/.."

usage="usage: jobs/setup.sh [--check] [--tests]"
check_only='' tests=''
for argument; do
  case $argument in
    --check) check_only=1 ;;
    --tests) tests=1 ;;
    -h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
done

torch=torch==2.11.0
# numpy, h5py, pandas: readers of traces and results. plotly, PyYAML: reports. scikit-image: photographs. matplotlib: pictures of studies. safetensors: weights.
# nanobind: the package's module. mpi4py: ranks that Python starts. dask: arrays in blocks. ipykernel, nbclient, nbformat: notebooks, and their test.
python_packages=(numpy==2.4.6 h5py==3.16.0 pandas==3.1.1 scikit-image==0.26.0 safetensors==0.8.0 clang-format==14.0.6
                 plotly==7.1.0 pyyaml==6.0.3 matplotlib==3.11.2 nanobind==3.1.0 mpi4py==4.1.2 dask==2026.8.0
                 ipykernel==7.4.0 nbclient==0.11.0 nbformat==5.11.1)
scico_packages=(scico==0.0.7 jax==0.8.1 jaxlib==0.8.1 flax==0.12.0 safetensors==0.8.0)
format_packages=(zarr==3.1.6 ome-zarr==0.18.0 nibabel==5.4.2 mrcfile==1.5.4 astropy==8.0.2 tifffile==2026.3.3
  h5py==3.16.0 hdf5storage==0.2.2 netCDF4==1.7.5.1.post1 npy2bdv==1.1.0 pydicom==3.0.2)
cuda_parts=nvcc,cccl,crt,nvvm,cudart,cublas,cusparse,cusolver,curand,cufft,nvrtc,nvtx,nvml,cupti,profiler
cuda_wheels="cuda-toolkit[$cuda_parts]==13.0.2"

# --- what the machine has ---------------------------------------------------------------------------------------------
have() { command -v "$1" >/dev/null 2>&1; }
at_least() { printf '%s\n%s\n' "$2" "$1" | sort -V -C; }  # at_least HAVE WANTED
# A library counts as present when pkg-config knows it, or its header lies below a prefix that CMake will search.
have_library() {
  have pkg-config && pkg-config --exists "$1" 2>/dev/null && return
  local prefix prefixes=${CMAKE_PREFIX_PATH:-}
  for prefix in ${prefixes//:/ } ${CONDA_PREFIX:-} /usr /usr/local; do
    [[ -e $prefix/include/$2 ]] && return
  done
  return 1
}
pick_python() {
  local p
  for p in python3 python3.13 python3.12 python3.11; do
    if "$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      command -v "$p"
      return
    fi
  done
  return 1
}
found() {
  case $1 in
    compiler) have g++ && at_least "$(g++ -dumpversion)" 11 ;;
    cmake) have cmake && at_least "$(cmake --version | sed -n '1s/.* //p')" 3.25 ;;
    ninja) have ninja ;;
    ccache) have ccache ;;
    pkg-config) have pkg-config ;;
    python) pick_python >/dev/null ;;
    headers) "$(pick_python || echo false)" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null ;;
    mpi) have mpicc && have mpirun ;;
    hdf5) have h5pcc || have h5pcc.openmpi || { have h5cc && grep -q 'Parallel HDF5: *yes' <<<"$(h5cc -showconfig)"; } ;;
    vips | cfitsio | zlib | blosc) have pkg-config && pkg-config --exists "$1" 2>/dev/null ;;
    zstd) have pkg-config && pkg-config --exists libzstd 2>/dev/null ;;
    tiff) have pkg-config && pkg-config --exists 'libtiff-4 >= 4.5' 2>/dev/null ;;
    yaml-cpp) have_library yaml-cpp yaml-cpp/yaml.h ;;
    cli11) have_library CLI11 CLI/CLI.hpp ;;
    json) have_library nlohmann_json nlohmann/json.hpp ;;
    fmt) have_library fmt fmt/core.h ;;
    gtest) have_library gtest gtest/gtest.h ;;
    benchmark) have_library benchmark benchmark/benchmark.h ;;
  esac
}

# part : what it is : Debian packages : conda-forge : spack
parts="
compiler:g++ 11 or newer:g++:gxx:gcc
cmake:CMake 3.25 or newer:cmake:cmake:cmake
ninja:Ninja:ninja-build:ninja:ninja
ccache:ccache (optional):ccache:ccache:ccache
pkg-config:pkg-config:pkg-config:pkg-config:pkgconf
python:Python 3.11 to 3.14 with venv:python3 python3-venv:python=3.12:python
headers:headers of Python (optional):python3-dev:python=3.12:python
mpi:MPI with its compiler wrapper:libopenmpi-dev openmpi-bin:openmpi:openmpi
hdf5:HDF5 built with MPI:libhdf5-openmpi-dev:hdf5=*=mpi_openmpi*:hdf5+mpi
vips:libvips:libvips-dev:libvips:libvips
tiff:libtiff 4.5 or newer:libtiff-dev:libtiff:libtiff
cfitsio:CFITSIO:libcfitsio-dev:cfitsio:cfitsio
zlib:zlib:zlib1g-dev:zlib:zlib-api
blosc:c-blosc (optional, chunks of Zarr):libblosc-dev:blosc:c-blosc
zstd:zstd (optional, chunks of Zarr):libzstd-dev:zstd:zstd
yaml-cpp:yaml-cpp:libyaml-cpp-dev:yaml-cpp:yaml-cpp
cli11:CLI11:libcli11-dev:cli11:cli11
json:nlohmann-json:nlohmann-json3-dev:nlohmann_json:nlohmann-json
fmt:fmt:libfmt-dev:fmt:fmt
gtest:GoogleTest:libgtest-dev:gtest:googletest
benchmark:Google Benchmark:libbenchmark-dev:benchmark:benchmark
"
list_missing() {  # fills the arrays names, debian, conda, spack; required counts those that are not optional
  names=() debian=() conda=() spack=() required=0
  local part name deb con spa
  while IFS=: read -r part name deb con spa; do
    [[ -z $part ]] && continue
    found "$part" && continue
    names+=("$name") debian+=($deb) conda+=("'$con'") spack+=("$spa")
    [[ $name == *"(optional"* ]] || required=$((required + 1))
  done <<<"$parts"
}
explain_missing() {
  cat >&2 <<TEXT
missing: $(printf '%s; ' "${names[@]}")
Any one of these brings it:
  Debian, Ubuntu (an administrator): apt-get install --no-install-recommends ${debian[*]}
  modules of the cluster: module avail gcc cmake openmpi hdf5 (the hdf5 one built with the same MPI), then module load
  conda, no root needed: conda create -n tessera -c conda-forge ${conda[*]}
                         conda activate tessera; export CMAKE_PREFIX_PATH=\$CONDA_PREFIX
  spack, no root needed: spack install ${spack[*]}; spack load ${spack[*]}
Then run jobs/setup.sh again, in the same shell. docs/install.md says more.
TEXT
}

list_missing
if ((${#names[@]})); then
  if [[ -z $check_only && $(id -u) == 0 ]] && have apt-get; then
    echo "installing: ${debian[*]}"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${debian[@]}" ca-certificates
    hash -r
    list_missing
  fi
  if ((required)); then
    explain_missing
    exit 1
  fi
fi

# --- what some tests need and the others can do without -----------------------------------------------------------------
for_tests() {  # for_tests NAME PACKAGES...: the lists of packages may be old, or not there
  local name=$1
  shift
  echo "installing for the tests: $*"
  install_now() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }
  if ! install_now "$@" && ! { apt-get update -q && install_now "$@"; }; then
    echo "$name could not be installed (message above) the tests that need it are skipped" >&2
  fi
}
if [[ -n $tests && -z $check_only && $(id -u) == 0 ]] && have apt-get; then
  # Daemons and clients; nothing of it is started. A machine that belongs to a cluster has its own already.
  PATH=$PATH:/usr/sbin have slurmctld || have sbatch || for_tests Slurm munge slurmctld slurmd slurm-client
  # Opens the pages of jobs/report.py. On Ubuntu the package is a shell around a snap, which needs more than apt-get.
  have chromium || have google-chrome || grep -qi '^ID=ubuntu' /etc/os-release || for_tests Chromium chromium fonts-dejavu-core
fi

# --- .venv, which may be a link to a folder elsewhere ------------------------------------------------------------------
venv=$(readlink -m .venv)
site() { echo "${1:-$venv}"/lib/python3*/site-packages; }
installed() {  # installed NAME==VERSION [VENV]: pip writes this folder last
  local name=${1%%==*}
  name=${name%%[*}
  compgen -G "$(site "${2:-}")/${name//-/_}-${1##*==}*.dist-info/RECORD" >/dev/null
}
if ! "$venv/bin/python" -c '' 2>/dev/null || [[ ! -x $venv/bin/pip ]]; then
  if [[ -n $check_only ]]; then
    echo "missing: a working .venv; run jobs/setup.sh" >&2
    exit 1
  fi
  [[ -e $venv ]] && echo "making .venv anew (its Python does not start)"
  "$(pick_python)" -m venv --clear "$venv"
fi
wanted=()
for package in "$torch" "${python_packages[@]}"; do
  installed "$package" || wanted+=("$package")
done

# --- CUDA: a toolkit of the machine if it is version 13, as the torch wheel is; else nvcc and headers from wheels ------
has_cuda_13() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -n $nvcc && -x $nvcc ]] || continue
    [[ $("$nvcc" --version 2>/dev/null) == *"release 13."* ]] && return
  done
  return 1
}
cuda=
if ! has_cuda_13; then
  cuda=$(site)/nvidia/cu13
  [[ -x $cuda/bin/nvcc ]] || wanted+=("$cuda_wheels")
fi
if ((${#wanted[@]})); then
  if [[ -n $check_only ]]; then
    echo "missing in .venv: ${wanted[*]}; run jobs/setup.sh" >&2
    exit 1
  fi
  echo "installing into .venv: ${wanted[*]}"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check "${wanted[@]}"
  "$venv/bin/python" -c 'import torch' || {
    echo "torch was installed but does not load (message above) remove .venv and run jobs/setup.sh again" >&2
    exit 1
  }
fi
if [[ -n $cuda && -z $check_only ]]; then
  # CMake looks for lib64 and for unversioned library names; the wheels have lib and libX.so.N.
  cuda=$(site)/nvidia/cu13
  [[ -e $cuda/lib64 ]] || ln -s lib "$cuda/lib64"
  for library in "$cuda"/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    [[ -e $plain ]] || ln -s "${library##*/}" "$plain"
  done
fi

# --- .venv-scico, .venv-formats: their numpy and jax are no part of what tessera uses ---------------------------------
for_comparison() {  # for_comparison NAME VENV PACKAGES...
  local name=$1 venv_of=$(readlink -m "$2") package
  local -a all=("${@:3}") wanted=()
  for package in "${all[@]}"; do
    installed "$package" "$venv_of" || wanted+=("$package")
  done
  ((${#wanted[@]})) || return 0
  echo "installing into $2 for the tests: ${wanted[*]}"
  if ! { "$venv_of/bin/python" -c '' 2>/dev/null || "$(pick_python)" -m venv --clear "$venv_of"; } ||
    ! "$venv_of/bin/python" -m pip install -q --retries 1 --disable-pip-version-check "${all[@]}"; then
    rm -rf "$venv_of/bin"  # so that the test is skipped, and the next set-up begins anew
    echo "$name could not be installed (message above) the test that runs it is skipped" >&2
  fi
}
if [[ -n $tests && -z $check_only ]]; then
  for_comparison SCICO .venv-scico "${scico_packages[@]}"
  for_comparison "zarr, nibabel, mrcfile and others" .venv-formats "${format_packages[@]}"
fi
