#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing and makes .venv. Idempotent.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ cmake ninja-build ccache pkg-config python3-venv libopenmpi-dev openmpi-bin libhdf5-openmpi-dev
  libvips-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev libbenchmark-dev)
missing=()
for p in "${packages[@]}"; do dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p"); done
if ((${#missing[@]})); then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
[[ -d .venv ]] || python3 -m venv .venv
.venv/bin/python -c 'import torch' 2>/dev/null || .venv/bin/pip install -q torch==2.11.0 numpy h5py pandas scikit-image safetensors
