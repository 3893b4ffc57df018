# SPDX-License-Identifier: BSD-3-Clause
# Sourced by every finding: works in a temporary folder that is removed at the end, and puts packages into it.
# Exit code of a finding: 0 still so, 1 it changed, 2 it could not be tried (no network, no package).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
base_python=$(python3 -c 'import sys; print(sys.executable)')
export PATH="$folder/venv/bin:$PATH" DEBIAN_FRONTEND=noninteractive

cannot_try() { echo "not tried: $1 ($2)" >&2; exit 2; }

# python_packages NAME==VERSION...: `python` has them from now on.
python_packages() {
  [[ -d venv ]] || "$base_python" -m venv --without-pip venv >venv.log 2>&1 \
    || cannot_try "no virtual environment" "$(tail -n 1 venv.log)"
  local pip=("$base_python" -m pip --python venv/bin/python)
  if ! "${pip[@]}" --version >pip.log 2>&1; then  # Debian's python3 alone has no pip
    debian_packages python3-pip
    pip=(env PYTHONPATH="$folder/debian/usr/lib/python3/dist-packages" "${pip[@]}")
  fi
  TMPDIR=$folder "${pip[@]}" install --quiet --no-compile --disable-pip-version-check --root-user-action=ignore "$@" \
    >pip.log 2>&1 \
    || cannot_try "pip install $*" "$(tail -n 1 pip.log)"
}

# debian_packages NAME[=VERSION]...: unpacks them and what they need and the system lacks below debian/; installs nothing.
debian_packages() {
  mkdir -p debs/partial debian
  local get=(apt-get install -y -qq --no-install-recommends --download-only
             -o Dir::Cache::archives="$folder/debs" -o APT::Sandbox::User=root "$@")
  "${get[@]}" >apt.log 2>&1 || { apt-get update -qq >apt.log 2>&1 && "${get[@]}" >apt.log 2>&1; } \
    || cannot_try "apt-get install --download-only $*" "$(tail -n 1 apt.log)"
  local package
  for package in debs/*.deb; do
    [[ ! -e $package ]] || dpkg -x "$package" debian
  done
  export PATH="$folder/debian/usr/bin:$PATH"
  export LD_LIBRARY_PATH="$folder/debian/usr/lib/$(uname -m)-linux-gnu:$folder/debian/lib/$(uname -m)-linux-gnu"
}

# open_mpi: mpirun.openmpi of Debian, also as root.
open_mpi() {
  debian_packages openmpi-bin libopenmpi3
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  local usr=$folder/debian/usr
  local libraries=$usr/lib/$(uname -m)-linux-gnu
  if [[ -d $libraries/openmpi ]]; then  # unpacked, not installed: its parts have to be told where they are
    export OPAL_PREFIX=$usr OPAL_BINDIR=$usr/bin OPAL_DATADIR=$usr/share OPAL_PKGDATADIR=$usr/share/openmpi
    export OPAL_LIBDIR=$libraries/openmpi/lib OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
    export OPAL_SYSCONFDIR=$folder/debian/etc/openmpi PMIX_MCA_pcompress_base_silence_warning=1
  fi
}
